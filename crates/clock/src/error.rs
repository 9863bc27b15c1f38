//! Error bounds of converted stamps.

/// The largest distance of a converted stamp from its true value. Smaller bounds sort first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorBound {
    /// At most this number of ns, either way.
    Within(u64),
    /// No packet bounds it: traffic went one way only.
    Unbounded,
}

impl ErrorBound {
    /// No error at all.
    pub const ZERO: Self = Self::Within(0);

    /// The bound where two errors may add up.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Within(a), Self::Within(b)) => Self::Within(a.saturating_add(b)),
            _ => Self::Unbounded,
        }
    }

    /// The bound in ns, where there is one.
    pub const fn ns(self) -> Option<u64> {
        match self {
            Self::Within(ns) => Some(ns),
            Self::Unbounded => None,
        }
    }

    /// The bound behind a line of this slope, `slope` / 2^60: rounded up.
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
