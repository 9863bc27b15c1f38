//! Unwinds the stacks of other processes by their files' tables (`.eh_frame`, else `.debug_frame`).
//!
//! A frame is proved if a table leads to it from the thread's registers and a call stands before its return address.
//! Every frame behind an unproved frame is unproved too. Files and stacks are written by others: any bytes give an
//! answer, and none a panic.

mod code;
mod elf_file;
mod module;
mod rule;
mod rules;
mod table;
mod walk;

pub use code::ends_in_call;
pub use module::Module;
pub use rule::{Base, Rule, SavedBp};
pub use rules::{RULE_SETS, RULE_WAYS, entry, hash, rule_in};
pub use table::Table;
pub use walk::{Place, Registers, Unwound, walk};
