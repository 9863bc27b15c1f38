//! Time that the kernel's clocks give to the wrong thread around a preemption: what it explains of a difference.
//!
//! A wake-up that preempts lets the run queue's clock stand still until the switch (`rq_clock_skip_update()`). So by the
//! kernel's clocks, of which a program's log is made, the woken thread has had the CPU since its wake-up; by the stamps of
//! the switches, the other one ran on until the interrupt came to its CPU, some 15 µs later. A path goes by the switches.
//!
//! ```text
//!                      wake-up   switch
//!     preempted   ========|=======|            running until the switch, by its clock until the wake-up
//!     woken               |.......|=======     runnable until the switch, by its clock running since the wake-up
//! ```
//!
//! The events are those of the recording, as babeltrace2 prints them; the sum is taken preemption by preemption.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::document::Segment;

/// The longest time from a wake-up to the switch that counts as one preemption, ns. An interrupt comes to a running CPU
/// within some 15 µs; a thread that is switched in later than this did not preempt, but waited for its turn.
const MAX_DELAY_NS: i64 = 100_000;

/// A preemption: the time, ns of CLOCK_MONOTONIC, that one thread had by the switches and the other by its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemption {
    /// The wake-up.
    pub from_ns: i64,
    /// The switch.
    pub to_ns: i64,
    /// The thread that ran on until the switch.
    pub preempted: u32,
    /// The thread that was woken.
    pub woken: u32,
}

/// Reads the preemptions of a recording.
///
/// # Errors
///
/// If babeltrace2 cannot be run, or cannot read the recording.
pub fn read(recording: &Path) -> Result<Vec<Preemption>> {
    let output = Command::new("babeltrace2")
        .arg("--clock-cycles")
        .arg(recording.join("kernel"))
        .output()
        .context("cannot run babeltrace2: `make setup` installs it")?;
    ensure!(
        output.status.success(),
        "babeltrace2 cannot read `{}`: {}",
        recording.display(),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(preemptions(&String::from_utf8_lossy(&output.stdout)))
}

/// The preemptions among the lines that babeltrace2 printed, which are in the order of their stamps.
fn preemptions(text: &str) -> Vec<Preemption> {
    let mut woken_at: BTreeMap<u64, i64> = BTreeMap::new();
    let mut since: BTreeMap<u64, i64> = BTreeMap::new();
    let mut found = Vec::new();
    for line in text.lines() {
        let Some((stamp, name, rest)) = parts(line) else { continue };
        let field = |key: &str| number(rest, key);
        if name.starts_with("waking") {
            if let Some(target) = field("target_tid") {
                woken_at.insert(target, stamp);
            }
        } else if let ("switch" | "switch_call" | "switch_lock", Some(cpu), Some(prev), Some(next)) =
            (name, field("cpu_id"), field("tid"), field("next_tid"))
        {
            let had_cpu = since.insert(cpu, stamp);
            let woken = woken_at.remove(&next);
            if let (Some(had_cpu), Some(woken)) = (had_cpu, woken)
                && prev != 0
                && next != 0
                && woken > had_cpu
                && stamp - woken <= MAX_DELAY_NS
            {
                let tid = |tid: u64| u32::try_from(tid).unwrap_or(0);
                found.push(Preemption {
                    from_ns: woken,
                    to_ns: stamp,
                    preempted: tid(prev),
                    woken: tid(next),
                });
            }
        }
    }
    found
}

/// The stamp, the name and the fields of a line `[CYCLES] (+…) HOST NAME: { FIELDS }`.
fn parts(line: &str) -> Option<(i64, &str, &str)> {
    let (stamp, rest) = line.strip_prefix('[')?.split_once(']')?;
    let (head, fields) = rest.split_once(": {")?;
    Some((stamp.trim().parse().ok()?, head.rsplit(' ').next()?, fields))
}

/// The whole number of the field with this key.
fn number(fields: &str, key: &str) -> Option<u64> {
    let pattern = format!(" {key} = ");
    let value = fields.split_once(&pattern)?.1;
    value.split([',', ' ']).next()?.parse().ok()
}

/// The time that preemptions explain, by thread and kind of time: what has to be added to a truth by the kernel's clocks
/// to make it one by the switches. `segments` are those of the path, which count from `origin`: only there is the time
/// of these threads part of the window.
pub(crate) fn corrections(
    preemptions: &[Preemption],
    own: &BTreeSet<u32>,
    segments: &[Segment],
    origin: i64,
) -> Vec<((u32, &'static str), i64)> {
    let mut found = Vec::new();
    for preemption in preemptions {
        let (from, to) = (preemption.from_ns - origin, preemption.to_ns - origin);
        let of_path = |tid: u32, kinds: &[&str]| -> i64 {
            let first = segments.partition_point(|segment| segment.to_ns <= from);
            let touched = segments[first..].iter().take_while(|segment| segment.from_ns < to);
            let its = touched.filter(|segment| segment.tid == Some(tid) && kinds.contains(&&*segment.kind));
            its.map(|segment| segment.to_ns.min(to) - segment.from_ns.max(from)).sum()
        };
        let (preempted, woken) = (preemption.preempted, preemption.woken);
        if own.contains(&preempted) {
            let ns = of_path(preempted, &["running", "interrupted", "stolen"]);
            found.extend([((preempted, "running"), ns), ((preempted, "runnable"), -ns)]);
        }
        if own.contains(&woken) {
            let ns = of_path(woken, &["runnable"]);
            found.extend([((woken, "running"), -ns), ((woken, "runnable"), ns)]);
        }
    }
    found.retain(|&(_, ns)| ns != 0);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::PathDocument;
    use crate::made;
    use serde_json::json;

    /// The lines of babeltrace2 for events, each CPU, stamp, thread on it, and `>TID` for a switch to it, `!TID` for its
    /// wake-up.
    fn printed(events: &str) -> String {
        let line = |event: &str| {
            let words: Vec<&str> = event.split_whitespace().collect();
            let (name, field) = match words[3].split_at(1) {
                (">", _) => ("switch_call", "next_tid"),
                _ => ("waking", "target_tid"),
            };
            format!(
                "[{:020}] (+0000000002) vm {name}: {{ event_count = 9, cpu_id = {} }}, {{ context = ( \"TASK\" : container = 0 ), \
                 seq = 1, tid = {} }}, {{ {field} = {}, prev_state = 0x1, arg0 = 0x5 }}\n",
                words[1].parse::<u64>().unwrap() * 1000,
                words[0],
                words[2],
                &words[3][1..],
            )
        };
        events.split(", ").map(line).collect()
    }

    /// The preemptions, in us and as `FROM-TO PREEMPTED<WOKEN`.
    fn check(events: &str, expected: &[&str]) {
        let found = preemptions(&printed(events));
        let text = |one: &Preemption| {
            format!("{}-{} {}<{}", one.from_ns / 1000, one.to_ns / 1000, one.preempted, one.woken)
        };
        assert_eq!(found.iter().map(text).collect::<Vec<_>>(), expected, "{events}");
    }

    #[test]
    fn a_thread_that_is_woken_from_another_cpu_preempts_some_microseconds_later() {
        check("0 10 5 >7, 1 500 8 !9, 0 515 7 >9", &["500-515 7<9"]);
        check("0 10 5 >7, 1 500 8 !9, 0 515 7 >9, 1 600 8 !7, 0 620 9 >7", &["500-515 7<9", "600-620 9<7"]);
    }

    #[test]
    fn a_thread_that_waits_for_its_turn_preempts_nobody() {
        check("0 10 5 >7, 1 500 8 !9, 0 601 7 >9", &[]);
        check("0 10 5 >7, 1 500 8 !9, 0 600 7 >9", &["500-600 7<9"]);
    }

    #[test]
    fn an_idle_cpu_and_a_thread_that_came_after_the_wakeup_are_not_preempted() {
        check("0 10 5 >0, 1 500 8 !9, 0 515 0 >9", &[]);
        check("0 10 5 >7, 1 500 8 !9, 0 510 7 >6, 0 515 6 >9", &[]);
        check("0 10 5 >7, 1 500 8 !0, 0 515 7 >0", &[]);
    }

    #[test]
    fn a_wakeup_explains_one_switch() {
        check("0 10 5 >7, 1 500 8 !9, 0 515 7 >9, 0 520 9 >7, 0 530 7 >9", &["500-515 7<9"]);
    }

    #[test]
    fn only_time_of_the_workload_that_is_on_the_path_is_explained() {
        let segment = |from: i64, to: i64, tid: u32, kind: &str| json!({"from_ns": from, "to_ns": to, "kind": kind, "tid": tid, "comm": "prog", "call": null, "cause": null});
        let path = made::path(
            (7, "prog"),
            &[
                segment(0, 100, 7, "running"),
                segment(100, 200, 7, "runnable"),
                segment(200, 300, 8, "running"),
                segment(300, 400, 60, "running"),
                segment(400, 500, 61, "runnable"),
            ],
        );
        let segments = PathDocument::deserialize(path).unwrap().segments;
        let own = BTreeSet::from([7, 8]);
        let check =
            |from: i64, to: i64, preempted: u32, woken: u32, expected: &[((u32, &'static str), i64)]| {
                let one = Preemption { from_ns: 1000 + from, to_ns: 1000 + to, preempted, woken };
                assert_eq!(corrections(&[one], &own, &segments, 1000), expected, "{one:?}");
            };
        check(80, 100, 7, 50, &[((7, "running"), 20), ((7, "runnable"), -20)]);
        check(90, 130, 7, 50, &[((7, "running"), 10), ((7, "runnable"), -10)]);
        check(180, 200, 50, 7, &[((7, "running"), -20), ((7, "runnable"), 20)]);
        // By another thread of the path, or at a time that is not on it.
        check(80, 100, 50, 51, &[]);
        check(80, 100, 8, 50, &[]);
        // Threads of other programs explain nothing.
        check(350, 400, 60, 50, &[]);
        check(450, 500, 50, 61, &[]);
        check(250, 280, 50, 8, &[]);
        check(250, 280, 8, 50, &[((8, "running"), 30), ((8, "runnable"), -30)]);
    }
}
