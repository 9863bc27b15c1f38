//! Files that `perf record` writes on this machine, read like wakepath's own recordings.

use std::path::Path;
use std::process::Command;

use wakepath_event::{Event, EventKind, RecordingFormat};
use wakepath_harness::live::{document, left_as, length, list, program, run, texts};
use wakepath_harness::perf::{EVENTS, place, record};
use wakepath_import::PerfData;

use super::alike::is_read_as;

/// A file with device interrupts and softirqs, but without timer interrupts, which come while other threads run.
#[test]
fn a_sleep_whose_timer_perf_did_not_record_is_not_charged_to_the_thread_that_it_interrupted() {
    let Some(folder) = place("a sleep in perf.data waits for a timer, and for no thread") else {
        return;
    };
    // Other programs on the machine may be called sleep.
    let script = "cp \"$(command -v sleep)\" naps; for n in 1 2 3 4; do while :; do :; done & done; \
                  ./naps 0.4; kill $(jobs -p)";
    record(&folder, "perf.data", &["-e", "sched:*,irq:*"], &["bash", "-c", script]);
    let path = document(&folder, &["path", "--comm", "naps", "perf.data"]);
    let by_timer = list(&path["segments"]).iter().filter(|one| one["kind"] == "timer");
    let slept: i64 = by_timer.clone().map(length).sum();
    assert!((350_000_000..500_000_000).contains(&slept), "{slept} ns by a timer");
    for segment in by_timer {
        assert_eq!(
            (&segment["basis"], &segment["rule"]),
            (&"inferred".into(), &"unrecorded_timer".into()),
            "{segment}"
        );
    }
}

/// The switches as perf itself prints them: stamp, CPU, the leaving thread, its state, the next thread.
pub fn switches(folder: &Path, file: &str) -> Vec<String> {
    let script = Command::new("perf")
        .args(["script", "-i", file, "--ns", "-F", "cpu,time,event,trace"])
        .current_dir(folder)
        .output()
        .expect("perf");
    let (script, _) = texts(&script);
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
    lines.collect()
}

/// A switch in the form of [`switches`].
pub fn ours(event: &Event) -> Option<String> {
    let EventKind::Switch { next, out, .. } = event.kind else { return None };
    let state = left_as(&out);
    Some(format!("{} {} {} {state} {next}", event.at.ns(), event.cpu.0, event.current))
}

#[test]
fn every_switch_is_read_as_perf_itself_prints_it() {
    let Some(folder) = place("stamps, states and threads of perf.data are what perf script prints") else {
        return;
    };
    // Short-lived processes, sleeps, and a process name that looks like a field.
    let script =
        "for n in 1 2 3 4 5; do sleep 0.02; ls / >/dev/null; done; exec -a 'a prev_pid=7 b' sleep 0.05";
    for (file, arguments) in [
        ("perf.data", &["-e", EVENTS][..]),
        // A record often goes on in the next compressed piece.
        ("compressed.data", &["-z", "-e", EVENTS, "-e", "cpu-clock/freq=999,call-graph=fp/"]),
    ] {
        record(&folder, file, arguments, &["bash", "-c", script]);
        let read = PerfData::open(&folder.join(file)).expect("a perf.data");
        assert!(is_read_as(&read, ours, &switches(&folder, file)) > 50, "{file}");
    }
    for (file, arguments) in [("stream.data", &[][..]), ("compressed-stream.data", &["-z"])] {
        let stream = Command::new("perf")
            .args(["record", "-q", "-a", "-m", "8M", "-e", EVENTS, "-o", "-"])
            .args([arguments, &["--", "bash", "-c", script]].concat())
            .current_dir(&*folder)
            .output()
            .expect("perf");
        std::fs::write(folder.join(file), stream.stdout).expect("room");
        let read = PerfData::open(&folder.join(file)).expect("a stream");
        assert!(is_read_as(&read, ours, &switches(&folder, file)) > 50, "{file}");
    }
}

#[test]
fn samples_of_perf_name_the_function_that_ran_and_call_chains_where_it_waited() {
    let Some(folder) = place("call chains of perf.data are functions of the program") else { return };
    let source = r"
        #include <time.h>
        #include <unistd.h>
        static volatile unsigned long sink;
        __attribute__((noinline)) void spin_here(void) {
            for (unsigned long i = 0; i < 200000000; i++) sink += i;
        }
        int main(void) { if (fork()) { usleep(50000); sink++; return 0; } spin_here(); sink++; return 0; }
    ";
    program(&folder, "busy", source, &["-O1", "-g", "-fno-omit-frame-pointer"]);
    // Without `--buildid-mmap`, perf notes the build ids only of files in which a sample interrupted the program. A sample in the C
    // library is chance; the second file has none.
    let chains = ["-k", "CLOCK_MONOTONIC", "--buildid-mmap", "-g", "-e", EVENTS];
    let samples = [&chains[..], &["-e", "cpu-clock/freq=999/"]].concat();
    for (file, asks) in [("samples.data", &samples[..]), ("switches.data", &chains)] {
        record(&folder, file, asks, &["sh", "-c", "./busy; sleep 1"]);
        let (paths, _) = run(&folder, &["path", file, "--comm", "busy", "--all"], 0);
        // The child, which never ran another program, and its parent.
        let sampled = paths.contains("samples in spin_here (busy), from");
        assert_eq!(sampled, file == "samples.data", "{paths}");
        // The C library's functions with frames differ; one of them, or of its caller, is there.
        let named = paths.contains("1 of 1 waits in main (busy)") || paths.contains("_nanosleep (libc");
        assert!(named, "{file}: {paths}");
    }
}

#[test]
fn files_of_perf_without_the_needed_events_are_refused_with_a_hint() {
    let Some(folder) = place("perf.data of other kinds are refused by name") else { return };
    record(&folder, "clock.data", &["-e", "cpu-clock"], &["true"]);
    std::fs::write(folder.join("other.data"), "something else, and long enough").expect("room");
    for (file, says) in [
        ("clock.data", "clock.data holds no switches of threads"),
        ("other.data", "other.data is neither a perf.data nor a trace.dat nor a Perfetto trace, nor text"),
    ] {
        let (_, said) = run(&folder, &["path", file], 3);
        assert!(said.contains(says), "{said}");
    }
}
