//! Answers as data, complete for a shell to show.

use std::sync::OnceLock;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Algorithm, Contributor, Hang, JoinedSum, Path, contributors};
use wakepath_event::{HostIndex, Tid};
use wakepath_findings::{
    CauseTree, ChildWait, Death, Evidence, Finding, LastWaits, LeftAlone, Method, PathFindings, Row, RowKey,
    Unheeded, WindowDeath, cause_tree, first_cause,
};
use wakepath_wait_graph::{Loss, ThreadIndex};

use crate::{Cost, Host, Name, Problem, Reclaims, Recorded, Sampled, Stacks, ThreadInfo, UserState, Window};

/// The part that all answers have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The machine; of several machines, the reference host.
    pub host: Host,
    /// The machines from the second on, if several were recorded.
    pub others: Vec<Host>,
    /// The reference host's clock for all stamps.
    pub clock: &'static str,
    /// The start of the document's time: all its stamps count from here.
    pub origin: Stamp<Reference>,
    /// Realtime at the origin, ns since 1970; `None` where the clocks were never read.
    pub origin_realtime_ns: Option<u64>,
    /// The largest error between stamps of different hosts, ns. 0 on one host; `None` without a bound.
    pub clock_error_ns: Option<u64>,
    /// The answer's problems, the worst first.
    pub problems: Vec<Problem>,
    /// Records lost in the answer's time.
    pub losses: Vec<Loss>,
    /// Each loss's host, as an index into `host` and then `others`; `None` where not known.
    pub loss_hosts: Vec<Option<HostIndex>>,
    /// The whole recording's cost, where the recorder's threads were recorded.
    pub cost: Option<Cost>,
}

/// The choice of the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The recorded command: its first process's main thread, exec to exit.
    Command {
        /// Its words.
        words: Vec<Name>,
        /// Its wait status, if its end was seen.
        status: Option<u32>,
    },
    /// A thread, over its whole life in the recording or a part.
    Thread,
    /// A request, over its local root span's time, in the thread where the span began.
    Request {
        /// The service name.
        service: Name,
        /// The span name.
        operation: Name,
        /// Whether a goroutine did the work: no thread's path is the request's path then.
        goroutine: bool,
    },
}

/// An explanation for a window's time.
#[derive(Debug)]
pub struct PathAnswer<'r> {
    /// The part that all answers have.
    pub head: Head,
    /// The choice of the window.
    pub question: Question,
    /// The path that explains it.
    pub path: Path,
    /// The contributors to the window's time, the largest first; together they fill the window.
    pub contributors: Vec<Contributor>,
    /// The reading with proved joins only, if `path` also joins slices.
    pub if_not_joined: Option<Box<OtherPath>>,
    /// The reading with more joins, if further waits may have gone on and take at least a hundredth of the window.
    pub if_joined: Option<Box<OtherPath>>,
    /// The wait of the window's thread at the recording's end, if the window reaches the end.
    pub still_waiting: Option<Hang>,
    /// The wait in which a signal killed the window's thread, or else a descendant of its process.
    pub killed: Option<Hang>,
    /// Nobody could wake the thread in `still_waiting`, else in `killed`.
    pub left_alone: Option<LeftAlone>,
    /// The waits in children for whose end the thread in `still_waiting`, else in `killed`, waited.
    pub child_waits: Vec<ChildWait>,
    /// Cycles of threads that waited for each other's locks then, if a thread in the cycle belongs to the window's
    /// process or a descendant.
    pub deadlocks: Vec<Vec<Hang>>,
    /// The places in the code where samples found the path's running threads.
    pub sampled: Sampled,
    /// The places in the code where the path's waits began and were ended, where recorded.
    pub stacks: Stacks,
    /// Programs' own states over the path, most time first; empty where programs were not traced.
    pub user_states: Vec<UserState>,
    /// Memory reclaims over the path, most time first; empty where no limit was reached.
    pub reclaims: Vec<Reclaims>,
    /// Killed processes with a part in the window's time, first those expected to end a wait.
    pub deaths: Vec<WindowDeath>,
    /// The death behind `killed`, if the kernel killed the process for want of memory: no thread is to blame.
    pub killed_for_memory: Option<Death>,
    /// Signals asking a process to end, after which it lived on.
    pub unheeded: Vec<Unheeded>,
    /// The recording behind the answer.
    pub recorded: &'r Recorded,
    /// Made on first use: there may be thousands of paths, a path for each call.
    pub(crate) findings: OnceLock<PathFindings>,
}

/// The next question that an answer offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextQuestion {
    /// The algorithm for the path whose cause tree comes next.
    pub algorithm: Algorithm,
    /// The thread and its time; `None`: the answer's own question.
    pub thread: Option<NextThread>,
}

/// A thread in a question, and a part of its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextThread {
    /// The thread.
    pub tid: Tid,
    /// The beginning.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
}

/// Another reading of a window.
#[derive(Debug)]
pub struct OtherPath {
    /// The waits joined in only a single reading.
    pub timed_out: JoinedSum,
    /// The path.
    pub path: Path,
    /// Its contributors, the largest first.
    pub contributors: Vec<Contributor>,
    /// Empty: an option gives the path with the places in the code.
    pub stacks: Stacks,
}

impl<'r> PathAnswer<'r> {
    /// An answer with this path, without the waits at the window's end.
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
            if_not_joined: None,
            if_joined: None,
            path,
            still_waiting: None,
            killed: None,
            left_alone: None,
            child_waits: Vec::new(),
            deadlocks: Vec::new(),
            sampled,
            stacks,
            user_states: Vec::new(),
            reclaims: Vec::new(),
            deaths: Vec::new(),
            killed_for_memory: None,
            unheeded: Vec::new(),
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

    /// The window's other reading.
    fn other_path(&self) -> Option<&OtherPath> {
        self.if_not_joined.as_deref().or(self.if_joined.as_deref())
    }

    /// The evidence for the window's other reading.
    pub fn evidence_of_other(&self) -> Option<Evidence<'_>> {
        let OtherPath { path, stacks, .. } = self.other_path()?;
        Some(Evidence { path, stacks, ..self.evidence() })
    }

    /// The findings about the window.
    pub fn findings(&self) -> &PathFindings {
        self.findings.get_or_init(|| {
            let waits =
                LastWaits { still_waiting: self.still_waiting.as_ref(), killed: self.killed.as_ref() };
            let timed_out = self.other_path().map(|other| other.timed_out);
            PathFindings::new(&self.evidence(), waits, self.evidence_of_other().zip(timed_out))
        })
    }

    /// The method behind the window's figures.
    pub fn method(&self) -> Method {
        Method::new(&self.evidence())
    }

    /// The cause with most time in the window, if it is a call.
    pub fn first_cause(&self) -> Option<(RowKey, Row)> {
        first_cause(&self.evidence())
    }

    /// The window's cause tree.
    pub fn tree(&self) -> CauseTree {
        cause_tree(&self.evidence())
    }

    /// The next question; `None` where a goroutine did the window's work.
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

    /// Whether the largest row is sleep between tries whose failures a recorder could have recorded: at least 3 sleeps, no known reason, in a
    /// recording by wakepath without `--failed-calls`, of a command, a thread or a request's thread.
    pub fn lacks_failed_calls(&self) -> bool {
        const MIN_SLEEPS: u64 = 3;
        let Some(Finding { key: RowKey::Timer, row, .. }) = self.findings().rows.first() else {
            return false;
        };
        // A request's path goes through many threads, each with a sleep of its own.
        let is_own = || row.threads.iter().all(|thread| *thread == self.path.window.thread);
        let is_asked = match self.question {
            Question::Command { .. } | Question::Thread => true,
            Question::Request { goroutine, .. } => !goroutine && is_own(),
        };
        let recorder = self.recorded.format.as_ref().filter(|_| self.recorded.tracer.is_none());
        is_asked
            && row.waits() >= MIN_SLEEPS
            && row.polling.is_empty()
            && recorder.is_some_and(|format| !records_failed_calls(&format.options))
    }

    /// The window's length, ns.
    pub fn window_ns(&self) -> u64 {
        self.evidence().window_ns()
    }

    /// The window's own thread, with its identity when the window closed.
    pub fn subject(&self) -> ThreadInfo {
        self.evidence().subject()
    }

    /// A thread's identity when the window closed.
    pub fn thread(&self, index: ThreadIndex) -> ThreadInfo {
        self.evidence().thread(index)
    }
}

/// Whether the recorder's command line asks for failed calls, before the words of the command to run.
fn records_failed_calls(options: &str) -> bool {
    options.split(' ').take_while(|word| *word != "--").any(|word| word == "--failed-calls")
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

    #[test]
    fn failed_calls_are_lacking_where_sleep_is_the_largest_row_and_the_recorder_did_not_look_for_them() {
        let sleep = |at: u64, ns: u64| {
            let to = at + ns;
            format!(
                "{at} c0 app switch idle blocked call=230:0
                 {to} c0 idle/timer waking app
                 {to} c0 idle switch app\n"
            )
        };
        let sleeps = |count: u64, ns: u64| {
            let all: String = (0..count).map(|place| sleep(10 + 110 * place, ns)).collect();
            format!("thread app tid=7\n0 c0 idle switch app\n{all}{} c0 app stopped", 20 + 110 * count)
        };
        let lacks = |trace: &str, options: Option<&str>, question: Option<Question>| {
            let mut recorded = read(&wakepath_scenario::text::parse(trace).expect("a trace").events);
            recorded.format = options
                .map(|options| wakepath_event::Format { options: options.into(), ..Default::default() });
            let query = PathQuery { subject: Subject::Tid(Tid(7)), ..PathQuery::default() };
            let Ok(Answer::Paths(mut answers)) = path(&recorded, &query) else { panic!("a path") };
            if let Some(question) = question {
                answers[0].question = question;
            }
            answers[0].lacks_failed_calls()
        };
        let plain = Some("record -- ./app --failed-calls");
        assert!(lacks(&sleeps(3, 100), plain, None), "the words behind -- are the command's");
        assert!(!lacks(&sleeps(2, 100), plain, None), "two sleeps are no polling yet");
        assert!(!lacks(&sleeps(3, 5), plain, None), "it mostly ran");
        assert!(!lacks(&sleeps(3, 100), Some("record --failed-calls -- ./app"), None));
        assert!(!lacks(&sleeps(3, 100), None, None), "no recorder of ours");
        let mut recorded = read(&wakepath_scenario::text::parse(&sleeps(3, 100)).expect("a trace").events);
        recorded.format = Some(wakepath_event::Format::default());
        recorded.tracer = Some("lttng".into());
        let query = PathQuery { subject: Subject::Tid(Tid(7)), ..PathQuery::default() };
        let Ok(Answer::Paths(answers)) = path(&recorded, &query) else { panic!("a path") };
        assert!(!answers[0].lacks_failed_calls(), "another tracer's");
        for goroutine in [false, true] {
            let request = Question::Request { service: "shop".into(), operation: "GET".into(), goroutine };
            assert_eq!(lacks(&sleeps(3, 100), plain, Some(request)), !goroutine);
        }
        let of_peer = "thread app tid=7
            thread peer tid=8 tgid=7
            0 c0 idle switch app
            0 c1 idle switch peer
            1 c0 app switch idle blocked call=0:3
            2 c1 peer switch idle blocked call=230:0
            102 c1 idle/timer waking peer
            102 c1 idle switch peer
            103 c1 peer switch idle blocked call=230:0
            203 c1 idle/timer waking peer
            203 c1 idle switch peer
            204 c1 peer switch idle blocked call=230:0
            304 c1 idle/timer waking peer
            304 c1 idle switch peer
            305 c1 peer waking app
            305 c0 idle switch app
            310 c0 app stopped";
        let request = Question::Request { service: "shop".into(), operation: "GET".into(), goroutine: false };
        assert!(!lacks(of_peer, plain, Some(request)), "another thread's sleeps");
        assert!(lacks(of_peer, plain, None), "a thread's path through another one");
    }
}
