use wakepath_clock::{Reference, Stamp};
use wakepath_event::Comm;
use wakepath_wait_graph::{Doing, Graph, Occupant, Span, Wait as GraphWait};

use crate::explain::{Part, call, explain};
use crate::own::own;
use crate::tiles::{Place, Tiles};
use crate::{Algorithm, Basis, Cause, Kind, Path, Segment, Via, Wait, Window, doubts};

/// The active path of a window (G15 Algorithm 5): its thread's time, each wait replaced by what the
/// waker did meanwhile, and so on.
///
/// Every replacement is bounded to the wait that it explains and, for waits within it, to all above:
/// the text of Algorithm 5 does not clip. Its backward iteration only collects what it then puts in
/// front; since the bounds are known, the same is walked forward here, with a stack of its own.
///
/// Why it ends: a waker, a sender, a submitter or a forker ran when it did so, as the events came
/// in. The wait that it is in at any earlier moment was therefore over before, in the order of the
/// events; each step down goes to a wait that was over earlier than the one above.
pub fn active(graph: &Graph, window: Window) -> Path {
    let mut walk = Walk { graph, tiles: Tiles::default(), todo: Vec::new() };
    let to = window.to.max(window.from);
    let place = Place { thread: window.thread, parent: None, depth: 0, via: Via::Window, doubtful: false };
    walk.todo.push(Task::Follow(Follow::new(graph, place, window.from, to)));
    while let Some(task) = walk.todo.pop() {
        match task {
            Task::Follow(follow) => walk.follow(follow),
            Task::Put(segment) => walk.tiles.push(*segment),
        }
    }
    let Tiles { segments, waits } = walk.tiles;
    let problems = doubts::of(graph, &window, &segments);
    Path { window, algorithm: Algorithm::Active, segments, waits, problems }
}

struct Walk<'a> {
    graph: &'a Graph,
    tiles: Tiles,
    /// The rest of the window; the last is next.
    todo: Vec<Task>,
}

enum Task {
    Follow(Follow),
    Put(Box<Segment>),
}

/// A thread's time from `at` to `to`.
struct Follow {
    place: Place,
    at: Stamp<Reference>,
    to: Stamp<Reference>,
    /// The span that holds `at`.
    next: usize,
}

impl Follow {
    fn new(graph: &Graph, place: Place, at: Stamp<Reference>, to: Stamp<Reference>) -> Self {
        Self { place, at, to, next: graph.spans(place.thread).find(at) }
    }
}

impl Walk<'_> {
    /// Follows a thread up to its next wait, which is put before the rest of it.
    fn follow(&mut self, mut follow: Follow) {
        let graph = self.graph;
        let spans = graph.spans(follow.place.thread);
        while follow.at < follow.to {
            let Some(span) = spans.get(follow.next) else { return self.beyond(&follow, follow.to) };
            if follow.at < span.from {
                let until = span.from.min(follow.to);
                let before = Follow { to: until, ..follow };
                follow.at = until;
                self.todo.push(Task::Follow(follow));
                return self.before(before);
            }
            let (from, to) = (follow.at, span.to.min(follow.to));
            if from >= to {
                follow.next += 1;
                continue;
            }
            let index = follow.next;
            follow.at = to;
            if let (Doing::Blocked(_), Some(wait)) = (span.doing, graph.wait(&span)) {
                let place = follow.place;
                self.todo.push(Task::Follow(follow));
                return self.wait(&place, &span, &wait, from, to);
            }
            own(graph, &follow.place, spans, index, from, to, |segment| self.tiles.push(segment));
        }
    }

    /// Explains a thread's wait from `from` to `to`.
    fn wait(
        &mut self,
        place: &Place,
        span: &Span,
        wait: &GraphWait,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) {
        let graph = self.graph;
        // What was one wait as far as we saw may have been two.
        let place =
            Place { doubtful: place.doubtful || graph.losses().hide_a_stay(span.from, span.to), ..*place };
        let parts = explain(graph, place.thread, span, wait, from, to);
        let first = self.todo.len();
        let mut at = from;
        let mut under: Option<Place> = None;
        for part in parts {
            let end = match &part {
                Part::Thread { to, .. } | Part::Thing { to, .. } | Part::InFlight { to, .. } => *to,
            };
            if at >= end {
                continue;
            }
            match part {
                Part::Thread { thread, to, via, lock, doubtful } => {
                    let basis = if place.doubtful || doubtful { Basis::Ambiguous } else { Basis::Measured };
                    let id = self.tiles.wait(Wait {
                        from: at,
                        to,
                        thread: place.thread,
                        parent: place.parent,
                        depth: place.depth,
                        call: call(wait),
                        ended_by: Some(thread),
                        via,
                        lock,
                        basis,
                    });
                    let place = Place {
                        thread,
                        parent: Some(id),
                        depth: place.depth.saturating_add(1),
                        via,
                        doubtful: place.doubtful || doubtful,
                    };
                    under = Some(place);
                    self.todo.push(Task::Follow(Follow::new(graph, place, at, to)));
                }
                Part::Thing { to, kind, cause, basis } => {
                    let segment = place.blocked(at, to, kind, cause, basis, call(wait));
                    self.todo.push(Task::Put(Box::new(segment)));
                }
                Part::InFlight { to, cause, basis, .. } => {
                    let under = under.unwrap_or(place);
                    let segment = under.segment(at, to, Kind::Network, cause, basis);
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
        let Follow { place, at, to, .. } = follow;
        let thread = self.graph.thread(place.thread);
        let unknown = |cause| place.segment(at, to, Kind::Unknown, cause, Basis::Measured);
        match thread.forker() {
            // It is there because another forked it: what that one did led here.
            Some(Occupant::Thread(forker)) if place.parent.is_some() => {
                let place = Place { thread: forker, via: Via::Fork, ..place };
                self.todo.push(Task::Follow(Follow::new(self.graph, place, at, to)));
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
        let dead = self.graph.thread(follow.place.thread).last < self.graph.to()
            || self.graph.thread(follow.place.thread).exited.is_some();
        let cause = if dead { Cause::NotAlive } else { Cause::BeforeRecording };
        self.tiles.push(follow.place.segment(follow.at, to, Kind::Unknown, cause, Basis::Measured));
    }
}

/// A thread's name for a problem.
pub(crate) fn named(graph: &Graph, window: &Window) -> (wakepath_event::Tid, Comm) {
    let thread = graph.thread(window.thread);
    (thread.tid_at(window.to), thread.name_at(window.to))
}
