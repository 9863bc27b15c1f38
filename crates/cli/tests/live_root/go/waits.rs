//! Paths of a Go function's calls: those of the calling goroutines, with the goroutine that ended their waits.

use serde_json::Value;
use wakepath_harness::live::{document, list, number, record, run};

use crate::go::{blocks, build_file, go_place};

#[test]
fn a_call_waits_for_the_goroutine_that_made_its_own_ready_in_whichever_thread_it_returns() {
    waits_for_its_goroutine(&[]);
}

#[test]
fn so_it_does_where_each_probe_is_an_event_of_its_own_as_before_linux_6_6() {
    waits_for_its_goroutine(&["--single-probes"]);
}

fn waits_for_its_goroutine(options: &[&str]) {
    let Some((folder, go)) = go_place("the path of a call is that of its goroutine") else { return };
    let program = build_file(&go, &folder, "waits", &[]);
    let target = format!("{program}:main.serve");
    // The function's name must not need a sample from the program.
    let asked = ["--call", &target, "--slow-probes", "--goroutines", "--no-calibration", "--samples", "0"];
    let (out, err) = record(&folder, &[&asked, options, &["--", &program]].concat(), 0);
    assert!(!err.contains("a path follows a thread"), "{err}");
    let worker =
        out.lines().find_map(|line| line.strip_prefix("answered by ")).expect("its number").to_owned();
    let answer = document(&folder, &["path", "--call", "--slowest", "100"]);
    let explained = number(&answer["asked"]["explained"]);
    assert_eq!((number(&answer["moved"]), number(&answer["followed"])), (0, explained), "{answer}");
    assert_eq!((explained, &answer["of_goroutines"]), (100, &Value::Bool(true)), "{answer}");
    let first = &list(&answer["goroutine_waits"])[0];
    assert_eq!((&first["state"], &first["reason"]), (&"parked".into(), &"chan receive".into()), "{answer}");
    let (total, ender) = (number(&first["total_ns"]), &first["ended_by"]);
    assert_eq!(number(&ender["goroutine"]).to_string(), worker, "{answer}");
    assert_eq!(
        (&ender["function"], &ender["request"]),
        (&"main.main.func1".into(), &Value::Null),
        "{answer}"
    );
    assert!(total > 100 * 3_500_000 && number(&ender["total_ns"]) * 10 > total * 9, "{answer}");
    // The answering goroutine slept.
    let timers = list(&answer["causes"]).iter().filter(|cause| {
        let is_timer = |kind: &Value| kind == "timer";
        is_timer(&cause["type"]) || list(&cause["parts"]).iter().any(|part| is_timer(&part["kind"]))
    });
    let timers: f64 = timers.filter_map(|cause| cause["asked_ns"].as_f64()).sum();
    let mean = number(&answer["asked"]["mean_ns"]) as f64;
    assert!(timers > mean * 0.8, "{timers} of {mean}: {answer}");
    let (text, _) = run(&folder, &["path", "--call", "--slowest", "100"], 0);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&format!("ended by goroutine {worker} (main.main.func1), in ")), "{text}");
    assert!(!text.contains("are those of threads"), "{text}");
}

#[test]
fn a_call_that_waits_for_a_lock_names_the_request_of_the_goroutine_that_held_it() {
    let Some((folder, go)) = go_place("the request is named that a call of another one waited for") else {
        return;
    };
    blocks::build(&go, &folder, &[]);
    let target = "./blocks:main.acquire";
    let asked =
        ["--call", target, "--slow-probes", "--goroutines", "--no-calibration", "--", "./blocks", "1"];
    record(&folder, &asked, 0);
    let log = std::fs::read_to_string(folder.join("log")).expect("its log");
    let waits = blocks::waits(&log);
    let holder =
        waits.iter().find(|wait| wait.what == "sync.Mutex.Lock").and_then(|wait| wait.other.as_deref());
    let answer = document(&folder, &["path", "wakepath.rec", "spans.json", "--call"]);
    let first = &list(&answer["goroutine_waits"])[0];
    let ender = &first["ended_by"];
    assert_eq!(
        (&first["reason"], &ender["function"]),
        (&"sync.Mutex.Lock".into(), &"main.mutex.func1".into()),
        "{answer}"
    );
    let request = &ender["request"];
    assert_eq!(request["trace_id"].as_str(), holder, "{answer}");
    assert_eq!((&request["service"], &request["operation"]), (&"blocks".into(), &"holds".into()), "{answer}");
    assert_eq!(request["total_ns"], ender["total_ns"], "{answer}");
    // Without spans the same goroutine is named.
    let without = document(&folder, &["path", "--call"]);
    let other = &list(&without["goroutine_waits"])[0]["ended_by"];
    assert_eq!((&other["goroutine"], &other["request"]), (&ender["goroutine"], &Value::Null), "{without}");
}
