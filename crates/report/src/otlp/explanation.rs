//! The spans that explain a request: a span over its whole time, and spans for the path's parts.

use std::collections::HashSet;

use wakepath_engine::Severity;
use wakepath_engine::requests::{
    Joined, Kind, RequestAnswer, RequestIndex, RequestPart, RequestPath, RequestState, SpanId,
};

use super::document::{Attribute, Link, Span, Status, made_id, number, ratio, text};
use super::{EXPLAINS, kind};
use crate::text::{operation_name, request_sentence, spans_left_out};
use crate::units::share;
use crate::wording;

/// The number of path parts that stay as they are: a request has at most 2 × this + 2 spans.
const MAX_LONGEST: usize = 100;
/// The number of requests to which the whole span links, largest time first.
const MAX_LINKS: usize = 32;
/// The number of an answer's problems that are named.
const MAX_PROBLEMS: usize = 5;

/// The spans that explain a request.
pub fn spans(joined: &Joined<'_>, answer: &RequestAnswer) -> Vec<Span> {
    let root = joined.traced.root(answer.request);
    // No id in the trace is made again.
    let known = joined.traced.requests.spans_in_traces(&joined.traced.spans, &(root.trace..=root.trace));
    let mut taken: HashSet<SpanId> = known.iter().map(|&span| joined.traced.spans.span(span).id).collect();
    let mut places = 0..;
    let mut next_id = move || {
        let made = places.by_ref().map(|place| made_id(root.trace, root.id, place));
        // Among 2^64 places is a free id.
        made.into_iter().find(|id| taken.insert(*id)).unwrap_or(root.id)
    };
    let all = next_id();
    let of_request = Explained { joined, answer };
    let mut spans = vec![of_request.whole(all)];
    if let Ok(path) = &answer.path {
        let parts = path.parts(MAX_LONGEST);
        spans.extend(parts.iter().map(|part| of_request.part(path, part, next_id(), all)));
    }
    spans
}

struct Explained<'a> {
    joined: &'a Joined<'a>,
    answer: &'a RequestAnswer<'a>,
}

impl Explained<'_> {
    fn span(&self, id: SpanId, parent: SpanId, name: String, more: Vec<Attribute>) -> Span {
        let root = self.joined.traced.root(self.answer.request);
        let mut attributes = vec![text(EXPLAINS, root.id.to_string())];
        attributes.extend(more);
        Span {
            trace_id: root.trace.to_string(),
            span_id: id.to_string(),
            parent_span_id: Some(parent.to_string()),
            name,
            kind: kind(Kind::Internal),
            start_time_unix_nano: root.from.ns().to_string(),
            end_time_unix_nano: root.to.ns().to_string(),
            attributes,
            links: Vec::new(),
            status: Status::default(),
        }
    }

    /// The span over the request's whole time.
    fn whole(&self, id: SpanId) -> Span {
        let Self { joined, answer } = self;
        let mut more = vec![text("wakepath.cause", request_sentence(answer).into_plain())];
        more.push(text("wakepath.join", answer.joined_by.name()));
        let serious = answer.head.problems.iter().filter(|problem| problem.severity() > Severity::Note);
        let left_out = spans_left_out(joined.traced);
        let problems: Vec<_> =
            serious.take(MAX_PROBLEMS).map(crate::problem::sentence).chain(left_out).collect();
        if !problems.is_empty() {
            more.push(text("wakepath.problems", problems.join("; ")));
        }
        let mut links = Vec::new();
        match &answer.path {
            Err(why) => more.push(text("wakepath.no_path", why.name())),
            Ok(path) => {
                let sums = path.states.iter();
                more.extend(
                    sums.map(|sum| number(format!("wakepath.{}_ns", sum.state.name()), sum.total_ns)),
                );
                more.push(number("wakepath.parts", path.pieces.len() as u64));
                more.push(number("wakepath.blockers", path.blocked_by.len() as u64));
                let missing = path.blocked_by_missing.iter().take(MAX_LINKS);
                let missing: Vec<_> = missing.map(|blocked| blocked.trace.to_string()).collect();
                if !missing.is_empty() {
                    more.push(text("wakepath.blocked_by.traces_without_spans", missing.join(" ")));
                }
                let blocked_by = path.blocked_by.iter().take(MAX_LINKS);
                links.extend(blocked_by.map(|blocked| self.link(blocked.request, blocked.total_ns)));
            }
        }
        let parent = joined.traced.root(answer.request).id;
        Span { links, ..self.span(id, parent, String::from("why it took its time"), more) }
    }

    /// A link to a blocking request.
    fn link(&self, request: RequestIndex, total_ns: u64) -> Link {
        let other = self.joined.traced.root(request);
        let name = operation_name(self.joined.traced.operation(request));
        Link {
            trace_id: other.trace.to_string(),
            span_id: other.id.to_string(),
            attributes: vec![
                text("wakepath.blocked_by", name),
                number("wakepath.blocked_by_request_ns", total_ns),
                text("wakepath.basis", "inferred"),
            ],
        }
    }

    /// The span for a part of the path.
    fn part(&self, path: &RequestPath<'_>, part: &RequestPart, id: SpanId, parent: SpanId) -> Span {
        let (pieces, window) = (part.pieces.len() as u64, self.answer.to.since(self.answer.from));
        let (name, mut more, links) = match part.is_uniform {
            true => self.uniform(path, part),
            false => self.mixed(path, part),
        };
        more.push(ratio("wakepath.share", part.length_ns(), window));
        if pieces > 1 {
            more.push(number("wakepath.merged", pieces));
        }
        let [from, to] = [part.from, part.to].map(|at| self.joined.wall(self.answer.request, at));
        Span {
            start_time_unix_nano: from.ns().to_string(),
            end_time_unix_nano: to.ns().to_string(),
            links,
            ..self.span(id, parent, name, more)
        }
    }

    fn uniform(&self, path: &RequestPath<'_>, part: &RequestPart) -> (String, Vec<Attribute>, Vec<Link>) {
        let (traced, recorded) = (self.joined.traced, path.answer.recorded);
        let segment = &path.answer.path.segments[path.pieces[part.pieces.start].segment];
        let doing = wording::doing(&path.answer.evidence(), segment);
        let mut more = vec![
            text("wakepath.kind", segment.kind.name()),
            text("wakepath.cause", doing),
            text("wakepath.thread", wording::segment_thread(recorded, segment)),
        ];
        if let Some(thread) = segment.thread.map(|index| recorded.thread_at(index, segment.to)) {
            more.push(number("thread.id", thread.tid.number()));
            more.push(text("thread.name", wording::comm(thread.comm)));
            more.push(text("host.name", wording::name(&recorded.host_of(thread.tid).name)));
        }
        if let Some(call) = recorded.segment_call(segment) {
            more.push(text("wakepath.call", wording::call(&call)));
        }
        let (blocker, missing) = (path.blocker(part), path.missing_blocker(part));
        let (name, is_blocked) = match (blocker, missing) {
            (Some(other), _) => (format!("blocked by {}", operation_name(traced.operation(other))), true),
            (None, Some(trace)) => {
                more.push(text("wakepath.blocked_by.traces_without_spans", trace.to_string()));
                (String::from("blocked by a request without spans"), true)
            }
            (None, None) => (String::from(wording::kind_phrase(segment.kind)), false),
        };
        // Blocking is inferred, whatever the basis of the thread's time.
        let basis = if is_blocked { "inferred" } else { wording::basis_word(segment.basis) };
        more.push(text("wakepath.basis", basis));
        if let Some(rule) = wording::rule_word(segment.basis) {
            more.push(text("wakepath.rule", rule));
        }
        let state = if is_blocked { RequestState::Blocked } else { RequestState::Kind(segment.kind) };
        more.push(text("wakepath.state", state.name()));
        let link = blocker.map(|request| self.link(request, part.length_ns()));
        (name, more, link.into_iter().collect())
    }

    /// Parts too short for their own spans.
    fn mixed(&self, path: &RequestPath<'_>, part: &RequestPart) -> (String, Vec<Attribute>, Vec<Link>) {
        let shares: Vec<_> = path
            .kinds(part)
            .into_iter()
            .map(|(kind, ns)| {
                format!("{} {}", share(ns, part.length_ns()).trim_start(), wording::kind_phrase(kind))
            })
            .collect();
        let certainty = wording::certainty(path.basis(part).certainty());
        let more = vec![
            text("wakepath.kind", "mixed"),
            text("wakepath.cause", shares.join(", ")),
            text("wakepath.basis", certainty),
        ];
        (String::from("shorter parts, put together"), more, Vec::new())
    }
}
