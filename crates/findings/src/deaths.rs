//! Processes killed by signals, and their part in a window's time.
//!
//! A death counts for two reasons. A wait on the path ended by it: the path leads through the dying process. Or a wait did not
//! end, and the dead process was expected to end it ([`awaited`]). Other deaths say nothing about the window.

pub(crate) mod awaited;

use std::collections::{BTreeMap, BTreeSet};

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::Path;
use wakepath_event::{MemoryLimit, SentEffect, SignalEffect, Tid};
use wakepath_loaded::Recorded;
use wakepath_wait_graph::{Thread, ThreadIndex};

use crate::LastWaits;

pub use awaited::{AwaitedBy, AwaitedWait};

/// The `si_code` of the kernel's own signals.
const SI_KERNEL: i32 = 0x80;

/// Signals for a process's own faults: ILL TRAP ABRT BUS FPE SEGV SYS.
const FAULTS: [u32; 7] = [4, 5, 6, 7, 8, 11, 31];

/// The signals by a Ctrl-C or a `kill` reach all processes within this time, ns.
const TOGETHER_NS: u64 = 1_000_000_000;

/// A process killed by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// Its main thread if known, else the thread with the signal.
    pub thread: ThreadIndex,
    /// The process.
    pub process: Tid,
    /// The sending, if seen, else the taking.
    pub at: Stamp<Reference>,
    /// The first taking by a thread in it.
    pub taken: Stamp<Reference>,
    /// The signal number.
    pub signal: u32,
    /// The killer.
    pub by: KilledBy,
}

/// The reason for a death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KilledBy {
    /// The kernel, for want of memory; the cgroup's limit, if it was found.
    NoMemory(Option<MemoryLimit>),
    /// The kernel: a terminal's key, or a used-up limit.
    Kernel,
    /// The process itself: a fault, or `abort`.
    Itself,
    /// A thread in another process.
    Thread(ThreadIndex),
    /// Not known.
    Unknown,
}

/// A death's part in a window's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeathPart {
    /// The dead process was expected to end a wait.
    Awaited(AwaitedWait),
    /// A wait on the path ended by the death; the process's time on the path, ns.
    EndedWait(u64),
    /// The window's own process died.
    Own,
}

/// A death, and its part in a window's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowDeath {
    /// The death.
    pub death: Death,
    /// Its part.
    pub part: DeathPart,
}

/// All processes killed by signals, in the order of their deaths.
pub fn deaths(recorded: &Recorded) -> Vec<Death> {
    let graph = recorded.graph();
    let mut by_process: BTreeMap<ThreadIndex, Death> = BTreeMap::new();
    for (index, thread) in graph.threads() {
        for (taken, signal) in &thread.signals {
            // Number 0: the process ended itself.
            if signal.effect() != SignalEffect::Kills || signal.number == 0 {
                continue;
            }
            let process = thread.tgid().unwrap_or(thread.tid());
            let main = recorded.leader(process, *taken).unwrap_or(index);
            let sent = signal.sent.map(|(at, by)| (at.on_reference_host(), by));
            let sent = sent.filter(|(at, _)| at <= taken);
            let by = killed_by(recorded, process, signal.number, signal.code, sent);
            let at = sent.map_or(*taken, |(at, _)| at);
            let death = Death { thread: main, process, at, taken: *taken, signal: signal.number, by };
            let known = by_process.entry(main).or_insert(death);
            // A thread ending with its process may not know the sender.
            let (first, is_better) =
                (known.taken.min(*taken), known.by == KilledBy::Unknown && by != known.by);
            if is_better {
                *known = death;
            }
            known.taken = first;
        }
    }
    let mut deaths: Vec<Death> = by_process.into_values().collect();
    for sending in &recorded.signals().sent {
        if sending.signal.effect != SentEffect::NoMemory {
            continue;
        }
        let at = sending.at.on_reference_host();
        let victim = process_at(recorded, sending.signal.target, at);
        for death in deaths.iter_mut().filter(|death| Some(death.thread) == victim && death.signal == 9) {
            death.by = KilledBy::NoMemory(sending.signal.limit);
            death.at = death.at.min(at);
        }
    }
    deaths.sort_by_key(|death| (death.at, death.thread));
    deaths
}

fn killed_by(
    recorded: &Recorded,
    process: Tid,
    number: u32,
    code: i32,
    sent: Option<(Stamp<Reference>, Tid)>,
) -> KilledBy {
    let sender = sent.and_then(|(at, by)| thread_at_time(recorded, by, at));
    let is_own = sender.is_some_and(|by| recorded.graph().thread(by).tgid() == Some(process));
    let is_kernel = |by| recorded.graph().thread(by).identity.as_ref().is_some_and(|it| it.kernel);
    match sender {
        _ if is_own && FAULTS.contains(&number) => KilledBy::Itself,
        _ if code == SI_KERNEL => KilledBy::Kernel,
        Some(by) if is_kernel(by) => KilledBy::Kernel,
        Some(_) if is_own => KilledBy::Itself,
        Some(by) => KilledBy::Thread(by),
        None => KilledBy::Unknown,
    }
}

/// The thread with a number at a time; `None` if no such thread was alive.
pub(crate) fn thread_at_time(recorded: &Recorded, tid: Tid, at: Stamp<Reference>) -> Option<ThreadIndex> {
    let graph = recorded.graph();
    let lived = |index: &&ThreadIndex| {
        let thread = graph.thread(**index);
        thread.first <= at && at <= thread.last && thread.tid_at(at) == tid
    };
    recorded.with_tid(tid).iter().rfind(lived).copied()
}

/// The main thread in the process with this thread number at a time.
pub(crate) fn process_at(recorded: &Recorded, tid: Tid, at: Stamp<Reference>) -> Option<ThreadIndex> {
    let thread = thread_at_time(recorded, tid, at)?;
    let process = recorded.graph().thread(thread).tgid()?;
    recorded.leader(process, at)
}

impl Death {
    /// The killer's process, if a thread in another process is the killer.
    fn killer(&self, recorded: &Recorded) -> Option<Tid> {
        match self.by {
            KilledBy::Thread(by) => recorded.graph().thread(by).tgid(),
            _ => None,
        }
    }

    /// Whether the recorder ended the process.
    pub(crate) fn is_by_recorder(&self, recorded: &Recorded) -> bool {
        let KilledBy::Thread(by) = self.by else { return false };
        let thread = recorded.graph().thread(by);
        [Some(thread.tid()), thread.tgid()].into_iter().flatten().any(|tid| recorded.is_recorder(tid))
    }

    /// Whether both have the same cause: a Ctrl-C, or a sender's signals in a row.
    fn is_together(&self, other: &Self, recorded: &Recorded) -> bool {
        let [first, last] = [self.at.min(other.at), self.at.max(other.at)];
        let same_sender = match (self.by, other.by) {
            (KilledBy::Thread(_), KilledBy::Thread(_)) => self.killer(recorded) == other.killer(recorded),
            (one, another) => one == another,
        };
        self.signal == other.signal && same_sender && last.since(first) < TOGETHER_NS
    }
}

/// The deaths with a part in a window's time: first those of awaited processes, then by their time on the path.
pub fn window_deaths(
    recorded: &Recorded,
    path: &Path,
    waits: LastWaits<'_>,
    deaths: &[Death],
) -> Vec<WindowDeath> {
    let (graph, window) = (recorded.graph(), path.window);
    let own = graph.thread(window.thread).tgid();
    let is_within = |death: &&Death| window.from < death.taken && death.taken <= window.to;
    let own_death = deaths.iter().filter(is_within).find(|death| own == Some(death.process));
    let mut found = Vec::new();
    let expected = awaited::expected(recorded, window, waits, deaths);
    found.extend(expected.into_iter().map(|(death, it)| WindowDeath { death, part: DeathPart::Awaited(it) }));
    let times = times_on_path(recorded, path);
    let mut ended: Vec<WindowDeath> = Vec::new();
    for death in deaths.iter().filter(is_within) {
        let is_told = found.iter().any(|it| it.death.thread == death.thread);
        let is_with_own = own_death.is_some_and(|own| own.is_together(death, recorded));
        if is_told || is_with_own || death.is_by_recorder(recorded) {
            continue;
        }
        let Some((ns, last)) = times.get(&death.thread) else { continue };
        if *last <= death.taken || *ns < least(path, *death) {
            continue;
        }
        let ns = time_in_ended_wait(recorded, path, *death);
        if ns >= least(path, *death) {
            ended.push(WindowDeath { death: *death, part: DeathPart::EndedWait(ns) });
        }
    }
    ended.sort_by_key(|it| (std::cmp::Reverse(it.time_on_path()), it.death.thread));
    found.extend(ended);
    let own_death = own_death.filter(|death| !death.is_by_recorder(recorded));
    found.extend(own_death.map(|death| WindowDeath { death: *death, part: DeathPart::Own }));
    found
}

/// A dying process with less time on the path did not make the window long, ns. A kill for want of memory is always worth
/// a word: it makes the waiting process fail.
fn least(path: &Path, death: Death) -> u64 {
    match death.by {
        KilledBy::NoMemory(_) => 1,
        _ => path.window.to.since(path.window.from) / 10,
    }
}

impl WindowDeath {
    const fn time_on_path(&self) -> u64 {
        match self.part {
            DeathPart::EndedWait(ns) => ns,
            DeathPart::Awaited(_) | DeathPart::Own => 0,
        }
    }
}

/// The time of a dying process on the path, ns, within the wait that its death ended: the window's own wait at that moment. Earlier
/// waits have other ends, and a thread that kills its helper and then waits for its end waits for little.
fn time_in_ended_wait(recorded: &Recorded, path: &Path, death: Death) -> u64 {
    let graph = recorded.graph();
    let wait = path.waits().map(|(_, wait)| wait);
    let mut wait = wait.filter(|wait| wait.depth == 0 && wait.from <= death.taken && death.taken < wait.to);
    let Some(wait) = wait.next() else { return 0 };
    let is_its = |thread: ThreadIndex| graph.thread(thread).tgid() == Some(death.process);
    let within = path.segments().filter(|segment| wait.from <= segment.from && segment.to <= wait.to);
    within
        .filter(|segment| segment.thread.is_some_and(is_its))
        .map(|segment| segment.to.since(segment.from))
        .sum()
}

/// The time on the path by process without the window's own, ns, and its end there. A process is its main thread.
fn times_on_path(recorded: &Recorded, path: &Path) -> BTreeMap<ThreadIndex, (u64, Stamp<Reference>)> {
    let graph = recorded.graph();
    let own = graph.thread(path.window.thread).tgid();
    let mut times: BTreeMap<ThreadIndex, (u64, Stamp<Reference>)> = BTreeMap::new();
    for segment in path.segments() {
        let process = segment.thread.and_then(|thread| graph.thread(thread).tgid());
        let process = process.filter(|process| Some(*process) != own);
        let Some(main) = process.and_then(|process| recorded.leader(process, segment.from)) else { continue };
        let (ns, last) = times.entry(main).or_insert((0, segment.to));
        *ns += segment.to.since(segment.from);
        *last = segment.to.max(*last);
    }
    times
}

/// The main threads of a process's children, alive or not.
pub(crate) fn children(recorded: &Recorded, process: Tid) -> impl Iterator<Item = (ThreadIndex, &Thread)> {
    let is_child = move |thread: &Thread| {
        thread.tgid() == Some(thread.tid())
            && thread.identity.as_ref().is_some_and(|identity| identity.parent == process)
    };
    recorded.graph().threads().filter(move |(_, thread)| is_child(thread))
}

/// A process and its descendants.
pub(crate) fn family(recorded: &Recorded, process: Tid, at: Stamp<Reference>) -> BTreeSet<Tid> {
    let all: BTreeSet<Tid> = recorded.graph().threads().filter_map(|(_, thread)| thread.tgid()).collect();
    all.into_iter().filter(|other| recorded.descends(*other, process, at)).collect()
}

#[cfg(test)]
pub(crate) mod tests;
