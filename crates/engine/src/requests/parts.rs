//! A request's path in a bounded number of parts, for views that cannot show a million segments.

use std::cmp::Reverse;
use std::ops::Range;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::SegmentKind;
use wakepath_findings::BasisMix;
use wakepath_spans::{RequestIndex, TraceId};

use super::{BlockingRequest, Piece, RequestPath};

/// A part of a request's path: consecutive pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPart {
    /// The beginning.
    pub from: Stamp<Reference>,
    /// The end.
    pub to: Stamp<Reference>,
    /// The pieces, by their places in [`RequestPath::pieces`]; at least 1.
    pub pieces: Range<usize>,
    /// Whether all pieces have the same kind, thread and cause, and worked for the same request.
    pub is_uniform: bool,
}

impl RequestPart {
    /// The length, ns.
    pub fn length_ns(&self) -> u64 {
        self.to.since(self.from)
    }
}

impl RequestPath<'_> {
    /// The path as parts that tile its window. Consecutive alike pieces form a part. The longest `most` parts stay as
    /// they are; the parts between two of them are merged: there are at most 2 × `most` + 1.
    pub fn parts(&self, most: usize) -> Vec<RequestPart> {
        let mut runs: Vec<RequestPart> = Vec::new();
        for (place, piece) in self.pieces.iter().enumerate() {
            match runs.last_mut().filter(|run| self.are_alike(&self.pieces[run.pieces.start], piece)) {
                Some(run) => (run.to, run.pieces.end) = (piece.to, place + 1),
                None => {
                    let pieces = place..place + 1;
                    runs.push(RequestPart { from: piece.from, to: piece.to, pieces, is_uniform: true });
                }
            }
        }
        let mut by_length: Vec<_> = (0..runs.len()).collect();
        by_length.sort_by_key(|&place| (Reverse(runs[place].length_ns()), place));
        let mut stays = vec![false; runs.len()];
        by_length.iter().take(most).for_each(|&place| stays[place] = true);
        let mut parts: Vec<RequestPart> = Vec::new();
        let mut is_open = false;
        for (run, stays) in runs.into_iter().zip(stays) {
            match parts.last_mut().filter(|_| is_open && !stays) {
                Some(part) => {
                    (part.to, part.pieces.end, part.is_uniform) = (run.to, run.pieces.end, false);
                }
                None => parts.push(run),
            }
            is_open = !stays;
        }
        parts
    }

    /// The request that blocked this request in a uniform part.
    pub fn blocker(&self, part: &RequestPart) -> Option<RequestIndex> {
        match self.pieces[part.pieces.start].waits_for.last().filter(|_| part.is_uniform)? {
            BlockingRequest::Request(request) => Some(*request),
            BlockingRequest::Missing(..) => None,
        }
    }

    /// The same for a blocking request without spans here, by its trace.
    pub fn missing_blocker(&self, part: &RequestPart) -> Option<TraceId> {
        match self.pieces[part.pieces.start].waits_for.last().filter(|_| part.is_uniform)? {
            BlockingRequest::Missing(trace, _) => Some(*trace),
            BlockingRequest::Request(_) => None,
        }
    }

    fn are_alike(&self, one: &Piece, other: &Piece) -> bool {
        let about = |piece: &Piece| {
            let segment = &self.answer.path.segments[piece.segment];
            (segment.kind, segment.thread, &segment.cause, segment.basis, segment.call)
        };
        let request = |piece: &Piece| (piece.request, piece.missing, piece.by, piece.measured);
        let same = request(one) == request(other) && one.waits_for == other.waits_for;
        same && about(one) == about(other)
    }

    /// A part's time by segment kind, the largest first.
    pub fn kinds(&self, part: &RequestPart) -> Vec<(SegmentKind, u64)> {
        let mut kinds: Vec<(SegmentKind, u64)> = Vec::new();
        for piece in &self.pieces[part.pieces.clone()] {
            let (kind, ns) = (self.answer.path.segments[piece.segment].kind, piece.to.since(piece.from));
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, sum)) => *sum += ns,
                None => kinds.push((kind, ns)),
            }
        }
        kinds.sort_by_key(|&(kind, ns)| (Reverse(ns), kind));
        kinds
    }

    /// A part's time by basis.
    pub fn basis(&self, part: &RequestPart) -> BasisMix {
        let mut mix = BasisMix::default();
        for piece in &self.pieces[part.pieces.clone()] {
            mix.add(self.answer.path.segments[piece.segment].basis, piece.to.since(piece.from));
        }
        mix
    }
}
