//! The two groups of calls that are compared.

use std::cmp::Ordering;

/// The same of the calls that were asked about, and of the usual ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PerGroup<T> {
    /// The value for the calls in question, or for the only path.
    pub asked: T,
    /// The value for the usual calls.
    pub usual: T,
}

impl<T> PerGroup<T> {
    /// That of one group.
    pub(crate) const fn of(&mut self, is_asked: bool) -> &mut T {
        if is_asked { &mut self.asked } else { &mut self.usual }
    }
}

impl PerGroup<f64> {
    /// By how much the calls that were asked about have more of it.
    pub fn difference(&self) -> f64 {
        self.asked - self.usual
    }

    /// The order in which the largest difference comes first.
    pub(crate) fn largest_first(&self, other: &Self) -> Ordering {
        other.difference().total_cmp(&self.difference())
    }
}
