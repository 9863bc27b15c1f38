//! A window's beginning restates, for each record kind, the facts from earlier records that still hold, and nothing
//! else; its end cuts later records.

use wakepath_event::{
    Address, BlockRequest, Call, CostKind, Flow, FlowId, GoStep, GoroutineStep, KernelCost, KernelLock,
    Mapping, SetMember, Softirq, Stack, StackCounts, StackId, ThreadAttribute, ThreadContext, UnwindCounts,
};
use wakepath_recording::Writer;

use super::*;

/// The tests' thread, and its process.
pub const WORKER: Tid = Tid(7);
pub const OTHER: Tid = Tid(8);
/// The windows' beginning and end.
pub const FROM: u64 = BEGIN + 1000;
pub const TO: u64 = BEGIN + 2000;

/// A machine with two processes; the first has the CPU.
pub fn machine() -> Machine {
    let mut machine = Machine::new(FlightLimits { window_ns: u64::MAX, bytes: usize::MAX });
    for (place, tid) in [WORKER, OTHER].into_iter().enumerate() {
        let at = BEGIN + 3 * place as u64;
        machine.fork(at + 1, tid);
        let waking = EventKind::Waking { target: tid, irq: 0, newborn: true, socket: None };
        machine.sched(at + 2, Tid::IDLE, waking);
    }
    machine.switch(BEGIN + 10, Tid::IDLE, WORKER, SwitchOut::Runnable);
    machine
}

/// The events in the recording of a window.
pub fn kept(mut machine: Machine) -> Vec<Event> {
    machine.flight.packet(Buffer::Sched, Cpu(0), &std::mem::take(&mut machine.ring), 0);
    machine.flight.cut(FROM);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("kept");
    let mut writer = Writer::create(&path, &host(), &Options::new("0", "")).expect("a place");
    machine.flight.write(&mut writer, TO).expect("room");
    drop(writer);
    let mut kept = Vec::new();
    let problems =
        Recording::open(&path).expect("a recording").read(|event| kept.push(event.clone()), |_| {});
    assert!(problems.is_empty(), "{problems:?}");
    kept
}

/// The event kinds right before the window, with their threads.
pub fn restated(machine: Machine) -> Vec<(Tid, EventKind)> {
    let events = kept(machine).into_iter().filter(|event| event.at.ns() < FROM);
    events.map(|event| (event.current, event.kind)).collect()
}

/// The thread's identity at the window's beginning.
fn identity(machine: Machine, tid: Tid) -> ThreadIdentity {
    let mut found = restated(machine).into_iter().filter_map(|(_, kind)| match kind {
        EventKind::Thread { identity, .. } => Some(identity).filter(|one| one.tid == tid),
        _ => None,
    });
    let identity = found.next().expect("the thread is restated");
    assert_eq!(found.next(), None, "once");
    identity
}

pub fn file(tgid: Tid, fd: u32, name: &str) -> EventKind {
    let name = name.as_bytes().into();
    EventKind::File(FileName { tgid, fd, mode: 0o100_000, inode: 5, flow: Some(FlowId(9)), name })
}

pub fn name(space: NameSpace, key: u64, name: &str) -> EventKind {
    EventKind::Name(space, key, name.as_bytes().into())
}

pub fn mapping(tgid: Tid, from: u64, path: &str) -> Mapping {
    let path = path.as_bytes().into();
    Mapping { tgid, from, to: from + 0x1000, offset: 0, build_id: [1, 2].into(), path }
}

pub fn stack() -> Stack {
    Stack { tgid: WORKER, kernel: [1, 2].into(), user: [3].into(), scanned: 0, proved: 1 }
}

pub const fn request(id: u64) -> BlockRequest {
    BlockRequest { id, device: 8 << 20, sector: 64, bytes: 4096, operation: 0, start: None, issued: None }
}

pub const fn lock(address: u64) -> KernelLock {
    KernelLock { address, flags: 32, owner: Some(OTHER) }
}

pub const fn goroutine(number: u64, step: GoStep) -> EventKind {
    EventKind::Goroutine(GoroutineStep { tgid: WORKER, program: 1, goroutine: number, began_in: 0, step })
}

pub fn attribute(key: u8, value: &str) -> EventKind {
    let value = value.as_bytes();
    EventKind::ThreadAttribute(ThreadAttribute { key, length: value.len() as u8, value: value.into() })
}

pub const fn context(span: u8) -> ThreadContext {
    ThreadContext::Span { trace: [span; 16], span: [span; 8], flags: 1 }
}

#[test]
fn each_kind_of_fact_is_said_anew() {
    let address = |port| Address::from(([10, 0, 0, 1], port));
    let flow = Flow { source: address(80), target: address(4000), protocol: 6 };
    let mapping = Mapping {
        tgid: WORKER,
        from: 0x1000,
        to: 0x2000,
        offset: 0,
        build_id: [1, 2].into(),
        path: b"/bin/worker".as_slice().into(),
    };
    let facts = [
        EventKind::Flow(FlowId(9), flow),
        file(WORKER, 3, "socket"),
        file(WORKER, 4, "data.db"),
        EventKind::SetMember(SetMember { set: 1 << 63 | 5, tgid: WORKER, fd: 3, total: 2 }),
        EventKind::SetMember(SetMember { set: 1 << 63 | 5, tgid: WORKER, fd: 4, total: 2 }),
        name(NameSpace::Cgroup, 1, "/shop.slice"),
        name(NameSpace::CpuLimit, 1, "20000 100000"),
        name(NameSpace::BlockDevice, 8 << 20, "sda"),
        EventKind::Mapping(mapping),
        EventKind::Stack(stack()),
        EventKind::StackLater(StackId(77), stack()),
        EventKind::BlockIssue(request(1)),
        EventKind::LockBegin(lock(0x100)),
        goroutine(1, GoStep::Parks(2)),
        goroutine(2, GoStep::Runs(1)),
        goroutine(2, GoStep::BeginsSpan([4; 16], [5; 8])),
        EventKind::Mark(Mark::Target(WORKER)),
        EventKind::Mark(Mark::Observer(Tid(99))),
    ];
    let mut machine = machine();
    for (place, fact) in facts.iter().enumerate() {
        machine.rare(BEGIN + 100 + place as u64, WORKER, fact.clone());
    }
    machine.sched(BEGIN + 200, WORKER, EventKind::ThreadContext(context(3)));
    machine.sched(BEGIN + 200, WORKER, attribute(1, "/cart"));
    machine.sched(BEGIN + 200, WORKER, attribute(2, "GET"));
    let restated = restated(machine);
    let said = [EventKind::ThreadContext(context(3)), attribute(1, "/cart"), attribute(2, "GET")];
    let places = said.iter().map(|fact| restated.iter().position(|(_, kind)| kind == fact));
    assert!(places.clone().is_sorted() && places.flatten().count() == 3, "attributes follow: {restated:?}");
    for fact in facts.iter().chain(&said) {
        let of = restated.iter().filter(|(_, kind)| kind == fact).map(|(current, _)| *current);
        assert_eq!(of.collect::<Vec<_>>(), [WORKER], "{fact:?}, once and of its thread");
    }
    assert!(restated.contains(&(Tid::IDLE, EventKind::Mark(Mark::Started))), "{restated:?}");
}

#[test]
fn a_request_to_a_disk_is_open_until_it_is_completed() {
    let mut machine = machine();
    machine.rare(BEGIN + 100, WORKER, EventKind::BlockIssue(request(1)));
    machine.rare(BEGIN + 101, OTHER, EventKind::BlockIssue(request(2)));
    machine.rare(BEGIN + 102, Tid::IDLE, EventKind::BlockComplete(request(1)));
    let open: Vec<_> =
        restated(machine).into_iter().filter(|(_, kind)| matches!(kind, EventKind::BlockIssue(_))).collect();
    assert_eq!(open, [(OTHER, EventKind::BlockIssue(request(2)))]);
}

#[test]
fn a_request_that_an_interrupt_sent_is_no_threads() {
    let mut machine = machine();
    let event = Machine::event(BEGIN + 100, WORKER, EventKind::BlockIssue(request(1)));
    let context = Context::Softirq(Softirq::Block);
    machine.flight.event(&Event { context, ..event }).expect("an event");
    let kept = kept(machine);
    let open = kept.iter().filter(|event| matches!(event.kind, EventKind::BlockIssue(_)));
    let open: Vec<_> = open.map(|event| (event.at.ns(), event.context, event.current)).collect();
    assert_eq!(open, [(FROM - 1, context, Tid::IDLE)], "not of the thread that it cut");
}

#[test]
fn a_wait_for_a_lock_is_the_threads_own_and_lasts_until_its_end() {
    let locks = |machine| -> Vec<_> {
        restated(machine).into_iter().filter(|(_, kind)| matches!(kind, EventKind::LockBegin(_))).collect()
    };
    let of_interrupt =
        |at, kind| Event { context: Context::Softirq(Softirq::NetRx), ..Machine::event(at, WORKER, kind) };
    let mut ended = machine();
    ended.rare(BEGIN + 100, WORKER, EventKind::LockBegin(lock(0x100)));
    ended.rare(BEGIN + 101, WORKER, EventKind::LockEnd(lock(0x100)));
    // An interrupt that waits for a lock does not change its thread's wait.
    let begin = of_interrupt(BEGIN + 102, EventKind::LockBegin(lock(0x200)));
    ended.flight.event(&begin).expect("an event");
    assert_eq!(locks(ended), []);
    let mut cut = machine();
    cut.rare(BEGIN + 100, WORKER, EventKind::LockBegin(lock(0x100)));
    cut.flight.event(&begin).expect("an event");
    cut.flight.event(&of_interrupt(BEGIN + 103, EventKind::LockEnd(lock(0x200)))).expect("an event");
    assert_eq!(locks(cut), [(WORKER, EventKind::LockBegin(lock(0x100)))]);
}

#[test]
fn the_last_of_several_states_counts() {
    let mut machine = machine();
    let facts = [
        [file(WORKER, 3, "old.db"), file(WORKER, 3, "new.db")],
        [name(NameSpace::CpuLimit, 1, "20000 100000"), name(NameSpace::CpuLimit, 1, "max 100000")],
        [goroutine(1, GoStep::Runs(0)), goroutine(1, GoStep::Parks(2))],
        [
            goroutine(1, GoStep::BeginsSpan([4; 16], [5; 8])),
            goroutine(1, GoStep::BeginsSpan([4; 16], [6; 8])),
        ],
    ];
    for (place, [before, now]) in facts.iter().enumerate() {
        machine.rare(BEGIN + 100 + place as u64, WORKER, before.clone());
        machine.rare(BEGIN + 200 + place as u64, WORKER, now.clone());
    }
    machine.sched(BEGIN + 300, WORKER, EventKind::ThreadContext(context(3)));
    machine.sched(BEGIN + 300, WORKER, attribute(1, "/cart"));
    machine.sched(BEGIN + 301, WORKER, EventKind::ThreadContext(ThreadContext::None));
    let restated = restated(machine);
    let has = |kind: &EventKind| restated.iter().any(|(_, other)| other == kind);
    let contexts = [EventKind::ThreadContext(context(3)), EventKind::ThreadContext(ThreadContext::None)];
    for [before, now] in facts.iter().chain([&contexts]) {
        assert_eq!((has(before), has(now)), (false, true), "{now:?}");
    }
    assert!(!has(&attribute(1, "/cart")), "it was of the context before");
}

#[test]
fn a_goroutine_that_ended_has_neither_a_step_nor_a_span() {
    let mut machine = machine();
    machine.rare(BEGIN + 100, WORKER, goroutine(1, GoStep::Runs(0)));
    machine.rare(BEGIN + 101, WORKER, goroutine(1, GoStep::BeginsSpan([4; 16], [5; 8])));
    machine.rare(BEGIN + 102, WORKER, goroutine(1, GoStep::Ends));
    let restated = restated(machine);
    assert!(!restated.iter().any(|(_, kind)| matches!(kind, EventKind::Goroutine(_))), "{restated:?}");
}

#[test]
fn a_thread_has_its_last_name_program_and_groups() {
    let comm = |name: &str| Comm::new(name.as_bytes());
    let mut renamed = machine();
    renamed.rare(BEGIN + 100, WORKER, EventKind::Rename { tid: WORKER, comm: comm("first") });
    renamed.rare(BEGIN + 101, OTHER, EventKind::Rename { tid: WORKER, comm: comm("second") });
    assert_eq!(identity(renamed, WORKER).comm, comm("second"));
    let mut renamed = machine();
    renamed.rare(BEGIN + 100, OTHER, EventKind::Rename { tid: WORKER, comm: comm("first") });
    assert_eq!(identity(renamed, OTHER).comm, comm("worker"), "the name of another thread");
    let mut executes = machine();
    let exec =
        EventKind::Exec { old: WORKER, comm: comm("program"), path: b"/bin/program".as_slice().into() };
    executes.rare(BEGIN + 100, WORKER, exec);
    assert_eq!(identity(executes, WORKER).comm, comm("program"));
    for (whole, tid, groups) in [(true, OTHER, (2, 3)), (false, OTHER, (1, 1)), (false, WORKER, (2, 3))] {
        let mut moved = machine();
        let kind = EventKind::Move { tid, tgid: WORKER, whole, cgroup: CgroupId(2), cpu_cgroup: CgroupId(3) };
        moved.rare(BEGIN + 100, OTHER, kind);
        let found = identity(moved, WORKER);
        assert_eq!((found.cgroup.0, found.cpu_cgroup.0), groups, "whole: {whole}, {tid}");
    }
}

#[test]
fn a_limit_keeps_its_thread_until_it_hands_out_time() {
    let leaves = |machine| -> Vec<_> {
        let switches = restated(machine).into_iter().filter_map(|(current, kind)| match kind {
            EventKind::Switch { out, .. } => Some((current, out)),
            _ => None,
        });
        switches.collect()
    };
    let throttled = |refilled: Option<u64>| {
        let mut machine = machine();
        machine.switch(BEGIN + 100, WORKER, OTHER, SwitchOut::Throttled);
        if let Some(cgroup) = refilled {
            machine.rare(BEGIN + 200, Tid::IDLE, EventKind::Refill(CgroupId(cgroup)));
        }
        leaves(machine)
    };
    assert_eq!(throttled(None), [(WORKER, SwitchOut::Throttled)]);
    assert_eq!(throttled(Some(2)), [(WORKER, SwitchOut::Throttled)], "the limit of another group");
    assert_eq!(throttled(Some(1)), []);
}

#[test]
fn a_wait_keeps_its_call() {
    let read = Call { number: 0, arg0: 3, lock: None };
    let mut machine = machine();
    let switch = EventKind::Switch { next: OTHER, out: BLOCKED, interrupts_ns: 0, call: Some(read) };
    machine.sched(BEGIN + 100, WORKER, switch);
    let restated = restated(machine);
    let states: Vec<_> = restated
        .iter()
        .filter_map(|(_, kind)| match kind {
            EventKind::Thread { identity, blocked, .. } => Some((identity.tid, *blocked)),
            _ => None,
        })
        .collect();
    assert_eq!(states, [(WORKER, Some(BlockedState::Interruptible)), (OTHER, None)]);
    assert!(restated.contains(&(WORKER, EventKind::Blocked(read))), "{restated:?}");
}

#[test]
fn totals_count_from_the_beginning_of_the_window() {
    let cost = |count| {
        let kind = CostKind::Switch;
        EventKind::KernelCost(KernelCost { kind, count: Some(count), from_ns: 50, to_ns: Some(90) })
    };
    let stacks = |taken, doubtful| {
        EventKind::StackCounts(StackCounts { taken, repeated: 2 * taken, checked: 5, disagreed: 0, doubtful })
    };
    let unwound = |copied, unwound_ns| {
        EventKind::UnwindCounts(UnwindCounts { taken_ns: 10 * copied, copied, refused: 1, unwound_ns })
    };
    let mut machine = machine();
    let before = [cost(100), stacks(10, 1), unwound(7, 300)];
    let then = [cost(140), stacks(25, 3), unwound(9, 400)];
    for (at, kinds) in [(FROM - 100, before), (FROM + 100, then)] {
        kinds.into_iter().for_each(|kind| machine.rare(at, Tid::IDLE, kind));
    }
    let kept = kept(machine);
    let since = |at: u64| -> Vec<_> {
        let events = kept.iter().filter(|event| event.at.ns() == at);
        events.map(|event| event.kind.clone()).collect()
    };
    assert!(since(FROM - 1).contains(&cost(0)), "{:?}", since(FROM - 1));
    let counts = StackCounts { taken: 15, repeated: 30, checked: 0, disagreed: 0, doubtful: 2 };
    let unwinding = UnwindCounts { taken_ns: 20, copied: 2, refused: 0, unwound_ns: 100 };
    let expected = [cost(40), EventKind::StackCounts(counts), EventKind::UnwindCounts(unwinding)];
    assert_eq!(since(FROM + 100), expected);
}

#[test]
fn the_clocks_run_on_until_the_window() {
    let mut machine = machine();
    let clocks = |boottime_ns, realtime_ns| Clocks { boottime_ns, realtime_ns, steal_ns: 5 };
    machine.rare(FROM - 101, Tid::IDLE, EventKind::Clocks(clocks(2000, 70_000)));
    machine.flight.cut(FROM);
    let expected = ClockReading { monotonic_ns: FROM - 1, realtime_ns: 70_100 };
    assert_eq!(machine.flight.clock(), Some(expected));
    let restated = restated(machine);
    assert!(restated.contains(&(Tid::IDLE, EventKind::Clocks(clocks(2100, 70_100)))), "{restated:?}");
}

#[test]
fn nothing_behind_the_end_of_a_window_is_kept() {
    let mut machine = machine();
    for at in [FROM, FROM + 1, TO, TO + 1, TO + 100] {
        machine.switch(at, WORKER, OTHER, SwitchOut::Runnable);
        machine.switch(at, OTHER, WORKER, SwitchOut::Runnable);
        machine.rare(at, WORKER, name(NameSpace::Target, at, "function"));
    }
    let kept = kept(machine);
    let stamps = |of: fn(&EventKind) -> bool| -> Vec<u64> {
        let events = kept.iter().filter(|event| event.at.ns() >= FROM && of(&event.kind));
        events.map(|event| event.at.ns()).collect()
    };
    let switches = stamps(|kind| matches!(kind, EventKind::Switch { .. }));
    assert_eq!(switches, [FROM, FROM, FROM + 1, FROM + 1, TO, TO], "of a CPU's ring");
    assert_eq!(stamps(|kind| matches!(kind, EventKind::Name(..))), [FROM, FROM + 1, TO], "of all CPUs");
    assert_eq!(stamps(|kind| matches!(kind, EventKind::Mark(Mark::Stopped))), [TO]);
    assert_eq!(kept.iter().map(|event| event.at.ns()).max(), Some(TO));
}
