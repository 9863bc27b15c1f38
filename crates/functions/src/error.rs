//! Why a file, a name or a function cannot be probed.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a file gives no functions.
#[derive(Debug, Error)]
pub enum FileError {
    /// It cannot be opened or read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// A directory, a device, a pipe.
    #[error("{path} is no regular file: name a program or a library")]
    NotRegular {
        /// Which file.
        path: PathBuf,
    },
    /// A script, run by another program.
    #[error(
        "{path} is a script that {interpreter} runs: its functions are not machine code; probe {interpreter}, or what the script calls"
    )]
    Script {
        /// Which file.
        path: PathBuf,
        /// What its first line names.
        interpreter: String,
    },
    /// Something else.
    #[error("{path} is no ELF file: name a program or a library")]
    NotElf {
        /// Which file.
        path: PathBuf,
    },
    /// A program for another machine, or of 32 bits.
    #[error("{path} holds code for {machine}, and only x86-64 is understood so far")]
    Machine {
        /// Which file.
        path: PathBuf,
        /// Which machine.
        machine: String,
    },
    /// Its own parts contradict each other.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Which part.
        what: String,
    },
}

/// Why a name stands for no file.
#[derive(Debug, Error)]
pub enum LibraryError {
    /// Nobody knows it.
    #[error(
        "no library and no program is called `{name}`: looked {looked}; name it by a path, such as ./{name}"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        looked: String,
    },
    /// Several files go by it.
    #[error("`{name}` may be any of {}: name one of them", .candidates.join(", "))]
    Several {
        /// What was asked for.
        name: String,
        /// What it may be.
        candidates: Vec<String>,
    },
    /// A process is not there, or not for us to look at.
    #[error("cannot read what process {pid} has mapped: {source}")]
    Process {
        /// Which process.
        pid: u32,
        /// What the kernel says.
        source: io::Error,
    },
    /// The code was made at run time.
    #[error(
        "{path} lists code that a runtime made in memory: no file holds it, so no probe can be put there; probe a function of the runtime itself"
    )]
    RuntimeMap {
        /// The list.
        path: PathBuf,
    },
}

/// Why a name gives no function that can be probed.
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
    NotFound(#[from] NotFound),
    /// There, but not to be probed: the first such one of what was asked for.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A pattern that means more than anyone can want.
    #[error("`{target}` means {count} functions, more than {most}: narrow the pattern")]
    TooMany {
        /// What was asked for.
        target: String,
        /// How many there are.
        count: usize,
        /// How many may be.
        most: usize,
    },
}

/// A function that is not in its file.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("no function `{function}` in {}{}{}", .files.join(" or "), self.because(), self.hint())]
pub struct NotFound {
    /// What was asked for.
    pub function: String,
    /// Where it was looked for.
    pub files: Vec<String>,
    /// What explains it.
    pub why: Absent,
    /// Similar names, the most similar first.
    pub similar: Vec<String>,
}

/// What explains that a function is not in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absent {
    /// Nothing: it is simply not there.
    Plain,
    /// The file calls it, and another one has it.
    Imported,
    /// It is data, not code.
    Data,
    /// Only the names of what it exports are left in the file.
    Stripped {
        /// How many those are.
        exported: usize,
    },
    /// Every call of it was replaced by its code.
    Inlined {
        /// In how many places; at least one.
        places: usize,
    },
}

impl NotFound {
    /// Of a name for which there is no file.
    pub(crate) fn nowhere(function: &str) -> Self {
        let function = function.to_owned();
        Self { function, files: vec!["any file".to_owned()], why: Absent::Plain, similar: Vec::new() }
    }

    fn because(&self) -> String {
        match self.why {
            Absent::Plain => String::new(),
            Absent::Imported => {
                ": the file calls it, and a library has it: name that library, such as libc:".to_owned()
                    + &self.function
            }
            Absent::Data => ": that is data there, not code".to_owned(),
            Absent::Stripped { exported: 0 } => {
                ": the file is stripped and exports no function: install its debug file, or build it without \
                 stripping"
                    .to_owned()
            }
            Absent::Stripped { exported } => format!(
                ": the file is stripped, and only the {exported} functions it exports have names: install its \
                 debug file, or build it without stripping"
            ),
            Absent::Inlined { places } => format!(
                ": the compiler put its code into its callers ({places} {}) and left no function to probe: \
                 probe a caller, or build it with __attribute__((noinline))",
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

/// A function that is there and is not to be probed.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("cannot probe `{name}` in {file}: {why}")]
pub struct Refusal {
    /// Which function.
    pub name: String,
    /// In which file.
    pub file: String,
    /// Why not.
    pub why: Reason,
}

/// Why a function is not to be probed.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum Reason {
    /// An IFUNC: the symbol is not the function.
    #[error("{}", chooser(.implementations))]
    Chooser {
        /// Names of the implementations, where the file tells; may be empty.
        implementations: Vec<String>,
    },
    /// Its address is in no executable part of the file.
    #[error("its address {address:#x} is not in code that the file holds")]
    NotCode {
        /// Where it would be.
        address: u64,
    },
    /// The bytes at its entry are no instruction.
    #[error(
        "the bytes at its entry {address:#x} are no instruction: the file may be damaged, or this is no code"
    )]
    NoInstruction {
        /// Where.
        address: u64,
    },
    /// The kernel refuses a uprobe on its first instruction.
    #[error(
        "it begins with an instruction that the kernel puts no probe on ({instruction}); probe a caller, or what it calls"
    )]
    Instruction {
        /// Its bytes.
        instruction: String,
    },
    /// A loop jumps to the place where the probe would be.
    #[error(
        "a loop inside it jumps back to its entry, so that each turn would count as a call; probe a caller"
    )]
    LoopToEntry,
    /// A 5-byte no-operation, not at the entry.
    #[error(
        "its calls are seen first at a 5-byte no-operation, where Linux 6.18 puts a call that may overwrite what the function keeps below its stack pointer; probe a caller"
    )]
    InnerNop,
    /// The symbol is a place inside another function.
    #[error("it is a place inside `{outer}`, which is passed without a call too; probe `{outer}`")]
    Inside {
        /// The function around it.
        outer: String,
    },
    /// The part of a function that was put elsewhere, for it is seldom run.
    #[error("it is the seldom run part of `{of}`, jumped to and never called; probe `{of}`")]
    ColdPart {
        /// The function it belongs to.
        of: String,
    },
    /// It returns twice, and keeps its return address.
    #[error(
        "it keeps its return address for a second return (as setjmp does), which a return probe would falsify; probe a caller"
    )]
    ReturnsTwice,
    /// A Go function whose every return cannot be probed.
    #[error("a Go function's return is seen only at its RET instructions, and {why}; probe a caller")]
    GoReturns {
        /// What is in the way.
        why: String,
    },
    /// A Go function of which it is not known at a probe which goroutine calls it.
    #[error(
        "calls of Go's functions are told apart by goroutine, and {}; probe a caller",
        if *.old { "Go before 1.18 does not keep that in r14" } else { "this one does not keep it in r14" }
    )]
    NoGoroutine {
        /// It is Go that is too old; else the function is written in assembler.
        old: bool,
    },
    /// A function through which an exception may pass, and whose every return cannot be probed.
    #[error(
        "an exception that passes it would end the program under a return probe, so its return is seen only at its RET instructions, and {why}; probe a caller, or promise with --no-exceptions that none passes"
    )]
    ExceptionReturns {
        /// What is in the way.
        why: String,
    },
    /// A function of a file that switches stacks, and whose every return cannot be probed.
    #[error(
        "its file switches stacks, which would end the program under a return probe, so its return is seen only at its RET instructions, and {why}; probe a caller, or promise with --no-exceptions that no stack is switched within it"
    )]
    SwitchReturns {
        /// What is in the way.
        why: String,
    },
}

fn chooser(implementations: &[String]) -> String {
    let what = "its symbol is an IFUNC, which chooses an implementation once, when it is linked, and is not called after";
    match implementations {
        [] => format!(
            "{what}; the file does not name the implementations: install its debug file, or probe a caller"
        ),
        names => format!("{what}; probe the implementations: {}", names.join(", ")),
    }
}
