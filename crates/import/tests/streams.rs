//! An LTTng trace's streams: in several files, without their first packets, and missing.

use std::fs;
use std::path::Path;

use wakepath_event::{Cpu, Damage, DamageKind, Event, EventKind, EventSource, RecordingFormat};
use wakepath_import::Lttng;

const METADATA: &str = "typealias integer { size = 8; } := u8;
    env { domain = kernel; hostname = h; kernel_release = \"6.1.0\"; };
    trace { major = 1; uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a564\";
        packet.header := struct { integer { size = 32; } magic; u8 uuid[16]; }; };
    stream { packet.context := struct { u8 cpu_id; u8 packet_seq_num; integer { size = 16; } packet_size;
            integer { size = 8; map = clock.c.value; } timestamp_begin; };
        event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } t; }; };
    clock { name = c; };
    event { name = sched_switch; id = 1; fields := struct { u8 _prev_tid; u8 _prev_state; u8 _next_tid; }; };
    event { name = sched_waking; id = 2; fields := struct { u8 _tid; u8 _target_cpu; }; };";

const UUID: [u8; 16] =
    [0x2a, 0x64, 0x22, 0xd0, 0x6c, 0xee, 0x11, 0xe0, 0x8c, 0x08, 0xcb, 0x07, 0xd7, 0xb3, 0xa5, 0x64];

/// A packet of this CPU, with its number and its begin.
fn packet(cpu: u8, number: u8, begin: u8, events: &[&[u8]]) -> Vec<u8> {
    let events = events.concat();
    let bits = (25 + events.len() as u16) * 8;
    let mut packet = [&0xc1fc_1fc1_u32.to_le_bytes()[..], &UUID, &[cpu, number]].concat();
    packet.extend(bits.to_le_bytes());
    packet.push(begin);
    packet.extend(events);
    packet
}

fn switch(at: u8, from: u8, to: u8) -> [u8; 5] {
    [1, at, from, 1, to]
}

fn waking(at: u8, thread: u8, cpu: u8) -> [u8; 4] {
    [2, at, thread, cpu]
}

/// Two CPUs' packets, in order.
fn packets() -> [Vec<Vec<u8>>; 2] {
    [
        vec![
            packet(0, 0, 10, &[&switch(10, 0, 3), &waking(20, 7, 1)]),
            packet(0, 1, 30, &[&waking(30, 8, 1), &switch(40, 3, 0)]),
            packet(0, 2, 50, &[&switch(50, 0, 3), &waking(60, 9, 0)]),
        ],
        vec![
            packet(1, 0, 15, &[&waking(15, 4, 0), &switch(25, 0, 7)]),
            packet(1, 1, 35, &[&switch(35, 7, 8), &waking(45, 5, 1)]),
            packet(1, 2, 55, &[&switch(55, 8, 0), &waking(65, 6, 0)]),
        ],
    ]
}

fn write(folder: &Path, files: &[(&str, Vec<u8>)]) {
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, bytes).expect("a file");
        let metadata = path.parent().expect("a folder").join("metadata");
        fs::write(metadata, METADATA).expect("a file");
    }
}

/// The events and damages of a trace with these files.
fn read(files: &[(&str, Vec<u8>)]) -> (Vec<Event>, Vec<Damage>) {
    let folder = tempfile::tempdir().expect("a directory");
    write(folder.path(), files);
    let trace = Lttng::open(folder.path()).expect("a trace");
    let mut events = Vec::new();
    let damages = trace.for_each(|event| events.push(event.clone()));
    assert!(events.is_sorted_by_key(|event| event.at), "{events:?}");
    (events, damages)
}

/// The trace as it should be, with a file for each CPU.
fn whole() -> (Vec<Event>, Vec<Damage>) {
    let [first, second] = packets().map(|packets| packets.concat());
    read(&[("k_0", first), ("k_1", second)])
}

/// Losses: CPU, begin and end.
fn losses(events: &[Event]) -> Vec<(u16, u64, u64)> {
    let loss = |event: &Event| match event.kind {
        EventKind::Loss { from, .. } => Some((event.cpu.0, from.ns(), event.at.ns())),
        _ => None,
    };
    events.iter().filter_map(loss).collect()
}

/// The CPUs without records, each with the first stamp.
fn unrecorded(events: &[Event]) -> Vec<(u16, u64)> {
    let all = events.iter().filter(|event| matches!(event.kind, EventKind::Unrecorded));
    all.map(|event| (event.cpu.0, event.at.ns())).collect()
}

#[test]
fn the_files_of_a_stream_are_read_as_one_in_the_order_of_their_packets() {
    let (whole, damages) = whole();
    assert_eq!((losses(&whole), unrecorded(&whole), damages), (vec![], vec![], vec![]));
    assert_eq!(whole.len(), 13, "{whole:?}");
    let [a, b] = packets();
    let file = |name: &'static str, packets: &[Vec<u8>]| (name, packets.concat());
    // Files with a limited size, the first written anew; and a folder for each part of the time.
    let rotated =
        [file("k_0_0", &a[2..]), file("k_0_1", &a[..1]), file("k_0_2", &a[1..2]), file("k_1_0", &b)];
    let folders = [
        file("archives/1/kernel/k_0", &a[..2]),
        file("archives/1/kernel/k_1", &b[..1]),
        file("kernel/k_0", &a[2..]),
        file("kernel/k_1", &b[1..]),
    ];
    for files in [&rotated[..], &folders] {
        let (events, damages) = read(files);
        assert_eq!((&events, damages), (&whole, vec![]));
    }
}

#[test]
fn damage_in_a_later_file_of_a_stream_is_placed_in_that_file() {
    let [a, b] = packets();
    let mut second = a[1].clone();
    let id = second.len() - 5;
    second[id] = 99;
    let files = [("k_0_0", a[0].clone()), ("k_0_1", second), ("k_0_2", a[2].clone()), ("k_1_0", b.concat())];
    let (_, damages) = read(&files);
    let [Damage { file, offset, packet: None, kind: DamageKind::Fault(_) }] = &*damages else {
        panic!("{damages:?}")
    };
    assert_eq!((&**file, *offset), ("k_0_1", Some(id as u64)));
}

#[test]
fn a_file_missing_between_two_of_a_stream_is_a_loss() {
    let [a, b] = packets();
    let files = [("k_0_0", a[0].clone()), ("k_0_2", a[2].clone()), ("k_1_0", b.concat())];
    assert_eq!(losses(&read(&files).0), [(0, 20, 50)]);
}

#[test]
fn files_whose_packets_do_not_follow_each_other_stay_apart() {
    let [a, b] = packets();
    // Two copies of a stream.
    let files = [("k_0", a.concat()), ("k_0_copy", a.concat()), ("k_1", b.concat())];
    assert_eq!(read(&files).0.len(), 13 + 6);
}

#[test]
fn a_cpu_without_a_stream_is_unrecorded_from_the_first_wake_up_to_it() {
    let [a, b] = packets();
    for (name, packets, cpu, at, end, wakings) in [("k_0", &a, 1, 20, 60, 2), ("k_1", &b, 0, 15, 65, 2)] {
        let (events, damages) = read(&[(name, packets.concat())]);
        assert_eq!(unrecorded(&events), [(cpu, at)], "{name}");
        let begin = events[0].at.ns();
        assert_eq!(losses(&events), [(cpu, begin, end)], "{name}");
        let kind = DamageKind::CpusUnrecorded { cpus: vec![cpu.into()], wakings };
        assert_eq!(damages.iter().map(|damage| &damage.kind).collect::<Vec<_>>(), [&kind]);
    }
}

#[test]
fn a_channel_without_switches_covers_no_cpu() {
    let other = METADATA.replace("stream { packet.context", "stream { id = 0; packet.context")
        + "stream { id = 1; packet.context := struct { u8 cpu_id; u8 packet_seq_num; integer { size = 16; } packet_size;
            integer { size = 8; map = clock.c.value; } timestamp_begin; };
        event.header := struct { u8 id; integer { size = 8; map = clock.c.value; } t; }; };
    event { name = block_rq_issue; id = 1; stream_id = 1; fields := struct { u8 dev; }; };";
    let other = ["id = 1; fields := struct { u8 _prev", "id = 2; fields := struct { u8 _tid"]
        .into_iter()
        .fold(other, |text, event| text.replace(event, &format!("stream_id = 0; {event}")));
    // Each packet says its stream's class.
    let other = other.replace("u8 uuid[16]; };", "u8 uuid[16]; u8 stream_id; };");
    let with_class = |packet: &[u8], class: u8| {
        let mut packet = packet.to_vec();
        packet.insert(20, class);
        let bits = u16::from_le_bytes([packet[23], packet[24]]) + 8;
        packet[23..25].copy_from_slice(&bits.to_le_bytes());
        packet
    };
    let folder = tempfile::tempdir().expect("a directory");
    let [a, _] = packets();
    let sched: Vec<u8> = a.iter().flat_map(|packet| with_class(packet, 0)).collect();
    // The first packet is gone, which says nothing of switches either.
    let block = with_class(&packet(1, 1, 30, &[&[1, 30, 8]]), 1);
    write(folder.path(), &[("sched_0", sched), ("block_1", block)]);
    fs::write(folder.path().join("metadata"), other).expect("a file");
    let trace = Lttng::open(folder.path()).expect("a trace");
    let mut events = Vec::new();
    let damages = trace.for_each(|event| events.push(event.clone()));
    let kinds: Vec<_> = damages.iter().map(|damage| &damage.kind).collect();
    assert_eq!(kinds, [&DamageKind::CpusUnrecorded { cpus: vec![1], wakings: 2 }], "{events:?}");
    assert_eq!(unrecorded(&events), [(1, 20)]);
}

#[test]
fn a_stream_without_its_first_packet_begins_late() {
    let [a, b] = packets();
    let (events, damages) = read(&[("k_0", a.concat()), ("k_1", b[1..].concat())]);
    assert_eq!((unrecorded(&events), losses(&events)), (vec![(1, 10)], vec![(1, 10, 35)]));
    let [Damage { file, kind, .. }] = &*damages else { panic!("{damages:?}") };
    assert_eq!((&**file, kind), ("k_1", &DamageKind::BeginMissing { cpu: 1, late_ns: 25 }));
    // Later records are those in the whole trace.
    let later = |events: &[Event]| -> Vec<Event> {
        let is_later = |event: &&Event| event.cpu == Cpu(1) && event.at.ns() > 35;
        events.iter().filter(is_later).cloned().collect()
    };
    assert_eq!(later(&events), later(&whole().0));
    // Where every stream lost its first packet, the trace begins with the earliest.
    let (events, damages) = read(&[("k_0", a[1..].concat()), ("k_1", b[1..].concat())]);
    assert_eq!((unrecorded(&events), losses(&events)), (vec![(1, 30)], vec![(1, 30, 35)]));
    assert_eq!(damages.len(), 1, "{damages:?}");
}

#[test]
fn no_stream_and_no_packet_can_be_left_out_unnoticed() {
    let all = packets();
    for cpu in 0..2 {
        for left_out in 0..3 {
            let mut packets = all.clone();
            packets[cpu].remove(left_out);
            let [first, second] = packets.map(|packets| packets.concat());
            let (events, damages) = read(&[("k_0", first), ("k_1", second)]);
            // Nothing says that a stream's last packet is missing.
            let is_noticed = !losses(&events).is_empty() && (left_out > 0 || !damages.is_empty());
            assert_eq!(is_noticed, left_out < 2, "{cpu} {left_out}: {events:?}");
        }
    }
}
