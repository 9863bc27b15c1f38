//! The clocks of two hosts, from the packets between them: what is found is held against what was so.

mod bound;
mod few;
mod pair;
mod solver;
