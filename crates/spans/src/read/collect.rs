//! Checks spans, and gives each service and operation its place.

use std::collections::HashSet;
use std::hash::Hash;

use indexmap::IndexSet;
use wakepath_clock::Stamp;

use crate::{
    Kind, NotedTurns, Operation, OperationIndex, Service, ServiceIndex, Span, SpanId, Spans, TraceId,
};

/// The attribute of a span with the OS thread in which it began: wakepath's plug-ins write it.
pub(super) const TID: &str = "wakepath.tid";

/// The attribute of a span that wakepath made to explain a request: the id of the request's span. An export writes it.
pub const EXPLAINS: &str = "wakepath.explains";

/// The attribute of a span with the time at which the work was queued that another thread then took up, ns since 1970.
pub(super) const QUEUED: &str = "wakepath.queued_ns";

/// The attribute of a span with the turns in which its thread worked for it, as text: [`NotedTurns::parse`].
pub(super) const TURNS: &str = "wakepath.turns";

/// The longest name that is kept, bytes.
const MAX_NAME_BYTES: usize = 1024;

/// The numbers of spans that were left out, by the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// They have no identity, or an empty one.
    pub without_id: u64,
    /// They end before they begin, or never.
    pub without_length: u64,
    /// A span of the same service and identity came before: exporters repeat what was not acknowledged.
    pub repeated: u64,
    /// There is no room for more.
    pub too_many: u64,
    /// They are parts of an explanation that wakepath exported: no work of a service.
    pub explaining: u64,
}

impl Dropped {
    /// The number of those that are missing in the answer: all but repeated and explaining ones.
    pub const fn missing(&self) -> u64 {
        self.without_id + self.without_length + self.too_many
    }
}

/// A span as a file describes it.
#[derive(Debug, Default)]
pub(super) struct Described<'a> {
    pub(super) trace: Option<TraceId>,
    pub(super) id: Option<SpanId>,
    pub(super) parent: Option<SpanId>,
    pub(super) name: &'a str,
    pub(super) kind: Kind,
    /// ns since 1970.
    pub(super) from_ns: u64,
    /// ns since 1970.
    pub(super) to_ns: u64,
    pub(super) failed: bool,
    pub(super) tid: Option<u32>,
    /// It has the attribute [`EXPLAINS`].
    pub(super) explains: bool,
    /// ns since 1970.
    pub(super) queued_ns: Option<u64>,
    /// Its attribute [`TURNS`].
    pub(super) turns: Option<&'a str>,
}

/// The spans so far.
#[derive(Debug)]
pub(super) struct Collector {
    spans: Vec<Span>,
    services: IndexSet<Service>,
    operations: IndexSet<Operation>,
    seen: HashSet<(Option<ServiceIndex>, TraceId, SpanId)>,
    dropped: Dropped,
    resolution_ns: u64,
    /// The recording that received what comes now.
    recording: Option<u16>,
}

impl Default for Collector {
    fn default() -> Self {
        Self {
            spans: Vec::new(),
            services: IndexSet::new(),
            operations: IndexSet::new(),
            seen: HashSet::new(),
            dropped: Dropped::default(),
            resolution_ns: 1,
            recording: None,
        }
    }
}

impl Collector {
    /// The place of a service.
    pub(super) fn service(&mut self, mut service: Service) -> Option<ServiceIndex> {
        for name in std::iter::once(&mut service.name).chain(&mut service.instance).chain(&mut service.host) {
            *name = shortened(name);
        }
        service.recording = self.recording;
        place(&mut self.services, service).map(ServiceIndex)
    }

    /// Says which recording received what comes from here on.
    pub(super) fn received_by(&mut self, recording: Option<u16>) {
        self.recording = recording;
    }

    /// Says that times are of this unit, ns.
    pub(super) fn measured_in(&mut self, resolution_ns: u64) {
        self.resolution_ns = self.resolution_ns.max(resolution_ns);
    }

    /// Takes a span of a service.
    pub(super) fn span(&mut self, service: Option<ServiceIndex>, span: &Described<'_>) {
        if span.explains {
            self.dropped.explaining += 1;
            return;
        }
        let (Some(trace), Some(id)) = (span.trace, span.id) else {
            self.dropped.without_id += 1;
            return;
        };
        if span.from_ns == 0 || span.to_ns < span.from_ns {
            self.dropped.without_length += 1;
            return;
        }
        if !self.seen.insert((service, trace, id)) {
            self.dropped.repeated += 1;
            return;
        }
        let room = service.filter(|_| u32::try_from(self.spans.len()).is_ok());
        let placed = room.and_then(|service| Some((service, self.operation(service, span.name)?)));
        let Some((service, operation)) = placed else {
            self.dropped.too_many += 1;
            return;
        };
        let [from, to] = [span.from_ns, span.to_ns].map(Stamp::from_ns);
        let turns = span.turns.and_then(|text| NotedTurns::parse(text, from, to));
        self.spans.push(Span {
            trace,
            id,
            parent: span.parent.filter(|parent| *parent != id),
            service,
            operation,
            kind: span.kind,
            from,
            to,
            failed: span.failed,
            tid: span.tid,
            queued: span.queued_ns.map(Stamp::from_ns),
            turns: turns.map(Box::new),
        });
    }

    /// The place of an operation of a service.
    fn operation(&mut self, service: ServiceIndex, name: &str) -> Option<OperationIndex> {
        let service = self.services[service.0 as usize].name.clone();
        place(&mut self.operations, Operation { service, name: shortened(name) }).map(OperationIndex)
    }

    pub(super) fn finish(mut self) -> (Spans, Dropped) {
        let services = self.used_services();
        self.spans.sort_by_key(|span| (span.from, std::cmp::Reverse(span.to), span.trace, span.id));
        let spans = Spans {
            spans: self.spans,
            services,
            operations: self.operations.into_iter().collect(),
            resolution_ns: self.resolution_ns,
        };
        (spans, self.dropped)
    }
}

impl Collector {
    /// The services that made a span that is kept; the spans get their places among these.
    fn used_services(&mut self) -> Vec<Service> {
        let mut is_used = vec![false; self.services.len()];
        self.spans.iter().for_each(|span| is_used[span.service.0 as usize] = true);
        let mut used = 0;
        let places: Vec<_> = is_used
            .iter()
            .map(|is_used| {
                used += u32::from(*is_used);
                ServiceIndex(used.saturating_sub(1))
            })
            .collect();
        self.spans.iter_mut().for_each(|span| span.service = places[span.service.0 as usize]);
        let services = std::mem::take(&mut self.services).into_iter().zip(is_used);
        services.filter(|(_, is_used)| *is_used).map(|(service, _)| service).collect()
    }
}

/// The place of a value among all different ones.
fn place<T: Hash + Eq>(all: &mut IndexSet<T>, value: T) -> Option<u32> {
    u32::try_from(all.insert_full(value).0).ok()
}

/// A name, cut at the longest length.
fn shortened(name: &str) -> Box<str> {
    let end = (0..=name.len().min(MAX_NAME_BYTES)).rev().find(|at| name.is_char_boundary(*at));
    name[..end.unwrap_or(0)].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_whose_service_has_no_place_is_one_too_many_and_is_missing() {
        let mut collector = Collector::default();
        let service = collector.service(Service::default());
        let span = |id| Described {
            trace: Some(TraceId([7; 16])),
            id: Some(SpanId([id; 8])),
            from_ns: 1,
            to_ns: 2,
            ..Described::default()
        };
        for (service, id) in [(service, 1), (None, 2), (None, 3)] {
            collector.span(service, &span(id));
        }
        let (spans, dropped) = collector.finish();
        assert_eq!(spans.spans.iter().map(|span| span.id.0[0]).collect::<Vec<_>>(), [1]);
        assert_eq!((dropped.too_many, dropped.missing()), (2, 2));
    }
}
