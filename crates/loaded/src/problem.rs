//! Problems that make an answer less than certain: found on a path, by clocks, or in the files that were read.

use std::path::PathBuf;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{self as critical_path, Severity};
use wakepath_event::{Comm, StackCounts, Tid};
use wakepath_import::Damage;
use wakepath_recording::ReadProblem;
use wakepath_wait_graph::Graph;

/// Something that a reader of the answer should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its kind, with its data.
    pub kind: ProblemKind,
    /// Where in time it applies.
    pub from: Stamp<Reference>,
    /// Until when.
    pub to: Stamp<Reference>,
    /// The thread concerned, where there is one.
    pub thread: Option<(Tid, Comm)>,
    /// The number of further calls that have a problem of this kind, where several were explained.
    pub other_calls: u64,
}

/// A reason why an answer is less than certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemKind {
    /// Found on the path.
    Path(critical_path::ProblemKind),
    /// The realtime clock was set, by this number of ns; less than 0: back.
    ClockSet(i128),
    /// The machine was suspended for this number of ns.
    Suspended(u64),
    /// The hypervisor took at most this number of ns of CPU time; the place in the window is not known.
    Stolen(u64),
    /// Stacks that the stack cache repeated may belong to another wait.
    StackCache(StackCounts),
    /// The recorder did not end the recording.
    CutOff,
    /// No packet links the host of a recording to the reference.
    HostUnlinked {
        /// The recording, which is left out.
        recording: PathBuf,
        /// The recording of the reference.
        reference: PathBuf,
    },
    /// The recording of one of several hosts does not cover the time of all.
    PartlyRecorded {
        /// The recording.
        recording: PathBuf,
        /// The time from the first event of all to its first one, ns.
        late_ns: u64,
        /// The time from its last event to the last one of all, ns.
        early_ns: u64,
    },
    /// A recording is not as it was written.
    Recording(ReadProblem),
    /// Another tracer's trace cannot be read as it was written, or is doubtful.
    Trace(Damage),
    /// The same of one of several recordings.
    OneOfSeveral(PathBuf, Box<Self>),
}

impl From<ReadProblem> for ProblemKind {
    fn from(problem: ReadProblem) -> Self {
        Self::Recording(problem)
    }
}

impl From<Damage> for ProblemKind {
    fn from(damage: Damage) -> Self {
        Self::Trace(damage)
    }
}

impl Problem {
    /// One of no thread.
    pub fn new(kind: ProblemKind, from: Stamp<Reference>, to: Stamp<Reference>) -> Self {
        Self { kind, from, to, thread: None, other_calls: 0 }
    }

    /// One that was found on a path; `at` is when its thread is named.
    pub fn of_path(problem: &critical_path::Problem, graph: &Graph, at: Stamp<Reference>) -> Self {
        let thread = problem.thread.map(|index| graph.thread(index));
        Self {
            thread: thread.map(|thread| (thread.tid_at(at), thread.name_at(at))),
            ..Self::new(ProblemKind::Path(problem.kind.clone()), problem.from, problem.to)
        }
    }

    /// How much it matters.
    pub const fn severity(&self) -> Severity {
        self.kind.severity()
    }
}

impl ProblemKind {
    /// How much it matters.
    const fn severity(&self) -> Severity {
        match self {
            Self::Path(kind) => kind.severity(),
            // They are counted of the whole machine. A tenth could change which function is named first.
            Self::StackCache(counts) if counts.doubtful <= counts.repeated / 10 => Severity::Note,
            Self::ClockSet(_) | Self::CutOff => Severity::Note,
            Self::OneOfSeveral(_, kind) => kind.severity(),
            _ => Severity::Doubt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_one_of_several_recordings_matters_as_it_does_alone() {
        for (kind, expected) in [
            (ProblemKind::ClockSet(1), Severity::Note),
            (ProblemKind::CutOff, Severity::Note),
            (ProblemKind::Suspended(1), Severity::Doubt),
            (ProblemKind::Stolen(1), Severity::Doubt),
        ] {
            let severity = |kind| Problem::new(kind, Stamp::MIN, Stamp::MIN).severity();
            assert_eq!(severity(kind.clone()), expected, "{kind:?}");
            assert_eq!(severity(ProblemKind::OneOfSeveral("b.rec".into(), Box::new(kind))), expected);
        }
    }
}
