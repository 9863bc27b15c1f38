//! Text inserted into a file, in an order that preserves nesting.

use std::cmp::Reverse;
use std::ops::Range;

use super::{Extent, Piece, on};
use crate::mutant::Mutant;

/// The order of insertions at the same byte: first the ends of ranges, inner before outer; then points; then the
/// beginnings, outer before inner. Equal ranges were found from the outside in.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    End(Reverse<usize>, Reverse<usize>),
    Point(usize),
    Begin(Reverse<usize>, usize),
}

#[derive(Debug)]
enum InsertPart {
    Text(String),
    Begin(usize),
    End(usize),
}

/// All insertions into a file.
#[derive(Default)]
pub struct Inserts {
    inserts: Vec<(usize, Rank, Vec<InsertPart>)>,
    pieces: Vec<Piece>,
}

impl Inserts {
    fn piece(&mut self, extent: Extent, mutants: Vec<u32>) -> usize {
        self.pieces.push(Piece { extent, bytes: (0, 0), mutants });
        self.pieces.len() - 1
    }

    /// Inserts text at a byte.
    pub fn point(&mut self, at: usize, text: impl Into<String>) {
        self.inserts.push((at, Rank::Point(self.inserts.len()), vec![InsertPart::Text(text.into())]));
    }

    /// Inserts text around a range, which becomes a piece together with it.
    pub fn around(&mut self, range: Range<usize>, extent: Extent, mutants: &[&Mutant], texts: (&str, &str)) {
        self.enclose(range, extent, mutants, vec![InsertPart::Text(texts.0.to_owned())], texts.1);
    }

    fn enclose(
        &mut self,
        range: Range<usize>,
        extent: Extent,
        mutants: &[&Mutant],
        begin: Vec<InsertPart>,
        end: &str,
    ) {
        let piece = self.piece(extent, mutants.iter().map(|mutant| mutant.number).collect());
        let order = self.inserts.len();
        let begin = std::iter::once(InsertPart::Begin(piece)).chain(begin).collect();
        self.inserts.push((range.start, Rank::Begin(Reverse(range.end), order), begin));
        let end = vec![InsertPart::Text(end.to_owned()), InsertPart::End(piece)];
        self.inserts.push((range.end, Rank::End(Reverse(range.start), Reverse(order)), end));
    }

    /// Chooses between an expression and its alternatives, each a mutant's code.
    pub fn choose(&mut self, range: Range<usize>, mutants: &[&Mutant], code: impl Fn(&Mutant) -> String) {
        let mut begin = vec![InsertPart::Text("(".to_owned())];
        for mutant in mutants {
            let piece = self.piece(Extent::Alternative, vec![mutant.number]);
            begin.extend([
                InsertPart::Text(format!("if {} {{ ", on(mutant.number))),
                InsertPart::Begin(piece),
                InsertPart::Text(code(mutant)),
                InsertPart::End(piece),
                InsertPart::Text(" } else ".to_owned()),
            ]);
        }
        begin.push(InsertPart::Text("{ ".to_owned()));
        self.enclose(range, Extent::Choice, mutants, begin, " })");
    }

    /// Inserts statements in front of a body, each of which returns a mutant's value.
    pub fn returns(&mut self, at: usize, mutants: &[&Mutant]) {
        let mut parts = Vec::new();
        for mutant in mutants {
            let piece = self.piece(Extent::Alternative, vec![mutant.number]);
            parts.extend([
                InsertPart::Text(format!(" if {} {{ ", on(mutant.number))),
                InsertPart::Begin(piece),
                InsertPart::Text(format!("return {};", mutant.replacement)),
                InsertPart::End(piece),
                InsertPart::Text(" } ".to_owned()),
            ]);
        }
        self.inserts.push((at, Rank::Point(self.inserts.len()), parts));
    }

    /// The source with all insertions, and the result's pieces.
    pub fn apply(mut self, source: &str) -> (String, Vec<Piece>) {
        self.inserts.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        let mut text = String::with_capacity(source.len() * 2);
        let mut copied = 0;
        for (at, _, parts) in self.inserts {
            text.push_str(&source[copied..at]);
            copied = at;
            for part in parts {
                match part {
                    InsertPart::Text(more) => text.push_str(&more),
                    InsertPart::Begin(piece) => self.pieces[piece].bytes.0 = text.len(),
                    InsertPart::End(piece) => self.pieces[piece].bytes.1 = text.len(),
                }
            }
        }
        text.push_str(&source[copied..]);
        (text, self.pieces)
    }
}
