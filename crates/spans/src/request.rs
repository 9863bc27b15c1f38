//! Requests: services' local root spans, and their tree.

use std::ops::RangeInclusive;

use crate::{ById, Kind, Span, SpanId, SpanIndex, Spans, TraceId};

/// A request's index in [`Requests::requests`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestIndex(pub u32);

/// The parent of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParentOfRequest {
    /// No parent: the trace begins with the request, or a cycle was cut here.
    None,
    /// A missing span: it was not sampled, its service was not received, or it has not ended.
    Missing(SpanId),
    /// A span in another request.
    Span(SpanIndex),
}

/// A request to a service: its local root span, and the same service's spans below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The local root span.
    pub root: SpanIndex,
    /// The parent span.
    pub parent: ParentOfRequest,
    /// The request's spans, in time order, with the root.
    pub spans: Vec<SpanIndex>,
}

/// All requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requests {
    /// The requests, in time order.
    pub requests: Vec<Request>,
    /// Each span's request.
    by_span: Vec<RequestIndex>,
    /// Each span's children, from all services, in time order.
    children: Vec<Vec<SpanIndex>>,
    /// All spans, by trace and identity.
    by_id: Vec<SpanIndex>,
    /// The number of cycles: spans that were their own ancestors. In each cycle, one span was taken as a root.
    pub circles: u64,
    /// The number of spans in these cycles.
    pub in_circles: u64,
}

impl Requests {
    /// A request.
    pub fn request(&self, index: RequestIndex) -> &Request {
        &self.requests[index.0 as usize]
    }

    /// A span's request.
    pub fn containing(&self, index: SpanIndex) -> RequestIndex {
        self.by_span[index.0 as usize]
    }

    /// A span's children, from all services, in time order.
    pub fn children(&self, index: SpanIndex) -> &[SpanIndex] {
        &self.children[index.0 as usize]
    }

    /// The spans in these traces, by trace and identity.
    pub fn spans_in_traces(&self, spans: &Spans, traces: &RangeInclusive<TraceId>) -> &[SpanIndex] {
        let trace = |span: &SpanIndex| spans.span(*span).trace;
        let from = self.by_id.partition_point(|span| trace(span) < *traces.start());
        let to = self.by_id.partition_point(|span| trace(span) <= *traces.end());
        self.by_id.get(from..to).unwrap_or_default()
    }

    /// The parent request.
    pub fn parent(&self, index: RequestIndex) -> Option<RequestIndex> {
        match self.request(index).parent {
            ParentOfRequest::Span(span) => Some(self.containing(span)),
            ParentOfRequest::None | ParentOfRequest::Missing(_) => None,
        }
    }

    /// Whether `part` is `whole`, or a part of it.
    pub fn is_part(&self, mut part: RequestIndex, whole: RequestIndex) -> bool {
        loop {
            if part == whole {
                return true;
            }
            // Without cycles this ends: a parent is a step nearer to the root.
            match self.parent(part) {
                Some(parent) => part = parent,
                None => return false,
            }
        }
    }
}

/// The requests of these spans.
pub fn requests(spans: &Spans) -> Requests {
    let by_id = ById::new(spans);
    let parent = |span: &Span| by_id.of(spans, span.service, span.trace, span.parent?);
    let mut parents: Vec<_> = spans.iter().map(|(_, span)| parent(span)).collect();
    let (circles, in_circles) = cut_circles(&mut parents);
    let mut children = vec![Vec::new(); parents.len()];
    for ((index, _), parent) in spans.iter().zip(&parents) {
        if let Some(parent) = parent {
            children[parent.0 as usize].push(index);
        }
    }
    let is_root = |index: SpanIndex, parent: Option<SpanIndex>| {
        let span = spans.span(index);
        parent.is_none_or(|parent| spans.span(parent).service != span.service)
            || matches!(span.kind, Kind::Server | Kind::Consumer)
    };
    let mut requests = Vec::new();
    let mut by_span: Vec<Option<RequestIndex>> = vec![None; parents.len()];
    for ((index, span), parent) in spans.iter().zip(&parents) {
        if !is_root(index, *parent) {
            continue;
        }
        let parent = match (parent, span.parent) {
            (Some(parent), _) => ParentOfRequest::Span(*parent),
            // A parent that was cut off is among the spans.
            (None, Some(id)) if by_id.all(span.trace, id).next().is_none() => ParentOfRequest::Missing(id),
            (None, _) => ParentOfRequest::None,
        };
        let number = u32::try_from(requests.len()).expect("no more requests than spans, which have 32 bits");
        by_span[index.0 as usize] = Some(RequestIndex(number));
        requests.push(Request { root: index, parent, spans: Vec::new() });
    }
    let mut way = Vec::new();
    for (index, _) in spans.iter() {
        let mut at = index;
        let request = loop {
            match by_span[at.0 as usize] {
                Some(request) => break request,
                None => {
                    way.push(at);
                    at = parents[at.0 as usize].expect("what has no parent is a root");
                }
            }
        };
        way.drain(..).for_each(|span| by_span[span.0 as usize] = Some(request));
        requests[request.0 as usize].spans.push(index);
    }
    let by_span = by_span.into_iter().flatten().collect();
    Requests { requests, by_span, children, by_id: by_id.sorted(), circles, in_circles }
}

/// Cuts each cycle at its first span in time, which loses its parent. Returns the number of cycles, and of spans in them.
fn cut_circles(parents: &mut [Option<SpanIndex>]) -> (u64, u64) {
    #[derive(Clone, Copy, PartialEq)]
    enum Visit {
        None,
        OnWay,
        Done,
    }
    let mut visits = vec![Visit::None; parents.len()];
    let (mut circles, mut in_circles, mut way) = (0, 0, Vec::new());
    for start in 0..parents.len() {
        let mut at = start;
        while visits[at] == Visit::None {
            visits[at] = Visit::OnWay;
            way.push(at);
            match parents[at] {
                Some(parent) => at = parent.0 as usize,
                None => break,
            }
        }
        // The way met itself.
        if let Some(place) = way.iter().position(|on_way| *on_way == at)
            && let Some(first) = way[place..].iter().min()
            && parents[at].is_some()
        {
            parents[*first] = None;
            circles += 1;
            in_circles += (way.len() - place) as u64;
        }
        way.drain(..).for_each(|on_way| visits[on_way] = Visit::Done);
    }
    (circles, in_circles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{drawn, letter};

    /// The requests in a drawing: each with its spans' letters, and its parent's letter.
    fn listed(drawing: &str) -> Vec<String> {
        let spans = drawn(drawing);
        let requests = requests(&spans);
        let one = |request: &Request| {
            let own: String = request.spans.iter().map(|&span| letter(&spans, span)).collect();
            assert_eq!(request.spans.iter().filter(|span| **span == request.root).count(), 1, "{drawing}");
            match request.parent {
                ParentOfRequest::None => own,
                ParentOfRequest::Missing(_) => format!("{own} of a missing span"),
                ParentOfRequest::Span(span) => format!("{own} of {}", letter(&spans, span)),
            }
        };
        requests.requests.iter().map(one).collect()
    }

    #[test]
    fn a_request_is_a_local_root_with_the_spans_of_its_service_below_it() {
        let drawing = "
            a   ==========
            b<a .=!!!=....
            c<b ..!!!.....
            D<c ...=......
            E<D ...=......
            f<a ......=...";
        // `D` is a call that another service answers, and `E` a call from this service to itself.
        assert_eq!(listed(drawing), ["abcf", "D of c", "E of D"]);
    }

    #[test]
    fn a_span_whose_parent_is_not_among_the_spans_begins_a_request() {
        assert_eq!(listed("b<z ===\n c<b .=."), ["bc of a missing span"]);
    }

    #[test]
    fn spans_that_are_their_own_ancestors_have_a_first_one() {
        let drawing = "
            a<c ====
            b<a .===
            c<b ..==
            d<c ...=
            e<e ...=";
        assert_eq!(listed(drawing), ["abcd", "e"]);
        let of_three = requests(&drawn(drawing));
        assert_eq!(of_three.circles, 1, "a span that is its own parent has none");
        assert_eq!(of_three.in_circles, 3, "a span below a circle is not in it");
        let two = "a<b ==\n b<a .=\n c<d ==\n d<c .=\n e ==";
        let of_two = requests(&drawn(two));
        assert_eq!((of_two.circles, of_two.in_circles), (2, 4));
        // The way into the cycle begins outside it.
        let entered = requests(&drawn("x<a ===\n a<c ==\n b<a .=\n c<b .="));
        assert_eq!((entered.circles, entered.in_circles), (1, 3));
        assert_eq!(listed(two).len(), 3);
    }

    #[test]
    fn the_first_span_of_each_circle_loses_its_parent_and_no_other_does() {
        let cut = |parents: &[Option<u32>]| {
            let mut parents: Vec<_> = parents.iter().map(|parent| parent.map(SpanIndex)).collect();
            let (circles, in_circles) = cut_circles(&mut parents);
            assert!(in_circles >= 2 * circles, "a span is not its own parent");
            (circles, parents.into_iter().map(|parent| parent.map(|span| span.0)).collect::<Vec<_>>())
        };
        assert_eq!(cut(&[None, Some(0), Some(1)]), (0, vec![None, Some(0), Some(1)]));
        // The way into a cycle begins outside it.
        assert_eq!(cut(&[Some(2), Some(2), Some(1)]), (1, vec![Some(2), None, Some(1)]));
        assert_eq!(cut(&[Some(1), Some(0), Some(3), Some(2)]), (2, vec![None, Some(0), None, Some(2)]));
    }

    #[test]
    fn the_spans_of_some_traces_are_those_between_the_first_and_the_last_by_trace_and_identity() {
        let mut spans = drawn("a =====\n b =====\n c =====\n d =====\n e =====\n f =====");
        // The traces do not begin in the order of their identities.
        for (span, trace) in spans.spans.iter_mut().zip([5, 3, 7, 3, 5, 1]) {
            span.trace = TraceId([trace; 16]);
        }
        let requests = requests(&spans);
        let found = |from, to| -> String {
            let traces = TraceId([from; 16])..=TraceId([to; 16]);
            requests.spans_in_traces(&spans, &traces).iter().map(|&span| letter(&spans, span)).collect()
        };
        let all = [(1, 'f'), (3, 'b'), (3, 'd'), (5, 'a'), (5, 'e'), (7, 'c')];
        for from in 0..=8 {
            for to in from..=8 {
                let expected = all.iter().filter(|(trace, _)| (from..=to).contains(trace));
                let expected: String = expected.map(|(_, letter)| letter).collect();
                assert_eq!(found(from, to), expected, "{from} to {to}");
            }
        }
    }

    #[test]
    fn a_part_of_a_request_is_a_part_however_far_below_it() {
        let spans = drawn("A ======\n B<A .====\n C<B ..==\n D<A ...=\n E ===");
        let requests = requests(&spans);
        let request = |of: char| {
            let index = spans.iter().find(|(index, _)| letter(&spans, *index) == of).expect("it is drawn").0;
            requests.containing(index)
        };
        for (part, whole, expected) in
            [('C', 'A', true), ('A', 'A', true), ('A', 'C', false), ('C', 'D', false), ('E', 'A', false)]
        {
            assert_eq!(requests.is_part(request(part), request(whole)), expected, "{part} of {whole}");
        }
    }

    #[test]
    fn spans_of_two_services_with_equal_ids_are_two_and_each_has_its_own_spans_below_it() {
        let mut spans = drawn("a ======\n b<a .===\n C ======\n D<C ..==");
        // `D` belongs to `C`'s service, and both services gave the same ids.
        for (index, id) in [(2, 0), (3, 1)] {
            let at = |index: usize| spans.spans[index].clone();
            let (span, twin) = (at(index), at(id));
            spans.spans[index] =
                crate::Span { id: twin.id, parent: twin.parent, kind: Kind::Internal, ..span };
        }
        spans.spans[3].service = spans.spans[2].service;
        let requests = requests(&spans);
        let all: Vec<Vec<u32>> =
            requests.requests.iter().map(|one| one.spans.iter().map(|span| span.0).collect()).collect();
        assert_eq!(all, [[0, 1], [2, 3]]);
        assert_eq!(requests.spans_in_traces(&spans, &(TraceId([1; 16])..=TraceId([1; 16]))).len(), 4);
    }
}
