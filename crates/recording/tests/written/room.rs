//! A recording without room for more ends whole.

use std::path::Path;
use std::process::Command;

use wakepath_event::{Cpu, EventKind, EventSource, Mark, RecordingFormat, Tid};
use wakepath_kernel_records::Buffer;
use wakepath_recording::{Options, Recording, WriteError, Writer};
use wakepath_scenario::event;

use crate::made;

fn wakings(from: u64, count: u64) -> Vec<Vec<u8>> {
    let waking =
        |at: u64| event(at, 0, 1, EventKind::Waking { target: Tid(2), irq: 0, newborn: false, socket: None });
    (from..from + count).map(|at| made::encode(&waking(at), at as u16)).collect()
}

/// Appends packets with ten records until an error, and returns the number of packets.
fn fill(writer: &mut Writer) -> (u64, WriteError) {
    for packet in 0..1_000_000 {
        let records = wakings(packet * 10, 10);
        let bytes = records.concat();
        let stream = writer.sched(Cpu(0)).expect("a stream");
        if let Err(error) = stream.append(&[&bytes], packet * 10, packet * 10 + 9, 10, 0) {
            return (packet, error);
        }
    }
    panic!("endless room");
}

fn whole_packets(path: &Path, packets: u64) {
    let mut events = 0;
    let problems = Recording::open(path).expect("a recording").for_each(|_| events += 1);
    assert_eq!((events, problems), (packets * 10, vec![]), "what was written is whole");
}

#[test]
fn the_size_limit_is_kept_to_the_byte_and_leaves_whole_packets() {
    let packet = 80 + 10 * 24;
    for (limit, packets) in [(0, 0), (packet - 1, 0), (packet, 1), (10 * packet, 10), (11 * packet - 1, 10)] {
        let (_folder, path) = made::place();
        let options = Options { most_bytes: Some(limit), ..made::options() };
        let mut writer = Writer::create(&path, &made::host(), &options).expect("a new recording");
        let (written, error) = fill(&mut writer);
        assert!(matches!(error, WriteError::SizeLimit { limit: of } if of == limit), "{error}");
        assert!(error.is_out_of_room());
        assert_eq!((written, writer.bytes()), (packets, packets * packet));
        whole_packets(&path, packets);
    }
}

#[test]
fn needs_root_a_full_disk_takes_back_the_packet_that_did_not_fit() {
    let (folder, _) = made::place();
    let small = folder.path().join("small");
    std::fs::create_dir(&small).expect("a directory");
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&small).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        let required = std::env::var_os("WAKEPATH_REQUIRE_LIVE").is_some_and(|value| value == "1");
        assert!(!required, "a small file system cannot be mounted");
        eprintln!("skipped: cannot mount; it would have shown that a full disk leaves whole packets");
        return;
    }
    let path = small.join("wakepath.rec");
    let mut writer = Writer::create(&path, &made::host(), &made::options()).expect("a new recording");
    let (packets, error) = fill(&mut writer);
    let space = writer.check_space().expect("no reserve asked for");
    let reserve = Options { least_free_percent: Some(10), ..made::options() };
    let reserved = Writer::create(&small.join("other"), &made::host(), &reserve).map(|w| w.check_space());
    let written = writer.bytes();
    whole_packets(&path, packets);
    drop(writer);
    let unmounted = Command::new("umount").arg(&small).status().expect("umount");
    assert!(unmounted.success());

    assert!(matches!(error, WriteError::DiskFull(_)) && error.is_out_of_room(), "{error}");
    assert_eq!(written, packets * (80 + 10 * 24));
    assert!(space.total == 256 * 1024 && space.free < 4096, "{space:?}");
    // There was no room for the second recording's metadata, or its first check of the disk refused.
    match reserved {
        Ok(Err(error)) => {
            assert!(matches!(error, WriteError::DiskReserve { least: 26214, .. }), "{error}")
        }
        Ok(Ok(space)) => panic!("{space:?} is less than a tenth"),
        Err(error) => assert!(matches!(error, WriteError::DiskFull(_)), "{error}"),
    }
}

#[test]
fn a_packet_that_begins_before_the_last_one_ended_is_refused_and_changes_nothing() {
    let (_folder, path) = made::place();
    let mut writer = Writer::create(&path, &made::host(), &made::options()).expect("a new recording");
    made::append(&mut writer, Buffer::Sched, Cpu(0), &wakings(100, 10), 0);
    let late = wakings(50, 10).concat();
    let stream = writer.sched(Cpu(0)).expect("a stream");
    let error = stream.append(&[&late], 50, 59, 10, 0).expect_err("too early");
    assert!(matches!(error, WriteError::Backwards { stamp: 50, after: 109, .. }), "{error}");
    let error = stream.append(&[&late[..20]], 200, 200, 1, 0).expect_err("no records");
    assert!(matches!(error, WriteError::NotRecords { bytes: 20, .. }), "{error}");
    stream.append(&[&[], &[]], 0, 0, 0, 0).expect("nothing is nothing");
    whole_packets(&path, 1);
}

#[test]
fn rare_records_are_written_in_order_and_late_ones_are_kept_apart() {
    let (_folder, path) = made::place();
    let mut writer = Writer::create(&path, &made::host(), &made::options()).expect("a new recording");
    let exit = |at| event(at, 1, at as u32, EventKind::Exit);
    for (batch, until) in [
        (&[30, 10, 20, 20, 45][..], 30),
        // 40 comes before the waiting 45; 15 and 25 are late, 50 waits.
        (&[40, 25, 15, 50], 45),
        // 5 is too late even for the late stream.
        (&[5, 60], 55),
        (&[], u64::MAX),
    ] {
        for &at in batch {
            writer.life().push_event(&exit(at)).expect("a record");
        }
        writer.life().flush(until, 0).expect("room");
    }
    assert_eq!(writer.life().waiting(), 0);
    let mut read = Vec::new();
    let problems = Recording::open(&path).expect("a recording").for_each(|event| {
        read.push(match event.kind {
            EventKind::Loss { from, count, .. } => format!("lost {count} {}-{}", from.ns(), event.at.ns()),
            _ => format!("{}", event.at.ns()),
        });
    });
    assert_eq!(problems, []);
    assert_eq!(read.join(", "), "10, 15, 20, 20, 25, 30, 40, 45, lost 1 5-45, 50, 60");
}

#[test]
fn bytes_kept_for_the_end_are_there_at_the_end() {
    let (_folder, path) = made::place();
    let packet = 80 + 10 * 24;
    let options = Options { most_bytes: Some(10 * packet), kept_for_end: 3 * packet, ..made::options() };
    let mut writer = Writer::create(&path, &made::host(), &options).expect("a new recording");
    let (written, error) = fill(&mut writer);
    assert!(matches!(error, WriteError::SizeLimit { limit } if limit == 10 * packet), "{error}");
    assert_eq!(written, 7);
    writer.use_all_room();
    for at in [70, 80, 90] {
        made::append(&mut writer, Buffer::Sched, Cpu(0), &wakings(at, 10), 0);
    }
    assert_eq!(writer.bytes(), 10 * packet);
    whole_packets(&path, 10);
}

#[test]
fn a_recording_notes_its_end_even_without_room_for_waiting_records() {
    let (_folder, path) = made::place();
    let options = Options { most_bytes: Some(400), ..made::options() };
    let mut writer = Writer::create(&path, &made::host(), &options).expect("a new recording");
    let event = |at, what| event(at, Cpu::UNKNOWN.0, at as u32, what);
    for at in 10..60 {
        writer.life().push_event(&event(at, EventKind::Exit)).expect("a record");
    }
    writer.life().push_event(&event(60, EventKind::Mark(Mark::Stopped))).expect("a record");
    let error = writer.life().flush(u64::MAX, 0).expect_err("no room");
    assert!(error.is_out_of_room(), "{error}");
    writer.life().shed().expect("a loss");
    writer.life().flush(u64::MAX, 0).expect("room for that");
    let mut read = Vec::new();
    let problems = Recording::open(&path).expect("a recording").for_each(|event| {
        read.push(match &event.kind {
            EventKind::Loss { from, count, .. } => format!("lost {count} {}-{}", from.ns(), event.at.ns()),
            what => format!("{what:?} {}", event.at.ns()),
        });
    });
    assert_eq!((problems, read.join(", ")), (vec![], "lost 50 10-59, Mark(Stopped) 60".to_owned()));
}
