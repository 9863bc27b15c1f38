//! News and summaries, as whole texts.

use expect_test::{Expect, expect};
use wakepath_engine::Host;
use wakepath_engine::latency::live::EndReason;
use wakepath_engine::latency::{Distribution, RemovedProbes};
use wakepath_engine::watch::{NoticeCounts, WatchedTarget};

use super::*;
use crate::sample::{self, drilled, histogram};

/// 2026-11-21 02:58:41 UTC.
const ORIGIN: u64 = 1_795_229_921_000_000_000;

fn stretch(from: u64, to: u64, counts: &[(u64, u64)]) -> Stretch {
    Stretch::new(Duration::from_secs(from), Duration::from_secs(to), histogram(counts))
}

fn target(name: &str, process: Option<u32>) -> WatchedTarget {
    WatchedTarget { name: name.to_owned(), source: LatencySource::Calls, process }
}

fn change() -> Change {
    Change {
        since: Duration::from_secs(3600),
        before: stretch(0, 10, &[(1000, 2700), (1 << 20, 300)]),
        after: stretch(3600, 3620, &[(1000, 1000), (1 << 24, 1000)]),
        score: 700.0,
        as_it_was: Some((Duration::ZERO, Duration::from_secs(900))),
        alarm: Alarm::Rings,
    }
}

fn check(news: &[(WatchEvent<'_>, WatchedTarget)], expected: &Expect) {
    let host = Host::default();
    let kept = KeptFiles { before: Path::new("w/a b.before.json"), after: Path::new("w/a.after.json") };
    let of = |(what, target): &(WatchEvent<'_>, WatchedTarget)| {
        let what = *what;
        let at = Duration::from_secs(3620);
        let news = WatchNews { host: &host, target, origin_realtime_ns: Some(ORIGIN), at, what };
        watch_news(&news, Some(kept), Layout::PLAIN)
    };
    expected.assert_eq(&news.iter().map(of).collect::<String>());
}

#[test]
fn each_kind_of_news_is_a_line_with_the_time_and_what_to_do_next() {
    let of_one = target("./app:handle", Some(912));
    let of_many = target("syscall:read", None);
    let odd = target("./a pp:f<g>'\u{1b}[2J", Some(912));
    let notices = [
        Notice::Usual(stretch(0, 10, &[(1000, 3000)])),
        Notice::Changed(Box::new(change())),
        Notice::Short(Short {
            from: Duration::from_secs(100),
            piece: stretch(100, 110, &[(1 << 20, 1000)]),
            score: 1000.0,
            quiet: false,
        }),
        Notice::Stopped(Stop { since: Duration::from_secs(3610), expected: 3000.4, open: 1 }),
        Notice::Stopped(Stop { since: Duration::from_secs(3610), expected: 100.0, open: 0 }),
        Notice::Back { stopped: Duration::from_secs(3000), back: Duration::from_secs(3600) },
    ];
    let mut news: Vec<_> =
        notices.iter().map(|notice| (WatchEvent::Notice(notice), of_one.clone())).collect();
    news.push((WatchEvent::Notice(&notices[1]), of_many));
    news.push((WatchEvent::Notice(&notices[1]), odd));
    check(
        &news,
        &expect![[r#"
            2026-11-21 03:59:01 UTC  ./app:handle: usual since 02:58:41: 300 calls a second, 1.00 µs on average
            2026-11-21 03:59:01 UTC  ./app:handle is slower since 03:58:41: 300 → 100 calls a second, 106 µs →
                8.39 ms on average (79.3 times)
                peak 1 (around 512 ns to 1.02 µs): 90.0% → 50.0% of the calls; peak 2 moved from around 1.05 ms
                to 2.10 ms to 16.8 ms to 33.6 ms
                as it was from 02:58:41 to 03:13:41
                next: wakepath latency --compare 'w/a b.before.json' w/a.after.json
                next: wakepath drill ./app:handle -p 912 --peak 2
            2026-11-21 03:59:01 UTC  ./app:handle was different for 10.0 s from 03:00:21 on, and is as usual
                again; it had 100 calls a second, 1.05 ms on average
            2026-11-21 03:59:01 UTC  ./app:handle: no calls since 03:58:51; about 3000 were to be expected; 1 is
                open
            2026-11-21 03:59:01 UTC  ./app:handle: no calls since 03:58:51; about 100 were to be expected; none
                is open
            2026-11-21 03:59:01 UTC  ./app:handle: calls again since 03:58:41, after 10.0 min without any
            2026-11-21 03:59:01 UTC  syscall:read is slower since 03:58:41: 300 → 100 calls a second, 106 µs →
                8.39 ms on average (79.3 times)
                peak 1 (around 512 ns to 1.02 µs): 90.0% → 50.0% of the calls; peak 2 moved from around 1.05 ms
                to 2.10 ms to 16.8 ms to 33.6 ms
                as it was from 02:58:41 to 03:13:41
                next: wakepath latency --compare 'w/a b.before.json' w/a.after.json
            2026-11-21 03:59:01 UTC  ./a pp:f<g>'\x1b[2J is slower since 03:58:41: 300 → 100 calls a second, 106
                µs → 8.39 ms on average (79.3 times)
                peak 1 (around 512 ns to 1.02 µs): 90.0% → 50.0% of the calls; peak 2 moved from around 1.05 ms
                to 2.10 ms to 16.8 ms to 33.6 ms
                as it was from 02:58:41 to 03:13:41
                next: wakepath latency --compare 'w/a b.before.json' w/a.after.json
                next: wakepath drill './a pp:f<g>'\''\x1b[2J' -p 912 --peak 2
        "#]],
    );
}

#[test]
fn a_target_that_wavers_has_a_line_at_its_beginning_and_at_its_end() {
    let target = target("disk", None);
    let wavers = |alarm| Change { alarm, as_it_was: None, ..change() };
    let faster = Change { before: change().after, after: change().before, ..wavers(Alarm::Rings) };
    let mixed = Change {
        before: stretch(0, 10, &[(1000, 1000)]),
        after: stretch(10, 20, &[(500, 500), (1500, 500)]),
        ..wavers(Alarm::Rings)
    };
    let piece = stretch(100, 110, &[(1 << 20, 1000)]);
    let settled = |change| Notice::Settled { change: Box::new(change), quiet: 4 };
    let notices = [
        Notice::Changed(Box::new(wavers(Alarm::Wavers))),
        Notice::Changed(Box::new(wavers(Alarm::Quiet))),
        Notice::Short(Short { from: Duration::from_secs(100), piece, score: 1000.0, quiet: true }),
        settled(wavers(Alarm::Rings)),
        settled(change()),
        settled(faster),
        settled(mixed.clone()),
        Notice::Changed(Box::new(mixed)),
    ];
    let host = Host::default();
    let mut text = String::new();
    for notice in &notices {
        let at = Duration::from_secs(3620);
        let what = WatchEvent::Notice(notice);
        let news = WatchNews { host: &host, target: &target, origin_realtime_ns: Some(ORIGIN), at, what };
        text.push_str(&watch_news(&news, None, Layout::PLAIN));
    }
    expect![[r#"
        2026-11-21 03:59:01 UTC  disk is slower since 03:58:41: 300 → 100 calls a second, 106 µs → 8.39 ms
            on average (79.3 times)
            it wavers: until it is steady, further changes are news only where it becomes worse
            peak 1 (around 512 ns to 1.02 µs): 90.0% → 50.0% of the calls; peak 2 moved from around 1.05 ms
            to 2.10 ms to 16.8 ms to 33.6 ms
        2026-11-21 03:59:01 UTC  disk is steady since 03:58:41, after 4 changes more, slower than before it
            wavered: 300 → 100 calls a second, 106 µs → 8.39 ms on average (79.3 times)
        2026-11-21 03:59:01 UTC  disk is steady since 03:58:41, after 4 changes more, as before it wavered:
            300 → 100 calls a second, 106 µs → 8.39 ms on average (79.3 times)
        2026-11-21 03:59:01 UTC  disk is steady since 03:58:41, after 4 changes more, faster than before it
            wavered: 100 → 300 calls a second, 8.39 ms → 106 µs on average (1/79.3)
        2026-11-21 03:59:01 UTC  disk is steady since 03:58:41, after 4 changes more, other than before it
            wavered: 100 → 100 calls a second, 1.00 µs → 1.00 µs on average (1.00 times)
        2026-11-21 03:59:01 UTC  disk changed since 03:58:41: 100 → 100 calls a second, 1.00 µs → 1.00 µs on
            average (1.00 times)
            the peak around 512 ns to 1.02 µs is gone, which had 100% of the calls; peak 1 is new, around
            256 ns to 511 ns: 50.0% of the calls; peak 2 is new, around 1.02 µs to 2.05 µs: 50.0% of the
            calls
    "#]]
    .assert_eq(&text);
}

#[test]
fn files_are_named_by_time_and_target() {
    let name = |target: &str, origin_realtime_ns| {
        let notice = Notice::Changed(Box::new(change()));
        let news = WatchNews {
            host: &Host::default(),
            target: &self::target(target, None),
            origin_realtime_ns,
            at: Duration::ZERO,
            what: WatchEvent::Notice(&notice),
        };
        kept_name(&news, Duration::from_secs(3600))
    };
    for (target, expected) in [
        ("./app:handle", "20261121T035841Z-app:handle"),
        ("/usr/lib/a b.so:f<int>", "20261121T035841Z-usr_lib_a_b.so:f_int_"),
        ("../../x\n\u{1b}:f", "20261121T035841Z-x__:f"),
    ] {
        assert_eq!(name(target, Some(ORIGIN)), expected);
    }
    assert_eq!(name("f", None), "00000000T000000Z-f");
    assert_eq!(name(&"x".repeat(1000), None).len(), 17 + MAX_NAME_BYTES);
}

#[test]
fn the_answer_of_a_drill_down_is_that_of_its_verb() {
    let found = drilled();
    let failed = std::io::Error::other(
        "`f\u{1b}` is not a function of a program: a drill-down needs FILE:FUNCTION, kernel:FUNCTION or python:FUNCTION",
    );
    let target = target("./shop:serve", Some(7));
    let text = |found: Result<&_, &(dyn std::error::Error + 'static)>| {
        let news = WatchNews {
            host: &Host::default(),
            target: &target,
            origin_realtime_ns: None,
            at: Duration::from_millis(1500),
            what: WatchEvent::Drilled(found),
        };
        watch_news(&news, None, Layout::PLAIN)
    };
    assert_eq!(text(Ok(&found)), drill(&drilled(), false, Layout::PLAIN));
    expect![[r#"
        +1.5 s  ./shop:serve: the drill-down found nothing: `f\x1b` is not a function of a program: a
            drill-down needs FILE:FUNCTION, kernel:FUNCTION or python:FUNCTION
    "#]]
    .assert_eq(&text(Err(&failed)));
}

#[test]
fn the_summary_has_the_changes_and_the_latencies_since_the_last_one() {
    let mut distribution = Distribution::new(
        String::from("./app:handle"),
        LatencySource::Calls,
        histogram(&[(1000, 1000), (1 << 24, 1000)]),
    );
    distribution.slices = vec![
        sample::slice(0, 3_600_000_000_000, &[(1000, 9000)]),
        sample::slice(3_600_000_000_000, 3_620_000_000_000, &[(1000, 1000), (1 << 24, 1000)]),
    ];
    let quiet =
        Distribution::new(String::from("syscall:fsync"), LatencySource::Calls, histogram(&[(1 << 20, 3)]));
    let summary =
        |distribution, counts: NoticeCounts, differs: Option<u64>, stopped: Option<u64>| TargetSummary {
            distribution,
            since: Duration::from_secs(3600),
            counted: Duration::from_secs(20),
            counts,
            changes: vec![change(); usize::from(counts.changed > 0)],
            differs_since: differs.map(Duration::from_secs),
            stopped_since: stopped.map(Duration::from_secs),
        };
    let counts = NoticeCounts { changed: 3, short: 2, stopped: 1 };
    let watched_two = Watched {
        host: Host::default(),
        origin_realtime_ns: Some(ORIGIN),
        elapsed: Duration::from_secs(3620),
        slices: 362,
        left_out: 1,
        reason: EndReason::Interrupted,
        targets: vec![
            summary(distribution, counts, Some(3610), None),
            summary(quiet, NoticeCounts::default(), None, Some(3615)),
        ],
    };
    expect![[r#"
        watched for 60.3 min, 362 slices: 3 changes, 2 short disturbances, 1 stop; 1 slice with a drill-down
        left out

        ./app:handle: 3 changes, 2 short disturbances, 1 stop
            2 changes before these
            03:58:41  slower: 300 → 100 calls a second, 106 µs → 8.39 ms on average (79.3 times)
            different since 03:58:51; the next calls decide whether that lasts
            since the last change:
        ./app:handle: 2,000 calls in 20.0 s, 16.8 s in all, 8.39 ms on average
        peak            latency  count  log scale
           1  512 ns to 1.02 µs  1,000  ████████████████████████████████████████
                1.02 to 2.05 µs      0
                2.05 to 4.09 µs      0
                4.10 to 8.19 µs      0
                8.19 to 16.4 µs      0
                16.4 to 32.8 µs      0
                32.8 to 65.5 µs      0
                 65.5 to 131 µs      0
                  131 to 262 µs      0
                  262 to 524 µs      0
              524 µs to 1.05 ms      0
                1.05 to 2.10 ms      0
                2.10 to 4.19 ms      0
                4.19 to 8.39 ms      0
                8.39 to 16.8 ms      0
           2    16.8 to 33.6 ms  1,000  ████████████████████████████████████████
        p50 512 ns to 1.02 µs (by chance 512 ns to 33.6 ms), p90 16.8 to 33.6 ms, p99 16.8 to 33.6 ms
        peak 1: 1,000 calls (50.0%), about 512 µs (<0.1%)
        peak 2: 1,000 calls (50.0%), about 16.8 s (>99.9%)

        over time; columns: buckets from 512 ns to 33.6 ms; · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more
            +0 ns ▓                 9,000 calls
        +60.0 min ▓              ▓  2,000 calls

        syscall:fsync: no change
            none since 03:58:56
            all of it:
        syscall:fsync: 3 calls in 20.0 s, 3.15 ms in all, 1.05 ms on average
        peak          latency  count  log scale
           1  1.05 to 2.10 ms      3  ████████████████████████████████████████
    "#]]
    .assert_eq(&watched(&watched_two, Layout::PLAIN));
}

#[test]
fn a_target_whose_probes_were_removed_is_not_watched_any_more() {
    let removed = RemovedProbes {
        after: Duration::from_secs(25),
        calls: 14_000,
        per_call_ns: 20_000,
        share: 0.25,
        budget: 0.05,
    };
    check(
        &[(WatchEvent::Removed(&removed), target("./app:f\u{7}", Some(7)))],
        &expect![[r#"
        2026-11-21 03:59:01 UTC  ./app:f\x07 is not watched any more: its probes were removed after 25.0 s:
            each of 14,000 calls took 20.0 µs longer, 25% of the machine's time; --budget allows more than
            5%
    "#]],
    );
}
