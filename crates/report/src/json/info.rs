//! The contents of a recording, as JSON: `wakepath.info/1`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use wakepath_engine::InfoAnswer;

use super::head::{HeadJson, since_origin};
use super::{text, write};

/// Writes the contents of a recording.
pub fn info(info: &InfoAnswer, out: &mut dyn Write) -> io::Result<()> {
    let session = &info.recorded.survey.session;
    let format = info.recorded.format.as_ref();
    write(
        out,
        &InfoJson {
            head: HeadJson::new("wakepath.info/1", &info.head),
            from_ns: since_origin(&info.head, info.from),
            to_ns: since_origin(&info.head, info.to),
            cut_off: info.recorded.cut_off(),
            events: &info.events,
            stacks: info.recorded.survey.stacks.map(|counts| StacksJson {
                taken: counts.taken,
                repeated: counts.repeated,
                checked: counts.checked,
                disagreed: counts.disagreed,
                doubtful: counts.doubtful,
            }),
            threads: info.threads,
            processes: info.processes,
            cpus: info.cpus,
            command: session.command.as_ref().map(|command| CommandJson {
                pid: command.tgid.number(),
                words: command.words.iter().map(|word| text(word.bytes())).collect(),
                status: command.status,
            }),
            targets: session.targets.iter().map(|tgid| tgid.number()).collect(),
            cgroup: info.recorded.cgroup.as_ref().map(|cgroup| text(cgroup.bytes())),
            recording: format.map(|format| RecordingJson {
                format: format.number,
                wakepath: text(format.writer.as_bytes()),
                options: text(format.options.as_bytes()),
                bytes: format.bytes,
                streams: format.streams,
                discarded: format.discarded,
            }),
        },
    )
}

#[derive(Serialize)]
struct InfoJson<'a> {
    #[serde(flatten)]
    head: HeadJson,
    from_ns: i64,
    to_ns: i64,
    cut_off: bool,
    events: &'a BTreeMap<&'static str, u64>,
    stacks: Option<StacksJson>,
    threads: usize,
    processes: usize,
    cpus: usize,
    command: Option<CommandJson>,
    targets: Vec<u32>,
    cgroup: Option<String>,
    recording: Option<RecordingJson>,
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::shape::misfits;
    use crate::sample::trace;
    use wakepath_findings::testing::checkout;

    #[test]
    fn documents_keep_the_contract() {
        for recorded in
            [checkout().recorded, trace("thread A tid=7\n0 c0 idle started\n9 c0 idle switch A\n")]
        {
            let mut out = Vec::new();
            info(&wakepath_engine::info(&recorded), &mut out).expect("a vector takes everything");
            let document = serde_json::from_slice(&out).expect("JSON");
            assert_eq!(misfits(include_str!("../../contract/info.txt"), &document), Vec::<String>::new());
        }
    }
}
