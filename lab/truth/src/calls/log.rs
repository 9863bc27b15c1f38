//! The server's own log of its calls, and the tool's document about them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::document::Dated;

/// The cause of a call's time: planted, or a neighbour on the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallCause {
    /// No cause: the call is fast, and runs.
    None,
    /// The call runs for longer.
    Compute,
    /// Another server thread holds a mutex, and runs.
    Mutex,
    /// The call sleeps.
    Timer,
    /// The call asks another server process over TCP, which runs.
    Peer,
    /// A cgroup's CPU limit.
    Limit,
    /// A disk.
    Fsync,
    /// The call, or the thread awaited by it, is runnable while another thread has the CPU. Not planted.
    Neighbour,
}

impl CallCause {
    /// The planted causes, in order of their length without neighbours.
    pub const PLANTED: [Self; 6] =
        [Self::Compute, Self::Mutex, Self::Timer, Self::Limit, Self::Fsync, Self::Peer];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Compute => "compute",
            Self::Mutex => "mutex",
            Self::Timer => "timer",
            Self::Peer => "peer",
            Self::Limit => "limit",
            Self::Fsync => "fsync",
            Self::Neighbour => "neighbour",
        }
    }

    /// The call's activity: without a cause it runs, like a call that computes.
    pub const fn activity(self) -> Self {
        match self {
            Self::None => Self::Compute,
            other => other,
        }
    }

    /// Whether the tool's cause is this cause. A running thread's name is the last word of the cause's text.
    pub fn is_named(self, cause: &CauseName) -> bool {
        let runs = |thread| match cause.kind.as_str() {
            "running" => cause.what.rsplit(' ').next() == Some(thread),
            // The awaited thread, whatever it did.
            "thread" => cause.what.split(' ').any(|word| word == thread),
            _ => false,
        };
        match self {
            Self::None | Self::Compute => cause.kind == "caller",
            Self::Mutex => runs("causes-holder"),
            Self::Timer => cause.kind == "timer",
            Self::Peer => runs("causes-peer"),
            Self::Limit => cause.kind == "cpu_limit",
            Self::Fsync => cause.kind == "disk",
            Self::Neighbour => matches!(cause.kind.as_str(), "cpu" | "hypervisor"),
        }
    }

    /// Whether a part of the tree, for threads named `who`, shows this cause.
    pub fn is_part(self, who: Option<&str>, kind: &str) -> bool {
        match self {
            Self::None | Self::Compute => who.is_none() && kind == "running",
            Self::Mutex => who == Some("causes-holder") && kind == "running",
            Self::Peer => who == Some("causes-peer") && kind == "running",
            Self::Timer => kind == "timer",
            Self::Limit => kind == "throttled",
            Self::Fsync => kind == "block_device",
            Self::Neighbour => matches!(kind, "runnable" | "stolen"),
        }
    }

    /// Whether a thread runs in this cause: by its own clock, interrupts are running time too.
    pub const fn runs(self) -> bool {
        matches!(self, Self::None | Self::Compute | Self::Mutex | Self::Peer)
    }
}

/// A call in the server's own log. Times are ns of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Deserialize)]
pub struct LoggedCall {
    /// Its thread.
    pub tid: u32,
    /// The clock's reading at its beginning, before all else.
    pub from_ns: u64,
    /// The clock's reading at its end.
    pub to_ns: u64,
    /// Its planted cause.
    pub cause: CallCause,
    /// The time taken by the planted cause.
    pub planted_ns: u64,
    /// Its own CPU time.
    pub cpu_ns: u64,
    /// The time for which the call, or the awaited thread, was runnable without a CPU because of another thread or the
    /// hypervisor; counted from a little before the call to a little after it.
    pub runnable_ns: u64,
}

impl LoggedCall {
    /// Its length by its own clock, ns.
    pub fn took(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    /// The runnable time within the call's length by probes, `window_ns`. The entry probe sees the call before the call
    /// reads its clock, and a neighbour may run in between.
    pub fn runnable_of(&self, window_ns: u64) -> u64 {
        let ran = if self.cause.activity() == CallCause::Compute { 0 } else { self.cpu_ns };
        self.runnable_ns.min(window_ns.saturating_sub(self.planted_ns + ran))
    }
}

#[derive(Debug, Deserialize)]
struct LogDocument {
    schema: String,
    left_out: BTreeMap<String, String>,
    calls: Vec<LoggedCall>,
}

/// The log of all calls.
#[derive(Debug)]
pub struct CallLog {
    /// Causes that could not be planted, with the reasons.
    pub left_out: BTreeMap<String, String>,
    /// By thread, in order of their beginnings.
    calls: BTreeMap<u32, Vec<LoggedCall>>,
}

impl CallLog {
    /// Reads the truth written by `causes`.
    ///
    /// # Errors
    ///
    /// If it has another form.
    pub fn read(document: &Value) -> Result<Self> {
        let truth = LogDocument::deserialize(document).context("cannot read the truth of the calls")?;
        ensure!(truth.schema == "wakepath.truth-of-calls/1", "the truth has schema `{}`", truth.schema);
        let mut calls: BTreeMap<u32, Vec<LoggedCall>> = BTreeMap::new();
        for call in truth.calls {
            calls.entry(call.tid).or_default().push(call);
        }
        for calls in calls.values_mut() {
            calls.sort_by_key(|call| call.from_ns);
        }
        Ok(Self { left_out: truth.left_out, calls })
    }

    /// Corrects the times that the kernel's clocks date back at switches within calls. A preempted thread ran on for that
    /// time, which the log has as runnable; a thread that gets a CPU was still runnable then. Awaited threads are not in
    /// the log: their switches correct nothing.
    pub fn correct(&mut self, switches: &[Dated]) {
        for switch in switches {
            for (tid, gets_cpu) in [(switch.prev, false), (switch.next, true)] {
                let Ok(at) = u64::try_from(switch.at_ns) else { continue };
                let Some(calls) = self.calls.get_mut(&tid).filter(|_| gets_cpu || switch.is_preempted) else {
                    continue;
                };
                let place = calls.partition_point(|call| call.to_ns < at);
                let Some(call) = calls.get_mut(place).filter(|call| call.from_ns <= at) else { continue };
                let ns = u64::try_from(switch.back_ns).unwrap_or(0).min(at - call.from_ns);
                let (more, less) = match gets_cpu {
                    true => (&mut call.runnable_ns, &mut call.cpu_ns),
                    false => (&mut call.cpu_ns, &mut call.runnable_ns),
                };
                // Where the log has less, it includes the switch of an awaited thread.
                let ns = ns.min(*less);
                *more += ns;
                *less -= ns;
            }
        }
    }

    /// The calling threads.
    pub fn threads(&self) -> BTreeSet<u32> {
        self.calls.keys().copied().collect()
    }

    /// All calls.
    pub fn all(&self) -> impl Iterator<Item = &LoggedCall> {
        self.calls.values().flatten()
    }

    /// The call whose own stamps lie between the probes' stamps at its entry and return, which count from `origin`; and
    /// its length by the probes, ns.
    pub fn find(&self, reported: &ReportedCall, origin: u64) -> Option<(&LoggedCall, u64)> {
        let (from, to) = (origin + reported.from_ns, origin + reported.to_ns);
        let calls = self.calls.get(&reported.tid)?;
        let call = calls.get(calls.partition_point(|call| call.from_ns < from))?;
        (call.to_ns <= to).then_some((call, to.saturating_sub(from)))
    }
}

/// The output of `wakepath path --call --json` (`wakepath.calls/1`).
#[derive(Debug, Deserialize)]
pub struct CallsDocument {
    /// The document's schema.
    pub schema: String,
    /// The time from which stamps count, ns, as a decimal.
    pub origin_ns: String,
    /// The peaks of all calls.
    pub peaks: Vec<Peak>,
    /// The selected calls.
    pub asked: Selection,
    /// Their causes.
    pub causes: Vec<ReportedCause>,
    /// Their cause trees, merged.
    pub tree: Vec<Node>,
    /// Each call.
    pub calls: Vec<ReportedCall>,
}

/// A peak.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct Peak {
    /// Its first bucket.
    pub from_bucket: u32,
    /// Its last bucket.
    pub to_bucket: u32,
    /// The number of calls in it.
    pub count: u64,
}

/// The selected calls.
#[derive(Debug, Deserialize)]
pub struct Selection {
    /// Their average length, ns.
    pub mean_ns: u64,
}

/// The tool's name for a cause.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct CauseName {
    /// The cause's type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The cause in words.
    pub what: String,
}

impl CauseName {
    /// Whether the cause is another thread, with all its activity during the wait.
    pub fn is_thread(&self) -> bool {
        self.kind == "thread"
    }

    /// Whether a time is unknown because events are missing. Only the words give the reason.
    pub fn is_missing(&self) -> bool {
        let reasons = ["records were lost", "a task switch was not recorded"];
        self.kind == "unknown" && reasons.iter().any(|reason| self.what.ends_with(reason))
    }
}

/// A cause reported by the tool for calls.
#[derive(Debug, Deserialize)]
pub struct ReportedCause {
    /// Its name.
    #[serde(flatten)]
    pub name: CauseName,
    /// Its time, ns a call.
    pub asked_ns: f64,
    /// Its parts, where the tool distinguishes them.
    #[serde(default)]
    pub parts: Vec<CausePart>,
}

/// A part of a cause reported by the tool for calls.
#[derive(Debug, Deserialize)]
pub struct CausePart {
    /// A kind in the path contract.
    pub kind: Option<String>,
    /// The type of this part's own cause.
    #[serde(rename = "type")]
    pub responsible: Option<String>,
    /// Its name.
    pub what: String,
    /// Its time, ns a call.
    pub asked_ns: f64,
}

/// Threads with the same name in the tree.
#[derive(Debug, Deserialize)]
pub struct Node {
    /// Their name; `None` for the callers themselves.
    pub who: Option<String>,
    /// The parts of their own time.
    pub own: Vec<OwnPart>,
}

/// A part of threads' own time, ns a call.
#[derive(Debug, Deserialize)]
pub struct OwnPart {
    /// A kind in the path contract.
    pub kind: String,
    /// Its name, with the CPU competitor.
    pub what: String,
    /// Its time in the selected calls.
    pub asked_ns: f64,
    /// Its time in the usual calls.
    pub usual_ns: f64,
}

/// A call reported by the tool.
#[derive(Debug, Deserialize)]
pub struct ReportedCall {
    /// Its thread.
    pub tid: u32,
    /// Its entry by a probe, ns since the origin.
    pub from_ns: u64,
    /// Its return by a probe, likewise.
    pub to_ns: u64,
    /// Its largest cause.
    pub first: Option<CauseName>,
}

impl ReportedCause {
    /// The activities that took the time, each with its ns a call: the cause, or the awaited thread's activities.
    pub fn activities(&self) -> Vec<(CauseName, f64)> {
        if !self.name.is_thread() {
            return vec![(self.name.clone(), self.asked_ns)];
        }
        let thread = self.name.what.trim_end_matches(" held").rsplit(' ').next().unwrap_or_default();
        let known: f64 = self.parts.iter().map(|part| part.asked_ns).sum();
        let rest = CauseName { kind: "not said".to_owned(), what: String::new() };
        let parts = self.parts.iter().map(|part| {
            let kind = match part.kind.as_deref().unwrap_or_default() {
                "runnable" => "cpu",
                "interrupted" => "interrupts",
                "stolen" => "hypervisor",
                "throttled" => "cpu_limit",
                "block_device" => "disk",
                kind => kind,
            };
            let what = if part.what == "running" { format!("running {thread}") } else { part.what.clone() };
            (CauseName { kind: kind.to_owned(), what }, part.asked_ns)
        });
        parts.chain([(rest, self.asked_ns - known)]).collect()
    }
}

impl CallsDocument {
    /// Reads the tool's document; the second value is its origin, ns.
    ///
    /// # Errors
    ///
    /// If it has another form.
    pub fn read(document: Value) -> Result<(Self, u64)> {
        let document = Self::deserialize(document).context("cannot read the answer about the calls")?;
        ensure!(document.schema == "wakepath.calls/1", "the answer has schema `{}`", document.schema);
        let origin = document.origin_ns.parse().context("the answer's origin_ns is no number")?;
        Ok((document, origin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_the_kernel_dates_back_goes_to_the_side_of_the_switch_on_which_it_was() {
        let call = |from_ns: u64, to_ns: u64| LoggedCall {
            tid: 7,
            from_ns,
            to_ns,
            cause: CallCause::Compute,
            planted_ns: 0,
            cpu_ns: 60,
            runnable_ns: 40,
        };
        let corrected = |prev: u32, next: u32, is_preempted: bool, at_ns: i64, back_ns: i64| {
            let calls = BTreeMap::from([(7, vec![call(100, 200), call(300, 400)])]);
            let mut log = CallLog { left_out: BTreeMap::new(), calls };
            log.correct(&[Dated { at_ns, back_ns, prev, is_preempted, next, uncounted_ns: 0 }]);
            let times = log.all().map(|call| (call.cpu_ns, call.runnable_ns));
            times.collect::<Vec<_>>()
        };
        let none = (60, 40);
        // The thread was preempted: it ran until the switch.
        assert_eq!(corrected(7, 8, true, 350, 5), [none, (65, 35)]);
        // The thread blocks: the log has its wait by its own stamps.
        assert_eq!(corrected(7, 8, false, 350, 5), [none, none]);
        // The thread gets the CPU: it was runnable until the switch.
        assert_eq!(corrected(8, 7, true, 350, 5), [none, (55, 45)]);
        assert_eq!(corrected(8, 7, false, 350, 5), [none, (55, 45)]);
        // Only within a call, and no more than there is.
        assert_eq!(corrected(8, 7, true, 302, 5), [none, (58, 42)]);
        assert_eq!(corrected(8, 7, true, 400, 5), [none, (55, 45)]);
        assert_eq!(corrected(8, 7, true, 200, 5), [(55, 45), none]);
        assert_eq!(corrected(8, 7, true, 250, 5), [none, none]);
        assert_eq!(corrected(8, 7, true, 300, 5), [none, none]);
        assert_eq!(corrected(7, 8, true, 350, 50), [none, (100, 0)]);
        assert_eq!(corrected(8, 9, true, 350, 5), [none, none]);
        assert_eq!(corrected(8, 7, true, 350, -5), [none, none]);
    }
}
