//! The hosts of spans, and their clocks.
//!
//! A span's times are on its host's realtime clock. A recorded host has readings of this clock beside the recording's clock, and so its
//! spans get onto the first host's clock. A span's thread number holds on its host alone.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use wakepath_clock::{Local, Reference, Stamp, Wall};
use wakepath_event::{GoStep, HostIndex, ThreadContext, Tid};
use wakepath_loaded::WallClock;
use wakepath_spans::{ById, Service, ServiceIndex, SpanId, SpanIndex, TraceId, descends_from};

use super::process::line;
use super::{RequestsError, Traced};
use crate::query::thread_between;
use crate::{Host, Recorded};

/// Services' hosts, and their clocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Each service's host; `None` if it was not recorded.
    hosts: Vec<Option<HostIndex>>,
    /// Each host's realtime clock on the reference clock; `None` where not known.
    clocks: Vec<Option<WallClock>>,
    /// The first host's realtime clock.
    first: WallClock,
}

impl Places {
    /// The hosts of these spans' services. A host without a known realtime clock counts as not recorded: nothing places its spans in the
    /// recording.
    ///
    /// # Errors
    /// When the first recording has no time of day.
    pub fn new(recorded: &Recorded, traced: &Traced) -> Result<Self, RequestsError> {
        let first = recorded.wall_clock().ok_or(RequestsError::NoRealtime)?;
        let clocks: Vec<_> = recorded.hosts().map(|(host, _)| recorded.wall_clock_of(host)).collect();
        let named: Vec<Named> =
            traced.spans.services.iter().map(|service| host_of(recorded, traced, service)).collect();
        let proved = proved_by_threads(recorded, traced, &named);
        let has_clock = |host: &HostIndex| clocks.get(usize::from(host.0)).is_some_and(Option::is_some);
        let hosts = (0..).map(ServiceIndex).zip(&named).map(|(service, named)| {
            let host = proved.get(&service).copied().or(named.host);
            host.filter(has_clock)
        });
        Ok(Self { hosts: hosts.collect(), clocks, first })
    }

    /// A span's host; `None` if it was not recorded.
    pub fn host(&self, traced: &Traced, span: SpanIndex) -> Option<HostIndex> {
        self.hosts.get(traced.spans.span(span).service.0 as usize).copied().flatten()
    }

    /// A span's beginning and end, on the reference clock. For a host that was not recorded, the first host's realtime is taken.
    pub fn times(&self, traced: &Traced, span: SpanIndex) -> (Stamp<Reference>, Stamp<Reference>) {
        let (clock, span) = (self.clock(traced, span), traced.spans.span(span));
        (clock.stamp(span.from), clock.stamp(span.to))
    }

    /// A time on a span's clock, converted to the reference clock.
    pub fn stamp(&self, traced: &Traced, span: SpanIndex, wall: Stamp<Wall>) -> Stamp<Reference> {
        self.clock(traced, span).stamp(wall)
    }

    /// A stamp as realtime on a span's host.
    pub fn wall(&self, traced: &Traced, span: SpanIndex, at: Stamp<Reference>) -> Stamp<Wall> {
        self.clock(traced, span).wall(at)
    }

    /// The same, with its error bound, ns.
    pub(super) fn wall_within(
        &self,
        traced: &Traced,
        span: SpanIndex,
        at: Stamp<Reference>,
    ) -> (Stamp<Wall>, u64) {
        let clock = self.clock(traced, span);
        (clock.wall(at), clock.error_ns(at))
    }

    /// The thread named by a span, with its host's number.
    pub fn tid(&self, traced: &Traced, span: SpanIndex) -> Option<Tid> {
        let host = self.host(traced, span)?;
        Some(Tid(traced.spans.span(span).tid?).on(host))
    }

    fn clock(&self, traced: &Traced, span: SpanIndex) -> &WallClock {
        let clock = self.host(traced, span).and_then(|host| self.clocks.get(usize::from(host.0))?.as_ref());
        clock.unwrap_or(&self.first)
    }
}

/// The hosts of services by the threads that were seen to work for their spans, or by the goroutines seen to begin them: better evidence
/// than a name.
fn proved_by_threads(
    recorded: &Recorded,
    traced: &Traced,
    named: &[Named],
) -> HashMap<ServiceIndex, HostIndex> {
    let by_id = ById::new(&traced.spans);
    let mut hosts: HashMap<ServiceIndex, BTreeSet<HostIndex>> = HashMap::new();
    // The services that gave the same ids, for each thread seen with these ids.
    let mut several: HashMap<(Tid, TraceId, SpanId), Vec<ServiceIndex>> = HashMap::new();
    let mut note = |trace, span, tid: Tid, at: Stamp<Local>| {
        let (trace, span) = (TraceId(trace), SpanId(span));
        let mut services = by_id.all(trace, span).map(|span| traced.spans.span(span).service);
        match (services.next(), services.next()) {
            (Some(service), None) => {
                hosts.entry(service).or_default().insert(tid.host());
            }
            (Some(first), Some(second)) => {
                several.entry((tid, trace, span)).or_insert_with(|| {
                    let all = [first, second].into_iter().chain(services).collect();
                    own(recorded, traced, all, tid, at.on_reference_host())
                });
            }
            (None, _) => {}
        }
    };
    let contexts = &recorded.survey.contexts;
    for tid in contexts.threads() {
        for (at, context) in contexts.of(tid) {
            if let ThreadContext::Span { trace, span, .. } = context {
                note(trace, span, tid, at);
            }
        }
    }
    for (at, tid, step) in &recorded.survey.goroutines {
        if let GoStep::BeginsSpan(trace, span) = step.step {
            note(trace, span, *tid, *at);
        }
    }
    for ((tid, ..), services) in &several {
        if let [service] = services.as_slice() {
            hosts.entry(*service).or_default().insert(tid.host());
        }
    }
    // The thread worked for a service here: not for the services known to be on another host.
    let known = |service: ServiceIndex| match hosts.get(&service) {
        Some(of_service) => alone(of_service),
        None => named.get(service.0 as usize).filter(|named| named.by_name).and_then(|named| named.host),
    };
    let mut left: Vec<(ServiceIndex, HostIndex)> = Vec::new();
    for ((tid, ..), services) in &several {
        let is_explained = services.iter().any(|service| known(*service) == Some(tid.host()));
        let mut unknown = services.iter().filter(|service| known(**service).is_none());
        if let (false, Some(service), None) = (is_explained, unknown.next(), unknown.next()) {
            left.push((*service, tid.host()));
        }
    }
    for (service, host) in left {
        hosts.entry(service).or_default().insert(host);
    }
    hosts.into_iter().filter_map(|(service, hosts)| Some((service, alone(&hosts)?))).collect()
}

/// The only host; `None` for several: processes on two hosts with the same names belong to no single host.
fn alone(hosts: &BTreeSet<HostIndex>) -> Option<HostIndex> {
    hosts.first().copied().filter(|_| hosts.len() == 1)
}

/// The services whose process a thread may belong to, among services that gave the same ids. If the process numbers match none of them,
/// they come from another PID namespace, and rule none out.
fn own(
    recorded: &Recorded,
    traced: &Traced,
    mut services: Vec<ServiceIndex>,
    tid: Tid,
    at: Stamp<Reference>,
) -> Vec<ServiceIndex> {
    let line = thread_between(recorded, tid, at, at).map(|thread| line(recorded, thread, at));
    let fits = |service: &ServiceIndex| {
        let pid = traced.spans.services[service.0 as usize].pid;
        pid.zip(line.as_ref()).is_some_and(|(pid, line)| descends_from(line, pid))
    };
    if services.iter().any(fits) {
        services.retain(fits);
    }
    services
}

/// A service's host, by the names in its spans.
struct Named {
    /// `None` if it was not recorded.
    host: Option<HostIndex>,
    /// Whether it is the only recorded host with the host name in the spans.
    by_name: bool,
}

/// A service's host by its name, else by the recording that received its spans; the first host without either.
fn host_of(recorded: &Recorded, traced: &Traced, service: &Service) -> Named {
    let received = || {
        let Some(place) = service.recording else { return Some(HostIndex::default()) };
        let path = traced.recordings.get(usize::from(place))?;
        let linked = (0..).map(HostIndex).zip(&recorded.sources).find(|(_, source)| *source == path);
        linked.map(|(host, _)| host)
    };
    let Some(name) = &service.host else { return Named { host: received(), by_name: false } };
    let is_named = |host: &Host| same_host(host.name.bytes(), name.as_bytes());
    let named: Vec<_> = recorded.hosts().filter(|(_, host)| is_named(host)).map(|(host, _)| host).collect();
    match named.as_slice() {
        [host] => Named { host: Some(*host), by_name: true },
        // A recorder's nameless host may be this host.
        [] => {
            let is_nameless = |host: &HostIndex| recorded.host_at(*host).name.bytes().is_empty();
            Named { host: received().filter(is_nameless), by_name: false }
        }
        // Several hosts have this name: the recording that received the spans decides. Without it, nothing does.
        several => {
            let decided = service.recording.and_then(|_| received()).filter(|host| several.contains(host));
            Named { host: decided, by_name: false }
        }
    }
}

/// Whether two names mean the same host: either may lack its domain.
fn same_host(one: &[u8], other: &[u8]) -> bool {
    let first =
        |name: &[u8]| name.split(|byte| *byte == b'.').next().unwrap_or_default().to_ascii_lowercase();
    let has_domain = |name: &[u8]| name.contains(&b'.');
    match has_domain(one) && has_domain(other) {
        true => one.eq_ignore_ascii_case(other),
        false => first(one) == first(other),
    }
}
