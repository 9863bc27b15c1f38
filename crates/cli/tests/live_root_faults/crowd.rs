//! Ten thousand threads: counted rightly, and answered about in a time that a person waits.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::record;
use wakepath_harness::live::{Place, adds_up, list, number, place, program, run, skip};

const THREADS: u64 = 10_000;
/// A debug build beside other tests on a busy machine; a release build takes a tenth of it.
const PATIENCE: Duration = Duration::from_secs(20);

fn crowd(folder: &Path) -> String {
    program(folder, "crowd", include_str!("crowd.c"), &["-O1", "-pthread"])
}

/// A folder where a test may record; `None`, with a line that says so, where it may not or this machine does not allow
/// this number of threads.
fn crowded_place(would_show: &str) -> Option<Place> {
    let limit = |file: &str| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let limits = [
        limit("/proc/sys/kernel/threads-max"),
        limit("/proc/sys/kernel/pid_max"),
        // A thread's stack and its guard are two mappings.
        limit("/proc/sys/vm/max_map_count").map(|count| count / 2),
    ];
    let allowed = limits.into_iter().flatten().all(|limit| limit > THREADS + 2000);
    if !allowed {
        skip("this machine allows no 10,000 threads", would_show);
        return None;
    }
    place(would_show)
}

/// A verb's document, and how long it took.
fn timed(folder: &Path, arguments: &[&str]) -> Value {
    let since = Instant::now();
    let (printed, _) = run(folder, arguments, 0);
    let took = since.elapsed();
    assert!(took < PATIENCE, "{arguments:?} took {took:?}");
    println!("  wakepath {} took {} ms", arguments.join(" "), took.as_millis());
    serde_json::from_str(&printed).unwrap_or(Value::Null)
}

fn lost(document: &Value) -> bool {
    list(&document["losses"]).iter().any(|loss| loss["reported"] == true)
}

#[test]
fn ten_thousand_threads_that_come_and_go_are_counted() {
    let Some(folder) = crowded_place("10,000 threads are counted rightly") else { return };
    let program = crowd(&folder);
    let (printed, said) = record(&folder, &["--", &program, &THREADS.to_string(), "200"], 0);
    assert_eq!(printed, format!("held\n{THREADS}\n"), "all began");

    let info = timed(&folder, &["info", "--json"]);
    let pid = number(&info["command"]["pid"]).to_string();
    let of_crowd = timed(&folder, &["path", "--json", "--pid", &pid]);
    let threads = list(&of_crowd["threads"]);
    let count = threads.len() as u64;
    println!("  {count} threads, {} forks, losses: {}", info["events"]["fork"], lost(&info));
    if lost(&info) {
        assert!(said.contains("lost ") && !said.contains("lost 0 records"), "what was lost is said: {said}");
        assert!(count <= THREADS + 1);
    } else {
        assert_eq!(count, THREADS + 1, "each of them, and the first");
        assert!(info["events"]["fork"].as_u64() >= Some(THREADS));
        assert!(info["events"]["exit"].as_u64() > Some(THREADS));
    }
    // Half of them waited on the condition variable until all were there, and longer.
    let waited = |one: &&Value| {
        let ns = |key: &str| one[key].as_u64().unwrap_or(0);
        ns("undecided_ns") + ns("waiting_ns") > 190_000_000
    };
    let waited = threads.iter().filter(waited).count() as u64;
    assert!(lost(&info) || (THREADS / 2..=THREADS / 2 + 1).contains(&waited), "{waited} waited");

    let document = timed(&folder, &["path", "--json"]);
    adds_up(&document);
    timed(&folder, &["path", "--tree"]);
    timed(&folder, &["export", "--format", "perfetto", "-o", "exported"]);
}

#[test]
fn ten_thousand_threads_that_are_there_already_are_counted() {
    let Some(folder) = crowded_place("threads that were there before are counted") else { return };
    let mut crowd = Command::new(crowd(&folder))
        .args([&THREADS.to_string(), "6000"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the crowd");
    let mut told = BufReader::new(crowd.stdout.take().expect("a pipe"));
    let mut held = String::new();
    told.read_line(&mut held).expect("a line");
    assert_eq!(held, "held\n");
    let pid = crowd.id().to_string();
    let (said, _) = record(&folder, &["-p", &pid, "-d", "0.5"], 0);
    assert!(said.starts_with("crowd ("), "{said}");
    let document = timed(&folder, &["path", "--json"]);
    let threads = list(&document["threads"]).len() as u64;
    // Those that sleep have ended by then; the waiting half and the first thread are there.
    assert!(lost(&document) || threads == THREADS / 2 + 1, "{threads} threads");
    let waiting = number(&document["undecided_at_end"]);
    assert!(lost(&document) || waiting >= THREADS / 2, "{waiting} wait at the end");
    println!("  {threads} threads, {waiting} of them wait at the end, losses: {}", lost(&document));
    crowd.kill().expect("a signal");
    crowd.wait().expect("its end");
    let mut rest = String::new();
    told.read_to_string(&mut rest).expect("text");
}
