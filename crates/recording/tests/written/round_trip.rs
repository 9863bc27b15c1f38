//! A recording reads as it was written.

use proptest::prelude::*;
use wakepath_clock::Stamp;
use wakepath_event::{Cpu, Event, EventKind, EventSource, Mark, RecordingFormat, Tid};
use wakepath_kernel_records::Buffer;
use wakepath_recording::{FORMAT, ReadFault, Recording};
use wakepath_scenario::arbitrary::any_event;

use crate::made;

/// Any events from a machine with four CPUs and a young clock, so that equal stamps happen.
fn events() -> impl Strategy<Value = Vec<(Buffer, Event)>> {
    let near = (any_event(Buffer::ALL), 0..200u64, 0..4u16).prop_map(|((buffer, mut event), at, cpu)| {
        event.at = Stamp::from_ns(at);
        event.cpu = Cpu(cpu);
        (buffer, event)
    });
    proptest::collection::vec(near, 0..120)
}

/// The order that [`Recording::for_each`] promises.
fn in_order(mut events: Vec<(Buffer, Event)>) -> Vec<Event> {
    let rank = |buffer| match buffer {
        Buffer::Life => 0,
        Buffer::Net => 1,
        Buffer::Sched => 2,
    };
    let cpu = |buffer, event: &Event| if buffer == Buffer::Life { Cpu(0) } else { event.cpu };
    events.sort_by_key(|(buffer, event)| (event.at, rank(*buffer), cpu(*buffer, event)));
    events.into_iter().map(|(_, event)| event).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn every_event_comes_back_once_and_in_time_order(events in events(), per_packet in 1..40usize) {
        let (_folder, path) = made::place();
        made::record(&path, &events, per_packet);
        let recording = Recording::open(&path).expect("a recording");
        let mut read = Vec::new();
        let problems = recording.for_each(|event| read.push(event.clone()));
        prop_assert_eq!(problems, vec![]);
        let expected = in_order(events);
        let extent = expected.first().map(|first| (first.at, expected[expected.len() - 1].at));
        prop_assert_eq!(recording.description().extent, extent);
        prop_assert_eq!(recording.streams().iter().map(|s| s.records).sum::<u64>(), read.len() as u64);
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn streams_one_by_one_hold_the_same_events(events in events()) {
        let (_folder, path) = made::place();
        made::record(&path, &events, 7);
        let recording = Recording::open(&path).expect("a recording");
        let (mut apart, mut merged) = (Vec::new(), Vec::new());
        for stream in 0..recording.streams().len() {
            recording.for_each_of(stream, |event| apart.push(event.clone()));
        }
        recording.for_each(|event| merged.push(event.clone()));
        // A stable sort: the streams' order decides between equal stamps.
        apart.sort_by_key(|event| event.at);
        prop_assert_eq!(apart, merged);
    }
}

/// Records with any length continue across the end of a read.
#[test]
fn long_records_are_read_whole() {
    let (_folder, path) = made::place();
    let long = |at: u64| {
        let words = vec![at as u8; 30_000 + 8 * at as usize].into();
        let mark = Mark::Command { tgid: Tid(at as u32), words };
        (Buffer::Life, wakepath_scenario::event(at, 0, 7, EventKind::Mark(mark)))
    };
    let events: Vec<_> = (1..60).map(long).collect();
    made::record(&path, &events, usize::MAX);
    let mut read = Vec::new();
    let problems = Recording::open(&path).expect("a recording").for_each(|event| read.push(event.clone()));
    assert_eq!(problems, []);
    assert!(read.iter().eq(events.iter().map(|(_, event)| event)));
}

#[test]
fn a_recording_knows_whose_it_is() {
    let (_folder, path) = made::place();
    made::record(&path, &[], 1);
    let recording = Recording::open(&path).expect("a recording");
    let source = recording.description();
    let format = source.format.as_ref().expect("one of ours");
    assert_eq!(source.host, made::host());
    assert_eq!(format.options, made::options().options);
    assert_eq!(format.writer, "0.1.0");
    assert_eq!(recording.uuid(), made::UUID);
    assert_eq!(source.extent, None);
    // Now, within a minute: the clocks were read at the recording's beginning.
    let now = wakepath_recording::ClockReading::now();
    let offset = i128::from(now.realtime_ns) - i128::from(now.monotonic_ns);
    assert!((source.realtime_offset_ns.expect("noted") - offset).abs() < 60_000_000_000);
}

#[test]
fn a_newer_format_is_refused_by_name_and_an_older_one_is_read() {
    let (_folder, path) = made::place();
    made::record(&path, &[], 1);
    let metadata = path.join("kernel/metadata");
    let text = std::fs::read_to_string(&metadata).expect("metadata");
    let (written, newer) = (format!("format = {FORMAT};"), FORMAT + 1);
    assert!(text.contains(&written));
    std::fs::write(&metadata, text.replace(&written, &format!("format = {newer};")))
        .expect("a writable file");
    let error = Recording::open(&path).expect_err("a newer recording");
    let expected =
        format!("{}: recording is of format {newer}, this wakepath reads up to {FORMAT}", path.display());
    assert_eq!(error.to_string(), expected);
    for (instead, why) in [
        ("format = 0;", "its metadata lacks the number of its format"),
        ("", "its metadata lacks the number of its format"),
    ] {
        std::fs::write(&metadata, text.replace(&written, instead)).expect("a writable file");
        let error = Recording::open(&path).expect_err("no recording").to_string();
        assert_eq!(error, format!("{} is not a recording of wakepath: {why}", path.display()));
    }
}

#[test]
fn other_directories_are_refused_by_name() {
    let (folder, path) = made::place();
    let says = |path: &std::path::Path| Recording::open(path).expect_err("no recording").to_string();
    assert!(says(&path).starts_with("cannot read "), "{}", says(&path));
    let file = folder.path().join("file");
    std::fs::write(&file, "x").expect("a writable directory");
    assert!(says(&file).ends_with("it is not a directory"), "{}", says(&file));
    let empty = folder.path().join("empty");
    std::fs::create_dir_all(empty.join("kernel")).expect("a writable directory");
    assert!(says(&empty).contains("kernel/metadata cannot be read"), "{}", says(&empty));
    let metadata = empty.join("kernel/metadata");
    for (text, why) in [
        ("", "line 1, column 1: the metadata ends without a trace block"),
        (
            "trace { uuid = \"00000000-0000-0000-0000-000000000000\";",
            "line 1, column 55: a block does not end",
        ),
        ("\n\n\"abc", "line 3, column 1: a text does not end"),
        (
            "env { tracer_name = \"lttng-modules\"; };",
            "line 1, column 40: the metadata ends without a trace block",
        ),
    ] {
        std::fs::write(&metadata, text).expect("a writable file");
        assert!(says(&empty).ends_with(why), "{}", says(&empty));
    }
}

#[test]
fn a_pipe_in_the_place_of_a_stream_stops_nobody() {
    let (_folder, path) = made::place();
    made::record(&path, &[], 1);
    rustix::fs::mkfifoat(rustix::fs::CWD, path.join("kernel/sched_0"), rustix::fs::Mode::RWXU)
        .expect("a pipe");
    std::os::unix::fs::symlink("/etc/passwd", path.join("kernel/sched_1")).expect("a link");
    std::fs::write(path.join("kernel/notes.txt"), "mine").expect("a file");
    let recording = Recording::open(&path).expect("a recording");
    let problems = recording.for_each(|_| panic!("no events"));
    let found: Vec<_> =
        problems.iter().map(|problem| (&*problem.file, problem.offset, &problem.fault)).collect();
    let is_pipe = ReadFault::Io("not a regular file".to_owned());
    assert_eq!(
        found[..2],
        [("kernel/notes.txt", 0, &ReadFault::UnknownFile), ("kernel/sched_0", 0, &is_pipe)]
    );
    assert!(matches!(found[2..], [("kernel/sched_1", 0, ReadFault::Io(_))]), "{problems:?}");
}
