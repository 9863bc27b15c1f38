//! The answers: root causes with their confidence and the doubts about them, and the current tree.

use super::Drilldown;
use super::round::FEW_CALLS;
use crate::answer::{Doubt, End, LevelVotes, RootCause};
use crate::contributor::Contributor;
use crate::decision::Decision;
use crate::event::{FunctionId, NoSites, NodeId, Refusal, SiteId, SiteKind};
use crate::tree::{Ending, NodeState};

/// A node in the current function tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeNode {
    /// The node's number.
    pub node: NodeId,
    /// The caller's node; `None` for f₀.
    pub parent: Option<NodeId>,
    /// The call site; `None` for f₀.
    pub site: Option<(SiteId, SiteKind)>,
    /// The function; `None` for an indirect site's targets without nodes of their own.
    pub callee: Option<FunctionId>,
    /// The number of calls from f₀ to the node.
    pub depth: u32,
    /// The node's place in the search.
    pub state: NodeState,
    /// The reason why the node cannot be measured.
    pub refused: Option<Refusal>,
    /// The votes for the node in the decision on its caller; before the decision, the votes up to now.
    pub maxcount: u64,
    /// The calls to f₀ with a vote there.
    pub votes: u64,
    /// The mean of the node's longest call over these votes, ns.
    pub mean_ns: u64,
}

impl Drilldown {
    /// Each decision with its votes, in their order in time.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// All nodes, each behind its parent.
    pub fn tree(&self) -> Vec<TreeNode> {
        let nodes = self.tree.iter().map(|(id, node)| {
            let (maxcount, votes, mean_ns) = self.votes_for(id);
            TreeNode {
                node: id,
                parent: node.parent,
                site: node.site,
                callee: node.callee,
                depth: node.depth,
                state: node.state,
                refused: node.refused,
                maxcount,
                votes,
                mean_ns,
            }
        });
        nodes.collect()
    }

    fn votes_for(&self, node: NodeId) -> (u64, u64, u64) {
        let contributor = Contributor::Callee(node);
        let Some(parent) = self.tree.get(node).and_then(|node| node.parent) else { return (0, 0, 0) };
        if let Some(tally) = self.round.as_ref().and_then(|round| round.tallies.get(&parent)) {
            let mean_ns = tally.contributors.get(&contributor).map_or(0, |it| it.mean_ns(tally.calls));
            return (tally.maxcount(contributor), tally.calls, mean_ns);
        }
        let Some(decision) = self.decision_on(parent) else { return (0, 0, 0) };
        let (maxcount, mean_ns) = decision.of(contributor).map_or((0, 0), |it| (it.maxcount, it.mean_ns));
        (maxcount, decision.votes, mean_ns)
    }

    /// The median of a node's latency in the calls that chose it, ns; 0 for f₀.
    pub(crate) fn latency_when_chosen(&self, node: NodeId) -> u64 {
        let decision = self.tree.get(node).and_then(|node| node.parent).and_then(|it| self.decision_on(it));
        decision.and_then(|it| it.of(Contributor::Callee(node))).map_or(0, |it| it.median_ns)
    }

    fn decision_on(&self, node: NodeId) -> Option<&Decision> {
        self.decisions.iter().rfind(|decision| decision.node == node)
    }

    /// The paths found, and the paths still examined: in the order of their last nodes.
    pub fn root_causes(&self) -> Vec<RootCause> {
        let mut causes = Vec::new();
        for (id, node) in self.tree.iter() {
            causes.extend(node.endings.iter().map(|ending| self.root_cause(id, Some(ending))));
            if matches!(node.state, NodeState::Chosen | NodeState::Examined) && node.endings.is_empty() {
                causes.push(self.root_cause(id, None));
            }
        }
        causes
    }

    fn root_cause(&self, node: NodeId, ending: Option<&Ending>) -> RootCause {
        let path = self.tree.path(node);
        let mut levels: Vec<LevelVotes> = Vec::new();
        let mut decisions: Vec<&Decision> = Vec::new();
        for pair in path.windows(2) {
            let Some(decision) = self.decision_on(pair[0]) else { continue };
            decisions.push(decision);
            levels.push(LevelVotes {
                node: pair[0],
                calls: decision.votes,
                chosen: decision.of(Contributor::Callee(pair[1])).map_or(0, |it| it.maxcount),
                runner_up: decision.runner_up(),
            });
        }
        decisions.extend(ending.and_then(|_| self.decision_on(node)));
        levels.extend(ending.map(|ending| ending.votes).filter(|votes| votes.calls > 0));
        let confidence = levels.iter().map(LevelVotes::confidence).reduce(f64::min).unwrap_or(0.0);
        let (cause, end) = (ending.and_then(|ending| ending.cause), ending.map(|ending| ending.end));
        let mut doubts: Vec<Doubt> = levels.iter().flat_map(doubts_of_votes).collect();
        doubts.extend(decisions.iter().flat_map(|decision| self.doubts_of(decision)));
        if cause.is_some() {
            let sites = self.sites_not_measured(node);
            // A leaf has no sites; at the other ends without callees the number of sites is not known.
            let unknown = matches!(end, Some(End::NoCallees(reason)) if reason != NoSites::Leaf);
            doubts.extend((sites > 0 || unknown).then_some(Doubt::SitesNotMeasured { node, sites }));
        }
        let mut seen: Vec<Doubt> = Vec::new();
        doubts.retain(|doubt| {
            !seen.contains(doubt) && {
                seen.push(*doubt);
                true
            }
        });
        let missing = decisions.iter().fold(0u64, |sum, decision| sum.saturating_add(decision.missing));
        let shifted = decisions.iter().filter(|it| is_tenth(it.shifted, it.calls)).map(|it| it.shifted).max();
        doubts.extend(shifted.map(|calls| Doubt::PeakShift { calls }));
        doubts.extend((missing > 0).then_some(Doubt::CallsMissing { calls: missing }));
        doubts.extend(self.drift.map(Doubt::Drift));
        let votes = ending.map(|ending| (ending.ns, ending.blocked_ns, ending.f0_ns)).unwrap_or_default();
        let (ns, blocked_ns, f0_ns) = votes;
        RootCause { path, cause, end, ns, blocked_ns, f0_ns, levels, confidence, doubts }
    }

    fn doubts_of(&self, decision: &Decision) -> impl Iterator<Item = Doubt> {
        let node = decision.node;
        let unsure = is_tenth(decision.unsure, decision.votes);
        let unknown = is_tenth(decision.unknown_targets, decision.votes);
        // A callee without a vote had to beat the smallest chosen contributor.
        let chosen = decision.contributors.iter().filter(|it| it.chosen).map(|it| it.mean_ns).min();
        // Two nearly equal times may be in two buckets, with votes for only one of them.
        let others = decision.contributors.iter().filter(|it| !it.chosen).map(|it| it.mean_ns).max();
        let near = chosen.zip(others).is_some_and(|(chosen, other)| other > chosen / 2);
        let left_out =
            decision.left_out.first().is_some_and(|(_, ns)| chosen.is_none_or(|chosen| *ns > chosen / 2));
        [
            near.then_some(Doubt::CloseVotes { node }),
            unsure.then_some(Doubt::ProbeCost { node, calls: decision.unsure }),
            unknown.then_some(Doubt::UnknownTargets { node }),
            left_out.then_some(Doubt::LeftOut { node }),
        ]
        .into_iter()
        .flatten()
    }
}

fn doubts_of_votes(votes: &LevelVotes) -> impl Iterator<Item = Doubt> + use<> {
    let LevelVotes { node, calls, chosen, runner_up } = *votes;
    let close = runner_up > 0 && runner_up.saturating_mul(6) >= chosen;
    let minority = chosen.saturating_mul(2) < calls;
    [
        close.then_some(Doubt::CloseVotes { node }),
        minority.then_some(Doubt::NoMajority { node }),
        (calls < FEW_CALLS).then_some(Doubt::FewCalls { node, calls }),
    ]
    .into_iter()
    .flatten()
}

/// Whether a number is at least a tenth of another number, and not 0.
fn is_tenth(part: u64, all: u64) -> bool {
    part > 0 && part.saturating_mul(10) >= all
}

impl RootCause {
    /// Whether the search ended the path by itself, with a cause.
    pub fn is_found(&self) -> bool {
        self.cause.is_some() && !matches!(self.end, None | Some(End::Stopped | End::NotSeen))
    }

    /// The cause's part in f₀'s latency, from 0 to 1; 0 if not known.
    pub fn share(&self) -> f64 {
        if self.f0_ns == 0 { 0.0 } else { self.ns as f64 / self.f0_ns as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixth_of_the_votes_is_close_half_of_the_calls_a_majority_and_ten_are_not_few() {
        let node = NodeId(3);
        let doubts = |calls, chosen, runner_up| {
            doubts_of_votes(&LevelVotes { node, calls, chosen, runner_up }).collect::<Vec<_>>()
        };
        assert_eq!(doubts(20, 19, 3), []);
        assert_eq!(doubts(20, 18, 3), [Doubt::CloseVotes { node }]);
        assert_eq!(doubts(20, 10, 1), []);
        assert_eq!(doubts(20, 9, 1), [Doubt::NoMajority { node }]);
        assert_eq!(doubts(20, 0, 0), [Doubt::NoMajority { node }]);
        assert_eq!(doubts(10, 10, 0), []);
        assert_eq!(doubts(9, 9, 0), [Doubt::FewCalls { node, calls: 9 }]);
    }

    #[test]
    fn a_tenth_of_the_calls_is_a_doubt_and_none_of_none_is_not() {
        assert!(is_tenth(2, 20) && is_tenth(1, 9));
        assert!(!is_tenth(1, 11) && !is_tenth(0, 0) && !is_tenth(0, 20));
    }

    #[test]
    fn the_confidence_is_the_lead_in_all_calls() {
        let confidence =
            |calls, chosen, runner_up| LevelVotes { node: NodeId::F0, calls, chosen, runner_up }.confidence();
        assert!((confidence(20, 18, 3) - 0.75).abs() < 1e-9);
        assert_eq!((confidence(20, 3, 18), confidence(0, 0, 0)), (0.0, 0.0));
    }
}
