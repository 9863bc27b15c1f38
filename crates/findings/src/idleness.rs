//! The class of a blocked thread: idle, sleeping, waiting for an answer, or undecided between work and answer.

use std::collections::HashMap;
use std::sync::LazyLock;

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_critical_path::Hang;
use wakepath_event::{BlockedState, Call, Direction, FlowId};
use wakepath_loaded::{CallSet, CodeNames, Peer, Recorded, ThreadInfo, waits_for_job};
use wakepath_wait_graph::{
    ContendedLock, Dialogue, End, Evidence, StackAt, StackIndex, StateInterval, ThreadIndex, Waker,
};

/// A blocked thread's class. Only idle and sleeping threads are not slowed for sure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockedClass {
    /// The thread has no work: it waits for the next request.
    Idle,
    /// The thread asked for a sleep.
    Sleeping,
    /// The thread waits for an answer, a lock or a device.
    Waiting,
    /// The thread waits for work or for an answer; the recording does not show which.
    Undecided,
}

/// A class, and whether a rule found it instead of the kernel's own report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classified {
    /// The class.
    pub class: BlockedClass,
    /// A rule found it: a connection's packets or ports show which end waits for the other; a futex's memory names
    /// its owner; a stack shows a pool's thread waiting for its next job; a kernel thread without work sleeps
    /// lightly. Otherwise the class is measured, or undecided.
    pub inferred: bool,
}

/// Waits in which a pool's thread waits for its next job, by their stacks; each stack is put into names once.
pub struct Pools<'a> {
    names: Option<CodeNames<'a>>,
    known: HashMap<StackIndex, bool>,
}

impl<'a> Pools<'a> {
    /// No stack is looked up yet.
    pub fn new(names: CodeNames<'a>) -> Self {
        Self { names: Some(names), known: HashMap::new() }
    }

    /// Without stacks: no wait is for a job.
    pub fn unknown() -> Self {
        Self { names: None, known: HashMap::new() }
    }

    /// Whether the wait that began at `at` is for a pool's next job.
    fn show_idleness(&mut self, recorded: &Recorded, thread: ThreadIndex, at: Stamp<Reference>) -> bool {
        let Some(names) = self.names.as_mut() else { return false };
        let Some(StackAt::Recorded(index, _)) = recorded.graph().stack_at(thread, at) else { return false };
        *self
            .known
            .entry(index)
            .or_insert_with(|| names.stack_at(thread, at).is_some_and(|frames| waits_for_job(&frames)))
    }
}

/// The properties of a wait that decide its class.
#[derive(Debug, Clone, Copy)]
pub struct Blocked {
    thread: ThreadIndex,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
    call: Option<Call>,
    state: Option<BlockedState>,
    /// Whether the lock's owner is proved; `None` without an owner.
    owner_proved: Option<bool>,
    /// The flow of the packet that ended the wait, if known for sure.
    ended_by: Option<FlowId>,
}

impl Blocked {
    /// For a wait in the graph, with this state interval of its thread.
    pub fn from_wait(recorded: &Recorded, thread: ThreadIndex, interval: &StateInterval) -> Self {
        let wait = recorded.graph().wait(interval);
        let lock = wait.and_then(|wait| wait.lock);
        let cut = wait.and_then(|wait| wait.cut);
        // A signal from the owner proves no ownership.
        let proved = |lock: ContendedLock| lock.proved && (cut.is_none() || lock.kernel);
        let packet = wait.filter(|_| cut.is_none()).and_then(|wait| match wait.end {
            Waker::Woken(waking) => match recorded.graph().evidence(waking.evidence)? {
                Evidence::Packet(packet) => Some(packet.flow).filter(|_| packet.alone && !packet.doubtful),
                _ => None,
            },
            _ => None,
        });
        Self {
            thread,
            from: interval.from,
            to: interval.to,
            call: wait.and_then(|wait| wait.call),
            state: wait.and_then(|wait| wait.state),
            owner_proved: lock.filter(|lock| lock.owner.is_some()).map(proved),
            ended_by: packet,
        }
    }

    /// For an open wait, up to `to`.
    pub fn from_hang(hang: &Hang, to: Stamp<Reference>) -> Self {
        let owned = hang.lock.is_some_and(|lock| lock.owner.is_some());
        Self {
            thread: hang.thread,
            from: hang.since,
            to,
            call: hang.call,
            state: hang.state,
            owner_proved: owned.then_some(hang.proved),
            ended_by: None,
        }
    }

    /// The wait's class, with `thread` as its thread.
    pub fn class(&self, recorded: &Recorded, thread: &ThreadInfo, pools: &mut Pools<'_>) -> Classified {
        use BlockedClass::{Idle, Sleeping, Undecided, Waiting};
        let measured = |class| Classified { class, inferred: false };
        if let Some(proved) = self.owner_proved {
            return Classified { class: Waiting, inferred: !proved };
        }
        // Not every tracer notes the state of threads already blocked when tracing began.
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
                (false, _) if recorded.is_of_other_tracer(thread.tid.host()) => measured(Undecided),
                (false, _) => measured(Waiting),
            };
        };
        let names = recorded.names();
        let key = names.call_key(&call, thread.tgid, Stamp::<Local>::from_ns(self.to.ns()));
        let number = call.number;
        if ACCEPTS.contains(number) {
            measured(Idle)
        } else if call.is_sleep() {
            measured(Sleeping)
        } else if READS.contains(number) {
            inferred_or_undecided(names.socket(key).and_then(|socket| self.read_class(recorded, socket)))
        } else if Call::POLLS.contains(&number) {
            let ended_by = self.ended_by.filter(|&flow| {
                let outgoing = names.other_direction(flow);
                outgoing.is_some_and(|outgoing| names.polls(key, outgoing))
            });
            let of_end = ended_by.and_then(|flow| self.event_class(recorded, flow));
            let of_one = || match self.read_class(recorded, names.socket(key)?) {
                // It may wait until the other end takes more data.
                Some(Idle) => None,
                other => other,
            };
            inferred_or_undecided(of_end.or_else(of_one))
        } else if EVENT_LOOPS.contains(number) {
            inferred_or_undecided(self.ended_by.and_then(|flow| self.event_class(recorded, flow)))
        } else if number == Call::FUTEX {
            let is_idle = pools.show_idleness(recorded, self.thread, self.from);
            inferred_or_undecided(is_idle.then_some(Idle))
        } else if ANYTHING.contains(number) {
            measured(Undecided)
        } else {
            measured(Waiting)
        }
    }

    /// The class of a read from the socket that sends `flow`, if shown.
    fn read_class(&self, recorded: &Recorded, flow: FlowId) -> Option<BlockedClass> {
        let peer = recorded.names().receiver(flow);
        let Dialogue { opened, last_data } = recorded.graph().dialogue(flow, Direction::Out, self.from);
        match (opener(opened, peer)?, last_data) {
            // The rest of the answer may be missing.
            (End::Own, _) => Some(BlockedClass::Waiting),
            // It answered, or nothing was asked yet: the next request is to come.
            (End::Other, None | Some((End::Own, _))) => Some(BlockedClass::Idle),
            // The rest of the request may be missing, or another thread answers.
            (End::Other, Some((End::Other, _))) => None,
        }
    }

    /// The class of a wait for several descriptors, ended by a packet of `flow`, if shown.
    fn event_class(&self, recorded: &Recorded, flow: FlowId) -> Option<BlockedClass> {
        let dialogue = |at| recorded.graph().dialogue(flow, Direction::In, at);
        let (before, after) = (dialogue(self.from), dialogue(self.to));
        let peer = recorded.names().sender(flow);
        let came = matches!(after.last_data, Some((End::Other, _)));
        match (opener(after.opened, peer)?, before.last_data) {
            // A connection opened meanwhile.
            (End::Other, _) if after.opened.is_some_and(|(_, at)| at > self.from) => Some(BlockedClass::Idle),
            // A request. An acknowledgement may end a wait too: until the other end takes more data.
            (End::Other, None | Some((End::Own, _))) if came => Some(BlockedClass::Idle),
            // An answer: the own end spoke last.
            (End::Own, Some((End::Own, _))) => Some(BlockedClass::Waiting),
            // The answer to the own SYN.
            (End::Own, None) if before.opened.is_some() => Some(BlockedClass::Waiting),
            _ => None,
        }
    }
}

/// The end that opened a connection, by its handshake, else by its ports.
fn opener(opened: Option<(End, Stamp<Reference>)>, peer: Option<Peer>) -> Option<End> {
    let by_ports = || match peer? {
        peer if peer.called_us() => Some(End::Other),
        peer if peer.called_by_us() => Some(End::Own),
        _ => None,
    };
    opened.map(|(end, _)| end).or_else(by_ports)
}

fn inferred_or_undecided(class: Option<BlockedClass>) -> Classified {
    Classified { class: class.unwrap_or(BlockedClass::Undecided), inferred: class.is_some() }
}

/// Calls that wait for the next connection.
static ACCEPTS: LazyLock<CallSet> = LazyLock::new(|| CallSet::named("accept accept4"));

/// Calls that read a descriptor's next line, message or event.
static READS: LazyLock<CallSet> =
    LazyLock::new(|| CallSet::named("read readv pread64 recvfrom recvmsg recvmmsg splice"));

/// Calls that wait for any descriptor in an event loop.
static EVENT_LOOPS: LazyLock<CallSet> =
    LazyLock::new(|| CallSet::named("epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old"));

/// Calls that serve waits for work and for answers alike: a condition variable or semaphore has no owner, and a
/// futex holds both a pool's idle worker and the thread waiting for that worker's result.
static ANYTHING: LazyLock<CallSet> = LazyLock::new(|| {
    CallSet::named(
        "futex_requeue futex_wait futex_waitv futex_wake io_getevents io_pgetevents io_uring_enter msgrcv \
         mq_timedreceive pause rt_sigsuspend rt_sigtimedwait semop semtimedop wait4 waitid",
    )
});
