//! The explanation of a wait by its end: the parts that replace the wait on a path.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{BlockedState, Context, FlowId, SignalEffect, Softirq, WaitEnd};
use wakepath_wait_graph::{
    Completion, ContendedLock, Cut, Evidence, Graph, Late, Occupant, PacketTimer, Received, Release, Sender,
    StateInterval, ThreadIndex, TimerPurpose, Wait, WakeUp, Waker,
};

use crate::early_end::{has_timeout, is_for_signals};
use crate::lock_turns::lock_turns;
use crate::tiles::Trust;
use crate::{Basis, Cause, LockCause, Rule, SegmentKind, SignalCause, Via};

/// A part of a wait with its explanation. A wait's parts follow each other without gaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitPart {
    /// Another thread's activity, up to `to`.
    Thread {
        thread: ThreadIndex,
        to: Stamp<Reference>,
        /// The time of the action that ended the wait; after `to` if only the beginning of a wait is
        /// explained.
        acted: Stamp<Reference>,
        via: Via,
        lock: Option<LockCause>,
        /// The certainty that this thread ended the wait.
        trust: Trust,
    },
    /// A cause other than a thread, such as a timer or a disk.
    Other { to: Stamp<Reference>, kind: SegmentKind, cause: Cause, basis: Basis },
    /// A packet on its way since `sent`, which may be before the wait.
    InFlight { sent: Stamp<Reference>, to: Stamp<Reference>, cause: Cause, basis: Basis },
}

impl WaitPart {
    /// The same part, not certain to have ended the wait.
    fn doubtful(self) -> Self {
        let basis = Basis::Ambiguous;
        match self {
            Self::Thread { thread, to, acted, via, lock, .. } => {
                Self::Thread { thread, to, acted, via, lock, trust: Trust::Doubtful }
            }
            Self::Other { to, kind, cause, .. } => Self::Other { to, kind, cause, basis },
            Self::InFlight { sent, to, cause, .. } => Self::InFlight { sent, to, cause, basis },
        }
    }

    /// The end.
    pub(crate) const fn to(&self) -> Stamp<Reference> {
        match *self {
            Self::Thread { to, .. } | Self::Other { to, .. } | Self::InFlight { to, .. } => to,
        }
    }

    /// Whether the part is a wait for a timer, a device or a packet.
    fn ends_by_interrupt(&self) -> bool {
        use SegmentKind::{BlockDevice, Network, OtherDevice, Timer};
        match self {
            Self::Other { kind, .. } => matches!(kind, Timer | BlockDevice | Network | OtherDevice),
            Self::InFlight { .. } => true,
            Self::Thread { .. } => false,
        }
    }

    /// The same part without the packet's flight before `begin`, which another part has.
    fn sent_not_before(mut self, begin: Stamp<Reference>) -> Self {
        if let Self::InFlight { sent, .. } = &mut self {
            *sent = (*sent).max(begin);
        }
        self
    }

    /// The part's beginning, up to `until`; its basis is `by`, if given.
    pub(crate) fn until(mut self, until: Stamp<Reference>, by: Option<Basis>) -> Self {
        match &mut self {
            Self::Thread { to, .. } => *to = until,
            Self::Other { to, basis, .. } | Self::InFlight { to, basis, .. } => {
                *to = until;
                *basis = by.unwrap_or(*basis);
            }
        }
        self
    }
}

/// The parts of a wait from `from` to `to`, both within its state interval.
pub(crate) fn explain(
    graph: &Graph,
    waiter: ThreadIndex,
    interval: &StateInterval,
    wait: &Wait,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Vec<WaitPart> {
    let parts = explain_end(graph, waiter, interval, wait, from, to);
    match wait.end {
        Waker::Woken(WakeUp { late: Some(late), .. }) => with_late(parts, &late, from),
        _ => parts,
    }
}

/// The parts of a wait for a timer or device whose interrupt came late, since the hypervisor did not let its CPU run. On an idle CPU, the interrupt
/// was due when the stolen time began. A busy CPU may have been stopped long before.
fn with_late(parts: Vec<WaitPart>, late: &Late, from: Stamp<Reference>) -> Vec<WaitPart> {
    let mut split = Vec::with_capacity(parts.len() + 2);
    let mut begin = from;
    for part in parts {
        let end = part.to().max(begin);
        let [stolen_from, stolen_to] = [late.from, late.to].map(|at| at.clamp(begin, end));
        if !part.ends_by_interrupt() || stolen_from == stolen_to {
            split.push(part);
        } else {
            // Each part may be empty. The first has the packet's flight since it was sent.
            split.push(part.clone().until(stolen_from, None));
            let part = part.sent_not_before(stolen_from);
            split.push(match late.idle {
                true => {
                    let (kind, cause) = (SegmentKind::Stolen, Cause::None);
                    WaitPart::Other {
                        to: stolen_to,
                        kind,
                        cause,
                        basis: Basis::Inferred(Rule::LateInterrupt),
                    }
                }
                false => part.clone().until(stolen_to, Some(Basis::Inferred(Rule::PerhapsLate))),
            });
            split.push(part.sent_not_before(stolen_to));
        }
        begin = end;
    }
    split
}

/// The parts of a wait whose interrupt, if any, came in time.
fn explain_end(
    graph: &Graph,
    waiter: ThreadIndex,
    interval: &StateInterval,
    wait: &Wait,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Vec<WaitPart> {
    let one_part = |kind, cause, basis| vec![WaitPart::Other { to, kind, cause, basis }];
    let open_lock = |link: ContendedLock| {
        one_part(SegmentKind::Lock, Cause::Lock(link.into()), Basis::measured_unless(!link.proved))
    };
    let stopped = wait.state == Some(BlockedState::Stopped);
    let WakeUp { at: woken, current, context, irq, evidence, .. } = match wait.end {
        Waker::Woken(woken) if stopped => {
            let cause = Cause::Signal(SignalCause::for_continuation(wait.cut, &woken));
            return one_part(SegmentKind::Stopped, cause, Basis::Measured);
        }
        Waker::Open if stopped => {
            return one_part(SegmentKind::Stopped, Cause::StillWaiting, Basis::Measured);
        }
        Waker::Woken(woken) => match wait.cut.filter(|cut| cut.signal != 0 && !is_for_signals(wait)) {
            // A thread that ends its process without a signal decides how long the others take. The lock was
            // not released: the signal ended the wait, and the waiter with it.
            Some(Cut { effect: SignalEffect::Kills, .. }) if wait.lock.is_some() => {
                // A signal from the owner proves no ownership.
                return wait
                    .lock
                    .map_or_else(Vec::new, |link| open_lock(ContendedLock { proved: link.kernel, ..link }));
            }
            Some(cut) => {
                let cause = Cause::Signal(SignalCause::new(cut, &woken));
                return one_part(SegmentKind::Unknown, cause, Basis::Measured);
            }
            None => woken,
        },
        Waker::Unseen if graph.losses().touch(interval.from, interval.to) => {
            let cause = Cause::missing(graph, interval.from, interval.to);
            return one_part(SegmentKind::Unknown, cause, Basis::Ambiguous);
        }
        Waker::Unseen if wait.began_before => {
            return one_part(SegmentKind::Unknown, Cause::BeforeRecording, Basis::Measured);
        }
        Waker::Unseen => return one_part(SegmentKind::Unknown, Cause::NoWakeupSeen, Basis::Measured),
        Waker::Open => {
            return match wait.lock {
                Some(link) => open_lock(link),
                None => one_part(SegmentKind::Unknown, Cause::StillWaiting, Basis::Measured),
            };
        }
    };
    let sleeps = wait.call.is_some_and(|call| call.is_sleep());
    if sleeps && matches!(context, Context::Unrecorded | Context::TaskOrUnrecorded) {
        let cause = Cause::Timer { context };
        return one_part(SegmentKind::Timer, cause, Basis::Inferred(Rule::SleepingCall));
    }
    // The idle thread does not wake others by itself: an interrupt did.
    let idle = current == Occupant::Idle && !context.is_interrupt();
    if idle || (context == Context::Unrecorded && graph.evidence(evidence).is_none()) {
        let cause = Cause::Interrupt { context: Context::Unrecorded, irq: None };
        return one_part(SegmentKind::Unknown, cause, Basis::Ambiguous);
    }
    if !context.is_interrupt() {
        return match current {
            Occupant::Thread(thread) if thread != waiter => {
                let lock = wait.lock.filter(|lock| lock.proved);
                let via = match (wait.newborn, lock) {
                    (true, _) => Via::Fork,
                    (false, Some(_)) => Via::Lock,
                    (false, None) => Via::Wakeup,
                };
                let trust = match context {
                    Context::Task => Trust::Sure,
                    _ if wait.call.is_some_and(|call| !has_timeout(call.number)) => {
                        Trust::By(Rule::CallWithoutTimeout)
                    }
                    _ => Trust::Doubtful,
                };
                let turns = wait.lock.filter(|lock| !lock.kernel && trust == Trust::Sure);
                let release = |lock: ContendedLock| Release {
                    address: lock.address,
                    at: woken,
                    by: thread,
                    woken: waiter,
                };
                let turns =
                    turns.and_then(|lock| lock_turns(graph, interval.from, &lock, &release(lock), from, to));
                turns.unwrap_or_else(|| {
                    let lock = lock.map(LockCause::from);
                    vec![WaitPart::Thread { thread, to, acted: woken, via, lock, trust }]
                })
            }
            _ => one_part(SegmentKind::Unknown, Cause::NoWakeupSeen, Basis::Ambiguous),
        };
    }
    let found = graph.evidence(evidence);
    let parts = match found {
        Some(Evidence::Block(completion)) => disk(waiter, completion, from, to),
        Some(Evidence::Packet(received)) => network(graph, waiter, received, current, from, to),
        doubtful => {
            let (kind, cause) = interrupt(context, irq);
            let ready = wait.call.is_some_and(|call| matches!(call.ended_by(), WaitEnd::Ready(_)));
            one_part(
                kind,
                cause,
                match context {
                    _ if ready && doubtful.is_none() => Basis::Inferred(Rule::ReadyDescriptor),
                    Context::UnrecordedTimer if doubtful.is_none() => Basis::Inferred(Rule::UnrecordedTimer),
                    _ => Basis::measured_unless(doubtful.is_some()),
                },
            )
        }
    };
    // Packets and completions are in other buffers than the wake-up: a loss there may only show after the wake-up.
    if graph.losses().touch_reported(woken, woken) || may_hide_evidence(graph, woken, context, found) {
        parts.into_iter().map(WaitPart::doubtful).collect()
    } else {
        parts
    }
}

/// Whether lost records may have split a wait in two: two records, a switch-in and a switch-out; or a single record, if a wake-up before the wait's
/// own switch-out had ended it.
pub(crate) fn is_run_hidden(graph: &Graph, interval: &StateInterval, wait: &Wait) -> bool {
    let losses = graph.losses();
    losses.may_hide_a_run(interval.from, interval.to)
        || (wait.woken_before && losses.touch(interval.from, interval.to))
}

/// Whether the evidence for a wake-up, or other evidence than was found, may be a lost record. A socket named by the wake-up is the right one,
/// whatever else was lost.
fn may_hide_evidence(
    graph: &Graph,
    woken: Stamp<Reference>,
    context: Context,
    found: Option<&Evidence>,
) -> bool {
    let losses = graph.losses();
    match found {
        Some(Evidence::Packet(received)) => !received.named && losses.touch_sockets(woken),
        Some(Evidence::Block(_)) => losses.touch_disk_requests(woken),
        _ => match context {
            Context::Softirq(Softirq::NetRx) => losses.touch_sockets(woken),
            Context::Softirq(Softirq::Block) | Context::Device => losses.touch_disk_requests(woken),
            _ => false,
        },
    }
}

/// The kind and cause of a wake-up by an interrupt without evidence other than its context.
fn interrupt(context: Context, irq: u16) -> (SegmentKind, Cause) {
    match context {
        Context::LocalTimer
        | Context::UnrecordedTimer
        | Context::Softirq(Softirq::Timer | Softirq::Hrtimer) => {
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

/// The parts of a wait for a disk: an I/O limit or the submitter, then the queue, then the device.
fn disk(
    waiter: ThreadIndex,
    completion: &Completion,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Vec<WaitPart> {
    let acted = completion.start.unwrap_or(from);
    // The queue begins at the release. The kernel's statistics may have an older stamp, since several requests that are made
    // at once share one.
    let start = completion.held.map_or(acted, |held| held.until).clamp(from, to);
    let issued = completion.issued.unwrap_or(start).clamp(start, to);
    let trust = if completion.alone { Trust::Sure } else { Trust::By(Rule::LastCompletion) };
    let basis = trust.basis(Basis::Measured);
    let part = |to, queued, basis| {
        let cause = Cause::Block { request: Some(Box::new(completion.request)), queued };
        WaitPart::Other { to, kind: SegmentKind::BlockDevice, cause, basis }
    };
    let mut parts = Vec::with_capacity(3);
    if start > from {
        parts.push(match (completion.held, completion.submitter) {
            (Some(held), _) => WaitPart::Other {
                to: start,
                kind: SegmentKind::BlockDevice,
                cause: Cause::HeldBack { request: Box::new(completion.request), cgroup: held.cgroup },
                basis: trust.basis(Basis::Inferred(Rule::HeldRequest)),
            },
            (None, Some(thread)) if thread != waiter => {
                WaitPart::Thread { thread, to: start, acted, via: Via::Device, lock: None, trust }
            }
            // The cause of a wait before the waiter's own request is not known.
            _ => part(start, true, Basis::Ambiguous),
        });
    }
    parts.push(part(issued, true, basis));
    parts.push(part(to, false, basis));
    parts
}

/// The parts of a wait for a packet: the sender, then the packet in flight.
fn network(
    graph: &Graph,
    waiter: ThreadIndex,
    received: &Received,
    interrupted: Occupant,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Vec<WaitPart> {
    let cause = Cause::Network { flow: Some(received.flow) };
    let trust = if received.alone { Trust::Sure } else { Trust::By(Rule::LastPacket) };
    let basis = trust.basis(Basis::Measured);
    let unmatched =
        |basis| vec![WaitPart::Other { to, kind: SegmentKind::Network, cause: cause.clone(), basis }];
    let Some(sent) = received.sent else {
        let foreign = !received.doubtful && leaves_host(graph, received.flow);
        return unmatched(if foreign { basis } else { Basis::Ambiguous });
    };
    let at = sent.at.clamp(from, to);
    let in_flight = WaitPart::InFlight { sent: sent.at, to, cause: cause.clone(), basis };
    match sent.by {
        // A waiting thread sends nothing, so it cannot have sent the packet during its wait.
        Sender::Thread(thread) if thread == waiter && at > from => unmatched(Basis::Ambiguous),
        Sender::Thread(thread) => {
            let acted = sent.at;
            let sender = |to| WaitPart::Thread { thread, to, acted, via: Via::Packet, lock: None, trust };
            // On loopback the packet is received within the sender's own time.
            if interrupted == Occupant::Thread(thread) {
                vec![sender(to)]
            } else {
                vec![sender(at), in_flight]
            }
        }
        Sender::Timer(timer) => {
            sent_by_timer(waiter, &timer, from, at, trust).into_iter().chain([in_flight]).collect()
        }
        // The sender and the time before the sending are not known. After the sending, the packet was in flight.
        Sender::Interrupt(_) | Sender::Unseen => {
            let basis = Basis::Ambiguous;
            let before = WaitPart::Other { to: at, kind: SegmentKind::Network, cause: cause.clone(), basis };
            vec![before, WaitPart::InFlight { sent: at, to, cause, basis: trust.basis(Basis::Measured) }]
        }
    }
}

/// The parts of a wait up to `at`, when a timer sent the packet that ended it: first the thread that sent the same packet before (for an
/// acknowledgement: the acknowledged bytes), if it is another thread, then the timer. An acknowledgement is not delayed before the acknowledged
/// bytes were sent.
fn sent_by_timer(
    waiter: ThreadIndex,
    timer: &PacketTimer,
    from: Stamp<Reference>,
    at: Stamp<Reference>,
    trust: Trust,
) -> Vec<WaitPart> {
    let PacketTimer { flow, purpose, first } = *timer;
    let mut parts = Vec::with_capacity(3);
    if let Some((acted, Some(thread))) = first.filter(|&(first, _)| from < first)
        && thread != waiter
    {
        parts.push(WaitPart::Thread {
            thread,
            to: acted.min(at),
            acted,
            via: Via::Packet,
            lock: None,
            trust,
        });
    } else if let Some((sent, None)) = first.filter(|&(first, _)| from < first)
        && matches!(purpose, TimerPurpose::Acknowledgement | TimerPurpose::Nagle)
    {
        // The sender of the acknowledged bytes is not known.
        let cause = Cause::Network { flow: None };
        parts.push(WaitPart::Other {
            to: sent.min(at),
            kind: SegmentKind::Network,
            cause,
            basis: Basis::Ambiguous,
        });
    }
    let basis = match purpose {
        TimerPurpose::Acknowledgement | TimerPurpose::Nagle => {
            Trust::By(Rule::DelayedAcknowledgement).basis(Basis::Measured)
        }
        TimerPurpose::WindowProbe => Trust::By(Rule::WindowProbe).basis(Basis::Measured),
        _ => trust.basis(Basis::Measured),
    };
    // A retransmission means that the network lost the packet, and a window probe that the other end took nothing; any other packet was held back
    // until the timer expired.
    let kind = match purpose {
        TimerPurpose::Syn { .. } | TimerPurpose::Data | TimerPurpose::WindowProbe => SegmentKind::Network,
        TimerPurpose::Acknowledgement | TimerPurpose::Nagle | TimerPurpose::Other => SegmentKind::Timer,
    };
    let cause = Cause::SentByTimer { flow, purpose };
    parts.push(WaitPart::Other { to: at, kind, cause, basis });
    parts
}

/// Whether a flow's other end is on another host, so that its packets can have no sender here.
fn leaves_host(graph: &Graph, flow: FlowId) -> bool {
    graph.flow(flow).is_some_and(|flow| !flow.is_within_host())
}
