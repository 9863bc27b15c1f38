//! Assumptions about the rates of two clocks.

use crate::corridor::Slope;
use crate::hull::REACH;

/// Assumptions about two clocks. An error bound holds as long as these do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// By how much one runs faster than the other, parts per million; at most [`Limits::MAX_WIDTH`].
    pub rate_ppm: u32,
    /// By how much that rate changes in a second, parts per billion.
    pub bend_ppb_per_s: u32,
}

impl Default for Limits {
    /// 1200 ppm: on either host a kernel slews by 500 at most, and a crystal is off by 100. 1 ppm a
    /// second: a crystal that warms up changes by less.
    fn default() -> Self {
        Self { rate_ppm: 1200, bend_ppb_per_s: 1000 }
    }
}

impl Limits {
    /// Clocks that differ by more than 10% are not considered.
    pub const MAX_WIDTH: u32 = 100_000;

    pub(crate) fn slopes(self) -> (Slope, Slope) {
        let off = i64::from(self.rate_ppm.min(Self::MAX_WIDTH));
        let slope = |rise: i64| Slope { rise, run: 1_000_000 };
        (slope(1_000_000 - off), slope(1_000_000 + off))
    }

    /// How far a clock bends away from the best line within `time` ns: bend × time² / 16, and a third
    /// more, because the rate may be 10% off, on whichever clock the bend is measured.
    pub(crate) fn sag(self, time: u64) -> i64 {
        if self.bend_ppb_per_s == 0 {
            return 0;
        }
        let squared = u128::from(time) * u128::from(time);
        let sag = (squared / 12_000_000_000 + 1) * u128::from(self.bend_ppb_per_s) / 1_000_000_000 + 1;
        sag.min(REACH as u128 / 2) as i64
    }
}
