//! The cursor's fast path on regular streams, and its end at a disk error.

use super::*;
use crate::synthetic;

const UUID: [u8; 16] = *b"synthetic machin";

/// A file's bytes on a disk with a bad sector, and the largest read.
struct Disk {
    bytes: Vec<u8>,
    bad: u64,
    most: std::cell::Cell<usize>,
}

impl Disk {
    fn new(bytes: Vec<u8>, bad: u64) -> Self {
        Self { bytes, bad, most: std::cell::Cell::default() }
    }

    fn cursor(self, name: &str, end: u64) -> (StreamInfo, Cursor<Self>) {
        let (buffer, _) = crate::stream_name::stream_of_name(name).expect("a stream's name");
        let info =
            StreamInfo::scan(name, buffer, Cpu(0), &&self.bytes[..], UUID).expect("memory has no errors");
        let decoder = Decoder::for_release("6.18.0");
        let cursor = Cursor::new(&info, self, UUID, decoder, (5, end)).expect("a stream");
        (info, cursor)
    }
}

impl Source for Disk {
    fn size(&self) -> io::Result<u64> {
        self.bytes.as_slice().size()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.most.set(self.most.get().max(into.len()));
        let read = self.bytes.as_slice().read_at(offset, into)?;
        let is_bad = offset < self.bad.saturating_add(512) && self.bad < offset + read as u64;
        if is_bad { Err(io::Error::other("bad sector")) } else { Ok(read) }
    }
}

/// The bytes of a stream from a simulated machine.
fn stream(name: &str, events: u64) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("rec");
    let machine = synthetic::Machine { cpus: 1, threads_per_cpu: 3, events, seed: 7 };
    synthetic::write(&path, &machine).expect("room");
    std::fs::read(path.join("kernel").join(name)).expect("a stream")
}

/// Threads that all end at the same time, in two packets of the shared buffer.
fn exits() -> Vec<u8> {
    const PER_PACKET: u64 = 10_000;
    let exit = Event {
        at: Stamp::from_ns(1000),
        cpu: Cpu(0),
        context: Context::Task,
        current: Tid(7),
        kind: EventKind::Exit,
    };
    let mut record = Vec::new();
    wakepath_kernel_records::Encoder::for_release("6.18.0")
        .encode(&exit, 0, &mut record)
        .expect("an event that fits");
    let records = record.repeat(PER_PACKET as usize);
    let header = |number| wakepath_ctf::packet::PacketHeader {
        uuid: UUID,
        stream_id: stream_id(Buffer::Life),
        cpu: 0,
        begin: 1000,
        end: 1000,
        content: records.len() as u64,
        discarded: 0,
        number,
        events: PER_PACKET as u32,
    };
    [0, 1].map(|number| [&header(number).to_bytes()[..], &records].concat()).concat()
}

/// The fast path has no effect on the events: without it, reading takes several times as long.
#[test]
fn records_without_anything_odd_are_not_examined_one_by_one() {
    for (name, bytes, least) in [
        ("sched_0", stream("sched_0", 80_000), 80_000),
        ("net_0", stream("net_0", 80_000), 1000),
        ("life", exits(), 20_000),
    ] {
        let (info, mut cursor) = Disk::new(bytes, u64::MAX).cursor(name, u64::MAX);
        let mut read = 0;
        // A stream's first record is examined with much in sight.
        assert_eq!(info.first.map(Head::At), Some(cursor.run(0, &mut |_| read += 1)));
        cursor.source.most.set(0);
        cursor.examined = 0;
        // Up to a record in the middle, then to the end.
        let middle = info.first.zip(info.last).map_or(0, |(first, last)| u64::midpoint(first, last));
        if let Head::At(next) = cursor.run(middle, &mut |_| read += 1) {
            assert!(next > middle && read > least / 3, "{next} behind {middle}, {read} read");
        }
        assert_eq!(cursor.run(u64::MAX, &mut |_| read += 1), Head::End);
        assert_eq!(read, info.records, "{name}");
        assert!(read >= least, "{name}: {read}");
        // The first record, whose sequence number, if any, is arbitrary; and each packet's last record, since no
        // record behind it proves its length.
        let examined = info.packets + u64::from(info.buffer.counts());
        assert_eq!(cursor.examined, examined, "{name}: {} of {read}", cursor.examined);
        assert!(cursor.source.most.get() <= BLOCK_BYTES, "{name}: {}", cursor.source.most.get());
        assert_eq!(cursor.problems(), []);
    }
}

#[test]
fn where_a_disk_fails_the_rest_of_a_stream_is_lost_and_the_reason_is_said() {
    let bytes = stream("sched_0", 50_000);
    // In the header of the first packet, among its records, and in the last packet.
    for bad in [70, 600_000, bytes.len() as u64 - 10] {
        let (info, mut cursor) = Disk::new(bytes.clone(), bad).cursor("sched_0", u64::MAX);
        assert!(info.packets > 1, "{info:?}");
        let mut events = Vec::new();
        assert_eq!(cursor.run(u64::MAX - 1, &mut |event| events.push(event.clone())), Head::At(u64::MAX));
        let read = events.len();
        assert_eq!(cursor.run(u64::MAX, &mut |event| events.push(event.clone())), Head::End);
        assert_eq!(events.len(), read + 1, "the loss, at the recording's end");
        let last = read.checked_sub(1).map_or(0, |last| events[last].at.ns());
        let lost = EventKind::Loss {
            from: Stamp::from_ns(last),
            count: 0,
            records: wakepath_event::LostRecords::Any,
        };
        assert_eq!((&events[read].kind, events[read].at.ns()), (&lost, u64::MAX), "{bad}");
        let problems = cursor.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].fault, ReadFault::Io("bad sector".to_owned()));
        // All records but the failing block's.
        assert!((bad.saturating_sub(BLOCK_BYTES as u64)..=bad).contains(&problems[0].offset), "{problems:?}");
        let least = bad.saturating_sub(BLOCK_BYTES as u64) / 48;
        assert!((least..=bad / 24).contains(&(read as u64)), "{bad}: {read}");
    }
}
