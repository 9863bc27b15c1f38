//! Eight identical requests in one event loop, beside a ticker and other clients: each has the same answer, and the program's own figures.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use wakepath_harness::live::{Place, command, document, list, number, place, texts};

use crate::python::install;
use crate::{packages, plugin};

/// An answer in parts: its states (ms), and the requests that blocked it (ms).
#[derive(Debug)]
pub struct Parts {
    pub in_all: f64,
    /// Part of `unknown`: the kernel left task switches out, and the answer says so.
    pub unrecorded: f64,
    states: BTreeMap<String, f64>,
    blockers: BTreeMap<String, f64>,
}

impl Parts {
    pub fn state(&self, name: &str) -> f64 {
        self.states.get(name).copied().unwrap_or_default()
    }

    pub fn blocker(&self, name: &str) -> f64 {
        self.blockers.get(name).copied().unwrap_or_default()
    }
}

fn ms(value: &Value) -> f64 {
    number(value) as f64 / 1e6
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The answers for an operation's requests.
pub fn answers(folder: &Place, operation: &str) -> Vec<Parts> {
    let all = document(folder, &["requests", "--operation", operation]);
    let ids = list(&all["requests"]).iter().map(|one| text(&one["trace_id"]));
    let answer = |id: String| {
        let answer = document(folder, &["requests", "--request", &id]);
        let sum = |list_name: &str, key: &str| {
            let mut sums = BTreeMap::new();
            for one in list(&answer[list_name]) {
                *sums.entry(text(&one[key])).or_default() += ms(&one["total_ns"]);
            }
            sums
        };
        let (states, blockers): (BTreeMap<_, f64>, _) =
            (sum("states", "state"), sum("blocked_by", "operation"));
        let unrecorded = list(&answer["contributors"]).iter().filter(|one| one["code"] == "unrecorded");
        let unrecorded: f64 = unrecorded.map(|one| ms(&one["total_ns"])).sum();
        // A blocker's own switches may be missing too: its request is known all the same.
        let unrecorded = unrecorded.min(states.get("unknown").copied().unwrap_or_default());
        Parts { in_all: states.values().sum(), unrecorded, states, blockers }
    };
    ids.map(answer).collect()
}

/// Most answers show something: nearly all their switches were recorded.
#[track_caller]
pub fn assert_most_recorded(answers: &[Parts]) {
    let hidden = answers.iter().filter(|one| one.unrecorded > one.in_all * 0.1).count();
    assert!(hidden * 2 < answers.len(), "the kernel left out switches in {hidden}: {answers:?}");
}

/// A request by the program's own clock: its name, and times, ms.
pub struct Own {
    pub name: String,
    pub times: Vec<f64>,
}

/// A program's lines NAME TIME TIME...; its other lines do not count.
pub fn own_times(out: &str) -> Vec<Own> {
    let own = |line: &str| {
        let (name, times) = line.split_once(' ')?;
        let times = times.split(' ').map(|ns| Some(ns.parse::<u64>().ok()? as f64 / 1e6));
        Some(Own { name: name.to_owned(), times: times.collect::<Option<_>>()? })
    };
    out.lines().filter_map(own).collect()
}

/// By the program's own clock, the least and the most time for which `crunch` had the loop behind the due time of each `wait`: without and with its
/// span's own time, in which another program may take the CPU. The shortest `wait` first.
fn blocked(own: &[Own]) -> Vec<[f64; 2]> {
    let named = |name| own.iter().filter(move |one| one.name == name).map(|one| &one.times);
    let mut waits: Vec<_> = named("wait").collect();
    waits.sort_by(|one, other| (one[1] - one[0]).total_cmp(&(other[1] - other[0])));
    let behind = |wait: &&Vec<f64>| {
        let (due, ended) = (wait[0] + 200.0, wait[1]);
        [0, 2].map(|place| {
            let crunches = named("crunch").map(|times| (times[place], times[place + 1]));
            crunches.map(|(from, to)| (to.min(ended) - from.max(due)).max(0.0)).sum()
        })
    };
    waits.iter().map(behind).collect()
}

/// Records a program, with an argument or without. Returns what it printed too.
pub fn recorded(argument: &str, would_show: &str, program: impl Fn(&mut Command)) -> Option<(Place, String)> {
    let folder = place(would_show)?;
    let mut record = command(&folder, &["record", "--otlp", "0", "--"]);
    program(&mut record);
    record.arg(argument).env("OTEL_METRICS_EXPORTER", "none").env("OTEL_LOGS_EXPORTER", "none");
    record.env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
    let output = record.output().expect("wakepath");
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}{err}");
    Some((folder, out))
}

/// Each `wait` waited for its own timer of 200 ms; what ran behind the due time blocks it, and only with `busy` did `crunch`.
#[track_caller]
fn all_waited(folder: &Place, out: &str, busy: bool) {
    let mut waits = answers(folder, "wait");
    waits.sort_by(|one, other| one.in_all.total_cmp(&other.in_all));
    let blocked = blocked(&own_times(out));
    println!("blocked, by the program: {blocked:?}");
    assert_eq!((waits.len(), blocked.len()), (8, 8));
    // Else the test would show nothing.
    assert_eq!(blocked.iter().any(|[least, _]| *least > 20.0), busy);
    for wait in &waits {
        println!("busy {busy}: {wait:?}");
    }
    for wait in &waits {
        let timer = wait.state("timer");
        // 2 points; the loop's time-outs are whole milliseconds. A loop without a CPU between its look at the clock and the request's turn sets the timer
        // so much too early.
        let least = 196.0 - wait.state("runnable");
        assert!((least..=204.0).contains(&timer), "{wait:?}");
        // No part is undecided, and none is another client's, a tick's or a time-out's.
        assert!(wait.state("unknown") <= wait.in_all * 0.05, "{wait:?}");
        assert!(wait.state("network") + wait.blocker("ping") <= wait.in_all * 0.02, "{wait:?}");
    }
    for (wait, [least, most]) in waits.iter().zip(blocked) {
        let (told, points) = (wait.blocker("crunch"), wait.in_all * 0.02);
        // By the program's clock `crunch` also has the loop while it waits for a CPU.
        let least = least - wait.state("runnable");
        assert!(least - points <= told && told <= most + points, "{least} to {most}: {wait:?}");
    }
}

#[test]
fn live_root_with_python_eight_identical_requests_in_an_event_loop_have_one_answer() {
    let would_show = "eight requests in an event loop of Python have one answer";
    let Some(installed) = install(would_show, true) else { return };
    for argument in ["", "busy"] {
        let program = |record: &mut Command| {
            record.arg(installed.bin("opentelemetry-instrument")).arg(installed.bin("python"));
            record.arg(plugin("python/tests/eight.py").canonicalize().expect("the program"));
            record.env("PYTHONPATH", installed.site()).env("OTEL_TRACES_EXPORTER", "otlp_proto_http");
        };
        let Some((folder, out)) = recorded(argument, would_show, program) else { return };
        all_waited(&folder, &out, argument == "busy");
        // `hold` has the lock over its own timer of 200 ms, and `locked` waits for it from 50 ms on.
        let locked = answers(&folder, "locked");
        assert_eq!(locked.len(), 2);
        for one in locked {
            assert!((130.0..=165.0).contains(&one.blocker("hold")), "{one:?}");
        }
    }
}

#[test]
fn live_root_with_node_eight_identical_requests_in_an_event_loop_have_one_answer() {
    let would_show = "eight requests in an event loop of Node have one answer";
    let Some(node) = packages("node", would_show) else { return };
    let preload = plugin("node/wakepath-context.js").canonicalize().expect("the plug-in");
    for argument in ["", "busy"] {
        let program = |record: &mut Command| {
            record.arg("node").arg("--require").arg(&preload);
            record.arg(plugin("node/tests/eight.js").canonicalize().expect("the program"));
            record.env("NODE_PATH", node.join("node_modules"));
        };
        let Some((folder, out)) = recorded(argument, would_show, program) else { return };
        all_waited(&folder, &out, argument == "busy");
        // The pool's thread computes.
        let hashes = answers(&folder, "hash");
        assert_eq!(hashes.len(), 6);
        let computed = |one: &Parts| {
            let states = ["running", "runnable", "interrupted", "stolen"];
            states.iter().map(|state| one.state(state)).sum::<f64>()
        };
        for one in &hashes {
            assert!(computed(one) >= (one.in_all - one.unrecorded) * 0.98, "{one:?}");
        }
        assert_most_recorded(&hashes);
    }
}
