//! What the calls of a peak waited for, beside the usual ones, as text.

use wakepath_engine::{CallsAnswer, Group, PathAnswer, Which};

use super::path::short;
use crate::calls::{Taker, causes};
use crate::plain::escape;
use crate::quantity::{count, duration, rough_share};
use crate::rows::{Party, Row};
use crate::screen::{Line, Paper, Screen, Style};
use crate::wording;

/// What is less of a call than this part of it is not worth a line; nor less of a usual one than that.
const LEAST: f64 = 0.005;
const LEAST_USUAL: f64 = 0.1;

/// What makes the calls that were asked about take longer than the usual ones, a call.
pub fn calls(answer: &CallsAnswer, paper: Paper) -> String {
    let mut screen = Screen::new(paper);
    let usual = answer.usual.as_ref();
    let causes = causes(&answer.asked, usual.map(|(_, group)| group));
    let mean = |group: &Group<'_>| {
        let sum: u64 = group.paths.iter().map(|path| path.window_ns()).sum();
        sum as f64 / group.paths.len().max(1) as f64
    };
    let (asked_ns, usual_ns) = (mean(&answer.asked), usual.map_or(0.0, |(_, group)| mean(group)));
    let name = escape(answer.target.bytes());
    let mut line = Line::new();
    line.push(Style::Strong, format!("{} of {name} took {}", which(answer), duration(asked_ns as u64)));
    if let Some((peak, _)) = usual {
        line.push(
            Style::Normal,
            format!(" on average, where those of peak {peak} take {}", duration(usual_ns as u64)),
        );
    } else {
        line.push(Style::Normal, " on average");
    }
    if let Some(first) = causes.first().filter(|first| first.asked_ns > first.usual_ns) {
        line.push(Style::Normal, ": mostly ");
        line.push(Style::Strong, label(&first.taker, first.example.0, &first.example.1));
        let more = first.asked_ns - first.usual_ns;
        let all = (asked_ns - usual_ns).max(1.0);
        let part = rough_share(more.min(all) as u64, all as u64);
        let of = if usual.is_some() { "of the difference" } else { "of it" };
        line.push(
            Style::Normal,
            format!(" ({part} {of}, first in {} of {} calls)", first.first_in, answer.asked.paths.len()),
        );
    }
    screen.wrapped(0, &line);
    for (n, what) in [(answer.left, "left without returning"), (answer.open, "had not ended")] {
        if n > 0 {
            screen.wrapped(
                0,
                &Line::new().add(Style::Warning, format!("{} {what}: not among them", count(n, "call"))),
            );
        }
    }
    screen.blank();
    let head = if usual.is_some() {
        " a call    usual  what the time went to, largest difference first"
    } else {
        " a call  what the time went to"
    };
    screen.unwrapped(&Line::new().add(Style::Faint, head));
    let (shown, rest): (Vec<_>, Vec<_>) = causes
        .iter()
        .partition(|cause| cause.asked_ns >= asked_ns * LEAST || cause.usual_ns > usual_ns * LEAST_USUAL);
    let figures = |asked: f64, usual_part: f64| {
        let asked = format!("{:>7}", duration(asked as u64));
        if usual.is_some() { format!("{asked}  {:>7}  ", duration(usual_part as u64)) } else { asked + "  " }
    };
    for cause in shown {
        let begin = Line::new().add(Style::Strong, figures(cause.asked_ns, cause.usual_ns));
        screen.hanging(&begin, 2, &Line::from(label(&cause.taker, cause.example.0, &cause.example.1)));
    }
    if !rest.is_empty() {
        let sum = |of: fn(&crate::calls::Cause<'_>) -> f64| rest.iter().map(|cause| of(cause)).sum::<f64>();
        let begin =
            Line::new().add(Style::Faint, figures(sum(|cause| cause.asked_ns), sum(|cause| cause.usual_ns)));
        screen.hanging(&begin, 2, &Line::new().add(Style::Faint, "all else"));
    }
    screen.into_text()
}

/// Which calls were asked about: `160 calls of peak 3`.
fn which(answer: &CallsAnswer) -> String {
    let n = answer.asked.calls;
    match answer.which {
        Which::Peak(peak) => format!("{} of peak {peak}", count(n, "call")),
        Which::Above(ns) => format!("{} above {}", count(n, "call"), duration(ns)),
        Which::Slowest(_) if n == 1 => String::from("the slowest call"),
        Which::Slowest(_) => format!("the slowest {n} calls"),
    }
}

/// A taker in words; `row` is what it took of the call `answer`.
pub(crate) fn label(taker: &Taker, answer: &PathAnswer<'_>, row: &Row) -> String {
    match taker {
        Taker::Itself => String::from("running"),
        Taker::Party(Party::Running(comm)) => format!("running {}", wording::comm(*comm)),
        Taker::Party(party) => short(answer, party, row),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::sample::calls_of;

    #[test]
    fn what_a_peak_has_and_the_usual_calls_have_not_comes_first() {
        calls_of(|answer| {
            expect![[r#"
                20 calls of peak 2 of ./app:handle took 100 µs on average, where those of peak 1 take 200 ns: mostly
                running holder (100% of the difference, first in 20 of 20 calls)
                1 call left without returning: not among them
                1 call had not ended: not among them

                 a call    usual  what the time went to, largest difference first
                99.9 µs     0 ns  running holder
                 200 ns   200 ns  running
            "#]].assert_eq(&calls(answer, Paper::PLAIN));
        });
    }
}
