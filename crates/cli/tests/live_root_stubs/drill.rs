//! `wakepath drill` on a program that knows which function makes its slow calls slow.

mod budget;
mod callers;
mod chosen;
mod hand_over;
mod jumps;
mod languages;
mod lines;
mod peaks;
mod phases;
mod steal;
mod stubs;
mod targets;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use wakepath_harness::live::{
    Place, command, document, document_among, first_byte, list, number, place, program, run, wakepath,
};

/// `push %rbp`, the first instruction of each function.
const PUSH: u8 = 0x55;

/// The program, with debug information.
fn built(folder: &Path) -> String {
    let there = folder.join("drilled");
    if there.exists() {
        return there.to_str().expect("a path").to_owned();
    }
    let options = ["-O1", "-foptimize-sibling-calls", "-g", "-pthread"];
    program(folder, "drilled", include_str!("../../../../lab/workloads/drilled.c"), &options)
}

/// A program with this C++ source, compiled into a folder.
fn program_cxx(folder: &Path, name: &str, source: &str) -> String {
    program(folder, name, source, &["-x", "c++", "-O2", "-g", "-Wl,--no-as-needed,-lstdc++"])
}

/// A place for a single test in this file: the programs run before all others, and a program that shares its CPU with
/// another is slow for this reason.
fn alone(would_show: &str) -> Option<Alone> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Some(Alone(place(would_show)?, guard))
}

struct Alone(Place, #[expect(dead_code, reason = "held until the test ends")] MutexGuard<'static, ()>);

impl std::ops::Deref for Alone {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.0
    }
}

/// A running `drilled`; it ends when dropped.
struct Drilled(Child, String);

impl Drilled {
    fn start(folder: &Place, arguments: &[&str]) -> Self {
        Self::start_program(&built(folder), arguments)
    }

    fn start_program(program: &str, arguments: &[&str]) -> Self {
        // Before all ordinary threads: beside other tests it would wait longer for a CPU than it computes. With the tests killed, it would have
        // the machine.
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "chrt", "-f", "10", program])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("drilled");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("its number");
        Self(child, line.split_whitespace().next().expect("its number").to_owned())
    }
}

impl Drop for Drilled {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The answer about slow calls of `serve`.
fn answer(folder: &Place, arguments: &[&str]) -> Value {
    let drilled = Drilled::start(folder, arguments);
    let target = format!("{}:serve", built(folder));
    document(folder, &["drill", &target, "-p", &drilled.1, "--start-ops", "400"])
}

fn number_of(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// The answer's only path, and the cause at its end.
fn only_path(answer: &Value) -> (Vec<&str>, &Value) {
    let ([path], [cause]) = (list(&answer["root_causes"]), list(&answer["causes"])) else {
        panic!("{answer}")
    };
    (list(path).iter().filter_map(Value::as_str).collect(), cause)
}

/// The time that the hypervisor took in a call, at the last level, ns.
fn stolen_at_the_end(answer: &Value) -> u64 {
    let last = list(&answer["decisions"]).last().expect("a decision");
    let stolen = list(&last["contributors"]).iter().filter(|one| one["of"] == "stolen");
    stolen.map(|one| number(&one["mean_ns"])).sum()
}

#[test]
fn the_path_to_each_culprit_is_found() {
    let Some(folder) = alone("the functions that make calls slow are found") else { return };
    for (culprit, path, cause) in [
        ("compute", &["serve", "look_up", "fetch", "read_block"][..], "itself"),
        ("sleep", &["serve", "look_up", "fetch", "read_block", "nanosleep"], "itself"),
        ("itself", &["serve", "look_up", "fetch"], "itself"),
        ("tail", &["serve", "answer", "send_all"], "itself"),
        ("jump", &["serve", "resend", "send_again"], "itself"),
    ] {
        let answer = answer(&folder, &[culprit]);
        let (found, why) = only_path(&answer);
        // The C library's own functions below nanosleep have other names in its other versions.
        assert!(
            found.starts_with(path) || culprit == "sleep" && found.starts_with(&path[..4]),
            "{culprit}: {answer}"
        );
        assert!(culprit == "sleep" || found.len() == path.len(), "{culprit}: {answer}");
        assert_eq!(why["cause"], cause, "{culprit}: {answer}");
        assert_eq!(answer["status"], "root cause found", "{culprit}: {answer}");
        assert_eq!(list(&why["doubts"]).len(), 0, "{culprit}: {answer}");
        let cause = why;
        // The function computes, and the hypervisor may take the CPU from it.
        let known = number(&cause["ns"]) + stolen_at_the_end(&answer);
        assert!(known * 10 > number(&cause["of_ns"]) * 9, "{culprit}: {answer}");
        let blocked = number(&cause["blocked_ns"]) * 10 > number(&cause["ns"]) * 9;
        assert_eq!(blocked, culprit == "sleep", "{culprit}: {answer}");
    }
}

#[test]
fn a_callee_that_was_not_chosen_loses_its_probes() {
    let Some(folder) = alone("only the path and the callees of its end have probes") else { return };
    let options = ["-O1", "-g", "-pthread"];
    let built = program(&folder, "asked", include_str!("../../../../lab/workloads/asked.c"), &options);
    let mut asked = Drilled::start_program(&built, &[]);
    // In each call, one function on each of 8 levels calls four functions on the next, and the first of the last four
    // computes.
    writeln!(asked.0.stdin.as_mut().expect("a pipe"), "all tree4 200000 100000").expect("it reads");
    let target = format!("{built}:tree4");
    let answer = document(&folder, &["drill", &target, "-p", &asked.1, "--start-ops", "400"]);
    asked.0.kill().expect("it runs");
    let below = (1..=8).map(|level| format!("t4_{level}_0"));
    let planted: Vec<String> = ["tree4".to_owned()].into_iter().chain(below).collect();
    assert_eq!(only_path(&answer).0, planted, "{answer}");
    // At the end: tree4, the seven chosen functions, and the last level's four.
    assert_eq!(answer["most_probed"], 12, "{answer}");
}

#[test]
fn a_loop_is_told_from_one_long_call_and_a_lock_is_a_wait() {
    let Some(folder) = alone("loops and locks are found") else { return };
    let answer_of_loop = answer(&folder, &["loop"]);
    let (path, cause) = only_path(&answer_of_loop);
    assert_eq!(path, ["serve", "look_up", "find"], "{answer_of_loop}");
    assert_eq!(cause["cause"], "loop", "{answer_of_loop}");
    assert_eq!((&cause["callee"], number(&cause["times"])), (&Value::from("compare"), 20_000));
    let answer_of_lock = answer(&folder, &["lock"]);
    let (path, cause) = only_path(&answer_of_lock);
    assert!(path.starts_with(&["serve", "look_up", "fetch", "unpack"]), "{answer_of_lock}");
    assert!(number(&cause["blocked_ns"]) > 2_000_000, "{answer_of_lock}");
    // The path of this wait: the thread with the lock, which slept.
    let waits = &answer_of_lock["explained_by"];
    let first = &list(&waits["causes"])[0];
    assert_eq!(first["what"], "waiting for a lock that drilled held", "{waits}");
    assert!(number_of(&first["asked_ns"]) > 0.8 * number_of(&waits["asked"]["mean_ns"]), "{waits}");
    let holder = &list(&first["parts"])[0];
    assert_eq!(holder["kind"], "timer", "{waits}");
}

#[test]
fn a_peak_that_becomes_rare_meanwhile_is_said() {
    let Some(folder) = alone("a change of the latencies is noticed") else { return };
    let program = built(&folder);
    let target = format!("{program}:serve");
    for is_rare in [true, false] {
        let mut drilled = Drilled::start(&folder, &["itself"]);
        // Each of the three levels takes a second.
        let options = ["--start-ops", "400", "--decision-calls", "200", "--no-waits", "--json"];
        let mut drill = command(&folder, &[&["drill", &target, "-p", &drilled.1], &options[..]].concat());
        let mut drill = drill.stdout(Stdio::piped()).spawn().expect("wakepath");
        let pid = drilled.1.parse().expect("a number");
        while first_byte(pid, &program, "parse") == PUSH && drill.try_wait().expect("it runs").is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        // The peak is chosen: functions below are probed.
        if is_rare {
            drilled.0.stdin.as_mut().expect("a pipe").write_all(b"r").expect("it reads");
        }
        let mut text = String::new();
        drill.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
        assert!(drill.wait().expect("it ends").success(), "{text}");
        let answer: Value = serde_json::from_str(&text).expect("a document");
        let (path, cause) = only_path(&answer);
        assert_eq!(path, ["serve", "look_up", "fetch"], "{answer}");
        assert_eq!(list(&cause["doubts"]).contains(&Value::from("drift")), is_rare, "{answer}");
    }
}

#[test]
fn calls_that_only_their_probes_make_long_are_no_loop() {
    let Some(folder) = alone("cheap calls are no loop") else { return };
    let slow = answer(&folder, &["cheap"]);
    let (path, cause) = only_path(&slow);
    assert_eq!(path, ["serve", "look_up", "fetch"], "{slow}");
    assert_ne!(cause["cause"], "loop", "{slow}");
    let note = &list(&slow["notes"])
        .iter()
        .any(|note| note.as_str().is_some_and(|note| note.contains("compare 1000 times")));
    assert!(note, "{slow}");
    // The usual calls take about as long as one probed call.
    let drilled = Drilled::start(&folder, &["itself"]);
    let target = format!("{}:serve", built(&folder));
    let usual = document(
        &folder,
        &["drill", &target, "-p", &drilled.1, "--start-ops", "400", "--peak", "1", "-d", "5s"],
    );
    assert!(list(&usual["causes"]).iter().all(|cause| cause["cause"] != "loop"), "{usual}");
    // If the probes' time matters, a way without them is named, and nowhere else.
    for answer in [&slow, &usual] {
        let mut doubts = list(&answer["causes"]).iter().flat_map(|cause| list(&cause["doubts"]));
        let depends = doubts.any(|doubt| doubt == "probe cost" || doubt == "peak shift");
        let is_named = answer["notes"].to_string().contains("--stubs puts code into the process");
        assert_eq!(is_named, depends, "{answer}");
    }
}

#[test]
fn no_other_process_has_a_probe_and_the_program_is_as_before_when_the_answer_is_there() {
    let Some(folder) = alone("a drill-down leaves no probe") else { return };
    let drilled = Drilled::start(&folder, &["compute"]);
    let program = built(&folder);
    let target = format!("{program}:serve");
    let other = Drilled::start(&folder, &["compute"]);
    // A push too, of a register that the compiler chooses.
    let first = first_byte(other.1.parse().expect("a number"), &program, "serve");
    let mut drill = command(&folder, &["drill", &target, "-p", &drilled.1, "--start-ops", "200"]);
    let mut drill = drill.stdout(Stdio::piped()).spawn().expect("wakepath");
    let byte_of =
        |drilled: &Drilled, function| first_byte(drilled.1.parse().expect("a number"), &program, function);
    let mut was_probed = false;
    while drill.try_wait().expect("it runs").is_none() {
        was_probed |= byte_of(&drilled, "serve") != first;
        assert_eq!(byte_of(&other, "serve"), first, "a process that is not asked about has no probe");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(was_probed);
    let output = drill.wait_with_output().expect("its output");
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("└─ read_block  called at drilled.c:"), "{out}");
    for function in ["serve", "look_up", "fetch", "read_block", "parse"] {
        assert_eq!(byte_of(&drilled, function), byte_of(&other, function), "{function} begins as it did");
    }
}

#[test]
fn a_command_is_drilled_into_and_goes_on() {
    let Some(folder) = alone("a command is drilled into") else { return };
    let program = built(&folder);
    let target = format!("{program}:serve");
    // The program ends with its input, two seconds after its start; the drill-down takes less.
    let line = format!(
        "(sleep 4) | {} drill {target} --start-ops 200 --json -- chrt -f 10 {program} itself",
        *wakepath_harness::live::WAKEPATH
    );
    let output = Command::new("sh").args(["-c", &line]).current_dir(&*folder).output().expect("a shell");
    let printed = String::from_utf8_lossy(&output.stdout);
    let (answer, own) = document_among(&printed);
    assert_eq!(only_path(&answer).0, ["serve", "look_up", "fetch"], "{answer}");
    // Its number, and the counts printed at its end.
    assert_eq!(own.len(), 2, "{own:?}");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_saved_search_goes_on_in_another_process_where_it_stopped() {
    let Some(folder) = alone("a search goes on") else { return };
    let target = format!("{}:serve", built(&folder));
    let first = {
        let drilled = Drilled::start(&folder, &["itself"]);
        let options = ["--start-ops", "400", "--max-depth", "1", "--save", "search"];
        document(&folder, &[&["drill", &target, "-p", &drilled.1], &options[..]].concat())
    };
    assert_eq!(first["status"], "maximum depth reached", "{first}");
    assert_eq!(only_path(&first).0, ["serve", "look_up"], "{first}");
    // Another address space, and the same answer for the decided part.
    let go_on = |culprit: &str, more: &[&str]| {
        let drilled = Drilled::start(&folder, &[culprit]);
        let words = ["drill", "--resume", "search", "-p", &drilled.1, "--start-ops", "400", "--explain"];
        document(&folder, &[&words[..], more].concat())
    };
    let second = go_on("itself", &["--save", "search"]);
    assert_eq!(only_path(&second).0, ["serve", "look_up", "fetch"], "{second}");
    assert_eq!(second["status"], "root cause found", "{second}");
    // The machine may have become faster or slower since the other process.
    assert!(list(&only_path(&second).1["doubts"]).iter().all(|doubt| doubt == "drift"), "{second}");
    let decided = |answer: &Value| list(&answer["decisions"]).len();
    assert!(decided(&second) > decided(&first), "{second}");
    assert_eq!(second["decisions"][0], first["decisions"][0], "it is not decided again");
    // A finished search answers at once.
    let third = go_on("itself", &[]);
    assert_eq!(third["decisions"], second["decisions"], "{third}");
    assert_eq!(third["root_causes"], second["root_causes"], "{third}");
    // The search includes the fact that these calls are too many for their probes.
    let of_loop = {
        let drilled = Drilled::start(&folder, &["loop"]);
        document(&folder, &["drill", &target, "-p", &drilled.1, "--start-ops", "400", "--save", "search"])
    };
    assert_eq!(only_path(&of_loop).1["cause"], "loop", "{of_loop}");
    let again = go_on("loop", &[]);
    assert_eq!(again["root_causes"], of_loop["root_causes"], "{again}");
    assert_eq!(only_path(&again).1["cause"], "loop", "{again}");
    // Other code, a missing peak, and a file without a search.
    let other = program(
        &folder,
        "other",
        include_str!("../../../../lab/workloads/drilled.c"),
        &["-O2", "-g", "-pthread"],
    );
    let drilled = Drilled::start_program(&other, &["itself"]);
    let other = format!("{other}:serve");
    let (_, err) =
        run(&folder, &["drill", &other, "--resume", "search", "-p", &drilled.1, "--start-ops", "100"], 3);
    assert!(err.contains("the process runs other code") && err.contains("begins a new search"), "{err}");
    std::fs::write(folder.join("broken"), "{}").expect("a file");
    let (_, err) = run(&folder, &["drill", "--resume", "broken", "-p", &drilled.1], 3);
    assert!(err.contains("holds no saved search"), "{err}");
}

#[test]
fn bad_questions_say_what_is_wrong() {
    let Some(folder) = alone("a drill-down refuses bad questions") else { return };
    let drilled = Drilled::start(&folder, &["compute"]);
    let program = built(&folder);
    let pid = &drilled.1;
    std::fs::write(folder.join("manual"), "mode = manual\n").expect("a file");
    std::fs::write(folder.join("peak"), "start_peak = 9\n").expect("a file");
    for (target, pid, more, says) in [
        (format!("{program}:serve"), pid.as_str(), &["--config", "manual"][..], "decides by itself"),
        (format!("{program}:serve"), pid, &["--config", "peak"], "there is no peak 9"),
        (format!("{program}:serve"), "4194303", &[][..], "there is no process 4194303"),
        (format!("{program}:serv"), pid, &[], "similar"),
        (String::from("syscall:read"), pid, &[], "is not a function"),
        (format!("{program}:se*"), pid, &[], "matches 3 functions"),
        (format!("{program}:serve"), pid, &["--peak", "9"], "there is no peak 9"),
        (format!("{program}:serve"), pid, &["--max-depth", "0"], "max_depth"),
        (format!("{program}:main"), pid, &["-d", "1s"], "was not called"),
    ] {
        let (out, err) =
            run(&folder, &[&["drill", &target, "-p", pid, "--start-ops", "100"], more].concat(), 2);
        assert!(err.contains(says) && out.is_empty(), "{target} {more:?}: {out}{err}");
    }
}
