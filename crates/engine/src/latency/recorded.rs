//! Latencies from a recording.
//!
//! A target has the same meaning as in live counting, except for data that a recording lacks: it holds no system calls
//! but only the waits in them, which therefore have a name of their own, `blocked:NAME`.
//!
//! A call or wait counts if it ends within the window, whenever it began, so that adjacent windows add up. If it began
//! before the recording, or its end was not seen, its length is unknown: it counts as unseen.

mod counting;
mod error;
mod marks;
mod resolve;
mod states;
mod threads;

use std::time::Duration;

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_critical_path::{Basis, active};
use wakepath_event::{CallEnd, HostIndex};
use wakepath_loaded::Stretches;

use super::Distribution;
use super::target::LockKind;
use crate::head::head;
use crate::query;
use crate::requests::{Places, Traced};
use crate::{Head, Name, PathQuery, QueryError, Recorded, TimeSpec};
use counting::{Counters, Ending, Facts, Window};
pub use error::{MAX_SLICES, RecordedLatencyError};
use resolve::{RecordedTarget, TargetKind, resolve};
use threads::SelectedThreads;
pub use threads::{Population, ThreadFilter};

/// A question about the latencies in a recording.
#[derive(Debug, Clone, Default)]
pub struct RecordedQuery {
    /// The targets, as users write them.
    pub targets: Vec<String>,
    /// The counted threads.
    pub threads: ThreadFilter,
    /// The threads' host, in a recording of several hosts.
    pub host: Option<Name>,
    /// The window's beginning; `None` for the recording's.
    pub from: Option<TimeSpec>,
    /// The window's end; `None` for the recording's.
    pub to: Option<TimeSpec>,
    /// The time slices' length; `None` for no slices.
    pub every: Option<Duration>,
}

/// The latencies in a recording.
#[derive(Debug, Clone)]
pub struct RecordedLatency {
    /// The head of all answers about a recording.
    pub head: Head,
    /// The counted threads. Disk latencies count for all threads.
    pub population: Population,
    /// The window's first nanosecond.
    pub from: Stamp<Reference>,
    /// The window's exclusive end.
    pub to: Stamp<Reference>,
    /// The distributions, in the order of the question. Slice times count from the head's origin.
    pub targets: Vec<Distribution>,
}

/// Counts latencies in a recording.
///
/// # Errors
/// When a target is not in the recording, or no thread fits the question.
pub fn recorded_latency(
    recorded: &Recorded,
    query: &RecordedQuery,
) -> Result<RecordedLatency, RecordedLatencyError> {
    recorded_latency_with(recorded, None, query)
}

/// Counts latencies in a recording, and in the spans beside it. Spans count for all services, whatever threads are
/// chosen.
///
/// # Errors
/// When a target is not in the recording, or no thread fits the question.
pub fn recorded_latency_with(
    recorded: &Recorded,
    traced: Option<&Traced>,
    query: &RecordedQuery,
) -> Result<RecordedLatency, RecordedLatencyError> {
    if recorded.graph.events() == 0 && recorded.survey.user_marks.marks.is_empty() {
        return Err(QueryError::NoEvents.into());
    }
    let window = window(recorded, query)?;
    let host = query.host.as_ref().map(|host| query::host(recorded, host)).transpose()?;
    let with_marks = query.targets.iter().any(|text| text.starts_with("ust:"));
    let stretches = with_marks.then(|| Stretches::new(recorded));
    let mut targets: Vec<RecordedTarget> = Vec::new();
    for text in &query.targets {
        for target in resolve(recorded, (traced, stretches.as_ref()), text, host)? {
            if !targets.iter().any(|other| other.kind == target.kind) {
                targets.push(target);
            }
        }
    }
    let slices = window.slices().saturating_mul(targets.len() as u64);
    if slices > MAX_SLICES {
        return Err(RecordedLatencyError::TooManySlices { slices });
    }
    let threads = threads::select(recorded, query, host)?;
    let mut counters = Counters::new(window, &targets);
    waits(recorded, &threads, &mut counters);
    calls(recorded, &threads, &mut counters);
    intervals(recorded, &threads, host, &mut counters);
    segments(recorded, query, &mut counters)?;
    spans(recorded, traced, &mut counters)?;
    if let Some(stretches) = &stretches {
        marks::count(stretches, &threads, &mut counters);
    }
    let mut distributions = Vec::new();
    for RecordedTarget { kind, of_pattern, .. } in targets {
        let found = counters.take(kind).filter(|found| !(of_pattern && found.is_empty()));
        let Some(mut found) = found else { continue };
        found.notes = match (&stretches, kind) {
            (Some(stretches), TargetKind::User(_, kind)) => marks::notes(recorded, stretches, kind, &found),
            _ => notes(recorded, kind, found.is_empty(), &counters.facts),
        };
        distributions.push(found);
    }
    if distributions.is_empty() {
        return Err(RecordedLatencyError::Nothing(query.targets.join(" ")));
    }
    let (from, to) = (window.from, window.to);
    let head = head(recorded, from, to);
    Ok(RecordedLatency { head, population: threads.population, from, to, targets: distributions })
}

fn window(recorded: &Recorded, query: &RecordedQuery) -> Result<Window, RecordedLatencyError> {
    let asked = PathQuery { from: query.from, to: query.to, ..PathQuery::default() };
    let range = query::range(recorded, &asked)?;
    let every = query.every.map(|every| u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).max(1));
    Ok(Window { origin: recorded.from(), from: range.start, to: range.end, every })
}

/// Counts the waits among thread states.
fn waits(recorded: &Recorded, threads: &SelectedThreads, counters: &mut Counters) {
    let wanted = |kind: &TargetKind| {
        use TargetKind::{Blocked, Lock, RunQueue};
        matches!(kind, RunQueue | Blocked(_) | Lock(None | Some(LockKind::User)))
    };
    if counters.want(wanted) {
        for (thread, _) in recorded.graph.threads().filter(|&(thread, _)| threads.contain(thread)) {
            states::count(recorded, thread, counters);
        }
    }
}

/// Counts function calls.
fn calls(recorded: &Recorded, threads: &SelectedThreads, counters: &mut Counters) {
    if !counters.want(|kind| matches!(kind, TargetKind::Function(_))) {
        return;
    }
    for (to, call) in &recorded.survey.calls {
        let (from, to) = (call.from.on_reference_host(), to.on_reference_host());
        if threads.contain_tid(recorded, call.thread, from, to) {
            let end = match call.end {
                CallEnd::Returned | CallEnd::Stayed | CallEnd::Moved => Ending::Seen,
                CallEnd::Unwound => Ending::Unwound,
                CallEnd::Open => Ending::Open,
            };
            counters.count(TargetKind::Function(call.target), Some(from), to, end);
        }
    }
}

/// Counts disk requests by any process, on a single host or all; and waits for kernel locks.
fn intervals(
    recorded: &Recorded,
    threads: &SelectedThreads,
    host: Option<HostIndex>,
    counters: &mut Counters,
) {
    let intervals = &recorded.survey.intervals;
    let (begin, end) = (recorded.from(), recorded.to());
    // An interval whose beginning was seen while sources were still being attached may have begun earlier.
    let known = |at: Stamp<Local>| Some(at.on_reference_host()).filter(|&at| at >= begin);
    let ended = |from: Option<Stamp<Local>>, to: Option<Stamp<Local>>| {
        let how = if to.is_some() { Ending::Seen } else { Ending::Unseen };
        (from.and_then(known), to.or(from).map_or(end, Stamp::on_reference_host), how)
    };
    let open = |from| (known(from), end, Ending::Open);
    if counters.want(|kind| matches!(kind, TargetKind::Disk(_))) {
        let over = intervals.requests.iter().map(|one| (one.of, ended(one.from, one.to)));
        let under_way = intervals.open_requests().map(|(request, from)| (request, open(from)));
        for (request, (from, to, how)) in over.chain(under_way) {
            let device = request.device;
            if host.is_none_or(|host| recorded.device(device).0 == host) {
                counters.count(TargetKind::Disk(None), from, to, how);
                counters.count(TargetKind::Disk(Some(device)), from, to, how);
            }
        }
    }
    if counters.want(|kind| matches!(kind, TargetKind::Lock(None | Some(LockKind::Kernel)))) {
        let over = intervals.lock_waits.iter().map(|one| (one.of, ended(one.from, one.to)));
        let under_way = intervals.open_lock_waits().map(|(thread, from)| (thread, open(from)));
        for (thread, (from, to, how)) in over.chain(under_way) {
            if threads.contain_tid(recorded, thread, from.unwrap_or(to), to) {
                counters.count_lock(LockKind::Kernel, from, to, how);
            }
        }
    }
}

/// Counts path segments.
fn segments(
    recorded: &Recorded,
    query: &RecordedQuery,
    counters: &mut Counters,
) -> Result<(), RecordedLatencyError> {
    if counters.want(|kind| matches!(kind, TargetKind::Segment(_))) {
        for window in threads::windows(recorded, query)? {
            for segment in &active(&recorded.graph, window).segments {
                counters.facts.ambiguous += u64::from(segment.basis == Basis::Ambiguous);
                let (from, kind) = (Some(segment.from), TargetKind::Segment(segment.kind));
                counters.count(kind, from, segment.to, Ending::Seen);
            }
        }
    }
    Ok(())
}

/// Counts spans, by their own times.
fn spans(
    recorded: &Recorded,
    traced: Option<&Traced>,
    counters: &mut Counters,
) -> Result<(), RecordedLatencyError> {
    let Some(traced) = traced.filter(|_| counters.want(|kind| matches!(kind, TargetKind::Span(_)))) else {
        return Ok(());
    };
    let no_realtime = |_| RecordedLatencyError::Query(QueryError::NoRealtime);
    let places = Places::new(recorded, traced).map_err(no_realtime)?;
    for (index, span) in traced.spans.iter() {
        // The length is the span's, on its own clock.
        let (_, to) = places.times(traced, index);
        let from = Stamp::from_ns(to.ns().saturating_sub(span.length_ns()));
        counters.count(TargetKind::Span(span.operation), Some(from), to, Ending::Seen);
    }
    Ok(())
}

/// Sentences about limits to the meaning of a target's latencies.
fn notes(recorded: &Recorded, kind: TargetKind, empty: bool, facts: &Facts) -> Vec<String> {
    let mut notes = Vec::new();
    let events = |name: &str| recorded.survey.counts.by_name().get(name).copied().unwrap_or(0);
    let user_locks = matches!(kind, TargetKind::Lock(None | Some(LockKind::User)));
    match kind {
        TargetKind::RunQueue if facts.throttled.0 > 0 => {
            let (waits, ns) = facts.throttled;
            notes.push(format!(
                "in the whole recording, a CPU limit kept threads off the CPU in {waits} of these waits, for {:.3} ms in all",
                ns as f64 / 1e6
            ));
        }
        TargetKind::Function(number) => {
            notes.extend(recorded.unprobed_after(number).map(|ns| {
                format!(
                    "its probes were removed {:.1} ms after the recording's beginning, since they took too much: later calls are not \
                     recorded",
                    ns as f64 / 1e6
                )
            }));
        }
        TargetKind::Disk(_) if empty && events("block_issue") == 0 => {
            notes.push(String::from("the recording holds no disk requests"));
        }
        TargetKind::Blocked(_) if empty && !facts.calls => {
            notes.push(String::from("the recording does not name the system calls in which threads waited"));
        }
        // Only wakepath's recorder reads the futex word.
        TargetKind::Lock(_) if user_locks && empty && recorded.tracer.is_some() => {
            notes.push(String::from(
                "the trace does not name the owners of futexes, so none is known to be a lock; blocked:futex counts all futex waits",
            ));
        }
        TargetKind::Lock(_) if user_locks && empty && !facts.calls => {
            notes.push(String::from("the recording does not say which waits were for a futex"));
        }
        TargetKind::Span(_) => notes.push(String::from(
            "spans are those of all services that ended in this time; one that ended later is counted as open",
        )),
        _ => {}
    }
    if user_locks {
        notes.push(String::from(
            "futexes count only if their word names an owner: mutexes of glibc, and mutexes with priority inheritance",
        ));
    }
    if matches!(kind, TargetKind::Lock(None | Some(LockKind::Kernel))) {
        notes.push(String::from(
            "kernel locks count only while the waiting thread sleeps: spinning is not recorded",
        ));
    }
    if matches!(kind, TargetKind::Segment(_)) && facts.ambiguous > 0 {
        notes.push(format!(
            "{} of all segments of these paths may be of another kind: more than one explanation fits",
            facts.ambiguous
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
