//! Go programs that start during the recording: their goroutines are recorded once their probes are placed, with no wrong answers for the time
//! before; or the programs are named as not recorded.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use wakepath_harness::live::{command, document, texts};

use crate::go::blocks::{Allowed, build, check, waits};
use crate::go::go_place;

/// The way in which the request's goroutine is known.
fn join(folder: &Path, spans: &str, trace: &str) -> String {
    let document = document(folder, &["requests", "wakepath.rec", spans, "--request", trace]);
    document["request"]["join"].as_str().expect("a word").to_owned()
}

#[test]
fn goroutines_of_a_program_that_the_command_starts_are_known_from_its_probes_on() {
    let Some((folder, go)) = go_place("goroutines of a program that starts later are recorded") else {
        return;
    };
    build(&go, &folder, &[]);
    let line = "./blocks 16 && mv log first.log && mv spans.json first.json && ./blocks 2 1000";
    // Leave out the Go programs of other tests: their requests have the same ids.
    let arguments = ["record", "--goroutines=asked", "--no-calibration", "--", "sh", "-c", line];
    let output = command(&folder, &arguments).output().expect("wakepath");
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}{err}");
    let said = err.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("/blocks, which started meanwhile, are not known for the first "), "{said}");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("its log");
    let (mut known, mut unknown) = (0, 0);
    for waited in waits(&read("first.log")) {
        let question = ["requests", "wakepath.rec", "first.json", "--request", &waited.trace];
        let document = document(&folder, &question);
        if document["request"]["join"] == "goroutine" {
            let other = waited.other.as_ref().map(|other| join(&folder, "first.json", other));
            let unknown_blocker = other.is_some_and(|join| join != "goroutine");
            // The probes came during the first round, of four requests.
            let partly_known_blocker = known < 4;
            check(&document, &waited, Allowed { unknown_blocker, partly_known_blocker });
            known += 1;
        } else {
            assert_eq!(document["request"]["join"], "none", "{document}");
            assert_eq!(document["blocked_by"].as_array().map(Vec::len), Some(0), "{document}");
            assert_eq!(known, 0, "from its probes on, all are known");
            unknown += 1;
        }
    }
    println!(
        "{said}; the goroutines of {known} requests are known, and those of the {unknown} before are not"
    );
    assert_eq!(known + unknown, 64);
    assert!(known >= 32, "{known} of 64");
    // A second process with the same file has its probes from the beginning.
    for waited in waits(&read("log")) {
        let question = ["requests", "wakepath.rec", "spans.json", "--request", &waited.trace];
        let allowed = Allowed { unknown_blocker: false, partly_known_blocker: false };
        check(&document(&folder, &question), &waited, allowed);
    }
}

#[test]
fn a_go_program_that_starts_meanwhile_and_is_not_asked_about_or_ends_at_once_is_named() {
    let Some((folder, go)) = go_place("Go programs that start later are named") else { return };
    build(&go, &folder, &[]);
    std::fs::copy(folder.join("blocks"), folder.join("quick")).expect("a copy");
    // The probes need the CPU too, so the program to be recorded runs for some seconds.
    let cases: [(&[&str], &str, bool, &str); 2] = [
        (&["--otlp", "0", "-a", "-d", "3"], "8", false, "which started meanwhile, were not recorded"),
        (
            &["-a", "--goroutines", "-d", "8"],
            "32",
            true,
            "which started meanwhile, are not known for the first ",
        ),
    ];
    for (options, rounds, is_seen, named) in cases {
        let _ = std::fs::remove_dir_all(folder.join("wakepath.rec"));
        let mut recorder = command(&folder, &[&["record", "--no-calibration"], options].concat());
        let recorder = recorder.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("wakepath");
        // By then the recorder has looked for running programs.
        while !folder.join("wakepath.rec").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let run = |program: &str, arguments: &[&str]| {
            let mut program = Command::new(folder.canonicalize().expect("a folder").join(program));
            program.args(arguments).current_dir(&folder).stderr(Stdio::null()).status().expect("it runs")
        };
        assert!(run("blocks", &[rounds]).success());
        // Without arguments the program ends at once.
        assert!(!run("quick", &[]).success());
        let output = recorder.wait_with_output().expect("its end");
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{options:?}: {out}{err}");
        let said = err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(named), "{options:?}: {said}");
        // If other tests started many programs, some are only counted.
        let is_named = |program: &str| said.contains(program) || said.contains(" other");
        assert!(is_named("/blocks") && is_named("/quick"), "{options:?}: {said}");
        let events = document(&folder, &["info"])["events"]["goroutine"].as_u64();
        assert_eq!(events.is_some_and(|events| events > 20), is_seen, "{options:?}: {events:?}");
    }
}
