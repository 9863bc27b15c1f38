//! Possible blockers in an event loop.

use wakepath_clock::Stamp;

use crate::testing::{Made, made, scaled};

/// `loop` waits in its set but from 100 to 155, from 200 to 205, and from 300 on. Times in units of 100 us.
const LOOP: &str = "
    host web3 realtime=0
    thread loop tid=10
    thread peer tid=11 tgid=10
    0 c0 idle started
    0 c0 idle switch loop
    40 c0 loop switch idle blocked call=232:0x3
    100 c0 idle/timer waking loop
    100 c0 idle switch loop
    110 c0 loop switch idle blocked call=230:0
    150 c0 idle/timer waking loop
    150 c0 idle switch loop
    155 c0 loop switch idle blocked call=232:0x3
    200 c0 idle/timer waking loop
    200 c0 idle switch loop
    205 c0 loop switch idle blocked call=232:0x3
    300 c0 idle/timer waking loop
    300 c0 idle switch loop
    330 c0 idle stopped
";

/// The requests that may have blocked `a/a` in these times, with ns.
fn perhaps(made: &Made, times: &[(u64, u64)]) -> String {
    let stamp = |at: u64| Stamp::from_ns(at * 100_000);
    let times = times.iter().map(|(from, to)| (stamp(*from), stamp(*to)));
    let found = made.joined().perhaps_blocked_by(made.request("a/a"), made.thread("loop"), times);
    found.iter().map(|(request, ns)| format!("{} {ns}; ", made.root(*request))).collect()
}

/// With these spans, by name and times, in this thread.
fn with(spans: &[(&str, u64, u64)], tid: u32) -> Made {
    let line =
        |(name, from, to): &(&str, u64, u64)| format!("{name} {from}00000..{to}00000 tid={tid} server\n");
    let lines: String = spans.iter().map(line).collect();
    made(&scaled(100_000, LOOP), &format!("service shop\na/a 2500000..31000000 tid=10\n{lines}"))
}

#[test]
fn who_began_or_ended_in_a_long_run_of_the_loop_may_have_blocked_a_request() {
    let all = [(40, 300)];
    // The whole run counts, with the loop's own sleep in it.
    for (name, times) in
        [("b/b 4800000; ", (101, 149)), ("b/b 3000000; ", (50, 130)), ("b/b 2500000; ", (130, 190))]
    {
        assert_eq!(perhaps(&with(&[("b/b", times.0, times.1)], 10), &all), name, "{times:?}");
    }
    for (times, why) in [
        ((50, 160), "it was open all along"),
        ((201, 204), "the run is short"),
        ((145, 154), "it was open for less than a millisecond"),
        ((160, 190), "the loop waited"),
    ] {
        assert_eq!(perhaps(&with(&[("b/b", times.0, times.1)], 10), &all), "", "{why}");
    }
    let b = with(&[("b/b", 101, 149)], 10);
    assert_eq!(perhaps(&b, &[(40, 120)]), "b/b 1900000; ", "only in this time");
    assert_eq!(perhaps(&b, &[(160, 300)]), "");
    assert_eq!(perhaps(&with(&[("b/b", 101, 149)], 11), &all), "", "another thread's");
}

#[test]
fn the_longest_are_told_and_no_part_of_the_request() {
    let five =
        [("b/b", 101, 149), ("c/c", 101, 120), ("d/d", 120, 149), ("e/e", 101, 112), ("a/f", 101, 140)];
    let part = five.map(|(name, from, to)| (if name == "a/f" { "a/f < a" } else { name }, from, to));
    assert_eq!(perhaps(&with(&part, 10), &[(40, 300)]), "b/b 4800000; d/d 2900000; c/c 1900000; ");
}
