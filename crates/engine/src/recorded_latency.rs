//! How long calls, waits and requests took in a recording.
//!
//! A target means what it means live (`latency.rs`), but for what a recording does not hold: of system calls
//! only the waits in them are recorded, so that those have a name of their own, `blocked:NAME`.
//!
//! Something counts when it ends within the window, whenever it began, so that windows side by side add up.
//! What began before the recording, or ended unseen, has no length that is known: it is counted apart.

mod states;
mod tally;
mod target;
mod whom;

use std::time::Duration;

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_critical_path::{Algorithm, Basis, Timeouts, active, active_by, exact};
use wakepath_distribution::peaks;
use wakepath_event::{CallEnd, HostIndex};

use crate::path::head;
use crate::query::{self, asked};
use crate::{Distribution, Head, Name, NoRealtime, PathQuery, QueryError, Recorded, TimeSpec};
use states::Besides;
use tally::{End, Tallies, Window};
use target::{Target, TargetKind};
use whom::Chosen;
pub use whom::{OfWhom, Whom};

/// What is asked of a recording.
#[derive(Debug, Clone)]
pub struct LatencyQuery {
    /// What is counted, as people write it.
    pub targets: Vec<String>,
    /// Whose.
    pub whom: Whom,
    /// Of several hosts, whose threads are meant.
    pub host: Option<Name>,
    /// From here on; `None`: from the recording's beginning.
    pub from: Option<TimeSpec>,
    /// Up to here; `None`: to its end.
    pub to: Option<TimeSpec>,
    /// Show apart what came in each such time.
    pub every: Option<Duration>,
    /// How paths are made, where segments are asked for.
    pub algorithm: Algorithm,
}

/// What a recording says.
#[derive(Debug, Clone)]
pub struct RecordedLatency {
    /// What every document about a recording begins with.
    pub head: Head,
    /// Whose latencies these are, but for those of disks.
    pub of_whom: OfWhom,
    /// The window's first nanosecond.
    pub from: Stamp<Reference>,
    /// One past its last.
    pub to: Stamp<Reference>,
    /// In the order in which they were asked for. Stamps of their slices count from the head's origin.
    pub targets: Vec<Distribution>,
}

/// Most parts of the time that are shown apart, of all targets together.
pub const MAX_PARTS: u64 = 100_000;

/// Why a recording does not say it.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum NoLatency {
    #[error("`{0}` is nothing that a recording has latencies of")]
    NoTarget(String),
    #[error("there is no `{text}` in this recording{}", suggestion(.there))]
    NoSuch { text: String, there: Vec<String> },
    #[error("there is nothing of `{0}` in this recording")]
    Nothing(String),
    #[error("no calls of `{0}` were recorded, nor of any other function")]
    NoCalls(String),
    #[error("a recording does not hold where system calls began and ended, only the waits in them")]
    SystemCall(String),
    #[error("segments are of somebody's path: whose?")]
    WhosePath,
    #[error("that is {parts} parts of the time, and at most {MAX_PARTS} are shown")]
    TooManyParts { parts: u64 },
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error(transparent)]
    NoRealtime(#[from] NoRealtime),
}

fn suggestion(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => format!("; there is {only}"),
        Some((last, others)) => format!("; there are {} and {last}", others.join(", ")),
    }
}

/// How long what is asked about took, as far as the recording holds it.
///
/// # Errors
/// When a target is none, or nobody fits the question.
pub fn recorded_latency(recorded: &Recorded, query: &LatencyQuery) -> Result<RecordedLatency, NoLatency> {
    if recorded.graph.events() == 0 {
        return Err(QueryError::NoEvents.into());
    }
    let window = window(recorded, query)?;
    let host = query.host.as_ref().map(|host| query::host(recorded, host)).transpose()?;
    let mut targets: Vec<Target> = Vec::new();
    for text in &query.targets {
        for target in target::parse(recorded, text, host)? {
            if !targets.iter().any(|other| other.what == target.what) {
                targets.push(target);
            }
        }
    }
    let parts = window.parts().saturating_mul(targets.len() as u64);
    if parts > MAX_PARTS {
        return Err(NoLatency::TooManyParts { parts });
    }
    let chosen = whom::choose(recorded, query)?;
    let mut tallies = Tallies::new(window, targets.iter().map(|target| target.what));
    let besides = waits(recorded, &chosen, &mut tallies);
    calls(recorded, &chosen, &mut tallies);
    intervals(recorded, &chosen, host, &mut tallies);
    let ambiguous = segments(recorded, query, &mut tallies)?;
    let mut told = Vec::new();
    for Target { name, what, of_pattern } in targets {
        let Some(tally) = tallies.of(what).filter(|tally| !(of_pattern && tally.is_empty())) else {
            continue;
        };
        told.push(Distribution {
            target: name,
            of: what.of(),
            peaks: peaks(&tally.histogram),
            histogram: tally.histogram.clone(),
            groups: None,
            slices: tally.slices(&window),
            unwound: tally.unwound,
            overflowed: 0,
            open: tally.open,
            unseen: tally.unseen,
            probe: None,
            elsewhere: None,
            notes: notes(recorded, what, tally.is_empty(), &besides, ambiguous),
        });
    }
    if told.is_empty() {
        return Err(NoLatency::Nothing(query.targets.join(" ")));
    }
    let (from, to) = (window.from, window.to);
    Ok(RecordedLatency { head: head(recorded, from, to), of_whom: chosen.of_whom, from, to, targets: told })
}

fn window(recorded: &Recorded, query: &LatencyQuery) -> Result<Window, NoLatency> {
    let asked_for = PathQuery { from: query.from, to: query.to, ..PathQuery::default() };
    let (from, to) = asked(recorded, &asked_for)?;
    let (begin, end) = (recorded.from(), recorded.to());
    let (from, to) = (from.unwrap_or(begin).max(begin), to.unwrap_or(end).min(end));
    if from >= to {
        return Err(QueryError::EmptyWindow.into());
    }
    let every = query.every.map(|every| u64::try_from(every.as_nanos()).unwrap_or(u64::MAX).max(1));
    Ok(Window { origin: begin, from, to, every })
}

/// Waits that are states of threads.
fn waits(recorded: &Recorded, chosen: &Chosen, tallies: &mut Tallies) -> Besides {
    let mut besides = Besides::default();
    let wanted = |what: &TargetKind| {
        matches!(what, TargetKind::RunQueue | TargetKind::Blocked(_) | TargetKind::Lock | TargetKind::Futex)
    };
    if tallies.wants(wanted) {
        for (thread, _) in recorded.graph.threads().filter(|&(thread, _)| chosen.has(thread)) {
            states::count(recorded, thread, tallies, &mut besides);
        }
    }
    besides
}

/// Calls of functions.
fn calls(recorded: &Recorded, chosen: &Chosen, tallies: &mut Tallies) {
    if !tallies.wants(|what| matches!(what, TargetKind::Function(_))) {
        return;
    }
    for (to, call) in &recorded.survey.calls {
        let (from, to) = (reference(call.from), reference(*to));
        if chosen.has_tid(recorded, call.thread, from, to) {
            let end = match call.end {
                CallEnd::Returned | CallEnd::Moved => End::Seen,
                CallEnd::Unwound => End::Unwound,
                CallEnd::Open => End::Open,
            };
            tallies.take(TargetKind::Function(call.target), Some(from), to, end);
        }
    }
}

/// Requests of disks, of a host's or of all, whoever made them, and waits for kernel locks.
fn intervals(recorded: &Recorded, chosen: &Chosen, host: Option<HostIndex>, tallies: &mut Tallies) {
    let intervals = &recorded.survey.intervals;
    let (begin, end) = (recorded.from(), recorded.to());
    // What began while sources were still being attached may have begun before that.
    let known = |at: Stamp<Local>| Some(reference(at)).filter(|&at| at >= begin);
    let bounds = |from: Option<Stamp<Local>>, to: Option<Stamp<Local>>| {
        let how = if to.is_some() { End::Seen } else { End::Unseen };
        (from.and_then(known), to.or(from).map_or(end, reference), how)
    };
    if tallies.wants(|what| matches!(what, TargetKind::Disk(_))) {
        let mut request = |device, from, to, end| {
            if host.is_some_and(|host| recorded.device(device).0 != host) {
                return;
            }
            tallies.take(TargetKind::Disk(None), from, to, end);
            tallies.take(TargetKind::Disk(Some(device)), from, to, end);
        };
        for one in &intervals.requests {
            let (from, to, how) = bounds(one.from, one.to);
            request(one.of, from, to, how);
        }
        intervals.open_requests().for_each(|(device, from)| request(device, known(from), end, End::Open));
    }
    if tallies.wants(|what| matches!(what, TargetKind::Lock | TargetKind::KernelLock)) {
        let mut wait = |thread, from: Option<Stamp<Reference>>, to, end| {
            if chosen.has_tid(recorded, thread, from.unwrap_or(to), to) {
                tallies.take(TargetKind::KernelLock, from, to, end);
                tallies.take(TargetKind::Lock, from, to, end);
            }
        };
        for one in &intervals.lock_waits {
            let (from, to, how) = bounds(one.from, one.to);
            wait(one.of, from, to, how);
        }
        intervals.open_lock_waits().for_each(|(thread, from)| wait(thread, known(from), end, End::Open));
    }
}

/// Segments of paths; how many of them more than one explanation fits.
fn segments(recorded: &Recorded, query: &LatencyQuery, tallies: &mut Tallies) -> Result<u64, NoLatency> {
    let mut ambiguous = 0;
    if tallies.wants(|what| matches!(what, TargetKind::Segment(_))) {
        for window in whom::windows(recorded, query)? {
            let path = match query.algorithm {
                Algorithm::Active => active(&recorded.graph, window),
                Algorithm::Joined => active_by(&recorded.graph, window, Timeouts::Joined),
                Algorithm::Exact => exact(&recorded.graph, window),
            };
            for segment in &path.segments {
                ambiguous += u64::from(segment.basis == Basis::Ambiguous);
                tallies.take(TargetKind::Segment(segment.kind), Some(segment.from), segment.to, End::Seen);
            }
        }
    }
    Ok(ambiguous)
}

/// What a person should know of what was counted.
fn notes(
    recorded: &Recorded,
    what: TargetKind,
    empty: bool,
    besides: &Besides,
    ambiguous: u64,
) -> Vec<String> {
    let mut notes = Vec::new();
    let events = |name: &str| recorded.survey.counts.by_name().get(name).copied().unwrap_or(0);
    match what {
        TargetKind::RunQueue if besides.throttled.0 > 0 => {
            let (waits, ns) = besides.throttled;
            notes.push(format!(
                "in {waits} of these waits of the whole recording a CPU limit kept the thread off the CPU, {:.3} ms in all",
                ns as f64 / 1e6
            ));
        }
        TargetKind::Disk(_) if empty && events("block_issue") == 0 => {
            notes.push(String::from("the recording holds no request of any disk"));
        }
        TargetKind::Blocked(_) if empty && !besides.calls => {
            notes.push(String::from("the recording says of no wait in which system call it was"));
        }
        // Only our own recorder reads the word.
        TargetKind::Futex | TargetKind::Lock if empty && recorded.tracer.is_some() => {
            notes.push(String::from(
                "the trace says of no futex who owns it, so that none is known to be a lock; blocked:futex is of all",
            ));
        }
        TargetKind::Futex | TargetKind::Lock if empty && !besides.calls => {
            notes.push(String::from("the recording says of no wait whether it was for a futex"));
        }
        _ => {}
    }
    if let TargetKind::Futex | TargetKind::Lock = what {
        notes.push(String::from(
            "of futexes, those whose word names an owner: mutexes of glibc, and those that inherit priority",
        ));
    }
    if let TargetKind::KernelLock | TargetKind::Lock = what {
        notes.push(String::from(
            "of kernel locks, those that put who waits to sleep: spinning is not recorded",
        ));
    }
    if let TargetKind::Segment(_) = what
        && ambiguous > 0
    {
        notes.push(format!(
            "of all segments of these paths, {ambiguous} may be another kind: more than one explanation fits"
        ));
    }
    notes
}

fn reference(at: Stamp<Local>) -> Stamp<Reference> {
    at.on_reference_host()
}

#[cfg(test)]
mod tests;
