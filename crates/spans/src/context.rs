//! The span that each thread works for by its context, as read at some times.
//!
//! A thread's context changes only while the thread runs, since no other thread writes it. So a reading at a switch-out holds until the thread runs
//! again: this time is measured. Between two such times the thread ran, and may have changed its context any number of times. Its span there is
//! inferred in two ways. The spans on the way from the first context to the second begin and end at known times, clipped to the time between. And
//! spans that name the thread may have begun and ended between the readings: a busy thread can serve many requests without a reading. Where such a
//! span goes on behind the second reading, the thread left it unseen: when its work was queued, if the program noted this time, or else at an
//! unknown time. A thread may also turn to an open span from before the first reading, and back, as an event loop does, where its context names no
//! span.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use wakepath_clock::Stamp;

use crate::work::Open;
use crate::{ById, Requests, SpanId, SpanIndex, Spans, TraceId, Turn, Turns, Work};

/// A thread's context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// The thread works for no span.
    None,
    /// The thread works for this span.
    Span {
        /// The span's trace.
        trace: TraceId,
        /// Its identity there.
        span: SpanId,
        /// Whether the trace is sampled.
        sampled: bool,
    },
    /// The context could not be read.
    Unknown,
}

/// A time in which a thread had the same context: it did not run, or the time is a single stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold<C> {
    /// The beginning.
    pub from: Stamp<C>,
    /// The end.
    pub to: Stamp<C>,
    /// The context.
    pub said: Said,
}

/// A thread's work by its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorksFor {
    /// No span.
    None,
    /// This span.
    Span(SpanIndex),
    /// A missing span of this trace: the trace was not sampled, or (`true`) it was, and this span did not come.
    Missing(TraceId, bool),
    /// Either of two spans: the thread went from the first to the second at an unknown time. Both are open, or the thread began the first, which
    /// goes on in another thread.
    Unplaced,
    /// Not known.
    Unknown,
}

/// A time in which a thread's work does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextPiece<C> {
    /// The beginning.
    pub from: Stamp<C>,
    /// The end, behind the beginning.
    pub to: Stamp<C>,
    /// The work.
    pub works_for: WorksFor,
    /// Whether the context was read for all this time, and not only before and after it.
    pub measured: bool,
    /// Whether the work is known from a span that names the thread, between two readings.
    pub noted: bool,
}

/// The threads' work by their contexts.
#[derive(Debug, Clone)]
pub struct ContextWork<T, C> {
    /// Each thread's pieces from its first reading to its last, in order, without gap or overlap.
    by_thread: HashMap<T, Vec<ContextPiece<C>>>,
}

impl<T, C> Default for ContextWork<T, C> {
    fn default() -> Self {
        Self { by_thread: HashMap::new() }
    }
}

/// The spans that contexts refer to.
#[derive(Debug)]
pub struct Named<'a, F, Q> {
    /// The spans.
    pub spans: &'a Spans,
    /// The spans' indices, by their ids.
    pub by_id: &'a ById,
    /// The spans' requests.
    pub requests: &'a Requests,
    /// A span's beginning and end, on the clock of the readings.
    pub times: F,
    /// The time at which the program noted that it queued a span's work, on the same clock.
    pub queued: Q,
}

impl<T: Copy + Hash + Eq, C: Copy + Ord> ContextWork<T, C> {
    /// Adds a thread with its contexts: in time order, without overlap. `may_be_own` decides whether the thread's process may belong to a span's
    /// service: other services may have given the same ids. `noted` is the threads' work by the spans that name them, `turns` the turns noted for
    /// these spans.
    pub fn add<F, Q>(
        &mut self,
        thread: T,
        holds: &[Hold<C>],
        named: &Named<'_, F, Q>,
        may_be_own: impl Fn(SpanIndex) -> bool,
        noted: &Work<T, C>,
        turns: &Turns<T, C>,
    ) where
        F: Fn(SpanIndex) -> (Stamp<C>, Stamp<C>),
        Q: Fn(SpanIndex) -> Option<Stamp<C>>,
    {
        let noted = |from, to| noted.open(&thread, from, to);
        let pieces = pieces(&thread, holds, named, may_be_own, noted, turns);
        if !pieces.is_empty() {
            self.by_thread.insert(thread, pieces);
        }
    }

    /// All threads with their pieces, in any order.
    pub fn threads(&self) -> impl Iterator<Item = (&T, &[ContextPiece<C>])> {
        self.by_thread.iter().map(|(thread, pieces)| (thread, pieces.as_slice()))
    }

    /// A thread's work at a stamp; unknown without a reading before and a reading behind.
    pub fn at(&self, thread: &T, at: Stamp<C>) -> WorksFor {
        let all = self.by_thread.get(thread).map_or(&[][..], Vec::as_slice);
        let piece = all.get(all.partition_point(|piece| piece.to <= at)).filter(|piece| piece.from <= at);
        piece.map_or(WorksFor::Unknown, |piece| piece.works_for)
    }

    /// A thread's work between two stamps, piece by piece, without gap or overlap; unknown without a reading before and a reading behind.
    pub fn between(&self, thread: &T, from: Stamp<C>, to: Stamp<C>) -> Vec<ContextPiece<C>> {
        let all = self.by_thread.get(thread).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|piece| piece.to <= from);
        let (mut at, mut between) = (from, Vec::new());
        let works_for = WorksFor::Unknown;
        let unknown = |from, to| ContextPiece { from, to, works_for, measured: false, noted: false };
        for piece in all[first..].iter().take_while(|piece| piece.from < to) {
            if at < piece.from {
                between.push(unknown(at, piece.from));
            }
            let (from, until) = (piece.from.max(at), piece.to.min(to));
            between.push(ContextPiece { from, to: until, ..*piece });
            at = until;
        }
        if at < to {
            between.push(unknown(at, to));
        }
        between
    }
}

fn pieces<T: Copy + Hash + Eq, C: Copy + Ord, F, Q>(
    thread: &T,
    holds: &[Hold<C>],
    named: &Named<'_, F, Q>,
    may_be_own: impl Fn(SpanIndex) -> bool,
    noted: impl Fn(Stamp<C>, Stamp<C>) -> Vec<Open<C>>,
    turns: &Turns<T, C>,
) -> Vec<ContextPiece<C>>
where
    F: Fn(SpanIndex) -> (Stamp<C>, Stamp<C>),
    Q: Fn(SpanIndex) -> Option<Stamp<C>>,
{
    let works_for = |said| named.works_for(said, &may_be_own);
    let mut pieces: Vec<ContextPiece<C>> = Vec::new();
    let mut push = |piece: ContextPiece<C>| {
        if piece.from >= piece.to {
            return;
        }
        let kind = |piece: &ContextPiece<C>| (piece.works_for, piece.measured, piece.noted);
        match pieces.last_mut() {
            Some(last) if last.to == piece.from && kind(last) == kind(&piece) => last.to = piece.to,
            _ => pieces.push(piece),
        }
    };
    let mut before: Option<Hold<C>> = None;
    for hold in holds {
        if let Some(before) = before {
            // Two missing spans with the same trace may differ.
            let is_same = before.said == hold.said;
            let [first, last] = [before.said, hold.said].map(works_for);
            let mut at = before.to;
            let mut push = |from, to, by_readings, by_spans| {
                for (from, to, turn) in turns.between(thread, from, to) {
                    // Between the turns of all spans that name the thread, it worked for none of them.
                    let taken = if turn == Some(Turn::Between) { by_readings } else { by_spans };
                    let is_left =
                        || [first, last].into_iter().all(|end| named.is_left(end, thread, (from, to), turns));
                    let works_for = turns.settle(thread, from, turn, taken, is_left);
                    let noted = matches!(works_for, WorksFor::Span(_)) && works_for != by_readings;
                    push(ContextPiece { from, to, works_for, measured: false, noted });
                }
            };
            for (until, works_for) in way(first, last, is_same, before.to..hold.from, named) {
                let until = until.clamp(at, hold.from);
                // A thread may have begun and ended spans here without a reading.
                for (from, to, open) in noted(at, until) {
                    let ran = before.to..hold.from;
                    let (until, noted) =
                        open.map_or((to, works_for), |open| named.noted(open, works_for, is_same, ran));
                    let until = until.clamp(from, to);
                    push(from, until, works_for, noted);
                    push(until, to, works_for, works_for);
                }
                at = until;
            }
        }
        let (from, to, works_for) = (hold.from, hold.to, works_for(hold.said));
        push(ContextPiece { from, to, works_for, measured: works_for != WorksFor::Unknown, noted: false });
        before = Some(*hold);
    }
    pieces
}

/// The work of a thread that ran between two readings: each span with the time until which the thread worked for it. The last time is the second
/// reading.
fn way<C: Copy + Ord, F, Q>(
    first: WorksFor,
    last: WorksFor,
    is_same: bool,
    ran: Range<Stamp<C>>,
    named: &Named<'_, F, Q>,
) -> Vec<(Stamp<C>, WorksFor)>
where
    F: Fn(SpanIndex) -> (Stamp<C>, Stamp<C>),
    Q: Fn(SpanIndex) -> Option<Stamp<C>>,
{
    let end = ran.end;
    let span = |works_for| match works_for {
        WorksFor::Span(span) => Some(span),
        _ => None,
    };
    let between = match (first, last) {
        (first, _) if is_same => return vec![(end, first)],
        (WorksFor::Missing(..), WorksFor::Span(_)) => first,
        (WorksFor::Span(_), WorksFor::Missing(..)) => last,
        (WorksFor::Unknown | WorksFor::Missing(..), _) | (_, WorksFor::Unknown | WorksFor::Missing(..)) => {
            // A reading is not known, or its span has no times.
            return vec![(end, WorksFor::Unknown)];
        }
        _ => WorksFor::None,
    };
    let (up, down, meet) = named.ways(span(first), span(last));
    let times = |span: SpanIndex| (named.times)(span);
    if let (Some(&left), Some(&taken)) = (up.last(), down.first())
        && times(left).1 > end
        && times(taken).0 < ran.start
    {
        // Both spans are open all the time, like tasks that take turns: no stamp marks the thread's change from the first to the second.
        let mut above = meet.map_or(WorksFor::Unplaced, WorksFor::Span);
        let ended = up.into_iter().filter(|&span| times(span).1 <= end);
        let mut way: Vec<_> = ended.map(|span| (times(span).1, WorksFor::Span(span))).collect();
        for span in down.into_iter().filter(|&span| times(span).0 >= ran.start) {
            way.push((times(span).0, above));
            above = WorksFor::Span(span);
        }
        way.push((end, above));
        return way;
    }
    // A thread leaves a span that goes on in another thread when the work is queued, or at the latest when the next span begins, if the thread ran
    // then.
    let next = down.first().map(|&span| (named.times)(span).0).filter(|begin| ran.contains(begin));
    let left = |span| {
        let to = (named.times)(span).1;
        let queued = (named.queued)(span).filter(|queued| ran.contains(queued));
        queued.or(next).filter(|_| to > end).unwrap_or(to)
    };
    let mut way: Vec<_> = up.into_iter().map(|span| (left(span), WorksFor::Span(span))).collect();
    // Down to each span from the span above it.
    let mut above = meet.map_or(between, WorksFor::Span);
    for span in down {
        way.push(((named.times)(span).0, above));
        above = WorksFor::Span(span);
    }
    way.push((end, above));
    way
}

impl<F, Q> Named<'_, F, Q> {
    /// A thread's work by this context. `may_be_own` decides whether the thread's process may belong to a span's service.
    pub fn works_for(&self, said: Said, may_be_own: impl Fn(SpanIndex) -> bool) -> WorksFor {
        match said {
            Said::None => WorksFor::None,
            Said::Unknown => WorksFor::Unknown,
            Said::Span { trace, span, sampled } => {
                match self.by_id.all(trace, span).find(|one| may_be_own(*one)) {
                    Some(span) => WorksFor::Span(span),
                    None => WorksFor::Missing(trace, sampled),
                }
            }
        }
    }

    /// A thread's work, and its end, in part of a time in which the thread ran between two readings with equal or different contexts. `works_for`
    /// is the work by the readings; `last` and `first` are the open spans that name the thread and began last and first.
    fn noted<C: Copy + Ord>(
        &self,
        (last, first): (SpanIndex, SpanIndex),
        works_for: WorksFor,
        is_same: bool,
        ran: Range<Stamp<C>>,
    ) -> (Stamp<C>, WorksFor)
    where
        F: Fn(SpanIndex) -> (Stamp<C>, Stamp<C>),
        Q: Fn(SpanIndex) -> Option<Stamp<C>>,
    {
        let is_of_ran = |span| {
            let (began, ended) = (self.times)(span);
            ran.start <= began && ended <= ran.end
        };
        if is_of_ran(last) {
            return (ran.end, WorksFor::Span(last));
        }
        let own = match works_for {
            WorksFor::Unknown => return (ran.end, works_for),
            WorksFor::Span(own) => Some(own),
            _ => None,
        };
        // A thread also begins spans for calls that it does not wait for; they belong to the same request.
        let may_be_worked_for = |span: &SpanIndex| {
            own.is_none_or(|own| self.requests.containing(own) != self.requests.containing(*span))
                && (self.queued)(*span).is_none_or(|queued| ran.start < queued)
        };
        // The thread took its own span up or left it here, and this span neither begins nor ends here: others may lie between.
        let is_own_unplaced = !is_same
            && own.is_some_and(|own| {
                let (began, ended) = (self.times)(own);
                began < ran.start && ran.end < ended
            });
        let others = [Some(last), Some(first).filter(|_| is_own_unplaced)];
        let Some(other) = others.into_iter().flatten().find(may_be_worked_for) else {
            return (ran.end, works_for);
        };
        let (began, _) = (self.times)(other);
        // Between two readings of its own span, a thread is taken to stay with it: other threads interrupt a long callback at any time.
        if is_same && own.is_some() && began < ran.start {
            return (ran.end, works_for);
        }
        match (self.queued)(other) {
            // By the second reading the thread had left the span, and may have turned to it before.
            Some(queued) if began <= queued && queued <= ran.end => {
                let is_whole = ran.start <= began;
                (queued, if is_whole { WorksFor::Span(other) } else { WorksFor::Unplaced })
            }
            _ => (ran.end, WorksFor::Unplaced),
        }
    }

    /// Whether a thread with this context at another time does not work for it between these stamps: the context names no span, or all turns of its
    /// span and the spans above, as far as they are open, are noted, without a turn here.
    fn is_left<T: Copy + Hash + Eq, C: Copy + Ord>(
        &self,
        said: WorksFor,
        thread: &T,
        (from, to): (Stamp<C>, Stamp<C>),
        turns: &Turns<T, C>,
    ) -> bool
    where
        F: Fn(SpanIndex) -> (Stamp<C>, Stamp<C>),
    {
        let span = match said {
            WorksFor::Span(span) => span,
            WorksFor::None | WorksFor::Unplaced => return true,
            WorksFor::Missing(..) | WorksFor::Unknown => return false,
        };
        self.chain(Some(span)).into_iter().all(|span| {
            let (began, ended) = (self.times)(span);
            to <= began || ended <= from || turns.is_whole(thread, span, from)
        })
    }

    /// The way up from a span to the innermost span around both, and down to the other: the spans that end on the way, from the inside out; the
    /// spans that begin, from the outside in; and the span where both ways meet.
    fn ways(
        &self,
        first: Option<SpanIndex>,
        last: Option<SpanIndex>,
    ) -> (Vec<SpanIndex>, Vec<SpanIndex>, Option<SpanIndex>) {
        let (mut up, mut down) = (self.chain(first), self.chain(last));
        let mut meet = None;
        while let (Some(one), Some(other)) = (up.last(), down.last())
            && one == other
        {
            meet = up.pop();
            down.pop();
        }
        down.reverse();
        (up, down, meet)
    }

    /// A span and the spans around it, from the inside out, up to its request's root: a thread does not work for other services' spans.
    fn chain(&self, span: Option<SpanIndex>) -> Vec<SpanIndex> {
        /// Spans nested deeper than this count as separate.
        const MAX_DEPTH: usize = 64;
        let mut chain: Vec<_> = span.into_iter().collect();
        while let Some(&last) = chain.last()
            && chain.len() < MAX_DEPTH
        {
            let root = self.requests.request(self.requests.containing(last)).root;
            let span = self.spans.span(last);
            let parent = span.parent.filter(|_| root != last);
            match parent.and_then(|parent| self.by_id.of(self.spans, span.service, span.trace, parent)) {
                Some(parent) => chain.push(parent),
                None => break,
            }
        }
        chain
    }
}

#[cfg(test)]
mod tests;
