//! Runs the program `wakepath` for its tests: [`live`] on the test machine, and on recordings [`made`] from scenarios; sends
//! [`spans`]; runs other tracers ([`perf`], [`ftrace`]). It uses only the program's file, which `cargo test` builds beside
//! the tests.

pub mod files;
pub mod ftrace;
pub mod live;
pub mod made;
pub mod perf;
pub mod spans;
