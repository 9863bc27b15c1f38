//! From wall-clock time, as in logs and spans, to the recording's clock.

use wakepath_clock::{Local, Reference, Stamp, Wall};
use wakepath_event::{Clocks, HostIndex};

use crate::Recorded;

/// If realtime gained or lost at least this much against the recording's clock between readings, it was set, not
/// only steered, ns.
const MAX_STEERED_NS: u64 = 10_000_000;

/// The most by which a kernel steers realtime, ns in a second, if no time server sets it.
const MAX_SLEW: u64 = 500_000;

/// The two clocks in a reading are read within less than this, ns.
const READING_NS: u64 = 1_000;

/// A clock never read beside the recording's is computed at this number of times in the recording, and at its end.
const MOMENTS: u64 = 256;

/// A host's realtime clock beside its recording's clock, at the times when both were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WallClock {
    /// Realtime and the recording's clock, by realtime; at least one pair.
    readings: Vec<(u64, u64)>,
    /// The same pairs the other way round, by the recording's clock: after a step in realtime, the order differs.
    by_stamp: Vec<(u64, u64)>,
}

impl WallClock {
    /// The clock with these readings; `None` without any.
    pub fn from_readings(readings: &[(Stamp<Local>, Clocks)]) -> Option<Self> {
        Self::from_pairs(readings.iter().map(|(at, clocks)| (clocks.realtime_ns, at.ns())).collect())
    }

    /// The clock with these pairs: realtime and the recording's clock, ns.
    fn from_pairs(mut readings: Vec<(u64, u64)>) -> Option<Self> {
        readings.sort_unstable();
        let mut by_stamp: Vec<_> = readings.iter().map(|&(realtime, at)| (at, realtime)).collect();
        by_stamp.sort_unstable();
        (!readings.is_empty()).then_some(Self { readings, by_stamp })
    }

    /// The stamp at which realtime was `wall`. Between two readings both clocks run evenly; if a clock was set
    /// between them, and outside the readings, time passes as on the recording's clock. The recording's clock
    /// begins with its machine: an earlier time has the stamp 0.
    pub fn stamp(&self, wall: Stamp<Wall>) -> Stamp<Reference> {
        let wall = wall.ns();
        let after = self.readings.partition_point(|(realtime, _)| *realtime <= wall);
        let (realtime, at) = self.readings[after.saturating_sub(1)];
        if wall < realtime {
            return Stamp::from_ns(at.saturating_sub(realtime - wall));
        }
        let passed = wall - realtime;
        let steered = self.readings.get(after).filter(|_| after > 0).and_then(|(next, then)| {
            let (wall_ns, ns) = (next - realtime, then.checked_sub(at)?);
            (wall_ns.abs_diff(ns) < MAX_STEERED_NS && wall_ns > 0).then_some((wall_ns, ns))
        });
        let passed = match steered {
            Some((wall_ns, ns)) => (u128::from(passed) * u128::from(ns) / u128::from(wall_ns)) as u64,
            None => passed,
        };
        Stamp::from_ns(at.saturating_add(passed))
    }

    /// The realtime at a stamp: [`Self::stamp`] the other way round, to 1 ns.
    pub fn wall(&self, at: Stamp<Reference>) -> Stamp<Wall> {
        let at = at.ns();
        let after = self.by_stamp.partition_point(|(read, _)| *read <= at);
        let (read, realtime) = self.by_stamp[after.saturating_sub(1)];
        if at < read {
            return Stamp::from_ns(realtime.saturating_sub(read - at));
        }
        let passed = at - read;
        let steered = self.by_stamp.get(after).filter(|_| after > 0).and_then(|(then, next)| {
            let (wall_ns, ns) = (next.checked_sub(realtime)?, then - read);
            (wall_ns.abs_diff(ns) < MAX_STEERED_NS && wall_ns > 0).then_some((wall_ns, ns))
        });
        let passed = match steered {
            Some((wall_ns, ns)) => (u128::from(passed) * u128::from(wall_ns) / u128::from(ns)) as u64,
            None => passed,
        };
        Stamp::from_ns(realtime.saturating_add(passed))
    }

    /// The largest error of [`Self::wall`] at a stamp, ns. Between two readings both clocks may have run apart at
    /// any time, by as much as they did in all; outside the readings, by as much as a kernel steers.
    pub fn error_ns(&self, at: Stamp<Reference>) -> u64 {
        let at = at.ns();
        let after = self.by_stamp.partition_point(|(read, _)| *read <= at);
        let (read, realtime) = self.by_stamp[after.saturating_sub(1)];
        let error = match self.by_stamp.get(after).filter(|_| after > 0) {
            // Realtime may have been set back.
            Some(&(then, next)) => {
                let (wall_ns, ns) = (i128::from(next) - i128::from(realtime), i128::from(then - read));
                u64::try_from((wall_ns - ns).unsigned_abs()).unwrap_or(u64::MAX)
            }
            None => {
                let slewed = u128::from(at.abs_diff(read)) * u128::from(MAX_SLEW) / 1_000_000_000;
                u64::try_from(slewed).unwrap_or(u64::MAX)
            }
        };
        error.saturating_add(READING_NS)
    }
}

impl Recorded {
    /// The (first) host's realtime clock; `None` if never read.
    pub fn wall_clock(&self) -> Option<WallClock> {
        WallClock::from_readings(&self.survey.clocks).or_else(|| {
            let offset = self.realtime_offset_ns?;
            let realtime = u64::try_from(offset).ok()?;
            WallClock::from_pairs(vec![(realtime, 0)])
        })
    }
}

impl Recorded {
    /// The realtime clock of a host among several, beside the first host's clock: by its readings, else by its own
    /// recording's description; `None` without either.
    pub fn wall_clock_of(&self, host: HostIndex) -> Option<WallClock> {
        if host == HostIndex::default() {
            return self.wall_clock();
        }
        WallClock::from_readings(self.survey.clocks_of(host)).or_else(|| {
            let offset = self.description(host)?.realtime_offset_ns?;
            // The host's clock may be faster than the first host's: between two such times both run evenly.
            let (from, length) = (self.graph.from(), self.graph.to().since(self.graph.from()));
            let moments = (0..=MOMENTS).map(|nth| {
                let at = from.plus((u128::from(length) * u128::from(nth) / u128::from(MOMENTS)) as u64);
                let realtime = i128::from(self.own_stamp(host, at).ns()).checked_add(offset)?;
                Some((u64::try_from(realtime).ok()?, at.ns()))
            });
            WallClock::from_pairs(moments.flatten().collect())
        })
    }
}

#[cfg(test)]
mod tests;
