//! Tracer files with the kernel's description of its tracepoints, as events.

mod ctf_2;
mod damage;
mod damaged;
mod damaged_ctf;
mod lines;
mod perf_data;
mod perf_parts;
mod perf_proof;
mod perf_streams;
mod perfetto;
mod perfetto_rules;
mod text_rules;
mod text_trace;
mod trace_dat;
mod trace_dat_cut;
mod trace_dat_rules;
