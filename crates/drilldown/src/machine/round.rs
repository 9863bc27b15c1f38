//! Rounds: the calls from one decision to the next, and the nodes measured meanwhile.
//!
//! A round examines as many chosen nodes as fit in `max_nodes`, all in the same calls (Traeger 2008, section 3.6). If
//! the callees of a single node do not fit, the node has a round for itself, in batches: each batch is measured for
//! `decision_calls` calls within the peak; then the callees with the largest mean latencies, as many as fit, are
//! measured together for the vote. The others keep their means: these are taken off the node's own latency, and the
//! decision names them. (The paper measures basic blocks instead, section 3.9.)

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::{Drilldown, MAX_TARGETS};
use crate::answer::{End, StopReason};
use crate::contributor::Contributor;
use crate::decision::Batch;
use crate::effect::{Effect, MeasuredNode, Measurement};
use crate::event::{
    CallRecord, Epoch, FunctionId, NoSites, NodeId, ProbeCost, Refusal, Site, SiteId, SiteKind,
};
use crate::latencies::CallTimes;
use crate::tally::Tally;
use crate::tree::{Full, NodeState, Tree};

/// The number of votes below which a decision rests on few calls.
pub(super) const FEW_CALLS: u64 = 10;

/// The maximum length of a round in which a node has few votes, in multiples of `decision_calls`.
const MAX_STRETCH: u64 = 4;

/// The calls from one decision to the next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Round {
    /// The epoch from which on calls count.
    pub since: Epoch,
    /// The votes on each examined node.
    pub tallies: BTreeMap<NodeId, Tally>,
    /// The measured callees of each examined node.
    pub callees: BTreeMap<NodeId, Vec<NodeId>>,
    /// The calls within the peak.
    pub calls: u64,
    /// The calls within the peak, or outside, only because of the probes' time.
    pub shifted: u64,
    /// The overflowed or lost records.
    pub missing: u64,
    /// The batches, if the callees of the round's only node do not fit.
    pub batches: Option<Batches>,
    /// The latency below which a node's call says nothing about the reason for its choice, ns.
    floors: BTreeMap<NodeId, u64>,
    /// The epoch in which an indirect site's last new target joined, by the node for the site's other targets.
    joined: BTreeMap<NodeId, Epoch>,
    /// The nodes for other targets at sites with new targets that did not fit.
    pub more_targets: BTreeSet<NodeId>,
}

/// The votes in an undecided round, for another run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedRound {
    pub calls: u64,
    pub shifted: u64,
    pub missing: u64,
    /// The examined nodes, each with its votes and its measured callees.
    pub nodes: Vec<(NodeId, Tally, Vec<NodeId>)>,
}

/// A node's callees, measured one batch at a time.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Batches {
    /// The callees in no batch yet.
    todo: VecDeque<NodeId>,
    /// The mean of the longest call to each measured callee, over the calls with a vote, ns.
    means: BTreeMap<NodeId, u64>,
    /// The measured batches.
    pub done: Vec<Batch>,
    /// The callees without a vote, with their means, the largest first; empty before the vote.
    pub left_out: Vec<(NodeId, u64)>,
    /// The part of their means without a node in the vote, ns.
    unseen_ns: u64,
    /// Whether the calls are for the vote.
    voting: bool,
}

impl Round {
    /// The votes, except in a batch or in the vote behind batches.
    pub fn save(&self) -> Option<SavedRound> {
        let nodes = self.tallies.iter().map(|(&node, tally)| {
            (node, tally.clone(), self.callees.get(&node).cloned().unwrap_or_default())
        });
        let (calls, shifted, missing) = (self.calls, self.shifted, self.missing);
        self.batches.is_none().then(|| SavedRound { calls, shifted, missing, nodes: nodes.collect() })
    }

    /// Goes on with another run's votes, if they are on the same nodes and callees.
    fn resume(&mut self, saved: SavedRound) -> bool {
        let callees = saved.nodes.iter().map(|(node, _, callees)| (*node, callees.clone()));
        // A batch has fewer callees than its node, so that it is never the same.
        if callees.collect::<BTreeMap<_, _>>() != self.callees {
            return false;
        }
        (self.calls, self.shifted, self.missing) = (saved.calls, saved.shifted, saved.missing);
        self.tallies = saved.nodes.into_iter().map(|(node, tally, _)| (node, tally)).collect();
        true
    }

    /// Whether a call met a target that joined only later. The target's time counts in the wrong place: the call has no
    /// vote.
    pub fn is_outdated(&self, record: &CallRecord) -> bool {
        let met = |node| self.joined.get(node).is_some_and(|&joined| record.epoch < joined);
        record.epoch < self.since || record.nodes.iter().any(|it| met(&it.node))
    }

    /// Whether there are enough votes for a decision.
    pub fn is_full(&self, decision_calls: u64) -> bool {
        let is_measuring = self.batches.as_ref().is_some_and(|batches| !batches.voting);
        let enough = self.tallies.values().all(|tally| tally.calls >= decision_calls.min(FEW_CALLS));
        let last = self.calls >= decision_calls.saturating_mul(MAX_STRETCH);
        self.calls >= decision_calls && (enough || last || is_measuring)
    }

    /// Counts a call to f₀ within the peak.
    ///
    /// The paper counts it for all nodes. Here it has a vote on a node only if the node took at least half of its time
    /// when chosen: where two causes make one peak, a call with one cause says nothing about the other.
    pub fn add(&mut self, times: &CallTimes, tree: &mut Tree, cost: ProbeCost) {
        self.calls += 1;
        let left_out_ns = self.batches.as_ref().map_or(0, |batches| batches.unseen_ns);
        for (&node, tally) in &mut self.tallies {
            let callees = self.callees.get(&node).map_or(&[][..], Vec::as_slice);
            let floor = self.floors.get(&node).copied().unwrap_or(0);
            if times.get(node).is_none_or(|times| times.latency_ns < floor) {
                continue;
            }
            let Some(latencies) = times.of(node, callees, left_out_ns, cost) else { continue };
            tally.add(&latencies, times);
            for &callee in callees.iter().filter(|&&it| latencies.largest.contains(&Contributor::Callee(it)))
            {
                if let (Some(latencies), Some(node)) = (times.of(callee, &[], 0, cost), tree.get_mut(callee))
                {
                    node.unexamined.add(&latencies, times);
                }
            }
        }
    }
}

impl Drilldown {
    /// Goes on where nothing is measured: asks for call sites, begins a round, or ends the search.
    pub(super) fn advance(&mut self, effects: &mut Vec<Effect>) {
        let mut known = true;
        for &node in &self.waiting {
            let Some(function) = self.tree.get(node).and_then(|node| node.callee) else { continue };
            known &= self.sites.contains_key(&function);
            if self.asked.insert(function) {
                effects.push(Effect::FindSites { node, function });
            }
        }
        if !known {
            return;
        }
        for node in std::mem::take(&mut self.waiting) {
            match self.no_sites(node) {
                // No caller measured f₀, or a node from a save: their own calls are still to be seen.
                Some(reason) if self.tree.get(node).is_some_and(|node| node.unexamined.calls > 0) => {
                    self.end_unexamined(node, End::NoCallees(reason));
                }
                _ => self.waiting.push_back(node),
            }
        }
        if self.waiting.is_empty() {
            self.finish(None, effects);
        } else if self.begin_round(effects).is_err() {
            self.finish(Some(StopReason::TreeFull), effects);
        }
    }

    /// The reason why no callee of a node can be measured, if none can.
    pub(super) fn no_sites(&self, node: NodeId) -> Option<NoSites> {
        let children = self.children_by_site(node);
        match self.sites.get(&self.tree.get(node)?.callee?)? {
            Err(reason) => Some(*reason),
            Ok(sites) => {
                // All nodes at the site are refused, if there are any.
                let refusal = |site: &Site| {
                    let nodes = children.get(&site.id).map_or(&[][..], Vec::as_slice);
                    let refused =
                        nodes.iter().find_map(|it| *it).filter(|_| nodes.iter().all(Option::is_some));
                    site.refused.or(refused)
                };
                let refusals: Option<Vec<Refusal>> = sites.iter().map(refusal).collect();
                refusals?.first().copied().map(NoSites::Refused)
            }
        }
    }

    /// The number of unmeasurable call sites in a node.
    pub(super) fn sites_not_measured(&self, node: NodeId) -> u64 {
        let function = self.tree.get(node).and_then(|node| node.callee);
        let Some(Ok(sites)) = function.and_then(|function| self.sites.get(&function)) else { return 0 };
        let children = self.children_by_site(node);
        let refused = |site: &&Site| {
            let mut nodes = children.get(&site.id).into_iter().flatten();
            site.refused.is_some() || nodes.any(Option::is_some)
        };
        sites.iter().filter(refused).count() as u64
    }

    /// The refusals of a node's callees, by their sites.
    fn children_by_site(&self, node: NodeId) -> BTreeMap<SiteId, Vec<Option<Refusal>>> {
        let mut by_site: BTreeMap<SiteId, Vec<Option<Refusal>>> = BTreeMap::new();
        let children = self.tree.get(node).map_or(&[][..], |node| node.children.as_slice());
        for child in children.iter().filter_map(|&child| self.tree.get(child)) {
            if let Some((site, _)) = child.site {
                by_site.entry(site).or_default().push(child.refused);
            }
        }
        by_site
    }

    /// Makes nodes for a node's callees, where they are missing.
    fn make_children(&mut self, node: NodeId) -> Result<(), Full> {
        let Some(function) = self.tree.get(node).and_then(|node| node.callee) else { return Ok(()) };
        let sites = match self.sites.get(&function) {
            Some(Ok(sites)) => sites.as_slice(),
            _ => &[],
        };
        let kinds: BTreeMap<SiteId, SiteKind> = sites.iter().map(|site| (site.id, site.kind)).collect();
        let mut known = BTreeSet::new();
        for child in self.tree.get(node).map(|node| node.children.clone()).unwrap_or_default() {
            let Some(child) = self.tree.get_mut(child) else { continue };
            match child.site {
                Some((site, kind)) if kinds.get(&site) == Some(&kind) => {
                    known.insert((site, child.callee));
                }
                // A save may have callees that the code has no longer.
                _ => child.refused = Some(Refusal::Gone),
            }
        }
        for site in sites.iter().filter(|site| site.refused.is_none()) {
            let targets = self.targets.get(&(function, site.id)).into_iter().flatten();
            let targets = targets.filter(|_| site.kind.callee().is_none()).map(|&target| Some(target));
            for callee in std::iter::once(site.kind.callee()).chain(targets) {
                if !known.contains(&(site.id, callee)) {
                    self.tree.add(node, site.id, site.kind, callee)?;
                }
            }
        }
        Ok(())
    }

    /// A node's measurable callees.
    fn measurable(&self, node: NodeId) -> Vec<NodeId> {
        let children = self.tree.get(node).map_or(&[][..], |node| node.children.as_slice());
        let can = |child: &NodeId| self.tree.get(*child).is_some_and(|child| child.refused.is_none());
        children.iter().copied().filter(can).collect()
    }

    /// The nodes to be measured to reach a node, itself included, f₀ not.
    fn way(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.tree.path(node).into_iter().skip(1)
    }

    fn begin_round(&mut self, effects: &mut Vec<Effect>) -> Result<(), Full> {
        let mut round = Round {
            since: self.epoch,
            tallies: BTreeMap::new(),
            callees: BTreeMap::new(),
            calls: 0,
            shifted: 0,
            missing: 0,
            batches: None,
            floors: BTreeMap::new(),
            joined: BTreeMap::new(),
            more_targets: BTreeSet::new(),
        };
        let mut nodes = BTreeSet::new();
        while let Some(&node) = self.waiting.front() {
            self.make_children(node)?;
            let mut callees = self.measurable(node);
            let with: BTreeSet<NodeId> =
                nodes.iter().copied().chain(self.way(node)).chain(callees.iter().copied()).collect();
            let fits = with.len() <= self.parameters.max_nodes;
            if !fits && !round.tallies.is_empty() {
                break;
            }
            self.waiting.pop_front();
            if let Some(examined) = self.tree.get_mut(node) {
                examined.state = NodeState::Examined;
            }
            round.tallies.insert(node, Tally::default());
            round.floors.insert(node, self.latency_when_chosen(node) / 2);
            nodes = with;
            if !fits {
                let mut batches = Batches { todo: callees.into(), ..Batches::default() };
                callees = batches.next(self.room(node));
                round.batches = Some(batches);
            }
            round.callees.insert(node, callees);
            if round.batches.is_some() {
                break;
            }
        }
        let resumed = self.saved_round.take().is_some_and(|saved| round.resume(saved));
        self.round = Some(round);
        if resumed {
            self.begin_epoch(effects);
        } else {
            self.measure(effects);
        }
        Ok(())
    }

    /// The number of a node's callees that can be measured at a time.
    fn room(&self, node: NodeId) -> usize {
        self.parameters.max_nodes.saturating_sub(self.way(node).count()).max(1)
    }

    /// Measures the round's nodes; calls that begin from now on have votes.
    fn begin_epoch(&mut self, effects: &mut Vec<Effect>) {
        self.epoch.0 += 1;
        if let Some(round) = &mut self.round {
            round.since = self.epoch;
        }
        self.measure_round(effects);
    }

    /// Measures the round's nodes, without any votes yet.
    fn measure(&mut self, effects: &mut Vec<Effect>) {
        let Some(round) = &mut self.round else { return };
        round.calls = 0;
        round.tallies.values_mut().for_each(|tally| *tally = Tally::default());
        let callees: Vec<NodeId> = round.callees.values().flatten().copied().collect();
        for callee in callees {
            if let Some(callee) = self.tree.get_mut(callee) {
                callee.unexamined = Tally::default();
            }
        }
        self.begin_epoch(effects);
    }

    /// Has the round's nodes measured, and all others removed.
    fn measure_round(&mut self, effects: &mut Vec<Effect>) {
        let Some(round) = &self.round else { return };
        let examined = round.tallies.keys().flat_map(|&node| self.way(node));
        let nodes: BTreeSet<NodeId> = examined.chain(round.callees.values().flatten().copied()).collect();
        let measured = nodes.iter().filter_map(|&node| {
            let it = self.tree.get(node)?;
            let ((site, kind), parent) = (it.site?, it.parent?);
            Some(MeasuredNode { node, parent, site, kind, callee: it.callee })
        });
        let measurement = Measurement { epoch: self.epoch, nodes: measured.collect() };
        effects.push(Effect::Measure(measurement));
        for node in &nodes {
            self.removing.remove(node);
        }
        self.measured.extend(&nodes);
        self.keep_measured(&nodes, effects);
    }

    /// Has all measured nodes removed except the kept ones.
    pub(super) fn keep_measured(&mut self, kept: &BTreeSet<NodeId>, effects: &mut Vec<Effect>) {
        let nodes: Vec<NodeId> = self.measured.difference(kept).copied().collect();
        if !nodes.is_empty() {
            self.measured.retain(|node| kept.contains(node));
            self.removing.extend(&nodes);
            effects.push(Effect::Remove { nodes });
        }
    }

    /// Adds a target to an indirect site, given by its placeholder node, wherever the site's function is examined.
    pub(super) fn add_target(&mut self, placeholder: NodeId, callee: FunctionId, effects: &mut Vec<Effect>) {
        let Some((site, kind)) = self.tree.get(placeholder).and_then(|node| node.site) else { return };
        let Some(function) = self.function_of_caller(placeholder) else { return };
        let (mut changed, mut measured) = (false, self.measured.len());
        let examined: Vec<NodeId> =
            self.round.iter().flat_map(|round| round.tallies.keys().copied()).collect();
        for node in examined {
            if self.tree.get(node).and_then(|node| node.callee) != Some(function) {
                continue;
            }
            let Ok(new) = self.tree.add(node, site, kind, Some(callee)) else {
                self.finish(Some(StopReason::TreeFull), effects);
                return;
            };
            let Some(round) = &mut self.round else { return };
            let children = self.tree.get(node).map_or(&[][..], |node| node.children.as_slice());
            let others = children.iter().copied().find(|&child| {
                self.tree.get(child).is_some_and(|it| it.callee.is_none() && it.site == Some((site, kind)))
            });
            match &mut round.batches {
                Some(batches) if !batches.voting => batches.todo.push_back(new),
                // The new target stays with the site's other targets; if these are chosen, the node is examined again.
                _ if measured >= self.parameters.max_nodes => round.more_targets.extend(others),
                _ => {
                    round.joined.extend(others.map(|others| (others, Epoch(self.epoch.0 + 1))));
                    round.callees.entry(node).or_default().push(new);
                    (changed, measured) = (true, measured + 1);
                }
            }
        }
        if changed {
            self.epoch.0 += 1;
            self.measure_round(effects);
        }
    }

    /// For each target of a node's indirect sites, the node for all other targets.
    fn others_of_sites(&self, node: NodeId) -> BTreeMap<NodeId, NodeId> {
        let children = self.tree.get(node).map_or(&[][..], |node| node.children.as_slice());
        let children = || children.iter().filter_map(|&id| Some((id, self.tree.get(id)?)));
        let others = children().filter(|(_, child)| child.callee.is_none());
        let others: BTreeMap<SiteId, NodeId> =
            others.filter_map(|(id, child)| Some((child.site?.0, id))).collect();
        let targets = children().filter(|(_, child)| child.callee.is_some());
        targets.filter_map(|(id, child)| Some((id, *others.get(&child.site?.0)?))).collect()
    }

    fn function_of_caller(&self, node: NodeId) -> Option<FunctionId> {
        self.tree.get(self.tree.get(node)?.parent?)?.callee
    }

    /// Ends a batch or a round. A round's calls decide on its nodes.
    pub(super) fn end_round(&mut self, effects: &mut Vec<Effect>) {
        let Some(mut round) = self.round.take() else { return };
        let node = round.tallies.keys().next().copied().unwrap_or_default();
        let room = self.room(node);
        if let Some(batches) = round.batches.as_mut().filter(|batches| !batches.voting) {
            let measured = round.callees.remove(&node).unwrap_or_default();
            let tally = round.tallies.get(&node).cloned().unwrap_or_default();
            batches.end_batch(measured, &tally, round.calls);
            let next = if batches.todo.is_empty() {
                batches.vote(room, &self.others_of_sites(node))
            } else {
                batches.next(room)
            };
            round.callees.insert(node, next);
            self.round = Some(round);
            effects.push(Effect::Report);
            self.measure(effects);
            return;
        }
        self.decide(round, effects);
        effects.push(Effect::Report);
        // Unneeded probes go now, the probes on the paths to chosen nodes stay.
        let kept = self.waiting.iter().flat_map(|&node| self.way(node)).collect();
        self.advance(effects);
        if self.round.is_none() && !self.is_finished() {
            self.keep_measured(&kept, effects);
        }
    }
}

impl Batches {
    fn next(&mut self, room: usize) -> Vec<NodeId> {
        self.todo.drain(..room.min(self.todo.len())).collect()
    }

    fn end_batch(&mut self, nodes: Vec<NodeId>, tally: &Tally, calls: u64) {
        for &node in &nodes {
            let votes = tally.contributors.get(&Contributor::Callee(node));
            self.means.insert(node, votes.map_or(0, |votes| votes.mean_ns(tally.calls)));
        }
        self.done.push(Batch { nodes, calls });
    }

    /// The callees with a vote: the largest means.
    ///
    /// `others` has, for each target of an indirect site, the node for all other targets. This node counts the calls to
    /// the left-out targets, so that it has to be in the vote where they take long together.
    fn vote(&mut self, room: usize, others: &BTreeMap<NodeId, NodeId>) -> Vec<NodeId> {
        let ordered = |means: &BTreeMap<NodeId, u64>| {
            let mut order: Vec<NodeId> = means.keys().copied().collect();
            order.sort_by_key(|node| (std::cmp::Reverse(means.get(node).copied()), *node));
            order
        };
        let mut with_targets = self.means.clone();
        for target in ordered(&self.means).iter().skip(room) {
            let ns = self.means.get(target).copied().unwrap_or(0);
            let of_others = others.get(target).and_then(|others| with_targets.get_mut(others));
            if let Some(of_others) = of_others {
                *of_others = of_others.saturating_add(ns);
            }
        }
        let mut order = ordered(&with_targets);
        let left_out = order.split_off(room.min(order.len()));
        let mean = |node: &NodeId| self.means.get(node).copied().unwrap_or(0);
        let unseen = left_out.iter().filter(|node| others.get(node).is_none_or(|it| !order.contains(it)));
        self.unseen_ns = unseen.map(mean).fold(0, u64::saturating_add);
        self.left_out = left_out.iter().map(|node| (*node, mean(node))).collect();
        self.left_out.sort_by_key(|&(node, ns)| (std::cmp::Reverse(ns), node));
        self.voting = true;
        order
    }
}

const _: () = assert!(MAX_TARGETS < crate::parameters::MAX_NODES);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Parameters;

    #[test]
    fn the_targets_of_a_site_have_the_node_of_its_others() {
        let mut machine = Drilldown::new(FunctionId(0), Parameters::default(), ProbeCost::default()).unwrap();
        for (site, kind, callee) in [
            (1, SiteKind::Indirect, None),
            (2, SiteKind::Direct(FunctionId(9)), Some(9)),
            (3, SiteKind::IndirectTail, None),
            (3, SiteKind::IndirectTail, Some(8)),
            (1, SiteKind::Indirect, Some(7)),
            (1, SiteKind::Indirect, Some(8)),
        ] {
            let callee = callee.map(FunctionId);
            machine.tree.add(NodeId::F0, SiteId { address: site }, kind, callee).unwrap();
        }
        let others = [(4, 3), (5, 1), (6, 1)].map(|(target, others)| (NodeId(target), NodeId(others)));
        assert_eq!(machine.others_of_sites(NodeId::F0), others.into());
        assert_eq!(machine.others_of_sites(NodeId(1)), BTreeMap::new());
    }

    #[test]
    fn the_node_of_other_targets_has_a_vote_where_those_without_one_take_long() {
        // 1 has the other targets at the site of 2, 3 and 4; 5 is a callee at another site.
        let means = [(1, 10), (2, 50), (3, 40), (4, 30), (5, 35)];
        let others = [2, 3, 4].map(|target| (NodeId(target), NodeId(1))).into();
        let vote = |room, others: &BTreeMap<NodeId, NodeId>| {
            let means = means.iter().map(|&(node, ns)| (NodeId(node), ns)).collect();
            let mut batches = Batches { means, ..Batches::default() };
            let order: Vec<u32> = batches.vote(room, others).iter().map(|node| node.0).collect();
            let left_out: Vec<u32> = batches.left_out.iter().map(|(node, _)| node.0).collect();
            (order, left_out, batches.unseen_ns)
        };
        // With 30 ns from 4 it has 40 ns; the time of 3 and 4 is then its own.
        assert_eq!(vote(2, &others), (vec![2, 1], vec![3, 5, 4], 35));
        assert_eq!(vote(2, &BTreeMap::new()), (vec![2, 3], vec![5, 4, 1], 75));
        // Without 2 it has 80 ns.
        assert_eq!(vote(1, &others), (vec![1], vec![2, 3, 5, 4], 35));
        // 6 is in no batch, so that nothing counts the calls to 2.
        let elsewhere = BTreeMap::from([(NodeId(2), NodeId(6))]);
        assert_eq!(vote(1, &elsewhere), (vec![2], vec![3, 5, 4, 1], 115));
        let elsewhere = BTreeMap::from([(NodeId(3), NodeId(6))]);
        assert_eq!(vote(1, &elsewhere), (vec![2], vec![3, 5, 4, 1], 115));
    }
}
