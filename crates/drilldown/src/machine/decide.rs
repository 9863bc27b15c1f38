//! Decisions: the chosen contributors of a node, and the ends of paths (`choose_root_causes` in figure 3.5).

use wakepath_distribution::bucket_of;

use super::Drilldown;
use super::round::Round;
use crate::answer::{End, LevelVotes, NodeCause};
use crate::contributor::{Contributor, Foreign};
use crate::decision::{Contribution, Decision, Spread};
use crate::effect::Effect;
use crate::event::NodeId;
use crate::tally::{Tally, mean};
use crate::tree::{Ending, NodeState};

impl Drilldown {
    /// Decides on all nodes examined by a round.
    pub(super) fn decide(&mut self, round: Round, _effects: &mut Vec<Effect>) {
        for (&node, tally) in &round.tallies {
            if tally.calls == 0 {
                self.end(node, Ending { end: End::NotSeen, ..Ending::default() });
            } else {
                self.decide_node(node, tally, &round);
            }
        }
    }

    fn decide_node(&mut self, node: NodeId, tally: &Tally, round: &Round) {
        let percentage = self.parameters.maxcount_percentage;
        let spread = tally.spread();
        let chosen = if spread.is_some() { Vec::new() } else { tally.chosen(percentage) };
        let again = |contributor: &Contributor| matches!(contributor, Contributor::Callee(callee) if round.more_targets.contains(callee));
        if chosen.iter().any(again) {
            // The chosen site's targets are known by now: they are nodes in the next round.
            self.choose(node);
            return;
        }
        let decision = self.decision(node, tally, round, &chosen);
        let end = self.no_sites(node).map_or(End::Itself, End::NoCallees);
        if let Some(spread) = &decision.spread {
            let votes = LevelVotes {
                node,
                calls: tally.calls,
                chosen: spread.maxcount,
                runner_up: tally.largest_maxcount(),
            };
            let ending = ending_of(tally, end, spread.mean_ns, votes);
            self.end(node, Ending { cause: Some(foreign_cause(spread.foreign, true)), ..ending });
        }
        if let Some(decided) = self.tree.get_mut(node) {
            decided.state = NodeState::Decided;
        }
        for &contributor in &chosen {
            match contributor {
                Contributor::Callee(callee) => self.choose_callee(callee, &decision),
                Contributor::Itself | Contributor::Foreign(_) => {
                    let ending = ending(node, tally, contributor, end, decision.runner_up());
                    self.end(node, ending);
                }
            }
        }
        for child in self.tree.get(node).map(|node| node.children.clone()).unwrap_or_default() {
            let child = self.tree.get_mut(child).filter(|child| child.state == NodeState::Candidate);
            if let Some(child) = child {
                child.state = NodeState::Dropped;
            }
        }
        self.decisions.push(decision);
    }

    fn decision(&self, node: NodeId, tally: &Tally, round: &Round, chosen: &[Contributor]) -> Decision {
        let contributors = tally.contributors.iter().map(|(&contributor, votes)| Contribution {
            contributor,
            maxcount: votes.maxcount,
            calls: votes.calls,
            mean_ns: votes.mean_ns(tally.calls),
            median_ns: votes.median_ns(),
            chosen: chosen.contains(&contributor),
        });
        let contributors: Vec<Contribution> = contributors.collect();
        let is_placeholder = |contributor| match contributor {
            Contributor::Callee(callee) => {
                self.tree.get(callee).is_some_and(|callee| callee.callee.is_none())
            }
            Contributor::Itself | Contributor::Foreign(_) => false,
        };
        let unknown = contributors.iter().filter(|it| is_placeholder(it.contributor)).map(|it| it.maxcount);
        let batches = round.batches.as_ref();
        Decision {
            node,
            epoch: self.epoch,
            calls: round.calls,
            votes: tally.calls,
            unsure: tally.unsure,
            shifted: round.shifted,
            missing: round.missing,
            spread: tally.spread().map(|foreign| {
                let votes = tally.majority.get(&foreign).cloned().unwrap_or_default();
                Spread { foreign, maxcount: votes.maxcount, mean_ns: votes.mean_ns(tally.calls) }
            }),
            not_measured: self.sites_not_measured(node),
            batches: batches.map(|batches| batches.done.clone()).unwrap_or_default(),
            left_out: batches.map(|batches| batches.left_out.clone()).unwrap_or_default(),
            unknown_targets: unknown.max().unwrap_or(0),
            contributors,
        }
    }

    /// Goes on below a chosen callee, or ends the path there.
    fn choose_callee(&mut self, callee: NodeId, decision: &Decision) {
        let latency = decision.of(Contributor::Callee(callee)).map_or(0, |it| it.median_ns);
        let Some(node) = self.tree.get(callee) else { return };
        if node.callee.is_none() {
            self.end_unexamined(callee, End::UnknownTarget);
        } else if bucket_of(latency) < self.parameters.min_bucket {
            self.end_unexamined(callee, End::BelowMinBucket);
        } else if node.depth >= self.parameters.max_depth {
            self.end_unexamined(callee, End::MaxDepth);
        } else {
            self.choose(callee);
        }
    }

    fn choose(&mut self, node: NodeId) {
        if let Some(chosen) = self.tree.get_mut(node) {
            chosen.state = NodeState::Chosen;
            self.waiting.push_back(node);
        }
    }

    /// Ends the path at a node with unmeasured callees: by the votes on the node's own time while its caller was
    /// examined.
    pub(super) fn end_unexamined(&mut self, node: NodeId, end: End) {
        let tally = self.tree.get(node).map(|node| node.unexamined.clone()).unwrap_or_default();
        let chosen = tally.chosen(self.parameters.maxcount_percentage);
        let others = tally.contributors.iter().filter(|(it, _)| !chosen.contains(it));
        let runner_up = others.map(|(_, votes)| votes.maxcount).max().unwrap_or(0);
        for &contributor in &chosen {
            let ending = ending(node, &tally, contributor, end, runner_up);
            self.end(node, ending);
        }
        if chosen.is_empty() {
            self.end(node, Ending { end, ..Ending::default() });
        }
    }

    fn end(&mut self, node: NodeId, ending: Ending) {
        if let Some(ended) = self.tree.get_mut(node) {
            ended.state = NodeState::Decided;
            ended.endings.push(ending);
        }
    }
}

/// A path's end at a contributor other than a callee.
fn ending(node: NodeId, tally: &Tally, contributor: Contributor, end: End, runner_up: u64) -> Ending {
    let cause = match contributor {
        Contributor::Foreign(foreign) => Some(foreign_cause(foreign, false)),
        Contributor::Callee(_) => None,
        Contributor::Itself => {
            let largest = tally.own_parts.iter().max_by_key(|(_, part)| part.maxcount);
            match largest {
                Some((Some(callee), part)) => {
                    Some(NodeCause::Loop { callee: *callee, calls: part.median_count() })
                }
                _ if end == End::UnknownTarget => Some(NodeCause::UnknownTarget),
                _ => Some(NodeCause::Itself),
            }
        }
    };
    let ns = tally.contributors.get(&contributor).map_or(0, |votes| votes.mean_ns(tally.calls));
    let votes = LevelVotes { node, calls: tally.calls, chosen: tally.maxcount(contributor), runner_up };
    Ending {
        cause: cause.filter(|&cause| Drilldown::is_known(cause, end)),
        ..ending_of(tally, end, ns, votes)
    }
}

fn ending_of(tally: &Tally, end: End, ns: u64, votes: LevelVotes) -> Ending {
    let per_call = |ns| mean(ns, tally.calls);
    Ending {
        cause: None,
        end,
        ns,
        blocked_ns: per_call(tally.blocked_ns),
        f0_ns: per_call(tally.f0_ns),
        votes,
    }
}

fn foreign_cause(foreign: Foreign, spread: bool) -> NodeCause {
    match foreign {
        Foreign::Preemption => NodeCause::Preempted { spread },
        Foreign::Steal => NodeCause::Stolen { spread },
        Foreign::Interrupt(number) => NodeCause::Interrupt { number, spread },
    }
}
