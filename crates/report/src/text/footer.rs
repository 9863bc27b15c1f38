//! The lines under an answer: losses, doubts, cost, the recording's path, the next question.

use wakepath_critical_path::Severity;
use wakepath_engine::{Head, PathAnswer, Recorded};
use wakepath_wait_graph::Loss;

use super::cost;
use crate::problem::sentence;
use crate::screen::{Line, Screen, Style};
use crate::units::{count, duration, them};
use crate::wording;

/// The maximum number of problems on the first screen.
const MAX_PROBLEMS: usize = 5;

/// Problems beyond notes, worst first. `option` lists them all.
pub fn problems(screen: &mut Screen, head: &Head, option: &str) {
    let serious = || head.problems.iter().filter(|problem| problem.severity() > Severity::Note);
    for problem in serious().take(MAX_PROBLEMS) {
        let line = Line::warning("warning: ").add(Style::Normal, sentence(problem));
        screen.wrapped(9, line);
    }
    if let Some(more @ 1..) = serious().count().checked_sub(MAX_PROBLEMS) {
        let more = more as u64;
        screen.wrapped(0, format!("and {}: {option} lists {}", count(more, "more warning"), them(more)));
    }
}

/// The number of lost records, and of switches that the kernel did not report.
pub fn lost(losses: &[Loss]) -> String {
    let (reported, unrecorded): (Vec<&Loss>, Vec<&Loss>) = losses.iter().partition(|loss| loss.reported);
    let known: u64 = reported.iter().map(|loss| loss.count).fold(0, u64::saturating_add);
    let mut text = match reported.iter().any(|loss| loss.count == 0) {
        true if known == 0 => String::from("lost an unknown number of records"),
        true => format!("lost {} or more", count(known, "record")),
        false => format!("lost {}", count(known, "record")),
    };
    if !unrecorded.is_empty() {
        text.push_str(&format!(", {} not recorded", count(unrecorded.len() as u64, "task switch")));
    }
    text
}

/// The losses in a line.
pub fn losses(head: &Head) -> Line {
    let style = if head.losses.is_empty() { Style::Faint } else { Style::Warning };
    Line::new().add(style, lost(&head.losses))
}

/// A line with losses, doubts and cost.
pub fn trust(answer: &PathAnswer) -> Line {
    let head = &answer.head;
    let mut line = losses(head);
    let ambiguous = answer.findings().ambiguous_ns;
    if ambiguous > 0 {
        line.push(Style::Warning, format!(", {} ambiguous", duration(ambiguous)));
    }
    if let Some(cost) = cost::cost(head) {
        line.push(Style::Faint, format!("; {cost}"));
    }
    line
}

/// The meaning of `~`.
pub fn sampled() -> Line {
    Line::faint("~ from samples; all other times are measured at each task switch")
}

/// The recording behind an answer, as further questions name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source<'a> {
    /// An existing recording. The argument begins with a space, and is empty for the default recording.
    Read(&'a str),
    /// A recording made now, so that its path is printed; the same argument.
    Made(&'a str),
}

impl<'a> Source<'a> {
    /// The recording as an argument, after a space.
    pub const fn argument(self) -> &'a str {
        let (Self::Read(argument) | Self::Made(argument)) = self;
        argument
    }
}

/// The next command, with the recording's path. `question` stands behind `wakepath path` and the recording.
pub fn next(screen: &mut Screen, source: Source<'_>, recorded: &Recorded, question: Option<Vec<String>>) {
    let argument = source.argument();
    let command = question.map(|question| format!("wakepath path{argument} {}", question.join(" ")));
    next_command(screen, source, recorded, command);
}

/// The next command, whole.
pub fn next_command(screen: &mut Screen, source: Source<'_>, recorded: &Recorded, command: Option<String>) {
    let mut line = Line::new();
    if let Source::Made(_) = source {
        line.push(Style::Faint, format!("saved in {}   ", wording::file(&recorded.source)));
    }
    if let Some(command) = command {
        line.push(Style::Faint, "next: ");
        line.push(Style::Normal, command);
    }
    if !line.is_empty() {
        screen.wrapped(0, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_clock::Stamp;
    use wakepath_event::{Cpu, LostRecords};

    #[test]
    fn losses_add_up_to_the_most_there_is() {
        let loss = |count| {
            let (from, to) = (Stamp::from_ns(1), Stamp::from_ns(2));
            Loss { cpu: Cpu(0), from, to, count, records: LostRecords::Any, reported: true }
        };
        assert_eq!(lost(&[loss(3), loss(1)]), "lost 4 records");
        assert_eq!(
            lost(&[loss(u64::MAX), loss(1)]),
            lost(&[loss(u64::MAX)]),
            "a count is whatever a record says"
        );
    }
}
