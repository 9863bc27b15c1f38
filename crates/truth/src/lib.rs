//! Judges paths against programs whose truth is known.
//!
//! An outside judge: it reads the documents that everybody reads and uses none of the crates that
//! make them. `workloads/` holds the programs; each writes down where its time went, by its own
//! clocks. Here that is held against what `wakepath path --json` says of the same run.

#![forbid(unsafe_code)]

pub mod assertion;
pub mod audit;
pub mod calls;
mod checks;
pub mod compare;
pub mod document;
pub mod noise;
pub mod pair;
pub mod runner;
pub mod table;
pub mod two_clocks;
pub mod workloads;

pub use compare::{BadDocument, Limits, Part, Verdict, compare};
