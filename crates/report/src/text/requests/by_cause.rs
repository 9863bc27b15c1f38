//! The slowest requests by cause, as text.

use wakepath_engine::requests::{ByCauseAnswer, CauseGroup, OperationIndex, RequestCause, request_id};
use wakepath_findings::{Certainty, RowKey};

use super::alone::{RECORD, WHY};
use super::clock::clocks_off;
use super::group::blocker;
use super::{MAX_ROWS, left_out, operation_name};
use crate::screen::{Layout, Line, Screen, Style};
use crate::text::{footer, utc_range, when, when_anywhere};
use crate::units::{count, duration, rough_share, was};
use crate::wording;

/// The operations named below a group.
const MAX_OPERATIONS: usize = 3;

/// The largest group in a sentence, and a row for each.
///
/// `argument` is the recording and the spans as an argument.
pub fn requests_by_cause(answer: &ByCauseAnswer<'_>, argument: &str, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let Some(first) = answer.groups.first() else { return String::new() };
    screen.wrapped(0, by_cause_sentence(answer, first));
    screen.wrapped(0, Line::faint(times(answer)));
    screen.blank();
    screen.unwrapped(Line::faint("requests     time     each  cause, most time first"));
    for group in answer.groups.iter().take(MAX_ROWS) {
        row(&mut screen, answer, group);
    }
    rest(&mut screen, answer.groups.get(MAX_ROWS..).unwrap_or_default());
    screen.blank();
    let without = &answer.without_path;
    if without.total() > 0 {
        let requests = count(without.total(), "request");
        let text = format!("{requests} without a path, since {without}: the cause is by spans alone");
        screen.wrapped(9, Line::warning("warning: ").add(Style::Normal, text));
    }
    left_out(&mut screen, answer.traced);
    clocks_off(&mut screen, answer.traced, &answer.clocks);
    match &answer.head {
        Some(head) => {
            footer::problems(&mut screen, head, "--json");
            screen.wrapped(0, footer::losses(head));
        }
        None => screen.wrapped(0, Line::faint(WHY)),
    }
    let next =
        format!("wakepath requests{argument} --request {}", request_id(answer.traced, first.slowest()));
    screen.wrapped(0, Line::faint("next: ").add(Style::Normal, next));
    if answer.head.is_none() {
        screen.wrapped(0, Line::faint("to record: ").add(Style::Normal, RECORD));
    }
    screen.into_text()
}

/// The next step behind the answers for many slow requests; `argument` is behind `wakepath requests`.
pub fn next_by_cause(argument: &str, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let text = format!("wakepath requests{argument} --by-cause");
    screen.wrapped(0, Line::faint("next: ").add(Style::Normal, text));
    screen.into_text()
}

/// A sentence: the requests in a group among all, their cause and its time.
pub(crate) fn by_cause_sentence(answer: &ByCauseAnswer<'_>, group: &CauseGroup<'_>) -> Line {
    let (number, requests) = (group.requests.len() as u64, which(answer, group));
    let [cause, total] = [group.cause_ns, group.total_ns].map(duration);
    let share = rough_share(group.cause_ns, group.total_ns);
    let (_, words) = cause_words(answer, group);
    if let RequestCause::Blocked(_) = group.cause {
        let time = format!(", for {cause} of {total} ({share}, inferred)");
        return Line::strong(format!("{requests} {} {words}", was(number))).add(Style::Normal, time);
    }
    let all = if number > 1 { " in all" } else { "" };
    let mut line = Line::strong(format!("{requests} took {total}{all}"));
    if group.cause == RequestCause::Empty {
        return line;
    }
    line.push(Style::Normal, if group.is_most() { ": mostly " } else { ", the largest part: " });
    line.push(Style::Strong, words);
    let certainty = certainty(group).map_or(String::new(), |certainty| format!(", {certainty}"));
    line.push(Style::Normal, format!(" ({cause}, {share}{certainty})"));
    if let Some(called) = called(answer, group) {
        let (time, share) = (duration(group.called_ns), rough_share(group.called_ns, group.total_ns));
        line.push(Style::Normal, ", for ");
        line.push(Style::Strong, called);
        line.push(Style::Normal, format!(" ({time}, {share}, inferred)"));
    }
    line
}

/// `61 of the 100 slowest of 1204 requests`.
fn which(answer: &ByCauseAnswer<'_>, group: &CauseGroup<'_>) -> String {
    let (all, number) = (count(answer.all as u64, "request"), group.requests.len());
    match answer.explained {
        explained if explained == answer.all => format!("{number} of {all}"),
        1 => format!("the slowest of {all}"),
        explained => format!("{number} of the {explained} slowest of {all}"),
    }
}

/// A group's cause, as documents spell it, and in words.
pub(crate) fn cause_words(answer: &ByCauseAnswer<'_>, group: &CauseGroup<'_>) -> (&'static str, String) {
    match &group.cause {
        RequestCause::Blocked(of) => ("blocked_by_request", format!("blocked by {}", blocker(of))),
        RequestCause::Path { key, .. } => {
            let path = group.example.as_ref().and_then(|example| example.path.as_ref().ok());
            let evidence = path.map(|path| path.answer.evidence());
            // Each group with a path has an example with one.
            evidence.map_or(("unknown", String::new()), |evidence| wording::cause(&evidence, key, &group.row))
        }
        RequestCause::Spans { operation, .. } => {
            ("span", format!("in {}", operation_name(&answer.traced.spans.operations[operation.0 as usize])))
        }
        RequestCause::Empty => ("empty_window", String::from("no time")),
    }
}

/// The operation that a group's requests called.
fn called(answer: &ByCauseAnswer<'_>, group: &CauseGroup<'_>) -> Option<String> {
    let RequestCause::Path { called: Some(called), .. } = group.cause else { return None };
    Some(operation_name(&answer.traced.spans.operations[called.0 as usize]))
}

/// The certainty of a cause's time in a word; `None` where nothing is known, so that nothing has been measured.
fn certainty(group: &CauseGroup<'_>) -> Option<&'static str> {
    match (&group.cause, group.certainty()) {
        (RequestCause::Path { key: RowKey::Unknown(_), .. }, Certainty::Measured) => None,
        (RequestCause::Empty, _) => None,
        (_, certainty) => Some(wording::certainty(certainty)),
    }
}

fn times(answer: &ByCauseAnswer<'_>) -> String {
    if let (Some(head), Some((from, to))) = (&answer.head, answer.times) {
        let is_outside = answer.groups.iter().all(|group| group.cause.is_outside());
        return if is_outside { when_anywhere(head, from, to) } else { when(head, from, to) };
    }
    let requests = answer.groups.iter().flat_map(|group| &group.requests);
    let roots = || requests.clone().map(|(request, _)| answer.traced.root(*request));
    let [from, to] = [roots().map(|root| root.from.ns()).min(), roots().map(|root| root.to.ns()).max()]
        .map(Option::unwrap_or_default);
    format!("{} UTC", utc_range(from, to))
}

/// A group's figures and cause, and below them its operations and its slowest request.
fn row(screen: &mut Screen, answer: &ByCauseAnswer<'_>, group: &CauseGroup<'_>) {
    let figures = figures(group.requests.len(), group.cause_ns);
    let columns = figures.chars().count();
    let mut line = Line::from(cause_words(answer, group).1);
    if let Some(called) = called(answer, group) {
        line.push(Style::Normal, format!(", for {called} (inferred)"));
    }
    if let RequestCause::Spans { is_outside, .. } = group.cause {
        let when = if is_outside { ", from another time" } else { "" };
        line.push(Style::Faint, format!(", by spans alone{when}"));
    }
    if let Some(certainty) = certainty(group).filter(|_| group.certainty() != Certainty::Measured) {
        line.push(Style::Faint, format!("  {certainty}"));
    }
    screen.hanging(Line::strong(figures), columns, line);
    screen.indented(columns, Line::faint(details(answer, group)));
}

fn figures(requests: usize, cause_ns: u64) -> String {
    let mean = cause_ns.checked_div(requests as u64).unwrap_or(0);
    format!("{requests:>8}  {:>7}  {:>7}  ", duration(cause_ns), duration(mean))
}

/// `97% of 4.38 s: shop GET /cart (2), shop POST /pay (1); the slowest 1.50 s, request 5b8e`.
fn details(answer: &ByCauseAnswer<'_>, group: &CauseGroup<'_>) -> String {
    let traced = answer.traced;
    let of_all = format!("{} of {}", rough_share(group.cause_ns, group.total_ns), duration(group.total_ns));
    let name = |of: OperationIndex| operation_name(&traced.spans.operations[of.0 as usize]);
    let operations = match group.operations.as_slice() {
        [(only, _)] => name(*only),
        several => {
            let (named, others) = several.split_at(several.len().min(MAX_OPERATIONS));
            let mut all: Vec<_> =
                named.iter().map(|(of, number)| format!("{} ({number})", name(*of))).collect();
            if !others.is_empty() {
                let requests: u64 = others.iter().map(|(_, number)| number).sum();
                all.push(format!("{} ({requests})", count(others.len() as u64, "other operation")));
            }
            all.join(", ")
        }
    };
    let id = request_id(traced, group.slowest());
    match group.requests.as_slice() {
        [_] => format!("{of_all}: {operations}, request {id}"),
        [(_, length), ..] => {
            format!("{of_all}: {operations}; the slowest {}, request {id}", duration(*length))
        }
        [] => of_all,
    }
}

/// The groups without a row, in a row.
fn rest(screen: &mut Screen, groups: &[CauseGroup<'_>]) {
    if groups.is_empty() {
        return;
    }
    let requests = groups.iter().map(|group| group.requests.len()).sum();
    let cause_ns = groups.iter().map(|group| group.cause_ns).fold(0, u64::saturating_add);
    let figures = figures(requests, cause_ns);
    let columns = figures.chars().count();
    let text = format!("{}: --json has all", count(groups.len() as u64, "other cause"));
    screen.hanging(Line::strong(figures), columns, Line::faint(text));
}

#[cfg(test)]
mod tests;
