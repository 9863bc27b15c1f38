//! The state of a thread while the timeline reads events.

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_event::{CgroupId, Context, Cpu, Tid};

use crate::{ContendedLock, EvidenceIndex, Occupant, ThreadIndex, Wait, Waker};

/// A thread and its present state.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) tid: Tid,
    pub(crate) tgid: Tid,
    /// Its start time by its identity.
    pub(crate) start: Option<Stamp<Local>>,
    pub(crate) state: CurrentState,
    /// Its wait, while it is blocked. The end is set when it ends.
    pub(crate) wait: Wait,
    /// The beginning of `state`. All earlier state intervals have gone out.
    pub(crate) since: Stamp<Reference>,
    /// A wake-up that came while it was running.
    pub(crate) pending: Option<WakeUp>,
    /// The kernel lock that it waits for, spinning or asleep.
    pub(crate) lock: Option<ContendedLock>,
    /// It began to exit.
    pub(crate) exiting: bool,
    pub(crate) next_in_process: Option<ThreadIndex>,
    /// Its cgroup in the hierarchy that has the CPU controller.
    pub(crate) cpu_cgroup: CgroupId,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum CurrentState {
    /// Running or runnable when the snapshot found it.
    Ready,
    Running(Cpu),
    Runnable,
    Throttled(Cpu),
    Blocked,
    /// Its switch-out is missing and was between `since` and `lost_until`; `None` if no record showed it yet.
    Unknown {
        lost_until: Option<Stamp<Reference>>,
    },
    Dead,
}

/// A wait without any details.
pub(crate) const WAITING: Wait =
    Wait { state: None, call: None, lock: None, end: Waker::Open, newborn: false, began_before: false };

/// [`Waker::Woken`] as a type of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WakeUp {
    pub(crate) at: Stamp<Reference>,
    pub(crate) current: Occupant,
    pub(crate) context: Context,
    pub(crate) irq: u16,
    pub(crate) evidence: EvidenceIndex,
}

impl From<WakeUp> for Waker {
    fn from(woken: WakeUp) -> Self {
        let WakeUp { at, current, context, irq, evidence } = woken;
        Self::Woken { at, current, context, irq, evidence }
    }
}

impl Thread {
    pub(crate) fn new(tid: Tid, at: Stamp<Reference>, state: CurrentState) -> Self {
        Self {
            tid,
            tgid: tid,
            start: None,
            state,
            wait: WAITING,
            since: at,
            pending: None,
            lock: None,
            exiting: false,
            next_in_process: None,
            cpu_cgroup: CgroupId::default(),
        }
    }
}
