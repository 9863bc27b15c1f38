//! The formats of recordings, and opening a recording of any of them.

use std::fmt;
use std::path::{Path, PathBuf};

use wakepath_event::{Description, Event, EventSource, RecordingFormat};
use wakepath_import::{Lttng, PerfData, TraceDat};
use wakepath_recording::Recording;

use crate::ProblemKind;

/// Why a recording cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum OpenError {
    #[error(transparent)]
    Recording(#[from] wakepath_recording::OpenError),
    #[error(transparent)]
    Trace(#[from] wakepath_import::OpenError),
    #[error("{} is neither a perf.data nor a trace.dat", .0.display())]
    UnknownFile(PathBuf),
    #[error("{} and {} are of one host, {host}: give one recording of each host", .first.display(), .second.display())]
    OneHost { first: PathBuf, second: PathBuf, host: String },
}

/// An opened recording of any format: an [`EventSource`] whose type is erased.
pub(crate) trait Source: fmt::Debug + Send + Sync {
    /// The same as [`EventSource::description`].
    fn description(&self) -> &Description;
    /// The same as [`EventSource::read`].
    fn read(&self, emit: &mut dyn FnMut(&Event), progress: &mut dyn FnMut(u64)) -> Vec<ProblemKind>;
}

impl<T: EventSource<Damage: Into<ProblemKind>> + fmt::Debug + Send + Sync> Source for T {
    fn description(&self) -> &Description {
        EventSource::description(self)
    }

    fn read(&self, emit: &mut dyn FnMut(&Event), progress: &mut dyn FnMut(u64)) -> Vec<ProblemKind> {
        EventSource::read(self, emit, progress).into_iter().map(Into::into).collect()
    }
}

/// A format that is read.
struct Format {
    recognises: fn(&Path) -> bool,
    open: fn(&Path) -> Result<Box<dyn Source>, OpenError>,
}

impl Format {
    const fn new<T: RecordingFormat + Source + 'static>() -> Self
    where
        OpenError: From<T::Error>,
    {
        Self { recognises: T::recognises, open: |path| Ok(Box::new(T::open(path)?)) }
    }
}

/// The formats that are read, in the order in which they are tried.
const FORMATS: [Format; 4] = [
    Format::new::<Recording>(),
    Format::new::<Lttng>(),
    Format::new::<TraceDat>(),
    Format::new::<PerfData>(),
];

/// Opens what is at `path` by the first format that recognises it.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Source>, OpenError> {
    match FORMATS.iter().find(|format| (format.recognises)(path)) {
        Some(format) => (format.open)(path),
        None if path.is_file() => Err(OpenError::UnknownFile(path.to_owned())),
        // A directory: the more usual mistake is about a recording of ours, which says what it lacks.
        None => Ok(Box::new(Recording::open(path)?)),
    }
}
