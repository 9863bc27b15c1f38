//! Killed perf's files: they are read up to the kill, and the answer says so.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use wakepath_event::{DamageKind, EventKind, EventSource, RecordingFormat};
use wakepath_harness::live::{document, list};
use wakepath_harness::perf::{EVENTS, place};
use wakepath_import::PerfData;

/// Runs `perf record` on all CPUs with these arguments and this output, and kills it while a shell starts short-lived
/// processes.
fn killed(folder: &Path, output: Stdio, arguments: &[&str]) {
    // perf writes when a buffer is half full: a large one would be lost at the kill.
    let mut perf = Command::new("perf")
        .args(["record", "-q", "-N", "-a", "-m", "64K", "-e", EVENTS])
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(output)
        .spawn()
        .expect("perf");
    let script = "for n in $(seq 150); do sleep 0.02; ls / >/dev/null; done";
    let busy = Command::new("bash").args(["-c", script]).status().expect("bash");
    perf.kill().expect("our own process");
    perf.wait().expect("our own process");
    assert!(busy.success());
}

/// perf's print of a file.
fn script(folder: &Path, file: &str) -> String {
    let asked = ["script", "-i", file, "--ns", "-F", "cpu,time,event"];
    let printed = Command::new("perf").args(asked).current_dir(folder).output().expect("perf");
    String::from_utf8_lossy(&printed.stdout).into_owned()
}

#[test]
fn a_stream_by_a_killed_perf_has_the_switches_in_perf_script() {
    let Some(folder) = place("a killed perf's stream is read up to its last record") else { return };
    for (file, arguments) in [("stream.data", &["-o", "-"][..]), ("packed.data", &["-z", "-o", "-"])] {
        killed(&folder, File::create(folder.join(file)).expect("room").into(), arguments);
        let stream = PerfData::open(&folder.join(file)).expect("a stream");
        let mut ours = Vec::new();
        let damages = stream.for_each(|event| {
            if matches!(event.kind, EventKind::Switch { .. }) {
                let at = event.at.ns();
                ours.push(format!("[{:03}] {}.{:09}", event.cpu.0, at / 1_000_000_000, at % 1_000_000_000));
            }
        });
        let theirs = script(&folder, file);
        let theirs = theirs.lines().filter(|line| line.contains("sched:sched_switch"));
        let mut theirs: Vec<_> =
            theirs.map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect();
        theirs.iter_mut().for_each(|line| *line = line.trim_end_matches(':').to_owned());
        ours.sort();
        theirs.sort();
        let differ = ours.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs);
        assert_eq!((ours.len(), differ), (theirs.len(), None), "{file}");
        assert!(ours.len() > 100, "{file}: {} switches", ours.len());
        // A kill may come just behind a round.
        let faults = damages.iter().filter(|damage| matches!(damage.kind, DamageKind::Fault(_)));
        assert!(faults.count() <= 1, "{file}: {damages:?}");
    }
}

#[test]
fn a_file_by_a_killed_perf_is_read_by_proof_and_the_answer_says_so() {
    let Some(folder) = place("a killed perf's file, which perf script refuses, has its switches") else {
        return;
    };
    for (file, arguments) in
        [("killed.data", &["-o", "killed.data"][..]), ("packed.data", &["-z", "-o", "packed.data"])]
    {
        killed(&folder, Stdio::null(), arguments);
        assert!(!script(&folder, file).contains("sched_switch"), "perf reads {file}");
        let path = document(&folder, &["path", file]);
        let problems: Vec<_> =
            list(&path["problems"]).iter().filter_map(|one| one["text"].as_str()).collect();
        for says in ["the description of the tracepoints is missing", "perf did not finish the file"] {
            assert!(problems.iter().any(|text| text.contains(says)), "{file}: {problems:#?}");
        }
        let ran = |thread: &&Value| thread["running_ns"].as_u64() > Some(0);
        let ran = list(&path["threads"]).iter().filter(ran).count();
        assert!(ran > 10, "{file}: {ran} threads ran");
    }
}
