//! The Python package, installed as a user does: threads, pools, tasks, functions in other threads, a fork, uvloop.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::truth::{all_carry_their_thread, said, traced};
use crate::{packages, plugin, succeeds};

/// Python's packages, and a folder with the installed plug-in.
pub struct Installed {
    python: PathBuf,
    folder: TempDir,
}

impl Installed {
    /// A program from Python's packages.
    pub fn bin(&self, name: &str) -> PathBuf {
        self.python.join("bin").join(name)
    }

    /// The folder with the plug-in.
    pub fn site(&self) -> PathBuf {
        self.folder.path().join("site")
    }
}

/// Builds and installs the plug-in; `None`, with a printed reason, if Python's packages are missing.
pub fn install(would_show: &str, has_compiler: bool) -> Option<Installed> {
    let python = packages("python", would_show)?;
    let folder = tempfile::tempdir().expect("a folder");
    succeeds(Command::new("cp").arg("-rL").arg(plugin("python")).arg(folder.path().join("source")));
    let mut pip = Command::new(python.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]);
    pip.args(["--target", "site", "./source"]).current_dir(folder.path());
    if !has_compiler {
        pip.env("CC", "/bin/false");
    }
    succeeds(&mut pip);
    Some(Installed { python, folder })
}

/// The truth program under `opentelemetry-instrument`.
fn truth(installed: &Installed, arguments: &[&str]) -> Command {
    let mut command = Command::new(installed.bin("opentelemetry-instrument"));
    command.arg(installed.bin("python")).arg(plugin("python/tests/truth.py")).args(arguments);
    command.env("PYTHONPATH", installed.site()).env("OTEL_TRACES_EXPORTER", "otlp_proto_http");
    command.current_dir(installed.folder.path());
    command
}

#[test]
fn with_python_each_span_has_its_thread_and_the_record_follows_threads_tasks_and_copied_contexts() {
    let Some(installed) = install("spans of Python carry their thread", true) else { return };
    let (out, spans) = traced(&mut truth(&installed, &[]));
    let [child, own] = out.lines().collect::<Vec<_>>()[..] else { panic!("{out}") };
    println!("{out}");
    for line in [child, own] {
        assert!(said(line, "wrong") == 0 && said(line, "right") > 2000, "{out}");
    }
    // The child counts its parent's spans too.
    let of_child = said(child, "spans") - said(own, "spans");
    assert!(of_child > 0, "{out}");
    all_carry_their_thread(&spans, said(own, "spans") + of_child, 14);
}

#[test]
fn with_python_and_uvloop_each_span_has_its_thread_and_the_record_follows_tasks() {
    let Some(installed) = install("spans of Python carry their thread under uvloop", true) else { return };
    let (out, spans) = traced(&mut truth(&installed, &["uvloop"]));
    assert!(said(&out, "wrong") == 0 && said(&out, "right") > 500, "{out}");
    all_carry_their_thread(&spans, said(&out, "spans"), 2);
}

#[test]
fn with_python_and_no_compiler_each_span_has_its_thread() {
    let Some(installed) = install("spans of Python carry their thread without a compiler", false) else {
        return;
    };
    let (out, spans) = traced(&mut truth(&installed, &["uvloop"]));
    assert!(said(&out, "wrong") == 0 && said(&out, "right") == 0, "nothing is compiled: {out}");
    all_carry_their_thread(&spans, said(&out, "spans"), 2);
}

#[test]
fn with_python_a_span_gets_both_attributes_at_its_end_within_the_limits_of_its_program() {
    let Some(installed) = install("spans of Python carry their turns", true) else { return };
    let mut command = Command::new(installed.bin("python"));
    command.arg(plugin("python/tests/attributes.py")).env("PYTHONPATH", installed.site());
    let expected = [
        "wakepath.tid wakepath.turns whole 0",
        "a wakepath.tid wakepath.turns whole 0",
        "c wakepath.tid wakepath.turns whole 2",
        "a wakepath.tid wakepath.turns whole 0",
        "wakepath.tid wakepath.turns whole 1",
        "wakepath.tid wakepath.turns 7 0",
        "wakepath.tid wakepath.turns whole 0",
        "wakepath.tid - 0",
    ];
    assert_eq!(succeeds(&mut command).lines().collect::<Vec<_>>(), expected);
}

/// Runs a program from the tests' folder with these arguments. Returns its stdout.
#[track_caller]
fn program(installed: &Installed, name: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(installed.bin("python"));
    command.arg(plugin("python/tests").join(name)).args(arguments).env("PYTHONPATH", installed.site());
    succeeds(&mut command)
}

#[test]
fn with_python_each_turn_of_a_span_has_the_planted_reason_for_which_it_became_ready() {
    let Some(installed) = install("spans of Python say why their turns became ready", true) else { return };
    for mode in ["plain", "debug", "safe", "uvloop"] {
        let out = program(&installed, "ready.py", &[mode]);
        println!("{mode}: {}", out.lines().last().expect("a line"));
        assert!(out.lines().count() > 20, "{mode}: {out}");
    }
    assert!(program(&installed, "ready_words.py", &[]).ends_with("6 scenarios\n"));
}

#[test]
fn with_python_handles_behave_as_without_the_plug_in() {
    let Some(installed) = install("handles of asyncio behave as without the plug-in", true) else { return };
    assert_eq!(program(&installed, "handles.py", &[]), "the same\n");
    for other in ["_call_soon", "call_soon", "call_soon_threadsafe"] {
        assert_eq!(program(&installed, "handles.py", &[other]), "", "{other}");
    }
}
