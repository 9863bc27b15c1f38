//! Finds the problems of a path.

use wakepath_wait_graph::{Graph, Loss};

use crate::{Basis, Cause, Problem, ProblemKind, Segment, Share, Window};

/// The problems of a path.
pub(crate) fn problems(graph: &Graph, window: &Window, segments: &[Segment]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let thread = Some(window.thread);
    let share = |belongs: &dyn Fn(&Segment) -> bool| {
        let parts = segments.iter().filter(|segment| belongs(segment));
        let ns = parts.map(|segment| segment.to.since(segment.from)).sum();
        Share { ns, of_ns: window.to.since(window.from) }
    };
    let unexplained = |cause: Cause| share(&|segment| segment.cause == cause);
    let host = graph.thread(window.thread).tid().host();
    if window.from < graph.from() || window.to > graph.end_of(host) {
        let kind = ProblemKind::WindowOutside;
        problems.push(Problem { kind, from: window.from, to: window.to, thread });
    }
    let (reported, unrecorded): (Vec<&Loss>, Vec<&Loss>) =
        graph.losses().overlapping(window.from, window.to).partition(|loss| loss.reported);
    let records_lost = || ProblemKind::RecordsLost {
        records: reported.iter().map(|loss| loss.count).fold(0, u64::saturating_add),
        or_more: reported.iter().any(|loss| loss.count == 0),
        places: reported.len() as u64,
        unexplained: unexplained(Cause::Lost),
    };
    let switches_unrecorded = || ProblemKind::SwitchesUnrecorded {
        switches: unrecorded.len() as u64,
        unexplained: unexplained(Cause::Unrecorded),
    };
    for (losses, kind) in
        [(&reported, &records_lost as &dyn Fn() -> ProblemKind), (&unrecorded, &switches_unrecorded)]
    {
        if let (Some(from), Some(to)) =
            (losses.iter().map(|loss| loss.from).min(), losses.iter().map(|loss| loss.to).max())
        {
            let (from, to) = (from.max(window.from), to.min(window.to));
            problems.push(Problem { kind: kind(), from, to, thread: None });
        }
    }
    let ambiguous = |segment: &Segment| segment.basis == Basis::Ambiguous;
    if let (Some(first), Some(last)) = (
        segments.iter().find(|segment| ambiguous(segment)),
        segments.iter().rfind(|segment| ambiguous(segment)),
    ) {
        let kind = ProblemKind::Ambiguous(share(&ambiguous));
        problems.push(Problem { kind, from: first.from, to: last.to, thread });
    }
    problems
}
