//! The chain of spans that a request's end waited for, by their times alone.
//!
//! A span waits for the spans below it that end within it. Traced back from its end, the child that ended last is on
//! the path; before this child began, the child that ended last before it, and so on. All other time is the span's own.
//! A child with a later end than its parent was not waited for, unless it answers the parent's call: then the two
//! clocks differ. A child that ended while a later child was running is beside the path. This is the method of CRISP
//! (Zhang et al., USENIX ATC 2022), without its shares for overlapping spans.
//!
//! Spans do not record the working thread, nor its waits: the path is an inference.

use std::cmp::Reverse;

use wakepath_clock::{Stamp, Wall};

use crate::{Kind, Requests, SpanIndex, Spans};

/// A part of the path, in which the span's own work was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanSegment {
    /// The span.
    pub span: SpanIndex,
    /// The number of path spans above it.
    pub depth: u32,
    /// The beginning.
    pub from: Stamp<Wall>,
    /// The end, after the beginning.
    pub to: Stamp<Wall>,
}

/// A span on the way down.
struct Frame {
    span: SpanIndex,
    /// The path below this span does not go further back.
    from: Stamp<Wall>,
    /// The time that is explained next, backwards.
    at: Stamp<Wall>,
    /// The child spans, with the time at which each ends within this span; the last is next.
    children: Vec<(Stamp<Wall>, SpanIndex)>,
}

/// A span's path: in time order, without gap or overlap, from its beginning to its end.
pub fn span_path(spans: &Spans, requests: &Requests, root: SpanIndex) -> Vec<SpanSegment> {
    let frame =
        |span: SpanIndex, from, at| Frame { span, from, at, children: children(spans, requests, span, at) };
    let mut segments = Vec::new();
    let mut stack = vec![frame(root, spans.span(root).from, spans.span(root).to)];
    while let Some(top) = stack.last_mut() {
        let next = loop {
            match top.children.pop() {
                // It ran while a later child did: it is beside the path.
                Some((to, _)) if to > top.at => {}
                // It ends before this span's path begins, and so do the others.
                Some((to, _)) if to <= top.from => break None,
                next => break next,
            }
        };
        let (span, until) = (top.span, next.map_or(top.from, |(to, _)| to));
        let depth = (stack.len() - 1) as u32;
        let top = stack.last_mut().expect("it was there");
        if until < top.at {
            segments.push(SpanSegment { span, depth, from: until, to: top.at });
        }
        match next {
            Some((to, child)) => {
                let from = spans.span(child).from.max(top.from);
                top.at = from;
                let child = frame(child, from, to);
                stack.push(child);
            }
            None => {
                stack.pop();
            }
        }
    }
    segments.reverse();
    segments
}

/// The spans that a span waits for, by the time at which each ends within it.
fn children(
    spans: &Spans,
    requests: &Requests,
    parent: SpanIndex,
    end: Stamp<Wall>,
) -> Vec<(Stamp<Wall>, SpanIndex)> {
    let is_call = spans.span(parent).kind == Kind::Client;
    let mut children: Vec<_> = requests
        .children(parent)
        .iter()
        .filter_map(|&child| {
            let span = spans.span(child);
            let answers = is_call && requests.containing(child) != requests.containing(parent);
            let waited_for = span.to <= end || answers && span.from < end;
            waited_for.then_some((span.to.min(end), child))
        })
        .collect();
    // If two end together, the longer span is on the path.
    children.sort_by_key(|&(to, child)| (to, Reverse(spans.span(child).from), Reverse(child)));
    children
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{drawn, letter};

    /// Compares the path of a drawing's first span with a letter for each column, and its parts with the whole.
    fn check(drawing: &str, expected: &str) {
        let spans = drawn(drawing);
        let requests = crate::requests(&spans);
        let root = SpanIndex(0);
        let path = span_path(&spans, &requests, root);
        let (mut at, mut letters) = (spans.span(root).from, String::new());
        for segment in path {
            assert_eq!(segment.from, at, "without gap or overlap: {drawing}");
            assert!(segment.to > segment.from, "no part is empty: {drawing}");
            letters.extend((segment.from.ns()..segment.to.ns()).map(|_| letter(&spans, segment.span)));
            at = segment.to;
        }
        assert_eq!(at, spans.span(root).to, "the whole: {drawing}");
        assert_eq!(letters, expected, "{drawing}");
    }

    #[test]
    fn a_span_without_spans_below_it_is_its_own_path() {
        check("a ====", "aaaa");
    }

    #[test]
    fn the_path_goes_down_to_what_ended_last_and_back_to_what_ended_before_that() {
        check(
            "a   ==========
             b<a .===......
             c<a .....===..
             d<c .....=....",
            "abbbadccaa",
        );
    }

    #[test]
    fn one_of_two_at_once_that_ends_later_is_on_the_path_and_the_other_is_not() {
        check(
            "a   ==========
             b<a .=====....
             c<a ...=====..",
            "aaacccccaa",
        );
        check(
            "a   ==========
             b<a .==.......
             c<a .=======..
             d<a ...=====..",
            "acccccccaa",
        );
    }

    #[test]
    fn work_that_goes_on_after_its_span_was_not_waited_for() {
        check(
            "a   ======....
             b<a ..=======.
             c<a .==.......",
            "accaaa",
        );
    }

    #[test]
    fn an_answer_that_seems_to_end_late_ends_with_its_call() {
        check(
            "a   ==========
             b<a .!!!!!!...
             C<b ...=====..",
            "abbCCCCaaa",
        );
        check(
            "a   ==========
             b<a .!!!!!!...
             C<b ........==",
            "abbbbbbaaa",
        );
        check(
            "a   ==========
             b<a .!!!!!!...
             C<b ===.......",
            "aCCbbbbaaa",
        );
    }

    #[test]
    fn only_an_answer_may_end_later_and_only_to_a_call() {
        check(
            "a ====..
             C<a ..====",
            "aaaa",
        );
        check(
            "a !!!!..
             d<a ..====",
            "aaaa",
        );
    }

    #[test]
    fn work_of_an_answer_before_its_call_is_not_on_the_path() {
        check(
            "a   ==========
             b<a ..!!!!!!..
             C<b ====......
             d<C =.........
             e<C .==.......",
            "aaeCbbbbaa",
        );
    }

    #[test]
    fn spans_without_length_are_passed() {
        check(
            "a   ======
             b<a ..|...
             c<b ..|...
             d<a ..==..",
            "aaddaa",
        );
    }

    #[test]
    fn a_chain_of_many_spans_is_walked_without_recursion() {
        let mut drawing = "0 =\n".to_owned();
        for number in 1..100_000 {
            drawing += &format!("{number}<{} =\n", number - 1);
        }
        let spans = drawn(&drawing);
        let requests = crate::requests(&spans);
        let path = span_path(&spans, &requests, SpanIndex(0));
        assert_eq!(path.len(), 1);
        assert_eq!(path[0].depth, 99_999);
    }
}
