//! A flight recorder over a simulated week: its memory and its disk stay bounded, and each slow request is kept
//! whole.

mod ends;
mod kinds;
mod memory;
mod restated;
mod states;

use std::collections::HashMap;

use wakepath_clock::Stamp;
use wakepath_event::{
    BlockedState, CgroupId, Clocks, Comm, Context, Cpu, Event, EventKind, EventSource as _, FileName, Mark,
    NameSpace, RecordingFormat as _, SwitchOut, ThreadIdentity, Tid,
};
use wakepath_kernel_records::{Buffer, Encoder};
use wakepath_recording::flight::{
    Asked, Flight, FlightDirectory, FlightLimits, KeptLimits, TriggerCause, Triggers, is_written,
    kept_recordings, recorder,
};
use wakepath_recording::{ClockReading, HostIdentity, Options, Recording};

const RELEASE: &str = "6.18.0";
const SECOND: u64 = 1_000_000_000;
/// The machine's start, ns before the first event.
const BEGIN: u64 = 1000 * SECOND;

fn host() -> HostIdentity {
    HostIdentity {
        name: "web3".to_owned(),
        boot_id: "67e2237c-99e6-488f-b6e0-82e34227d61c".to_owned(),
        kernel_release: RELEASE.to_owned(),
        machine: "x86_64".to_owned(),
        cpus: 1,
    }
}

/// A machine with one CPU, and its flight recorder.
struct Machine {
    flight: Flight,
    encoder: Encoder,
    ring: Vec<u8>,
    seq: u16,
    most_bytes: usize,
}

impl Machine {
    fn new(limits: FlightLimits) -> Self {
        let flight = Flight::new(limits, RELEASE);
        let encoder = Encoder::for_release(RELEASE);
        let mut machine = Self { flight, encoder, ring: Vec::new(), seq: 0, most_bytes: 0 };
        machine.rare(BEGIN, Tid::IDLE, EventKind::Mark(Mark::Started));
        machine
    }

    fn event(at: u64, current: Tid, kind: EventKind) -> Event {
        Event { at: Stamp::from_ns(at), cpu: Cpu(0), context: Context::Task, current, kind }
    }

    fn rare(&mut self, at: u64, current: Tid, kind: EventKind) {
        self.flight.event(&Self::event(at, current, kind)).expect("an event");
    }

    fn sched(&mut self, at: u64, current: Tid, kind: EventKind) {
        self.encoder.encode(&Self::event(at, current, kind), self.seq, &mut self.ring).expect("an event");
        self.seq = self.seq.wrapping_add(1);
    }

    fn switch(&mut self, at: u64, from: Tid, to: Tid, out: SwitchOut) {
        self.sched(at, from, EventKind::Switch { next: to, out, interrupts_ns: 0, call: None });
    }

    fn fork(&mut self, at: u64, tid: Tid) {
        let child = ThreadIdentity {
            tid,
            tgid: tid,
            parent: Tid(1),
            ns_tid: tid,
            ns_tgid: tid,
            start: Stamp::from_ns(at),
            cgroup: CgroupId(1),
            cpu_cgroup: CgroupId(1),
            kernel: false,
            comm: Comm::new(b"worker"),
        };
        self.rare(at, Tid(1), EventKind::Fork { child });
    }

    fn drain(&mut self, now: u64) {
        self.flight.packet(Buffer::Sched, Cpu(0), &std::mem::take(&mut self.ring), 0);
        self.flight.settle(now);
        self.most_bytes = self.most_bytes.max(self.flight.bytes());
    }
}

const BLOCKED: SwitchOut = SwitchOut::Blocked(BlockedState::Interruptible);

#[test]
fn a_week_of_births_files_and_names_stays_within_its_memory() {
    const WEEK: u64 = 7 * 24 * 3600;
    let limits = FlightLimits { window_ns: 30 * SECOND, bytes: 16 << 20 };
    let mut machine = Machine::new(limits);
    // Each step stands for a minute: a process lives and dies on an otherwise quiet machine.
    for step in 0..WEEK / 60 {
        let at = BEGIN + step * 60 * SECOND;
        let tid = Tid(1000 + (step % 4_000_000) as u32);
        machine.fork(at + 1, tid);
        machine.sched(
            at + 2,
            Tid::IDLE,
            EventKind::Waking { target: tid, irq: 0, newborn: true, socket: None },
        );
        machine.switch(at + 3, Tid::IDLE, tid, SwitchOut::Runnable);
        let name = format!("file-{step}").as_bytes().into();
        let file = FileName { tgid: tid, fd: 3, mode: 0o100_000, inode: step, flow: None, name };
        machine.rare(at + 4, tid, EventKind::File(file));
        let name = format!("/system.slice/run-{step}.scope").as_bytes().into();
        machine.rare(at + 5, Tid::IDLE, EventKind::Name(NameSpace::Cgroup, step, name));
        machine.rare(at + 6, tid, EventKind::Exit);
        machine.switch(at + 7, tid, Tid::IDLE, SwitchOut::Dead);
        machine.drain(at + SECOND);
    }
    assert!(machine.most_bytes <= limits.bytes, "{} bytes", machine.most_bytes);
    let begin = machine.flight.begin().expect("records");
    let end = BEGIN + (WEEK - 60) * SECOND;
    assert!(end - begin <= 31 * SECOND && end - begin >= 24 * SECOND, "{}", end - begin);
}

#[test]
fn a_flood_shortens_the_window_and_nothing_else() {
    let limits = FlightLimits { window_ns: 30 * SECOND, bytes: 1 << 20 };
    let mut machine = Machine::new(limits);
    for step in 0..200_000 {
        let at = BEGIN + step * 10_000;
        machine.switch(at + 1, Tid::IDLE, Tid(7), SwitchOut::Runnable);
        machine.switch(at + 2, Tid(7), Tid::IDLE, BLOCKED);
        if step % 1000 == 999 {
            machine.drain(at + 3);
        }
    }
    // A packet is taken before the oldest goes.
    assert!(machine.most_bytes <= limits.bytes + 64_000 + 1000, "{} bytes", machine.most_bytes);
    assert!(machine.flight.bytes() > limits.bytes / 2, "all of the memory is used");
}

#[test]
fn one_slow_request_of_ten_thousand_is_kept_whole_each_time() {
    const REQUESTS: u64 = 10_000;
    const TRIES: u64 = 100;
    let limits = FlightLimits { window_ns: 13 * SECOND, bytes: 4 << 20 };
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("flight");
    let kept_limits = KeptLimits { recordings: 3, bytes: 64 << 20 };
    let directory =
        FlightDirectory::open(&path, kept_limits, Options::new("0", ""), host()).expect("a place");
    assert_eq!(recorder(&path).expect("a directory"), Some(std::process::id() as i32));
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut kept = 0;
    for one in 0..TRIES {
        let mut machine = Machine::new(limits);
        machine.fork(BEGIN + 1, Tid(7));
        // xorshift64 (Marsaglia 2003).
        for shift in [13_i32, -7, 17] {
            random ^= if shift > 0 { random << shift } else { random >> -shift };
        }
        let slow = random % REQUESTS;
        let mut triggers = Triggers::new(6 * SECOND, 60 * SECOND);
        let mut at = BEGIN + SECOND;
        // The exporter sends each 5 s; each try begins at another point in this period.
        let mut exported = BEGIN - 4 * SECOND + one * SECOND / 20;
        let mut slow_from_to = None;
        let mut done = None;
        for number in 0..REQUESTS + 20_000 {
            // A request runs, waits, and runs.
            let from = at;
            let wait = if number == slow { 800_000_000 } else { 200_000 };
            let waking = EventKind::Waking { target: Tid(7), irq: 0, newborn: false, socket: None };
            machine.sched(at, Tid::IDLE, waking.clone());
            machine.switch(at + 10_000, Tid::IDLE, Tid(7), SwitchOut::Runnable);
            machine.switch(at + 50_000, Tid(7), Tid::IDLE, BLOCKED);
            machine.sched(at + 50_000 + wait, Tid::IDLE, waking);
            machine.switch(at + 60_000 + wait, Tid::IDLE, Tid(7), SwitchOut::Runnable);
            at += 70_000 + wait;
            machine.switch(at, Tid(7), Tid::IDLE, BLOCKED);
            if number == slow {
                slow_from_to = Some((from, at));
            }
            at += 730_000;
            if number % 50 == 0 {
                let clocks =
                    Clocks { boottime_ns: at, realtime_ns: 1_764_000_000 * SECOND + at, steal_ns: 0 };
                machine.rare(at, Tid::IDLE, EventKind::Clocks(clocks));
                // Every 5 s, the exporter sends the ended spans.
                if at >= exported + 5 * SECOND {
                    exported = at;
                    if let Some((from, _)) = slow_from_to.filter(|_| done.is_none()) {
                        let cause = TriggerCause {
                            text: String::new(),
                            word: "span",
                            since: Some(from),
                            asked: false,
                            linked: false,
                        };
                        triggers.ask(cause, at, at);
                    }
                }
                if let Some((cause, end)) = triggers.due(at, false) {
                    machine.drain(at);
                    let clock = machine.flight.clock().expect("clocks");
                    let bytes = machine.flight.bytes() as u64;
                    let mut writer = directory.begin(cause.word, clock, bytes).expect("room");
                    let window = machine.flight.write(&mut writer, end).expect("room");
                    done = Some((window, writer.path().to_owned()));
                    break;
                }
                machine.drain(at);
            }
        }
        let (window, path) = done.expect("a kept recording");
        let (from, to) = slow_from_to.expect("a slow request");
        assert!(window.from <= from && to <= window.to, "{one}: {window:?} has not {from}..{to}");
        assert!(machine.most_bytes <= limits.bytes, "{} bytes", machine.most_bytes);
        assert!(is_written(&path));
        let recording = Recording::open(&path).expect("a recording");
        let (mut of_request, mut losses) = (0, 0);
        let problems = recording.read(
            |event| {
                let is_in = (from..=to).contains(&event.at.ns());
                of_request += u64::from(is_in && matches!(event.kind, EventKind::Switch { .. }));
                losses += u64::from(matches!(event.kind, EventKind::Loss { .. }));
            },
            |_| {},
        );
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!((of_request, losses), (4, 0), "{one}: all switches of the request");
        kept += 1;
    }
    assert_eq!(kept, TRIES);
    let names = kept_recordings(&path).expect("a directory");
    assert_eq!(names.len(), 3, "the oldest went: {names:?}");
    drop(directory);
    assert_eq!(recorder(&path).expect("a directory"), None);
}

#[test]
fn a_directory_with_something_else_in_it_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(folder.path().join("mine"), "mine").expect("a file");
    let limits = KeptLimits { recordings: 1, bytes: 1 };
    let open = || FlightDirectory::open(folder.path(), limits, Options::new("0", ""), host());
    assert!(open().is_err());
    std::fs::remove_file(folder.path().join("mine")).expect("a file");
    let first = open().expect("an empty directory");
    assert!(open().expect_err("a second recorder").to_string().contains("another flight recorder"));
    let clock = ClockReading { monotonic_ns: BEGIN, realtime_ns: 1_764_000_000 * SECOND };
    let names: HashMap<_, _> = (0..3)
        .map(|number| (number, first.begin("signal", clock, 1).expect("room").path().to_owned()))
        .collect();
    assert!(names.values().all(|name| name.to_string_lossy().contains("kept-20251124T160000Z")), "{names:?}");
    assert_eq!(kept_recordings(folder.path()).expect("a directory").len(), 1);
    std::fs::create_dir(folder.path().join(".kept-20261125T030706Z-signal.new")).expect("a directory");
    assert_eq!(kept_recordings(folder.path()).expect("a directory").len(), 1, "one that is being begun");
}

#[test]
fn a_recording_that_was_cut_short_is_taken_back_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let limits = KeptLimits { recordings: 9, bytes: 1 << 30 };
    let directory =
        FlightDirectory::open(folder.path(), limits, Options::new("0", ""), host()).expect("a place");
    let clock = ClockReading { monotonic_ns: BEGIN, realtime_ns: 1_764_000_000 * SECOND };
    let begun = |word| {
        let mut writer = directory.begin(word, clock, 1).expect("room");
        writer.sched(Cpu(0)).expect("a stream");
        writer.path().to_owned()
    };
    let (kept, cut) = (begun("signal"), begun("span"));
    let foreign = folder.path().join("kept-mine");
    std::fs::create_dir(&foreign).expect("a directory");
    std::fs::write(foreign.join("mine"), "mine").expect("a file");
    for path in [&cut, &cut, &foreign, &folder.path().join("recorder"), &std::path::PathBuf::new()] {
        directory.take_back(path);
    }
    assert_eq!(kept_recordings(folder.path()).expect("a directory"), [kept, foreign.clone()]);
    assert!(foreign.join("mine").exists() && folder.path().join("recorder").exists());
}

#[test]
fn a_recording_that_cannot_fit_leaves_the_earlier_ones() {
    const ALL: u64 = 1 << 20;
    // The limit on all bytes, and the size of a recording without room: larger than the limit, though no larger than
    // the recorder's memory; and larger than any disk, even after a deletion.
    for (bytes, recordings, large, error) in [
        (ALL, 9, ALL + 1, "larger than all that are kept"),
        (ALL, 1, 256 << 20, "larger than all that are kept"),
        (u64::MAX, 1, u64::MAX / 2, "no space left"),
    ] {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let limits = KeptLimits { recordings, bytes };
        let directory =
            FlightDirectory::open(folder.path(), limits, Options::new("0", ""), host()).expect("a place");
        let clock = ClockReading { monotonic_ns: BEGIN, realtime_ns: 1_764_000_000 * SECOND };
        let first = {
            let mut writer = directory.begin("signal", clock, 1).expect("room");
            writer.sched(Cpu(0)).expect("a stream");
            writer.path().to_owned()
        };
        let refused = directory.begin("span", clock, large).expect_err("no room");
        assert!(refused.is_out_of_room() && refused.to_string().contains(error), "{refused}");
        assert_eq!(kept_recordings(folder.path()).expect("a directory"), [first], "{large} of {bytes}");
    }
}

#[test]
fn triggers_while_one_is_pending_join_it() {
    let mut triggers = Triggers::new(SECOND, 60 * SECOND);
    let cause = |asked| TriggerCause { text: String::new(), word: "span", since: None, asked, linked: false };
    assert_eq!(triggers.ask(cause(false), BEGIN, BEGIN), Asked::Taken);
    assert_eq!(triggers.ask(cause(true), BEGIN + 1, BEGIN + 1), Asked::Joined);
}

#[test]
fn recordings_of_one_second_have_numbers_by_which_the_oldest_go_and_other_directories_do_not_count() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let name = |number: usize| match (number, ["span", "outlier"][number % 2]) {
        (1, word) => format!("kept-20251124T160000Z-{word}"),
        (_, word) => format!("kept-20251124T160000Z-{number}-{word}"),
    };
    // The most recordings, and the numbers left from eleven.
    for (recordings, left) in [(11, 1..=11), (3, 9..=11), (1, 11..=11)] {
        let path = folder.path().join(format!("flight-{recordings}"));
        let limits = KeptLimits { recordings, bytes: 1 << 30 };
        let directory = FlightDirectory::open(&path, limits, Options::new("0", ""), host()).expect("a place");
        // No recordings.
        let foreign = path.join("kept-mine");
        std::fs::create_dir(&foreign).expect("a directory");
        std::fs::write(path.join("kept-file"), "mine").expect("a file");
        let clock = ClockReading { monotonic_ns: BEGIN, realtime_ns: 1_764_000_000 * SECOND };
        for number in 1..=11 {
            let word = ["span", "outlier"][number % 2];
            let mut writer = directory.begin(word, clock, 1).expect("room");
            writer.sched(Cpu(0)).expect("a stream");
        }
        let mut kept = kept_recordings(&path).expect("a directory");
        kept.retain(|path| *path != foreign);
        assert_eq!(kept, left.map(|number| path.join(name(number))).collect::<Vec<_>>(), "the oldest first");
        assert!(foreign.exists() && path.join("kept-file").exists());
    }
}

#[test]
fn a_recorder_is_found_by_its_number_while_it_runs() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let limits = KeptLimits { recordings: 1, bytes: 1 };
    let open = || FlightDirectory::open(folder.path(), limits, Options::new("0", ""), host());
    let directory = open().expect("a place");
    // The file's text, and the number. No recorder has number 0 or 1, and a signal to a negative one goes to a group.
    for (text, pid) in
        [("77\n", Some(77)), ("2", Some(2)), ("1\n", None), ("0\n", None), ("-5\n", None), ("x", None)]
    {
        std::fs::write(folder.path().join("recorder"), text).expect("a file");
        assert_eq!(recorder(folder.path()).expect("a directory"), pid, "{text}");
    }
    drop(directory);
    std::fs::write(folder.path().join("recorder"), "77\n").expect("a file");
    assert_eq!(recorder(folder.path()).expect("a directory"), None, "a killed recorder's");
    assert!(recorder(&folder.path().join("none")).is_err());
    std::fs::remove_file(folder.path().join("recorder")).expect("a file");
    assert_eq!(recorder(folder.path()).expect("a directory"), None, "no recorder");
    std::fs::create_dir(folder.path().join("recorder")).expect("a directory");
    assert!(recorder(folder.path()).is_err(), "no file of a recorder");
}

#[test]
fn a_recorder_that_begins_again_finds_its_recordings_and_leaves_no_number_behind() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let limits = KeptLimits { recordings: 2, bytes: 1 << 20 };
    let open = || FlightDirectory::open(folder.path(), limits, Options::new("0", ""), host());
    let clock = ClockReading { monotonic_ns: BEGIN, realtime_ns: 1_764_000_000 * SECOND };
    let directory = open().expect("a place");
    let writer = directory.begin("span", clock, 1).expect("room");
    let path = writer.path().to_owned();
    assert!(!is_written(&path), "it is being written");
    drop(writer);
    assert!(is_written(&path) && !is_written(&folder.path().join("none")));
    drop(directory);
    assert!(!folder.path().join("recorder").exists());
    // A killed recorder leaves its number.
    std::fs::write(folder.path().join("recorder"), "77").expect("a file");
    let directory = open().expect("its own directory");
    assert_eq!(kept_recordings(folder.path()).expect("a directory"), [path]);
    // A recording with another name is nobody's.
    let other = folder.path().join("mine");
    drop(wakepath_recording::Writer::create(&other, &host(), &Options::new("0", "")).expect("a place"));
    for _ in 0..3 {
        drop(directory.begin("span", clock, 1).expect("room"));
    }
    assert_eq!(kept_recordings(folder.path()).expect("a directory").len(), 2);
    assert!(other.exists());
}

#[test]
fn a_kept_recording_has_the_clocks_of_its_window_and_no_more_bytes_than_all_may_have() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let limits = KeptLimits { recordings: 2, bytes: 10_000 };
    let directory =
        FlightDirectory::open(folder.path(), limits, Options::new("0", ""), host()).expect("a place");
    let clock = ClockReading { monotonic_ns: BEGIN, realtime_ns: 1_764_000_000 * SECOND };
    let mut writer = directory.begin("span", clock, 1).expect("room");
    let metadata = std::fs::read_to_string(writer.path().join("kernel/metadata")).expect("metadata");
    let written = |clock: ClockReading| {
        let other = folder.path().join("other");
        drop(wakepath_recording::Writer::create(
            &other,
            &host(),
            &Options { clock, ..Options::new("0", "") },
        ));
        let text = std::fs::read_to_string(other.join("kernel/metadata")).expect("metadata");
        std::fs::remove_dir_all(&other).expect("a directory");
        text
    };
    let clocks = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.contains("offset")).map(str::to_owned).collect()
    };
    assert!(!clocks(&metadata).is_empty());
    assert_eq!(clocks(&metadata), clocks(&written(clock)));
    let mark = Machine::event(BEGIN, Tid::IDLE, EventKind::Mark(Mark::Started));
    let refused = (0..1000).find_map(|_| {
        writer.life().push_event(&mark).expect("an event");
        writer.life().flush(u64::MAX, 0).err()
    });
    assert!(refused.is_some_and(|error| error.is_out_of_room()));
}
