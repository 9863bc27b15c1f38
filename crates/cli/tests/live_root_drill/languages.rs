//! Programs in other languages than C: Rust's functions are followed, Go's are refused with the next step.

use std::path::Path;
use std::process::Command;

use wakepath_harness::live::{document, go, list, number, run, texts};

use crate::{Drilled, alone, only_path};

const GO: &str = r#"package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

var served int

//go:noinline
func fetch(slow bool) {
	if slow {
		time.Sleep(3 * time.Millisecond)
	}
	served++
}

//go:noinline
func serve(slow bool) {
	fetch(slow)
	served++
}

func main() {
	fmt.Println(os.Getpid())
	go func() {
		for i := 0; ; i++ {
			serve(i%10 == 9)
			time.Sleep(500 * time.Microsecond)
		}
	}()
	bufio.NewReader(os.Stdin).ReadString(0)
}
"#;

#[test]
fn functions_of_go_are_refused_with_a_next_step_that_works() {
    let would_show = "functions of Go are refused by drill, with another way";
    let (Some(folder), Some(go)) = (alone(would_show), go(would_show)) else { return };
    std::fs::write(folder.join("served.go"), GO).expect("a file");
    let mut compiler = Command::new(go);
    compiler.current_dir(&*folder).args(["build", "-o", "served", "served.go"]);
    // It needs no downloads.
    compiler.envs([("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("GOFLAGS", "")]);
    if std::env::var_os("HOME").is_none() && std::env::var_os("GOCACHE").is_none() {
        compiler.env("GOCACHE", folder.join("cache"));
    }
    let built = compiler.output().expect("go");
    assert!(built.status.success(), "{}", texts(&built).1);
    let program = folder.join("served").to_str().expect("a path").to_owned();
    let running = Drilled::start_program(&program, &[]);
    let (target, pid) = (format!("{program}:main.serve"), running.1.as_str());
    for more in [&[][..], &["--slow-probes"], &["--no-exceptions"]] {
        let (out, err) = run(&folder, &[&["drill", &target, "-p", pid], more].concat(), 2);
        assert_eq!(out, "", "{more:?}");
        let text = err.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "is a function of Go, which a drill-down does not follow",
            &format!("wakepath record --call {target} --slow-probes -p {pid}, then wakepath path --call"),
            &format!("wakepath latency {target} --slow-probes -p {pid}"),
        ] {
            assert!(text.contains(part), "{more:?}: {part} is missing in {err}");
        }
    }
    run(&folder, &["record", "--call", &target, "--slow-probes", "-p", pid, "-d", "2s"], 0);
    let (out, err) = run(&folder, &["path", "--call"], 0);
    assert!(out.contains("main.serve") && out.contains("time-out"), "{out}{err}");
    let counted = document(&folder, &["latency", &target, "--slow-probes", "-p", pid, "-d", "1s"]);
    assert!(number(&list(&counted["targets"])[0]["count"]) > 100, "{counted:#}");
}

/// The Rust program with these options of its compiler.
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
            // Below it the functions of the standard library wait; these have other names in other versions of it.
            let is_below = found.iter().skip(path.len()).all(|name| !name.starts_with("served::"));
            assert!(found.starts_with(path) && is_below, "{options:?} {culprit}: {answer:#}");
            assert_eq!(why["cause"], cause, "{options:?} {culprit}: {answer:#}");
            assert_eq!(answer["status"], "root cause found", "{options:?} {culprit}: {answer:#}");
            let is_wait = number(&why["blocked_ns"]) * 10 > number(&why["ns"]) * 9;
            assert_eq!(is_wait, culprit != "loop", "{options:?} {culprit}: {answer:#}");
        }
    }
}
