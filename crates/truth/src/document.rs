//! The two documents that are held against each other. Only the keys that the judge needs.

use serde::Deserialize;

/// What a workload says about its own time (`wakepath.truth/1`). Times are ns of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Deserialize)]
pub struct Truth {
    /// The form of the document.
    pub schema: String,
    /// The program's name.
    pub workload: String,
    /// The stretch that the program vouches for: from its first line to its last.
    pub window: TruthWindow,
    /// What the threads' clocks say beside it.
    pub clocks: Clocks,
    /// The ends of a link, where the truth is that of two hosts.
    #[serde(default)]
    pub hosts: Vec<TruthHost>,
    /// Processes of the link itself, which are on neither.
    #[serde(default)]
    pub wire: Vec<u32>,
    /// Sentences that the path bears out.
    pub must: Vec<String>,
    /// Sentences that it does not.
    pub never: Vec<String>,
    /// The main thread's waits for a program on another machine, in order.
    #[serde(default)]
    pub waits: Vec<PeerWait>,
    /// All threads of the workload, whether or not they contribute.
    pub threads: Vec<Thread>,
    /// Where the window went.
    pub contributors: Vec<TruthPart>,
}

/// One end of a link, as a host.
#[derive(Debug, Clone, Deserialize)]
pub struct TruthHost {
    /// What it is called.
    pub name: String,
    /// Its network namespace.
    pub netns: u32,
    /// Its processes.
    pub pids: Vec<u32>,
}

/// The window of a truth.
#[derive(Debug, Clone, Deserialize)]
pub struct TruthWindow {
    /// Whose time.
    #[serde(flatten)]
    pub thread: Thread,
    /// Its beginning.
    pub from_ns: i64,
    /// Its end; `None` where it hangs until the recording ends.
    pub to_ns: Option<i64>,
}

/// A wait for a program on another machine: first the thread runs on its way to sleep, at last it is
/// runnable.
#[derive(Debug, Clone, Deserialize)]
pub struct PeerWait {
    /// The system call.
    pub call: String,
    /// When it was about to begin.
    pub from_ns: i64,
    /// When it was over, and the thread had a CPU again.
    pub to_ns: i64,
    /// The thread's CPU time in it.
    pub cpu_ns: i64,
    /// How long it was runnable without a CPU.
    pub delayed_ns: i64,
}

/// What the threads' own clocks say beside the account that they keep.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Clocks {
    /// The main thread's CPU time, ns.
    pub running_ns: i64,
    /// Time, ns, that threads were blocked where they believed to work: a page fault that went to the
    /// disk, a lock inside the kernel.
    pub unawares_ns: i64,
    /// What the hypervisor took of all CPUs meanwhile, ns, in steps of 10 ms.
    pub stolen_ns: i64,
}

/// A thread by its numbers and name.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// Itself.
    pub tid: u32,
    /// Its name.
    pub comm: String,
}

/// An expected contributor.
#[derive(Debug, Clone, Deserialize)]
pub struct TruthPart {
    /// Whose time; all zero and nameless in flight.
    #[serde(flatten)]
    pub thread: Thread,
    /// A kind of the path contract.
    pub kind: String,
    /// The system call it was blocked in.
    pub call: Option<String>,
    /// How long, ns; `None` for all that is left of an open window.
    pub total_ns: Option<i64>,
}

/// The answer under judgement (`wakepath.path/1`). Times are ns since `origin_ns`.
#[derive(Debug, Clone, Deserialize)]
pub struct PathDocument {
    /// The form of the document.
    pub schema: String,
    /// The clock's reading, ns, from which the document counts.
    pub origin_ns: String,
    /// Whose time, and which stretch.
    pub window: PathWindow,
    /// The tiles of the window.
    pub segments: Vec<Segment>,
    /// Their sums.
    pub contributors: Vec<PathPart>,
    /// What was lost on the way.
    #[serde(default)]
    pub losses: Vec<Loss>,
}

/// Where events are missing.
#[derive(Debug, Clone, Deserialize)]
pub struct Loss {
    /// The recorder says so itself, for want of room; else it was noticed in reading.
    #[serde(default = "yes")]
    pub reported: bool,
}

fn yes() -> bool {
    true
}

/// The window of a path.
#[derive(Debug, Clone, Deserialize)]
pub struct PathWindow {
    /// The thread.
    pub tid: Option<u32>,
    /// Its name.
    pub comm: Option<String>,
    /// Its beginning.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
}

/// A tile of the window.
#[derive(Debug, Clone, Deserialize)]
pub struct Segment {
    /// Its beginning.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// What the time went to.
    pub kind: String,
    /// Whose time; null in flight.
    pub tid: Option<u32>,
    /// The thread's name.
    pub comm: Option<String>,
    /// The system call it was blocked in.
    pub call: Option<String>,
    /// Who or what is responsible.
    pub cause: Option<Cause>,
}

/// Who or what is responsible for a segment.
#[derive(Debug, Clone, Deserialize)]
pub struct Cause {
    /// What sort of cause.
    #[serde(rename = "type")]
    pub kind: String,
    /// The thread that is, if one is.
    pub comm: Option<String>,
}

/// A contributor as the path states it.
#[derive(Debug, Clone, Deserialize)]
pub struct PathPart {
    /// Whose time.
    pub tid: Option<u32>,
    /// What it went to.
    pub kind: String,
    /// How long, ns.
    pub total_ns: i64,
    /// As part of the window.
    pub share: f64,
}
