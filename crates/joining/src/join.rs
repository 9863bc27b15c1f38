//! A recording joined with its spans: each thread's span at any time.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::OnceLock;

use wakepath_clock::{Reference, Stamp, Wall};
use wakepath_event::Tid;
use wakepath_goroutines::GoroutineIndex;
use wakepath_loaded::Recorded;
use wakepath_spans::{ContextPiece, RequestIndex, SpanIndex, Stint, Turns, Work, WorksFor};
use wakepath_wait_graph::ThreadIndex;

use crate::arrival::Exchanges;
use crate::begun::SpanGoroutines;
use crate::connection::Connections;
use crate::contexts::Contexts;
use crate::facts::{DiskAccess, DiskAccesses, disk_accesses};
use crate::model::{JoinedBy, NoTimeOfDay, Traced, Worked};
use crate::noted::{by_turn, noted_at, noted_stints, noted_turns};
use crate::places::Places;
use crate::tasks::handed_work;

/// A recording joined with its spans. Joining takes time for every span; questions about a request do not.
#[derive(Debug)]
pub struct Joined<'r> {
    /// The recording.
    pub recorded: &'r Recorded,
    /// The spans and their requests.
    pub traced: &'r Traced,
    /// The spans' hosts and clocks.
    pub places: Places,
    /// Each thread's active span, noted by a plug-in, until the program notes that it queued the work.
    pub work: Work<ThreadIndex, Reference>,
    /// Threads' turns, noted by a plug-in.
    pub turns: Turns<ThreadIndex, Reference>,
    /// All requests' disk accesses, ordered by time; `None` if the recording would not show them.
    pub(crate) disk: Option<Vec<DiskAccess>>,
    /// The threads' contexts.
    pub contexts: Contexts,
    /// The goroutines, if recorded.
    pub goroutines: SpanGoroutines,
    /// Each goroutine's active span.
    pub goroutine_work: Work<GoroutineIndex, Reference>,
    /// The threads found by connection and time.
    pub connections: Connections,
    /// Found once it is needed.
    pub(crate) exchanges: OnceLock<Exchanges>,
    /// The same: the threads to which event loops handed work, for requests known by their connections.
    handed: OnceLock<Work<ThreadIndex, Reference>>,
    /// The same: each process's threads.
    mates: OnceLock<HashMap<Tid, Vec<ThreadIndex>>>,
}

/// Joins a recording with spans.
///
/// # Errors
/// When the recording has no time of day.
pub fn join<'r>(recorded: &'r Recorded, traced: &'r Traced) -> Result<Joined<'r>, NoTimeOfDay> {
    let places = Places::new(recorded, traced)?;
    let turns = noted_turns(recorded, traced, &places);
    let contexts = Contexts::new(recorded, traced, &places, &turns);
    let stints = noted_stints(recorded, traced, &places);
    let work = Work::new(stints.map(|stint| Stint { to: places.left(traced, stint.span), ..stint }));
    let goroutines = SpanGoroutines::new(recorded, traced, &places);
    let goroutine_work = goroutines.work(traced, &places);
    let connections = Connections::new(recorded, traced, &places, &contexts, &goroutines);
    let by_goroutine = |thread: ThreadIndex, at: Stamp<Reference>| {
        let (_, _, goroutine) = goroutines.all.on_thread(thread, at, at.plus(1)).pop()?;
        goroutine_work.at(&goroutine?, at)
    };
    let worked_for = |thread, at| match contexts.work.at(&thread, at) {
        WorksFor::Span(span) => Some(traced.requests.containing(span)),
        WorksFor::None | WorksFor::Missing(..) | WorksFor::Unplaced => None,
        WorksFor::Unknown => {
            let noted = || match noted_at(&work, &turns, thread, at) {
                WorksFor::Span(span) => Some(span),
                WorksFor::Unknown => connections.work.at(&thread, at),
                _ => None,
            };
            let span = by_goroutine(thread, at).or_else(noted);
            Some(traced.requests.containing(span?))
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
        exchanges: OnceLock::new(),
        handed: OnceLock::new(),
        mates: OnceLock::new(),
    })
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

    /// A thread's work between `from` and `to`, in pieces without gap or overlap: by its context; where this is not
    /// known, by the spans naming it; and last by its connections. HotSpot's VM thread works for the thread whose operation it runs.
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
                        match self.operation_of(thread, from, to) {
                            Some(asked) => found.extend(asked),
                            None => found.extend(self.by_connection(thread, from, to)),
                        }
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

    /// A thread's work between `from` and `to` by the spans naming it and by their turns, in pieces without gap or overlap.
    pub(crate) fn noted(
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
        let pieces = pieces.flat_map(move |(from, to, span)| match span {
            Some(_) => vec![(from, to, span)],
            None => self.handed().between(&thread, from, to),
        });
        pieces.map(|(from, to, span)| match span {
            Some(span) => {
                let (works_for, by) = (WorksFor::Span(span), JoinedBy::Connection);
                Worked { from, to, works_for, by, measured: false }
            }
            None => Worked::unknown(from, to),
        })
    }

    /// The threads in a thread's process, itself among them; none if its process is not known.
    pub(crate) fn mates(&self, thread: ThreadIndex) -> &[ThreadIndex] {
        let graph = &self.recorded.graph;
        let mates = self.mates.get_or_init(|| {
            let mut mates: HashMap<Tid, Vec<ThreadIndex>> = HashMap::new();
            for (index, thread) in graph.threads() {
                if let Some(process) = thread.tgid() {
                    mates.entry(process).or_default().push(index);
                }
            }
            mates
        });
        graph.thread(thread).tgid().and_then(|process| mates.get(&process)).map_or(&[], Vec::as_slice)
    }

    /// The times in which threads worked for requests known by their connections, whose event loops handed them the work.
    fn handed(&self) -> &Work<ThreadIndex, Reference> {
        self.handed.get_or_init(|| handed_work(self))
    }

    /// A thread's work at a time.
    pub fn works_for(&self, thread: ThreadIndex, at: Stamp<Reference>) -> WorksFor {
        match self.contexts.work.at(&thread, at) {
            WorksFor::Unknown => match noted_at(&self.work, &self.turns, thread, at) {
                WorksFor::Unknown => {
                    let by_connection = || {
                        let span = self.connections.work.at(&thread, at);
                        span.or_else(|| self.handed().at(&thread, at)).map(WorksFor::Span)
                    };
                    let asked = self.operation_of(thread, at, at.plus(1)).map(|asked| asked[0].works_for);
                    asked.or_else(by_connection).unwrap_or(WorksFor::Unknown)
                }
                noted => noted,
            },
            said => said,
        }
    }

    /// The disk accesses by threads that worked for a request or for its parts in other services; `None` if the
    /// recording would not show them.
    pub fn disk(&self, request: RequestIndex) -> Option<DiskAccesses> {
        let is_part = |of| self.traced.requests.is_part(of, request);
        Some(DiskAccesses::between(self.disk.as_ref()?, self.times(request), is_part))
    }

    /// The way in which a request's thread is known.
    pub fn joined_by(&self, request: RequestIndex) -> JoinedBy {
        joined_by(self.traced, &self.contexts, &self.goroutines, &self.connections, request)
    }
}

/// The way in which a request's thread is known.
pub fn joined_by(
    traced: &Traced,
    contexts: &Contexts,
    goroutines: &SpanGoroutines,
    connections: &Connections,
    request: RequestIndex,
) -> JoinedBy {
    match (contexts.thread(request), traced.root(request).tid) {
        _ if goroutines.by_request(traced, request).is_some() => JoinedBy::Goroutine,
        (Some(_), _) => JoinedBy::Context,
        (None, Some(_)) => JoinedBy::Thread,
        (None, None) if connections.thread(request).is_some() => JoinedBy::Connection,
        (None, None) => JoinedBy::None,
    }
}
