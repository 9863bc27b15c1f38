//! The program live on the test machine: recordings, counts and answers for programs with known behaviour. These tests run
//! side by side, and other load makes them slower, not wrong. Tests with special needs are beside this program:
//! `live_root_quiet` (an idle machine), `live_root_stubs` (drill-downs), `live_root_flight`, `live_root_faults`,
//! `live_root_kernel` (probes on kernel functions).

mod attributes;
mod caller;
mod clash;
mod contexts;
mod cpu_reasons;
mod deadlocks;
mod deaths;
mod debuginfod;
mod doctor;
mod epolls;
mod far_ends;
mod far_processes;
mod gave_up;
mod go;
mod hang;
mod io_limits;
mod io_uring;
mod killed_tracers;
mod labels;
mod latency_counted;
mod latency_cycles;
mod latency_groups;
mod latency_locks;
mod memory_limits;
mod network_timers;
mod otlp;
mod polling;
mod polls;
mod record;
mod reload;
mod scripts;
mod services;
mod signals;
mod targets;
mod timeouts;
mod watch;
mod ways_out;
