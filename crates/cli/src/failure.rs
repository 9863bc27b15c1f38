//! Failures: what went wrong and what to do next, printed to stderr, with the exit code.

use std::fmt;
use std::process::ExitCode;

use wakepath_engine::{OpenError, QueryError, RecordingError};

use crate::exit_code::Code;
use crate::output::Output;

/// The reason why there is no answer.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    /// The sentence with the cause.
    text: String,
    /// Further lines, such as candidates.
    details: Vec<String>,
    /// A hint: what to do next.
    hint: Option<String>,
}

impl Failure {
    /// A failure with this code and sentence.
    pub fn new(code: Code, text: impl fmt::Display) -> Self {
        Self { code, text: text.to_string(), details: Vec::new(), hint: None }
    }

    /// Adds the next step as a hint; nothing if the hint is empty.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        self
    }

    /// Beside a command, gives each of wakepath's own failures the same exit code; a command that cannot run or was not
    /// found keeps its code.
    #[cfg(feature = "collect")]
    pub fn beside(mut self, command: &[std::ffi::OsString]) -> Self {
        if !command.is_empty() {
            self.code = self.code.max(Code::BesideCommand);
        }
        self
    }

    /// Adds further lines.
    pub fn details(mut self, details: Vec<String>) -> Self {
        self.details = details;
        self
    }

    /// Prints the failure to stderr, and returns its exit code.
    pub fn report(&self, output: &Output) -> ExitCode {
        output.complain("error", &self.text);
        for detail in &self.details {
            output.complain("", detail);
        }
        if let Some(hint) = &self.hint {
            output.complain("hint", hint);
        }
        self.code.into()
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Code::Input, format!("cannot write: {error}"))
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let hint = match &error {
            OpenError::Recording(RecordingError::Io { source, .. }) => match source.kind() {
                std::io::ErrorKind::NotFound => "record one: sudo wakepath record -- COMMAND",
                std::io::ErrorKind::PermissionDenied => {
                    "a recording is readable only by the user who made it: read it as that user, or with sudo"
                }
                _ => "",
            },
            OpenError::Recording(RecordingError::NotARecording { .. }) => {
                "give the directory that wakepath record wrote (by default ./wakepath.rec), the directory of an LTTng \
                 trace, a perf.data, a trace.dat, a Perfetto trace, or text of these tracers"
            }
            OpenError::Recording(RecordingError::Newer { .. }) => {
                "read it with the version of wakepath that wrote it, or a later one"
            }
            OpenError::Recording(RecordingError::Metadata { .. }) => {
                "its metadata is damaged; the streams beside it may still be whole"
            }
            OpenError::UnknownFile(_) => {
                "a file must be a perf.data, a trace.dat, a Perfetto trace, or the text that ftrace, trace-cmd report or perf script print, \
                 unpacked; wakepath record and LTTng write directories"
            }
            OpenError::EmptyFile(_)
            | OpenError::Trace(_)
            | OpenError::OneHost { .. }
            | OpenError::OneName { .. } => "",
        };
        Self::new(Code::Input, &error).hint(hint)
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        let hint = match &error {
            QueryError::NoSuch { .. } => {
                "wakepath info shows what was recorded; without an option, wakepath path lists the threads of a \
                 recording that was not made for one command"
            }
            QueryError::Several { .. } => "choose one with --tid, or answer for each with --all",
            QueryError::NoSuchHost { .. } => "give the recording of each host, and one of these names",
            QueryError::SeveralHosts(_) => "name the host by its boot id, which wakepath info shows",
            QueryError::EmptyWindow => "wakepath info shows when the recording began and ended",
            QueryError::NoRealtime => "",
            QueryError::NoEvents => "the recording was cut off before anything was written; record again",
        };
        let code = if matches!(error, QueryError::NoEvents) { Code::Input } else { Code::Usage };
        Self::new(code, &error).hint(hint)
    }
}
