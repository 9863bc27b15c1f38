//! Answers as data, with everything in them that a shell needs to show them.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Contributor, Hang, Path};
use wakepath_event::HostIndex;
use wakepath_findings::Evidence;
use wakepath_wait_graph::{Loss, ThreadIndex, ThreadState};

use crate::{Host, Name, Problem, Recorded, Sampled, SampledSegments, Stacks, ThreadInfo};

/// The part that all answers have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The machine; of several, the one whose clock the stamps are of.
    pub host: Host,
    /// The other machines, from the second on, where several were recorded.
    pub others: Vec<Host>,
    /// Which of that machine's clocks that is.
    pub clock: &'static str,
    /// Where a document's time begins: all its stamps count from here.
    pub origin: Stamp<Reference>,
    /// Realtime at the origin, ns since 1970; `None` where the clocks were never read.
    pub origin_realtime_ns: Option<u64>,
    /// How far stamps may be off from those of other hosts, ns. 0 on one host; `None` without a bound.
    pub clock_error_ns: Option<u64>,
    /// The problems of the answer, the worst first.
    pub problems: Vec<Problem>,
    /// Records lost where the answer looks.
    pub losses: Vec<Loss>,
    /// On which host each of them, by its place among `host` and `others`; `None` where that is not known.
    pub loss_hosts: Vec<Option<HostIndex>>,
    /// The recorder's own CPU time, where its threads were recorded.
    pub cost: Option<Cost>,
}

/// The cost of recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// CPU time of the recorder's own threads, ns.
    pub observer_ns: u64,
    /// The time it was measured over, ns.
    pub over_ns: u64,
}

impl Cost {
    /// The cost of the recorder's own threads between `from` and `to`; `None` where it did not note
    /// which threads they are.
    pub(crate) fn of_recorder(
        recorded: &Recorded,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Option<Self> {
        let observers = &recorded.survey.session.observers;
        if observers.is_empty() || to <= from {
            return None;
        }
        let threads = observers.iter().flat_map(|&tid| recorded.with_tid(tid));
        let running = threads
            .flat_map(|&index| recorded.graph.state_intervals(index).overlapping(from, to))
            .filter_map(|interval| {
                let ran = matches!(interval.state, ThreadState::Running { .. });
                ran.then(|| interval.to.min(to).since(interval.from.max(from)))
            });
        Some(Self { observer_ns: running.fold(0, u64::saturating_add), over_ns: to.since(from) })
    }
}

/// How the window was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The command that was recorded: its first process's main thread, exec to exit.
    Command {
        /// Its words.
        words: Vec<Name>,
        /// Its wait status, where its end was seen.
        status: Option<u32>,
    },
    /// A thread, over its whole life in the recording or a part of it.
    Thread,
}

/// Why a window took its time.
#[derive(Debug)]
pub struct PathAnswer<'r> {
    /// The part that all answers have.
    pub head: Head,
    /// How the window was chosen.
    pub question: Question,
    /// The path that explains it.
    pub path: Path,
    /// The contributors to the window's time, the largest first; together they are the whole window.
    pub contributors: Vec<Contributor>,
    /// So much of the path is time-outs of waits that then went on, ns: what `Algorithm::Joined` would not
    /// charge to timers; 0 of any path but an active one, and where it is no hundredth of it.
    pub timed_out_ns: u64,
    /// The wait that the window's thread was in when the recording ended, where the window reaches
    /// that far.
    pub still_waiting: Option<Hang>,
    /// Cycles of threads that waited for each other's locks then, where one of them is of the window's
    /// process or a descendant of it.
    pub deadlocks: Vec<Vec<Hang>>,
    /// Where in the code its running threads were seen.
    pub sampled: Sampled,
    /// The same by segment.
    pub sampled_segments: SampledSegments,
    /// Where in the code its waits began and were ended, where that was recorded.
    pub stacks: Stacks,
    /// The recording that was asked.
    pub recorded: &'r Recorded,
}

impl PathAnswer<'_> {
    /// The evidence for findings about the window.
    pub const fn evidence(&self) -> Evidence<'_> {
        let Self { recorded, path, stacks, sampled, sampled_segments, .. } = self;
        Evidence { recorded, path, stacks, sampled, sampled_segments }
    }

    /// The window's length, ns.
    pub fn window_ns(&self) -> u64 {
        self.evidence().window_ns()
    }

    /// The identity of the window's own thread when the window closed.
    pub fn subject(&self) -> ThreadInfo {
        self.evidence().subject()
    }

    /// The identity of a thread when the window closed.
    pub fn thread(&self, index: ThreadIndex) -> ThreadInfo {
        self.evidence().thread(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_event::{EventKind, Mark, Tid};
    use wakepath_names::testing::{event, read};

    #[test]
    fn observers_may_have_taken_longer_than_fits() {
        let mut events = vec![(0, 0, 0, EventKind::Mark(Mark::Started))];
        for tid in [7, 8] {
            events.push((0, 0, 0, EventKind::Mark(Mark::Observer(Tid(tid)))));
            events.push((1, tid as u16, tid, EventKind::Current));
        }
        for tid in [7, 8] {
            events.push((u64::MAX, tid as u16, tid, EventKind::Current));
        }
        let events: Vec<_> =
            events.into_iter().map(|(at, cpu, tid, what)| event(at, cpu, tid, what)).collect();
        let recorded = read(&events);
        let cost = Cost::of_recorder(&recorded, recorded.from(), recorded.to()).expect("there are observers");
        assert_eq!((cost.observer_ns, cost.over_ns), (u64::MAX, u64::MAX));
    }
}
