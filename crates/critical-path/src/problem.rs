//! What makes a path less than certain.

use wakepath_clock::{Reference, Stamp};
use wakepath_wait_graph::{Graph, Loss, ThreadIndex};

use crate::{Basis, Cause, Segment, SegmentKind, Window};

/// Something that a reader of the answer should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What it is.
    pub kind: ProblemKind,
    /// Where in time it applies.
    pub from: Stamp<Reference>,
    /// Until when.
    pub to: Stamp<Reference>,
    /// The thread concerned, where there is one.
    pub thread: Option<ThreadIndex>,
}

/// What makes a path less than certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemKind {
    /// The window reaches beyond what was recorded.
    WindowOutside,
    /// A recorder lost records.
    RecordsLost {
        /// How many, at least.
        records: u64,
        /// In some places it is not known how many.
        or_more: bool,
        /// The number of places.
        places: u64,
        /// The time of the path that is unknown for it.
        unexplained: Share,
    },
    /// The kernel did not report some switches, as those around them show.
    SwitchesUnrecorded {
        /// How many.
        switches: u64,
        /// The time of the path that is unknown for it.
        unexplained: Share,
    },
    /// The time of the path that has several explanations, or none that is sure.
    Ambiguous(Share),
}

/// A share of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The share, ns.
    pub ns: u64,
    /// The whole window, ns.
    pub of_ns: u64,
}

/// How much a problem matters to the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Note,
    /// Share of the answer is doubtful.
    Doubt,
    /// Records were lost where the answer looks.
    Loss,
}

impl ProblemKind {
    /// How much it matters.
    pub const fn severity(&self) -> Severity {
        match self {
            Self::RecordsLost { .. } => Severity::Loss,
            Self::WindowOutside | Self::SwitchesUnrecorded { .. } | Self::Ambiguous(_) => Severity::Doubt,
        }
    }
}

/// The problems of a path.
pub(crate) fn problems(graph: &Graph, window: &Window, segments: &[Segment]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let thread = Some(window.thread);
    let share = |belongs: &dyn Fn(&Segment) -> bool| {
        let parts = segments.iter().filter(|segment| belongs(segment));
        let ns = parts.map(|segment| segment.to.since(segment.from)).sum();
        Share { ns, of_ns: window.to.since(window.from) }
    };
    let unexplained =
        |cause: Cause| share(&|segment| segment.kind == SegmentKind::Unknown && segment.cause == cause);
    if window.from < graph.from() || window.to > graph.to() {
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
