//! Assumptions about the rates of two clocks.

use crate::corridor::Slope;
use crate::hull::REACH;

/// Assumptions about two clocks. An error bound holds as long as these do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum rate difference, parts per million; at most [`Limits::MAX_WIDTH`].
    pub rate_ppm: u32,
    /// The maximum change in the rate per second, parts per billion.
    pub bend_ppb_per_s: u32,
}

impl Default for Limits {
    /// 1200 ppm: on either host a kernel slews by 500 at most, and a crystal is off by 100. 1 ppm a second: a
    /// warming crystal changes by less.
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

    /// A clock's largest bend away from the best line within `time` ns: bend × time² / 16, and a third more,
    /// because the rate may be 10% off, on whichever clock the bend is measured.
    pub(crate) fn sag(self, time: u64) -> i64 {
        if self.bend_ppb_per_s == 0 {
            return 0;
        }
        let squared = u128::from(time) * u128::from(time);
        let sag = (squared / 12_000_000_000 + 1) * u128::from(self.bend_ppb_per_s) / 1_000_000_000 + 1;
        sag.min(REACH as u128 / 2) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sag_is_the_bend_times_the_square_of_the_time_and_rounded_up() {
        const SECOND: u64 = 1_000_000_000;
        for (bend_ppb_per_s, time, expected) in [
            (0, SECOND, 0),
            (1000, 0, 1),
            (1000, SECOND, 84),
            (1000, 60 * SECOND, 300_001),
            // Each quotient is rounded up.
            (1_000_000_000, 0, 2),
            (1_000_000_000, SECOND, 83_333_335),
            (u32::MAX, u64::MAX, REACH / 2),
        ] {
            let limits = Limits { bend_ppb_per_s, ..Limits::default() };
            assert_eq!(limits.sag(time), expected, "{bend_ppb_per_s} ppb/s over {time} ns");
        }
    }

    #[test]
    fn slopes_lie_on_either_side_of_one_and_never_farther_off_than_a_tenth() {
        for (rate_ppm, expected) in
            [(0, (1_000_000, 1_000_000)), (1200, (998_800, 1_001_200)), (u32::MAX, (900_000, 1_100_000))]
        {
            let (least, most) = Limits { rate_ppm, ..Limits::default() }.slopes();
            assert_eq!((least.rise, most.rise), expected);
            assert_eq!((least.run, most.run), (1_000_000, 1_000_000));
        }
    }
}
