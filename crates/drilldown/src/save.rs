//! Saves: a search as data, to be resumed in another run (Traeger 2008, section 3.10).
//!
//! A save is outside input: each number in it is checked before its use. The votes of an undecided round are in it,
//! unless the round was in batches: then its node is examined again.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use wakepath_distribution::{BUCKETS, Histogram, Unit, bucket_of};

use crate::answer::{End, NodeCause};
use crate::contributor::Contributor;
use crate::decision::Decision;
use crate::event::{FunctionId, LatencyRange, NodeId, ProbeCost, SiteId, SiteKind};
use crate::machine::round::SavedRound;
use crate::machine::{Drilldown, MAX_TARGETS};
use crate::parameters::{MAX_DEPTH, ParameterError, Parameters};
use crate::tally::Tally;
use crate::tree::{Ending, NodeState, Tree};

/// The version written by this crate, and the only version it reads.
pub const SAVE_VERSION: u32 = 1;

/// A search as data. Functions are numbered by their place in [`Save::functions`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Save {
    /// [`SAVE_VERSION`].
    pub version: u32,
    /// The driver's name for f₀ and its code (a function name and a build id, say).
    pub identity: String,
    /// The peak.
    peak: LatencyRange,
    /// The calls to f₀ in each bucket, ns.
    histogram: Option<SavedHistogram>,
    /// The driver's names for all functions: no two alike.
    functions: Vec<String>,
    nodes: Vec<SavedNode>,
    targets: Vec<SavedTargets>,
    decisions: Vec<Decision>,
    round: Option<SavedRound>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SavedHistogram {
    counts: Vec<u64>,
    sum_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SavedNode {
    parent: Option<NodeId>,
    site: Option<(SiteId, SiteKind)>,
    callee: Option<FunctionId>,
    state: NodeState,
    unexamined: Tally,
    endings: Vec<Ending>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SavedTargets {
    function: FunctionId,
    site: SiteId,
    callees: Vec<FunctionId>,
}

/// The error for a save that cannot be resumed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SaveError {
    /// The save has another version.
    #[error("the save has version {0}; this program reads version {SAVE_VERSION}")]
    Version(u32),
    /// The save is about another f₀, or other code.
    #[error("the save is about `{saved}`, not about `{now}`")]
    Identity {
        /// The identity in the save.
        saved: String,
        /// The current identity.
        now: String,
    },
    /// The driver does not know a function.
    #[error("the save has a function `{0}`, which is not known")]
    UnknownFunction(String),
    /// The parameters cannot be used.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// Two parts of the save contradict each other.
    #[error("the save is broken: {what} {index} {why}")]
    Broken {
        /// The broken part's kind.
        what: &'static str,
        /// Its place within its kind, counted from 0.
        index: usize,
        /// The contradiction.
        why: &'static str,
    },
}

impl Drilldown {
    /// The search as data; `None` before a peak is chosen. `name` gives each function a unique name, by which another
    /// run finds it.
    pub fn save(&self, identity: &str, name: impl Fn(FunctionId) -> String) -> Option<Save> {
        let peak = self.peak?;
        let mut functions = Functions { numbers: BTreeMap::new(), names: Vec::new(), name };
        let nodes = self.tree.iter().map(|(_, node)| SavedNode {
            parent: node.parent,
            site: node.site.map(|(id, kind)| (id, functions.kind(kind))),
            callee: node.callee.map(|callee| functions.number(callee)),
            state: node.state,
            unexamined: node.unexamined.clone(),
            endings: node.endings.clone(),
        });
        let nodes = nodes.collect();
        let targets = self.targets.iter().map(|(&(function, site), callees)| SavedTargets {
            function: functions.number(function),
            site,
            callees: callees.iter().map(|&callee| functions.number(callee)).collect(),
        });
        let targets = targets.collect();
        Some(Save {
            version: SAVE_VERSION,
            identity: identity.to_owned(),
            peak,
            histogram: self.histogram.as_ref().or(self.earlier.as_ref()).map(|histogram| SavedHistogram {
                counts: histogram.counts().to_vec(),
                sum_ns: u64::try_from(histogram.sum()).unwrap_or(u64::MAX),
            }),
            functions: functions.names,
            nodes,
            targets,
            decisions: self.decisions.clone(),
            round: self.undecided(),
        })
    }

    /// The search in a save. It goes on at [`crate::Event::Resume`], or at an [`crate::Event::Histogram`] with a
    /// comparison first.
    ///
    /// Paths go on as far as the current parameters allow, if they ended only because they were stopped, were not
    /// called, were as deep as allowed or too short for `min_bucket`. `function` finds a function by its name.
    ///
    /// # Errors
    /// A save with another version or identity, or a broken save.
    pub fn resume(
        save: Save,
        identity: &str,
        parameters: Parameters,
        cost: ProbeCost,
        function: impl Fn(&str) -> Option<FunctionId>,
    ) -> Result<Self, SaveError> {
        parameters.check()?;
        if save.version != SAVE_VERSION {
            return Err(SaveError::Version(save.version));
        }
        if save.identity != identity {
            return Err(SaveError::Identity { saved: save.identity, now: identity.to_owned() });
        }
        let functions = Known::new(&save.functions, function)?;
        let tree = save.tree(&functions)?;
        let targets = save.targets(&functions)?;
        save.check_decisions(&tree)?;
        save.check_round(&tree)?;
        let earlier = save.histogram.as_ref().map(SavedHistogram::read).transpose()?;
        if save.peak.from_ns > save.peak.to_ns {
            return Err(broken("peak", 0, "ends before it begins"));
        }
        let mut machine = Drilldown::with_tree(tree, parameters, cost);
        (machine.peak, machine.earlier) = (Some(save.peak), earlier);
        (machine.targets, machine.decisions) = (targets, save.decisions);
        machine.saved_round = save.round;
        machine.open_again();
        Ok(machine)
    }

    /// Has all nodes examined that are undecided under the current parameters.
    fn open_again(&mut self) {
        let latencies: Vec<u64> = self.tree.iter().map(|(id, _)| self.latency_when_chosen(id)).collect();
        let (max_depth, min_bucket) = (self.parameters.max_depth, self.parameters.min_bucket);
        self.waiting.clear();
        for ((id, node), latency_ns) in (0..).map(NodeId).zip(&mut self.tree.0).zip(latencies) {
            let is_open = |end: End| match end {
                End::Stopped | End::NotSeen => true,
                End::MaxDepth => node.depth < max_depth,
                End::BelowMinBucket => bucket_of(latency_ns) >= min_bucket,
                End::Itself | End::NoCallees(_) | End::UnknownTarget => false,
            };
            let ends = node.endings.len();
            node.endings.retain(|ending| !is_open(ending.end));
            if ends > node.endings.len() || matches!(node.state, NodeState::Chosen | NodeState::Examined) {
                node.state = NodeState::Chosen;
                self.waiting.push_back(id);
            }
        }
    }
}

impl Save {
    /// The driver's names for the save's functions.
    pub fn functions(&self) -> &[String] {
        &self.functions
    }

    /// The explained peak.
    pub fn peak(&self) -> LatencyRange {
        self.peak
    }

    fn tree(&self, functions: &Known) -> Result<Tree, SaveError> {
        let wrong = |index, why| Err(broken("node", index, why));
        let Some(f0) = self.nodes.first() else { return wrong(0, "is missing") };
        let Some(function) = f0.callee else { return wrong(0, "has no function") };
        if f0.parent.is_some() || f0.site.is_some() {
            return wrong(0, "has a caller");
        }
        let mut tree = Tree::new(functions.get(function)?);
        let mut seen = BTreeSet::new();
        for (index, saved) in self.nodes.iter().enumerate() {
            if let (Some(parent), Some((site, kind))) = (saved.parent, saved.site) {
                let caller = usize::try_from(parent.0).ok().filter(|&parent| parent < index);
                let Some(caller) = caller.and_then(|parent| self.nodes.get(parent)) else {
                    return wrong(index, "has no caller before it");
                };
                if caller.callee.is_none() {
                    return wrong(index, "is called by a function that is not known");
                }
                if kind.callee().is_some() && kind.callee() != saved.callee {
                    return wrong(index, "has another function than its call site");
                }
                if !seen.insert((parent, site, saved.callee)) {
                    return wrong(index, "is there twice");
                }
                let callee = saved.callee.map(|callee| functions.get(callee)).transpose()?;
                let kind = functions.kind(kind)?;
                if tree.add(parent, site, kind, callee).is_err() {
                    return wrong(index, "is one too many");
                }
                let on_path = |state| !matches!(state, NodeState::Candidate | NodeState::Dropped);
                if on_path(saved.state) && caller.state != NodeState::Decided {
                    return wrong(index, "was chosen before its caller was decided");
                }
            } else if index > 0 {
                return wrong(index, "has no call site");
            }
            let Some(node) = tree.0.get_mut(index).filter(|node| node.depth <= MAX_DEPTH) else {
                return wrong(index, "is too deep");
            };
            if !saved.unexamined.is_sound(|_| false) {
                return wrong(index, "has votes that cannot be");
            }
            node.state = saved.state;
            node.unexamined = saved.unexamined.clone();
            node.endings = saved.endings.clone();
        }
        for (index, saved) in self.nodes.iter().enumerate() {
            for ending in &saved.endings {
                let is_callee =
                    |callee| tree.get(callee).is_some_and(|it| it.parent.map(index_of) == Some(index));
                if matches!(ending.cause, Some(NodeCause::Loop { callee, .. }) if !is_callee(callee)) {
                    return wrong(index, "ends in a loop over what it does not call");
                }
                if index_of(ending.votes.node) != index && ending.votes.calls > 0 {
                    return wrong(index, "ends by the votes on another node");
                }
            }
        }
        Ok(tree)
    }

    fn targets(
        &self,
        functions: &Known,
    ) -> Result<BTreeMap<(FunctionId, SiteId), Vec<FunctionId>>, SaveError> {
        let mut targets = BTreeMap::new();
        for (index, saved) in self.targets.iter().enumerate() {
            let callees: Vec<FunctionId> =
                saved.callees.iter().map(|&callee| functions.get(callee)).collect::<Result<_, _>>()?;
            if callees.len() > MAX_TARGETS || callees.iter().collect::<BTreeSet<_>>().len() != callees.len() {
                return Err(broken("list of targets", index, "is too long, or has one twice"));
            }
            if targets.insert((functions.get(saved.function)?, saved.site), callees).is_some() {
                return Err(broken("list of targets", index, "is there twice"));
            }
        }
        Ok(targets)
    }

    fn check_decisions(&self, tree: &Tree) -> Result<(), SaveError> {
        let mut seen = BTreeSet::new();
        for (index, decision) in self.decisions.iter().enumerate() {
            let wrong = |why| Err(broken("decision", index, why));
            if tree.get(decision.node).is_none() {
                return wrong("is about a node that is not there");
            }
            if !seen.insert(decision.node) {
                return wrong("is the second on its node");
            }
            let is_callee = |node: NodeId| tree.get(node).is_some_and(|it| it.parent == Some(decision.node));
            let callees = decision.contributors.iter().filter_map(|it| match it.contributor {
                Contributor::Callee(callee) => Some(callee),
                Contributor::Itself | Contributor::Foreign(_) => None,
            });
            let in_batches = decision.batches.iter().flat_map(|batch| batch.nodes.iter().copied());
            let left_out = decision.left_out.iter().map(|&(node, _)| node);
            if !callees.chain(in_batches).chain(left_out).all(is_callee) {
                return wrong("has a callee that its node does not call");
            }
            let is_vote = |maxcount, calls| maxcount <= calls && calls <= decision.votes;
            let spread = decision.spread.iter().map(|it| (it.maxcount, it.maxcount));
            let mut votes = decision.contributors.iter().map(|it| (it.maxcount, it.calls)).chain(spread);
            if decision.votes > decision.calls || !votes.all(|(maxcount, calls)| is_vote(maxcount, calls)) {
                return wrong("has more votes than calls");
            }
        }
        Ok(())
    }
}

impl Save {
    fn check_round(&self, tree: &Tree) -> Result<(), SaveError> {
        let Some(round) = &self.round else { return Ok(()) };
        let mut seen = BTreeSet::new();
        for (index, (node, tally, callees)) in round.nodes.iter().enumerate() {
            let wrong = |why| Err(broken("undecided vote", index, why));
            let is_callee =
                |callee: NodeId| tree.get(callee).is_some_and(|callee| callee.parent == Some(*node));
            if tree.get(*node).is_none() || !seen.insert(*node) {
                return wrong("is on a node that is not there, or is the second on it");
            }
            if !callees.iter().copied().all(is_callee) {
                return wrong("has a callee that its node does not call");
            }
            if !tally.is_sound(is_callee) || tally.calls > round.calls {
                return wrong("has more votes than calls, or votes for a callee that its node does not call");
            }
        }
        Ok(())
    }
}

impl SavedHistogram {
    fn read(&self) -> Result<Histogram, SaveError> {
        let counts: [u64; BUCKETS] = self
            .counts
            .as_slice()
            .try_into()
            .map_err(|_| broken("histogram", 0, "has another number of buckets"))?;
        Ok(Histogram::from_counters(Unit::Nanoseconds, counts, self.sum_ns.into()))
    }
}

fn broken(what: &'static str, index: usize, why: &'static str) -> SaveError {
    SaveError::Broken { what, index, why }
}

fn index_of(node: NodeId) -> usize {
    node.0 as usize
}

/// Functions on their way into a save.
struct Functions<N> {
    numbers: BTreeMap<FunctionId, u32>,
    names: Vec<String>,
    name: N,
}

impl<N: Fn(FunctionId) -> String> Functions<N> {
    fn number(&mut self, function: FunctionId) -> FunctionId {
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        FunctionId(*self.numbers.entry(function).or_insert_with(|| {
            self.names.push((self.name)(function));
            next
        }))
    }

    fn kind(&mut self, kind: SiteKind) -> SiteKind {
        match kind {
            SiteKind::Direct(function) => SiteKind::Direct(self.number(function)),
            SiteKind::Tail(function) => SiteKind::Tail(self.number(function)),
            SiteKind::Indirect | SiteKind::IndirectTail => kind,
        }
    }
}

/// The functions in a save, as the driver knows them.
struct Known(Vec<FunctionId>);

impl Known {
    fn new(names: &[String], function: impl Fn(&str) -> Option<FunctionId>) -> Result<Self, SaveError> {
        let mut seen = BTreeSet::new();
        let mut known = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let id = function(name).ok_or_else(|| SaveError::UnknownFunction(name.clone()))?;
            if !seen.insert(id) {
                return Err(broken("function", index, "is there twice"));
            }
            known.push(id);
        }
        Ok(Self(known))
    }

    fn get(&self, number: FunctionId) -> Result<FunctionId, SaveError> {
        let number = number.0 as usize;
        self.0.get(number).copied().ok_or_else(|| broken("function", number, "is not there"))
    }

    fn kind(&self, kind: SiteKind) -> Result<SiteKind, SaveError> {
        Ok(match kind {
            SiteKind::Direct(function) => SiteKind::Direct(self.get(function)?),
            SiteKind::Tail(function) => SiteKind::Tail(self.get(function)?),
            SiteKind::Indirect | SiteKind::IndirectTail => kind,
        })
    }
}
