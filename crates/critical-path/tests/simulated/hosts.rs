//! A machine's events, rewritten as two hosts with different clocks, have the same paths.

use proptest::prelude::*;
use wakepath_clock::{Local, Stamp};
use wakepath_critical_path::{Path, active, exact};
use wakepath_event::{Event, EventKind, Flow, HostIndex};
use wakepath_scenario::arbitrary::cases;
use wakepath_scenario::simulate::{Action, Explanation, Program, Run, simulate, tid};
use wakepath_timeline::{Numbering, merge};
use wakepath_wait_graph::Graph;

use crate::explanation::explanation;
use crate::{index, window};

const HOSTS: usize = 2;
/// Semaphores per host, and sockets between both.
const GATES: usize = 2;
/// The second host's clock ticks three times as fast, from another origin.
const RATE: u64 = 3;
const OFFSET: u64 = 7_000_000_000_000;

/// The host of thread n, which has CPU n for itself.
const fn host(number: usize) -> usize {
    number % HOSTS
}

/// The events per host, as if from two tracers. Each flow gets another id.
fn split(run: &Run) -> [Vec<Event>; HOSTS] {
    let mut hosts = [const { Vec::new() }; HOSTS];
    let mut put = |on: usize, mut event: Event| {
        if on == 1 {
            event.at = skewed(event.at);
            if let EventKind::Thread { identity, .. } | EventKind::Fork { child: identity } = &mut event.kind
            {
                identity.start = skewed(identity.start);
            }
            if let EventKind::BlockIssue(request) | EventKind::BlockComplete(request) = &mut event.kind {
                request.start = request.start.map(skewed);
                request.issued = request.issued.map(skewed);
            }
        }
        match &mut event.kind {
            EventKind::Packet(packet) => packet.flow.0 += 10 * on as u64,
            EventKind::SocketReady(flow) => flow.0 += 10 * on as u64,
            EventKind::Flow(id, flow) => {
                id.0 += 10 * on as u64;
                let address = |number: u8, port| ([10, 0, 0, number], port).into();
                *flow = Flow {
                    source: address(1, flow.source.port()),
                    target: address(2, flow.target.port()),
                    ..*flow
                };
            }
            EventKind::Waking { socket: Some(flow), .. } => flow.0 += 10 * on as u64,
            _ => {}
        }
        hosts[on].push(event);
    };
    for event in &run.events {
        match &event.kind {
            EventKind::Thread { identity, .. } => {
                put(host((identity.tid.0 - tid(0).0) as usize), event.clone())
            }
            EventKind::Flow(..) | EventKind::Mark(_) => (0..HOSTS).for_each(|on| put(on, event.clone())),
            _ => put(host(usize::from(event.cpu.0)), event.clone()),
        }
    }
    hosts
}

fn skewed(at: Stamp<Local>) -> Stamp<Local> {
    Stamp::from_ns(at.ns() * RATE + OFFSET)
}

/// The graph of both hosts, on the first host's clock.
fn joined(run: &Run) -> Graph {
    let mut numbering = Numbering::default();
    let mut streams = Vec::new();
    for (number, events) in split(run).into_iter().enumerate() {
        let host = HostIndex(number as u16);
        let clock = |at: Stamp<Local>| match number {
            0 => at,
            _ => Stamp::from_ns((at.ns() - OFFSET) / RATE),
        };
        let mut numbered = Vec::new();
        for mut event in events {
            if numbering.number(host, &mut event, clock) {
                numbered.push(event);
            }
        }
        streams.push(numbered.into_iter());
    }
    merge(streams).collect()
}

/// The segments: beginning, end and explanation.
fn explanations(graph: &Graph, path: &Path) -> Vec<(u64, u64, Option<Explanation>)> {
    path.segments.iter().map(|s| (s.from.ns(), s.to.ns(), explanation(graph, s))).collect()
}

/// The parts with equal neighbours joined: a run's interrupt share is in the middle of its part in the
/// window.
fn merged(
    parts: impl IntoIterator<Item = (u64, u64, Option<Explanation>)>,
) -> Vec<(u64, u64, Option<Explanation>)> {
    let mut merged: Vec<(u64, u64, Option<Explanation>)> = Vec::new();
    for part in parts {
        match merged.last_mut() {
            Some(last) if last.2 == part.2 && last.1 == part.0 => last.1 = part.1,
            _ => merged.push(part),
        }
    }
    merged
}

fn action() -> impl Strategy<Value = Action> {
    let ns = || 1..200u64;
    prop_oneof![
        5 => ns().prop_map(Action::Run),
        1 => (0..GATES).prop_map(Action::Post),
        1 => (0..GATES).prop_map(Action::Wait),
        1 => ns().prop_map(Action::Sleep),
        1 => ns().prop_map(Action::Disk),
        4 => (0..GATES).prop_map(Action::Send),
        4 => (0..GATES).prop_map(Action::Receive),
    ]
}

/// Programs whose threads reach the other host by packets alone.
fn program() -> impl Strategy<Value = Program> {
    let threads = prop::collection::vec(prop::collection::vec(action(), 1..9), 2..6);
    (threads, 0..4u64, 1..30u64).prop_map(|(mut threads, latency, flight)| {
        for (number, actions) in threads.iter_mut().enumerate() {
            for action in actions {
                if let Action::Post(gate) | Action::Wait(gate) = action {
                    *gate = *gate * HOSTS + host(number);
                }
            }
        }
        Program { threads, cpus: None, slice: 1, latency, flight }
    })
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn two_hosts_on_one_clock_have_the_paths_of_one_machine(program in program()) {
        let run = simulate(&program);
        let (one, two) = (run.events.iter().collect::<Graph>(), joined(&run));
        for thread in 0..program.threads.len() {
            let on = tid(thread).on(HostIndex(host(thread) as u16));
            let (Some(alone), Some(joined)) = (index(&one, tid(thread)), index(&two, on)) else {
                prop_assert!(false, "thread {} is in both", thread);
                continue;
            };
            for path in [active, exact] {
                let alone = explanations(&one, &path(&one, window(alone, 0, run.end)));
                let joined = explanations(&two, &path(&two, window(joined, 0, run.end)));
                prop_assert_eq!(alone, joined, "thread {} of {:#?}", thread, program);
            }
        }
    }

    /// Wherever a window begins and ends, even amid a wait or a packet's flight, its path agrees with the
    /// whole path.
    #[test]
    fn a_window_ends_no_path_over_hosts(program in program(), cuts in prop::collection::vec((0..2000u64, 0..2000u64), 8)) {
        let run = simulate(&program);
        let graph = joined(&run);
        for thread in 0..program.threads.len() {
            let Some(thread) = index(&graph, tid(thread).on(HostIndex(host(thread) as u16))) else { continue };
            let whole = explanations(&graph, &active(&graph, window(thread, 0, run.end)));
            for &(a, b) in &cuts {
                let (from, to) = (a.min(b).min(run.end), a.max(b).min(run.end));
                let clip = |&(first, last, explanation): &(u64, u64, Option<Explanation>)| {
                    let clipped = (first.max(from), last.min(to), explanation);
                    (clipped.0 < clipped.1).then_some(clipped)
                };
                let expected = merged(whole.iter().filter_map(clip));
                let found = merged(explanations(&graph, &active(&graph, window(thread, from, to))));
                prop_assert_eq!(found, expected, "{} to {} of {:#?}", from, to, program);
            }
        }
    }
}
