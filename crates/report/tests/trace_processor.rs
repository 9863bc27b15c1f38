//! Loads what `export --format perfetto` writes into a real trace_processor, and compares.
//!
//! Needs node and Perfetto's engine, so it is not part of `cargo test`; `tests/trace_processor` runs it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wakepath_engine::{Answer, Host, Name, PathQuery, Recorded, Subject, Tid, open_all, path};
use wakepath_report::perfetto;
use wakepath_scenario::draw;
use wakepath_wait_graph::{ThreadState, UnknownReason, WakeUp, Waker};

/// Drawings that hold every state, wakings from threads and interrupts, a birth and a death. A waking
/// before its own switch-out cannot be drawn; recordings are full of them.
const DRAWINGS: [&str; 4] = [
    "0 =.....1=
     1 ==...2==
     2 ========",
    "0 =...t==b
     1 ==.n=i==",
    "0@0 ==rr===....1==
     1@0 .0==.0xxrr==rr",
    "0 ====.....1===
     1 __0====.t===_",
];

/// One row of Perfetto's states: what a thread did in all, ns.
type States = BTreeMap<(u64, &'static str), u64>;

#[test]
#[ignore = "needs node and trace_processor: would show that Perfetto reads our traces as we mean them"]
fn perfetto_sees_our_states_and_the_path_tiles_its_window() {
    for drawing in DRAWINGS {
        let drawn = draw(drawing);
        let host = Host { kernel: Name::from("6.18.0"), ..Host::default() };
        let recorded = Recorded::of_events(PathBuf::from("drawing"), host, &drawn.events);
        check(&recorded, Subject::Tid(drawn.tids[0]), drawing);
    }
}

#[test]
#[ignore = "needs node, trace_processor and a recording: would show that Perfetto reads it as we do"]
fn perfetto_sees_a_recording_as_we_do() {
    let recordings =
        std::env::var_os("WAKEPATH_RECORDING").expect("WAKEPATH_RECORDING names one, or several");
    let recordings: Vec<_> = std::env::split_paths(&recordings).collect();
    let recorded = open_all(&recordings, |_, _| {}).expect("recordings");
    check(&recorded, Subject::Recorded, &recordings[0].display().to_string());
}

fn check(recorded: &Recorded, subject: Subject, what: &str) {
    let ask_path = |subject| {
        path(recorded, &PathQuery { subject, ..PathQuery::default() }).expect("threads and a window")
    };
    let mut answer = ask_path(subject);
    if let Answer::Overview(overview) = &answer {
        // Without a window of its own: that of the first thread, of the first host.
        let mut tids = overview.threads.iter().map(|times| recorded.graph.thread(times.thread).tid());
        answer = ask_path(Subject::Tid(tids.find(|tid| tid.host().0 == 0).expect("a thread")));
    }
    let Answer::Paths(paths) = answer else { panic!("{what}: no window") };
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace");
    let mut file = std::fs::File::create(&trace).expect("a file");
    perfetto(recorded, &paths, &mut file).expect("written");

    let states = format!(
        "select tid, state, sum(dur) as ns from thread_state join thread using (utid)
         where dur > 0 and ts + dur < {} and tid > 0 group by 1, 2",
        recorded.graph.to().ns()
    );
    let [errors, states, slices, wakers] = ask(&trace, [
        "select name, value from stats where value > 0 and severity != 'info'",
        &states,
        "select track.name as name, sum(dur) as ns from slice join track on track.id = track_id where track.name like 'what%'",
        "select t.tid as tid, s.ts as ts, w.tid as waker, s.irq_context as irq from thread_state s join thread t using (utid)
         join thread w on w.utid = s.waker_utid where s.state = 'R' order by 2, 1",
    ]);
    assert_eq!(errors, [] as [Value; 0], "{what}: import errors");

    let mut theirs = States::new();
    for row in &states {
        let state = match text(row, "state") {
            "Running" => "running",
            "R" | "R+" => "runnable",
            _ => "blocked",
        };
        *theirs.entry((number(row, "tid"), state)).or_default() += number(row, "ns");
    }
    let ours = ours(recorded);
    // A thread of which we do not know everything has no states to compare.
    let known = |tid: u64| {
        let mut lives = recorded.with_tid(Tid(tid as u32)).iter();
        lives.all(|&thread| {
            (0..)
                .map_while(|n| recorded.graph.state_intervals(thread).get(n))
                .all(|interval| !matches!(interval.state, ThreadState::Unknown(UnknownReason::Lost)))
        })
    };
    let keys: BTreeSet<_> =
        ours.keys().chain(theirs.keys()).copied().filter(|&(tid, _)| known(tid)).collect();
    let differing: Vec<_> = keys
        .iter()
        .filter(|key| ours.get(key) != theirs.get(key))
        .map(|key| (key, ours.get(key), theirs.get(key)))
        .collect();
    assert!(differing.is_empty(), "{what}: states as (thread, state), ours, theirs: {differing:?}");
    assert!(!keys.is_empty(), "{what}: nothing to compare");

    let window: u64 = paths.iter().map(|path| path.window_ns()).sum();
    assert_eq!(slices.iter().map(|row| number(row, "ns")).sum::<u64>(), window, "{what}: path slices");

    // The wakers by Perfetto, in wake-ups by threads.
    // To us the idle thread wakes nobody.
    let theirs = wakers.iter().filter(|row| row["irq"] != 1 && number(row, "waker") != 0);
    let theirs: BTreeSet<_> =
        theirs.map(|row| (number(row, "ts"), number(row, "tid"), number(row, "waker"))).collect();
    let ours = wakings(recorded);
    let differing: Vec<_> = ours
        .symmetric_difference(&theirs)
        .filter(|&&(_, tid, waker)| known(tid) && known(waker))
        .map(|waking| (ours.contains(waking), waking))
        .collect();
    assert!(differing.is_empty(), "{what}: (is it ours, (at, thread, waker)): {differing:?}");
}

/// Our states, of threads from when they were first seen to run or want to, and without what the end cut off:
/// the same that Perfetto knows of.
fn ours(recorded: &Recorded) -> States {
    let graph = &recorded.graph;
    let mut states = States::new();
    for (index, thread) in graph.threads() {
        if thread.tid() == Tid::IDLE {
            continue;
        }
        let (mut seen, mut woken) = (false, false);
        for interval in (0..).map_while(|n| graph.state_intervals(index).get(n)) {
            let state = match interval.state {
                ThreadState::Running { .. } => "running",
                ThreadState::Runnable { .. } | ThreadState::Throttled { .. } => "runnable",
                ThreadState::Blocked(_) => "blocked",
                ThreadState::Unknown(_) => continue,
            };
            // A state that lasts no time is none to Perfetto; of one that a snapshot found it knows nothing.
            seen |= state == "running" || state == "runnable" && interval.from < interval.to && woken;
            woken = state == "blocked";
            if seen && interval.to < graph.to() && interval.from < interval.to {
                *states.entry((thread.tid().0.into(), state)).or_default() +=
                    interval.to.since(interval.from);
            }
        }
    }
    states
}

/// When which thread was woken by which, where it had to wait for a CPU then: Perfetto keeps the waker
/// with that state.
fn wakings(recorded: &Recorded) -> BTreeSet<(u64, u64, u64)> {
    let graph = &recorded.graph;
    let mut wakings = BTreeSet::new();
    for (index, thread) in graph.threads() {
        let intervals = graph.state_intervals(index);
        for n in 0..intervals.len() {
            let (Some(interval), Some(next)) = (intervals.get(n), intervals.get(n + 1)) else { continue };
            let wait = graph.wait(&interval);
            let Some(Waker::Woken(WakeUp { at, current, context, .. })) = wait.map(|wait| wait.end) else {
                continue;
            };
            let waited = matches!(next.state, ThreadState::Runnable { .. }) && next.from < next.to;
            let counts =
                waited && !context.is_interrupt() && at >= interval.from && interval.from < interval.to;
            if let Some(waker) = current.thread().filter(|_| counts) {
                wakings.insert((at.ns(), thread.tid().0.into(), graph.thread(waker).tid().0.into()));
            }
        }
    }
    wakings
}

fn ask<const N: usize>(trace: &Path, queries: [&str; N]) -> [Vec<Value>; N] {
    let engine =
        std::env::var_os("WAKEPATH_TRACE_PROCESSOR").expect("WAKEPATH_TRACE_PROCESSOR names its folder");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trace_processor.mjs");
    let output =
        Command::new("node").arg(script).arg(engine).arg(trace).args(queries).output().expect("node");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<Vec<Value>> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    answers.try_into().expect("an answer to each")
}

fn number(row: &Value, key: &str) -> u64 {
    let value = &row[key];
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{key} in {row}"))
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_else(|| panic!("{key} in {row}"))
}
