//! A graph's queries besides paths: names, processes, samples, stacks, a host's end.

use wakepath_clock::Stamp;
use wakepath_event::{
    BlockedState, Call, CgroupId, Comm, Cpu, Direction, Event, EventKind, FlowId, HostIndex, LockWord, Stack,
    StackId, SwitchOut, ThreadIdentity, Tid,
};
use wakepath_scenario::{event, identity, text};
use wakepath_wait_graph::{
    Bookmarks, Builder, End, Graph, Occupant, StackAt, Thread, ThreadIndex, ThreadState, Waker,
};

/// The graph of a trace as text; `more` events come behind trace events with the same stamp.
fn graph(trace: &str, more: &[Event]) -> Graph {
    let mut events = text::parse(trace).expect("a trace").events;
    events.extend_from_slice(more);
    events.sort_by_key(|event| event.at);
    events.iter().collect()
}

/// The last thread with this tid.
fn index(graph: &Graph, tid: Tid) -> ThreadIndex {
    graph.with_tid(tid).last().expect("a thread with this tid").0
}

const LIVES: &str = "
    thread A tid=10
    thread B tid=11 tgid=10
    thread C tid=12 tgid=10
    5 c0 idle started
    10 c0 idle switch A
    10 c1 idle switch B
    20 c0 A exec sh
    30 c0 A rename A bash
    40 c1 B exit
    50 c1 B switch C dead
    60 c1 C exit
    70 c1 C switch idle dead
    90 c0 A stopped
";

#[test]
fn a_thread_has_names_programs_and_an_end() {
    let graph = graph(LIVES, &[]);
    let (a, b) = (graph.thread(index(&graph, Tid(10))), graph.thread(index(&graph, Tid(11))));
    let name = |ns| a.name_at(Stamp::from_ns(ns)).lossy().into_owned();
    assert_eq!(
        [name(5), name(19), name(20), name(29), name(30), name(99)],
        ["A", "A", "sh", "sh", "bash", "bash"]
    );
    let within = |from, to| -> Vec<_> {
        let names = a.names_within(Stamp::from_ns(from), Stamp::from_ns(to));
        names.map(|(name, from, to)| (name.lossy().into_owned(), from.ns(), to.ns())).collect()
    };
    let part = |name: &str, from, to| (String::from(name), from, to);
    assert_eq!(within(5, 35), [part("A", 5, 20), part("sh", 20, 30), part("bash", 30, 35)]);
    assert_eq!((within(5, 20), within(20, 30)), (vec![part("A", 5, 20)], vec![part("sh", 20, 30)]));
    assert_eq!(within(7, 7), []);
    let nameless = Thread::default();
    let mut stretches = nameless.names_within(Stamp::from_ns(1), Stamp::from_ns(2));
    assert_eq!((stretches.next().map(|(name, ..)| name), stretches.next()), (Some(Comm::default()), None));
    assert_eq!((a.name(), Thread::default().name()), (Comm::new(b"bash"), Comm::default()));
    assert_eq!(a.execs, [(Stamp::from_ns(20), b"/bin/sh".as_slice().into())]);
    assert_eq!((a.exited, b.exited), (None, Some(Stamp::from_ns(40))));
    assert_eq!((graph.from().ns(), graph.to().ns(), graph.events()), (0, 90, 13));
    let samples = graph.samples(index(&graph, Tid(10)), graph.from(), graph.to()).count();
    assert_eq!((graph.has_stacks(), samples), (false, 0));
}

/// The beginning and the kind of each thread state.
fn states(graph: &Graph, tid: Tid) -> Vec<(u64, &'static str)> {
    let intervals = graph.state_intervals(index(graph, tid)).overlapping(graph.from(), graph.to());
    let states = intervals.map(|interval| match interval.state {
        ThreadState::Running { .. } => (interval.from.ns(), "runs"),
        ThreadState::Runnable { .. } => (interval.from.ns(), "runnable"),
        ThreadState::Blocked(_) => (interval.from.ns(), "blocked"),
        _ => (interval.from.ns(), "?"),
    });
    states.collect()
}

/// A CPU without a switch since all is recorded had the thread of its first record, unless that thread was on another CPU.
#[test]
fn the_thread_of_a_first_record_had_the_cpu_since_all_is_recorded() {
    let states = |started: u64, first: &str, tid| {
        let trace = format!(
            "thread A tid=10
             thread B tid=11 blocked=interruptible
             thread C tid=12
             {started} c0 idle started
             10 c0 idle waking B
             20 c1 {first} waking C
             50 c0 idle stopped"
        );
        states(&graph(&trace, &[]), Tid(tid))
    };
    assert_eq!(states(0, "A", 10), [(0, "runs")]);
    assert_eq!(states(5, "A", 10), [(0, "?"), (20, "runs")], "it may have waited before all was recorded");
    assert_eq!(states(0, "#77", 77), [(0, "runs")], "without an identity as well");
    assert_eq!(
        states(0, "B", 11),
        [(0, "blocked"), (10, "?"), (20, "runs")],
        "it was woken without a switch-in"
    );
}

#[test]
fn an_identity_that_comes_late_is_that_of_the_thread_unless_it_was_just_born() {
    const SEEN: &str = "
        thread A tid=10
        0 c0 idle started
        10 c0 idle switch #77
        50 c0 #77 stopped
    ";
    let seen = graph(
        SEEN,
        &[event(20, 0, 77, EventKind::Thread { identity: identity(77, "x"), blocked: None, call: None })],
    );
    assert_eq!(seen.with_tid(Tid(77)).count(), 1);
    let born = graph(SEEN, &[event(20, 1, 10, EventKind::Fork { child: identity(77, "x") })]);
    assert_eq!(born.with_tid(Tid(77)).count(), 2, "the one before died without a record");
}

#[test]
fn the_packets_of_a_flow_are_a_dialogue() {
    let graph = graph(
        "thread A tid=10
         flow ask 127.0.0.1:40000 > 127.0.0.1:80
         0 c0 idle started
         0 c0 idle switch A
         10 c0 A out ask seq=1 len=32
         50 c0 A stopped",
        &[],
    );
    let said = |ns| graph.dialogue(FlowId(1), Direction::Out, Stamp::from_ns(ns)).last_data;
    assert_eq!([said(9), said(10)], [None, Some((End::Own, Stamp::from_ns(10)))]);
}

#[test]
fn the_answer_of_an_exchange_is_that_of_a_thread_and_not_of_a_softirq_that_it_met() {
    let exchanges = |packets: &str| {
        let graph = graph(
            &format!(
                "thread A tid=10
                 flow ask 127.0.0.1:40000 > 127.0.0.1:80
                 flow say 127.0.0.1:80 > 127.0.0.1:40000
                 0 c0 idle started
                 0 c0 idle switch A
                 5 c0 A/net_rx in ask seq=1 len=3
                 8 c0 A/net_rx out say seq=1 len=3
                 {packets}50 c0 A stopped"
            ),
            &[],
        );
        let found = graph
            .exchanges()
            .map(|one| (one.asked.ns(), one.answered.ns(), graph.thread(one.thread).tid().number()));
        found.collect::<Vec<_>>()
    };
    assert_eq!(exchanges(""), []);
    assert_eq!(exchanges("9 c0 A out say seq=4 len=3\n"), [(5, 8, 10)]);
}

/// A thread in the snapshot that was not recorded from there on may have run before its first record.
#[test]
fn a_thread_of_the_snapshot_is_unknown_up_to_its_first_switch_unless_all_is_recorded() {
    let states = |started: &str| states(&graph(&LIVES.replace("5 c0 idle started", started), &[]), Tid(10));
    assert_eq!(states("5 c0 idle started"), [(0, "?"), (10, "runs")]);
    assert_eq!(states("0 c0 idle started"), [(0, "runnable"), (10, "runs")]);
}

#[test]
fn a_wait_that_began_before_the_recording_has_the_state_of_the_snapshot() {
    let graph = graph(
        "thread A tid=10 blocked=uninterruptible
         thread B tid=11 blocked=interruptible
         0 c0 idle started
         50 c0 idle stopped",
        &[],
    );
    let state = |tid| {
        let mut intervals =
            graph.state_intervals(index(&graph, Tid(tid))).overlapping(graph.from(), graph.to());
        graph.wait(&intervals.next().expect("a wait")).expect("a wait").state
    };
    assert_eq!(state(10), Some(BlockedState::Uninterruptible));
    assert_eq!(state(11), Some(BlockedState::Interruptible));
}

#[test]
fn the_time_behind_an_early_wake_up_is_unknown_where_a_later_wake_up_may_be_lost() {
    let states_with = |loss: &str| {
        let trace = format!(
            "thread A tid=10
             thread B tid=11
             0 c0 idle started
             0 c0 idle switch A
             0 c1 idle switch B
             5 c1 B waking A
             10 c0 A switch idle blocked
             {loss}
             45 c0 idle switch A
             50 c0 A stopped"
        );
        states(&graph(&trace, &[]), Tid(10))
    };
    let around = |state| [(0, "runs"), (10, "blocked"), (10, state), (45, "runs")];
    assert_eq!(states_with(""), around("runnable"));
    assert_eq!(states_with("30 c1 B loss from=20 count=1"), around("?"));
    assert_eq!(states_with("30 c1 B loss from=20 count=1 records=disk_requests"), around("runnable"));
}

#[test]
fn a_wait_found_by_the_snapshot_has_no_end_by_a_wake_up_from_before() {
    let blocked = Some(BlockedState::Interruptible);
    let found = EventKind::Thread { identity: identity(10, "A"), blocked, call: None };
    let graph = graph(
        "thread A tid=10
         thread B tid=11
         0 c0 idle started
         0 c0 idle switch A
         0 c1 idle switch B
         10 c0 A waking B
         20 c1 B waking A
         30 c0 idle waking B
         50 c0 idle switch A
         60 c0 A stopped",
        &[event(40, 0, 0, found)],
    );
    let thread = index(&graph, Tid(10));
    let waits: Vec<_> = graph
        .state_intervals(thread)
        .overlapping(graph.from(), graph.to())
        .filter_map(|interval| Some((interval.from.ns(), interval.to.ns(), graph.wait(&interval)?.end)))
        .collect();
    assert_eq!(waits, [(40, 50, Waker::Unseen)]);
}

#[test]
fn no_state_of_any_case_is_empty_but_a_wait_whose_end_came_first() {
    let cases = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases");
    let mut count = 0;
    for case in std::fs::read_dir(cases).expect("the folder cases/") {
        let path = case.expect("a case").path();
        let Ok(trace) = std::fs::read_to_string(path.join("trace.txt")) else { continue };
        let graph = graph(&trace, &[]);
        for (thread, _) in graph.threads() {
            for interval in graph.state_intervals(thread).overlapping(Stamp::MIN, graph.to()) {
                count += 1;
                let is_wait = matches!(interval.state, ThreadState::Blocked(_));
                assert!(is_wait || interval.from < interval.to, "{}: {interval:?}", path.display());
            }
        }
    }
    assert!(count > 1000, "{count} states");
}

/// A CPU limit takes a thread off its CPU until it lets the thread go, though the thread may then get another CPU.
#[test]
fn a_thread_is_throttled_on_the_cpu_that_it_had_and_waits_for_the_one_that_it_gets() {
    const LIMITED: &str = "
        thread A tid=10
        thread B tid=11
        thread C tid=12
        0 c0 idle started
        0 c0 idle switch A
        0 c1 idle switch C
        100 c0 A switch B throttled
        200 c0 B refill
        300 c1 C switch A runnable
        400 c1 A stopped
    ";
    let graph = graph(LIMITED, &[]);
    let intervals = graph.state_intervals(index(&graph, Tid(10))).overlapping(graph.from(), graph.to());
    let states: Vec<_> = intervals
        .map(|interval| match interval.state {
            ThreadState::Running { cpu, .. } => (interval.from.ns(), "runs", cpu.0),
            ThreadState::Throttled { cpu } => (interval.from.ns(), "throttled", cpu.0),
            ThreadState::Runnable { cpu, .. } => (interval.from.ns(), "runnable", cpu.0),
            _ => (interval.from.ns(), "?", 0),
        })
        .collect();
    assert_eq!(states, [(0, "runs", 0), (100, "throttled", 0), (200, "runnable", 1), (300, "runs", 1)]);
}

/// A thread other than the leader executes a program, and has the leader's tid from then on.
#[test]
fn a_tid_is_that_of_a_time() {
    const DEATH: &str = "20 c1 A switch idle dead";
    let trace = format!(
        "thread A tid=10
         thread B tid=11 tgid=10
         0 c0 idle started
         0 c0 idle switch B
         0 c1 idle switch A
         10 c1 A exit
         {DEATH}
         30 c0 A exec sh from=B
         50 c0 A stopped"
    );
    let unseen = graph(&trace.replace(DEATH, ""), &[]);
    let graph = graph(&trace, &[]);
    let (first, last) = (graph.with_tid(Tid(10)).next().expect("A").0, index(&graph, Tid(11)));
    let tid = |ns| graph.thread(last).tid_at(Stamp::from_ns(ns));
    assert_eq!([tid(0), tid(29), tid(30), tid(99)], [Tid(11), Tid(11), Tid(10), Tid(10)]);
    assert_eq!((graph.successor(first), graph.successor(last)), (Some(last), None));
    // Without a record of its death, the first thread lasts as long as the other.
    let (first, _) = unseen.with_tid(Tid(10)).next().expect("A");
    assert_eq!((unseen.thread(first).last.ns(), unseen.successor(first)), (50, None));
    assert_eq!(Thread::default().tid_at(Stamp::MIN), Tid::IDLE);
}

#[test]
fn events_that_go_back_and_switches_without_a_record_are_counted() {
    let current = |ns| event(ns, 0, 0, EventKind::Current);
    let back: Graph = [current(10), current(10), current(9), current(8), current(11)].iter().collect();
    assert_eq!((back.counts().inversions, back.from().ns(), back.to().ns()), (2, 10, 11));
    let graph = graph(
        "thread A tid=10
         thread B tid=11
         0 c0 idle started
         0 c0 idle switch A
         0 c1 idle switch B
         100 c0 A switch idle runnable
         110 c1 B waking A
         120 c1 B waking A
         200 c0 A sample
         300 c0 B sample
         400 c0 A sample
         500 c0 A stopped",
        &[],
    );
    let counts = graph.counts();
    assert_eq!((counts.inversions, counts.spurious_wakings, counts.missing_switches), (0, 2, 4));
}

/// A process's threads move together: not the dead threads, and not those left by an earlier process with the same number.
#[test]
fn a_process_moves_with_its_living_threads() {
    let moved = |ns, tgid| {
        let (tid, tgid, cgroup) = (Tid(tgid), Tid(tgid), CgroupId(7));
        event(ns, 0, 10, EventKind::Move { tid, tgid, whole: true, cgroup, cpu_cgroup: CgroupId(8) })
    };
    let left = ThreadIdentity { tgid: Tid(20), ..identity(21, "left") };
    let left = event(6, 0, 0, EventKind::Thread { identity: left, blocked: None, call: None });
    let child = event(80, 0, 10, EventKind::Fork { child: identity(20, "new") });
    // A snapshot may find the leader behind another thread. A later-born thread belongs to its process too.
    let thread = |tid, leader| ThreadIdentity { tgid: Tid(leader), ..identity(tid, "t") };
    let [second, leader] = [thread(31, 30), thread(30, 30)]
        .map(|identity| event(6, 0, 0, EventKind::Thread { identity, blocked: None, call: None }));
    let born = event(45, 0, 10, EventKind::Fork { child: thread(13, 10) });
    let more = [left, second, leader, born, moved(55, 10), moved(56, 30), child, moved(85, 20)];
    let graph = graph(LIVES, &more);
    let cgroups = |tid| {
        let row = graph.thread(index(&graph, Tid(tid)));
        row.cgroups.iter().skip(1).map(|&(at, cgroup, cpu)| (at.ns(), cgroup.0, cpu.0)).collect::<Vec<_>>()
    };
    assert_eq!([10, 12, 13].map(cgroups), [(); 3].map(|()| vec![(55, 7, 8)]));
    assert_eq!([30, 31].map(cgroups), [(); 2].map(|()| vec![(56, 7, 8)]));
    assert_eq!((cgroups(11), cgroups(21)), (vec![], vec![]), "the dead, and those of another process");
    assert_eq!(cgroups(20), [(85, 7, 8)]);
}

#[test]
fn samples_and_stacks_are_those_of_a_thread_and_a_time() {
    let stack =
        |frame| Stack { tgid: Tid(10), kernel: [1].into(), user: [frame, 3].into(), scanned: 0, proved: 1 };
    let sample = |cpu, current, ns, frame| event(ns, cpu, current, EventKind::Sample(stack(frame)));
    let used = stack(9);
    let graph = graph(
        LIVES,
        &[
            sample(0, 10, 25, 5),
            sample(0, 10, 15, 4),
            sample(1, 11, 15, 6),
            sample(0, 10, 35, 7),
            sample(1, 0, 80, 8),
            event(30, 0, 10, EventKind::StackOf(used.id())),
            event(32, 0, 10, EventKind::Stack(used.clone())),
            event(33, 0, 10, EventKind::StackOf(StackId(77))),
            event(90, 0, 0, EventKind::StackLater(StackId(77), used.clone())),
        ],
    );
    let a = index(&graph, Tid(10));
    let frames = |from, to| {
        let found = graph.samples(a, Stamp::from_ns(from), Stamp::from_ns(to));
        found.map(|sample| (sample.at.ns(), sample.kernel[0], sample.user[0])).collect::<Vec<_>>()
    };
    assert_eq!(frames(0, 99), [(15, 1, 4), (25, 1, 5), (35, 1, 7)]);
    assert_eq!(frames(15, 35), [(15, 1, 4), (25, 1, 5)]);
    assert_eq!(frames(16, 36), [(25, 1, 5), (35, 1, 7)]);
    assert_eq!((frames(36, 99), frames(35, 15)), (vec![], vec![]));
    assert!(graph.has_stacks());
    let at = |ns| graph.stack_at(a, Stamp::from_ns(ns));
    assert!(matches!(at(30), Some(StackAt::Recorded(_, stack)) if *stack == used));
    assert!(matches!(at(33), Some(StackAt::Recorded(_, stack)) if *stack == used), "unwound later");
    assert_eq!((at(29), at(31)), (None, None));
}

#[test]
fn intervals_are_found_by_time() {
    let graph = graph(LIVES, &[]);
    let b = index(&graph, Tid(11));
    let intervals = graph.state_intervals(b);
    let all = (0..intervals.len()).filter_map(|index| intervals.get(index));
    assert_eq!(all.map(|found| (found.from.ns(), found.to.ns())).collect::<Vec<_>>(), [(0, 10), (10, 50)]);
    assert!(!intervals.is_empty());
    let seen_once = self::graph("thread A tid=10", &[]);
    assert!(seen_once.state_intervals(index(&seen_once, Tid(10))).is_empty());
    let mut bookmarks = Bookmarks::new(&graph);
    for (ns, expected) in [(0, 0), (9, 0), (10, 1), (49, 1), (50, 2), (70, 2), (3, 0)] {
        let at = Stamp::from_ns(ns);
        assert_eq!(intervals.find(at), expected, "{ns}");
        assert_eq!(bookmarks.find(b, at), expected, "{ns}, from the last one");
    }
    let overlapping = |from, to| intervals.overlapping(Stamp::from_ns(from), Stamp::from_ns(to)).count();
    let found = [overlapping(0, 10), overlapping(0, 11), overlapping(10, 20), overlapping(50, 90)];
    assert_eq!(found, [1, 2, 1, 0]);
}

#[test]
fn a_lock_was_got_by_a_thread_at_a_time() {
    let graph = graph(
        "thread A tid=10
         thread B tid=11
         0 c0 idle started
         0 c0 idle switch A
         0 c1 idle switch B
         10 c0 A unlock 0x10
         20 c1 B unlock 0x20
         30 c1 B unlock 0x10
         50 c0 A stopped",
        &[],
    );
    let (a, b) = (index(&graph, Tid(10)), index(&graph, Tid(11)));
    for (thread, lock, ns, expected) in [
        (a, 0x10, 9, None),
        (a, 0x10, 10, Some(10)),
        (a, 0x10, 29, Some(10)),
        (a, 0x10, 30, None),
        (b, 0x10, 30, Some(30)),
        (b, 0x20, 19, None),
        (b, 0x20, 20, Some(20)),
        (a, 0x20, 20, None),
    ] {
        let got = graph.acquired(thread, lock, Stamp::from_ns(ns)).map(Stamp::ns);
        assert_eq!(got, expected, "{lock:#x} by {thread:?} at {ns}");
    }
}

/// Two hosts; the second ends at 200: nothing is known about its threads and its CPU from then on.
#[test]
fn a_host_ends_with_its_recording_and_the_others_go_on() {
    let (one, two) = (HostIndex(0), HostIndex(1));
    let far = |number| Tid(number).on(two);
    let thread = |tid: Tid, tgid: Tid| {
        let identity = ThreadIdentity { tid, tgid, ns_tid: tid, ..identity(10, "t") };
        EventKind::Thread { identity, blocked: None, call: None }
    };
    // On the second host as on the first, the lock's memory has the number given by its own host.
    let claim = LockWord { operation: 128, value: Some(2), claimed_owner: Some(Tid(11)) };
    let wait = Some(Call { number: 202, arg0: 0x1000, lock: Some(claim) });
    let switch = |ns, cpu, current: Tid, next, call: Option<Call>| {
        let blocked = SwitchOut::Blocked(BlockedState::Interruptible);
        let out = if call.is_some() { blocked } else { SwitchOut::Runnable };
        event(ns, cpu, current.0, EventKind::Switch { next, out, interrupts_ns: 0, call })
    };
    let mut builder = Builder::default();
    for tid in [10, 11, 12] {
        builder.push(&event(0, 0, 0, thread(Tid(tid), Tid(10))));
        builder.push(&event(0, 1, 0, thread(far(tid), far(10))));
    }
    builder.push(&switch(0, 0, Tid(0), Tid(10), None));
    builder.push(&switch(0, 1, Tid(0), far(10), None));
    builder.push(&switch(100, 0, Tid(10), Tid(11), wait));
    builder.push(&switch(100, 1, far(10), far(11), wait));
    builder.push(&switch(200, 1, far(11), far(12), None));
    // A CPU of the second host has no record.
    builder.end_host(two, [Cpu(1), Cpu(2)]);
    builder.push(&switch(300, 0, Tid(11), Tid(12), None));
    builder.push(&event(500, 0, 12, EventKind::Current));
    let graph = builder.finish();
    let ends = [one, two, HostIndex(2)].map(|host| graph.end_of(host).ns());
    assert_eq!(ends, [500, 200, 500]);
    for number in [10, 11, 12] {
        for (tid, last) in [(Tid(number), 500), (far(number), 200)] {
            let row = graph.thread(index(&graph, tid));
            assert_eq!(row.last.ns(), last, "{tid} of host {}", tid.host().0);
        }
    }
    let occupants = |cpu| {
        let found = graph.occupancies(Cpu(cpu), Stamp::from_ns(150), Stamp::from_ns(600));
        found.map(|one| (one.from.ns(), one.to.ns(), one.occupant)).collect::<Vec<_>>()
    };
    let at = |tid| Occupant::Thread(index(&graph, tid));
    assert_eq!(occupants(0), [(150, 300, at(Tid(11))), (300, 600, at(Tid(12)))]);
    assert_eq!(occupants(1), [(150, 200, at(far(11))), (200, 600, Occupant::Unknown)]);
    for (waiter, owner) in [(Tid(10), Tid(11)), (far(10), far(11))] {
        let intervals = graph.state_intervals(index(&graph, waiter));
        let last = intervals.get(intervals.len() - 1).expect("a wait");
        assert!(matches!(last.state, ThreadState::Blocked(_)));
        let wait = graph.wait(&last).expect("a wait");
        let found = wait.lock.and_then(|lock| lock.owner);
        assert_eq!((wait.end, found), (Waker::Open, Some(index(&graph, owner))));
    }
}
