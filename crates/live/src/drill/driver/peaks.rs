//! Several peaks, searched in turn: the calls are counted once, and the searches share the functions and their call sites.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use wakepath_collect::{DrillCounts, Signals};
use wakepath_drilldown::{Epoch, FunctionId, LatencyRange, MeasuredNode, NodeId, SiteId};
use wakepath_engine::drill::DrilledNode;

use super::budget::TooOften;
use super::unmeasured::Callee;
use super::{Driver, Queued, Ticks};

/// A single peak's search: the state that the next search begins anew.
pub(super) struct PeakSearch {
    /// The search's end, where others follow.
    pub(super) until: Option<Instant>,
    /// The calls' latencies.
    pub(super) peak: LatencyRange,
    /// These calls' mean latency, ns.
    pub(super) typical_ns: u64,
    pub(super) nodes: HashMap<NodeId, DrilledNode>,
    /// The nodes measured in the kernel, by slot.
    pub(super) slots: Vec<NodeId>,
    pub(super) measured: Vec<MeasuredNode>,
    /// The paths to their callers, to be shown.
    pub(super) of: Vec<Vec<String>>,
    pub(super) epoch: Epoch,
    /// The most functions probed at once.
    pub(super) most_probed: usize,
    /// The watched indirect calls, by their numbers in the kernel: the nodes whose function makes the call.
    pub(super) watched: HashMap<u32, Vec<(NodeId, SiteId)>>,
    /// Callees with too many calls to be measured: the caller's node, theirs, and the call count.
    pub(super) frequent: Vec<(NodeId, NodeId, u64)>,
    /// All callees whose probes took too much of their caller's time, in the same form: some take almost no time
    /// themselves.
    pub(super) dear: Vec<(NodeId, NodeId, u64)>,
    /// The callees without probes, by caller, and why.
    pub(super) unmeasured: BTreeMap<FunctionId, Vec<Callee>>,
    /// The functions whose probes the kernel single-steps, and the functions without probes for this reason.
    pub(super) stepped: Vec<String>,
    pub(super) not_stepped: Vec<String>,
    pub(super) ticks: Ticks,
    /// The requests behind the calls within the peak, where followed.
    pub(super) queued: Queued,
    /// The functions whose probes took more than the budget allows.
    pub(super) too_often: Vec<TooOften>,
    pub(super) notes: Vec<String>,
}

impl PeakSearch {
    /// A search whose tree is f0 alone.
    pub(super) fn new(peak: LatencyRange, typical_ns: u64, until: Option<Instant>) -> Self {
        let root = DrilledNode { parent: None, site: None, function: Some(FunctionId(0)) };
        Self {
            until,
            peak,
            typical_ns,
            nodes: HashMap::from([(NodeId::F0, root)]),
            slots: Vec::new(),
            measured: Vec::new(),
            of: Vec::new(),
            epoch: Epoch::default(),
            most_probed: 0,
            watched: HashMap::new(),
            frequent: Vec::new(),
            dear: Vec::new(),
            unmeasured: BTreeMap::new(),
            stepped: Vec::new(),
            not_stepped: Vec::new(),
            ticks: Ticks::default(),
            queued: Queued::default(),
            too_often: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl Driver<'_> {
    /// Begins a search for a peak's calls, whose mean latency is `typical_ns`, ns, and drops the previous search's tree. `at_most` limits
    /// its time, if others follow.
    pub fn begin_peak(&mut self, peak: LatencyRange, typical_ns: u64, at_most: Option<Duration>) {
        let until = at_most.and_then(|time| Instant::now().checked_add(time));
        let before = std::mem::replace(&mut self.search, PeakSearch::new(peak, typical_ns, until));
        self.watched_before += before.watched.len() as u32;
        self.kernel.watched = 0;
        self.number_slots();
        self.search.most_probed = self.probed.len();
        self.note_return_probe();
    }

    /// Whether no further search can begin: the time is over, or the process has ended.
    pub fn has_ended(&mut self, stop: &Signals) -> bool {
        self.search.until = None;
        self.ended(stop).is_some()
    }

    /// Whether the search's time is used up.
    pub(super) fn is_over(&self) -> bool {
        self.search.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// The counts since an earlier time.
pub(in crate::drill) fn since(now: &DrillCounts, then: &DrillCounts) -> DrillCounts {
    let less = |now: [u64; 64], then: [u64; 64]| {
        std::array::from_fn(|index| {
            let [now, then] = [now, then].map(|counts| counts.get(index).copied().unwrap_or(0));
            now.saturating_sub(then)
        })
    };
    DrillCounts {
        buckets: less(now.buckets, then.buckets),
        sums: less(now.sums, then.sums),
        left: now.left.saturating_sub(then.left),
        crowded: now.crowded.saturating_sub(then.crowded),
        lost: now.lost.saturating_sub(then.lost),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_a_search_are_those_since_its_beginning() {
        let counts = |calls: u64| DrillCounts {
            buckets: std::array::from_fn(|index| calls + index as u64 * calls),
            sums: [10 * calls; 64],
            left: calls + 1,
            crowded: 2 * calls,
            lost: 3 * calls,
        };
        let found = since(&counts(7), &counts(4));
        assert_eq!(found, DrillCounts { left: 3, ..counts(3) });
        assert_eq!(since(&counts(4), &counts(7)), DrillCounts::default());
        assert_eq!(since(&counts(4), &DrillCounts::default()), counts(4));
    }
}
