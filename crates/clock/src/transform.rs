//! Conversions between clocks: lines, piece by piece, each with its error.

use std::fmt;
use std::marker::PhantomData;

use crate::line::{BITS, clamp};
use crate::{ErrorBound, Line, Local, Peer, Reference, Stamp};

/// A line and its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The first stamp, ns on the source clock.
    pub from: u64,
    /// The stamp after the last; for the last piece, its last stamp.
    pub to: u64,
    /// The other clock = slope × this clock + offset.
    pub line: Line,
    /// The line's largest distance from the truth in the piece.
    pub error: ErrorBound,
}

/// The conversion from clock `F` to clock `T`.
///
/// Pieces meet without a step back, so a later stamp never becomes an earlier stamp.
#[derive(Clone, PartialEq, Eq)]
pub struct Transform<F, T> {
    /// In order, each beginning at the previous piece's end; never empty.
    pieces: Vec<Piece>,
    clocks: PhantomData<fn(F) -> T>,
}

impl<F, T> Transform<F, T> {
    /// The conversion by these pieces. `None` if there are none, if a piece does not begin at the previous
    /// piece's end, or if order would be lost at a joint.
    pub fn new(pieces: Vec<Piece>) -> Option<Self> {
        let meets = |pair: &[Piece]| {
            let (before, after) = (&pair[0], &pair[1]);
            before.to == after.from && before.line.at(before.to - 1) <= after.line.at(after.from)
        };
        let sound = pieces.iter().all(|piece| piece.from < piece.to) && pieces.windows(2).all(meets);
        (sound && !pieces.is_empty()).then_some(Self { pieces, clocks: PhantomData })
    }

    /// A single line, everywhere, with this error.
    pub fn line(line: Line, error: ErrorBound) -> Self {
        Self { pieces: vec![Piece { from: 0, to: u64::MAX, line, error }], clocks: PhantomData }
    }

    /// The pieces, in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The stamp on the other clock and its error bound.
    ///
    /// Outside all pieces the nearest piece goes on, and a quarter of the distance is added to its error:
    /// clocks that differ by less than 10% part no faster.
    pub fn convert(&self, stamp: Stamp<F>) -> (Stamp<T>, ErrorBound) {
        let ns = stamp.ns();
        by(&self.pieces[self.place(ns)], ns)
    }

    /// A converter that remembers the last piece: for stamps in order.
    pub fn cursor(&self) -> Cursor<'_, F, T> {
        let piece = self.pieces[0];
        Cursor { transform: self, piece }
    }

    /// The largest error between two stamps.
    pub fn worst(&self, from: Stamp<F>, to: Stamp<F>) -> ErrorBound {
        self.worst_between(from.ns(), to.ns())
    }

    fn worst_between(&self, from: u64, to: u64) -> ErrorBound {
        let among = &self.pieces[self.place(from)..=self.place(to.max(from))];
        let inside = among.iter().map(|piece| piece.error).max().unwrap_or(ErrorBound::Unbounded);
        let before = self.pieces[0].from.saturating_sub(from);
        let behind = to.saturating_sub(self.pieces[self.pieces.len() - 1].to);
        inside.plus(beyond(before.max(behind)))
    }

    fn place(&self, ns: u64) -> usize {
        self.pieces.partition_point(|piece| piece.from <= ns).saturating_sub(1)
    }

    /// First this conversion, then `next`. Errors add up. `None` if the result leaves the range of [`Line`]s.
    pub fn then<U>(&self, next: &Transform<T, U>) -> Option<Transform<F, U>> {
        let mut pieces = Vec::with_capacity(self.pieces.len() + next.pieces.len());
        for piece in &self.pieces {
            let mut from = piece.from;
            let first = next.place(piece.line.at(from));
            for (place, follow) in next.pieces.iter().enumerate().skip(first) {
                // The beginning of the next clock's following piece, on this clock.
                let following = next.pieces.get(place + 1);
                let end = following
                    .map_or(piece.to, |following| piece.line.reaches(following.from).clamp(from, piece.to));
                if end > from {
                    let line = piece.line.then(&follow.line, from)?;
                    let error = composed_error(piece, from, end, next);
                    pieces.push(Piece { from, to: end, line, error });
                }
                from = end;
                if from == piece.to {
                    break;
                }
            }
        }
        Transform::new(pieces)
    }

    /// The inverse conversion. `None` if it leaves the range of [`Line`]s.
    pub fn inverse(&self) -> Option<Transform<T, F>> {
        let mut pieces: Vec<Piece> = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let from = pieces.last().map_or_else(|| piece.line.at(piece.from), |before| before.to);
            // The first stamp of the following piece: before it, this piece puts nothing behind the joint.
            let to = ceiling(&piece.line, piece.to);
            if to <= from {
                continue;
            }
            let line = piece.line.inverse(from)?;
            let error = piece.error.scaled(line.slope().0).plus(ErrorBound::Within(1));
            pieces.push(Piece { from, to, line, error });
        }
        Transform::new(pieces)
    }
}

impl Transform<Local, Reference> {
    /// The reference host's own: nothing changes, error 0.
    pub fn identity() -> Self {
        Self::line(Line::IDENTITY, ErrorBound::ZERO)
    }
}

impl<T> Transform<Local, T> {
    /// The same conversion, seen from a host whose peer has the source clock.
    #[must_use]
    pub fn for_peer(&self) -> Transform<Peer, T> {
        Transform { pieces: self.pieces.clone(), clocks: PhantomData }
    }
}

impl Transform<Peer, Local> {
    /// The same conversion, seen from the other host of the pair.
    #[must_use]
    pub fn swapped(self) -> Transform<Local, Peer> {
        Transform { pieces: self.pieces, clocks: PhantomData }
    }
}

impl Transform<Local, Peer> {
    /// The conversion if the peer is the reference host.
    #[must_use]
    pub fn to_reference(self) -> Transform<Local, Reference> {
        Transform { pieces: self.pieces, clocks: PhantomData }
    }
}

/// Converts stamps that come in order, or nearly so, without a search for each.
#[derive(Debug)]
pub struct Cursor<'a, F, T> {
    transform: &'a Transform<F, T>,
    piece: Piece,
}

impl<F, T> Cursor<'_, F, T> {
    /// Like [`Transform::convert`].
    pub fn convert(&mut self, stamp: Stamp<F>) -> (Stamp<T>, ErrorBound) {
        let ns = stamp.ns();
        if !(self.piece.from..self.piece.to).contains(&ns) {
            self.piece = self.transform.pieces[self.transform.place(ns)];
            return by(&self.piece, ns);
        }
        (Stamp::from_ns(self.piece.line.at(ns)), self.piece.error)
    }
}

fn by<T>(piece: &Piece, ns: u64) -> (Stamp<T>, ErrorBound) {
    let distance = piece.from.saturating_sub(ns).max(ns.saturating_sub(piece.to));
    let error = if distance == 0 { piece.error } else { piece.error.plus(beyond(distance)) };
    (Stamp::from_ns(piece.line.at(ns)), error)
}

/// The additional error at this distance from all pieces, ns.
fn beyond(distance: u64) -> ErrorBound {
    ErrorBound::Within(distance.div_ceil(4))
}

/// The true stamp on the middle clock is off by at most the first error; the second error is the largest
/// around that stamp.
fn composed_error<F, T>(piece: &Piece, from: u64, to: u64, next: &Transform<F, T>) -> ErrorBound {
    let ErrorBound::Within(around) = piece.error else { return ErrorBound::Unbounded };
    let low = piece.line.at(from).saturating_sub(around);
    let high = piece.line.at(to).saturating_add(around);
    let among = &next.pieces[next.place(low)..=next.place(high)];
    let steepest = among.iter().map(|piece| piece.line.slope().0).max().unwrap_or(0);
    // Rounding: once more than either error counted.
    piece.error.scaled(steepest).plus(next.worst_between(low, high)).plus(ErrorBound::Within(1))
}

/// A line's value, rounded up to a whole ns.
fn ceiling(line: &Line, stamp: u64) -> u64 {
    clamp((line.exact(stamp) + (1 << BITS) - 1) >> BITS)
}

impl<F, T> fmt::Debug for Transform<F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.pieces).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_rounded_up_to_the_next_whole_ns() {
        let one = 1_u64 << BITS;
        for (offset, expected) in
            [(0, 5), (1, 6), (i128::from(one) - 1, 6), (one.into(), 6), (-1, 5), (i128::from(one) * -9, 0)]
        {
            assert_eq!(ceiling(&Line::new(one, offset).expect("in range"), 5), expected, "{offset}");
        }
    }
}
