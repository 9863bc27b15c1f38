//! A recording with all possible questions, in every view.
//!
//! Input: two bytes with the beginning and end of a further window. A byte whose lowest bit is 0 if the rest
//! is events in few bytes (`fuzz/src/events.rs`), 1 for a directory (`fuzz/src/directory.rs`).

use std::io;
use std::time::Duration;

use wakepath_engine::latency::recorded::{RecordedLatency, RecordedQuery, ThreadFilter, recorded_latency};
use wakepath_engine::{
    Algorithm, Answer, CallsQuery, Comm, Host, Name, Overview, PathAnswer, PathQuery, QueryError, Recorded,
    Subject, TimeSpec, Which, calls, info, open, path,
};
use wakepath_event::Event;
use wakepath_report::text::{self, Source};
use wakepath_report::{Layout, json, parquet, perfetto};

use crate::directory::Scratch;
use crate::events::events;

/// The number of threads whose answers are shown at a time.
const MAX_PATHS: usize = 2;

/// Makes the directory, reads it if it can be opened at all, and asks.
///
/// # Panics
/// When a law is broken.
pub fn check(input: &[u8]) {
    let &[begin, end, kind, ref rest @ ..] = input else { return };
    let (recorded, again) = if kind & 1 == 0 {
        let mut events = events(rest);
        events.sort_by_key(|event| event.at);
        (read(&events), read(&events))
    } else {
        thread_local!(static SCRATCH: Scratch = Scratch::new());
        let (path, _) = SCRATCH.with(|scratch| scratch.fill(rest));
        let Ok(recorded) = open(&path, |_, _| {}) else { return };
        (recorded, open(&path, |_, _| {}).expect("what could be opened can be opened again"))
    };
    assert_eq!(whole(&recorded), whole(&again), "the same recording, the same answers");
    let at = |byte: u8| TimeSpec::AfterStart(u64::from(byte) << (byte / 8));
    let from = (begin != 0).then(|| at(begin));
    let to = (end != 0).then(|| TimeSpec::BeforeEnd(u64::from(end) << (end / 8)));
    let mut subjects = vec![Subject::Recorded, Subject::Recorded, Subject::Cgroup(Name::from("/"))];
    for (_, thread) in recorded.graph.threads().take(MAX_PATHS) {
        subjects.extend([Subject::Tid(thread.tid()), Subject::Pid(thread.tgid().unwrap_or(thread.tid()))]);
        subjects.extend(thread.names.last().map(|&(_, comm)| Subject::Comm(comm)));
    }
    subjects.push(Subject::Comm(Comm::new(b"nonesuch")));
    for (subject, nth) in subjects.into_iter().zip(0..) {
        // Alternating algorithms, as they cost as much as the views.
        let algorithms = [Algorithm::Active, Algorithm::Exact, Algorithm::Joined, Algorithm::Exact];
        let algorithm = algorithms[nth % algorithms.len()];
        ask(&recorded, &PathQuery { subject, host: None, from, to, algorithm, all: begin & 1 == 0 });
    }
    let thread = recorded.graph.threads().last().map(|(_, thread)| thread.tid());
    let filters = [
        Some(ThreadFilter::Recorded),
        Some(ThreadFilter::All),
        thread.map(|tid| ThreadFilter::Subject(Subject::Tid(tid))),
    ];
    for threads in filters.into_iter().flatten() {
        latencies(&recorded, threads, from, to);
    }
    for which in [Which::Slowest(MAX_PATHS), Which::Peak(1), Which::Above(u64::from(end))] {
        calls_of(&recorded, which);
    }
}

/// All latencies: as a whole, and in time slices.
fn latencies(recorded: &Recorded, threads: ThreadFilter, from: Option<TimeSpec>, to: Option<TimeSpec>) {
    for target in ["runqueue", "disk", "lock", "lock:futex", "lock:kernel", "blocked:*", "segment:*", "*"] {
        let mut query = RecordedQuery {
            targets: vec![String::from(target)],
            threads: threads.clone(),
            from,
            to,
            ..RecordedQuery::default()
        };
        let whole = match recorded_latency(recorded, &query) {
            Ok(whole) => whole,
            Err(refused) => {
                assert!(!refused.to_string().is_empty());
                continue;
            }
        };
        query.every = Some(Duration::from_nanos(whole.to.since(whole.from) / 3 + 1));
        let parted = recorded_latency(recorded, &query).expect("as without parts");
        for (whole, parted) in whole.targets.iter().zip(&parted.targets) {
            assert_eq!(whole.histogram, parted.histogram, "{target}");
            let sum: u128 = parted.slices.iter().map(|slice| slice.histogram.sum()).sum();
            assert_eq!(sum, whole.histogram.sum(), "{target}: parts add up");
        }
        show_latency(&whole);
        show_latency(&parted);
    }
}

fn show_latency(latency: &RecordedLatency) {
    plain(&text::recorded_latency(latency, Layout::PLAIN));
    document(|out| json::recorded_latency(latency, out));
    let mut out = Vec::new();
    parquet::recorded_latency(latency, &mut out).expect("memory has no errors");
    assert!(out.starts_with(b"PAR1") && out.ends_with(b"PAR1"));
}

/// The waits in each function's calls.
fn calls_of(recorded: &Recorded, which: Which) {
    let targets = recorded.survey.names.targets().take(MAX_PATHS);
    let targets = targets.map(|(_, name)| Some(name.bytes().escape_ascii().to_string()));
    for target in targets.chain([None]) {
        match calls(recorded, None, &CallsQuery { target, which, algorithm: Algorithm::Active }) {
            Ok(answer) => {
                plain(&text::calls(&answer, Layout::PLAIN));
                document(|out| json::calls(&answer, out));
            }
            Err(refused) => assert!(!refused.to_string().is_empty()),
        }
    }
}

/// Reads events without a directory.
fn read(events: &[Event]) -> Recorded {
    Recorded::from_events("fuzz.rec".into(), Host::default(), events)
}

/// The documents about the whole recording, as scripts read them.
fn whole(recorded: &Recorded) -> Vec<u8> {
    let mut out = document(|out| json::info(&info(recorded), out));
    plain(&text::info(&info(recorded), Layout::PLAIN));
    let paths = match path(recorded, &PathQuery::default()) {
        Ok(Answer::Paths(paths)) => {
            for path in &paths {
                out.extend(document(|out| json::path(path, &[], out)));
            }
            paths
        }
        Ok(Answer::Overview(overview)) => {
            out.extend(document(|out| json::overview(&overview, &[], out)));
            Vec::new()
        }
        Err(_) => Vec::new(),
    };
    let begun = out.len();
    perfetto(recorded, &paths, &mut out).expect("memory has no errors");
    messages(&out[begun..]);
    out
}

fn ask(recorded: &Recorded, query: &PathQuery) {
    match path(recorded, query) {
        Ok(Answer::Paths(paths)) => paths.iter().take(MAX_PATHS).for_each(show),
        Ok(Answer::Overview(overview)) => show_overview(&overview),
        Err(QueryError::Several { candidates, .. }) => {
            candidates
                .iter()
                .take(MAX_PATHS)
                .for_each(|candidate| plain(&text::candidate(recorded, candidate)));
        }
        Err(refused) => assert!(!refused.to_string().is_empty()),
    }
}

fn show(answer: &PathAnswer) {
    let path = &answer.path;
    let mut at = path.window.from;
    for segment in &path.segments {
        assert!(segment.from == at && segment.from < segment.to, "segments follow each other");
        at = segment.to;
    }
    assert_eq!(at, path.window.to, "and tile the window");
    document(|out| json::path(answer, &[], out));
    let narrow = Layout { width: 10, colour: false };
    plain(&text::path(answer, Source::Read(""), Layout::PLAIN));
    plain(&text::tree(answer, narrow));
    plain(&text::segments(answer, Layout::PLAIN));
    plain(&text::explain(answer, narrow));
}

fn show_overview(overview: &Overview) {
    document(|out| json::overview(overview, &[], out));
    plain(&text::overview(overview, Source::Read(""), Layout::PLAIN));
}

/// The written document. It is JSON, on a single line, and cannot drive a terminal.
fn document(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Vec<u8> {
    let mut document = Vec::new();
    write(&mut document).expect("memory has no errors");
    let text = std::str::from_utf8(&document).expect("JSON is UTF-8");
    serde_json::from_str::<serde_json::Value>(text).expect("JSON can be read");
    let line = text.strip_suffix('\n').expect("a document ends its line");
    assert!(!line.chars().any(char::is_control), "{line}");
    document
}

/// No text from outside can drive a terminal.
fn plain(text: &str) {
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}

/// A Perfetto trace is packets, each with its length in front.
fn messages(mut trace: &[u8]) {
    while let Some((&tag, rest)) = trace.split_first() {
        assert_eq!(tag, 1 << 3 | 2, "field 1, of a length that is said");
        let (mut length, mut used) = (0_usize, 0);
        loop {
            let byte = rest[used];
            length |= usize::from(byte & 0x7f) << (7 * used);
            used += 1;
            if byte & 0x80 == 0 {
                break;
            }
        }
        trace = &rest[used + length..];
    }
}
