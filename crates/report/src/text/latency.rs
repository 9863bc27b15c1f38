//! Latency distributions, as text: histograms on log scales, their peaks numbered (T08 figure 3.4).

use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use wakepath_distribution::{BUCKETS, Histogram, Unit, average_latency};
use wakepath_engine::groups::MAX_GROUP_SLICES;
#[cfg(feature = "collect")]
use wakepath_engine::latency::{EndReason, Latency};
use wakepath_engine::{Distribution, Elsewhere, Of, Slice};

use crate::plain::escape;
use crate::quantity::{amount, duration, share};
use crate::screen::{Line, Paper, Screen, Style};

mod groups;

/// Columns of the longest bar.
const MAX_WIDTH: usize = 40;

/// Each target's histogram, and how it changed where that was asked for.
#[cfg(feature = "collect")]
pub fn latency(latency: &Latency, paper: Paper) -> String {
    let mut screen = Screen::new(paper);
    distributions(&latency.targets, latency.elapsed, paper, &mut screen);
    if latency.reason == EndReason::Interrupted {
        screen.blank();
        screen.wrapped(0, &Line::new().add(Style::Faint, "ended before its time, as asked"));
    }
    screen.into_text()
}

/// The targets' histograms, counted over so much time.
pub(super) fn distributions(targets: &[Distribution], elapsed: Duration, paper: Paper, screen: &mut Screen) {
    for (index, target) in targets.iter().enumerate() {
        if index > 0 {
            screen.blank();
        }
        let told = |file: &Elsewhere| {
            targets[..index].iter().flat_map(|other| &other.elsewhere).any(|other| other.file == file.file)
        };
        head(target, elapsed, target.elsewhere.as_ref().filter(|file| !told(file)), screen);
        if target.histogram.is_empty() {
            continue;
        }
        buckets(target, paper, screen);
        peaks(target, screen);
        if !target.slices.is_empty() {
            screen.blank();
            over_time(target, screen);
        }
        if let Some(groups) = &target.groups {
            screen.blank();
            groups::by_whom(groups, target, screen);
        }
    }
}

/// One, and several.
const fn nouns(of: Of) -> (&'static str, &'static str) {
    match of {
        Of::Calls => ("call", "calls"),
        Of::Waits => ("wait for a CPU", "waits for a CPU"),
        Of::Requests => ("request", "requests"),
        Of::Blocked => ("wait", "waits"),
        Of::Locks => ("wait for a lock", "waits for locks"),
        Of::Segments => ("segment", "segments"),
    }
}

fn counted(n: u64, of: Of) -> String {
    let (one, several) = nouns(of);
    format!("{} {}", grouped(n), if n == 1 { one } else { several })
}

/// `others`: who else pays, where that has not been told of the file before.
fn head(target: &Distribution, elapsed: Duration, others: Option<&Elsewhere>, screen: &mut Screen) {
    let histogram = &target.histogram;
    let unit = histogram.unit();
    let ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    let mut text = format!(": {} in {}", counted(histogram.calls(), target.of), duration(ns));
    if let Some(mean) = histogram.mean() {
        let sum = u64::try_from(histogram.sum()).unwrap_or(u64::MAX);
        text.push_str(&format!(", {} in all, {} on average", amount(sum, unit), amount(mean as u64, unit)));
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
            amount(probe.shift, unit),
            probe.from_bucket,
        );
        screen.hanging(&Line::from("  "), 4, &Line::new().add(Style::Faint, text));
    }
    if let Some(others) = others {
        screen.hanging(&Line::from("  "), 4, &Line::new().add(Style::Faint, elsewhere(others)));
    }
    for (n, what) in [
        (target.open, "had not ended"),
        (target.unwound, "left without returning"),
        (target.overflowed, "not counted: too many at once, or too deep in themselves"),
        (target.unseen, "not counted: it was not seen where they began, or ended"),
    ] {
        if n > 0 {
            let text = format!("{}: {what}", counted(n, target.of));
            screen.hanging(&Line::from("  "), 4, &Line::new().add(Style::Warning, text));
        }
    }
}

/// Who else pays for probes.
pub fn elsewhere(Elsewhere { processes, file, per_call_ns }: &Elsewhere) -> String {
    let name = escape(file.file_name().unwrap_or(file.as_os_str()).as_bytes());
    let others = match processes {
        1 => String::from("1 other process"),
        several => format!("{} other processes", grouped(*several as u64)),
    };
    let cost = per_call_ns.map_or_else(String::new, |cost| format!("about {} ", duration(cost)));
    format!("probes of {name} stand in {others} too: each call there costs {cost}more")
}

fn buckets(target: &Distribution, paper: Paper, screen: &mut Screen) {
    let counts = target.histogram.counts();
    let used = counts.iter().position(|&n| n > 0).unwrap_or(0)
        ..counts.iter().rposition(|&n| n > 0).map_or(0, |last| last + 1);
    let most = counts.iter().copied().max().unwrap_or(0);
    let unit = target.histogram.unit();
    let wide = match unit {
        Unit::Nanoseconds => 7,
        Unit::Cycles => 12,
    };
    let digits = grouped(most).len().max("count".len());
    // What stands before the bars.
    let before = 19 + wide + digits;
    let widest = paper.width.saturating_sub(before).clamp(8, MAX_WIDTH);
    screen.unwrapped(
        &Line::new().add(
            Style::Faint,
            format!("peak  bucket  {:>wide$}  {:>digits$}  log scale", "average", "count"),
        ),
    );
    for bucket in used {
        let n = counts[bucket];
        let peak = target.peaks.iter().position(|peak| (peak.from_bucket..=peak.to_bucket).contains(&bucket));
        let peak = peak.map_or_else(String::new, |peak| (peak + 1).to_string());
        let average = amount(average_latency(bucket) as u64, unit);
        let line = Line::new()
            .add(Style::Strong, format!("{peak:>4}"))
            .add(Style::Normal, format!("  {bucket:>6}  {average:>wide$}  {:>digits$}  ", grouped(n)))
            .add(Style::Normal, bar(n, most, widest));
        screen.unwrapped(&line);
    }
}

/// What each peak's part is: of the number, and of the time by its buckets' averages.
fn peaks(target: &Distribution, screen: &mut Screen) {
    let counts = target.histogram.counts();
    let time = |buckets: RangeInclusive<usize>| {
        buckets.map(|bucket| counts[bucket] as f64 * average_latency(bucket)).sum::<f64>() as u64
    };
    let all = time(0..=BUCKETS - 1);
    for (index, peak) in target.peaks.iter().enumerate().filter(|_| target.peaks.len() > 1) {
        let part = time(peak.from_bucket..=peak.to_bucket);
        let text = format!(
            "{} ({}), about {} ({})",
            counted(peak.count, target.of),
            share(peak.count, target.histogram.calls()),
            amount(part, target.histogram.unit()),
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
    let columns = Columns::of(&target.histogram);
    screen.unwrapped(&Line::new().add(Style::Faint, format!("over time; {}", columns.legend())));
    for Slice { from, histogram, .. } in &target.slices {
        let at = u64::try_from(from.as_nanos()).unwrap_or(u64::MAX);
        let line = Line::new()
            .add(Style::Faint, format!("{:>9} ", format!("+{}", duration(at))))
            .add(Style::Normal, columns.cells(histogram))
            .add(Style::Faint, format!("  {}", counted(histogram.calls(), target.of)))
            .add(Style::Normal, groups::mostly_whose(target, *from));
        screen.unwrapped(&line);
    }
    if groups::parts_are_unknown(target) {
        let text =
            format!("whose they were when is not told: these would be more than {MAX_GROUP_SLICES} parts");
        screen.hanging(&Line::from("  "), 4, &Line::new().add(Style::Warning, text));
    }
}

/// A column a bucket, from the first to the last that holds something.
struct Columns(RangeInclusive<usize>, Unit);

impl Columns {
    fn of(whole: &Histogram) -> Self {
        let counts = whole.counts();
        let first = counts.iter().position(|&n| n > 0).unwrap_or(0);
        let last = counts.iter().rposition(|&n| n > 0).unwrap_or(0);
        Self(first..=last.min(BUCKETS - 1), whole.unit())
    }

    fn legend(&self) -> String {
        let (first, last) = (self.0.start(), self.0.end());
        format!(
            "columns: buckets {first} ({}) to {last} ({}); · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more",
            amount(average_latency(*first) as u64, self.1),
            amount(average_latency(*last) as u64, self.1),
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

#[cfg(all(test, feature = "collect"))]
mod tests {
    use expect_test::{Expect, expect};
    use wakepath_distribution::peaks;
    use wakepath_engine::ProbeCost;
    use wakepath_engine::groups::{Group, GroupBy, Groups, Who};

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
            groups: None,
            unwound: 0,
            overflowed: 0,
            open: 0,
            unseen: 0,
            probe: None,
            elsewhere: None,
            notes: Vec::new(),
        }
    }

    fn check(targets: Vec<Distribution>, paper: Paper, expected: &Expect) {
        let found = Latency {
            host: wakepath_engine::Host::default(),
            began_realtime_ns: None,
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
    fn whose_they_are_is_a_row_each_with_those_that_are_many_taken_together() {
        let mut read = distribution("syscall:read", Of::Calls, &[(9, 1210), (12, 4)]);
        let group = |who, counts: &[(usize, u64)]| Group {
            who,
            histogram: histogram(counts),
            peaks: Vec::new(),
            slices: Vec::new(),
            unwound: 0,
            overflowed: 0,
        };
        let thread = |tid, pid, comm: &[u8]| Who::Thread {
            tid,
            pid: Some(pid),
            start_ns: 1,
            comm: Some(Box::from(comm)),
        };
        let mut groups = vec![
            group(thread(8, 7, b"a\x1b[2J"), &[(9, 1000), (12, 4)]),
            group(thread(7, 7, b"main"), &[(9, 100)]),
        ];
        groups.extend((10..20).map(|tid| group(thread(tid, 7, b"one"), &[(9, 10)])));
        groups.push(group(thread(20, 7, b"none"), &[]));
        groups.push(group(Who::Others, &[(9, 10)]));
        let slice = |from: u64, counts: &[(usize, u64)]| Slice {
            from: Duration::from_millis(from),
            to: Duration::from_millis(from + 2500),
            histogram: histogram(counts),
        };
        read.slices = vec![slice(0, &[(9, 600), (12, 4)]), slice(2500, &[(9, 610)])];
        groups[0].slices = vec![slice(0, &[(9, 500), (12, 4)]), slice(2500, &[(9, 500)])];
        groups[1].slices = vec![slice(0, &[(9, 100)])];
        read.open = 2;
        read.groups = Some(Groups { by: GroupBy::Thread, groups });
        check(
            vec![read],
            Paper::PLAIN,
            &expect![[r#"
                syscall:read: 1 214 calls in 5.00 s, 636 µs in all, 523 ns on average
                    2 calls: had not ended
                peak  bucket  average  count  log scale
                   1       9   768 ns  1 210  ████████████████████████████████████████
                          10  1.54 µs      0
                          11  3.07 µs      0
                          12  6.14 µs      4  ██████████▋

                over time; columns: buckets 9 (768 ns) to 12 (6.14 µs); · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more
                    +0 ns ▒  ·  604 calls, 84.2% of the time a\x1b[2J (8, of process 7)
                  +2.50 s ▒     610 calls, 82.0% of the time a\x1b[2J (8, of process 7)

                by thread, most time first; columns: buckets 9 (768 ns) to 12 (6.14 µs); · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more
                   528 µs   83.1%  ▓  ·  a\x1b[2J (8, of process 7)  1 004 calls
                  51.2 µs    8.1%  ▒     main (7)  100 calls
                  5.12 µs    0.8%  ░     one (10, of process 7)  10 calls
                  5.12 µs    0.8%  ░     one (11, of process 7)  10 calls
                  5.12 µs    0.8%  ░     one (12, of process 7)  10 calls
                  5.12 µs    0.8%  ░     one (13, of process 7)  10 calls
                  5.12 µs    0.8%  ░     one (14, of process 7)  10 calls
                  5.12 µs    0.8%  ░     one (15, of process 7)  10 calls
                  5.12 µs    0.8%  ░     one (16, of process 7)  10 calls
                  5.12 µs    0.8%  ░     one (17, of process 7)  10 calls
                  10.2 µs    1.6%  20 calls in 2 threads more: --json has them
                  5.12 µs    0.8%  10 calls after there was no room for more than 16384, whoever's
                not told by thread: 2 calls that had not ended
            "#]],
        );
    }

    #[test]
    fn of_nothing_there_is_no_histogram_and_names_cannot_drive_a_terminal() {
        let mut none = distribution("./a\u{1b}[2J:f", Of::Calls, &[]);
        none.unwound = 2;
        none.probe = Some(ProbeCost { per_call_ns: 1100, shift: 480, from_bucket: 10 });
        none.notes = vec![String::from("never returns\u{7}")];
        none.elsewhere =
            Some(Elsewhere { processes: 1041, file: "/lib/li\u{1b}b.so.6".into(), per_call_ns: Some(900) });
        // Of the same file: what that costs others was said.
        let mut other = none.clone();
        (other.unwound, other.probe, other.notes) = (0, None, Vec::new());
        check(
            vec![none, other],
            Paper { width: 60, colour: false },
            &expect![[r#"
                ./a\x1b[2J:f: 0 calls in 5.00 s
                    never returns\x07
                    probes cost about 1.10 µs a call here, of which 480 ns
                    are counted as latency: that shifts what is below bucket
                    10
                    probes of li\x1bb.so.6 stand in 1 041 other processes
                    too: each call there costs about 900 ns more
                    2 calls: left without returning

                ./a\x1b[2J:f: 0 calls in 5.00 s
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
