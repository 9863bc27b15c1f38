//! The keys common to all documents.

use serde::Serialize;
use wakepath_clock::{Reference, Stamp};
use wakepath_engine::{Cost, CostInKernel, CostOfKind, Head, Host, Problem};
use wakepath_event::Cpu;
use wakepath_wait_graph::Loss;

use super::text;
use crate::{problem, wording};

/// The beginning of every document.
#[derive(Serialize)]
pub struct HeadJson {
    schema: &'static str,
    /// The host whose clock the stamps use, then the others.
    hosts: Vec<HostJson>,
    clock: ClockJson,
    origin_ns: String,
    origin_realtime_ns: Option<String>,
    problems: Vec<ProblemJson>,
    losses: Vec<LossJson>,
    cost: Option<CostJson>,
}

#[derive(Serialize)]
struct HostJson {
    host: String,
    name: String,
    kernel: String,
}

#[derive(Serialize)]
struct ClockJson {
    name: &'static str,
    /// Realtime minus this clock, at the origin; a string, because it passes 2^53.
    utc_offset_ns: Option<String>,
    /// Null without a bound.
    error_ns: Option<u64>,
}

#[derive(Serialize)]
struct ProblemJson {
    code: &'static str,
    severity: &'static str,
    text: String,
    #[serde(rename = "where")]
    place: PlaceJson,
}

#[derive(Serialize)]
struct PlaceJson {
    from_ns: i64,
    to_ns: i64,
    tid: Option<u32>,
    comm: Option<String>,
}

#[derive(Serialize)]
struct LossJson {
    host: Option<String>,
    /// Null if unknown.
    cpu: Option<u16>,
    from_ns: i64,
    to_ns: i64,
    /// Null if only the fact is known.
    count: Option<u64>,
    /// The kind of lost records: `any`, or a single kind.
    records: &'static str,
    /// The recorder counted them; otherwise a switch is missing between records that do not fit together.
    reported: bool,
}

#[derive(Serialize)]
struct CostJson {
    observer_ns: u64,
    over_ns: u64,
    /// Null if it was not measured, as the next three.
    kernel_ns_from: Option<u64>,
    kernel_ns_to: Option<u64>,
    running_ns: Option<u64>,
    by_kind: Option<Vec<CostOfKindJson>>,
}

#[derive(Serialize)]
struct CostOfKindJson {
    kind: &'static str,
    count: u64,
    each_ns_from: u64,
    each_ns_to: Option<u64>,
    kernel_ns_from: u64,
    kernel_ns_to: Option<u64>,
}

impl HeadJson {
    pub fn new(schema: &'static str, head: &Head) -> Self {
        let offset =
            head.origin_realtime_ns.map(|realtime| i128::from(realtime) - i128::from(head.origin.ns()));
        let losses = head.losses.iter().enumerate();
        Self {
            schema,
            hosts: std::iter::once(&head.host).chain(&head.others).map(HostJson::new).collect(),
            clock: ClockJson {
                name: head.clock,
                utc_offset_ns: offset.map(|offset| offset.to_string()),
                error_ns: head.clock_error_ns,
            },
            origin_ns: head.origin.ns().to_string(),
            origin_realtime_ns: head.origin_realtime_ns.map(|ns| ns.to_string()),
            problems: head.problems.iter().map(|problem| ProblemJson::new(head, problem)).collect(),
            losses: losses.map(|(nth, loss)| LossJson::new(head, nth, loss)).collect(),
            cost: head.cost.as_ref().map(CostJson::new),
        }
    }
}

impl CostJson {
    fn new(cost: &Cost) -> Self {
        let Cost { observer_ns, over_ns, in_kernel } = cost;
        let in_kernel = in_kernel.as_ref();
        let by_kind = |cost: &CostInKernel| cost.by_kind.iter().map(CostOfKindJson::new).collect();
        Self {
            observer_ns: *observer_ns,
            over_ns: *over_ns,
            kernel_ns_from: in_kernel.map(|cost| cost.from_ns),
            kernel_ns_to: in_kernel.and_then(|cost| cost.to_ns),
            running_ns: in_kernel.map(|cost| cost.running_ns),
            by_kind: in_kernel.map(by_kind),
        }
    }
}

impl CostOfKindJson {
    fn new(part: &CostOfKind) -> Self {
        Self {
            kind: wording::cost_kind(part.each.kind),
            count: part.count,
            each_ns_from: part.each.from_ns,
            each_ns_to: part.each.to_ns,
            kernel_ns_from: part.from_ns(),
            kernel_ns_to: part.to_ns(),
        }
    }
}

impl HostJson {
    fn new(host: &Host) -> Self {
        Self {
            host: text(host.boot_id.as_bytes()),
            name: text(host.name.bytes()),
            kernel: text(host.kernel.bytes()),
        }
    }
}

impl ProblemJson {
    fn new(head: &Head, problem: &Problem) -> Self {
        let place = PlaceJson {
            from_ns: since_origin(head, problem.from),
            to_ns: since_origin(head, problem.to),
            tid: problem.thread.map(|(tid, _)| tid.number()),
            comm: problem.thread.map(|(_, comm)| text(comm.bytes())),
        };
        Self {
            code: problem::code(&problem.kind),
            severity: wording::severity_word(problem.severity()),
            text: problem::sentence(problem),
            place,
        }
    }
}

impl LossJson {
    fn new(head: &Head, nth: usize, loss: &Loss) -> Self {
        let place = head.loss_hosts.get(nth).copied().flatten().map(|host| usize::from(host.0));
        let host = place.and_then(|place| std::iter::once(&head.host).chain(&head.others).nth(place));
        Self {
            host: host.map(|host| text(host.boot_id.as_bytes())),
            cpu: Some(loss.cpu.0).filter(|_| loss.cpu != Cpu::UNKNOWN),
            from_ns: since_origin(head, loss.from),
            to_ns: since_origin(head, loss.to),
            count: Some(loss.count).filter(|&count| count > 0),
            records: loss.records.name(),
            reported: loss.reported,
        }
    }
}

/// A stamp in a document: ns since its origin, negative before it.
pub fn since_origin(head: &Head, at: Stamp<Reference>) -> i64 {
    at.ns().wrapping_sub(head.origin.ns()) as i64
}
