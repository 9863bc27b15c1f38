//! Cut `trace.dat` files: in front they are read like whole files, and behind the cut nothing is known.

use wakepath_event::{Damage, DamageKind, Event, EventKind};
use wakepath_import::Fault;
use wakepath_import::trace_cmd::synthetic::File;

use crate::lines::{events, lines};
use crate::trace_dat::{opened, two_cpus};

const ANY: i64 = 1;

/// Some pages of each CPU, with a switch in each.
fn many_pages() -> File {
    (0..60).fold(two_cpus(), |file, n| {
        let at = 1000 + 100 * n;
        file.waking((at, 0, 7, 7), 8)
            .switch((at + 10, 1, 0, 0), 0, 8, "there")
            .switch((at + 20, 1, 8, 8), ANY, 0, "swapper/1")
            .switch((at + 30, 0, 7, 7), 0, 9, "other")
            .switch((at + 40, 0, 9, 9), 0, 7, "here")
    })
}

/// A CPU's buffer counters by the kernel, with this event count.
fn counters(file: File, cpu: u32, entries: u32) -> File {
    file.option(2, format!("CPU: {cpu}\nentries: {entries}\nread events: 0\n\0").as_bytes())
}

/// A file by `trace-cmd record`, with counters for both CPUs.
fn recorded(file: File) -> File {
    counters(counters(file.in_order(), 0, 180), 1, 120)
}

/// A CPU's events from its pages.
fn events_on_cpu(events: &[Event], cpu: u16) -> Vec<&Event> {
    let own = events.iter().filter(|event| event.cpu.0 == cpu);
    own.filter(|event| !matches!(event.kind, EventKind::Loss { .. } | EventKind::Unrecorded)).collect()
}

fn is_cut(damage: &Damage) -> bool {
    matches!(&damage.kind, DamageKind::Fault(what) if what.starts_with("the file was cut short"))
}

/// A chunk's part is not read, and said.
fn is_cut_chunk(damage: &Damage) -> bool {
    matches!(&damage.kind, DamageKind::Fault(what) if what.ends_with("and the CPU's end before"))
}

#[test]
fn behind_a_cut_nothing_is_known_of_its_cpus() {
    for (format, file) in [
        ("6", many_pages().version(6)),
        ("7, zstd", recorded(many_pages().compressed("zstd"))),
        ("7, zlib", recorded(many_pages().compressed("zlib"))),
    ] {
        let bytes = file.bytes();
        let (whole, damages) = events(&opened(&bytes).expect("whole"));
        assert_eq!(damages, [], "{format}");
        let end = |events: &[Event]| events.last().map_or(0, |event| event.at.ns());
        let (mut readable, mut both, mut second_alone) = (0, 0, 0);
        for n in 0..300 {
            let len = bytes.len() - 1 - n * (bytes.len() - 1) / 300;
            let Ok(file) = opened(&bytes[..len]) else { continue };
            readable += 1;
            let (cut, mut damages) = events(&file);
            assert!(is_cut(&damages[0]), "{format}, {len}: {damages:?}");
            let mut expected = Vec::new();
            for cpu in [0_u16, 1] {
                let (ours, all) = (events_on_cpu(&cut, cpu), events_on_cpu(&whole, cpu));
                assert_eq!(ours, all[..ours.len()], "{format}, {len}: the events in front of the cut");
                let marks = cut.iter().filter(|event| event.cpu.0 == cpu);
                let marks: Vec<_> = marks
                    .filter_map(|event| match event.kind {
                        EventKind::Unrecorded => Some((event.at.ns(), None)),
                        EventKind::Loss { from, .. } => Some((event.at.ns(), Some(from.ns()))),
                        _ => None,
                    })
                    .collect();
                if marks.is_empty() {
                    assert_eq!(ours.len(), all.len(), "{format}, {len}: CPU {cpu} is whole, or it is marked");
                    second_alone += 1;
                    continue;
                }
                let (last, end) = (ours.last().map_or(100, |event| event.at.ns()), end(&cut));
                assert_eq!(marks, [(last, None), (end, Some(last))], "{format}, {len}: CPU {cpu}");
                let kind = DamageKind::EndMissing { cpu: cpu.into(), early_ns: end - last };
                expected.extend((last < end).then_some(kind));
                both += usize::from(cpu == 0);
            }
            damages.retain(|damage| !is_cut(damage) && !is_cut_chunk(damage));
            let missing: Vec<_> = damages.into_iter().map(|damage| damage.kind).collect();
            assert_eq!(missing, expected, "{format}, {len}");
        }
        println!("{format}: {readable} readable, {both} without an end of CPU 0, {second_alone} whole CPUs");
        assert!(
            readable > 60 && both > 20 && second_alone > 20,
            "{format}: {readable} {both} {second_alone}"
        );
    }
}

#[test]
fn only_a_file_that_says_where_each_cpus_pages_are_is_read_up_to_a_cut() {
    let refused = |file: &File, says: &str| {
        let bytes = file.bytes();
        let error = opened(&bytes[..bytes.len() - 1]).map(|_| ()).expect_err("cut").to_string();
        assert!(error.contains("it was cut short, and ") && error.contains(says), "{error}");
        assert!(error.ends_with("copy the whole file"), "{error}");
    };
    refused(&recorded(many_pages()), "its pages are not compressed, so that their CPU is not known");
    let packed = || many_pages().compressed("zstd").in_order();
    refused(&packed(), "it does not say which CPUs have events");
    let bytes = recorded(packed()).bytes();
    let place = bytes.windows(16).position(|head| head[..4] == [3, 0, 1, 0] && head[4..8] == [0; 4]);
    let error = opened(&bytes[..place.expect("a section") + 5]).map(|_| ()).expect_err("cut").to_string();
    assert!(error.contains("no pages are in it"), "{error}");
}

#[test]
fn a_cpu_without_events_has_no_pages_in_a_cut_file() {
    // The other CPU is idle.
    let file = (0..60).fold(File::default().switch((100, 1, 0, 0), 0, 8, "there"), |file, n| {
        file.waking((1000 + n, 1, 8, 8), 7)
    });
    let with = |first: u32, second: u32| {
        let file = counters(counters(file.clone().compressed("zstd").in_order(), 0, first), 1, second);
        let bytes = file.bytes();
        opened(&bytes[..bytes.len() - 1]).map(|file| events(&file))
    };
    let (read, damages) = with(0, 61).expect("its pages");
    let kinds: Vec<_> = damages.iter().map(|damage| &damage.kind).collect();
    assert_eq!(kinds[0], &DamageKind::Fault(Fault::PlacesCut.to_string()));
    assert!(lines(&read).contains(&"1059 cpu1 8 wakes 7".to_owned()), "{:?}", lines(&read));
}

/// By CPU, the place where its pages begin, and where each chunk ends, in a file with 1024-byte pages.
fn chunks(bytes: &[u8]) -> Vec<(usize, Vec<usize>)> {
    let word = |at: usize| bytes[at..].first_chunk().map_or(0, |&word| u32::from_le_bytes(word)) as usize;
    let section = bytes.windows(8).position(|head| head == [3, 0, 1, 0, 0, 0, 0, 0]).expect("a buffer");
    let mut at = section + 16;
    let mut cpu = || {
        let from = at.next_multiple_of(1024);
        at = from + 4;
        let ends = (0..word(from)).map(|_| {
            at += 8 + word(at);
            at
        });
        (from, ends.collect())
    };
    vec![cpu(), cpu()]
}

#[test]
fn a_chunk_is_read_if_its_last_byte_is_there() {
    let bytes = recorded(many_pages().compressed("zstd")).bytes();
    let read = |len: usize| opened(&bytes[..len]).map(|file| events(&file)).ok();
    for (cpu, (from, ends)) in (0_u32..).zip(chunks(&bytes)) {
        assert!(ends.len() > 2, "{ends:?}");
        let begins = [from + 4].into_iter().chain(ends.iter().copied());
        let mut before = 0;
        for (begin, &end) in begins.zip(&ends) {
            let is_first = begin == from + 4;
            for (len, to, is_read) in [
                // In front of the first chunk is their number.
                (if is_first { from + 3 } else { begin }, if is_first { from + 4 } else { begin + 8 }, false),
                (begin + 7, begin + 8, false),
                (begin + 8, end, false),
                (end - 1, end, false),
                (end, end + 8, true),
            ] {
                // Behind its last chunk, a CPU is whole.
                let is_whole = is_read && Some(&end) == ends.last();
                let Some((cut, damages)) = read(len) else {
                    // Without a chunk there is no switch.
                    assert!(cpu == 0 && is_first && !is_read, "CPU {cpu}, {begin} to {end}, cut at {len}");
                    continue;
                };
                let count = events_on_cpu(&cut, cpu as u16).len();
                assert_eq!(
                    count > before,
                    is_read,
                    "CPU {cpu}, {begin} to {end}, cut at {len}: {count} events"
                );
                let expected = Fault::FileCut { cpu, to: to as u64 }.to_string();
                let is_said =
                    damages.contains(&Damage { kind: DamageKind::Fault(expected), ..damages[0].clone() });
                assert_eq!(is_said, !is_whole, "CPU {cpu}, {begin} to {end}, cut at {len}: {damages:?}");
                if is_read {
                    before = count;
                }
            }
        }
    }
}
