//! A function and its probes.

use std::fmt;
use std::path::PathBuf;

use crate::instruction::ProbeMethod;

/// A function in a file, at one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The file's path as its processes see it.
    pub shown: PathBuf,
    /// Its names in the symbol table, at least one, the requested names first; with the version if it is not the
    /// default (`memcpy@GLIBC_2.2.5`).
    pub names: Vec<String>,
    /// The first name as its language writes it: `foo::bar(int)`.
    pub readable: String,
    /// Its address in the file, before any loading.
    pub address: u64,
    /// Its size, bytes; 0 if its symbol does not state it.
    pub size: u64,
    /// The probes that see its calls.
    pub probe: Probe,
    /// Limits to the meaning of its counts.
    pub notes: Vec<FunctionNote>,
}

/// A function's probes: the places where its calls are seen to begin and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The file to give to the kernel; below `/proc/PID` if a process has another root, or has a deleted file mapped.
    pub file: PathBuf,
    /// The entry probe's place, bytes from the file's beginning. The stack pointer there still points to the return
    /// address.
    pub offset: u64,
    /// The kernel's method to execute the instruction there. For the returns, it follows from [`Return`].
    pub method: ProbeMethod,
    /// The way to see returns.
    pub returns: Return,
    /// The rules that the function's stack obeys.
    pub runtime: Runtime,
    /// Whether the file switches stacks, so that a call may return before one that began later in its thread.
    pub switches: bool,
}

/// The way to see a function's return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Return {
    /// By a return probe at the entry probe's offset, which replaces the return address on the stack.
    ReturnProbe,
    /// By probes at these offsets in the file, each a `ret`, at a cost of [`ProbeMethod::SingleStepped`] each.
    AtInstructions(Vec<u64>),
    /// Behind the calls of it: its callers' addresses are learned as they call. For a function that must not have its return address replaced,
    /// and may leave by a jump. Each costs a [`ProbeMethod::SingleStepped`].
    AtCallers,
    /// Never: it does not return.
    Never,
}

/// The rules that a function's stack obeys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Runtime {
    /// C's rules: a thread has a stack, and a call returns in its thread.
    Native,
    /// Go's: stacks move, so that a return address must not be replaced; and a call may return in another
    /// thread, so that entry and return are joined by goroutine (`r14` at both, in Go's own functions).
    Go,
    /// The kernel's: calls are seen in the caller's code, and a place on a kernel stack is no place on a user stack.
    Kernel,
    /// The Python interpreter's: the same pair of places sees all calls, and a call belongs to a frame in the
    /// interpreter.
    Python,
}

/// A limit to the meaning of a function's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FunctionNote {
    /// `main` and its like: called once, so that there is no distribution.
    CalledOnce,
    /// It does not return: calls have a beginning alone.
    NeverReturns,
    /// An exception may pass through it, so that its returns are seen at its `ret` instructions, which cost more than a
    /// return probe; the end of a call by an exception is seen only later.
    ExceptionsPass,
    /// Its returns are seen behind the calls of it: the first calls from each place are not counted.
    CallersLearned,
    /// A thread may go on on another stack within it, so that its returns are seen at its `ret` instructions.
    StacksSwitch,
    /// The number of places where the debug information shows it inlined: calls there are not seen.
    AlsoInlined(usize),
    /// The compiler made this copy for some callers; others may call another copy.
    Copy,
    /// The compiler put the function's beginning into its callers: calls that end there are unseen.
    PartlyInlined,
}

impl fmt::Display for FunctionNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::AlsoInlined(places) => {
                let noun = if *places == 1 { "place" } else { "places" };
                return write!(
                    f,
                    "the compiler also inlined it into its callers ({places} {noun}): calls there are not seen"
                );
            }
            Self::ExceptionsPass => {
                "a return probe may crash the program if an exception passes it, so each RET instruction is probed, \
                 which costs more; a call that an exception ends counts as never returned at the thread's next call, or at its end"
            }
            Self::CallersLearned => {
                "it may leave by a jump, so each place behind a call of it is probed, which costs more; the first calls \
                 from each place are not counted, and a call that an exception ends counts as never returned at the \
                 thread's next call, or at its end"
            }
            Self::StacksSwitch => {
                "a return probe may crash the program because its file switches stacks, so each RET instruction is \
                 probed, which costs more; at most eight open calls of a thread are counted, and a call that \
                 continues in another thread counts as not ended or as never returned"
            }
            Self::CalledOnce => "called once in a process: it has one duration, not a distribution",
            Self::NeverReturns => "never returns: its calls have no duration",
            Self::Copy => {
                "the compiler made this copy for some of the callers; other callers may call another copy"
            }
            Self::PartlyInlined => {
                "the compiler inlined its beginning into its callers: calls that end there are not seen"
            }
        };
        f.write_str(text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::FunctionNote::{
        AlsoInlined, CalledOnce, CallersLearned, Copy, ExceptionsPass, NeverReturns, PartlyInlined,
        StacksSwitch,
    };

    #[test]
    fn each_note_has_a_sentence_of_its_own() {
        let all = [
            CalledOnce,
            CallersLearned,
            NeverReturns,
            ExceptionsPass,
            StacksSwitch,
            Copy,
            PartlyInlined,
            AlsoInlined(2),
        ];
        let sentences: BTreeSet<_> = all.map(|note| note.to_string()).into_iter().collect();
        assert!(sentences.len() == all.len() && sentences.iter().all(|one| one.len() > 20), "{sentences:?}");
        assert!(AlsoInlined(1).to_string().contains("(1 place)"));
        assert!(AlsoInlined(2).to_string().contains("(2 places)"));
    }
}
