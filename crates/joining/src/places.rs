//! The hosts of spans, and their clocks.
//!
//! A span's times are on its host's realtime clock. A recorded host has readings of this clock beside the recording's clock, and so its
//! spans get onto the first host's clock. A span's thread number holds on its host alone.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use wakepath_clock::{Local, Reference, Stamp, Wall};
use wakepath_event::{GoStep, HostIndex, ThreadContext, Tid};
use wakepath_loaded::{Host, Recorded, WallClock};
use wakepath_spans::{ById, Service, ServiceIndex, SpanId, SpanIndex, TraceId, descends_from};
use wakepath_wait_graph::ThreadIndex;

use crate::model::{NoTimeOfDay, Traced};
use crate::process::{inner_line, line};

/// Services' hosts, and their clocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The host of each service; `None` for a host without a recording.
    hosts: Vec<Option<HostIndex>>,
    /// Each host's realtime clock on the reference clock; `None` where not known.
    clocks: Vec<Option<WallClock>>,
    /// The first host's realtime clock.
    first: WallClock,
    /// The threads in inner PID namespaces, by their host and their number there.
    inner: HashMap<(HostIndex, u32), Vec<ThreadIndex>>,
}

impl Places {
    /// The hosts of the services of these spans. A host whose realtime clock is not known counts as not recorded: nothing places its
    /// spans in the recording.
    ///
    /// # Errors
    /// When the first recording has no time of day.
    pub fn new(recorded: &Recorded, traced: &Traced) -> Result<Self, NoTimeOfDay> {
        let first = recorded.wall_clock().ok_or(NoTimeOfDay)?;
        let clocks: Vec<_> = recorded.hosts().map(|(host, _)| recorded.wall_clock_of(host)).collect();
        let named: Vec<Named> =
            traced.spans.services.iter().map(|service| host_of(recorded, traced, service)).collect();
        let proved = proved_by_threads(recorded, traced, &named);
        let has_clock = |host: &HostIndex| clocks.get(usize::from(host.0)).is_some_and(Option::is_some);
        let hosts = (0..).map(ServiceIndex).zip(&named).map(|(service, named)| {
            let host = proved.get(&service).copied().or(named.host);
            host.filter(has_clock)
        });
        Ok(Self { hosts: hosts.collect(), clocks, first, inner: inner_threads(recorded) })
    }

    /// A span's host; `None` if it was not recorded.
    pub fn host(&self, traced: &Traced, span: SpanIndex) -> Option<HostIndex> {
        self.hosts.get(traced.spans.span(span).service.0 as usize).copied().flatten()
    }

    /// The beginning and the end of a span, on the reference clock. A host without a recording is taken to have the first host's realtime.
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
    pub(crate) fn wall_within(
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

    /// The thread named by a span, if it may belong to the span's service: a program numbers its threads as its own PID namespace does.
    pub fn thread(&self, recorded: &Recorded, traced: &Traced, span: SpanIndex) -> Option<ThreadIndex> {
        self.numbered(recorded, traced, span, traced.spans.span(span).tid?, self.times(traced, span))
    }

    /// The same for a thread number noted in a span for this time.
    pub(crate) fn numbered(
        &self,
        recorded: &Recorded,
        traced: &Traced,
        span: SpanIndex,
        tid: u32,
        (from, to): (Stamp<Reference>, Stamp<Reference>),
    ) -> Option<ThreadIndex> {
        let host = self.host(traced, span)?;
        let pid = traced.spans.service(span).pid;
        let outer = recorded.thread_between(Tid(tid).on(host), from, to).filter(|thread| {
            let line = line(recorded, *thread, from);
            line.is_empty() || pid.is_none_or(|pid| descends_from(&line, pid))
        });
        if pid.is_some() && outer.is_some() {
            return outer;
        }
        let fits = |thread: &&ThreadIndex| {
            let life = recorded.graph.thread(**thread);
            let has_pid = |pid| inner_line(recorded, **thread, from).contains(&pid);
            life.first <= to && from <= life.last && pid.is_none_or(has_pid)
        };
        let inner = self.inner.get(&(host, tid)).into_iter().flatten().filter(fits).copied();
        // Two containers may have the same numbers.
        let mut found = outer.into_iter().chain(inner);
        found.next().filter(|_| found.next().is_none())
    }

    /// The thread in a process with this number, as the process itself numbers its threads.
    pub(crate) fn in_process(
        &self,
        recorded: &Recorded,
        process: Tid,
        tid: u32,
        (from, to): (Stamp<Reference>, Stamp<Reference>),
    ) -> Option<ThreadIndex> {
        let host = process.host();
        let outer = recorded.thread_between(Tid(tid).on(host), from, to);
        let inner = self.inner.get(&(host, tid)).into_iter().flatten().copied();
        let fits = |thread: &ThreadIndex| {
            let life = recorded.graph.thread(*thread);
            let number = life.identity.as_ref().map_or(tid, |identity| identity.ns_tid.number());
            life.tgid() == Some(process) && number == tid && life.first <= to && from <= life.last
        };
        let mut found = outer.into_iter().chain(inner).filter(fits);
        found.next().filter(|_| found.next().is_none())
    }

    /// The time at which a span's first thread or goroutine leaves it, by the program's own notes: when it queues the work for another, if the
    /// program notes this; else at the span's end.
    pub(crate) fn left(&self, traced: &Traced, span: SpanIndex) -> Stamp<Reference> {
        let (from, to) = self.times(traced, span);
        let queued = traced.spans.span(span).queued.map(|queued| self.stamp(traced, span, queued));
        // A span beginning at the pick-up was queued before.
        queued.filter(|queued| from < *queued && *queued < to).unwrap_or(to)
    }

    fn clock(&self, traced: &Traced, span: SpanIndex) -> &WallClock {
        let clock = self.host(traced, span).and_then(|host| self.clocks.get(usize::from(host.0))?.as_ref());
        clock.unwrap_or(&self.first)
    }
}

fn inner_threads(recorded: &Recorded) -> HashMap<(HostIndex, u32), Vec<ThreadIndex>> {
    let mut inner: HashMap<_, Vec<_>> = HashMap::new();
    for (index, thread) in recorded.graph.threads() {
        if let Some(identity) = thread.identity.as_ref().filter(|it| it.ns_tid.number() != it.tid.number()) {
            inner.entry((identity.tid.host(), identity.ns_tid.number())).or_default().push(index);
        }
    }
    inner
}

/// Services' hosts by the threads seen to work for their spans, or by the goroutines seen to begin them: better evidence
/// than a name.
fn proved_by_threads(
    recorded: &Recorded,
    traced: &Traced,
    named: &[Named],
) -> HashMap<ServiceIndex, HostIndex> {
    let by_id = ById::new(&traced.spans);
    let mut hosts: HashMap<ServiceIndex, BTreeSet<HostIndex>> = HashMap::new();
    // The services with the same ids, for each thread seen with these ids.
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

/// The only host; `None` for two processes on two hosts whose names do not differ.
fn alone(hosts: &BTreeSet<HostIndex>) -> Option<HostIndex> {
    hosts.first().copied().filter(|_| hosts.len() == 1)
}

/// The services whose process a thread may belong to, among services with the same ids. If the process numbers match none of them,
/// they come from another PID namespace, and rule none out.
fn own(
    recorded: &Recorded,
    traced: &Traced,
    mut services: Vec<ServiceIndex>,
    tid: Tid,
    at: Stamp<Reference>,
) -> Vec<ServiceIndex> {
    let line = recorded.thread_between(tid, at, at).map(|thread| line(recorded, thread, at));
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
    /// `None` for a host without a recording.
    host: Option<HostIndex>,
    /// No other recorded host has the name given by the spans.
    by_name: bool,
}

/// A service's host by its name, else by the recording with its spans; the first host without either.
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
        // Several hosts have this name: the recording with the spans decides. Without it, nothing does.
        several => {
            let decided = service.recording.and_then(|_| received()).filter(|host| several.contains(host));
            Named { host: decided, by_name: false }
        }
    }
}

/// Whether two names mean the same host: a name may have its domain.
fn same_host(one: &[u8], other: &[u8]) -> bool {
    let first =
        |name: &[u8]| name.split(|byte| *byte == b'.').next().unwrap_or_default().to_ascii_lowercase();
    let has_domain = |name: &[u8]| name.contains(&b'.');
    match has_domain(one) && has_domain(other) {
        true => one.eq_ignore_ascii_case(other),
        false => first(one) == first(other),
    }
}
