//! Facts about a request beside its path: the states of its time (L19 §4.3.5), and its disk accesses.
//!
//! Failed system calls, which L19 counts too, are not here: recordings hold no system calls, only the waits in them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Basis, SegmentKind};
use wakepath_findings::BasisMix;
use wakepath_spans::RequestIndex;

use super::Joined;
use crate::Recorded;
use crate::query::thread_between;

/// The state in a part of a request's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestState {
    /// The thread that the request waited for, or its own thread, worked for another request outside it.
    Blocked,
    /// A thread that works for the request, or for no known request, was in this kind of time.
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

/// A request's time in a state.
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
pub(super) struct States(BTreeMap<RequestState, (u64, BasisMix)>);

impl States {
    pub(super) fn add(&mut self, state: RequestState, basis: Basis, ns: u64) {
        let (total_ns, mix) = self.0.entry(state).or_default();
        *total_ns += ns;
        if state == RequestState::Blocked {
            mix.inferred += ns;
        } else {
            mix.add(basis, ns);
        }
    }

    /// The sums, the largest first.
    pub(super) fn finish(self) -> Vec<StateSum> {
        let sums = self.0.into_iter().map(|(state, (total_ns, basis))| StateSum { state, total_ns, basis });
        let mut sums: Vec<_> = sums.collect();
        sums.sort_by_key(|sum| (std::cmp::Reverse(sum.total_ns), sum.state));
        sums
    }
}

/// Disk accesses: requests that threads sent to a device themselves. Requests that a kernel worker sent later, or wrote
/// back for all, belong to no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskAccesses {
    /// Their number.
    pub count: u64,
    /// The number of accesses open at the recording's end.
    pub open: u64,
    /// The sum of their sizes, bytes.
    pub bytes: u64,
    /// The device's total time for the finished accesses, ns. Simultaneous accesses count each.
    pub total_ns: u64,
}

/// A disk access by a thread that worked for a request.
#[derive(Debug, Clone, Copy)]
pub struct DiskAccess {
    at: Stamp<Reference>,
    request: RequestIndex,
    bytes: u32,
    /// Its length, ns; `None` if it had not ended.
    ns: Option<u64>,
}

/// Whether a recording would show disk accesses.
fn shows_disks(recorded: &Recorded) -> bool {
    let is_ours = |(host, _)| !recorded.is_of_other_tracer(host);
    recorded.hosts().any(is_ours) || recorded.survey.counts.by_name().contains_key("block_issue")
}

/// All requests' disk accesses, ordered by time; `None` if the recording would not show them.
pub(super) fn disk_accesses(
    recorded: &Recorded,
    worked_for: impl Fn(wakepath_wait_graph::ThreadIndex, Stamp<Reference>) -> Option<RequestIndex>,
) -> Option<Vec<DiskAccess>> {
    let intervals = &recorded.survey.intervals;
    let ended = intervals.requests.iter().filter_map(|one| Some((one.of, one.from?, one.to)));
    let open = intervals.open_requests().map(|(of, from)| (of, from, None));
    let mut accesses: Vec<_> = ended
        .chain(open)
        .filter_map(|(of, from, to)| {
            let at = from.on_reference_host();
            let thread = thread_between(recorded, of.issuer?, at, at)?;
            let request = worked_for(thread, at)?;
            Some(DiskAccess { at, request, bytes: of.bytes, ns: to.map(|to| to.since(from)) })
        })
        .collect();
    accesses.sort_by_key(|access| (access.at, access.request));
    shows_disks(recorded).then_some(accesses)
}

impl Joined<'_> {
    /// The disk accesses by threads that worked for a request or for its parts in other services; `None` if the
    /// recording would not show them.
    pub(super) fn disk(&self, request: RequestIndex) -> Option<DiskAccesses> {
        let accesses = self.disk.as_ref()?;
        let (from, to) = self.times(request);
        let first = accesses.partition_point(|access| access.at < from);
        let mut sum = DiskAccesses::default();
        let of_time = accesses[first..].iter().take_while(|access| access.at < to);
        for access in of_time.filter(|access| self.traced.requests.is_part(access.request, request)) {
            sum.count += 1;
            sum.open += u64::from(access.ns.is_none());
            sum.bytes += u64::from(access.bytes);
            sum.total_ns += access.ns.unwrap_or(0);
        }
        Some(sum)
    }
}
