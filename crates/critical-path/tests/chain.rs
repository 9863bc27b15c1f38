//! A chain of a million waits: each thread waits for the next, and the last runs. And a long series, each wait ended by a producer.
//! Nothing recurses, and the cost is linear, or these tests would not end.

use std::fmt::Write;

use wakepath_clock::Stamp;
use wakepath_critical_path::{SegmentKind, Timeouts, Via, Window, active, active_by, contributors, exact};
use wakepath_event::{BlockedState, EventKind, Mark, SwitchOut, Tid};
use wakepath_scenario::event;
use wakepath_wait_graph::{Builder, Graph, ThreadIndex};

const WAITS: u32 = 1_000_000;
/// The time that each thread runs between its wake-up and the wake-up of the next, ns.
const STEP: u64 = 10;

/// Thread n waits from n on for thread n + 1. The last thread runs, then all wake each other in turn.
fn chain() -> Graph {
    let mut builder = Builder::default();
    let mut push = |ns: u64, current: Tid, what| builder.push(&event(ns, 0, current.0, what));
    let tid = |n: u32| Tid(n + 1);
    let switch = |next, out| EventKind::Switch { next, out, interrupts_ns: 0, call: None };
    let blocked = SwitchOut::Blocked(BlockedState::Interruptible);
    push(0, Tid::IDLE, EventKind::Mark(Mark::Started));
    push(0, Tid::IDLE, switch(tid(0), SwitchOut::Runnable));
    for n in 0..WAITS {
        push(u64::from(n) + 1, tid(n), switch(tid(n + 1), blocked));
    }
    let mut now = u64::from(WAITS) + 1;
    for n in (0..WAITS).rev() {
        now += STEP;
        push(now, tid(n + 1), EventKind::Waking { target: tid(n), irq: 0, newborn: false, socket: None });
        push(now, tid(n + 1), switch(tid(n), blocked));
    }
    push(now + STEP, tid(0), EventKind::Mark(Mark::Stopped));
    builder.finish()
}

#[test]
fn a_chain_of_a_million_waits_is_only_long() {
    let graph = chain();
    let window = Window { thread: ThreadIndex(0), from: Stamp::from_ns(0), to: graph.to() };

    let path = active(&graph, window);
    assert_eq!(path.waits.len(), WAITS as usize);
    // Down the chain while it was built, the bottom, and up again.
    assert_eq!(path.segments.len(), 2 * WAITS as usize + 1);
    assert!(path.segments.iter().all(|segment| segment.kind == SegmentKind::Running));
    let bottom = path.segments.iter().max_by_key(|segment| segment.depth).expect("a bottom");
    assert_eq!((bottom.thread, bottom.depth), (Some(ThreadIndex(WAITS)), WAITS));
    let sum: u64 = contributors(&graph, &path).iter().map(|part| part.total_ns).sum();
    assert_eq!(sum, window.to.since(window.from));

    let path = exact(&graph, window);
    assert_eq!(path.waits.len(), WAITS as usize);
    assert_eq!(path.segments.last().map(|segment| segment.via), Some(Via::Window));
    let sum: u64 = path.segments.iter().map(|segment| segment.to.since(segment.from)).sum();
    assert_eq!(sum, window.to.since(window.from));
}

#[test]
fn a_long_series_of_waits_is_read_once() {
    const ITEMS: u64 = 60_000;
    let mut trace = String::from(
        "thread A tid=10\nthread P tid=11 tgid=10\n0 c0 idle started\n0 c0 idle switch A\n0 c1 idle switch P\n",
    );
    for at in (0..ITEMS).map(|item| 100 * item) {
        let [slept, began, woken, ended] = [1, 5, 90, 92].map(|ns| at + ns);
        let _ = writeln!(
            trace,
            "{slept} c1 P switch idle blocked call=230:0\n{began} c0 A switch idle blocked call=202:0x1028\n\
             {woken} c1 idle/timer waking P\n{woken} c1 idle switch P\n\
             {ended} c1 P waking A\n{ended} c0 idle switch A"
        );
    }
    let script = wakepath_scenario::text::parse(&trace).expect("a trace");
    let graph: Graph = script.events.iter().collect();
    let window = Window { thread: ThreadIndex(0), from: Stamp::from_ns(0), to: graph.to() };
    // The producer ended the last wait, so its wake-ups were events.
    let path = active_by(&graph, window, Timeouts::JoinedIfAlike);
    assert_eq!((path.waits.len() as u64, path.joined.waits), (ITEMS, 0));
    assert!(path.problems.is_empty(), "{:?}", path.problems);
}
