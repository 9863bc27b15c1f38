//! Files that other tracers write on this machine, read like wakepath's own recordings.

mod alike;
mod perf;
mod perf_parts;
mod text;
mod trace_cmd;
