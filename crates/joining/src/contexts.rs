//! The spans in threads' contexts, and their requests.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use wakepath_clock::{Reference, Stamp};
use wakepath_loaded::Recorded;
use wakepath_spans::{ContextWork, Hold, Named, RequestIndex, Said, Turns, Work, WorksFor};
use wakepath_wait_graph::ThreadIndex;

use crate::model::{RequestStint, Traced, Waking};
use crate::noted::noted_stints;
use crate::places::Places;
use crate::readings::Readings;
use crate::span_clock::{Sightings, SpanClock};

/// The work of threads with a published context.
#[derive(Debug, Default)]
pub struct Contexts {
    /// Each thread's work.
    pub work: ContextWork<ThreadIndex, Reference>,
    /// The clocks of their spans, by process and service.
    pub clocks: Vec<SpanClock>,
    /// Each request's thread, among such threads.
    threads: HashMap<RequestIndex, ThreadIndex>,
    /// The times in which threads work for each request, ordered by beginning.
    stints: HashMap<RequestIndex, Vec<RequestStint>>,
    /// These threads' wake-ups for others, and the waker's work by the context read then: its next context may be another.
    wakings: HashMap<ThreadIndex, Vec<(Waking, WorksFor)>>,
}

impl Contexts {
    /// The work of a recording's threads. `turns` are their noted turns.
    pub fn new(
        recorded: &Recorded,
        traced: &Traced,
        places: &Places,
        turns: &Turns<ThreadIndex, Reference>,
    ) -> Self {
        let Some(readings) = Readings::new(recorded, traced) else { return Self::default() };
        // Their work by the spans naming them.
        let noted = Work::new(noted_stints(recorded, traced, places));
        let (mut work, mut sightings) = (ContextWork::default(), Sightings::default());
        let mut wakings = HashMap::new();
        let times = |index| places.times(traced, index);
        let queued = |index| {
            let queued = traced.spans.span(index).queued;
            queued.map(|queued| places.stamp(traced, index, queued))
        };
        let by_id = &readings.by_id;
        let named = Named { spans: &traced.spans, by_id, requests: &traced.requests, times, queued };
        for of_thread in readings.thread_contexts() {
            sightings.add(traced, places, &readings, &of_thread);
            let may_be_own = |span| readings.may_be_own(traced, of_thread.process, span);
            let works_for =
                |waking: &Waking| named.works_for(said_at(&of_thread.holds, waking.at), may_be_own);
            let own = readings.wakings.get(&of_thread.thread).into_iter().flatten();
            wakings.insert(of_thread.thread, own.map(|&waking| (waking, works_for(&waking))).collect());
            work.add(of_thread.thread, &of_thread.holds, &named, may_be_own, &noted, turns);
        }
        let threads = threads(traced, &work);
        let stints = stints(traced, &work);
        let clocks = sightings.clocks(recorded, traced, places);
        Self { work, clocks, threads, stints, wakings }
    }

    /// The times in which threads work for a request, ordered by beginning.
    pub(crate) fn stints(&self, request: RequestIndex) -> &[RequestStint] {
        self.stints.get(&request).map_or(&[], Vec::as_slice)
    }

    /// A thread's wake-ups for others, from `from` to before `to`, each with its work by the context read then.
    pub(crate) fn wakings(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> &[(Waking, WorksFor)] {
        let all = self.wakings.get(&thread).map_or(&[][..], Vec::as_slice);
        let place = |at| all.partition_point(|(waking, _)| waking.at < at);
        all.get(place(from)..place(to)).unwrap_or_default()
    }

    /// A request's first thread: the first to work for its local root span; else the first to work for any of its
    /// spans.
    pub fn thread(&self, request: RequestIndex) -> Option<ThreadIndex> {
        self.threads.get(&request).copied()
    }
}

/// The context held by a thread at a time; unknown where none was read.
fn said_at(holds: &[Hold<Reference>], at: Stamp<Reference>) -> Said {
    let begun = &holds[..holds.partition_point(|hold| hold.from <= at)];
    begun.last().filter(|hold| at <= hold.to).map_or(Said::Unknown, |hold| hold.said)
}

/// The times in which threads work for each request.
fn stints(
    traced: &Traced,
    work: &ContextWork<ThreadIndex, Reference>,
) -> HashMap<RequestIndex, Vec<RequestStint>> {
    let mut stints: HashMap<RequestIndex, Vec<RequestStint>> = HashMap::new();
    for (&thread, pieces) in work.threads() {
        for piece in pieces {
            let WorksFor::Span(span) = piece.works_for else { continue };
            let of_request = stints.entry(traced.requests.containing(span)).or_default();
            match of_request.last_mut() {
                Some(last) if (last.thread, last.to) == (thread, piece.from) => last.to = piece.to,
                _ => of_request.push(RequestStint { from: piece.from, to: piece.to, thread }),
            }
        }
    }
    stints.values_mut().for_each(|of_request| of_request.sort_unstable());
    stints
}

/// Each request's first thread.
fn threads(
    traced: &Traced,
    work: &ContextWork<ThreadIndex, Reference>,
) -> HashMap<RequestIndex, ThreadIndex> {
    let mut first: HashMap<RequestIndex, (bool, Stamp<Reference>, ThreadIndex)> = HashMap::new();
    for (&thread, pieces) in work.threads() {
        for piece in pieces.iter().filter(|piece| !piece.noted) {
            let WorksFor::Span(span) = piece.works_for else { continue };
            let request = traced.requests.containing(span);
            let found = (traced.request(request).root != span, piece.from, thread);
            let known = first.entry(request).or_insert(found);
            *known = found.min(*known);
        }
    }
    first.into_iter().map(|(request, (.., thread))| (request, thread)).collect()
}
