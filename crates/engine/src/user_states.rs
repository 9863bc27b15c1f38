//! Programs' own states and marks over a path, after G15 section 5.4.4: intervals between user-space events, laid
//! over the kernel's trace.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Path, Segment, Window};
use wakepath_findings::{Evidence, Finding, LastWaits, PathFindings};
use wakepath_loaded::{StretchEnd, StretchKind, Stretches};
use wakepath_wait_graph::ThreadIndex;

use crate::{PathAnswer, Recorded};

/// A thread's state, over a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserState {
    /// The state: the common part in the names around it.
    pub name: String,
    /// The thread in this state.
    pub thread: ThreadIndex,
    /// Its number during the window.
    pub count: u64,
    /// The path's time in this state, ns: the thread itself was on the path, or the path explains its time.
    pub total_ns: u64,
    /// Further states during the window, not measured for lost marks.
    pub unseen: u64,
    /// The thread's times in this state during the window, in order, without overlaps.
    pub times: Vec<(Stamp<Reference>, Stamp<Reference>)>,
    /// The path's part in this state, as another path.
    part: Path,
}

/// A beginning and an end.
type Times = (Stamp<Reference>, Stamp<Reference>);

/// All states on a path, most time first.
pub(crate) fn user_states(recorded: &Recorded, stretches: &Stretches, path: &Path) -> Vec<UserState> {
    let Window { from, to, thread: own } = path.window;
    let mut states: BTreeMap<(usize, ThreadIndex), (u64, u64, Vec<Times>)> = BTreeMap::new();
    for stretch in &stretches.all {
        if stretches.names[stretch.name].1 != StretchKind::State {
            continue;
        }
        let Some(thread) = stretch.thread else { continue };
        let end = if stretch.end == StretchEnd::Open { recorded.to() } else { stretch.to };
        let begin = stretch.from.unwrap_or(end);
        if end < from || begin >= to {
            continue;
        }
        let (count, unseen, times) = states.entry((stretch.name, thread)).or_default();
        match (stretch.end, stretch.from) {
            (StretchEnd::Unseen, _) | (_, None) => *unseen += 1,
            (_, Some(begin)) => {
                *count += 1;
                times.push((begin.max(from), end.min(to)));
            }
        }
    }
    let mut found: Vec<_> = states
        .into_iter()
        .map(|((name, thread), (count, unseen, times))| {
            let times = union(times);
            let part = part_within(path, &times, |segment| thread == own || segment.thread == Some(thread));
            let total_ns = part.segments.iter().map(|segment| segment.to.since(segment.from)).sum();
            UserState { name: stretches.names[name].0.clone(), thread, count, total_ns, unseen, times, part }
        })
        .filter(|state| state.total_ns > 0 || state.thread == own)
        .collect();
    found.sort_by_key(|state| Reverse(state.total_ns));
    found
}

/// Times in order, without overlaps: a state may nest in itself.
fn union(mut times: Vec<Times>) -> Vec<Times> {
    times.sort_unstable();
    let mut merged: Vec<Times> = Vec::new();
    for (from, to) in times {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// The path's segments within these times, cut to them.
fn part_within(
    path: &Path,
    times: &[(Stamp<Reference>, Stamp<Reference>)],
    is_meant: impl Fn(&Segment) -> bool,
) -> Path {
    let mut segments = Vec::new();
    for &(from, to) in times.iter().filter(|(from, to)| from < to) {
        let first = path.segments.partition_point(|segment| segment.to <= from);
        let within = path.segments[first..].iter().take_while(|segment| segment.from < to);
        segments.extend(within.filter(|segment| is_meant(segment)).map(|segment| Segment {
            from: segment.from.max(from),
            to: segment.to.min(to),
            ..segment.clone()
        }));
    }
    Path {
        window: path.window,
        algorithm: path.algorithm,
        segments,
        waits: path.waits.clone(),
        joined: path.joined,
        unjoined: path.unjoined,
        problems: Vec::new(),
    }
}

impl PathAnswer<'_> {
    /// The path's part in a state, as evidence.
    pub fn evidence_in<'s>(&'s self, state: &'s UserState) -> Evidence<'s> {
        Evidence { path: &state.part, ..self.evidence() }
    }

    /// The path's largest part in a state.
    pub fn largest_in(&self, state: &UserState) -> Option<Finding> {
        let waits = LastWaits { still_waiting: None, killed: None };
        PathFindings::new(&self.evidence_in(state), waits, None).rows.into_iter().next()
    }
}

#[cfg(test)]
mod tests {
    use wakepath_event::{EventKind, Tid, UserMark};
    use wakepath_findings::RowKey;
    use wakepath_loaded::testing::{event, read};

    use super::*;
    use crate::{Answer, PathQuery, Subject, path};

    /// A client waits for a worker, which sleeps in between.
    const TRACE: &str = "
        thread client tid=10
        thread worker tid=20
          0 c0 idle started
          0 c0 idle switch client
        100 c0 client waking worker
        100 c0 client switch worker blocked call=0:3
        200 c0 worker switch idle blocked call=230:1
        500 c0 idle/timer waking worker
        500 c0 idle switch worker
        600 c0 worker waking client
        600 c0 worker switch client blocked call=0:3
        700 c0 client switch idle dead
        700 c0 idle stopped
    ";

    type State = (String, u32, [u64; 3]);

    /// The states over a thread's path: name, thread, and count, time and unseen.
    fn states(
        tid: u32,
        marks: &[(u64, u32, &str)],
        losses: &[(u64, u64)],
    ) -> (Vec<State>, Vec<Option<RowKey>>) {
        let mut events = wakepath_scenario::text::parse(TRACE).expect("a trace").events;
        for &(at, thread, name) in marks {
            let (process, thread) = (Some(Tid(thread)), Some(Tid(thread)));
            let mark = UserMark { name: name.into(), process, thread, fields: Box::default() };
            events.push(event(at, 9, 0, EventKind::UserMark(Box::new(mark))));
        }
        for &(from, at) in losses {
            events.push(event(at, 9, 0, EventKind::UserMarksLost { from: Stamp::from_ns(from), count: 0 }));
        }
        events.sort_by_key(|event| event.at);
        let recorded = read(&events);
        let query = PathQuery { subject: Subject::Tid(Tid(tid)), ..PathQuery::default() };
        let Ok(Answer::Paths(answers)) = path(&recorded, &query) else { panic!("a path") };
        let answer = &answers[0];
        assert_eq!(answer.path.window.to.since(answer.path.window.from), answer.window_ns());
        let state = |state: &UserState| {
            let tid = recorded.graph.thread(state.thread).tid().0;
            (state.name.clone(), tid, [state.count, state.total_ns, state.unseen])
        };
        let largest = |state: &UserState| answer.largest_in(state).map(|largest| largest.key);
        (answer.user_states.iter().map(state).collect(), answer.user_states.iter().map(largest).collect())
    }

    #[test]
    fn a_state_lies_over_the_path_where_its_thread_is_on_it_and_the_own_threads_states_over_all() {
        let marks = [
            (50, 10, "c:ask_begin"),
            (150, 20, "w:serve_begin"),
            (550, 20, "w:serve_end"),
            (650, 10, "c:ask_end"),
        ];
        let (of_client, largest) = states(10, &marks, &[]);
        let expected = [("c:ask", 10, [1, 600, 0]), ("w:serve", 20, [1, 400, 0])];
        assert_eq!(of_client, expected.map(|(name, tid, sums)| (name.to_owned(), tid, sums)));
        assert!(matches!(largest[..], [Some(RowKey::Process(..)), Some(RowKey::Process(..))]), "{largest:?}");
        // The client is not on the worker's path: its wake-up came first.
        let (of_worker, _) = states(20, &marks, &[]);
        assert_eq!(of_worker, [(String::from("w:serve"), 20, [1, 400, 0])]);
    }

    #[test]
    fn a_state_outside_of_the_window_does_not_count() {
        let mut events = wakepath_scenario::text::parse(TRACE).expect("a trace").events;
        for (at, name) in [(10, "c:f_entry"), (60, "c:f_exit"), (650, "c:f_entry"), (660, "c:f_exit")] {
            let thread = Some(Tid(10));
            let mark = UserMark { name: name.into(), process: thread, thread, fields: Box::default() };
            events.push(event(at, 9, 0, EventKind::UserMark(Box::new(mark))));
        }
        events.sort_by_key(|event| event.at);
        let recorded = read(&events);
        let thread = recorded.with_tid(Tid(10))[0];
        let counts = |from: u64, to: u64| {
            let (from, to) = (Stamp::from_ns(from), Stamp::from_ns(to));
            let path = wakepath_critical_path::active(recorded.graph(), Window { thread, from, to });
            let found = user_states(&recorded, &Stretches::new(&recorded), &path);
            found.iter().map(|state| (state.count, state.total_ns)).collect::<Vec<_>>()
        };
        assert_eq!(counts(0, 700), [(2, 60)]);
        assert_eq!(counts(100, 700), [(1, 10)]);
        assert_eq!(counts(0, 640), [(1, 50)]);
        assert_eq!(counts(100, 640), []);
    }

    #[test]
    fn a_state_that_nests_in_itself_counts_its_time_once_and_an_open_one_up_to_the_end() {
        let marks = [
            (10, 10, "c:f_entry"),
            (20, 10, "c:f_entry"),
            (30, 10, "c:f_exit"),
            (60, 10, "c:f_exit"),
            (640, 10, "c:g_entry"),
            (645, 10, "c:g_exit"),
            (650, 10, "c:g_entry"),
        ];
        let (found, _) = states(10, &marks, &[]);
        let expected = [("c:g", 10, [2, 55, 0]), ("c:f", 10, [2, 50, 0])];
        assert_eq!(found, expected.map(|(name, tid, sums)| (name.to_owned(), tid, sums)));
    }

    #[test]
    fn a_state_with_lost_marks_is_not_laid_over_the_path() {
        let marks = [(50, 10, "c:ask_begin"), (650, 10, "c:ask_end")];
        let (found, largest) = states(10, &marks, &[(300, 400)]);
        assert_eq!(found, [(String::from("c:ask"), 10, [0, 0, 1])]);
        assert_eq!(largest, [None]);
    }
}
