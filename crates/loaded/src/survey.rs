//! Data from a pass over the events, besides the graph: names, clocks, counts.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{Discriminant, discriminant};

use wakepath_clock::{Local, Stamp};
use wakepath_event::{
    Clocks, CostKind, Event, EventKind, FunctionCall, GoroutineStep, HostIndex, KernelCost, Mapping, Mark,
    Stack, StackCounts, Tid, UnwindCounts,
};

use crate::contexts::Contexts;
use crate::intervals::Intervals;
use crate::{FailedCalls, Name, Names, Signals, UserMarks};

/// Everything in a recording outside the graph.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// All names.
    pub names: Names,
    /// The session's own marks.
    pub session: Session,
    /// Processes' code mappings, in time order.
    pub mappings: Vec<(Stamp<Local>, Mapping)>,
    /// The clocks, each time they were read together.
    pub clocks: Vec<(Stamp<Local>, Clocks)>,
    /// Notes from other hosts' recordings, from the second on.
    pub others: Vec<OtherHost>,
    /// Hosts whose stolen time was recorded where it was taken.
    pub steal: BTreeSet<HostIndex>,
    /// Calls to the target functions, in the order of their ends, without those that ended before the start.
    pub calls: Vec<(Stamp<Local>, FunctionCall)>,
    /// The calls failing before sleeps, or again and again.
    pub failed_calls: FailedCalls,
    /// Signals asking processes to end.
    pub signals: Signals,
    /// Threads' contexts, as they were read.
    pub contexts: Contexts,
    /// Programs' own marks.
    pub user_marks: UserMarks,
    /// Goroutine steps, each with the current thread.
    pub goroutines: Vec<(Stamp<Local>, Tid, GoroutineStep)>,
    /// Time ranges behind the end of a program's execution trace: goroutine steps there are not known.
    pub goroutines_unseen: Vec<(Stamp<Local>, Stamp<Local>)>,
    /// Disk requests and waits for kernel locks.
    pub intervals: Intervals,
    /// The final counts for stacks at switch-outs and wake-ups.
    pub stacks: Option<StackCounts>,
    /// The costs of the recorder's work in the kernel, if measured.
    pub costs: BTreeMap<CostKind, KernelCost>,
    /// The final counts for their unwinding.
    pub unwinding: Option<UnwindCounts>,
    /// The frames in the different wait and wake-up stacks.
    pub stack_frames: FrameCounts,
    /// The frames in all samples.
    pub sample_frames: FrameCounts,
    /// The number of events by kind.
    pub counts: Counts,
}

/// Another host's notes about its recording, if several are read. Its stamps are on the first host's clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherHost {
    /// Its clocks, each time they were read together.
    pub clocks: Vec<(Stamp<Local>, Clocks)>,
    /// Its session's own marks.
    pub session: Session,
}

/// The number of program frames, and how many are proved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Proved frames.
    pub proved: u64,
    /// All frames.
    pub total: u64,
}

impl FrameCounts {
    fn add(&mut self, stack: &Stack) {
        // The registers show where the thread stood; other recorders do not mark this frame.
        self.proved += stack.user.len().min(usize::from(stack.proved).max(1)) as u64;
        self.total += stack.user.len() as u64;
    }
}

/// The recording session's notes about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Session {
    /// From here on, all sources were attached.
    pub started: Option<Stamp<Local>>,
    /// Recording stopped here; `None` if it was cut off.
    pub stopped: Option<Stamp<Local>>,
    /// The command that the session ran.
    pub command: Option<Command>,
    /// The target processes.
    pub targets: BTreeSet<Tid>,
    /// The recorder's own threads.
    pub observers: BTreeSet<Tid>,
    /// The selected functions whose calls are not recorded from a time on, by their numbers.
    pub unprobed: BTreeMap<u32, Stamp<Local>>,
}

/// A session's command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The first process.
    pub tgid: Tid,
    /// Its words.
    pub words: Vec<Name>,
    /// The time of this note.
    pub at: Stamp<Local>,
    /// Its wait status, if its end was seen.
    pub status: Option<u32>,
}

impl Survey {
    /// Notes an event's data on a host among several. A host's clocks and marks say nothing about another host.
    pub fn observe_on(&mut self, host: HostIndex, event: &Event) {
        let other = usize::from(host.0).checked_sub(1);
        match (&event.kind, other) {
            (EventKind::Clocks(clocks), Some(other)) => self.other(other).clocks.push((event.at, *clocks)),
            (EventKind::Mark(mark), Some(other)) => self.other(other).session.observe(event.at, mark),
            (EventKind::Stolen(_), _) => {
                self.steal.insert(host);
                self.note(event);
            }
            _ => self.note(event),
        }
    }

    fn other(&mut self, other: usize) -> &mut OtherHost {
        self.others.resize_with(self.others.len().max(other + 1), OtherHost::default);
        &mut self.others[other]
    }

    /// A host's clocks, each time they were read together, with stamps on the first host's clock.
    pub fn clocks_of(&self, host: HostIndex) -> &[(Stamp<Local>, Clocks)] {
        match usize::from(host.0).checked_sub(1) {
            None => &self.clocks,
            Some(other) => self.others.get(other).map_or(&[], |other| &other.clocks),
        }
    }

    /// The marks in a host's session; `None` if its recording has none.
    pub fn session_of(&self, host: HostIndex) -> Option<&Session> {
        match usize::from(host.0).checked_sub(1) {
            None => Some(&self.session),
            Some(other) => self.others.get(other).map(|other| &other.session),
        }
    }

    /// The recorders' own threads, on all hosts.
    pub fn observers(&self) -> BTreeSet<Tid> {
        let others = self.others.iter().flat_map(|other| &other.session.observers);
        self.session.observers.iter().chain(others).copied().collect()
    }

    /// Notes an event's data, with a single recorded host. Events come in time order.
    pub fn observe(&mut self, event: &Event) {
        self.observe_on(HostIndex::default(), event);
    }

    fn note(&mut self, event: &Event) {
        self.counts.add(&event.kind);
        match &event.kind {
            // Most events; they belong to the graph.
            EventKind::Switch { .. }
            | EventKind::Waking { .. }
            | EventKind::Ready { .. }
            | EventKind::Migrate { .. }
            | EventKind::Packet(_)
            | EventKind::SocketReady(_) => {}
            EventKind::Mapping(mapping) => self.mappings.push((event.at, mapping.clone())),
            EventKind::Clocks(clocks) => self.clocks.push((event.at, *clocks)),
            EventKind::StackCounts(counts) => self.stacks = Some(*counts),
            EventKind::KernelCost(cost) => {
                self.costs.insert(cost.kind, *cost);
            }
            EventKind::UnwindCounts(counts) => self.unwinding = Some(*counts),
            EventKind::Stack(stack) | EventKind::StackLater(_, stack) => self.stack_frames.add(stack),
            EventKind::Sample(stack) => {
                self.sample_frames.add(stack);
                self.names.observe(event);
            }
            EventKind::StackOf(_) => {}
            EventKind::UserMark(mark) => {
                self.user_marks.push(event.at, event.cpu, mark.as_ref().clone());
            }
            EventKind::UserMarksLost { from, .. } => self.user_marks.lose(*from, event.at),
            EventKind::Function(call) => self.calls.push((event.at, *call)),
            EventKind::Goroutine(step) => self.goroutines.push((event.at, event.current, *step)),
            EventKind::BlockIssue(_)
            | EventKind::BlockComplete(_)
            | EventKind::Reclaim(_)
            | EventKind::LockBegin(_)
            | EventKind::LockEnd(_) => {
                self.intervals.observe(event);
            }
            EventKind::ThreadContext(context) => self.contexts.read(event.at, event.current, *context),
            EventKind::ThreadAttribute(attribute) => self.contexts.add(event.current, attribute),
            EventKind::FailedCall(call) => self.failed_calls.add(event.at, event.current, call),
            EventKind::Signal(_) | EventKind::SignalSent(_) => self.signals.observe(event),
            EventKind::Spin(spin) => self.failed_calls.add_spin(event.at, event.current, *spin),
            EventKind::Exec { old, .. } => {
                self.contexts.execute(event.at, *old, event.current);
                self.names.observe(event);
            }
            EventKind::Mark(mark) => {
                // Function probes are attached before the other sources: nothing explains a call from that time,
                // and a slow machine has hundreds of ms of such calls.
                if matches!(mark, Mark::Started) && self.session.started.is_none() {
                    self.calls.clear();
                }
                self.session.observe(event.at, mark);
            }
            _ => self.names.observe(event),
        }
    }

    /// Realtime at `at`, ns since 1970, by the last clock reading before it, else by the first; `None` without
    /// readings.
    pub fn realtime(&self, at: Stamp<Local>) -> Option<u64> {
        let after = self.clocks.partition_point(|(read, _)| *read <= at);
        let (read, clocks) = self.clocks.get(after.saturating_sub(1))?;
        if at >= *read {
            clocks.realtime_ns.checked_add(at.since(*read))
        } else {
            clocks.realtime_ns.checked_sub(read.since(at))
        }
    }
}

impl Session {
    fn observe(&mut self, at: Stamp<Local>, mark: &Mark) {
        match mark {
            Mark::Started => self.started = self.started.or(Some(at)),
            Mark::Stopped => self.stopped = Some(at),
            Mark::Command { tgid, words } => {
                let words =
                    words.split(|&b| b == 0).filter(|word| !word.is_empty()).map(Name::from).collect();
                self.command = Some(Command { tgid: *tgid, words, at, status: None });
            }
            Mark::Target(tgid) => {
                self.targets.insert(*tgid);
            }
            Mark::Observer(tid) => {
                self.observers.insert(*tid);
            }
            Mark::Unprobed(target) => {
                self.unprobed.entry(*target).or_insert(at);
            }
            Mark::Ended(status) => {
                if let Some(command) = &mut self.command {
                    command.status = Some(*status);
                }
            }
        }
    }
}

/// The number of events by kind, roughly in the order of these numbers.
#[derive(Debug, Clone, Default)]
pub struct Counts(Vec<(Discriminant<EventKind>, &'static str, u64)>);

impl Counts {
    fn add(&mut self, kind: &EventKind) {
        let of = discriminant(kind);
        let at = self.0.iter().position(|(other, ..)| *other == of).unwrap_or_else(|| {
            self.0.push((of, kind_name(kind), 0));
            self.0.len() - 1
        });
        self.0[at].2 += 1;
        // Nearly all events have the same few kinds, which are found at once when they come first.
        if at > 0 && self.0[at - 1].2 < self.0[at].2 {
            self.0.swap(at - 1, at);
        }
    }

    /// Counts by name, without zeros.
    pub fn by_name(&self) -> BTreeMap<&'static str, u64> {
        self.0.iter().map(|(_, name, count)| (*name, *count)).collect()
    }

    /// The number of all events.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(.., count)| count).sum()
    }
}

/// An event kind's name in documents.
const fn kind_name(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::Switch { .. } => "switch",
        EventKind::Waking { .. } => "waking",
        EventKind::Ready { .. } => "ready",
        EventKind::Migrate { .. } => "migrate",
        EventKind::ThreadContext(_) => "thread_context",
        EventKind::ThreadAttribute(_) => "thread_attribute",
        EventKind::FailedCall(_) => "failed_call",
        EventKind::Spin(_) => "spin",
        EventKind::Thread { .. } => "thread",
        EventKind::Fork { .. } => "fork",
        EventKind::Exec { .. } => "exec",
        EventKind::Exit => "exit",
        EventKind::Rename { .. } => "rename",
        EventKind::Packet(_) => "packet",
        EventKind::SocketReady(_) => "socket_ready",
        EventKind::Flow(..) => "flow",
        EventKind::BlockIssue(_) => "block_issue",
        EventKind::BlockComplete(_) => "block_complete",
        EventKind::BlockRelease(_) => "block_release",
        EventKind::Reclaim(_) => "reclaim",
        EventKind::LockBegin(_) => "lock_begin",
        EventKind::LockEnd(_) => "lock_end",
        EventKind::Sample(_) => "sample",
        EventKind::Stack(_) => "stack",
        EventKind::StackLater(..) => "stack_later",
        EventKind::File(_) => "file",
        EventKind::SetMember(_) => "set_member",
        EventKind::Loss { .. } => "loss",
        EventKind::Unrecorded => "unrecorded",
        EventKind::Clocks(_) => "clocks",
        EventKind::Name(..) => "name",
        EventKind::Mapping(_) => "mapping",
        EventKind::Mark(_) => "mark",
        EventKind::Move { .. } => "move",
        EventKind::Current => "current",
        EventKind::Refill(_) => "refill",
        EventKind::Blocked(_) => "blocked",
        EventKind::StackOf(_) => "stack_of",
        EventKind::StackCounts(_) => "stack_counts",
        EventKind::KernelCost(_) => "kernel_cost",
        EventKind::UnwindCounts(_) => "unwind_counts",
        EventKind::Function(_) => "function",
        EventKind::Goroutine(_) => "goroutine",
        EventKind::Stolen(_) => "stolen",
        EventKind::Signal(_) => "signal",
        EventKind::SignalSent(_) => "signal_sent",
        EventKind::UserMark(_) => "user_mark",
        EventKind::UserMarksLost { .. } => "user_marks_lost",
    }
}

#[cfg(test)]
mod tests;
