//! `plugins/`: each span carries the thread in which it began, by the programs' own statements; and the record of a
//! thread's request is right at every instruction. A runtime missing on this machine is skipped.

mod backends;
mod c;
mod cassandra;
mod django;
mod eight;
mod event_loop;
mod java;
mod jobs;
mod node;
mod python;
mod rust;
mod truth;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use wakepath_harness::live::{not_possible, texts};

/// A runtime's plug-in folder.
fn plugin(runtime: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins").join(runtime)
}

/// A runtime's packages fetched by `packaging/plugins`; `None`, with a printed reason, if they were not fetched.
fn packages(runtime: &str, would_show: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().expect("a path of the test");
    let folder = test.ancestors().nth(3).expect("the folder of builds").join("plugins").join(runtime);
    if !folder.join("versions").exists() {
        not_possible(&format!("packaging/plugins could not fetch what {runtime} needs"), would_show);
        return None;
    }
    Some(folder)
}

/// Whether a program is on the path and answers.
fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Runs a command, which has to succeed. Returns its stdout.
#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let output: Output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out
}
