//! Several peaks, one search after another: the calls are counted once, and the searches share the functions and their call sites.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use wakepath_collect::{DrillCounts, Signals};
use wakepath_drilldown::{Epoch, FunctionId, LatencyRange, NodeId};
use wakepath_engine::drill::DrilledNode;

use super::{Driver, Queued, Ticks};

impl Driver<'_> {
    /// Begins a search for the calls of a peak, whose mean latency is this, ns; it may take this time, where others follow. The tree of
    /// another search is gone.
    pub fn begin_peak(&mut self, peak: LatencyRange, typical_ns: u64, at_most: Option<Duration>) {
        (self.peak, self.typical_ns) = (peak, typical_ns);
        self.queued = Queued::default();
        self.until = at_most.and_then(|time| Instant::now().checked_add(time));
        let root = DrilledNode { parent: None, site: None, function: Some(FunctionId(0)) };
        self.nodes = HashMap::from([(NodeId::F0, root)]);
        self.measured.clear();
        self.number_slots();
        self.of.clear();
        self.epoch = Epoch::default();
        self.watched_before += self.watched.len() as u32;
        self.watched.clear();
        self.kernel.watched = 0;
        self.frequent.clear();
        self.dear.clear();
        self.stepped.clear();
        self.not_stepped.clear();
        self.most_probed = self.probed.len();
        self.ticks = Ticks::default();
        self.notes.clear();
        self.note_return_probe();
    }

    /// Whether no other search can begin: the time is over, or the process has ended.
    pub fn has_ended(&mut self, stop: &Signals) -> bool {
        self.until = None;
        self.ended(stop).is_some()
    }

    /// Whether the search has had its part of the time.
    pub(super) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// The counts behind an earlier moment.
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
