//! Requests as tracks: the spans below each, its path, the waits behind it, and arrows to the requests that blocked it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use wakepath_clock::{Reference, Stamp};
use wakepath_engine::requests::{Joined, RequestAnswer, RequestIndex, RequestPart, RequestPath, SpanIndex};

use super::lanes::Lanes;
use super::proto::Message;
use super::tracks::{BEGIN, END, describe, event, nested_waits, note};
use super::{Trace, packet_at};
use crate::text::operation_name;
use crate::units::{count, duration};
use crate::wording;

/// The most arrows for a request, drawn for its longest parts: more could not be seen.
const MAX_ARROWS: usize = 1000;

/// The track numbers: a group, then its tracks. Any numbers that no other track has; thread tracks have hashes.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// An arrow from a request to the path part of another request that it blocked, by flow number.
struct Arrows {
    /// The flows that begin at a request.
    from: BTreeMap<RequestIndex, Vec<u64>>,
    /// The flow that ends at a part of an answer's path: the indices of the answer and the part.
    to: HashMap<(usize, usize), u64>,
}

/// Writes the tracks of these requests.
pub fn write(joined: &Joined<'_>, answers: &[RequestAnswer], trace: &mut Trace) -> io::Result<()> {
    let parts: Vec<Vec<RequestPart>> = answers
        .iter()
        .map(|answer| answer.path.as_ref().map_or(Vec::new(), |path| path.parts(usize::MAX)))
        .collect();
    let arrows = arrows(answers, &parts);
    let mut tracks = Tracks { joined, arrows: &arrows, numbers: Numbers(0x7761_6b66_0000_0000), trace };
    for (place, (answer, parts)) in answers.iter().zip(&parts).enumerate() {
        tracks.request(place, answer, parts)?;
    }
    let explained: BTreeSet<_> = answers.iter().map(|answer| answer.request).collect();
    let others = arrows.from.keys().filter(|request| !explained.contains(request));
    tracks.blockers(&others.copied().collect::<Vec<_>>())
}

fn arrows(answers: &[RequestAnswer], parts: &[Vec<RequestPart>]) -> Arrows {
    let mut arrows = Arrows { from: BTreeMap::new(), to: HashMap::new() };
    let mut flow = 0;
    for (place, (answer, parts)) in answers.iter().zip(parts).enumerate() {
        let Ok(path) = &answer.path else { continue };
        let mut blocked: Vec<_> = parts
            .iter()
            .enumerate()
            .filter_map(|(part, of)| Some((Reverse(of.length_ns()), part, path.blocker(of)?)))
            .collect();
        blocked.sort();
        for (_, part, blocker) in blocked.into_iter().take(MAX_ARROWS) {
            flow += 1;
            arrows.from.entry(blocker).or_default().push(flow);
            arrows.to.insert((place, part), flow);
        }
    }
    arrows
}

struct Tracks<'a, 'o> {
    joined: &'a Joined<'a>,
    arrows: &'a Arrows,
    numbers: Numbers,
    trace: &'a mut Trace<'o>,
}

impl Tracks<'_, '_> {
    /// A track, and its number.
    fn track(&mut self, name: &str, group: Option<u64>, at: Stamp<Reference>) -> io::Result<u64> {
        let number = self.numbers.next();
        let track = describe(number, name);
        let track = if let Some(group) = group { track.number(5, group) } else { track };
        self.trace.packet(packet_at(at.ns()).message(60, &track))?;
        Ok(number)
    }

    fn slice(
        &mut self,
        begin: Message,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
        track: u64,
    ) -> io::Result<()> {
        self.trace.packet(packet_at(from.ns()).message(11, &begin))?;
        self.trace.packet(packet_at(to.ns()).message(11, &event(END, track)))
    }

    fn request(&mut self, place: usize, answer: &RequestAnswer, parts: &[RequestPart]) -> io::Result<()> {
        let traced = self.joined.traced;
        let name = operation_name(traced.operation(answer.request));
        let length = duration(answer.to.since(answer.from));
        let id = traced.root(answer.request).id;
        let from = answer.from.stamp();
        let group = self.track(&format!("request: {name}, {length}, span {id}"), None, from)?;
        self.spans(answer, group)?;
        if let Ok(path) = &answer.path {
            let track = self.track("what the time went to", Some(group), from)?;
            for (number, part) in parts.iter().enumerate() {
                let flow = self.arrows.to.get(&(place, number)).copied();
                let begin = self.part(path, part, flow, track);
                self.slice(begin, part.from, part.to, track)?;
            }
            let track = self.track("who waited for whom", Some(group), from)?;
            nested_waits(&path.answer, track, self.trace)?;
        }
        Ok(())
    }

    fn part(&self, path: &RequestPath<'_>, part: &RequestPart, flow: Option<u64>, track: u64) -> Message {
        let piece = &path.pieces[part.pieces.start];
        let segment = &path.answer.path.segments[piece.segment];
        let recorded = path.answer.recorded;
        let who = wording::segment_thread(recorded, segment);
        let mut text = format!("{who}: {}", wording::doing(&path.answer.evidence(), segment));
        let mut basis = wording::basis_word(segment.basis);
        if let Some(other) = path.blocker(part) {
            text = format!("blocked by {}: {text}", operation_name(self.joined.traced.operation(other)));
            basis = "inferred";
        } else if let Some(missing) = path.missing_blocker(part) {
            text = format!("blocked by request {missing}: {text}");
            basis = "inferred";
        }
        let mut begin = event(BEGIN, track).text(23, &text);
        if let Some(flow) = flow {
            begin = begin.fixed(47, flow);
        }
        begin = note(begin, "kind", segment.kind.name());
        begin = note(begin, "basis", basis);
        if let Some(call) = recorded.segment_call(segment) {
            begin = note(begin, "call", &wording::call(&call));
        }
        begin
    }

    /// The request's span and all spans below, in all services: each in its parent's lane if it fits.
    fn spans(&mut self, answer: &RequestAnswer, group: u64) -> io::Result<()> {
        let traced = self.joined.traced;
        let root = traced.request(answer.request).root;
        let mut all: Vec<(SpanIndex, Option<SpanIndex>)> = Vec::new();
        let mut open = vec![(root, None)];
        while let Some((span, parent)) = open.pop() {
            all.push((span, parent));
            open.extend(traced.requests.children(span).iter().map(|&child| (child, Some(span))));
        }
        let times = |span: SpanIndex| self.joined.span_times(span);
        all.sort_by_key(|&(span, _)| (times(span).0, Reverse(times(span).1), span != root, span));
        let mut lanes = Lanes::default();
        for (span, parent) in all {
            lanes.add(span, parent, times(span));
        }
        let flows = self.arrows.from.get(&answer.request).cloned().unwrap_or_default();
        self.lanes(lanes, "spans", group, answer.from.stamp(), |span| {
            if span == root { flows.clone() } else { Vec::new() }
        })
    }

    /// The requests that blocked others and are not explained themselves.
    fn blockers(&mut self, requests: &[RequestIndex]) -> io::Result<()> {
        let traced = self.joined.traced;
        let root = |request: &RequestIndex| traced.request(*request).root;
        let mut roots: Vec<_> = requests.iter().map(|request| (root(request), *request)).collect();
        let times = |span: SpanIndex| self.joined.span_times(span);
        roots.sort_by_key(|&(span, _)| (times(span).0, Reverse(times(span).1), span));
        let Some(&(first, _)) = roots.first() else { return Ok(()) };
        let (at, mut lanes) = (times(first).0, Lanes::default());
        for &(span, _) in &roots {
            lanes.add(span, None, times(span));
        }
        let group = self.track("requests that blocked others", None, at)?;
        let of: HashMap<SpanIndex, RequestIndex> = roots.into_iter().collect();
        let arrows = self.arrows;
        self.lanes(lanes, "requests", group, at, |span| {
            of.get(&span).and_then(|request| arrows.from.get(request)).cloned().unwrap_or_default()
        })
    }

    fn lanes(
        &mut self,
        lanes: Lanes<SpanIndex>,
        name: &str,
        group: u64,
        at: Stamp<Reference>,
        flows: impl Fn(SpanIndex) -> Vec<u64>,
    ) -> io::Result<()> {
        let traced = self.joined.traced;
        let left_out = lanes.left_out;
        for lane in lanes.finish() {
            let track = self.track(name, Some(group), at)?;
            for edge in lane {
                let packet = packet_at(edge.at.ns());
                let event = match edge.begins {
                    None => event(END, track),
                    Some(span) => {
                        let text = operation_name(traced.spans.operation(span));
                        let mut begin = event(BEGIN, track).text(23, &text);
                        for flow in flows(span) {
                            begin = begin.fixed(47, flow);
                        }
                        let of = traced.spans.span(span);
                        begin = note(begin, "trace", &of.trace.to_string());
                        note(begin, "span", &of.id.to_string())
                    }
                };
                self.trace.packet(packet.message(11, &event))?;
            }
        }
        if left_out > 0 {
            self.track(&format!("and {}", count(left_out, "more span")), Some(group), at)?;
        }
        Ok(())
    }
}
