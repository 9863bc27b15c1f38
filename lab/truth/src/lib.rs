//! Judges paths against programs with known truths.
//!
//! The judge is independent: it reads the JSON documents and uses none of the crates that make them. `lab/workloads/`
//! holds the programs. Each logs its own time, by its own clocks; the judge compares this log, the truth, with the
//! output of `wakepath path --json` for the same run.

#![forbid(unsafe_code)]

pub mod assertion;
pub mod audit;
pub mod calls;
mod checks;
pub mod compare;
pub mod cost;
pub mod dated_back;
pub mod document;
pub mod drills;
mod either;
pub mod incidents;
pub mod joins;
pub mod kernel_drills;
pub mod kernel_threads;
#[cfg(test)]
mod made;
pub mod noise;
pub mod pair;
pub mod questions;
pub mod requests;
pub mod runner;
pub mod states;
pub mod table;
pub mod tries;
pub mod two_clocks;
pub mod workloads;

pub use compare::{BadDocument, ComparedContributor, Limits, PathVerdict, compare};
