//! Counts calls and waits that ended within a window, in histograms by target.

use std::collections::HashMap;
use std::time::Duration;

use wakepath_clock::{Reference, Stamp};
use wakepath_distribution::{Histogram, Unit};

use super::resolve::TargetKind;
use crate::latency::TimeSlice;
use crate::latency::target::LockKind;

/// The way in which a call or wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its end was seen.
    Seen,
    /// It never returned.
    Unwound,
    /// It had not ended when the recording did.
    Open,
    /// Its end was not seen; it was over by then.
    Unseen,
}

/// The time that is counted, and its slices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// The origin of the times of slices.
    pub(super) origin: Stamp<Reference>,
    pub(super) from: Stamp<Reference>,
    pub(super) to: Stamp<Reference>,
    /// The length of a slice, ns; not 0.
    pub(super) every: Option<u64>,
}

impl Window {
    /// The number of slices. A rest at the end is a slice of its own only if it is at least a tenth of one.
    pub(super) fn slices(&self) -> u64 {
        let (length, Some(every)) = (self.to.since(self.from), self.every) else { return 0 };
        (length / every + u64::from(length % every >= every.div_ceil(10))).max(1)
    }

    /// The slice in which `to` lies.
    fn slice_at(&self, to: Stamp<Reference>) -> Option<u64> {
        let ended = to.since(self.from).saturating_sub(1);
        Some((ended / self.every?).min(self.slices() - 1))
    }

    fn holds(&self, from: Option<Stamp<Reference>>, to: Stamp<Reference>) -> bool {
        (to > self.from || from.is_some_and(|from| from >= self.from)) && to <= self.to
    }
}

/// The counts of one target.
#[derive(Debug)]
pub(super) struct Counter {
    pub(super) histogram: Histogram,
    slices: Vec<Histogram>,
    pub(super) unwound: u64,
    pub(super) open: u64,
    pub(super) unseen: u64,
}

impl Counter {
    fn new() -> Self {
        Self {
            histogram: Histogram::new(Unit::Nanoseconds),
            slices: Vec::new(),
            unwound: 0,
            open: 0,
            unseen: 0,
        }
    }

    /// Whether nothing was counted.
    pub(super) fn is_empty(&self) -> bool {
        self.histogram.is_empty() && self.unwound == 0 && self.open == 0 && self.unseen == 0
    }

    fn count(&mut self, window: &Window, from: Option<Stamp<Reference>>, to: Stamp<Reference>, end: Ending) {
        let begun = from.is_none_or(|from| from <= window.to);
        if end == Ending::Open || to > window.to {
            self.open += u64::from(begun);
            return;
        }
        if !window.holds(from, to) {
            return;
        }
        match (end, from) {
            (Ending::Unwound, _) => self.unwound += 1,
            (Ending::Seen, Some(from)) => {
                let ns = to.since(from);
                self.histogram.add(ns);
                if let Some(slice) = window.slice_at(to) {
                    if self.slices.is_empty() {
                        let slices = usize::try_from(window.slices()).unwrap_or(usize::MAX);
                        self.slices = vec![Histogram::new(Unit::Nanoseconds); slices];
                    }
                    self.slices[slice as usize].add(ns);
                }
            }
            _ => self.unseen += 1,
        }
    }

    /// The latencies of each slice of the window.
    pub(super) fn slices(&self, window: &Window) -> Vec<TimeSlice> {
        let Some(every) = window.every else { return Vec::new() };
        let empty = Histogram::new(Unit::Nanoseconds);
        let slices = window.slices();
        let since = |at: Stamp<Reference>| Duration::from_nanos(at.since(window.origin));
        let slice = |index: u64| TimeSlice {
            from: since(window.from.plus(index * every)),
            to: since(if index + 1 == slices { window.to } else { window.from.plus((index + 1) * every) }),
            histogram: self.slices.get(index as usize).unwrap_or(&empty).clone(),
        };
        (0..slices).map(slice).collect()
    }
}

/// The counts of all targets.
#[derive(Debug)]
pub(super) struct Counters {
    window: Window,
    counters: HashMap<TargetKind, Counter>,
}

impl Counters {
    pub(super) fn new(window: Window, targets: impl Iterator<Item = TargetKind>) -> Self {
        Self { window, counters: targets.map(|kind| (kind, Counter::new())).collect() }
    }

    /// Whether any target is one of these.
    pub(super) fn want(&self, which: impl Fn(&TargetKind) -> bool) -> bool {
        self.counters.keys().any(which)
    }

    /// Counts a call or wait if its target was asked for. `from` is `None` where its beginning was not seen.
    pub(super) fn count(
        &mut self,
        kind: TargetKind,
        from: Option<Stamp<Reference>>,
        to: Stamp<Reference>,
        end: Ending,
    ) {
        if let Some(counter) = self.counters.get_mut(&kind) {
            counter.count(&self.window, from, to, end);
        }
    }

    /// Counts a wait for a lock: by its kind, and among all locks.
    pub(super) fn count_lock(
        &mut self,
        kind: LockKind,
        from: Option<Stamp<Reference>>,
        to: Stamp<Reference>,
        end: Ending,
    ) {
        self.count(TargetKind::Lock(Some(kind)), from, to, end);
        self.count(TargetKind::Lock(None), from, to, end);
    }

    pub(super) fn get(&self, kind: TargetKind) -> Option<&Counter> {
        self.counters.get(&kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(from: u64, to: u64, every: Option<u64>) -> Window {
        Window { origin: Stamp::from_ns(100), from: Stamp::from_ns(from), to: Stamp::from_ns(to), every }
    }

    #[test]
    fn a_call_that_ended_in_the_window_is_counted_whenever_it_began() {
        for (from, to, end, expected) in [
            (Some(150), 250, Ending::Seen, [1, 0, 0, 0]),
            (Some(250), 300, Ending::Seen, [1, 0, 0, 0]),
            (Some(200), 200, Ending::Seen, [1, 0, 0, 0]),
            (Some(150), 200, Ending::Seen, [0, 0, 0, 0]),
            (Some(250), 301, Ending::Seen, [0, 0, 1, 0]),
            (Some(301), 310, Ending::Seen, [0, 0, 0, 0]),
            (Some(250), 260, Ending::Unwound, [0, 1, 0, 0]),
            (Some(250), 400, Ending::Open, [0, 0, 1, 0]),
            (Some(301), 400, Ending::Open, [0, 0, 0, 0]),
            (None, 250, Ending::Seen, [0, 0, 0, 1]),
            (Some(210), 250, Ending::Unseen, [0, 0, 0, 1]),
            (None, 350, Ending::Seen, [0, 0, 1, 0]),
        ] {
            let mut counter = Counter::new();
            counter.count(&window(200, 300, None), from.map(Stamp::from_ns), Stamp::from_ns(to), end);
            let found = [counter.histogram.calls(), counter.unwound, counter.open, counter.unseen];
            assert_eq!(found, expected, "{from:?} to {to}, {end:?}");
        }
    }

    #[test]
    fn slices_tile_the_window_and_add_up_to_the_whole() {
        for (to, every, ends) in [
            (300, 50, &[250, 300][..]),
            (304, 50, &[250, 304]),
            (305, 50, &[250, 300, 305]),
            (240, 50, &[240]),
            (300, u64::MAX, &[300]),
        ] {
            let window = window(200, to, Some(every));
            let mut counter = Counter::new();
            for at in 201..=to {
                counter.count(&window, Some(Stamp::from_ns(200)), Stamp::from_ns(at), Ending::Seen);
            }
            let slices = counter.slices(&window);
            let since = |time: Duration| u64::try_from(time.as_nanos()).expect("short") + 100;
            assert_eq!(slices.iter().map(|slice| since(slice.to)).collect::<Vec<_>>(), ends);
            let mut at = 200;
            for slice in &slices {
                assert_eq!(since(slice.from), at);
                at = since(slice.to);
                assert_eq!(slice.histogram.calls(), at - since(slice.from), "each nanosecond has one");
            }
            assert_eq!(
                slices.iter().map(|slice| slice.histogram.calls()).sum::<u64>(),
                counter.histogram.calls()
            );
        }
    }
}
