//! Paths: from a question to windows, and from a window to its answer.

use wakepath_critical_path::{
    Algorithm, HandOvers, NoHandOvers, Path, Segment, Timeouts, Window, active_with, contributors, exact,
};
use wakepath_findings::{
    KilledBy, LastWaits, Readings, WindowWaits, child_waits, deaths, left_alone, readings, unheeded,
    waits_of_window, window_deaths,
};
use wakepath_loaded::Stretches;
use wakepath_wait_graph::Graph;

use crate::code_names::code_names;
use crate::head::head;
use crate::overview::overview;
use crate::query::{Selection, range, select};
use crate::reclaims::reclaims;
use crate::user_states::user_states;
use crate::{
    CodeNames, OtherPath, Overview, PathAnswer, PathQuery, Problem, ProblemKind, QueryError, Question,
    Recorded, Stacks, problem, sampled,
};

/// The answer to a question about a path.
#[derive(Debug)]
pub enum Answer<'r> {
    /// Windows, each explained.
    Paths(Vec<PathAnswer<'r>>),
    /// No single window: the threads to choose from.
    Overview(Box<Overview<'r>>),
}

/// Explains the question's windows; without a single window, lists the threads that the question could mean.
///
/// # Errors
/// When nothing matches the question, or several threads do and [`PathQuery::all`] is not set.
pub fn path<'r>(recorded: &'r Recorded, query: &PathQuery) -> Result<Answer<'r>, QueryError> {
    match select(recorded, query)? {
        Selection::Windows(windows) => {
            let mut names = code_names(recorded);
            let stretches = Stretches::new(recorded);
            let answers = windows.into_iter().map(|(window, question)| {
                let answer = explain(recorded, query.algorithm, window, question, &mut names);
                let user_states = user_states(recorded, &stretches, &answer.path);
                let reclaims = reclaims(recorded, &answer.path);
                let all = deaths(recorded);
                let waits = LastWaits {
                    still_waiting: answer.still_waiting.as_ref(),
                    killed: answer.killed.as_ref(),
                };
                let deaths = window_deaths(recorded, &answer.path, waits, &all);
                let unheeded = unheeded(recorded, &answer.path, &all);
                let killed = answer.killed.as_ref().and_then(|hang| answer.thread(hang.thread).tgid);
                let killed_for_memory = all
                    .into_iter()
                    .find(|death| killed == Some(death.process) && matches!(death.by, KilledBy::NoMemory(_)));
                PathAnswer { user_states, reclaims, deaths, killed_for_memory, unheeded, ..answer }
            });
            Ok(Answer::Paths(answers.collect()))
        }
        Selection::Threads(scope, threads) => {
            let range = range(recorded, query)?;
            Ok(Answer::Overview(Box::new(overview(recorded, scope, &threads, range.start, range.end))))
        }
    }
}

/// Explains a window.
pub(crate) fn explain<'r>(
    recorded: &'r Recorded,
    algorithm: Algorithm,
    window: Window,
    question: Question,
    names: &mut CodeNames<'r>,
) -> PathAnswer<'r> {
    explain_with(recorded, algorithm, window, question, names, &NoHandOvers)
}

/// Explains a window, with the knowledge of handed-over work.
pub(crate) fn explain_with<'r>(
    recorded: &'r Recorded,
    algorithm: Algorithm,
    window: Window,
    question: Question,
    names: &mut CodeNames<'r>,
    hand_overs: &dyn HandOvers,
) -> PathAnswer<'r> {
    let graph = &recorded.graph;
    let path = path_with(graph, window, algorithm, hand_overs);
    let Readings { path, if_not_joined, if_joined } =
        readings(recorded, path, |timeouts| active_with(graph, window, timeouts, hand_overs));
    let WindowWaits { still_waiting, killed, deadlocks } = waits_of_window(recorded, &path);
    let last_wait = still_waiting.as_ref().or(killed.as_ref());
    let left_alone = last_wait.and_then(|hang| left_alone(recorded, hang, window.to));
    let child_waits = last_wait.map_or(Vec::new(), |hang| child_waits(recorded, hang, window.to));
    let [if_not_joined, if_joined] = [if_not_joined, if_joined].map(|other| {
        other.map(|(path, timed_out)| {
            let contributors = contributors(graph, &path);
            Box::new(OtherPath { timed_out, contributors, path, stacks: Stacks::default() })
        })
    });
    let answer = answer(recorded, path, question, names);
    PathAnswer {
        if_not_joined,
        if_joined,
        still_waiting,
        killed,
        left_alone,
        child_waits,
        deadlocks,
        ..answer
    }
}

/// A window's path by an algorithm. The exact path ignores handed-over work.
pub(crate) fn path_with(
    graph: &Graph,
    window: Window,
    algorithm: Algorithm,
    hand_overs: &dyn HandOvers,
) -> Path {
    match algorithm {
        Algorithm::Exact => exact(graph, window),
        _ => active_with(graph, window, Timeouts::of(algorithm), hand_overs),
    }
}

/// An answer with this path, without the parts that only a thread's window has.
pub(crate) fn answer<'r>(
    recorded: &'r Recorded,
    path: Path,
    question: Question,
    names: &mut CodeNames<'r>,
) -> PathAnswer<'r> {
    let (graph, window) = (&recorded.graph, path.window);
    let mut head = head(recorded, window.from, window.to);
    // Clock errors outside the path do not matter.
    let of_segment = |segment: &Segment| recorded.clock_error(segment.thread, segment.from, segment.to);
    head.clock_error_ns =
        path.segments.iter().map(of_segment).try_fold(0, |worst, one| Some(one?.max(worst)));
    head.problems.extend(path.problems.iter().map(|problem| Problem::from_path(problem, graph, window.to)));
    let sampled = sampled(&path, names);
    let stacks = Stacks::of(&path, names);
    let doubtful = recorded.survey.stacks.filter(|counts| counts.doubtful > 0);
    let of_all = |counts| Problem::new(ProblemKind::StackCache(counts), graph.from(), graph.to());
    head.problems.extend(doubtful.map(of_all));
    problem::sort(&mut head.problems);
    PathAnswer::new(recorded, head, question, path, sampled, stacks)
}

#[cfg(test)]
mod tests {
    use wakepath_event::{EventKind, Mark, Tid};

    use super::*;
    use wakepath_loaded::testing::{event, read};

    #[test]
    fn a_command_that_goes_on_as_another_thread_is_still_waiting_when_that_one_is() {
        let trace = "
            thread leader tid=10
            thread worker tid=11 tgid=10
              1 c0 idle started
              2 c0 idle switch leader
              3 c1 idle switch worker
            100 c0 leader exit
            110 c0 leader switch idle dead
            200 c1 leader exec other from=worker
            300 c1 leader switch idle blocked
            500 c1 idle stopped
        ";
        let command = EventKind::Mark(Mark::Command { tgid: Tid(10), words: b"leader".as_slice().into() });
        let mut events = wakepath_scenario::text::parse(trace).expect("a trace").events;
        events.insert(3, event(1, 0, 0, command));
        let recorded = read(&events);
        let Ok(Answer::Paths(answers)) = path(&recorded, &PathQuery::default()) else {
            panic!("the command has a window")
        };
        let still_waiting = answers[0].still_waiting.as_ref().expect("it waits when the recording ends");
        assert_eq!(still_waiting.since.ns(), 300);
    }
}
