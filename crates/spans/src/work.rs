//! The span that each thread works for, at every time (L19 §4.3.2, Algorithm 1).
//!
//! A thread's active span is the open span that began last. Other than in the paper, a span ends at its own end, and not at the
//! thread's event for it: a span that ends in another thread does not stay on top for ever. The time behind a thread's last
//! event counts too, until its last span ends.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use wakepath_clock::Stamp;

use crate::SpanIndex;

/// The time for which a thread works for a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stint<T, C> {
    /// The thread.
    pub thread: T,
    /// The beginning.
    pub from: Stamp<C>,
    /// The end.
    pub to: Stamp<C>,
    /// The span.
    pub span: SpanIndex,
}

/// A piece of time with the thread's active span, and the open span that began first.
pub type Open<C> = (Stamp<C>, Stamp<C>, Option<(SpanIndex, SpanIndex)>);

/// Each thread's active span.
#[derive(Debug, Clone)]
pub struct Work<T, C> {
    /// The pieces of time with an active span, in order, without overlap.
    by_thread: HashMap<T, Vec<Piece<C>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece<C> {
    from: Stamp<C>,
    to: Stamp<C>,
    /// The active span.
    span: SpanIndex,
    /// The open span that began first.
    first: SpanIndex,
}

impl<T: Hash + Eq, C: Copy + Ord> Work<T, C> {
    /// The active spans of threads with these stints.
    pub fn new(stints: impl IntoIterator<Item = Stint<T, C>>) -> Self {
        let mut all: HashMap<T, Vec<Piece<C>>> = HashMap::new();
        for Stint { thread, from, to, span } in stints {
            all.entry(thread).or_default().push(Piece { from, to, span, first: span });
        }
        Self { by_thread: all.into_iter().map(|(thread, stints)| (thread, active(stints))).collect() }
    }

    /// A thread's active span at a stamp.
    pub fn at(&self, thread: &T, at: Stamp<C>) -> Option<SpanIndex> {
        let pieces = self.by_thread.get(thread)?;
        let piece = pieces.get(pieces.partition_point(|piece| piece.to <= at))?;
        (piece.from <= at).then_some(piece.span)
    }

    /// A thread's active span between two stamps, piece by piece, without gap or overlap; `None` without an active span.
    pub fn between(
        &self,
        thread: &T,
        from: Stamp<C>,
        to: Stamp<C>,
    ) -> Vec<(Stamp<C>, Stamp<C>, Option<SpanIndex>)> {
        let mut between: Vec<(Stamp<C>, Stamp<C>, Option<SpanIndex>)> = Vec::new();
        for (from, to, open) in self.open(thread, from, to) {
            let span = open.map(|(span, _)| span);
            match between.last_mut() {
                Some(last) if last.2 == span => last.1 = to,
                _ => between.push((from, to, span)),
            }
        }
        between
    }

    /// A thread's active span and the open span that began first, between two stamps, piece by piece, without gap or overlap.
    pub fn open(&self, thread: &T, from: Stamp<C>, to: Stamp<C>) -> Vec<Open<C>> {
        if from >= to {
            return Vec::new();
        }
        let pieces = self.by_thread.get(thread).map_or(&[][..], Vec::as_slice);
        let first = pieces.partition_point(|piece| piece.to <= from);
        let (mut at, mut open) = (from, Vec::new());
        for piece in pieces[first..].iter().take_while(|piece| piece.from < to) {
            if at < piece.from {
                open.push((at, piece.from, None));
                at = piece.from;
            }
            let until = piece.to.min(to);
            open.push((at, until, Some((piece.span, piece.first))));
            at = until;
        }
        if at < to {
            open.push((at, to, None));
        }
        open
    }
}

/// The active stint at each time, among a thread's stints.
fn active<C: Copy + Ord>(mut stints: Vec<Piece<C>>) -> Vec<Piece<C>> {
    stints.retain(|stint| stint.from < stint.to);
    // If two begin together, the longer is around the other.
    stints.sort_by_key(|stint| (stint.from, Reverse(stint.to), stint.span));
    let mut ends: Vec<(Stamp<C>, usize)> =
        stints.iter().enumerate().map(|(place, stint)| (stint.to, place)).collect();
    ends.sort();
    let mut pieces: Vec<Piece<C>> = Vec::new();
    let mut open: BTreeSet<usize> = BTreeSet::new();
    let (mut begins, mut ends) = (stints.iter().enumerate().peekable(), ends.into_iter().peekable());
    let mut since = Stamp::MIN;
    while let Some(&(end, ended)) = ends.peek() {
        let begun = begins.next_if(|(_, stint)| stint.from < end);
        let now = begun.map_or(end, |(_, stint)| stint.from);
        if let (Some(&first), Some(&top)) = (open.first(), open.last())
            && since < now
        {
            let [first, span] = [first, top].map(|place| stints[place].span);
            pieces.push(Piece { from: since, to: now, span, first });
        }
        since = now;
        if let Some((place, _)) = begun {
            open.insert(place);
        } else {
            open.remove(&ended);
            ends.next();
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use wakepath_clock::Reference;

    use super::*;

    /// Checks a thread's active spans in a drawing, a line for each span, a column for each ns; `.` for none.
    fn check(drawing: &str, expected: &str) {
        let stints = (0..).zip(drawing.lines()).map(|(number, line)| {
            let line = line.trim();
            Stint {
                thread: 7,
                from: Stamp::<Reference>::from_ns(line.find('=').expect("it begins") as u64),
                to: Stamp::from_ns(line.rfind('=').expect("it ends") as u64 + 1),
                span: SpanIndex(number),
            }
        });
        let work = Work::new(stints);
        let end = expected.len() as u64;
        let at = Stamp::from_ns;
        let letters = |from, to| -> String {
            let mut then = at(from);
            let mut letters = String::new();
            for (from, to, span) in work.between(&7, at(from), at(to)) {
                assert_eq!(from, then, "without gap or overlap");
                assert!(from < to, "no piece is empty");
                let letter = span.map_or('.', |span| char::from(b'a' + span.0 as u8));
                letters.extend((from.ns()..to.ns()).map(|_| letter));
                then = to;
            }
            assert_eq!(then, at(to));
            letters
        };
        assert_eq!(letters(0, end), expected, "{drawing}");
        // Any part of the answer equals the same part of the whole.
        for from in 0..end {
            for to in from..=end {
                assert_eq!(letters(from, to), expected[from as usize..to as usize], "{from} to {to}");
            }
        }
        for (moment, letter) in (0..).zip(expected.chars()) {
            let span = work.at(&7, at(moment)).map_or('.', |span| char::from(b'a' + span.0 as u8));
            assert_eq!(span, letter, "at {moment}");
        }
        assert_eq!(work.at(&8, at(0)), None);
        assert_eq!(work.between(&8, at(0), at(end)), [(at(0), at(end), None)], "another thread");
    }

    #[test]
    fn the_span_that_began_last_is_the_active_one() {
        check(
            "========..
             .=====....
             ..=.......
             ...==.....",
            "abcddbaa..",
        );
    }

    #[test]
    fn a_span_may_end_after_the_one_around_it() {
        check(
            ".=====...
             ..======.",
            ".abbbbbb.",
        );
    }

    #[test]
    fn the_longer_of_two_that_begin_together_is_around_the_other() {
        check("..==..\n..====", "..aabb");
        check("..====\n..==..", "..bbaa");
    }

    #[test]
    fn a_span_without_length_is_never_active_and_one_below_cuts_nothing() {
        let at = Stamp::<Reference>::from_ns;
        let stint = |from, to, span| Stint { thread: 7, from: at(from), to: at(to), span: SpanIndex(span) };
        let work = Work::new([stint(0, 3, 0), stint(1, 5, 1), stint(2, 2, 2)]);
        let between = work.between(&7, at(0), at(6));
        let [first, second] = [SpanIndex(0), SpanIndex(1)].map(Some);
        assert_eq!(between, [(at(0), at(1), first), (at(1), at(5), second), (at(5), at(6), None)]);
    }

    #[test]
    fn one_that_begins_as_another_ends_follows_it() {
        check("==....\n..==..\n====..", "aabb..");
        check("==....\n..==..", "aabb..");
    }
}
