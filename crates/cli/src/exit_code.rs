//! The program's exit codes and their meaning; scripts build on them.

use std::process::ExitCode;

use wakepath_engine::{Head, Severity};

/// A nonzero exit code of wakepath itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// There is an answer, but losses or other problems affect it (`--strict`).
    Doubtful = 1,
    /// Wrong usage.
    Usage = 2,
    /// A file cannot be read or written.
    Input = 3,
    /// Privileges or kernel features are missing.
    Rights = 4,
    /// Any failure by wakepath itself beside a command; otherwise the command's own code is passed on.
    BesideCommand = 125,
    /// The command cannot be run, as shells report it.
    CannotRun = 126,
    /// The command was not found, as shells report it.
    NotFound = 127,
}

/// Each exit code with its meaning, as the help and the manual page print them.
pub const MEANINGS: [(&str, &str); 8] = [
    ("0", "There is an answer."),
    ("1", "There is an answer, but lost records or other problems affect it (only with --strict)."),
    ("2", "Wrong usage."),
    ("3", "A recording or another file cannot be read or written."),
    ("4", "Privileges or kernel features are missing."),
    ("125", "With a command, whose own code is passed on: wakepath failed."),
    ("126", "The command cannot be run."),
    ("127", "The command was not found."),
];

/// The lines of [`MEANINGS`] for the program's help.
pub fn help() -> String {
    let lines = MEANINGS.map(|(code, meaning)| format!("  {code:<4} {meaning}\n"));
    format!("Exit codes:\n{}", lines.concat().trim_end())
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// Whether losses or problems affect the answer.
pub fn is_doubtful(head: &Head) -> bool {
    !head.losses.is_empty() || head.problems.iter().any(|problem| problem.severity() > Severity::Note)
}

/// The exit code for an answer.
pub fn for_answer(doubtful: bool, strict: bool) -> ExitCode {
    if doubtful && strict { Code::Doubtful.into() } else { ExitCode::SUCCESS }
}
