//! Questions about this machine as it is now: recording, counting, watching, drilling down, receiving spans.
//!
//! The answers are data of `engine`, which `report` words. This crate prints nothing and words nothing but its errors.

pub mod command;
pub mod doctor;
pub mod drill;
pub mod flight;
pub mod go_trace;
pub mod latency;
pub mod record;
pub mod spans;
pub mod watch;
