//! From realtime to stamps and back, also where a clock was set.

use super::*;

/// The clock with these readings: ns on the recording's clock, and realtime.
fn clock(readings: &[(u64, u64)]) -> WallClock {
    let clocks = |realtime_ns| Clocks { boottime_ns: 0, realtime_ns, steal_ns: 0 };
    let readings: Vec<_> =
        readings.iter().map(|&(at, realtime)| (Stamp::from_ns(at), clocks(realtime))).collect();
    WallClock::from_readings(&readings).expect("readings")
}

fn check(clock: &WallClock, expected: &[(u64, u64)]) {
    for &(wall, at) in expected {
        assert_eq!(clock.stamp(Stamp::from_ns(wall)), Stamp::from_ns(at), "at {wall}");
    }
}

#[test]
fn time_passes_evenly_between_two_readings_also_where_one_clock_is_steered() {
    let clock = clock(&[(1000, 500_000), (2000, 501_100), (3000, 502_100)]);
    check(&clock, &[(500_000, 1000), (500_550, 1500), (501_100, 2000), (501_101, 2001), (502_100, 3000)]);
}

#[test]
fn time_outside_of_the_readings_passes_as_on_the_recordings_clock() {
    let clock = clock(&[(1000, 500_000), (2000, 501_100)]);
    check(&clock, &[(499_990, 990), (501_110, 2010), (498_000, 0)]);
}

#[test]
fn a_clock_that_was_set_forward_is_read_before_and_behind_that() {
    let hour = 3_600_000_000_000;
    let clock = clock(&[(1000, 500_000), (2000, 501_000 + hour), (3000, 502_000 + hour)]);
    check(&clock, &[(500_600, 1600), (501_500 + hour, 2500)]);
}

#[test]
fn a_clock_that_was_set_back_has_the_later_of_two_times_only_where_a_reading_shows_it() {
    let clock = clock(&[(1_000, 500_000), (20_000_000, 400_000), (20_001_000, 401_000)]);
    check(&clock, &[(400_500, 20_000_500), (500_100, 1_100)]);
}

#[test]
fn a_stamp_has_the_realtime_that_leads_back_to_it() {
    let hour = 3_600_000_000_000;
    let steered = [(1000, 500_000), (2000, 501_100), (3000, 502_050)];
    let set = [(1000, 500_000), (2000, 501_000 + hour), (3000, 502_000 + hour)];
    for readings in [&steered[..], &set, &[(5, 700_000)]] {
        let clock = clock(readings);
        for at in (0..4500).step_by(7) {
            let wall = clock.wall(Stamp::from_ns(at));
            let back = clock.stamp(wall);
            assert!(back.ns().abs_diff(at) <= 1, "{at} is {} and then {}", wall.ns(), back.ns());
        }
    }
    let clock = clock(&steered);
    let wall = |at| clock.wall(Stamp::from_ns(at)).ns();
    assert_eq!(
        [0, 1000, 1500, 2000, 3000, 3010].map(wall),
        [499_000, 500_000, 500_550, 501_100, 502_050, 502_060]
    );
}

#[test]
fn the_realtime_at_a_stamp_is_off_by_what_the_clocks_ran_apart_between_its_readings_or_by_what_a_kernel_steers()
 {
    let second = 1_000_000_000;
    let clock =
        clock(&[(second, 5 * second), (2 * second, 6 * second + 700), (3 * second, 6 * second - 100)]);
    let error = |at| clock.error_ns(Stamp::from_ns(at));
    let read = READING_NS;
    assert_eq!([0, second, 2 * second - 1].map(error), [500_000 + read, 700 + read, 700 + read]);
    // Realtime was set back there.
    assert_eq!(error(2 * second), second + 800 + read);
    assert_eq!([3 * second, 5 * second].map(error), [read, 1_000_000 + read]);
}

#[test]
fn no_reading_is_no_clock() {
    assert_eq!(WallClock::from_readings(&[]), None);
}

#[test]
fn a_clock_that_ran_apart_by_ten_milliseconds_was_set_and_by_less_was_steered() {
    const MS: u64 = 1_000_000;
    for (apart, at) in [(10 * MS, 500 * MS), (10 * MS - 2, 495 * MS)] {
        let clock = clock(&[(0, 0), (1_000 * MS, 1_000 * MS + apart)]);
        let stamp = clock.stamp(Stamp::from_ns(500 * MS)).ns();
        assert!(stamp.abs_diff(at) < MS, "{apart}: {stamp}");
        let wall = clock.wall(Stamp::from_ns(at)).ns();
        assert!(wall.abs_diff(500 * MS) < MS, "{apart}: {wall}");
    }
}

#[test]
fn a_clock_that_was_set_back_by_as_much_as_had_passed_has_the_later_of_two_stamps() {
    let clock = clock(&[(1_000, 500), (2_000, 500)]);
    check(&clock, &[(499, 999), (500, 2_000), (501, 2_001)]);
    let wall = |at| clock.wall(Stamp::from_ns(at)).ns();
    assert_eq!([999, 1_000, 1_500, 2_000].map(wall), [499, 500, 1_000, 500]);
}

#[test]
fn a_clock_that_was_never_read_is_that_of_the_metadata_and_there_may_be_none() {
    let recorded = |offset| Recorded { realtime_offset_ns: offset, ..crate::testing::read(&[]) };
    let wall = |offset| Some(recorded(offset).wall_clock()?.wall(Stamp::from_ns(70)).ns());
    assert_eq!([None, Some(-1), Some(0), Some(5_000)].map(wall), [None, None, Some(70), Some(5_070)]);
    let read = crate::testing::trace("50 c0 idle clocks 900\n99 c0 idle stopped", &[]);
    let both = Recorded { realtime_offset_ns: Some(5_000), ..read };
    let wall = |clock: Option<WallClock>| clock.map(|clock| clock.wall(Stamp::from_ns(70)).ns());
    assert_eq!(wall(both.wall_clock()), Some(920), "a reading counts first");
    assert_eq!(wall(both.wall_clock_of(HostIndex(0))), Some(920));
    assert_eq!(wall(both.wall_clock_of(HostIndex(1))), None, "a machine that was not recorded");
}

#[test]
fn the_clock_of_another_machine_follows_that_machines_own_clock_through_its_bends() {
    use wakepath_clock::{ErrorBound, Line, Piece, Transform};
    use wakepath_event::{ClockId, Description, EventKind, HostIdentity, Mark};
    // From 12.8 us on, this machine's clock has 2 ns where the first machine's has 3.
    let bend = 12_800;
    let slower = Line::through((bend, bend), (bend + 20_000, bend + 30_000)).expect("a line");
    let piece = |from, to, line| Piece { from, to, line, error: ErrorBound::ZERO };
    let pieces = vec![piece(0, bend, Line::IDENTITY), piece(bend, u64::MAX, slower)];
    let description = |realtime_offset_ns| Description {
        path: "b.rec".into(),
        host: HostIdentity::default(),
        tracer: None,
        clock: ClockId::Monotonic,
        realtime_offset_ns,
        extent: None,
        size: 0,
        cgroup: None,
        format: None,
    };
    let events = [0, 25_600].map(|at| crate::testing::event(at, 0, 7, EventKind::Current));
    let mut recorded = Recorded {
        clocks: vec![Transform::identity(), Transform::new(pieces).expect("they meet")],
        descriptions: vec![description(Some(1_000_000)), description(None)],
        ..crate::testing::read(&events)
    };
    let other = HostIndex(1);
    let clock = recorded.wall_clock_of(other).expect("by its description");
    for at in (0..=25_600).step_by(100) {
        let own = if at < bend { at } else { bend + (at - bend) * 2 / 3 };
        let wall = clock.wall(Stamp::from_ns(at)).ns();
        assert!(wall.abs_diff(1_000_000 + own) <= 1, "{at}: {wall}");
    }
    assert_eq!(recorded.wall_clock_of(HostIndex(2)), None, "neither readings nor metadata");
    // Its own reading counts first.
    let read = EventKind::Clocks(Clocks { boottime_ns: 0, realtime_ns: 7_000, steal_ns: 0 });
    recorded.survey.observe_on(other, &crate::testing::event(100, 0, 0, read));
    recorded.survey.observe_on(other, &crate::testing::event(101, 0, 0, EventKind::Mark(Mark::Started)));
    let clock = recorded.wall_clock_of(other).expect("by its reading");
    assert_eq!(clock.wall(Stamp::from_ns(150)).ns(), 7_050);
}
