//! Span clocks, as JSON.

use serde::Serialize;
use wakepath_engine::Head;
use wakepath_engine::requests::{SpanClock, Traced};

use super::host;
use crate::json::head::since_origin;
use crate::json::text;

/// The clock of a process's spans.
#[derive(Serialize)]
pub(super) struct SpanClockJson<'a> {
    host: Option<&'a str>,
    pid: u32,
    /// Null if unknown.
    comm: Option<String>,
    service: &'a str,
    spans: u64,
    early: u64,
    late: u64,
    offsets: Vec<OffsetJson>,
}

#[derive(Serialize)]
struct OffsetJson {
    at_ns: i64,
    least_ns: i64,
    most_ns: Option<i64>,
}

/// Span clocks.
pub(super) fn span_clocks<'a>(
    head: &'a Head,
    traced: &'a Traced,
    clocks: &[SpanClock],
) -> Vec<SpanClockJson<'a>> {
    let clock = |clock: &SpanClock| SpanClockJson {
        host: host(head, Some(clock.process.host())),
        pid: clock.process.number(),
        comm: clock.comm.map(|comm| text(comm.bytes())),
        service: &traced.spans.services[clock.service.0 as usize].name,
        spans: clock.spans,
        early: clock.early,
        late: clock.late,
        offsets: clock
            .offsets
            .iter()
            .map(|offset| OffsetJson {
                at_ns: since_origin(head, offset.at),
                least_ns: offset.least_ns,
                most_ns: offset.most_ns,
            })
            .collect(),
    };
    clocks.iter().map(clock).collect()
}
