//! The assumption where the run queues' clocks cannot be read: all the time from a preempting wake-up to the switch is
//! dated back.
//!
//! The events come from the recording, as babeltrace2 prints them. The assumed time is 15 to 40% too long: a switch that is
//! no preemption is dated back too, by a microsecond, and a wake-up reads the clock some hundred ns after its event.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use wakepath_runner::printed;

use crate::document::Dated;

/// The longest time from a wake-up to the switch that counts as a preemption, ns. An interrupt reaches a running CPU
/// within some 15 µs; a thread switched in later than this did not preempt, but waited for its turn.
const MAX_DELAY_NS: i64 = 100_000;

/// Reads a recording's preemptions.
///
/// # Errors
///
/// If babeltrace2 cannot be run, or cannot read the recording.
pub(super) fn read(recording: &Path) -> Result<Vec<Dated>> {
    let text = printed(Command::new("babeltrace2").arg("--clock-cycles").arg(recording.join("kernel")))
        .context("babeltrace2, which `make setup` installs, is needed")?;
    Ok(preemptions(&text))
}

/// The preemptions in babeltrace2's lines, which are in order of their stamps.
fn preemptions(text: &str) -> Vec<Dated> {
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
                found.push(Dated {
                    at_ns: stamp,
                    back_ns: stamp - woken,
                    prev: tid(prev),
                    is_preempted: true,
                    next: tid(next),
                    uncounted_ns: 0,
                });
            }
        }
    }
    found
}

/// The stamp, the name and the fields in a line `[CYCLES] (+…) HOST NAME: { FIELDS }`.
fn parts(line: &str) -> Option<(i64, &str, &str)> {
    let (stamp, rest) = line.strip_prefix('[')?.split_once(']')?;
    let (head, fields) = rest.split_once(": {")?;
    Some((stamp.trim().parse().ok()?, head.rsplit(' ').next()?, fields))
}

/// The whole number in the field with this key.
fn number(fields: &str, key: &str) -> Option<u64> {
    let pattern = format!(" {key} = ");
    let value = fields.split_once(&pattern)?.1;
    value.split([',', ' ']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// babeltrace2's lines for events, each given as CPU, stamp in us, thread on the CPU, and `>TID` for a switch to
    /// that thread or `!TID` for its wake-up.
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

    /// Checks the preemptions, in us and as `FROM-TO PREEMPTED<WOKEN`.
    fn check(events: &str, expected: &[&str]) {
        let found = preemptions(&printed(events));
        let text = |one: &Dated| {
            assert!(one.is_preempted, "{one:?}");
            let woken = one.at_ns - one.back_ns;
            format!("{}-{} {}<{}", woken / 1000, one.at_ns / 1000, one.prev, one.next)
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
}
