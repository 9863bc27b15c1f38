//! Splits one host's recording into those of several hosts that a link connects: a path across hosts whose
//! truth is known, without a second machine.
//!
//! The hosts to be are network namespaces, each with its processes. A process may lie between them, the *wire*,
//! which carries packets from one namespace's device to the other's; it is on no host. Each host then has what a
//! tracer of its own would have seen:
//!
//! ```text
//! one host      client        wire            server
//!               == send ──►   == timer == ──► == receive, by the wire's write
//!
//! near          == send         far           == receive, by its card's interrupt
//! ```
//!
//! - The switches of its processes. All other threads on a CPU appear as one thread, *other-host*, one for each
//!   CPU: a CPU that is taken stays taken.
//! - The packets of its own namespace, and the wakings of its own threads.
//! - The work of its kernel within the wire's writes (receiving, acknowledging, waking) as work of the receive
//!   softirq: a card's packets arrive there, and it takes no thread's time.
//! - A clock of its own: ahead, and faster.
//!
//! CPUs are not divided: both hosts have all. So a thread may wait for a CPU that the other host's thread has:
//! then *other-host* has it.

mod record_writer;
mod views;

pub use record_writer::{Clock, Host, SplitError, split};
pub use views::{HostViews, Side};
