//! The execution graph and its queries.

use std::collections::HashMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Cpu, Direction, Flow, FlowId, HostIndex, Tid};

use crate::dialogue::Dialogues;
use crate::occupancy::Occupancies;
use crate::samples::Samples;
use crate::stacks::Stacks;
use crate::wait::Waits;
use crate::{
    Counts, Dialogue, Evidence, EvidenceIndex, Exchange, Losses, Occupancy, Question, Sample, StackAt,
    StateInterval, StateIntervals, Stolen, Thread, ThreadIndex, ThreadState, Wait,
};

/// A user-space lock release that ended a wait for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// The lock's address in its process.
    pub address: u64,
    /// The wake-up's time.
    pub at: Stamp<Reference>,
    /// The releasing thread.
    pub by: ThreadIndex,
    /// The thread whose wait ended.
    pub woken: ThreadIndex,
}

/// A recording's execution graph.
#[derive(Debug, Default)]
pub struct Graph {
    pub(crate) threads: Vec<Thread>,
    pub(crate) waits: Waits,
    pub(crate) evidence: Vec<Evidence>,
    pub(crate) occupancies: Vec<Occupancies>,
    pub(crate) stolen: Vec<Stolen>,
    pub(crate) losses: Losses,
    pub(crate) flows: HashMap<FlowId, Flow>,
    pub(crate) dialogues: Dialogues,
    pub(crate) samples: Samples,
    pub(crate) stacks: Stacks,
    /// Times at which a thread got a contended kernel lock, sorted by lock and time.
    pub(crate) acquisitions: Vec<(u64, Stamp<Reference>, ThreadIndex)>,
    /// The futex lock releases that ended waits, sorted by address and time.
    pub(crate) releases: Vec<Release>,
    pub(crate) counts: Counts,
    pub(crate) events: u64,
    pub(crate) from: Stamp<Reference>,
    pub(crate) to: Stamp<Reference>,
    /// The ends of the hosts' recordings, if there are several hosts.
    pub(crate) host_ends: Vec<(HostIndex, Stamp<Reference>)>,
}

impl Graph {
    /// The first event's stamp.
    pub fn from(&self) -> Stamp<Reference> {
        self.from
    }

    /// The last event's stamp.
    pub fn to(&self) -> Stamp<Reference> {
        self.to
    }

    /// The stamp of this host's last event; nothing is known about its threads at later times.
    pub fn end_of(&self, host: HostIndex) -> Stamp<Reference> {
        self.host_ends.iter().find(|end| end.0 == host).map_or(self.to, |&(_, at)| at)
    }

    /// Whether the thread's last known time is its death: it began to exit, or left its CPU dead. Otherwise the recording ended.
    pub fn has_died(&self, thread: ThreadIndex) -> bool {
        let thread = self.thread(thread);
        thread.exited.is_some() || thread.last < self.end_of(thread.tid().host())
    }

    /// The number of events that the graph was built from.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The numbers of odd events.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// All threads, in the order of first appearance and of [`ThreadIndex`].
    pub fn threads(&self) -> impl ExactSizeIterator<Item = (ThreadIndex, &Thread)> {
        self.threads.iter().enumerate().map(|(index, thread)| (ThreadIndex(index as u32), thread))
    }

    /// A thread. Panics if the index is from a larger graph.
    pub fn thread(&self, thread: ThreadIndex) -> &Thread {
        &self.threads[thread.0 as usize]
    }

    /// The thread that took over `thread`'s process by an exec ([`Thread::successor`]), if it lived longer.
    pub fn successor(&self, thread: ThreadIndex) -> Option<ThreadIndex> {
        let row = self.thread(thread);
        row.successor.filter(|&next| self.thread(next).last > row.last)
    }

    /// The thread's last successor, or the thread itself.
    pub fn last_successor(&self, mut thread: ThreadIndex) -> ThreadIndex {
        while let Some(next) = self.successor(thread) {
            thread = next;
        }
        thread
    }

    /// The threads that ever had `tid`, in the order of first appearance: tids are reused.
    pub fn with_tid(&self, tid: Tid) -> impl Iterator<Item = (ThreadIndex, &Thread)> {
        self.threads().filter(move |(_, thread)| thread.had_tid(tid))
    }

    /// A thread's state intervals, from its first known time to its last.
    pub fn state_intervals(&self, thread: ThreadIndex) -> StateIntervals<'_> {
        let thread = self.thread(thread);
        StateIntervals { packed: &thread.intervals, end: thread.last }
    }

    /// A blocked state interval's wait; `None` for other states.
    pub fn wait(&self, interval: &StateInterval) -> Option<Wait> {
        match interval.state {
            ThreadState::Blocked(index) => self.waits.get(index, interval.to),
            _ => None,
        }
    }

    /// The evidence behind a wake-up.
    pub fn evidence(&self, index: EvidenceIndex) -> Option<&Evidence> {
        self.evidence.get(index.0 as usize)
    }

    /// The CPUs with events.
    pub fn cpus(&self) -> impl Iterator<Item = Cpu> {
        (0..self.occupancies.len()).map(|cpu| Cpu(cpu as u16))
    }

    /// A CPU's occupancies, which tile a window.
    pub fn occupancies(
        &self,
        cpu: Cpu,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = Occupancy> {
        self.occupancies_of(cpu).tiles(from, to)
    }

    pub(crate) fn occupancies_of(&self, cpu: Cpu) -> &Occupancies {
        const EMPTY: &Occupancies = &Occupancies::new();
        self.occupancies.get(usize::from(cpu.0)).unwrap_or(EMPTY)
    }

    /// The times in which the hypervisor did not let a CPU run.
    pub fn stolen(&self, cpu: Cpu) -> &Stolen {
        const NEVER: &Stolen = &Stolen::new();
        self.stolen.get(usize::from(cpu.0)).unwrap_or(NEVER)
    }

    /// The record losses.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// A flow's addresses, if recorded.
    pub fn flow(&self, flow: FlowId) -> Option<&Flow> {
        self.flows.get(&flow)
    }

    /// A flow's connection up to and including `at`, seen from the end that sends the flow (`Out`) or receives it.
    pub fn dialogue(&self, flow: FlowId, of: Direction, at: Stamp<Reference>) -> Dialogue {
        self.dialogues.at(flow, of, at)
    }

    /// The thread with the last sent data on a flow up to `at`, else with the first behind it; `None` for none.
    pub fn data_sender(&self, flow: FlowId, at: Stamp<Reference>) -> Option<ThreadIndex> {
        self.dialogues.data_sender(flow, at)
    }

    /// The exchanges on all connections: an end's data, and the data that a thread at the other end sent behind it. By connection, each in time
    /// order; a connection within a host has both ends' exchanges.
    pub fn exchanges(&self) -> impl Iterator<Item = Exchange> {
        self.dialogues.exchanges()
    }

    /// The first data on each connection, and behind each of the other end's data, if a thread sent them: seen from each end, by connection.
    pub fn questions(&self) -> impl Iterator<Item = Question> {
        self.dialogues.questions()
    }

    /// A thread's samples within a window, in time order.
    pub fn samples(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = Sample<'_>> {
        self.samples.within(thread, from, to)
    }

    /// Whether stacks were taken at switch-outs and wake-ups.
    pub fn has_stacks(&self) -> bool {
        !self.stacks.is_empty()
    }

    /// The stack with which `thread` left its CPU or woke another thread at exactly `at`; `None` if no stack
    /// was taken.
    pub fn stack_at(&self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<StackAt<'_>> {
        self.stacks.at(thread, at)
    }

    /// The last time up to `at` at which `thread` got the contended kernel lock at `address`, if known and no
    /// other thread got it later.
    pub fn acquired(
        &self,
        thread: ThreadIndex,
        address: u64,
        at: Stamp<Reference>,
    ) -> Option<Stamp<Reference>> {
        let until = self.acquisitions.partition_point(|&(lock, when, _)| (lock, when) <= (address, at));
        let &(lock, when, owner) = self.acquisitions[..until].last()?;
        (lock == address && owner == thread).then_some(when)
    }

    /// The releases of the futex lock at `address`, in `waiter`'s process, after `from` and before `to`, that ended other threads' waits, in time
    /// order.
    pub fn releases(
        &self,
        waiter: ThreadIndex,
        address: u64,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl DoubleEndedIterator<Item = &Release> {
        let first = self.releases.partition_point(|one| (one.address, one.at) <= (address, from));
        let last = self.releases.partition_point(|one| (one.address, one.at) < (address, to));
        let process = self.thread(waiter).tgid();
        // Another process may have another lock at this address.
        let is_its = move |one: &&Release| {
            one.woken != waiter && process.is_some() && self.thread(one.woken).tgid() == process
        };
        self.releases.get(first..last).unwrap_or_default().iter().filter(is_its)
    }

    /// The graph's memory, bytes.
    pub fn bytes(&self) -> usize {
        let threads: usize = self.threads.iter().map(Thread::bytes).sum();
        let occupancies: usize = self.occupancies.iter().map(Occupancies::bytes).sum();
        let stolen: usize = self.stolen.iter().map(Stolen::bytes).sum();
        let locks = size_of_val(&*self.acquisitions) + size_of_val(&*self.releases);
        let evidence = size_of_val(&*self.evidence) + locks;
        let samples = self.samples.bytes() + self.stacks.bytes() + self.dialogues.bytes();
        threads + self.waits.bytes() + evidence + occupancies + stolen + samples + self.losses.bytes()
    }
}
