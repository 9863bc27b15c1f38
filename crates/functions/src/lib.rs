//! The functions in a binary file, and the places where probes see every call to them begin and end.
//!
//! ```no_run
//! use wakepath_functions::{Finder, Target};
//!
//! let target = Target::parse("libc:malloc")?;
//! let found = Finder::new(&[]).find(&target)?;
//! for function in &found.functions {
//!     println!("{} at {:#x} of {}", function.names[0], function.probe.offset, function.probe.file.display());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Files are only read: the symbol tables in the file and in its separate debug file, the requested functions' code,
//! the mappings of processes to find the file behind a library's short name, and their memory to find the function that
//! a process calls through a pointer in its linkage table. Names in them may come from anywhere; no size in a file is
//! believed beyond the file's own length.
//!
//! Only x86-64 is understood; other machines are refused by name.

mod body;
mod debug_file;
mod error;
mod find;
mod frames;
mod function;
mod go_program;
mod go_table;
mod identity;
mod image;
mod inlined;
mod instruction;
mod interpreter;
mod kernel_code;
mod library;
mod loader_cache;
mod names;
mod other_processes;
mod pattern;
mod place;
mod process_code;
mod python;
mod similar;
mod sites;
mod symbols;
mod target;
#[cfg(test)]
mod testing;

pub use error::{
    AbsenceReason, FileError, FindError, FunctionNotFound, LibraryError, Refusal, RefusalReason,
};
pub use find::{Finder, Found, MAX_FOUND};
pub use function::{Function, FunctionNote, Probe, Return, Runtime};
pub use go_program::{GoBirth, GoFault, GoOffsets, GoProgram, GoSite, go_program, is_go_program};
pub use instruction::{ProbeMethod, may_probe_behind_call};
pub use interpreter::Interpreter;
pub use kernel_code::{KernelCall, KernelCode, KernelCodeError, KernelExit};
pub use library::processes_with;
pub use other_processes::other_processes;
pub use pattern::Pattern;
pub use process_code::{ProcessCallee, ProcessCode, ProcessFunction, ProcessSite, ProcessSites, Unwinding};
pub use python::{Python, PythonCode, PythonError, python_of};
pub use similar::similar;
pub use sites::{CallSite, Callee, Operand};
pub use target::{FileName, Target, TargetError};
