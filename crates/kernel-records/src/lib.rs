//! The records that cross from BPF to user space, as `bpf/records.h` defines them.
//!
//! A record has the same form in the buffers and on disk. [`layout`] describes the forms as data; [`Decoder`] makes events from any bytes;
//! [`Encoder`] makes records from events; [`walk`] counts a buffer's records without decoding them.
//!
//! This crate does no I/O and trusts no byte.

mod decode;
mod encode;
mod failed_call;
mod fields;
mod kind;
pub mod layout;
mod length;
mod state;
mod walk;

pub use decode::{DecodeError, Decoder};
pub use encode::{EncodeError, Encoder};
pub use fields::{Value, fields};
pub use kind::{Buffer, Kind};
pub use length::{Header, fixed_length, record_length};
pub use state::TaskStates;
pub use walk::{KINDS, Summary, WalkError, WalkFault, walk};
