//! The key by which segments are added up: the cause without its details.

use wakepath_event::{Context, FlowId};
use wakepath_wait_graph::{ThreadIndex, TimerPurpose};

use crate::{Cause, SignalCause};

/// A [`Cause`] without what differs from one wait to the next: the key by which contributors are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Responsible {
    /// The thread itself.
    Itself,
    /// The thread that had the CPU.
    Competitor(ThreadIndex),
    /// A CPU that was idle or on its way out of idleness.
    IdleCpu,
    /// A timer.
    Timer,
    /// A disk, by major << 20 | minor.
    Disk {
        /// The device; `None` if the request is not recorded.
        device: Option<u32>,
        /// Waiting in its queue (else: in the device).
        queued: bool,
    },
    /// The other end of a flow.
    Flow(Option<FlowId>),
    /// A packet that a timer sent.
    SentByTimer {
        /// The flow of that packet.
        flow: FlowId,
        /// Its purpose.
        purpose: TimerPurpose,
    },
    /// An interrupt.
    Interrupt {
        /// Its context.
        context: Context,
        /// Its number.
        irq: Option<u16>,
    },
    /// A lock.
    Lock {
        /// Its address.
        address: u64,
        /// It is the kernel's (else a futex).
        kernel: bool,
        /// Its owner when the wait began.
        owner: Option<ThreadIndex>,
    },
    /// A signal that cut the wait short.
    Signal(SignalCause),
    /// The wait had not ended at the end of the recording.
    StillWaiting,
    /// The wait began before the recording did.
    BeforeRecording,
    /// The recording of the thread's host had ended.
    AfterRecording,
    /// The wait has no wake-up.
    NoWakeupSeen,
    /// A recorder lost records.
    Lost,
    /// The kernel did not report a switch.
    Unrecorded,
    /// A step of the goroutine was not recorded.
    StepUnrecorded,
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
            Cause::NotAlive => Self::NotAlive,
        }
    }
}
