//! The class of a blocked thread: idle, sleeping, waiting for an answer, or undecided between work and answer.

use std::sync::LazyLock;

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_critical_path::Hang;
use wakepath_event::{BlockedState, Call, FlowId};
use wakepath_names::{CallSet, Recorded, ThreadInfo};
use wakepath_wait_graph::{Evidence, Wait, Waker};

/// The class of the time in which a thread is blocked. Only idle and sleeping threads are not slowed for sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockedClass {
    /// It has no work: it waits for the next request.
    Idle,
    /// It asked for a sleep.
    Sleeping,
    /// It waits for an answer, a lock or a device.
    Waiting,
    /// It waits for work or for an answer; the recording does not show which.
    Undecided,
}

/// A class, and whether a rule found it rather than the kernel's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classified {
    /// The class.
    pub class: BlockedClass,
    /// Ports say which end opened a connection; the memory of a futex names its owner. Otherwise it is measured,
    /// or undecided.
    pub inferred: bool,
}

/// The part of a wait that decides its class.
#[derive(Debug, Clone, Copy)]
pub struct Blocked {
    call: Option<Call>,
    state: Option<BlockedState>,
    /// The lock has an owner, who is proved or not.
    owner_proved: Option<bool>,
    /// The flow of the packet that ended it, where that is known for sure.
    ended_by: Option<FlowId>,
}

impl Blocked {
    /// That of a wait in the graph.
    pub fn of_wait(recorded: &Recorded, wait: Option<Wait>) -> Self {
        let lock = wait.and_then(|wait| wait.lock);
        let packet = wait.and_then(|wait| match wait.end {
            Waker::Woken(waking) => match recorded.graph.evidence(waking.evidence)? {
                Evidence::Packet(packet) => Some(packet.flow).filter(|_| packet.alone && !packet.doubtful),
                _ => None,
            },
            _ => None,
        });
        Self {
            call: wait.and_then(|wait| wait.call),
            state: wait.and_then(|wait| wait.state),
            owner_proved: lock.filter(|lock| lock.owner.is_some()).map(|lock| lock.proved),
            ended_by: packet,
        }
    }

    /// That of an open wait.
    pub fn of_hang(hang: &Hang) -> Self {
        let owned = hang.lock.is_some_and(|lock| lock.owner.is_some());
        Self {
            call: hang.call,
            state: hang.state,
            owner_proved: owned.then_some(hang.proved),
            ended_by: None,
        }
    }

    /// Its class at `at`, as a wait of `thread`.
    pub fn class(&self, recorded: &Recorded, thread: &ThreadInfo, at: Stamp<Reference>) -> Classified {
        use BlockedClass::{Idle, Sleeping, Undecided, Waiting};
        let measured = |class| Classified { class, inferred: false };
        if let Some(proved) = self.owner_proved {
            return Classified { class: Waiting, inferred: !proved };
        }
        // How those wait that did so when tracing began is not noted by every tracer.
        let lightly = matches!(
            self.state,
            None | Some(
                BlockedState::Interruptible
                    | BlockedState::Idle
                    | BlockedState::Parked
                    | BlockedState::Other(0)
            )
        );
        if !lightly {
            return measured(Waiting);
        }
        let Some(call) = self.call else {
            // A kernel thread without work sleeps lightly. A user thread outside a system call is in a page fault,
            // but other tracers note no calls.
            return match (thread.kernel, self.state) {
                (true, Some(BlockedState::Idle | BlockedState::Parked)) => measured(Idle),
                (true, _) => Classified { class: Idle, inferred: true },
                (false, _) if recorded.tracer.is_some() => measured(Undecided),
                (false, _) => measured(Waiting),
            };
        };
        let names = &recorded.survey.names;
        let peer = || names.peer(names.call_key(&call, thread.tgid, Stamp::<Local>::from_ns(at.ns())));
        let number = call.number;
        if ACCEPTS.contains(number) {
            measured(Idle)
        } else if SLEEPS.contains(number) {
            measured(Sleeping)
        } else if READS.contains(number) {
            match peer() {
                Some(peer) if peer.called_us() => Classified { class: Idle, inferred: true },
                Some(peer) if peer.called_by_us() => Classified { class: Waiting, inferred: true },
                _ => measured(Undecided),
            }
        } else if EVENT_LOOPS.contains(number) {
            match self.ended_by.and_then(|flow| names.sender(flow)) {
                Some(peer) if peer.called_us() => Classified { class: Idle, inferred: true },
                _ => measured(Undecided),
            }
        } else if ANYTHING.contains(number) {
            measured(Undecided)
        } else {
            measured(Waiting)
        }
    }
}

/// Calls that wait for the next connection.
static ACCEPTS: LazyLock<CallSet> = LazyLock::new(|| CallSet::named("accept accept4"));

/// Calls that wait for nothing but a time.
static SLEEPS: LazyLock<CallSet> = LazyLock::new(|| CallSet::named("clock_nanosleep nanosleep"));

/// Calls that read the next line, message or event of one descriptor.
static READS: LazyLock<CallSet> =
    LazyLock::new(|| CallSet::named("read readv pread64 recvfrom recvmsg recvmmsg splice"));

/// Calls that wait for any of the descriptors of an event loop.
static EVENT_LOOPS: LazyLock<CallSet> =
    LazyLock::new(|| CallSet::named("epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old"));

/// Calls that serve waits for work and for answers alike: a condition variable or semaphore has no owner, and both a
/// pool's idle worker and the thread that waits for that worker's result wait in a futex.
static ANYTHING: LazyLock<CallSet> = LazyLock::new(|| {
    CallSet::named(
        "futex futex_requeue futex_wait futex_waitv futex_wake io_getevents io_pgetevents io_uring_enter msgrcv \
         mq_timedreceive pause poll ppoll pselect6 rt_sigsuspend rt_sigtimedwait select semop semtimedop wait4 waitid",
    )
});
