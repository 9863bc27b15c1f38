//! The machine, driven as its driver drives it: by drawn programs with known answers, and by random programs.

mod drawing;
mod driver;
mod program;

mod batches;
mod contributors;
mod doubts;
mod paths;
mod protocol;
mod resuming;
mod simulated;
