//! A recording and its spans, brought together: which span each thread works for, at every moment.

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

/// A recording and its spans, brought together. Making it takes time for every span; asking it about a request does not.
#[derive(Debug)]
pub struct Joined<'r> {
    /// The recording.
    pub recorded: &'r Recorded,
    /// The spans.
    pub traced: &'r Traced,
    /// The hosts of the spans, and their clocks.
    pub places: Places,
    /// The active span of each thread that a plug-in noted, until the program notes that it queued the work.
    pub work: Work<ThreadIndex, Reference>,
    /// The turns of threads that a plug-in noted.
    pub turns: Turns<ThreadIndex, Reference>,
    /// The accesses to disks of all requests, by their time; `None` where the recording shows none.
    pub(super) disk: Option<Vec<DiskAccess>>,
    /// The contexts of threads.
    pub contexts: Contexts,
    /// The goroutines, where they were recorded.
    pub goroutines: SpanGoroutines,
    /// The active span of each goroutine.
    pub goroutine_work: Work<GoroutineIndex, Reference>,
    /// The threads that are known by connection and time.
    pub connections: Connections,
}

/// For what a thread works in a piece of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Worked {
    /// The beginning.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
    /// For what; [`WorksFor::None`] where the thread says so.
    pub works_for: WorksFor,
    /// How it is known.
    pub by: JoinedBy,
    /// The thread's context was read for all of this time.
    pub measured: bool,
}

/// Brings a recording and spans together.
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

/// The active span of each thread, by the spans that name their threads.
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

/// The time at which a span is left by the thread or the goroutine in which it began, by the program's own word: as it queues the work for
/// another one, if it notes that; else as the span ends.
pub(super) fn left(
    traced: &Traced,
    places: &Places,
    span: SpanIndex,
    (from, to): (Stamp<Reference>, Stamp<Reference>),
) -> Stamp<Reference> {
    let queued = traced.spans.span(span).queued.map(|queued| places.stamp(traced, span, queued));
    // A span that begins as the work is taken up was queued before.
    queued.filter(|queued| from < *queued && *queued < to).unwrap_or(to)
}

/// The turns of each thread, by the spans that name it or have turns in it.
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

/// The turns of a span in each thread: in those that have a turn, by the first one in each, and in its own one.
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

/// For what a thread works at a moment by the spans that name it.
fn noted_at(
    work: &Work<ThreadIndex, Reference>,
    turns: &Turns<ThreadIndex, Reference>,
    thread: ThreadIndex,
    at: Stamp<Reference>,
) -> WorksFor {
    by_turn(turns, thread, at, turns.at(&thread, at), work.at(&thread, at))
}

/// The same from `at` on, where this is noted of its turns, and this is its active span.
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
        // It worked for none of those whose turns are known: for another one, or for none.
        (Some(Turn::Partly), Some(active)) if turns.is_whole(&thread, active, at) => WorksFor::Unplaced,
        (_, Some(active)) => WorksFor::Span(active),
        (_, None) => WorksFor::Unknown,
    }
}

impl Worked {
    /// A time of which it is not known for what a thread works.
    pub(super) fn unknown(from: Stamp<Reference>, to: Stamp<Reference>) -> Self {
        Self { from, to, works_for: WorksFor::Unknown, by: JoinedBy::None, measured: false }
    }
}

impl Joined<'_> {
    /// The beginning and the end of a request, on the recording's clock.
    pub fn times(&self, request: RequestIndex) -> (Stamp<Reference>, Stamp<Reference>) {
        self.span_times(self.traced.request(request).root)
    }

    /// The beginning and the end of a span, on the recording's clock.
    pub fn span_times(&self, span: SpanIndex) -> (Stamp<Reference>, Stamp<Reference>) {
        self.places.times(self.traced, span)
    }

    /// The realtime of a moment of a request: never before its root span, and never after it.
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

    /// For what a thread works from then to then, piece by piece, without gap or overlap: by its context, and where that is
    /// not known by the spans that name it, and last by its connections.
    pub fn work_of(&self, thread: ThreadIndex, from: Stamp<Reference>, to: Stamp<Reference>) -> Vec<Worked> {
        let mut found = Vec::new();
        for piece in self.contexts.work.between(&thread, from, to) {
            if piece.works_for != WorksFor::Unknown {
                let ContextPiece { from, to, works_for, measured, noted } = piece;
                let by = match works_for {
                    // It is not known for which of two things.
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

    /// For what a thread works from then to then by the spans that name it and by their turns, piece by piece, without gap or overlap.
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

    /// For what a thread works from then to then by its connections.
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

    /// For what a thread works at a moment.
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

    /// How the thread of a request is known.
    pub fn joined_by(&self, request: RequestIndex) -> JoinedBy {
        joined_by(self.traced, &self.contexts, &self.goroutines, &self.connections, request)
    }
}
