use std::path::{Path, PathBuf};

use wakepath_clock::{Local, Stamp};
use wakepath_event::Event;
use wakepath_import::{Clock, PerfData, PerfDataError, Trace, TraceDat, TraceDatError};
use wakepath_recording::Recording;

use crate::{Format, Host, Name, ProblemKind};

/// Why something cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum OpenError {
    #[error(transparent)]
    Recording(#[from] wakepath_recording::OpenError),
    #[error(transparent)]
    Trace(#[from] wakepath_import::OpenError),
    #[error(transparent)]
    PerfData(#[from] PerfDataError),
    #[error(transparent)]
    TraceDat(#[from] TraceDatError),
    #[error("{} and {} are of one host, {host}: give one recording of each host", .first.display(), .second.display())]
    OneHost { first: PathBuf, second: PathBuf, host: String },
}

/// What can be asked: a recording of ours, or a trace of another tracer.
#[derive(Debug)]
pub(crate) enum Source {
    Recording(Box<Recording>),
    Trace(Box<Trace>),
    PerfData(Box<PerfData>),
    TraceDat(Box<TraceDat>),
}

impl Source {
    /// Opens what is at `path`, whatever it is.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        // The others are directories.
        if path.is_file() {
            if TraceDat::is_one(path) {
                return Ok(Self::TraceDat(Box::new(TraceDat::open(path)?)));
            }
            return Ok(Self::PerfData(Box::new(PerfData::open(path)?)));
        }
        let not_ours = match Recording::open(path) {
            Ok(recording) => return Ok(Self::Recording(Box::new(recording))),
            Err(error @ wakepath_recording::OpenError::NotARecording { .. }) => error,
            Err(error) => return Err(error.into()),
        };
        match wakepath_import::open(path) {
            Ok(trace) => Ok(Self::Trace(Box::new(trace))),
            // Neither: the more usual mistake is about a recording of ours.
            Err(wakepath_import::OpenError::NoTrace(_) | wakepath_import::OpenError::Io { .. }) => {
                Err(not_ours.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Recording(recording) => recording.path(),
            Self::Trace(trace) => trace.path(),
            Self::PerfData(trace) => trace.path(),
            Self::TraceDat(trace) => trace.path(),
        }
    }

    pub(crate) fn host(&self) -> Host {
        match self {
            Self::Recording(recording) => {
                let of = recording.host();
                Host {
                    boot_id: of.boot_id.clone(),
                    name: Name::from(of.name.as_str()),
                    kernel: Name::from(of.kernel_release.as_str()),
                    machine: Name::from(of.machine.as_str()),
                }
            }
            Self::Trace(trace) => of_trace(trace.host()),
            Self::PerfData(trace) => of_trace(trace.host()),
            Self::TraceDat(trace) => of_trace(trace.host()),
        }
    }

    /// `None` where nobody noted it.
    pub(crate) fn realtime_offset_ns(&self) -> Option<i128> {
        match self {
            Self::Recording(recording) => Some(recording.realtime_offset_ns()),
            Self::Trace(trace) => Some(trace.realtime_offset_ns()),
            Self::PerfData(trace) => trace.realtime_offset_ns(),
            Self::TraceDat(trace) => trace.realtime_offset_ns(),
        }
    }

    /// By which of its host's clocks it is.
    pub(crate) fn clock(&self) -> Clock {
        match self {
            Self::Recording(_) | Self::Trace(_) => Clock::Monotonic,
            Self::PerfData(trace) => trace.clock(),
            Self::TraceDat(trace) => trace.clock(),
        }
    }

    pub(crate) fn cgroup(&self) -> Option<Name> {
        match self {
            Self::Recording(recording) => recording.cgroup().map(Name::from),
            Self::Trace(_) | Self::PerfData(_) | Self::TraceDat(_) => None,
        }
    }

    pub(crate) fn format(&self) -> Option<Format> {
        let Self::Recording(recording) = self else { return None };
        Some(Format {
            number: recording.format(),
            writer: recording.writer_version().to_owned(),
            options: recording.options().to_owned(),
            bytes: recording.streams().iter().map(|stream| stream.bytes).sum(),
            streams: recording.streams().len(),
            // A counter is whatever a packet says.
            discarded: recording.streams().iter().map(|stream| stream.discarded).fold(0, u64::saturating_add),
        })
    }

    /// Which other tracer wrote it.
    pub(crate) fn tracer(&self) -> Option<Name> {
        match self {
            Self::Recording(_) => None,
            Self::Trace(trace) => Some(Name::from(trace.host().tracer.as_str())),
            Self::PerfData(trace) => Some(Name::from(trace.host().tracer.as_str())),
            Self::TraceDat(trace) => Some(Name::from(trace.host().tracer.as_str())),
        }
    }

    /// How much there is to read, in the unit of `progress` of [`Source::for_each`].
    pub(crate) fn expected(&self) -> u64 {
        match self {
            Self::Recording(recording) => recording.streams().iter().map(|stream| stream.records).sum(),
            Self::Trace(trace) => trace.bytes(),
            Self::PerfData(trace) => trace.bytes(),
            Self::TraceDat(trace) => trace.bytes(),
        }
    }

    /// Tells all events by time, and what is wrong with the rest.
    pub(crate) fn for_each(
        &self,
        mut tell: impl FnMut(&Event),
        mut progress: impl FnMut(u64),
    ) -> Vec<ProblemKind> {
        match self {
            Self::Recording(recording) => {
                let mut events = 0_u64;
                let damages = recording.for_each(|event| {
                    tell(event);
                    events += 1;
                    if events.is_multiple_of(PROGRESS_EVERY) {
                        progress(events);
                    }
                });
                damages.into_iter().map(ProblemKind::Recording).collect()
            }
            Self::Trace(trace) => {
                trace.for_each_with(tell, progress).into_iter().map(ProblemKind::Trace).collect()
            }
            Self::PerfData(trace) => {
                trace.for_each_with(tell, progress).into_iter().map(ProblemKind::Trace).collect()
            }
            Self::TraceDat(trace) => {
                trace.for_each_with(tell, progress).into_iter().map(ProblemKind::Trace).collect()
            }
        }
    }

    /// The stamps of the first and the last event, where that is known without reading it.
    pub(crate) fn span(&self) -> Option<(Stamp<Local>, Stamp<Local>)> {
        match self {
            Self::Recording(recording) => recording.span(),
            Self::Trace(_) => None,
            Self::PerfData(trace) => Some(trace.span()),
            Self::TraceDat(trace) => Some(trace.span()),
        }
    }
}

fn of_trace(of: &wakepath_import::Host) -> Host {
    Host {
        boot_id: of.boot_id.clone(),
        name: Name::from(of.name.as_str()),
        kernel: Name::from(of.kernel_release.as_str()),
        machine: Name::from(""),
    }
}

/// How many events pass between two calls of a progress function: a few a second.
const PROGRESS_EVERY: u64 = 1 << 21;
