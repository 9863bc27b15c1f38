//! The two documents that are compared, with only the keys that the judge needs.

use serde::{Deserialize, Serialize};

/// A workload's account of its own time (`wakepath.truth/1`). Times are ns of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Deserialize)]
pub struct Truth {
    /// The schema of the document.
    pub schema: String,
    /// The program's name.
    pub workload: String,
    /// The time that the program accounts for: from its first line to its last.
    pub window: TruthWindow,
    /// Readings of the threads' clocks.
    pub clocks: Clocks,
    /// The ends of a link, if the truth is one of two hosts.
    #[serde(default)]
    pub hosts: Vec<TruthHost>,
    /// The processes of the link itself, which are on neither host.
    #[serde(default)]
    pub wire: Vec<u32>,
    /// Assertions that must hold for the path.
    pub must: Vec<String>,
    /// Assertions that must not hold.
    pub never: Vec<String>,
    /// The main thread's waits for a program on another machine, in order.
    #[serde(default)]
    pub waits: Vec<PeerWait>,
    /// The time of waits, of all threads, that is *runnable* by the kernel's count alone: nothing else bounds it, so that sleep which the
    /// kernel counts as a wait for a CPU is in it.
    #[serde(default)]
    pub counted: Vec<Counted>,
    /// All threads of the workload, whether or not they contribute.
    pub threads: Vec<Thread>,
    /// The parts of the window.
    pub contributors: Vec<TruthPart>,
    /// The times of which the books have two readings, in order.
    #[serde(default)]
    pub either: Vec<Either>,
    /// Added by the judge: all kernel threads, with their CPU time in the run; none if it was not taken.
    #[serde(default)]
    pub kernel_threads: Option<Vec<KernelThread>>,
    /// Added by the judge: what the clocks of the program date back; none if the judge did not look.
    #[serde(default)]
    pub dated_back: Option<DatedBack>,
}

/// A kernel thread in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelThread {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub comm: String,
    /// Its CPU time in the run, ns; `None` if it ended in it.
    pub ran_ns: Option<i64>,
}

/// The switches that the kernel's clocks date back in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatedBack {
    /// How it is known.
    pub basis: Basis,
    /// The switches to and from the program's threads, in the order of their stamps.
    pub switches: Vec<Dated>,
    /// The sleeps of its threads that the kernel counts as waits for a CPU.
    #[serde(default)]
    pub overcounted: Vec<Overcounted>,
}

/// A sleep that the kernel counts as a wait for a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overcounted {
    /// The thread.
    pub tid: u32,
    /// The time from which on it is counted, ns of CLOCK_MONOTONIC.
    pub from_ns: i64,
    /// The wake-up.
    pub to_ns: i64,
}

/// A time in which a thread was runnable by the kernel's count alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Counted {
    /// The thread.
    pub tid: u32,
    /// Its beginning, ns of CLOCK_MONOTONIC.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
}

/// How it is known what is dated back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The run queue's clock was read at each switch.
    Measured,
    /// It could not be, for this reason: each preemption is dated back to the wake-up, and nothing else is.
    Assumed(String),
}

/// A switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dated {
    /// Its stamp, ns of CLOCK_MONOTONIC.
    pub at_ns: i64,
    /// The time before it, ns, that the kernel does not count as running time of `prev` any more, but as that of `next`.
    pub back_ns: i64,
    /// The thread that ran until the switch.
    pub prev: u32,
    /// By the kernel's count it waited for a CPU in that time; otherwise it was blocked.
    pub is_preempted: bool,
    /// The thread that ran from the switch on.
    pub next: u32,
    /// The time from the switch on, ns, in which `prev` waited for a CPU and the kernel did not count it.
    #[serde(default)]
    pub uncounted_ns: i64,
}

/// A contributor: its thread and its kind.
pub(crate) type Key<'a> = (u32, &'a str);

/// A time in which the program's own wait may have ended in two ways, so that its books have two readings.
#[derive(Debug, Clone, Deserialize)]
pub struct Either {
    /// Its beginning.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// The contributors if the awaited thread ended the wait. The truth's contributors have this reading.
    pub ended: Vec<TruthPart>,
    /// The contributors if the wait was time-outs, to the last of them.
    pub timed_out: Vec<TruthPart>,
}

/// One end of a link, as a host.
#[derive(Debug, Clone, Deserialize)]
pub struct TruthHost {
    /// Its name.
    pub name: String,
    /// Its network namespace.
    pub netns: u32,
    /// Its processes.
    pub pids: Vec<u32>,
}

/// The window of a truth.
#[derive(Debug, Clone, Deserialize)]
pub struct TruthWindow {
    /// The thread.
    #[serde(flatten)]
    pub thread: Thread,
    /// Its beginning.
    pub from_ns: i64,
    /// Its end; `None` if the program hangs until the recording ends.
    pub to_ns: Option<i64>,
}

/// A wait for a program on another machine. The thread runs on until it sleeps, and is runnable at the end.
#[derive(Debug, Clone, Deserialize)]
pub struct PeerWait {
    /// The system call.
    pub call: String,
    /// The time right before it.
    pub from_ns: i64,
    /// The time at which the thread had a CPU again.
    pub to_ns: i64,
    /// The thread's CPU time in it.
    pub cpu_ns: i64,
    /// The time for which it was runnable without a CPU.
    pub delayed_ns: i64,
}

/// Readings of the threads' own clocks, beside the account that they keep.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Clocks {
    /// The main thread's CPU time, ns.
    pub running_ns: i64,
    /// The same from its birth to the program's first line, ns: what it was executed from, and the loader; `None` where the program does not say.
    #[serde(default)]
    pub before_ns: Option<i64>,
    /// Time, ns, in which threads were blocked while their account has work: a page fault that went to
    /// the disk, a lock inside the kernel.
    pub unawares_ns: i64,
    /// Time, ns, that the account does not have in a certain order: in which threads were runnable within a call in which
    /// they waited several times, or polled until a time-out at which the answer was there.
    #[serde(default)]
    pub unordered_ns: i64,
    /// The packets that TCP sent by its timers, or again, over the program's link, by the kernel's count.
    #[serde(default)]
    pub sent_by_timers: u64,
    /// The time that the hypervisor stole from all CPUs, ns, in steps of 10 ms.
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
    /// The thread; all zero and without a name for a packet in flight.
    #[serde(flatten)]
    pub thread: Thread,
    /// A kind of the path contract.
    pub kind: String,
    /// The system call it was blocked in.
    pub call: Option<String>,
    /// Its time, ns; `None` for the rest of an open window.
    pub total_ns: Option<i64>,
}

/// The answer under judgement (`wakepath.path/1`). Times are ns since `origin_ns`.
#[derive(Debug, Clone, Deserialize)]
pub struct PathDocument {
    /// The schema of the document.
    pub schema: String,
    /// The clock's reading, ns, from which the document counts.
    pub origin_ns: String,
    /// The thread and the time.
    pub window: PathWindow,
    /// The tiles of the window.
    pub segments: Vec<Segment>,
    /// Their sums.
    pub contributors: Vec<PathPart>,
    /// The losses of records.
    #[serde(default)]
    pub losses: Vec<Loss>,
    /// The waits that segments explain.
    #[serde(default)]
    pub waits: Vec<PathWait>,
}

/// A wait on a path.
#[derive(Debug, Clone, Deserialize)]
pub struct PathWait {
    /// The thread that waits.
    pub tid: Option<u32>,
    /// Its beginning.
    #[serde(default)]
    pub from_ns: i64,
    /// Its end.
    #[serde(default)]
    pub to_ns: i64,
}

/// A place where events are missing.
#[derive(Debug, Clone, Deserialize)]
pub struct Loss {
    /// The recorder reported it, for lack of room; otherwise it follows from other events.
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
    /// The kind of time.
    pub kind: String,
    /// The thread; null for a packet in flight.
    pub tid: Option<u32>,
    /// The thread's name.
    pub comm: Option<String>,
    /// The system call it was blocked in.
    pub call: Option<String>,
    /// How certain the kind and the thread are; none in documents that are made by hand.
    pub basis: Option<String>,
    /// Its cause.
    pub cause: Option<Cause>,
}

/// The cause of a segment.
#[derive(Debug, Clone, Deserialize)]
pub struct Cause {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name of the thread, if it is one.
    pub comm: Option<String>,
}

/// A contributor of the path.
#[derive(Debug, Clone, Deserialize)]
pub struct PathPart {
    /// The thread.
    pub tid: Option<u32>,
    /// The kind of time.
    pub kind: String,
    /// Its time, ns.
    pub total_ns: i64,
    /// Its share of the window.
    pub share: f64,
}

/// The parts of the segments that lie in [from, to).
pub(crate) fn clip(segments: &[Segment], from: i64, to: i64) -> Vec<Segment> {
    segments
        .iter()
        .map(|segment| Segment {
            from_ns: segment.from_ns.max(from),
            to_ns: segment.to_ns.min(to),
            ..segment.clone()
        })
        .filter(|segment| segment.from_ns < segment.to_ns)
        .collect()
}

/// The length of a segment, ns.
pub(crate) fn length(segment: &Segment) -> i64 {
    segment.to_ns - segment.from_ns
}
