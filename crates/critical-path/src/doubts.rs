//! What a reader of a path should know about it.

use wakepath_wait_graph::Graph;

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
    let (mut ranges, mut records, mut counted, mut hull) = (0u64, 0u64, true, None);
    for loss in graph.losses().overlapping(window.from, window.to) {
        ranges += 1;
        records = records.saturating_add(loss.count);
        counted &= loss.count > 0;
        let (from, to) = hull.unwrap_or((loss.from, loss.to));
        hull = Some((loss.from.min(from), loss.to.max(to)));
    }
    if let Some((from, to)) = hull {
        let records = if counted { format!("{records}") } else { format!("{records} or more") };
        problems.push(Problem {
            severity: Severity::Loss,
            text: format!("records were lost while this happened: {records}, in {ranges} places"),
            from: from.max(window.from),
            to: to.min(window.to),
            thread: None,
        });
    }
    let mut doubtful = segments.iter().filter(|segment| segment.basis == Basis::Ambiguous);
    if let Some(first) = doubtful.next() {
        let (mut ns, mut to) = (first.to.since(first.from), first.to);
        for segment in doubtful {
            ns += segment.to.since(segment.from);
            to = segment.to;
        }
        problems.push(Problem {
            severity: Severity::Doubt,
            text: format!("{ns} ns have more than one explanation, or none that is sure"),
            from: first.from,
            to,
            thread,
        });
    }
    problems
}
