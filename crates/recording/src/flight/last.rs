//! The last states: the facts and states from dropped records that still hold after them.
//!
//! A recording states some facts once or on change (forks, names, mappings, flows, files, stacks, contexts), and has
//! two records for each duration (waits, disk requests, lock waits). Each record that leaves the memory passes
//! through here, and [`LastStates::restate`] states anew the facts that still hold, like the snapshot at a
//! recording's beginning. Facts without a future are forgotten: dead threads and their processes, finished requests.

use wakepath_clock::{Local, Stamp};
use wakepath_event::{
    Clocks, Context, CostKind, Cpu, Event, EventKind, FlowId, GoStep, KernelCost, Mark, NameSpace,
    StackCounts, StackId, SwitchOut, Tid, UnwindCounts,
};
use wakepath_kernel_records::Kind;

use super::bounded::Bounded;
use super::threads::{Row, State, Threads};

/// The largest number of facts by kind. On a machine with more, a recorder forgets the least recently used facts.
const MAX_FLOWS: usize = 1 << 15;
const MAX_FILES: usize = 1 << 15;
const MAX_NAMES: usize = 1 << 15;
const MAX_MAPPINGS: usize = 1 << 15;
const MAX_STACKS: usize = 1 << 13;
const MAX_REQUESTS: usize = 1 << 14;
const MAX_GOROUTINES: usize = 1 << 15;
/// The largest number of session marks: the command, the targets, wakepath's own threads.
const MAX_MARKS: usize = 1 << 12;

/// The last states.
#[derive(Debug)]
pub(super) struct LastStates {
    threads: Threads,
    flows: Bounded<FlowId>,
    /// By process and descriptor.
    files: Bounded<(Tid, u32)>,
    /// By process, set and descriptor.
    members: Bounded<(Tid, u64, u32)>,
    names: Bounded<(NameSpace, u64)>,
    /// By flow.
    receivers: Bounded<u64>,
    /// By process and first address.
    mappings: Bounded<(Tid, u64)>,
    stacks: Bounded<StackId>,
    requests: Bounded<u64>,
    /// The last step, by process and goroutine number.
    goroutines: Bounded<(Tid, u64)>,
    /// The last span that began, by process and goroutine number.
    spans: Bounded<(Tid, u64)>,
    marks: Vec<Event>,
    clocks: Option<(Stamp<Local>, Clocks)>,
    totals: Totals,
}

/// Counters since the recording began.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    stacks: StackCounts,
    unwound: UnwindCounts,
    costs: Vec<KernelCost>,
}

impl LastStates {
    pub fn new() -> Self {
        Self {
            threads: Threads::default(),
            flows: Bounded::new(MAX_FLOWS),
            files: Bounded::new(MAX_FILES),
            members: Bounded::new(MAX_FILES),
            names: Bounded::new(MAX_NAMES),
            receivers: Bounded::new(MAX_FLOWS),
            mappings: Bounded::new(MAX_MAPPINGS),
            stacks: Bounded::new(MAX_STACKS),
            requests: Bounded::new(MAX_REQUESTS),
            goroutines: Bounded::new(MAX_GOROUTINES),
            spans: Bounded::new(MAX_GOROUTINES),
            marks: Vec::new(),
            clocks: None,
            totals: Totals::default(),
        }
    }

    /// Takes the event of a dropped record, in time order.
    pub fn take(&mut self, event: &Event) {
        if let EventKind::Fork { child } = &event.kind
            && self.threads.is_reused(child)
        {
            self.forget(|tgid| tgid == child.tgid);
        }
        if !self.has_room_for(&event.kind) {
            // Facts about dead processes go before any living process's fact, however old.
            self.forget_the_dead();
        }
        self.threads.take(event);
        let at = event.at.ns();
        match &event.kind {
            // `threads` keeps the states of threads and CPUs. Switches and wake-ups are nearly all records.
            EventKind::Switch { .. }
            | EventKind::Waking { .. }
            | EventKind::Migrate { .. }
            | EventKind::ThreadContext(_)
            | EventKind::ThreadAttribute(_)
            | EventKind::Current
            | EventKind::Thread { .. }
            | EventKind::Fork { .. }
            | EventKind::Exit
            | EventKind::Rename { .. }
            | EventKind::Move { .. }
            | EventKind::Blocked(_)
            | EventKind::Refill(_)
            | EventKind::LockBegin(_)
            | EventKind::LockEnd(_)
            | EventKind::Unrecorded
            | EventKind::Loss { .. } => {}
            // Without an effect on later time.
            EventKind::Ready { .. }
            | EventKind::Stolen(_)
            | EventKind::BlockRelease(_)
            | EventKind::Reclaim(_)
            | EventKind::Sample(_)
            | EventKind::Function(_)
            | EventKind::FailedCall(_)
            | EventKind::Spin(_)
            | EventKind::UserMark(_)
            | EventKind::UserMarksLost { .. }
            | EventKind::Signal(_)
            | EventKind::SignalSent(_) => {}
            EventKind::Exec { .. } => {
                // Its files stay open. The new program's mappings were recorded before this record.
                let is_of = |(tgid, _): &(Tid, u64)| *tgid == event.current;
                self.goroutines.retain(|key| !is_of(key));
                self.spans.retain(|key| !is_of(key));
            }
            EventKind::Flow(id, _) => self.flows.state(*id, event),
            EventKind::Packet(packet) => self.flows.use_at(packet.flow, at),
            EventKind::SocketReady(flow) => self.flows.use_at(*flow, at),
            EventKind::File(file) => {
                if let Some(flow) = file.flow {
                    self.flows.use_at(flow, at);
                }
                self.files.state((file.tgid, file.fd), event);
            }
            EventKind::SetMember(member) => {
                self.members.state((member.tgid, member.set, member.fd), event);
            }
            // Each thread has a look, and a window without any says nothing.
            EventKind::Name(NameSpace::Scheduling, ..) => {}
            // A queue, and a connection that nobody has accepted, are facts about a moment.
            EventKind::Name(NameSpace::Receiver, flow, text) if text.starts_with(b"listening") => {
                self.receivers.forget(*flow);
            }
            EventKind::Name(NameSpace::Receiver, flow, _) => self.receivers.state(*flow, event),
            EventKind::Name(space, key, _) => self.names.state((*space, *key), event),
            EventKind::Mapping(mapping) => self.mappings.state((mapping.tgid, mapping.from), event),
            EventKind::Stack(stack) => self.stacks.state(stack.id(), event),
            EventKind::StackLater(id, _) => self.stacks.state(*id, event),
            EventKind::StackOf(id) => self.stacks.use_at(*id, at),
            EventKind::BlockIssue(request) => {
                // An interrupt's request belongs to no thread: the interrupt only used a thread's CPU.
                let of = if event.context.is_interrupt() { Tid::IDLE } else { event.current };
                self.requests.state(request.id, &Event { current: of, ..event.clone() });
            }
            EventKind::BlockComplete(request) => self.requests.forget(request.id),
            EventKind::Goroutine(step) => {
                let key = (step.tgid, step.goroutine);
                match step.step {
                    GoStep::Ends => {
                        self.goroutines.forget(key);
                        self.spans.forget(key);
                    }
                    GoStep::BeginsSpan(..) => self.spans.state(key, event),
                    _ => self.goroutines.state(key, event),
                }
            }
            EventKind::Clocks(clocks) => self.clocks = Some((event.at, *clocks)),
            EventKind::StackCounts(counts) => self.totals.stacks = *counts,
            EventKind::UnwindCounts(counts) => self.totals.unwound = *counts,
            EventKind::KernelCost(cost) => self.totals.take(*cost),
            EventKind::Mark(Mark::Started | Mark::Stopped) => {}
            EventKind::Mark(
                Mark::Command { .. }
                | Mark::Target(_)
                | Mark::Observer(_)
                | Mark::Ended(_)
                | Mark::Unprobed(_),
            ) => {
                if self.marks.len() < MAX_MARKS {
                    self.marks.push(event.clone());
                }
            }
        }
    }

    /// Whether a fact about a process fits without the loss of another.
    fn has_room_for(&self, kind: &EventKind) -> bool {
        match kind {
            EventKind::File(file) => self.files.has_room_for(&(file.tgid, file.fd)),
            EventKind::SetMember(member) => self.members.has_room_for(&(member.tgid, member.set, member.fd)),
            EventKind::Name(NameSpace::Scheduling | NameSpace::Receiver, ..) => true,
            EventKind::Name(space, key, _) => self.names.has_room_for(&(*space, *key)),
            EventKind::Mapping(mapping) => self.mappings.has_room_for(&(mapping.tgid, mapping.from)),
            EventKind::Goroutine(step) => {
                let key = (step.tgid, step.goroutine);
                self.goroutines.has_room_for(&key) && self.spans.has_room_for(&key)
            }
            _ => true,
        }
    }

    /// Notes a loss of records from this CPU.
    pub fn lose(&mut self, cpu: Cpu) {
        self.threads.lose(cpu);
    }

    /// Forgets the facts about ended processes. A full walk through all facts: call it rarely.
    pub fn forget_the_dead(&mut self) {
        let living = self.threads.processes();
        self.forget(|tgid| !living.contains(&tgid));
        self.threads.forget_ended(&living);
    }

    /// Forgets the facts about these processes.
    fn forget(&mut self, is_gone: impl Fn(Tid) -> bool) {
        self.files.retain(|(tgid, _)| !is_gone(*tgid));
        self.members.retain(|(tgid, ..)| !is_gone(*tgid));
        self.mappings.retain(|(tgid, _)| !is_gone(*tgid));
        self.goroutines.retain(|(tgid, _)| !is_gone(*tgid));
        self.spans.retain(|(tgid, _)| !is_gone(*tgid));
        self.names.retain(|(space, key)| !space.process(*key).is_some_and(&is_gone));
    }

    /// The memory in use, bytes.
    pub fn bytes(&self) -> usize {
        let facts = self.flows.bytes()
            + self.files.bytes()
            + self.members.bytes()
            + self.names.bytes()
            + self.receivers.bytes()
            + self.mappings.bytes()
            + self.stacks.bytes()
            + self.requests.bytes()
            + self.goroutines.bytes()
            + self.spans.bytes();
        facts + self.threads.bytes() + self.marks.capacity() * size_of::<Event>()
    }

    /// The counters to subtract in a recording that begins now.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The events that state, at this stamp, all that still holds: threads and their waits, then facts, then the mark
    /// for complete sources. A thread in an unknown state comes 1 ns earlier, so that readers do not take it for
    /// runnable.
    pub fn restate(&self, at: Stamp<Local>) -> Vec<Event> {
        let event =
            |at, current, kind| Event { at, cpu: Cpu::UNKNOWN, context: Context::Task, current, kind };
        let before = Stamp::from_ns(at.ns().saturating_sub(1));
        let rows = self.threads.rows();
        let mut events = Vec::new();
        for (tid, row) in &rows {
            let Some(identity) = row.identity.clone() else { continue };
            let (at, blocked, call) = match row.state {
                // Stated below, by their forks.
                State::Newborn(_) => continue,
                State::Unknown => (before, None, None),
                State::Ready | State::Preempted(_) | State::Throttled(..) => (at, None, None),
                State::Blocked(..) if self.is_woken_before(row) => (at, None, None),
                State::Blocked(how, call) => (at, Some(how), call),
            };
            events.push(event(at, *tid, EventKind::Thread { identity, blocked, call }));
        }
        for (tid, row) in &rows {
            let Some(identity) = &row.identity else { continue };
            if let State::Newborn(parent) = row.state {
                events.push(event(at, parent, EventKind::Fork { child: identity.clone() }));
            }
            if let Some(lock) = row.lock {
                events.push(event(at, *tid, EventKind::LockBegin(lock)));
            }
            if let State::Blocked(_, Some(call)) = row.state
                && !self.is_woken_before(row)
            {
                events.push(event(at, *tid, EventKind::Blocked(call)));
            }
            let is_told = !matches!(row.state, State::Blocked(..)) || self.is_woken_before(row);
            if let Some(woken) = row.pending.filter(|_| is_told) {
                let kind = EventKind::Waking { target: *tid, irq: woken.irq, newborn: false, socket: None };
                events.push(Event { context: woken.context, ..event(at, Tid::IDLE, kind) });
            }
            if let Some(context) = row.context {
                events.push(event(at, *tid, EventKind::ThreadContext(context)));
                let attributes = row.attributes.iter().cloned().map(EventKind::ThreadAttribute);
                events.extend(attributes.map(|attribute| event(at, *tid, attribute)));
            }
        }
        let facts = [
            self.names.events(),
            self.flows.events(),
            self.receivers.events(),
            self.files.events(),
            self.members.events(),
            self.mappings.events(),
            self.stacks.events(),
            self.requests.events(),
            self.goroutines.events(),
            self.spans.events(),
            self.marks.iter().collect(),
        ];
        for fact in facts.into_iter().flatten() {
            events.push(Event { context: fact.context, ..event(at, fact.current, fact.kind.clone()) });
        }
        if let Some((read, clocks)) = self.clocks {
            // All clocks run at the same speed, but for a correction far below the error in a reading each second.
            let since = at.since(read);
            let clocks = Clocks {
                boottime_ns: clocks.boottime_ns + since,
                realtime_ns: clocks.realtime_ns + since,
                steal_ns: clocks.steal_ns,
            };
            events.push(event(at, Tid::IDLE, EventKind::Clocks(clocks)));
        }
        for cost in &self.totals.costs {
            let none = self.totals.since_then(EventKind::KernelCost(*cost));
            events.push(event(at, Tid::IDLE, none));
        }
        events.push(event(at, Tid::IDLE, EventKind::Mark(Mark::Started)));
        events
    }

    /// Whether a thread waits although a wake-up came just before its switch-out: the wake-up ended the wait, unless
    /// another does.
    fn is_woken_before(&self, row: &Row) -> bool {
        let is_known = |left| self.threads.occupants().any(|(cpu, _)| cpu == left);
        row.pending.is_some() && matches!(row.state, State::Blocked(..)) && row.left.is_some_and(is_known)
    }

    /// Each CPU's first events in the recording. First, a new switch-out from this CPU for each preempted or
    /// throttled thread (a snapshot can state neither its queue nor its limit), and for each blocked thread with a
    /// wake-up just before; then the thread on the CPU. No events for a CPU whose thread is unknown.
    pub fn restate_cpus(&self, at: Stamp<Local>) -> Vec<Event> {
        let event = |cpu, current, kind| Event { at, cpu, context: Context::Task, current, kind };
        let rows = self.threads.rows();
        let mut events = Vec::new();
        for (cpu, occupant) in self.threads.occupants() {
            let off = rows.iter().filter_map(|(tid, row)| match row.state {
                State::Preempted(from) if from == cpu => Some((*tid, SwitchOut::Runnable, None)),
                State::Throttled(from, _) if from == cpu => Some((*tid, SwitchOut::Throttled, None)),
                State::Blocked(how, call) if row.left == Some(cpu) && self.is_woken_before(row) => {
                    Some((*tid, SwitchOut::Blocked(how), call))
                }
                _ => None,
            });
            let off: Vec<_> = off.collect();
            let next = off.iter().skip(1).map(|(tid, ..)| *tid).chain([occupant]);
            events.extend(off.iter().zip(next).map(|(&(prev, out, call), next)| {
                event(cpu, prev, EventKind::Switch { next, out, interrupts_ns: 0, call })
            }));
            events.push(event(cpu, occupant, EventKind::Current));
        }
        events
    }
}

impl Totals {
    fn take(&mut self, cost: KernelCost) {
        match self.costs.iter_mut().find(|known| known.kind == cost.kind) {
            Some(known) => *known = cost,
            None => self.costs.push(cost),
        }
    }

    fn of(&self, kind: CostKind) -> u64 {
        self.costs.iter().find(|cost| cost.kind == kind).and_then(|cost| cost.count).unwrap_or(0)
    }

    /// The event with counters from these totals on.
    pub fn since_then(&self, kind: EventKind) -> EventKind {
        match kind {
            EventKind::StackCounts(now) => EventKind::StackCounts(StackCounts {
                taken: now.taken.saturating_sub(self.stacks.taken),
                repeated: now.repeated.saturating_sub(self.stacks.repeated),
                checked: now.checked.saturating_sub(self.stacks.checked),
                disagreed: now.disagreed.saturating_sub(self.stacks.disagreed),
                doubtful: now.doubtful.saturating_sub(self.stacks.doubtful),
            }),
            EventKind::UnwindCounts(now) => EventKind::UnwindCounts(UnwindCounts {
                taken_ns: now.taken_ns.saturating_sub(self.unwound.taken_ns),
                copied: now.copied.saturating_sub(self.unwound.copied),
                refused: now.refused.saturating_sub(self.unwound.refused),
                unwound_ns: now.unwound_ns.saturating_sub(self.unwound.unwound_ns),
            }),
            EventKind::KernelCost(now) => EventKind::KernelCost(KernelCost {
                count: now.count.map(|count| count.saturating_sub(self.of(now.kind))),
                ..now
            }),
            other => other,
        }
    }
}

/// Whether records with this kind have counters since the recording's beginning.
pub(super) fn is_total(kind: u8) -> bool {
    let kind = Kind::from_number(kind);
    matches!(kind, Some(Kind::StackCounts | Kind::UnwindCounts | Kind::KernelCost))
}
