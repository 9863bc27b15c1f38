//! Several hosts' recordings, read as one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use wakepath_clock::{Local, Reference, Stamp, Transform};
use wakepath_event::{Event, HostIndex, Tid};
use wakepath_packets::{Traffic, Visited};
use wakepath_sync::{Options, Synchronisation, synchronise_seeing};
use wakepath_timeline::Numbering;

use crate::ProblemKind;
use crate::source::Source;

/// Events that a host's reader hands over at a time, and how many such it may be ahead.
const BATCH: usize = 4096;
const AHEAD: usize = 2;

/// How far each host is read, in what [`Source::expected`] counts.
pub(crate) struct Progress<'a> {
    tell: &'a mut dyn FnMut(u64, u64),
    done: Vec<Arc<AtomicU64>>,
    expected: u64,
    calls: u64,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(sources: &[Arc<Source>], tell: &'a mut dyn FnMut(u64, u64)) -> Self {
        let done = sources.iter().map(|_| Arc::default()).collect();
        let expected = sources.iter().map(|source| source.expected()).fold(0, u64::saturating_add);
        Self { tell, done, expected, calls: 0 }
    }

    /// To be called often; tells now and then.
    fn look(&mut self) {
        self.calls += 1;
        if self.calls.is_multiple_of(1 << 16) {
            let done = self.done.iter().map(|done| done.load(Ordering::Relaxed));
            (self.tell)(done.fold(0, u64::saturating_add), self.expected);
        }
    }
}

/// How the clocks of these hosts lie, the first one's being the reference where none is given.
pub(crate) fn clocks(
    sources: &[Arc<Source>],
    reference: Option<usize>,
    progress: &mut Progress<'_>,
) -> Synchronisation {
    let windows: Vec<_> = thread::scope(|scope| {
        let readers: Vec<_> = sources.iter().map(|source| scope.spawn(|| window(source))).collect();
        readers.into_iter().map(|reader| reader.join().unwrap_or_default()).collect()
    });
    // Read as often as need be, never kept.
    let traffic = |(source, done): (&Arc<Source>, &Arc<AtomicU64>)| {
        let (source, done) = (Arc::clone(source), Arc::clone(done));
        Visited::new(move |tell| {
            source.for_each(
                |event| Traffic::of(event).into_iter().for_each(&mut *tell),
                |read| done.store(read, Ordering::Relaxed),
            );
        })
    };
    let traffic: Vec<_> = sources.iter().zip(&progress.done).map(traffic).collect();
    let hosts: Vec<_> =
        traffic.iter().zip(windows).map(|(source, window)| wakepath_sync::Host { source, window }).collect();
    let options = Options { reference, ..Options::default() };
    synchronise_seeing(&hosts, &options, &mut |_| progress.look())
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
    progress: &mut Progress<'_>,
    mut tell: impl FnMut(HostIndex, &Event),
) -> (Numbering, Vec<Vec<ProblemKind>>) {
    let mut numbering = Numbering::default();
    let problems = thread::scope(|scope| {
        let mut heads: Vec<Head> = Vec::new();
        let mut readers = Vec::new();
        for host in hosts.iter().take(Tid::HOSTS) {
            let (sender, events) = sync_channel(AHEAD);
            let done = Arc::clone(&progress.done[host.place]);
            readers.push(scope.spawn(move || read(host.source, &done, sender)));
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
            if numbering.number(index, &mut event, |at| on_reference(head.clock, at)) {
                tell(index, &event);
            }
            progress.look();
        }
        readers.into_iter().map(|reader| reader.join().unwrap_or_default()).collect()
    });
    (numbering, problems)
}

/// A stamp of a host as one of the reference host's.
fn on_reference(clock: &Transform<Local, Reference>, at: Stamp<Local>) -> Stamp<Local> {
    Stamp::from_ns(clock.convert(at).0.ns())
}

fn read(source: &Source, done: &AtomicU64, sender: SyncSender<Vec<Event>>) -> Vec<ProblemKind> {
    let mut batch = Vec::with_capacity(BATCH);
    let mut problems = source.for_each(
        |event| {
            batch.push(event.clone());
            if batch.len() == BATCH {
                // Nobody listens any more only when the other end is gone, and all of it with that.
                let _ = sender.send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH)));
            }
        },
        |read| done.store(read, Ordering::Relaxed),
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
