//! Counts what ended within a window.

use std::collections::HashMap;
use std::time::Duration;

use wakepath_clock::{Reference, Stamp};
use wakepath_distribution::{Histogram, Unit};

use super::target::TargetKind;
use crate::Slice;

/// How something ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// As it should.
    Seen,
    /// Without returning.
    Unwound,
    /// It had not when the recording did.
    Open,
    /// Nobody saw; it was over then.
    Unseen,
}

/// Which time is counted, and in what parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// Where documents' time begins.
    pub(super) origin: Stamp<Reference>,
    pub(super) from: Stamp<Reference>,
    pub(super) to: Stamp<Reference>,
    /// How long a part is, ns; not 0.
    pub(super) every: Option<u64>,
}

impl Window {
    /// How many parts there are. What is left when the last one is over is one of its own only if it is a
    /// tenth of one.
    pub(super) fn parts(&self) -> u64 {
        let (length, Some(every)) = (self.to.since(self.from), self.every) else { return 0 };
        (length / every + u64::from(length % every >= every.div_ceil(10))).max(1)
    }

    fn part(&self, to: Stamp<Reference>) -> Option<u64> {
        let ended = to.since(self.from).saturating_sub(1);
        Some((ended / self.every?).min(self.parts() - 1))
    }

    fn holds(&self, from: Option<Stamp<Reference>>, to: Stamp<Reference>) -> bool {
        (to > self.from || from.is_some_and(|from| from >= self.from)) && to <= self.to
    }
}

/// What one target came to.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) histogram: Histogram,
    parts: Vec<Histogram>,
    pub(super) unwound: u64,
    pub(super) open: u64,
    pub(super) unseen: u64,
}

impl Tally {
    fn new() -> Self {
        Self {
            histogram: Histogram::new(Unit::Nanoseconds),
            parts: Vec::new(),
            unwound: 0,
            open: 0,
            unseen: 0,
        }
    }

    /// Nothing is known of it at all.
    pub(super) fn is_empty(&self) -> bool {
        self.histogram.is_empty() && self.unwound == 0 && self.open == 0 && self.unseen == 0
    }

    fn take(&mut self, window: &Window, from: Option<Stamp<Reference>>, to: Stamp<Reference>, end: End) {
        let begun = from.is_none_or(|from| from <= window.to);
        if end == End::Open || to > window.to {
            self.open += u64::from(begun);
            return;
        }
        if !window.holds(from, to) {
            return;
        }
        match (end, from) {
            (End::Unwound, _) => self.unwound += 1,
            (End::Seen, Some(from)) => {
                let ns = to.since(from);
                self.histogram.add(ns);
                if let Some(part) = window.part(to) {
                    if self.parts.is_empty() {
                        let parts = usize::try_from(window.parts()).unwrap_or(usize::MAX);
                        self.parts = vec![Histogram::new(Unit::Nanoseconds); parts];
                    }
                    self.parts[part as usize].add(ns);
                }
            }
            _ => self.unseen += 1,
        }
    }

    /// What came in each part of the time.
    pub(super) fn slices(&self, window: &Window) -> Vec<Slice> {
        let Some(every) = window.every else { return Vec::new() };
        let empty = Histogram::new(Unit::Nanoseconds);
        let parts = window.parts();
        let since = |at: Stamp<Reference>| Duration::from_nanos(at.since(window.origin));
        let slice = |part: u64| Slice {
            from: since(window.from.plus(part * every)),
            to: since(if part + 1 == parts { window.to } else { window.from.plus((part + 1) * every) }),
            histogram: self.parts.get(part as usize).unwrap_or(&empty).clone(),
        };
        (0..parts).map(slice).collect()
    }
}

/// What all targets came to.
#[derive(Debug)]
pub(super) struct Tallies {
    pub(super) window: Window,
    by: HashMap<TargetKind, Tally>,
}

impl Tallies {
    pub(super) fn new(window: Window, targets: impl Iterator<Item = TargetKind>) -> Self {
        Self { window, by: targets.map(|what| (what, Tally::new())).collect() }
    }

    /// Whether any target is one of these.
    pub(super) fn wants(&self, which: impl Fn(&TargetKind) -> bool) -> bool {
        self.by.keys().any(which)
    }

    /// Counts something if it was asked for. `from` is `None` where its beginning was not seen.
    pub(super) fn take(
        &mut self,
        what: TargetKind,
        from: Option<Stamp<Reference>>,
        to: Stamp<Reference>,
        end: End,
    ) {
        if let Some(tally) = self.by.get_mut(&what) {
            tally.take(&self.window, from, to, end);
        }
    }

    pub(super) fn of(&self, what: TargetKind) -> Option<&Tally> {
        self.by.get(&what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(from: u64, to: u64, every: Option<u64>) -> Window {
        Window { origin: Stamp::from_ns(100), from: Stamp::from_ns(from), to: Stamp::from_ns(to), every }
    }

    #[test]
    fn what_ended_in_the_window_is_counted_whenever_it_began() {
        for (from, to, end, expected) in [
            (Some(150), 250, End::Seen, [1, 0, 0, 0]),
            (Some(250), 300, End::Seen, [1, 0, 0, 0]),
            (Some(200), 200, End::Seen, [1, 0, 0, 0]),
            (Some(150), 200, End::Seen, [0, 0, 0, 0]),
            (Some(250), 301, End::Seen, [0, 0, 1, 0]),
            (Some(301), 310, End::Seen, [0, 0, 0, 0]),
            (Some(250), 260, End::Unwound, [0, 1, 0, 0]),
            (Some(250), 400, End::Open, [0, 0, 1, 0]),
            (Some(301), 400, End::Open, [0, 0, 0, 0]),
            (None, 250, End::Seen, [0, 0, 0, 1]),
            (Some(210), 250, End::Unseen, [0, 0, 0, 1]),
            (None, 350, End::Seen, [0, 0, 1, 0]),
        ] {
            let mut tally = Tally::new();
            tally.take(&window(200, 300, None), from.map(Stamp::from_ns), Stamp::from_ns(to), end);
            let found = [tally.histogram.calls(), tally.unwound, tally.open, tally.unseen];
            assert_eq!(found, expected, "{from:?} to {to}, {end:?}");
        }
    }

    #[test]
    fn parts_of_the_time_tile_the_window_and_add_up_to_the_whole() {
        for (to, every, ends) in [
            (300, 50, &[250, 300][..]),
            (304, 50, &[250, 304]),
            (305, 50, &[250, 300, 305]),
            (240, 50, &[240]),
            (300, u64::MAX, &[300]),
        ] {
            let window = window(200, to, Some(every));
            let mut tally = Tally::new();
            for at in 201..=to {
                tally.take(&window, Some(Stamp::from_ns(200)), Stamp::from_ns(at), End::Seen);
            }
            let slices = tally.slices(&window);
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
                tally.histogram.calls()
            );
        }
    }
}
