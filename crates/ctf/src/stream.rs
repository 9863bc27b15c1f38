//! A stream file from any trace, event by event.
//!
//! A [`Reader`] goes from packet to packet by the sizes in their contexts, trusted only as far as the file goes. An
//! unreadable part costs its packet's rest: the reader reports it, and continues with the next packet. Packets'
//! bounds in time are passed on and not trusted either; a stream's events are in order.

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
