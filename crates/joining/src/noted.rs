//! Threads' work by the spans naming them: their active spans, and their noted turns.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_loaded::Recorded;
use wakepath_spans::{NotedTurns, SpanIndex, Stint, Turn, Turns, TurnsOfSpan, Work, WorksFor};
use wakepath_wait_graph::ThreadIndex;

use crate::model::Traced;
use crate::places::Places;

/// Each span's time, in the thread named by the span.
pub(crate) fn noted_stints(
    recorded: &Recorded,
    traced: &Traced,
    places: &Places,
) -> impl Iterator<Item = Stint<ThreadIndex, Reference>> {
    traced.spans.iter().filter_map(|(index, _)| {
        let (from, to) = places.times(traced, index);
        let thread = places.thread(recorded, traced, index)?;
        Some(Stint { thread, from, to, span: index })
    })
}

/// Each thread's turns, by the spans naming it or with turns in it.
pub fn noted_turns(recorded: &Recorded, traced: &Traced, places: &Places) -> Turns<ThreadIndex, Reference> {
    if traced.spans.iter().all(|(_, span)| span.turns.is_none()) {
        return Turns::default();
    }
    Turns::new(traced.spans.iter().flat_map(|(index, span)| {
        let (from, to) = places.times(traced, index);
        let stamp = |wall| places.stamp(traced, index, wall);
        let noted = span.turns.as_ref().map(|noted| noted.on(stamp));
        let own = places.thread(recorded, traced, index);
        let of_threads = match noted {
            Some(noted) if noted.tids.is_some() => in_threads(own, &noted, |tid, from, to| {
                places.numbered(recorded, traced, index, tid, (from, to))
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
    let of = |turns| NotedTurns { since: noted.since, turns, tids: Some(Vec::new()), ready: Vec::new() };
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

/// A thread's work at a time, by the spans naming it.
pub(crate) fn noted_at(
    work: &Work<ThreadIndex, Reference>,
    turns: &Turns<ThreadIndex, Reference>,
    thread: ThreadIndex,
    at: Stamp<Reference>,
) -> WorksFor {
    by_turn(turns, thread, at, turns.at(&thread, at), work.at(&thread, at))
}

/// The same from `at` on, from the noted `turn` and the `active` span at that time.
pub(crate) fn by_turn(
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
