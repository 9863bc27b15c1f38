//! Many requests with the same operation, as text: their causes, and the requests that blocked them.

use wakepath_critical_path::Severity;
use wakepath_engine::requests::{Blocker, BlockerOf, GroupAnswer, request_id};

use super::clock::clocks_off;
use super::{MAX_ROWS, left_out, operation_name, spans_left_out};
use crate::escape::escape;
use crate::screen::{Layout, Line, Screen, Style};
use crate::text::calls::{calls, each};
use crate::text::tree::merged;
use crate::units::{count, duration};

/// The selected requests' causes, or their cause tree, and below it the requests that blocked them.
///
/// `argument` is the recording and the spans as an argument.
pub fn request_group(answer: &GroupAnswer, tree: bool, argument: &str, layout: Layout) -> String {
    let above = if tree { merged(&answer.calls, layout) } else { calls(&answer.calls, layout) };
    let mut screen = Screen::new(layout);
    screen.blank();
    blockers(answer, &mut screen);
    let (without, usual) = (&answer.without_path.asked, &answer.without_path.usual);
    for (without, of) in [(without, ""), (usual, " of those beside them")] {
        if without.total() > 0 {
            let requests = count(without.total(), "request");
            let text = format!("{requests}{of} without a path, since {without}: not explained here");
            screen.wrapped(9, Line::warning("warning: ").add(Style::Normal, text));
        }
    }
    left_out(&mut screen, answer.traced);
    clocks_off(&mut screen, answer.traced, &answer.clocks);
    let of_other = other_warnings(answer) as u64;
    if of_other > 0 {
        let text =
            format!("the answer about the other recording has {} of its own", count(of_other, "warning"));
        screen.wrapped(9, Line::warning("warning: ").add(Style::Normal, text));
    }
    if let Some(&longest) = answer.explained.first() {
        let next = format!("wakepath requests{argument} --request {}", request_id(answer.traced, longest));
        screen.wrapped(0, Line::faint("next: ").add(Style::Normal, next));
    }
    above + &screen.into_text()
}

/// The number of warnings about the other recording and its spans.
pub(crate) fn other_warnings(answer: &GroupAnswer) -> usize {
    let problems = answer.other.iter().flat_map(|head| &head.problems);
    let serious = problems.filter(|problem| problem.severity() > Severity::Note).count();
    serious + answer.other_traced.map_or(0, |traced| spans_left_out(traced).len())
}

fn blockers(answer: &GroupAnswer, screen: &mut Screen) {
    if answer.blocked_by.is_empty() {
        return;
    }
    let beside = answer.calls.usual.is_some();
    let mean = |ns: u64, count: u64| duration(ns.checked_div(count).unwrap_or(0));
    let figures = |one: &Blocker| {
        let asked = format!("{:>7}", mean(one.total_ns.asked, answer.paths.asked));
        let usual = mean(one.total_ns.usual, answer.paths.usual);
        if beside { format!("{asked}  {usual:>7}  ") } else { asked + "  " }
    };
    let head = each(answer.calls.of).to_owned() + if beside { "    usual" } else { "" };
    screen.unwrapped(Line::faint(head + "  blocked by requests of, inferred"));
    for one in answer.blocked_by.iter().take(MAX_ROWS) {
        let row = figures(one);
        let columns = row.chars().count();
        let text = format!(
            "{} (in {} of {})",
            blocker(&one.of),
            one.blocked.asked,
            count(answer.paths.asked, "request")
        );
        screen.hanging(Line::strong(row), columns, text);
    }
    if let Some(more @ 1..) = answer.blocked_by.len().checked_sub(MAX_ROWS) {
        screen.wrapped(0, Line::faint(format!("and {}: --json has all", count(more as u64, "other row"))));
    }
    screen.blank();
}

/// `shop GET /cart`, or `bank, not sampled`.
pub(super) fn blocker(of: &BlockerOf) -> String {
    match of {
        BlockerOf::Operation(operation) => operation_name(operation),
        BlockerOf::WithoutSpans { service, sampled } => {
            let service = service
                .as_ref()
                .map_or_else(|| String::from("(service not known)"), |service| escape(service.bytes()));
            let why = if *sampled { "whose spans did not come" } else { "not sampled" };
            format!("{service}, {why}")
        }
    }
}
