//! Programs in languages other than C: Rust and Go.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wakepath_harness::live::{document, go, list, number, run, texts};

use crate::drill::{Drilled, alone, only_path};

/// Builds a Go program with this name.
pub fn go_program(folder: &Path, go: &Path, name: &str, source: &str) -> String {
    let file = format!("{name}.go");
    std::fs::write(folder.join(&file), source).expect("a file");
    let mut compiler = Command::new(go);
    compiler.current_dir(folder).args(["build", "-o", name, &file]);
    // The build needs no downloads.
    compiler.envs([("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("GOFLAGS", "")]);
    if std::env::var_os("HOME").is_none() && std::env::var_os("GOCACHE").is_none() {
        compiler.env("GOCACHE", folder.join("cache"));
    }
    let built = compiler.output().expect("go");
    assert!(built.status.success(), "{}", texts(&built).1);
    folder.join(name).to_str().expect("a path").to_owned()
}

#[test]
fn the_path_of_a_goroutine_is_followed_through_threads_and_where_its_stack_moves() {
    let would_show = "culprits in Go programs are found";
    let (Some(folder), Some(go)) = (alone(would_show), go(would_show)) else { return };
    let program = go_program(&folder, &go, "served", include_str!("served.go"));
    for (culprit, path) in [
        ("compute", &["main.compute"][..]),
        // The stack is copied within the call, and the goroutine continues in another thread.
        ("moved", &["main.compute"]),
        ("sleep", &["time.Sleep", "runtime.gopark"]),
        ("lock", &["internal/sync.(*Mutex).lockSlow", "runtime.gopark"]),
        ("channel", &["main.wait", "runtime.gopark"]),
    ] {
        let running = Drilled::start_program(&program, &[culprit]);
        let target = format!("{program}:main.serve");
        let asked = ["drill", &target, "-p", &running.1, "--start-ops", "300"];
        let answer = document(&folder, &[&asked[..], &["--slow-probes"]].concat());
        let (found, why) = only_path(&answer);
        let first = ["main.serve", "main.lookUp", "main.(*disk).fetch"];
        assert!(found.starts_with(&first), "{culprit}: {answer}");
        // Between them are functions of Go's runtime, with other names in its other versions.
        let below = &found[first.len()..];
        assert!(below.first() == path.first() && below.last() == path.last(), "{culprit}: {answer}");
        assert_eq!(why["cause"], "itself", "{culprit}: {answer}");
        assert_eq!(answer["status"], "root cause found", "{culprit}: {answer}");
        assert!(number(&why["ns"]) * 10 > number(&why["of_ns"]) * 8, "{culprit}: {answer}");
        let is_park = path.len() > 1;
        assert_eq!(number(&why["blocked_ns"]) > 0, is_park, "{culprit}: {answer}");
        // The runtime parks a goroutine by assembler code, which is no part of the path.
        assert_eq!(list(&why["doubts"]).len(), 0, "{culprit}: {answer}");
        // The stacks that hold the function, not the thread's time meanwhile.
        let stacks = &answer["explained_by"];
        assert!(stacks.is_null() || stacks["schema"] == "wakepath.function_stacks/1", "{culprit}: {stacks}");
        if !is_park {
            let below = list(&stacks["functions"]["path"]).iter().map(|step| step["function"].to_string());
            let below: Vec<_> = below.collect();
            assert!(below.iter().any(|name| name.contains("main.compute")), "{culprit}: {below:?}");
        }
        assert_eq!(list(&answer["notes"]).iter().any(is_about_goroutines), is_park, "{culprit}: {answer}");
        if !is_park {
            let place = &why["sampled"]["places"][0];
            assert_eq!(place["function"], "main.compute", "{culprit}: {answer}");
        }
        // The kernel single-steps a return, which some hundred calls a second may cost.
        let (text, _) = run(&folder, &asked, 0);
        assert!(text.contains("main.lookUp"), "{text}");
    }
    // The threads' paths say that they follow no goroutines, even if no call changed its thread.
    let running = Drilled::start_program(&program, &["locked"]);
    let target = format!("{program}:main.serve");
    run(&folder, &["record", "--call", &target, "-p", &running.1, "-d", "1s"], 0);
    let (out, err) = run(&folder, &["path", "--call"], 0);
    assert!(out.contains("while a goroutine waits, its thread runs others"), "{out}{err}");
    let answer = document(&folder, &["path", "--call"]);
    assert_eq!((number(&answer["moved"]), &answer["of_goroutines"]), (0, &Value::Bool(true)), "{out}");
}

fn is_about_goroutines(note: &Value) -> bool {
    note.as_str().is_some_and(|note| note.starts_with("a goroutine waited there"))
}

/// Builds the Rust program with these compiler options.
fn rust_program(folder: &Path, options: &[&str]) -> String {
    let (source, program) = (folder.join("served.rs"), folder.join("served"));
    std::fs::write(&source, include_str!("served.rs")).expect("a file");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compiler = Command::new(compiler);
    compiler.args(["--edition", "2021", "-g"]).args(options).arg("-o").arg(&program).arg(&source);
    let built = compiler.output().expect("rustc");
    assert!(built.status.success(), "{}", texts(&built).1);
    program.to_str().expect("a path").to_owned()
}

#[test]
fn the_path_in_a_rust_program_has_the_names_of_its_source() {
    let Some(folder) = alone("culprits in Rust programs are found") else { return };
    let fetch = "<served::Disk as served::Store>::fetch";
    for (options, more) in [
        (&["-C", "opt-level=2"][..], &["--no-exceptions"][..]),
        (&["-C", "opt-level=2", "-C", "symbol-mangling-version=v0"], &["--slow-probes"]),
        // Each function begins by making room on the stack, where the kernel single-steps a probe.
        (&["-C", "opt-level=0"], &["--no-exceptions", "--slow-probes"]),
        (&["-C", "opt-level=0", "-C", "panic=abort"], &["--slow-probes"]),
    ] {
        let program = rust_program(&folder, options);
        for (culprit, path, cause) in [
            ("sleep", &["served::serve", "served::look_up", fetch][..], "itself"),
            ("lock", &["served::serve", "served::answer"], "itself"),
            ("loop", &["served::serve", "served::parse"], "loop"),
        ] {
            let running = Drilled::start_program(&program, &[culprit]);
            let target = format!("{program}:served::serve");
            let asked =
                ["drill", &target, "-p", &running.1, "--start-ops", "300", "--max-depth", "16", "--no-waits"];
            let answer = document(&folder, &[&asked, more].concat());
            let (found, why) = only_path(&answer);
            // Below it wait functions of the standard library, with other names in its other versions.
            let is_below = found.iter().skip(path.len()).all(|name| !name.starts_with("served::"));
            assert!(found.starts_with(path) && is_below, "{options:?} {culprit}: {answer}");
            assert_eq!(why["cause"], cause, "{options:?} {culprit}: {answer}");
            assert_eq!(answer["status"], "root cause found", "{options:?} {culprit}: {answer}");
            let is_wait = number(&why["blocked_ns"]) * 10 > number(&why["ns"]) * 9;
            assert_eq!(is_wait, culprit != "loop", "{options:?} {culprit}: {answer}");
        }
    }
}
