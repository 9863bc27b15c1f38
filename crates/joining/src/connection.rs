//! The threads of requests known only by their time: found by the requests' connections.
//!
//! A server's span lies beside an exchange on a connection: its data came before the span began, and its answer was sent at about the span's
//! end. The answering thread is taken for the request's worker. This is approximate: a service's spans belong to the processes at the port whose
//! exchanges fit them best, each span to the exchange answered nearest to its end, and if two threads answered about equally near, neither is
//! taken. A span with its client's port belongs to an exchange on this connection.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Flow, HostIndex};
use wakepath_loaded::{Endpoint, Peer, Recorded};
use wakepath_spans::{
    Kind, Language, RequestIndex, Service, ServiceIndex, SpanIndex, Stint, Work, descends_from,
};
use wakepath_wait_graph::{End, Exchange, ThreadIndex};

use crate::arrival::early_ns;
use crate::begun::SpanGoroutines;
use crate::contexts::Contexts;
use crate::model::Traced;
use crate::places::Places;
use crate::process::line;

/// The maximum time from a span's end to its answer, ns; a longer span's own length.
pub(crate) const LATE_NS: u64 = 1_000_000;
/// The nearest answer is clear if another thread's is at least twice as far and this much more, ns.
pub(crate) const NEAR_NS: u64 = 20_000;
/// The most exchanges searched on each side of a span's end.
const MAX_LOOKED_AT: usize = 64;
/// The most requests used to find a service's port.
const MAX_TRIED: usize = 256;

/// Requests' threads, by connection and time.
#[derive(Debug)]
pub struct Connections {
    threads: HashMap<RequestIndex, ThreadIndex>,
    /// The times for which each thread worked for a single such request.
    pub(crate) work: Work<ThreadIndex, Reference>,
}

/// A request in search of its thread.
#[derive(Debug, Clone, Copy)]
struct Asked {
    request: RequestIndex,
    root: SpanIndex,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
    /// Its client's port, if its span has it.
    peer: Option<u16>,
}

/// A host's port at which others call.
type Port = (HostIndex, u16);

/// An answer: its connection, and its time.
type Answer = (Flow, Stamp<Reference>);

/// An exchange that fits a request, by its index among the exchanges.
#[derive(Debug, Clone, Copy)]
struct Fit {
    place: usize,
    /// From the answer to the span's end, or back.
    gap_ns: u64,
    /// From the first data to the span's beginning.
    before_ns: u64,
    thread: ThreadIndex,
}

impl Connections {
    /// Finds the threads of the requests whose threads are not known in another way.
    pub fn new(
        recorded: &Recorded,
        traced: &Traced,
        places: &Places,
        contexts: &Contexts,
        goroutines: &SpanGoroutines,
    ) -> Self {
        let by_service = asked(traced, places, contexts, goroutines);
        if by_service.is_empty() {
            return Self { threads: HashMap::new(), work: Work::new([]) };
        }
        let ports = ports(recorded);
        let mut takers: HashMap<Answer, Vec<(Fit, Asked)>> = HashMap::new();
        for ((service, host), all) in by_service {
            let Service { pid, language, .. } = traced.spans.services[service.0 as usize];
            let slack_ns = traced.spans.resolution_ns.max(early_ns(language)).max(1);
            let mut known: HashMap<ThreadIndex, bool> = HashMap::new();
            let mut may_be = |exchange: &Exchange| {
                pid.is_none_or(|pid| {
                    *known.entry(exchange.thread).or_insert_with(|| {
                        let line = line(recorded, exchange.thread, exchange.answered);
                        line.is_empty() || descends_from(&line, pid)
                    })
                })
            };
            let on_host = || ports.range((host, 0)..=(host, u16::MAX));
            let Some(at_port) =
                nearest(on_host().map(|(_, exchanges)| exchanges), &all, slack_ns, &mut may_be)
            else {
                continue;
            };
            let process = |exchange: &Exchange| recorded.graph.thread(exchange.thread).tgid();
            let processes: HashSet<_> =
                at_port.iter().filter(|exchange| may_be(exchange)).map(process).collect();
            // They may answer at other ports too.
            let mut of_service: Vec<Exchange> = on_host()
                .flat_map(|(_, exchanges)| exchanges)
                .filter(|exchange| processes.contains(&process(exchange)))
                .copied()
                .collect();
            of_service.sort_by_key(by_answer);
            for asked in all {
                let fits = fits(&of_service, &asked, slack_ns, &mut may_be);
                if let Some(fit) = clear(&fits, |one, other| one.thread == other.thread) {
                    let exchange = of_service[fit.place];
                    takers.entry((exchange.flow, exchange.answered)).or_default().push((fit, asked));
                }
            }
        }
        let mut found = Vec::new();
        for mut takers in takers.into_values() {
            takers.sort_by_key(|(fit, asked)| (fit.gap_ns, asked.request));
            let fits: Vec<Fit> = takers.iter().map(|(fit, _)| *fit).collect();
            if let Some(fit) = clear(&fits, |_, _| false) {
                found.push((fit.thread, takers[0].1));
            }
        }
        let threads = found.iter().map(|(thread, asked)| (asked.request, *thread)).collect();
        Self { threads, work: Work::new(alone(found)) }
    }

    /// The thread taken for a request's worker.
    pub fn thread(&self, request: RequestIndex) -> Option<ThreadIndex> {
        self.threads.get(&request).copied()
    }
}

/// The requests in search of their threads, by service and host.
fn asked(
    traced: &Traced,
    places: &Places,
    contexts: &Contexts,
    goroutines: &SpanGoroutines,
) -> BTreeMap<(ServiceIndex, HostIndex), Vec<Asked>> {
    let mut by_service: BTreeMap<(ServiceIndex, HostIndex), Vec<Asked>> = BTreeMap::new();
    for (request, one) in (0..).map(RequestIndex).zip(&traced.requests.requests) {
        let (root, span) = (one.root, traced.spans.span(one.root));
        let is_known = span.tid.is_some()
            || contexts.thread(request).is_some()
            || goroutines.by_request(traced, request).is_some();
        let (from, to) = places.times(traced, root);
        // A goroutine goes from thread to thread.
        let has_thread = traced.spans.service(one.root).language != Some(Language::Go);
        if span.kind == Kind::Server
            && has_thread
            && !is_known
            && from < to
            && let Some(host) = places.host(traced, root)
        {
            by_service.entry((span.service, host)).or_default().push(Asked {
                request,
                root,
                from,
                to,
                peer: span.peer_port,
            });
        }
    }
    by_service
}

/// The exchanges at each port at which others call, ordered by answer.
fn ports(recorded: &Recorded) -> BTreeMap<Port, Vec<Exchange>> {
    let mut ports: BTreeMap<Port, Vec<Exchange>> = BTreeMap::new();
    for exchange in recorded.graph.exchanges() {
        if is_called(&exchange) {
            let host = recorded.graph.thread(exchange.thread).tid().host();
            ports.entry((host, exchange.flow.source.port())).or_default().push(exchange);
        }
    }
    ports.values_mut().for_each(|exchanges| exchanges.sort_by_key(by_answer));
    ports
}

fn is_called(exchange: &Exchange) -> bool {
    is_called_on(&exchange.flow, exchange.opened)
}

/// Whether the other end called the flow's sender: it opened the connection, as far as that is known, else by the ports.
pub(crate) fn is_called_on(flow: &Flow, opened: Option<End>) -> bool {
    let end = Endpoint { protocol: flow.protocol, address: flow.target };
    let by_ports = || Peer { own: flow.source, end, process: None }.called_us();
    opened.map_or_else(by_ports, |end| end == End::Other)
}

fn by_answer(exchange: &Exchange) -> (Stamp<Reference>, Stamp<Reference>, ThreadIndex) {
    (exchange.answered, exchange.asked, exchange.thread)
}

/// The exchanges at a service's port: those nearest to its requests.
fn nearest<'e>(
    ports: impl Iterator<Item = &'e Vec<Exchange>>,
    all: &[Asked],
    slack_ns: u64,
    may_be: &mut impl FnMut(&Exchange) -> bool,
) -> Option<&'e Vec<Exchange>> {
    let step = all.len().div_ceil(MAX_TRIED).max(1);
    let length = |asked: &Asked| u128::from(asked.to.since(asked.from));
    let mut least = all.iter().step_by(step).map(length).sum();
    let mut best = None;
    for exchanges in ports {
        let distance = |asked: &Asked| {
            let first = fits(exchanges, asked, slack_ns, may_be).into_iter().next();
            let distance = |fit: Fit| u128::from(fit.gap_ns) + u128::from(fit.before_ns);
            first.map_or_else(|| length(asked), |fit| distance(fit).min(length(asked)))
        };
        let sum: u128 = all.iter().step_by(step).map(distance).sum();
        if sum < least {
            (least, best) = (sum, Some(exchanges));
        }
    }
    best
}

/// The exchanges that fit a request, the exchange answered next to its end first.
fn fits(
    exchanges: &[Exchange],
    asked: &Asked,
    slack_ns: u64,
    may_be: &mut impl FnMut(&Exchange) -> bool,
) -> Vec<Fit> {
    let before = |at: Stamp<Reference>| exchanges.partition_point(|one| one.answered <= at);
    let latest = asked.to.plus(asked.to.since(asked.from).max(LATE_NS));
    let (first, middle, last) = (before(asked.from), before(asked.to), before(latest));
    let near = middle.saturating_sub(MAX_LOOKED_AT).max(first)..(middle + MAX_LOOKED_AT).min(last);
    let mut near: Vec<usize> = near
        .filter(|place| exchanges[*place].asked <= asked.from.plus(slack_ns))
        .filter(|place| may_be(&exchanges[*place]))
        .collect();
    // A proxy may hide its client: then no connection has the port.
    let is_peer = |place: &usize| asked.peer == Some(exchanges[*place].flow.target.port());
    if near.iter().any(is_peer) {
        near.retain(is_peer);
    }
    let mut fits: Vec<Fit> = near
        .into_iter()
        .map(|place| {
            let Exchange { asked: came, answered, thread, .. } = exchanges[place];
            let gap_ns = answered.ns().abs_diff(asked.to.ns());
            Fit { place, gap_ns, before_ns: asked.from.ns().saturating_sub(came.ns()), thread }
        })
        .collect();
    fits.sort_by_key(|fit| (fit.gap_ns, fit.place));
    fits
}

/// The first fit, of fits sorted by distance, where no other is about as near; `is_same` holds for two fits with the same meaning.
fn clear(fits: &[Fit], is_same: impl Fn(&Fit, &Fit) -> bool) -> Option<Fit> {
    let first = fits.first()?;
    let other = fits[1..].iter().find(|other| !is_same(first, other));
    other.is_none_or(|other| is_clear(first.gap_ns, other.gap_ns, NEAR_NS)).then_some(*first)
}

/// Whether another distance is so much larger that the first is clear.
pub(crate) const fn is_clear(first_ns: u64, other_ns: u64, near_ns: u64) -> bool {
    other_ns >= first_ns.saturating_mul(2).saturating_add(near_ns)
}

/// The times in which each thread has a single request: nothing shows for which of several at once it works.
fn alone(found: Vec<(ThreadIndex, Asked)>) -> Vec<Stint<ThreadIndex, Reference>> {
    let mut by_thread: BTreeMap<ThreadIndex, Vec<Asked>> = BTreeMap::new();
    for (thread, asked) in found {
        by_thread.entry(thread).or_default().push(asked);
    }
    let mut stints = Vec::new();
    for (thread, mut all) in by_thread {
        all.sort_by_key(|asked| (asked.from, asked.to, asked.root));
        let mut busy_until = Stamp::MIN;
        for (place, asked) in all.iter().enumerate() {
            let next = all.get(place + 1).map_or(asked.to, |next| next.from);
            let (from, to) = (asked.from.max(busy_until), asked.to.min(next));
            if from < to {
                stints.push(Stint { thread, from, to, span: asked.root });
            }
            busy_until = busy_until.max(asked.to);
        }
    }
    stints
}
