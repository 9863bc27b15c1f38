//! A request's goroutine, as JSON.

use serde::Serialize;
use wakepath_engine::requests::{Reason, RequestGoroutine, Traced};

use crate::escape::escape;

#[derive(Serialize)]
pub(super) struct GoroutineJson<'a> {
    number: u64,
    /// The goroutine of each segment on the path; null if unknown.
    segments: &'a [Option<u64>],
    /// The time in which it did not run, by reason.
    waits: Vec<ParkedJson>,
    /// The spans not searched for goroutines that went on with the request.
    spans_left_out: u64,
}

#[derive(Serialize)]
struct ParkedJson {
    state: &'static str,
    /// In the words of Go's runtime.
    reason: Option<String>,
    total_ns: u64,
    times: u64,
    /// The other request that ended most of this time.
    ended_by: Option<EndedByJson>,
}

#[derive(Serialize)]
struct EndedByJson {
    trace_id: String,
    span_id: String,
    total_ns: u64,
}

impl<'a> GoroutineJson<'a> {
    pub(super) fn new(traced: &Traced, of: &'a RequestGoroutine) -> Option<Self> {
        let waits = of.parked.iter().map(|parked| {
            let (state, reason) = reason_in_words(&parked.reason);
            let ended_by = parked.ended_by.map(|(request, total_ns)| {
                let root = traced.root(request);
                EndedByJson { trace_id: root.trace.to_string(), span_id: root.id.to_string(), total_ns }
            });
            ParkedJson { state, reason, total_ns: parked.total_ns, times: parked.times, ended_by }
        });
        Some(Self {
            number: of.number,
            segments: &of.segments,
            waits: waits.collect(),
            spans_left_out: of.spans_left_out,
        })
    }
}

/// The state in which a goroutine does not run, and the reason in the words of Go's runtime.
pub(super) fn reason_in_words(reason: &Reason) -> (&'static str, Option<String>) {
    match reason {
        Reason::Named(name) => ("parked", Some(escape(name.bytes()))),
        Reason::Numbered(number) => ("parked", Some(number.to_string())),
        Reason::Queued => ("queued", None),
        Reason::Unknown => ("unknown", None),
    }
}
