//! Several hosts' recordings, read as one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use wakepath_clock::{Local, Reference, Stamp, Transform};
use wakepath_event::{Direction, Event, FlowId, HostIndex, Packet, Tid, What};
use wakepath_packets::{Outcome, Traffic, Visited};
use wakepath_sync::{Options, Synchronisation, synchronise_seeing};
use wakepath_timeline::Numbering;

use crate::source::Source;

/// Events that a host's reader hands over at a time, and how many such it may be ahead.
const BATCH: usize = 4096;
const AHEAD: usize = 2;

/// Which sending each received packet leads to, where that is another host's: by the stamps that both
/// have on their own hosts. About 100 bytes a packet.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// By when it was received, in the flow as the receiving host calls it.
    sent: HashMap<(Moment, FlowId), Moment>,
    wanted: HashSet<Moment>,
    /// What was sent then, by the flow as it is called among all hosts: its number, length and what it
    /// acknowledges.
    headers: HashMap<(Moment, FlowId), (u32, u32, u32)>,
}

/// A host's place, and a stamp of its own.
type Moment = (usize, Stamp<Local>);

impl Links {
    fn add(&mut self, outcome: &Outcome) {
        // Of a packet that was sent more than once, its header alone has to tell.
        let Outcome::Matched(matched) = outcome else { return };
        self.sent.insert(((matched.to, matched.received), matched.flow), (matched.from, matched.sent));
        self.wanted.insert((matched.from, matched.sent));
    }

    /// Gives a received packet the header under which it was sent, whatever was merged or split between.
    /// `local` and `called`: its stamp and its flow as its own host has them.
    fn join(&mut self, place: usize, local: Stamp<Local>, called: FlowId, packet: &mut Packet) {
        match packet.direction {
            Direction::Out if self.wanted.contains(&(place, local)) => {
                let header = (packet.seq, packet.len, packet.ack);
                self.headers.insert(((place, local), packet.flow), header);
            }
            Direction::Out => {}
            Direction::In => {
                let Some(&sent) = self.sent.get(&((place, local), called)) else { return };
                if let Some(&header) = self.headers.get(&(sent, packet.flow)) {
                    (packet.seq, packet.len, packet.ack) = header;
                }
            }
        }
    }
}

/// How the clocks of these hosts lie, the first one's being the reference where none is given, and which
/// packets of theirs belong together.
pub(crate) fn clocks(sources: &[Arc<Source>], reference: Option<usize>) -> (Synchronisation, Links) {
    let windows: Vec<_> = thread::scope(|scope| {
        let readers: Vec<_> = sources.iter().map(|source| scope.spawn(|| window(source))).collect();
        readers.into_iter().map(|reader| reader.join().unwrap_or_default()).collect()
    });
    // Read as often as need be, never kept.
    let traffic = |source: &Arc<Source>| {
        let source = Arc::clone(source);
        Visited::new(move |tell| {
            source.for_each(|event| Traffic::of(event).into_iter().for_each(&mut *tell), |_| {});
        })
    };
    let traffic: Vec<_> = sources.iter().map(traffic).collect();
    let hosts: Vec<_> =
        traffic.iter().zip(windows).map(|(source, window)| wakepath_sync::Host { source, window }).collect();
    let mut links = Links::default();
    let options = Options { reference, ..Options::default() };
    let clocks = synchronise_seeing(&hosts, &options, &mut |outcome| links.add(outcome));
    (clocks, links)
}

/// The stamps of a host's first and last event.
fn window(source: &Source) -> Option<(Stamp<Local>, Stamp<Local>)> {
    let mut window = source.span();
    if window.is_none() {
        source.for_each(
            |event| {
                let (from, to) = window.unwrap_or((event.at, event.at));
                window = Some((from.min(event.at), to.max(event.at)));
            },
            |_| {},
        );
    }
    window
}

/// A host among several.
pub(crate) struct Told<'a> {
    pub(crate) source: &'a Source,
    /// Its place among those whose clocks were compared.
    pub(crate) place: usize,
    /// From its clock to the reference.
    pub(crate) clock: &'a Transform<Local, Reference>,
}

/// Tells the events of these hosts as those of one machine, by the reference clock; those of equal stamps
/// in the order of the hosts. Hands back what is wrong with each host's.
///
/// Each is read by a thread of its own, a little ahead, so that memory does not grow with them.
pub(crate) fn for_each(
    hosts: &[Told<'_>],
    mut links: Links,
    mut tell: impl FnMut(HostIndex, &Event),
) -> (Numbering, Vec<Vec<String>>) {
    let mut numbering = Numbering::default();
    let problems = thread::scope(|scope| {
        let mut heads: Vec<Head> = Vec::new();
        let mut readers = Vec::new();
        for host in hosts.iter().take(Tid::HOSTS) {
            let (sender, events) = sync_channel(AHEAD);
            readers.push(scope.spawn(|| read(host.source, sender)));
            let mut head = Head { events, batch: Vec::new().into_iter(), next: None, clock: host.clock };
            head.advance();
            heads.push(head);
        }
        // A few hosts: looking at each head is no slower than a heap of them.
        let earliest = |heads: &[Head]| {
            let at = |head: &Head| head.next.as_ref().map(|(at, _)| *at);
            let first = heads.iter().enumerate().filter_map(|(host, head)| Some((at(head)?, host))).min();
            first.map(|(_, host)| host)
        };
        while let Some(host) = earliest(&heads) {
            let head = &mut heads[host];
            let Some((_, mut event)) = head.next.take() else { break };
            head.advance();
            let index = HostIndex(host as u16);
            let local = event.at;
            let called = match &event.what {
                What::Packet(packet) => Some(packet.flow),
                _ => None,
            };
            if numbering.number(index, &mut event, |at| on_reference(head.clock, at)) {
                if let (What::Packet(packet), Some(called)) = (&mut event.what, called) {
                    links.join(hosts[host].place, local, called, packet);
                }
                tell(index, &event);
            }
        }
        readers.into_iter().map(|reader| reader.join().unwrap_or_default()).collect()
    });
    (numbering, problems)
}

/// A stamp of a host as one of the reference host's.
fn on_reference(clock: &Transform<Local, Reference>, at: Stamp<Local>) -> Stamp<Local> {
    Stamp::from_ns(clock.convert(at).0.ns())
}

fn read(source: &Source, sender: SyncSender<Vec<Event>>) -> Vec<String> {
    let mut batch = Vec::with_capacity(BATCH);
    let mut problems = source.for_each(
        |event| {
            batch.push(event.clone());
            if batch.len() == BATCH {
                // Nobody listens any more only when the other end is gone, and all of it with that.
                let _ = sender.send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH)));
            }
        },
        |_| {},
    );
    let _ = sender.send(batch);
    problems.dedup();
    problems
}

/// The next event of a host.
struct Head<'a> {
    events: Receiver<Vec<Event>>,
    batch: std::vec::IntoIter<Event>,
    /// With its stamp on the reference clock.
    next: Option<(Stamp<Local>, Event)>,
    clock: &'a Transform<Local, Reference>,
}

impl Head<'_> {
    fn advance(&mut self) {
        loop {
            if let Some(event) = self.batch.next() {
                self.next = Some((on_reference(self.clock, event.at), event));
                return;
            }
            match self.events.recv() {
                Ok(batch) => self.batch = batch.into_iter(),
                Err(_) => return self.next = None,
            }
        }
    }
}
