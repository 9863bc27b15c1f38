//! The flight recorder in the thread that writes: it keeps records in memory, and writes a recording when something
//! triggers.

use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Context, Cpu, Event, EventKind, LostRecords, Tid};
use wakepath_recording::flight::{
    Asked, Cause, Flight, FlightDirectory, FlightLimits, FlightSpans, KeptWindow, Triggers,
};
use wakepath_recording::{ClockReading, WriteError};

use crate::contexts::OpenSpans;
use crate::signals::KeepAsked;
use crate::write_behind::WriteCommand;
use crate::{clocks, names, signals};

/// A recording that was kept, or why none could be.
#[derive(Debug)]
pub struct KeptRecording {
    /// Its directory.
    pub path: PathBuf,
    /// The cause.
    pub cause: Cause,
    /// Its window, if it was written.
    pub window: Result<KeptWindow, WriteError>,
    /// Whether spans of the window were dropped for want of memory.
    pub spans_short: bool,
    /// Triggers that came too soon since the last one.
    pub ignored: u64,
}

/// The options of a flight recorder.
pub struct FlightOptions {
    /// Its limits.
    pub limits: FlightLimits,
    /// Which triggers count.
    pub triggers: Triggers,
    /// Where recordings are kept.
    pub directory: FlightDirectory,
    /// Triggers from elsewhere in this process.
    pub causes: Receiver<Cause>,
    /// The trigger by spans that go on.
    pub open_spans: Option<OpenSpans>,
    /// The spans of the last seconds, where spans come.
    pub spans: Option<Arc<Mutex<FlightSpans>>>,
    /// The release of this kernel.
    pub release: String,
    /// Is called with the moment, ns since 1970, of each trigger for which a recording will be kept, unless a linked recorder asked for it.
    pub taken: Box<dyn FnMut(u64) + Send>,
    /// Is called with each recording that was kept.
    pub kept: Box<dyn FnMut(KeptRecording) + Send>,
}

impl fmt::Debug for FlightOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightOptions").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// A flight recorder.
#[derive(Debug)]
pub(crate) struct FlightRecorder {
    flight: Flight,
    options: FlightOptions,
    /// The signals that asked for a recording so far.
    signals: KeepAsked,
    /// Up to where rare records are there.
    flushed: Stamp<Local>,
}

impl FlightRecorder {
    pub fn new(options: FlightOptions) -> Self {
        let flight = Flight::new(options.limits, &options.release);
        Self {
            flight,
            options,
            signals: signals::keep_asked(KeepAsked::default()),
            flushed: Stamp::from_ns(0),
        }
    }

    /// Carries a command out. A recording that cannot be kept is reported, and is no error: the recorder goes on.
    pub fn execute(&mut self, command: &WriteCommand) -> Result<(), WriteError> {
        match command {
            WriteCommand::Packet { buffer, cpu, bytes, lost } => {
                self.flight.packet(*buffer, *cpu, bytes, *lost);
                Ok(())
            }
            // A malformed record is a bug of ours, but no reason to lose the others.
            WriteCommand::Record(record) => match self.flight.rare(record) {
                Ok(()) => Ok(()),
                Err(_) => {
                    let kind = EventKind::Loss { from: self.flushed, count: 1, records: LostRecords::Any };
                    self.flight.event(&own(kind))
                }
            },
            WriteCommand::Event(event) => self.flight.event(event),
            WriteCommand::Flush { until, .. } => {
                self.flushed = (*until).max(self.flushed);
                self.look_for_triggers()?;
                self.keep_what_is_due(until.ns(), false);
                self.flight.settle(until.ns());
                Ok(())
            }
            WriteCommand::End { complete, .. } => {
                self.look_for_triggers()?;
                let end = complete.unwrap_or_else(clocks::now);
                self.keep_what_is_due(end.ns(), true);
                Ok(())
            }
            WriteCommand::CheckSpace | WriteCommand::UseAllRoom => Ok(()),
        }
    }

    fn look_for_triggers(&mut self) -> Result<(), WriteError> {
        let now = ClockReading::now();
        let spans = self.options.causes.try_iter().map(|cause| (cause, now.monotonic_ns));
        for (cause, at) in spans.collect::<Vec<_>>().into_iter().chain(self.by_signal(now.monotonic_ns)) {
            // Nothing is there of an earlier moment.
            let at = at.clamp(self.flight.begin().unwrap_or(0).min(now.monotonic_ns), now.monotonic_ns);
            let linked = cause.linked;
            if self.options.triggers.ask(cause, at, now.monotonic_ns) == Asked::Taken {
                if !linked {
                    let ago = now.monotonic_ns - at;
                    (self.options.taken)(now.realtime_ns.saturating_sub(ago));
                }
                // The names of cgroups, disks and interfaces that appeared meanwhile.
                for (space, key, name) in names::all() {
                    self.flight.event(&own(EventKind::Name(space, key, name)))?;
                }
            }
        }
        Ok(())
    }

    /// The cause of the signals that came meanwhile, and its moment; `now` where they name none.
    fn by_signal(&mut self, now: u64) -> Option<(Cause, u64)> {
        let before = self.signals;
        self.signals = signals::keep_asked(before);
        let KeepAsked { signals, linked, sender, earliest } = self.signals;
        (signals != before.signals).then(|| {
            let linked = linked.wrapping_sub(before.linked) == signals.wrapping_sub(before.signals);
            let text = match (linked, sender) {
                (true, _) => "a linked recorder".to_owned(),
                (false, 0) => "a signal (SIGUSR1)".to_owned(),
                (false, pid) => format!("a signal (SIGUSR1) of process {pid}"),
            };
            let word = if linked { "link" } else { "signal" };
            (Cause { text, word, since: None, asked: true, linked }, earliest.unwrap_or(now))
        })
    }

    /// Writes the recording whose window is over, where all records up to `settled` are there.
    fn keep_what_is_due(&mut self, settled: u64, at_once: bool) {
        let Some((cause, end)) = self.options.triggers.due(settled, at_once) else { return };
        let mut path = PathBuf::new();
        let mut spans_short = false;
        let window = self.write(cause.word, end, &mut path, &mut spans_short);
        if window.is_err() {
            self.options.directory.take_back(&path);
        }
        let ignored = self.options.triggers.take_ignored();
        (self.options.kept)(KeptRecording { path, cause, window, spans_short, ignored });
    }

    fn write(
        &self,
        word: &str,
        end: u64,
        path: &mut PathBuf,
        spans_short: &mut bool,
    ) -> Result<KeptWindow, WriteError> {
        let clock = self.flight.clock().unwrap_or_else(ClockReading::now);
        let spans = self.options.spans.as_deref().map(lock);
        let bytes = self.flight.bytes() + spans.as_ref().map_or(0, |spans| spans.bytes());
        let mut writer = self.options.directory.begin(word, clock, bytes as u64)?;
        writer.path().clone_into(path);
        if let Some(spans) = &spans {
            *spans_short = spans.write(&mut writer.spans()?, self.flight.begin().unwrap_or(0))?;
        }
        drop(spans);
        self.flight.write(&mut writer, end)
    }
}

fn lock(spans: &Mutex<FlightSpans>) -> MutexGuard<'_, FlightSpans> {
    // Each change of the memory is whole before anything can panic.
    spans.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An event of our own, now.
fn own(kind: EventKind) -> Event {
    let current = Tid(std::process::id());
    Event { at: clocks::now(), cpu: Cpu::UNKNOWN, context: Context::Task, current, kind }
}
