//! Latency distributions from a recording, as text.

use std::time::Duration;

use wakepath_critical_path::Severity;
use wakepath_engine::{OfWhom, RecordedLatency};

use super::latency::distributions;
use super::{footer, when};
use crate::problem::sentence;
use crate::quantity::count;
use crate::screen::{Line, Paper, Screen, Style};
use crate::wording;

/// At most so many problems stand before the distributions.
const PROBLEMS: usize = 5;
/// At most so many processes are named.
const PROCESSES: usize = 5;

/// Of when and of whom they are, what is doubtful about them, and each target's histogram.
pub fn recorded_latency(told: &RecordedLatency, paper: Paper) -> String {
    let mut screen = Screen::new(paper);
    let head = &told.head;
    let text = format!("recorded {}", when(head, told.from, told.to));
    screen.wrapped(0, &Line::new().add(Style::Faint, text));
    screen.wrapped(0, &Line::new().add(Style::Faint, whom(&told.of_whom)));
    let serious: Vec<_> =
        head.problems.iter().filter(|problem| problem.severity() > Severity::Note).collect();
    for problem in serious.iter().take(PROBLEMS) {
        let line = Line::new().add(Style::Warning, "warning: ").add(Style::Normal, sentence(problem));
        screen.wrapped(9, &line);
    }
    if let Some(more @ 1..) = serious.len().checked_sub(PROBLEMS) {
        let text = format!("and {}: --json lists them", count(more as u64, "more warning"));
        screen.wrapped(0, &Line::from(text));
    }
    let style = if head.losses.is_empty() { Style::Faint } else { Style::Warning };
    screen.wrapped(0, &Line::new().add(style, footer::lost(&head.losses)));
    screen.blank();
    let elapsed = Duration::from_nanos(told.to.since(told.from));
    distributions(&told.targets, elapsed, paper, &mut screen);
    screen.into_text()
}

fn whom(whom: &OfWhom) -> String {
    match whom {
        OfWhom::Everyone => String::from("of the whole machine"),
        OfWhom::Command(words) => {
            let words: Vec<_> = words.iter().map(wording::name).collect();
            format!("of {} and what it started", words.join(" "))
        }
        OfWhom::Processes(processes) => {
            let named = processes.iter().take(PROCESSES).map(|process| process.number().to_string());
            let mut named: Vec<_> = named.collect();
            if let Some(more @ 1..) = processes.len().checked_sub(PROCESSES) {
                named.push(format!("{more} more"));
            }
            let (noun, they) = if processes.len() == 1 { ("process", "it") } else { ("processes", "they") };
            format!("of {noun} {} and what {they} started", named.join(", "))
        }
        OfWhom::Threads(threads) => format!("of {}", count(*threads as u64, "thread")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use wakepath_engine::{Algorithm, LatencyQuery, Recorded, Subject, Tid, Whom, recorded_latency as ask};
    use wakepath_event::{EventKind, Mark};

    use super::*;
    use crate::sample::trace_with;

    const TRACE: &str = "
        thread a tid=10
        thread b tid=11 blocked=interruptible call=0:3
           0 c0 idle started
           0 c0 idle switch a
        1000 c0 a    waking b
        1100 c0 a    switch b runnable
        2100 c0 b    loss from=1600 count=3
        2200 c0 b    switch a blocked call=0:3
        9000 c0 a    stopped
    ";

    fn check(recorded: &Recorded, whom: Whom, targets: &[&str], expected: &Expect) {
        let query = LatencyQuery {
            targets: targets.iter().map(|&target| target.to_owned()).collect(),
            whom,
            host: None,
            from: None,
            to: None,
            every: Some(Duration::from_nanos(4500)),
            algorithm: Algorithm::Active,
        };
        let told = ask(recorded, &query).expect("an answer");
        expected.assert_eq(&recorded_latency(&told, Paper::PLAIN));
    }

    #[test]
    fn of_when_and_whom_they_are_stands_before_them_with_what_was_lost() {
        let command =
            EventKind::Mark(Mark::Command { tgid: Tid(11), words: b"./b\0--all\x1b".as_slice().into() });
        let recorded = trace_with(TRACE, &[command]);
        check(
            &recorded,
            Whom::Everyone,
            &["runqueue"],
            &expect![[r#"
            recorded 0 ns to 9.00 µs after the start
            of the whole machine
            lost 3 records

            runqueue: 2 waits for a CPU in 9.00 µs, 1.20 µs in all, 600 ns on average
            peak  bucket  average  count  log scale
               1       6    96 ns      1  ████████████████████████████████████████
               1       7   192 ns      0
               1       8   384 ns      0
               1       9   768 ns      0
               1      10  1.54 µs      1  ████████████████████████████████████████

            over time; columns: buckets 6 (96 ns) to 10 (1.54 µs); · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more
                +0 ns ·   ·  2 waits for a CPU
             +4.50 µs        0 waits for a CPU
        "#]],
        );
        check(
            &recorded,
            Whom::Recorded,
            &["disk", "blocked:read"],
            &expect![[r#"
            recorded 0 ns to 9.00 µs after the start
            of ./b --all\x1b and what it started
            lost 3 records

            disk: 0 requests in 9.00 µs
                the recording holds no request of any disk

            blocked:read: 0 waits in 9.00 µs
                1 wait: had not ended
                1 wait: not counted: it was not seen where they began, or ended
        "#]],
        );
        check(
            &recorded,
            Whom::Processes(vec![Tid(10), Tid(11)]),
            &["lock"],
            &expect![[r#"
            recorded 0 ns to 9.00 µs after the start
            of processes 10, 11 and what they started
            lost 3 records

            lock: 0 waits for locks in 9.00 µs
                of futexes, those whose word names an owner: mutexes of glibc, and those that inherit priority
                of kernel locks, those that put who waits to sleep: spinning is not recorded
        "#]],
        );
        check(
            &recorded,
            Whom::Threads(Subject::Tid(Tid(10))),
            &["segment:running"],
            &expect![[r#"
            recorded 0 ns to 9.00 µs after the start
            of 1 thread
            lost 3 records

            segment:running: 2 segments in 9.00 µs, 7.90 µs in all, 3.95 µs on average
                of all segments of these paths, 2 may be another kind: more than one explanation fits
            peak  bucket  average  count  log scale
               1      10  1.54 µs      1  ████████████████████████████████████████
               1      11  3.07 µs      0
               1      12  6.14 µs      1  ████████████████████████████████████████

            over time; columns: buckets 10 (1.54 µs) to 12 (6.14 µs); · to 9, ░ to 99, ▒ to 999, ▓ to 9999, █ more
                +0 ns ·    1 segment
             +4.50 µs   ·  1 segment
        "#]],
        );
    }
}
