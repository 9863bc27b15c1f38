//! Latency distributions from a recording, as JSON.

use std::io::{self, Write};

use serde::Serialize;
use wakepath_engine::{OfWhom, RecordedLatency};

use super::head::{HeadJson, since_origin};
use super::latency::{TargetJson, target};
use super::{text, write};

/// What `wakepath latency --json` writes of what it counted itself, and what every document about a recording
/// has.
#[derive(Serialize)]
struct RecordedLatencyJson {
    #[serde(flatten)]
    head: HeadJson,
    source: &'static str,
    window: WindowJson,
    of_whom: OfWhomJson,
    elapsed_ns: u64,
    targets: Vec<TargetJson>,
}

#[derive(Serialize)]
struct WindowJson {
    from_ns: i64,
    to_ns: i64,
}

#[derive(Serialize)]
struct OfWhomJson {
    by: &'static str,
    /// Of the command.
    words: Vec<String>,
    pids: Vec<u32>,
    /// Null where they were not chosen one by one.
    threads: Option<usize>,
}

/// Writes distributions that are from a recording.
///
/// # Errors
/// Those of `out`.
pub fn recorded_latency(told: &RecordedLatency, out: &mut dyn Write) -> io::Result<()> {
    let document = RecordedLatencyJson {
        head: HeadJson::new("wakepath.latency/1", &told.head),
        source: "recording",
        window: WindowJson {
            from_ns: since_origin(&told.head, told.from),
            to_ns: since_origin(&told.head, told.to),
        },
        of_whom: of_whom(&told.of_whom),
        elapsed_ns: told.to.since(told.from),
        targets: told.targets.iter().map(target).collect(),
    };
    write(out, &document)
}

fn of_whom(whom: &OfWhom) -> OfWhomJson {
    let nobody = OfWhomJson { by: "all", words: Vec::new(), pids: Vec::new(), threads: None };
    match whom {
        OfWhom::Everyone => nobody,
        OfWhom::Command(words) => {
            let words = words.iter().map(|word| text(word.bytes())).collect();
            OfWhomJson { by: "command", words, ..nobody }
        }
        OfWhom::Processes(processes) => {
            let pids = processes.iter().map(|process| process.number()).collect();
            OfWhomJson { by: "pid", pids, ..nobody }
        }
        OfWhom::Threads(threads) => OfWhomJson { by: "threads", threads: Some(*threads), ..nobody },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wakepath_engine::{Algorithm, LatencyQuery, Tid, Whom, recorded_latency as ask};

    use super::*;
    use crate::json::profiles;
    use crate::json::shape::misfits;
    use crate::sample::trace;

    #[test]
    fn documents_keep_the_contract_and_can_be_compared() {
        let recorded = trace(
            "thread a tid=10
             thread b tid=11 blocked=interruptible call=0:3
             0 c0 idle started
             0 c0 idle switch a
             1000 c0 a waking b
             1100 c0 a switch b runnable
             2100 c0 b loss from=1600 count=3
             2200 c0 b switch a
             9000 c0 a stopped",
        );
        let query = LatencyQuery {
            targets: vec![String::from("runqueue"), String::from("lock")],
            whom: Whom::Processes(vec![Tid(10), Tid(11)]),
            host: None,
            from: Some(wakepath_engine::TimeSpec::AfterStart(1500)),
            to: None,
            every: Some(Duration::from_nanos(3000)),
            algorithm: Algorithm::Active,
        };
        let told = ask(&recorded, &query).expect("an answer");
        let mut out = Vec::new();
        recorded_latency(&told, &mut out).expect("a vector takes everything");
        let document: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(
            misfits(include_str!("../../contract/recorded_latency.txt"), &document),
            Vec::<String>::new()
        );
        assert_eq!(document["losses"][0]["count"], 3);
        assert_eq!(document["targets"][0]["slices"][0]["from_ns"], 1500, "all times count from the origin");
        let profiles = profiles(&out).expect("a document like any other");
        assert_eq!(profiles[0].histogram, told.targets[0].histogram);
    }
}
