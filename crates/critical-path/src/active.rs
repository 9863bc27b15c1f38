use wakepath_clock::{Reference, Stamp};
use wakepath_wait_graph::{Bookmarks, Graph, Occupant, StateInterval, ThreadState, Wait as GraphWait};

use crate::explain::{Part, explain};
use crate::own_segments::own_segments;
use crate::pick_up::{WorkPickUp, pick_up};
use crate::tiles::{Place, Tiles, Trust};
use crate::timeouts::{Joint, Timeouts};
use crate::{Algorithm, Basis, Cause, Path, Rule, Segment, SegmentKind, Via, Wait, Window, problem};

/// The active path of a window (G15 Algorithm 5): its thread's time, each wait replaced by what the
/// waker did meanwhile, and so on.
///
/// Every replacement is bounded to the wait that it explains and, for waits within it, to all above:
/// the text of Algorithm 5 does not clip. Its backward iteration only collects what it then puts in
/// front; since the bounds are known, the same is walked forward here, with a stack of its own.
///
/// Why it ends: a waker, a sender, a submitter or a forker ran when it did so, as the events came
/// in. The wait that it is in at any earlier moment was therefore over before, in the order of the
/// events; each step down goes to a wait that was over earlier than the one above. Where events
/// contradict each other so that it would not end, a thread is not explained by itself: what leads
/// back to it, over the very time that it is to explain, stays unknown.
pub fn active(graph: &Graph, window: Window) -> Path {
    active_by(graph, window, Timeouts::AsTheyAre)
}

/// The active path of a window, with a choice about time-outs.
pub fn active_by(graph: &Graph, window: Window, timeouts: Timeouts) -> Path {
    let bookmarks = Bookmarks::new(graph);
    let followed = vec![(Stamp::MIN, Stamp::MIN); graph.threads().len()];
    let mut walk = Walk { graph, bookmarks, tiles: Tiles::default(), todo: Vec::new(), timeouts, followed };
    let to = window.to.max(window.from);
    let place = Place { thread: window.thread, parent: None, depth: 0, via: Via::Window, trust: Trust::Sure };
    if let Some(whole) = walk.begin(place, window.from, to) {
        walk.todo.push(Task::Follow(whole));
    }
    while let Some(task) = walk.todo.pop() {
        match task {
            Task::Follow(follow) => walk.follow(follow),
            Task::Wait(explained, from, to) => walk.wait(&explained, from, to),
            Task::Put(segment) => walk.tiles.push(*segment),
        }
    }
    let Tiles { segments, waits } = walk.tiles;
    let problems = problem::problems(graph, &window, &segments);
    let algorithm = match timeouts {
        Timeouts::AsTheyAre => Algorithm::Active,
        Timeouts::Joined => Algorithm::Joined,
    };
    Path { window, algorithm, segments, waits, problems }
}

struct Walk<'a> {
    graph: &'a Graph,
    bookmarks: Bookmarks<'a>,
    tiles: Tiles,
    /// The rest of the window; the last is next.
    todo: Vec<Task>,
    timeouts: Timeouts,
    /// Over which time each thread was followed last. Times only shrink on the way down, so a walk
    /// that goes round comes to a thread over the same time again.
    followed: Vec<(Stamp<Reference>, Stamp<Reference>)>,
}

enum Task {
    Follow(Follow),
    /// What ended a wait, from the one moment to the other.
    Wait(Box<Explained>, Stamp<Reference>, Stamp<Reference>),
    Put(Box<Segment>),
}

/// A thread's time from `at` to `to`.
struct Follow {
    place: Place,
    at: Stamp<Reference>,
    to: Stamp<Reference>,
    /// The interval that holds `at`.
    next: usize,
    /// The waits that end in time-outs around here, where they count as one.
    joint: Option<Joint>,
    /// The thread's time explains a time-out. Time-outs within it are only that, or two threads
    /// that wait for each other by turns could explain each other for ever.
    joined: bool,
}

/// A wait, and what it is explained by: itself, or what ended the last of several that count as one.
struct Explained {
    place: Place,
    interval: StateInterval,
    wait: GraphWait,
    joined: bool,
}

impl Walk<'_> {
    /// The time of a place's thread from `at` to `to`. `None` where that is what it is to explain.
    fn begin(&mut self, place: Place, at: Stamp<Reference>, to: Stamp<Reference>) -> Option<Follow> {
        let last = self.followed.get_mut(place.thread.0 as usize)?;
        if std::mem::replace(last, (at, to)) == (at, to) {
            return None;
        }
        let next = self.bookmarks.find(place.thread, at);
        Some(Follow { place, at, to, next, joint: None, joined: false })
    }

    /// Follows a thread up to its next wait, which is put before the rest of it.
    fn follow(&mut self, mut follow: Follow) {
        let graph = self.graph;
        let intervals = graph.state_intervals(follow.place.thread);
        while follow.at < follow.to {
            let Some(interval) = intervals.get(follow.next) else { return self.beyond(&follow, follow.to) };
            if follow.at < interval.from {
                let until = interval.from.min(follow.to);
                let before = Follow { to: until, ..follow };
                follow.at = until;
                self.todo.push(Task::Follow(follow));
                return self.before(before);
            }
            let (from, to) = (follow.at, interval.to.min(follow.to));
            if from >= to {
                follow.next += 1;
                continue;
            }
            let index = follow.next;
            follow.at = to;
            if let (ThreadState::Blocked(_), Some(wait)) = (interval.state, graph.wait(&interval)) {
                let mut explained = Explained { place: follow.place, interval, wait, joined: follow.joined };
                if self.timeouts == Timeouts::Joined && !follow.joined {
                    follow.joint = Joint::at(graph, intervals, index, follow.to, follow.joint);
                    if let Some((interval, wait)) =
                        follow.joint.and_then(|joint| joint.ender(graph, intervals))
                    {
                        let trust = Trust::By(Rule::JoinedTimeouts).and(follow.place.trust);
                        explained = Explained {
                            place: Place { trust, ..follow.place },
                            interval,
                            wait,
                            joined: true,
                        };
                    }
                }
                self.todo.push(Task::Follow(follow));
                return self.wait(&explained, from, to);
            }
            let tiles = &mut self.tiles;
            own_segments(graph, &mut self.bookmarks, &follow.place, index, from, to, |segment| {
                tiles.push(segment)
            });
        }
    }

    /// Puts what explains a wait's part from `from` to `to`.
    fn wait(&mut self, explained: &Explained, from: Stamp<Reference>, to: Stamp<Reference>) {
        let graph = self.graph;
        let Explained { place, interval, wait, joined } = explained;
        // What was one wait as far as we saw may have been two.
        let hidden = graph.losses().may_hide_a_run(interval.from, interval.to);
        let place = Place { trust: place.trust.unless(hidden), ..*place };
        let parts = explain(graph, place.thread, interval, wait, from, to);
        let first = self.todo.len();
        let mut at = from;
        let mut under = place;
        for part in parts {
            let end = match &part {
                Part::Thread { to, .. } | Part::Thing { to, .. } | Part::InFlight { to, .. } => *to,
            };
            if at >= end {
                continue;
            }
            match part {
                Part::Thread { thread, to, acted, via, lock, trust } => {
                    let trust = place.trust.and(trust);
                    let depth = place.depth.saturating_add(1);
                    let below = Place { thread, parent: None, depth, via, trust };
                    let Some(follow) = self.begin(below, at, to) else {
                        let (kind, cause) = (SegmentKind::Unknown, Cause::NoWakeupSeen);
                        let segment = place.blocked(at, to, kind, cause, Basis::Ambiguous, wait.call);
                        self.todo.push(Task::Put(Box::new(segment)));
                        at = end;
                        continue;
                    };
                    let id = self.tiles.wait(Wait {
                        from: at,
                        to,
                        thread: place.thread,
                        parent: place.parent,
                        depth: place.depth,
                        call: wait.call,
                        ended_by: Some(thread),
                        via,
                        lock,
                        basis: trust.basis(Basis::Measured),
                    });
                    under = Place { parent: Some(id), ..below };
                    let mut follow = Follow { place: under, joined: *joined, ..follow };
                    if let Some(WorkPickUp { next, interval, wait }) = pick_up(graph, thread, at, acted) {
                        let early = interval.from > at;
                        let trust = if early { Trust::By(Rule::TakenUp).and(trust) } else { trust };
                        let place = Place { trust, ..under };
                        let queued = Explained { place, interval, wait, joined: *joined };
                        let until = interval.to.min(to);
                        self.todo.push(Task::Wait(Box::new(queued), at, until));
                        follow = Follow { at: until, next, ..follow };
                    }
                    self.todo.push(Task::Follow(follow));
                }
                Part::Thing { to, kind, cause, basis } => {
                    let segment = place.blocked(at, to, kind, cause, basis, wait.call);
                    self.todo.push(Task::Put(Box::new(segment)));
                }
                Part::InFlight { to, cause, basis, .. } => {
                    let segment = under.segment(at, to, SegmentKind::Network, cause, basis);
                    let (thread, via) = (None, Via::Packet);
                    self.todo.push(Task::Put(Box::new(Segment { thread, via, ..segment })));
                }
            }
            at = end;
        }
        // Last in, first out.
        self.todo[first..].reverse();
    }

    /// A thread's time before the first that is known of it.
    fn before(&mut self, follow: Follow) {
        let Follow { place, at, to, joined, .. } = follow;
        let thread = self.graph.thread(place.thread);
        let unknown = |cause| place.segment(at, to, SegmentKind::Unknown, cause, Basis::Measured);
        match thread.forker() {
            // It is there because another forked it: what that one did led here.
            Some(Occupant::Thread(forker)) if place.parent.is_some() => {
                let place = Place { thread: forker, via: Via::Fork, ..place };
                match self.begin(place, at, to) {
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

    /// A thread's time after the last that is known of it.
    fn beyond(&mut self, follow: &Follow, to: Stamp<Reference>) {
        if let Some(next) = self.graph.successor(follow.place.thread) {
            let place = Place { thread: next, ..follow.place };
            if let Some(next) = self.begin(place, follow.at, to) {
                return self.todo.push(Task::Follow(Follow { joined: follow.joined, ..next }));
            }
        }
        let dead = self.graph.thread(follow.place.thread).last < self.graph.to()
            || self.graph.thread(follow.place.thread).exited.is_some();
        let cause = if dead { Cause::NotAlive } else { Cause::BeforeRecording };
        self.tiles.push(follow.place.segment(follow.at, to, SegmentKind::Unknown, cause, Basis::Measured));
    }
}
