//! Rewrites a source file so that each mutant is a branch behind a switch.
//!
//! `a < b` with the mutants `<=` and `==` becomes `(if ON(1) { (a) <= (b) } else if ON(2) { (a) == (b) } else { a < b })`.
//! Nothing is removed: a rewritten file without the inserted text is the original file, with its tests. Alternatives contain
//! the original code, without switches, because only one mutant is set at a time; so a file grows with the depth of its
//! expressions, not exponentially.
//!
//! A switch cannot stand where the compiler evaluates: constants, array lengths, `const fn`. A `const fn` with mutants loses
//! its `const`, unless the compiler requires it (`keep_const`).

mod insert;
mod visit;

use std::collections::{BTreeSet, HashSet};

use anyhow::{Context, Result};
use syn::visit::Visit;

use crate::mutant::Mutant;
use visit::Visitor;

/// The part of a file to which a compiler error can be attributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A mutant's code.
    Alternative,
    /// Code with the alternatives in front of it.
    Choice,
    /// A `match` whose arms can be switched off.
    Match,
    /// A function's body.
    Function,
}

/// A part of a rewritten file, with the mutants switched in it.
#[derive(Debug, Clone)]
pub struct Piece {
    pub extent: Extent,
    /// Bytes in the rewritten file: the first, and the byte behind the last.
    pub bytes: (usize, usize),
    /// Empty for a function, which has all pieces inside it.
    pub mutants: Vec<u32>,
}

/// A file with switches.
#[derive(Debug)]
pub struct Rewritten {
    pub text: String,
    pub pieces: Vec<Piece>,
    /// The mutants with a switch.
    pub switched: BTreeSet<u32>,
    /// The functions that lost their `const`.
    pub freed: BTreeSet<String>,
}

/// Rewrites a file; functions with names in `keep_const` stay `const`.
pub fn rewrite(source: &str, mutants: &[&Mutant], keep_const: &HashSet<String>) -> Result<Rewritten> {
    let file = syn::parse_file(source).context("the file cannot be parsed")?;
    let mut visitor = Visitor::new(source, mutants, keep_const);
    visitor.visit_file(&file);
    let Visitor { inserts, switched, freed, .. } = visitor;
    let (text, pieces) = inserts.apply(source);
    Ok(Rewritten { text, pieces, switched, freed })
}

/// Each rewritten crate's additional module: `on` is a mutant's switch. The variable has the number of the set mutant, or a
/// path: then the numbers of all reached switches are written there.
pub fn switch_module(max_number: u32) -> String {
    include_str!("rewrite/switch.txt").replace("SWITCHES", &(max_number + 1).to_string())
}

/// The switches' environment variable.
pub const VARIABLE: &str = "WAKEPATH_MUTANT";

fn on(number: u32) -> String {
    format!("crate::mutant_switch::on({number})")
}

#[cfg(test)]
mod tests;
