//! Latency distributions counted live, as text.

use wakepath_engine::latency::live::{EndReason, LiveLatency};

use super::distributions;
use crate::screen::{Layout, Line, Screen};
use crate::text::refused;

/// Each target's histogram, and its changes over time if requested.
pub fn live_latency(latency: &LiveLatency, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    distributions(&latency.targets, latency.elapsed, layout, &mut screen);
    let refused = refused(&latency.refused);
    if !refused.is_empty() {
        screen.blank();
    }
    for sentence in refused {
        screen.wrapped(0, Line::faint(sentence));
    }
    if latency.reason == EndReason::Interrupted {
        screen.blank();
        screen.wrapped(0, Line::faint("interrupted before the time was over"));
    }
    screen.into_text()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use expect_test::{Expect, expect};

    use wakepath_engine::latency::{
        Distribution, GroupBy, GroupKey, Groups, LatencySource, OtherProcesses, ProbeCost, RemovedProbes,
        TimeSlice,
    };

    use super::*;
    use crate::sample::{self, group, histogram};

    /// Latency counts by each bucket's smallest latency, ns.
    fn counts_by_latency(counts: &[(usize, u64)]) -> Vec<(u64, u64)> {
        counts.iter().map(|&(bucket, count)| (1 << bucket, count)).collect()
    }

    /// A slice with a length of 2.5 s, from `from` ms on.
    fn slice(from: u64, counts: &[(usize, u64)]) -> TimeSlice {
        sample::slice(from * 1_000_000, (from + 2500) * 1_000_000, &counts_by_latency(counts))
    }

    fn distribution(target: &str, source: LatencySource, counts: &[(usize, u64)]) -> Distribution {
        Distribution::new(target.to_owned(), source, histogram(&counts_by_latency(counts)))
    }

    fn check(targets: Vec<Distribution>, layout: Layout, expected: &Expect) {
        expected.assert_eq(&live_latency(&sample::live(targets), layout));
    }

    #[test]
    fn peaks_are_numbered_beside_their_buckets_and_bars_are_logarithms() {
        let mut read = distribution(
            "syscall:read",
            LatencySource::Calls,
            &[(8, 12), (9, 1203), (10, 24_000), (11, 700), (12, 3), (20, 30), (21, 130), (22, 4)],
        );
        read.open = 1;
        check(
            vec![read],
            Layout::PLAIN,
            &expect![[r#"
                syscall:read: 26,082 calls in 5.00 s, 348 ms in all, 13.3 µs on average
                    1 call had not ended
                peak            latency   count  log scale
                   1      256 to 511 ns      12  ███████████▊
                   1  512 ns to 1.02 µs   1,203  ████████████████████████████▉
                   1    1.02 to 2.05 µs  24,000  ████████████████████████████████████████
                   1    2.05 to 4.09 µs     700  ██████████████████████████▉
                   1    4.10 to 8.19 µs       3  ██████▋
                        8.19 to 16.4 µs       0
                        16.4 to 32.8 µs       0
                        32.8 to 65.5 µs       0
                         65.5 to 131 µs       0
                          131 to 262 µs       0
                          262 to 524 µs       0
                      524 µs to 1.05 ms       0
                   2    1.05 to 2.10 ms      30  ███████████████▎
                   2    2.10 to 4.19 ms     130  ████████████████████▋
                   2    4.19 to 8.39 ms       4  ███████▊
                p50 1.02 to 2.05 µs, p90 1.02 to 2.05 µs, p99 2.05 to 4.09 µs, p99.9 2.10 to 4.19 ms
                peak 1: 25,918 calls (99.4%), about 26.6 ms (7.7%)
                peak 2: 164 calls (0.6%), about 321 ms (92.3%)
            "#]],
        );
    }

    #[test]
    fn a_function_without_probes_was_counted_until_they_were_removed() {
        let removed = |after, budget| {
            let mut found = distribution("./app:f", LatencySource::Calls, &[(13, 2002)]);
            found.removed =
                Some(RemovedProbes { after, calls: 2026, per_call_ns: 10_400, share: 0.5163, budget });
            found
        };
        let found = vec![removed(Duration::from_micros(20_300), 0.05), removed(Duration::ZERO, 0.001)];
        check(
            found,
            Layout { width: 300, colour: false },
            &expect![[r#"
            ./app:f: 2,002 calls in 20.3 ms, 16.4 ms in all, 8.19 µs on average
                its probes were removed after 20.3 ms: each of 2,026 calls took 10.4 µs longer, 51.6% of the machine's time; --budget allows more than 5%
            peak          latency  count  log scale
               1  8.19 to 16.4 µs  2,002  ████████████████████████████████████████
            p50 8.19 to 16.4 µs, p90 8.19 to 16.4 µs, p99 8.19 to 16.4 µs

            ./app:f: 2,002 calls in 0 ns, 16.4 ms in all, 8.19 µs on average
                its probes were removed before counting began: each of 2,026 calls took 10.4 µs longer, 51.6% of the machine's time; --budget allows more than 0.1%
            peak          latency  count  log scale
               1  8.19 to 16.4 µs  2,002  ████████████████████████████████████████
            p50 8.19 to 16.4 µs, p90 8.19 to 16.4 µs, p99 8.19 to 16.4 µs
        "#]],
        );
    }

    #[test]
    fn each_time_slice_is_a_row_with_its_counts() {
        let mut disk = distribution("disk", LatencySource::DiskRequests, &[(14, 2000), (17, 1)]);
        disk.slices = vec![slice(0, &[(14, 1990)]), slice(2500, &[(14, 10), (17, 1)])];
        check(
            vec![disk],
            Layout::PLAIN,
            &expect![[r#"
                disk: 2,001 requests in 5.00 s, 32.9 ms in all, 16.4 µs on average
                peak          latency  count  log scale
                   1  16.4 to 32.8 µs  2,000  ████████████████████████████████████████
                      32.8 to 65.5 µs      0
                       65.5 to 131 µs      0
                        131 to 262 µs      1  ███▍
                p50 16.4 to 32.8 µs, p90 16.4 to 32.8 µs, p99 16.4 to 32.8 µs

                over time; columns: buckets from 16.4 µs to 262 µs; · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more
                    +0 ns ▓     1,990 requests
                  +2.50 s ░  ·  11 requests
            "#]],
        );
    }

    #[test]
    fn each_group_is_a_row_and_many_small_ones_are_taken_together() {
        let mut read = distribution("syscall:read", LatencySource::Calls, &[(9, 1210), (12, 4)]);
        let group = |key, counts: &[(usize, u64)]| group(key, &counts_by_latency(counts));
        let thread = |tid, pid, comm: &[u8]| GroupKey::Thread {
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
        groups.push(group(GroupKey::Others, &[(9, 10)]));
        read.slices = vec![slice(0, &[(9, 600), (12, 4)]), slice(2500, &[(9, 610)])];
        groups[0].slices = vec![slice(0, &[(9, 500), (12, 4)]), slice(2500, &[(9, 500)])];
        groups[1].slices = vec![slice(0, &[(9, 100)])];
        read.open = 2;
        read.groups = Some(Groups { by: GroupBy::Thread, groups });
        check(
            vec![read],
            Layout::PLAIN,
            &expect![[r#"
                syscall:read: 1,214 calls in 5.00 s, 636 µs in all, 523 ns on average
                    2 calls had not ended
                peak            latency  count  log scale
                   1  512 ns to 1.02 µs  1,210  ████████████████████████████████████████
                        1.02 to 2.05 µs      0
                        2.05 to 4.09 µs      0
                        4.10 to 8.19 µs      4  ██████████▋
                p50 512 ns to 1.02 µs, p90 512 ns to 1.02 µs, p99 512 ns to 1.02 µs

                over time; columns: buckets from 512 ns to 8.19 µs; · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more
                    +0 ns ▒  ·  604 calls, 84.2% of the time in a\x1b[2J (8, of process 7)
                  +2.50 s ▒     610 calls, 82.0% of the time in a\x1b[2J (8, of process 7)

                by thread, most time first; columns: buckets from 512 ns to 8.19 µs; · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more
                   528 µs   83.1%  ▓  ·  a\x1b[2J (8, of process 7)  1,004 calls
                  51.2 µs    8.1%  ▒     main (7)  100 calls
                  5.12 µs    0.8%  ░     one (10, of process 7)  10 calls
                  5.12 µs    0.8%  ░     one (11, of process 7)  10 calls
                  5.12 µs    0.8%  ░     one (12, of process 7)  10 calls
                  5.12 µs    0.8%  ░     one (13, of process 7)  10 calls
                  5.12 µs    0.8%  ░     one (14, of process 7)  10 calls
                  5.12 µs    0.8%  ░     one (15, of process 7)  10 calls
                  5.12 µs    0.8%  ░     one (16, of process 7)  10 calls
                  5.12 µs    0.8%  ░     one (17, of process 7)  10 calls
                  10.2 µs    1.6%  20 calls in 2 more threads: --json has them
                  5.12 µs    0.8%  10 calls in threads that came after the first 16384
                not grouped by thread: 2 calls that had not ended
            "#]],
        );
    }

    #[test]
    fn many_targets_are_shown_by_their_time_if_they_have_calls() {
        let calls = |name: &str, counts: &[(usize, u64)]| distribution(name, LatencySource::Calls, counts);
        let mut targets = vec![calls("syscall:read", &[(9, 3)]), calls("syscall:write", &[(9, 4)])];
        targets.extend((2..16).map(|n| calls(&format!("syscall:{n}"), &[])));
        let shown = live_latency(&sample::live(targets.clone()), Layout::PLAIN);
        assert_eq!(shown.matches(" in 5.00 s").count(), 16, "{shown}");
        assert!(shown.starts_with("syscall:read"), "{shown}");
        targets.push(calls("syscall:exit", &[]));
        targets[16].open = 2;
        check(
            targets,
            Layout::PLAIN,
            &expect![[r#"
            most time first: 3 of 17 targets, nothing came for the others

            syscall:write: 4 calls in 5.00 s, 2.05 µs in all, 512 ns on average
            peak            latency  count  log scale
               1  512 ns to 1.02 µs      4  ████████████████████████████████████████

            syscall:read: 3 calls in 5.00 s, 1.54 µs in all, 512 ns on average
            peak            latency  count  log scale
               1  512 ns to 1.02 µs      3  ████████████████████████████████████████

            syscall:exit: 0 calls in 5.00 s
                2 calls had not ended
        "#]],
        );
    }

    #[test]
    fn percentiles_have_the_buckets_that_chance_leaves_open() {
        let check = |counts, expected: &Expect| {
            let reads = distribution("syscall:read", LatencySource::Calls, counts);
            let shown = live_latency(&sample::live(vec![reads]), Layout::PLAIN);
            let from = shown.find("p50 ").unwrap_or(shown.len());
            expected.assert_eq(&shown[from..]);
        };
        check(&[(9, 5)], &expect![[r#""#]]);
        check(
            &[(9, 6)],
            &expect![[r#"
            p50 512 ns to 1.02 µs
        "#]],
        );
        check(
            &[(9, 990), (20, 10)],
            &expect![[r#"
            p50 512 ns to 1.02 µs, p90 512 ns to 1.02 µs, p99 512 ns to 1.02 µs (by chance 512 ns to 2.10 ms)
            peak 1: 990 calls (99.0%), about 507 µs (4.6%)
            peak 2: 10 calls (1.0%), about 10.5 ms (95.4%)
        "#]],
        );
        check(
            &[(9, 9_000), (10, 990), (11, 9), (20, 1)],
            &expect![[r#"
            p50 512 ns to 1.02 µs, p90 512 ns to 1.02 µs (by chance 512 ns to 2.05 µs), p99 1.02 to 2.05 µs,
                p99.9 1.02 to 2.05 µs (by chance 1.02 to 4.09 µs)
        "#]],
        );
    }

    #[test]
    fn a_target_without_calls_has_no_histogram_and_names_cannot_drive_a_terminal() {
        let mut none = distribution("./a\u{1b}[2J:f", LatencySource::Calls, &[]);
        none.unwound = 2;
        none.probe = Some(ProbeCost { per_call_ns: 1100, shift: 480, from_bucket: 10 });
        none.notes = vec![String::from("never returns\u{7}")];
        none.other_processes = Some(OtherProcesses {
            processes: 1041,
            file: "/lib/li\u{1b}b.so.6".into(),
            per_call_ns: Some(900),
        });
        // The same file: its other processes are shown once.
        let mut other = none.clone();
        (other.unwound, other.probe, other.notes) = (0, None, Vec::new());
        check(
            vec![none, other],
            Layout { width: 60, colour: false },
            &expect![[r#"
                ./a\x1b[2J:f: 0 calls in 5.00 s
                    never returns\x07
                    the probes add about 1.10 µs to each call; 480 ns of
                    that is counted as latency, which shifts buckets below
                    1.02 µs
                    the probes in li\x1bb.so.6 are also in 1,041 other
                    processes: each call there takes about 900 ns longer
                    2 calls never returned

                ./a\x1b[2J:f: 0 calls in 5.00 s
            "#]],
        );
    }

    #[test]
    fn narrow_paper_has_shorter_bars() {
        let waits = distribution("runqueue", LatencySource::CpuWaits, &[(11, 1), (12, 800)]);
        check(
            vec![waits],
            Layout { width: 44, colour: false },
            &expect![[r#"
                runqueue: 801 waits for a CPU in 5.00 s,
                3.28 ms in all, 4.09 µs on average
                peak          latency  count  log scale
                   1  2.05 to 4.09 µs      1  █▍
                   1  4.10 to 8.19 µs    800  ██████████████
                p50 4.10 to 8.19 µs, p90 4.10 to 8.19 µs,
                    p99 4.10 to 8.19 µs
            "#]],
        );
    }
}
