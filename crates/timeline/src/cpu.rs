//! A CPU's state as its records show it.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Context, Tid};

use crate::instance::Instance;
use crate::{Late, Occupant};

/// A CPU's present state.
#[derive(Debug, Default)]
pub(crate) struct CpuState {
    pub(crate) occupant: Occupant,
    /// The occupant's tid, which saves a look-up for most records.
    pub(crate) tid: Option<Tid>,
    /// The time of the last record of the occupant, or the time from which the occupant is unknown.
    pub(crate) last: Option<Stamp<Reference>>,
    /// The CPU has no records now, up to the end of the next loss.
    pub(crate) unrecorded: bool,
    /// A loss after the last record.
    pub(crate) pending_loss: Option<PendingLoss>,
    /// The end of the last stolen time.
    pub(crate) stolen_until: Stamp<Reference>,
    /// The beginning of the last stolen time, if the same thread has had the CPU since.
    pub(crate) stolen_since: Option<Stamp<Reference>>,
    pub(crate) instance: Instance,
    /// The instance that continues after `instance`, if `instance` is a hard interrupt.
    pub(crate) interrupted: Instance,
}

/// A loss after which no record has come yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingLoss {
    pub(crate) from: Stamp<Reference>,
    pub(crate) to: Stamp<Reference>,
    /// The number of lost records; 0 if not known.
    pub(crate) count: u64,
    /// The CPU had no records at all, so that any thread may have been there.
    pub(crate) unrecorded: bool,
}

impl CpuState {
    /// Adds a loss to the pending loss.
    pub(crate) fn lose(&mut self, from: Stamp<Reference>, to: Stamp<Reference>, count: u64) {
        let sum = |a: u64, b: u64| if a == 0 || b == 0 { 0 } else { a.saturating_add(b) };
        let unrecorded = std::mem::take(&mut self.unrecorded);
        self.pending_loss = Some(match self.pending_loss {
            None => PendingLoss { from, to, count, unrecorded },
            Some(d) => PendingLoss {
                from: d.from.min(from),
                to: d.to.max(to),
                count: sum(d.count, count),
                unrecorded: d.unrecorded || unrecorded,
            },
        });
        self.lose_evidence();
    }

    /// Notes that evidence in the present interrupts may have been lost.
    pub(crate) fn lose_evidence(&mut self) {
        self.instance.lose();
        self.interrupted.lose();
    }

    /// Notes a record's context. A hard interrupt ends no other instance: the interrupted instance continues after it.
    #[inline]
    pub(crate) fn enter(&mut self, context: Context, current: Tid) {
        let context = if context.is_interrupt() { context } else { Context::Task };
        if self.instance.continues(context, current) {
            return;
        }
        let (hard_before, hard_now) = (self.instance.is_hard(), Instance::is_hard_context(context));
        let lost = self.instance.lost_last();
        if !hard_before && hard_now {
            std::mem::swap(&mut self.instance, &mut self.interrupted);
        } else if hard_before && !hard_now && self.interrupted.continues(context, current) {
            std::mem::swap(&mut self.instance, &mut self.interrupted);
            return;
        }
        self.instance.begin(context, current, lost);
    }

    /// The stolen time right before an interrupt that wakes a thread at `at`. The CPU looks for stolen time when the interrupt begins, and a wake-up
    /// follows within microseconds, also in the softirq behind it.
    pub(crate) fn late(&self, at: Stamp<Reference>) -> Option<Late> {
        const MAX_AFTER_ENTRY_NS: u64 = 500_000;
        let (from, to) = (self.stolen_since?, self.stolen_until);
        let is_its = at.since(to) <= MAX_AFTER_ENTRY_NS;
        is_its.then_some(Late { from, to, idle: self.occupant == Occupant::Idle })
    }

    /// Ends both instances at a switch.
    pub(crate) fn end_instances(&mut self) {
        self.stolen_since = None;
        self.instance.end();
        self.interrupted.end();
    }
}
