//! The active path: each wait is replaced by its waker's activity.

use foldhash::HashMap;
use wakepath_clock::{Reference, Stamp};
use wakepath_event::Call;
use wakepath_wait_graph::{
    Bookmarks, Graph, Occupant, StateInterval, ThreadIndex, ThreadState, Wait as GraphWait,
};

use crate::early_end::EarlyEnd;
use crate::explain::{WaitPart, explain, is_run_hidden};
use crate::find_problems::problems;
use crate::hand_over::{HandOvers, NoHandOvers, Piece, pieces, taken_for_work};
use crate::own_segments::own_segments;
use crate::periodic_ticks::PeriodicTicks;
use crate::pick_up::{WorkPickUp, find_pick_up};
use crate::tiles::{Position, Tiles, Trust};
use crate::timeouts::{EarlyWait, EndingWait, JoinedWaits, Timeouts, is_event_loop};
use crate::{Basis, Cause, JoinedSum, Path, Rule, Segment, SegmentKind, Unjoined, Via, Wait, Window};

/// The active path of a window (G15 Algorithm 5): the thread's own time, with each wait replaced by its
/// waker's activity, and so on for the waker's waits.
///
/// Every replacement is clipped to the wait that it explains and to all waits above; the text of Algorithm 5
/// does not clip. The algorithm iterates backward only to put results in front; since the bounds are known,
/// this walk goes forward, with a stack of its own.
///
/// The walk ends: a waker, sender, submitter or forker was running when it acted, in event order. Any earlier
/// wait of the same thread had ended by then, so each step down goes to a wait that ended earlier than the
/// wait above. If contradictory events would make the walk endless, no thread explains itself: a link back to
/// a thread, over the very time to be explained, stays unknown.
pub fn active(graph: &Graph, window: Window) -> Path {
    active_by(graph, window, Timeouts::AsTheyAre)
}

/// The active path of a window, with a choice about time-outs.
///
/// A path with [`Timeouts::Joined`] differs from a path without it only in joined waits.
pub fn active_by(graph: &Graph, window: Window, timeouts: Timeouts) -> Path {
    active_with(graph, window, timeouts, &NoHandOvers)
}

/// The active path of a window, with a choice about time-outs, and with knowledge about handed-over work.
pub fn active_with(graph: &Graph, window: Window, timeouts: Timeouts, hand_overs: &dyn HandOvers) -> Path {
    let mut walk = Walk::new(graph, window, timeouts, hand_overs);
    let to = window.to.max(window.from);
    if let Some(whole) = walk.begin(Position::of(&window), window.from, to) {
        walk.todo.push(Task::Follow(whole));
    }
    walk.finish()
}

/// A window's active path as a single wait: the end of the thread's last wait explains the whole window, by `rule`. Whatever
/// else the thread did meanwhile explains nothing, as between two turns for a task in an event loop. `None` unless a wait ends where the window
/// does.
pub fn as_single_wait(
    graph: &Graph,
    window: Window,
    timeouts: Timeouts,
    hand_overs: &dyn HandOvers,
    rule: Rule,
) -> Option<Path> {
    let Window { thread, from, to } = window;
    let intervals = graph.state_intervals(thread);
    let last = intervals.overlapping(from, to).last().filter(|interval| interval.to == to)?;
    let wait = graph.wait(&last).filter(|_| matches!(last.state, ThreadState::Blocked(_)))?;
    let position = Position { trust: Trust::By(rule), ..Position::of(&window) };
    let call = wait.call;
    let explained = WaitToExplain { position, interval: last, wait, joined: true, call, began: from };
    let mut walk = Walk::new(graph, window, timeouts, hand_overs);
    walk.wait(&explained, from, to);
    Some(walk.finish())
}

struct Walk<'a> {
    graph: &'a Graph,
    window: Window,
    bookmarks: Bookmarks<'a>,
    tiles: Tiles,
    /// The tasks for the rest of the window, the next task last.
    todo: Vec<Task>,
    timeouts: Timeouts,
    hand_overs: &'a dyn HandOvers,
    /// The time over which each thread was followed last. Times only shrink on the way down, so a circular
    /// walk comes to a thread over the same time again.
    followed: Vec<(Stamp<Reference>, Stamp<Reference>)>,
    /// The beginning of each thread's last wait on the path.
    waited: Vec<Option<Stamp<Reference>>>,
    /// The ticks, by thread, for event loops in which the walk met a time-out.
    ticks: HashMap<ThreadIndex, PeriodicTicks>,
    joined: JoinedSum,
    unjoined: Unjoined,
}

enum Task {
    Follow(Follow),
    /// Explain a wait from one time to another.
    Wait(Box<WaitToExplain>, Stamp<Reference>, Stamp<Reference>),
    Push(Box<Segment>),
}

/// A thread's time from `at` to `to`.
struct Follow {
    position: Position,
    at: Stamp<Reference>,
    to: Stamp<Reference>,
    /// The index of the state interval at `at`.
    next: usize,
    /// The timed-out waits around `at`, joined to a single wait.
    joint: Option<JoinedWaits>,
    /// The thread's time explains a time-out. Time-outs within it are not joined, or two threads that wait
    /// for each other in turn could explain each other without end.
    joined: bool,
}

/// A wait to explain: a single wait, or the last of several joined waits.
struct WaitToExplain {
    position: Position,
    interval: StateInterval,
    wait: GraphWait,
    joined: bool,
    /// The wait's own call and beginning, if `interval` and `wait` are the last of several waits.
    call: Option<Call>,
    began: Stamp<Reference>,
}

impl<'a> Walk<'a> {
    fn new(graph: &'a Graph, window: Window, timeouts: Timeouts, hand_overs: &'a dyn HandOvers) -> Self {
        let threads = graph.threads().len();
        let (joined, unjoined, ticks) = Default::default();
        Self {
            graph,
            window,
            bookmarks: Bookmarks::new(graph),
            tiles: Tiles::default(),
            todo: Vec::new(),
            timeouts,
            hand_overs,
            followed: vec![(Stamp::MIN, Stamp::MIN); threads],
            waited: vec![None; threads],
            ticks,
            joined,
            unjoined,
        }
    }

    /// Walks to the end of all tasks.
    fn finish(mut self) -> Path {
        while let Some(task) = self.todo.pop() {
            match task {
                Task::Follow(follow) => self.follow(follow),
                Task::Wait(explained, from, to) => self.wait(&explained, from, to),
                Task::Push(segment) => self.tiles.push(*segment),
            }
        }
        let window = self.window;
        let Tiles { segments, waits } = self.tiles;
        let problems = problems(self.graph, &window, &segments, &waits);
        let algorithm = self.timeouts.algorithm();
        Path { window, algorithm, segments, waits, joined: self.joined, unjoined: self.unjoined, problems }
    }
}

impl Walk<'_> {
    /// Starts to follow a thread from `at` to `to`. `None` if the walk is already explaining this very time.
    fn begin(&mut self, position: Position, at: Stamp<Reference>, to: Stamp<Reference>) -> Option<Follow> {
        let last = self.followed.get_mut(position.thread.0 as usize)?;
        if std::mem::replace(last, (at, to)) == (at, to) {
            return None;
        }
        let next = self.bookmarks.find(position.thread, at);
        Some(Follow { position, at, to, next, joint: None, joined: false })
    }

    /// Follows a thread up to its next wait. The rest of its time is a later task.
    fn follow(&mut self, mut follow: Follow) {
        let graph = self.graph;
        let intervals = graph.state_intervals(follow.position.thread);
        while follow.at < follow.to {
            let mut rest =
                (follow.next..intervals.len()).filter_map(|index| Some((index, intervals.get(index)?)));
            let Some((index, interval)) = rest.find(|(_, interval)| interval.to > follow.at) else {
                return self.follow_after_last(&follow, follow.to);
            };
            follow.next = index;
            if follow.at < interval.from {
                let until = interval.from.min(follow.to);
                debug_assert!(follow.at < until, "the walk goes on");
                let before = Follow { to: until, ..follow };
                follow.at = until;
                self.todo.push(Task::Follow(follow));
                return self.follow_before_first(before);
            }
            let (from, to) = (follow.at, interval.to.min(follow.to));
            debug_assert!(from < to, "the walk goes on");
            follow.at = to;
            if let (ThreadState::Blocked(_), Some(wait)) = (interval.state, graph.wait(&interval)) {
                let (position, joined, began, call) =
                    (follow.position, follow.joined, interval.from, wait.call);
                let mut explained = WaitToExplain { position, interval, wait, joined, call, began };
                // Where nothing may be joined, a ticker's part is doubtful all the same.
                let may_join = self.timeouts != Timeouts::AsTheyAre && !follow.joined;
                if let Some(end) = EarlyEnd::of(graph, position.thread, &wait)
                    && (may_join || matches!(end, EarlyEnd::Ticker(_)))
                {
                    let ticks = match is_event_loop(&wait) {
                        true => self
                            .ticks
                            .entry(position.thread)
                            .or_insert_with(|| PeriodicTicks::of(graph, position.thread, &self.window)),
                        false => PeriodicTicks::NONE,
                    };
                    let tick = ticks.at(index);
                    let early = EarlyWait {
                        thread: position.thread,
                        index,
                        end,
                        to: follow.to,
                        nested: position.depth > 0,
                    };
                    let ending = early.ending(graph, ticks, &mut follow.joint);
                    let (ns, ticked) = (to.since(from), matches!(end, EarlyEnd::Ticker(_)));
                    if let Some(ending) = ending.filter(|ending| may_join && self.timeouts.join(ending)) {
                        let EndingWait { interval, wait, trust, .. } = ending;
                        let position = Position { trust: trust.and(position.trust), ..position };
                        explained = WaitToExplain { position, interval, wait, joined: true, call, began };
                        self.joined.add(ns, ticked);
                    } else {
                        if let Some(ending) = ending.filter(|_| may_join) {
                            self.unjoined.add(ns, ticked, ending.in_slices);
                        }
                        // The thread went back to its wait, which was for something else than the ticker; and a thread
                        // above waited for something else than this thread's time-out.
                        let nested =
                            may_join && ending.is_some_and(|ending| ending.in_slices) && position.depth > 0;
                        let joint_index = tick.map_or(index, |tick| tick.next);
                        let is_doubtful = |joint: JoinedWaits| {
                            (may_join && joint.is_end_hidden(joint_index))
                                || (ticked && joint.go_on_after(index))
                        };
                        let lost = tick.is_some_and(|tick| tick.lost);
                        if nested || lost || follow.joint.is_some_and(is_doubtful) {
                            explained.position.trust = Trust::Doubtful;
                        }
                    }
                }
                self.todo.push(Task::Follow(follow));
                return self.wait(&explained, from, to);
            }
            let tiles = &mut self.tiles;
            own_segments(graph, &mut self.bookmarks, &follow.position, index, from, to, |segment| {
                tiles.push(segment)
            });
        }
    }

    /// Adds the explanation of a wait from `from` to `to`.
    fn wait(&mut self, explained: &WaitToExplain, from: Stamp<Reference>, to: Stamp<Reference>) {
        let graph = self.graph;
        let WaitToExplain { position, interval, wait, joined, call, began } = explained;
        let goes_on = self.waited.get_mut(position.thread.0 as usize).is_some_and(|last| {
            // The pieces of joined waits cut a wait below them into several.
            last.replace(*began) == Some(*began)
        });
        let hidden = is_run_hidden(graph, interval, wait);
        let trust = position.trust.doubtful_if(hidden);
        let own = (position.depth == 0).then(|| self.hand_overs.rule_of_wait(position.thread, call.as_ref()));
        let trust = own.flatten().map_or(trust, |rule| Trust::By(rule).and(trust));
        let position = Position { trust, ..*position };
        let parts = explain(graph, position.thread, interval, wait, from, to);
        let parts = taken_for_work(self.hand_overs, from, parts);
        let first = self.todo.len();
        let mut at = from;
        let mut under = position;
        let hand_overs = self.hand_overs;
        let of_part = |part| pieces(hand_overs, position.thread, *began, part);
        for Piece { part, queued } in parts.into_iter().flat_map(of_part) {
            let end = part.to();
            if at >= end {
                continue;
            }
            match part {
                WaitPart::Thread { thread, to, acted, via, lock, trust } => {
                    let trust = position.trust.and(trust);
                    let depth = position.depth.saturating_add(1);
                    let queued = position.queued || queued;
                    let below = Position { thread, parent: None, depth, via, trust, queued };
                    let Some(follow) = self.begin(below, at, to) else {
                        let (kind, cause) = (SegmentKind::Unknown, Cause::NoWakeupSeen);
                        let segment = position.segment(at, to, kind, cause, Basis::Ambiguous);
                        self.todo.push(Task::Push(Box::new(Segment { call: *call, goes_on, ..segment })));
                        at = end;
                        continue;
                    };
                    let id = self.tiles.wait(Wait {
                        from: at,
                        to,
                        thread: position.thread,
                        parent: position.parent,
                        depth: position.depth,
                        call: *call,
                        ended_by: Some(thread),
                        via,
                        lock,
                        basis: trust.basis(Basis::Measured),
                        timed_out: *began < interval.from,
                        goes_on,
                    });
                    under = Position { parent: Some(id), ..below };
                    let mut follow = Follow { position: under, joined: *joined, ..follow };
                    if let Some(WorkPickUp { interval, wait }) = find_pick_up(graph, thread, at, acted) {
                        let early = interval.from > at;
                        let trust = if early { Trust::By(Rule::TakenUp).and(trust) } else { trust };
                        let position = Position { trust, ..under };
                        let (began, call) = (interval.from, wait.call);
                        let queued = WaitToExplain { position, interval, wait, joined: *joined, call, began };
                        let until = interval.to.min(to);
                        self.todo.push(Task::Wait(Box::new(queued), at, until));
                        follow.at = until;
                    }
                    self.todo.push(Task::Follow(follow));
                }
                WaitPart::Other { to, kind, cause, basis } => {
                    let segment = position.segment(at, to, kind, cause, basis);
                    self.todo.push(Task::Push(Box::new(Segment { call: *call, goes_on, ..segment })));
                }
                WaitPart::InFlight { to, cause, basis, .. } => {
                    let segment = under.segment(at, to, SegmentKind::Network, cause, basis);
                    let (thread, via) = (None, Via::Packet);
                    self.todo.push(Task::Push(Box::new(Segment { thread, via, ..segment })));
                }
            }
            at = end;
        }
        // The last task is the next.
        self.todo[first..].reverse();
    }

    /// Follows a thread before its first known time: its forker, if any.
    fn follow_before_first(&mut self, follow: Follow) {
        let Follow { position, at, to, joined, .. } = follow;
        let thread = self.graph.thread(position.thread);
        let unknown = |cause| position.segment(at, to, SegmentKind::Unknown, cause, Basis::Measured);
        match thread.forker() {
            // The forker's activity led to this thread.
            Some(Occupant::Thread(forker)) if position.parent.is_some() => {
                let position = Position { thread: forker, via: Via::Fork, ..position };
                match self.begin(position, at, to) {
                    Some(follow) => self.todo.push(Task::Follow(Follow { joined, ..follow })),
                    None => self.tiles.push(unknown(Cause::NotAlive)),
                }
            }
            Some(_) => self.tiles.push(unknown(Cause::NotAlive)),
            None => {
                let start = thread.identity.as_ref().map_or(at, |who| who.start.on_reference_host());
                let start = start.clamp(at, to);
                let not_alive = unknown(Cause::NotAlive);
                self.tiles.push(Segment { to: start, ..not_alive });
                self.tiles.push(Segment { from: start, ..unknown(Cause::BeforeRecording) });
            }
        }
    }

    /// Follows a thread after its last known time: its successor, if any.
    fn follow_after_last(&mut self, follow: &Follow, to: Stamp<Reference>) {
        if let Some(next) = self.graph.successor(follow.position.thread) {
            let position = Position { thread: next, ..follow.position };
            if let Some(next) = self.begin(position, follow.at, to) {
                return self.todo.push(Task::Follow(next));
            }
        }
        let cause = Cause::after_last(self.graph, follow.position.thread);
        self.tiles.push(follow.position.segment(follow.at, to, SegmentKind::Unknown, cause, Basis::Measured));
    }
}
