//! Tracer files with the kernel's description of its tracepoints, as events.

mod lines;
mod perf_data;
mod perf_parts;
mod perf_streams;
mod perfetto;
mod text_trace;
mod trace_dat;
