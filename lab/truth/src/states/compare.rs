//! The tool's thread states beside the proved states, and the reason for each difference.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::replay::Proved;

/// The overview of all threads, with only the compared keys.
#[derive(Debug, Deserialize)]
pub struct Overview {
    origin_realtime_ns: String,
    scope: Scope,
    threads: Vec<ThreadTimes>,
}

#[derive(Debug, Deserialize)]
struct Scope {
    from_ns: i64,
    to_ns: i64,
}

#[derive(Debug, Deserialize)]
struct ThreadTimes {
    tid: u32,
    comm: Option<String>,
    running_ns: u64,
    runnable_ns: u64,
    throttled_ns: u64,
    waiting_ns: u64,
    idle_ns: u64,
    sleeping_ns: u64,
    undecided_ns: u64,
    unknown_ns: u64,
}

impl Overview {
    /// The answer's time range, in ns since 1970, like babeltrace2's stamps.
    pub fn window(&self) -> Result<Range<u64>> {
        let origin: i64 = self.origin_realtime_ns.parse().context("the origin is no number")?;
        let stamp = |offset: i64| u64::try_from(origin + offset).context("a stamp before 1970");
        Ok(stamp(self.scope.from_ns)?..stamp(self.scope.to_ns)?)
    }
}

/// The tool's times for a thread id, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Said {
    /// It ran.
    pub running: u64,
    /// It waited for a CPU.
    pub runnable: u64,
    /// It was blocked, whatever for.
    pub blocked: u64,
    /// Not known.
    pub unknown: u64,
}

/// The result for a thread id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadVerdict {
    /// All times are the same, to the nanosecond.
    Same,
    /// They differ by no more than the unproved time. For the time before the thread's first event, the tracer's
    /// initial thread list has the state, and the replay does not read it.
    Before,
    /// The trace lacks a CPU's records, which the replay does not know: it proves more than the tool says, and the tool
    /// leaves as much time unknown.
    Unknown,
    /// No scheduler event names the thread; only the tracer's list does, as blocked.
    OnlyListed,
    /// The trace proves other times.
    Different,
}

/// A thread id's times, from the replay and from the tool.
#[derive(Debug)]
pub struct Thread {
    /// The thread id, in the host's first namespace.
    pub tid: u32,
    /// The last name.
    pub comm: String,
    /// The replay's times.
    pub proved: Proved,
    /// The tool's times.
    pub said: Said,
}

impl Thread {
    /// Compares its times.
    pub fn verdict(&self) -> ThreadVerdict {
        let Self { proved, said, .. } = self;
        let proved_times = [proved.running, proved.runnable, proved.blocked];
        let said_times = [said.running, said.runnable, said.blocked];
        if proved_times == said_times {
            return ThreadVerdict::Same;
        }
        if *proved == Proved::default() && said.running == 0 && said.runnable == 0 {
            return ThreadVerdict::OnlyListed;
        }
        let sum = |differences: [u64; 3]| differences.into_iter().sum::<u64>();
        let pairs = [0, 1, 2].map(|time| (proved_times[time], said_times[time]));
        let more = sum(pairs.map(|(proved, said)| said.saturating_sub(proved)));
        let less = sum(pairs.map(|(proved, said)| proved.saturating_sub(said)));
        match less {
            0 if more + said.unknown <= proved.unproved => ThreadVerdict::Before,
            1.. if less <= said.unknown && more + said.unknown <= less + proved.unproved => {
                ThreadVerdict::Unknown
            }
            _ => ThreadVerdict::Different,
        }
    }
}

/// All threads from the replay and from the tool, by thread id.
pub fn compare(proved: &BTreeMap<u32, Proved>, overview: &Overview) -> Vec<Thread> {
    let mut said: BTreeMap<u32, (String, Said)> = BTreeMap::new();
    for thread in &overview.threads {
        let (comm, sum) = said.entry(thread.tid).or_default();
        *comm = thread.comm.clone().unwrap_or_default();
        sum.running += thread.running_ns;
        sum.runnable += thread.runnable_ns + thread.throttled_ns;
        sum.blocked += thread.waiting_ns + thread.idle_ns + thread.sleeping_ns + thread.undecided_ns;
        sum.unknown += thread.unknown_ns;
    }
    let tids: BTreeSet<u32> = proved.keys().chain(said.keys()).copied().collect();
    let thread = |tid: u32| {
        let (comm, said) = said.get(&tid).cloned().unwrap_or_default();
        Thread { tid, comm, proved: proved.get(&tid).copied().unwrap_or_default(), said }
    };
    tids.into_iter().map(thread).collect()
}

/// The head of the traces' table.
pub const HEAD: &str = "| trace | threads | the same, to the ns | the same but before their first event | only in the tracer's list | unknown, by a CPU without records | DIFFERENT | ran | could run | blocked |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

/// A trace as a row of the table, with its threads' proved times.
pub fn row(name: &str, threads: &[Thread]) -> String {
    let count = |verdict| threads.iter().filter(|thread| thread.verdict() == verdict).count();
    let seconds = |time: fn(&Proved) -> u64| {
        let sum: u64 = threads.iter().map(|thread| time(&thread.proved)).sum();
        sum as f64 / 1e9
    };
    format!(
        "| {name} | {} | {} | {} | {} | {} | {} | {:.3} s | {:.3} s | {:.3} s |",
        threads.len(),
        count(ThreadVerdict::Same),
        count(ThreadVerdict::Before),
        count(ThreadVerdict::OnlyListed),
        count(ThreadVerdict::Unknown),
        count(ThreadVerdict::Different),
        seconds(|proved| proved.running),
        seconds(|proved| proved.runnable),
        seconds(|proved| proved.blocked),
    )
}

/// A thread's times as a line: proved and reported, in ns.
pub fn line(thread: &Thread) -> String {
    let Thread { tid, comm, proved, said } = thread;
    let comm = comm.escape_debug();
    let verdict = match thread.verdict() {
        ThreadVerdict::Same => "the same",
        ThreadVerdict::Before => "before its first event",
        ThreadVerdict::OnlyListed => "only listed",
        ThreadVerdict::Unknown => "unknown, by a CPU without records",
        ThreadVerdict::Different => "DIFFERENT",
    };
    format!(
        "{tid:>6} {comm:<16} ran {} and {}, could run {} and {}, blocked {} and {}; {} unproved, {} unknown: {verdict}",
        proved.running,
        said.running,
        proved.runnable,
        said.runnable,
        proved.blocked,
        said.blocked,
        proved.unproved,
        said.unknown,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(proved: [u64; 4], said: [u64; 4]) -> ThreadVerdict {
        let [running, runnable, blocked, unproved] = proved;
        let proved = Proved { running, runnable, blocked, unproved };
        let [running, runnable, blocked, unknown] = said;
        let said = Said { running, runnable, blocked, unknown };
        Thread { tid: 7, comm: String::new(), proved, said }.verdict()
    }

    #[test]
    fn times_may_differ_only_by_what_the_replay_does_not_know() {
        assert_eq!(verdict([5, 6, 7, 8], [5, 6, 7, 8]), ThreadVerdict::Same);
        assert_eq!(verdict([5, 6, 7, 8], [5, 6, 7, 9]), ThreadVerdict::Same);
        assert_eq!(verdict([5, 6, 7, 8], [5, 6, 15, 0]), ThreadVerdict::Before);
        assert_eq!(verdict([5, 6, 7, 8], [7, 9, 10, 0]), ThreadVerdict::Before);
        assert_eq!(verdict([5, 6, 7, 8], [7, 9, 10, 1]), ThreadVerdict::Different);
        assert_eq!(verdict([5, 6, 7, 8], [5, 6, 16, 0]), ThreadVerdict::Different);
        assert_eq!(verdict([5, 6, 7, 8], [4, 7, 7, 0]), ThreadVerdict::Different);
        assert_eq!(verdict([5, 6, 7, 8], [5, 4, 7, 2]), ThreadVerdict::Unknown);
        assert_eq!(verdict([5, 6, 7, 8], [5, 4, 7, 10]), ThreadVerdict::Unknown);
        assert_eq!(verdict([5, 6, 7, 8], [5, 4, 12, 5]), ThreadVerdict::Unknown);
        assert_eq!(verdict([5, 6, 7, 8], [5, 4, 7, 1]), ThreadVerdict::Different);
        assert_eq!(verdict([5, 6, 7, 8], [5, 4, 7, 11]), ThreadVerdict::Different);
        assert_eq!(verdict([5, 6, 7, 8], [5, 4, 14, 4]), ThreadVerdict::Different);
        assert_eq!(verdict([0, 0, 0, 0], [0, 0, 99, 0]), ThreadVerdict::OnlyListed);
        assert_eq!(verdict([0, 0, 0, 0], [1, 0, 99, 0]), ThreadVerdict::Different);
        assert_eq!(verdict([0, 0, 0, 0], [0, 1, 99, 0]), ThreadVerdict::Different);
        assert_eq!(verdict([0, 0, 1, 0], [0, 0, 99, 0]), ThreadVerdict::Different);
    }
}
