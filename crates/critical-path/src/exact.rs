//! The exact path: the longest chain of running and device time back from a window's end.

use wakepath_clock::{Reference, Stamp};
use wakepath_wait_graph::{Bookmarks, Graph, Occupant, ThreadIndex, ThreadState};

use crate::explain::{WaitPart, explain, is_run_hidden};
use crate::find_problems::problems;
use crate::own_segments::own_segments;
use crate::tiles::{Position, Tiles};
use crate::{Algorithm, Basis, Cause, JoinedSum, Path, Segment, SegmentKind, Unjoined, Via, Wait, Window};

/// The exact path to a window's end (G15 §4.3.1): the longest path back from the end; waits ended by threads
/// count as zero.
///
/// The wake-up, packet or fork that ended a wait determined when the waiting thread continued. So the walk
/// leaves the waiting thread there and continues backward with the thread that ended the wait, at the same
/// time; it does not come back. The exception is a wait for a lock whose owner is proved (G15 *lock holder*).
/// The owner depends on the waiter through the lock only, so its time counts only from its acquisition of the
/// lock, or from the wait's beginning if that is not known; before that, the waiter's own time counts.
pub fn exact(graph: &Graph, window: Window) -> Path {
    let mut backward = Backward {
        graph,
        from: window.from,
        segments: Vec::new(),
        waits: Vec::new(),
        departures: foldhash::HashMap::default(),
    };
    backward.walk(&window);
    let Backward { segments, waits, .. } = backward;
    let mut tiles = Tiles { segments: Vec::with_capacity(segments.len()), waits };
    for segment in segments.into_iter().rev() {
        tiles.push(segment);
    }
    let Tiles { segments, waits } = tiles;
    let problems = problems(graph, &window, &segments, &waits);
    Path {
        window,
        algorithm: Algorithm::Exact,
        segments,
        waits,
        joined: JoinedSum::default(),
        unjoined: Unjoined::default(),
        problems,
    }
}

struct Backward<'a> {
    graph: &'a Graph,
    from: Stamp<Reference>,
    /// The latest first.
    segments: Vec<Segment>,
    waits: Vec<Wait>,
    /// The time at which the walk last left each thread for another. With a coarse clock, two threads may
    /// have woken each other at the same time, and the walk would go in a circle there.
    departures: foldhash::HashMap<ThreadIndex, Stamp<Reference>>,
}

/// The point at which the walk returns from a lock's owner to the waiter.
struct Return {
    at: Stamp<Reference>,
    position: Position,
}

impl Backward<'_> {
    fn walk(&mut self, window: &Window) {
        let graph = self.graph;
        let mut position = Position::of(window);
        let mut at = window.to.max(window.from);
        let mut returns: Vec<Return> = Vec::new();
        let mut bookmarks = Bookmarks::new(graph);
        while at > self.from {
            if let Some(back) = returns.pop_if(|back| back.at >= at) {
                position = back.position;
                continue;
            }
            let floor = returns.last().map_or(self.from, |back| back.at).max(self.from);
            debug_assert!(floor < at, "the walk goes back");
            let intervals = graph.state_intervals(position.thread);
            let thread = graph.thread(position.thread);
            if at > thread.last
                && let Some(next) = graph.successor(position.thread)
            {
                position.thread = next;
                continue;
            }
            if at > thread.last {
                let from = thread.last.max(floor);
                debug_assert!(from < at, "the walk goes back");
                let cause = Cause::after_last(graph, position.thread);
                self.push(position.segment(from, at, SegmentKind::Unknown, cause, Basis::Measured));
                at = from;
                continue;
            }
            let Some((index, interval)) =
                intervals.find_before(at).and_then(|index| Some((index, intervals.get(index)?)))
            else {
                // Before the thread's first known time, its forker determined its start.
                match thread.forker() {
                    Some(Occupant::Thread(forker)) if self.may_leave(position.thread, at) => {
                        position = Position { thread: forker, via: Via::Fork, ..position };
                    }
                    born => {
                        let start = thread.identity.as_ref().map(|who| who.start.on_reference_host());
                        let start =
                            start.filter(|_| born.is_none()).map_or(floor, |start| start.clamp(floor, at));
                        let cause = if born.is_some() { Cause::NotAlive } else { Cause::BeforeRecording };
                        let (kind, basis) = (SegmentKind::Unknown, Basis::Measured);
                        self.push(position.segment(start, at, kind, cause, basis));
                        self.push(position.segment(floor, start, kind, Cause::NotAlive, basis));
                        at = floor;
                    }
                }
                continue;
            };
            let from = interval.from.max(floor);
            debug_assert!(from < at, "the walk goes back");
            if let (ThreadState::Blocked(_), Some(wait)) = (interval.state, graph.wait(&interval)) {
                let hidden = is_run_hidden(graph, &interval, &wait);
                let here = Position { trust: position.trust.doubtful_if(hidden), ..position };
                let parts = explain(graph, position.thread, &interval, &wait, from, at);
                at = self.back_through(parts, &here, &wait, (floor, from), at, &mut position, &mut returns);
                continue;
            }
            let mut pieces = Vec::new();
            own_segments(graph, &mut bookmarks, &position, index, from, at, |segment| pieces.push(segment));
            while let Some(segment) = pieces.pop() {
                self.push(segment);
            }
            at = from;
        }
    }

    /// Goes back through a wait's parts. Returns the time at which the walk continues, and sets `position` to
    /// the thread with which it continues.
    #[allow(clippy::too_many_arguments, reason = "the walk's whole state")]
    fn back_through(
        &mut self,
        mut parts: Vec<WaitPart>,
        here: &Position,
        wait: &wakepath_wait_graph::Wait,
        (floor, from): (Stamp<Reference>, Stamp<Reference>),
        mut at: Stamp<Reference>,
        position: &mut Position,
        returns: &mut Vec<Return>,
    ) -> Stamp<Reference> {
        let ended = at;
        while let Some(part) = parts.pop() {
            // This part begins at the previous part's end.
            let mut begin = parts.last().map_or(from, WaitPart::to);
            match part {
                // The walk came back to the beginning of this turn, which has no share in the rest of the
                // wait.
                WaitPart::Thread { via: Via::Lock, .. } if begin >= at => {}
                WaitPart::Thread { .. } if !self.may_leave(here.thread, ended) => {
                    let (kind, cause) = (SegmentKind::Unknown, Cause::NoWakeupSeen);
                    let segment = here.segment(begin, at, kind, cause, Basis::Ambiguous);
                    self.push(Segment { call: wait.call, ..segment });
                }
                WaitPart::Thread { thread, via, lock, trust, .. } => {
                    self.waits.push(Wait {
                        from,
                        to: ended,
                        thread: here.thread,
                        parent: None,
                        depth: 0,
                        call: wait.call,
                        ended_by: Some(thread),
                        via,
                        lock,
                        basis: here.trust.and(trust).basis(Basis::Measured),
                        timed_out: false,
                        goes_on: false,
                    });
                    if let Some(lock) = lock.filter(|_| via == Via::Lock) {
                        let its = lock.kernel && lock.owner == Some(thread);
                        let got = its.then(|| self.graph.acquired(thread, lock.address, at)).flatten();
                        let got = got.map_or(begin, |got| got.min(begin)).max(floor);
                        returns.push(Return { at: got, position: *position });
                    }
                    *position = Position {
                        thread,
                        parent: None,
                        depth: 0,
                        via,
                        trust: here.trust.and(trust),
                        queued: false,
                    };
                    return at;
                }
                WaitPart::Other { kind, cause, basis, .. } => {
                    let segment = here.segment(begin, at, kind, cause, basis);
                    self.push(Segment { call: wait.call, ..segment });
                }
                WaitPart::InFlight { sent, cause, basis, .. } => {
                    // The waiter's activity during the packet's flight did not matter.
                    begin = begin.min(sent).max(floor);
                    let segment = here.segment(begin, at, SegmentKind::Network, cause, basis);
                    self.push(Segment { thread: None, via: Via::Packet, ..segment });
                }
            }
            // A packet sent before the wait covers the rest of the wait.
            at = at.min(begin);
        }
        at
    }

    /// Whether the walk may leave a thread at this time: once only, or it goes in a circle.
    fn may_leave(&mut self, thread: ThreadIndex, at: Stamp<Reference>) -> bool {
        self.departures.insert(thread, at) != Some(at)
    }

    fn push(&mut self, segment: Segment) {
        if segment.from < segment.to {
            self.segments.push(segment);
        }
    }
}
