//! A thread's state while the timeline reads events.

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_event::{CgroupId, Cpu, Tid};

use crate::{ContendedLock, ThreadIndex, Wait, WakeUp};

/// A thread and its present state.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    pub(crate) tid: Tid,
    pub(crate) tgid: Tid,
    /// The start time in the thread's identity.
    pub(crate) start: Option<Stamp<Local>>,
    pub(crate) state: CurrentState,
    /// The present wait, while blocked. Its `end` is set when the wait ends.
    pub(crate) wait: Wait,
    /// The beginning of `state`. All earlier state intervals have gone out.
    pub(crate) since: Stamp<Reference>,
    /// A wake-up that came while the thread was running.
    pub(crate) pending: Option<WakeUp>,
    /// The last descriptor that ended a wait (`None`: none in the polled set), and the wake-up's time.
    pub(crate) ready: Option<(Stamp<Reference>, Option<u32>)>,
    /// The wait in which the snapshot found the thread, believed to be running, and the snapshot's time.
    pub(crate) found: Option<Box<(Stamp<Reference>, Wait)>>,
    /// The kernel lock for which the thread waits, spinning or asleep.
    pub(crate) lock: Option<ContendedLock>,
    /// Since its last wait, the thread has sent a packet or woken a thread of a program.
    pub(crate) acted: bool,
    /// The CPU that the thread left last.
    pub(crate) last_cpu: Option<Cpu>,
    /// The thread belongs to the kernel.
    pub(crate) kernel: bool,
    /// The thread began to exit.
    pub(crate) exiting: bool,
    pub(crate) next_in_process: Option<ThreadIndex>,
    /// The thread's cgroup in the hierarchy with the CPU controller.
    pub(crate) cpu_cgroup: CgroupId,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum CurrentState {
    /// Running or runnable when the snapshot found it.
    #[default]
    Ready,
    Running(Cpu),
    /// In this CPU's queue; `None` if not known.
    Runnable(Option<Cpu>),
    Throttled(Cpu),
    Blocked,
    /// The switch-out is missing and was between `since` and `lost_until`; `None` if no record showed it yet.
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
