//! The flight recorder in the writing thread: it keeps records in memory, and writes a recording at a trigger.

use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Context, Cpu, Event, EventKind, LostRecords, Tid};
use wakepath_recording::flight::{
    Asked, Flight, FlightDirectory, FlightLimits, FlightSpans, KeptWindow, TriggerCause, Triggers,
};
use wakepath_recording::{ClockReading, WriteError};

use crate::contexts::OpenSpans;
use crate::signals::KeepAsked;
use crate::write_behind::WriteCommand;
use crate::{clocks, names, signals};

/// A kept recording, or the reason why it could not be kept.
#[derive(Debug)]
pub struct KeptRecording {
    /// The recording's directory.
    pub path: PathBuf,
    /// The cause.
    pub cause: TriggerCause,
    /// The recording's window, if it was written.
    pub window: Result<KeptWindow, WriteError>,
    /// Whether spans in the window were dropped for lack of memory.
    pub spans_short: bool,
    /// The number of triggers that came too soon after the last.
    pub ignored: u64,
}

/// A flight recorder's options.
pub struct FlightOptions {
    /// The recorder's limits.
    pub limits: FlightLimits,
    /// The accepted triggers.
    pub triggers: Triggers,
    /// Where recordings are kept.
    pub directory: FlightDirectory,
    /// Triggers from other parts of this process.
    pub causes: Receiver<TriggerCause>,
    /// The trigger by ongoing spans.
    pub open_spans: Option<OpenSpans>,
    /// The last seconds' spans, where spans come.
    pub spans: Option<Arc<Mutex<FlightSpans>>>,
    /// This kernel's release.
    pub release: String,
    /// Called with the time, ns since 1970, of each trigger for which a recording will be kept, unless a linked
    /// recorder asked for it.
    pub taken: Box<dyn FnMut(u64) + Send>,
    /// Called with each kept recording.
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
    /// Rare records are complete up to this time.
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
        let before = self.signals;
        self.signals = signals::keep_asked(before);
        let now = ClockReading::now();
        let elsewhere = self.options.causes.try_iter().map(|cause| (cause, None)).collect::<Vec<_>>();
        let triggers = elsewhere.into_iter().chain(by_signals(before, self.signals));
        triggers.into_iter().try_for_each(|(cause, at)| self.ask(cause, at, now))
    }

    /// Takes a trigger for the time `at`, ns on the monotonic clock; `None`: now.
    fn ask(&mut self, cause: TriggerCause, at: Option<u64>, now: ClockReading) -> Result<(), WriteError> {
        let at = moment(at, self.flight.begin(), now.monotonic_ns);
        let linked = cause.linked;
        if self.options.triggers.ask(cause, at, now.monotonic_ns) == Asked::Taken {
            if !linked {
                let ago = now.monotonic_ns - at;
                (self.options.taken)(now.realtime_ns.saturating_sub(ago));
            }
            // The names of new cgroups, disks and interfaces. The window may end long before now.
            for (space, key, name) in names::all() {
                let named = own(EventKind::Name(space, key, name));
                self.flight.event(&Event { at: Stamp::from_ns(at), ..named })?;
            }
        }
        Ok(())
    }

    /// Writes the recordings whose windows are over, once all records up to `settled` are there.
    fn keep_what_is_due(&mut self, settled: u64, at_once: bool) {
        while let Some((cause, end)) = self.options.triggers.due(settled, at_once) {
            let mut path = PathBuf::new();
            let mut spans_short = false;
            let window = self.write(cause.word, end, &mut path, &mut spans_short);
            if window.is_err() {
                self.options.directory.take_back(&path);
            }
            let ignored = self.options.triggers.take_ignored();
            (self.options.kept)(KeptRecording { path, cause, window, spans_short, ignored });
        }
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

/// The causes for the signals since `before`, each with its time; `None`: now.
fn by_signals(before: KeepAsked, now: KeepAsked) -> Vec<(TriggerCause, Option<u64>)> {
    let KeepAsked { signals, linked, sender, earliest, latest } = now;
    if signals == before.signals {
        return Vec::new();
    }
    let linked = linked.wrapping_sub(before.linked) == signals.wrapping_sub(before.signals);
    let text = match (linked, sender) {
        (true, _) => "a linked recorder".to_owned(),
        (false, 0) => "a signal (SIGUSR1)".to_owned(),
        (false, pid) => format!("a signal (SIGUSR1) of process {pid}"),
    };
    let word = if linked { "link" } else { "signal" };
    let cause = TriggerCause { text, word, since: None, asked: true, linked };
    let mut moments = vec![earliest, latest];
    moments.dedup();
    moments.into_iter().map(|at| (cause.clone(), at)).collect()
}

/// The kept time for the request `at`: no records exist before `begin`, or after `now`.
fn moment(at: Option<u64>, begin: Option<u64>, now: u64) -> u64 {
    at.unwrap_or(now).clamp(begin.unwrap_or(0).min(now), now)
}

fn lock(spans: &Mutex<FlightSpans>) -> MutexGuard<'_, FlightSpans> {
    // Each change to the memory is complete before anything can panic.
    spans.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An event of our own, now.
fn own(kind: EventKind) -> Event {
    let current = Tid(std::process::id());
    Event { at: clocks::now(), cpu: Cpu::UNKNOWN, context: Context::Task, current, kind }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{SyncSender, sync_channel};

    use wakepath_event::{EventSource as _, NameSpace, RecordingFormat as _, SwitchOut};
    use wakepath_kernel_records::{Buffer, Encoder};
    use wakepath_recording::flight::{KeptLimits, kept_recordings};
    use wakepath_recording::{HostIdentity, Options, Recording};

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const RELEASE: &str = "6.18.0";

    fn host() -> HostIdentity {
        HostIdentity {
            name: "web3".to_owned(),
            boot_id: "67e2237c-99e6-488f-b6e0-82e34227d61c".to_owned(),
            kernel_release: RELEASE.to_owned(),
            machine: "x86_64".to_owned(),
            cpus: 1,
        }
    }

    /// A recorder for a machine with a single CPU, which keeps 10 s before a trigger and 2 s behind it.
    struct Machine {
        recorder: FlightRecorder,
        causes: SyncSender<TriggerCause>,
        kept: std::sync::mpsc::Receiver<KeptRecording>,
        taken: std::sync::mpsc::Receiver<u64>,
        folder: tempfile::TempDir,
        seq: u16,
    }

    impl Machine {
        fn new(bytes: u64, spans: Option<FlightSpans>) -> Self {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let limits = KeptLimits { recordings: 9, bytes };
            let options = Options::new("0", "");
            let directory = FlightDirectory::open(folder.path(), limits, options, host()).expect("a place");
            let (causes, receiver) = sync_channel(16);
            let (keep, kept) = sync_channel(16);
            let (take, taken) = sync_channel(16);
            let options = FlightOptions {
                limits: FlightLimits { window_ns: 12 * SECOND, bytes: 1 << 20 },
                triggers: Triggers::new(2 * SECOND, 60 * SECOND).with_before(10 * SECOND),
                directory,
                causes: receiver,
                open_spans: None,
                spans: spans.map(|spans| Arc::new(Mutex::new(spans))),
                release: RELEASE.to_owned(),
                taken: Box::new(move |at| take.send(at).expect("room")),
                kept: Box::new(move |recording| keep.send(recording).expect("room")),
            };
            Self { recorder: FlightRecorder::new(options), causes, kept, taken, folder, seq: 0 }
        }

        /// A thread gets the CPU at this time, and leaves it.
        fn runs(&mut self, at: u64) {
            let (mut bytes, thread) = (Vec::new(), Tid(7));
            for (at, current, next) in [(at, Tid::IDLE, thread), (at + 1, thread, Tid::IDLE)] {
                let kind = EventKind::Switch { next, out: SwitchOut::Runnable, interrupts_ns: 0, call: None };
                let event =
                    Event { at: Stamp::from_ns(at), cpu: Cpu(0), context: Context::Task, current, kind };
                Encoder::for_release(RELEASE).encode(&event, self.seq, &mut bytes).expect("a record");
                self.seq += 1;
            }
            let packet = WriteCommand::Packet { buffer: Buffer::Sched, cpu: Cpu(0), bytes, lost: 0 };
            self.recorder.execute(&packet).expect("records");
        }

        fn flush(&mut self, until: u64) {
            let flush = WriteCommand::Flush { until: Stamp::from_ns(until), lost: 0 };
            self.recorder.execute(&flush).expect("room");
        }

        fn windows(&self) -> Vec<(u64, u64)> {
            let windows = self.kept.try_iter().map(|kept| kept.window.expect("a window"));
            windows.map(|window| (window.from, window.to)).collect()
        }
    }

    fn cause(asked: bool, linked: bool) -> TriggerCause {
        TriggerCause { text: "slow".to_owned(), word: "span", since: None, asked, linked }
    }

    /// A recording's switches, and the number of names in it.
    fn read(path: &std::path::Path) -> (Vec<u64>, usize) {
        let (mut switches, mut names) = (Vec::new(), 0);
        let count = |event: &Event| match event.kind {
            EventKind::Switch { .. } => switches.push(event.at.ns()),
            EventKind::Name(NameSpace::Interface, ..) => names += 1,
            _ => {}
        };
        Recording::open(path).expect("a recording").read(count, |_| {});
        (switches, names)
    }

    #[test]
    fn a_trigger_is_kept_when_its_window_is_over_and_linked_recorders_are_asked_for_its_moment() {
        for linked in [false, true] {
            let mut machine = Machine::new(1 << 20, None);
            let now = clocks::now().ns();
            // The first run is older than the window.
            [now - 20 * SECOND, now - 5 * SECOND, now].into_iter().for_each(|at| machine.runs(at));
            machine.flush(now - 4 * SECOND);
            machine.causes.send(cause(false, linked)).expect("room");
            machine.flush(now);
            let seen = clocks::now().ns();
            assert!(machine.windows().is_empty(), "its window is not over");
            machine.runs(seen + SECOND);
            machine.runs(seen + 9 * SECOND);
            machine.flush(seen + 10 * SECOND);
            let kept: Vec<_> = machine.kept.try_iter().collect();
            let [kept] = &kept[..] else { panic!("{kept:?}") };
            let window = kept.window.as_ref().expect("a window");
            assert!((now + 2 * SECOND..=seen + 2 * SECOND).contains(&window.to), "{window:?}, {now}");
            assert!(window.from < now - 5 * SECOND && window.from > now - 20 * SECOND, "{window:?}");
            assert_eq!((&kept.cause, kept.spans_short, kept.ignored), (&cause(false, linked), false, 0));
            let (mut switches, _) = read(&kept.path);
            // The thread's state at the beginning is restated.
            switches.retain(|at| *at > window.from);
            let expected = [now - 5 * SECOND, now, seen + SECOND].map(|at| [at, at + 1]).concat();
            assert_eq!(switches, expected);
            let asked: Vec<u64> = machine.taken.try_iter().collect();
            assert_eq!(asked.len(), usize::from(!linked), "a linked recorder asks the others itself");
            let realtime = ClockReading::now().realtime_ns;
            assert!(asked.iter().all(|at| (realtime - 60 * SECOND..=realtime).contains(at)), "{asked:?}");
        }
    }

    #[test]
    fn a_moment_that_is_past_has_its_own_window_and_the_names_of_now() {
        let mut machine = Machine::new(1 << 20, None);
        let now = ClockReading::now();
        let at = now.monotonic_ns;
        (1..12).rev().for_each(|ago| machine.runs(at - ago * SECOND));
        machine.recorder.ask(cause(true, false), Some(at - 8 * SECOND), now).expect("room");
        machine.flush(at);
        let kept = machine.kept.try_recv().expect("it is over");
        assert_eq!(kept.window.expect("a window").to, at - 6 * SECOND);
        let interfaces = names::all().iter().filter(|name| name.0 == NameSpace::Interface).count();
        let (switches, named) = read(&kept.path);
        let expected: Vec<u64> =
            (6..12).rev().flat_map(|ago| [at - ago * SECOND, at - ago * SECOND + 1]).collect();
        // The last pair's second record is behind the window.
        assert_eq!((switches, named), (expected[..expected.len() - 1].to_vec(), interfaces));
        assert_eq!(machine.taken.try_iter().collect::<Vec<_>>(), [now.realtime_ns - 8 * SECOND]);
    }

    #[test]
    fn a_recorder_that_ends_keeps_every_window_that_is_open() {
        let mut machine = Machine::new(1 << 20, None);
        let now = ClockReading::now();
        let at = now.monotonic_ns;
        machine.runs(at - 13 * SECOND);
        for (asked, ago) in [(false, 11), (true, 1), (false, 1), (false, 5), (true, 4)] {
            machine.recorder.ask(cause(asked, false), Some(at - ago * SECOND), now).expect("room");
        }
        let complete = Some(Stamp::from_ns(at));
        machine.recorder.execute(&WriteCommand::End { lost: 0, complete }).expect("room");
        let ends = machine.kept.try_iter().map(|kept| (kept.window.expect("a window").to, kept.ignored));
        let ends: Vec<_> = ends.collect();
        assert_eq!(ends, [(at - 9 * SECOND, 0), (at, 0)]);
    }

    #[test]
    fn a_recording_that_has_no_room_is_reported_and_leaves_nothing_and_the_recorder_goes_on() {
        let mut machine = Machine::new(1 << 10, None);
        let at = clocks::now().ns();
        (1..100).rev().for_each(|ago| machine.runs(at - ago * 1000));
        for _ in 0..2 {
            machine.recorder.ask(cause(true, false), None, ClockReading::now()).expect("room");
            machine.flush(clocks::now().ns() + 2 * SECOND);
            let kept = machine.kept.try_recv().expect("a report");
            assert!(kept.window.expect_err("no room").is_out_of_room());
            assert!(kept_recordings(machine.folder.path()).expect("a directory").is_empty());
        }
    }

    #[test]
    fn spans_are_kept_beside_the_records_and_their_shortage_is_said() {
        for (max_bytes, is_short) in [(1 << 16, false), (100, true)] {
            let mut spans = FlightSpans::new(12 * SECOND, max_bytes);
            let at = clocks::now().ns();
            spans.push(at - 2, &[1; 40]);
            spans.push(at - 1, &[2; 40]);
            let mut machine = Machine::new(1 << 20, Some(spans));
            machine.runs(at - SECOND);
            machine.recorder.ask(cause(true, false), None, ClockReading::now()).expect("room");
            machine.flush(clocks::now().ns() + 2 * SECOND);
            let kept = machine.kept.try_recv().expect("it is over");
            assert_eq!((kept.window.is_ok(), kept.spans_short), (true, is_short));
            let bytes = std::fs::read(kept.path.join("spans")).expect("spans");
            assert_eq!(bytes.len(), if is_short { 44 } else { 88 });
        }
    }

    #[test]
    fn signals_are_causes_that_name_their_sender_and_a_moment_for_each_end_of_their_time() {
        let asked = |signals, linked, sender, earliest, latest| KeepAsked {
            signals,
            linked,
            sender,
            earliest,
            latest,
        };
        let before = asked(u32::MAX, 3, 0, None, None);
        assert_eq!(by_signals(before, before), []);
        for (now, word, text, moments) in [
            (asked(0, 3, 0, None, None), "signal", "a signal (SIGUSR1)", &[None][..]),
            (asked(0, 3, 912, None, None), "signal", "a signal (SIGUSR1) of process 912", &[None]),
            (asked(0, 4, 912, Some(5), Some(5)), "link", "a linked recorder", &[Some(5)]),
            (asked(1, 5, 912, Some(5), None), "link", "a linked recorder", &[Some(5), None]),
            (asked(1, 4, 0, Some(5), Some(9)), "signal", "a signal (SIGUSR1)", &[Some(5), Some(9)]),
        ] {
            let linked = word == "link";
            let cause = TriggerCause { text: text.to_owned(), word, since: None, asked: true, linked };
            let expected: Vec<_> = moments.iter().map(|at| (cause.clone(), *at)).collect();
            assert_eq!(by_signals(before, now), expected);
        }
    }

    #[test]
    fn a_moment_is_one_that_is_in_memory() {
        for (at, begin, now, expected) in [
            (None, Some(10), 90, 90),
            (Some(50), Some(10), 90, 50),
            (Some(5), Some(10), 90, 10),
            (Some(95), Some(10), 90, 90),
            (Some(50), None, 90, 50),
            // No record has a stamp before now.
            (Some(50), Some(100), 90, 90),
        ] {
            assert_eq!(moment(at, begin, now), expected, "{at:?} from {begin:?}");
        }
    }
}
