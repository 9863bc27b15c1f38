//! Requests served by goroutines, by a program's own execution trace: the same truth as by probes.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use wakepath_harness::live::{Beside, command, document, run, texts};

use crate::go::blocks::{Allowed, build, check, waits};
use crate::go::go_place;

/// The rounds, four requests each.
const ROUNDS: usize = 4;

/// A free address on this host.
fn free() -> String {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").to_string()
}

/// Starts the program: it begins some seconds after its trace.
fn start(folder: &Path, address: &str, processors: &str) -> Beside {
    let mut program = Command::new(folder.join("blocks"));
    program.current_dir(folder).args([&ROUNDS.to_string(), "0", address]).env("GOMAXPROCS", processors);
    let program = Beside(program.spawn().expect("blocks"));
    while TcpStream::connect(address).is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
    program
}

/// Records the program until it ends, which is when its trace does.
fn record(folder: &Path, address: &str, program: &Beside) -> String {
    let pid = program.0.id().to_string();
    let arguments = ["record", "--go-trace", address, "--no-calibration", "-d", "8", "-p", &pid];
    let (out, err) = texts(&command(folder, &arguments).output().expect("wakepath"));
    assert!(
        err.contains("of Go's execution trace came from") && !err.contains("warning: the execution"),
        "{out}{err}"
    );
    assert!(!out.contains("damaged recording"), "{out}");
    err
}

fn states_and_blockers_are_those_of_the_log(options: &[&str], processors: &str) {
    let Some((folder, go)) = go_place("an execution trace shows which request blocked which") else { return };
    build(&go, &folder, options);
    let address = free();
    let program = start(&folder, &address, processors);
    let said = record(&folder, &address, &program);
    assert!(
        said.contains("the goroutine of each span of") && !said.contains("each of their steps"),
        "{said}"
    );
    let log = fs::read_to_string(folder.join("log")).expect("its log");
    let waits = waits(&log);
    assert_eq!(waits.len(), 4 * ROUNDS, "{log}");
    for waited in &waits {
        let question = ["requests", "wakepath.rec", "spans.json", "--request", &waited.trace];
        let allowed = Allowed { unknown_blocker: false, partly_known_blocker: false };
        check(&document(&folder, &question), waited, allowed);
    }
    // Only probes at the beginnings of spans wrote records, also in another test's program: each step would be thousands.
    let events = document(&folder, &["info"])["events"]["goroutine"].as_u64();
    let spans = 6 * ROUNDS as u64;
    assert!(events.is_some_and(|events| (spans..10 * spans).contains(&events)), "{events:?}");
    a_trace_of_another_run_is_left_out(&folder, &go, &waits[0].trace);
}

/// Puts another program's trace in place of the recording's own.
fn a_trace_of_another_run_is_left_out(folder: &Path, go: &Path, trace: &str) {
    let own = folder.join("wakepath.rec/go_trace_0");
    fs::rename(&own, folder.join("own")).expect("a trace");
    let other = folder.join("other");
    fs::create_dir(&other).expect("a folder");
    build(go, &other, &[]);
    let address = free();
    let program = start(&other, &address, "2");
    record(&other, &address, &program);
    fs::copy(other.join("wakepath.rec/go_trace_0"), &own).expect("room");
    let question = ["requests", "wakepath.rec", "spans.json", "--request", trace];
    let answer = document(folder, &question);
    assert_eq!(answer["request"]["join"], "none", "{answer}");
    let (text, _) = run(folder, &question, 0);
    assert!(text.contains("go_trace_0") && text.contains("no goroutine is known from it"), "{text}");
}

#[test]
fn on_one_thread() {
    states_and_blockers_are_those_of_the_log(&[], "1");
}

#[test]
fn on_two_threads_and_without_debug_information() {
    states_and_blockers_are_those_of_the_log(&["-ldflags=-w"], "2");
}

/// The status with which the program answers a question for its trace.
fn status(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the program");
    stream.write_all(b"GET /debug/pprof/trace?seconds=0.01 HTTP/1.0\r\n\r\n").expect("a question");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).split(' ').nth(1).expect("a status").to_owned()
}

#[test]
fn a_killed_recorder_leaves_no_trace_running_in_the_program() {
    let Some((folder, go)) = go_place("a killed recorder does not slow a Go program down for ever") else {
        return;
    };
    build(&go, &folder, &[]);
    let address = free();
    let program = start(&folder, &address, "2");
    let pid = program.0.id().to_string();
    let asked = ["record", "--go-trace", &address, "--no-calibration", "-d", "60", "-p", &pid];
    let mut recorder = Beside(command(&folder, &asked).spawn().expect("wakepath"));
    let within = |is_so: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(5), "not within 5 s");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // It is made behind the trace's beginning.
    let file = folder.join("wakepath.rec/go_trace_0");
    within(&|| file.exists());
    assert_eq!(status(&address), "500", "a program has a single trace at a time");
    recorder.0.kill().and_then(|()| recorder.0.wait()).expect("it ran");
    within(&|| status(&address) == "200");
}

#[test]
fn a_program_that_gives_no_trace_ends_the_recording_before_it_begins() {
    let Some((folder, _)) = go_place("a missing trace is said at once") else { return };
    let address = free();
    let asked = ["record", "--go-trace", &address, "--no-calibration", "-d", "1", "-a"];
    let (_, said) = run(&folder, &asked, 2);
    assert!(
        said.contains("gives no execution trace: cannot connect") && said.contains("net/http/pprof"),
        "{said}"
    );
    assert!(!folder.join("wakepath.rec").exists());
    let (_, said) = run(&folder, &["record", "--go-trace", "https://localhost:1", "-a"], 2);
    assert!(said.contains("only http://"), "{said}");
    // A command's program may start late, or never.
    let (_, said) =
        run(&folder, &["record", "--go-trace", &address, "--no-calibration", "--", "sleep", "0.1"], 0);
    assert!(said.contains("missing: no goroutine is known: it had not answered"), "{said}");
}
