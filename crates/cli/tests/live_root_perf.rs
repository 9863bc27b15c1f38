//! Files that `perf record` writes on this machine, read like our own recordings.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use wakepath_event::{Event, EventKind, EventSource, RecordingFormat};
use wakepath_harness::live::{WAKEPATH, adds_up, document, left_as, place, skip, wakepath, workload};
use wakepath_import::PerfData;
use wakepath_truth::Limits;
use wakepath_truth::runner::judge;

/// The events that the documents name.
const EVENTS: &str =
    "sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new,irq:*,timer:hrtimer_expire_*";

/// A folder where perf may record the scheduler of all CPUs; `None`, with a line, where it may not.
fn perf_place(would_show: &str) -> Option<tempfile::TempDir> {
    let folder = place(would_show)?;
    let tried = Command::new("perf")
        .args(["record", "-q", "-a", "-e", "sched:sched_switch", "-o"])
        .arg(folder.path().join("tried.data"))
        .args(["--", "true"])
        .output();
    match tried {
        Ok(output) if output.status.success() => return Some(folder),
        // A process that may record may also use perf.
        Ok(output) => assert!(
            std::env::var_os("WAKEPATH_REQUIRE_LIVE").is_none(),
            "live tests are required here: {}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(_) => {}
    }
    eprintln!("skipped: perf is not there or may not record; would show that {would_show}");
    None
}

/// `perf record` of all CPUs into this file, of these events while a command runs.
fn record(folder: &Path, file: &str, arguments: &[&str], command: &[&str]) {
    let output = Command::new("perf")
        .args(["record", "-q", "-a", "-m", "8M", "-o", file])
        .args(arguments)
        .arg("--")
        .args(command)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("perf");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// For our recording and perf's, made at the same time of a program of `workloads/`: the shares of the time that are
/// explained wrongly by the program's own account, and that are unknown; and whether switches are missing that perf
/// does not report as lost.
fn compared(folder: &Path, name: &str) -> ([f64; 2], [f64; 2], bool) {
    let program = workload(folder, name);
    // On one CPU: some kernels hide from perf how another one leaves idleness.
    let pinned = ["taskset", "-c", "0", &program, "--truth", "truth.json"];
    let run = [&[*WAKEPATH, "record", "-o", "own.rec", "--"][..], &pinned].concat();
    record(folder, "perf.data", &["-k", "CLOCK_MONOTONIC", "-e", EVENTS], &run);
    let own = document(folder, &["path", "own.rec"]);
    let tid = own["window"]["tid"].to_string();
    let perf = document(folder, &["path", "perf.data", "--tid", &tid]);
    adds_up(&perf);
    let said = (perf["clock"]["name"].as_str(), perf["window"]["comm"].as_str());
    assert_eq!(said, (Some("monotonic"), Some(name)));
    let losses = perf["losses"].as_array().expect("losses");
    let hidden = losses.iter().any(|loss| loss["reported"] == false);
    let verdicts = [own, perf].map(|document| {
        std::fs::write(folder.join("path.json"), document.to_string()).expect("room");
        let judged = judge(Limits::with_error(0.02), &folder.join("truth.json"), &folder.join("path.json"));
        judged.expect("a truth and a path").verdict
    });
    std::fs::remove_dir_all(folder.join("own.rec")).expect("a recording");
    let told = verdicts.each_ref().map(|verdict| (verdict.error - verdict.unknown).max(0.0));
    (told, verdicts.each_ref().map(|verdict| verdict.unknown), hidden)
}

/// Both recorders see the same tracepoints, each a few microseconds behind the other: of some hundred
/// switches in a second or so, that is less than a hundredth of the time. Against the truth, two
/// hundredths, as for LTTng's traces. Only events that the kernel hides are unknown.
#[test]
fn a_file_of_perf_is_explained_like_our_recording_and_like_the_truth() {
    let Some(folder) = perf_place("a path over perf.data is that of our own recording, and the truth") else {
        return;
    };
    for name in ["pipeline", "semaphore", "timers"] {
        // On a busy machine the program's own account is too inexact to judge by, for our recording too; and unknown
        // time cannot be judged.
        let judged = (0..3).any(|_| {
            let ([by_own, by_perf], [own_unknown, perf_unknown], hidden) = compared(folder.path(), name);
            let told = format!("{name}: {by_own} by us, {by_perf} by perf; {perf_unknown} unknown");
            assert!((by_own - by_perf).abs() <= 0.01, "{told}");
            assert!(hidden || perf_unknown <= own_unknown + 0.001, "{told}, of {own_unknown}");
            assert!(by_own > 0.01 || by_perf <= 0.02, "{told}");
            by_own <= 0.01 && perf_unknown <= 0.05
        });
        if !judged {
            skip(
                &format!("this machine is too busy to judge {name} by its truth"),
                "a path over perf.data is right",
            );
        }
    }
}

/// A switch as perf itself prints it: stamp, CPU, the thread that left, its state, the thread that came.
fn switches(folder: &Path) -> String {
    let script = Command::new("perf")
        .args(["script", "-i", "perf.data", "--ns", "-F", "cpu,time,event,trace"])
        .current_dir(folder)
        .output()
        .expect("perf");
    let script = String::from_utf8_lossy(&script.stdout).into_owned();
    let lines = script.lines().filter_map(|line| {
        // `[000] 47014.457717123: sched:sched_switch: prev_comm=a b prev_pid=1 prev_prio=120 prev_state=D ==> …`
        let (head, tail) = line.split_once("sched:sched_switch:")?;
        let (cpu, at) = head.trim().split_once(' ')?;
        let cpu: u16 = cpu.trim_matches(['[', ']']).parse().ok()?;
        let (seconds, ns) = at.trim().trim_end_matches(':').split_once('.')?;
        let value = |key: &str| tail.rsplit_once(key)?.1.split(' ').next();
        let state = match value("prev_state=")? {
            _ if value("prev_pid=")? == "0" => "runnable",
            state if state.starts_with('R') => "runnable",
            "S" => "interruptible",
            "D" => "uninterruptible",
            "I" => "idle",
            "P" => "parked",
            "X" | "Z" => "dead",
            "T" => "stopped",
            other => other,
        };
        let at = seconds.trim().parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?;
        Some(format!("{at} {cpu} {} {state} {}", value("prev_pid=")?, value("next_pid=")?))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn ours(event: &Event) -> Option<String> {
    let EventKind::Switch { next, out, .. } = event.kind else { return None };
    let state = left_as(&out);
    Some(format!("{} {} {} {state} {next}", event.at.ns(), event.cpu.0, event.current))
}

#[test]
fn every_switch_is_read_as_perf_itself_prints_it() {
    let Some(folder) = perf_place("stamps, states and threads of perf.data are what perf script prints")
    else {
        return;
    };
    let folder = folder.path();
    // Short-lived processes, sleeps, and the name of one that looks like a field.
    let script =
        "for n in 1 2 3 4 5; do sleep 0.02; ls / >/dev/null; done; exec -a 'a prev_pid=7 b' sleep 0.05";
    record(folder, "perf.data", &["-e", EVENTS], &["bash", "-c", script]);
    let file = PerfData::open(&folder.join("perf.data")).expect("a perf.data");
    let mut told = String::new();
    let damages = file.for_each(|event| {
        if let Some(line) = ours(event) {
            let _ = writeln!(told, "{line}");
        }
    });
    assert_eq!(damages, []);
    let expected = switches(folder);
    let differ = told.lines().zip(expected.lines()).find(|(ours, theirs)| ours != theirs);
    assert_eq!((told.lines().count(), differ), (expected.lines().count(), None));
    assert!(told.lines().count() > 50, "{told}");
}

#[test]
fn samples_of_perf_name_the_function_that_ran_and_call_chains_where_it_waited() {
    let Some(folder) = perf_place("call chains of perf.data are functions of the program") else { return };
    let folder = folder.path();
    let source = r"
        #include <time.h>
        #include <unistd.h>
        static volatile unsigned long sink;
        __attribute__((noinline)) void spin_here(void) {
            for (unsigned long i = 0; i < 200000000; i++) sink += i;
        }
        int main(void) { if (fork()) { usleep(50000); sink++; return 0; } spin_here(); sink++; return 0; }
    ";
    std::fs::write(folder.join("busy.c"), source).expect("room");
    let made = Command::new("cc")
        .args(["-O1", "-g", "-fno-omit-frame-pointer", "-o", "busy", "busy.c"])
        .current_dir(folder)
        .status();
    assert!(made.expect("a C compiler").success());
    let chains = ["-k", "CLOCK_MONOTONIC", "-g", "-e", "cpu-clock/freq=999/", "-e", EVENTS];
    record(folder, "perf.data", &chains, &["sh", "-c", "./busy; sleep 1"]);
    let paths = wakepath(folder, &["path", "perf.data", "--comm", "busy", "--all"]);
    let paths = String::from_utf8_lossy(&paths.stdout).into_owned();
    // The child, which never ran a program of its own; and its parent.
    assert!(paths.contains("samples in spin_here (busy), from"), "{paths}");
    // Which functions of the C library have frames differs; one of its, or of its caller's, is there.
    assert!(paths.contains("1 of 1 waits in main (busy)") || paths.contains("_nanosleep (libc"), "{paths}");
}

#[test]
fn files_of_perf_without_the_needed_events_are_refused_with_a_hint() {
    let Some(folder) = perf_place("perf.data of other kinds are refused by name") else { return };
    let folder = folder.path();
    record(folder, "clock.data", &["-e", "cpu-clock"], &["true"]);
    let pipe = Command::new("perf")
        .args(["record", "-q", "-a", "-e", "sched:sched_switch", "-o", "-", "--", "true"])
        .current_dir(folder)
        .output()
        .expect("perf");
    std::fs::write(folder.join("pipe.data"), pipe.stdout).expect("room");
    std::fs::write(folder.join("other.data"), "something else, and long enough").expect("room");
    for (file, says) in [
        ("clock.data", "clock.data holds no switches of threads"),
        ("pipe.data", "pipe.data was written by perf to a pipe"),
        ("other.data", "other.data is neither a perf.data nor a trace.dat"),
    ] {
        let output = wakepath(folder, &["path", file]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(says), "{said}");
    }
}
