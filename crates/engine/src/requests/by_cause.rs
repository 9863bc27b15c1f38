//! The slowest requests, grouped by cause.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use wakepath_critical_path::Algorithm;
use wakepath_findings::{BasisMix, Certainty, Row, RowKey};
use wakepath_spans::{OperationIndex, RequestIndex};

use super::group::{BlockerOf, by_blocker};
use super::headline::{RequestHeadline, is_most};
use super::one::{RequestAnswer, RequestPath, request_in_group};
use super::{Joined, SpanClock, SpanTime, Traced, WithoutPath, own_times_alone};
use crate::Head;
use crate::paths_head::PathsHead;

/// A cause by which requests are grouped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestCause {
    /// Other requests blocked them: the operation with the most blocked time.
    Blocked(BlockerOf),
    /// The largest cause on their paths.
    Path {
        /// The cause.
        key: RowKey,
        /// The called operation for which they waited most.
        called: Option<OperationIndex>,
    },
    /// The operation with the most own time by spans alone: their paths are not known.
    Spans {
        /// The operation.
        operation: OperationIndex,
        /// Whether the recording has no moment from their time.
        is_outside: bool,
    },
    /// They have no length.
    Empty,
}

impl RequestCause {
    /// Whether the requests are from another time than the recording.
    pub const fn is_outside(&self) -> bool {
        matches!(self, Self::Spans { is_outside: true, .. })
    }
}

/// Requests with the same cause.
#[derive(Debug)]
pub struct CauseGroup<'r> {
    /// The cause.
    pub cause: RequestCause,
    /// The requests with their lengths, ns, the slowest first; at least 1.
    pub requests: Vec<(RequestIndex, u64)>,
    /// The requests' time, ns.
    pub total_ns: u64,
    /// The part due to the cause, ns.
    pub cause_ns: u64,
    /// The part in which they waited for requests to the called operation, ns.
    pub called_ns: u64,
    /// The part due to a path's cause, by basis; empty for other causes.
    pub basis: BasisMix,
    /// The requests' operations with their numbers, most requests first.
    pub operations: Vec<(OperationIndex, u64)>,
    /// A path's cause: its row in the example, with all requests' processes and threads.
    pub row: Row,
    /// The slowest request's answer; `None` without a recording.
    pub example: Option<RequestAnswer<'r>>,
}

impl CauseGroup<'_> {
    /// The slowest request.
    pub fn slowest(&self) -> RequestIndex {
        self.requests[0].0
    }

    /// The certainty of `cause_ns`: inferred, unless a path has it.
    pub fn certainty(&self) -> Certainty {
        self.basis.certainty()
    }

    /// Whether the cause is more than half their time.
    pub fn is_most(&self) -> bool {
        is_most(self.cause_ns, self.total_ns)
    }
}

/// The slowest requests by cause.
#[derive(Debug)]
pub struct ByCauseAnswer<'r> {
    /// The answer's head; `None` without a recording.
    pub head: Option<Head>,
    /// The spans and their requests.
    pub traced: &'r Traced,
    /// All requests in question, their number.
    pub all: usize,
    /// The slowest, which are explained: their number.
    pub explained: usize,
    /// The groups, most time due to the cause first; groups from another time are last.
    pub groups: Vec<CauseGroup<'r>>,
    /// The explained requests without a path: their causes are by spans.
    pub without_path: WithoutPath,
    /// From the first beginning to the last end; `None` without a recording.
    pub times: Option<(SpanTime, SpanTime)>,
    /// Their services' span clocks.
    pub clocks: Vec<SpanClock>,
}

/// Explains the first `slowest` in `ranked` (all requests in question, the slowest first), and groups them by cause.
/// `progress` gets the number explained before each.
pub fn requests_by_cause<'r>(
    joined: &Joined<'r>,
    ranked: &[RequestIndex],
    slowest: usize,
    algorithm: Algorithm,
    mut progress: impl FnMut(usize),
) -> ByCauseAnswer<'r> {
    let traced = joined.traced;
    let explained = slowest.min(ranked.len());
    let (mut groups, mut head) = (Groups::default(), PathsHead::default());
    let (mut without_path, mut services) = (WithoutPath::default(), HashSet::new());
    let mut times: Option<(SpanTime, SpanTime)> = None;
    for (done, &request) in ranked[..explained].iter().enumerate() {
        progress(done);
        let answer = request_in_group(joined, request, algorithm);
        match &answer.path {
            Ok(path) => head.add(&path.answer),
            Err(why) => without_path.add(*why),
        }
        services.insert(traced.root(request).service);
        let (from, to) = times.unwrap_or((answer.from, answer.to));
        times = Some((from.min(answer.from), to.max(answer.to)));
        groups.add(traced, (request, answer.to.since(answer.from)), cause(&answer), Some(answer));
    }
    let is_own = |clock: &&SpanClock| services.contains(&clock.service);
    ByCauseAnswer {
        head: Some(head.finish(joined.recorded)),
        traced,
        all: ranked.len(),
        explained,
        groups: groups.finish(),
        without_path,
        times,
        clocks: joined.contexts.clocks.iter().filter(is_own).cloned().collect(),
    }
}

/// Groups the first `slowest` in `ranked` by their spans alone, without a recording.
pub fn requests_by_cause_alone<'r>(
    traced: &'r Traced,
    ranked: &[RequestIndex],
    slowest: usize,
) -> ByCauseAnswer<'r> {
    let explained = slowest.min(ranked.len());
    let mut groups = Groups::default();
    for &request in &ranked[..explained] {
        let own = own_times_alone(traced, request);
        let first = own.first().map(|own| (own.operation, own.total_ns));
        groups.add(traced, (request, traced.root(request).length_ns()), Due::by_spans(first, false), None);
    }
    ByCauseAnswer {
        head: None,
        traced,
        all: ranked.len(),
        explained,
        groups: groups.finish(),
        without_path: WithoutPath::default(),
        times: None,
        clocks: Vec::new(),
    }
}

/// A request's cause, and the time due to it.
struct Due {
    cause: RequestCause,
    ns: u64,
    called_ns: u64,
    basis: BasisMix,
    row: Row,
}

impl Due {
    /// By a rule.
    fn inferred(cause: RequestCause, ns: u64) -> Self {
        Self { cause, ns, called_ns: 0, basis: BasisMix::default(), row: Row::default() }
    }

    /// By the operation with the most own time.
    fn by_spans(first: Option<(OperationIndex, u64)>, is_outside: bool) -> Self {
        match first {
            Some((operation, ns)) => Self::inferred(RequestCause::Spans { operation, is_outside }, ns),
            None => Self::inferred(RequestCause::Empty, 0),
        }
    }
}

/// A request's cause.
fn cause(answer: &RequestAnswer<'_>) -> Due {
    let by_path = match (answer.headline(), &answer.path) {
        (RequestHeadline::Blocked(_), Ok(path)) => blocked(answer.traced, path),
        (RequestHeadline::Path(path), _) => on_path(answer.traced, path),
        _ => None,
    };
    let own = || answer.own.first().map(|own| (own.operation, own.total_ns));
    by_path.unwrap_or_else(|| Due::by_spans(own(), answer.is_outside))
}

/// The operation whose requests together blocked a path longest; equals in their order, known spans first.
fn blocked(traced: &Traced, path: &RequestPath<'_>) -> Option<Due> {
    let sums = by_blocker(traced, path).into_iter();
    let (of, ns) = sums.min_by_key(|(_, ns)| Reverse(*ns))?;
    Some(Due::inferred(RequestCause::Blocked(of), ns))
}

fn on_path(traced: &Traced, path: &RequestPath<'_>) -> Option<Due> {
    let (key, row) = path.answer.first_cause()?;
    let called = path.called_most();
    let cause = RequestCause::Path { key, called: called.map(|one| traced.root(one.request).operation) };
    let called_ns = called.map_or(0, |one| one.total_ns);
    Some(Due { cause, ns: row.total_ns, called_ns, basis: row.basis, row })
}

/// Groups grow request by request, and keep only the first answer.
#[derive(Default)]
struct Groups<'r>(BTreeMap<RequestCause, CauseGroup<'r>>);

impl<'r> Groups<'r> {
    fn add(
        &mut self,
        traced: &Traced,
        (request, length_ns): (RequestIndex, u64),
        due: Due,
        answer: Option<RequestAnswer<'r>>,
    ) {
        let Due { cause, ns, called_ns, basis, mut row } = due;
        let group = self.0.entry(cause.clone()).or_insert_with(|| CauseGroup {
            cause,
            requests: Vec::new(),
            total_ns: 0,
            cause_ns: 0,
            called_ns: 0,
            basis: BasisMix::default(),
            operations: Vec::new(),
            row: std::mem::take(&mut row),
            example: answer,
        });
        group.requests.push((request, length_ns));
        // Spans may have any length.
        group.total_ns = group.total_ns.saturating_add(length_ns);
        group.cause_ns = group.cause_ns.saturating_add(ns);
        group.called_ns += called_ns;
        group.basis.add_mix(basis);
        group.row.processes.append(&mut row.processes);
        group.row.threads.append(&mut row.threads);
        let operation = traced.root(request).operation;
        match group.operations.iter_mut().find(|(known, _)| *known == operation) {
            Some((_, count)) => *count += 1,
            None => group.operations.push((operation, 1)),
        }
    }

    /// Sorted by the time due to the cause, the largest first.
    fn finish(self) -> Vec<CauseGroup<'r>> {
        let mut groups: Vec<_> = self.0.into_values().collect();
        for group in &mut groups {
            group.operations.sort_by_key(|&(operation, count)| (Reverse(count), operation));
        }
        // Equal groups stay in their causes' order.
        groups.sort_by_key(|group| {
            (group.cause.is_outside(), Reverse(group.cause_ns), Reverse(group.requests.len()))
        });
        groups
    }
}
