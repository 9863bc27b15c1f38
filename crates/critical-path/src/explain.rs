//! What a wait is replaced by.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Context, FlowId, Softirq};
use wakepath_wait_graph::{
    Completion, ContendedLock, Evidence, Graph, Occupant, Received, Sender, StateInterval, ThreadIndex, Wait,
    Waker,
};

use crate::tiles::Trust;
use crate::{Basis, Cause, LockCause, Rule, SegmentKind, Via};

/// A part of a wait, explained. The parts of a wait follow each other without gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// By what another thread did meanwhile, up to `to`.
    Thread {
        thread: ThreadIndex,
        to: Stamp<Reference>,
        /// When it did what ended the part; after `to` where only the beginning of a wait is asked about.
        acted: Stamp<Reference>,
        via: Via,
        lock: Option<LockCause>,
        /// That it was this thread.
        trust: Trust,
    },
    /// By something that is no thread, while the waiter waited.
    Thing { to: Stamp<Reference>, kind: SegmentKind, cause: Cause, basis: Basis },
    /// A packet was on its way, since `sent`, which may be before the wait.
    InFlight { sent: Stamp<Reference>, to: Stamp<Reference>, cause: Cause, basis: Basis },
}

/// What happened in a wait from `from` to `to`, both within its interval.
pub(crate) fn explain(
    graph: &Graph,
    waiter: ThreadIndex,
    interval: &StateInterval,
    wait: &Wait,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Vec<Part> {
    let thing = |kind, cause, basis| vec![Part::Thing { to, kind, cause, basis }];
    let (woken, current, context, irq, evidence) = match wait.end {
        Waker::Woken { at, current, context, irq, evidence } => (at, current, context, irq, evidence),
        Waker::Unseen if graph.losses().touch(interval.from, interval.to) => {
            let cause = Cause::missing(graph, interval.from, interval.to);
            return thing(SegmentKind::Unknown, cause, Basis::Ambiguous);
        }
        Waker::Unseen if wait.began_before => {
            return thing(SegmentKind::Unknown, Cause::BeforeRecording, Basis::Measured);
        }
        Waker::Unseen => return thing(SegmentKind::Unknown, Cause::NoWakeupSeen, Basis::Measured),
        Waker::Open => return still(wait.lock, thing),
    };
    if !context.is_interrupt() {
        return match current {
            Occupant::Thread(thread) if thread != waiter => {
                let lock = wait.lock.filter(|lock| lock.proved);
                let via = match (wait.newborn, lock) {
                    (true, _) => Via::Fork,
                    (false, Some(_)) => Via::Lock,
                    (false, None) => Via::Wakeup,
                };
                let (lock, trust) = (lock.map(lock_cause), Trust::Sure);
                vec![Part::Thread { thread, to, acted: woken, via, lock, trust }]
            }
            // The idle thread wakes nobody on its own account.
            Occupant::Idle => {
                let cause = Cause::Interrupt { context: Context::UnknownInterrupt, irq: None };
                thing(SegmentKind::OtherDevice, cause, Basis::Measured)
            }
            _ => thing(SegmentKind::Unknown, Cause::NoWakeupSeen, Basis::Ambiguous),
        };
    }
    match graph.evidence(evidence) {
        Some(Evidence::Block(completion)) => disk(waiter, completion, from, to),
        Some(Evidence::Packet(received)) => network(graph, waiter, received, current, from, to),
        doubtful => {
            let basis = if doubtful.is_some() { Basis::Ambiguous } else { Basis::Measured };
            let (kind, cause) = interrupt(context, irq);
            thing(kind, cause, basis)
        }
    }
}

/// A wait that the recording's end cut off.
fn still(lock: Option<ContendedLock>, thing: impl Fn(SegmentKind, Cause, Basis) -> Vec<Part>) -> Vec<Part> {
    match lock {
        Some(link) => {
            let basis = if link.proved { Basis::Measured } else { Basis::Ambiguous };
            thing(SegmentKind::Lock, Cause::Lock(lock_cause(link)), basis)
        }
        None => thing(SegmentKind::Unknown, Cause::StillWaiting, Basis::Measured),
    }
}

fn lock_cause(link: ContendedLock) -> LockCause {
    LockCause { address: link.address, kernel: link.kernel, owner: link.owner }
}

/// An interrupt that left no evidence but its context.
fn interrupt(context: Context, irq: u16) -> (SegmentKind, Cause) {
    match context {
        Context::LocalTimer | Context::Softirq(Softirq::Timer | Softirq::Hrtimer) => {
            (SegmentKind::Timer, Cause::Timer { context })
        }
        Context::Softirq(Softirq::Block) => {
            (SegmentKind::BlockDevice, Cause::Block { request: None, queued: false })
        }
        Context::Softirq(Softirq::NetRx) => (SegmentKind::Network, Cause::Network { flow: None }),
        Context::Device => (SegmentKind::OtherDevice, Cause::Interrupt { context, irq: Some(irq) }),
        _ => (SegmentKind::OtherDevice, Cause::Interrupt { context, irq: None }),
    }
}

/// A disk request: who made it, then the queue, then the device.
fn disk(
    waiter: ThreadIndex,
    completion: &Completion,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Vec<Part> {
    let acted = completion.start.unwrap_or(from);
    let start = acted.clamp(from, to);
    let issued = completion.issued.unwrap_or(start).clamp(start, to);
    let trust = if completion.alone { Trust::Sure } else { Trust::By(Rule::LastCompletion) };
    let basis = trust.basis(Basis::Measured);
    let part = |to, queued, basis| {
        let cause = Cause::Block { request: Some(Box::new(completion.request)), queued };
        Part::Thing { to, kind: SegmentKind::BlockDevice, cause, basis }
    };
    let mut parts = Vec::with_capacity(3);
    if start > from {
        parts.push(match completion.submitter {
            Some(thread) if thread != waiter => {
                Part::Thread { thread, to: start, acted, via: Via::Device, lock: None, trust }
            }
            // What it waited for before its request was even made is not known.
            _ => part(start, true, Basis::Ambiguous),
        });
    }
    parts.push(part(issued, true, basis));
    parts.push(part(to, false, basis));
    parts
}

/// A packet: its sender until it was sent, then the way.
fn network(
    graph: &Graph,
    waiter: ThreadIndex,
    received: &Received,
    interrupted: Occupant,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Vec<Part> {
    let cause = Cause::Network { flow: Some(received.flow) };
    let trust = if received.alone { Trust::Sure } else { Trust::By(Rule::LastPacket) };
    let basis = trust.basis(Basis::Measured);
    let unmatched = |basis| vec![Part::Thing { to, kind: SegmentKind::Network, cause: cause.clone(), basis }];
    let Some(sent) = received.sent else {
        let foreign = !received.doubtful && leaves_host(graph, received.flow);
        return unmatched(if foreign { basis } else { Basis::Ambiguous });
    };
    let at = sent.at.clamp(from, to);
    let in_flight = Part::InFlight { sent: sent.at, to, cause: cause.clone(), basis };
    match sent.by {
        // One who waits sends nothing: what it sends itself was sent before.
        Sender::Thread(thread) if thread == waiter && at > from => unmatched(Basis::Ambiguous),
        Sender::Thread(thread) => {
            let acted = sent.at;
            let sender = |to| Part::Thread { thread, to, acted, via: Via::Packet, lock: None, trust };
            // On loopback the packet is received within the sender's own time.
            if interrupted == Occupant::Thread(thread) {
                vec![sender(to)]
            } else {
                vec![sender(at), in_flight]
            }
        }
        Sender::Timer(context) => {
            let timer = Cause::Timer { context };
            vec![Part::Thing { to: at, kind: SegmentKind::Timer, cause: timer, basis }, in_flight]
        }
        // What came before it was sent is as unknown as who sent it. From then on it was on its way.
        Sender::Interrupt(_) | Sender::Unseen => {
            let basis = Basis::Ambiguous;
            let before = Part::Thing { to: at, kind: SegmentKind::Network, cause: cause.clone(), basis };
            vec![before, Part::InFlight { sent: at, to, cause, basis: trust.basis(Basis::Measured) }]
        }
    }
}

/// Whether a flow's other end is on another host, so that its packets can have no sender here.
fn leaves_host(graph: &Graph, flow: FlowId) -> bool {
    graph.flow(flow).is_some_and(|flow| !flow.is_within_host())
}
