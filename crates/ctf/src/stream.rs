//! One stream file of any trace, event by event.
//!
//! A [`Reader`] goes from packet to packet by what their contexts say, which it believes only as far as
//! the file goes. An unreadable part costs the rest of that packet: the reader reports it, and goes on with the next one.
//! Packets' bounds in time are passed on and not trusted either; the events of a stream are in order.

mod fault;
mod head;
mod lookahead;
mod packet;
mod plans;
mod reader;

pub use fault::{Fault, FaultKind};
pub use packet::Packet;
pub use plans::{Class, Plans, PlansError, Selection, Wanted};
pub use reader::{Head, Item, Lost, Reader};
