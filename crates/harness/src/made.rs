//! Recordings of scenarios on disk, and the program run on them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use wakepath_event::{Clocks, Cpu, Event, EventKind, Mark, Tid};
use wakepath_kernel_records::{Buffer, Encoder, Header, Kind};
use wakepath_recording::{ClockReading, HostIdentity, Options, Writer};
use wakepath_scenario::{event, text};

const RELEASE: &str = "6.18.0";

/// A folder with a recording in it, `wakepath.rec`.
#[derive(Debug)]
pub struct Made {
    folder: tempfile::TempDir,
}

/// Writes the recording of a trace as text, whose clock began at 2026-11-21 02:58:41.310 UTC.
/// `more` comes before it.
pub fn made(trace: &str, more: &[EventKind]) -> Made {
    made_on(("web3", "67e2237c-99e6-488f-b6e0-82e34227d61c"), trace, more)
}

/// The same, of a host of this name and boot.
pub fn made_on((name, boot_id): (&str, &str), trace: &str, more: &[EventKind]) -> Made {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let host = HostIdentity {
        name: String::from(name),
        boot_id: String::from(boot_id),
        kernel_release: String::from(RELEASE),
        machine: String::from("x86_64"),
        cpus: 2,
    };
    const REALTIME: u64 = 1_795_229_921_310_000_000;
    let options = Options {
        uuid: Some(*b"program's test\0\0"),
        clock: ClockReading { monotonic_ns: 0, realtime_ns: REALTIME },
        ..Options::new("0.1.0", "-- test")
    };
    let mut writer =
        Writer::create(&folder.path().join("wakepath.rec"), &host, &options).expect("a recording");
    let clocks = EventKind::Clocks(Clocks { boottime_ns: 0, realtime_ns: REALTIME, steal_ns: 0 });
    let mut events: Vec<Event> = [clocks].iter().chain(more).map(|what| begin(what.clone())).collect();
    events.extend(text::parse(trace).expect("a trace").events);
    // Threads that live at the start come at the start.
    let started =
        events.iter().find(|event| event.kind == EventKind::Mark(Mark::Started)).map(|event| event.at);
    for event in &mut events {
        event.at = event.at.max(started.unwrap_or_default());
    }
    let end = events.last().expect("an event").at;
    events.push(Event { at: end, ..begin(EventKind::Mark(Mark::Stopped)) });

    let encoder = Encoder::for_release(RELEASE);
    let (mut life, mut sched, mut net): (Vec<_>, [Vec<_>; 2], [Vec<_>; 2]) = Default::default();
    for event in &events {
        let cpu = usize::from(event.cpu.0.min(1));
        let kind = |bytes: &[u8]| Header::read(bytes).and_then(|header| Kind::from_number(header.kind));
        let mut bytes = Vec::new();
        encoder.encode(event, 0, &mut bytes).expect("an event that fits");
        let of = |buffer: Buffer| kind(&bytes).is_some_and(|kind| buffer.holds(kind));
        let (stream, seq) = if of(Buffer::Sched) {
            let seq = sched[cpu].len() as u16;
            (&mut sched[cpu], seq)
        } else if of(Buffer::Net) {
            let seq = net[cpu].len() as u16;
            (&mut net[cpu], seq)
        } else {
            (&mut life, event.cpu.0)
        };
        let mut bytes = Vec::new();
        encoder.encode(event, seq, &mut bytes).expect("an event that fits");
        stream.push(bytes);
    }
    for record in &life {
        writer.life().push(record).expect("a record");
    }
    writer.life().flush(u64::MAX, 0).expect("room");
    for cpu in 0..2 {
        for (buffer, records) in [(Buffer::Sched, &sched[cpu]), (Buffer::Net, &net[cpu])] {
            let stamp = |record: &Vec<u8>| Header::read(record).expect("a header").stamp;
            let (Some(first), Some(last)) = (records.first().map(stamp), records.last().map(stamp)) else {
                continue;
            };
            let stream = match buffer {
                Buffer::Net => writer.net(Cpu(cpu as u16)),
                _ => writer.sched(Cpu(cpu as u16)),
            };
            stream
                .expect("a stream")
                .append(&[&records.concat()], first, last, records.len() as u64, 0)
                .expect("room");
        }
    }
    Made { folder }
}

fn begin(what: EventKind) -> Event {
    event(0, Cpu::UNKNOWN.0, Tid::IDLE.0, what)
}

impl Made {
    /// Where the recording is.
    pub fn recording(&self) -> PathBuf {
        self.folder.path().join("wakepath.rec")
    }

    /// The folder that the program runs in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The program, to be run beside the recording.
    pub fn wakepath<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(*crate::live::WAKEPATH);
        command.args(arguments).current_dir(self.folder.path()).env_remove("NO_COLOR");
        command
    }

    /// Runs it: its code, what it said, what it complained.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> (i32, String, String) {
        told(&self.wakepath(arguments).output().expect("the program runs"))
    }
}

/// A program's code and texts.
pub fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (output.status.code().expect("it was not killed"), text(&output.stdout), text(&output.stderr))
}
