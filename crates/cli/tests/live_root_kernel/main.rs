//! Kernel functions counted and drilled into, on kernels that allow probes there: `vm/tests` runs these tests in guests.

mod drill_kernel;
mod latency_kernel;
