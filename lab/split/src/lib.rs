//! Splits a host's recording into recordings of several linked hosts: a path across hosts with known truth,
//! without a second machine.
//!
//! The new hosts are network namespaces, each with its processes. A process may lie between them, the *wire*,
//! which carries packets from a namespace's device to the other's; it is on no host. Each host then has the
//! events that its own tracer would have seen:
//!
//! ```text
//! one host      client        wire            server
//!               == send ──►   == timer == ──► == receive, by the wire's write
//!
//! near          == send         far           == receive, by its card's interrupt
//! ```
//!
//! - Its processes' switches. All other threads on a CPU appear as a single thread per CPU, *other-host*: a CPU
//!   that is taken stays taken.
//! - The packets in its own namespace, and its own threads' wake-ups.
//! - Its kernel's work within the wire's writes (receiving, acknowledging, waking) as work of the receive
//!   softirq: a card's packets arrive there, and it takes no thread's time.
//! - Its own clock: ahead, and faster.
//!
//! CPUs are not divided: both hosts have all. So a thread may wait for a CPU that the other host's thread has:
//! then *other-host* has it.

mod record_writer;
mod views;

pub use record_writer::{Clock, Host, SplitError, split};
pub use views::{HostViews, Side};
