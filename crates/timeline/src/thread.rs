//! The state of a thread while the timeline reads events.

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_event::{CgroupId, Cpu, Tid};

use crate::{ContendedLock, ThreadIndex, Wait, WakeUp};

/// A thread and its present state.
#[derive(Debug, Default)]
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
    /// The last descriptor that ended a wait of its, `None` for none of its set, and the time of that wake-up.
    pub(crate) ready: Option<(Stamp<Reference>, Option<u32>)>,
    /// The wait in which the snapshot found it, and when, while it was believed to be running.
    pub(crate) found: Option<Box<(Stamp<Reference>, Wait)>>,
    /// The kernel lock that it waits for, spinning or asleep.
    pub(crate) lock: Option<ContendedLock>,
    /// Since its last wait it has sent a packet or woken a thread of a program.
    pub(crate) acted: bool,
    /// The CPU that it left last.
    pub(crate) last_cpu: Option<Cpu>,
    /// It belongs to the kernel.
    pub(crate) kernel: bool,
    /// It began to exit.
    pub(crate) exiting: bool,
    pub(crate) next_in_process: Option<ThreadIndex>,
    /// Its cgroup in the hierarchy that has the CPU controller.
    pub(crate) cpu_cgroup: CgroupId,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum CurrentState {
    /// Running or runnable when the snapshot found it.
    #[default]
    Ready,
    Running(Cpu),
    /// In the queue of this CPU; `None` where that is not known.
    Runnable(Option<Cpu>),
    Throttled(Cpu),
    Blocked,
    /// Its switch-out is missing and was between `since` and `lost_until`; `None` if no record showed it yet.
    Unknown {
        lost_until: Option<Stamp<Reference>>,
    },
    Dead,
}

impl Thread {
    pub(crate) fn new(tid: Tid, at: Stamp<Reference>, state: CurrentState) -> Self {
        Self { tid, tgid: tid, state, since: at, ..Self::default() }
    }
}
