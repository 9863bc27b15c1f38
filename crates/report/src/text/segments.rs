//! The full list of a path's segments, as text.

use wakepath_critical_path::Segment;
use wakepath_engine::PathAnswer;

use super::when;
use crate::screen::{Layout, Line, Screen, Style};
use crate::units::duration;
use crate::wording;

/// Every segment: its beginning, its length, its thread, its activity. The number of waits above a segment shows as
/// its indentation.
pub fn segments(answer: &PathAnswer, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let window = answer.path.window;
    screen.wrapped(0, Line::faint(when(&answer.head, window.from, window.to)));
    screen.blank();
    screen.unwrapped(Line::faint("       at, s      time  whose time, and what it went to"));
    for segment in &answer.path.segments {
        let at = segment.from.since(answer.head.origin);
        let at = format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000);
        let took = duration(segment.to.since(segment.from));
        let mut line = Line::faint(format!("{at:>14}  {took:>7}  "));
        line.push(Style::Normal, indentation(segment.depth));
        line.extend(describe(answer, segment));
        screen.unwrapped(line);
    }
    screen.into_text()
}

/// Deep chains do not push the text off the screen.
fn indentation(depth: u32) -> String {
    const MAX_DEPTH: u32 = 16;
    match depth {
        0..=MAX_DEPTH => "  ".repeat(depth as usize),
        depth => format!("{}({depth} deep) ", "  ".repeat(MAX_DEPTH as usize)),
    }
}

/// A segment in a line: the thread, the activity, the link, the basis.
pub fn describe(answer: &PathAnswer, segment: &Segment) -> Line {
    let mut line = Line::strong(wording::segment_thread(answer.recorded, segment));
    let doing = wording::doing(&answer.evidence(), segment);
    let mut text = format!("  {doing}");
    if let Some(call) = answer.recorded.segment_call(segment) {
        text += &format!(", in {}", wording::call(&call));
    }
    line.push(Style::Normal, text);
    let basis = Some(wording::basis_word(segment.basis)).filter(|basis| *basis != "measured");
    let notes: Vec<&str> = wording::via_word(segment.via).into_iter().chain(basis).collect();
    if !notes.is_empty() {
        line.push(Style::Faint, format!("  [{}]", notes.join(", ")));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Answered, command};
    use expect_test::expect;
    use wakepath_findings::testing::checkout;

    #[test]
    fn every_segment_is_a_line() {
        let story = checkout();
        let answer = story.answer(command());
        let text = segments(&answer, Layout::PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3 + answer.path.segments.len());
        let ends = [&lines[..9], &lines[lines.len() - 5..]].concat().join("\n");
        expect![[r#"
            2026-11-21 02:58:41.310 to 02:58:42.502 UTC on web3

                   at, s      time  whose time, and what it went to
               0.000000000  4.00 ms  checkout (4711)  unknown: the wait began before the recording, in read
               0.004000000  10.0 ms  checkout (4711)  running
               0.014000000  1.00 ms    kernel thread jbd2/sda1-8  running  [wakeup]
               0.015000000  2.00 ms    kernel thread jbd2/sda1-8  waiting in the queue of disk sda  [wakeup, inferred]
               0.017000000  49.0 ms    kernel thread jbd2/sda1-8  waiting for disk sda  [wakeup]
               0.066000000  10.0 ms  checkout (4711)  running
               1.076000000  26.0 ms  checkout (4711)  not allowed to run: CPU limit of shop.service (50.0 ms per 100 ms)
               1.102000000  27.0 ms    postgres (912)  running  [packet]
               1.129000000  61.0 ms    postgres (912)  waiting for disk sda, in fdatasync of pg_wal  [packet]
               1.190000000  2.00 ms  checkout (4711)  waiting for a CPU that stress (555) had
               1.192000000   100 µs  checkout (4711)  could run while its CPU was idle"#]].assert_eq(&ends);
    }
}
