//! A writer's packets: the packets that it refuses, and the facts that a reader takes from their headers.

use std::path::Path;

use wakepath_event::{Cpu, EventKind, EventSource as _, RecordingFormat as _, Tid};
use wakepath_kernel_records::{Buffer, DecodeError};
use wakepath_recording::{Options, Recording, StreamInfo, WriteError, Writer};
use wakepath_scenario::event;

use crate::made;

/// The sizes of a packet's header and of a waking, bytes.
const HEADER: u64 = 80;
const WAKING: u64 = 24;

fn waking(at: u64, number: u16) -> Vec<u8> {
    let kind = EventKind::Waking { target: Tid(2), irq: 0, newborn: false, socket: None };
    made::encode(&event(at, 0, 1, kind), number)
}

fn exit(at: u64) -> Vec<u8> {
    made::encode(&event(at, 0, 1, EventKind::Exit), 0)
}

fn create(path: &Path) -> Writer {
    Writer::create(path, &made::host(), &made::options()).expect("a new recording")
}

fn stream(path: &Path, name: &str) -> StreamInfo {
    let recording = Recording::open(path).expect("a recording");
    recording.streams().iter().find(|stream| stream.name == name).expect("a stream").clone()
}

#[test]
fn a_packet_is_made_of_whole_records_in_at_most_seven_pieces() {
    let (_folder, path) = made::place();
    let mut writer = create(&path);
    let stream = writer.sched(Cpu(0)).expect("a stream");
    let record = waking(10, 0);
    let pieces = |count| vec![&record[..8]; count];
    for (chunks, records, bytes) in [(pieces(8), 1, 64), (vec![&record[..20]], 1, 20), (pieces(3), 0, 24)] {
        let count = chunks.len();
        let error = stream.append(&chunks, 10, 10, records, 0).expect_err("no records");
        assert!(
            matches!(error, WriteError::NotRecords { bytes: of, chunks, .. } if (of, chunks) == (bytes, count)),
            "{error}"
        );
        assert!(!error.is_out_of_room());
    }
    assert_eq!((stream.bytes(), stream.last()), (0, 0), "what is refused leaves nothing");
    stream
        .append(&[&record[..8], &record[8..16], &[], &[], &[], &[], &record[16..]], 10, 10, 1, 0)
        .expect("room");
    assert_eq!((stream.bytes(), stream.last()), (HEADER + WAKING, 10));
    assert_eq!(stream.path(), path.join("kernel/sched_0"));
    assert_eq!(writer.bytes(), HEADER + WAKING);
    assert_eq!(Recording::open(&path).expect("a recording").for_each(|_| {}), []);
}

#[test]
fn packets_may_begin_where_the_last_one_ended_and_not_before() {
    let (_folder, path) = made::place();
    let mut writer = create(&path);
    let stream = writer.sched(Cpu(0)).expect("a stream");
    let mut number = 0;
    let mut append = |first, last| {
        let records = [waking(first, number), waking(last, number + 1)].concat();
        stream.append(&[&records], first, last, 2, 0).inspect(|()| number += 2)
    };
    append(10, 20).expect("the first");
    append(20, 20).expect("at the same time");
    for (first, last, stamp, after) in
        [(19, 30, 19, 20), (19, 19, 19, 20), (40, 39, 39, 40), (19, 18, 18, 19)]
    {
        let error = append(first, last).expect_err("backwards");
        assert!(
            matches!(error, WriteError::Backwards { stamp: is, after: than, .. } if (is, than) == (stamp, after)),
            "{error}"
        );
    }
    append(20, 21).expect("a little later");
    let mut stamps = Vec::new();
    let problems = Recording::open(&path).expect("a recording").for_each(|event| stamps.push(event.at.ns()));
    assert_eq!((problems, stamps), (vec![], vec![10, 20, 20, 20, 20, 21]));
}

/// The lost-record counter only grows, whatever number a writer is given.
#[test]
fn a_stream_has_as_many_lost_records_as_its_largest_counter_said() {
    let (_folder, path) = made::place();
    let mut writer = create(&path);
    for (packet, lost) in (0..).zip([0, 7, 3]) {
        made::append(&mut writer, Buffer::Net, Cpu(2), &[waking(10 + packet, packet as u16)], lost);
        writer.life().push(&exit(10 + packet)).expect("a record");
        writer.life().flush(u64::MAX, lost).expect("room");
    }
    let (net, life) = (stream(&path, "net_2"), stream(&path, "life"));
    assert_eq!((net.packets, net.discarded), (3, 7));
    assert_eq!((life.packets, life.discarded), (3, 7));
    let headers = |name| {
        let bytes = std::fs::read(path.join("kernel").join(name)).expect("a stream");
        let packet = bytes.len() / 3;
        let number =
            |packet: &[u8], at: usize| u64::from_le_bytes(*packet[at..].first_chunk().expect("8 bytes"));
        let header = |packet: &[u8]| (number(packet, 56), number(packet, 64));
        bytes.chunks(packet).map(header).collect::<Vec<_>>()
    };
    for name in ["net_2", "life"] {
        assert_eq!(headers(name), [(0, 0), (7, 1), (7, 2)], "{name}: lost records, and the packet's number");
    }
}

/// The shared buffer's lost records are counted once: the stream of late records does not count them again.
#[test]
fn losses_of_the_shared_buffer_are_counted_once() {
    let (_folder, path) = made::place();
    let mut writer = create(&path);
    for (at, lost) in [(20, 3), (10, 5), (30, 5)] {
        writer.life().push(&exit(at)).expect("a record");
        writer.life().flush(u64::MAX, lost).expect("room");
    }
    assert_eq!((stream(&path, "life").discarded, stream(&path, "life_late").discarded), (5, 0));
    let format = Recording::open(&path).expect("a recording").description().format.clone();
    assert_eq!(format.expect("one of ours").discarded, 5);
}

#[test]
fn a_rare_record_of_the_same_time_as_the_last_one_is_not_late() {
    let (_folder, path) = made::place();
    let mut writer = create(&path);
    for at in [30, 20, 30, 20, 31] {
        writer.life().push(&exit(at)).expect("a record");
        writer.life().flush(u64::MAX, 0).expect("room");
    }
    assert_eq!((stream(&path, "life").records, stream(&path, "life_late").records), (3, 2));
    let mut stamps = Vec::new();
    let problems = Recording::open(&path).expect("a recording").for_each(|event| stamps.push(event.at.ns()));
    assert_eq!((problems, stamps), (vec![], vec![20, 20, 30, 30, 31]), "none is lost");
}

#[test]
fn the_shared_stream_takes_one_whole_record_of_its_own_at_a_time() {
    let (_folder, path) = made::place();
    let mut writer = create(&path);
    let life = writer.life();
    let good = exit(10);
    let foreign = made::encode(&event(10, 0, 1, EventKind::Current), 0);
    let mut unknown = exit(10);
    unknown[8] = 255;
    for record in [&foreign, &[good.clone(), good.clone()].concat()] {
        let error = life.push(record).expect_err("not one record of this buffer");
        assert!(
            matches!(error, WriteError::Record(DecodeError::UnknownKind(kind)) if kind == record[8]),
            "{error}"
        );
    }
    for record in [&good[..good.len() - 1], &good[..8], &[], &unknown] {
        assert!(matches!(life.push(record), Err(WriteError::Record(_))), "{record:?}");
    }
    assert_eq!(life.waiting(), 0);
    life.push(&good).expect("a record");
    life.push(&good).expect("a record");
    assert_eq!(life.waiting(), 2 * good.len());
    life.flush(9, 0).expect("room");
    assert_eq!(life.waiting(), 2 * good.len(), "they are later");
    life.flush(10, 0).expect("room");
    assert_eq!(life.waiting(), 0);
    assert_eq!(stream(&path, "life").records, 2);
}

#[test]
fn streams_are_of_cpus_that_a_machine_can_have() {
    let (_folder, path) = made::place();
    let mut writer = create(&path);
    for cpu in [8192, u16::MAX] {
        assert!(matches!(writer.sched(Cpu(cpu)), Err(WriteError::NoSuchCpu(of)) if of == cpu), "{cpu}");
        assert!(matches!(writer.net(Cpu(cpu)), Err(WriteError::NoSuchCpu(of)) if of == cpu), "{cpu}");
    }
    for cpu in [8191, 0, 2, 1] {
        made::append(&mut writer, Buffer::Sched, Cpu(cpu), &[waking(u64::from(cpu), 0)], 0);
    }
    assert_eq!((stream(&path, "sched_8191").cpu, stream(&path, "sched_1").cpu), (Cpu(8191), Cpu(1)));
    let mut cpus = Vec::new();
    assert_eq!(Recording::open(&path).expect("a recording").for_each(|event| cpus.push(event.cpu.0)), []);
    assert_eq!(cpus, [0, 1, 2, 8191]);
}

/// RFC 9562, section 5.4: the version is 4, the variant is 2, and the other 122 bits are random.
#[test]
fn a_recording_is_identified_by_a_random_uuid() {
    const FIXED: u128 = 0x0000_0000_0000_f000_c000_0000_0000_0000;
    const VERSION_4: u128 = 0x0000_0000_0000_4000_8000_0000_0000_0000;
    let (mut in_all, mut in_any) = (u128::MAX, 0);
    for _ in 0..64 {
        let (_folder, path) = made::place();
        let options = Options { uuid: None, ..made::options() };
        drop(Writer::create(&path, &made::host(), &options).expect("a new recording"));
        let uuid = u128::from_be_bytes(Recording::open(&path).expect("a recording").uuid());
        in_all &= uuid;
        in_any |= uuid;
    }
    assert_eq!((in_all, in_any), (VERSION_4, !FIXED | VERSION_4));
}

#[test]
fn a_stream_without_a_record_has_its_end_alone() {
    let (_folder, path) = made::place();
    let mut writer = create(&path);
    writer.sched(Cpu(0)).expect("a stream");
    made::append(&mut writer, Buffer::Sched, Cpu(1), &[waking(10, 0)], 0);
    made::append(&mut writer, Buffer::Sched, Cpu(1), &[waking(20, 1), waking(22, 2)], 0);
    // The stream's end is not before its last record.
    writer.close_streams(wakepath_clock::Stamp::from_ns(15)).expect("room");
    assert_eq!(writer.sched(Cpu(0)).expect("a stream").bytes(), HEADER);
    let one = writer.sched(Cpu(1)).expect("a stream");
    assert_eq!((one.bytes(), one.last()), (3 * HEADER + 3 * WAKING, 22));
    assert_eq!(writer.bytes(), 4 * HEADER + 3 * WAKING);
    let mut events = 0;
    assert_eq!(Recording::open(&path).expect("a recording").for_each(|_| events += 1), []);
    let (empty, full) = (stream(&path, "sched_0"), stream(&path, "sched_1"));
    assert_eq!((events, empty.closed, empty.packets, full.closed, full.packets), (3, true, 0, true, 2));
    assert_eq!((full.first, full.last), (Some(10), Some(22)));
    // For other readers: the mark covers no time but its own stamp.
    let bytes = std::fs::read(path.join("kernel/sched_1")).expect("a stream");
    let mark = bytes.last_chunk::<80>().expect("a packet");
    let [begin, end] = [24, 32].map(|at| u64::from_le_bytes(*mark[at..].first_chunk().expect("8 bytes")));
    assert_eq!((begin, end), (22, 22));
}

#[test]
fn the_ends_of_streams_are_written_for_all_or_for_none() {
    for (room, is_closed) in [(2 * HEADER - 1, false), (2 * HEADER, true)] {
        let (_folder, path) = made::place();
        let options = Options { most_bytes: Some(2 * (HEADER + WAKING) + room), ..made::options() };
        let mut writer = Writer::create(&path, &made::host(), &options).expect("a new recording");
        for cpu in [0, 1] {
            made::append(&mut writer, Buffer::Sched, Cpu(cpu), &[waking(10, 0)], 0);
        }
        let closed = writer.close_streams(wakepath_clock::Stamp::from_ns(20));
        assert_eq!(closed.is_ok(), is_closed);
        assert!(closed.err().is_none_or(|error| error.is_out_of_room()));
        for name in ["sched_0", "sched_1"] {
            assert_eq!(stream(&path, name).closed, is_closed, "{name}");
        }
    }
}

#[test]
fn a_record_with_a_stacks_memory_or_a_programs_words_is_never_written() {
    /// `WP_EXEC_ARGUMENTS` in `bpf/arguments.h`, `WP_STACK_COPY` in `bpf/unwind.h`.
    const NEVER: [u8; 2] = [62, 63];
    let (_folder, path) = made::place();
    let mut writer = create(&path);
    for kind in NEVER {
        let mut record = exit(10);
        record.extend(b"SECRET__");
        record[8] = kind;
        let error = writer.life().push(&record).expect_err("no such kind");
        assert!(matches!(error, WriteError::Record(DecodeError::UnknownKind(of)) if of == kind), "{error}");
    }
    assert_eq!(writer.life().waiting(), 0);
}
