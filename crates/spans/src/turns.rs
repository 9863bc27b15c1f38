//! The turns in which a thread worked for a span, where its program noted them.
//!
//! An event loop turns from an open span to another and back, and its thread may never leave the CPU meanwhile: then no context reading shows the
//! change. A plug-in that follows the loop's callbacks notes each span's turns. A thread whose open spans all have noted turns works for none of
//! them between two turns.
//!
//! Other plug-ins follow the current span of all threads, and note a span's turns in each, with the thread's number. Such a span counts for every
//! thread in which it has a turn, for all its time.

use std::collections::HashMap;
use std::hash::Hash;

use wakepath_clock::{Stamp, Wall};

use crate::ready::number;
use crate::{Ready, SpanIndex, WorksFor};

/// The unit of a coarse clock, ns.
const COARSE_NS: u64 = 1_000_000;

/// The most by which a span on this clock says its beginning too early: the unit, and what making the span takes, ns.
const MAX_EARLY_NS: u64 = 1_500_000;

/// The longest text with turns, bytes; longer texts are not read.
const MAX_TEXT_BYTES: usize = 4096;

/// The longest time by which a turn may end behind its span, ns: an SDK whose clock has whole milliseconds writes stamps this much too early.
const MAX_LATE_NS: u64 = 1_000_000;

/// The turns that a program noted for a span: in the thread in which the span began, or in all threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedTurns<C> {
    /// The time from which the turns are complete: older turns were dropped.
    pub since: Stamp<C>,
    /// The beginnings and ends; within a thread in order, without overlap.
    pub turns: Vec<(Stamp<C>, Stamp<C>)>,
    /// Each turn's thread number, if turns in all threads are noted; `None` if only turns in the span's first thread are.
    pub tids: Option<Vec<u32>>,
    /// The reason why each turn was ready; empty if not noted.
    pub ready: Vec<Ready>,
}

impl<C: Copy> NotedTurns<C> {
    /// The same turns on another clock.
    pub fn on<D>(&self, stamp: impl Fn(Stamp<C>) -> Stamp<D>) -> NotedTurns<D> {
        let turns = self.turns.iter().map(|&(from, to)| (stamp(from), stamp(to)));
        NotedTurns {
            since: stamp(self.since),
            turns: turns.collect(),
            tids: self.tids.clone(),
            ready: self.ready.clone(),
        }
    }
}

impl NotedTurns<Wall> {
    /// A span's turns within `from` and `to`, from a text `SINCE GAP LENGTH GAP LENGTH.`: a time in ns since 1970, and for each turn the ns from
    /// there, or from the previous turn's end, to its beginning, and its length. A text `SINCE @TID GAP LENGTH GAP LENGTH @TID GAP LENGTH.` has the
    /// turns in all threads: for each thread its turns, again from SINCE on. `None` for a text that is cut off or malformed, or has a turn outside
    /// the span. `ready` has a word for each turn, as [`Ready::parse_all`] reads it; with another number of words it does not count.
    pub(crate) fn parse(text: &str, ready: Option<&str>, from: Stamp<Wall>, to: Stamp<Wall>) -> Option<Self> {
        let text = text.strip_suffix('.').filter(|text| text.len() < MAX_TEXT_BYTES)?;
        let mut words = text.split(' ');
        let since: u64 = number(words.next()?)?;
        let (mut at, mut turns, mut tids) = (since, Vec::new(), Vec::new());
        let mut tid: Option<u32> = None;
        let (mut is_first, mut last) = (true, since);
        let ready = ready.filter(|ready| ready.len() < MAX_TEXT_BYTES).and_then(Ready::parse_all);
        let (mut of_turns, mut count) = (Vec::new(), 0);
        while let Some(mut word) = words.next() {
            if let Some(other) = word.strip_prefix('@') {
                // The first turn has a thread, or no turn has.
                (is_first || tid.is_some()).then_some(())?;
                (tid, at) = (Some(number(other)?), since);
                word = words.next()?;
            }
            is_first = false;
            let begin = at.checked_add(number(word)?)?;
            at = begin.checked_add(number(words.next()?)?)?;
            last = last.max(at);
            if begin < at {
                turns.push((Stamp::from_ns(begin), Stamp::from_ns(at)));
                tids.extend(tid);
                of_turns.extend(ready.as_ref().and_then(|ready| ready.get(count)));
            }
            count += 1;
        }
        let ready = if ready.is_some_and(|ready| ready.len() == count) { of_turns } else { Vec::new() };
        let is_within = from.ns() <= since && last <= to.ns().saturating_add(MAX_LATE_NS);
        let tids = tid.map(|_| tids);
        is_within.then_some(Self { since: Stamp::from_ns(since), turns, tids, ready })
    }

    /// How much later than it says a span began, ns. JavaScript's clock counts whole milliseconds where a span says its beginning; the turns
    /// have the exact time, and the length is exact.
    pub(crate) fn late_ns(&self, from: Stamp<Wall>) -> u64 {
        let late = self.since.since(from);
        if from.ns().is_multiple_of(COARSE_NS) && late < MAX_EARLY_NS { late } else { 0 }
    }
}

/// A span that names a thread, or has a turn in it, and its turns in this thread, if noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnsOfSpan<T, C> {
    /// The thread.
    pub thread: T,
    /// The span's beginning.
    pub from: Stamp<C>,
    /// The span's end.
    pub to: Stamp<C>,
    /// The span.
    pub span: SpanIndex,
    /// The turns in the thread. With thread numbers, turns in all threads are noted.
    pub noted: Option<NotedTurns<C>>,
}

/// A noted fact about a thread for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// The thread worked for this span.
    Of(SpanIndex),
    /// Turns of several spans overlap: some are wrong.
    Contested,
    /// The thread worked for none of the open spans that name it: their turns are all noted.
    Between,
    /// The thread worked for none of the spans with noted turns. Others are open.
    Partly,
}

/// A piece of time with a noted fact.
#[derive(Debug, Clone, Copy)]
struct Piece<C> {
    from: Stamp<C>,
    to: Stamp<C>,
    turn: Turn,
}

/// The turns of all threads.
#[derive(Debug, Clone)]
pub struct Turns<T, C> {
    /// The pieces of time with noted facts, in order, without overlap.
    by_thread: HashMap<T, Vec<Piece<C>>>,
    /// The thread of each span with noted turns, `None` for all threads, and the time from which the turns are complete.
    noted: HashMap<SpanIndex, (Option<T>, Stamp<C>)>,
    /// The threads of each span whose turns are noted in all threads.
    threads: HashMap<SpanIndex, Vec<T>>,
}

impl<T, C> Default for Turns<T, C> {
    fn default() -> Self {
        Self { by_thread: HashMap::new(), noted: HashMap::new(), threads: HashMap::new() }
    }
}

/// A change in a thread's possible work.
#[derive(Debug, Clone, Copy, Default)]
struct Change {
    /// The turns that begin, minus the turns that end.
    turns: i64,
    /// The sum of the turns' span indices: with a single open turn, its span.
    spans: i64,
    /// The number of open spans with complete turns.
    whole: i64,
    /// The number of other open spans.
    other: i64,
}

impl Change {
    fn add(&mut self, other: Self, sign: i64) {
        self.turns += sign * other.turns;
        self.spans += sign * other.spans;
        self.whole += sign * other.whole;
        self.other += sign * other.other;
    }

    fn turn(&self) -> Option<Turn> {
        match (self.turns, self.whole, self.other) {
            (1, ..) => u32::try_from(self.spans).ok().map(|span| Turn::Of(SpanIndex(span))),
            (0, 0, _) => None,
            (0, _, 0) => Some(Turn::Between),
            (0, ..) => Some(Turn::Partly),
            _ => Some(Turn::Contested),
        }
    }
}

impl<T: Copy + Hash + Eq, C: Copy + Ord> Turns<T, C> {
    /// The turns of these spans.
    pub fn new(spans: impl IntoIterator<Item = TurnsOfSpan<T, C>>) -> Self {
        let mut noted = HashMap::new();
        let mut threads: HashMap<SpanIndex, Vec<T>> = HashMap::new();
        let mut changes: HashMap<T, Vec<(Stamp<C>, Change, i64)>> = HashMap::new();
        for TurnsOfSpan { thread, from, to, span, noted: of_span } in spans {
            let changes = changes.entry(thread).or_default();
            let mut add = |from: Stamp<C>, to: Stamp<C>, change: Change| {
                if from < to {
                    changes.extend([(from, change, 1), (to, change, -1)]);
                }
            };
            let other = Change { other: 1, ..Change::default() };
            let Some(NotedTurns { since, turns, tids, .. }) = of_span else {
                add(from, to, other);
                continue;
            };
            noted.insert(span, (tids.is_none().then_some(thread), since));
            if tids.is_some() {
                threads.entry(span).or_default().push(thread);
            }
            add(from, since.min(to), other);
            add(since.max(from), to, Change { whole: 1, ..Change::default() });
            for (from, to) in turns {
                add(from, to, Change { turns: 1, spans: i64::from(span.0), ..Change::default() });
            }
        }
        changes.retain(|_, changes| changes.iter().any(|(_, change, _)| change.other == 0));
        let by_thread = changes.into_iter().map(|(thread, changes)| (thread, pieces(changes))).collect();
        Self { by_thread, noted, threads }
    }

    /// The threads of a span whose turns are noted in all threads, as given to [`Self::new`]; none for another span.
    pub fn threads(&self, span: SpanIndex) -> impl Iterator<Item = T> {
        self.threads.get(&span).into_iter().flatten().copied()
    }

    /// The noted facts about a thread between two stamps, piece by piece, without gap or overlap.
    pub fn between(
        &self,
        thread: &T,
        from: Stamp<C>,
        to: Stamp<C>,
    ) -> Vec<(Stamp<C>, Stamp<C>, Option<Turn>)> {
        let all = self.by_thread.get(thread).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|piece| piece.to <= from);
        let (mut at, mut between) = (from, Vec::new());
        for piece in all[first..].iter().take_while(|piece| piece.from < to) {
            if at < piece.from {
                between.push((at, piece.from, None));
            }
            let until = piece.to.min(to);
            between.push((piece.from.max(at), until, Some(piece.turn)));
            at = until;
        }
        if at < to {
            between.push((at, to, None));
        }
        between
    }

    /// The noted fact about a thread at a stamp.
    pub fn at(&self, thread: &T, at: Stamp<C>) -> Option<Turn> {
        let all = self.by_thread.get(thread)?;
        let piece = all.get(all.partition_point(|piece| piece.to <= at))?;
        (piece.from <= at).then_some(piece.turn)
    }

    /// Whether all turns of a span in a thread are noted from this time on.
    pub fn is_whole(&self, thread: &T, span: SpanIndex, at: Stamp<C>) -> bool {
        let is_of_thread = |of: Option<T>| of.is_none_or(|of| of == *thread);
        self.noted.get(&span).is_some_and(|(of, since)| is_of_thread(*of) && *since <= at)
    }

    /// A thread's work from `at` on, from the noted fact `turn` and from `works_for`, the work by the contexts before and behind. `is_left`: the
    /// thread may work for neither context's span, since it has ended or its turns are noted.
    pub(crate) fn settle(
        &self,
        thread: &T,
        at: Stamp<C>,
        turn: Option<Turn>,
        works_for: WorksFor,
        is_left: impl Fn() -> bool,
    ) -> WorksFor {
        let is_whole = match works_for {
            WorksFor::Span(span) => self.is_whole(thread, span, at),
            WorksFor::None | WorksFor::Unplaced => true,
            WorksFor::Missing(..) | WorksFor::Unknown => false,
        };
        let is_of_thread =
            |span| self.noted.get(&span).is_some_and(|(of, _)| of.is_none_or(|of| of == *thread));
        match (turn, works_for) {
            (_, WorksFor::Unknown) => works_for,
            (Some(Turn::Of(span)), _) => WorksFor::Span(span),
            (Some(Turn::Contested), _) => WorksFor::Unplaced,
            (Some(Turn::Between), _) if is_whole && is_left() => WorksFor::None,
            // The thread did not work for this span, or did so in a dropped turn; its work is not known.
            (Some(Turn::Between | Turn::Partly), WorksFor::Span(span)) if is_of_thread(span) => {
                WorksFor::Unplaced
            }
            _ => works_for,
        }
    }
}

fn pieces<C: Copy + Ord>(mut changes: Vec<(Stamp<C>, Change, i64)>) -> Vec<Piece<C>> {
    changes.sort_by_key(|(at, ..)| *at);
    let (mut pieces, mut now, mut since) = (Vec::new(), Change::default(), Stamp::MIN);
    for (at, change, sign) in changes {
        if let Some(turn) = now.turn().filter(|_| since < at) {
            pieces.push(Piece { from: since, to: at, turn });
        }
        now.add(change, sign);
        since = at;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use wakepath_clock::Reference;

    use super::*;

    fn parse(text: &str) -> Option<(u64, Vec<(u64, u64)>)> {
        let noted = NotedTurns::parse(text, None, Stamp::from_ns(100), Stamp::from_ns(200))?;
        Some((noted.since.ns(), noted.turns.iter().map(|(from, to)| (from.ns(), to.ns())).collect()))
    }

    #[test]
    fn a_text_has_the_time_from_which_turns_are_whole_and_the_gap_before_each_and_its_length() {
        assert_eq!(parse("100 5 10 0 3 2 70."), Some((100, vec![(105, 115), (115, 118), (120, 190)])));
        assert_eq!(parse("150."), Some((150, vec![])));
        assert_eq!(parse("100 5 0 5 10."), Some((100, vec![(110, 120)])));
        // An SDK's stamps may be whole milliseconds.
        assert_eq!(parse("100 5 1000095."), Some((100, vec![(105, 1_000_200)])));
    }

    #[test]
    fn each_turn_of_some_length_has_its_reason() {
        let ready = |text: &str, ready: &str| {
            let noted = NotedTurns::parse(text, Some(ready), Stamp::from_ns(100), Stamp::from_ns(200));
            noted.map(|noted| noted.ready)
        };
        assert_eq!(ready("100 5 10 0 3.", "t4 d2."), Some(vec![Ready::Timer(4), Ready::Descriptor(2)]));
        // The first turn has no length.
        assert_eq!(ready("100 5 0 5 10.", "t4 d2."), Some(vec![Ready::Descriptor(2)]));
        // Words for fewer or more turns, or a text that is cut off.
        for words in ["t4.", "t4 d2 s3.", "t4 d2", "."] {
            assert_eq!(ready("100 5 10 0 3.", words), Some(Vec::new()), "{words}");
        }
        assert_eq!(ready("100.", "."), Some(Vec::new()));
    }

    #[test]
    fn a_text_with_threads_has_the_number_of_each_turns_thread() {
        let tids = |text: &str| NotedTurns::parse(text, None, Stamp::from_ns(100), Stamp::from_ns(200))?.tids;
        assert_eq!(tids("100 5 10."), None);
        assert_eq!(tids("100 @7 5 10 0 3 @8 2 1 4 0 @7 1 1."), Some(vec![7, 7, 8, 7]));
        let turns = vec![(105, 115), (115, 118), (102, 160)];
        assert_eq!(parse("100 @7 5 10 0 3 @8 2 58."), Some((100, turns)));
        // Each turn lies within the span, and not the last alone.
        assert_eq!(parse("100 @7 5 1000096 @8 2 1."), None);
        // Missing: the first turn's thread, words of a turn, a thread, or a 32-bit number.
        for text in [
            "100 5 1 @7 1 1.",
            "100 0 0 @7 1 1.",
            "100 @7.",
            "100 @7 5.",
            "100 @7 @8 5 1.",
            "@7 100 5 1.",
            "100 @ 5 1.",
            "100 @+7 5 1.",
            "100 @4294967296 5 1.",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_cut_off_or_lies_outside_of_its_span_is_not_believed() {
        let long = format!("100{}.", " 0 1".repeat(1100));
        let huge = u64::MAX.to_string();
        let more = format!("100 {huge} 1.");
        let longer = format!("100 1 {huge}.");
        let future = format!("{huge}.");
        for text in [
            "",
            ".",
            "100",
            "100 5 1",
            "100 5.",
            "100 5 1 5.",
            "99 5 1.",
            "100 5 1000096.",
            "1000201.",
            "100 -5 1.",
            "100 +5 1.",
            "100  5 1.",
            " 100.",
            "100 .",
            "a.",
            "100 5 1. ",
            &long,
            &more,
            &longer,
            &future,
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_text_may_be_as_long_as_the_limit_and_no_longer() {
        // Leading zeros are digits.
        let text = |length| format!("{:0>1$}.", 100, length - 1);
        assert_eq!(parse(&text(MAX_TEXT_BYTES)), Some((100, vec![])));
        assert_eq!(parse(&text(MAX_TEXT_BYTES + 1)), None);
    }

    #[test]
    fn many_turns_that_overlap_take_no_longer_than_sorting_them() {
        let at = Stamp::<Reference>::from_ns;
        let spans = (0..1000).map(|span| {
            let turns = (0..100).map(|turn| (at(turn), at(2_000_000 - turn))).collect();
            TurnsOfSpan {
                thread: 7,
                from: at(0),
                to: at(3),
                span: SpanIndex(u32::MAX - span),
                noted: Some(NotedTurns { since: at(0), turns, tids: None, ready: Vec::new() }),
            }
        });
        let turns = Turns::new(spans);
        assert_eq!(turns.at(&7, at(5)), Some(Turn::Contested));
        assert_eq!(turns.at(&7, at(2_000_000)), None);
        assert_eq!(turns.at(&8, at(5)), None);
        let between = turns.between(&7, at(10), at(11));
        assert_eq!(between, [(at(10), at(11), Some(Turn::Contested))]);
    }

    #[test]
    fn a_piece_of_time_is_a_part_of_the_whole() {
        let at = Stamp::<Reference>::from_ns;
        let span = |from, to, span, noted: Option<(u64, &[(u64, u64)])>| {
            let stamps = |(since, turns): (u64, &[(u64, u64)])| {
                let turns = turns.iter().map(|&(from, to)| (at(from), at(to))).collect();
                NotedTurns { since: at(since), turns, tids: None, ready: Vec::new() }
            };
            TurnsOfSpan {
                thread: 7,
                from: at(from),
                to: at(to),
                span: SpanIndex(span),
                noted: noted.map(stamps),
            }
        };
        let turns = Turns::new([
            span(1, 9, 0, Some((1, &[(2, 4)]))),
            span(3, 12, 1, Some((5, &[(6, 8), (8, 9)]))),
            span(10, 14, 2, None),
        ]);
        let letters = |from, to| -> String {
            let mut then = at(from);
            let mut letters = String::new();
            for (from, to, turn) in turns.between(&7, at(from), at(to)) {
                assert_eq!(from, then, "without gap or overlap");
                assert!(from < to, "no piece is empty");
                let letter = match turn {
                    Some(Turn::Of(span)) => char::from(b'a' + span.0 as u8),
                    Some(Turn::Contested) => '/',
                    Some(Turn::Between) => '~',
                    Some(Turn::Partly) => '?',
                    None => '.',
                };
                letters.extend((from.ns()..to.ns()).map(|_| letter));
                then = to;
            }
            assert_eq!(then, at(to));
            letters
        };
        let whole = ".~aa?~bbb~??...";
        assert_eq!(letters(0, 15), whole);
        for from in 0..15 {
            for to in from + 1..=15 {
                assert_eq!(letters(from, to), whole[from as usize..to as usize], "{from} to {to}");
            }
        }
        let whole =
            [(0, 0), (0, 1), (1, 4), (1, 5)].map(|(span, ns)| turns.is_whole(&7, SpanIndex(span), at(ns)));
        assert_eq!(whole, [false, true, false, true]);
        assert!(!turns.is_whole(&8, SpanIndex(0), at(1)));
    }

    #[test]
    fn a_span_whose_turns_are_noted_in_all_threads_is_whole_in_each() {
        let at = Stamp::<Reference>::from_ns;
        let noted =
            NotedTurns { since: at(1), turns: vec![(at(2), at(4))], tids: Some(vec![7]), ready: Vec::new() };
        let span = SpanIndex(0);
        let turns = Turns::new([TurnsOfSpan { thread: 7, from: at(1), to: at(9), span, noted: Some(noted) }]);
        assert!(turns.is_whole(&7, span, at(1)) && turns.is_whole(&8, span, at(1)));
        assert!(!turns.is_whole(&8, span, at(0)));
        // Another source assigns the other thread to the span.
        assert_eq!(turns.threads(span).collect::<Vec<_>>(), [7]);
        let settled = |turn| turns.settle(&8, at(5), turn, WorksFor::Span(span), || false);
        assert_eq!(settled(Some(Turn::Partly)), WorksFor::Unplaced);
        assert_eq!(settled(None), WorksFor::Span(span));
    }
}
