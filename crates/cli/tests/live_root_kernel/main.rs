//! The kernel's functions counted and drilled into, on kernels that allow probes there: `vm/tests` runs these in guests.

mod drill_kernel;
mod latency_kernel;
