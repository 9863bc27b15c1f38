//! Facts about a request beside its path: the states of its time (L19 §4.3.5), and its disk accesses.
//!
//! Failed system calls, which L19 counts too, are not here: recordings hold no system calls, only the waits in them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Basis, SegmentKind};
use wakepath_findings::BasisMix;
use wakepath_loaded::Recorded;
use wakepath_spans::RequestIndex;
use wakepath_wait_graph::ThreadIndex;

/// The state in a part of a request's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestState {
    /// The thread for which the request waited, or its own thread, worked for another request outside it.
    Blocked,
    /// A thread of the request, or a thread whose request is not known, was in this kind of time.
    Kind(SegmentKind),
}

impl RequestState {
    /// Its name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocked => "blocked_by_request",
            Self::Kind(kind) => kind.name(),
        }
    }
}

/// The time of a request in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateSum {
    /// The state.
    pub state: RequestState,
    /// The sum, ns.
    pub total_ns: u64,
    /// The sum by basis. A request that blocks is inferred: from its thread's spans.
    pub basis: BasisMix,
}

/// Adds up the states in a request's time.
#[derive(Debug, Default)]
pub(crate) struct States(BTreeMap<RequestState, (u64, BasisMix)>);

impl States {
    pub(crate) fn add(&mut self, state: RequestState, basis: Basis, ns: u64) {
        let (total_ns, mix) = self.0.entry(state).or_default();
        *total_ns += ns;
        if state == RequestState::Blocked {
            mix.inferred += ns;
        } else {
            mix.add(basis, ns);
        }
    }

    /// The sums, the largest first.
    pub(crate) fn finish(self) -> Vec<StateSum> {
        let sums = self.0.into_iter().map(|(state, (total_ns, basis))| StateSum { state, total_ns, basis });
        let mut sums: Vec<_> = sums.collect();
        sums.sort_by_key(|sum| (std::cmp::Reverse(sum.total_ns), sum.state));
        sums
    }
}

/// Disk accesses: sent to a device by threads themselves. An access that a kernel worker sent later, or wrote back
/// for all, belongs to no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskAccesses {
    /// The number of accesses, finished or open.
    pub count: u64,
    /// The number of accesses still open at the recording's end.
    pub open: u64,
    /// The sum of their sizes, bytes.
    pub bytes: u64,
    /// The device's total time for the finished accesses, ns. Simultaneous accesses count each.
    pub total_ns: u64,
}

impl DiskAccesses {
    /// The sum of these requests' accesses between two times; `accesses` are in time order.
    pub(crate) fn between(
        accesses: &[DiskAccess],
        (from, to): (Stamp<Reference>, Stamp<Reference>),
        is_asked: impl Fn(RequestIndex) -> bool,
    ) -> Self {
        let first = accesses.partition_point(|access| access.at < from);
        let mut sum = Self::default();
        let within = accesses[first..].iter().take_while(|access| access.at < to);
        for access in within.filter(|access| is_asked(access.request)) {
            sum.count += 1;
            sum.open += u64::from(access.ns.is_none());
            sum.bytes += u64::from(access.bytes);
            sum.total_ns += access.ns.unwrap_or(0);
        }
        sum
    }
}

/// A disk access by a thread with a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskAccess {
    at: Stamp<Reference>,
    request: RequestIndex,
    bytes: u32,
    /// `None` for an access without an end.
    ns: Option<u64>,
}

/// Whether a recording would show disk accesses.
fn shows_disks(recorded: &Recorded) -> bool {
    let is_ours = |(host, _)| !recorded.is_of_other_tracer(host);
    recorded.hosts().any(is_ours) || recorded.survey.counts.by_name().contains_key("block_issue")
}

/// All requests' disk accesses, ordered by time; `None` if the recording would not show them.
pub(crate) fn disk_accesses(
    recorded: &Recorded,
    worked_for: impl Fn(ThreadIndex, Stamp<Reference>) -> Option<RequestIndex>,
) -> Option<Vec<DiskAccess>> {
    let intervals = &recorded.survey.intervals;
    let ended = intervals.requests.iter().filter_map(|one| Some((one.of, one.from?, one.to)));
    let open = intervals.open_requests().map(|(of, from)| (of, from, None));
    let mut accesses: Vec<_> = ended
        .chain(open)
        .filter_map(|(of, from, to)| {
            let at = from.on_reference_host();
            let thread = recorded.thread_between(of.issuer?, at, at)?;
            let request = worked_for(thread, at)?;
            Some(DiskAccess { at, request, bytes: of.bytes, ns: to.map(|to| to.since(from)) })
        })
        .collect();
    accesses.sort_by_key(|access| (access.at, access.request));
    shows_disks(recorded).then_some(accesses)
}
