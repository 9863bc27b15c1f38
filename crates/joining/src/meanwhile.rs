//! Requests perhaps run by an event loop while another request waited for something unknown.
//!
//! ```text
//! loop      a.|bbbbbb|.a      `a` waits, and its loop runs long between two waits: `b` began or ended in this run
//! ```
//!
//! Nothing shows when `a` was ready. If it was ready as the run began, `b` blocked it all the while; if only as it ended, not at all.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_spans::RequestIndex;
use wakepath_wait_graph::ThreadIndex;

use crate::join::Joined;
use crate::tasks::is_loop_wait;

/// The shortest reported time, ns.
const MIN_NS: u64 = 1_000_000;

/// The most reported requests.
const MAX_REPORTED: usize = 3;

type Times = (Stamp<Reference>, Stamp<Reference>);

impl Joined<'_> {
    /// The requests which began or ended in their loop's runs within these times, most time first: each blocked `request` at most while it was open in
    /// these runs, ns.
    pub fn perhaps_blocked_by(
        &self,
        request: RequestIndex,
        thread: ThreadIndex,
        undecided: impl IntoIterator<Item = Times>,
    ) -> Vec<(RequestIndex, u64)> {
        let runs: Vec<Times> = undecided.into_iter().flat_map(|times| self.runs(thread, times)).collect();
        let requests = &self.traced.requests;
        let mut sums: BTreeMap<RequestIndex, u64> = BTreeMap::new();
        for other in (0..requests.requests.len() as u32).map(RequestIndex) {
            let (began, ended) = self.times(other);
            let open = runs.iter().filter(|(from, to)| {
                let is_within = |at: Stamp<Reference>| *from <= at && at <= *to;
                is_within(began) || is_within(ended)
            });
            let ns: u64 = open.map(|(from, to)| ended.min(*to).since(began.max(*from))).sum();
            if ns >= MIN_NS && !requests.is_part(other, request) && self.thread_of(other) == Some(thread) {
                sums.insert(other, ns);
            }
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(request, ns)| (Reverse(*ns), *request));
        sums.truncate(MAX_REPORTED);
        sums
    }

    /// A loop's runs between its waits in this time.
    fn runs(&self, thread: ThreadIndex, (from, to): Times) -> Vec<Times> {
        let graph = &self.recorded.graph;
        let waits = graph.state_intervals(thread).overlapping(from, to);
        let mut at = from;
        let mut runs = Vec::new();
        for wait in waits.filter(|interval| is_loop_wait(graph, interval)) {
            runs.push((at, wait.from.max(at)));
            at = wait.to.min(to);
        }
        runs.push((at, to));
        runs
    }
}
