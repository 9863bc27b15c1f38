//! Recordings made from given events, for this crate's tests.

use std::path::{Path, PathBuf};

use wakepath_event::{Cpu, Event};
use wakepath_kernel_records::{Buffer, Encoder, Header};
use wakepath_recording::{HostIdentity, Options, Writer};

/// The release of the records' kernel.
pub const RELEASE: &str = "6.18.0";
/// Every recording's uuid.
pub const UUID: [u8; 16] = *b"\x00recording test\xff";

pub fn host() -> HostIdentity {
    HostIdentity {
        name: "web3".to_owned(),
        boot_id: "67e2237c-99e6-488f-b6e0-82e34227d61c".to_owned(),
        kernel_release: RELEASE.to_owned(),
        machine: "x86_64".to_owned(),
        cpus: 4,
    }
}

pub fn options() -> Options {
    Options { uuid: Some(UUID), ..Options::new("0.1.0", "--duration 5 -- \"a\\b\" é") }
}

/// A fresh directory, deleted with the value, and a name in it.
pub fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("wakepath.rec");
    (folder, path)
}

pub fn encode(event: &Event, seq: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    Encoder::for_release(RELEASE).encode(event, seq, &mut bytes).expect("an event that fits");
    bytes
}

/// Writes a buffer's and CPU's whole records as a packet.
pub fn append(writer: &mut Writer, buffer: Buffer, cpu: Cpu, records: &[Vec<u8>], lost: u64) {
    let stamp = |record: &Vec<u8>| Header::read(record).expect("a header").stamp;
    let (Some(first), Some(last)) = (records.first().map(stamp), records.last().map(stamp)) else { return };
    let bytes = records.concat();
    let half = bytes.len() / 16 * 8;
    let stream = match buffer {
        Buffer::Sched => writer.sched(cpu),
        Buffer::Net => writer.net(cpu),
        Buffer::Life => {
            for record in records {
                writer.life().push(record).expect("a record");
            }
            return writer.life().flush(u64::MAX, lost).expect("room");
        }
    };
    let stream = stream.expect("a stream");
    stream.append(&[&bytes[..half], &bytes[half..]], first, last, records.len() as u64, lost).expect("room");
}

/// Writes a recording of these events, `per_packet` to a packet.
pub fn record(path: &Path, events: &[(Buffer, Event)], per_packet: usize) {
    record_with_ends(path, events, per_packet, false);
}

/// The same; `with_ends` adds a properly ended recorder's mark to each CPU's stream.
pub fn record_with_ends(path: &Path, events: &[(Buffer, Event)], per_packet: usize, with_ends: bool) {
    let mut writer = Writer::create(path, &host(), &options()).expect("a new recording");
    let mut cpus: Vec<Cpu> = events.iter().map(|(_, event)| event.cpu).collect();
    cpus.sort();
    cpus.dedup();
    for buffer in Buffer::ALL {
        // In the shared buffer, the CPUs share a stream.
        let streams =
            if buffer == Buffer::Life { vec![None] } else { cpus.iter().copied().map(Some).collect() };
        for cpu in streams {
            let of_stream =
                |(of, event): &&(Buffer, Event)| *of == buffer && cpu.is_none_or(|c| c == event.cpu);
            let mut of_stream: Vec<&Event> =
                events.iter().filter(of_stream).map(|(_, event)| event).collect();
            of_stream.sort_by_key(|event| event.at);
            let number = |(i, event): (usize, &&Event)| match buffer {
                Buffer::Life => encode(event, event.cpu.0),
                _ => encode(event, i as u16),
            };
            let records: Vec<_> = of_stream.iter().enumerate().map(number).collect();
            for packet in records.chunks(per_packet.max(1)) {
                append(&mut writer, buffer, cpu.unwrap_or(Cpu(0)), packet, 0);
            }
        }
    }
    if with_ends {
        let end = events.iter().map(|(_, event)| event.at).max().unwrap_or_default();
        writer.close_streams(end.plus(50)).expect("room");
    }
}
