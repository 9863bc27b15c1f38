//! A latency watch, as text: each change when it is noticed, and a summary at the end.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};
use wakepath_distribution::{Histogram, Peak, bounds};
use wakepath_engine::latency::LatencySource;
use wakepath_engine::watch::{
    Alarm, Change, Direction, Notice, PeakChange, Short, Stop, Stretch, TargetSummary, WatchEvent, WatchNews,
    Watched, peak_changes, peak_to_explain, shift,
};

use super::latency::distributions;
use super::{drill, seconds};
use crate::escape::escape;
use crate::screen::{Layout, Line, Screen, Style};
use crate::units::{amount, count, duration, share, three_digits};
use crate::wording::latency as words;

/// A change's two files.
#[derive(Debug, Clone, Copy)]
pub struct KeptFiles<'a> {
    /// The distribution before.
    pub before: &'a Path,
    /// The distribution after.
    pub after: &'a Path,
}

/// A peak is named if its share of the calls changes by this much, percentage points.
const MIN_SHARE_CHANGE: f64 = 5.0;

/// News, in a line or a few: the event, its beginning, and the next step; nothing for quiet news. `kept` are a change's
/// files.
pub fn watch_news(news: &WatchNews<'_>, kept: Option<KeptFiles<'_>>, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let clock = Clock(news.origin_realtime_ns);
    let at = format!("{}  ", clock.full(news.at));
    let name = escape(news.target.name.as_bytes());
    let say = |style, verb: String| Line::faint(&at).add(style, &name).add(Style::Normal, verb);
    match news.what {
        WatchEvent::Notice(Notice::Usual(piece)) => {
            let text = format!(
                ": usual {}: {}",
                clock.since(piece.from, news.at),
                figures(news.target.source, piece)
            );
            screen.wrapped(4, say(Style::Normal, text));
        }
        WatchEvent::Notice(Notice::Changed(change)) if change.alarm == Alarm::Quiet => {}
        WatchEvent::Notice(Notice::Short(Short { quiet: true, .. })) => {}
        WatchEvent::Notice(Notice::Changed(change)) => {
            let verb = match direction(change) {
                Direction::Mixed => String::from("changed"),
                direction => format!("is {}", direction_word(direction)),
            };
            let since = clock.since(change.since, news.at);
            let text = format!(" {verb} {since}: {}", sides(news.target.source, change));
            screen.wrapped(4, say(Style::Strong, text));
            if change.alarm == Alarm::Wavers {
                let text =
                    "it wavers: until it is steady, further changes are news only where it becomes worse";
                screen.indented(4, Line::from(text));
            }
            changed(news, change, kept, &clock, &mut screen);
        }
        WatchEvent::Notice(Notice::Settled { change, quiet }) => {
            let since = clock.since(change.since, news.at);
            let state = match (change.as_it_was, direction(change)) {
                (Some(_), _) => String::from("as before it wavered"),
                (None, Direction::Mixed) => String::from("other than before it wavered"),
                (None, direction) => format!("{} than before it wavered", direction_word(direction)),
            };
            let sides = sides(news.target.source, change);
            let text =
                format!(" is steady {since}, after {} more, {state}: {sides}", count(*quiet, "change"));
            screen.wrapped(4, say(Style::Strong, text));
        }
        WatchEvent::Notice(Notice::Short(Short { from, piece, .. })) => {
            let length = duration(ns(piece.to.saturating_sub(*from)));
            let text = format!(
                " was different for {length} from {} on, and is as usual again; it had {}",
                clock.time(*from, news.at),
                figures(news.target.source, piece)
            );
            screen.wrapped(4, say(Style::Normal, text));
        }
        WatchEvent::Notice(Notice::Stopped(Stop { since, expected, open })) => {
            let (_, [_, several]) = words::source(news.target.source);
            let still = match open {
                0 => String::from("none is open"),
                1 => String::from("1 is open"),
                open => format!("{open} are open"),
            };
            let text = format!(
                ": no {several} {}; about {expected:.0} were to be expected; {still}",
                clock.since(*since, news.at)
            );
            screen.wrapped(4, say(Style::Strong, text));
        }
        WatchEvent::Notice(Notice::Back { stopped, back }) => {
            let (_, [_, several]) = words::source(news.target.source);
            let length = duration(ns(back.saturating_sub(*stopped)));
            let text =
                format!(": {several} again since {}, after {length} without any", clock.time(*back, news.at));
            screen.wrapped(4, say(Style::Strong, text));
        }
        WatchEvent::Drilled(Ok(found)) => return drill(found, false, layout),
        WatchEvent::Drilled(Err(error)) => {
            let text = format!(": the drill-down found nothing: {}", escape(error.to_string().as_bytes()));
            screen.wrapped(4, say(Style::Normal, text));
        }
    }
    screen.into_text()
}

/// The lines below a change: its peaks, whether the latencies were like that before, and the next commands to type.
fn changed(
    news: &WatchNews<'_>,
    change: &Change,
    kept: Option<KeptFiles<'_>>,
    clock: &Clock,
    screen: &mut Screen,
) {
    let peaks = peak_phrases(&change.before.histogram, &change.after.histogram);
    if !peaks.is_empty() {
        screen.indented(4, Line::from(peaks.join("; ")));
    }
    if let Some((from, to)) = change.as_it_was {
        let [from, to] = [from, to].map(|at| clock.time(at, news.at));
        screen.indented(4, Line::from(format!("as it was from {from} to {to}")));
    }
    let mut next = |command: String| {
        screen.unwrapped(Line::faint("    next: ").add(Style::Normal, command));
    };
    if let Some(KeptFiles { before, after }) = kept {
        let [before, after] = [before, after].map(|path| word(path.as_os_str().as_bytes()));
        next(format!("wakepath latency --compare {before} {after}"));
    }
    let peak = peak_to_explain(&change.before.histogram, &change.after.histogram);
    if let (Some(process), Some(peak)) = (news.target.process, peak) {
        next(format!("wakepath drill {} -p {process} --peak {peak}", word(news.target.name.as_bytes())));
    }
}

/// A phrase for each peak that came, went, moved, or has a clearly different share of the calls.
fn peak_phrases(before: &Histogram, after: &Histogram) -> Vec<String> {
    // A peak's whole range includes its rarest calls.
    let range = |peak: &Peak, of: &Histogram| {
        let buckets = peak.from_bucket..=peak.to_bucket;
        let most = buckets.max_by_key(|&bucket| of.counts().get(bucket)).unwrap_or(peak.from_bucket);
        let bounds = bounds(most);
        format!("{} to {}", amount(*bounds.start(), of.unit()), amount(*bounds.end(), of.unit()))
    };
    let percent = |peak: &Peak, of: &Histogram| peak.count as f64 / of.calls().max(1) as f64 * 100.0;
    let phrase = |change: PeakChange| match change {
        PeakChange::Came { after: peak, number } => Some(format!(
            "peak {number} is new, around {}: {} of the calls",
            range(&peak, after),
            share(peak.count, after.calls())
        )),
        PeakChange::Went { before: peak } => Some(format!(
            "the peak around {} is gone, which had {} of the calls",
            range(&peak, before),
            share(peak.count, before.calls())
        )),
        PeakChange::Moved { before: old, after: new, number } => {
            Some(format!("peak {number} moved from around {} to {}", range(&old, before), range(&new, after)))
        }
        PeakChange::Stayed { before: old, after: new, number } => {
            let differs = (percent(&old, before) - percent(&new, after)).abs() >= MIN_SHARE_CHANGE;
            differs.then(|| {
                format!(
                    "peak {number} (around {}): {} → {} of the calls",
                    range(&new, after),
                    share(old.count, before.calls()),
                    share(new.count, after.calls())
                )
            })
        }
    };
    peak_changes(before, after).into_iter().filter_map(phrase).collect()
}

/// The beginning of the names of a change's files: `20261121T025841Z-app:handle`. Names sort by time, and hold
/// nothing with a special meaning to a shell or a file system.
pub fn kept_name(news: &WatchNews<'_>, since: Duration) -> String {
    let time = match Clock(news.origin_realtime_ns).utc(since) {
        Some(utc) => utc.format("%Y%m%dT%H%M%SZ").to_string(),
        None => String::from("00000000T000000Z"),
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() || ":._+-".contains(c) { c } else { '_' };
    let target: String = news.target.name.chars().map(plain).collect();
    let target = target.trim_start_matches(['.', '_']);
    format!("{time}-{}", target.get(..MAX_NAME_BYTES).unwrap_or(target))
}

/// The bytes for a target in a file name: names may have 255 in all.
const MAX_NAME_BYTES: usize = 120;

/// The rate and the mean on both sides of a change.
fn sides(source: LatencySource, Change { before, after, .. }: &Change) -> String {
    let (_, [_, several]) = words::source(source);
    let [old, new] = [before, after].map(mean);
    let ratio = shift(&before.histogram, &after.histogram).and_then(|shift| shift.mean_ratio);
    let times = ratio.map_or_else(String::new, times);
    format!("{} → {} {several} a second, {old} → {new} on average{times}", rate(before), rate(after))
}

/// How many times as long: ` (2.72 times)`, ` (1/2.72)`.
fn times(ratio: f64) -> String {
    if ratio >= 1.0 {
        format!(" ({} times)", three_digits(ratio))
    } else if ratio > 0.0 {
        format!(" (1/{})", three_digits(1.0 / ratio))
    } else {
        String::new()
    }
}

/// Whether a change made calls slower or faster.
fn direction(Change { before, after, .. }: &Change) -> Direction {
    shift(&before.histogram, &after.histogram).map_or(Direction::Mixed, |shift| shift.direction)
}

const fn direction_word(direction: Direction) -> &'static str {
    match direction {
        Direction::Slower => "slower",
        Direction::Faster => "faster",
        Direction::Mixed => "neither slower nor faster",
    }
}

fn figures(source: LatencySource, stretch: &Stretch) -> String {
    let (_, [_, several]) = words::source(source);
    format!("{} {several} a second, {} on average", rate(stretch), mean(stretch))
}

fn mean(stretch: &Stretch) -> String {
    let unit = stretch.histogram.unit();
    stretch.histogram.mean().map_or_else(|| String::from("none"), |mean| amount(mean as u64, unit))
}

/// Calls a second, with a decimal if there are few.
fn rate(stretch: &Stretch) -> String {
    let rate = stretch.rate();
    if rate < 100.0 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

/// A watch's summary: its time, its changes, and each target's latencies since the last change.
pub fn watched(watched: &Watched, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let sum = |of: fn(&TargetSummary) -> u64| watched.targets.iter().map(of).sum::<u64>();
    let [changes, short, stops] = [
        sum(|target| target.counts.changed),
        sum(|target| target.counts.short),
        sum(|target| target.counts.stopped),
    ];
    let head = format!("watched for {}", duration(ns(watched.elapsed)));
    let mut text = format!(
        ", {}: {}, {}, {}",
        count(watched.slices, "slice"),
        count(changes, "change"),
        count(short, "short disturbance"),
        count(stops, "stop"),
    );
    if watched.left_out > 0 {
        let left_out = count(watched.left_out, "slice");
        text.push_str(&format!("; {left_out} with a drill-down left out"));
    }
    screen.wrapped(0, Line::strong(head).add(Style::Normal, text));
    let clock = Clock(watched.origin_realtime_ns);
    for target in &watched.targets {
        screen.blank();
        state(target, &clock, watched.elapsed, &mut screen);
        distributions(std::slice::from_ref(&target.distribution), target.counted, layout, &mut screen);
    }
    screen.into_text()
}

/// The line above a target's distribution: the time since which it is like that, and doubts.
fn state(target: &TargetSummary, clock: &Clock, now: Duration, screen: &mut Screen) {
    let counts = target.counts;
    let since = match counts.changed {
        0 => String::from("no change"),
        changes => count(changes, "change"),
    };
    let mut parts = vec![since];
    for (n, noun) in [(counts.short, "short disturbance"), (counts.stopped, "stop")] {
        if n > 0 {
            parts.push(count(n, noun));
        }
    }
    screen.wrapped(
        0,
        Line::strong(escape(target.distribution.target.as_bytes()))
            .add(Style::Normal, format!(": {}", parts.join(", "))),
    );
    let not_shown = counts.changed.saturating_sub(target.changes.len() as u64);
    if not_shown > 0 {
        screen.indented(4, Line::faint(format!("{} before these", count(not_shown, "change"))));
    }
    for change in &target.changes {
        let (time, sides) = (clock.time(change.since, now), sides(target.distribution.source, change));
        let text = format!("{time}  {}: {sides}", direction_word(direction(change)));
        screen.indented(4, Line::from(text));
    }
    if let Some(since) = target.differs_since {
        let text = format!("different {}; the next calls decide whether that lasts", clock.since(since, now));
        screen.indented(4, Line::warning(text));
    }
    if let Some(since) = target.stopped_since {
        screen.indented(4, Line::warning(format!("none {}", clock.since(since, now))));
    }
    let since = if counts.changed == 0 { "all of it" } else { "since the last change" };
    screen.indented(4, Line::faint(format!("{since}:")));
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A command-line word, quoted for a shell if needed.
pub(super) fn word(bytes: &[u8]) -> String {
    let text = escape(bytes);
    let is_plain = |c: char| c.is_alphanumeric() || "_./:=@%+,-".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The origin of times in UTC, ns since 1970.
struct Clock(Option<u64>);

impl Clock {
    fn utc(&self, at: Duration) -> Option<DateTime<Utc>> {
        self.0.map(|origin| DateTime::UNIX_EPOCH + Duration::from_nanos(origin.saturating_add(ns(at))))
    }

    /// With the date: `2026-11-21 02:58:41 UTC`.
    fn full(&self, at: Duration) -> String {
        match self.utc(at) {
            Some(utc) => utc.format("%Y-%m-%d %H:%M:%S UTC").to_string(),
            None => format!("+{} s", seconds(ns(at))),
        }
    }

    /// With the date if it differs from the date of `now`.
    fn time(&self, at: Duration, now: Duration) -> String {
        match (self.utc(at), self.utc(now)) {
            (Some(utc), Some(now)) if utc.date_naive() == now.date_naive() => {
                utc.format("%H:%M:%S").to_string()
            }
            (Some(utc), _) => utc.format("%Y-%m-%d %H:%M:%S").to_string(),
            (None, _) => format!("+{} s", seconds(ns(at))),
        }
    }

    fn since(&self, at: Duration, now: Duration) -> String {
        format!("since {}", self.time(at, now))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use wakepath_engine::Host;
    use wakepath_engine::latency::Distribution;
    use wakepath_engine::latency::live::EndReason;
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
    fn a_target_that_wavers_has_a_line_when_it_begins_and_one_when_it_ends() {
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
        "#]].assert_eq(&text);
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
        let quiet = Distribution::new(
            String::from("syscall:fsync"),
            LatencySource::Calls,
            histogram(&[(1 << 20, 3)]),
        );
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
        "#]].assert_eq(&watched(&watched_two, Layout::PLAIN));
    }
}
