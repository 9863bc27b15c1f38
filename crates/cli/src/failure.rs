//! How failures are told: what, and what to do; and the code that scripts see.

use std::fmt;
use std::process::ExitCode;

use wakepath_engine::{OpenError, QueryError};

use crate::output::Output;

/// Why there is no answer.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    /// What went wrong.
    text: String,
    /// Lines that belong to it: candidates, details.
    details: Vec<String>,
    /// What to do next.
    hint: Option<String>,
}

/// Exit codes; scripts build on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Answered, with losses or doubts (`--strict`).
    Doubtful = 1,
    /// Wrong usage.
    Usage = 2,
    /// Input that cannot be read.
    Input = 3,
    /// Rights or kernel features missing.
    Rights = 4,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

impl Failure {
    /// A failure with this code and sentence.
    pub fn new(code: Code, text: impl fmt::Display) -> Self {
        Self { code: code as u8, text: text.to_string(), details: Vec::new(), hint: None }
    }

    /// With what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With this code instead, unless it has one that is not among [`Code`].
    #[cfg(feature = "collect")]
    pub fn or_code(mut self, code: u8) -> Self {
        if self.code <= Code::Rights as u8 {
            self.code = code;
        }
        self
    }

    /// With lines that belong to it.
    pub fn details(mut self, details: Vec<String>) -> Self {
        self.details = details;
        self
    }

    /// Tells it on stderr.
    pub fn tell(&self, output: &Output) -> ExitCode {
        output.complain("error", &self.text);
        for detail in &self.details {
            output.complain("", detail);
        }
        if let Some(hint) = &self.hint {
            output.complain("hint", hint);
        }
        ExitCode::from(self.code)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Code::Input, format!("cannot write: {error}"))
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        use wakepath_engine::{PerfDataError, RecordingError as Recording};
        let hint = match &error {
            OpenError::Recording(Recording::Io { source, .. }) => match source.kind() {
                std::io::ErrorKind::NotFound => "record one: sudo wakepath record -- COMMAND",
                std::io::ErrorKind::PermissionDenied => {
                    "a recording is private: read it as who made it, or with sudo"
                }
                _ => "",
            },
            OpenError::Recording(Recording::NotARecording { .. }) => {
                "give the directory that wakepath record wrote, ./wakepath.rec by default, that of an LTTng trace, a perf.data or a trace.dat"
            }
            OpenError::Recording(Recording::Newer { .. }) => {
                "read it with the wakepath that wrote it, or a later one"
            }
            OpenError::Recording(Recording::Metadata { .. }) => {
                "its metadata is damaged; the streams beside it may still be whole"
            }
            OpenError::PerfData(PerfDataError::NotPerfData(_)) => {
                "of files, a perf.data and a trace.dat are read; what wakepath record and LTTng write are directories"
            }
            OpenError::Trace(_)
            | OpenError::PerfData(_)
            | OpenError::TraceDat(_)
            | OpenError::OneHost { .. } => "",
        };
        let failure = Self::new(Code::Input, &error);
        if hint.is_empty() { failure } else { failure.hint(hint) }
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        let hint = match &error {
            QueryError::NoSuch { .. } => {
                "wakepath path lists the threads where the recording has no single command; wakepath info says what is in it"
            }
            QueryError::Several { .. } => "choose one with --tid, or answer for each with --all",
            QueryError::NoSuchHost { .. } => "give each host's recording, and one of these names",
            QueryError::SeveralHosts(_) => "name one by its boot id, which wakepath info says",
            QueryError::EmptyWindow => "wakepath info says when the recording began and ended",
            QueryError::NoRealtime(_) => "",
            QueryError::NoEvents => "it was cut off before anything was written; record again",
        };
        let code = if matches!(error, QueryError::NoEvents) { Code::Input } else { Code::Usage };
        let failure = Self::new(code, &error);
        if hint.is_empty() { failure } else { failure.hint(hint) }
    }
}
