//! The state machine: events in, effects out.

mod answers;
mod decide;
pub(crate) mod round;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wakepath_distribution::{Histogram, Measure, Unit, alike, bounds, peaks};

use crate::answer::{End, NodeCause, Status, StopReason};
use crate::decision::Decision;
use crate::effect::Effect;
use crate::event::{
    CallRecord, Drift, Epoch, Event, FunctionId, LatencyRange, NoSites, NodeId, ProbeCost, Refusal, Site,
    SiteId,
};
use crate::latencies::CallTimes;
use crate::parameters::{Mode, ParameterError, Parameters};
use crate::tree::{Ending, NodeState, Tree};
pub use answers::TreeNode;
use round::{Round, SavedRound};

/// The maximum number of targets of an indirect site that become nodes. All other calls stay with the site.
pub(crate) const MAX_TARGETS: usize = 256;

/// The error for an impossible event. The machine stays as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// No node has this number.
    #[error("there is no node {}", .0.0)]
    UnknownNode(NodeId),
    /// The function's sites were not asked for, or were answered already.
    #[error("the call sites of function {} were not asked for", .0.0)]
    NotAsked(FunctionId),
    /// Two call sites have the same address.
    #[error("two call sites have the address {:#x}", .0.address)]
    SiteTwice(SiteId),
    /// The node's function has no indirect site there.
    #[error("node {} has no indirect call site at {:#x}", .node.0, .site.address)]
    NotIndirect {
        /// The caller's node.
        node: NodeId,
        /// The site.
        site: SiteId,
    },
    /// The node is not measured.
    #[error("node {} is not measured", .0.0)]
    NotMeasured(NodeId),
    /// The histogram counts another unit than nanoseconds.
    #[error("the histogram counts {0}; a drill-down needs nanoseconds")]
    Unit(Unit),
    /// A peak was chosen before.
    #[error("the peak is chosen already")]
    PeakTwice,
    /// There is no save to go on with, or it goes on already.
    #[error("there is no save to go on with")]
    NotResuming,
    /// The peak's range ends before it begins.
    #[error("a peak from {} ns to {} ns holds no latency", .0.from_ns, .0.to_ns)]
    EmptyPeak(LatencyRange),
    /// A decision was asked for, and no call within the peak has been measured.
    #[error("no call within the peak has been measured since the last decision")]
    NoCalls,
}

/// A drill-down: the search for the function path behind a peak.
#[derive(Debug, Clone, PartialEq)]
pub struct Drilldown {
    pub(crate) parameters: Parameters,
    cost: ProbeCost,
    pub(crate) tree: Tree,
    status: Status,
    pub(crate) histogram: Option<Histogram>,
    /// The resumed run's histogram, to compare this run's histograms with.
    pub(crate) earlier: Option<Histogram>,
    pub(crate) peak: Option<LatencyRange>,
    sites: BTreeMap<FunctionId, Result<Vec<Site>, NoSites>>,
    asked: BTreeSet<FunctionId>,
    /// The targets seen at each indirect site of a function, in this order.
    pub(crate) targets: BTreeMap<(FunctionId, SiteId), Vec<FunctionId>>,
    /// Chosen nodes whose callees are not measured yet.
    pub(crate) waiting: VecDeque<NodeId>,
    round: Option<Round>,
    /// The votes in a saved round, or in a stopped one.
    pub(crate) saved_round: Option<SavedRound>,
    measured: BTreeSet<NodeId>,
    removing: BTreeSet<NodeId>,
    epoch: Epoch,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) drift: Option<Drift>,
    calls: Calls,
}

/// The calls to f₀ handed in since a peak was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    /// The calls within the peak, with votes.
    pub used: u64,
    /// The calls outside the peak.
    pub outside_peak: u64,
    /// The calls that began before all probes were in place, or came while nothing was measured.
    pub outdated: u64,
    /// The calls with overflowed records.
    pub overflowed: u64,
    /// The calls with lost records.
    pub lost: u64,
}

impl Drilldown {
    /// A drill-down that begins at f₀, with the time taken by a measured call's probes.
    ///
    /// It has no effect to begin with: it waits for a histogram or a peak.
    ///
    /// # Errors
    /// Parameters out of their ranges.
    pub fn new(f0: FunctionId, parameters: Parameters, cost: ProbeCost) -> Result<Self, ParameterError> {
        parameters.check()?;
        Ok(Self::with_tree(Tree::new(f0), parameters, cost))
    }

    pub(crate) fn with_tree(tree: Tree, parameters: Parameters, cost: ProbeCost) -> Self {
        Self {
            parameters,
            cost,
            tree,
            status: Status::Counting,
            histogram: None,
            earlier: None,
            peak: None,
            sites: BTreeMap::new(),
            asked: BTreeSet::new(),
            targets: BTreeMap::new(),
            waiting: VecDeque::from([NodeId::F0]),
            round: None,
            saved_round: None,
            measured: BTreeSet::new(),
            removing: BTreeSet::new(),
            epoch: Epoch(0),
            decisions: Vec::new(),
            drift: None,
            calls: Calls::default(),
        }
    }

    /// Handles an event. Once the search has finished, events have no effect.
    ///
    /// # Errors
    /// An impossible event; it changes nothing.
    pub fn handle(&mut self, event: Event) -> Result<Vec<Effect>, EventError> {
        let mut effects = Vec::new();
        if let Event::Removed { nodes } = &event {
            nodes.iter().for_each(|node| {
                self.removing.remove(node);
            });
            return Ok(effects);
        }
        if self.is_finished() {
            return Ok(effects);
        }
        match event {
            Event::Histogram(histogram) => self.histogram(*histogram, &mut effects)?,
            Event::Resume => self.go_on(&mut effects)?,
            Event::Peak(range) => self.choose_peak(range, &mut effects)?,
            Event::Sites { function, sites } => self.found_sites(function, sites, &mut effects)?,
            Event::Target { parent, site, callee } => self.target(parent, site, callee, &mut effects)?,
            Event::Refused { node, refusal } => self.refused(node, refusal)?,
            Event::Call(record) => self.call(&record, &mut effects),
            Event::Lost { calls } => {
                self.calls.lost = self.calls.lost.saturating_add(calls);
                if let Some(round) = &mut self.round {
                    round.missing = round.missing.saturating_add(calls);
                }
            }
            Event::Drift(drift) => {
                self.drift = Some(drift);
                effects.push(Effect::Report);
            }
            Event::Decide => {
                if self.round.as_ref().is_none_or(|round| round.calls == 0) {
                    return Err(EventError::NoCalls);
                }
                self.end_round(&mut effects);
            }
            Event::Stop(reason) => self.finish(Some(reason), &mut effects),
            Event::Removed { .. } => {}
        }
        Ok(effects)
    }

    /// The progress of the search.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The peak, once it is chosen.
    pub fn peak(&self) -> Option<LatencyRange> {
        self.peak
    }

    /// The last histogram of f₀ handed in.
    pub fn f0_histogram(&self) -> Option<&Histogram> {
        self.histogram.as_ref()
    }

    /// The calls to f₀ handed in since the peak was chosen.
    pub fn calls(&self) -> Calls {
        self.calls
    }

    /// The nodes with probes to be removed, not yet removed.
    pub fn removing(&self) -> impl Iterator<Item = NodeId> {
        self.removing.iter().copied()
    }

    /// The number of calls within the peak until the next decision or batch; `None` if none is measured, or in manual
    /// mode.
    pub fn calls_to_decision(&self) -> Option<u64> {
        let round = self.round.as_ref().filter(|_| self.parameters.mode == Mode::Automatic)?;
        Some(self.parameters.decision_calls.saturating_sub(round.calls))
    }

    pub(crate) fn is_finished(&self) -> bool {
        !matches!(self.status, Status::Counting | Status::InProgress)
    }

    /// The undecided votes, for a save.
    pub(crate) fn undecided(&self) -> Option<SavedRound> {
        self.round.as_ref().map_or_else(|| self.saved_round.clone(), Round::save)
    }

    fn histogram(&mut self, histogram: Histogram, effects: &mut Vec<Effect>) -> Result<(), EventError> {
        if histogram.unit() != Unit::Nanoseconds {
            return Err(EventError::Unit(histogram.unit()));
        }
        let calls = histogram.calls();
        let found = peaks(&histogram);
        self.histogram = Some(histogram);
        effects.push(Effect::Report);
        if calls < self.parameters.start_ops || self.status != Status::Counting {
            return Ok(());
        }
        if self.peak.is_some() {
            self.compare();
            self.begin(effects);
        } else if let Some(number) = self.parameters.start_peak {
            let Some(peak) = found.get((number as usize).wrapping_sub(1)) else {
                let peaks = u32::try_from(found.len()).unwrap_or(u32::MAX);
                self.finish(Some(StopReason::NoSuchPeak { asked: number, peaks }), effects);
                return Ok(());
            };
            let range = LatencyRange {
                from_ns: *bounds(peak.from_bucket).start(),
                to_ns: *bounds(peak.to_bucket).end(),
            };
            self.choose_peak(range, effects)?;
        }
        Ok(())
    }

    fn choose_peak(&mut self, range: LatencyRange, effects: &mut Vec<Effect>) -> Result<(), EventError> {
        if self.peak.is_some() {
            return Err(EventError::PeakTwice);
        }
        if range.from_ns > range.to_ns {
            return Err(EventError::EmptyPeak(range));
        }
        self.peak = Some(range);
        self.begin(effects);
        Ok(())
    }

    /// Compares the current distribution with the resumed run's.
    fn compare(&mut self) {
        let (Some(earlier), Some(now)) = (&self.earlier, &self.histogram) else { return };
        if !alike(earlier, now) {
            // Both count ns, so that they have a score.
            let earth_mover = Measure::EarthMover.score(earlier, now).unwrap_or(f64::INFINITY);
            self.drift = Some(Drift { earth_mover });
        }
    }

    fn go_on(&mut self, effects: &mut Vec<Effect>) -> Result<(), EventError> {
        if self.peak.is_none() || self.status != Status::Counting {
            return Err(EventError::NotResuming);
        }
        self.begin(effects);
        Ok(())
    }

    fn begin(&mut self, effects: &mut Vec<Effect>) {
        self.status = Status::InProgress;
        self.advance(effects);
    }

    fn found_sites(
        &mut self,
        function: FunctionId,
        sites: Result<Vec<Site>, NoSites>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        if !self.asked.contains(&function) || self.sites.contains_key(&function) {
            return Err(EventError::NotAsked(function));
        }
        let sites = sites.and_then(|sites| if sites.is_empty() { Err(NoSites::Leaf) } else { Ok(sites) });
        let mut seen = BTreeSet::new();
        if let Some(twice) = sites.iter().flatten().find(|site| !seen.insert(site.id)) {
            return Err(EventError::SiteTwice(twice.id));
        }
        self.sites.insert(function, sites);
        self.advance(effects);
        Ok(())
    }

    fn target(
        &mut self,
        parent: NodeId,
        site: SiteId,
        callee: FunctionId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EventError> {
        let node = self.tree.get(parent).ok_or(EventError::UnknownNode(parent))?;
        let is_placeholder = |child: &&NodeId| {
            self.tree
                .get(**child)
                .is_some_and(|child| child.callee.is_none() && child.site.is_some_and(|(id, _)| id == site))
        };
        let (Some(&placeholder), Some(function)) = (node.children.iter().find(is_placeholder), node.callee)
        else {
            return Err(EventError::NotIndirect { node: parent, site });
        };
        let targets = self.targets.entry((function, site)).or_default();
        if targets.contains(&callee) || targets.len() >= MAX_TARGETS {
            return Ok(());
        }
        targets.push(callee);
        self.add_target(placeholder, callee, effects);
        Ok(())
    }

    fn refused(&mut self, node: NodeId, refusal: Refusal) -> Result<(), EventError> {
        let refused = self.tree.get_mut(node).ok_or(EventError::UnknownNode(node))?;
        if !self.measured.remove(&node) {
            return Err(EventError::NotMeasured(node));
        }
        refused.refused = Some(refusal);
        if let Some(round) = &mut self.round {
            round.callees.values_mut().for_each(|callees| callees.retain(|&callee| callee != node));
        }
        Ok(())
    }

    fn call(&mut self, record: &CallRecord, effects: &mut Vec<Effect>) {
        let (Some(round), Some(peak)) = (&mut self.round, self.peak) else {
            self.calls.outdated += 1;
            return;
        };
        if round.is_outdated(record) {
            self.calls.outdated += 1;
            return;
        }
        if record.overflowed {
            self.calls.overflowed += 1;
            round.missing = round.missing.saturating_add(1);
            return;
        }
        let times = CallTimes::new(record, &self.tree, self.cost);
        let within = peak.contains(times.f0_ns());
        round.shifted += u64::from(within != peak.contains(record.latency_ns));
        if !within {
            self.calls.outside_peak += 1;
            return;
        }
        self.calls.used += 1;
        round.add(&times, &mut self.tree, self.cost);
        if self.parameters.mode == Mode::Automatic && round.is_full(self.parameters.decision_calls) {
            self.end_round(effects);
        }
    }

    /// Ends the search: all undecided nodes end here.
    fn finish(&mut self, stopped: Option<StopReason>, effects: &mut Vec<Effect>) {
        self.saved_round = self.round.take().and_then(|round| round.save());
        for node in &mut self.tree.0 {
            if matches!(node.state, NodeState::Chosen | NodeState::Examined) {
                // An ending without any other information is a stopped one.
                node.endings.push(Ending::default());
            }
        }
        self.keep_measured(&BTreeSet::new(), effects);
        let endings = || self.tree.0.iter().flat_map(|node| &node.endings);
        self.status = match stopped {
            Some(reason) => Status::Stopped(reason),
            None if endings().any(|ending| ending.end == End::MaxDepth) => Status::MaxDepthReached,
            None if endings().all(|ending| ending.end == End::NotSeen) => {
                Status::Stopped(StopReason::NotSeen)
            }
            None if endings().all(|ending| ending.cause.is_none()) => Status::EndsEarly,
            None => Status::RootCauseFound,
        };
        effects.push(Effect::Finished(self.status));
    }

    /// Whether a cause explains the time, given the reason why the path ends: a function's time may be its callees', if
    /// they were never measured.
    fn is_known(cause: NodeCause, end: End) -> bool {
        let examined = matches!(end, End::Itself | End::NoCallees(NoSites::Leaf));
        !matches!(cause, NodeCause::Itself | NodeCause::Loop { .. }) || examined
    }
}
