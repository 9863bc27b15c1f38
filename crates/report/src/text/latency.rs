//! Latency distributions, as text: histograms on log scales, their peaks numbered (T08 figure 3.4).

mod groups;
mod live;
mod percentiles;
mod recorded;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use wakepath_distribution::{Histogram, Peak, Unit, bounds, estimated_times, peaks};
use wakepath_engine::latency::{
    Distribution, LatencySource, MAX_GROUP_SLICES, OtherProcesses, RemovedProbes, TimeSlice,
};

use crate::escape::escape;
use crate::screen::{Layout, Line, Screen, Style};
use crate::units::{amount, duration, grouped, share};
use crate::wording::latency as words;

pub use live::live_latency;
pub use recorded::recorded_latency;

/// The longest bar's length, columns.
const MAX_BAR_COLUMNS: usize = 40;

/// The most targets shown in the order of the request, also those where nothing came.
const MAX_IN_ORDER: usize = 16;

/// The targets' histograms, counted for `elapsed`.
pub(super) fn distributions(
    targets: &[Distribution],
    elapsed: Duration,
    layout: Layout,
    screen: &mut Screen,
) {
    let mut shown = BTreeSet::new();
    for (index, target) in shown_targets(targets, screen).into_iter().enumerate() {
        if index > 0 {
            screen.blank();
        }
        let others = target.other_processes.as_ref().filter(|others| shown.insert(&others.file));
        head(target, elapsed, others, screen);
        if target.histogram.is_empty() {
            continue;
        }
        let peaks = peaks(&target.histogram);
        buckets(&target.histogram, &peaks, layout, screen);
        percentiles::line(&target.histogram, screen);
        peak_shares(target, &peaks, screen);
        if !target.slices.is_empty() {
            screen.blank();
            over_time(target, screen);
        }
        if let Some(groups) = &target.groups {
            screen.blank();
            groups::rows(groups, target, screen);
        }
    }
}

/// All targets; if they are many, only non-empty targets, most time first.
fn shown_targets<'a>(targets: &'a [Distribution], screen: &mut Screen) -> Vec<&'a Distribution> {
    let mut shown: Vec<_> = targets.iter().collect();
    if targets.len() > MAX_IN_ORDER {
        shown.retain(|target| {
            let Distribution { unwound, overflowed, open, unseen, .. } = target;
            !target.histogram.is_empty() || [*unwound, *overflowed, *open, *unseen] != [0; 4]
        });
        shown.sort_by_key(|target| Reverse(target.histogram.sum()));
        let (some, all) = (shown.len(), targets.len());
        let text = format!("most time first: {some} of {all} targets, nothing came for the others");
        screen.wrapped(0, Line::faint(text));
        screen.blank();
    }
    shown
}

fn counted(n: u64, source: LatencySource) -> String {
    let (_, [one, several]) = words::source(source);
    format!("{} {}", grouped(n), if n == 1 { one } else { several })
}

/// The lines above a histogram. `others` pay for the probes too; `None` if an earlier target has shown them.
fn head(target: &Distribution, elapsed: Duration, others: Option<&OtherProcesses>, screen: &mut Screen) {
    let histogram = &target.histogram;
    let unit = histogram.unit();
    let elapsed = target.removed.map_or(elapsed, |removed| removed.after);
    let ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    let mut text = format!(": {} in {}", counted(histogram.calls(), target.source), duration(ns));
    if let Some(mean) = histogram.mean() {
        let sum = u64::try_from(histogram.sum()).unwrap_or(u64::MAX);
        text.push_str(&format!(", {} in all, {} on average", amount(sum, unit), amount(mean as u64, unit)));
    }
    let line = Line::strong(escape(target.target.as_bytes())).add(Style::Normal, text);
    screen.wrapped(0, line);
    for note in &target.notes {
        screen.indented(4, Line::faint(escape(note.as_bytes())));
    }
    if let Some(probe) = target.probe {
        let below = u32::try_from(probe.from_bucket).ok().and_then(|bucket| 1_u64.checked_shl(bucket));
        let shifted = match below {
            Some(below) => format!("buckets below {}", amount(below, unit)),
            None => String::from("all buckets"),
        };
        let text = format!(
            "the probes add about {} to each call; {} of that is counted as latency, which shifts {shifted}",
            duration(probe.per_call_ns),
            amount(probe.shift, unit),
        );
        screen.indented(4, Line::faint(text));
    }
    if let Some(others) = others {
        screen.indented(4, Line::faint(other_processes(others)));
    }
    if let Some(removed) = &target.removed {
        screen.indented(4, Line::warning(words::probes_removed(removed)));
    }
    for (n, before, after) in [
        (target.open, "", " had not ended"),
        (target.unwound, "", " never returned"),
        (target.overflowed, "not counted: ", " (too many open at once, or recursion too deep)"),
        (target.unseen, "not counted: ", " (beginning or end not seen)"),
    ] {
        if n > 0 {
            screen.indented(4, Line::warning(format!("{before}{}{after}", counted(n, target.source))));
        }
    }
}

/// The sentence on a function whose later calls are not recorded.
pub fn recorded_until(function: &str, removed: &RemovedProbes) -> String {
    let function = escape(function.as_bytes());
    format!("later calls of {function} are not recorded: {}", words::probes_removed(removed))
}

/// The sentence on other processes that pay for probes without being targets.
pub fn other_processes(OtherProcesses { processes, file, per_call_ns }: &OtherProcesses) -> String {
    let name = escape(file.file_name().unwrap_or(file.as_os_str()).as_bytes());
    let others = match processes {
        1 => String::from("1 other process"),
        several => format!("{} other processes", grouped(*several as u64)),
    };
    let cost = per_call_ns.map_or_else(String::new, |cost| format!("about {} ", duration(cost)));
    format!("the probes in {name} are also in {others}: each call there takes {cost}longer")
}

fn buckets(histogram: &Histogram, peaks: &[Peak], layout: Layout, screen: &mut Screen) {
    let counts = histogram.counts();
    let Columns(used, unit) = Columns::of(histogram);
    let most = counts.iter().copied().max().unwrap_or(0);
    let ranges: Vec<_> = used.clone().map(|bucket| range(bucket, unit)).collect();
    let wide = ranges.iter().map(|range| range.chars().count()).max().unwrap_or(0);
    let digits = grouped(most).len().max("count".len());
    let widest = layout.width.saturating_sub(10 + wide + digits).clamp(8, MAX_BAR_COLUMNS);
    screen.unwrapped(Line::faint(format!("peak  {:>wide$}  {:>digits$}  log scale", "latency", "count")));
    for (bucket, range) in used.zip(ranges) {
        let n = counts[bucket];
        let peak = peaks.iter().position(|peak| (peak.from_bucket..=peak.to_bucket).contains(&bucket));
        let peak = peak.map_or_else(String::new, |peak| (peak + 1).to_string());
        let line = Line::strong(format!("{peak:>4}"))
            .add(Style::Normal, format!("  {range:>wide$}  {:>digits$}  ", grouped(n)))
            .add(Style::Normal, bar(n, most, widest));
        screen.unwrapped(line);
    }
}

/// The latencies in a bucket: `256 to 511 ns`, `512 ns to 1.02 µs`.
fn range(bucket: usize, unit: Unit) -> String {
    range_over(bucket, bucket, unit)
}

/// The latencies from a bucket to another.
fn range_over(first: usize, last: usize, unit: Unit) -> String {
    let [from, to] = [*bounds(first).start(), *bounds(last).end()].map(|bound| amount(bound, unit));
    let from = match (from.split_once(' '), to.split_once(' ')) {
        (Some((number, from)), Some((_, to))) if from == to => number.to_owned(),
        _ => from,
    };
    format!("{from} to {to}")
}

/// Each peak's share of the number, and of the time: an estimate that adds up to the exact time.
fn peak_shares(target: &Distribution, peaks: &[Peak], screen: &mut Screen) {
    let times = estimated_times(&target.histogram);
    let time = |buckets: RangeInclusive<usize>| times[buckets].iter().sum::<f64>() as u64;
    let all = u64::try_from(target.histogram.sum()).unwrap_or(u64::MAX);
    for (index, peak) in peaks.iter().enumerate().filter(|_| peaks.len() > 1) {
        let part = time(peak.from_bucket..=peak.to_bucket).min(all);
        let text = format!(
            "{} ({}), about {} ({})",
            counted(peak.count, target.source),
            share(peak.count, target.histogram.calls()),
            amount(part, target.histogram.unit()),
            share(part, all),
        );
        let head = Line::strong(format!("peak {}: ", index + 1));
        screen.hanging(head, 8, text);
    }
}

/// A bar as long as the count's logarithm: a single call has a bar, no calls have none.
fn bar(n: u64, most: u64, widest: usize) -> String {
    if n == 0 {
        return String::new();
    }
    // A single call is a step, so that each doubling adds an equal step.
    let length = |n: u64| (n as f64).log2() + 1.0;
    let eighths = (length(n) / length(most) * widest as f64 * 8.0).round().max(1.0) as usize;
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    "█".repeat(eighths / 8) + rest[eighths % 8]
}

/// A row for each slice, a column for each bucket: the shade shows the count (T08 figure 7.3).
fn over_time(target: &Distribution, screen: &mut Screen) {
    let columns = Columns::of(&target.histogram);
    screen.unwrapped(Line::faint(format!("over time; {}", columns.legend())));
    for TimeSlice { from, histogram, .. } in &target.slices {
        let at = u64::try_from(from.as_nanos()).unwrap_or(u64::MAX);
        let line = Line::faint(format!("{:>9} ", format!("+{}", duration(at))))
            .add(Style::Normal, columns.cells(histogram))
            .add(Style::Faint, format!("  {}", counted(histogram.calls(), target.source)))
            .add(Style::Normal, groups::largest_group(target, *from));
        screen.unwrapped(line);
    }
    if groups::slices_are_unknown(target) {
        let text =
            format!("whose they were when is not told: these would be more than {MAX_GROUP_SLICES} parts");
        screen.indented(4, Line::warning(text));
    }
}

/// A column for each bucket, from the first non-empty bucket to the last.
struct Columns(RangeInclusive<usize>, Unit);

impl Columns {
    fn of(whole: &Histogram) -> Self {
        let counts = whole.counts();
        let first = counts.iter().position(|&n| n > 0).unwrap_or(0);
        let last = counts.iter().rposition(|&n| n > 0).unwrap_or(0);
        Self(first..=last, whole.unit())
    }

    fn legend(&self) -> String {
        let [first, last] = [self.0.start(), self.0.end()].map(|&bucket| bounds(bucket));
        format!(
            "columns: buckets from {} to {}; · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more",
            amount(*first.start(), self.1),
            amount(*last.end(), self.1),
        )
    }

    fn cells(&self, part: &Histogram) -> String {
        part.counts()[self.0.clone()].iter().map(|&n| cell(n)).collect()
    }
}

const fn cell(n: u64) -> char {
    match n {
        0 => ' ',
        1..10 => '·',
        10..100 => '░',
        100..1000 => '▒',
        1000..10_000 => '▓',
        _ => '█',
    }
}
