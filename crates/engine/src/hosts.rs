//! Several hosts' recordings, read as one machine's.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use wakepath_clock::{Local, Reference, Stamp, Transform};
use wakepath_event::{Event, EventKind, EventSource, HostIndex, Tid};
use wakepath_packets::{Traffic, Visited};
use wakepath_sync::{Options, Synchronisation, synchronise_seeing};
use wakepath_timeline::Numbering;

use crate::source::Source;

/// The number of events in a reader's batch.
const BATCH_EVENTS: usize = 4096;
/// The number of batches that a reader may be ahead.
const MAX_BATCHES_AHEAD: usize = 2;

/// The progress in each host's recording, in the unit of its size.
pub(crate) struct Progress<'a> {
    report: &'a mut dyn FnMut(u64, u64),
    done: Vec<Arc<AtomicU64>>,
    expected: u64,
    calls: u64,
}

impl<'a> Progress<'a> {
    pub(crate) fn new<S: EventSource>(sources: &[Arc<S>], report: &'a mut dyn FnMut(u64, u64)) -> Self {
        let done = sources.iter().map(|_| Arc::default()).collect();
        let sizes = sources.iter().map(|source| source.description().size);
        Self { report, done, expected: sizes.fold(0, u64::saturating_add), calls: 0 }
    }

    /// Reports the progress now and then; to be called for each event.
    fn step(&mut self) {
        self.calls += 1;
        if self.calls.is_multiple_of(1 << 16) {
            let done = self.done.iter().map(|done| done.load(Ordering::Relaxed));
            (self.report)(done.fold(0, u64::saturating_add), self.expected);
        }
    }
}

/// Compares the hosts' clocks with the reference, which is chosen if `reference` is `None`.
pub(crate) fn clocks(
    sources: &[Arc<Source>],
    reference: Option<usize>,
    progress: &mut Progress<'_>,
) -> Synchronisation {
    let extents: Vec<_> = thread::scope(|scope| {
        let readers: Vec<_> = sources.iter().map(|source| scope.spawn(|| extent(source.as_ref()))).collect();
        readers.into_iter().map(result).collect()
    });
    // Packets are read as often as they are needed, and never kept.
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
fn extent(source: &impl EventSource) -> Option<(Stamp<Local>, Stamp<Local>)> {
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
pub(crate) struct LinkedHost<'a, S = Source> {
    pub(crate) source: &'a S,
    /// Its index among the compared hosts.
    pub(crate) place: usize,
    /// From its clock to the reference.
    pub(crate) clock: &'a Transform<Local, Reference>,
}

/// The next result while several hosts are read.
pub(crate) enum Next<'a> {
    Event(&'a Event),
    /// A mark in the host's own recording, which is no event for all hosts.
    Mark(&'a Event),
    /// The host has no further event. The numbering has its CPUs.
    End(&'a Numbering),
}

/// Emits these hosts' events as a single machine's, by the reference clock; events with equal stamps in host order.
/// Returns the damages in each host's recording.
///
/// Each recording has a reader thread, a little ahead, so that memory does not grow with the recordings' size.
pub(crate) fn for_each<S: EventSource<Damage: PartialEq + Send> + Sync>(
    hosts: &[LinkedHost<'_, S>],
    progress: &mut Progress<'_>,
    mut emit: impl FnMut(HostIndex, Next<'_>),
) -> (Numbering, Vec<Vec<S::Damage>>) {
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
        // With a few hosts, looking at each head is no slower than a heap.
        loop {
            let earliest =
                heads.iter_mut().enumerate().filter_map(|(host, head)| Some((head.peek()?.0, host))).min();
            let Some((_, host)) = earliest else { break };
            let Some((_, mut event)) = heads[host].next() else { break };
            let index = HostIndex(host as u16);
            if numbering.number(index, &mut event, |at| on_reference(hosts[host].clock, at)) {
                emit(index, Next::Event(&event));
            } else if matches!(event.kind, EventKind::Mark(_)) {
                emit(index, Next::Mark(&event));
            }
            if heads[host].peek().is_none() {
                emit(index, Next::End(&numbering));
            }
            progress.step();
        }
        readers.into_iter().map(result).collect()
    });
    (numbering, damages)
}

/// A reader's result. A panicked reader must not look like a finished reader.
fn result<T>(reader: thread::ScopedJoinHandle<'_, T>) -> T {
    reader.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// A host's stamp, converted to the reference clock.
fn on_reference(clock: &Transform<Local, Reference>, at: Stamp<Local>) -> Stamp<Local> {
    Stamp::from_ns(clock.convert(at).0.ns())
}

fn read<S: EventSource<Damage: PartialEq>>(
    source: &S,
    done: &AtomicU64,
    sender: SyncSender<Vec<Event>>,
) -> Vec<S::Damage> {
    let mut batch = Vec::with_capacity(BATCH_EVENTS);
    let mut damages = source.read(
        |event| {
            batch.push(event.clone());
            if batch.len() == BATCH_EVENTS {
                // Sending fails only if the receiver is gone, and everything with it.
                let _ = sender.send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH_EVENTS)));
            }
        },
        |read| done.store(read, Ordering::Relaxed),
    );
    let _ = sender.send(batch);
    damages.dedup();
    damages
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use wakepath_clock::{ErrorBound, Line};
    use wakepath_event::{ClockId, Description, HostIdentity, Mark};
    use wakepath_loaded::testing::event;

    use super::*;

    /// A host's events; a panic behind them if `panics`.
    struct Made {
        description: Description,
        events: Vec<Event>,
        panics: bool,
    }

    impl EventSource for Made {
        type Damage = &'static str;

        fn description(&self) -> &Description {
            &self.description
        }

        fn read(&self, emit: impl FnMut(&Event), _: impl FnMut(u64)) -> Vec<&'static str> {
            self.events.iter().for_each(emit);
            assert!(!self.panics, "a bug of the reader");
            vec!["one", "one", "another"]
        }
    }

    fn made(events: &[(u64, EventKind)], panics: bool) -> Made {
        let description = Description {
            path: "a.rec".into(),
            host: HostIdentity::default(),
            tracer: None,
            clock: ClockId::Monotonic,
            realtime_offset_ns: None,
            extent: None,
            size: 1,
            cgroup: None,
            format: None,
        };
        let events = events.iter().map(|(at, kind)| event(*at, 0, 7, kind.clone())).collect();
        Made { description, events, panics }
    }

    /// Reads two hosts as one machine, the second host's clock 100 ns behind: a line for each event, and the damages.
    fn read_both(sources: [Made; 2]) -> (Vec<String>, Vec<Vec<&'static str>>) {
        let sources = sources.map(Arc::new);
        let clocks = [0, 100].map(|behind| {
            let line = Line::through((0, behind), (1_000, 1_000 + behind)).expect("a line");
            Transform::line(line, ErrorBound::Within(0))
        });
        let hosts: Vec<_> = sources
            .iter()
            .zip(&clocks)
            .enumerate()
            .map(|(place, (source, clock))| LinkedHost { source: source.as_ref(), place, clock })
            .collect();
        let (mut lines, mut ignored) = (Vec::new(), |_, _| {});
        let (_, damages) =
            for_each(&hosts, &mut Progress::new(&sources, &mut ignored), |host, next| match next {
                Next::Event(event) => {
                    lines.push(format!("{} at {} by {}", host.0, event.at.ns(), event.current))
                }
                Next::Mark(event) => {
                    lines.push(format!("{} at {} marks {:?}", host.0, event.at.ns(), event.kind))
                }
                Next::End(_) => lines.push(format!("{} ends", host.0)),
            });
        (lines, damages)
    }

    fn mark(mark: Mark) -> EventKind {
        EventKind::Mark(mark)
    }

    #[test]
    fn the_events_of_hosts_come_in_the_order_of_one_clock_and_marks_of_the_second_one_by_themselves() {
        let first = made(&[(50, EventKind::Exit), (150, mark(Mark::Stopped))], false);
        let second =
            made(&[(10, mark(Mark::Observer(Tid(7)))), (20, EventKind::Exit), (90, EventKind::Exit)], false);
        let (lines, damages) = read_both([first, second]);
        assert_eq!(
            lines,
            [
                "0 at 50 by 7",
                &format!("1 at 110 marks {:?}", mark(Mark::Observer(Tid(7).on(HostIndex(1))))),
                "1 at 120 by 7",
                "0 at 150 by 7",
                "0 ends",
                "1 at 190 by 7",
                "1 ends",
            ]
        );
        assert_eq!(damages, [["one", "another"], ["one", "another"]]);
    }

    #[test]
    fn a_reader_that_panics_does_not_look_like_a_recording_that_ends() {
        for broken in [0, 1] {
            let sources = [0, 1].map(|host| made(&[(5, EventKind::Exit)], host == broken));
            let read = catch_unwind(AssertUnwindSafe(|| read_both(sources)));
            assert!(read.is_err(), "host {broken}: {read:?}");
        }
    }

    #[test]
    fn the_extent_of_a_recording_that_does_not_say_it_is_that_of_its_events() {
        let at = |ns| Stamp::from_ns(ns);
        let all = made(&[(50, EventKind::Exit), (20, EventKind::Exit), (90, EventKind::Exit)], false);
        assert_eq!(extent(&all), Some((at(20), at(90))));
        let described = Description { extent: Some((at(1), at(2))), ..made(&[], false).description };
        assert_eq!(extent(&Made { description: described, ..all }), Some((at(1), at(2))));
        assert_eq!(extent(&made(&[], false)), None);
    }
}
