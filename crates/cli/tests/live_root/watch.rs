//! `wakepath watch` on a program that reports when its calls become slow.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use wakepath_harness::live::{Place, command, document, list, number, place, program, run, texts};

/// The longest time until a report: two pieces of a slow function take some seconds, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A place for a single test in this file: they measure time.
fn alone(would_show: &str) -> Option<(Place, MutexGuard<'static, ()>)> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    Some((place(would_show)?, guard))
}

/// The running program; it ends when dropped.
struct Program(Child, String);

impl Program {
    fn start(folder: &Path) -> Self {
        let built = program(folder, "watched", include_str!("watch/watched.c"), &["-O1", "-g", "-pthread"]);
        let child =
            Command::new(built).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let pid = child.id().to_string();
        Self(child, pid)
    }

    /// Makes the program's calls this kind. Returns the time of the change, ns since 1970.
    fn becomes(&mut self, letter: char) -> u64 {
        writeln!(self.0.stdin.as_mut().expect("a pipe"), "{letter}").expect("it reads");
        let mut time = String::new();
        let out = self.0.stdout.as_mut().expect("a pipe");
        // Reads one line at a time, so that no part of the next line is read.
        BufReader::with_capacity(1, out).read_line(&mut time).expect("its time");
        time.trim().parse().expect("a number")
    }

    fn end(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// A running `wakepath watch --json`, its documents, and the documents not yet asked for.
struct Watch(Child, Receiver<Value>, Vec<Value>);

impl Watch {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut watch = command(folder, &[&["watch", "--json"], arguments].concat());
        let mut child = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("wakepath");
        let (sender, documents) = channel();
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in out.lines() {
                let line = line.expect("text");
                if sender.send(serde_json::from_str(&line).expect("JSON")).is_err() {
                    break;
                }
            }
        });
        Self(child, documents, Vec::new())
    }

    /// The next document about this event and target.
    #[track_caller]
    fn next(&mut self, event: &str, target: &str) -> Value {
        let until = Instant::now() + PATIENCE;
        let is_wanted = |document: &Value| {
            document["event"] == event && (target.is_empty() || document["target"] == target)
        };
        loop {
            if let Some(at) = self.2.iter().position(is_wanted) {
                return self.2.remove(at);
            }
            match self.1.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(document) => self.2.push(document),
                Err(RecvTimeoutError::Timeout) => panic!("no {event} of {target}: {:#?}", self.2),
                Err(RecvTimeoutError::Disconnected) => {
                    let mut said = String::new();
                    let _ = self.0.stderr.as_mut().expect("a pipe").read_to_string(&mut said);
                    panic!("ended without {event} of {target}: {:#?} {said}", self.2)
                }
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// The event's beginning, ns since 1970.
fn began(document: &Value) -> u64 {
    number(&document["origin_realtime_ns"]) + number(&document["from_ns"])
}

/// At most two slices of a second apart.
#[track_caller]
fn is_near(document: &Value, truth: u64) {
    let apart = began(document).abs_diff(truth);
    assert!(apart <= 2_000_000_000, "{apart} ns from the truth: {document}");
}

#[test]
fn a_function_that_becomes_slow_and_normal_again_is_noticed_and_no_other_target() {
    let Some((folder, _alone)) = alone("a change is noticed, with its time") else { return };
    let mut watched = Program::start(&folder);
    let pid = watched.1.clone();
    let (handle, steady) = ("./watched:handle", "./watched:steady");
    let mut watch = Watch::start(&folder, &[handle, steady, "-p", &pid, "--every", "1s", "-o", "kept"]);
    // The same as text, with a directory that cannot be made.
    let mut beside =
        command(&folder, &["watch", handle, "-p", &pid, "--every", "1s", "-o", "/proc/none/kept"]);
    let beside = beside.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("wakepath");
    watch.next("usual", handle);
    watch.next("usual", steady);
    std::thread::sleep(Duration::from_secs(3));

    let truth = watched.becomes('s');
    let changed = watch.next("changed", handle);
    is_near(&changed, truth);
    assert!(changed["as_it_was"].is_null(), "{changed}");
    assert_eq!((&changed["direction"], &changed["alarm"]), (&"slower".into(), &"rings".into()), "{changed}");
    let mean = |of: &Value| number(&of["sum"]) / number(&of["count"]);
    assert!(mean(&changed["before"]) < 1_000_000 && mean(&changed["after"]) > 1_900_000, "{changed}");
    let [before, after] = ["before", "after"].map(|side| changed["kept"][side].as_str().expect("a file"));
    assert!(before.starts_with("kept/") && before.ends_with("Z-watched:handle.before.json"), "{before}");
    let compared = document(&folder, &["latency", "--compare", before, after]);
    assert_eq!(compared["targets"][0]["differ"], true, "{compared}");
    assert_eq!(compared["targets"][0]["doubtful"], false, "{compared}");

    let truth = watched.becomes('u');
    let back = watch.next("changed", handle);
    is_near(&back, truth);
    assert_eq!((&back["direction"], &back["alarm"]), (&"faster".into(), &"rings".into()), "{back}");
    // The calls were like this from the beginning until they became slow.
    assert_eq!(back["as_it_was"]["to_ns"], changed["from_ns"], "{back}");

    std::thread::sleep(Duration::from_secs(3));
    let truth = watched.becomes('b');
    let stopped = watch.next("stopped", handle);
    is_near(&stopped, truth);
    assert_eq!(stopped["open"], 1, "{stopped}");
    let truth = watched.becomes('u');
    let again = watch.next("back", handle);
    let end = number(&again["origin_realtime_ns"]) + number(&again["to_ns"]);
    assert!(end.abs_diff(truth) <= 2_000_000_000, "{again}");

    watched.end();
    let end = watch.next("end", "");
    assert_eq!(end["summary"]["reason"], "ended", "{end}");
    assert_eq!(watch.0.wait().expect("it ends").code(), Some(0));
    let targets = list(&end["summary"]["targets"]);
    assert_eq!((&targets[0]["changed"], &targets[0]["stopped"]), (&2.into(), &1.into()), "{end}");
    assert_eq!((&targets[1]["changed"], &targets[1]["stopped"]), (&0.into(), &0.into()), "{end}");
    assert_eq!(targets[1]["now"]["target"], steady, "{end}");

    let (said, complained) = texts(&beside.wait_with_output().expect("wakepath"));
    // Lines are wrapped anywhere.
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("./watched:handle is slower since "), "{said}{complained}");
    assert!(said.contains("./watched:handle is faster since "), "{said}");
    // A change has the same second in its line and in the summary.
    let (lines, summary) = said.split_once(" watched for ").expect("a summary");
    for verb in ["slower", "faster"] {
        let line = lines.split_once(&format!(" is {verb} since ")).expect("a line").1;
        let second = line.split(": ").next().expect("its second");
        assert!(summary.contains(&format!(" {second} {verb}: ")), "{second}: {summary}");
    }
    assert!(said.contains(&format!("next: wakepath drill ./watched:handle -p {pid} --peak ")), "{said}");
    assert!(!said.contains("--compare") && said.contains("as it was from "), "{said}");
    assert!(said.contains("; 1 is open") && said.contains("watched for "), "{said}");
    assert!(
        complained.contains("warning: cannot keep the distributions in `/proc/none/kept`"),
        "{complained}"
    );
}

#[test]
fn a_drill_down_after_a_change_names_the_function_below() {
    let Some((folder, _alone)) = alone("a change is explained") else { return };
    let mut watched = Program::start(&folder);
    let pid = watched.1.clone();
    let handle = "./watched:handle";
    let arguments = [handle, "-p", &pid, "--every", "1s", "-o", "kept", "--drill", "--drill-time", "15s"];
    let mut watch = Watch::start(&folder, &arguments);
    watch.next("usual", handle);
    std::thread::sleep(Duration::from_secs(2));
    watched.becomes('s');
    watch.next("changed", handle);
    let drilled = watch.next("drilled", handle);
    let path = &drilled["drilled"]["root_causes"][0];
    assert_eq!((&path[0], &path[1]), (&"handle".into(), &"slow_part".into()), "{drilled}");
    std::thread::sleep(Duration::from_secs(3));
    watched.end();
    let end = watch.next("end", "");
    assert_eq!(end["summary"]["left_out"], 1, "{end}");
    assert_eq!(end["summary"]["targets"][0]["changed"], 1, "the probes made no change: {end}");
}

#[test]
fn a_command_has_its_output_and_its_exit_code() {
    let Some((folder, _alone)) = alone("a command is watched") else { return };
    let (out, said) = run(&folder, &["watch", "syscall:getpid", "--", "sh", "-c", "echo mine; exit 7"], 7);
    assert_eq!(out, "mine\n");
    assert!(said.contains("watched for "), "{said}");
    let (out, _) = run(&folder, &["watch", "syscall:read", "-a", "-d", "1.5", "--every", "0.5", "--json"], 0);
    let last = out.lines().last().expect("a line");
    let end: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!((&end["event"], &end["summary"]["reason"]), (&"end".into(), &"duration".into()));
    assert!((3..=4).contains(&number(&end["summary"]["slices"])), "{end}");
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let Some((folder, _alone)) = alone("targets that are none are refused") else { return };
    let watched = Program::start(&folder);
    let pid = watched.1.as_str();
    for (arguments, expected) in [
        (&["./watched:handel", "-p", pid][..], "similar: handle"),
        (&["syscall:read", "-p", "4194303"], "4194303"),
        (&["whatever", "-a"], "`whatever` is not a target"),
        (&["syscall:read"], "no processes are chosen"),
        (&["./watched:handle", "-p", "1,2", "--drill"], "of one process"),
        (&["blocked:read", "-a"], "only in a recording"),
    ] {
        let (_, said) = run(&folder, &[&["watch"][..], arguments].concat(), 2);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    assert!(!folder.join("wakepath.watch").exists(), "made at the first change");
}
