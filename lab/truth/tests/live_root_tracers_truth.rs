//! Files written by other tracers on this machine: their paths agree with our own recording of the same run, and with the
//! truth.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use wakepath_harness::live::{WAKEPATH, adds_up, document, list, skip, workload};
use wakepath_harness::{ftrace, perf};
use wakepath_truth::Limits;
use wakepath_truth::runner::{judge, read};

/// Two recorded programs would be each other's neighbours.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Checks that the path over `file` agrees with the path over our own recording, and with the truth. `record` runs a
/// command while the other tracer writes the file.
///
/// Both tracers see the same tracepoints, a few microseconds apart: with some hundred switches in a second or so, less
/// than a hundredth of the time. Against the truth two hundredths are allowed, as for LTTng's traces. Only events
/// hidden by the kernel are unknown.
fn is_explained_like_ours(folder: &Path, file: &str, record: impl Fn(&[&str])) {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for name in ["pipeline", "semaphore", "timers"] {
        // On a busy machine the program's own log is too inexact to judge by, for our recording too; and unknown time
        // cannot be judged.
        let judged = (0..3).any(|_| {
            let program = workload(folder, name);
            // On a single CPU: some kernels hide from the other tracer how another CPU leaves idleness.
            let pinned = ["taskset", "-c", "0", &program, "--truth", "truth.json"];
            record(&[&[*WAKEPATH, "record", "-o", "own.rec", "--"][..], &pinned].concat());
            let own = document(folder, &["path", "own.rec"]);
            let tid = own["window"]["tid"].to_string();
            let other = document(folder, &["path", file, "--tid", &tid]);
            adds_up(&other);
            let said = (other["clock"]["name"].as_str(), other["window"]["comm"].as_str());
            assert_eq!(said, (Some("monotonic"), Some(name)));
            let hidden = list(&other["losses"]).iter().any(|loss| loss["reported"] == false);
            let truth = read(&folder.join("truth.json")).expect("a truth");
            let verdicts = [own, other].map(|document| {
                judge(Limits::with_error(0.02), &truth, &document).expect("a truth and a path").verdict
            });
            fs::remove_dir_all(folder.join("own.rec")).expect("a recording");
            let [unknown, other_unknown] = verdicts.each_ref().map(|verdict| verdict.unknown);
            let [wrong, other_wrong] =
                verdicts.each_ref().map(|verdict| (verdict.error - verdict.unknown).max(0.0));
            let told = format!("{name}: {wrong} by us, {other_wrong} in {file}; {other_unknown} unknown");
            eprintln!("{told}");
            assert!((wrong - other_wrong).abs() <= 0.01, "{told}");
            assert!(hidden || other_unknown <= unknown + 0.001, "{told}, of {unknown}");
            assert!(wrong > 0.01 || other_wrong <= 0.02, "{told}");
            wrong <= 0.01 && other_unknown <= 0.05
        });
        if !judged {
            let why = format!("this machine is too busy to judge {name} by its truth");
            skip(&why, &format!("a path over {file} is right"));
        }
    }
}

#[test]
fn a_file_of_perf_is_explained_like_our_recording_and_like_the_truth() {
    let Some(folder) = perf::place("a path over perf.data is that of our own recording, and the truth")
    else {
        return;
    };
    is_explained_like_ours(&folder, "perf.data", |run| {
        perf::record(&folder, "perf.data", &["-k", "CLOCK_MONOTONIC", "-e", perf::EVENTS], run);
    });
}

#[test]
fn a_file_of_ftrace_is_explained_like_our_recording_and_like_the_truth() {
    let Some(folder) = ftrace::place("a path over a trace.dat is that of our own recording, and the truth")
    else {
        return;
    };
    is_explained_like_ours(&folder, "trace.dat", |run| {
        let mut command = Command::new(run[0]);
        command.args(&run[1..]).current_dir(&folder);
        ftrace::record(&folder.join("trace.dat"), "truth", 16384, &mut command);
    });
}
