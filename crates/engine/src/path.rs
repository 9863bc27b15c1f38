//! Paths: from a question to windows, and from a window to its answer.

use wakepath_critical_path::{Algorithm, Segment, Timeouts, Window, active, active_by, contributors, exact};
use wakepath_findings::{open_waits_of_window, timed_out_ns};
use wakepath_recording::this_host;

use crate::head::head;
use crate::overview::overview;
use crate::query::{Selection, asked, select};
use crate::{
    CodeNames, Overview, PathAnswer, PathQuery, Problem, ProblemKind, QueryError, Question, Recorded, Stacks,
    problem, sampled,
};

/// The answer to a question about a path.
#[derive(Debug)]
pub enum Answer<'r> {
    /// Windows, each explained.
    Paths(Vec<PathAnswer<'r>>),
    /// There is no single window: the threads that could be asked about.
    Overview(Box<Overview<'r>>),
}

/// Why a window took its time; where the question has no single window, which threads it could be
/// put to.
///
/// # Errors
/// When nothing fits the question, or several threads do and [`PathQuery::all`] is not set.
pub fn path<'r>(recorded: &'r Recorded, query: &PathQuery) -> Result<Answer<'r>, QueryError> {
    match select(recorded, query)? {
        Selection::Windows(windows) => {
            let mut names = code_names(recorded);
            let answers = windows
                .into_iter()
                .map(|(window, question)| explain(recorded, query.algorithm, window, question, &mut names));
            Ok(Answer::Paths(answers.collect()))
        }
        Selection::Threads(scope, threads) => {
            let (from, to) = asked(recorded, query)?;
            let (from, to) = (from.unwrap_or(recorded.from()), to.unwrap_or(recorded.to()));
            if from >= to {
                return Err(QueryError::EmptyWindow);
            }
            Ok(Answer::Overview(Box::new(overview(recorded, scope, &threads, from, to))))
        }
    }
}

/// The functions of a recording's code, found as they are asked for.
pub(crate) fn code_names(recorded: &Recorded) -> CodeNames<'_> {
    let boot = this_host().boot_id;
    CodeNames::new(recorded, !boot.is_empty() && boot == recorded.host.boot_id)
}

/// Explains one window.
pub(crate) fn explain<'r>(
    recorded: &'r Recorded,
    algorithm: Algorithm,
    window: Window,
    question: Question,
    names: &mut CodeNames<'r>,
) -> PathAnswer<'r> {
    let graph = &recorded.graph;
    let path = match algorithm {
        Algorithm::Active => active(graph, window),
        Algorithm::Joined => active_by(graph, window, Timeouts::Joined),
        Algorithm::Exact => exact(graph, window),
    };
    let mut head = head(recorded, window.from, window.to);
    // Where the path does not go, a clock may be as far off as it likes.
    let of_segment = |segment: &Segment| recorded.clock_error(segment.thread, segment.from, segment.to);
    head.clock_error_ns =
        path.segments.iter().map(of_segment).try_fold(0, |worst, one| Some(one?.max(worst)));
    head.problems.extend(path.problems.iter().map(|problem| Problem::of_path(problem, graph, window.to)));
    let (sampled, sampled_segments) = sampled(&path, names);
    let stacks = Stacks::of(&path, names);
    let doubtful = recorded.survey.stacks.filter(|counts| counts.doubtful > 0);
    let of_all = |counts| Problem::new(ProblemKind::StackCache(counts), graph.from(), graph.to());
    head.problems.extend(doubtful.map(of_all));
    problem::sort(&mut head.problems);
    let (still_waiting, deadlocks) = open_waits_of_window(recorded, window);
    PathAnswer {
        head,
        question,
        contributors: contributors(graph, &path),
        timed_out_ns: timed_out_ns(recorded, &path),
        path,
        still_waiting,
        deadlocks,
        sampled,
        sampled_segments,
        stacks,
        recorded,
    }
}

#[cfg(test)]
mod tests {
    use wakepath_event::{BlockedState, Comm, EventKind, Mark, SwitchOut, Tid};

    use super::*;
    use wakepath_names::testing::{event, read, thread};

    #[test]
    fn a_command_that_goes_on_as_another_thread_is_still_waiting_when_that_one_is() {
        let switch = |next, out| EventKind::Switch { next: Tid(next), out, interrupts_ns: 0, call: None };
        let blocked = SwitchOut::Blocked(BlockedState::Interruptible);
        let exec = EventKind::Exec { old: Tid(11), comm: Comm::new(b"other"), path: [].into() };
        let events = [
            event(0, 0, 0, thread(10, 10, 1, "leader")),
            event(0, 0, 0, thread(11, 10, 1, "worker")),
            event(1, 0, 0, EventKind::Mark(Mark::Started)),
            event(
                1,
                0,
                0,
                EventKind::Mark(Mark::Command { tgid: Tid(10), words: b"leader".as_slice().into() }),
            ),
            event(2, 0, 0, switch(10, SwitchOut::Runnable)),
            event(3, 1, 0, switch(11, SwitchOut::Runnable)),
            event(100, 0, 10, EventKind::Exit),
            event(110, 0, 10, switch(0, SwitchOut::Dead)),
            event(200, 1, 10, exec),
            event(300, 1, 10, switch(0, blocked)),
            event(500, 1, 0, EventKind::Mark(Mark::Stopped)),
        ];
        let recorded = read(&events);
        let Ok(Answer::Paths(answers)) = path(&recorded, &PathQuery::default()) else {
            panic!("the command has a window")
        };
        let still_waiting = answers[0].still_waiting.as_ref().expect("it waits when the recording ends");
        assert_eq!(still_waiting.since.ns(), 300);
    }
}
