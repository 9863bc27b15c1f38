//! A path's problems: remarks on its certainty.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::LostRecords;
use wakepath_wait_graph::ThreadIndex;

/// A remark that makes a path less certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The remark.
    pub kind: ProblemKind,
    /// The beginning of the remark's time range.
    pub from: Stamp<Reference>,
    /// The end of the time range.
    pub to: Stamp<Reference>,
    /// The thread concerned, if any.
    pub thread: Option<ThreadIndex>,
}

/// The problem kinds, with their figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemKind {
    /// The window reaches beyond the recording.
    WindowOutside,
    /// A recorder lost records.
    RecordsLost {
        /// The kind of the lost records; [`LostRecords::Any`] for several kinds.
        of: LostRecords,
        /// The minimum number of lost records.
        records: u64,
        /// In some places the number is not known.
        or_more: bool,
        /// The number of places.
        places: u64,
        /// The path's unexplained time due to the loss.
        unexplained: Share,
    },
    /// The kernel did not report some switches; the switches around them show it.
    SwitchesUnrecorded {
        /// The number of switches.
        switches: u64,
        /// The path's unexplained time due to the missing switches.
        unexplained: Share,
    },
    /// Waits for any request of an io_uring ended, and the recording does not show by which request.
    IoUring {
        /// The number of waits.
        waits: u64,
    },
    /// The path's time with several explanations, or without a sure explanation.
    Ambiguous(Share),
    /// The time, within waits for timers and devices, in which the hypervisor did not let the interrupt's CPU run, though the CPU was not idle: the
    /// interrupts may have been late by up to this time.
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

impl Share {
    /// Whether the share is less than `percent` of the window.
    const fn is_below(self, percent: u64) -> bool {
        (self.ns as u128) * 100 < (self.of_ns as u128) * (percent as u128)
    }
}

/// A problem's weight for the answer.
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
    /// The problem's severity.
    pub const fn severity(&self) -> Severity {
        match self {
            // Waits affected by such a loss are ambiguous already.
            Self::RecordsLost { of, .. } if of.is_evidence_alone() => Severity::Note,
            Self::RecordsLost { .. } => Severity::Loss,
            Self::IoUring { .. } => Severity::Note,
            // Each of these rows has its own mark: a warning says so again only where the sum may change an answer.
            Self::SwitchesUnrecorded { unexplained: share, .. } | Self::PerhapsLate(share)
                if share.is_below(1) =>
            {
                Severity::Note
            }
            Self::Ambiguous(share) if share.is_below(5) => Severity::Note,
            Self::WindowOutside
            | Self::SwitchesUnrecorded { .. }
            | Self::Ambiguous(_)
            | Self::PerhapsLate(_) => Severity::Doubt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_about_a_small_share_is_a_note() {
        let share = |ns| Share { ns, of_ns: 1_000 };
        let unrecorded = |ns| ProblemKind::SwitchesUnrecorded { switches: 12, unexplained: share(ns) };
        for (kind, expected) in [
            (unrecorded(9), Severity::Note),
            (unrecorded(10), Severity::Doubt),
            (ProblemKind::PerhapsLate(share(9)), Severity::Note),
            (ProblemKind::PerhapsLate(share(10)), Severity::Doubt),
            (ProblemKind::Ambiguous(share(49)), Severity::Note),
            (ProblemKind::Ambiguous(share(50)), Severity::Doubt),
            (ProblemKind::WindowOutside, Severity::Doubt),
        ] {
            assert_eq!(kind.severity(), expected, "{kind:?}");
        }
        let huge = Share { ns: u64::MAX / 2, of_ns: u64::MAX };
        assert_eq!(ProblemKind::Ambiguous(huge).severity(), Severity::Doubt);
    }
}
