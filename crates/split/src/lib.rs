//! One host's recording, told as those of several hosts that a link connects: a path across hosts whose
//! truth is known, without a second machine.
//!
//! The hosts to be are network namespaces, each with its processes. What lies between them may be a
//! process too, the *wire*, which carries packets from one namespace's device to the other's; it is on
//! no host. Each host then has what a tracer of its own would have seen:
//!
//! ```text
//! one host      client        wire            server
//!               == send ──►   == timer == ──► == receive, by the wire's write
//!
//! near          == send         far           == receive, by its card's interrupt
//! ```
//!
//! - Its processes' switches. Whoever else has a CPU is told by one name, *elsewhere*, a thread a CPU:
//!   a CPU that is taken stays taken.
//! - The packets of its own namespace, and the wakings of its own threads.
//! - What its kernel does within the wire's writes (receiving, acknowledging, waking) it does in the
//!   receive softirq: there a card's packets arrive, and nobody's time pays for it.
//! - A clock of its own: ahead, and faster.
//!
//! Not told apart are CPUs: both hosts have all. So a thread may wait for a CPU that the other host's
//! thread has: then *elsewhere* has it.

mod apart;
mod write;

pub use apart::{Apart, Side};
pub use write::{Clock, Host, SplitError, split};
