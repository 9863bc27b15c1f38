//! The records that a session writes itself: names, clocks, costs, losses.

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Context, Cpu, Event, EventKind, LostRecords, ThreadContext, Tid};

use super::Session;
use crate::write_behind::WriteCommand;
use crate::{clocks, names, scheduling};

impl Session<'_, '_> {
    pub(super) fn add_names(&mut self, names: Vec<names::Name>) {
        for (space, key, name) in names {
            self.add_event(EventKind::Name(space, key, name));
        }
    }

    /// Looks at the scheduling of all threads. Two looks show what was between them.
    pub(super) fn look_at_scheduling(&mut self) {
        let found = self.programs.schedulings();
        for record in found.chunks_exact(scheduling::BYTES) {
            self.add_scheduling(record);
        }
        self.add_names(vec![scheduling::all_seen()]);
    }

    /// Adds a thread's scheduling; true if the record has one, which must not get onto a disk.
    pub(super) fn add_scheduling(&mut self, record: &[u8]) -> bool {
        if !scheduling::is_one(record) {
            return false;
        }
        if let Some((at, (space, key, name))) = self.schedulings.see(record) {
            self.add_event_at(at, Cpu::UNKNOWN, EventKind::Name(space, key, name));
        }
        true
    }

    pub(super) fn add_clocks(&mut self) {
        let (at, clocks) = clocks::together();
        self.add_event_at(at, Cpu::UNKNOWN, EventKind::Clocks(clocks));
    }

    /// Records the programs' costs, and the counts of their work without records.
    pub(super) fn add_costs(&mut self) {
        let costs = self.costs.as_ref();
        let costs = costs.map_or_else(Vec::new, |costs| costs.now(&self.programs, &self.sched));
        for cost in costs {
            self.add_event(EventKind::KernelCost(cost));
        }
    }

    pub(super) fn add_loss(&mut self, cpu: Cpu, from: Stamp<Local>, count: u64, records: LostRecords) {
        self.add_event_at(clocks::now(), cpu, EventKind::Loss { from, count, records });
    }

    /// Records that the context of a process's first thread is not known.
    pub(super) fn add_unread_context(&mut self, current: Tid) {
        let kind = EventKind::ThreadContext(ThreadContext::Unknown);
        let (at, cpu, context) = (clocks::now(), Cpu::UNKNOWN, Context::Task);
        self.commands.push(WriteCommand::Event(Event { at, cpu, context, current, kind }));
    }

    pub(super) fn add_event(&mut self, kind: EventKind) {
        self.add_event_at(clocks::now(), Cpu::UNKNOWN, kind);
    }

    /// Adds a record of our own.
    pub(super) fn add_event_at(&mut self, at: Stamp<Local>, cpu: Cpu, kind: EventKind) {
        let current = Tid(std::process::id());
        let event = Event { at, cpu, context: Context::Task, current, kind };
        self.commands.push(WriteCommand::Event(event));
    }
}
