//! The records that cross from BPF to user space, as `bpf/records.h` defines them.
//!
//! A record is at once the form in the buffers and the form on disk. [`layout`] describes them, as data;
//! [`Decoder`] makes events of any bytes; [`Encoder`] makes records of events; [`walk`] counts the records of a buffer
//! without decoding them.
//!
//! This crate does no I/O and trusts no byte.

mod decode;
mod encode;
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
