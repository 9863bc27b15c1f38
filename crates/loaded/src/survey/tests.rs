//! The data kept from a recording's events beside the graph.

use wakepath_event::{Comm, ThreadContext};

use super::*;

fn event(ns: u64, what: EventKind) -> Event {
    crate::testing::event(ns, 1, 7, what)
}

fn clocks(realtime_ns: u64) -> EventKind {
    EventKind::Clocks(Clocks { boottime_ns: 0, realtime_ns, steal_ns: 0 })
}

fn call(from: u64, to: u64) -> Event {
    let from = Stamp::from_ns(from);
    let call = FunctionCall { target: 0, thread: Tid(7), from, end: wakepath_event::CallEnd::Returned };
    event(to, EventKind::Function(call))
}

#[test]
fn realtime_follows_the_last_reading_before_a_stamp() {
    let mut survey = Survey::default();
    assert_eq!(survey.realtime(Stamp::from_ns(5)), None, "clocks never read");
    survey.observe(&event(100, clocks(1_000_000)));
    // The realtime clock was set forward between the readings.
    survey.observe(&event(200, clocks(2_000_000)));
    for (at, expected) in
        [(100, 1_000_000), (150, 1_000_050), (90, 999_990), (200, 2_000_000), (201, 2_000_001)]
    {
        assert_eq!(survey.realtime(Stamp::from_ns(at)), Some(expected), "at {at}");
    }
}

#[test]
fn the_clocks_the_marks_and_the_stolen_time_of_each_host_are_its_own() {
    let (first, third) = (HostIndex(0), HostIndex(2));
    let mut survey = Survey::default();
    let observer = |tid: u32, host| Mark::Observer(Tid(tid).on(host));
    for (host, at, kind) in [
        (first, 1, clocks(1_000)),
        (third, 2, clocks(2_000)),
        (first, 3, EventKind::Mark(observer(7, first))),
        (third, 4, EventKind::Mark(observer(8, third))),
        (third, 5, EventKind::Mark(Mark::Started)),
        (third, 6, EventKind::Stolen(9)),
        (third, 7, EventKind::Mark(Mark::Stopped)),
    ] {
        survey.observe_on(host, &event(at, kind));
    }
    let realtimes = |host| survey.clocks_of(host).iter().map(|(at, read)| (at.ns(), read.realtime_ns));
    let of = |host| realtimes(HostIndex(host)).collect::<Vec<_>>();
    assert_eq!([0, 1, 2, 3].map(of), [vec![(1, 1_000)], vec![], vec![(2, 2_000)], vec![]]);
    let session = |host| survey.session_of(HostIndex(host)).cloned();
    let (own, other) = (session(0).expect("the first"), session(2).expect("marks"));
    assert_eq!((own.started, own.stopped), (None, None));
    assert_eq!([other.started, other.stopped].map(|at| at.map(Stamp::ns)), [Some(5), Some(7)]);
    assert_eq!((session(1), session(3)), (Some(Session::default()), None));
    assert_eq!(survey.observers(), BTreeSet::from([Tid(7), Tid(8).on(third)]));
    assert_eq!(survey.steal, BTreeSet::from([third]));
    // A recording's document counts the first host's marks and readings, and all hosts' other events.
    assert_eq!(survey.counts.by_name(), BTreeMap::from([("clocks", 1), ("mark", 1), ("stolen", 1)]));
}

#[test]
fn calls_that_ended_before_the_start_are_none() {
    let mut survey = Survey::default();
    survey.observe(&call(100, 200));
    survey.observe(&event(300, EventKind::Mark(Mark::Started)));
    // The second call begins before the start: its known part is explained.
    survey.observe(&call(250, 400));
    survey.observe(&call(410, 500));
    // Another start mark, from a recording read after this, takes nothing away.
    survey.observe(&event(600, EventKind::Mark(Mark::Started)));
    let begins: Vec<u64> = survey.calls.iter().map(|(_, call)| call.from.ns()).collect();
    assert_eq!(begins, [250, 410]);
}

#[test]
fn a_commands_words_come_apart_at_nul() {
    let mut survey = Survey::default();
    let words = b"./checkout\0--cart\x0017\0".as_slice().into();
    survey.observe(&event(1, EventKind::Mark(Mark::Command { tgid: Tid(9), words })));
    survey.observe(&event(2, EventKind::Mark(Mark::Ended(256))));
    let command = survey.session.command.expect("a command");
    assert_eq!(command.words, ["./checkout", "--cart", "17"].map(Name::from));
    assert_eq!(command.status, Some(256));
    assert_eq!(survey.counts.by_name(), BTreeMap::from([("mark", 2)]));
}

#[test]
fn the_context_of_a_thread_ends_where_it_executes_a_program() {
    let mut survey = Survey::default();
    let of_thread = |ns, tid, what| crate::testing::event(ns, 0, tid, what);
    let span = ThreadContext::Span { trace: [1; 16], span: [2; 8], flags: 1 };
    let exec =
        |old| EventKind::Exec { old: Tid(old), comm: Comm::new(b"ls"), path: b"/bin/ls".as_slice().into() };
    for (ns, tid, what) in [
        (10, 7, EventKind::ThreadContext(span)),
        (11, 8, EventKind::ThreadContext(span)),
        (12, 9, EventKind::ThreadContext(span)),
        (20, 7, exec(7)),
        // Thread 8 goes on under its process leader's number.
        (21, 6, exec(8)),
        // A thread without a context has none to lose.
        (22, 5, exec(5)),
    ] {
        survey.observe(&of_thread(ns, tid, what));
    }
    let of = |tid| survey.contexts.of(Tid(tid)).map(|(at, context)| (at.ns(), context)).collect::<Vec<_>>();
    assert_eq!(of(7), [(10, span), (20, ThreadContext::Unknown)]);
    assert_eq!(of(8), [(11, span), (21, ThreadContext::Unknown)]);
    assert_eq!(of(6), [(21, ThreadContext::Unknown)], "by its new number");
    assert_eq!((of(9), of(5)), (vec![(12, span)], vec![]), "other threads");
    assert_eq!(survey.contexts.threads(), [6, 7, 8, 9].map(Tid));
}

/// A stack with `user` program frames; the first `proved` are marked.
fn stack(user: usize, proved: u16) -> Stack {
    Stack { tgid: Tid(7), kernel: [1, 2].into(), user: vec![9; user].into(), scanned: 0, proved }
}

#[test]
fn the_innermost_frame_counts_as_proved_and_no_more_frames_than_there_are() {
    for (user, proved, expected) in [(0, 0, 0), (0, 3, 0), (5, 0, 1), (5, 1, 1), (5, 3, 3), (5, 9, 5)] {
        let mut counts = FrameCounts::default();
        counts.add(&stack(user, proved));
        assert_eq!(counts, FrameCounts { proved: expected, total: user as u64 }, "{proved} of {user}");
    }
    let mut both = FrameCounts::default();
    both.add(&stack(5, 3));
    both.add(&stack(4, 0));
    assert_eq!(both, FrameCounts { proved: 4, total: 9 });
}

#[test]
fn each_kind_of_event_is_kept_where_the_answers_look_for_it() {
    use wakepath_event::{GoStep, StackId, ThreadAttribute};
    let cost = |from_ns| KernelCost { kind: CostKind::Switch, count: Some(1), from_ns, to_ns: None };
    let counts = |taken| StackCounts { taken, ..StackCounts::default() };
    let unwound = |copied| UnwindCounts { copied, ..UnwindCounts::default() };
    let step = GoroutineStep { tgid: Tid(7), program: 0, goroutine: 1, began_in: 0, step: GoStep::Yields };
    let span = ThreadContext::Span { trace: [1; 16], span: [2; 8], flags: 1 };
    let attribute = ThreadAttribute { key: 3, length: 4, value: b"/pay".as_slice().into() };
    let mut survey = Survey::default();
    for (at, kind) in [
        (1, EventKind::StackCounts(counts(1))),
        (2, EventKind::StackCounts(counts(2))),
        (3, EventKind::KernelCost(cost(10))),
        (4, EventKind::KernelCost(cost(20))),
        (5, EventKind::KernelCost(KernelCost { kind: CostKind::Other, ..cost(30) })),
        (6, EventKind::UnwindCounts(unwound(3))),
        (7, EventKind::UnwindCounts(unwound(4))),
        (8, EventKind::Stack(stack(5, 3))),
        (9, EventKind::StackLater(StackId(1), stack(4, 0))),
        (10, EventKind::Sample(stack(2, 2))),
        (11, EventKind::Goroutine(step)),
        (12, EventKind::ThreadContext(span)),
        (13, EventKind::ThreadAttribute(attribute.clone())),
        (14, crate::testing::mapping(0x1000, "/bin/app").kind),
        (15, EventKind::StackOf(StackId(1))),
    ] {
        survey.observe(&event(at, kind));
    }
    // The last counts are for the whole recording.
    assert_eq!((survey.stacks, survey.unwinding), (Some(counts(2)), Some(unwound(4))));
    let costs: Vec<_> = survey.costs.values().map(|cost| (cost.kind, cost.from_ns)).collect();
    assert_eq!(costs, [(CostKind::Switch, 20), (CostKind::Other, 30)]);
    assert_eq!(survey.stack_frames, FrameCounts { proved: 4, total: 9 });
    assert_eq!(survey.sample_frames, FrameCounts { proved: 2, total: 2 });
    assert_eq!(survey.goroutines, [(Stamp::from_ns(11), Tid(7), step)]);
    assert!(survey.contexts.were_read(Tid(7)) && !survey.contexts.were_read(Tid(8)));
    assert_eq!(survey.contexts.attributes(Tid(7), [1; 16], Stamp::from_ns(20)), [&attribute]);
    let mappings: Vec<_> = survey.mappings.iter().map(|(at, mapping)| (at.ns(), &*mapping.path)).collect();
    assert_eq!(mappings, [(14, b"/bin/app".as_slice())]);
    assert_eq!(survey.counts.total(), 15);
    assert_eq!(survey.counts.by_name()["kernel_cost"], 3);
}

#[test]
fn disk_requests_and_waits_for_locks_become_intervals() {
    let text = "10 c0 #1 issue 5
        20 c0 #1 complete 5
        30 c0 #1 lock 1
        40 c0 #1 unlock 1";
    let mut survey = Survey::default();
    for event in wakepath_scenario::text::parse(text).expect("a trace").events {
        survey.observe(&event);
    }
    let ns = |at: Option<Stamp<Local>>| at.map(Stamp::ns);
    let requests = survey.intervals.requests.iter().map(|one| (ns(one.from), ns(one.to)));
    assert_eq!(requests.collect::<Vec<_>>(), [(Some(10), Some(20))]);
    let waits = survey.intervals.lock_waits.iter().map(|one| (ns(one.from), ns(one.to)));
    assert_eq!(waits.collect::<Vec<_>>(), [(Some(30), Some(40))]);
}

#[test]
fn a_session_begins_at_its_first_start_and_ends_at_its_last_stop_and_knows_its_targets() {
    let mut survey = Survey::default();
    for (at, mark) in [
        (1, Mark::Ended(9)),
        (10, Mark::Started),
        (20, Mark::Started),
        (30, Mark::Target(Tid(7))),
        (40, Mark::Stopped),
        (50, Mark::Stopped),
        (45, Mark::Unprobed(3)),
        (46, Mark::Unprobed(3)),
    ] {
        survey.observe(&event(at, EventKind::Mark(mark)));
    }
    let Session { started, stopped, command, targets, observers, unprobed } = &survey.session;
    assert_eq!(unprobed.iter().map(|(function, at)| (*function, at.ns())).collect::<Vec<_>>(), [(3, 45)]);
    assert_eq!([started, stopped].map(|at| at.map(Stamp::ns)), [Some(10), Some(50)]);
    assert_eq!((command, targets, observers.len()), (&None, &BTreeSet::from([Tid(7)]), 0));
}

#[test]
fn counts_are_by_kind_in_whatever_order_the_events_come() {
    let mut counts = Counts::default();
    let one = |kind: &EventKind, counts: &mut Counts| counts.add(kind);
    for kind in [EventKind::Exit, EventKind::Current, EventKind::Current, EventKind::Unrecorded] {
        one(&kind, &mut counts);
    }
    for _ in 0..5 {
        one(&EventKind::Unrecorded, &mut counts);
    }
    one(&EventKind::Exit, &mut counts);
    assert_eq!(counts.by_name(), BTreeMap::from([("current", 2), ("exit", 2), ("unrecorded", 6)]));
    assert_eq!(counts.total(), 10);
    assert_eq!(Counts::default().total(), 0);
}
