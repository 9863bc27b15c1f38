//! The program with recordings, traces and spans made by the tests: nothing here records, and each test runs anywhere.
//! Tests that record live are in the programs `live_root…` beside this one.

mod calls_goroutines;
mod damaged;
mod debuginfod;
mod found;
mod hosts;
mod labels;
mod perf_parts;
mod perfetto;
mod program;
mod requests;
mod text_trace;
mod trace_dat;
mod traces;
