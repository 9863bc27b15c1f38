//! Latency distributions from a recording, as JSON.

use std::io::{self, Write};

use serde::Serialize;
use wakepath_engine::latency::recorded::{Population, RecordedLatency};

use super::{TargetJson, target};
use crate::json::head::{HeadJson, since_origin};
use crate::json::{text, write};

/// The document of live counting, with the common head of documents about a recording.
#[derive(Serialize)]
struct RecordedLatencyJson {
    #[serde(flatten)]
    head: HeadJson,
    source: &'static str,
    window: WindowJson,
    of_whom: PopulationJson,
    elapsed_ns: u64,
    targets: Vec<TargetJson>,
}

#[derive(Serialize)]
struct WindowJson {
    from_ns: i64,
    to_ns: i64,
}

#[derive(Serialize)]
struct PopulationJson {
    by: &'static str,
    /// The command's words.
    words: Vec<String>,
    pids: Vec<u32>,
    /// Their number; null if they were not chosen individually.
    threads: Option<usize>,
}

/// Writes distributions from a recording.
///
/// # Errors
/// Write errors on `out`.
pub fn recorded_latency(latency: &RecordedLatency, out: &mut dyn Write) -> io::Result<()> {
    let document = RecordedLatencyJson {
        head: HeadJson::new("wakepath.latency/1", &latency.head),
        source: "recording",
        window: WindowJson {
            from_ns: since_origin(&latency.head, latency.from),
            to_ns: since_origin(&latency.head, latency.to),
        },
        of_whom: population(&latency.population),
        elapsed_ns: latency.to.since(latency.from),
        targets: latency.targets.iter().map(target).collect(),
    };
    write(out, &document)
}

fn population(population: &Population) -> PopulationJson {
    let all = PopulationJson { by: "all", words: Vec::new(), pids: Vec::new(), threads: None };
    match population {
        Population::All => all,
        Population::Command(words) => {
            let words = words.iter().map(|word| text(word.bytes())).collect();
            PopulationJson { by: "command", words, ..all }
        }
        Population::Processes(processes) => {
            let pids = processes.iter().map(|process| process.number()).collect();
            PopulationJson { by: "pid", pids, ..all }
        }
        Population::Threads(threads) => PopulationJson { by: "threads", threads: Some(*threads), ..all },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wakepath_engine::Tid;
    use wakepath_engine::latency::recorded::{RecordedQuery, ThreadFilter, recorded_latency as ask};

    use super::*;
    use crate::json::profiles;
    use crate::json::shape::{document, golden};
    use crate::sample::{CPU_WAITS, latency_query, trace};

    #[test]
    fn documents_keep_the_contract_and_can_be_compared() {
        let recorded = trace(CPU_WAITS);
        let threads = ThreadFilter::Processes(vec![Tid(10), Tid(11)]);
        let query = RecordedQuery {
            from: Some(wakepath_engine::TimeSpec::AfterStart(1500)),
            every: Some(Duration::from_nanos(3000)),
            ..latency_query(&["runqueue", "lock"], threads)
        };
        let told = ask(&recorded, &query).expect("an answer");
        let shape = include_str!("../../../contract/recorded_latency.txt");
        let document = document(shape, |out| recorded_latency(&told, out));
        golden(&document, &expect_test::expect_file!["../../../tests/golden/recorded_latency.json"]);
        assert_eq!(document["losses"][0]["count"], 3);
        assert_eq!(document["targets"][0]["slices"][0]["from_ns"], 1500, "all times count from the origin");
        let profiles = profiles(document.to_string().as_bytes()).expect("a document like any other");
        assert_eq!(profiles[0].histogram, told.targets[0].histogram);
    }
}
