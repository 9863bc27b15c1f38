//! CTF 2 metadata (CTF2-SPEC-2.0): a sequence of JSON fragments.
//!
//! [`read`] returns the same schema as TSDL does. CTF 2 marks fields by roles where CTF 1.8 reserves names: a field
//! with a role gets the name reserved for it, and any other field with such a name gets an underscore behind it.

mod class;
mod fragments;
mod location;
mod lower;
mod names;
mod object;
mod parse;
mod read;
mod scopes;

pub use fragments::{JsonError, begins};
pub use read::read;
