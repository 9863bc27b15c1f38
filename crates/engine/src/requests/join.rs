//! A recording joined with its spans: the span that each thread works for at any time.

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use wakepath_clock::{Reference, Stamp, Wall};
use wakepath_goroutines::GoroutineIndex;
use wakepath_spans::{
    ContextPiece, NotedTurns, RequestIndex, SpanIndex, Stint, Turn, Turns, TurnsOfSpan, Work, WorksFor,
};
use wakepath_wait_graph::ThreadIndex;

use super::facts::{DiskAccess, disk_accesses};
use super::process::{numbered, thread_of};
use super::{
    Connections, Contexts, JoinedBy, Places, RequestsError, SpanGoroutines, Traced, goroutine, joined_by,
};
use crate::Recorded;

/// A recording joined with its spans. Joining takes time for every span; questions about a request do not.
#[derive(Debug)]
pub struct Joined<'r> {
    /// The recording.
    pub recorded: &'r Recorded,
    /// The spans.
    pub traced: &'r Traced,
    /// The spans' hosts and clocks.
    pub places: Places,
    /// Each thread's active span, noted by a plug-in, until the program notes that it queued the work.
    pub work: Work<ThreadIndex, Reference>,
    /// Threads' turns, noted by a plug-in.
    pub turns: Turns<ThreadIndex, Reference>,
    /// All requests' disk accesses, ordered by time; `None` if the recording would not show them.
    pub(super) disk: Option<Vec<DiskAccess>>,
    /// The threads' contexts.
    pub contexts: Contexts,
    /// The goroutines, if recorded.
    pub goroutines: SpanGoroutines,
    /// Each goroutine's active span.
    pub goroutine_work: Work<GoroutineIndex, Reference>,
    /// The threads found by connection and time.
    pub connections: Connections,
}

/// A thread's work in a piece of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worked {
    /// The beginning.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
    /// The work; [`WorksFor::None`] if the thread's context says that it works for nothing.
    pub works_for: WorksFor,
    /// The source of this knowledge.
    pub by: JoinedBy,
    /// Whether the thread's context was read for all of this time.
    pub measured: bool,
}

/// Joins a recording with spans.
///
/// # Errors
/// When the recording has no time of day.
pub fn join<'r>(recorded: &'r Recorded, traced: &'r Traced) -> Result<Joined<'r>, RequestsError> {
    let places = Places::new(recorded, traced)?;
    let turns = noted_turns(recorded, traced, &places);
    let noted = noted_work(recorded, traced, &places);
    let contexts = Contexts::new(recorded, traced, &places, &noted, &turns);
    let work = Work::new(noted_stints(recorded, traced, &places).map(|stint| {
        let to = left(traced, &places, stint.span, (stint.from, stint.to));
        Stint { to, ..stint }
    }));
    let goroutines = SpanGoroutines::new(recorded, traced, &places);
    let goroutine_work = goroutine::work(traced, &goroutines, &places);
    let connections = Connections::new(recorded, traced, &places, &contexts, &goroutines);
    let by_goroutine = |thread: ThreadIndex, at: Stamp<Reference>| {
        let (_, _, goroutine) = goroutines.all.on_thread(thread, at, at.plus(1)).pop()?;
        goroutine_work.at(&goroutine?, at)
    };
    let worked_for = |thread, at| match contexts.work.at(&thread, at) {
        WorksFor::Span(span) => Some(traced.requests.of_span(span)),
        WorksFor::None | WorksFor::Missing(..) | WorksFor::Unplaced => None,
        WorksFor::Unknown => {
            let noted = || match noted_at(&work, &turns, thread, at) {
                WorksFor::Span(span) => Some(span),
                WorksFor::Unknown => connections.work.at(&thread, at),
                _ => None,
            };
            let span = by_goroutine(thread, at).or_else(noted);
            Some(traced.requests.of_span(span?))
        }
    };
    let disk = disk_accesses(recorded, worked_for);
    Ok(Joined {
        recorded,
        traced,
        places,
        work,
        turns,
        disk,
        contexts,
        goroutines,
        goroutine_work,
        connections,
    })
}

/// Each thread's active span, by the spans that name their threads.
pub(super) fn noted_work(
    recorded: &Recorded,
    traced: &Traced,
    places: &Places,
) -> Work<ThreadIndex, Reference> {
    Work::new(noted_stints(recorded, traced, places))
}

fn noted_stints(
    recorded: &Recorded,
    traced: &Traced,
    places: &Places,
) -> impl Iterator<Item = Stint<ThreadIndex, Reference>> {
    traced.spans.iter().filter_map(|(index, _)| {
        let (from, to) = places.times(traced, index);
        let thread = thread_of(recorded, traced, places, index)?;
        Some(Stint { thread, from, to, span: index })
    })
}

/// The time at which a span's first thread or goroutine leaves it, by the program's own notes: when it queues the work for another, if the
/// program notes this; else at the span's end.
pub(super) fn left(
    traced: &Traced,
    places: &Places,
    span: SpanIndex,
    (from, to): (Stamp<Reference>, Stamp<Reference>),
) -> Stamp<Reference> {
    let queued = traced.spans.span(span).queued.map(|queued| places.stamp(traced, span, queued));
    // A span that begins at the pick-up was queued before.
    queued.filter(|queued| from < *queued && *queued < to).unwrap_or(to)
}

/// Each thread's turns, by the spans that name it or have turns in it.
pub(super) fn noted_turns(
    recorded: &Recorded,
    traced: &Traced,
    places: &Places,
) -> Turns<ThreadIndex, Reference> {
    if traced.spans.iter().all(|(_, span)| span.turns.is_none()) {
        return Turns::default();
    }
    Turns::new(traced.spans.iter().flat_map(|(index, span)| {
        let (from, to) = places.times(traced, index);
        let stamp = |wall| places.stamp(traced, index, wall);
        let noted = span.turns.as_ref().map(|noted| noted.on(stamp));
        let own = thread_of(recorded, traced, places, index);
        let of_threads = match noted {
            Some(noted) if noted.tids.is_some() => in_threads(own, &noted, |tid, from, to| {
                numbered(recorded, traced, places, index, tid, (from, to))
            }),
            noted => own.map(|own| (own, noted)).into_iter().collect(),
        };
        of_threads.into_iter().map(move |(thread, noted)| TurnsOfSpan {
            thread,
            from,
            to,
            span: index,
            noted,
        })
    }))
}

/// A span's turns in each thread: in the threads with a turn, ordered by their first turn, and in its own thread.
fn in_threads(
    own: Option<ThreadIndex>,
    noted: &NotedTurns<Reference>,
    thread: impl Fn(u32, Stamp<Reference>, Stamp<Reference>) -> Option<ThreadIndex>,
) -> Vec<(ThreadIndex, Option<NotedTurns<Reference>>)> {
    let tids = noted.tids.iter().flatten();
    let mut by_tid = BTreeMap::<u32, Vec<_>>::new();
    for (tid, turn) in tids.zip(&noted.turns) {
        by_tid.entry(*tid).or_default().push(*turn);
    }
    let of = |turns| NotedTurns { since: noted.since, turns, tids: Some(Vec::new()) };
    let found = by_tid.into_iter().filter_map(|(tid, turns)| {
        let thread = thread(tid, turns.first()?.0, turns.last()?.1)?;
        Some((thread, Some(of(turns))))
    });
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|(_, of_thread)| of_thread.as_ref().and_then(|noted| noted.turns.first().copied()));
    if let Some(own) = own.filter(|own| found.iter().all(|(thread, _)| thread != own)) {
        found.push((own, Some(of(Vec::new()))));
    }
    found
}

/// A thread's work at a time, by the spans that name it.
fn noted_at(
    work: &Work<ThreadIndex, Reference>,
    turns: &Turns<ThreadIndex, Reference>,
    thread: ThreadIndex,
    at: Stamp<Reference>,
) -> WorksFor {
    by_turn(turns, thread, at, turns.at(&thread, at), work.at(&thread, at))
}

/// The same from `at` on, from the noted `turn` and the `active` span at that time.
fn by_turn(
    turns: &Turns<ThreadIndex, Reference>,
    thread: ThreadIndex,
    at: Stamp<Reference>,
    turn: Option<Turn>,
    active: Option<SpanIndex>,
) -> WorksFor {
    match (turn, active) {
        (Some(Turn::Of(span)), _) => WorksFor::Span(span),
        (Some(Turn::Contested), _) => WorksFor::Unplaced,
        (Some(Turn::Between), _) => WorksFor::None,
        // It worked for none of the spans with known turns: for another span, or for none.
        (Some(Turn::Partly), Some(active)) if turns.is_whole(&thread, active, at) => WorksFor::Unplaced,
        (_, Some(active)) => WorksFor::Span(active),
        (_, None) => WorksFor::Unknown,
    }
}

impl Worked {
    /// A time in which a thread's work is not known.
    pub(super) fn unknown(from: Stamp<Reference>, to: Stamp<Reference>) -> Self {
        Self { from, to, works_for: WorksFor::Unknown, by: JoinedBy::None, measured: false }
    }
}

impl Joined<'_> {
    /// A request's beginning and end, on the recording's clock.
    pub fn times(&self, request: RequestIndex) -> (Stamp<Reference>, Stamp<Reference>) {
        self.span_times(self.traced.request(request).root)
    }

    /// A span's beginning and end, on the recording's clock.
    pub fn span_times(&self, span: SpanIndex) -> (Stamp<Reference>, Stamp<Reference>) {
        self.places.times(self.traced, span)
    }

    /// The realtime at a time in a request: never before its root span, and never after it.
    pub fn wall(&self, request: RequestIndex, at: Stamp<Reference>) -> Stamp<Wall> {
        let root = self.traced.root(request);
        match self.times(request) {
            (from, _) if at <= from => root.from,
            (_, to) if at >= to => root.to,
            _ => {
                let span = self.traced.request(request).root;
                self.places.wall(self.traced, span, at).clamp(root.from, root.to)
            }
        }
    }

    /// A thread's work between `from` and `to`, in pieces without gap or overlap: by its context; where that is not
    /// known, by the spans that name it; and last by its connections.
    pub fn work_of(&self, thread: ThreadIndex, from: Stamp<Reference>, to: Stamp<Reference>) -> Vec<Worked> {
        let mut found = Vec::new();
        for piece in self.contexts.work.between(&thread, from, to) {
            if piece.works_for != WorksFor::Unknown {
                let ContextPiece { from, to, works_for, measured, noted } = piece;
                let by = match works_for {
                    // Two candidates, and nothing shows which.
                    WorksFor::Unplaced => JoinedBy::None,
                    _ if noted => JoinedBy::Thread,
                    _ => JoinedBy::Context,
                };
                found.push(Worked { from, to, works_for, by, measured });
                continue;
            }
            for (from, to, works_for) in self.noted(thread, piece.from, piece.to) {
                let by = match works_for {
                    WorksFor::Unknown => {
                        found.extend(self.by_connection(thread, from, to));
                        continue;
                    }
                    WorksFor::Unplaced => JoinedBy::None,
                    _ => JoinedBy::Thread,
                };
                found.push(Worked { from, to, works_for, by, measured: false });
            }
        }
        found
    }

    /// A thread's work between `from` and `to` by the spans that name it and by their turns, in pieces without gap or overlap.
    pub(super) fn noted(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Vec<(Stamp<Reference>, Stamp<Reference>, WorksFor)> {
        let mut noted = Vec::new();
        for (from, to, turn) in self.turns.between(&thread, from, to) {
            for (from, to, active) in self.work.between(&thread, from, to) {
                noted.push((from, to, by_turn(&self.turns, thread, from, turn, active)));
            }
        }
        noted
    }

    /// A thread's work between `from` and `to` by its connections.
    fn by_connection(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = Worked> {
        let pieces = self.connections.work.between(&thread, from, to).into_iter();
        pieces.map(|(from, to, span)| match span {
            Some(span) => {
                let (works_for, by) = (WorksFor::Span(span), JoinedBy::Connection);
                Worked { from, to, works_for, by, measured: false }
            }
            None => Worked::unknown(from, to),
        })
    }

    /// A thread's work at a time.
    pub fn works_for(&self, thread: ThreadIndex, at: Stamp<Reference>) -> WorksFor {
        match self.contexts.work.at(&thread, at) {
            WorksFor::Unknown => match noted_at(&self.work, &self.turns, thread, at) {
                WorksFor::Unknown => {
                    self.connections.work.at(&thread, at).map_or(WorksFor::Unknown, WorksFor::Span)
                }
                noted => noted,
            },
            said => said,
        }
    }

    /// The way in which a request's thread is known.
    pub fn joined_by(&self, request: RequestIndex) -> JoinedBy {
        joined_by(self.traced, &self.contexts, &self.goroutines, &self.connections, request)
    }
}
