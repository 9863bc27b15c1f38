//! Error bounds for converted stamps.

/// A converted stamp's largest distance from its true value. Smaller bounds sort first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorBound {
    /// At most this distance, ns, either way.
    Within(u64),
    /// No packet bounds the error: traffic went one way only.
    Unbounded,
}

impl ErrorBound {
    /// No error.
    pub const ZERO: Self = Self::Within(0);

    /// The bound if two errors may add up.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Within(a), Self::Within(b)) => Self::Within(a.saturating_add(b)),
            _ => Self::Unbounded,
        }
    }

    /// The bound in ns, if there is any.
    pub const fn ns(self) -> Option<u64> {
        match self {
            Self::Within(ns) => Some(ns),
            Self::Unbounded => None,
        }
    }

    /// The bound behind a line with this slope, `slope` / 2^60: rounded up.
    pub(crate) fn scaled(self, slope: u64) -> Self {
        match self {
            Self::Within(ns) => {
                let scaled = (u128::from(ns) * u128::from(slope)).div_ceil(1 << 60);
                Self::Within(u64::try_from(scaled).unwrap_or(u64::MAX))
            }
            Self::Unbounded => Self::Unbounded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_bounds_add_up_and_one_without_bound_leaves_none() {
        let within = ErrorBound::Within;
        for (a, b, sum) in [
            (within(3), within(4), Some(7)),
            (within(3), within(u64::MAX), Some(u64::MAX)),
            (ErrorBound::ZERO, within(9), Some(9)),
            (within(3), ErrorBound::Unbounded, None),
            (ErrorBound::Unbounded, within(3), None),
        ] {
            assert_eq!(a.plus(b).ns(), sum, "{a:?} and {b:?}");
        }
    }

    #[test]
    fn behind_a_line_a_bound_grows_with_its_slope_and_is_rounded_up() {
        let one = 1 << 60;
        for (ns, slope, expected) in [
            (10, one, 10),
            (10, one + 1, 11),
            (10, one / 2, 5),
            (11, one / 2, 6),
            (u64::MAX, 2 * one - 1, u64::MAX),
        ] {
            assert_eq!(ErrorBound::Within(ns).scaled(slope), ErrorBound::Within(expected), "{ns} by {slope}");
        }
        assert_eq!(ErrorBound::Unbounded.scaled(one), ErrorBound::Unbounded);
    }
}
