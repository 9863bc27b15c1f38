//! A window's beginning, by record kind: a table says what each record leaves there after it is dropped.
//!
//! A new kind of event does not compile here without a row; a new record kind, or a new named value, fails without a
//! sample.

use std::collections::BTreeSet;

use wakepath_event::{
    Address, Attempt, AttemptObject, Direction, FailedCall, Flow, FlowId, FunctionCall, GoStep, HeldRequest,
    LockWord, LostRecords, MemoryLimit, Packet, Reclaim, SentEffect, SetMember, Signal, SignalAction,
    SignalSent, Spin, StackId, ThreadContext,
};
use wakepath_event::{Call, CallEnd, CostKind, KernelCost, StackCounts, UnwindCounts};
use wakepath_kernel_records::layout::{every_form, forms_of};
use wakepath_kernel_records::{Header, Kind};

use super::restated::{
    FROM, OTHER, TO, WORKER, attribute, context, file, goroutine, kept, lock, machine, name, request, stack,
};
use super::*;

/// A record's trace at a window's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// The record itself, once, with its thread: a lasting fact with a single record.
    Itself,
    /// Another state of a thread or a CPU, or a fact whose time is over.
    State,
    /// A counter from which later records count on.
    Count,
    /// Nothing, since no later record depends on it, for this reason.
    Nothing(&'static str),
}

/// The rule for an event kind.
fn rule(kind: &EventKind) -> Left {
    use Left::{Count, Itself, Nothing, State};
    match kind {
        EventKind::Switch { .. }
        | EventKind::Waking { .. }
        | EventKind::Migrate { .. }
        | EventKind::Current
        | EventKind::Thread { .. }
        | EventKind::Exec { .. }
        | EventKind::Rename { .. }
        | EventKind::Move { .. }
        | EventKind::Blocked(_)
        | EventKind::Refill(_)
        | EventKind::BlockComplete(_)
        | EventKind::LockEnd(_)
        | EventKind::Loss { .. }
        | EventKind::Clocks(_) => State,
        EventKind::Reclaim(_) => Nothing("its time is over"),
        EventKind::BlockRelease(_) => Nothing("the request's issue follows at once"),
        EventKind::Name(NameSpace::Scheduling, ..) => Nothing("a window without any says nothing"),
        EventKind::Name(NameSpace::Receiver, _, text) if text.starts_with(b"listening") => {
            Nothing("it may have been accepted since")
        }
        EventKind::Unrecorded => Nothing("the recorder records every CPU"),
        EventKind::UserMark(_) | EventKind::UserMarksLost { .. } => {
            Nothing("the recorder has no such records")
        }
        EventKind::ThreadContext(_)
        | EventKind::ThreadAttribute(_)
        | EventKind::Fork { .. }
        | EventKind::Flow(..)
        | EventKind::BlockIssue(_)
        | EventKind::LockBegin(_)
        | EventKind::Stack(_)
        | EventKind::StackLater(..)
        | EventKind::File(_)
        | EventKind::SetMember(_)
        | EventKind::Mapping(_)
        | EventKind::Name(..) => Itself,
        EventKind::StackCounts(_) | EventKind::KernelCost(_) | EventKind::UnwindCounts(_) => Count,
        EventKind::Ready { .. } => Nothing("the wake-up at the same stamp has gone with it"),
        EventKind::Exit => Nothing("the end of the thread is its last switch-out"),
        EventKind::Stolen(_) => Nothing("the time before it"),
        EventKind::Packet(_) => Nothing("the time before it; its flow counts as used"),
        EventKind::SocketReady(_) => Nothing("the interrupt in which it came; its flow counts as used"),
        EventKind::Sample(_) => Nothing("the moment"),
        EventKind::StackOf(_) => Nothing("the event before it; its stack counts as used"),
        EventKind::Function(_) => Nothing("the call is over"),
        EventKind::FailedCall(_) => Nothing("the switch-out at the same stamp has gone with it"),
        EventKind::Spin(_) => Nothing("the time before it"),
        EventKind::Signal(_) => Nothing("the wait that it cut short is over"),
        EventKind::SignalSent(_) => Nothing("the time before it"),
        EventKind::Goroutine(step) => match step.step {
            GoStep::Parks(_)
            | GoStep::Ready(_)
            | GoStep::Runs(_)
            | GoStep::Yields
            | GoStep::BeginsSpan(..) => Itself,
            GoStep::Ends => State,
        },
        EventKind::Mark(mark) => match mark {
            Mark::Started | Mark::Stopped => Nothing("each recording has its own"),
            Mark::Command { .. }
            | Mark::Target(_)
            | Mark::Observer(_)
            | Mark::Ended(_)
            | Mark::Unprobed(_) => Itself,
        },
    }
}

/// A record from `WORKER`, which has the CPU, and the records before it.
type Sample = (Vec<EventKind>, EventKind);

/// At least one record for every form.
fn samples() -> Vec<Sample> {
    let read = Call { number: 0, arg0: 3, lock: None };
    let futex = LockWord { operation: 0, value: Some(8), claimed_owner: Some(OTHER) };
    let switch = |out, call| EventKind::Switch { next: OTHER, out, interrupts_ns: 0, call };
    let waking = |newborn, socket| EventKind::Waking { target: OTHER, irq: 0, newborn, socket };
    let identity = |tid| ThreadIdentity {
        tid: Tid(tid),
        tgid: Tid(tid),
        parent: Tid(1),
        ns_tid: Tid(tid),
        ns_tgid: Tid(tid),
        start: Stamp::from_ns(BEGIN + u64::from(tid)),
        cgroup: CgroupId(1),
        cpu_cgroup: CgroupId(1),
        kernel: false,
        comm: Comm::new(b"young"),
    };
    let address = |port| Address::from(([10, 0, 0, 1], port));
    let flow = Flow { source: address(80), target: address(4000), protocol: 6 };
    let packet = |direction| {
        let (seq, ack, len, tcp_flags, netns, interface) = (1, 2, 3, 4, 5, 6);
        Packet { flow: FlowId(9), direction, seq, ack, len, tcp_flags, netns, interface }
    };
    let function = |end| FunctionCall { target: 1, thread: WORKER, from: Stamp::from_ns(BEGIN + 50), end };
    let signal = |action| Signal { number: 15, code: 0, action, cut_call: None, sent: None };
    let cost = |kind| KernelCost { kind, count: Some(100), from_ns: 50, to_ns: Some(90) };
    let loss = |records| EventKind::Loss { from: Stamp::from_ns(BEGIN + 50), count: 1, records };
    let moved = EventKind::Move {
        tid: WORKER,
        tgid: WORKER,
        whole: true,
        cgroup: CgroupId(2),
        cpu_cgroup: CgroupId(3),
    };
    let exec =
        EventKind::Exec { old: WORKER, comm: Comm::new(b"next"), path: b"/bin/next".as_slice().into() };
    let mapping = wakepath_event::Mapping {
        tgid: WORKER,
        from: 0x1000,
        to: 0x2000,
        offset: 0,
        build_id: [1, 2].into(),
        path: b"/bin/worker".as_slice().into(),
    };
    let held = HeldRequest { cgroup: CgroupId(1), device: 8 << 20, sector: 64, bytes: 4096, operation: 0 };
    let limit = Some(MemoryLimit { cgroup: CgroupId(1), bytes: 20 << 20, is_high: false });
    let reclaim = Reclaim { from: Stamp::from_ns(BEGIN + 50), limit, pages: 32 };
    let alone = |kind| (Vec::new(), kind);
    let mut samples = vec![
        alone(switch(SwitchOut::Runnable, None)),
        alone(switch(BLOCKED, Some(read))),
        alone(switch(BLOCKED, Some(Call { number: 202, lock: Some(futex), ..read }))),
        alone(waking(false, None)),
        alone(waking(false, Some(FlowId(9)))),
        (
            vec![EventKind::Fork { child: identity(9) }],
            EventKind::Waking { target: Tid(9), irq: 0, newborn: true, socket: None },
        ),
        alone(EventKind::Ready { target: OTHER, fd: Some(3) }),
        alone(EventKind::Migrate { target: OTHER, from: Cpu(1), to: Cpu(0) }),
        (vec![switch(SwitchOut::Runnable, None)], EventKind::Current),
        alone(EventKind::Thread { identity: identity(9), blocked: None, call: None }),
        alone(EventKind::Fork { child: identity(9) }),
        alone(exec),
        alone(EventKind::Exit),
        alone(EventKind::Rename { tid: OTHER, comm: Comm::new(b"renamed") }),
        alone(moved),
        (vec![switch(BLOCKED, None)], EventKind::Blocked(read)),
        (vec![switch(SwitchOut::Throttled, None)], EventKind::Refill(CgroupId(1))),
        alone(EventKind::Stolen(10)),
        alone(EventKind::Packet(packet(Direction::In))),
        alone(EventKind::Packet(packet(Direction::Out))),
        alone(EventKind::SocketReady(FlowId(9))),
        alone(EventKind::Flow(FlowId(9), flow)),
        alone(EventKind::BlockIssue(request(1))),
        (vec![EventKind::BlockIssue(request(1))], EventKind::BlockComplete(request(1))),
        alone(EventKind::BlockRelease(held)),
        alone(EventKind::Reclaim(reclaim)),
        alone(EventKind::LockBegin(lock(0x100))),
        (vec![EventKind::LockBegin(lock(0x100))], EventKind::LockEnd(lock(0x100))),
        alone(EventKind::Sample(stack())),
        alone(EventKind::Stack(stack())),
        alone(EventKind::StackLater(StackId(77), stack())),
        alone(EventKind::StackOf(stack().id())),
        alone(file(WORKER, 3, "data.db")),
        alone(EventKind::SetMember(SetMember { set: 1 << 63 | 5, tgid: WORKER, fd: 3, total: 2 })),
        alone(EventKind::Mapping(mapping)),
        alone(EventKind::Clocks(Clocks { boottime_ns: 1, realtime_ns: 2, steal_ns: 3 })),
        (vec![EventKind::ThreadContext(context(3))], attribute(1, "/cart")),
        alone(EventKind::StackCounts(StackCounts {
            taken: 10,
            repeated: 20,
            checked: 5,
            disagreed: 1,
            doubtful: 2,
        })),
        alone(EventKind::UnwindCounts(UnwindCounts { taken_ns: 10, copied: 2, refused: 1, unwound_ns: 40 })),
    ];
    let contexts = [context(3), ThreadContext::None, ThreadContext::Unknown];
    samples.extend(contexts.map(EventKind::ThreadContext).map(alone));
    samples.extend(NameSpace::ALL.map(|space| alone(name(space, u64::from(WORKER.0) << 8 | 1, "name"))));
    samples.push(alone(name(NameSpace::Receiver, 5, "listening 7")));
    samples.extend(LostRecords::ALL.map(loss).map(alone));
    samples.extend(CostKind::ALL.map(|kind| alone(EventKind::KernelCost(cost(kind)))));
    samples.extend(SignalAction::ALL.map(|action| alone(EventKind::Signal(signal(action)))));
    let limit = Some(MemoryLimit { cgroup: CgroupId(1), bytes: 20 << 20, is_high: false });
    let sent = |effect| SignalSent { number: 15, code: 0, target: OTHER, effect, limit };
    samples.extend(SentEffect::ALL.map(|effect| alone(EventKind::SignalSent(sent(effect)))));
    let ends = [CallEnd::Returned, CallEnd::Unwound, CallEnd::Open, CallEnd::Moved, CallEnd::Stayed];
    samples.extend(ends.map(|end| alone(EventKind::Function(function(end)))));
    let objects = [
        AttemptObject::None,
        AttemptObject::Path(b"ready"[..].into()),
        AttemptObject::PathEnd(b"end/ready"[..].into()),
        AttemptObject::Address(address(80)),
        AttemptObject::Address("[::1]:80".parse().expect("an address")),
        AttemptObject::Unix(b"/run/socket"[..].into()),
        AttemptObject::Process(9),
        AttemptObject::File(b"lock"[..].into()),
        AttemptObject::Unreadable,
    ];
    samples.extend(objects.map(|object| {
        let attempt = Attempt { call: 72, error: 11, operation: 6, holder: Some(OTHER), object };
        alone(EventKind::FailedCall(Box::new(FailedCall { attempt, tries: 1, later: 0 })))
    }));
    let from = Stamp::from_ns(BEGIN + 50);
    samples.push(alone(EventKind::Spin(Spin { call: 3, error: 9, from, count: 100 })));
    let steps = [
        GoStep::Parks(2),
        GoStep::Ready(3),
        GoStep::Runs(4),
        GoStep::Yields,
        GoStep::BeginsSpan([4; 16], [5; 8]),
    ];
    samples.extend(steps.map(|step| alone(goroutine(1, step))));
    samples.push((vec![goroutine(1, GoStep::Runs(0))], goroutine(1, GoStep::Ends)));
    let words = b"./shop".as_slice().into();
    let marks = [
        Mark::Started,
        Mark::Stopped,
        Mark::Command { tgid: WORKER, words },
        Mark::Target(WORKER),
        Mark::Observer(Tid(99)),
        Mark::Ended(256),
        Mark::Unprobed(3),
    ];
    samples.extend(marks.map(EventKind::Mark).map(alone));
    samples
}

fn encoded(kind: &EventKind) -> Vec<u8> {
    let mut record = Vec::new();
    let event = Machine::event(BEGIN + 100, WORKER, kind.clone());
    Encoder::for_release(RELEASE).encode(&event, 0, &mut record).expect("a record");
    record
}

/// Passes records to the machine, each through the first buffer that may hold it.
fn pass(machine: &mut Machine, at: u64, kinds: &[EventKind]) {
    for (place, kind) in kinds.iter().enumerate() {
        let record = encoded(kind);
        let header = Header::read(&record).and_then(|header| Kind::from_number(header.kind));
        let (at, header) = (at + place as u64, header.expect("a kind"));
        match Buffer::ALL.into_iter().find(|buffer| buffer.holds(header)) {
            Some(Buffer::Sched) => machine.sched(at, WORKER, kind.clone()),
            Some(Buffer::Net) => {
                let event = Machine::event(at, WORKER, kind.clone());
                let mut record = Vec::new();
                machine.encoder.encode(&event, 0, &mut record).expect("a record");
                machine.flight.packet(Buffer::Net, Cpu(0), &record, 0);
            }
            Some(Buffer::Life) => machine.rare(at, WORKER, kind.clone()),
            None => panic!("no buffer holds {kind:?}"),
        }
    }
}

#[test]
fn a_record_that_leaves_the_memory_leaves_behind_what_the_rule_of_its_kind_says() {
    let split = |events: Vec<Event>| -> (Vec<Event>, Vec<Event>) {
        events.into_iter().partition(|event| event.at.ns() < FROM)
    };
    for (before, kind) in samples() {
        let beginning = |with: bool| {
            let mut machine = machine();
            pass(&mut machine, BEGIN + 90, &before);
            if with {
                pass(&mut machine, BEGIN + 100, std::slice::from_ref(&kind));
            }
            if matches!(rule(&kind), Left::Count) {
                pass(&mut machine, FROM + 100, std::slice::from_ref(&kind));
            }
            split(kept(machine))
        };
        let ((without, then_without), (with, then)) = (beginning(false), beginning(true));
        let count = |events: &[Event]| {
            events.iter().filter(|event| event.kind == kind && event.current == WORKER).count()
        };
        match rule(&kind) {
            Left::Itself => assert_eq!((count(&without), count(&with)), (0, 1), "{kind:?}"),
            Left::State => assert_ne!(without, with, "{kind:?}"),
            Left::Count => assert_ne!(then_without, then, "{kind:?}"),
            Left::Nothing(why) => assert_eq!(without, with, "{kind:?}: {why}"),
        }
        assert!(with.iter().chain(&then).all(|event| event.at.ns() <= TO));
    }
}

#[test]
fn the_table_has_a_record_of_every_kind_and_of_every_named_value() {
    let forms = samples().into_iter().flat_map(|(_, kind)| forms_of(&encoded(&kind)).expect("a record"));
    let forms: BTreeSet<_> = forms.collect();
    let missing: Vec<_> = every_form().difference(&forms).copied().collect();
    assert!(missing.is_empty(), "without a sample, no rule of the flight recorder is tried: {missing:?}");
}
