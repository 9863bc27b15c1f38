//! Counts calls and waits that ended within a window, in histograms by target.

use std::collections::HashMap;
use std::time::Duration;

use wakepath_clock::{Reference, Stamp};
use wakepath_distribution::{Histogram, Unit};

use super::resolve::{RecordedTarget, TargetKind};
use crate::latency::target::LockKind;
use crate::latency::{Distribution, TimeSlice};

/// A call's or wait's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its end was seen.
    Seen,
    /// It never returned.
    Unwound,
    /// It had not ended at the recording's end.
    Open,
    /// Its end was not seen, but it was over by then.
    Unseen,
}

/// The counted time, and its slices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// The origin for slice times.
    pub(super) origin: Stamp<Reference>,
    pub(super) from: Stamp<Reference>,
    pub(super) to: Stamp<Reference>,
    /// A slice's length, ns; not 0.
    pub(super) every: Option<u64>,
}

impl Window {
    /// The number of slices. A rest at the end counts as a slice only from a tenth of a slice on.
    pub(super) fn slices(&self) -> u64 {
        let (length, Some(every)) = (self.to.since(self.from), self.every) else { return 0 };
        (length / every + u64::from(length % every >= every.div_ceil(10))).max(1)
    }

    /// The index of the slice around `to`.
    fn slice_at(&self, to: Stamp<Reference>) -> Option<u64> {
        let ended = to.since(self.from).saturating_sub(1);
        Some((ended / self.every?).min(self.slices() - 1))
    }

    /// The slices, before counting.
    fn empty_slices(&self) -> Vec<TimeSlice> {
        let Some(every) = self.every else { return Vec::new() };
        let slices = self.slices();
        let since = |at: Stamp<Reference>| Duration::from_nanos(at.since(self.origin));
        let slice = |index: u64| TimeSlice {
            from: since(self.from.plus(index * every)),
            to: since(if index + 1 == slices { self.to } else { self.from.plus((index + 1) * every) }),
            histogram: Histogram::new(Unit::Nanoseconds),
        };
        (0..slices).map(slice).collect()
    }

    /// A target's distribution, before counting.
    fn distribution(&self, target: &RecordedTarget) -> Distribution {
        let empty = Histogram::new(Unit::Nanoseconds);
        let slices = self.empty_slices();
        Distribution { slices, ..Distribution::new(target.name.clone(), target.kind.source(), empty) }
    }

    fn holds(&self, from: Option<Stamp<Reference>>, to: Stamp<Reference>) -> bool {
        (to > self.from || from.is_some_and(|from| from >= self.from)) && to <= self.to
    }
}

/// All targets' counts.
#[derive(Debug)]
pub(super) struct Counters {
    window: Window,
    distributions: HashMap<TargetKind, Distribution>,
    pub(super) facts: Facts,
}

/// Facts about all counted waits and segments, for the notes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Facts {
    /// Waits for a CPU during which a CPU limit throttled the thread, and their throttled time, ns.
    pub(super) throttled: (u64, u64),
    /// Whether any wait names its system call.
    pub(super) calls: bool,
    /// Segments with several explanations.
    pub(super) ambiguous: u64,
}

impl Counters {
    pub(super) fn new(window: Window, targets: &[RecordedTarget]) -> Self {
        let distributions = targets.iter().map(|target| (target.kind, window.distribution(target)));
        Self { window, distributions: distributions.collect(), facts: Facts::default() }
    }

    /// Whether any target satisfies `which`.
    pub(super) fn want(&self, which: impl Fn(&TargetKind) -> bool) -> bool {
        self.distributions.keys().any(which)
    }

    /// Counts a call or wait that ended within the window, if its target was asked for. It counts as open if it began
    /// by the window's end and had not ended then. `from` is `None` if its beginning was not seen.
    pub(super) fn count(
        &mut self,
        kind: TargetKind,
        from: Option<Stamp<Reference>>,
        to: Stamp<Reference>,
        end: Ending,
    ) {
        let (window, Some(found)) = (&self.window, self.distributions.get_mut(&kind)) else { return };
        if end == Ending::Open || to > window.to {
            found.open += u64::from(from.is_none_or(|from| from <= window.to));
            return;
        }
        if !window.holds(from, to) {
            return;
        }
        match (end, from) {
            (Ending::Unwound, _) => found.unwound += 1,
            (Ending::Seen, Some(from)) => {
                let ns = to.since(from);
                found.histogram.add(ns);
                if let Some(slice) = window.slice_at(to) {
                    found.slices[slice as usize].histogram.add(ns);
                }
            }
            _ => found.unseen += 1,
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

    /// A target's distribution, after counting.
    pub(super) fn take(&mut self, kind: TargetKind) -> Option<Distribution> {
        self.distributions.remove(&kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distribution of these calls in a window from 200 on: each call's beginning, end, and kind of end.
    fn counted(
        to: u64,
        every: Option<u64>,
        calls: impl Iterator<Item = (Option<u64>, u64, Ending)>,
    ) -> Distribution {
        let [origin, from, to] = [100, 200, to].map(Stamp::from_ns);
        let target = RecordedTarget::new("runqueue", TargetKind::RunQueue);
        let mut counters = Counters::new(Window { origin, from, to, every }, &[target]);
        for (from, to, end) in calls {
            counters.count(TargetKind::RunQueue, from.map(Stamp::from_ns), Stamp::from_ns(to), end);
        }
        counters.take(TargetKind::RunQueue).expect("it was asked for")
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
            let found = counted(300, None, [(from, to, end)].into_iter());
            let counts = [found.histogram.calls(), found.unwound, found.open, found.unseen];
            assert_eq!(counts, expected, "{from:?} to {to}, {end:?}");
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
            let found = counted(to, Some(every), (201..=to).map(|at| (Some(200), at, Ending::Seen)));
            let slices = found.slices;
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
                found.histogram.calls()
            );
        }
    }
}
