//! The machine, driven as its driver drives it: by drawings of programs whose answer is known, and by programs at random.

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
