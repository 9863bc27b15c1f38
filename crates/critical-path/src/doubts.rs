//! What a reader of a path should know about it.

use wakepath_wait_graph::{Graph, Loss};

use crate::active::named;
use crate::{Basis, Problem, Segment, Severity, Window};

/// The problems of a path.
pub(crate) fn of(graph: &Graph, window: &Window, segments: &[Segment]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let thread = Some(named(graph, window));
    if window.from < graph.from() || window.to > graph.to() {
        problems.push(Problem {
            severity: Severity::Doubt,
            text: "the window reaches beyond what was recorded".to_owned(),
            from: window.from,
            to: window.to,
            thread,
        });
    }
    let (reported, left_out): (Vec<&Loss>, Vec<&Loss>) =
        graph.losses().overlapping(window.from, window.to).partition(|loss| loss.reported);
    let mut tell = |losses: &[&Loss], severity, text: String| {
        if let (Some(from), Some(to)) =
            (losses.iter().map(|loss| loss.from).min(), losses.iter().map(|loss| loss.to).max())
        {
            let (from, to) = (from.max(window.from), to.min(window.to));
            problems.push(Problem { severity, text, from, to, thread: None });
        }
    };
    let records: u64 = reported.iter().map(|loss| loss.count).fold(0, u64::saturating_add);
    let more = if reported.iter().all(|loss| loss.count > 0) { "" } else { " or more" };
    let lost = if records == 1 && more.is_empty() { "record was lost" } else { "records were lost" };
    let places = match reported.len() {
        1 => String::from("one place"),
        several => format!("{several} places"),
    };
    let text = format!("{records}{more} {lost} while this happened, in {places}");
    tell(&reported, Severity::Loss, text);
    let switches = match left_out.len() {
        1 => String::from("1 switch"),
        several => format!("{several} switches"),
    };
    tell(
        &left_out,
        Severity::Doubt,
        format!("the kernel left {switches} untraced while this happened: who ran then is unknown"),
    );
    let mut doubtful = segments.iter().filter(|segment| segment.basis == Basis::Ambiguous);
    if let Some(first) = doubtful.next() {
        let (mut ns, mut to) = (first.to.since(first.from), first.to);
        for segment in doubtful {
            ns += segment.to.since(segment.from);
            to = segment.to;
        }
        problems.push(Problem {
            severity: Severity::Doubt,
            text: match ns {
                0..1_000_000 => format!("{ns} ns have more than one explanation, or none that is sure"),
                _ => format!("{} ms have more than one explanation, or none that is sure", ns / 1_000_000),
            },
            from: first.from,
            to,
            thread,
        });
    }
    problems
}
