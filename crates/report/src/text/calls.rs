//! The causes of a peak's calls, compared with the usual calls, as text.

use wakepath_engine::{CallsAnswer, CallsOf, PathAnswer, Which};
use wakepath_findings::{CallCause, Certainty, Code, Evidence, RowKey, ShownParts};

use super::{footer, goroutine};
use crate::escape::escape;
use crate::screen::{Layout, Line, Screen, Style};
use crate::units::{count, duration, rough_share, was};
use crate::wording;

/// The causes that make the selected calls longer than the usual calls, per call.
pub fn calls(answer: &CallsAnswer, layout: Layout) -> String {
    let mut screen = Screen::new(layout);
    let usual = answer.usual.as_ref();
    let findings = answer.findings();
    headline(answer, &mut screen);
    let first = each(answer.of);
    screen.unwrapped(Line::faint(if usual.is_some() {
        format!("{first}    usual  what the time went to, largest difference first")
    } else {
        format!("{first}  what the time went to")
    }));
    let figures = |asked: f64, usual_part: f64| {
        let asked = format!("{:>7}", duration(asked as u64));
        if usual.is_some() { format!("{asked}  {:>7}  ", duration(usual_part as u64)) } else { asked + "  " }
    };
    let margin = figures(0.0, 0.0).chars().count();
    let shown = answer.causes().enumerate().filter(|(place, _)| findings.shown.contains(place));
    for (_, (cause, evidence)) in shown {
        let begin = Line::strong(figures(cause.mean_ns.asked, cause.mean_ns.usual));
        let mut line = Line::from(cause_text(answer, cause));
        let certainty = cause.basis.certainty();
        if answer.of == CallsOf::Operation && cause.mean_ns.asked > 0.0 && certainty != Certainty::Measured {
            line.push(Style::Faint, format!("  {}", wording::certainty(certainty)));
        }
        screen.hanging(begin, margin, line);
        match cause.shown_parts() {
            ShownParts::Whole(part) => code(&mut screen, margin, &cause.parts[part].code),
            ShownParts::Several(parts) => {
                for part in parts.into_iter().map(|part| &cause.parts[part]) {
                    let begin = Line::faint(figures(part.mean_ns.asked, part.mean_ns.usual) + "  ");
                    screen.hanging(begin, margin + 2, wording::end(&evidence, &cause.key, part));
                    code(&mut screen, margin + 2, &part.code);
                }
            }
        }
        code(&mut screen, margin, &cause.code);
    }
    if findings.rest().next().is_some() {
        let sum = |of: fn(&CallCause) -> f64| findings.rest().map(of).sum::<f64>();
        let begin = Line::faint(figures(sum(|cause| cause.mean_ns.asked), sum(|cause| cause.mean_ns.usual)));
        screen.hanging(begin, margin, Line::faint("all other causes"));
    }
    let waits = goroutine::waits_of_calls(answer);
    if !waits.is_empty() {
        screen.blank();
    }
    for (ns, text) in waits {
        match ns {
            None => screen.unwrapped(Line::faint(text)),
            Some(ns) => screen.hanging(Line::strong(format!("{:>7}  ", duration(ns))), 9, text),
        }
    }
    trust(answer, &mut screen);
    screen.into_text()
}

fn code(screen: &mut Screen, indent: usize, code: &Code) {
    wording::code_lines(code).into_iter().for_each(|line| screen.indented(indent, line));
}

/// Writes losses and problems, and the meaning of `~`, if it may occur.
pub(super) fn trust(answer: &CallsAnswer, screen: &mut Screen) {
    screen.blank();
    footer::problems(screen, &answer.head, "--explain");
    screen.wrapped(0, footer::losses(&answer.head));
    if answer.asked.paths.iter().any(|path| !path.sampled.is_empty()) {
        screen.wrapped(0, footer::sampled());
    }
}

/// A cause in a line: `waiting for backend (20): running (the largest cause in 3 calls)`.
pub fn cause_text(answer: &CallsAnswer, cause: &CallCause) -> String {
    let Some(evidence) = answer.call(cause.example.0).map(PathAnswer::evidence) else { return String::new() };
    let mut text = label(&evidence, cause);
    if let ShownParts::Whole(part) = cause.shown_parts() {
        text += &read_on(cause, &wording::end(&evidence, &cause.key, &cause.parts[part]));
    }
    if answer.findings().is_mixed && cause.first_in > 0 {
        text += &format!(" (the largest cause in {})", count(cause.first_in, noun(answer.of)));
    }
    text
}

/// A part's text after its cause.
fn read_on(cause: &CallCause, part: &str) -> String {
    match cause.key {
        RowKey::Process(..) | RowKey::Thread(..) => format!(": {part}"),
        RowKey::Cpu => format!(" {part}"),
        _ => format!(", {part}"),
    }
}

/// A cause in the headline, with these parts.
fn mostly(evidence: &Evidence<'_>, cause: &CallCause, parts: &[usize]) -> String {
    let label = label(evidence, cause);
    let ends = parts.iter().map(|part| wording::end(evidence, &cause.key, &cause.parts[*part]));
    let ends: Vec<String> = ends.collect();
    match ends.as_slice() {
        [] => label,
        ends if cause.key.is_of_others() => format!("{label}, which spent that time {}", ends.join(" and ")),
        ends => label + &read_on(cause, &ends.join(" and ")),
    }
}

/// The sentence: the selected calls and their time, the usual calls' time, and the reason for the difference.
pub fn calls_headline(answer: &CallsAnswer) -> Line {
    let (usual, findings) = (answer.usual.as_ref(), answer.findings());
    let name = escape(answer.target.bytes());
    let took = duration(findings.mean_ns.asked as u64);
    let of = if answer.of == CallsOf::Waits { "in" } else { "of" };
    let mut line = Line::strong(format!("{} {of} {name} took {took}", calls_named(answer)));
    line.push(Style::Normal, " on average");
    let noun = noun(answer.of);
    let usual_of = usual.map(|(peak, _)| match peak {
        Some(peak) => format!("{noun}s of peak {peak} take"),
        None => String::from("those of the other recording took"),
    });
    if let Some(usual) = usual_of {
        line.push(Style::Normal, format!(", {usual} {}", duration(findings.mean_ns.usual as u64)));
    }
    let first = findings.headline.as_ref();
    let first = first.and_then(|first| Some((first, answer.causes().nth(first.cause)?)));
    if let Some((headline, (cause, evidence))) = first {
        line.push(Style::Normal, ": mostly ");
        line.push(Style::Strong, mostly(&evidence, cause, &headline.parts));
        let part = rough_share(headline.more_ns, headline.of_ns);
        let of = if usual.is_some() { "of the difference" } else { "of it" };
        let (in_calls, calls) = (cause.first_in, count(answer.asked.paths.len() as u64, noun));
        let of_calls = format!(" ({part} {of}, the largest cause in {in_calls} of {calls})");
        line.push(Style::Normal, of_calls);
    }
    line
}

/// The sentence, and below it the calls that it does not count.
pub(super) fn headline(answer: &CallsAnswer, screen: &mut Screen) {
    screen.wrapped(0, calls_headline(answer));
    for (n, what) in [
        (answer.unwound, "was left without a return"),
        (answer.open, "had not ended"),
        (answer.moved, "returned in another thread (goroutines)"),
    ] {
        if n > 0 {
            let what = what.replace("was ", &format!("{} ", was(n)));
            let text = format!("{} {what}: not counted here", count(n, "call"));
            screen.wrapped(0, Line::warning(text));
        }
    }
    if let Some(ns) = answer.unprobed_after {
        let text = format!(
            "its probes were removed {} after the recording's beginning, since they took too much: later calls are not recorded",
            duration(ns)
        );
        screen.wrapped(0, Line::warning(text));
    }
    let explained =
        answer.asked.paths.len() + answer.usual.as_ref().map_or(0, |(_, group)| group.paths.len());
    if answer.of_goroutines && answer.followed < explained as u64 {
        let times = match answer.followed {
            0 => String::from("the times below"),
            followed => format!("all but {followed} of {explained} calls below"),
        };
        let text = format!(
            "while a goroutine waits, its thread runs others: {times} are those of threads, and a wait there may be none of \
             the call (record --goroutines follows goroutines)"
        );
        screen.wrapped(0, Line::warning(text));
    }
    screen.blank();
}

/// The selected calls: `160 calls of peak 3`.
pub(super) fn calls_named(answer: &CallsAnswer) -> String {
    let (n, noun) = (answer.asked.calls, noun(answer.of));
    match answer.which {
        Which::Peak(peak) => format!("{} of peak {peak}", count(n, noun)),
        Which::Above(ns) => format!("{} above {}", count(n, noun), duration(ns)),
        Which::Between(from, to) => {
            format!("{} between {} and {}", count(n, noun), duration(from), duration(to))
        }
        Which::Slowest(_) if n == 1 => format!("the slowest {noun}"),
        Which::Slowest(_) => format!("the slowest {n} {noun}s"),
        Which::All => count(n, noun),
    }
}

/// The word for a single call.
const fn noun(of: CallsOf) -> &'static str {
    match of {
        CallsOf::Function => "call",
        CallsOf::Operation => "request",
        CallsOf::Waits => "wait",
    }
}

/// The head of the column with each call's time.
pub(super) const fn each(of: CallsOf) -> &'static str {
    match of {
        CallsOf::Function => " a call",
        CallsOf::Operation => "   each",
        CallsOf::Waits => " a wait",
    }
}

/// A cause in words, by its example.
fn label(evidence: &Evidence<'_>, cause: &CallCause) -> String {
    wording::cause(evidence, &cause.key, &cause.example.1).1
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::sample::{calls_of, calls_of_a_chain, calls_until};

    #[test]
    fn what_a_peak_has_and_the_usual_calls_have_not_comes_first() {
        calls_of(|answer| {
            expect![[r#"
                20 calls of peak 2 of ./app:handle took 100 µs on average, calls of peak 1 take 200 ns: mostly
                waiting for a lock that holder held, which spent that time running (100% of the difference, the
                largest cause in 20 of 20 calls)
                1 call was left without a return: not counted here
                1 call had not ended: not counted here

                 a call    usual  what the time went to, largest difference first
                99.9 µs     0 ns  waiting for a lock that holder held: running
                 200 ns   200 ns  running

                lost 0 records
            "#]]
            .assert_eq(&calls(answer, Layout::PLAIN));
        });
    }

    #[test]
    fn later_calls_are_not_recorded_once_the_probes_are_removed() {
        calls_until(5_950_000, |answer| {
            let text = calls(answer, Layout { width: 200, colour: false });
            let said = "its probes were removed 5.95 ms after the recording's beginning, since they took too much: later calls are not recorded";
            assert!(text.lines().any(|line| line == said), "{text}");
        });
        calls_of(|answer| assert!(!calls(answer, Layout::PLAIN).contains("removed")));
    }

    #[test]
    fn who_is_waited_for_is_told_with_what_that_was_at_and_in_which_function() {
        calls_of_a_chain(1, |answer| {
            expect![[r#"
                20 calls of peak 2 of ./app:handle took 100 µs on average, calls of peak 1 take 200 ns: mostly
                waiting for backend (20), which spent that time waiting for disk sda, in fdatasync of log.0 and
                running (100% of the difference, the largest cause in 20 of 20 calls)

                 a call    usual  what the time went to, largest difference first
                99.9 µs     0 ns  waiting for backend (20)
                60.0 µs     0 ns    waiting for disk sda, in fdatasync of log.0
                                    20 of 20 waits in backend (cannot be read here)
                39.9 µs     0 ns    running
                                    ~ 20 of 20 samples in backend (cannot be read here)
                 200 ns   200 ns  running

                lost 0 records
                ~ from samples; all other times are measured at each task switch
            "#]].assert_eq(&calls(answer, Layout::PLAIN));
        });
        // With a different file in each call, the file is not named.
        calls_of_a_chain(3, |answer| {
            let text = calls(answer, Layout::PLAIN);
            assert!(text.contains("waiting for disk sda, in fdatasync\n"), "{text}");
        });
    }
}
