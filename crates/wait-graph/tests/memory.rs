//! A graph's memory: the sum of its lists.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{BlockedState, CgroupId, Comm, EventKind, LockWord, Signal, Stack, SwitchOut, Tid};
use wakepath_scenario::{event, text};
use wakepath_wait_graph::{
    ContendedLock, Cut, Evidence, Graph, Late, Loss, Release, Thread, ThreadIndex, ThreadState,
};

/// Something for each kind of list in a graph.
const TRACE: &str = "
    thread A tid=10
    thread B tid=11 tgid=10
    thread C tid=12 tgid=10
    flow ask 10.0.0.2:40000 > 10.0.0.3:80
    flow answer 10.0.0.3:80 > 10.0.0.2:40000
    0 c0 idle started
    0 c0 idle switch A
    0 c1 idle switch B
    10 c0 A out ask flags=2
    20 c0 A out ask len=5 flags=16
    30 c0 A exec sh
    40 c0 A signal 19
    100 c1 B waking A                        # before the switch-out
    110 c0 A switch C blocked
    200 c0 C switch A runnable
    210 c0 A waking B                        # twice
    220 c1 B switch idle blocked
    240 c0 A waking B
    250 c1 idle switch B
    260 c0 A lock 0x10 owner=C
    270 c0 A switch C blocked
    280 c0 C waking A
    290 c0 C switch A runnable
    300 c0 A unlock 0x10
    310 c0 A switch C blocked call=202:0x1000 op=128 value=2 claim=B
    320 c1 B waking A                        # to send a signal
    330 c0 C switch A runnable
    340 c0 A signal 10 handled cut=202 sent=320 by=B
    400 c1 B switch idle blocked
    450 c1 idle/timer stolen 20
    455 c1 idle/timer waking B
    460 c1 idle switch B
    470 c1 B switch idle blocked
    480 c1 idle/net_rx in answer len=9 flags=16
    485 c1 idle/net_rx waking B
    490 c1 idle switch B
    510 c0 A loss from=505 count=1
    600 c0 A stopped
";

fn graph() -> Graph {
    let mut events = text::parse(TRACE).expect("a trace").events;
    let stack = Stack { tgid: Tid(10), kernel: [1].into(), user: [2, 3].into(), scanned: 0, proved: 1 };
    let out = SwitchOut::Blocked(BlockedState::Other(0x4000));
    events.extend([
        event(350, 0, 10, EventKind::Sample(stack.clone())),
        event(351, 0, 10, EventKind::StackOf(stack.id())),
        event(352, 0, 10, EventKind::Stack(stack)),
        event(495, 1, 11, EventKind::Switch { next: Tid(0), out, interrupts_ns: 0, call: None }),
    ]);
    events.sort_by_key(|event| event.at);
    events.iter().collect()
}

/// The threads' own lists, without their state intervals.
fn thread_list_bytes(row: &Thread) -> usize {
    let [names, cgroups, tids, signals] = [
        row.names.len() * size_of::<(Stamp<Reference>, Comm)>(),
        row.cgroups.len() * size_of::<(Stamp<Reference>, CgroupId, CgroupId)>(),
        row.tids.len() * size_of::<(Stamp<Reference>, Tid)>(),
        row.signals.len() * size_of::<(Stamp<Reference>, Signal)>(),
    ];
    let programs = row.execs.iter().map(|(_, path)| size_of::<(Stamp<Reference>, Box<[u8]>)>() + path.len());
    size_of::<Thread>() + names + cgroups + tids + signals + programs.sum::<usize>()
}

#[test]
fn the_memory_of_a_graph_is_that_of_its_lists() {
    let graph = graph();
    let intervals: Vec<_> = graph
        .threads()
        .flat_map(|(thread, _)| graph.state_intervals(thread).overlapping(Stamp::MIN, Stamp::MAX))
        .collect();
    let waits = intervals.iter().filter(|one| matches!(one.state, ThreadState::Blocked(_))).count();
    let occupancies = graph.cpus().map(|cpu| graph.occupancies(cpu, graph.from(), graph.to()).count());
    let rows = || graph.threads().map(|(_, row)| row);
    assert!(rows().any(|row| !row.signals.is_empty() && !row.execs.is_empty()));
    let lists = [
        ("threads", 1, rows().map(thread_list_bytes).sum()),
        ("state intervals", intervals.len(), 16),
        ("occupancies", occupancies.sum(), 12),
        ("waits", waits, 24),
        ("wake-ups before the end", 1, 16),
        ("locks", 2, size_of::<(u32, ContendedLock)>()),
        ("lock words", 1, size_of::<(u32, LockWord)>()),
        ("other states", 1, 8),
        ("woken before as well", 1, 4),
        ("late interrupts", 1, size_of::<(u32, Late)>()),
        ("cut short", 1, size_of::<(u32, Cut)>()),
        ("evidence", 1, size_of::<Evidence>()),
        ("acquisitions", 1, size_of::<(u64, Stamp<Reference>, ThreadIndex)>()),
        // No release of the user-space lock: a signal ended that wait.
        ("releases of locks", 0, size_of::<Release>()),
        ("stolen times", 1, 24),
        ("losses", graph.losses().all().len(), 5 * size_of::<Loss>()),
        ("samples", 1, 32),
        ("frames of samples", 3, 8),
        ("uses of stacks", 1, 16),
        ("stacks", 1, size_of::<Option<Stack>>()),
        ("frames of stacks", 3, 8),
        ("directions of connections", 2, 48),
        ("openings and turns of connections", 3, 16),
    ];
    let sum: usize = lists.iter().map(|&(_, count, bytes)| count * bytes).sum();
    assert_eq!(graph.bytes(), sum, "{lists:#?}");
}
