//! The hosts on which spans were made, and the clock that each of them has.
//!
//! A span's times are those of its host's realtime clock. A host that was recorded has readings of that clock beside the recording's, and
//! so its spans get onto the clock of the first host. A span's thread has its number on its host alone.

use std::collections::{HashMap, HashSet};

use wakepath_clock::{Reference, Stamp, Wall};
use wakepath_event::{GoStep, HostIndex, ThreadContext, Tid};
use wakepath_names::WallClock;
use wakepath_spans::{Service, ServiceIndex, SpanId, SpanIndex, TraceId};

use super::{RequestsError, Traced};
use crate::{Host, Recorded};

/// The hosts of services, and their clocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The host of each service; `None` for one that was not recorded.
    hosts: Vec<Option<HostIndex>>,
    /// The realtime clock of each host on the reference clock; that of the first one where a host's was not read.
    clocks: Vec<WallClock>,
}

impl Places {
    /// The hosts of the services of these spans.
    ///
    /// # Errors
    /// When the first recording has no time of day.
    pub fn new(recorded: &Recorded, traced: &Traced) -> Result<Self, RequestsError> {
        let first = recorded.wall_clock().ok_or(RequestsError::NoRealtime)?;
        let others = (1..).map(HostIndex).take(recorded.others.len());
        let others = others.map(|host| recorded.wall_clock_of(host).unwrap_or_else(|| first.clone()));
        let clocks = std::iter::once(first.clone()).chain(others).collect();
        let proved = proved_by_threads(recorded, traced);
        let services = (0..).map(ServiceIndex).zip(&traced.spans.services);
        let hosts = services.map(|(index, service)| match proved.get(&index) {
            Some(host) => Some(*host),
            None => host_of(recorded, traced, service),
        });
        Ok(Self { hosts: hosts.collect(), clocks })
    }

    /// The host of a span; `None` where it was not recorded.
    pub fn host(&self, traced: &Traced, span: SpanIndex) -> Option<HostIndex> {
        self.hosts.get(traced.spans.span(span).service.0 as usize).copied().flatten()
    }

    /// The beginning and the end of a span, on the reference clock. A host that was not recorded is taken to have the realtime of the first one.
    pub fn times(&self, traced: &Traced, span: SpanIndex) -> (Stamp<Reference>, Stamp<Reference>) {
        let (clock, span) = (self.clock(traced, span), traced.spans.span(span));
        (clock.stamp(span.from), clock.stamp(span.to))
    }

    /// A time of a span's clock on the reference clock.
    pub fn stamp(&self, traced: &Traced, span: SpanIndex, wall: Stamp<Wall>) -> Stamp<Reference> {
        self.clock(traced, span).stamp(wall)
    }

    /// A stamp as the realtime of a span's host.
    pub fn wall(&self, traced: &Traced, span: SpanIndex, at: Stamp<Reference>) -> Stamp<Wall> {
        self.clock(traced, span).wall(at)
    }

    /// The same, and how far it may be off, ns.
    pub(super) fn wall_within(
        &self,
        traced: &Traced,
        span: SpanIndex,
        at: Stamp<Reference>,
    ) -> (Stamp<Wall>, u64) {
        let clock = self.clock(traced, span);
        (clock.wall(at), clock.error_ns(at))
    }

    /// The thread that a span names, as several hosts are numbered.
    pub fn tid(&self, traced: &Traced, span: SpanIndex) -> Option<Tid> {
        let host = self.host(traced, span)?;
        Some(Tid(traced.spans.span(span).tid?).on(host))
    }

    fn clock(&self, traced: &Traced, span: SpanIndex) -> &WallClock {
        let host = self.host(traced, span).unwrap_or_default();
        self.clocks.get(usize::from(host.0)).unwrap_or(&self.clocks[0])
    }
}

/// The hosts of services whose spans threads were seen to work for, or goroutines to begin: that is better than a name.
fn proved_by_threads(recorded: &Recorded, traced: &Traced) -> HashMap<ServiceIndex, HostIndex> {
    let by_id: HashMap<(TraceId, SpanId), ServiceIndex> =
        traced.spans.iter().map(|(_, span)| ((span.trace, span.id), span.service)).collect();
    let mut seen: HashMap<ServiceIndex, HashSet<HostIndex>> = HashMap::new();
    let mut note = |trace, span, tid: Tid| {
        if let Some(service) = by_id.get(&(TraceId(trace), SpanId(span))) {
            seen.entry(*service).or_default().insert(tid.host());
        }
    };
    let contexts = &recorded.survey.contexts;
    for tid in contexts.threads() {
        for (_, context) in contexts.of(tid) {
            if let ThreadContext::Span { trace, span, .. } = context {
                note(trace, span, tid);
            }
        }
    }
    for (_, tid, step) in &recorded.survey.goroutines {
        if let GoStep::BeginsSpan(trace, span) = step.step {
            note(trace, span, *tid);
        }
    }
    // Two processes on two hosts that do not differ in their names are none of one host.
    let alone = |(service, hosts): (_, HashSet<HostIndex>)| match hosts.len() {
        1 => hosts.into_iter().next().map(|host| (service, host)),
        _ => None,
    };
    seen.into_iter().filter_map(alone).collect()
}

/// The host of a service by its name, else by the recording that received its spans; the first one where nothing is said.
fn host_of(recorded: &Recorded, traced: &Traced, service: &Service) -> Option<HostIndex> {
    let hosts: Vec<&Host> = std::iter::once(&recorded.host).chain(&recorded.others).collect();
    let received = || {
        let Some(place) = service.recording else { return Some(HostIndex::default()) };
        let path = traced.recordings.get(usize::from(place))?;
        let linked = (0..).map(HostIndex).zip(&recorded.sources).find(|(_, source)| *source == path);
        linked.map(|(host, _)| host)
    };
    let Some(name) = &service.host else { return received() };
    let is_named = |host: &&Host| same_host(host.name.bytes(), name.as_bytes());
    let mut named = (0..).map(HostIndex).zip(&hosts).filter(|(_, host)| is_named(host));
    match (named.next(), named.next()) {
        (Some((host, _)), None) => Some(host),
        // Several of this name: the recording decides.
        (Some(_), Some(_)) => received(),
        // Where a recorder's host has no name, it may be this one.
        (None, _) => received().filter(|host| recorded.host_at(*host).name.bytes().is_empty()),
    }
}

/// Whether two names are those of one host: one of them may have its domain.
fn same_host(one: &[u8], other: &[u8]) -> bool {
    let first =
        |name: &[u8]| name.split(|byte| *byte == b'.').next().unwrap_or_default().to_ascii_lowercase();
    let has_domain = |name: &[u8]| name.contains(&b'.');
    match has_domain(one) && has_domain(other) {
        true => one.eq_ignore_ascii_case(other),
        false => first(one) == first(other),
    }
}
