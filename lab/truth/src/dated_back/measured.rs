//! The time by which each switch is dated back, from readings of the run queues' clocks.
//!
//! A run queue's clock and CLOCK_MONOTONIC differ by a constant, except for the latter's speed correction: 0.4 ppm here. The
//! exact constant is not needed: a thread's time on a CPU has a switch at both ends. So the smallest difference seen on the
//! CPU near the switch serves.

use std::collections::BTreeMap;

use super::run_queue::Switch;
use crate::document::Dated;

/// The time, ns, in which the two clocks may part by a nanosecond: 100 ppm.
const MAX_DRIFT_NS: i64 = 10_000;

/// The switches with the time by which each is dated back, in order of their stamps.
pub(super) fn dated(read: &[Switch]) -> Vec<Dated> {
    let mut by_cpu: BTreeMap<u32, Vec<&Switch>> = BTreeMap::new();
    for switch in read {
        by_cpu.entry(switch.cpu).or_default().push(switch);
    }
    let mut found = Vec::new();
    for switches in by_cpu.values_mut() {
        switches.sort_by_key(|switch| switch.stamp);
        let offsets = offsets(switches);
        for (index, switch) in switches.iter().enumerate() {
            let dated = Dated {
                at_ns: switch.stamp,
                back_ns: switch.stamp - switch.clock - offsets[index],
                prev: switch.prev,
                is_preempted: switch.is_preempted,
                next: switch.next,
                uncounted_ns: 0,
            };
            found.push((dated, switch.is_uncounted));
        }
    }
    found.sort_by_key(|(dated, _)| dated.at_ns);
    // A thread runs again from its next switch onto any CPU.
    let mut back_at: BTreeMap<u32, i64> = BTreeMap::new();
    for (dated, is_uncounted) in found.iter_mut().rev() {
        if *is_uncounted {
            dated.uncounted_ns = back_at.get(&dated.prev).map_or(0, |back| back - dated.at_ns);
        }
        back_at.insert(dated.next, dated.at_ns);
    }
    found.into_iter().map(|(dated, _)| dated).collect()
}

/// CLOCK_MONOTONIC less the run queue's clock, ns, at each switch on a CPU: the smallest difference at any switch, plus the
/// possible drift between the two.
fn offsets(switches: &[&Switch]) -> Vec<i64> {
    let mut offsets = vec![i64::MAX; switches.len()];
    let mut lower = |order: &mut dyn Iterator<Item = usize>| {
        let mut smallest: Option<(i64, i64)> = None;
        for index in order {
            let Switch { stamp, clock, .. } = *switches[index];
            let here = smallest.map_or(i64::MAX, |(offset, at)| offset + (stamp - at).abs() / MAX_DRIFT_NS);
            if stamp - clock <= here {
                smallest = Some((stamp - clock, stamp));
            }
            offsets[index] = offsets[index].min(here).min(stamp - clock);
        }
    };
    lower(&mut (0..switches.len()));
    lower(&mut (0..switches.len()).rev());
    offsets
}
#[cfg(test)]
mod tests {
    use super::*;

    /// The ns by which switches are dated back; each switch is given as CPU, stamp and clock.
    fn back(switches: &[(u32, i64, i64)]) -> Vec<i64> {
        let read = switches.iter().map(|&(cpu, stamp, clock)| Switch {
            stamp,
            clock,
            cpu,
            prev: 7,
            next: 9,
            is_preempted: true,
            is_uncounted: false,
        });
        let found = dated(&read.collect::<Vec<_>>());
        assert!(found.is_sorted_by_key(|one| one.at_ns), "{found:?}");
        found.iter().map(|one| one.back_ns).collect()
    }

    #[test]
    fn a_switch_is_dated_back_by_what_its_clock_lags_behind_the_one_that_lags_least() {
        assert_eq!(back(&[(0, 1_000, -8_000), (0, 2_000, -15_000), (0, 3_000, -6_500)]), [0, 8_000, 500]);
        assert_eq!(back(&[(0, 1_000, 2_000), (0, 2_000, 2_500)]), [0, 500]);
        assert_eq!(back(&[]), [0; 0]);
    }

    #[test]
    fn each_run_queue_has_an_offset_of_its_own() {
        assert_eq!(
            back(&[(0, 1_000, -8_000), (1, 1_500, 500), (0, 2_000, -15_000), (1, 2_500, -2_500)]),
            [0, 0, 8_000, 4_000]
        );
    }

    #[test]
    fn clocks_may_part_by_100_ppm_in_either_direction_and_no_faster() {
        // Within a second, by 50 us: no switch is dated back.
        let second = 1_000_000_000;
        for drift in [50_000, -50_000] {
            assert_eq!(back(&[(0, second, 0), (0, 2 * second, second + drift)]), [0, 0], "{drift}");
        }
        // Within a second, by 150 us, 50 us more than the clocks may part.
        assert_eq!(back(&[(0, second, 0), (0, 2 * second, second - 150_000)]), [0, 50_000]);
        assert_eq!(back(&[(0, second, 0), (0, 2 * second, second + 150_000)]), [50_000, 0]);
        // The drift over many switches is that over the whole time.
        let mut many: Vec<(u32, i64, i64)> =
            (0..1000).map(|ms| (0, ms * 10_000, ms * 10_000 - 9_000)).collect();
        many[0].2 = 0;
        assert_eq!(back(&many)[999], 9_000 - 999);
    }

    #[test]
    fn a_thread_that_was_about_to_sleep_waits_uncounted_until_it_runs_on_any_cpu() {
        let switch = |stamp: i64, cpu, prev, next, is_uncounted| Switch {
            stamp,
            clock: stamp,
            cpu,
            prev,
            next,
            is_preempted: true,
            is_uncounted,
        };
        let read = [
            switch(1_000, 0, 7, 9, true),
            switch(2_000, 0, 9, 8, false),
            switch(2_500, 1, 5, 7, false),
            switch(3_000, 0, 8, 7, false),
            switch(4_000, 1, 7, 5, true),
        ];
        let found: Vec<i64> = dated(&read).iter().map(|one| one.uncounted_ns).collect();
        assert_eq!(found, [1_500, 0, 0, 0, 0], "of the last one the end is not known");
    }

    #[test]
    fn the_threads_of_a_switch_and_its_kind_are_kept() {
        let (is_preempted, is_uncounted) = (false, false);
        let read =
            Switch { stamp: 5_000, clock: 1_000, cpu: 3, prev: 7, next: 9, is_preempted, is_uncounted };
        let expected = Dated { at_ns: 5_000, back_ns: 0, prev: 7, is_preempted, next: 9, uncounted_ns: 0 };
        assert_eq!(dated(&[read]), [expected]);
        assert!(dated(&[Switch { is_preempted: true, ..read }])[0].is_preempted);
    }
}
