//! Two hosts' clocks, from the packets between them: the result is compared with the truth.

mod bound;
mod few;
mod pair;
mod solver;
