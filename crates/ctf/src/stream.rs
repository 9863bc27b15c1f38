//! One stream file of any trace, event by event.
//!
//! A [`Reader`] goes from packet to packet by what their contexts say, which it believes only as far as
//! the file goes. What it cannot read costs the rest of that packet: it says so, and goes on with the next.
//! Packets' bounds in time are told and not believed either; the events of a stream are in order.

mod ahead;
mod fault;
mod head;
mod packet;
mod plans;
mod reader;

pub use fault::{Fault, FaultKind};
pub use packet::Packet;
pub use plans::{Class, Plans, PlansError, Selection, Wanted};
pub use reader::{Head, Item, Lost, Reader};
