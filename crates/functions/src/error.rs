//! The errors for files, names and functions that cannot be probed.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::interpreter::Interpreter;

/// The error for a file without functions to probe.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file cannot be opened or read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A directory, a device, a pipe.
    #[error("{path} is not a regular file: name a program or a library")]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// A script, run by another program.
    #[error(
        "{path} is a script, which {interpreter} runs: its functions are not machine code; {}", beside(.interpreter, .runs)
    )]
    Script {
        /// The file.
        path: PathBuf,
        /// The interpreter in its first line.
        interpreter: String,
        /// The process asked about, and its program.
        runs: Option<(u32, PathBuf)>,
    },
    /// Another kind of file.
    #[error("{path} is not an ELF file: name a program or a library")]
    NotElf {
        /// The file.
        path: PathBuf,
    },
    /// A program for another machine, or for 32 bits.
    #[error("{path} holds code for {machine}; only x86-64 is supported")]
    Machine {
        /// The file.
        path: PathBuf,
        /// The machine.
        machine: String,
    },
    /// The file's own parts contradict each other.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damaged part.
        what: String,
    },
}

/// The programs to probe in place of a script.
fn beside(interpreter: &str, runs: &Option<(u32, PathBuf)>) -> String {
    match runs {
        Some((pid, program)) => {
            let program = program.display().to_string();
            format!("process {pid} runs {}: name this file", program.escape_debug())
        }
        None => format!("probe {interpreter}, or a program that the script calls"),
    }
}

/// The error for a name without a file.
#[derive(Debug, Error)]
pub enum LibraryError {
    /// No file has the name.
    #[error("no library or program is called `{name}` (searched {looked}); write a path, such as ./{name}")]
    Unknown {
        /// The name in the request.
        name: String,
        /// The places searched.
        looked: String,
    },
    /// Several files have the name.
    #[error("`{name}` may mean any of {}: name one of them", .candidates.join(", "))]
    Several {
        /// The name in the request.
        name: String,
        /// The possible meanings.
        candidates: Vec<String>,
    },
    /// The process does not exist, or may not be read.
    #[error("cannot read what process {pid} has mapped: {source}")]
    Process {
        /// The process.
        pid: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// The code was made at run time.
    #[error(
        "{path} lists code that a runtime generated in memory; no file holds it, so it cannot be probed; probe a function of the runtime itself"
    )]
    RuntimeMap {
        /// The list.
        path: PathBuf,
    },
}

/// The error for a target without a function to probe.
#[derive(Debug, Error)]
pub enum FindError {
    /// The file's name.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The file.
    #[error(transparent)]
    File(#[from] FileError),
    /// No such function.
    #[error(transparent)]
    NotFound(#[from] FunctionNotFound),
    /// There, but not to be probed: the first such function among the target's.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A pattern with more functions than anyone can want.
    #[error("`{target}` matches {count} functions, more than {most}: narrow the pattern")]
    TooMany {
        /// The request's target.
        target: String,
        /// The number of functions.
        count: usize,
        /// The maximum.
        most: usize,
    },
}

/// A function that is not in its file.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("no function `{function}` in {}{}{}", .files.join(" or "), self.because(), self.hint())]
pub struct FunctionNotFound {
    /// The request's function.
    pub function: String,
    /// The files searched.
    pub files: Vec<String>,
    /// The explanation.
    pub why: AbsenceReason,
    /// Similar names, the most similar first.
    pub similar: Vec<String>,
}

/// The explanation why a function is not in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AbsenceReason {
    /// No explanation: it is simply not there.
    Plain,
    /// The file calls the function from another file.
    Imported,
    /// It is data, not code.
    Data,
    /// The file has only the names of its exported functions left.
    Stripped {
        /// The number of exported functions.
        exported: usize,
    },
    /// A table of names contradicts itself, and was left out.
    Damaged {
        /// The file, or its debug file.
        file: PathBuf,
        /// The damaged table.
        table: &'static str,
    },
    /// The file has no debug information, which would show an inlined function without code outside its callers.
    NoDebug,
    /// The file runs functions of another language, which are not machine code in it.
    Interpreted(Interpreter),
    /// Rust code whose body is a closure: an `async fn`, or an inlined function with a closure.
    InClosure {
        /// The closure's name.
        closure: String,
        /// Whether the debug information shows an `async fn`.
        is_known: bool,
    },
    /// The compiler put the function's beginning into its callers, and left only parts.
    Parts {
        /// Their names, at least one.
        parts: Vec<String>,
    },
    /// Every call to it was replaced by its code.
    Inlined {
        /// The number of places; at least one.
        places: usize,
    },
}

impl FunctionNotFound {
    /// The error for a name without a file.
    pub(crate) fn nowhere(function: &str) -> Self {
        let function = function.to_owned();
        Self { function, files: vec!["any file".to_owned()], why: AbsenceReason::Plain, similar: Vec::new() }
    }

    fn because(&self) -> String {
        match self.why {
            AbsenceReason::Plain => String::new(),
            AbsenceReason::Imported => {
                ": the file calls it from a library: name that library, such as libc:".to_owned()
                    + &self.function
            }
            AbsenceReason::Data => ": it is data, not code".to_owned(),
            AbsenceReason::Stripped { exported: 0 } => {
                ": the file is stripped and exports no function: install its debug file, or build it without \
                 stripping"
                    .to_owned()
            }
            AbsenceReason::Stripped { exported } => format!(
                ": the file is stripped, and only its {exported} exported functions have names: install its debug file, or \
                 build it without stripping"
            ),
            AbsenceReason::Damaged { ref file, table } => format!(
                ": {} is damaged: its table of names, {table}, contradicts itself and was left out",
                file.display()
            ),
            AbsenceReason::NoDebug => {
                ": no debug information here would show whether the compiler inlined it: if it did, \
                 probe a caller; building with -g says so"
                    .to_owned()
            }
            AbsenceReason::Interpreted(Interpreter::Python) => {
                ": it runs Python, whose functions wakepath drill follows as python:FUNCTION".to_owned()
            }
            AbsenceReason::Interpreted(language) => format!(
                ": it runs {language}, whose functions are compiled while it runs: functions of {language} are not supported"
            ),
            AbsenceReason::InClosure { ref closure, is_known: true } => {
                format!(": it is an async fn, whose body is `{closure}`: name it; each poll is a call")
            }
            AbsenceReason::InClosure { ref closure, is_known: false } => format!(
                ": if it is an async fn, its body is `{closure}`: name it, each poll is a call; otherwise the compiler inlined it: \
                 probe a caller"
            ),
            AbsenceReason::Parts { ref parts } => format!(
                ": the compiler put its beginning into its callers, and only `{}` is left, which calls ending in the beginning \
                 do not reach: probe a caller, or name the part",
                parts.join("`, `")
            ),
            AbsenceReason::Inlined { places } => format!(
                ": the compiler inlined it into its callers ({places} {}), so there is no function to probe: probe a \
                 caller, or build it with __attribute__((noinline)) or #[inline(never)]",
                if places == 1 { "place" } else { "places" }
            ),
        }
    }

    fn hint(&self) -> String {
        match self.similar.is_empty() {
            true => String::new(),
            false => format!("; similar: {}", self.similar.join(", ")),
        }
    }
}

/// A function that exists but cannot be probed.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("cannot probe `{name}` in {file}: {why}")]
pub struct Refusal {
    /// The function.
    pub name: String,
    /// Its file.
    pub file: String,
    /// The reason.
    pub why: RefusalReason,
}

/// The reason why a function cannot be probed.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum RefusalReason {
    /// An IFUNC: the symbol is not the function.
    #[error("{}", chooser(.implementations))]
    Ifunc {
        /// Names of the implementations, where the file has them; may be empty.
        implementations: Vec<String>,
    },
    /// Its address is in no executable part of the file.
    #[error("its address {address:#x} is outside the code of the file")]
    NotCode {
        /// The address in its symbol.
        address: u64,
    },
    /// The bytes at its entry are no instruction.
    #[error(
        "the bytes at its entry {address:#x} are not an instruction: the file may be damaged, or this is not code"
    )]
    NoInstruction {
        /// The entry's address.
        address: u64,
    },
    /// The kernel refuses a uprobe on its first instruction.
    #[error(
        "the kernel does not allow a probe on its first instruction ({instruction}); probe a caller, or a function that it calls"
    )]
    Instruction {
        /// The instruction's bytes.
        instruction: String,
    },
    /// A loop jumps to the place for the probe.
    #[error("a loop jumps back to its entry, so that each iteration would count as a call; probe a caller")]
    LoopToEntry,
    /// A 5-byte no-operation, not at the entry.
    #[error(
        "its entry probe would be on a 5-byte no-operation, where Linux 6.18 puts a call that may overwrite data below the function's stack pointer; probe a caller"
    )]
    InnerNop,
    /// A kernel function that has to be left alone.
    #[error("{why}; probe a caller, or a function that it calls")]
    Kernel {
        /// The reason.
        why: &'static str,
    },
    /// The symbol is a place inside another function.
    #[error("it is a label inside `{outer}`, which also runs through it without a call; probe `{outer}`")]
    Inside {
        /// The function around it.
        outer: String,
    },
    /// The address is amid a function.
    #[error(
        "no function begins there: the address is in `{outer}`, which begins at {begins:#x}; probe its beginning"
    )]
    Amid {
        /// The function around it.
        outer: String,
        /// The address at which it begins.
        begins: u64,
    },
    /// Nothing in the file shows a function at the address.
    #[error(
        "nothing in the file shows a function's beginning there: no symbol, and no entry in its table for unwinding"
    )]
    NoBeginning,
    /// The table for unwinding has a piece of code with a stack in use at its beginning.
    #[error(
        "the stack is in use there: a function jumps to this part and never calls it; probe the function"
    )]
    UnnamedPart,
    /// The seldom run part of a function, stored elsewhere.
    #[error("it is the cold part of `{of}`, which is jumped to and never called; probe `{of}`")]
    ColdPart {
        /// The whole function.
        of: String,
    },
    /// It returns twice, and keeps its return address.
    #[error(
        "it keeps its return address for a second return, as setjmp does, which a return probe would break; probe a caller"
    )]
    ReturnsTwice,
    /// A Go function with a return that cannot be probed.
    #[error(
        "the returns of a Go function can be probed only at its RET instructions, but {why}; probe a caller"
    )]
    GoReturns {
        /// The obstacle.
        why: String,
    },
    /// A Go function that does not show a probe which goroutine calls it.
    #[error(
        "calls of Go functions are matched by goroutine, but {}; probe a caller",
        if *.old { "Go before 1.18 does not keep it in r14" } else { "this function does not keep it in r14" }
    )]
    NoGoroutine {
        /// Whether Go itself is too old; else the function is written in assembler.
        old: bool,
    },
    /// A function that exceptions may pass, with a return that cannot be probed.
    #[error(
        "a return probe would crash the program if an exception passes it, so its returns can be probed only at its RET instructions, but {why}; probe a caller, or use --no-exceptions if no exception passes it"
    )]
    ExceptionReturns {
        /// The obstacle.
        why: String,
    },
    /// A function in a file that switches stacks, with a return that cannot be probed.
    #[error(
        "a return probe would crash the program if the stack is switched within it, so its returns can be probed only at its RET instructions, but {why}; probe a caller, or use --no-exceptions if no stack is switched within it"
    )]
    SwitchReturns {
        /// The obstacle.
        why: String,
    },
}

fn chooser(implementations: &[String]) -> String {
    let what = "its symbol is an IFUNC, which chooses an implementation when it is linked and is not called afterwards";
    match implementations {
        [] => format!(
            "{what}; the file does not name the implementations: install its debug file, or probe a caller"
        ),
        names => format!("{what}; probe the implementations: {}", names.join(", ")),
    }
}
