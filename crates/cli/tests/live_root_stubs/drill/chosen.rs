//! A drill-down into the process that is meant: by an address, by a path that is gone, or by the most time.

use std::process::Command;

use serde_json::Value;
use wakepath_harness::live::texts;

use super::{Drilled, alone, built, document, list, only_path, program, run, wakepath};

/// The names on the way to the culprit `compute`, and their addresses in the program.
const WAY: [&str; 4] = ["serve", "look_up", "fetch", "read_block"];

fn addresses<const N: usize>(program: &str, names: [&str; N]) -> [u64; N] {
    let symbols = Command::new("nm").arg(program).output().expect("nm").stdout;
    let symbols = String::from_utf8(symbols).expect("text");
    let address = |name: &str| {
        let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}"))).expect("the function");
        u64::from_str_radix(&line[..16], 16).expect("an address")
    };
    names.map(address)
}

const SHORT: [&str; 3] = ["--start-ops", "400", "--no-samples"];

fn path_of(answer: &Value) -> Vec<String> {
    only_path(answer).0.into_iter().map(str::to_owned).collect()
}

#[test]
fn a_stripped_program_is_drilled_by_an_address_also_after_its_file_is_gone() {
    let Some(folder) = alone("addresses open stripped programs") else { return };
    let program = built(&folder);
    let places = addresses(&program, WAY);
    let ask =
        |target: &str, pid: &str| document(&folder, &[&["drill", target, "-p", pid], &SHORT[..]].concat());
    {
        let drilled = Drilled::start(&folder, &["compute"]);
        assert_eq!(path_of(&ask(&format!("{program}+{:#x}", places[0]), &drilled.1)), WAY);
        let inside = format!("{program}+{:#x}", places[0] + 1);
        let refused = wakepath(&folder, &["drill", &inside, "-p", &drilled.1]);
        let (_, err) = texts(&refused);
        assert_eq!(refused.status.code(), Some(2), "{err}");
        assert!(err.contains(&format!("is in `serve`, which begins at {:#x}", places[0])), "{err}");
        assert!(!err.contains("samples and waits answer instead"), "no stack holds an address: {err}");
    }
    assert!(Command::new("strip").arg(&program).status().expect("strip").success());
    let stripped = places.map(|address| format!("drilled+{address:#x}"));
    let drilled = Drilled::start(&folder, &["compute"]);
    assert_eq!(path_of(&ask(&format!("{program}+{:#x}", places[0]), &drilled.1)), stripped);
    // A name that an answer printed is a target.
    assert_eq!(path_of(&ask(&stripped[1], &drilled.1)), stripped[1..]);
    std::fs::remove_file(&program).expect("its file");
    let exe = format!("/proc/{}/exe:{:#x}", drilled.1, places[0]);
    let found = path_of(&ask(&exe, &drilled.1));
    assert_eq!(found, stripped, "by /proc/PID/exe");
}

#[test]
fn without_a_process_the_one_with_the_most_time_in_the_function_is_asked_and_named() {
    let Some(folder) = alone("the process with the most time is asked") else { return };
    let target = format!("{}:serve", built(&folder));
    let ask =
        |more: &[&str]| wakepath(&folder, &[&["drill", &target], more, &SHORT[..], &["--json"]].concat());
    let none = ask(&[]);
    let (_, err) = texts(&none);
    assert_eq!(none.status.code(), Some(2), "{err}");
    assert!(err.contains("no process has the file of"), "{err}");
    let processes = ["compute", "sleep"].map(|culprit| Drilled::start(&folder, &[culprit]));
    let signal = |process: &Drilled, name: &str| {
        assert!(Command::new("kill").args([name, &process.1]).status().expect("kill").success());
    };
    let [first, second] = &processes;
    for (asked, other, place) in [(first, second, "read_block"), (second, first, "nanosleep")] {
        signal(other, "-STOP");
        let output = ask(&[]);
        signal(other, "-CONT");
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{err}");
        let answer: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(answer["pid"].to_string(), asked.1, "{answer}");
        assert!(path_of(&answer).iter().any(|name| name.contains(place)), "{answer}");
        let sentence = format!("asked: process {} (drilled), which had 100.0% of the time", asked.1);
        let notes = list(&answer["notes"]).iter().filter_map(Value::as_str).collect::<Vec<_>>();
        assert!(notes.iter().any(|note| note.starts_with(&sentence)), "{notes:?}");
        assert!(err.contains(&sentence), "{err}");
    }
    // Neither calls it.
    processes.iter().for_each(|process| signal(process, "-STOP"));
    let output = ask(&[]);
    processes.iter().for_each(|process| signal(process, "-CONT"));
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(
        err.contains("may be called in 2 processes") && err.contains(&first.1) && err.contains("-p PID"),
        "{err}"
    );
    drop(processes);
    let only = Drilled::start(&folder, &["compute"]);
    let (out, err) = texts(&ask(&[]));
    let answer: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(path_of(&answer), WAY, "{answer}");
    assert!(
        err.contains(&format!("asked: process {} (drilled), the only one with the function", only.1)),
        "{err}"
    );
}

#[test]
fn a_function_without_probes_is_answered_by_its_stacks_also_by_its_address() {
    let Some(folder) = alone("stacks have the name behind an address") else { return };
    let loops = program(&folder, "loops", include_str!("loops.c"), &["-O2", "-g"]);
    let [serve] = addresses(&loops, ["serve"]);
    let process = Drilled::start_program(&loops, &[]);
    let target = format!("{loops}+{serve:#x}");
    let (out, err) = run(&folder, &["drill", &target, "-p", &process.1, "-d", "12s"], 0);
    assert!(err.contains("samples and waits answer instead, not call by call"), "{err}");
    assert!(out.contains("  serve\n  └─ burn (loops)"), "{out}");
}
