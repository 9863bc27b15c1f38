//! The arithmetic of one call to f₀: the latency of each contributor to a node.
//!
//! Latencies are additive (Traeger 2008, chapter 3): a function's own latency is its latency less its callees'. The
//! text of equation 3.1 lost its minuend; section 3.3 describes it. Each callee's *longest* call is taken away, so that
//! a loop with many short calls stays with the function that has the loop (section 3.4). Time that another activity
//! took from the node while it was the innermost open node is a contributor by itself (section 3.12).

use std::collections::BTreeMap;

use wakepath_distribution::bucket_of;

use crate::contributor::{Contributor, Foreign};
use crate::event::{CallRecord, NodeId, NodeRecord, OwnTime, ProbeCost};
use crate::tree::Tree;

/// A node's times within one call to f₀.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeTimes {
    /// The longest call's latency with probes, ns.
    with_probes_ns: u64,
    /// The longest call's latency without the probes' time, ns.
    pub latency_ns: u64,
    /// The latencies of all calls without the probes' time, ns.
    sum_ns: u64,
    /// The number of calls.
    pub count: u64,
    /// The time taken while the node was the innermost open node.
    own: OwnTime,
    /// The time taken from the node and the nodes below it, by its taker.
    subtree: BTreeMap<Foreign, u64>,
    /// The time that the node's probes add to a call.
    cost: ProbeCost,
    /// The probe time in all measured calls below it, ns.
    probes_below_ns: u64,
}

/// The times of all nodes in one call to f₀.
#[derive(Debug)]
pub(crate) struct CallTimes {
    nodes: BTreeMap<NodeId, NodeTimes>,
}

/// The latencies of a node's contributors in one call to f₀.
#[derive(Debug)]
pub(crate) struct Latencies {
    /// Each contributor with its latency without the probes' time, ns.
    pub contributors: Vec<(Contributor, u64)>,
    /// The contributors among the largest.
    pub largest: Vec<Contributor>,
    /// Whether `largest` depends on the probes' time.
    pub unsure: bool,
    /// The largest part of the node's own latency: its own code (`None`), or the other calls to a callee.
    pub largest_own_part: Option<NodeId>,
    /// The activity that took more than half of the node's time, anywhere below it.
    pub majority: Option<Foreign>,
    /// The time taken from the node and the nodes below it, ns.
    pub taken: BTreeMap<Foreign, u64>,
    /// The time in which the node was blocked itself, ns.
    pub blocked_ns: u64,
}

impl CallTimes {
    /// Takes the probes' time off a record. Nodes missing in the tree are passed over.
    pub fn new(record: &CallRecord, tree: &Tree, cost: ProbeCost) -> Self {
        let mut nodes: BTreeMap<NodeId, NodeTimes> = BTreeMap::new();
        for entry in record.nodes.iter().filter(|entry| tree.get(entry.node).is_some()) {
            nodes.insert(entry.node, NodeTimes::of(entry, cost));
        }
        let f0 = nodes.entry(NodeId::F0).or_default();
        (f0.with_probes_ns, f0.sum_ns, f0.count) = (record.latency_ns, record.latency_ns, 1);
        // A child has a higher number than its parent, so that each node is complete before it is added to its parent.
        let mut next = nodes.keys().next_back().copied();
        while let Some(node) = next {
            next = nodes.range(..node).next_back().map(|(&node, _)| node);
            let Some(times) = nodes.get_mut(&node) else { continue };
            times.take_probes_off(node);
            let (below, subtree) = (times.probes_ns(), times.subtree.clone());
            let Some(parent) = tree.get(node).and_then(|it| it.parent) else { continue };
            // A caller without a record passes on the time taken by its callees.
            next = next.max(Some(parent));
            let parent = nodes.entry(parent).or_default();
            parent.probes_below_ns = parent.probes_below_ns.saturating_add(below);
            for (foreign, ns) in subtree {
                add(&mut parent.subtree, foreign, ns);
            }
        }
        Self { nodes }
    }

    /// The latency of f₀ without the probes' time, ns.
    pub fn f0_ns(&self) -> u64 {
        self.nodes.get(&NodeId::F0).map_or(0, |f0| f0.latency_ns)
    }

    /// A node's times, if it was called.
    pub fn get(&self, node: NodeId) -> Option<&NodeTimes> {
        self.nodes.get(&node).filter(|times| times.count > 0)
    }

    /// A node's contributors, given its callees measured now, and the time per call taken by unmeasured callees, ns.
    /// `None` if the node was not called.
    pub fn of(
        &self,
        node: NodeId,
        callees: &[NodeId],
        left_out_ns: u64,
        cost: ProbeCost,
    ) -> Option<Latencies> {
        let times = self.get(node)?;
        let callees: Vec<(NodeId, &NodeTimes)> =
            callees.iter().filter_map(|&callee| Some((callee, self.get(callee)?))).collect();
        let foreign = times.own.foreign();
        let taken = total(foreign.values().copied());

        let maxima = total(callees.iter().map(|(_, callee)| callee.latency_ns));
        let own = times.latency_ns.saturating_sub(maxima).saturating_sub(taken);
        let mut contributors = vec![(Contributor::Itself, own.saturating_sub(left_out_ns))];
        contributors.extend(callees.iter().map(|&(id, callee)| (Contributor::Callee(id), callee.latency_ns)));
        contributors.extend(foreign.iter().map(|(&foreign, &ns)| (Contributor::Foreign(foreign), ns)));

        let maxima = total(callees.iter().map(|(_, callee)| callee.with_probes_ns));
        let own_with_probes = times.with_probes_ns.saturating_sub(maxima).saturating_sub(taken);
        let mut with_probes = vec![(Contributor::Itself, own_with_probes.saturating_sub(left_out_ns))];
        with_probes
            .extend(callees.iter().map(|&(id, callee)| (Contributor::Callee(id), callee.with_probes_ns)));
        with_probes.extend(foreign.iter().map(|(&foreign, &ns)| (Contributor::Foreign(foreign), ns)));

        let largest = largest(&contributors);
        // Probe costs are known only roughly: where the cost exceeds the time left, so may its error.
        let mostly_probes = |&(contributor, ns): &(Contributor, u64)| {
            let raw = with_probes.iter().find(|(other, _)| *other == contributor).map_or(ns, |(_, ns)| *ns);
            largest.contains(&contributor) && raw.saturating_sub(ns) > ns
        };
        let probed = cost != ProbeCost::default();
        let unsure =
            probed && (self::largest(&with_probes) != largest || contributors.iter().any(mostly_probes));
        let majority = times.subtree.iter().find(|(_, ns)| **ns > times.latency_ns / 2);
        Some(Latencies {
            largest_own_part: largest_own_part(own.saturating_sub(left_out_ns), times.count, &callees),
            majority: majority.map(|(&foreign, _)| foreign),
            taken: times.subtree.clone(),
            blocked_ns: times.own.blocked_ns,
            contributors,
            largest,
            unsure,
        })
    }
}

impl NodeTimes {
    fn of(record: &NodeRecord, usual: ProbeCost) -> Self {
        Self {
            with_probes_ns: record.max_ns,
            latency_ns: record.max_ns,
            sum_ns: record.sum_ns.max(record.max_ns),
            count: record.count.max(1),
            subtree: record.own.foreign(),
            own: record.own.clone(),
            cost: record.cost.unwrap_or(usual),
            probes_below_ns: 0,
        }
    }

    /// The probe time in all calls and in the calls below them, ns.
    fn probes_ns(&self) -> u64 {
        let both = self.cost.inside_ns.saturating_add(self.cost.outside_ns);
        both.saturating_mul(self.count).saturating_add(self.probes_below_ns)
    }

    fn take_probes_off(&mut self, node: NodeId) {
        // f₀'s probes were there when its peak was found: their time is part of the peak.
        let inside = if node == NodeId::F0 { 0 } else { self.cost.inside_ns };
        let per_call = self.probes_below_ns.checked_div(self.count).unwrap_or(0);
        self.latency_ns = self.with_probes_ns.saturating_sub(inside.saturating_add(per_call));
        let all = inside.saturating_mul(self.count).saturating_add(self.probes_below_ns);
        self.sum_ns = self.sum_ns.saturating_sub(all).max(self.latency_ns);
    }
}

impl OwnTime {
    /// The time taken from the node, by its taker; without entries of 0 ns.
    fn foreign(&self) -> BTreeMap<Foreign, u64> {
        let mut foreign = BTreeMap::new();
        add(&mut foreign, Foreign::Preemption, self.preempted_ns);
        add(&mut foreign, Foreign::Steal, self.stolen_ns);
        for interrupt in &self.interrupts {
            add(&mut foreign, Foreign::Interrupt(interrupt.number), interrupt.ns);
        }
        foreign
    }
}

fn add(times: &mut BTreeMap<Foreign, u64>, foreign: Foreign, ns: u64) {
    if ns > 0 {
        let time = times.entry(foreign).or_default();
        *time = time.saturating_add(ns);
    }
}

fn total(ns: impl Iterator<Item = u64>) -> u64 {
    ns.fold(0, u64::saturating_add)
}

/// The contributors with the same logarithm as the largest latency (section 3.3), or at most an eighth below it: two
/// equal times near a bucket's bound would else take turns.
fn largest(contributors: &[(Contributor, u64)]) -> Vec<Contributor> {
    let most = contributors.iter().map(|(_, ns)| *ns).max().unwrap_or(0);
    contributors
        .iter()
        .filter(|(contributor, ns)| {
            // Nothing contributed anything: the rest is below the clock's resolution, and the node's own.
            if most == 0 {
                *contributor == Contributor::Itself
            } else {
                *ns > 0 && (bucket_of(*ns) == bucket_of(most) || *ns >= most - most / 8)
            }
        })
        .map(|(contributor, _)| *contributor)
        .collect()
}

/// The largest part of a node's own latency: the calls to one callee beside its longest, or the node's code (`None`).
fn largest_own_part(own_ns: u64, count: u64, callees: &[(NodeId, &NodeTimes)]) -> Option<NodeId> {
    let others = callees.iter().map(|&(id, callee)| {
        // A node called several times divided them between its calls: their mean is taken.
        let per_call = callee.sum_ns / count.max(1);
        (id, per_call.saturating_sub(callee.latency_ns))
    });
    let others: Vec<(NodeId, u64)> = others.collect();
    let code = own_ns.saturating_sub(total(others.iter().map(|(_, ns)| *ns)));
    let (callee, ns) = others.into_iter().max_by_key(|&(id, ns)| (ns, std::cmp::Reverse(id)))?;
    (ns > code).then_some(callee)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Epoch, FunctionId, InterruptTime, SiteId, SiteKind};

    const COST: ProbeCost = ProbeCost { inside_ns: 10, outside_ns: 5 };
    const FREE: ProbeCost = ProbeCost { inside_ns: 0, outside_ns: 0 };

    /// f₀ calls 1 and 2, and 1 calls 3.
    fn tree() -> Tree {
        let mut tree = Tree::new(FunctionId(0));
        for (parent, callee) in [(0, 1), (0, 2), (1, 3)] {
            let kind = SiteKind::Direct(FunctionId(callee));
            tree.add(NodeId(parent), SiteId { address: callee.into() }, kind, kind.callee()).unwrap();
        }
        tree
    }

    /// Longest call, sum of all, number.
    fn node(node: u32, max_ns: u64, sum_ns: u64, count: u64) -> NodeRecord {
        NodeRecord { node: NodeId(node), max_ns, sum_ns, count, own: OwnTime::default(), cost: None }
    }

    fn times(latency_ns: u64, nodes: &[NodeRecord], cost: ProbeCost) -> CallTimes {
        let record = CallRecord { epoch: Epoch(1), latency_ns, nodes: nodes.to_vec(), overflowed: false };
        CallTimes::new(&record, &tree(), cost)
    }

    fn of(times: &CallTimes, node: u32, callees: &[u32], cost: ProbeCost) -> Latencies {
        let callees: Vec<NodeId> = callees.iter().map(|&callee| NodeId(callee)).collect();
        times.of(NodeId(node), &callees, 0, cost).unwrap()
    }

    fn callee(node: u32) -> Contributor {
        Contributor::Callee(NodeId(node))
    }

    #[test]
    fn a_functions_own_latency_is_its_latency_less_the_longest_call_of_each_callee() {
        let times = times(1000, &[node(1, 400, 700, 3), node(2, 100, 100, 1)], FREE);
        let latencies = of(&times, 0, &[1, 2], FREE);
        let expected = [(Contributor::Itself, 500), (callee(1), 400), (callee(2), 100)];
        assert_eq!(latencies.contributors, expected);
        // 500 ns and 400 ns are in the bucket from 256 to 511 ns.
        assert_eq!(latencies.largest, [Contributor::Itself, callee(1)]);
        // 300 ns are the other calls to 1, and 200 ns the function's code.
        assert_eq!(latencies.largest_own_part, Some(NodeId(1)));
        assert!(!latencies.unsure);
        // An unmeasured callee belongs to the function, also if a record names it.
        assert_eq!(of(&times, 0, &[2], FREE).contributors[0], (Contributor::Itself, 900));
        assert!(times.of(NodeId(3), &[], 0, FREE).is_none());
    }

    #[test]
    fn the_largest_share_a_power_of_two_or_are_an_eighth_apart() {
        let of = |times: &[u64]| {
            let numbered: Vec<_> = times.iter().zip(1..).map(|(&ns, node)| (callee(node), ns)).collect();
            largest(&numbered).len()
        };
        for (times, expected) in [
            (&[1024, 1024][..], 2),
            (&[2047, 1024], 2),
            (&[1024, 896], 2),
            (&[1024, 895], 1),
            (&[1100, 963, 962], 2),
            (&[1024, 0], 1),
        ] {
            assert_eq!(of(times), expected, "{times:?}");
        }
    }

    #[test]
    fn a_loop_is_the_largest_part_if_it_takes_more_than_the_code() {
        let part =
            |latency| of(&times(latency, &[node(1, 200, 600, 9)], FREE), 0, &[1], FREE).largest_own_part;
        assert_eq!((part(999), part(1000)), (Some(NodeId(1)), None));
    }

    #[test]
    fn the_time_of_probes_is_taken_off_where_it_counts() {
        // A call to 1 with two calls to 3, and a call to 2: four calls, 15 ns each.
        let nodes = [node(1, 400, 400, 1), node(3, 100, 150, 2), node(2, 50, 50, 1)];
        let times = times(1000, &nodes, COST);
        assert_eq!(times.f0_ns(), 1000 - 4 * 15);
        let latency = |node| times.get(NodeId(node)).unwrap().latency_ns;
        assert_eq!((latency(1), latency(2), latency(3)), (400 - 10 - 2 * 15, 50 - 10, 100 - 10));
        assert_eq!(of(&times, 0, &[1, 2], COST).contributors[0], (Contributor::Itself, 940 - 360 - 40));
        // 1 has 360 ns: 90 ns in the longest call to 3, and 40 ns in the other.
        let latencies = of(&times, 1, &[3], COST);
        assert_eq!(latencies.contributors, [(Contributor::Itself, 270), (callee(3), 90)]);
        assert_eq!(latencies.largest_own_part, None);
    }

    #[test]
    fn each_node_has_the_cost_of_its_own_probes() {
        // 3 is single-stepped: two calls take 2 × 250 ns longer, 2 × 200 ns of it inside 3.
        let stepped = Some(ProbeCost { inside_ns: 200, outside_ns: 50 });
        let below = NodeRecord { cost: stepped, ..node(3, 300, 550, 2) };
        let times = times(2000, &[node(1, 900, 900, 1), below, node(2, 50, 50, 1)], COST);
        assert_eq!(times.f0_ns(), 2000 - 2 * 15 - 2 * 250);
        let latency = |node| times.get(NodeId(node)).unwrap().latency_ns;
        assert_eq!((latency(1), latency(2), latency(3)), (900 - 10 - 2 * 250, 50 - 10, 300 - 200));
        // 390 ns: 100 ns in the longest call to 3, and 50 ns in the other.
        assert_eq!(of(&times, 1, &[3], COST).contributors, [(Contributor::Itself, 290), (callee(3), 100)]);
    }

    #[test]
    fn the_calls_below_a_node_are_those_of_one_of_its_calls() {
        let times = times(10_000, &[node(1, 1000, 4000, 4), node(3, 100, 800, 8)], COST);
        let latency = |node| times.get(NodeId(node)).unwrap().latency_ns;
        assert_eq!(latency(1), 1000 - 10 - 2 * 15);
        assert_eq!(times.f0_ns(), 10_000 - 12 * 15);
        // Each call to 1 has two calls to 3: the longest, and another which takes 90 ns as well.
        assert_eq!(of(&times, 1, &[3], FREE).largest_own_part, None);
        assert_eq!(of(&times, 0, &[1], COST).largest_own_part, None);
    }

    #[test]
    fn a_caller_without_a_record_passes_on_what_its_callees_took() {
        let mut below = node(3, 600, 600, 1);
        below.own.stolen_ns = 550;
        let times = times(1000, &[below], COST);
        assert_eq!(times.f0_ns(), 1000 - 15);
        assert!(times.get(NodeId(1)).is_none());
        let latencies = of(&times, 0, &[1, 2], COST);
        assert_eq!(latencies.taken, BTreeMap::from([(Foreign::Steal, 550)]));
        assert_eq!(latencies.majority, Some(Foreign::Steal));
    }

    #[test]
    fn what_takes_the_cpu_is_taken_off_the_functions_own_time() {
        let mut f0 = node(0, 0, 0, 0);
        f0.own.preempted_ns = 300;
        f0.own.blocked_ns = 70;
        let irq = |number, ns| InterruptTime { number, ns };
        f0.own.interrupts = vec![irq(7, 50), irq(8, 60), irq(7, 40), irq(9, 0)];
        let times = times(1000, &[f0, node(1, 200, 200, 1)], FREE);
        let latencies = of(&times, 0, &[1], FREE);
        let foreign = |foreign, ns| (Contributor::Foreign(foreign), ns);
        let expected = [
            (Contributor::Itself, 1000 - 200 - 300 - 90 - 60),
            (callee(1), 200),
            foreign(Foreign::Preemption, 300),
            foreign(Foreign::Interrupt(7), 90),
            foreign(Foreign::Interrupt(8), 60),
        ];
        assert_eq!(latencies.contributors, expected);
        assert_eq!((latencies.blocked_ns, latencies.majority), (70, None));
    }

    #[test]
    fn most_of_the_time_is_more_than_half() {
        let with = |preempted_ns| {
            let mut f0 = node(0, 0, 0, 0);
            f0.own.preempted_ns = preempted_ns;
            of(&times(1000, &[f0], FREE), 0, &[], FREE).majority
        };
        assert_eq!((with(500), with(501)), (None, Some(Foreign::Preemption)));
    }

    #[test]
    fn the_time_of_callees_without_a_vote_is_taken_off() {
        let times = times(1000, &[node(1, 400, 400, 1)], FREE);
        let latencies = times.of(NodeId(0), &[NodeId(1)], 450, FREE).unwrap();
        assert_eq!(latencies.contributors, [(Contributor::Itself, 150), (callee(1), 400)]);
        let latencies = times.of(NodeId(0), &[NodeId(1)], 9999, FREE).unwrap();
        assert_eq!(latencies.contributors[0], (Contributor::Itself, 0));
    }

    #[test]
    fn a_vote_is_unsure_if_it_depends_on_probes_or_is_of_less_than_they_took() {
        // 20 calls at 15 ns: 300 ns. With them the function has 600 ns, without 300; the callee has 510 and 500 ns.
        let calls = |own: u64| times(own + 510 + 20 * 15, &[node(1, 510, 510, 1), node(2, 1, 20, 19)], COST);
        let latencies = of(&calls(300), 0, &[1, 2], COST);
        assert_eq!(latencies.largest, [Contributor::Itself, callee(1)]);
        assert!(latencies.unsure);
        // The function has 5 ms itself: probes change nothing.
        assert!(!of(&calls(5000), 0, &[1, 2], COST).unsure);
        // The function alone has most of the time, with probes and without; but most of it is probes.
        let probes = |own: u64| times(own + 200 * 15, &[node(1, 10, 2000, 200)], COST);
        assert!(of(&probes(2600), 0, &[1], COST).unsure);
        assert!(!of(&probes(9000), 0, &[1], COST).unsure);
        // 2990 ns of probes are outside the longest call.
        assert!(of(&probes(2989), 0, &[1], COST).unsure);
        assert!(!of(&probes(2990), 0, &[1], COST).unsure);
        assert!(!of(&probes(2600), 0, &[1], FREE).unsure, "without a cost nothing is taken off");
    }

    #[test]
    fn where_nothing_took_any_time_it_is_the_functions_own() {
        let latencies = of(&times(0, &[node(1, 0, 0, 1)], FREE), 0, &[1], FREE);
        assert_eq!(latencies.largest, [Contributor::Itself]);
        // 1 ns and 0 ns share a bucket, but 0 ns are no contribution.
        let latencies = of(&times(1, &[node(1, 1, 1, 1)], FREE), 0, &[1], FREE);
        assert_eq!(latencies.largest, [callee(1)]);
    }
}
