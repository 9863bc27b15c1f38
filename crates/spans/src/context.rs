//! The span that each thread works for, by its own word: its context, as it was read at some moments.
//!
//! A thread's context changes only while the thread runs, since no other thread writes it. So a reading as the thread leaves
//! its CPU holds until it runs again: that is measured. Between two such times the thread ran, and may have changed its
//! context any number of times. The span that it worked for then is inferred: by the beginnings and ends of the spans on the way
//! from the one to the other, clipped to the time between; and by the spans that name the thread, began in it after the one and ended
//! before the other: a busy thread may serve many requests without a reading. A span that began so and goes on behind the other is one
//! that the thread left unseen: until then where the program noted when it queued the work, elsewhere nothing shows when. And to one that
//! it began before, and that is open, the thread may have turned and back, as an event loop does.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

use wakepath_clock::Stamp;

use crate::{ById, Requests, SpanId, SpanIndex, Spans, TraceId, Work};

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

impl<T: Hash + Eq, C: Copy + Ord> ContextWork<T, C> {
    /// Adds a thread whose context was held so: in order of time, without overlap. `may_be_own` says of a span whether the
    /// thread's process may be one of its service: others may have given the same ids. `noted` is the work of threads by the spans
    /// that name them.
    pub fn add<F, Q>(
        &mut self,
        thread: T,
        holds: &[Hold<C>],
        named: &Named<'_, F, Q>,
        may_be_own: impl Fn(SpanIndex) -> bool,
        noted: &Work<T, C>,
    ) where
        F: Fn(SpanIndex) -> (Stamp<C>, Stamp<C>),
        Q: Fn(SpanIndex) -> Option<Stamp<C>>,
    {
        let noted = |from, to| noted.between(&thread, from, to);
        let pieces = pieces(holds, named, may_be_own, noted);
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

fn pieces<C: Copy + Ord, F, Q>(
    holds: &[Hold<C>],
    named: &Named<'_, F, Q>,
    may_be_own: impl Fn(SpanIndex) -> bool,
    noted: impl Fn(Stamp<C>, Stamp<C>) -> Vec<(Stamp<C>, Stamp<C>, Option<SpanIndex>)>,
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
            for (until, works_for) in way(first, last, is_same, before.to..hold.from, named) {
                let until = until.clamp(at, hold.from);
                // A thread may have begun spans there, and ended them: it says nothing of these.
                for (from, to, span) in noted(at, until) {
                    let (until, noted) = named.noted(span, works_for, before.to..hold.from);
                    let until = until.clamp(from, to);
                    let is_noted = matches!(noted, WorksFor::Span(_)) && noted != works_for;
                    push(ContextPiece {
                        from,
                        to: until,
                        works_for: noted,
                        measured: false,
                        noted: is_noted,
                    });
                    push(ContextPiece { from: until, to, works_for, measured: false, noted: false });
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
    // A span that goes on elsewhere is left at the latest where the next one begins, if that is while the thread ran.
    let next = down.first().map(|&span| (named.times)(span).0).filter(|begin| ran.contains(begin));
    let left = |span| {
        let to = (named.times)(span).1;
        next.filter(|_| to > end).unwrap_or(to)
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
    /// For what a thread worked, and until when, in a part of a time in which it ran between two readings: there `works_for` is known by the
    /// readings, and `span` by the spans that name it.
    fn noted<C: Copy + Ord>(
        &self,
        span: Option<SpanIndex>,
        works_for: WorksFor,
        ran: Range<Stamp<C>>,
    ) -> (Stamp<C>, WorksFor)
    where
        F: Fn(SpanIndex) -> (Stamp<C>, Stamp<C>),
        Q: Fn(SpanIndex) -> Option<Stamp<C>>,
    {
        let Some(span) = span else { return (ran.end, works_for) };
        let (began, ended) = (self.times)(span);
        let is_of_one_request = match works_for {
            WorksFor::Span(other) => self.requests.of_span(other) == self.requests.of_span(span),
            _ => false,
        };
        match (self.queued)(span) {
            _ if ran.start <= began && ended <= ran.end => (ran.end, WorksFor::Span(span)),
            // A thread also begins spans for calls that it does not wait for.
            _ if is_of_one_request || works_for == WorksFor::Unknown => (ran.end, works_for),
            Some(queued) if queued <= ran.start => (ran.end, works_for),
            // By the second reading it had left the span, and may have turned to it before.
            Some(queued) if began < queued && queued <= ran.end => {
                let is_whole = ran.start <= began;
                (queued, if is_whole { WorksFor::Span(span) } else { WorksFor::Unplaced })
            }
            _ => (ran.end, WorksFor::Unplaced),
        }
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
            let request = self.requests.of_span(last);
            let span = self.spans.span(last);
            let parent = span.parent.filter(|_| self.requests.request(request).root != last);
            let parent =
                parent.and_then(|parent| self.by_id.of(self.spans, span.service, span.trace, parent));
            match parent {
                Some(parent) if self.requests.of_span(parent) == request => chain.push(parent),
                _ => break,
            }
        }
        chain
    }
}

#[cfg(test)]
mod tests {
    use wakepath_clock::Reference;

    use super::*;
    use crate::testing::drawn;
    use crate::{Stint, requests};

    /// The work of a thread whose readings are the letters of a line: a letter for each ns for which it did not run, with
    /// the span of the letter, `-` for none, `!` for one that is not among the spans, `?` for one that could not be
    /// read; `=` where it ran. The answer has `/` for one of two open spans, and capital letters where it is measured, and `~` for none that is inferred.
    #[track_caller]
    fn check(drawing: &str, readings: &str, expected: &str) {
        let holds = (0..).zip(readings.chars()).filter(|(_, letter)| *letter != '=');
        let holds: Vec<_> = holds.map(|(ns, letter)| (ns, ns + 1, letter)).collect();
        judge(drawing, &holds, readings.len() as u64, expected);
    }

    /// The same of contexts that were held from then to then: at the same moment where the thread ran on.
    #[track_caller]
    fn judge(drawing: &str, held: &[(u64, u64, char)], end: u64, expected: &str) {
        judge_with(drawing, held, "", end, expected);
    }

    /// The same with spans that name the thread: those with these letters.
    #[track_caller]
    fn judge_with(drawing: &str, held: &[(u64, u64, char)], naming: &str, end: u64, expected: &str) {
        judge_queued(drawing, held, naming, &[], end, expected);
    }

    /// The same with the times at which the program noted that it queued the work of spans.
    #[track_caller]
    fn judge_queued(
        drawing: &str,
        held: &[(u64, u64, char)],
        naming: &str,
        queued: &[(char, u64)],
        end: u64,
        expected: &str,
    ) {
        let spans: Spans = drawn(drawing);
        let requests = requests(&spans);
        let by_id = ById::new(&spans);
        let letter = |index| crate::testing::letter(&spans, index);
        let at = |ns| Stamp::<Reference>::from_ns(ns);
        let mut holds: Vec<Hold<Reference>> = Vec::new();
        for &(from, to, letter_at) in held {
            let said = match letter_at {
                '-' => Said::None,
                '?' => Said::Unknown,
                '!' => Said::Span { trace: TraceId([9; 16]), span: SpanId([9; 8]), sampled: true },
                other => {
                    let (_, span) = spans.iter().find(|(index, _)| letter(*index) == other).expect("a span");
                    Said::Span { trace: span.trace, span: span.id, sampled: true }
                }
            };
            holds.push(Hold { from: at(from), to: at(to), said });
        }
        let times = |index| {
            let span = spans.span(index);
            (at(span.from.ns() - 1000), at(span.to.ns() - 1000))
        };
        let stints = spans.iter().filter(|(index, _)| naming.contains(letter(*index)));
        let stints: Vec<_> = stints
            .map(|(span, _)| {
                let (from, to) = times(span);
                Stint { thread: 7, from, to, span }
            })
            .collect();
        let queued = |span| {
            let noted = queued.iter().find(|(of, _)| *of == letter(span));
            noted.map(|&(_, ns)| at(ns))
        };
        let mut work = ContextWork::default();
        work.add(
            7,
            &holds,
            &Named { spans: &spans, by_id: &by_id, requests: &requests, times, queued },
            |_| true,
            &Work::new(stints),
        );
        let found = |from: u64, to: u64| -> String {
            let mut then = at(from);
            let mut found = String::new();
            for piece in work.between(&7, at(from), at(to)) {
                assert_eq!(piece.from, then, "without gap or overlap");
                assert!(piece.from < piece.to, "no piece is empty");
                assert!(
                    !piece.measured || piece.works_for != WorksFor::Unknown,
                    "the unknown is not measured"
                );
                then = piece.to;
                let one = match (piece.works_for, piece.measured) {
                    (WorksFor::None, true) => '-',
                    (WorksFor::None, false) => '~',
                    (WorksFor::Span(span), true) => letter(span).to_ascii_uppercase(),
                    (WorksFor::Span(span), false) => letter(span),
                    (WorksFor::Missing(..), true) => '!',
                    (WorksFor::Missing(..), false) => ':',
                    (WorksFor::Unplaced, _) => '/',
                    (WorksFor::Unknown, _) => '?',
                };
                found.extend((piece.from.ns()..piece.to.ns()).map(|_| one));
            }
            assert_eq!(then, at(to));
            found
        };
        for (_, pieces) in work.threads() {
            assert!(pieces.iter().all(|piece| piece.from < piece.to), "{pieces:?}");
            assert!(pieces.windows(2).all(|two| two[0].to == two[1].from), "{pieces:?}");
        }
        assert_eq!(found(0, end), expected, "{drawing}");
        for from in 0..end {
            for to in from + 1..=end {
                assert_eq!(found(from, to), expected[from as usize..to as usize], "{from} to {to}");
            }
        }
        for (moment, one) in (0..).zip(expected.chars()) {
            let found = match work.at(&7, at(moment)) {
                WorksFor::None => "-~",
                WorksFor::Span(span) => &format!("{0}{1}", letter(span), letter(span).to_ascii_uppercase()),
                WorksFor::Missing(..) => "!:",
                WorksFor::Unplaced => "/",
                WorksFor::Unknown => "?",
            };
            assert!(found.contains(one), "at {moment}: {found}");
        }
        let other = work.between(&8, at(0), at(1));
        assert_eq!(other.len(), 1);
        assert_eq!(other[0].works_for, WorksFor::Unknown);
    }

    const NESTED: &str = "a   ==========
                          b<a ..======..
                          c<b ...===....";

    #[test]
    fn a_thread_that_does_not_run_keeps_its_context_and_one_that_runs_may_change_it() {
        check(NESTED, "==aaa==aaa", "??AAAaaAAA");
        check(NESTED, "-==-==", "-~~-??");
        check(NESTED, "", "");
    }

    #[test]
    fn a_boundary_is_where_a_span_begins_or_ends_within_the_time_between_two_readings() {
        check(NESTED, "a====b", "AabbbB");
        check(NESTED, "=====b===aa", "?????BbbaAA");
    }

    #[test]
    fn spans_on_the_way_from_one_reading_to_the_next_are_worked_for_in_between() {
        check(NESTED, "=a==c====a", "?AbcCcbbaA");
        check("a ..........======", "-==============a", "-~~~~~~~~~aaaaaA");
        check(NESTED, "-===c", "-abcC");
        check(NESTED, "====c=======-", "????Ccbbaa~~-");
        let siblings = "a   ==========\nb<a .==.......\nc<a .....===..";
        check(siblings, "=b====c", "?BbaacC");
        let two = "a ===.......\nb .....=====";
        check(two, "a=====b", "Aaa~~bB");
    }

    #[test]
    fn spans_that_do_not_end_or_begin_in_between_are_clipped_to_the_readings() {
        // No stamp is between the readings where the thread goes from one open span to another one, as with tasks that take turns.
        check("a ==========\nb ==========", "b====a", "B////A");
        check("a ==........\nb ==========", "b====a", "B////A");
        // Where one of them ends there, that is the stamp.
        check("a ===.......\nb ==========", "a====b", "AaabbB");
        // Both are parts of `a`, and so is the time between; and what begins or ends there has its stamp.
        check("a ==========\nb<a ==========\nc<a ==========", "b====c", "BaaaaC");
        check("a ==========\nb ==========\nc<b ...=======", "a====c", "A//ccC");
        check("a ==========\nb ==========\nc<a ===.......", "c====b", "Ccc//B");
        check("a ==========\nb ..........==", "-====a", "-aaaaA");
        check("a ==========\nb ..........==", "a====b", "AaaaaB");
        // `a` goes on elsewhere, and `b` began in this thread; or before.
        check("a ==========\nb ...=======", "a====b", "AaabbB");
        check("a .=========\nb =..=======", "=a===b", "?A///B");
    }

    #[test]
    fn a_reading_while_the_thread_runs_holds_at_its_moment_alone() {
        judge(NESTED, &[(2, 2, 'b'), (7, 7, 'a')], 9, "??bbbbb??");
        judge(NESTED, &[(0, 1, 'a'), (4, 4, 'c'), (9, 10, 'a')], 10, "AabcccbbaA");
        // It begins to count where it was read, and not where the thread began to run.
        judge("a ==========\nb ==========", &[(0, 2, 'a'), (5, 5, 'b'), (8, 9, 'b')], 9, "AA///bbbB");
    }

    #[test]
    fn a_span_that_ended_before_it_was_read_gives_no_time_back() {
        check("a ==========\nb<a ==........", "=====b===aa", "?????BaaaAA");
        check("a ==========\nb<a ==........", "aa===b===aa", "AAbbbBaaaAA");
    }

    #[test]
    fn spans_that_a_thread_began_and_ended_between_two_readings_are_its_work_where_they_name_it() {
        let served = "a .==.......\nb ....==....\nc ......===.";
        let none = [(0, 1, '-'), (9, 10, '-')];
        judge_with(served, &none, "abc", 10, "-aa~bbccc-");
        judge_with(served, &none, "ac", 10, "-aa~~~ccc-");
        judge_with(served, &none, "", 10, "-~~~~~~~~-");
        // One that began before the first reading and is open: the thread may have turned to it and back, but not behind its end.
        judge_with("a =====......\nb ......===..", &[(1, 2, '-'), (9, 11, '-')], "ab", 11, "?-///~bbb--");
        judge_with("a =====......", &[(1, 2, '-'), (9, 11, '-')], "", 11, "?-~~~~~~~--");
        judge_with("a ===========\nb ===========", &[(1, 2, 'a'), (9, 11, 'a')], "b", 11, "?A///////AA");
        judge_with("a ===========\nb<a =========", &[(1, 2, 'a'), (9, 11, 'a')], "b", 11, "?AaaaaaaaAA");
        judge_queued("a ===========", &[(2, 3, '-'), (9, 11, '-')], "a", &[('a', 1)], 11, "??-~~~~~~--");
        judge_queued("a ===========", &[(2, 3, '-'), (9, 11, '-')], "a", &[('a', 6)], 11, "??-///~~~--");
        judge_with(served, &[(2, 3, '-'), (8, 9, '-')], "ab", 10, "??-~bb~~-?");
        // Within a span that it says it works for, on the way from one to another, and where it is not known.
        judge_with("a ==========\nb ..==......", &[(0, 1, 'a'), (9, 10, 'a')], "b", 10, "AabbaaaaaA");
        judge_with(NESTED, &[(0, 1, 'a'), (9, 10, 'a')], "abc", 10, "AabcccbbaA");
        judge_with("a ==========\nb ..==......", &[(0, 1, '?'), (9, 10, 'a')], "b", 10, "??bb?????A");
    }

    #[test]
    fn a_span_that_a_thread_began_and_left_for_others_was_left_when_it_was_queued_or_at_a_time_that_is_not_known()
     {
        let handed = "a .=========\nb ....==....\nc ...=======";
        let none = [(0, 1, '-'), (8, 9, '-')];
        judge_with(handed, &none, "", 9, "-~~~~~~~-");
        judge_with(handed, &none, "a", 9, "-///////-");
        judge_with(handed, &none, "ab", 9, "-///bb//-");
        judge_queued(handed, &none, "a", &[('a', 4)], 9, "-aaa~~~~-");
        judge_queued(handed, &none, "a", &[('a', 8)], 9, "-aaaaaaa-");
        judge_queued(handed, &none, "ac", &[('a', 2), ('c', 6)], 9, "-a~ccc~~-");
        // It says itself that it had left it by then; or it queued it at once.
        judge_queued(handed, &none, "a", &[('a', 9)], 9, "-///////-");
        judge_queued(handed, &none, "a", &[('a', 1)], 9, "-~~~~~~~-");
        // From one that it says it works for to another; and where nothing is known, nothing is known.
        judge_with("a ==........\nb ..========", &[(0, 1, 'a'), (8, 9, '-')], "b", 9, "Aa//////-");
        judge_with(handed, &[(0, 1, '?'), (8, 9, '-')], "a", 9, "????????-");
        // A part that another thread goes on with is of the same request.
        judge_with("a ==========\nb<a ..========", &[(0, 1, 'a'), (8, 9, 'a')], "b", 9, "AaaaaaaaA");
        judge_with("a ==========\nb ..========", &[(0, 1, 'a'), (8, 9, 'a')], "b", 9, "Aa//////A");
    }

    #[test]
    fn of_equal_ids_the_one_counts_whose_service_may_have_the_process() {
        let mut spans: Spans = drawn("a ====\nb ====");
        spans.services.push(crate::Service { name: "other".into(), ..crate::Service::default() });
        spans.spans[1].id = spans.spans[0].id;
        spans.spans[1].service = crate::ServiceIndex(1);
        let (requests, by_id) = (requests(&spans), ById::new(&spans));
        let span = spans.span(SpanIndex(0));
        let at = Stamp::<Reference>::from_ns;
        let said = Said::Span { trace: span.trace, span: span.id, sampled: true };
        let named = Named {
            spans: &spans,
            by_id: &by_id,
            requests: &requests,
            times: |_| (at(0), at(4)),
            queued: |_| None,
        };
        let holds = [Hold { from: at(1), to: at(2), said }];
        for (own, expected) in [
            (Some(0), WorksFor::Span(SpanIndex(0))),
            (Some(1), WorksFor::Span(SpanIndex(1))),
            (None, WorksFor::Missing(span.trace, true)),
        ] {
            let mut work = ContextWork::default();
            let may_be_own = |index: SpanIndex| Some(spans.span(index).service.0) == own;
            work.add(7, &holds, &named, may_be_own, &Work::new([]));
            assert_eq!(work.at(&7, at(1)), expected, "{own:?}");
        }
    }

    #[test]
    fn what_was_not_read_and_a_span_without_times_make_no_boundary() {
        check(NESTED, "a==?==a", "A?????A");
        check(NESTED, "!==!=-", "!::!?-");
        check(NESTED, "-=!==a", "-?!aaA");
        check(NESTED, "!====c", "!abccC");
        check("a =====..........", "a=========!", "Aaaaa:::::!");
    }
}
