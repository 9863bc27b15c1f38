//! Latency distributions, as text: histograms on log scales, their peaks numbered (T08 figure 3.4).

use wakepath_distribution::{BUCKETS, average_latency};
use wakepath_engine::latency::{Distribution, EndReason, Latency, Of, Slice};

use crate::plain::escape;
use crate::quantity::{duration, share};
use crate::screen::{Line, Paper, Screen, Style};

/// Columns of the longest bar.
const WIDEST: usize = 40;

/// Each target's histogram, and how it changed where that was asked for.
pub fn latency(latency: &Latency, paper: Paper) -> String {
    let mut screen = Screen::new(paper);
    for (index, target) in latency.targets.iter().enumerate() {
        if index > 0 {
            screen.blank();
        }
        head(target, latency, &mut screen);
        if target.histogram.is_empty() {
            continue;
        }
        buckets(target, paper, &mut screen);
        peaks(target, &mut screen);
        if !target.slices.is_empty() {
            screen.blank();
            over_time(target, &mut screen);
        }
    }
    if latency.reason == EndReason::Interrupted {
        screen.blank();
        screen.wrapped(0, &Line::new().add(Style::Faint, "ended before its time, as asked"));
    }
    screen.into_text()
}

fn noun(of: Of) -> &'static str {
    match of {
        Of::Calls => "call",
        Of::Waits => "wait for a CPU",
        Of::Requests => "request",
    }
}

fn counted(n: u64, of: Of) -> String {
    match (of, n) {
        (Of::Waits, n) if n != 1 => format!("{} waits for a CPU", grouped(n)),
        (Of::Calls | Of::Requests, n) if n != 1 => format!("{} {}s", grouped(n), noun(of)),
        _ => format!("{} {}", grouped(n), noun(of)),
    }
}

fn head(target: &Distribution, latency: &Latency, screen: &mut Screen) {
    let histogram = &target.histogram;
    let ns = u64::try_from(latency.elapsed.as_nanos()).unwrap_or(u64::MAX);
    let mut text = format!(": {} in {}", counted(histogram.calls(), target.of), duration(ns));
    if let Some(mean) = histogram.mean() {
        let sum = u64::try_from(histogram.sum()).unwrap_or(u64::MAX);
        text.push_str(&format!(", {} in all, {} on average", duration(sum), duration(mean as u64)));
    }
    let line = Line::new().add(Style::Strong, escape(target.target.as_bytes())).add(Style::Normal, text);
    screen.hanging(&Line::new(), 0, &line);
    for note in &target.notes {
        screen.hanging(&Line::from("  "), 4, &Line::new().add(Style::Faint, escape(note.as_bytes())));
    }
    if let Some(probe) = target.probe {
        let text = format!(
            "probes cost about {} a call here, of which {} are counted as latency: that shifts what is below bucket {}",
            duration(probe.per_call_ns),
            duration(probe.shift_ns),
            probe.from_bucket,
        );
        screen.hanging(&Line::from("  "), 4, &Line::new().add(Style::Faint, text));
    }
    for (n, what) in [
        (target.open, "had not ended"),
        (target.left, "left without returning"),
        (target.crowded, "not counted: too many at once, or too deep in themselves"),
    ] {
        if n > 0 {
            let text = format!("{}: {what}", counted(n, target.of));
            screen.hanging(&Line::from("  "), 4, &Line::new().add(Style::Warning, text));
        }
    }
}

fn buckets(target: &Distribution, paper: Paper, screen: &mut Screen) {
    let counts = target.histogram.counts();
    let used = counts.iter().position(|&n| n > 0).unwrap_or(0)
        ..counts.iter().rposition(|&n| n > 0).map_or(0, |last| last + 1);
    let most = counts.iter().copied().max().unwrap_or(0);
    let digits = grouped(most).len().max("count".len());
    // What stands before the bars.
    let before = 26 + digits;
    let widest = paper.width.saturating_sub(before).clamp(8, WIDEST);
    screen.unwrapped(
        &Line::new().add(Style::Faint, format!("peak  bucket  average  {:>digits$}  log scale", "count")),
    );
    for bucket in used {
        let n = counts[bucket];
        let peak = target.peaks.iter().position(|peak| (peak.from_bucket..=peak.to_bucket).contains(&bucket));
        let peak = peak.map_or_else(String::new, |peak| (peak + 1).to_string());
        let average = duration(average_latency(bucket) as u64);
        let line = Line::new()
            .add(Style::Strong, format!("{peak:>4}"))
            .add(Style::Normal, format!("  {bucket:>6}  {average:>7}  {:>digits$}  ", grouped(n)))
            .add(Style::Normal, bar(n, most, widest));
        screen.unwrapped(&line);
    }
}

/// What each peak's part is: of the number, and of the time by its buckets' averages.
fn peaks(target: &Distribution, screen: &mut Screen) {
    let counts = target.histogram.counts();
    let time = |buckets: std::ops::RangeInclusive<usize>| {
        buckets.map(|bucket| counts[bucket] as f64 * average_latency(bucket)).sum::<f64>() as u64
    };
    let all = time(0..=BUCKETS - 1);
    for (index, peak) in target.peaks.iter().enumerate().filter(|_| target.peaks.len() > 1) {
        let part = time(peak.from_bucket..=peak.to_bucket);
        let text = format!(
            "{} ({}), about {} ({})",
            counted(peak.count, target.of),
            share(peak.count, target.histogram.calls()),
            duration(part),
            share(part, all),
        );
        let head = Line::new().add(Style::Strong, format!("peak {}: ", index + 1));
        screen.hanging(&head, 8, &Line::from(text));
    }
}

/// A bar whose length is the logarithm of the count: one call is seen, and none is none.
fn bar(n: u64, most: u64, widest: usize) -> String {
    if n == 0 {
        return String::new();
    }
    // One call is one step, so that twice as many are a step of the same length everywhere.
    let length = |n: u64| (n as f64).log2() + 1.0;
    let eighths = (length(n) / length(most) * widest as f64 * 8.0).round().max(1.0) as usize;
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    "█".repeat(eighths / 8) + rest[eighths % 8]
}

/// A row a slice, a column a bucket: how dark it is says how many (T08 figure 7.3).
fn over_time(target: &Distribution, screen: &mut Screen) {
    let counts = target.histogram.counts();
    let first = counts.iter().position(|&n| n > 0).unwrap_or(0);
    let last = counts.iter().rposition(|&n| n > 0).unwrap_or(0);
    screen.unwrapped(&Line::new().add(
        Style::Faint,
        format!(
            "over time; columns: buckets {first} ({}) to {last} ({}); · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more",
            duration(average_latency(first) as u64),
            duration(average_latency(last) as u64),
        ),
    ));
    for Slice { from, histogram, .. } in &target.slices {
        let at = u64::try_from(from.as_nanos()).unwrap_or(u64::MAX);
        let cells: String =
            histogram.counts()[first..=last.min(BUCKETS - 1)].iter().map(|&n| cell(n)).collect();
        let line = Line::new()
            .add(Style::Faint, format!("{:>9} ", format!("+{}", duration(at))))
            .add(Style::Normal, cells)
            .add(Style::Faint, format!("  {}", counted(histogram.calls(), target.of)));
        screen.unwrapped(&line);
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

/// A number in groups of three digits.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::{Expect, expect};
    use wakepath_distribution::{Histogram, Unit, peaks};
    use wakepath_engine::latency::ProbeCost;

    use super::*;

    fn histogram(counts: &[(usize, u64)]) -> Histogram {
        let mut buckets = [0; BUCKETS];
        let mut sum = 0;
        for &(bucket, count) in counts {
            buckets[bucket] = count;
            sum += u128::from(count) << bucket;
        }
        Histogram::from_counters(Unit::Nanoseconds, buckets, sum)
    }

    fn distribution(target: &str, of: Of, counts: &[(usize, u64)]) -> Distribution {
        let histogram = histogram(counts);
        Distribution {
            target: target.to_owned(),
            of,
            peaks: peaks(&histogram),
            histogram,
            slices: Vec::new(),
            left: 0,
            crowded: 0,
            open: 0,
            probe: None,
            notes: Vec::new(),
        }
    }

    fn check(targets: Vec<Distribution>, paper: Paper, expected: &Expect) {
        let found = Latency {
            elapsed: Duration::from_secs(5),
            reason: EndReason::Duration,
            status: None,
            running: None,
            targets,
        };
        expected.assert_eq(&latency(&found, paper));
    }

    #[test]
    fn peaks_are_numbered_beside_their_buckets_and_bars_are_logarithms() {
        let mut read = distribution(
            "syscall:read",
            Of::Calls,
            &[(8, 12), (9, 1203), (10, 24_000), (11, 700), (12, 3), (20, 30), (21, 130), (22, 4)],
        );
        read.open = 1;
        check(
            vec![read],
            Paper::PLAIN,
            &expect![[r#"
            syscall:read: 26 082 calls in 5.00 s, 348 ms in all, 13.3 µs on average
                1 call: had not ended
            peak  bucket  average   count  log scale
               1       8   384 ns      12  ███████████▊
               1       9   768 ns   1 203  ████████████████████████████▉
               1      10  1.54 µs  24 000  ████████████████████████████████████████
               1      11  3.07 µs     700  ██████████████████████████▉
               1      12  6.14 µs       3  ██████▋
                      13  12.3 µs       0
                      14  24.6 µs       0
                      15  49.2 µs       0
                      16  98.3 µs       0
                      17   197 µs       0
                      18   393 µs       0
                      19   786 µs       0
               2      20  1.57 ms      30  ███████████████▎
               2      21  3.15 ms     130  ████████████████████▋
               2      22  6.29 ms       4  ███████▊
            peak 1: 25 918 calls (99.4%), about 40.0 ms (7.7%)
            peak 2: 164 calls (0.6%), about 481 ms (92.3%)
        "#]],
        );
    }

    #[test]
    fn over_time_a_row_a_slice_says_how_many() {
        let mut disk = distribution("disk", Of::Requests, &[(14, 2000), (17, 1)]);
        let slice = |from: u64, counts: &[(usize, u64)]| Slice {
            from: Duration::from_millis(from),
            to: Duration::from_millis(from + 2500),
            histogram: histogram(counts),
        };
        disk.slices = vec![slice(0, &[(14, 1990)]), slice(2500, &[(14, 10), (17, 1)])];
        check(
            vec![disk],
            Paper::PLAIN,
            &expect![[r#"
            disk: 2 001 requests in 5.00 s, 32.9 ms in all, 16.4 µs on average
            peak  bucket  average  count  log scale
               1      14  24.6 µs  2 000  ████████████████████████████████████████
                      15  49.2 µs      0
                      16  98.3 µs      0
                      17   197 µs      1  ███▍

            over time; columns: buckets 14 (24.6 µs) to 17 (197 µs); · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more
                +0 ns ▓     1 990 requests
              +2.50 s ░  ·  11 requests
        "#]],
        );
    }

    #[test]
    fn of_nothing_there_is_no_histogram_and_names_cannot_drive_a_terminal() {
        let mut none = distribution("./a\u{1b}[2J:f", Of::Calls, &[]);
        none.left = 2;
        none.probe = Some(ProbeCost { per_call_ns: 1100, shift_ns: 480, from_bucket: 10 });
        none.notes = vec![String::from("never returns\u{7}")];
        check(
            vec![none],
            Paper { width: 60, colour: false },
            &expect![[r#"
            ./a\x1b[2J:f: 0 calls in 5.00 s
                never returns\x07
                probes cost about 1.10 µs a call here, of which 480 ns
                are counted as latency: that shifts what is below bucket
                10
                2 calls: left without returning
        "#]],
        );
    }

    #[test]
    fn narrow_paper_has_shorter_bars() {
        let waits = distribution("runqueue", Of::Waits, &[(11, 1), (12, 800)]);
        check(
            vec![waits],
            Paper { width: 44, colour: false },
            &expect![[r#"
            runqueue: 801 waits for a CPU in 5.00 s,
            3.28 ms in all, 4.09 µs on average
            peak  bucket  average  count  log scale
               1      11  3.07 µs      1  █▎
               1      12  6.14 µs    800  █████████████
        "#]],
        );
    }
}
