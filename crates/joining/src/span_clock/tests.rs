//! The offset of the clock behind a process's spans.

use super::*;
use crate::testing::made;

const MS: u64 = 1_000_000;

/// A thread with work for `count` spans, each from 1 ms after its beginning to 1 ms before its end; the spans are stamped by a clock that is
/// `ahead` ms ahead and gains `drift` ms in each span.
fn clocks(ahead: i64, drift: i64, count: u64) -> Vec<SpanClock> {
    clocks_of(count, |nth| ahead + drift * nth as i64)
}

/// The same for a clock whose offset in each span is `ahead` ms. A span begins each 20 ms from 10 ms on, and lasts 10 ms.
fn clocks_of(count: u64, ahead: impl Fn(u64) -> i64) -> Vec<SpanClock> {
    let mut host = String::from(
        "host web3 realtime=1000000000\nthread a tid=10\n0 c0 idle started\n0 c0 idle switch a\n",
    );
    let mut spans = String::from("service s\n");
    for (nth, digit) in (0..count).zip("123456789abcdef".chars()) {
        let from = (10 + 20 * nth) * MS;
        for at in [from + MS, from + 9 * MS] {
            host += &format!("{at} c0 a context {digit}/{digit}\n{at} c0 a waking a\n");
        }
        host += &format!("{0} c0 a context none\n{0} c0 a waking a\n", from + 9 * MS + 1);
        let wall = |at: u64| (1_000 * MS + at).wrapping_add_signed(ahead(nth) * MS as i64);
        spans += &format!("{digit}/{digit} {}..{}\n", wall(from), wall(from + 10 * MS));
    }
    let end = (20 + 20 * count) * MS;
    host += &format!("{end} c0 a switch idle blocked\n{end} c0 idle stopped\n");
    made(&host, &spans).joined().contexts.clocks
}

#[test]
fn a_clock_that_is_ahead_or_behind_is_known_to_the_millisecond_that_threads_leave() {
    for (ahead, drift, early, late, is_off) in [
        (0, 0, 0, 0, false),
        (5, 0, 10, 0, true),
        (-5, 0, 0, 10, true),
        (1, 0, 0, 0, false),
        (0, 1, 8, 0, true),
    ] {
        let clocks = clocks(ahead, drift, 10);
        let [clock] = clocks.as_slice() else { panic!("one process: {clocks:?}") };
        assert_eq!((clock.process, clock.service, clock.spans), (Tid(10), ServiceIndex(0), 10));
        assert_eq!(clock.comm, Some(Comm::new(b"a")));
        assert_eq!((clock.early, clock.late), (early, late), "{ahead} {drift}: {clock:?}");
        assert_eq!(clock.is_off(), is_off, "{ahead} {drift}: {clock:?}");
        for (offset, nth) in clock.offsets.iter().zip([0, 4, 9]) {
            let truth = (ahead + drift * nth) * MS as i64;
            let most = offset.most_ns.expect("both bounds");
            assert!(offset.least_ns <= truth + MS as i64 && truth - MS as i64 <= most, "{offset:?} {truth}");
            assert!(most - offset.least_ns < 6 * MS as i64, "{offset:?}");
        }
        // It is known from the first span's first moment to the last span's last.
        let moments: Vec<_> = clock.offsets.iter().map(|offset| offset.at.ns()).collect();
        assert_eq!(moments, [11 * MS, 105 * MS, 199 * MS]);
    }
}

#[test]
fn a_clock_is_said_to_be_behind_with_eight_spans_or_more_and_ahead_with_any() {
    for (ahead, count, expected) in [(5, 1, true), (-5, 7, false), (-5, 8, true)] {
        assert_eq!(clocks(ahead, 0, count)[0].is_off(), expected, "{ahead} {count}");
    }
}

#[test]
fn a_clock_is_off_by_more_than_a_millisecond() {
    let clock = |least_ns, most_ns| SpanClock {
        process: Tid(1),
        comm: None,
        service: ServiceIndex(0),
        spans: 8,
        early: 0,
        late: 0,
        awake: 0,
        asleep: 0,
        offsets: vec![
            SpanOffset { at: Stamp::MIN, least_ns: 0, most_ns: None },
            SpanOffset { at: Stamp::MIN, least_ns, most_ns },
        ],
    };
    let ms = MS as i64;
    for (least, most, expected) in [
        (ms, None, false),
        (ms + 1, None, true),
        (-5 * ms, Some(-ms), false),
        (-5 * ms, Some(-ms - 1), true),
        (-5 * ms, Some(5 * ms), false),
    ] {
        assert_eq!(clock(least, most).is_off(), expected, "{least} {most:?}");
    }
    for (awake, asleep, expected) in [(0, 7, false), (0, 8, true), (7, 8, true), (8, 8, false), (8, 0, false)]
    {
        let clock = SpanClock { awake, asleep, ..clock(-5 * ms, Some(-2 * ms)) };
        assert_eq!(clock.is_off(), expected, "{awake} {asleep}");
    }
    assert_eq!(distance(Stamp::from_ns(7), Stamp::from_ns(5)), -2);
    assert_eq!(distance(Stamp::from_ns(0), Stamp::from_ns(u64::MAX)), i64::MAX);
}

/// Ten spans by a pool's thread, which begins each when it is woken, is first seen to work for it 3 ms later, and keeps its context for
/// `keeps` ms behind its end. The spans' clock is `behind` ms behind, and name the thread if they are `noted`.
fn pool_clock(keeps: u64, behind: u64, noted: bool) -> SpanClock {
    let mut host = String::from(
        "host web3 realtime=1000000000\nthread loop tid=10\nthread pool tid=11 tgid=10\n0 c0 idle started\n0 c0 idle switch loop\n0 c1 idle started\n",
    );
    let mut spans = String::from("service s\n");
    for (nth, digit) in (0..10).zip("123456789a".chars()) {
        let from = (10 + 20 * nth) * MS;
        let end = from + 5 * MS;
        host += &format!("{from} c0 loop waking pool\n{from} c1 idle switch pool\n");
        for at in [from + 3 * MS, end + keeps * MS - 1] {
            host += &format!("{at} c1 pool context {digit}/{digit}\n{at} c1 pool waking loop\n");
        }
        let left = end + keeps * MS;
        host += &format!(
            "{left} c1 pool context none\n{left} c1 pool waking loop\n{left} c1 pool switch idle blocked\n"
        );
        let wall = |at: u64| 1_000 * MS + at - behind * MS;
        let tid = if noted { " tid=11" } else { "" };
        spans += &format!("{digit}/{digit} {}..{}{tid}\n", wall(from), wall(end));
    }
    host += "230000000 c0 loop switch idle blocked\n230000000 c0 idle stopped\n230000000 c1 idle stopped\n";
    let clocks = made(&host, &spans).joined().contexts.clocks;
    let [clock] = clocks.as_slice() else { panic!("one process: {clocks:?}") };
    clock.clone()
}

#[test]
fn a_pools_threads_that_keep_the_context_of_ended_spans_do_not_make_their_own_hosts_clock_behind() {
    for (keeps, behind, noted, is_off) in [
        // Each looks like a clock behind its host's: its threads work for spans 2 ms after their ends at least.
        (2, 0, true, false),
        (0, 5, true, true),
        (2, 5, true, true),
        // Without their threads, the contexts alone decide.
        (2, 0, false, true),
        (0, 5, false, true),
    ] {
        let clock = pool_clock(keeps, behind, noted);
        let looks_behind = |offset: &SpanOffset| offset.most_ns.is_some_and(|most| most < -MAX_OFF_NS);
        assert!(clock.offsets.iter().any(looks_behind), "{keeps} {behind} {noted}: {clock:?}");
        let expected = match (noted, behind) {
            (false, _) => (0, 0),
            (true, 0) => (10, 0),
            (true, _) => (0, 10),
        };
        assert_eq!((clock.awake, clock.asleep), expected, "{keeps} {behind} {noted}");
        assert_eq!(clock.is_off(), is_off, "{keeps} {behind} {noted}");
    }
}

#[test]
fn where_threads_contradict_each_other_the_largest_certain_offset_ahead_is_left() {
    // No clock is 5 ms ahead in each second span and 5 ms behind in the others.
    let clocks = clocks_of(10, |nth| match nth {
        4 => 7,
        nth if nth % 2 == 0 => 5,
        _ => -5,
    });
    let [clock] = clocks.as_slice() else { panic!("one process: {clocks:?}") };
    assert_eq!((clock.spans, clock.early, clock.late), (10, 5, 5));
    let [offset] = clock.offsets.as_slice() else { panic!("one offset: {clock:?}") };
    // The fifth span is seen 1 ms after its beginning, 6 ms before its own time.
    assert_eq!((offset.at.ns(), offset.most_ns), (91 * MS, None));
    let (least, ms) = (offset.least_ns, MS as i64);
    assert!(5 * ms < least && least <= 6 * ms, "{least}");
    assert!(clock.is_off());
}

#[test]
fn a_span_is_seen_too_early_or_too_late_by_more_than_the_error_of_its_hosts_clock() {
    let host = "
        host web3 realtime=1000000
        thread a tid=10
        0 c0 idle started
        0 c0 idle switch a
        2000 c0 a context a/a
        2000 c0 a waking a
        3000 c0 a context a/a
        3000 c0 a switch idle blocked
        3000 c0 idle stopped";
    let seen = |from: u64, to: u64| {
        let made = made(host, &format!("service s\na/a {from}..{to}"));
        let joined = made.joined();
        let error = |ns| joined.places.wall_within(&made.traced, made.span("a/a"), Stamp::from_ns(ns)).1;
        let clock = &joined.contexts.clocks[0];
        (clock.early, clock.late, error(2000), error(3000))
    };
    let (_, _, first, last) = seen(1_002_000, 1_003_000);
    for (from, to, expected) in [
        (1_002_000 + first, 1_003_000, (0, 0)),
        (1_002_000 + first + 1, 1_003_000 + first + 1, (1, 0)),
        (1_002_000, 1_003_000 - last, (0, 0)),
        (1_001_000 - last, 1_003_000 - last - 1, (0, 1)),
    ] {
        let (early, late, ..) = seen(from, to);
        assert_eq!((early, late), expected, "{from}..{to}, within {first} and {last}");
    }
}
