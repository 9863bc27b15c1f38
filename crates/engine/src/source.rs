//! The recordings' formats, and opening a recording in any format.

use std::path::{Path, PathBuf};

use wakepath_event::{Damage, Description, Event, EventSource, RecordingFormat};
use wakepath_import::{Lttng, PerfData, PerfettoTrace, TextTrace, TraceDat};
use wakepath_recording::{GoTraceFile, ReadProblem, Recording};

use crate::ProblemKind;

/// The error for a wholly unreadable recording.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum OpenError {
    #[error(transparent)]
    Recording(#[from] wakepath_recording::OpenError),
    #[error(transparent)]
    Trace(#[from] wakepath_import::OpenError),
    #[error("{} is neither a perf.data nor a trace.dat nor a Perfetto trace, nor text of ftrace, trace-cmd or perf", .0.display())]
    UnknownFile(PathBuf),
    #[error("{} is empty: nothing was written", .0.display())]
    EmptyFile(PathBuf),
    #[error("{} and {} are of one host, {host}: give one recording of each host", .first.display(), .second.display())]
    OneHost { first: PathBuf, second: PathBuf, host: String },
    #[error(
        "{} and {} are of hosts with one name, {host}, and of different runs of {tracer}: give the parts of one run, or one \
             recording of each host", .first.display(), .second.display()
    )]
    OneName { first: PathBuf, second: PathBuf, host: String, tracer: &'static str },
}

/// A damage as a problem of the answer.
trait IsProblem {
    fn problem(self) -> ProblemKind;
}

impl IsProblem for ReadProblem {
    fn problem(self) -> ProblemKind {
        ProblemKind::Recording(self.into())
    }
}

impl IsProblem for Damage {
    fn problem(self) -> ProblemKind {
        ProblemKind::Trace(self)
    }
}

/// Makes a type from the list of formats. Each method is compiled for each format: a call through a trait object for
/// each event costs some percent of the reading time.
macro_rules! formats {
    ($($format:ident),*) => {
        /// An opened recording in any format.
        #[derive(Debug)]
        pub(crate) enum Source {
            $($format(Box<$format>)),*
        }

        impl EventSource for Source {
            type Damage = ProblemKind;

            fn description(&self) -> &Description {
                match self { $(Self::$format(source) => source.description()),* }
            }

            fn read(&self, emit: impl FnMut(&Event), progress: impl FnMut(u64)) -> Vec<ProblemKind> {
                match self {
                    $(Self::$format(source) => {
                        source.read(emit, progress).into_iter().map(IsProblem::problem).collect()
                    }),*
                }
            }
        }

        impl Source {
            /// Opens the recording at `path` by the first format that recognises it.
            pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
                $(if $format::recognises(path) {
                    return Ok(Self::$format(Box::new($format::open(path)?)));
                })*
                if path.is_file() {
                    if path.metadata().is_ok_and(|data| data.len() == 0) {
                        return Err(OpenError::EmptyFile(path.to_owned()));
                    }
                    return Err(OpenError::UnknownFile(path.to_owned()));
                }
                // A directory: the more usual mistake is about a wakepath recording, whose error names the missing
                // parts.
                Ok(Self::Recording(Box::new(Recording::open(path)?)))
            }

            /// Opens the parts of a recording, or a recording alone.
            pub(crate) fn open_parts(parts: &[PathBuf]) -> Result<Self, OpenError> {
                match parts {
                    [path] => Self::open(path),
                    parts => Ok(Self::PerfData(Box::new(PerfData::open_parts(parts)?))),
                }
            }

            /// Whether any format recognises the file at `path`.
            fn recognises(path: &Path) -> bool {
                $($format::recognises(path))||*
            }
        }
    };
}

impl Source {
    /// Go programs' execution traces in the recording.
    pub(crate) fn go_traces(&self) -> Vec<GoTraceFile> {
        match self {
            Self::Recording(recording) => recording.go_traces(),
            _ => Vec::new(),
        }
    }
}

/// Whether the file or directory at `path` looks like a recording in any format; it may be damaged all the same.
pub fn is_recording(path: &Path) -> bool {
    // A format may recognise a missing path, so that its error names the missing parts.
    path.exists() && Source::recognises(path)
}

// The readable formats, in the order in which they are tried.
formats!(Recording, Lttng, TraceDat, PerfData, PerfettoTrace, TextTrace);
