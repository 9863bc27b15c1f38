//! A request's path in an event loop, which works for it in turns: a task on two levels, like a goroutine.
//!
//! Between two turns only what made the next turn ready explains the wait, whatever else ended the loop's waits meanwhile (G15 §5.4.3 and
//! §8.1, L19 §5.4 and §6.3 leave event loops open):
//!
//! ```text
//! loop      aa..|..bbb.|.aaa     `a`: this request's turn; `.`: waits; `|`: something ended a wait
//! timer     aattttttttttaaa      the program noted a timer as the last turn's reason, and when it was due
//! path      aatttttttbbbttaa     due while the loop worked for `b`: from then on it was blocked by `b`
//! ```
//!
//! Programs note the reason ([`Ready`]). Without it, the last wait before the turn ended for the turn if the loop turned to the request right
//! behind it; else nothing shows the reason, and the time is undecided.

mod asked;
mod calls;
mod due;
mod jobs;
#[cfg(test)]
mod tests;
mod unnoted;

pub(crate) use asked::handed_work;
pub(crate) use unnoted::is_loop_wait;

use std::collections::HashMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{
    Basis, Cause, EndedWait, Had, HandOvers, JoinedSum, Path, Rule, Segment, SegmentKind, Timeouts, Via,
    Wait, WaitId, Window, active_with, as_single_wait, assembled,
};
use wakepath_event::{Call, Context, WaitEnd};
use wakepath_spans::{Ready, RequestIndex, SpanIndex, WorksFor};
use wakepath_wait_graph::{StateInterval, ThreadIndex, ThreadState};

use crate::hand_over::InServices;
use crate::join::Joined;
use crate::model::{JoinedBy, Worked};

/// The most spans in a request whose turns are read.
const MAX_SPANS: usize = 1024;

/// The deepest chain in which requests made each other ready.
const MAX_DEPTH: u32 = 32;

/// Turns no further apart follow each other, ns: a span begins or ends within a callback.
const MAX_GAP_NS: u64 = 10_000;

/// The longest run, ns, between a loop's wait and the turn for which the wait ended: the loop takes its events up. Behind a longer wait it may run
/// for a twentieth of the wait.
pub(crate) const TAKES_UP_NS: u64 = 1_000_000;

/// The most by which a program's clock puts a turn too early, ns.
const COARSE_NS: u64 = 1_000_000;

/// A request's path in an event loop.
#[derive(Debug)]
pub struct TaskPath {
    /// The path.
    pub path: Path,
    /// For each segment, the request whose turn or wait it is; `None` where the thread's own work decides.
    pub of_segments: Vec<Option<RequestIndex>>,
    /// The same for each wait.
    pub of_waits: Vec<Option<RequestIndex>>,
}

/// A request's path over `window`, if its thread is an event loop with turns for it; `None` for another thread.
pub fn task_path(
    joined: &Joined<'_>,
    request: RequestIndex,
    window: Window,
    timeouts: Timeouts,
) -> Option<TaskPath> {
    let Window { thread, from, to } = window;
    let in_services = InServices { joined };
    let (tiles, followed) = (Tiles::default(), HashMap::new());
    let mut walk = Walk { joined, hand_overs: &in_services, timeouts, tiles, followed };
    let place = Place { from, to, parent: None, depth: 0, via: Via::Window, rule: None };
    match Turns::of(joined, request, thread) {
        Some(turns) if turns.has_gaps(joined, window) => walk.task(request, &turns, place),
        Some(_) => return None,
        None => walk.without_turns(request, thread, place)?,
    }
    let Tiles { segments, waits, of_segments, of_waits, joined: sum } = walk.tiles;
    let path = assembled(&joined.recorded.graph, window, timeouts.algorithm(), segments, waits, sum);
    Some(TaskPath { path, of_segments, of_waits })
}

/// A thread, perhaps an event loop with a single request: the request need not have awaited the events in the loop's set.
#[derive(Debug)]
pub struct InLoop<'a, 'r> {
    /// Requests handed over in called services.
    in_services: InServices<'a, 'r>,
    /// The request's thread, unless the times in which it worked for the request are known.
    thread: Option<ThreadIndex>,
}

impl<'a, 'r> InLoop<'a, 'r> {
    /// A request in this thread.
    pub fn new(joined: &'a Joined<'r>, request: RequestIndex, thread: ThreadIndex) -> Self {
        Self { in_services: InServices { joined }, thread: (!is_noted(joined, request)).then_some(thread) }
    }
}

/// Whether it is known when a request's thread worked for it: by its context, or by turns.
fn is_noted(joined: &Joined<'_>, request: RequestIndex) -> bool {
    let root = joined.traced.request(request).root;
    joined.contexts.thread(request).is_some() || joined.traced.spans.span(root).turns.is_some()
}

impl HandOvers for InLoop<'_, '_> {
    fn parts_of_wait(&self, wait: &EndedWait) -> Option<Vec<Had>> {
        self.in_services.parts_of_wait(wait)
    }

    fn since(&self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<Stamp<Reference>> {
        self.in_services.since(thread, at)
    }

    fn rule_of_wait(&self, thread: ThreadIndex, call: Option<&Call>) -> Option<Rule> {
        let is_loop = |call: &Call| self.thread == Some(thread) && Call::EPOLLS.contains(&call.number);
        call.is_some_and(is_loop).then_some(Rule::NextTurn)
    }
}

/// A request's turns in an event loop.
#[derive(Debug, Clone)]
struct Turns {
    thread: ThreadIndex,
    /// The time from which the turns are complete.
    since: Stamp<Reference>,
    /// This time is the request's beginning.
    is_whole: bool,
    /// Ordered by beginning.
    turns: Vec<Turned>,
}

/// A turn, and what made it ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turned {
    from: Stamp<Reference>,
    to: Stamp<Reference>,
    ready: Ready,
}

impl Turns {
    /// The noted turns in this thread for a request's spans; `None` if its root span has none.
    fn of(joined: &Joined<'_>, request: RequestIndex, thread: ThreadIndex) -> Option<Self> {
        let Joined { recorded, traced, places, .. } = joined;
        let of_request = traced.request(request);
        let own = |span: SpanIndex| {
            let noted = traced.spans.span(span).turns.as_ref().filter(|noted| noted.tids.is_none())?;
            (places.thread(recorded, traced, span) == Some(thread)).then_some(noted)
        };
        let begun = places.stamp(traced, of_request.root, own(of_request.root)?.since);
        let mut since = begun;
        let mut turns = Vec::new();
        for &span in of_request.spans.iter().take(MAX_SPANS) {
            let Some(noted) = own(span) else { continue };
            let on = |wall| places.stamp(traced, span, wall);
            // A span's first turns may be gone; before the span begins there were none.
            if traced.spans.span(span).from < noted.since {
                since = since.max(on(noted.since));
            }
            let reasons = noted.ready.iter().copied().chain(std::iter::repeat(Ready::Unknown));
            turns.extend(noted.turns.iter().zip(reasons).map(|(&(from, to), ready)| Turned {
                from: on(from),
                to: on(to),
                ready,
            }));
        }
        turns.iter_mut().for_each(|turn| turn.from = begin(joined, thread, turn));
        turns.sort_by_key(|turn| (turn.from, turn.to));
        let is_whole = since == begun && since <= joined.times(request).0;
        Some(Self { thread, since, is_whole, turns })
    }

    /// Whether the thread waited between two turns in this time, or ran long for something else.
    fn has_gaps(&self, joined: &Joined<'_>, Window { from, to, .. }: Window) -> bool {
        let mut at = from;
        let ends = std::iter::once((to, to));
        for (begin, end) in self.turns.iter().map(|turn| (turn.from, turn.to)).chain(ends) {
            let begin = begin.clamp(at, to.max(at));
            let is_long = begin.since(at) > TAKES_UP_NS;
            if is_long
                || joined
                    .recorded
                    .graph
                    .state_intervals(self.thread)
                    .overlapping(at, begin)
                    .any(|interval| is_blocked(&interval))
            {
                return true;
            }
            at = at.max(end);
        }
        false
    }
}

/// A turn's beginning: its thread runs then. A program's clock may count whole milliseconds, and put the beginning into the wait before.
fn begin(joined: &Joined<'_>, thread: ThreadIndex, turn: &Turned) -> Stamp<Reference> {
    let at = turn.from;
    let mut before = joined.recorded.graph.state_intervals(thread).overlapping(at, at.plus(1));
    let wait = before.find(|wait| is_blocked(wait) && wait.from < at);
    let runs = wait.map_or(at, |wait| wait.to);
    if runs.since(at) <= COARSE_NS && runs < turn.to { runs } else { at }
}

fn is_blocked(interval: &StateInterval) -> bool {
    matches!(interval.state, ThreadState::Blocked(_))
}

/// A time on the path, and its place there.
#[derive(Debug, Clone, Copy)]
struct Place {
    from: Stamp<Reference>,
    to: Stamp<Reference>,
    parent: Option<WaitId>,
    depth: u32,
    via: Via,
    /// The rule by which the path leads here.
    rule: Option<Rule>,
}

impl Place {
    const fn until(self, to: Stamp<Reference>) -> Self {
        Self { to, ..self }
    }

    const fn since(self, from: Stamp<Reference>) -> Self {
        Self { from, ..self }
    }
}

/// The path so far.
#[derive(Debug, Default)]
struct Tiles {
    segments: Vec<Segment>,
    of_segments: Vec<Option<RequestIndex>>,
    waits: Vec<Wait>,
    of_waits: Vec<Option<RequestIndex>>,
    joined: JoinedSum,
}

struct Walk<'a, 'r> {
    joined: &'a Joined<'r>,
    hand_overs: &'a dyn HandOvers,
    timeouts: Timeouts,
    tiles: Tiles,
    /// The time over which each request was followed last: no request explains itself.
    followed: HashMap<RequestIndex, (Stamp<Reference>, Stamp<Reference>)>,
}

impl Walk<'_, '_> {
    /// A request's time: its turns, and what made each ready.
    fn task(&mut self, request: RequestIndex, turns: &Turns, place: Place) {
        let mut at = place.from;
        if at < turns.since {
            let until = turns.since.min(place.to);
            match turns.is_whole {
                // It had not begun: its data had not come, or nobody had taken it up.
                true => self.looked(request, turns.thread, place.until(until)),
                false => self.undecided(request, turns.thread, place.until(until)),
            }
            at = until;
        }
        for turn in &turns.turns {
            if turn.to <= at {
                continue;
            }
            if turn.from >= place.to {
                break;
            }
            if at < turn.from {
                self.gap(request, turns, place.since(at).until(turn.from), turn.ready);
                at = turn.from;
            }
            let until = turn.to.min(place.to);
            self.thread(turns.thread, place.since(at).until(until), Some(request));
            at = until;
        }
        if at < place.to {
            // The next turn, if any, lies behind this time: so does what made it ready.
            let next = turns.turns.iter().find(|turn| turn.from >= place.to);
            let ready = next.map_or(Ready::Unknown, |turn| later(turn.ready, turn.from.since(place.to)));
            self.gap(request, turns, place.since(at), ready);
        }
    }

    /// The time between two turns; `ready` is the second turn's reason.
    fn gap(&mut self, request: RequestIndex, turns: &Turns, place: Place, ready: Ready) {
        let Place { from, to, .. } = place;
        let thread = turns.thread;
        let then = |ns| to.minus(ns).clamp(from, to);
        match ready {
            _ if to.since(from) <= MAX_GAP_NS => self.thread(thread, place, None),
            Ready::Timer(ns) => {
                let due = self.woken(thread, then(ns), to);
                let (kind, cause) = (SegmentKind::Timer, Cause::Timer { context: Context::LocalTimer });
                self.own(request, thread, place.until(due), kind, cause, Basis::Inferred(Rule::NotedReady));
                self.thread(thread, place.since(due), None);
            }
            Ready::Scheduled(ns) => {
                let at = then(ns);
                self.scheduled(request, thread, place.until(at));
                self.thread(thread, place.since(at), None);
            }
            Ready::Thread(tid, ns) => {
                let at = then(ns);
                self.by_thread(request, thread, place.until(at), tid);
                self.thread(thread, place.since(at), None);
            }
            Ready::Descriptor(ns) => {
                let called = then(ns);
                self.looked(request, thread, place.until(called));
                self.thread(thread, place.since(called), None);
            }
            Ready::Pool(ns) => {
                let called = then(ns);
                self.job(request, turns, place.until(called));
                self.thread(thread, place.since(called), None);
            }
            Ready::Unknown => self.looked(request, thread, place),
        }
    }

    /// The time at which the loop's thread wakes for a due timer: the kernel's time-out may be up to a millisecond later.
    fn woken(&self, thread: ThreadIndex, due: Stamp<Reference>, to: Stamp<Reference>) -> Stamp<Reference> {
        let mut at_due = self.joined.recorded.graph.state_intervals(thread).overlapping(due, due.plus(1));
        // In another wait it works for somebody.
        let wait = at_due.find(|wait| wait.from < due && self.is_loop_wait(wait));
        wait.map_or(due, |wait| wait.to.clamp(due, to))
    }

    /// The time up to which the loop's thread, in another request's turn, scheduled the next turn.
    fn scheduled(&mut self, request: RequestIndex, thread: ThreadIndex, place: Place) {
        let Joined { traced, .. } = self.joined;
        if place.from >= place.to {
            return;
        }
        // A turn may end as it schedules another.
        let worked = [place.to, place.to.minus(1)].map(|at| self.joined.works_for(thread, at));
        let span = worked.into_iter().find_map(|works_for| match works_for {
            WorksFor::Span(span) => Some(span),
            _ => None,
        });
        match span.map(|span| traced.requests.containing(span)) {
            Some(by) => self.by_request(request, thread, place, by),
            None => self.undecided(request, thread, place),
        }
    }

    /// A wait ended by another request in the same loop.
    fn by_request(&mut self, request: RequestIndex, thread: ThreadIndex, place: Place, by: RequestIndex) {
        let Place { from, to, .. } = place;
        let turns = Turns::of(self.joined, by, thread);
        let is_new = self.followed.insert(by, (from, to)) != Some((from, to));
        let Some(turns) = turns.filter(|_| is_new && place.depth < MAX_DEPTH) else {
            return self.undecided(request, thread, place);
        };
        let below = self.wait(request, thread, thread, place, Rule::NotedReady);
        self.task(by, &turns, below);
    }

    /// A wait ended by a thread.
    fn by_thread(&mut self, request: RequestIndex, thread: ThreadIndex, place: Place, tid: u32) {
        let Joined { recorded, places, .. } = self.joined;
        let Place { from, to, .. } = place;
        if from >= to {
            return;
        }
        let process = recorded.graph.thread(thread).tgid();
        let by = process.and_then(|process| places.in_process(recorded, process, tid, (from, to)));
        match by.filter(|by| *by != thread) {
            Some(by) => {
                let below = self.wait(request, thread, by, place, Rule::NotedReady);
                self.thread(by, below, None);
            }
            None => self.undecided(request, thread, place),
        }
    }

    /// The time up to which the loop found the next turn's event, as the kernel shows it: by its last wait's end. A
    /// loop's time-out is no event: its ticks end waits too.
    fn looked(&mut self, request: RequestIndex, thread: ThreadIndex, place: Place) {
        let Joined { recorded, .. } = self.joined;
        let graph = &recorded.graph;
        let Place { from, to, .. } = place;
        if from >= to || self.call(request, thread, place) {
            return;
        }
        let waits = graph.state_intervals(thread).overlapping(from, to);
        let Some(last) = waits.filter(is_blocked).last() else {
            // Within a callback: a span began or ended.
            return match self.turns_right_behind(request, thread, place, from) {
                true => self.thread(thread, place, None),
                false => self.undecided(request, thread, place),
            };
        };
        let found = Some(last)
            .filter(|last| last.to <= to && self.turns_right_behind(request, thread, place, last.to));
        let window = |last: &StateInterval| Window { thread, from, to: last.to };
        let path = found.and_then(|last| {
            let rule = Rule::NextTurn;
            let path = as_single_wait(graph, window(&last), self.timeouts, self.hand_overs, rule)?;
            let call = graph.wait(&last).and_then(|wait| wait.call);
            let is_descriptor = call.is_some_and(|call| matches!(call.ended_by(), WaitEnd::Ready(_)));
            let is_timer = |segment: &Segment| segment.depth == 0 && segment.kind == SegmentKind::Timer;
            (is_descriptor || !path.segments.iter().any(is_timer)).then_some((last.to, path))
        });
        match path {
            Some((end, path)) => {
                self.add(path, place.until(end), Some(request));
                self.thread(thread, place.since(end), None);
            }
            None => self.undecided(request, thread, place),
        }
    }

    /// Whether the loop turned to the request, up to `place.to`, right behind a wait's `end`: it worked for no other request between,
    /// and not long for itself.
    fn turns_right_behind(
        &self,
        request: RequestIndex,
        thread: ThreadIndex,
        Place { from, to, .. }: Place,
        end: Stamp<Reference>,
    ) -> bool {
        let requests = &self.joined.traced.requests;
        let is_other = |worked: &Worked| match worked.works_for {
            WorksFor::Span(span) => requests.containing(span) != request,
            WorksFor::Missing(..) | WorksFor::Unplaced => true,
            WorksFor::None | WorksFor::Unknown => false,
        };
        let worked = self.joined.work_of(thread, end, to);
        self.ran_ns(thread, end, to) <= TAKES_UP_NS.max(end.since(from) / 20) && !worked.iter().any(is_other)
    }

    /// Adds a wait in a request's task, ended by code in `by`, as `rule` shows. Returns the place below it.
    fn wait(
        &mut self,
        request: RequestIndex,
        thread: ThreadIndex,
        by: ThreadIndex,
        place: Place,
        rule: Rule,
    ) -> Place {
        let Place { from, to, parent, depth, .. } = place;
        let id = WaitId(self.tiles.waits.len() as u32);
        self.tiles.waits.push(Wait {
            from,
            to,
            thread,
            parent,
            depth,
            call: None,
            ended_by: Some(by),
            via: Via::Wakeup,
            lock: None,
            basis: Basis::Inferred(rule),
            timed_out: false,
            goes_on: false,
        });
        self.tiles.of_waits.push(Some(request));
        Place { parent: Some(id), depth: depth + 1, via: Via::Wakeup, rule: Some(rule), ..place }
    }

    /// A thread's own path over this time; the thread's own time is a turn or wait for the request `of`.
    fn thread(&mut self, thread: ThreadIndex, place: Place, of: Option<RequestIndex>) {
        let Place { from, to, .. } = place;
        if from < to {
            let window = Window { thread, from, to };
            let path = active_with(&self.joined.recorded.graph, window, self.timeouts, self.hand_overs);
            self.add(path, place, of);
        }
    }

    /// Adds a path below a place.
    fn add(&mut self, path: Path, place: Place, of: Option<RequestIndex>) {
        let Tiles { segments, of_segments, waits, of_waits, joined } = &mut self.tiles;
        let first = waits.len() as u32;
        let moved = |parent: Option<WaitId>| parent.map(|WaitId(id)| WaitId(id + first)).or(place.parent);
        let by_rule = |basis| match (basis, place.rule) {
            (Basis::Measured, Some(rule)) => Basis::Inferred(rule),
            (basis, _) => basis,
        };
        for wait in path.waits {
            of_waits.push(of.filter(|_| wait.depth == 0));
            let (parent, depth) = (moved(wait.parent), wait.depth.saturating_add(place.depth));
            waits.push(Wait { parent, depth, basis: by_rule(wait.basis), ..wait });
        }
        for segment in path.segments {
            let own = segment.depth == 0;
            of_segments.push(of.filter(|_| own));
            segments.push(Segment {
                parent: moved(segment.parent),
                depth: segment.depth.saturating_add(place.depth),
                via: if own { place.via } else { segment.via },
                basis: by_rule(segment.basis),
                ..segment
            });
        }
        *joined = joined.with(path.joined);
    }

    /// A request's wait for something unknown.
    fn undecided(&mut self, request: RequestIndex, thread: ThreadIndex, place: Place) {
        self.own(request, thread, place, SegmentKind::Unknown, Cause::LoopEvent, Basis::Ambiguous);
    }

    fn own(
        &mut self,
        request: RequestIndex,
        thread: ThreadIndex,
        place: Place,
        kind: SegmentKind,
        cause: Cause,
        basis: Basis,
    ) {
        let Place { from, to, parent, depth, via, .. } = place;
        if from >= to {
            return;
        }
        let thread = Some(thread);
        let segment =
            Segment { from, to, kind, thread, parent, depth, via, call: None, cause, basis, goes_on: false };
        self.tiles.segments.push(segment);
        self.tiles.of_segments.push(Some(request));
    }
}

/// A reason, counted from a time `ns` before the turn: no reason where it came only then.
const fn later(ready: Ready, ns: u64) -> Ready {
    match ready {
        Ready::Timer(before) if before >= ns => Ready::Timer(before - ns),
        Ready::Scheduled(before) if before >= ns => Ready::Scheduled(before - ns),
        Ready::Thread(tid, before) if before >= ns => Ready::Thread(tid, before - ns),
        Ready::Timer(_) => Ready::Timer(0),
        _ => Ready::Unknown,
    }
}

impl TaskPath {
    /// A segment's work, if its task is known.
    pub(crate) fn work_of_segment(&self, place: usize, joined: &Joined<'_>) -> Option<Worked> {
        let segment = self.path.segments.get(place)?;
        let request = self.of_segments.get(place).copied().flatten()?;
        let works_for = WorksFor::Span(joined.traced.request(request).root);
        Some(Worked { works_for, by: JoinedBy::Thread, ..Worked::unknown(segment.from, segment.to) })
    }

    /// A wait's work, if its task is known.
    pub(crate) fn work_of_wait(&self, wait: WaitId, joined: &Joined<'_>) -> Option<WorksFor> {
        let request = self.of_waits.get(wait.0 as usize).copied().flatten()?;
        Some(WorksFor::Span(joined.traced.request(request).root))
    }
}
