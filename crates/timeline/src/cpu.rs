use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Context, Tid};

use crate::Occupant;
use crate::instance::Instance;

/// What is believed of a CPU now.
#[derive(Debug)]
pub(crate) struct CpuState {
    pub(crate) occupant: Occupant,
    /// The occupant's tid, so that most records need no look-up.
    pub(crate) tid: Option<Tid>,
    /// The last record that showed the occupant, or since when it is unknown.
    pub(crate) last: Option<Stamp<Reference>>,
    /// Records were lost since then.
    pub(crate) pending_loss: Option<PendingLoss>,
    /// The last that the hypervisor took of it.
    pub(crate) stolen_until: Stamp<Reference>,
    pub(crate) instance: Instance,
    /// What goes on behind `instance`, if that is a hard interrupt's.
    pub(crate) interrupted: Instance,
}

/// A loss that no record has followed yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingLoss {
    pub(crate) from: Stamp<Reference>,
    pub(crate) to: Stamp<Reference>,
    /// 0: any number.
    pub(crate) count: u64,
}

impl Default for CpuState {
    fn default() -> Self {
        Self {
            occupant: Occupant::Unknown,
            tid: None,
            last: None,
            pending_loss: None,
            stolen_until: Stamp::from_ns(0),
            instance: Instance::default(),
            interrupted: Instance::default(),
        }
    }
}

impl CpuState {
    /// Adds a loss to what is in pending_loss.
    pub(crate) fn lose(&mut self, from: Stamp<Reference>, to: Stamp<Reference>, count: u64) {
        let sum = |a: u64, b: u64| if a == 0 || b == 0 { 0 } else { a.saturating_add(b) };
        self.pending_loss = Some(match self.pending_loss {
            None => PendingLoss { from, to, count },
            Some(d) => PendingLoss { from: d.from.min(from), to: d.to.max(to), count: sum(d.count, count) },
        });
        self.instance.lose();
        self.interrupted.lose();
    }

    /// A record shows this context. A hard interrupt ends nothing: what it came amid goes on behind it.
    #[inline]
    pub(crate) fn enter(&mut self, context: Context, current: Tid) {
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

    /// A switch: nothing goes on behind it.
    pub(crate) fn end_instances(&mut self) {
        self.instance.end();
        self.interrupted.end();
    }
}
