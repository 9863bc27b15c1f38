//! A recording's contents, as JSON: `wakepath.info/1`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use wakepath_engine::InfoAnswer;
use wakepath_loaded::Survey;

use super::head::{HeadJson, since_origin};
use super::{text, write};

/// Writes a recording's contents.
pub fn info(info: &InfoAnswer, out: &mut dyn Write) -> io::Result<()> {
    let recorded = info.recorded;
    let session = &recorded.survey.session;
    let format = recorded.format.as_ref();
    write(
        out,
        &InfoJson {
            head: HeadJson::new("wakepath.info/1", &info.head),
            from_ns: since_origin(&info.head, recorded.from()),
            to_ns: since_origin(&info.head, recorded.to()),
            cut_off: recorded.cut_off(),
            events: recorded.survey.counts.by_name(),
            stacks: recorded.survey.stacks.map(|counts| StacksJson {
                taken: counts.taken,
                repeated: counts.repeated,
                checked: counts.checked,
                disagreed: counts.disagreed,
                doubtful: counts.doubtful,
            }),
            frames: FramesJson::new(&recorded.survey),
            threads: recorded.graph.threads().len(),
            processes: info.processes,
            cpus: recorded.graph.cpus().count(),
            command: session.command.as_ref().map(|command| CommandJson {
                pid: command.tgid.number(),
                words: command.words.iter().map(|word| text(word.bytes())).collect(),
                status: command.status,
            }),
            targets: session.targets.iter().map(|tgid| tgid.number()).collect(),
            cgroup: recorded.cgroup.as_ref().map(|cgroup| text(cgroup.bytes())),
            unread_contexts: info
                .unread_contexts
                .iter()
                .map(|(tgid, comm)| UnreadJson {
                    pid: tgid.number(),
                    comm: comm.as_ref().map(|comm| text(comm.bytes())),
                })
                .collect(),
            command_lines: info
                .command_lines
                .iter()
                .map(|line| CommandLineJson {
                    pid: line.process.number(),
                    at_ns: since_origin(&info.head, line.at),
                    words: line.words.iter().map(|word| text(word)).collect(),
                })
                .collect(),
            recording: format.map(|format| RecordingJson {
                format: format.number,
                wakepath: text(format.writer.as_bytes()),
                options: text(format.options.as_bytes()),
                bytes: format.bytes,
                streams: format.streams,
                discarded: format.discarded,
                span_bytes: format.span_bytes,
            }),
        },
    )
}

#[derive(Serialize)]
struct InfoJson {
    #[serde(flatten)]
    head: HeadJson,
    from_ns: i64,
    to_ns: i64,
    cut_off: bool,
    events: BTreeMap<&'static str, u64>,
    stacks: Option<StacksJson>,
    frames: FramesJson,
    threads: usize,
    processes: usize,
    cpus: usize,
    command: Option<CommandJson>,
    targets: Vec<u32>,
    cgroup: Option<String>,
    unread_contexts: Vec<UnreadJson>,
    command_lines: Vec<CommandLineJson>,
    recording: Option<RecordingJson>,
}

#[derive(Serialize)]
struct CommandLineJson {
    pid: u32,
    at_ns: i64,
    words: Vec<String>,
}

#[derive(Serialize)]
struct UnreadJson {
    pid: u32,
    comm: Option<String>,
}

#[derive(Serialize)]
struct StacksJson {
    taken: u64,
    repeated: u64,
    checked: u64,
    disagreed: u64,
    doubtful: u64,
}

#[derive(Serialize)]
struct FramesJson {
    of_stacks: u64,
    of_stacks_proved: u64,
    of_samples: u64,
    of_samples_proved: u64,
    taken_ns: Option<u64>,
    copied: Option<u64>,
    refused: Option<u64>,
    unwound_ns: Option<u64>,
}

impl FramesJson {
    fn new(survey: &Survey) -> Self {
        let counts = survey.unwinding;
        Self {
            of_stacks: survey.stack_frames.total,
            of_stacks_proved: survey.stack_frames.proved,
            of_samples: survey.sample_frames.total,
            of_samples_proved: survey.sample_frames.proved,
            taken_ns: counts.map(|counts| counts.taken_ns),
            copied: counts.map(|counts| counts.copied),
            refused: counts.map(|counts| counts.refused),
            unwound_ns: counts.map(|counts| counts.unwound_ns),
        }
    }
}

#[derive(Serialize)]
struct CommandJson {
    pid: u32,
    words: Vec<String>,
    status: Option<u32>,
}

#[derive(Serialize)]
struct RecordingJson {
    format: i64,
    wakepath: String,
    options: String,
    bytes: u64,
    streams: usize,
    discarded: u64,
    span_bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;
    use wakepath_event::{
        Clocks, CostKind, EventKind, Format, KernelCost, Mark, StackCounts, Tid, UnwindCounts,
    };
    use wakepath_findings::testing::{REALTIME, checkout};
    use wakepath_loaded::Recorded;

    use crate::json::shape::{document, golden};
    use crate::sample::{trace, trace_with};

    /// A recording with all the notes that a session makes, each number different.
    fn recorded_by_a_session() -> Recorded {
        let cost =
            |kind, count, from_ns, to_ns| EventKind::KernelCost(KernelCost { kind, count, from_ns, to_ns });
        let notes = [
            EventKind::Mark(Mark::Command { tgid: Tid(7), words: b"./shop\0--cart\0".as_slice().into() }),
            EventKind::Mark(Mark::Target(Tid(7))),
            EventKind::Mark(Mark::Observer(Tid(8))),
            EventKind::Clocks(Clocks { boottime_ns: 5, realtime_ns: REALTIME, steal_ns: 0 }),
            EventKind::StackCounts(StackCounts {
                taken: 100,
                repeated: 900,
                checked: 30,
                disagreed: 2,
                doubtful: 40,
            }),
            EventKind::UnwindCounts(UnwindCounts {
                taken_ns: 50_000,
                copied: 12,
                refused: 3,
                unwound_ns: 70_000,
            }),
            cost(CostKind::Switch, None, 100, Some(300)),
            cost(CostKind::Softirq, Some(11), 20, None),
        ];
        let text = "
            thread shop tid=7
            thread wakepath tid=8
            0 c0 idle started
            1 c0 idle switch shop
            50 c1 idle loss from=20 count=4
            90 c0 shop switch wakepath blocked call=0:3
            99 c0 wakepath stopped";
        let format = Format {
            number: 41,
            writer: String::from("0.9.1"),
            options: String::from("--stacks"),
            bytes: 123_456,
            streams: 5,
            discarded: 6,
            span_bytes: Some(789),
        };
        let mut recorded = trace_with(text, &notes);
        recorded.format = Some(format);
        recorded.cgroup = Some("/system.slice/shop.service".into());
        recorded
    }

    #[test]
    fn documents_keep_the_contract() {
        let cut_off = trace("thread A tid=7\n0 c0 idle started\n9 c0 idle switch A\n");
        for (recorded, expected) in [
            (recorded_by_a_session(), expect_file!["../../tests/golden/info_of_a_session.json"]),
            (checkout().recorded, expect_file!["../../tests/golden/info.json"]),
            (cut_off, expect_file!["../../tests/golden/info_of_one_cut_off.json"]),
        ] {
            let info = wakepath_engine::info(&recorded);
            let document = document(include_str!("../../contract/info.txt"), |out| super::info(&info, out));
            golden(&document, &expected);
        }
    }
}
