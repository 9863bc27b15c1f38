//! Tracer files with the kernel's description of its tracepoints, as events.

#[path = "../ctf2/convert.rs"]
mod convert;
mod damage;
mod damaged;
mod damaged_ctf;
mod lines;
mod perf_data;
mod perf_proof;
mod perf_streams;
mod perfetto;
mod text_trace;
mod trace_dat;
