//! Problems that make an answer less certain: found on a path, by clocks, or in the files read.

use std::path::PathBuf;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{self as critical_path, Severity};
use wakepath_event::{Comm, Damage, DamageKind, StackCounts, Tid};
use wakepath_wait_graph::Graph;

/// A remark for a reader of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its kind, with its data.
    pub kind: ProblemKind,
    /// The beginning of its time range.
    pub from: Stamp<Reference>,
    /// The end of its time range.
    pub to: Stamp<Reference>,
    /// The thread concerned, if any.
    pub thread: Option<(Tid, Comm)>,
    /// The number of further calls with a problem of this kind, if several were explained.
    pub other_calls: u64,
}

/// A reason why an answer is less than certain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemKind {
    /// Found on the path.
    Path(critical_path::ProblemKind),
    /// The realtime clock was set by this time, ns; negative: back.
    ClockSet(i128),
    /// The machine was suspended for this time, ns.
    Suspended(u64),
    /// The hypervisor took at most this CPU time, ns; its place in the window is not known.
    Stolen(u64),
    /// Stacks repeated by the stack cache may belong to another wait.
    StackCache(StackCounts),
    /// The recorder did not end the recording.
    CutOff,
    /// No packet links a recording's host to the reference host.
    HostUnlinked {
        /// The recording, which is left out.
        recording: PathBuf,
        /// The reference host's recording.
        reference: PathBuf,
    },
    /// A host's recording does not cover the time of all recordings.
    PartlyRecorded {
        /// The recording.
        recording: PathBuf,
        /// The time from the first event in all recordings to its own first event, ns.
        late_ns: u64,
        /// The time from its own last event to the last event in all recordings, ns.
        early_ns: u64,
    },
    /// A recording of wakepath is not as it was written.
    Recording(Damage),
    /// Another tracer's trace is damaged or doubtful.
    Trace(Damage),
    /// A problem with one of several recordings.
    OneOfSeveral(PathBuf, Box<Self>),
}

impl ProblemKind {
    /// Whether a CPU has no records, in any recording.
    pub fn lacks_cpus(&self) -> bool {
        match self {
            Self::OneOfSeveral(_, kind) => kind.lacks_cpus(),
            Self::Trace(Damage { kind, .. }) => matches!(kind, DamageKind::CpusUnrecorded { .. }),
            _ => false,
        }
    }

    /// Whether programs were traced without the kernel.
    pub const fn lacks_the_kernel(&self) -> bool {
        matches!(self, Self::Trace(Damage { kind: DamageKind::ProgramsAlone, .. }))
    }
}

impl Problem {
    /// A problem without a thread.
    pub fn new(kind: ProblemKind, from: Stamp<Reference>, to: Stamp<Reference>) -> Self {
        Self { kind, from, to, thread: None, other_calls: 0 }
    }

    /// A problem found on a path; its thread has the name it had at `at`.
    pub fn from_path(problem: &critical_path::Problem, graph: &Graph, at: Stamp<Reference>) -> Self {
        let thread = problem.thread.map(|index| graph.thread(index));
        Self {
            thread: thread.map(|thread| (thread.tid_at(at), thread.name_at(at))),
            ..Self::new(ProblemKind::Path(problem.kind.clone()), problem.from, problem.to)
        }
    }

    /// The problem's severity.
    pub const fn severity(&self) -> Severity {
        self.kind.severity()
    }
}

impl ProblemKind {
    /// The kind's severity.
    const fn severity(&self) -> Severity {
        match self {
            Self::Path(kind) => kind.severity(),
            // The counts are for the whole machine. A tenth could change which function is named first.
            Self::StackCache(counts) if counts.doubtful <= counts.repeated / 10 => Severity::Note,
            Self::ClockSet(_) | Self::CutOff => Severity::Note,
            // Programs' marks lie over an answer by the kernel's records, and change nothing in it.
            Self::Trace(Damage {
                kind:
                    DamageKind::ProgramsAlone
                    | DamageKind::ProgramsApart
                    | DamageKind::MarksWithoutThread
                    | DamageKind::MarksLost { .. },
                ..
            }) => Severity::Note,
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

    #[test]
    fn repeated_stacks_are_doubtful_if_more_than_a_tenth_of_them_may_belong_to_another_wait() {
        for (repeated, doubtful, expected) in [
            (0, 0, Severity::Note),
            (100, 10, Severity::Note),
            (100, 11, Severity::Doubt),
            (9, 1, Severity::Doubt),
            (1_000, 9, Severity::Note),
        ] {
            let counts = StackCounts { repeated, doubtful, ..StackCounts::default() };
            let problem = Problem::new(ProblemKind::StackCache(counts), Stamp::MIN, Stamp::MIN);
            assert_eq!(problem.severity(), expected, "{doubtful} in {repeated}");
        }
    }

    #[test]
    fn a_cpu_without_records_is_one_that_the_trace_says_was_not_recorded() {
        let damage = |kind| Damage { file: "trace".into(), packet: None, offset: None, kind };
        let unrecorded = damage(DamageKind::CpusUnrecorded { cpus: vec![3], wakings: 9 });
        let lacking = ProblemKind::Trace(unrecorded.clone());
        assert!(lacking.lacks_cpus());
        assert!(ProblemKind::OneOfSeveral("b.data".into(), Box::new(lacking)).lacks_cpus());
        assert!(!ProblemKind::OneOfSeveral("b.data".into(), Box::new(ProblemKind::CutOff)).lacks_cpus());
        assert!(!ProblemKind::Recording(unrecorded).lacks_cpus());
        assert!(!ProblemKind::Trace(damage(DamageKind::NoWakings)).lacks_cpus());
        assert!(!ProblemKind::CutOff.lacks_cpus());
    }

    #[test]
    fn a_problem_on_a_path_has_its_thread_by_the_name_and_number_of_that_time() {
        let recorded = crate::testing::trace(
            "thread first tid=7
             0 c0 idle switch first
             50 c0 first rename first second
             90 c0 first switch idle",
            &[],
        );
        let found = |thread| critical_path::Problem {
            kind: critical_path::ProblemKind::WindowOutside,
            from: Stamp::from_ns(1),
            to: Stamp::from_ns(2),
            thread,
        };
        let thread = recorded.with_tid(Tid(7)).first().copied();
        for (at, name) in [(49, "first"), (50, "second")] {
            let problem = Problem::from_path(&found(thread), &recorded.graph, Stamp::from_ns(at));
            let kind = ProblemKind::Path(critical_path::ProblemKind::WindowOutside);
            let expected = Problem::new(kind, Stamp::from_ns(1), Stamp::from_ns(2));
            assert_eq!(problem.thread, Some((Tid(7), Comm::new(name.as_bytes()))), "{at}");
            assert_eq!(Problem { thread: None, ..problem }, expected);
            assert_eq!(expected.severity(), Severity::Doubt);
        }
        assert_eq!(Problem::from_path(&found(None), &recorded.graph, Stamp::MIN).thread, None);
    }
}
