//! Exact straight lines between clocks, in 128-bit integers.
//!
//! A stamp of 10^18 ns needs 60 bits, and a double has 53: in floating point a conversion would err by
//! hundreds of ns and run backwards (Giraldeau 2015, section 5.4.6). Here a slope is m / 2^60 with an integer
//! m, and an offset counts 2^-60 ns, so slope × stamp + offset is a single product of 64-bit numbers, exact
//! in 128 bits, then rounded once to the nearest nanosecond. Rounding keeps order, so a line never runs
//! backwards.

/// Binary digits behind the point, in slopes and offsets.
pub(crate) const BITS: u32 = 60;
const ONE: u64 = 1 << BITS;
const HALF: i128 = 1 << (BITS - 1);
/// |offset| stays below: together with a product below 2^125 the sum fits.
const OFFSET_LIMIT: i128 = 1 << 126;

/// `slope × stamp + offset`, exactly, rounded to the nearest ns at the very end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Line {
    slope: u64,
    offset: i128,
}

impl Line {
    /// Every stamp stays as it is.
    pub const IDENTITY: Self = Self { slope: ONE, offset: 0 };

    /// The line with slope `slope` / 2^60, between 1/2 and 2, and offset `offset` / 2^60 ns; `None` out of
    /// range.
    pub fn new(slope: u64, offset: i128) -> Option<Self> {
        let fits = (ONE / 2..ONE * 2).contains(&slope) && offset.abs() <= OFFSET_LIMIT;
        fits.then_some(Self { slope, offset })
    }

    /// The line that meets `first` exactly and `second`, which comes later, from below: less than 2^-60 × the
    /// distance lies between, so a line that begins at `second` goes on without a step back.
    pub fn through(first: (u64, u64), second: (u64, u64)) -> Option<Self> {
        let run = second.0.checked_sub(first.0).filter(|&run| run > 0)?;
        let rise = second.1.checked_sub(first.1)?;
        let slope = (u128::from(rise) << BITS) / u128::from(run);
        Self::anchored(u64::try_from(slope).ok()?, first.0, i128::from(first.1) << BITS)
    }

    /// Like [`Line::through`], for points that were both moved by `lift` ns on both clocks.
    pub(crate) fn lifted(first: (u64, u64), second: (u64, u64), lift: i128) -> Option<Self> {
        let line = Self::through(first, second)?;
        // slope × (x + lift) + offset = y + lift
        let moved = i128::from(line.slope) - i128::from(ONE);
        Self::new(line.slope, line.offset.checked_add(moved.checked_mul(lift)?)?)
    }

    /// The line with this slope and the value `value` / 2^60 at `x`.
    fn anchored(slope: u64, x: u64, value: i128) -> Option<Self> {
        Self::new(slope, value - product(slope, x))
    }

    /// The stamp on the other clock, rounded to the nearest ns; it stops at the ends of `u64`.
    #[inline]
    pub fn at(&self, stamp: u64) -> u64 {
        clamp((self.exact(stamp) + HALF) >> BITS)
    }

    /// The unrounded value in 2^-60 ns.
    #[inline]
    pub(crate) fn exact(&self, stamp: u64) -> i128 {
        product(self.slope, stamp) + self.offset
    }

    /// The first stamp that this line, before rounding, puts at `target` or behind; it stops at the ends of `u64`.
    pub(crate) fn reaches(&self, target: u64) -> u64 {
        let distance = (i128::from(target) << BITS) - self.offset;
        let slope = i128::from(self.slope);
        clamp((distance + slope - 1).div_euclid(slope))
    }

    /// m and k in the slope m / 2^k.
    pub const fn slope(&self) -> (u64, u32) {
        (self.slope, BITS)
    }

    /// n and k in the offset n / 2^k ns.
    pub const fn offset(&self) -> (i128, u32) {
        (self.offset, BITS)
    }

    /// The slope in decimal digits, all of them: nothing is rounded.
    pub fn slope_decimal(&self) -> String {
        decimal(self.slope.into())
    }

    /// The offset in ns in decimal digits, all of them: nothing is rounded.
    pub fn offset_decimal(&self) -> String {
        decimal(self.offset)
    }

    /// First this line, then `next`. If slopes are rounded to fit, the new line still meets the two to 2^-58
    /// ns at `near`, and lies below them by less than 2^-59 × the distance behind it.
    pub fn then(&self, next: &Self, near: u64) -> Option<Self> {
        let slope = (u128::from(self.slope) * u128::from(next.slope)) >> BITS;
        let between = self.exact(near);
        let whole = between >> BITS;
        let part = between - (whole << BITS);
        // The whole ns fit a 128-bit product only if they could be a stamp.
        let whole = u64::try_from(whole).ok()?;
        let value = next.exact(whole) + ((i128::from(next.slope) * part) >> BITS);
        Self::anchored(u64::try_from(slope).ok()?, near, value)
    }

    /// The inverse line, exact to 2^-59 ns at `near`, a stamp on the other clock.
    pub fn inverse(&self, near: u64) -> Option<Self> {
        let slope = (1_u128 << (2 * BITS)) / u128::from(self.slope);
        let distance = (i128::from(near) << BITS) - self.offset;
        let by = i128::from(self.slope);
        let (whole, rest) = (distance.div_euclid(by), distance.rem_euclid(by));
        let whole = u64::try_from(whole).ok()?;
        let value = (i128::from(whole) << BITS) + (rest << BITS) / by;
        Self::anchored(u64::try_from(slope).ok()?, near, value)
    }
}

#[inline]
fn product(slope: u64, stamp: u64) -> i128 {
    // Below 2^61 × 2^64. Unsigned, so that it is a single instruction.
    (u128::from(slope) * u128::from(stamp)).cast_signed()
}

#[inline]
pub(crate) fn clamp(ns: i128) -> u64 {
    u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
}

/// `value` / 2^60 in decimal digits.
fn decimal(value: i128) -> String {
    let magnitude = value.unsigned_abs();
    let mut text = if value < 0 { String::from("-") } else { String::new() };
    text += &(magnitude >> BITS).to_string();
    let mut rest = (magnitude & u128::from(ONE - 1)) as u64;
    if rest > 0 {
        text.push('.');
    }
    for _ in 0..BITS {
        if rest == 0 {
            break;
        }
        // Below 10 × 2^60, which fits.
        rest *= 10;
        text.push(char::from(b'0' + (rest >> BITS) as u8));
        rest &= ONE - 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(Line::IDENTITY.slope_decimal(), "1");
        let line = Line::new(ONE + ONE / 8, -(3 * i128::from(ONE) / 4)).expect("in range");
        assert_eq!(line.slope_decimal(), "1.125");
        assert_eq!(line.offset_decimal(), "-0.75");
        assert_eq!(Line::new(ONE + 1, 0).expect("in range").slope_decimal().len(), 62, "60 digits");
    }

    #[test]
    fn zero_has_no_sign_and_no_digits_behind_the_point() {
        assert_eq!(Line::IDENTITY.offset_decimal(), "0");
        assert_eq!(
            Line::new(ONE, -1).expect("in range").offset_decimal().len(),
            63,
            "sign, zero, point, 60 digits"
        );
    }

    #[test]
    fn through_two_points_of_one_time_or_that_step_back_there_is_no_line() {
        for (first, second) in
            [((5, 5), (5, 9)), ((5, 5), (4, 9)), ((5, 5), (9, 4)), ((5, 5), (15, 9)), ((5, 5), (15, 25))]
        {
            assert_eq!(Line::through(first, second), None, "{first:?}, {second:?}");
        }
        assert!(Line::through((5, 5), (15, 10)).is_some() && Line::through((5, 5), (15, 24)).is_some());
    }

    #[test]
    fn a_line_of_lifted_points_passes_them_where_they_lay() {
        for (lift, y) in [(0, 0), (1, -1), (700, -700), (5000, -700), (5000, 80)] {
            let at = |x: i128, y: i128| ((x + lift) as u64, (y + lift) as u64);
            let line = Line::lifted(at(5000, y), at(6000, y + 1001), lift).expect("in range");
            assert_eq!(line.exact(5000), y << BITS, "lifted by {lift}");
            assert_eq!(line.at(6000), clamp(y + 1001));
        }
    }

    #[test]
    fn a_line_reaches_a_target_at_the_first_stamp_that_is_not_before_it() {
        let offsets = [0, 1, -1, ONE.into(), i128::from(ONE) * -7 + 3, i128::from(ONE) * 20 - 5];
        for slope in [ONE / 2, ONE - 1, ONE, ONE + 1, ONE / 10 * 11, ONE * 2 - 1] {
            for line in offsets.map(|offset| Line::new(slope, offset).expect("in range")) {
                for target in 0..60 {
                    let expected = (0..200).find(|&stamp| line.exact(stamp) >= i128::from(target) << BITS);
                    assert_eq!(Some(line.reaches(target)), expected, "{line:?} at {target}");
                }
            }
        }
        let late = Line::new(ONE / 2, -OFFSET_LIMIT).expect("in range");
        assert_eq!(late.reaches(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_stamp_before_the_other_clocks_origin_stops_at_it() {
        let early = Line::new(ONE, -(i128::from(ONE) * 10)).expect("in range");
        assert_eq!(early.at(3), 0);
        let late = Line::new(ONE, i128::from(ONE) * 10).expect("in range");
        assert_eq!(late.at(u64::MAX), u64::MAX);
    }
}
