//! Exact straight lines from one clock to another, in 128-bit integers.
//!
//! A stamp of 10^18 ns needs 60 bits, and a double has 53: in floating point a conversion would err by
//! hundreds of ns and run backwards (Giraldeau 2015, section 5.4.6). Here a slope is m / 2^60 with an
//! integer m, and an offset counts 2^-60 ns, so that slope × stamp + offset is one product of 64-bit
//! numbers, exact in 128 bits, then rounded once to the nearest nanosecond. Rounding keeps order, so a
//! line never runs backwards.

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

    /// The line of slope `slope` / 2^60, between 1/2 and 2, and `offset` / 2^60 ns; `None` out of range.
    pub fn new(slope: u64, offset: i128) -> Option<Self> {
        let fits = (ONE / 2..ONE * 2).contains(&slope) && offset.abs() <= OFFSET_LIMIT;
        fits.then_some(Self { slope, offset })
    }

    /// The line that meets `first` exactly and `second`, which comes later, from below: less than
    /// 2^-60 × the distance lies between, so that a line that begins at `second` goes on without a
    /// step back.
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

    /// The line of this slope that is `value` / 2^60 at `x`.
    fn anchored(slope: u64, x: u64, value: i128) -> Option<Self> {
        Self::new(slope, value - product(slope, x))
    }

    /// The stamp on the other clock, rounded to the nearest ns; at the ends of `u64` it stops.
    #[inline]
    pub fn at(&self, stamp: u64) -> u64 {
        clamp((self.exact(stamp) + HALF) >> BITS)
    }

    /// The unrounded value in 2^-60 ns.
    #[inline]
    pub(crate) fn exact(&self, stamp: u64) -> i128 {
        product(self.slope, stamp) + self.offset
    }

    /// m and k of the slope m / 2^k.
    pub const fn slope(&self) -> (u64, u32) {
        (self.slope, BITS)
    }

    /// n and k of the offset n / 2^k ns.
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

    /// First this line, then `next`. Where slopes are rounded to fit, the new line still meets the two
    /// to 2^-58 ns at `near`, and lies below them by less than 2^-59 × the distance behind it.
    pub fn then(&self, next: &Self, near: u64) -> Option<Self> {
        let slope = (u128::from(self.slope) * u128::from(next.slope)) >> BITS;
        let between = self.exact(near);
        let whole = between >> BITS;
        let part = between - (whole << BITS);
        // The whole ns fit a product of 128 bits only where they could be a stamp.
        let whole = u64::try_from(whole).ok()?;
        let value = next.exact(whole) + ((i128::from(next.slope) * part) >> BITS);
        Self::anchored(u64::try_from(slope).ok()?, near, value)
    }

    /// The way back, exact to 2^-59 ns at `near`, a stamp of the other clock.
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
    // Below 2^61 × 2^64. Unsigned, so that it is one instruction.
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
    while rest > 0 {
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
    fn a_stamp_before_the_other_clocks_origin_stops_at_it() {
        let early = Line::new(ONE, -(i128::from(ONE) * 10)).expect("in range");
        assert_eq!(early.at(3), 0);
        let late = Line::new(ONE, i128::from(ONE) * 10).expect("in range");
        assert_eq!(late.at(u64::MAX), u64::MAX);
    }
}
