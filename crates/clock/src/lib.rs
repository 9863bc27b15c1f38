//! Stamps that know their clock.
//!
//! Every host has its own clocks, and two clocks never agree. A stamp therefore carries its clock in its
//! type: comparing or subtracting stamps on different clocks does not compile, and the only way between
//! clocks is a conversion, which returns its error bound.
//!
//! All stamps and durations are in nanoseconds.
//!
//! A [`Solver`] finds the conversion from packets that two hosts exchanged; a [`Transform`] is the
//! conversion, in exact [`Line`]s, piece by piece; transforms are composed and inverted, and carry their
//! errors along.

mod corridor;
mod error;
mod fit;
mod hull;
mod limits;
mod line;
mod plan;
mod solver;
mod transform;

pub use error::ErrorBound;
pub use hull::Exchange;
pub use limits::Limits;
pub use line::Line;
pub use solver::{Quality, Solution, Solver};
pub use transform::{Cursor, Piece, Transform};

use std::fmt;
use std::marker::PhantomData;

/// A host's own `CLOCK_MONOTONIC`, as in the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Local {}

/// The other host's monotonic clock, in a pair of hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {}

/// A host's `CLOCK_REALTIME`: ns since 1970, UTC, as set by its administrator or time server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wall {}

/// The clock in which an analysis reports: the reference host's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference {}

/// A point in time on clock `C`, in nanoseconds since its own origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp<C> {
    ns: u64,
    clock: PhantomData<C>,
}

impl<C> Stamp<C> {
    /// The earliest stamp.
    pub const MIN: Self = Self::from_ns(0);
    /// The latest stamp.
    pub const MAX: Self = Self::from_ns(u64::MAX);

    /// A stamp `ns` nanoseconds after the clock's origin.
    pub const fn from_ns(ns: u64) -> Self {
        Self { ns, clock: PhantomData }
    }

    /// Nanoseconds since the clock's origin.
    pub const fn ns(self) -> u64 {
        self.ns
    }

    /// Nanoseconds from `earlier` to this stamp; 0 if `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> u64 {
        self.ns.saturating_sub(earlier.ns)
    }

    /// This stamp moved later by `ns`, at most to [`Stamp::MAX`].
    pub const fn plus(self, ns: u64) -> Self {
        Self::from_ns(self.ns.saturating_add(ns))
    }

    /// This stamp moved earlier by `ns`, at most to [`Stamp::MIN`].
    pub const fn minus(self, ns: u64) -> Self {
        Self::from_ns(self.ns.saturating_sub(ns))
    }
}

impl Stamp<Local> {
    /// Reads a stamp from the reference host itself: its clock *is* the reference, error 0.
    pub const fn on_reference_host(self) -> Stamp<Reference> {
        Stamp::from_ns(self.ns)
    }
}

impl<C> Default for Stamp<C> {
    fn default() -> Self {
        Self::MIN
    }
}
impl<C> fmt::Debug for Stamp<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_stamp_is_never_before_an_earlier_one() {
        let early = Stamp::<Local>::from_ns(5);
        let late = early.plus(7);
        assert!(early < late);
        assert_eq!(late.since(early), 7);
        assert_eq!(early.since(late), 0, "a duration is never negative");
    }

    #[test]
    fn the_reference_hosts_own_stamps_are_those_of_the_reference() {
        let stamp = Stamp::<Local>::from_ns(1234);
        assert_eq!((stamp.on_reference_host().ns(), format!("{stamp:?}")), (1234, "1234 ns".to_owned()));
    }

    #[test]
    fn stamps_saturate_instead_of_wrapping() {
        assert_eq!(Stamp::<Local>::MAX.plus(1), Stamp::MAX);
        assert_eq!(Stamp::<Local>::MIN.minus(1), Stamp::MIN);
    }
}
