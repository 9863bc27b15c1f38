//! What the server says of its calls, and what the tool does.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

/// What a call met; and what any may meet besides, a neighbour who has the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// Nothing: it is fast, and runs.
    None,
    /// It runs for longer.
    Compute,
    /// Another thread of the server has a mutex, and runs.
    Mutex,
    /// It sleeps.
    Timer,
    /// Another process of the server is asked over TCP, and runs.
    Peer,
    /// A cgroup's CPU limit.
    Limit,
    /// A disk.
    Fsync,
    /// It wants to run, or who it waits for does, and somebody else has the CPU. Planted by nobody.
    Neighbour,
}

impl Cause {
    /// All that is planted, in the order of how long it takes where nobody else wants the CPU.
    pub const PLANTED: [Self; 6] =
        [Self::Compute, Self::Mutex, Self::Timer, Self::Limit, Self::Fsync, Self::Peer];

    /// As tables call it.
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

    /// Whose doing it is: a call that meets nothing runs, as one that computes does.
    pub const fn doing(self) -> Self {
        match self {
            Self::None => Self::Compute,
            other => other,
        }
    }

    /// Whether `what` is what the tool calls it.
    pub fn is_named(self, what: &str) -> bool {
        match self {
            Self::None | Self::Compute => what == "running",
            Self::Mutex => what == "running causes-holder",
            Self::Timer => what == "sleeping until a timer",
            Self::Peer => what == "running causes-peer",
            Self::Limit => what.starts_with("not allowed to run: CPU limit"),
            Self::Fsync => what.starts_with("waiting for disk"),
            Self::Neighbour => matches!(what, "waiting for a CPU" | "CPU taken by the hypervisor"),
        }
    }

    /// Whether a part of the tree, of threads called `who`, is it.
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

    /// Whether somebody runs: what interrupts take meanwhile is running by the clocks of threads.
    pub const fn runs(self) -> bool {
        matches!(self, Self::None | Self::Compute | Self::Mutex | Self::Peer)
    }
}

/// A call by the server's own books. Times are ns of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Deserialize)]
pub struct BookedCall {
    /// Who made it.
    pub tid: u32,
    /// The first thing that it did was to read the clock.
    pub from_ns: u64,
    /// And the last.
    pub to_ns: u64,
    /// What it met.
    pub cause: Cause,
    /// How long that took of it.
    pub planted_ns: u64,
    /// How long it had a CPU itself.
    pub cpu_ns: u64,
    /// How long it, or who it waited for, wanted a CPU and had none, be it that another thread had it or the
    /// hypervisor; counted from a little before the call to a little after it.
    pub runnable_ns: u64,
}

impl BookedCall {
    /// How long it took by its own clock, ns.
    pub fn took(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    /// How long it was runnable of `window_ns`, what it took as probes see it: they see it begin before it
    /// reads its clock, and a neighbour may come between.
    pub fn runnable_of(&self, window_ns: u64) -> u64 {
        let ran = if self.cause.doing() == Cause::Compute { 0 } else { self.cpu_ns };
        self.runnable_ns.min(window_ns.saturating_sub(self.planted_ns + ran))
    }
}

#[derive(Debug, Deserialize)]
struct TruthOfCalls {
    schema: String,
    left_out: BTreeMap<String, String>,
    calls: Vec<BookedCall>,
}

/// All calls, to be found again.
#[derive(Debug)]
pub struct Books {
    /// Causes that could not be planted, and why.
    pub left_out: BTreeMap<String, String>,
    /// By thread, in order.
    calls: BTreeMap<u32, Vec<BookedCall>>,
}

impl Books {
    /// Reads the truth that `causes` wrote.
    ///
    /// # Errors
    ///
    /// When it has another form.
    pub fn read(document: &Value) -> Result<Self> {
        let truth = TruthOfCalls::deserialize(document).context("cannot read the truth of the calls")?;
        ensure!(truth.schema == "wakepath.truth-of-calls/1", "the truth has schema `{}`", truth.schema);
        let mut calls: BTreeMap<u32, Vec<BookedCall>> = BTreeMap::new();
        for call in truth.calls {
            calls.entry(call.tid).or_default().push(call);
        }
        for calls in calls.values_mut() {
            calls.sort_by_key(|call| call.from_ns);
        }
        Ok(Self { left_out: truth.left_out, calls })
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &BookedCall> {
        self.calls.values().flatten()
    }

    /// The call whose own stamps lie within those of probes at its entry and its return, which count from
    /// `origin`; and what it took by the probes, ns.
    pub fn find(&self, told: &ToldCall, origin: u64) -> Option<(&BookedCall, u64)> {
        let (from, to) = (origin + told.from_ns, origin + told.to_ns);
        let calls = self.calls.get(&told.tid)?;
        let call = calls.get(calls.partition_point(|call| call.from_ns < from))?;
        (call.to_ns <= to).then_some((call, to.saturating_sub(from)))
    }
}

/// What `wakepath path --call --json` says (`wakepath.calls/1`).
#[derive(Debug, Deserialize)]
pub struct CallsDocument {
    /// The form of the document.
    pub schema: String,
    /// From where stamps count.
    pub origin_ns: String,
    /// The peaks of all calls.
    pub peaks: Vec<Peak>,
    /// Those that were asked about.
    pub asked: Asked,
    /// What they waited for.
    pub causes: Vec<ToldCause>,
    /// And through whom, put together.
    pub tree: Vec<Node>,
    /// One by one.
    pub calls: Vec<ToldCall>,
}

/// A peak.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Peak {
    /// Its first bucket.
    pub from_bucket: u32,
    /// And its last.
    pub to_bucket: u32,
    /// Its calls.
    pub count: u64,
}

/// Some calls.
#[derive(Debug, Deserialize)]
pub struct Asked {
    /// What they took on average, ns.
    pub mean_ns: u64,
}

/// What calls waited for.
#[derive(Debug, Deserialize)]
pub struct ToldCause {
    /// In words.
    pub what: String,
    /// For how long, ns a call.
    pub asked_ns: f64,
}

/// Threads of one name in the tree; of whoever made the calls there is none.
#[derive(Debug, Deserialize)]
pub struct Node {
    /// Who they are.
    pub who: Option<String>,
    /// What their own time went to.
    pub own: Vec<Part>,
}

/// A part of threads' own time, ns a call.
#[derive(Debug, Deserialize)]
pub struct Part {
    /// A kind of the path contract.
    pub kind: String,
    /// In words, with whoever had the CPU.
    pub what: String,
    /// In these calls.
    pub asked_ns: f64,
    /// In the usual ones.
    pub usual_ns: f64,
}

/// A call.
#[derive(Debug, Deserialize)]
pub struct ToldCall {
    /// Who made it.
    pub tid: u32,
    /// When its entry was seen.
    pub from_ns: u64,
    /// And its return.
    pub to_ns: u64,
    /// What took most of it.
    pub first: Option<First>,
}

/// What took most of a call.
#[derive(Debug, Deserialize)]
pub struct First {
    /// In words.
    pub what: String,
}

impl CallsDocument {
    /// Reads what the tool said.
    ///
    /// # Errors
    ///
    /// When it has another form.
    pub fn read(document: Value) -> Result<(Self, u64)> {
        let document = Self::deserialize(document).context("cannot read what was told of the calls")?;
        ensure!(document.schema == "wakepath.calls/1", "the answer has schema `{}`", document.schema);
        let origin = document.origin_ns.parse().context("the answer's origin_ns is no number")?;
        Ok((document, origin))
    }
}
