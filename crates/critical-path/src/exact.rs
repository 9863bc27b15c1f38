use wakepath_clock::{Reference, Stamp};
use wakepath_wait_graph::{Bookmarks, Graph, Occupant, ThreadIndex, ThreadState};

use crate::explain::{Part, explain};
use crate::own_segments::own_segments;
use crate::tiles::{Place, Tiles, Trust};
use crate::{Algorithm, Basis, Cause, Path, Segment, SegmentKind, Via, Wait, Window, problem};

/// The exact path to a window's end (G15 §4.3.1): with waits that threads ended taken as zero, the
/// longest path back from the end.
///
/// A waking, a packet or a birth that ended a wait decided when its thread went on, so the walk
/// leaves the waiting thread there and goes on backward with the one that did it, at that moment;
/// it does not come back. It does where a wait was for a lock whose holder is proved (G15 *lock
/// holder*): whoever held it is independent of the waiter but for the lock, so its time counts only
/// from when it got the lock, or from the wait's beginning where that was not seen; before that the
/// waiter's own time counts.
pub fn exact(graph: &Graph, window: Window) -> Path {
    let mut backward = Backward {
        graph,
        from: window.from,
        segments: Vec::new(),
        waits: Vec::new(),
        left: foldhash::HashMap::default(),
    };
    backward.walk(&window);
    let Backward { segments, waits, .. } = backward;
    let mut tiles = Tiles { segments: Vec::with_capacity(segments.len()), waits };
    for segment in segments.into_iter().rev() {
        tiles.push(segment);
    }
    let Tiles { segments, waits } = tiles;
    let problems = problem::problems(graph, &window, &segments);
    Path { window, algorithm: Algorithm::Exact, segments, waits, problems }
}

struct Backward<'a> {
    graph: &'a Graph,
    from: Stamp<Reference>,
    /// The latest first.
    segments: Vec<Segment>,
    waits: Vec<Wait>,
    /// When the walk came to each thread that it left for another, the last time. Where a clock is
    /// coarse, two threads may have woken each other at one moment, and the walk would go round there.
    left: foldhash::HashMap<ThreadIndex, Stamp<Reference>>,
}

/// Where a lock's holder hands back to the waiter.
struct Return {
    at: Stamp<Reference>,
    place: Place,
}

impl Backward<'_> {
    fn walk(&mut self, window: &Window) {
        let graph = self.graph;
        let mut place =
            Place { thread: window.thread, parent: None, depth: 0, via: Via::Window, trust: Trust::Sure };
        let mut at = window.to.max(window.from);
        let mut returns: Vec<Return> = Vec::new();
        let mut bookmarks = Bookmarks::new(graph);
        while at > self.from {
            if let Some(back) = returns.pop_if(|back| back.at >= at) {
                place = back.place;
                continue;
            }
            let floor = returns.last().map_or(self.from, |back| back.at).max(self.from);
            let intervals = graph.state_intervals(place.thread);
            let thread = graph.thread(place.thread);
            if at > thread.last
                && let Some(next) = graph.successor(place.thread)
            {
                place.thread = next;
                continue;
            }
            if at > thread.last {
                let from = thread.last.max(floor);
                let cause = if thread.last < graph.to() || thread.exited.is_some() {
                    Cause::NotAlive
                } else {
                    Cause::BeforeRecording
                };
                self.put(place.segment(from, at, SegmentKind::Unknown, cause, Basis::Measured));
                at = from;
                continue;
            }
            let Some((index, interval)) =
                intervals.find_before(at).and_then(|index| Some((index, intervals.get(index)?)))
            else {
                // Before the first that is known of it: whoever forked it decided that it is there.
                match thread.forker() {
                    Some(Occupant::Thread(forker)) if self.may_leave(place.thread, at) => {
                        place = Place { thread: forker, via: Via::Fork, ..place };
                    }
                    born => {
                        let start = thread.identity.as_ref().map(|who| who.start.on_reference_host());
                        let start =
                            start.filter(|_| born.is_none()).map_or(floor, |start| start.clamp(floor, at));
                        let cause = if born.is_some() { Cause::NotAlive } else { Cause::BeforeRecording };
                        self.put(place.segment(start, at, SegmentKind::Unknown, cause, Basis::Measured));
                        self.put(place.segment(
                            floor,
                            start,
                            SegmentKind::Unknown,
                            Cause::NotAlive,
                            Basis::Measured,
                        ));
                        at = floor;
                    }
                }
                continue;
            };
            let from = interval.from.max(floor);
            if let (ThreadState::Blocked(_), Some(wait)) = (interval.state, graph.wait(&interval)) {
                let hidden = graph.losses().may_hide_a_run(interval.from, interval.to);
                let here = Place { trust: place.trust.unless(hidden), ..place };
                let parts = explain(graph, place.thread, &interval, &wait, from, at);
                at = self.back_through(parts, &here, &wait, (floor, from), at, &mut place, &mut returns);
                continue;
            }
            let mut pieces = Vec::new();
            own_segments(graph, &mut bookmarks, &place, index, from, at, |segment| pieces.push(segment));
            while let Some(segment) = pieces.pop() {
                self.put(segment);
            }
            at = from;
        }
    }

    /// Goes back through a wait's parts. Hands back where the walk goes on, with `place` set to the
    /// thread that it goes on with.
    #[allow(clippy::too_many_arguments, reason = "the walk's whole state")]
    fn back_through(
        &mut self,
        mut parts: Vec<Part>,
        here: &Place,
        wait: &wakepath_wait_graph::Wait,
        (floor, from): (Stamp<Reference>, Stamp<Reference>),
        mut at: Stamp<Reference>,
        place: &mut Place,
        returns: &mut Vec<Return>,
    ) -> Stamp<Reference> {
        let ended = at;
        while let Some(part) = parts.pop() {
            // Where this part begins is where the one before ends.
            let mut begin = parts.last().map_or(from, |before| match before {
                Part::Thread { to, .. } | Part::Thing { to, .. } | Part::InFlight { to, .. } => *to,
            });
            match part {
                Part::Thread { .. } if !self.may_leave(here.thread, ended) => {
                    let (kind, cause) = (SegmentKind::Unknown, Cause::NoWakeupSeen);
                    self.put(here.blocked(begin, at, kind, cause, Basis::Ambiguous, wait.call));
                }
                Part::Thread { thread, via, lock, trust, .. } => {
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
                    });
                    if let Some(lock) = lock.filter(|_| via == Via::Lock) {
                        let its = lock.kernel && lock.owner == Some(thread);
                        let got = its.then(|| self.graph.acquired(thread, lock.address, at)).flatten();
                        let got = got.map_or(begin, |got| got.min(begin)).max(floor);
                        returns.push(Return { at: got, place: *place });
                    }
                    *place = Place { thread, parent: None, depth: 0, via, trust: here.trust.and(trust) };
                    return at;
                }
                Part::Thing { kind, cause, basis, .. } => {
                    self.put(here.blocked(begin, at, kind, cause, basis, wait.call));
                }
                Part::InFlight { sent, cause, basis, .. } => {
                    // What the waiter did before it waited for what was on its way did not matter.
                    begin = begin.min(sent).max(floor);
                    let segment = here.segment(begin, at, SegmentKind::Network, cause, basis);
                    self.put(Segment { thread: None, via: Via::Packet, ..segment });
                }
            }
            // A packet sent before the wait leaves nothing of what comes before it in the wait.
            at = at.min(begin);
        }
        at
    }

    /// Whether the walk may leave a thread that it came to at that moment: once, or it goes round.
    fn may_leave(&mut self, thread: ThreadIndex, at: Stamp<Reference>) -> bool {
        self.left.insert(thread, at) != Some(at)
    }

    fn put(&mut self, segment: Segment) {
        if segment.from < segment.to {
            self.segments.push(segment);
        }
    }
}
