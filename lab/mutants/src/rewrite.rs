//! Rewrites a source file so that each mutant is a branch that a switch opens.
//!
//! `a < b` with the mutants `<=` and `==` becomes `(if ON(1) { (a) <= (b) } else if ON(2) { (a) == (b) } else { a < b })`.
//! Nothing is taken away: a rewritten file without the inserted text is the file as it was, tests in it included.
//! Alternatives have the code as it was, without switches, because one mutant is set at a time; so a file grows with the
//! depth of its expressions, not exponentially.
//!
//! A switch cannot stand where the compiler evaluates: constants, array lengths, `const fn`. A `const fn` with mutants in it
//! loses its `const`, unless the compiler finds that it is needed (`keep_const`).

mod insert;
mod visit;

use std::collections::{BTreeSet, HashSet};

use anyhow::{Context, Result};
use syn::visit::Visit;

use crate::mutant::Mutant;
use visit::Visitor;

/// The part of a file that an error of the compiler can be put down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The code of one mutant.
    Alternative,
    /// Code with the alternatives in front of it.
    Choice,
    /// A `match` of which arms can be switched off.
    Match,
    /// The body of a function.
    Function,
}

/// A part of a rewritten file, with the mutants that are switched in it.
#[derive(Debug, Clone)]
pub struct Piece {
    pub extent: Extent,
    /// Bytes of the rewritten file: the first, and the one behind the last.
    pub bytes: (usize, usize),
    /// Empty for a function: all of its pieces are its.
    pub mutants: Vec<u32>,
}

/// A file with switches in it.
#[derive(Debug)]
pub struct Rewritten {
    pub text: String,
    pub pieces: Vec<Piece>,
    /// The mutants that have a switch.
    pub switched: BTreeSet<u32>,
    /// The functions that lost their `const`.
    pub freed: BTreeSet<String>,
}

/// Rewrites a file; functions of the names in `keep_const` stay `const`.
pub fn rewrite(source: &str, mutants: &[&Mutant], keep_const: &HashSet<String>) -> Result<Rewritten> {
    let file = syn::parse_file(source).context("the file cannot be parsed")?;
    let mut visitor = Visitor::new(source, mutants, keep_const);
    visitor.visit_file(&file);
    let Visitor { inserts, switched, freed, .. } = visitor;
    let (text, pieces) = inserts.apply(source);
    Ok(Rewritten { text, pieces, switched, freed })
}

/// The module that each rewritten crate gets: `on` is the switch of one mutant. The variable holds the number of the mutant
/// that is set, or a path: then the numbers of all switches that are reached are written there.
pub fn switch_module(max_number: u32) -> String {
    include_str!("rewrite/switch.txt").replace("SWITCHES", &(max_number + 1).to_string())
}

/// The variable that the switches read.
pub const VARIABLE: &str = "WAKEPATH_MUTANT";

fn on(number: u32) -> String {
    format!("crate::mutant_switch::on({number})")
}

#[cfg(test)]
mod tests;
