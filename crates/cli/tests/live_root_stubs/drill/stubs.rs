//! `wakepath drill --stubs`: code put into the process measures calls.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;
use wakepath_harness::live::{Place, command, document, list, number, program};

use super::{Drilled, alone, built, only_path};

/// All code that a process has mapped from files, by address.
fn code(pid: &str) -> BTreeMap<String, Vec<u8>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("memory");
    let hex = |text: &str| u64::from_str_radix(text, 16).expect("an address");
    let lines = maps.lines().filter(|line| line.contains(" r-xp ") && line.contains(" /"));
    let of_line = |line: &str| {
        let addresses = line.split_whitespace().next().expect("addresses");
        let (from, to) = addresses.split_once('-').expect("two");
        let mut bytes = vec![0; (hex(to) - hex(from)) as usize];
        memory.read_exact_at(&mut bytes, hex(from)).expect("it is mapped");
        (addresses.to_owned(), bytes)
    };
    lines.map(of_line).collect()
}

fn drill(folder: &Place, target: &str, pid: &str) -> Child {
    let options = ["--stubs", "--no-waits", "--json", "--start-ops", "400", "--decision-calls", "100"];
    let mut drill = command(folder, &[&["drill", target, "-p", pid], &options[..]].concat());
    drill.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("wakepath")
}

/// The answer's notes about stubs.
fn about_stubs(answer: &Value) -> Vec<&str> {
    list(&answer["notes"]).iter().filter_map(Value::as_str).filter(|note| note.contains(" stubs ")).collect()
}

#[test]
fn stubs_find_the_path_to_each_culprit_and_leave_no_trace_in_the_code() {
    let Some(folder) = alone("the functions that make calls slow are found by stubs") else { return };
    let target = format!("{}:serve", built(&folder));
    for (culprit, path, cause) in [
        ("compute", &["serve", "look_up", "fetch", "read_block"][..], "itself"),
        ("sleep", &["serve", "look_up", "fetch", "read_block", "nanosleep"], "itself"),
        ("itself", &["serve", "look_up", "fetch"], "itself"),
        // The jump in place of a call has a kernel probe, below a stub.
        ("tail", &["serve", "answer", "send_all"], "itself"),
        ("loop", &["serve", "look_up", "find"], "loop"),
    ] {
        let drilled = Drilled::start(&folder, &[culprit]);
        let before = code(&drilled.1);
        let answer = document(
            &folder,
            &["drill", &target, "-p", &drilled.1, "--start-ops", "400", "--stubs", "--no-waits"],
        );
        assert_eq!(before, code(&drilled.1), "{culprit}");
        let (found, why) = only_path(&answer);
        let is_there = found.starts_with(path) || culprit == "sleep" && found.starts_with(&path[..4]);
        assert!(is_there, "{culprit}: {answer}");
        assert!(culprit == "sleep" || found.len() == path.len(), "{culprit}: {answer}");
        assert_eq!(why["cause"], cause, "{culprit}: {answer}");
        let known = number(&why["ns"]) + super::stolen_at_the_end(&answer);
        assert!(known * 10 > number(&why["of_ns"]) * 9, "{culprit}: {answer}");
        assert!(!about_stubs(&answer).is_empty(), "{culprit}: {answer}");
        let blocked = number(&why["blocked_ns"]) * 10 > number(&why["ns"]) * 9;
        assert_eq!(blocked, culprit == "sleep", "{culprit}: {answer}");
        // Kernel probes: at f0, and at functions called by a jump or through a pointer.
        assert!(number(&answer["most_probed"]) <= 4, "{culprit}: {answer}");
    }
}

#[test]
fn a_process_lives_on_where_wakepath_is_killed_and_the_next_one_cleans_up() {
    let Some(folder) = alone("a process survives the end of wakepath amid its stubs") else { return };
    let kills: u64 = std::env::var("WAKEPATH_KILLS").map_or(12, |text| text.parse().expect("a number"));
    let mut drilled = Drilled::start(&folder, &["compute", "threads=3"]);
    let target = format!("{}:serve", built(&folder));
    let before = code(&drilled.1);
    let mut left = 0;
    for kill in 0..kills {
        let mut drill = drill(&folder, &target, &drilled.1);
        // Every second kill comes while stubs are there; the others at any time.
        while kill % 2 == 0 && code(&drilled.1) == before && drill.try_wait().expect("a child").is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(kill * 7919 % if kill % 2 == 0 { 400 } else { 3000 }));
        drill.kill().expect("it is there");
        drill.wait().expect("it ends");
        left += u64::from(code(&drilled.1) != before);
        assert!(drilled.0.try_wait().expect("a child").is_none(), "the process ended at kill {kill}");
    }
    assert!(left * 4 > kills, "stubs were left {left} times of {kills}");
    let last = document(
        &folder,
        &["drill", &target, "-p", &drilled.1, "--start-ops", "400", "--stubs", "--no-waits"],
    );
    assert_eq!(only_path(&last).0, ["serve", "look_up", "fetch", "read_block"], "{last}");
    assert_eq!(code(&drilled.1), before, "the code is as it was");
    assert!(drilled.0.try_wait().expect("a child").is_none());
}

/// A C++ program: one call in four throws from below, and one in ten computes for a long time below another function.
const THROWS: &str = r#"
    #include <cstdio>
    #include <unistd.h>
    #define KEPT extern "C" __attribute__((noinline, noipa))
    static volatile long sink;
    struct Cleans { ~Cleans() { sink = sink + 1; } };
    KEPT long fails(long n) { if (n % 4 == 0) throw n; return n + 1; }
    KEPT long passes(long n) { Cleans it; return fails(n) + 1; }
    KEPT long burn(long n) { for (long i = 0; i < n; i++) sink = sink + i; return n; }
    KEPT long work(long n) { return burn(n % 10 ? 10 : 2000000) + 1; }
    KEPT long serve(long n) {
        long got;
        try { got = passes(n); } catch (long it) { got = it == n ? n + 2 : -1; }
        if (got != n + 2) { printf("WRONG\n"); _exit(3); }
        return work(n) + got;
    }
    int main() {
        setvbuf(stdout, nullptr, _IOLBF, 0);
        printf("%d\n", getpid());
        for (long n = 0;; n++) { serve(n); usleep(100); }
    }"#;

#[test]
fn exceptions_pass_the_stubs_of_a_search() {
    let Some(folder) = alone("a program that throws is drilled into by stubs") else { return };
    let options = ["-x", "c++", "-O1", "-g", "-Wl,--no-as-needed,-lstdc++"];
    let built = program(&folder, "throws", THROWS, &options);
    let mut throws = Drilled::start_program(&built, &[]);
    let (target, before) = (format!("{built}:serve"), code(&throws.1));
    let asked = ["drill", &target, "-p", &throws.1, "--stubs", "--slow-probes", "--no-waits", "--json"];
    let output = command(&folder, &asked).output().expect("wakepath");
    let (after, ended) = (code(&throws.1), throws.0.try_wait().expect("a child"));
    throws.0.kill().expect("it lives");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), ended), (Some(0), None), "{said}");
    assert_eq!(before, after);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(only_path(&answer).0, ["serve", "work", "burn"], "{answer}");
    assert!(!about_stubs(&answer).is_empty(), "{answer}");
}
