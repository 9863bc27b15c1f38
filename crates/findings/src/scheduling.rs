//! Why others had the CPU: their nice value or class, or the CPUs on which a thread might run.
//!
//! Only what counts is a reason. A class counts between all threads of a host. A nice value counts between the threads
//! of a CPU cgroup, and where the kernel shares CPU time by session (autogroup), of a session; between two, whatever
//! their threads' nice values, the cgroups' shares count. A reason is worth a line if it held for most of the wait.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Cause, Segment};
use wakepath_event::{Comm, Cpu, Tid};
use wakepath_loaded::{AllowedCpus, Scheduling, SchedulingClass, Sharing};
use wakepath_wait_graph::{Bookmarks, Occupant, ThreadIndex};

use crate::rows::segments_in_row;
use crate::{Evidence, RowKey, ThreadName};

/// The reasons why own threads waited for a CPU, each if it held for most of the time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuReasons {
    /// Others had precedence.
    pub behind: Option<Behind>,
    /// The threads might not run on all CPUs.
    pub confined: Option<Confined>,
}

/// A thread's place among those that want a CPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standing {
    /// Its class.
    pub class: SchedulingClass,
    /// Its nice value, which counts in a fair class.
    pub nice: i8,
    /// Its priority in a real-time class.
    pub priority: u8,
}

/// Threads waited while others had the CPU that had precedence by their nice value or class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behind {
    /// The waiting threads' standing.
    pub own: Standing,
    /// The other threads' standing.
    pub others: Standing,
    /// The time, ns.
    pub ns: u64,
    /// The waiting threads.
    pub waiters: BTreeSet<Comm>,
    /// The other threads, and their processes.
    pub had: BTreeMap<ThreadName, BTreeSet<Tid>>,
}

/// Threads waited that might run on some CPUs only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confined {
    /// These CPUs.
    pub cpus: AllowedCpus,
    /// The time, ns.
    pub ns: u64,
    /// The part in which another CPU was idle, ns.
    pub idle_ns: u64,
    /// The waiting threads.
    pub waiters: BTreeSet<Comm>,
}

impl Standing {
    fn of(scheduling: &Scheduling) -> Self {
        let Scheduling { nice, class, priority, .. } = *scheduling;
        Self { class, nice, priority }
    }

    /// The class's rank; `None` if it is not known.
    const fn rank(self) -> Option<u8> {
        Some(match self.class {
            SchedulingClass::Idle => 0,
            SchedulingClass::Other | SchedulingClass::Batch => 1,
            SchedulingClass::Fifo | SchedulingClass::RoundRobin => 2,
            SchedulingClass::Deadline => 3,
            SchedulingClass::Numbered(_) => return None,
        })
    }

    /// Whether another thread's precedence over this thread is by nice value or class; `Some(true)` if it holds between
    /// any two threads, `Some(false)` if only among those that share CPU time.
    fn is_behind(self, other: Self) -> Option<bool> {
        let (own, others) = (self.rank()?, other.rank()?);
        let is_behind = match own {
            _ if own != others => own < others,
            1 => self.nice > other.nice,
            2 => self.priority < other.priority,
            _ => false,
        };
        is_behind.then_some(other.class.is_real_time())
    }
}

/// The reasons for the waits for a CPU on a path, which took `total_ns`.
pub(crate) fn cpu_reasons(evidence: &Evidence<'_>, total_ns: u64) -> CpuReasons {
    if !evidence.recorded.has_scheduling() {
        return CpuReasons::default();
    }
    let mut sums = Sums::new(evidence);
    segments_in_row(evidence, &RowKey::Cpu, |segment| sums.add(segment));
    sums.finish(total_ns)
}

struct Sums<'a> {
    evidence: &'a Evidence<'a>,
    bookmarks: Bookmarks<'a>,
    behind: BTreeMap<(Standing, Standing), Behind>,
    confined: BTreeMap<&'a AllowedCpus, Confined>,
    /// Each thread's CPUs on which it might not run.
    forbidden: BTreeMap<(ThreadIndex, &'a AllowedCpus), Vec<Cpu>>,
}

impl<'a> Sums<'a> {
    fn new(evidence: &'a Evidence<'a>) -> Self {
        Self {
            evidence,
            bookmarks: Bookmarks::new(evidence.recorded.graph()),
            behind: BTreeMap::new(),
            confined: BTreeMap::new(),
            forbidden: BTreeMap::new(),
        }
    }

    fn add(&mut self, segment: &Segment) {
        let to = segment.to;
        let Some(waiter) = segment.thread else { return };
        let recorded = self.evidence.recorded;
        if let Some((since, own)) = recorded.scheduling(waiter, to).filter(|(since, _)| *since < to)
            && let Some(cpus) = &own.cpus
        {
            self.add_confined(waiter, cpus, since.max(segment.from), to);
        }
        let Some((from, own)) = self.precedence(waiter, segment.from, to) else { return };
        let Cause::Competitor(other) = segment.cause else { return };
        let had = recorded.thread_at(other, to);
        // The recorder's own precedence is a cost of recording, which is said elsewhere.
        if had.tgid.is_some_and(|process| recorded.is_recorder(process)) {
            return;
        }
        let Some((from, others)) = self.precedence(other, from, to) else { return };
        let pair = (Standing::of(own), Standing::of(others));
        let Some(is_absolute) = pair.0.is_behind(pair.1) else { return };
        if !is_absolute && !self.share(waiter, other, own.sharing, others.sharing, to) {
            return;
        }
        let waiter = self.evidence.recorded.graph().thread(waiter).name_at(to);
        let behind = self.behind.entry(pair).or_insert_with(|| Behind {
            own: pair.0,
            others: pair.1,
            ns: 0,
            waiters: BTreeSet::new(),
            had: BTreeMap::new(),
        });
        behind.ns += to.since(from);
        behind.waiters.insert(waiter);
        behind.had.entry(self.evidence.shared_name(&had)).or_default().extend(had.tgid);
    }

    /// A thread's nice value and class at the end of such a time, and from when on in it: a change is known from the next look on.
    fn precedence(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Option<(Stamp<Reference>, &'a Scheduling)> {
        let (since, scheduling) = self.evidence.recorded.precedence(thread, to)?;
        (since < to).then_some((since.max(from), scheduling))
    }

    /// Whether two threads' nice values count between them; false where that is not known.
    fn share(
        &self,
        waiter: ThreadIndex,
        other: ThreadIndex,
        own: Sharing,
        others: Sharing,
        at: Stamp<Reference>,
    ) -> bool {
        let recorded = self.evidence.recorded;
        let [waiter_info, other_info] = [waiter, other].map(|thread| recorded.thread_at(thread, at));
        if waiter_info.cpu_cgroup != other_info.cpu_cgroup {
            return false;
        }
        match (own, others) {
            (Sharing::Session(own), Sharing::Session(others)) => own == others,
            (Sharing::Cgroup, Sharing::Cgroup) => true,
            // Without a session anywhere, none is hidden.
            (Sharing::Cgroup | Sharing::Unknown, Sharing::Cgroup | Sharing::Unknown) => {
                !recorded.has_sessions(waiter)
            }
            _ => false,
        }
    }

    fn add_confined(
        &mut self,
        waiter: ThreadIndex,
        cpus: &'a AllowedCpus,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) {
        let recorded = self.evidence.recorded;
        let host = recorded.graph().thread(waiter).tid().host();
        let forbidden = self.forbidden.entry((waiter, cpus)).or_insert_with(|| {
            let is_forbidden = |cpu: &Cpu| {
                let (of_host, own) = recorded.own_cpu(*cpu);
                of_host == host && !cpus.has(own)
            };
            recorded.graph().cpus().filter(is_forbidden).collect()
        });
        let mut idle = Vec::new();
        for cpu in forbidden.iter() {
            let occupancies = self.bookmarks.occupancies(*cpu, from, to);
            let found = occupancies.filter(|occupancy| occupancy.occupant == Occupant::Idle);
            idle.extend(found.map(|occupancy| (occupancy.from, occupancy.to)));
            if idle.last() == Some(&(from, to)) {
                break;
            }
        }
        let confined = self.confined.entry(cpus).or_insert_with(|| Confined {
            cpus: cpus.clone(),
            ns: 0,
            idle_ns: 0,
            waiters: BTreeSet::new(),
        });
        confined.ns += to.since(from);
        confined.idle_ns += union_ns(idle);
        confined.waiters.insert(recorded.graph().thread(waiter).name_at(to));
    }

    fn finish(self, total_ns: u64) -> CpuReasons {
        let is_most = |ns: u64| ns > total_ns / 2;
        let behind = self.behind.into_values().max_by_key(|behind| behind.ns);
        let confined = self.confined.into_values().max_by_key(|confined| confined.ns);
        CpuReasons {
            behind: behind.filter(|behind| is_most(behind.ns)),
            confined: confined.filter(|confined| is_most(confined.ns)),
        }
    }
}

/// The length of all intervals together, each moment once, ns.
fn union_ns(mut intervals: Vec<(Stamp<Reference>, Stamp<Reference>)>) -> u64 {
    intervals.sort_unstable();
    let (mut ns, mut until) = (0, Stamp::from_ns(0));
    for (from, to) in intervals {
        let from = from.max(until);
        if to > from {
            ns += to.since(from);
            until = to;
        }
    }
    ns
}

#[cfg(test)]
mod tests;
