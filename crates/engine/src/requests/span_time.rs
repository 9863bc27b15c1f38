//! Spans' times on the recording's clock. The clock begins with its machine, and a span may have begun, and ended,
//! before.

use wakepath_clock::{Reference, Stamp};
use wakepath_spans::SpanIndex;

use super::{Places, Traced};

/// A time on the recording's clock, or before that clock began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpanTime {
    /// ns since the clock began; below 0 before.
    ns: i128,
}

impl From<Stamp<Reference>> for SpanTime {
    fn from(at: Stamp<Reference>) -> Self {
        Self { ns: i128::from(at.ns()) }
    }
}

impl SpanTime {
    /// The time since an earlier time, ns; 0 if `earlier` is later.
    pub fn since(self, earlier: Self) -> u64 {
        u64::try_from((self.ns - earlier.ns).max(0)).unwrap_or(u64::MAX)
    }

    /// The time since an origin, ns; below 0 before it.
    pub fn since_origin(self, origin: Stamp<Reference>) -> i64 {
        let ns = self.ns - i128::from(origin.ns());
        ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// The stamp; the clock's beginning for a time before it.
    pub fn stamp(self) -> Stamp<Reference> {
        Stamp::from_ns(self.since(Stamp::from_ns(0).into()))
    }

    /// The time this number of ns later.
    pub(super) fn plus(self, ns: u64) -> Self {
        Self { ns: self.ns + i128::from(ns) }
    }
}

/// A span's beginning and end.
pub(super) fn times(places: &Places, traced: &Traced, span: SpanIndex) -> (SpanTime, SpanTime) {
    let (from, to) = places.times(traced, span);
    let began = Stamp::from_ns(0);
    if from > began {
        return (from.into(), to.into());
    }
    // Before the clock began, time passes as on the span's own clock.
    let of = traced.spans.span(span);
    let to = match to > began {
        true => SpanTime::from(to),
        false => SpanTime { ns: -i128::from(places.wall(traced, span, began).since(of.to)) },
    };
    let from = SpanTime { ns: to.ns - i128::from(of.length_ns()) };
    (from.min(began.into()), to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_before_the_clock_began_has_its_distance_and_no_stamp_of_its_own() {
        let (zero, five) = (Stamp::from_ns(0), Stamp::from_ns(5));
        let before = SpanTime { ns: -7 };
        assert_eq!((before.since(five.into()), SpanTime::from(five).since(before)), (0, 12));
        assert_eq!((before.since_origin(five), SpanTime::from(five).since_origin(zero)), (-12, 5));
        assert_eq!((before.stamp(), SpanTime::from(five).stamp()), (zero, five));
        assert_eq!((before.plus(7), before.plus(12)), (zero.into(), five.into()));
        let [first, last] = [i128::MIN / 2, i128::MAX / 2].map(|ns| SpanTime { ns });
        assert_eq!((first.since_origin(five), last.since_origin(five)), (i64::MIN, i64::MAX));
        assert_eq!((last.since(first), last.stamp()), (u64::MAX, Stamp::from_ns(u64::MAX)));
    }
}
