//! Latency distributions from a recording, as text.

use std::time::Duration;

use wakepath_engine::latency::recorded::{Population, RecordedLatency};

use super::distributions;
use crate::screen::{Layout, Line, Screen};
use crate::text::{footer, when};
use crate::units::count;
use crate::wording;

/// The most processes named.
const MAX_PROCESSES: usize = 5;

/// The window and the threads, the problems and losses, and each target's histogram.
pub fn recorded_latency(latency: &RecordedLatency, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let head = &latency.head;
    screen.wrapped(0, Line::faint(format!("recorded {}", when(head, latency.from, latency.to))));
    screen.wrapped(0, Line::faint(population(&latency.population, wording::all_threads(&head.problems))));
    footer::problems(&mut screen, head, "--json");
    screen.wrapped(0, footer::losses(head));
    screen.blank();
    let elapsed = Duration::from_nanos(latency.to.since(latency.from));
    distributions(&latency.targets, elapsed, layout, &mut screen);
    screen.into_text()
}

fn population(population: &Population, all: &str) -> String {
    match population {
        Population::All => format!("covers {all}"),
        Population::Command(words) => {
            let words: Vec<_> = words.iter().map(wording::name).collect();
            format!("covers {} and what it started", words.join(" "))
        }
        Population::Processes(processes) => {
            let named = processes.iter().take(MAX_PROCESSES).map(|process| process.number().to_string());
            let mut named: Vec<_> = named.collect();
            if let Some(more @ 1..) = processes.len().checked_sub(MAX_PROCESSES) {
                named.push(format!("{more} more"));
            }
            let (noun, they) = if processes.len() == 1 { ("process", "it") } else { ("processes", "they") };
            format!("covers {noun} {} and what {they} started", named.join(", "))
        }
        Population::Threads(threads) => format!("covers {}", count(*threads as u64, "thread")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use wakepath_engine::latency::recorded::{RecordedQuery, ThreadFilter, recorded_latency as ask};
    use wakepath_engine::{Recorded, Subject, Tid};
    use wakepath_event::{EventKind, Mark};

    use super::*;
    use crate::sample::{CPU_WAITS, latency_query, trace_with};

    fn check(recorded: &Recorded, threads: ThreadFilter, targets: &[&str], expected: &Expect) {
        let every = Some(Duration::from_nanos(4500));
        let query = RecordedQuery { every, ..latency_query(targets, threads) };
        let told = ask(recorded, &query).expect("an answer");
        expected.assert_eq(&recorded_latency(&told, Layout::PLAIN));
    }

    #[test]
    fn the_window_the_threads_and_the_losses_stand_before_the_histograms() {
        let command =
            EventKind::Mark(Mark::Command { tgid: Tid(11), words: b"./b\0--all\x1b".as_slice().into() });
        let recorded = trace_with(CPU_WAITS, &[command]);
        check(
            &recorded,
            ThreadFilter::All,
            &["runqueue"],
            &expect![[r#"
                recorded 0 ns to 9.00 µs after the start
                covers the whole machine
                lost 3 records

                runqueue: 2 waits for a CPU in 9.00 µs, 1.20 µs in all, 600 ns on average
                peak            latency  count  log scale
                   1       64 to 127 ns      1  ████████████████████████████████████████
                   1      128 to 255 ns      0
                   1      256 to 511 ns      0
                   1  512 ns to 1.02 µs      0
                   1    1.02 to 2.05 µs      1  ████████████████████████████████████████

                over time; columns: buckets from 64 ns to 2.05 µs; · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more
                    +0 ns ·   ·  2 waits for a CPU
                 +4.50 µs        0 waits for a CPU
            "#]],
        );
        check(
            &recorded,
            ThreadFilter::Recorded,
            &["disk", "blocked:read"],
            &expect![[r#"
                recorded 0 ns to 9.00 µs after the start
                covers ./b --all\x1b and what it started
                lost 3 records

                disk: 0 requests in 9.00 µs
                    the recording holds no disk requests

                blocked:read: 0 waits in 9.00 µs
                    1 wait had not ended
                    not counted: 1 wait (beginning or end not seen)
            "#]],
        );
        check(
            &recorded,
            ThreadFilter::Processes(vec![Tid(10), Tid(11)]),
            &["lock"],
            &expect![[r#"
                recorded 0 ns to 9.00 µs after the start
                covers processes 10, 11 and what they started
                lost 3 records

                lock: 0 waits for locks in 9.00 µs
                    futexes count only if their word names an owner: mutexes of glibc, and mutexes with priority
                    inheritance
                    kernel locks count only while the waiting thread sleeps: spinning is not recorded
            "#]],
        );
        check(
            &recorded,
            ThreadFilter::Subject(Subject::Tid(Tid(10))),
            &["segment:running"],
            &expect![[r#"
                recorded 0 ns to 9.00 µs after the start
                covers 1 thread
                lost 3 records

                segment:running: 2 segments in 9.00 µs, 7.90 µs in all, 3.95 µs on average
                    2 of all segments of these paths may be of another kind: more than one explanation fits
                peak          latency  count  log scale
                   1  1.02 to 2.05 µs      1  ████████████████████████████████████████
                   1  2.05 to 4.09 µs      0
                   1  4.10 to 8.19 µs      1  ████████████████████████████████████████

                over time; columns: buckets from 1.02 µs to 8.19 µs; · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more
                    +0 ns ·    1 segment
                 +4.50 µs   ·  1 segment
            "#]],
        );
    }
}
