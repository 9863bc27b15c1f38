//! The key by which segments are added up: the cause without its details.

use wakepath_event::{CgroupId, Context, FlowId};
use wakepath_wait_graph::{ThreadIndex, TimerPurpose};

use crate::{Cause, SignalCause};

/// A [`Cause`] without the details that differ between waits: the key by which contributors are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Responsible {
    /// The thread itself.
    Itself,
    /// The thread that had the CPU.
    Competitor(ThreadIndex),
    /// An idle CPU, or a CPU leaving idleness.
    IdleCpu,
    /// A timer.
    Timer,
    /// A disk, by major << 20 | minor.
    Disk {
        /// The device; `None` if the request is not recorded.
        device: Option<u32>,
        /// Waiting in the device's queue (else: in the device).
        queued: bool,
    },
    /// An I/O limit that held a disk request back.
    IoLimit {
        /// The request's cgroup, in the hierarchy with the I/O controller.
        cgroup: CgroupId,
        /// The device: major << 20 | minor.
        device: u32,
        /// The request reads (else: writes).
        reads: bool,
    },
    /// A flow's other end.
    Flow(Option<FlowId>),
    /// A packet that a timer sent.
    SentByTimer {
        /// The packet's flow.
        flow: FlowId,
        /// The packet's purpose.
        purpose: TimerPurpose,
    },
    /// An interrupt.
    Interrupt {
        /// The interrupt's context.
        context: Context,
        /// The interrupt number.
        irq: Option<u16>,
    },
    /// A lock.
    Lock {
        /// The lock's address.
        address: u64,
        /// The lock is the kernel's (else a futex).
        kernel: bool,
        /// The owner at the wait's beginning.
        owner: Option<ThreadIndex>,
    },
    /// A signal that cut the wait short.
    Signal(SignalCause),
    /// The wait had not ended at the recording's end.
    StillWaiting,
    /// The wait began before the recording did.
    BeforeRecording,
    /// The recording on the thread's host had ended.
    AfterRecording,
    /// The wait has no wake-up.
    NoWakeupSeen,
    /// A recorder lost records.
    Lost,
    /// The kernel did not report a switch.
    Unrecorded,
    /// A step of the goroutine was not recorded.
    StepUnrecorded,
    /// An event loop's wait for several things at once.
    LoopEvent,
    /// The thread was not alive.
    NotAlive,
}

impl From<&Cause> for Responsible {
    fn from(cause: &Cause) -> Self {
        match *cause {
            Cause::None => Self::Itself,
            Cause::Competitor(thread) => Self::Competitor(thread),
            Cause::IdleCpu => Self::IdleCpu,
            Cause::Timer { .. } => Self::Timer,
            Cause::Block { ref request, queued } => {
                Self::Disk { device: request.as_ref().map(|request| request.device), queued }
            }
            Cause::HeldBack { ref request, cgroup } => {
                Self::IoLimit { cgroup, device: request.device, reads: request.is_read() }
            }
            Cause::Network { flow } => Self::Flow(flow),
            Cause::SentByTimer { flow, purpose } => Self::SentByTimer { flow, purpose },
            Cause::Interrupt { context, irq } => Self::Interrupt { context, irq },
            Cause::Lock(lock) => Self::Lock { address: lock.address, kernel: lock.kernel, owner: lock.owner },
            Cause::Signal(signal) => Self::Signal(signal),
            Cause::StillWaiting => Self::StillWaiting,
            Cause::BeforeRecording => Self::BeforeRecording,
            Cause::AfterRecording => Self::AfterRecording,
            Cause::NoWakeupSeen => Self::NoWakeupSeen,
            Cause::Lost => Self::Lost,
            Cause::Unrecorded => Self::Unrecorded,
            Cause::StepUnrecorded => Self::StepUnrecorded,
            Cause::LoopEvent => Self::LoopEvent,
            Cause::NotAlive => Self::NotAlive,
        }
    }
}
