//! Scenario recordings on disk, and the program run on them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use wakepath_event::{Clocks, Cpu, Event, EventKind, Mark, Tid};
use wakepath_kernel_records::{Buffer, Encoder, Header, Kind};
use wakepath_recording::{ClockReading, HostIdentity, Options, Writer};
use wakepath_scenario::{event, text};

const RELEASE: &str = "6.18.0";
/// 2026-11-21 02:58:41.310 UTC, ns.
const REALTIME: u64 = 1_795_229_921_310_000_000;

/// A folder with a recording, `wakepath.rec`.
#[derive(Debug)]
pub struct Made {
    folder: tempfile::TempDir,
}

/// Writes a text trace's recording, whose clock began at 2026-11-21 02:58:41.310 UTC. `more` comes
/// before it.
pub fn made(trace: &str, more: &[EventKind]) -> Made {
    made_on(("web3", "67e2237c-99e6-488f-b6e0-82e34227d61c"), trace, more)
}

/// The same, with the end mark in each stream that a recorder writes when it ends properly.
pub fn made_with_ends(trace: &str) -> Made {
    write(("web3", "67e2237c-99e6-488f-b6e0-82e34227d61c"), REALTIME, trace, &[], true)
}

/// The same as [`made`], for a host with this name and boot.
pub fn made_on(host: (&str, &str), trace: &str, more: &[EventKind]) -> Made {
    write(host, REALTIME, trace, more, false)
}

/// The same, for a host whose realtime clock read `realtime_ns` as the recording began.
pub fn made_at(host: (&str, &str), realtime_ns: u64, trace: &str, more: &[EventKind]) -> Made {
    write(host, realtime_ns, trace, more, false)
}

fn write(
    (name, boot_id): (&str, &str),
    realtime_ns: u64,
    trace: &str,
    more: &[EventKind],
    with_ends: bool,
) -> Made {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let drawn = text::parse(trace).expect("a trace").events;
    // Events with an unknown CPU go into the last CPU's stream.
    let last = drawn.iter().map(|event| event.cpu).filter(|cpu| *cpu != Cpu::UNKNOWN).max();
    let cpus = usize::from(last.unwrap_or_default().0).max(1) + 1;
    let host = HostIdentity {
        name: String::from(name),
        boot_id: String::from(boot_id),
        kernel_release: String::from(RELEASE),
        machine: String::from("x86_64"),
        cpus: cpus as u32,
    };
    let options = Options {
        uuid: Some(*b"program's test\0\0"),
        clock: ClockReading { monotonic_ns: 0, realtime_ns },
        ..Options::new("0.1.0", "-- test")
    };
    let mut writer =
        Writer::create(&folder.path().join("wakepath.rec"), &host, &options).expect("a recording");
    let clocks = EventKind::Clocks(Clocks { boottime_ns: 0, realtime_ns, steal_ns: 0 });
    let mut events: Vec<Event> = [clocks].iter().chain(more).map(|what| begin(what.clone())).collect();
    events.extend(drawn);
    // Threads that live at the start come at the start.
    let started =
        events.iter().find(|event| event.kind == EventKind::Mark(Mark::Started)).map(|event| event.at);
    for event in &mut events {
        event.at = event.at.max(started.unwrap_or_default());
    }
    let end = events.last().expect("an event").at;
    events.push(Event { at: end, ..begin(EventKind::Mark(Mark::Stopped)) });

    let encoder = Encoder::for_release(RELEASE);
    const BUFFERS: [Buffer; 2] = [Buffer::Sched, Buffer::Net];
    // By CPU and buffer.
    let mut streams: Vec<[Vec<&Event>; 2]> = vec![Default::default(); cpus];
    for event in &events {
        let mut record = Vec::new();
        encoder.encode(event, 0, &mut record).expect("an event that fits");
        let kind = Header::read(&record).and_then(|header| Kind::from_number(header.kind));
        match BUFFERS.iter().position(|buffer| kind.is_some_and(|kind| buffer.holds(kind))) {
            Some(buffer) => streams[usize::from(event.cpu.0).min(cpus - 1)][buffer].push(event),
            None => writer.life().push_event(event).expect("a record"),
        }
    }
    writer.life().flush(u64::MAX, 0).expect("room");
    for (cpu, of_cpu) in (0..).map(Cpu).zip(&streams) {
        for (buffer, events) in BUFFERS.into_iter().zip(of_cpu) {
            let (Some(first), Some(last)) = (events.first(), events.last()) else { continue };
            let mut bytes = Vec::new();
            for (event, seq) in events.iter().zip(0..) {
                encoder.encode(event, seq, &mut bytes).expect("an event that fits");
            }
            let stream = if buffer == Buffer::Net { writer.net(cpu) } else { writer.sched(cpu) };
            let (first, last, count) = (first.at.ns(), last.at.ns(), events.len() as u64);
            stream.expect("a stream").append(&[&bytes], first, last, count, 0).expect("room");
        }
    }
    if with_ends {
        writer.close_streams(end).expect("room");
    }
    Made { folder }
}

fn begin(what: EventKind) -> Event {
    event(0, Cpu::UNKNOWN.0, Tid::IDLE.0, what)
}

impl Made {
    /// The recording's path.
    pub fn recording(&self) -> PathBuf {
        self.folder.path().join("wakepath.rec")
    }

    /// The folder in which the program runs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The program's command, in the recording's folder.
    pub fn wakepath<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(*crate::live::WAKEPATH);
        command.args(arguments).current_dir(self.folder.path()).env_remove("NO_COLOR");
        command
    }

    /// Runs the program. Returns its exit code, stdout and stderr.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> (i32, String, String) {
        told(&self.wakepath(arguments).output().expect("the program runs"))
    }

    /// Runs the program without errors or warnings. Returns its document.
    #[track_caller]
    pub fn document<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Value {
        let (code, out, err) = self.run(arguments);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        serde_json::from_str(&out).expect("JSON")
    }
}

/// A program's exit code, stdout and stderr.
pub fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (output.status.code().expect("it was not killed"), text(&output.stdout), text(&output.stderr))
}
