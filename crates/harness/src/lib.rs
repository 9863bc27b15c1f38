//! Runs the program `wakepath` for its tests: [`live`] on the machine that runs them, and on recordings [`made`] of
//! scenarios; sends [`spans`]; has other tracers ([`perf`], [`ftrace`]) record. It uses nothing of the program but its file,
//! which `cargo test` builds beside the tests.

pub mod ftrace;
pub mod live;
pub mod made;
pub mod perf;
pub mod spans;
