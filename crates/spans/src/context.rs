//! The span that each thread works for, by its own word: its context, as it was read at some moments.
//!
//! A thread's context changes only while the thread runs, since no other thread writes it. So a reading as the thread leaves
//! its CPU holds until it runs again: that is measured. Between two such times the thread ran, and may have changed its
//! context any number of times. The span that it worked for then is inferred: by the beginnings and ends of the spans on the way
//! from the one to the other, clipped to the time between; and by the spans that name the thread, began in it after the one and ended
//! before the other: a busy thread may serve many requests without a reading. A span that began so and goes on behind the other is one
//! that the thread left unseen: until then where the program noted when it queued the work, elsewhere nothing shows when. And to one that
//! it began before, and that is open, the thread may have turned and back, as an event loop does, where it says that it works for nothing.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use wakepath_clock::Stamp;

use crate::work::Open;
use crate::{ById, Requests, SpanId, SpanIndex, Spans, TraceId, Turn, Turns, Work};

/// A thread's context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// It works for no span.
    None,
    /// It works for this span.
    Span {
        /// The trace of the span.
        trace: TraceId,
        /// Its identity there.
        span: SpanId,
        /// The trace is sampled.
        sampled: bool,
    },
    /// It could not be read.
    Unknown,
}

/// A time in which a thread had one context: it did not run, or the time is a single moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold<C> {
    /// The beginning.
    pub from: Stamp<C>,
    /// The end.
    pub to: Stamp<C>,
    /// The context.
    pub said: Said,
}

/// For what a thread works by its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorksFor {
    /// For no span.
    None,
    /// For this span.
    Span(SpanIndex),
    /// For a span of this trace that is not among the spans: the trace was not sampled, or if it was, this span did not come.
    Missing(TraceId, bool),
    /// For one of two things: it went from the one to the other, and nothing shows when. Both are spans that are open, or one is a span
    /// that it began, and goes on elsewhere.
    Unplaced,
    /// It is not known.
    Unknown,
}

/// A piece of time in which a thread works for one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextPiece<C> {
    /// The beginning.
    pub from: Stamp<C>,
    /// The end, behind the beginning.
    pub to: Stamp<C>,
    /// For what it works.
    pub works_for: WorksFor,
    /// Its context was read for all of this time, and not only before and after it.
    pub measured: bool,
    /// The span names the thread, and lies between two readings.
    pub noted: bool,
}

/// The work of threads by their contexts.
#[derive(Debug, Clone)]
pub struct ContextWork<T, C> {
    /// The pieces of each thread from its first reading to its last, in order, without gap or overlap.
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
    /// Each of them, by its ids.
    pub by_id: &'a ById,
    /// Their requests.
    pub requests: &'a Requests,
    /// The beginning and end of a span, on the clock of the readings.
    pub times: F,
    /// The time at which the program noted that it queued the work of a span, on that clock.
    pub queued: Q,
}

impl<T: Copy + Hash + Eq, C: Copy + Ord> ContextWork<T, C> {
    /// Adds a thread whose context was held so: in order of time, without overlap. `may_be_own` says of a span whether the
    /// thread's process may be one of its service: others may have given the same ids. `noted` is the work of threads by the spans
    /// that name them, `turns` what programs noted of the turns of these.
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

    /// The work of a thread at a moment. Unknown where there is no reading before or none behind.
    pub fn at(&self, thread: &T, at: Stamp<C>) -> WorksFor {
        let all = self.by_thread.get(thread).map_or(&[][..], Vec::as_slice);
        let piece = all.get(all.partition_point(|piece| piece.to <= at)).filter(|piece| piece.from <= at);
        piece.map_or(WorksFor::Unknown, |piece| piece.works_for)
    }

    /// The work of a thread from then to then, piece by piece, without gap or overlap. Unknown where there is no reading before
    /// or none behind.
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
    let works_for = |said| match said {
        Said::None => WorksFor::None,
        Said::Unknown => WorksFor::Unknown,
        Said::Span { trace, span, sampled } => {
            match named.by_id.all(trace, span).find(|one| may_be_own(*one)) {
                Some(span) => WorksFor::Span(span),
                None => WorksFor::Missing(trace, sampled),
            }
        }
    };
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
            // Two missing spans of one trace may be different ones.
            let is_same = before.said == hold.said;
            let [first, last] = [before.said, hold.said].map(works_for);
            let mut at = before.to;
            let mut push = |from, to, by_readings, by_spans| {
                for (from, to, turn) in turns.between(thread, from, to) {
                    // Between the turns of all spans that name the thread it worked for none of these.
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
                // A thread may have begun spans there, and ended them: it says nothing of these.
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

/// The work of a thread that ran between two readings, each with the time until which by the spans, of which the last is the
/// end of that time.
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
            // One of them is not known, or has no times.
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
        // Both are open all the time, as tasks that take turns: no stamp says when the thread went from the one to the other.
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
    // A span that goes on elsewhere is left where it was queued, or at the latest where the next one begins, if that is while the thread ran.
    let next = down.first().map(|&span| (named.times)(span).0).filter(|begin| ran.contains(begin));
    let left = |span| {
        let to = (named.times)(span).1;
        let queued = (named.queued)(span).filter(|queued| ran.contains(queued));
        queued.or(next).filter(|_| to > end).unwrap_or(to)
    };
    let mut way: Vec<_> = up.into_iter().map(|span| (left(span), WorksFor::Span(span))).collect();
    // Down to each span from what is above it.
    let mut above = meet.map_or(between, WorksFor::Span);
    for span in down {
        way.push(((named.times)(span).0, above));
        above = WorksFor::Span(span);
    }
    way.push((end, above));
    way
}

impl<F, Q> Named<'_, F, Q> {
    /// For what a thread worked, and until when, in a part of a time in which it ran between two readings, of one context or of two. There
    /// `works_for` is known by the readings; of the spans that name the thread and are open, the one that began last, and the one that
    /// began first.
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
        // A thread also begins spans for calls that it does not wait for: they are of the same request.
        let may_be_worked_for = |span: &SpanIndex| {
            own.is_none_or(|own| self.requests.of_span(own) != self.requests.of_span(*span))
                && (self.queued)(*span).is_none_or(|queued| ran.start < queued)
        };
        // It took its own span up or left it there, and that neither begins nor ends there: others may lie between.
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
        // Between two readings of its own span it is taken to stay with that one: a long callback is cut by other threads at any time.
        if is_same && own.is_some() && began < ran.start {
            return (ran.end, works_for);
        }
        match (self.queued)(other) {
            // By the second reading it had left the span, and may have turned to it before.
            Some(queued) if began <= queued && queued <= ran.end => {
                let is_whole = ran.start <= began;
                (queued, if is_whole { WorksFor::Span(other) } else { WorksFor::Unplaced })
            }
            _ => (ran.end, WorksFor::Unplaced),
        }
    }

    /// Whether a thread that says elsewhere that it works for this does not work for it from then to then: it works for none, or all that are open of
    /// the span and those that it is in have their turns noted, and none there.
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

    /// The way from a span up to one that it and another are in, and down to that other: the spans that end on the way, from
    /// the inside out; those that begin, from the outside in; and the span where both meet.
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

    /// A span and those that it is in, from the inside out, up to the root of its request: a thread does not work for
    /// the spans of other services.
    fn chain(&self, span: Option<SpanIndex>) -> Vec<SpanIndex> {
        /// More spans in each other than this are taken as apart.
        const MAX_DEPTH: usize = 64;
        let mut chain: Vec<_> = span.into_iter().collect();
        while let Some(&last) = chain.last()
            && chain.len() < MAX_DEPTH
        {
            let root = self.requests.request(self.requests.of_span(last)).root;
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
