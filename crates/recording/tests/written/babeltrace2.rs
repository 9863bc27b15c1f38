//! Recordings are CTF: another reader, babeltrace2, finds the same in them as wakepath.
//!
//! Without babeltrace2, these tests print a note and pass, unless `WAKEPATH_REQUIRE_LIVE=1`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use wakepath_clock::Stamp;
use wakepath_event::{Cpu, Event, EventKind, EventSource, Mark, RecordingFormat, Tid};
use wakepath_kernel_records::layout::{CONTEXTS, FieldType, LAYOUTS, Layout};
use wakepath_kernel_records::{Buffer, Header, Kind, Value, fields, record_length};
use wakepath_recording::{Recording, Writer};
use wakepath_scenario::arbitrary::any_event;

use crate::made;

/// babeltrace2's output, as bytes: names need not be UTF-8. Any complaint fails the test.
fn babeltrace2(arguments: &[&str], recording: &Path) -> Option<Vec<u8>> {
    let output = Command::new("babeltrace2").args(arguments).arg(recording.join("kernel")).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            let required = std::env::var_os("WAKEPATH_REQUIRE_LIVE").is_some_and(|value| value == "1");
            assert!(!required, "babeltrace2 is required here: {error}");
            eprintln!("skipped: babeltrace2 is not installed; it would have shown that recordings are CTF");
            return None;
        }
    };
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaints.is_empty(), "{}: {complaints}", output.status);
    Some(output.stdout)
}

fn expect_lines(printed: &[u8], expected: &[Vec<u8>]) {
    let printed: Vec<&[u8]> = printed.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
    for (printed, expected) in printed.iter().zip(expected) {
        assert_eq!(String::from_utf8_lossy(printed), String::from_utf8_lossy(expected));
        assert_eq!(printed, expected);
    }
    assert_eq!(printed.len(), expected.len());
}

#[test]
fn the_marks_at_the_ends_of_streams_are_nothing_to_another_reader() {
    let event = |at, cpu| (Buffer::Sched, wakepath_scenario::event(at, cpu, 7, EventKind::Current));
    let (_folder, path) = made::place();
    made::record_with_ends(&path, &[event(100, 0), event(200, 1), event(300, 0)], 1, true);
    let Some(printed) = babeltrace2(&[], &path) else { return };
    assert_eq!(printed.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count(), 3);
}

/// A record as babeltrace2 prints it, by wakepath's own layouts.
fn line(record: &[u8], cpu: Option<Cpu>, events: usize) -> Vec<u8> {
    let header = Header::read(record).expect("a header");
    let layout = Layout::of(Kind::from_number(header.kind).expect("a kind"));
    let mut line = format!("[{:020}] web3 {}: ", header.stamp, layout.name);
    let (context, number) = (choice(CONTEXTS, header.context.into()), header.seq);
    let _ = match cpu {
        Some(cpu) => {
            write!(line, "{{ event_count = {events}, cpu_id = {} }}, {{ context = {context}, seq", cpu.0)
        }
        None => write!(line, "{{ event_count = {events} }}, {{ context = {context}, cpu"),
    };
    let _ = write!(line, " = {number}, tid = {} }}, {{", header.tid);
    let mut line = line.into_bytes();
    for (i, (name, value)) in fields(record).expect("a record").into_iter().enumerate() {
        if i > 0 {
            line.extend(b",");
        }
        line.extend(format!(" {name} = ").bytes());
        let ty = layout.fields.get(i).map(|field| field.ty);
        match (value, ty) {
            (Value::Number(number), Some(FieldType::Choice(_, names))) => {
                line.extend(choice(names, number).bytes());
            }
            (Value::Number(number), Some(FieldType::Bits(_))) => line.extend(format!("0x{number:X}").bytes()),
            (Value::Number(number), _) => line.extend(number.to_string().bytes()),
            (Value::Bytes(bytes), Some(FieldType::Octets(_))) => {
                array(&mut line, bytes.iter().map(|byte| byte.to_string()));
            }
            (Value::Bytes(bytes), None) if name == "build_id" => {
                array(&mut line, bytes.iter().map(|byte| format!("0x{byte:X}")));
            }
            (Value::Bytes(bytes), _) => quote(&mut line, bytes),
            (Value::Addresses(addresses), _) => {
                array(&mut line, addresses.iter().map(|address| format!("0x{address:X}")));
            }
        }
    }
    line.extend(b" }");
    line
}

fn choice(names: &[(&str, u64)], number: u64) -> String {
    match names.iter().find(|(_, value)| *value == number) {
        Some((name, _)) => format!("( \"{name}\" : container = {number} )"),
        None => format!("( <unknown> : container = {number} )"),
    }
}

fn array(line: &mut Vec<u8>, elements: impl Iterator<Item = String>) {
    let elements: Vec<_> = elements.enumerate().map(|(i, element)| format!("[{i}] = {element}")).collect();
    let space = if elements.is_empty() { "" } else { " " };
    line.extend(format!("[{space}{} ]", elements.join(", ")).bytes());
}

/// Up to the first NUL, with C's escapes.
fn quote(line: &mut Vec<u8>, text: &[u8]) {
    line.push(b'"');
    for &byte in text.iter().take_while(|&&byte| byte != 0) {
        match byte {
            b'"' | b'\'' | b'\\' | b'?' => line.extend([b'\\', byte]),
            7..=13 => line.extend([b'\\', b"abtnvfr"[usize::from(byte - 7)]]),
            27 => line.extend(b"\\e"),
            0..32 | 127 => line.extend(format!("\\x{byte:02x}").bytes()),
            _ => line.push(byte),
        }
    }
    line.push(b'"');
}

/// Whether a text in this record is empty. babeltrace2 2.0.4 prints the field's text from an earlier event instead
/// (its issue: github.com/efficios/babeltrace pull request 116).
fn has_empty_text(record: &[u8]) -> bool {
    fields(record).expect("a record").into_iter().any(|(name, value)| match value {
        Value::Bytes(bytes) => {
            !matches!(name, "source" | "target") && bytes.first().is_none_or(|&byte| byte == 0)
        }
        _ => false,
    })
}

/// Events for all buffers, each at its own stamp, since equal stamps have no order; from a fixed seed.
fn events(count: u64) -> Vec<(Buffer, Event)> {
    let mut runner = TestRunner::deterministic();
    let any = any_event(Buffer::ALL);
    let event = |i| {
        let (buffer, mut event) = loop {
            let (buffer, event) = any.new_tree(&mut runner).expect("an event").current();
            // A mark without words has an empty text; without marks, a kind would go untested.
            if !has_empty_text(&made::encode(&event, 0)) || matches!(event.kind, EventKind::Mark(_)) {
                break (buffer, event);
            }
        };
        if let EventKind::Mark(mark) = &mut event.kind {
            *mark = Mark::Command { tgid: Tid(1), words: (*b"a\0b").into() };
        }
        event.at = Stamp::from_ns(1_000_000_000_000_000 + i * 1_000_003);
        event.cpu = Cpu((i % 3) as u16);
        (buffer, event)
    };
    (0..count).map(event).collect()
}

#[test]
fn babeltrace2_and_our_reader_find_the_same_fields_in_every_kind_of_event() {
    let (_folder, path) = made::place();
    let events = events(3000);
    // A single packet for a whole stream.
    made::record(&path, &events, usize::MAX);
    let mut counts = std::collections::HashMap::new();
    let stream = |buffer, cpu| (buffer, if buffer == Buffer::Life { Cpu(0) } else { cpu });
    for (buffer, event) in &events {
        *counts.entry(stream(*buffer, event.cpu)).or_insert(0usize) += 1;
    }
    let mut numbers = std::collections::HashMap::new();
    let mut kinds = std::collections::HashSet::new();
    let expected: Vec<_> = events
        .iter()
        .map(|(buffer, event)| {
            let number = numbers.entry(stream(*buffer, event.cpu)).or_insert(0u16);
            let seq = if *buffer == Buffer::Life { event.cpu.0 } else { *number };
            *number += 1;
            let record = made::encode(event, seq);
            kinds.insert(record[8]);
            line(&record, (*buffer != Buffer::Life).then_some(event.cpu), counts[&stream(*buffer, event.cpu)])
        })
        .collect();
    assert_eq!(kinds.len(), LAYOUTS.len(), "every kind occurs");

    let mut read = Vec::new();
    let problems = Recording::open(&path).expect("a recording").for_each(|event| read.push(event.clone()));
    assert_eq!(problems, []);
    assert!(read.iter().eq(events.iter().map(|(_, event)| event)));
    if let Some(printed) = babeltrace2(&["--clock-cycles", "--no-delta"], &path) {
        expect_lines(&printed, &expected);
    }
}

/// Records no recorder writes: every field holds any value, spare fields and choices too.
#[test]
fn babeltrace2_reads_any_value_in_any_field_as_our_table_does() {
    let (_folder, path) = made::place();
    let mut random = 1u32;
    let mut byte = move || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 24) as u8
    };
    let mut records = Vec::new();
    for i in 0..1000usize {
        let layout = &LAYOUTS[i % LAYOUTS.len()];
        if !Buffer::Life.holds(layout.kind) {
            continue;
        }
        let mut record: Vec<u8> = (0..layout.bytes).map(|_| byte()).collect();
        record[..8].copy_from_slice(&(1_000_000 + i as u64).to_le_bytes());
        record[8] = layout.kind.number();
        for tail in layout.tail {
            let count = u32::from(byte() % 8 + 1) * 8;
            let offset = layout.field(tail.count).expect("a count").offset;
            record[offset..offset + 4].copy_from_slice(&count.to_le_bytes());
            record.extend((0..count as usize * tail.element.bytes()).map(|_| byte()));
        }
        assert_eq!(record_length(&record), Ok(record.len()));
        if !has_empty_text(&record) {
            records.push(record);
        }
    }
    let mut writer = Writer::create(&path, &made::host(), &made::options()).expect("a new recording");
    made::append(&mut writer, Buffer::Life, Cpu(0), &records, 0);
    let expected: Vec<_> = records.iter().map(|record| line(record, None, records.len())).collect();
    if let Some(printed) = babeltrace2(&["--clock-cycles", "--no-delta"], &path) {
        expect_lines(&printed, &expected);
    }
}

#[test]
fn babeltrace2_shows_the_time_of_day() {
    let (_folder, path) = made::place();
    let options = wakepath_recording::Options {
        clock: wakepath_recording::ClockReading {
            monotonic_ns: 5_900_000_000,
            realtime_ns: 1_750_000_000_100_000_000,
        },
        ..made::options()
    };
    let mut writer = Writer::create(&path, &made::host(), &options).expect("a new recording");
    let mut event = events(1)[0].1.clone();
    event.at = Stamp::from_ns(5_900_000_123);
    event.kind = EventKind::Exit;
    writer.life().push_event(&event).expect("a record");
    writer.life().flush(u64::MAX, 0).expect("room");
    if let Some(printed) = babeltrace2(&["--clock-seconds"], &path) {
        let printed = String::from_utf8_lossy(&printed);
        assert!(printed.starts_with("[1750000000.100000123]"), "{printed}");
    }
}

#[test]
fn babeltrace2_reads_a_synthetic_recording_to_its_end() {
    let (_folder, path) = made::place();
    let machine =
        wakepath_recording::synthetic::Machine { cpus: 2, threads_per_cpu: 8, events: 100_000, seed: 7 };
    wakepath_recording::synthetic::write(&path, &machine).expect("room");
    let mut ours = 0;
    assert_eq!(Recording::open(&path).expect("a recording").for_each(|_| ours += 1), []);
    if let Some(printed) = babeltrace2(&[], &path) {
        assert_eq!(printed.iter().filter(|&&byte| byte == b'\n').count(), ours);
    }
}
