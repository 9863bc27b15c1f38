//! The scheduler's events in an LTTng trace, as babeltrace2 prints them.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use wakepath_runner::printed;

/// An event, as far as it concerns the states of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A CPU goes from one thread to another.
    Switch { from: u32, to: u32, left: Left },
    /// A thread is about to be woken: sched_waking.
    Waking { tid: u32 },
    /// A thread can run again: sched_wakeup.
    Wakeup { tid: u32 },
    /// A thread is forked.
    Birth { tid: u32 },
    /// A new thread can run: sched_wakeup_new.
    FirstWakeup { tid: u32 },
    /// An ended thread is forgotten.
    Free { tid: u32 },
    /// A thread exits; it still runs until its last switch.
    Exit { tid: u32 },
    /// Any other event: only its time counts.
    Other,
}

/// The state in which a thread leaves its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It could still run.
    Runnable,
    Blocked,
    /// Ended if it exited, otherwise parked.
    EndedOrParked,
    /// Ended if it exited, otherwise blocked.
    EndedOrBlocked,
}

/// An event of the trace. `stamp` is in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    pub stamp: u64,
    pub cpu: u32,
    pub kind: Kind,
}

/// The `prev_state` values for ended threads: EXIT_DEAD, EXIT_ZOMBIE and, before Linux 4.14, TASK_DEAD. Later kernels
/// show parked threads with the last value: only an exiting thread has ended.
const ENDED: u64 = 16 | 32 | 64;
/// TASK_DEAD since Linux 4.14, where a tracer writes the thread's own state (LTTng-modules 2.10 under Linux 4.15); others
/// write an idle kernel thread's state so.
const DEAD_OR_IDLE: u64 = 128;
/// The bits of the blocked states. Since Linux 4.14 a preempted thread leaves with a bit above them.
const BLOCKED: u64 = 0xff;

/// All events in the trace, in order of their stamps.
///
/// Each stream is read alone, since packets have wrong ends in some traces and babeltrace2 stops where it would merge their
/// streams.
pub fn read(trace: &Path) -> Result<Vec<Event>> {
    let mut folders = Vec::new();
    find(trace, &mut folders)?;
    ensure!(!folders.is_empty(), "no `metadata` in `{}`", trace.display());
    let mut events = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_file() && path.file_name().is_some_and(|name| name != "metadata") {
                events.extend(stream(&folder, &path)?);
            }
        }
    }
    events.sort_by_key(|event: &Event| event.stamp);
    Ok(events)
}

/// The directories with kernel traces in this directory.
fn find(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    if folder.join("metadata").exists() {
        found.push(folder.canonicalize()?);
        return Ok(());
    }
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read `{}`", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "ust" && name != "index") {
            find(&path, found)?;
        }
    }
    Ok(())
}

/// A stream's events.
fn stream(folder: &Path, path: &Path) -> Result<Vec<Event>> {
    let alone = tempfile::tempdir().context("cannot make a folder")?;
    symlink(folder.join("metadata"), alone.path().join("metadata"))?;
    symlink(path, alone.path().join("stream"))?;
    // The usual graph has a muxer, which stops at a packet that begins before the previous packet has ended.
    let inputs = format!("inputs=[\"{}\"]", alone.path().display());
    let mut command = Command::new("babeltrace2");
    command.args(["run", "--component=trace:source.ctf.fs", "--params", &inputs]);
    command.args([
        "--component=text:sink.text.pretty",
        "--params=clock-seconds=true",
        "--connect=trace:text",
    ]);
    let text = printed(&mut command).with_context(|| {
        format!("babeltrace2, which `make setup` installs, cannot read `{}`", path.display())
    })?;
    text.lines()
        .map(|line| event(line).with_context(|| format!("cannot read what babeltrace2 printed: {line}")))
        .collect()
}

/// The event in a line `[SECONDS.NS] (+…) HOST NAME: { FIELDS }, { FIELDS }`.
fn event(line: &str) -> Option<Event> {
    let (stamp, rest) = line.strip_prefix('[')?.split_once(']')?;
    let (seconds, ns) = stamp.split_once('.')?;
    let stamp = seconds.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?;
    let (head, fields) = rest.split_once(": {")?;
    let name = head.rsplit(' ').next()?;
    let fields = values(fields);
    let field = |name: &str| fields.get(name).copied();
    let cpu = u32::try_from(field("cpu_id")?).ok()?;
    let tid = |name: &str| field(name).and_then(|tid| u32::try_from(tid).ok());
    let kind = match name {
        "sched_switch" => {
            let state = field("prev_state")?;
            Kind::Switch { from: tid("prev_tid")?, to: tid("next_tid")?, left: left(state) }
        }
        "sched_waking" => Kind::Waking { tid: tid("tid")? },
        "sched_wakeup" => Kind::Wakeup { tid: tid("tid")? },
        "sched_wakeup_new" => Kind::FirstWakeup { tid: tid("tid")? },
        "sched_process_free" => Kind::Free { tid: tid("tid")? },
        "sched_process_fork" => Kind::Birth { tid: tid("child_tid")? },
        "sched_process_exit" => Kind::Exit { tid: tid("tid")? },
        _ => Kind::Other,
    };
    Some(Event { stamp, cpu, kind })
}

fn left(state: u64) -> Left {
    match state {
        state if state & ENDED != 0 => Left::EndedOrParked,
        state if state & DEAD_OR_IDLE != 0 => Left::EndedOrBlocked,
        state if state & BLOCKED != 0 => Left::Blocked,
        _ => Left::Runnable,
    }
}

/// The whole numbers among `KEY = VALUE`, outside of texts.
fn values(fields: &str) -> HashMap<&str, u64> {
    let mut values = HashMap::new();
    let mut rest = fields;
    while let Some((before, after)) = rest.split_once(" = ") {
        let key = before.rsplit([' ', '{', ',']).next().unwrap_or_default();
        if let Some(text) = after.strip_prefix('"') {
            rest = after_text(text);
            continue;
        }
        let number: String = after.chars().take_while(char::is_ascii_digit).collect();
        if let Ok(number) = number.parse() {
            values.insert(key, number);
        }
        rest = after;
    }
    values
}

/// The rest behind a text whose first quote was read.
fn after_text(text: &str) -> &str {
    let mut escaped = false;
    for (position, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return &text[position + 1..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_read_past_the_names_of_its_threads() {
        let line = r#"[1361214076.525095952] (+0.000000647) VM1 sched_switch: { cpu_id = 3 }, { prev_comm = "a\", prev_tid = 7", prev_tid = 2274, prev_prio = 20, prev_state = 1, next_comm = "b", next_tid = 7416 }"#;
        let kind = Kind::Switch { from: 2274, to: 7416, left: Left::Blocked };
        assert_eq!(event(line), Some(Event { stamp: 1_361_214_076_525_095_952, cpu: 3, kind }));
    }

    #[test]
    fn a_preempted_or_ended_thread_is_not_blocked_like_a_sleeper() {
        let line = |state: u64| {
            let fields = format!("{{ prev_tid = 1, prev_state = {state}, next_tid = 2 }}");
            format!("[1.000000000] (+0.0) vm sched_switch: {{ cpu_id = 0 }}, {fields}")
        };
        let of = |state| event(&line(state)).map(|event| event.kind);
        for (state, left) in [
            (0, Left::Runnable),
            (256, Left::Runnable),
            (2, Left::Blocked),
            (258, Left::Blocked),
            (128, Left::EndedOrBlocked),
            (16, Left::EndedOrParked),
            (32, Left::EndedOrParked),
            (64, Left::EndedOrParked),
        ] {
            assert_eq!(of(state), Some(Kind::Switch { from: 1, to: 2, left }), "{state}");
        }
    }
}
