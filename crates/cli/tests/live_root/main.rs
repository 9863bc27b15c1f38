//! The program live on the machine that runs the tests: recordings, counts and answers of programs whose truth is known. These
//! tests run side by side, and other load makes them slower, not wrong. Those with a need of their own are beside this
//! program: `live_root_quiet` (an idle machine), `live_root_stubs` (drill-downs), `live_root_flight`, `live_root_faults`,
//! `live_root_kernel` (probes on the kernel's functions).

mod attributes;
mod caller;
mod clash;
mod contexts;
mod doctor;
mod epolls;
mod gave_up;
mod go;
mod hang;
mod labels;
mod latency_cycles;
mod latency_groups;
mod latency_locks;
mod network_timers;
mod otlp;
mod polls;
mod record;
mod reload;
mod services;
mod signals;
mod timeouts;
mod watch;
mod ways_out;
