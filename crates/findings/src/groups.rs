//! The two groups of calls to compare.

use std::cmp::Ordering;

/// A value for the selected calls, and for the usual calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PerGroup<T> {
    /// The value for the selected calls, or for the only path.
    pub asked: T,
    /// The value for the usual calls.
    pub usual: T,
}

impl<T> PerGroup<T> {
    /// A group's value.
    pub(crate) const fn of(&mut self, is_asked: bool) -> &mut T {
        if is_asked { &mut self.asked } else { &mut self.usual }
    }
}

impl PerGroup<f64> {
    /// The selected calls' value minus the usual calls'.
    pub fn difference(&self) -> f64 {
        self.asked - self.usual
    }

    /// Orders by difference, largest first.
    pub(crate) fn largest_first(&self, other: &Self) -> Ordering {
        other.difference().total_cmp(&self.difference())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_difference_comes_first_not_the_largest_time() {
        let mut all =
            [(9.0, 8.0), (3.0, 0.5), (0.0, 4.0), (5.0, 4.5)].map(|(asked, usual)| PerGroup { asked, usual });
        all.sort_by(PerGroup::largest_first);
        assert_eq!(all.map(|one| one.difference()), [2.5, 1.0, 0.5, -4.0]);
        let mut one = PerGroup { asked: 1, usual: 2 };
        *one.of(true) += 10;
        *one.of(false) += 20;
        assert_eq!(one, PerGroup { asked: 11, usual: 22 });
    }
}
