//! The kernel's own count of a thread's waits for a CPU is the time between its switches plus the dated-back time, as
//! measured in the kernel.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use wakepath_truth::dated_back::{self, Readings};
use wakepath_truth::document::{Basis, Dated};
use wakepath_truth::noise::Noise;

/// The thread's working time.
const WORK: Duration = Duration::from_millis(500);

/// The largest number of runs until the kernel reports all switches in a run: it left out a switch in none of six runs on a quiet
/// machine, and in three of six on a busy machine. If every second run lacks a switch, one test in 256 ends without an answer. A
/// wrong answer is never repeated.
const MAX_TRIES: usize = 8;

/// The calling thread's waits for a CPU by the kernel: their time, ns, and how often it got a CPU.
fn waits() -> (i64, usize) {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts waits");
    let fields: Vec<i64> = text.split_whitespace().map(|field| field.parse().expect("a number")).collect();
    (fields[1], usize::try_from(fields[2]).expect("a count"))
}

/// A thread's waits for a CPU while it worked.
struct Waits {
    /// Their number.
    count: usize,
    /// Their time between the switches, ns.
    between: i64,
    /// Their dated-back time in all, ns.
    dated: i64,
    /// Their time by the kernel's count, ns.
    counted: i64,
}

/// Has a thread work beside a neighbour. `None` if the kernel did not report a switch of the thread.
fn work(programs: &Path, readings: Readings) -> Option<Waits> {
    let neighbour = Noise::Chatter.start(programs, 30).expect("chatter starts");
    let worker = thread::spawn(|| {
        let link = fs::read_link("/proc/thread-self").expect("a thread has a number");
        let tid: u32 = link.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number");
        let before = waits();
        let began = Instant::now();
        while began.elapsed() < WORK {}
        (tid, before, waits())
    });
    let (tid, (waited_before, runs_before), (waited_after, runs_after)) = worker.join().expect("it works");
    drop(neighbour);
    let found = dated_back::find(Ok(readings), Path::new("/nowhere"), &BTreeSet::from([tid]));
    let found = found.expect("switches were read");
    assert_eq!(found.basis, Basis::Measured);

    // A working thread has the switches from it and to it in turn. Its first run follows its fork.
    let begun = found.switches.iter().position(|switch| switch.next == tid).expect("it began");
    let pairs: Vec<&[Dated]> = found.switches[begun + 1..].chunks_exact(2).collect();
    let mut waits = Waits {
        count: runs_after - runs_before,
        between: 0,
        dated: 0,
        counted: waited_after - waited_before,
    };
    for pair in pairs.get(runs_before - 1..runs_after - 1)? {
        let [out, back] = pair else { unreachable!("pairs") };
        if (out.prev, back.next) != (tid, tid) {
            return None;
        }
        assert!(out.is_preempted, "{out:?}");
        waits.between += back.at_ns - out.at_ns;
        waits.dated += out.back_ns - back.back_ns;
    }
    Some(waits)
}

#[test]
fn waits_by_the_kernels_count_are_those_between_the_switches_and_what_they_are_dated_back() {
    let would_show = "would show that what is dated back is what the kernel counts";
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: not possible here: messages from CPU to CPU need two CPUs; {would_show}");
        return;
    }
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads");
    let made = Command::new("make").arg("-s").arg("-C").arg(&workloads).status().expect("make");
    assert!(made.success(), "the workloads do not build");
    for run in 1..=MAX_TRIES {
        let readings = match Readings::begin() {
            Ok(readings) => readings,
            Err(error) => return println!("skipped: {error:#}; {would_show}"),
        };
        let Some(Waits { count, between, dated, counted }) = work(&workloads.join("bin"), readings) else {
            continue;
        };
        println!(
            "run {run}: {count} waits: {between} ns by the switches, {dated} ns dated back, {counted} ns by the kernel"
        );
        assert!(count > 100 && dated > 100_000, "chatter preempted the thread too rarely");
        // The two differ by some µs in these ms. Half a hundredth notices earlier errors: to date each switch back to its wake-up,
        // which is a seventh too much, or to leave out the switches that preempt no thread.
        assert!((counted - between - dated).abs() < dated / 200, "these are not the same");
        return;
    }
    panic!("a switch was not reported in each of {MAX_TRIES} runs");
}
