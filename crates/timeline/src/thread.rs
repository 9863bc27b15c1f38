use wakepath_clock::{Local, Reference, Stamp};
use wakepath_event::{CgroupId, Context, Cpu, Tid};

use crate::{ContendedLock, EvidenceIndex, Occupant, ThreadIndex, Wait, Waker};

/// What is believed of a thread now.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) tid: Tid,
    pub(crate) tgid: Tid,
    /// Its identity's start, where known.
    pub(crate) start: Option<Stamp<Local>>,
    pub(crate) state: CurrentState,
    /// Its wait, while it is blocked. What ends it is filled in then.
    pub(crate) wait: Wait,
    /// When `now` began; all before has gone out.
    pub(crate) since: Stamp<Reference>,
    /// A waking that came while it was running.
    pub(crate) pending: Option<WakeUp>,
    /// The kernel lock it is waiting for, awake or asleep.
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
    /// It left its CPU unseen, between `since` and `lost_until`; or it was never seen.
    Unknown {
        lost_until: Option<Stamp<Reference>>,
    },
    Dead,
}

/// The wait of a thread of which nothing is known but that it waits.
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
