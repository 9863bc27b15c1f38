//! The host's clocks during the recording: jumps, suspends, stolen time.

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_event::Clocks;

use crate::{Problem, ProblemKind};

/// Below this drift between two readings, clocks are only being steered.
const JUMP_NS: u64 = 10_000_000;
/// Boottime moves ahead of monotonic time by the time suspended, and by nothing else.
const SUSPEND_NS: u64 = 1_000_000;

/// The problems of a host's clocks between `from` and `to`. `own` converts a stamp to the host's own clock, which may
/// run unevenly beside another host's. Stolen time as a segment kind (`has_stolen_segments`) makes no figure doubtful.
pub fn problems(
    readings: &[(Stamp<Local>, Clocks)],
    own: impl Fn(Stamp<Local>) -> Stamp<Local>,
    has_stolen_segments: bool,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let problem = |kind, from: &Stamp<Local>, to: &Stamp<Local>| {
        Problem::new(kind, from.on_reference_host(), to.on_reference_host())
    };
    for ((before, then), (after, now)) in readings.iter().zip(readings.iter().skip(1)) {
        if after.on_reference_host() <= from || before.on_reference_host() >= to {
            continue;
        }
        let passed = own(*after).since(own(*before));
        let realtime = i128::from(now.realtime_ns) - i128::from(then.realtime_ns);
        let jump = realtime - i128::from(passed);
        if jump.unsigned_abs() >= u128::from(JUMP_NS) {
            problems.push(problem(ProblemKind::ClockSet(jump), before, after));
        }
        let boottime = now.boottime_ns.saturating_sub(then.boottime_ns);
        let suspended = boottime.saturating_sub(passed);
        if suspended >= SUSPEND_NS {
            problems.push(problem(ProblemKind::Suspended(suspended), before, after));
        }
    }
    if !has_stolen_segments {
        problems.extend(steal(readings, from, to));
    }
    problems
}

/// The time stolen from a guest's CPUs, as a problem above 1% of the window. The readings around the window bound it:
/// at most this time lies within.
fn steal(
    readings: &[(Stamp<Local>, Clocks)],
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Option<Problem> {
    let first = readings.iter().rev().find(|(at, _)| at.on_reference_host() <= from).or(readings.first())?;
    let last = readings.iter().find(|(at, _)| at.on_reference_host() >= to).or(readings.last())?;
    let stolen = last.1.steal_ns.saturating_sub(first.1.steal_ns);
    let window = to.since(from);
    (window > 0 && stolen > window / 100).then(|| Problem::new(ProblemKind::Stolen(stolen), from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The problems in readings once a second: the gains of boottime, realtime and steal besides that second, ms.
    fn problems_of(gains: &[(u64, i64, u64)], from: u64, to: u64) -> Vec<ProblemKind> {
        problems_with(gains, false, from, to)
    }

    /// The same, where stolen time may be a segment kind of its own.
    fn problems_with(gains: &[(u64, i64, u64)], segments: bool, from: u64, to: u64) -> Vec<ProblemKind> {
        let start = Clocks { boottime_ns: 5000 * MS, realtime_ns: 1 << 60, steal_ns: 77 };
        let mut readings = vec![(Stamp::from_ns(0), start)];
        for &(boottime, realtime, steal) in gains {
            let (at, last) = readings[readings.len() - 1];
            let clocks = Clocks {
                boottime_ns: last.boottime_ns + (1000 + boottime) * MS,
                realtime_ns: last.realtime_ns.wrapping_add_signed((1000 + realtime) * MS as i64),
                steal_ns: last.steal_ns + steal * MS,
            };
            readings.push((at.plus(1000 * MS), clocks));
        }
        let at = |ms| Stamp::from_ns(ms * MS);
        problems(&readings, |own| own, segments, at(from), at(to))
            .into_iter()
            .map(|problem| problem.kind)
            .collect()
    }

    #[test]
    fn steady_clocks_are_no_problem() {
        assert_eq!(problems_of(&[(0, 0, 0), (0, 3, 5), (0, -9, 0)], 0, 3000), []);
    }

    #[test]
    fn a_jump_a_suspend_and_stolen_time_are_problems() {
        for (gain, expected) in [
            ((0, 3_600_000, 0), ProblemKind::ClockSet(3_600_000 * i128::from(MS))),
            ((0, -20, 0), ProblemKind::ClockSet(-20 * i128::from(MS))),
            ((2000, 2000, 0), ProblemKind::ClockSet(2000 * i128::from(MS))),
            ((0, 0, 31), ProblemKind::Stolen(31 * MS)),
        ] {
            let found = problems_of(&[(0, 0, 0), gain, (0, 0, 0)], 0, 3000);
            assert_eq!(found[0], expected);
            assert_eq!(problems_of(&[(0, 0, 0), gain, (0, 0, 0)], 100, 900), [], "elsewhere");
        }
        let with = |has_stolen_segments| problems_with(&[(0, 0, 31)], has_stolen_segments, 0, 1000).len();
        assert_eq!([false, true].map(with), [1, 0]);
        let suspend = problems_of(&[(2000, 2000, 0)], 0, 1000);
        assert_eq!(suspend[1], ProblemKind::Suspended(2000 * MS));
    }

    #[test]
    fn one_reading_or_none_is_no_problem() {
        assert_eq!(problems_of(&[], 0, 1000), []);
        assert_eq!(problems(&[], |own| own, false, Stamp::from_ns(0), Stamp::from_ns(9)), []);
    }

    #[test]
    fn a_clock_that_runs_faster_than_the_first_hosts_was_not_set_and_its_host_not_suspended() {
        // 100 ppm faster: within 1000 s of the first host's clock, 1000.1 s pass.
        let readings = [0_u64, 1_000_000_000_000].map(|at| {
            let passed = at + at / 10_000;
            let clocks = Clocks { boottime_ns: 7 + passed, realtime_ns: (1 << 60) + passed, steal_ns: 0 };
            (Stamp::from_ns(at), clocks)
        });
        let end = Stamp::from_ns(1_000_000_000_000);
        let own = |at: Stamp<Local>| at.plus(at.ns() / 10_000);
        assert_eq!(problems(&readings, own, false, Stamp::MIN, end), []);
        assert_eq!(
            problems(&readings, |at| at, false, Stamp::MIN, end).len(),
            2,
            "by the first host's clock"
        );
    }
}
