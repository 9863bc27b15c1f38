//! A recording is untrusted input: any events make a graph, and every path over the graph ends and adds up.

use proptest::prelude::*;
use wakepath_clock::Stamp;
use wakepath_critical_path::{Timeouts, Window, active, active_by, contributors, deadlocks, exact, hangs};
use wakepath_event::{
    BlockRequest, BlockedState, Call, CgroupId, Comm, Context, Cpu, Direction, Event, EventKind, Flow,
    FlowId, KernelLock, LockWord, LostRecords, Mark, Packet, Softirq, Stack, SwitchOut, ThreadIdentity, Tid,
};
use wakepath_scenario::arbitrary::cases;
use wakepath_wait_graph::Graph;

fn tid() -> impl Strategy<Value = Tid> {
    prop_oneof![20 => (0..6u32).prop_map(Tid), 1 => any::<u32>().prop_map(Tid)]
}

fn stamp() -> impl Strategy<Value = u64> {
    prop_oneof![30 => 0..200u64, 1 => any::<u64>()]
}

fn context() -> impl Strategy<Value = Context> {
    prop_oneof![
        6 => Just(Context::Task),
        2 => Just(Context::Softirq(Softirq::NetRx)),
        2 => Just(Context::Softirq(Softirq::Block)),
        1 => Just(Context::Softirq(Softirq::Timer)),
        1 => Just(Context::LocalTimer),
        1 => Just(Context::Device),
    ]
}

fn identity() -> impl Strategy<Value = ThreadIdentity> {
    (tid(), tid(), tid(), 0..4u64).prop_map(|(tid, tgid, ns_tid, start)| {
        let (cgroup, comm) = (CgroupId(start), ["a", "b", "c", "d"][start as usize]);
        let start = Stamp::from_ns(start);
        let alone = wakepath_scenario::identity(tid.0, comm);
        ThreadIdentity { tgid, ns_tid, ns_tgid: tgid, start, cgroup, cpu_cgroup: cgroup, ..alone }
    })
}

fn call() -> impl Strategy<Value = Option<Call>> {
    let word = (0..14u32, prop::option::of(0..4u32), prop::option::of(tid()))
        .prop_map(|(operation, value, claimed_owner)| LockWord { operation, value, claimed_owner });
    let call = (0..4u32, 0..3u64, prop::option::of(word)).prop_map(|(number, arg0, lock)| Call {
        number,
        arg0,
        lock,
    });
    prop::option::of(call)
}

fn out() -> impl Strategy<Value = SwitchOut> {
    prop_oneof![
        2 => Just(SwitchOut::Runnable),
        1 => Just(SwitchOut::Throttled),
        6 => Just(SwitchOut::Blocked(BlockedState::Interruptible)),
        1 => Just(SwitchOut::Blocked(BlockedState::Other(77))),
        1 => Just(SwitchOut::Dead),
    ]
}

fn request() -> impl Strategy<Value = BlockRequest> {
    let stamp = || prop::option::of(stamp().prop_map(Stamp::from_ns));
    (0..3u64, stamp(), stamp()).prop_map(|(id, start, issued)| BlockRequest {
        start,
        issued,
        ..wakepath_scenario::request(id)
    })
}

fn packet() -> impl Strategy<Value = Packet> {
    let direction = prop_oneof![Just(Direction::In), Just(Direction::Out)];
    ((0..3u64).prop_map(FlowId), direction, 0..2u32)
        .prop_map(|(flow, direction, seq)| wakepath_scenario::packet(flow, direction, seq))
}

fn flow() -> impl Strategy<Value = Flow> {
    (0..3u16, 0..3u16).prop_map(|(a, b)| Flow {
        source: ([127, 0, 0, 1], a).into(),
        target: ([127, 0, 0, 1], b).into(),
        protocol: 6,
    })
}

fn lock() -> impl Strategy<Value = KernelLock> {
    (0..2u64, prop::option::of(tid())).prop_map(|(address, owner)| KernelLock { address, flags: 0, owner })
}

fn what() -> impl Strategy<Value = EventKind> {
    prop_oneof![
        20 => (tid(), out(), any::<u32>(), call())
            .prop_map(|(next, out, interrupts_ns, call)| EventKind::Switch { next, out, interrupts_ns, call }),
        20 => (tid(), any::<u16>(), prop::bool::weighted(0.1))
            .prop_map(|(target, irq, newborn)| EventKind::Waking { target, irq, newborn, socket: None }),
        2 => (identity(), prop::option::of(Just(BlockedState::Stopped)), call())
            .prop_map(|(identity, blocked, call)| EventKind::Thread { identity, blocked, call }),
        3 => identity().prop_map(|child| EventKind::Fork { child }),
        2 => tid().prop_map(|old| EventKind::Exec { old, comm: Comm::new(b"x"), path: [].into() }),
        2 => Just(EventKind::Exit),
        1 => tid().prop_map(|tid| EventKind::Rename { tid, comm: Comm::new(b"y") }),
        1 => (tid(), tid(), any::<bool>()).prop_map(|(tid, tgid, whole)| EventKind::Move {
            tid, tgid, whole, cgroup: CgroupId(1), cpu_cgroup: CgroupId(1),
        }),
        6 => packet().prop_map(EventKind::Packet),
        3 => (0..3u64).prop_map(|flow| EventKind::SocketReady(FlowId(flow))),
        1 => (0..3u64, flow()).prop_map(|(id, flow)| EventKind::Flow(FlowId(id), flow)),
        3 => request().prop_map(EventKind::BlockIssue),
        3 => request().prop_map(EventKind::BlockComplete),
        2 => lock().prop_map(EventKind::LockBegin),
        2 => lock().prop_map(EventKind::LockEnd),
        2 => Just(EventKind::Sample(Stack { tgid: Tid(1), kernel: [1].into(), user: [2, 3].into(), scanned: 0, proved: 0 })),
        3 => (stamp(), 0..4u64, 0..LostRecords::ALL.len()).prop_map(|(from, count, records)| EventKind::Loss {
            from: Stamp::from_ns(from),
            count,
            records: LostRecords::ALL[records],
        }),
        1 => Just(EventKind::Mark(Mark::Started)),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let cpu = prop_oneof![20 => (0..3u16).prop_map(Cpu), 1 => Just(Cpu::UNKNOWN), 1 => Just(Cpu(300))];
    (stamp(), cpu, context(), tid(), what()).prop_map(|(ns, cpu, context, current, what)| Event {
        at: Stamp::from_ns(ns),
        cpu,
        context,
        current,
        kind: what,
    })
}

proptest! {
    // Rare coincidences take many tries: 20,000 met coincidences that 256 did not.
    #![proptest_config(cases(2_000))]
    #[test]
    fn every_path_over_any_events_ends_and_adds_up(
        mut events in prop::collection::vec(event(), 0..120),
        sorted in any::<bool>(),
        cuts in prop::collection::vec((stamp(), stamp()), 3),
    ) {
        if sorted {
            events.sort_by_key(|event| event.at);
        }
        let graph: Graph = events.iter().collect();
        hangs(&graph);
        deadlocks(&graph);
        for (thread, row) in graph.threads() {
            let intervals = graph.state_intervals(thread);
            let mut end = row.first;
            for index in 0..intervals.len() {
                let interval = intervals.get(index).expect("an interval");
                prop_assert!(interval.from == end && interval.to >= interval.from, "intervals follow each other");
                end = interval.to;
            }
            prop_assert_eq!(end, row.last);
            prop_assert_eq!(graph.samples(thread, graph.from(), graph.to()).filter(|s| s.user.len() != 2).count(), 0);
            let whole = (graph.from().ns(), graph.to().ns());
            for &(a, b) in cuts.iter().chain(&[whole]) {
                let window = Window { thread, from: Stamp::from_ns(a.min(b)), to: Stamp::from_ns(a.max(b)) };
                let joined = active_by(&graph, window, Timeouts::Joined);
                for path in [active(&graph, window), exact(&graph, window), joined] {
                    prop_assert!(path.window == window && path.tiles_window(), "{:#?}", path);
                    let sum: u64 = contributors(&graph, &path).iter().map(|part| part.total_ns).sum();
                    prop_assert_eq!(sum, window.to.since(window.from));
                }
            }
        }
    }
}
