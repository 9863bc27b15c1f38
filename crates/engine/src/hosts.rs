//! The recordings of several hosts, read as one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use wakepath_clock::{Local, Reference, Stamp, Transform};
use wakepath_event::{Event, HostIndex, Tid};
use wakepath_packets::{Traffic, Visited};
use wakepath_sync::{Options, Synchronisation, synchronise_seeing};
use wakepath_timeline::Numbering;

use crate::ProblemKind;
use crate::source::Source;

/// The number of events that a host's reader hands over at a time.
const BATCH_EVENTS: usize = 4096;
/// The number of batches that a reader may be ahead.
const MAX_BATCHES_AHEAD: usize = 2;

/// The part of each host's recording that is read, in the unit of its size.
pub(crate) struct Progress<'a> {
    report: &'a mut dyn FnMut(u64, u64),
    done: Vec<Arc<AtomicU64>>,
    expected: u64,
    calls: u64,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(sources: &[Arc<Source>], report: &'a mut dyn FnMut(u64, u64)) -> Self {
        let done = sources.iter().map(|_| Arc::default()).collect();
        let sizes = sources.iter().map(|source| source.description().size);
        Self { report, done, expected: sizes.fold(0, u64::saturating_add), calls: 0 }
    }

    /// Reports the progress now and then; to be called often.
    fn step(&mut self) {
        self.calls += 1;
        if self.calls.is_multiple_of(1 << 16) {
            let done = self.done.iter().map(|done| done.load(Ordering::Relaxed));
            (self.report)(done.fold(0, u64::saturating_add), self.expected);
        }
    }
}

/// Compares the clocks of these hosts with the reference, which is chosen where none is given.
pub(crate) fn clocks(
    sources: &[Arc<Source>],
    reference: Option<usize>,
    progress: &mut Progress<'_>,
) -> Synchronisation {
    let extents: Vec<_> = thread::scope(|scope| {
        let readers: Vec<_> = sources.iter().map(|source| scope.spawn(|| extent(source))).collect();
        readers.into_iter().map(|reader| reader.join().unwrap_or_default()).collect()
    });
    // The packets are read as often as they are needed, and never kept.
    let traffic = |(source, done): (&Arc<Source>, &Arc<AtomicU64>)| {
        let (source, done) = (Arc::clone(source), Arc::clone(done));
        Visited::new(move |visit| {
            source.read(
                |event| Traffic::of(event).into_iter().for_each(&mut *visit),
                |read| done.store(read, Ordering::Relaxed),
            );
        })
    };
    let traffic: Vec<_> = sources.iter().zip(&progress.done).map(traffic).collect();
    let hosts: Vec<_> =
        traffic.iter().zip(extents).map(|(source, window)| wakepath_sync::Host { source, window }).collect();
    let options = Options { reference, ..Options::default() };
    synchronise_seeing(&hosts, &options, &mut |_| progress.step())
}

/// The stamps of a host's first and last event.
fn extent(source: &Source) -> Option<(Stamp<Local>, Stamp<Local>)> {
    let mut extent = source.description().extent;
    if extent.is_none() {
        source.read(
            |event| {
                let (from, to) = extent.unwrap_or((event.at, event.at));
                extent = Some((from.min(event.at), to.max(event.at)));
            },
            |_| {},
        );
    }
    extent
}

/// A host whose clock can be converted to the reference.
pub(crate) struct LinkedHost<'a> {
    pub(crate) source: &'a Source,
    /// Its index among those whose clocks were compared.
    pub(crate) place: usize,
    /// From its clock to the reference.
    pub(crate) clock: &'a Transform<Local, Reference>,
}

/// The next result of reading several hosts.
pub(crate) enum Next<'a> {
    Event(&'a Event),
    /// The host has no further event. The numbering has its CPUs.
    End(&'a Numbering),
}

/// Emits the events of these hosts as those of one machine, by the reference clock; those of equal stamps
/// in the order of the hosts. Returns the damages of each host's recording.
///
/// A thread of its own reads each recording, a little ahead, so that memory does not grow with their size.
pub(crate) fn for_each(
    hosts: &[LinkedHost<'_>],
    progress: &mut Progress<'_>,
    mut emit: impl FnMut(HostIndex, Next<'_>),
) -> (Numbering, Vec<Vec<ProblemKind>>) {
    let mut numbering = Numbering::default();
    let damages = thread::scope(|scope| {
        let (mut heads, mut readers) = (Vec::new(), Vec::new());
        for host in hosts.iter().take(Tid::HOSTS) {
            let (sender, events) = sync_channel(MAX_BATCHES_AHEAD);
            let done = Arc::clone(&progress.done[host.place]);
            readers.push(scope.spawn(move || read(host.source, &done, sender)));
            let on_reference = |event: Event| (on_reference(host.clock, event.at), event);
            heads.push(events.into_iter().flatten().map(on_reference).peekable());
        }
        // A few hosts: looking at each head is no slower than a heap of them.
        loop {
            let earliest =
                heads.iter_mut().enumerate().filter_map(|(host, head)| Some((head.peek()?.0, host))).min();
            let Some((_, host)) = earliest else { break };
            let Some((_, mut event)) = heads[host].next() else { break };
            let index = HostIndex(host as u16);
            if numbering.number(index, &mut event, |at| on_reference(hosts[host].clock, at)) {
                emit(index, Next::Event(&event));
            }
            if heads[host].peek().is_none() {
                emit(index, Next::End(&numbering));
            }
            progress.step();
        }
        readers.into_iter().map(|reader| reader.join().unwrap_or_default()).collect()
    });
    (numbering, damages)
}

/// A stamp of a host as one of the reference host's.
fn on_reference(clock: &Transform<Local, Reference>, at: Stamp<Local>) -> Stamp<Local> {
    Stamp::from_ns(clock.convert(at).0.ns())
}

fn read(source: &Source, done: &AtomicU64, sender: SyncSender<Vec<Event>>) -> Vec<ProblemKind> {
    let mut batch = Vec::with_capacity(BATCH_EVENTS);
    let mut damages = source.read(
        |event| {
            batch.push(event.clone());
            if batch.len() == BATCH_EVENTS {
                // Sending fails only when the receiver is gone, and everything with it.
                let _ = sender.send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH_EVENTS)));
            }
        },
        |read| done.store(read, Ordering::Relaxed),
    );
    let _ = sender.send(batch);
    damages.dedup();
    damages
}
