//! A goroutine's active path.

use std::collections::HashMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{
    Basis, Cause, JoinedSum, Path, Problem, Rule, Segment, SegmentKind, Timeouts, Unjoined, Via, Wait,
    WaitId, Window, active_by,
};
use wakepath_event::Context;
use wakepath_wait_graph::{Graph, ThreadIndex};

use crate::called::Calls;
use crate::states::{Interval, Park, ParkEnd, State};
use crate::{GoroutineIndex, Goroutines};

/// A goroutine and a time range to explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoWindow {
    /// The goroutine.
    pub goroutine: GoroutineIndex,
    /// The first nanosecond.
    pub from: Stamp<Reference>,
    /// The nanosecond after the last.
    pub to: Stamp<Reference>,
}

/// The kinds of reasons for which goroutines wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GoWait {
    /// For a time to come.
    Sleep,
    /// For a descriptor to be ready: a connection, a pipe.
    Descriptor,
    /// For a lock.
    Lock,
    /// For a channel, to which a timer may send.
    Channel,
    /// For anything else.
    Other,
}

impl GoWait {
    /// A reason's kind, by its name in Go's runtime.
    pub fn of(name: &[u8]) -> Self {
        match name {
            b"sleep" => Self::Sleep,
            b"IO wait" => Self::Descriptor,
            b"sync.Mutex.Lock" | b"sync.RWMutex.Lock" | b"sync.RWMutex.RLock" | b"semacquire" => Self::Lock,
            b"chan receive" | b"select" | b"select (no cases)" => Self::Channel,
            _ => Self::Other,
        }
    }
}

/// A goroutine's path.
#[derive(Debug, Clone)]
pub struct GoPath {
    /// The path. If the goroutine of a segment is parked or in a queue, the segment's thread is the last to have run it.
    pub path: Path,
    /// For each segment, the goroutine; `None` if its thread is not known to have run any.
    pub goroutines: Vec<Option<GoroutineIndex>>,
    /// For each wait, the parked goroutine and the reason's number; `None` for threads' waits.
    pub parks: Vec<Option<(GoroutineIndex, u8)>>,
}

/// The active path of windows that follow each other without gaps (G15 Algorithm 5), on two levels: see this crate's documentation. Several windows
/// are work that goroutines hand over to each other; `None` without a window. `reasons` gives a reason's kind by the program's number and the
/// reason's own; `calls` knows the requests for which goroutines wait.
///
/// Like a thread's path it tiles the window, is clipped to each wait that it explains, and is a loop with its own stack. It ends: a goroutine ran
/// when it made another ready, so each step down goes to a wait that ended earlier; if steps contradict each other, a goroutine over the same time as
/// before is not followed again.
pub fn path(
    graph: &Graph,
    goroutines: &Goroutines,
    windows: &[GoWindow],
    timeouts: Timeouts,
    reasons: &dyn Fn(u16, u8) -> GoWait,
    calls: &dyn Calls,
) -> Option<GoPath> {
    let (first, last) = (windows.first()?, windows.last()?);
    let mut walk = Walk {
        graph,
        goroutines,
        timeouts,
        reasons,
        calls,
        segments: Vec::new(),
        of: Vec::new(),
        waits: Vec::new(),
        parks: Vec::new(),
        problems: Vec::new(),
        joined: JoinedSum::default(),
        followed: HashMap::new(),
        todo: Vec::new(),
    };
    for &GoWindow { goroutine, from, to } in windows.iter().rev() {
        let (parent, depth, via, rule) = (None, 0, Via::Window, None);
        walk.begin(Follow { goroutine, at: from, to: to.max(from), parent, depth, via, rule });
    }
    while let Some(task) = walk.todo.pop() {
        match task {
            Task::Goroutine(follow) => walk.follow(follow),
            Task::Thread(follow, thread) => walk.thread(&follow, thread, follow.to, None),
            Task::InFlight(follow) => walk.in_flight(&follow),
        }
    }
    let algorithm = timeouts.algorithm();
    let thread = last_thread(goroutines, first.goroutine, first.from);
    let window = Window { thread, from: first.from, to: last.to };
    let Walk { segments, of, waits, parks, problems, joined, .. } = walk;
    let path = Path { window, algorithm, segments, waits, joined, unjoined: Unjoined::default(), problems };
    Some(GoPath { path, goroutines: of, parks })
}

/// The last thread to run the goroutine before `at`, else the first to run it, else the first of its process.
pub(crate) fn last_thread(
    goroutines: &Goroutines,
    index: GoroutineIndex,
    at: Stamp<Reference>,
) -> ThreadIndex {
    let goroutine = goroutines.get(index);
    let thread = |interval: &Interval| match interval.state {
        State::Running(thread) | State::Parked(Park { thread, .. }) => Some(thread),
        State::Queued | State::Unknown => None,
    };
    let next = goroutine.interval_after(at);
    let (before, behind) = goroutine.intervals.split_at(next);
    before
        .iter()
        .rev()
        .find_map(thread)
        .or_else(|| behind.iter().find_map(thread))
        .unwrap_or(goroutine.process)
}

pub(crate) struct Walk<'a> {
    graph: &'a Graph,
    pub(crate) goroutines: &'a Goroutines,
    timeouts: Timeouts,
    pub(crate) reasons: &'a dyn Fn(u16, u8) -> GoWait,
    pub(crate) calls: &'a dyn Calls,
    segments: Vec<Segment>,
    of: Vec<Option<GoroutineIndex>>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) parks: Vec<Option<(GoroutineIndex, u8)>>,
    problems: Vec<Problem>,
    joined: JoinedSum,
    /// The time over which each goroutine was followed last.
    followed: HashMap<GoroutineIndex, (Stamp<Reference>, Stamp<Reference>)>,
    /// The rest of the window, the next task last.
    pub(crate) todo: Vec<Task>,
}

/// A time to explain.
#[derive(Clone, Copy)]
pub(crate) enum Task {
    /// A goroutine's time.
    Goroutine(Follow),
    /// A thread's time, in a called service.
    Thread(Follow, ThreadIndex),
    /// A call or its answer is on its way.
    InFlight(Follow),
}

/// A goroutine's time from `at` to `to`.
#[derive(Clone, Copy)]
pub(crate) struct Follow {
    pub(crate) goroutine: GoroutineIndex,
    pub(crate) at: Stamp<Reference>,
    pub(crate) to: Stamp<Reference>,
    pub(crate) parent: Option<WaitId>,
    pub(crate) depth: u32,
    pub(crate) via: Via,
    /// The rule by which the path leads here.
    pub(crate) rule: Option<Rule>,
}

impl Follow {
    /// The basis of a time here.
    const fn basis(&self, basis: Basis) -> Basis {
        match (basis, self.rule) {
            (Basis::Measured, Some(rule)) => Basis::Inferred(rule),
            _ => basis,
        }
    }
}

impl Walk<'_> {
    /// Makes `follow` the next task. Returns false if the walk is already explaining this very time.
    fn begin(&mut self, follow: Follow) -> bool {
        let is_new = self.begins(&follow);
        if is_new {
            self.todo.push(Task::Goroutine(follow));
        }
        is_new
    }

    /// Notes that `follow` will be explained. Returns false if the walk is already explaining this very time.
    pub(crate) fn begins(&mut self, follow: &Follow) -> bool {
        let time = (follow.at, follow.to);
        self.followed.insert(follow.goroutine, time) != Some(time)
    }

    /// Follows a goroutine up to its next park. The rest of its time is a later task.
    fn follow(&mut self, mut follow: Follow) {
        let goroutine = self.goroutines.get(follow.goroutine);
        for &interval in &goroutine.intervals[goroutine.interval_after(follow.at)..] {
            if follow.at >= follow.to {
                return;
            }
            if follow.at < interval.from {
                let until = interval.from.min(follow.to);
                let before = Follow { to: until, ..follow };
                self.todo.push(Task::Goroutine(Follow { at: until, ..follow }));
                return self.before_first(before);
            }
            let to = interval.to.min(follow.to);
            match interval.state {
                State::Running(thread) => self.thread(&follow, thread, to, Some(follow.goroutine)),
                State::Queued => self.other(&follow, to, SegmentKind::Queue, Cause::None, Basis::Measured),
                State::Unknown => {
                    let cause = match self.graph.losses().touch_reported(interval.from, interval.to) {
                        true => Cause::Lost,
                        false => Cause::StepUnrecorded,
                    };
                    self.other(&follow, to, SegmentKind::Unknown, cause, Basis::Ambiguous);
                }
                State::Parked(park) => {
                    self.todo.push(Task::Goroutine(Follow { at: to, ..follow }));
                    let reason = (self.reasons)(goroutine.program, park.reason);
                    if !self.called(&follow, park, (interval.to, to), reason) {
                        self.parked(&follow, park, to, reason);
                    }
                    return;
                }
            }
            follow.at = to;
        }
        if follow.at < follow.to {
            let cause = if goroutine.ended { Cause::NotAlive } else { Cause::AfterRecording };
            self.other(&follow, follow.to, SegmentKind::Unknown, cause, Basis::Measured);
        }
    }

    /// A thread's own path over the time in which it ran `goroutine`, or worked for a called request.
    fn thread(
        &mut self,
        follow: &Follow,
        thread: ThreadIndex,
        to: Stamp<Reference>,
        goroutine: Option<GoroutineIndex>,
    ) {
        let path = active_by(self.graph, Window { thread, from: follow.at, to }, self.timeouts);
        let first = self.waits.len() as u32;
        let moved = |parent: Option<WaitId>| parent.map(|WaitId(id)| WaitId(id + first)).or(follow.parent);
        for wait in path.waits {
            let (parent, depth) = (moved(wait.parent), wait.depth.saturating_add(follow.depth));
            self.waits.push(Wait { parent, depth, basis: follow.basis(wait.basis), ..wait });
            self.parks.push(None);
        }
        for segment in path.segments {
            let own = segment.depth == 0;
            let segment = Segment {
                parent: moved(segment.parent),
                depth: segment.depth.saturating_add(follow.depth),
                via: if own { follow.via } else { segment.via },
                basis: follow.basis(segment.basis),
                ..segment
            };
            match segment.thread.filter(|_| !own) {
                None => self.push(segment, goroutine.filter(|_| own)),
                Some(thread) => {
                    for (from, to, goroutine) in self.goroutines.on_thread(thread, segment.from, segment.to) {
                        self.push(Segment { from, to, ..segment.clone() }, goroutine);
                    }
                }
            }
        }
        for problem in path.problems {
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        self.joined = self.joined.with(path.joined);
    }

    /// Replaces a park by the activity of the goroutine that ended it, if a goroutine did.
    fn parked(&mut self, follow: &Follow, park: Park, to: Stamp<Reference>, reason: GoWait) {
        let (kind, cause, basis) = match (park.end, reason) {
            (ParkEnd::By(by), _) => {
                let id = WaitId(self.waits.len() as u32);
                let via = if reason == GoWait::Lock { Via::Lock } else { Via::Wakeup };
                let depth = follow.depth.saturating_add(1);
                let below = Follow { goroutine: by, to, parent: Some(id), depth, via, ..*follow };
                if self.begin(below) {
                    self.waits.push(Wait {
                        from: follow.at,
                        to,
                        thread: park.thread,
                        parent: follow.parent,
                        depth: follow.depth,
                        call: None,
                        ended_by: Some(last_thread(self.goroutines, by, to)),
                        via,
                        lock: None,
                        basis: follow.basis(Basis::Measured),
                        timed_out: false,
                        goes_on: false,
                    });
                    self.parks.push(Some((follow.goroutine, park.reason)));
                    return;
                }
                (SegmentKind::Unknown, Cause::NoWakeupSeen, Basis::Ambiguous)
            }
            (ParkEnd::Scheduler(_), GoWait::Sleep) => (SegmentKind::Timer, timer(), Basis::Measured),
            // A timer's channel, a connection's deadline, or the scheduler's own doing.
            (ParkEnd::Scheduler(_), GoWait::Channel | GoWait::Descriptor) => {
                (SegmentKind::Timer, timer(), Basis::Ambiguous)
            }
            // The poller does not report the event; the descriptor may have been a pipe.
            (ParkEnd::Taken(_), GoWait::Descriptor) => {
                (SegmentKind::Network, Cause::Network { flow: None }, Basis::Ambiguous)
            }
            (ParkEnd::Unseen, _) => {
                let lost = self.graph.losses().touch_reported(to, to);
                let cause = if lost { Cause::Lost } else { Cause::StillWaiting };
                let kind = match reason {
                    GoWait::Sleep => SegmentKind::Timer,
                    GoWait::Descriptor => SegmentKind::Network,
                    GoWait::Lock => SegmentKind::Lock,
                    GoWait::Channel | GoWait::Other => SegmentKind::Unknown,
                };
                (kind, cause, Basis::Ambiguous)
            }
            _ => (SegmentKind::Unknown, Cause::NoWakeupSeen, Basis::Ambiguous),
        };
        self.other(follow, to, kind, cause, basis);
    }

    /// Before its first run a goroutine was in a queue from its start on; its parent started it while running.
    fn before_first(&mut self, follow: Follow) {
        let goroutine = self.goroutines.get(follow.goroutine);
        let first = goroutine.intervals.first().map(|interval| (interval.from, interval.state));
        let parent =
            goroutine.parent.and_then(|parent| self.goroutines.with_number(goroutine.process, parent));
        let (Some(parent), Some((began, State::Running(_)))) = (parent, first) else {
            return self.other(
                &follow,
                follow.to,
                SegmentKind::Unknown,
                Cause::BeforeRecording,
                Basis::Measured,
            );
        };
        let of_parent = &self.goroutines.get(parent).intervals;
        let may_start = |interval: &&Interval| !matches!(interval.state, State::Parked(_) | State::Queued);
        let started = of_parent.iter().rev().filter(|interval| interval.from < began).find(may_start);
        // The parent had started it by then, so from then on at the latest it was in a queue.
        let started =
            started.map(|interval| interval.to.min(began)).unwrap_or(began).clamp(follow.at, follow.to);
        let queued = Follow { at: started, ..follow };
        let before = Follow { to: started, ..follow };
        if before.at < before.to {
            self.todo.push(Task::Goroutine(queued));
            let of_parent = Follow { goroutine: parent, via: Via::Fork, ..before };
            // Its parent's time is no part of its own, but led to it.
            if follow.depth == 0 || !self.begin(of_parent) {
                self.other(&before, before.to, SegmentKind::Unknown, Cause::NotAlive, Basis::Measured);
            }
            return;
        }
        self.other(&queued, queued.to, SegmentKind::Queue, Cause::None, Basis::Measured);
    }

    /// A call or its answer is on its way, or the called service has not begun with it.
    fn in_flight(&mut self, follow: &Follow) {
        let (kind, cause) = (SegmentKind::Network, Cause::Network { flow: None });
        self.other(follow, follow.to, kind, cause, Basis::Ambiguous);
    }

    fn other(
        &mut self,
        follow: &Follow,
        to: Stamp<Reference>,
        kind: SegmentKind,
        cause: Cause,
        basis: Basis,
    ) {
        let segment = Segment {
            from: follow.at,
            to,
            kind,
            thread: Some(last_thread(self.goroutines, follow.goroutine, follow.at)),
            parent: follow.parent,
            depth: follow.depth,
            via: follow.via,
            call: None,
            cause,
            basis: follow.basis(basis),
            goes_on: false,
        };
        self.push(segment, Some(follow.goroutine));
    }

    fn push(&mut self, segment: Segment, goroutine: Option<GoroutineIndex>) {
        debug_assert!(segment.from < segment.to, "no segment is empty, so that the walk goes on");
        debug_assert!(self.segments.last().is_none_or(|last| last.to == segment.from), "segments tile");
        self.segments.push(segment);
        self.of.push(goroutine);
    }
}

fn timer() -> Cause {
    Cause::Timer { context: Context::LocalTimer }
}

#[cfg(test)]
mod tests;
