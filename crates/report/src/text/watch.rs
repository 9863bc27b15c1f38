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
        WatchEvent::Refused(why) => {
            let text = format!(" is not watched: {}", escape(why.as_bytes()));
            screen.wrapped(4, say(Style::Normal, text));
        }
        WatchEvent::Removed(removed) => {
            let text = format!(" is not watched any more: {}", words::probes_removed(removed));
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
mod tests;
