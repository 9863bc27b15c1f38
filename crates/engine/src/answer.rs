//! Answers as data, with everything in them that a shell needs to show them.

use std::sync::OnceLock;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Algorithm, Contributor, Hang, JoinedSum, Path, contributors};
use wakepath_event::{HostIndex, Tid};
use wakepath_findings::{
    CauseTree, Evidence, LastWaits, Method, PathFindings, Row, RowKey, cause_tree, first_cause,
};
use wakepath_wait_graph::{Loss, ThreadIndex};

use crate::{Cost, Host, Name, Problem, Recorded, Sampled, Stacks, ThreadInfo, Window};

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
    /// The cost of the whole recording, where the recorder's threads were recorded.
    pub cost: Option<Cost>,
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
    /// A request, over the time of its local root span, in the thread in which that began.
    Request {
        /// The name of the service.
        service: Name,
        /// The name of the span.
        operation: Name,
        /// Whether a goroutine did the work: no thread's path is then that of the request.
        goroutine: bool,
    },
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
    /// The other reading, where waits timed out that may have gone on: they take at least a hundredth of the window.
    pub if_joined: Option<Box<IfJoined>>,
    /// The wait that the window's thread was in when the recording ended, where the window reaches
    /// that far.
    pub still_waiting: Option<Hang>,
    /// The wait in which a signal killed the window's thread, or else a descendant of its process.
    pub killed: Option<Hang>,
    /// Cycles of threads that waited for each other's locks then, where one of them is of the window's
    /// process or a descendant of it.
    pub deadlocks: Vec<Vec<Hang>>,
    /// Where in the code its running threads were seen.
    pub sampled: Sampled,
    /// Where in the code its waits began and were ended, where that was recorded.
    pub stacks: Stacks,
    /// The recording that was asked.
    pub recorded: &'r Recorded,
    /// Made where they are asked for: the paths of calls may be thousands.
    pub(crate) findings: OnceLock<PathFindings>,
}

/// The next question that an answer offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextQuestion {
    /// The cause tree of a path by this algorithm.
    pub algorithm: Algorithm,
    /// The thread and its time; `None`: those of the answer's own question.
    pub thread: Option<NextThread>,
}

/// A thread that a question names, and a part of its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextThread {
    /// The thread.
    pub tid: Tid,
    /// The beginning.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
}

/// The reading of a window in which waits that timed out went on in the next wait, which is not proved.
#[derive(Debug)]
pub struct IfJoined {
    /// The waits that this path joins beyond those that are proved to be one.
    pub timed_out: JoinedSum,
    /// The path.
    pub path: Path,
    /// Its contributors, the largest first.
    pub contributors: Vec<Contributor>,
    /// No places in the code: the path of [`Algorithm::JoinedIfAlike`](crate::Algorithm::JoinedIfAlike) has them.
    pub stacks: Stacks,
}

impl<'r> PathAnswer<'r> {
    /// The answer that is a path, without the waits that the window ended in.
    pub fn new(
        recorded: &'r Recorded,
        head: Head,
        question: Question,
        path: Path,
        sampled: Sampled,
        stacks: Stacks,
    ) -> Self {
        Self {
            head,
            question,
            contributors: contributors(&recorded.graph, &path),
            if_joined: None,
            path,
            still_waiting: None,
            killed: None,
            deadlocks: Vec::new(),
            sampled,
            stacks,
            recorded,
            findings: OnceLock::new(),
        }
    }
}

impl PathAnswer<'_> {
    /// The evidence for findings about the window.
    pub const fn evidence(&self) -> Evidence<'_> {
        let Self { recorded, path, stacks, sampled, .. } = self;
        Evidence { recorded, path, stacks, sampled }
    }

    /// The evidence for the other reading of the window.
    pub fn evidence_if_joined(&self) -> Option<Evidence<'_>> {
        let IfJoined { path, stacks, .. } = self.if_joined.as_deref()?;
        Some(Evidence { path, stacks, ..self.evidence() })
    }

    /// The findings about the window.
    pub fn findings(&self) -> &PathFindings {
        self.findings.get_or_init(|| {
            let waits =
                LastWaits { still_waiting: self.still_waiting.as_ref(), killed: self.killed.as_ref() };
            let timed_out = self.if_joined.as_ref().map(|other| other.timed_out);
            PathFindings::new(&self.evidence(), waits, self.evidence_if_joined().zip(timed_out))
        })
    }

    /// How the time of the window is known.
    pub fn method(&self) -> Method {
        Method::new(&self.evidence())
    }

    /// The cause that took most of the window, if that is a call.
    pub fn first_cause(&self) -> Option<(RowKey, Row)> {
        first_cause(&self.evidence())
    }

    /// The cause tree of the window.
    pub fn tree(&self) -> CauseTree {
        cause_tree(&self.evidence())
    }

    /// The next question; `None` where the work of the window is no thread's.
    pub fn next(&self) -> Option<NextQuestion> {
        let thread = match self.question {
            Question::Command { .. } | Question::Thread => None,
            Question::Request { goroutine: true, .. } => return None,
            Question::Request { goroutine: false, .. } => {
                let Window { from, to, .. } = self.path.window;
                Some(NextThread { tid: self.subject().tid, from, to })
            }
        };
        Some(NextQuestion { algorithm: self.path.algorithm, thread })
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
    use wakepath_loaded::testing::read;

    use super::*;
    use crate::{Answer, PathQuery, Subject, path};

    #[test]
    fn the_next_question_is_about_the_tree_and_names_the_thread_of_a_request_alone() {
        let trace = wakepath_scenario::text::parse(
            "thread app tid=7
             0 c0 idle switch app
             90 c0 app switch idle blocked call=0:3",
        );
        let recorded = read(&trace.expect("a trace").events);
        let query = PathQuery {
            subject: Subject::Tid(Tid(7)),
            algorithm: Algorithm::JoinedIfAlike,
            ..PathQuery::default()
        };
        let Ok(Answer::Paths(mut answers)) = path(&recorded, &query) else { panic!("a path") };
        let answer = &mut answers[0];
        let next = NextQuestion { algorithm: Algorithm::JoinedIfAlike, thread: None };
        assert_eq!(answer.next(), Some(next));
        answer.question = Question::Command { words: Vec::new(), status: None };
        assert_eq!(answer.next(), Some(next));
        let request =
            |goroutine| Question::Request { service: "shop".into(), operation: "GET".into(), goroutine };
        answer.question = request(false);
        let Window { from, to, .. } = answer.path.window;
        let thread = Some(NextThread { tid: Tid(7), from, to });
        assert_eq!(answer.next(), Some(NextQuestion { thread, ..next }));
        answer.question = request(true);
        assert_eq!(answer.next(), None, "no thread's path is that of the request");
    }
}
