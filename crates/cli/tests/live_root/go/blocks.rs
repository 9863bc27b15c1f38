//! Requests served by goroutines: which request blocked which, how long and why, compared with the program's own log.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wakepath_harness::live::{command, document, list, number, texts};

use crate::go::go_place;

/// The largest deviation from the program's own time, as a share of the request.
const MAX_ERROR: f64 = 0.02;

/// A wait noted by the program.
pub struct Waited {
    pub trace: String,
    pub what: String,
    ns: u64,
    pub other: Option<String>,
}

pub fn build(go: &Path, folder: &Path, options: &[&str]) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live_root/go/blocks");
    let mut compiler = Command::new(go);
    compiler.current_dir(source).args(["build", "-o"]).arg(folder.join("blocks")).args(options).arg(".");
    // The build needs no downloads.
    compiler.envs([("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("GOFLAGS", "-mod=mod")]);
    if std::env::var_os("HOME").is_none() && std::env::var_os("GOCACHE").is_none() {
        compiler.env("GOCACHE", folder.join("cache"));
    }
    let built = compiler.output().expect("go");
    assert!(built.status.success(), "{}", texts(&built).1);
}

pub fn waits(log: &str) -> Vec<Waited> {
    let line = |line: &str| {
        let words: Vec<_> = line.strip_prefix("waited ")?.split(' ').collect();
        let [trace, what, ns, other] = words.as_slice() else { panic!("{line}") };
        let other = (*other != "-").then(|| (*other).to_owned());
        let (trace, what) = ((*trace).to_owned(), what.replace('#', " "));
        Some(Waited { trace, what, ns: ns.parse().expect("a number"), other })
    };
    log.lines().filter_map(line).collect()
}

/// Exceptions allowed in the check of a request.
#[derive(Debug, Clone, Copy)]
pub struct Allowed {
    /// The blocking request's goroutine may be unknown.
    pub unknown_blocker: bool,
    /// The blocking request's goroutine may be known for only a part of the time, since its probes came meanwhile.
    pub partly_known_blocker: bool,
}

/// The path's unknown time due to switches that the kernel did not report: this machine's kernel does not report the switches of
/// process 1 (`lab/results/truth.md`). The neighbouring switches show each, as a loss that no recorder counted.
fn unreported_switches(document: &Value) -> u64 {
    let range = |one: &Value| ["from_ns", "to_ns"].map(|bound| one[bound].as_i64().expect("a time"));
    let losses = list(&document["losses"]);
    assert!(losses.iter().all(|loss| loss["reported"] == false), "{losses:#?}");
    let losses: Vec<_> = losses.iter().map(range).collect();
    let segments = list(&document["segments"]).iter();
    let unknown =
        segments.filter(|one| one["kind"] == "unknown" && one["cause"]["type"] == "lost").map(range);
    let shown = unknown.filter(|[from, to]| losses.iter().any(|[begin, end]| begin < to && from < end));
    shown.map(|[from, to]| to.abs_diff(from)).sum()
}

/// A document's facts that explain a failure.
fn short(document: &Value) -> String {
    let segments = list(&document["segments"]).iter().zip(list(&document["goroutine"]["segments"]));
    let line = |(one, goroutine): (&Value, &Value)| {
        let [from, to, kind, tid] = ["from_ns", "to_ns", "kind", "tid"].map(|field| &one[field]);
        format!("{from} {to} {kind} tid {tid} goroutine {goroutine} {}\n", one["cause"]["type"])
    };
    let lines: String = segments.map(line).collect();
    let goroutine = &document["goroutine"];
    format!("{}\n{}\n{goroutine}\n{lines}", document["losses"], document["blocked_by"])
}

/// Checks one request: the reason and length of its wait, and the blocking request with its time.
pub fn check(document: &Value, waited: &Waited, allowed: Allowed) {
    let window = number(&document["window"]["to_ns"]) - number(&document["window"]["from_ns"]);
    let length = |one: &Value| number(&one["to_ns"]) - number(&one["from_ns"]);
    let goroutine = &document["goroutine"];
    let own = list(&document["segments"]).iter().zip(list(&goroutine["segments"]));
    let own = own.filter(|(_, number)| **number == goroutine["number"]);
    let absent =
        own.filter(|(one, _)| ["runnable", "stolen", "interrupted"].iter().any(|kind| one["kind"] == *kind));
    // Time without a CPU between the program's stamps and its wait counts as waiting in the program's log.
    let without_cpu: u64 = absent.map(|(one, _)| length(one)).sum();
    let error = MAX_ERROR * window as f64;
    let near_up_to = |found: u64, unknown: u64| {
        let missing = waited.ns as f64 - found as f64;
        (-error..=error + (without_cpu + unknown) as f64).contains(&missing)
    };
    let near = |found: u64| near_up_to(found, 0);
    assert_eq!(document["request"]["join"], "goroutine", "{document}");
    // The segments cover the whole request.
    let segments = list(&document["segments"]);
    let sum: u64 = segments.iter().map(length).sum();
    assert_eq!(sum, window);
    assert_eq!(list(&goroutine["segments"]).len(), segments.len());
    // A goroutine made ready still waits for a thread: the program sees both as one wait.
    let own = list(&goroutine["waits"]);
    let of = |reason: &Value| {
        own.iter().filter(|one| one["reason"] == *reason).map(|one| number(&one["total_ns"])).sum()
    };
    let parked: u64 = of(&Value::from(waited.what.as_str()));
    let queued: u64 = of(&Value::Null);
    assert!(
        near(parked) || near(parked + queued),
        "{}: {} ns, found {parked} + {queued}: {}",
        waited.what,
        waited.ns,
        short(document)
    );
    let blocked = list(&document["blocked_by"]);
    match (&waited.other, blocked) {
        (None, []) => {}
        (Some(_), []) if allowed.unknown_blocker => {}
        (Some(other), [by]) => {
            assert_eq!(by["trace_id"], other.as_str());
            let total = number(&by["total_ns"]);
            // This time is charged to no request: the thread on the CPU is unknown.
            let unknown = unreported_switches(document);
            let near = |found: u64| near_up_to(found, unknown);
            let is_part = allowed.partly_known_blocker && total < waited.ns;
            assert!(
                near(total) || near(total + queued) || is_part,
                "{}: {} ns, blocked {total}, allowed {allowed:?}: {}",
                waited.what,
                waited.ns,
                short(document)
            );
            let wait = own.iter().find(|one| one["reason"] == waited.what.as_str()).expect("its wait");
            assert_eq!(wait["ended_by"]["trace_id"], other.as_str());
        }
        _ => panic!("{}: {:?}, found {blocked:#?}", waited.what, waited.other),
    }
}

/// Runs the program with this number of simultaneous threads, and checks all its requests.
fn states_and_blockers_are_those_of_the_log(options: &[&str], processors: &str, rounds: usize) {
    let Some((folder, go)) = go_place("requests in goroutines name the one that blocked them") else {
        return;
    };
    build(&go, &folder, options);
    let rounds_text = rounds.to_string();
    // Leave out the Go programs of other tests: their requests have the same ids.
    let arguments = ["record", "--goroutines=asked", "--no-calibration", "--", "./blocks", &rounds_text];
    // The program itself is the command: it has its probes before it begins.
    let output = command(&folder, &arguments).env("GOMAXPROCS", processors).output().expect("wakepath");
    assert!(output.status.success(), "{}", texts(&output).1);
    assert!(!texts(&output).1.contains("are not seen"), "{}", texts(&output).1);
    let log = std::fs::read_to_string(folder.join("log")).expect("its log");
    let waits = waits(&log);
    assert_eq!(waits.len(), 4 * rounds, "{log}");
    for waited in &waits {
        let question = ["requests", "wakepath.rec", "spans.json", "--request", &waited.trace];
        let allowed = Allowed { unknown_blocker: false, partly_known_blocker: false };
        check(&document(&folder, &question), waited, allowed);
    }
}

#[test]
fn on_one_thread() {
    states_and_blockers_are_those_of_the_log(&[], "1", 4);
}

#[test]
fn on_two_threads_and_without_debug_information() {
    states_and_blockers_are_those_of_the_log(&["-ldflags=-w"], "2", 4);
}

#[test]
fn goroutines_are_recorded_of_the_programs_that_are_asked_about_and_of_all_only_where_that_is_said() {
    let Some((folder, go)) = go_place("goroutines of other programs cost them nothing unasked") else {
        return;
    };
    build(&go, &folder, &[]);
    let mut program = Command::new(folder.join("blocks")).arg("1000").current_dir(&folder).spawn();
    let running = program.as_mut().expect("blocks");
    // The program runs once the process's file is `blocks`.
    let exe = format!("/proc/{}/exe", running.id());
    while std::fs::read_link(&exe).expect("it runs")
        != folder.canonicalize().expect("a folder").join("blocks")
    {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let pid = running.id().to_string();
    // With the whole machine, another Go program may be named beside it: tests build some meanwhile.
    let [recorded, left] = ["are recorded: each of their steps", "--goroutines=all records them"];
    let cases: [(&[&str], bool, Option<&str>); 6] = [
        (&["--otlp", "0", "-a"], false, Some(left)),
        (&["--otlp", "0", "-p", &pid], true, Some(recorded)),
        (&["--otlp", "0", "-p", &pid, "--goroutines=none"], false, None),
        (&["--otlp", "0", "-a", "--goroutines"], true, Some(recorded)),
        (&["-a", "--goroutines=all"], true, Some(recorded)),
        (&["-p", &pid], false, None),
    ];
    for (options, is_seen, said) in cases {
        let always = ["record", "--no-calibration", "-d", "0.4"];
        let output = command(&folder, &[&always, options].concat()).output().expect("wakepath");
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{options:?}: {out}{err}");
        assert_eq!(err.contains("the goroutines of"), said.is_some(), "{options:?}: {err}");
        let is_named = |said| err.contains(said) && err.contains("/blocks");
        assert!(said.is_none_or(is_named), "{options:?}: {err}");
        let events = document(&folder, &["info"])["events"]["goroutine"].as_u64();
        assert_eq!(events.is_some_and(|events| events > 20), is_seen, "{options:?}: {events:?}");
        assert_eq!(events.is_none(), !is_seen, "{options:?}: {events:?}");
    }
    running.kill().expect("it runs");
    running.wait().expect("its end");
}
