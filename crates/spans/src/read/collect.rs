//! Checks spans, and gives each service and operation its index.

use std::collections::HashSet;
use std::hash::Hash;

use indexmap::IndexSet;
use wakepath_clock::Stamp;

use crate::{
    Kind, NotedTurns, Operation, OperationIndex, Service, ServiceIndex, Span, SpanId, Spans, TraceId,
};

/// The span attribute with the OS thread in which the span began, written by wakepath's plug-ins.
pub(super) const TID: &str = "wakepath.tid";

/// A server's span's attributes with its client's port, in OpenTelemetry's conventions since 1.21 and in two older sets.
pub(super) const PEER_PORTS: [&str; 3] = ["network.peer.port", "net.sock.peer.port", "net.peer.port"];

/// Whether an attribute has a server's client's port.
pub(super) fn is_peer_port(key: &str) -> bool {
    PEER_PORTS.contains(&key)
}

/// The attribute of a span that wakepath made to explain a request: the request's span id. An export writes it.
pub const EXPLAINS: &str = "wakepath.explains";

/// The span attribute with the time, ns since 1970, at which work was queued for another thread to take up.
pub(super) const QUEUED: &str = "wakepath.queued_ns";

/// The span attribute with the turns in which the thread worked for the span, as text: [`NotedTurns::parse`].
pub(super) const TURNS: &str = "wakepath.turns";

/// The span attribute with the reason why each turn became ready.
pub(super) const READY: &str = "wakepath.ready";

/// The longest name, bytes; longer names are cut.
const MAX_NAME_BYTES: usize = 1024;

/// The numbers of dropped spans, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// No identity, or an empty identity.
    pub without_id: u64,
    /// The beginning is missing, or the end is missing or before it.
    pub without_length: u64,
    /// A span with the same service and identity came before: exporters repeat unacknowledged spans.
    pub repeated: u64,
    /// No room for more.
    pub too_many: u64,
    /// Parts of an explanation that wakepath exported: no service's work.
    pub explaining: u64,
}

impl Dropped {
    /// The number of spans that the answer misses: all but repeated and explaining spans.
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
    /// The other end's port: the client's, in a server's span.
    pub(super) peer_port: Option<u32>,
    /// The attribute [`EXPLAINS`] is present.
    pub(super) explains: bool,
    /// ns since 1970.
    pub(super) queued_ns: Option<u64>,
    /// The attribute [`TURNS`].
    pub(super) turns: Option<&'a str>,
    /// The attribute [`READY`].
    pub(super) ready: Option<&'a str>,
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
    /// The recording that receives the next spans.
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
    /// A service's index.
    pub(super) fn service(&mut self, mut service: Service) -> Option<ServiceIndex> {
        for name in std::iter::once(&mut service.name).chain(&mut service.instance).chain(&mut service.host) {
            *name = shortened(name);
        }
        service.recording = self.recording;
        place(&mut self.services, service).map(ServiceIndex)
    }

    /// How many spans were read, repeated spans too.
    pub(super) fn count(&self) -> u64 {
        self.spans.len() as u64 + self.dropped.repeated
    }

    /// Names the recording that receives the next spans.
    pub(super) fn received_by(&mut self, recording: Option<u16>) {
        self.recording = recording;
    }

    /// Sets the unit in which times are measured, ns.
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
        let turns = span.turns.and_then(|text| NotedTurns::parse(text, span.ready, from, to));
        let late = turns.as_ref().map_or(0, |turns| turns.late_ns(from));
        let [from, to] = [from, to].map(|end| end.plus(late));
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
            peer_port: span.peer_port.filter(|_| span.kind == Kind::Server).and_then(a_port),
            queued: span.queued_ns.map(Stamp::from_ns),
            turns: turns.map(Box::new),
        });
    }

    /// An operation's index.
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
    /// The services with kept spans; the spans get their indices among these.
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

/// A port; proxies that hide the client write 0.
fn a_port(number: u32) -> Option<u16> {
    u16::try_from(number).ok().filter(|port| *port != 0)
}

/// A value's index among all distinct values.
fn place<T: Hash + Eq>(all: &mut IndexSet<T>, value: T) -> Option<u32> {
    u32::try_from(all.insert_full(value).0).ok()
}

/// A name, cut at [`MAX_NAME_BYTES`].
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
