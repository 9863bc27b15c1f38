//! The order of events and effects, and impossible events.

use wakepath_distribution::{Histogram, Unit};
use wakepath_drilldown::{
    CallRecord, Drilldown, Effect, Epoch, Event, EventError, FunctionId, LatencyRange, Mode, NoSites, NodeId,
    NodeRecord, NodeState, OwnTime, ParameterError, Parameters, ProbeCost, Refusal, Site, SiteId, SiteKind,
    Status, StopReason,
};

use crate::drawing::Drawing;
use crate::driver::ALL;

const F0: FunctionId = FunctionId(7);

fn machine(parameters: Parameters) -> Drilldown {
    Drilldown::new(F0, parameters, ProbeCost::default()).unwrap()
}

fn site(address: u64, callee: u32) -> Site {
    Site { id: SiteId { address }, kind: SiteKind::Direct(FunctionId(callee)), refused: None }
}

fn sites(function: u32, sites: &[Site]) -> Event {
    Event::Sites { function: FunctionId(function), sites: Ok(sites.to_vec()) }
}

/// A call to f₀ that takes 1000 ns, with the longest calls to its nodes.
fn call(epoch: u32, nodes: &[(u32, u64)]) -> Event {
    let nodes = nodes.iter().map(|&(node, ns)| NodeRecord {
        node: NodeId(node),
        max_ns: ns,
        sum_ns: ns,
        count: 1,
        own: OwnTime::default(),
        cost: None,
    });
    Event::Call(CallRecord {
        epoch: Epoch(epoch),
        latency_ns: 1000,
        nodes: nodes.collect(),
        overflowed: false,
    })
}

/// Effects as text: the order matters.
fn run(machine: &mut Drilldown, event: Event) -> Vec<String> {
    let effects = machine.handle(event).unwrap();
    let text = |effect: Effect| match effect {
        Effect::FindSites { node, function } => format!("find {} of {}", function.0, node.0),
        Effect::Measure(measurement) => {
            let nodes: Vec<String> = measurement
                .nodes
                .iter()
                .map(|it| format!("{}<{}@{:x}", it.node.0, it.parent.0, it.site.address))
                .collect();
            format!("measure {}: {}", measurement.epoch.0, nodes.join(" "))
        }
        Effect::Remove { nodes } => format!("remove {:?}", nodes.iter().map(|it| it.0).collect::<Vec<_>>()),
        Effect::Report => String::from("report"),
        Effect::Finished(status) => format!("{status:?}"),
    };
    effects.into_iter().map(text).collect()
}

fn two_calls() -> Parameters {
    Parameters { decision_calls: 2, ..Parameters::default() }
}

#[test]
fn a_search_asks_measures_decides_and_removes() {
    let mut machine = machine(two_calls());
    assert_eq!(machine.status(), Status::Counting);
    assert_eq!(run(&mut machine, Event::Peak(ALL)), ["find 7 of 0"]);
    assert_eq!((machine.status(), machine.peak()), (Status::InProgress, Some(ALL)));
    // Calls before anything is measured have no vote.
    assert_eq!(run(&mut machine, call(0, &[])), [""; 0]);
    assert_eq!(machine.calls().outdated, 1);
    let first = sites(7, &[site(0x10, 1), site(0x20, 2)]);
    assert_eq!(run(&mut machine, first), ["measure 1: 1<0@10 2<0@20"]);
    assert_eq!(machine.calls_to_decision(), Some(2));
    assert_eq!(run(&mut machine, call(0, &[(1, 900)])), [""; 0]);
    assert_eq!(machine.calls().outdated, 2);
    assert_eq!(run(&mut machine, call(1, &[(1, 900), (2, 50)])), [""; 0]);
    assert_eq!(machine.calls_to_decision(), Some(1));
    let tree = machine.tree();
    assert_eq!((tree[1].maxcount, tree[1].votes, tree[1].mean_ns), (1, 1, 900));
    assert_eq!((tree[0].state, tree[1].state), (NodeState::Examined, NodeState::Candidate));
    let open: Vec<_> = machine.root_causes().into_iter().map(|it| (it.path, it.cause, it.end)).collect();
    assert_eq!(open, [(vec![NodeId(0)], None, None)]);
    // The unchosen callee goes while the chosen callee's sites are looked for.
    assert_eq!(run(&mut machine, call(1, &[(1, 800), (2, 50)])), ["report", "find 1 of 1", "remove [2]"]);
    assert_eq!(machine.removing().collect::<Vec<_>>(), [NodeId(2)]);
    assert_eq!(run(&mut machine, call(1, &[(1, 900), (2, 50)])), [""; 0]);
    assert_eq!(machine.calls().outdated, 3);
    assert_eq!(run(&mut machine, Event::Removed { nodes: vec![NodeId(2)] }), [""; 0]);
    assert_eq!(machine.removing().count(), 0);
    assert_eq!(run(&mut machine, sites(1, &[site(0x30, 2)])), ["measure 2: 1<0@10 3<1@30"]);
    // Late times of a removed node are passed over.
    assert_eq!(run(&mut machine, call(2, &[(1, 900), (2, 50), (3, 20)])), [""; 0]);
    let end = ["report", "remove [1, 3]", "RootCauseFound"];
    assert_eq!(run(&mut machine, call(2, &[(1, 900), (99, 5)])), end);
    assert_eq!(machine.calls_to_decision(), None);
    let tree = machine.tree();
    assert_eq!((tree[1].maxcount, tree[1].votes, tree[1].mean_ns), (2, 2, 850));
    assert_eq!(
        (tree[1].state, tree[2].state, tree[3].state),
        (NodeState::Decided, NodeState::Dropped, NodeState::Dropped)
    );
    let causes = machine.root_causes();
    // 900 ns less the mean of 20 ns in every second call.
    assert_eq!((causes[0].ns, causes[0].f0_ns, causes[0].blocked_ns), (890, 1000, 0));
    assert!((causes[0].share() - 0.89).abs() < 1e-9 && causes[0].is_found());
    assert!((causes[0].confidence - 1.0).abs() < 1e-9);
    // Behind the end, nothing happens.
    assert_eq!(run(&mut machine, call(2, &[])), [""; 0]);
    assert_eq!(run(&mut machine, Event::Stop(StopReason::User)), [""; 0]);
    assert_eq!(machine.status(), Status::RootCauseFound);
    assert_eq!(machine.removing().count(), 2);
    assert_eq!(run(&mut machine, Event::Removed { nodes: vec![NodeId(1), NodeId(3)] }), [""; 0]);
    assert_eq!(machine.removing().count(), 0);
}

#[test]
fn new_nodes_are_measured_before_old_ones_are_removed() {
    let mut machine = machine(two_calls());
    run(&mut machine, Event::Peak(ALL));
    run(&mut machine, sites(7, &[site(0x10, 1), site(0x20, 7)]));
    run(&mut machine, call(1, &[(2, 900)]));
    // The sites of f₀ are known, below itself too.
    let effects = ["report", "measure 2: 2<0@20 3<2@10 4<2@20", "remove [1]"];
    assert_eq!(run(&mut machine, call(1, &[(2, 900)])), effects);
}

#[test]
fn a_new_target_is_measured_in_the_same_round() {
    let mut machine = machine(two_calls());
    run(&mut machine, Event::Peak(ALL));
    let indirect = Site { id: SiteId { address: 0x10 }, kind: SiteKind::Indirect, refused: None };
    assert_eq!(run(&mut machine, sites(7, &[indirect])), ["measure 1: 1<0@10"]);
    let target =
        || Event::Target { parent: NodeId(0), site: SiteId { address: 0x10 }, callee: FunctionId(3) };
    assert_eq!(run(&mut machine, target()), ["measure 2: 1<0@10 2<0@10"]);
    assert_eq!(run(&mut machine, target()), [""; 0], "it is known");
    // A call that met the target before it was known has no vote; a call without it has a vote.
    assert_eq!(run(&mut machine, call(1, &[(1, 900)])), [""; 0]);
    assert_eq!((machine.calls_to_decision(), machine.calls().outdated), (Some(2), 1));
    assert_eq!(run(&mut machine, call(1, &[])), [""; 0]);
    assert_eq!(machine.calls_to_decision(), Some(1));
    // A call that met yet another target has a vote too.
    run(&mut machine, call(2, &[(1, 900)]));
    // Both have a vote: f₀ is an answer, and calls to unknown functions.
    assert_eq!(machine.root_causes().len(), 2);
}

#[test]
fn a_target_of_a_level_that_is_decided_is_kept_for_other_nodes() {
    let mut machine = machine(two_calls());
    run(&mut machine, Event::Peak(ALL));
    let indirect = Site { id: SiteId { address: 0x10 }, kind: SiteKind::Indirect, refused: None };
    run(&mut machine, sites(7, &[indirect, site(0x20, 7)]));
    run(&mut machine, call(1, &[(2, 900)]));
    let effects = ["report", "measure 2: 2<0@20 3<2@10 4<2@20", "remove [1]"];
    assert_eq!(run(&mut machine, call(1, &[(2, 900)])), effects);
    // The site is examined below f₀ too: there the target is measured.
    let late = |parent, callee| Event::Target {
        parent: NodeId(parent),
        site: SiteId { address: 0x10 },
        callee: FunctionId(callee),
    };
    assert_eq!(run(&mut machine, late(0, 4)), ["measure 3: 2<0@20 3<2@10 4<2@20 5<2@10"]);
    run(&mut machine, call(3, &[(2, 900), (4, 800)]));
    run(&mut machine, call(3, &[(2, 900), (4, 800)]));
    let tree = machine.tree();
    // Also a level further down, where it is known from the beginning.
    assert_eq!(tree.iter().filter(|it| it.callee == Some(FunctionId(4))).count(), 2);
}

#[test]
fn a_call_that_met_the_targets_of_another_site_has_a_vote() {
    let mut machine = machine(Parameters { decision_calls: 5, ..two_calls() });
    run(&mut machine, Event::Peak(ALL));
    let indirect = |address| Site { id: SiteId { address }, kind: SiteKind::Indirect, refused: None };
    run(&mut machine, sites(7, &[indirect(0x10), indirect(0x20)]));
    let target = Event::Target { parent: NodeId(0), site: SiteId { address: 0x20 }, callee: FunctionId(3) };
    assert_eq!(run(&mut machine, target), ["measure 2: 1<0@10 2<0@20 3<0@20"]);
    run(&mut machine, call(1, &[(1, 900)]));
    assert_eq!(machine.calls_to_decision(), Some(4));
    run(&mut machine, call(1, &[(2, 900)]));
    assert_eq!(machine.calls_to_decision(), Some(4));
}

#[test]
fn targets_of_one_site_fit_on_one_path_and_not_on_another() {
    let mut machine = machine(Parameters { max_nodes: 5, max_depth: 3, ..two_calls() });
    run(&mut machine, Event::Peak(ALL));
    run(&mut machine, sites(7, &[site(0x10, 1), site(0x20, 1)]));
    run(&mut machine, call(1, &[(1, 400), (2, 500)]));
    run(&mut machine, call(1, &[(1, 400), (2, 500)]));
    let indirect = Site { id: SiteId { address: 0x30 }, kind: SiteKind::Indirect, refused: None };
    run(&mut machine, sites(1, &[indirect]));
    let target = Event::Target { parent: NodeId(2), site: SiteId { address: 0x30 }, callee: FunctionId(9) };
    assert_eq!(run(&mut machine, target), ["measure 3: 1<0@10 2<0@20 3<1@30 4<2@30 5<1@30"]);
}

#[test]
fn a_call_in_which_a_node_took_half_of_its_time_has_a_vote_on_it() {
    let mut machine = machine(two_calls());
    run(&mut machine, Event::Peak(ALL));
    run(&mut machine, sites(7, &[site(0x10, 1)]));
    run(&mut machine, call(1, &[(1, 900)]));
    run(&mut machine, call(1, &[(1, 900)]));
    run(&mut machine, sites(1, &[site(0x30, 2)]));
    run(&mut machine, call(2, &[(1, 449)]));
    assert_eq!(machine.tree()[2].votes, 0);
    run(&mut machine, call(2, &[(1, 450)]));
    assert_eq!(machine.tree()[2].votes, 1);
}

#[test]
fn a_tree_with_too_many_nodes_ends_the_search() {
    let mut machine = machine(two_calls());
    run(&mut machine, Event::Peak(ALL));
    let many: Vec<Site> = (0..65_536).map(|address| site(address, 1)).collect();
    assert_eq!(run(&mut machine, sites(7, &many[1..]))[0][..10], *"measure 1:");
    let mut machine = self::machine(two_calls());
    run(&mut machine, Event::Peak(ALL));
    assert_eq!(run(&mut machine, sites(7, &many)), ["Stopped(TreeFull)"]);
}

#[test]
fn a_target_that_does_not_fit_is_measured_when_its_site_is_chosen() {
    let mut machine = machine(Parameters { max_nodes: 2, max_depth: 1, ..two_calls() });
    run(&mut machine, Event::Peak(ALL));
    let indirect = Site { id: SiteId { address: 0x10 }, kind: SiteKind::Indirect, refused: None };
    assert_eq!(run(&mut machine, sites(7, &[indirect, site(0x20, 1)])), ["measure 1: 1<0@10 2<0@20"]);
    let target = Event::Target { parent: NodeId(0), site: SiteId { address: 0x10 }, callee: FunctionId(3) };
    assert_eq!(run(&mut machine, target), [""; 0]);
    run(&mut machine, call(1, &[(1, 900)]));
    // The level is examined again, in batches.
    assert_eq!(run(&mut machine, call(1, &[(1, 900)])), ["report", "measure 2: 1<0@10 2<0@20"]);
    run(&mut machine, call(2, &[(2, 50)]));
    let next = ["report", "measure 3: 3<0@10", "remove [1, 2]"];
    assert_eq!(run(&mut machine, call(2, &[])), next);
    run(&mut machine, call(3, &[(3, 900)]));
    let next = ["report", "measure 4: 2<0@20 3<0@10"];
    assert_eq!(run(&mut machine, call(3, &[(3, 900)])), next);
    run(&mut machine, call(4, &[(3, 900)]));
    assert_eq!(run(&mut machine, call(4, &[(3, 900)])), ["report", "remove [2, 3]", "MaxDepthReached"]);
    assert!(!machine.root_causes()[0].is_found(), "its callees may take the time");
}

#[test]
fn targets_of_a_site_are_known_on_every_path() {
    // f₀ calls g twice; g has an indirect site.
    let mut machine = machine(two_calls());
    run(&mut machine, Event::Peak(ALL));
    run(&mut machine, sites(7, &[site(0x10, 1), site(0x20, 1)]));
    run(&mut machine, call(1, &[(1, 400), (2, 500)]));
    assert_eq!(run(&mut machine, call(1, &[(1, 400), (2, 500)])), ["report", "find 1 of 1"]);
    let indirect = Site { id: SiteId { address: 0x30 }, kind: SiteKind::Indirect, refused: None };
    let effects = ["measure 2: 1<0@10 2<0@20 3<1@30 4<2@30"];
    assert_eq!(run(&mut machine, sites(1, &[indirect])), effects);
    let target = Event::Target { parent: NodeId(2), site: SiteId { address: 0x30 }, callee: FunctionId(9) };
    let effects = ["measure 3: 1<0@10 2<0@20 3<1@30 4<2@30 5<1@30 6<2@30"];
    assert_eq!(run(&mut machine, target), effects);
}

#[test]
fn in_manual_mode_decisions_wait_for_the_user() {
    let mut machine = machine(Parameters { mode: Mode::Manual, ..two_calls() });
    assert_eq!(machine.handle(Event::Decide), Err(EventError::NoCalls));
    run(&mut machine, Event::Peak(ALL));
    run(&mut machine, sites(7, &[site(0x10, 1)]));
    assert_eq!(machine.handle(Event::Decide), Err(EventError::NoCalls));
    for _ in 0..50 {
        assert_eq!(run(&mut machine, call(1, &[(1, 900)])), [""; 0]);
    }
    assert_eq!(machine.calls_to_decision(), None);
    assert_eq!(run(&mut machine, Event::Decide), ["report", "find 1 of 1"]);
    assert_eq!((machine.decisions()[0].calls, machine.decisions()[0].votes), (50, 50));
    let leaf = Event::Sites { function: FunctionId(1), sites: Err(NoSites::Leaf) };
    assert_eq!(run(&mut machine, leaf), ["remove [1]", "RootCauseFound"]);
}

#[test]
fn a_decision_may_be_asked_for_early() {
    let mut machine = machine(two_calls());
    run(&mut machine, Event::Peak(ALL));
    run(&mut machine, sites(7, &[site(0x10, 1)]));
    run(&mut machine, call(1, &[(1, 900)]));
    assert_eq!(run(&mut machine, Event::Decide), ["report", "find 1 of 1"]);
}

#[test]
fn a_stop_ends_all_paths_and_removes_all_probes() {
    let mut machine = machine(two_calls());
    run(&mut machine, Event::Peak(ALL));
    run(&mut machine, sites(7, &[site(0x10, 1)]));
    assert!(!machine.root_causes()[0].is_found());
    let end = ["remove [1]", "Stopped(ProgramEnded)"];
    assert_eq!(run(&mut machine, Event::Stop(StopReason::ProgramEnded)), end);
    let causes = machine.root_causes();
    assert_eq!(causes.len(), 1);
    assert!(!causes[0].is_found() && causes[0].confidence == 0.0 && causes[0].share() == 0.0);
    let mut machine = self::machine(two_calls());
    assert_eq!(run(&mut machine, Event::Stop(StopReason::Budget)), ["Stopped(Budget)"]);
}

#[test]
fn a_chosen_function_that_is_not_called_any_more_ends_its_path() {
    let mut machine = machine(two_calls());
    run(&mut machine, Event::Peak(ALL));
    run(&mut machine, sites(7, &[site(0x10, 1)]));
    run(&mut machine, call(1, &[(1, 900)]));
    run(&mut machine, call(1, &[(1, 900)]));
    run(&mut machine, sites(1, &[site(0x30, 2)]));
    // A call in which the node takes less than half of its time counts like a call without it.
    for nodes in [&[][..], &[(1, 449)]].repeat(3) {
        assert_eq!(run(&mut machine, call(2, nodes)), [""; 0]);
    }
    run(&mut machine, call(2, &[]));
    assert_eq!(run(&mut machine, call(2, &[])), ["report", "remove [1, 2]", "Stopped(NotSeen)"]);
    assert!(!machine.root_causes()[0].is_found());
}

fn histogram(latencies: &[(u64, u64)]) -> Event {
    let mut histogram = Histogram::new(Unit::Nanoseconds);
    latencies.iter().for_each(|&(ns, calls)| (0..calls).for_each(|_| histogram.add(ns)));
    Event::Histogram(Box::new(histogram))
}

#[test]
fn the_peak_with_the_start_number_is_chosen_when_there_are_enough_calls() {
    let mut machine = machine(Parameters { start_ops: 100, start_peak: Some(2), ..two_calls() });
    assert_eq!(run(&mut machine, histogram(&[(1000, 89), (100_000, 10)])), ["report"]);
    assert_eq!(machine.f0_histogram().unwrap().calls(), 99);
    assert_eq!(run(&mut machine, histogram(&[(1000, 90), (100_000, 10)])), ["report", "find 7 of 0"]);
    assert_eq!(machine.peak(), Some(LatencyRange { from_ns: 65_536, to_ns: 131_071 }));
    assert_eq!(run(&mut machine, histogram(&[(1000, 90), (100_000, 10)])), ["report"]);
    assert_eq!(machine.handle(Event::Peak(ALL)), Err(EventError::PeakTwice));
    run(&mut machine, sites(7, &[]));
    // The latency of these calls is 1000 ns: outside the peak.
    run(&mut machine, call(1, &[]));
    assert_eq!((machine.calls().outside_peak, machine.calls().used), (1, 0));
}

#[test]
fn a_peak_that_is_not_there_ends_the_search() {
    let mut machine = machine(Parameters { start_ops: 10, start_peak: Some(2), ..two_calls() });
    let end = ["report", "Stopped(NoSuchPeak { asked: 2, peaks: 1 })"];
    assert_eq!(run(&mut machine, histogram(&[(1000, 10)])), end);
}

#[test]
fn without_a_start_peak_the_user_chooses() {
    let mut machine = machine(two_calls());
    assert_eq!(run(&mut machine, histogram(&[(1000, 5000)])), ["report"]);
    assert_eq!(machine.status(), Status::Counting);
    let empty = LatencyRange { from_ns: 2, to_ns: 1 };
    assert_eq!(machine.handle(Event::Peak(empty)), Err(EventError::EmptyPeak(empty)));
    assert_eq!(run(&mut machine, Event::Peak(LatencyRange { from_ns: 2, to_ns: 2 })), ["find 7 of 0"]);
    assert_eq!(machine.handle(Event::Resume), Err(EventError::NotResuming));
}

#[test]
fn events_that_cannot_be_are_errors_and_change_nothing() {
    let mut machine = machine(two_calls());
    let error = |machine: &mut Drilldown, event: Event| {
        let before = machine.clone();
        let error = machine.handle(event).unwrap_err();
        assert_eq!(*machine, before);
        error.to_string()
    };
    let cycles = Event::Histogram(Box::new(Histogram::new(Unit::Cycles)));
    assert_eq!(error(&mut machine, cycles), "the histogram counts cycles; a drill-down needs nanoseconds");
    assert_eq!(error(&mut machine, Event::Resume), "there is no save to go on with");
    assert_eq!(error(&mut machine, sites(7, &[])), "the call sites of function 7 were not asked for");
    run(&mut machine, Event::Peak(ALL));
    let twice = sites(7, &[site(0x10, 1), site(0x10, 2)]);
    assert_eq!(error(&mut machine, twice), "two call sites have the address 0x10");
    run(&mut machine, sites(7, &[site(0x10, 1), site(0x20, 2)]));
    let again = sites(7, &[site(0x10, 1)]);
    assert_eq!(error(&mut machine, again), "the call sites of function 7 were not asked for");
    let target = |parent| Event::Target {
        parent: NodeId(parent),
        site: SiteId { address: 0x10 },
        callee: FunctionId(3),
    };
    assert_eq!(error(&mut machine, target(9)), "there is no node 9");
    assert_eq!(error(&mut machine, target(0)), "node 0 has no indirect call site at 0x10");
    let refused = |node| Event::Refused { node: NodeId(node), refusal: Refusal::Unsafe };
    assert_eq!(error(&mut machine, refused(9)), "there is no node 9");
    assert_eq!(error(&mut machine, refused(0)), "node 0 is not measured");
    run(&mut machine, refused(1));
    assert_eq!(error(&mut machine, refused(1)), "node 1 is not measured");
    assert_eq!(machine.tree()[1].refused, Some(Refusal::Unsafe));
    assert_eq!(
        error(&mut machine, Event::Decide),
        "no call within the peak has been measured since the last decision"
    );
    let parameters = Parameters { max_depth: 0, ..Parameters::default() };
    let error = Drilldown::new(F0, parameters, ProbeCost::default()).unwrap_err();
    assert!(matches!(error, ParameterError::Range { key: "max_depth", .. }));
}

#[test]
fn absurd_times_are_no_panic() {
    let cost = ProbeCost { inside_ns: u64::MAX, outside_ns: u64::MAX };
    let mut machine = Drilldown::new(F0, two_calls(), cost).unwrap();
    run(&mut machine, Event::Peak(ALL));
    run(&mut machine, sites(7, &[site(0x10, 1), site(0x20, 2)]));
    let own =
        OwnTime { blocked_ns: u64::MAX, preempted_ns: u64::MAX, stolen_ns: u64::MAX, interrupts: Vec::new() };
    let node = |node, ns, count| NodeRecord {
        node: NodeId(node),
        max_ns: ns,
        sum_ns: 0,
        count,
        own: own.clone(),
        cost: None,
    };
    for _ in 0..10 {
        let nodes = vec![node(2, u64::MAX, 0), node(1, u64::MAX, u64::MAX), node(1, 0, 1), node(0, 0, 0)];
        let record = CallRecord { epoch: Epoch(u32::MAX), latency_ns: u64::MAX, nodes, overflowed: false };
        machine.handle(Event::Call(record)).unwrap();
    }
    machine.handle(Event::Lost { calls: u64::MAX }).unwrap();
    machine.handle(Event::Lost { calls: u64::MAX }).unwrap();
    machine.root_causes();
}

#[test]
fn one_thread_may_end_a_call_that_began_before_the_last_measurement() {
    let drawing = Drawing::new("f0 10us\n  a 20us\n    b 900us\n  c 30us");
    let mut driver = drawing.driver(two_calls(), ProbeCost::default());
    driver.handle(Event::Peak(ALL));
    let old = driver.probes.clone();
    driver.call(&drawing.call(0));
    driver.call(&drawing.call(1));
    assert!(driver.probes.epoch > old.epoch);
    // Under the old probes, all of a's time would be its own.
    for _ in 0..10 {
        driver.call_under(&drawing.call(2), &old);
    }
    assert_eq!(driver.machine.calls().outdated, 10);
    drawing.run_on(&mut driver, 3, 20);
    assert_eq!(driver.machine.root_causes()[0].path.len(), 3);
}
