//! The two compared documents, with only the keys that the judge needs.

use serde::{Deserialize, Serialize};

/// A workload's log of its own time (`wakepath.truth/1`). Times are ns of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Deserialize)]
pub struct Truth {
    /// The document's schema.
    pub schema: String,
    /// The program's name.
    pub workload: String,
    /// The accounted time: from the program's first line to its last.
    pub window: TruthWindow,
    /// Readings of the threads' clocks.
    pub clocks: Clocks,
    /// The two ends of the link, if the truth is for two hosts.
    #[serde(default)]
    pub hosts: Vec<TruthHost>,
    /// The link's own processes, which are on neither host.
    #[serde(default)]
    pub wire: Vec<u32>,
    /// Assertions that must hold for the path.
    pub must: Vec<String>,
    /// Assertions that must not hold.
    pub never: Vec<String>,
    /// The main thread's waits for a program on another machine, in order.
    #[serde(default)]
    pub waits: Vec<PeerWait>,
    /// The threads' wait times counted as *runnable* by the kernel alone. No other measurement bounds them, so they include sleep that
    /// the kernel counts as a wait for a CPU.
    #[serde(default)]
    pub counted: Vec<Counted>,
    /// All threads of the workload, whether or not they contribute.
    pub threads: Vec<Thread>,
    /// The parts of the window.
    pub contributors: Vec<TruthPart>,
    /// The times for which the log has two readings, in order.
    #[serde(default)]
    pub either: Vec<Either>,
    /// Added by the judge: all kernel threads, with their CPU time in the run; `None` if it was not read.
    #[serde(default)]
    pub kernel_threads: Option<Vec<KernelThread>>,
    /// Added by the judge: the switches and sleeps that the kernel's clocks misdate; `None` if the judge did not look.
    #[serde(default)]
    pub dated_back: Option<DatedBack>,
}

/// A kernel thread in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelThread {
    /// Its thread id.
    pub tid: u32,
    /// Its name.
    pub comm: String,
    /// Its CPU time in the run, ns; `None` if it ended during the run.
    pub ran_ns: Option<i64>,
}

/// The switches that the kernel's clocks date back in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatedBack {
    /// The source of the figures.
    pub basis: Basis,
    /// The switches to and from the program's threads, in order of their stamps.
    pub switches: Vec<Dated>,
    /// The sleeps of the program's threads that the kernel counts as waits for a CPU.
    #[serde(default)]
    pub overcounted: Vec<Overcounted>,
}

/// A sleep that the kernel counts as a wait for a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overcounted {
    /// The thread.
    pub tid: u32,
    /// The time from which the kernel counts a wait, ns of CLOCK_MONOTONIC.
    pub from_ns: i64,
    /// The wake-up, likewise.
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

/// The source of the figures about dated-back switches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The run queue's clock was read at each switch.
    Measured,
    /// The clock could not be read, for this reason: each preemption is dated back to the wake-up, and no other switch
    /// is.
    Assumed(String),
}

/// A switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dated {
    /// Its stamp, ns of CLOCK_MONOTONIC.
    pub at_ns: i64,
    /// The time before the switch, ns, that the kernel counts as running time for `next` instead of `prev`.
    pub back_ns: i64,
    /// The thread that ran until the switch.
    pub prev: u32,
    /// Whether `prev` waited for a CPU in that time by the kernel's count; otherwise it was blocked.
    pub is_preempted: bool,
    /// The thread that ran from the switch on.
    pub next: u32,
    /// The time after the switch, ns, in which `prev` waited for a CPU and the kernel did not count it.
    #[serde(default)]
    pub uncounted_ns: i64,
}

/// A contributor: its thread and its kind.
pub(crate) type Key<'a> = (u32, &'a str);

/// A time in which the program's own wait may have ended in two ways, so that its log has two readings.
#[derive(Debug, Clone, Deserialize)]
pub struct Either {
    /// Its beginning.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// The contributors if the awaited thread ended the wait. The truth's contributors follow this reading.
    pub ended: Vec<TruthPart>,
    /// The contributors if the wait was a series of time-outs, to the last.
    pub timed_out: Vec<TruthPart>,
}

/// An end of a link, as a host.
#[derive(Debug, Clone, Deserialize)]
pub struct TruthHost {
    /// Its name.
    pub name: String,
    /// Its network namespace.
    pub netns: u32,
    /// Its processes.
    pub pids: Vec<u32>,
}

/// A truth's window.
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

/// A wait for a program on another machine. The thread runs until it sleeps, and is runnable at the end.
#[derive(Debug, Clone, Deserialize)]
pub struct PeerWait {
    /// The system call.
    pub call: String,
    /// The stamp right before the call.
    pub from_ns: i64,
    /// The time at which the thread had a CPU again.
    pub to_ns: i64,
    /// The thread's CPU time in the wait, ns.
    pub cpu_ns: i64,
    /// The time for which it was runnable without a CPU, ns.
    pub delayed_ns: i64,
}

/// Readings of the threads' own clocks, beside their log.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Clocks {
    /// The main thread's CPU time, ns.
    pub running_ns: i64,
    /// The main thread's CPU time from its fork to the program's first line, ns: the process before the exec, and the loader; `None` if the
    /// program does not log it.
    #[serde(default)]
    pub before_ns: Option<i64>,
    /// Time, ns, in which threads were blocked while their log has work: a page fault served from the disk, a lock
    /// inside the kernel.
    pub unawares_ns: i64,
    /// Time, ns, without a certain order in the log: runnable time within a call with several waits, or polling until a
    /// time-out at which the answer was there.
    #[serde(default)]
    pub unordered_ns: i64,
    /// The packets that TCP sent again or by its timers over the program's link, by the kernel's count.
    #[serde(default)]
    pub sent_by_timers: u64,
    /// The time stolen by the hypervisor from all CPUs, ns, in steps of 10 ms.
    pub stolen_ns: i64,
}

/// A thread by its ids and name.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
pub struct Thread {
    /// Its process id.
    pub pid: u32,
    /// Its thread id.
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
    /// A kind in the path contract.
    pub kind: String,
    /// The system call in which it was blocked.
    pub call: Option<String>,
    /// Its time, ns; `None` for the rest of an open window.
    pub total_ns: Option<i64>,
}

/// The answer under judgement (`wakepath.path/1`). Times are ns since `origin_ns`.
#[derive(Debug, Clone, Deserialize)]
pub struct PathDocument {
    /// The document's schema.
    pub schema: String,
    /// The clock's reading, ns, from which the document's times count.
    pub origin_ns: String,
    /// The window's thread and time.
    pub window: PathWindow,
    /// The segments that tile the window.
    pub segments: Vec<Segment>,
    /// The segments' sums.
    pub contributors: Vec<PathPart>,
    /// The places where events are missing.
    #[serde(default)]
    pub losses: Vec<Loss>,
    /// The waits that segments explain.
    #[serde(default)]
    pub waits: Vec<PathWait>,
}

/// A wait on a path.
#[derive(Debug, Clone, Deserialize)]
pub struct PathWait {
    /// The waiting thread.
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
    /// Whether the recorder reported the loss, for lack of room; otherwise it follows from other events.
    #[serde(default = "yes")]
    pub reported: bool,
}

fn yes() -> bool {
    true
}

/// A path's window.
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

/// A segment of the window.
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
    /// The system call in which it was blocked.
    pub call: Option<String>,
    /// The certainty of the kind and the thread; `None` in hand-made documents.
    pub basis: Option<String>,
    /// Its cause.
    pub cause: Option<SegmentCause>,
}

/// A segment's cause.
#[derive(Debug, Clone, Deserialize)]
pub struct SegmentCause {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The thread's name, if the cause is a thread.
    pub comm: Option<String>,
}

/// A path's contributor.
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

/// The parts of the segments within [from, to).
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

/// A segment's length, ns.
pub(crate) fn length(segment: &Segment) -> i64 {
    segment.to_ns - segment.from_ns
}
