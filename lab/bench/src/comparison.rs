//! A recorded run beside the runs alone before and after it.

use crate::load::Run;
use crate::statistics::quantile;

/// The speed of a run to compare.
pub type Speed = fn(&Run) -> f64;

/// The speed over the whole run.
pub const WHOLE: Speed = |run| run.rate;
/// The speed in its quiet slices.
pub const QUIET: Speed = |run| run.quiet;

/// Three runs of a load, one behind the other: alone, recorded, alone.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    pub before: Run,
    pub with: Run,
    pub after: Run,
}

impl Turn {
    /// A round trip's time alone, seconds: the mean of before and after, so that a machine with steadily changing
    /// speed changes nothing.
    fn alone(&self, speed: Speed) -> f64 {
        (1.0 / speed(&self.before) + 1.0 / speed(&self.after)) / 2.0
    }

    /// A round trip's additional time, as a share.
    pub fn overhead(&self, speed: Speed) -> f64 {
        1.0 / speed(&self.with) / self.alone(speed) - 1.0
    }

    /// A round trip's additional time, ns.
    pub fn added_ns(&self, speed: Speed) -> f64 {
        (1.0 / speed(&self.with) - self.alone(speed)) * 1e9
    }
}

/// The day's scatter: half of all runs alone, compared like recorded runs with the runs alone before and after them,
/// differ from these by at most this share.
pub fn scatter(alone: &[Run], speed: Speed) -> Option<f64> {
    let turns = alone.windows(3).filter_map(|three| {
        let [before, with, after] = three else { return None };
        Some(Turn { before: *before, with: *with, after: *after }.overhead(speed).abs())
    });
    quantile(&turns.collect::<Vec<_>>(), 0.5)
}

#[cfg(test)]
mod tests {
    use super::{QUIET, Turn, WHOLE, scatter};
    use crate::load::Run;

    fn run(rate: f64, quiet: f64) -> Run {
        Run { rate, quiet, count: 1000.0 }
    }

    #[test]
    fn whole_runs_and_quiet_slices_are_compared_each_with_their_own() {
        let turn = Turn { before: run(1000.0, 2000.0), with: run(800.0, 1000.0), after: run(1000.0, 2000.0) };
        assert!((turn.overhead(WHOLE) - 0.25).abs() < 1e-9);
        assert!((turn.overhead(QUIET) - 1.0).abs() < 1e-9);
        assert!((turn.added_ns(WHOLE) - 250_000.0).abs() < 1e-3);
    }

    #[test]
    fn a_machine_that_slows_down_steadily_adds_nothing() {
        // Round trips with 1, 2 and 3 ms: nothing was recorded, the machine became slower.
        let [before, with, after] = [1000.0, 500.0, 1000.0 / 3.0].map(|rate| run(rate, rate));
        assert!(Turn { before, with, after }.overhead(WHOLE).abs() < 1e-9);
    }

    #[test]
    fn the_scatter_is_that_of_runs_alone_beside_their_neighbours() {
        let steady = [100.0; 9].map(|rate| run(rate, rate));
        assert_eq!(scatter(&steady, WHOLE), Some(0.0));
        let noisy: Vec<_> = (0..9).map(|at| run(if at % 2 == 0 { 100.0 } else { 80.0 }, 100.0)).collect();
        assert!(scatter(&noisy, WHOLE).unwrap() > 0.15);
        assert_eq!(scatter(&noisy, QUIET), Some(0.0));
        assert_eq!(scatter(&noisy[..2], WHOLE), None);
    }
}
