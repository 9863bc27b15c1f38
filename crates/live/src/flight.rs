//! The flight recorder: the request for it, and its parts.

mod linked;
mod slow;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wakepath_collect::{FlightOptions, OpenSpans};
pub use wakepath_collect::{KeptRecording, Moment};
pub use wakepath_recording::ClockReading;
use wakepath_recording::flight::{FlightDirectory, FlightLimits, KeptLimits, Triggers};
pub use wakepath_recording::flight::{
    FlightSpans, KeptWindow, TriggerCause, is_written, kept_recordings, recorder,
};
use wakepath_recording::{HostIdentity, Options, WriteError};

pub use linked::{AskError, LinkedRecording, Recorder, Way, now, shared_moment};
pub use slow::{NotAThreshold, SlowSpan, SlowSpans, SpanThreshold};

/// A request for a flight recorder.
pub struct FlightRequest {
    /// The kept time before a trigger.
    pub before: Duration,
    /// The kept time after a trigger.
    pub after: Duration,
    /// The time behind a kept recording in which only a user's triggers count.
    pub rest: Duration,
    /// The memory for records and spans, bytes; spans may take an eighth.
    pub memory: usize,
    /// The most kept recordings; the oldest go.
    pub recordings: usize,
    /// The time after which an open span triggers, if a thread still works for it by its context in memory.
    pub longest_open: Option<Duration>,
    /// The slow spans that trigger, where spans come.
    pub slow: SlowSpans,
    /// A callback for each trigger whose recording will be kept, unless a linked recorder asked for it. Its argument is the trigger's
    /// time, ns since 1970.
    pub taken: Box<dyn FnMut(u64) + Send>,
    /// A callback for each kept recording.
    pub kept: Box<dyn FnMut(KeptRecording) + Send>,
}

impl fmt::Debug for FlightRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightRequest").field("before", &self.before).finish_non_exhaustive()
    }
}

/// The reason why a flight recorder does not begin: a kept recording could lack room, just when it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a kept recording may take {needs} bytes with {memory} bytes of memory, and all of them together may take {most} bytes"
)]
pub struct NoRoomToKeep {
    /// The maximum size of a kept recording, bytes.
    pub needs: u64,
    /// The memory for records and spans, bytes.
    pub memory: u64,
    /// The kept recordings' maximum size together, bytes.
    pub most: u64,
}

impl NoRoomToKeep {
    /// The maximum memory at which a kept recording has room, bytes.
    pub const fn largest_memory(&self) -> u64 {
        self.most - self.most.div_ceil(PART_OF_DISK)
    }
}

impl FlightRequest {
    /// Checks that a kept recording has room where all kept recordings together may take `most` bytes.
    ///
    /// # Errors
    /// When it may have none.
    pub fn check_room(&self, most: u64) -> Result<(), NoRoomToKeep> {
        let memory = self.memory as u64;
        let needs = memory.saturating_add(memory.div_ceil(PART_OF_DISK - 1));
        if needs > most { Err(NoRoomToKeep { needs, memory, most }) } else { Ok(()) }
    }

    /// The memory for spans, bytes.
    const fn bytes_for_spans(&self) -> usize {
        self.memory / PART_FOR_SPANS
    }

    /// The limits of the memory for records; `with_spans`: spans take a part.
    fn limits(&self, with_spans: bool) -> FlightLimits {
        let of_spans = if with_spans { self.bytes_for_spans() } else { 0 };
        FlightLimits { window_ns: self.window_ns(), bytes: self.memory - of_spans }
    }

    /// The time in memory: the time before a trigger is needed until the trigger's window has ended.
    fn window_ns(&self) -> u64 {
        ns(self.before.saturating_add(self.after).saturating_add(SLACK))
    }

    fn triggers(&self) -> Triggers {
        Triggers::new(ns(self.after), ns(self.rest)).with_before(ns(self.before))
    }

    fn kept_limits(&self, most: u64) -> KeptLimits {
        KeptLimits { recordings: self.recordings.max(1), bytes: most }
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Spans may take this part of the memory: an eighth.
const PART_FOR_SPANS: usize = 8;
/// A fifth of a kept recording may come on top of the memory's bytes: the smallest recording's packets are larger on disk by a fifth, and
/// records arrive until it is written.
const PART_OF_DISK: u64 = 5;
/// The most causes waiting for the recorder: while it writes, only the first causes matter.
const MAX_WAITING_CAUSES: usize = 16;
/// Extra time in the window: records are held back until no earlier record can come, and the window moves in steps.
const SLACK: Duration = Duration::from_millis(500);

/// A flight recorder at its start, with its ends towards the spans.
pub(crate) struct Flight {
    request: FlightRequest,
    causes: Receiver<TriggerCause>,
    cause: SyncSender<TriggerCause>,
    spans: Option<Arc<Mutex<FlightSpans>>>,
}

/// A flight recorder's receiving end for spans.
#[derive(Debug)]
pub(crate) struct SpanEnd {
    slow: SlowSpans,
    memory: Arc<Mutex<FlightSpans>>,
    cause: SyncSender<TriggerCause>,
}

impl SpanEnd {
    /// Takes a message with spans, which arrived now.
    pub(crate) fn take(&mut self, message: &[u8], now: ClockReading) {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).push(now.monotonic_ns, message);
        if let Some(slow) = self.slow.in_message(message) {
            let ago = now.realtime_ns.saturating_sub(slow.from_realtime_ns);
            let since = now.monotonic_ns.saturating_sub(ago);
            let cause = TriggerCause {
                text: slow.text,
                word: slow.word,
                since: Some(since),
                asked: false,
                linked: false,
            };
            // Where many causes wait already, a waiting cause keeps these seconds.
            let _ = self.cause.try_send(cause);
        }
    }
}

impl Flight {
    /// `with_spans`: spans come too.
    pub(crate) fn new(request: FlightRequest, with_spans: bool) -> Self {
        let (cause, causes) = sync_channel(MAX_WAITING_CAUSES);
        let spans = FlightSpans::new(request.window_ns(), request.bytes_for_spans());
        let spans = with_spans.then(|| Arc::new(Mutex::new(spans)));
        Self { request, causes, cause, spans }
    }

    /// The end for spans, if spans come.
    pub(crate) fn span_end(&mut self) -> Option<SpanEnd> {
        let slow = std::mem::take(&mut self.request.slow);
        Some(SpanEnd { slow, memory: self.spans.clone()?, cause: self.cause.clone() })
    }

    /// Opens the directory for kept recordings.
    pub(crate) fn open(
        self,
        path: &Path,
        max_bytes: u64,
        options: Options,
        host: HostIdentity,
    ) -> Result<FlightOptions, WriteError> {
        let Self { request, causes, cause, spans } = self;
        let release = host.kernel_release.clone();
        Ok(FlightOptions {
            limits: request.limits(spans.is_some()),
            triggers: request.triggers(),
            directory: FlightDirectory::open(path, request.kept_limits(max_bytes), options, host)?,
            causes,
            open_spans: request.longest_open.map(|longest| OpenSpans { longest, causes: cause }),
            spans,
            release,
            taken: request.taken,
            kept: request.kept,
        })
    }
}

/// The reason why no recorder could be asked to keep a recording.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum TriggerError {
    #[error("cannot read {}: {error}", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    #[error("no flight recorder writes into {}", .0.display())]
    NoRecorder(PathBuf),
    #[error("cannot signal process {pid}, the flight recorder of {}: {error}", path.display())]
    Signal { path: PathBuf, pid: i32, error: std::io::Error },
}

/// Asks the flight recorder that writes into the directory `path` to keep the time around `moment`. Returns its process id.
///
/// # Errors
/// When no recorder writes there, or another user runs it.
pub fn trigger(path: &Path, moment: Moment) -> Result<i32, TriggerError> {
    let found = recorder(path).map_err(|error| TriggerError::Io { path: path.to_owned(), error })?;
    let pid = found.ok_or_else(|| TriggerError::NoRecorder(path.to_owned()))?;
    wakepath_collect::ask_to_keep(pid, moment).map_err(|error| TriggerError::Signal {
        path: path.to_owned(),
        pid,
        error,
    })?;
    Ok(pid)
}

#[cfg(test)]
mod tests;
