//! The problems of a path: remarks that make it less certain.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::LostRecords;
use wakepath_wait_graph::ThreadIndex;

/// A remark that makes a path less certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The remark.
    pub kind: ProblemKind,
    /// The beginning of the time that it applies to.
    pub from: Stamp<Reference>,
    /// The end of that time.
    pub to: Stamp<Reference>,
    /// The thread concerned, if there is one.
    pub thread: Option<ThreadIndex>,
}

/// The kinds of problems, with their figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemKind {
    /// The window reaches beyond what was recorded.
    WindowOutside,
    /// A recorder lost records.
    RecordsLost {
        /// The records among which they were; [`LostRecords::Any`] if they were of several kinds.
        of: LostRecords,
        /// The number of lost records, at least.
        records: u64,
        /// The number is not known in some places.
        or_more: bool,
        /// The number of places.
        places: u64,
        /// The time of the path that is unexplained because of it.
        unexplained: Share,
    },
    /// The kernel did not report some switches; the switches around them show it.
    SwitchesUnrecorded {
        /// The number of switches.
        switches: u64,
        /// The time of the path that is unexplained because of it.
        unexplained: Share,
    },
    /// Waits for any request of an io_uring ended, and the recording does not show by which.
    IoUring {
        /// The number of waits.
        waits: u64,
    },
    /// The time of the path that has several explanations, or none that is sure.
    Ambiguous(Share),
    /// The time of waits for timers and devices in which the hypervisor did not let the CPU of their interrupt run, though
    /// it was not idle: they may have been late by up to that.
    PerhapsLate(Share),
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
    /// Part of the answer is doubtful.
    Doubt,
    /// Records were lost where the answer looks.
    Loss,
}

impl ProblemKind {
    /// The severity of the problem.
    pub const fn severity(&self) -> Severity {
        match self {
            // The waits that they may have to do with are ambiguous.
            Self::RecordsLost { of, .. } if of.is_evidence_alone() => Severity::Note,
            Self::RecordsLost { .. } => Severity::Loss,
            Self::IoUring { .. } => Severity::Note,
            Self::WindowOutside
            | Self::SwitchesUnrecorded { .. }
            | Self::Ambiguous(_)
            | Self::PerhapsLate(_) => Severity::Doubt,
        }
    }
}
