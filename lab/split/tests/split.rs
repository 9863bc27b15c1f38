//! Several hosts' recordings from a single recording.

use wakepath_clock::{Local, Stamp};
use wakepath_event::{
    BlockedState, Context, Cpu, Direction, Event, EventKind, EventSource, FlowId, Packet, RecordingFormat,
    Softirq, SwitchOut, Tid,
};
use wakepath_recording::{Recording, synthetic};
use wakepath_split::{Clock, Host, HostViews, Side, split};

const NEAR: usize = 0;
const FAR: usize = 1;
const CLIENT: Tid = Tid(10);
const SERVER: Tid = Tid(20);
const WIRE: Tid = Tid(30);
const OTHER: Tid = Tid(40);
const RECEIVE: Context = Context::Softirq(Softirq::NetRx);

fn event(current: Tid, what: EventKind) -> Event {
    wakepath_scenario::event(5, 1, current.0, what)
}

fn packet(netns: u32, direction: Direction) -> EventKind {
    let flow = FlowId(1);
    EventKind::Packet(Packet { flow, direction, seq: 1, ack: 2, len: 3, tcp_flags: 16, netns, interface: 2 })
}

const fn waking(target: Tid) -> EventKind {
    EventKind::Waking { target, irq: 0, newborn: false, socket: None }
}

fn switch(next: Tid) -> EventKind {
    let out = SwitchOut::Blocked(BlockedState::Interruptible);
    EventKind::Switch { next, out, interrupts_ns: 0, call: None }
}

/// Two hosts with a thread each, the wire, and another thread.
fn views() -> HostViews {
    let side = |netns, tid| Side { netns, processes: vec![tid] };
    let mut views = HostViews::new(vec![side(100, CLIENT), side(200, SERVER)], [WIRE]);
    for tid in [CLIENT, SERVER, WIRE, OTHER] {
        let identity = wakepath_scenario::identity(tid.0, "x");
        views.observe(&event(Tid::IDLE, EventKind::Thread { identity, blocked: None, call: None }));
    }
    views
}

#[test]
fn the_kernels_work_for_the_wire_is_the_receiving_cards_interrupt() {
    let mut views = views();
    let arrives = event(WIRE, packet(200, Direction::In));
    views.observe(&arrives);
    let answers = [packet(200, Direction::Out), waking(SERVER), EventKind::SocketReady(FlowId(1))];
    for event in [arrives].into_iter().chain(answers.map(|what| event(WIRE, what))) {
        assert_eq!(views.view(NEAR, &event), None, "{event:?}");
        let seen = views.view(FAR, &event).expect("the far host's");
        assert_eq!((seen.context, &seen.kind), (RECEIVE, &event.kind));
        assert!(![WIRE, Tid::IDLE].contains(&seen.current), "the CPU is taken, by nobody of its own");
    }
}

#[test]
fn a_thread_acts_on_its_own_host_and_wakes_no_thread_of_the_other() {
    let views = views();
    let sends = event(CLIENT, packet(100, Direction::Out));
    assert_eq!(views.view(NEAR, &sends).as_ref(), Some(&sends));
    assert_eq!(views.view(FAR, &sends), None);
    let wakes = event(CLIENT, waking(WIRE));
    assert_eq!((views.view(NEAR, &wakes), views.view(FAR, &wakes)), (None, None));
    let by_another = views.view(NEAR, &event(OTHER, waking(CLIENT))).expect("its thread is woken");
    assert_eq!(by_another.context, Context::Task, "who is no wire is no card");
}

#[test]
fn a_cpu_that_another_has_stays_taken() {
    let views = views();
    let leaves = views.view(NEAR, &event(CLIENT, switch(SERVER))).expect("its thread leaves");
    let EventKind::Switch { next: elsewhere, .. } = leaves.kind else { panic!("a switch") };
    assert!(![SERVER, CLIENT, Tid::IDLE].contains(&elsewhere));
    assert_eq!(views.view(NEAR, &event(SERVER, switch(OTHER))), None, "one stranger after another");
    let returns = views.view(NEAR, &event(OTHER, switch(CLIENT))).expect("its thread comes back");
    let EventKind::Switch { next, out, .. } = returns.kind else { panic!("a switch") };
    assert_eq!((returns.current, next, out), (elsewhere, CLIENT, SwitchOut::Runnable));
    let idle = views.view(FAR, &event(SERVER, switch(Tid::IDLE))).expect("its thread leaves");
    assert!(matches!(idle.kind, EventKind::Switch { next: Tid::IDLE, .. }), "nobody has it");
}

#[test]
fn a_switch_between_two_others_that_is_missing_is_missing_on_each_host() {
    for (is_recorded, shows) in [(true, false), (false, true)] {
        let mut views = views();
        let leaves = event(CLIENT, switch(OTHER));
        views.observe(&leaves);
        let leaves = views.view(NEAR, &leaves).expect("its thread leaves");
        let EventKind::Switch { next: elsewhere, .. } = leaves.kind else { panic!("a switch") };
        if is_recorded {
            views.observe(&event(OTHER, switch(WIRE)));
        }
        let wakes = event(WIRE, waking(CLIENT));
        views.observe(&wakes);
        let wakes = views.view(NEAR, &wakes).expect("its thread is woken");
        assert_eq!(wakes.current != elsewhere, shows);
        let returns = event(WIRE, switch(CLIENT));
        views.observe(&returns);
        let returns = views.view(NEAR, &returns).expect("its thread comes back");
        assert_eq!(returns.current, wakes.current);
    }
}

#[test]
fn a_host_that_has_all_processes_has_seen_all_switches_on_a_clock_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = folder.path().join("whole");
    let machine = synthetic::Machine { cpus: 2, threads_per_cpu: 5, events: 20_000, seed: 7 };
    synthetic::write(&whole, &machine).expect("a recording");
    let told = |recording: &Recording| {
        let mut told: Vec<(Stamp<Local>, Cpu, Tid, EventKind)> = Vec::new();
        let mut processes = Vec::new();
        let problems = recording.for_each(|event| match &event.kind {
            EventKind::Switch { .. } | EventKind::Waking { .. } => {
                told.push((event.at, event.cpu, event.current, event.kind.clone()));
            }
            EventKind::Thread { identity, .. } => processes.push(identity.tgid),
            _ => {}
        });
        assert!(problems.is_empty(), "{problems:?}");
        (told, processes)
    };
    let (before, processes) = told(&Recording::open(&whole).expect("a recording"));
    let host = Host {
        name: String::from("all"),
        side: Side { netns: 1, processes },
        clock: Clock { ahead_ns: 1_000_000_000, ppm: 50 },
        recording: folder.path().join("all"),
    };
    split(&whole, std::slice::from_ref(&host), &[]).expect("it is split");
    let (after, _) = told(&Recording::open(&host.recording).expect("a recording"));
    assert_eq!(before.len(), after.len());
    let first = before[0].0;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((before.1, before.2, &before.3), (after.1, after.2, &after.3));
        let passed = before.0.since(first);
        let off = after.0.since(first).abs_diff(1_000_000_000 + passed + passed / 20_000);
        // Clocks agreed at the first event of any kind.
        assert!(off <= 1_000, "{off} ns");
    }
}
