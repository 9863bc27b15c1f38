//! Streams of perf to a pipe, compressed records, and files that were cut short.

use std::path::Path;

use wakepath_event::{Damage, DamageKind, Event, EventKind, EventSource};
use wakepath_import::perf::synthetic::{EventType, File};
use wakepath_import::{Fault, OpenError, PerfData};

use crate::lines::{self, changed, events, lines, lines_with};
use crate::perf_data::{file_with_all_kinds, records};

fn opened(bytes: &[u8]) -> Result<PerfData<&[u8]>, OpenError> {
    PerfData::from_source(bytes, Path::new("a.data"))
}

/// Events, damages.
fn read(bytes: &[u8]) -> (Vec<Event>, Vec<Damage>) {
    events(&opened(bytes).expect("a file"))
}

fn faults(damages: &[Damage]) -> Vec<String> {
    let fault = |damage: &Damage| match &damage.kind {
        DamageKind::Fault(fault) => Some(fault.clone()),
        _ => None,
    };
    damages.iter().filter_map(fault).collect()
}

/// Two CPUs that switch in turn, in rounds of two events each.
fn two_cpus(rounds: u64) -> File {
    (0..rounds).fold(File::default(), |file, round| {
        let at = 100 + 40 * round;
        let (from, to) = if round % 2 == 0 { (0, 7) } else { (7, 0) };
        let file = file.switch((at + 10, 1, from, from), 1, to, "there").waking((at, 0, 5, 5), 7);
        file.switch((at + 20, 0, 5, 5), 0, 6, "a").switch((at + 30, 0, 6, 6), 0, 5, "b").round()
    })
}

#[test]
fn a_stream_to_a_pipe_is_read_like_the_file() {
    for file in [file_with_all_kinds(), two_cpus(20), two_cpus(3).clock(None)] {
        let (bytes, stream) = (file.bytes(), file.stream());
        let (from_file, from_stream) = (opened(&bytes), opened(&stream));
        let of = |one: &Result<PerfData<&[u8]>, OpenError>| {
            let one = one.as_ref().expect("a file");
            let it = wakepath_event::EventSource::description(one);
            (it.host.clone(), it.tracer.clone(), it.clock, it.realtime_offset_ns, it.extent, events(one))
        };
        assert_eq!(format!("{:?}", of(&from_file)), format!("{:?}", of(&from_stream)));
        assert!(of(&from_file).5.0.len() > 3);
    }
}

#[test]
fn build_ids_in_a_stream_are_those_of_its_mappings() {
    let map =
        [&[7_u8, 0, 0, 0, 7, 0, 0, 0][..], &[0; 48], &[5, 0, 0, 0, 2, 0, 0, 0], b"/bin/here\0"].concat();
    // A process, 20 bytes of id, 4 bytes more, and the path.
    let id = [&[0xff; 4][..], &[1; 20], &[0; 4], b"/bin/here\0\0\0\0\0\0\0"].concat();
    let record = [&[67, 0, 0, 0, 0, 0, 8 + id.len() as u8, 0][..], &id].concat();
    let file = two_cpus(2).plain(10, 0, &map, (300, 0, 7, 7));
    for bytes in [file.clone().section(2, &record).bytes(), file.record(67, 0, &id).round().stream()] {
        let ids = read(&bytes).0.into_iter().filter_map(|event| match event.kind {
            EventKind::Mapping(mapping) => Some(mapping.build_id.to_vec()),
            _ => None,
        });
        assert_eq!(ids.collect::<Vec<_>>(), [[1; 20]]);
    }
}

/// The end of the last record that a cut leaves, and its last stamp, by a reading of the whole stream's prefix.
fn cuts(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let step = (bytes.len() / 200).max(1);
    (0..bytes.len()).step_by(step)
}

#[test]
fn a_cut_stream_is_read_up_to_the_cut_and_says_so() {
    let whole = two_cpus(40).stream();
    let (all, damages) = read(&whole);
    assert_eq!((faults(&damages), all.len() > 150), (vec![], true));
    let (mut read_in_part, mut refused) = (0, 0);
    for len in cuts(&whole) {
        match opened(&whole[..len]) {
            Ok(file) => {
                let (part, damages) = events(&file);
                // A cut at the very end of a round leaves a whole stream.
                let at_a_mark = whole[..len].ends_with(&[68, 0, 0, 0, 0, 0, 8, 0]);
                assert_eq!(faults(&damages).len(), usize::from(!at_a_mark), "{len}: {damages:?}");
                let last = part.iter().map(|event| event.at).max().expect("events");
                let losses: Vec<_> =
                    part.iter().filter(|event| matches!(event.kind, EventKind::Loss { .. })).collect();
                let behind = part.iter().filter(|event| !matches!(event.kind, EventKind::Loss { .. }));
                // Each event is in the whole stream, in its order.
                let mut rest = lines(&all).into_iter();
                for line in lines(&behind.cloned().collect::<Vec<_>>()) {
                    assert!(rest.any(|one| one == line), "{len}: {line}");
                }
                assert!(losses.iter().all(|loss| loss.at <= last), "{len}");
                read_in_part += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("a.data"), "{len}: {error}");
                refused += 1;
            }
        }
    }
    assert!(read_in_part > 100 && refused > 10, "{read_in_part} {refused}");
}

#[test]
fn behind_a_cut_a_cpu_is_unknown_from_its_last_record_on() {
    let file = File::default().switch((100, 1, 0, 0), 0, 7, "x").switch((110, 0, 0, 0), 0, 6, "y").round();
    let file = file.switch((400, 1, 7, 7), 0, 0, "z");
    for (file, lost) in
        [(file.clone(), true), (file.clone().switch((410, 0, 6, 6), 0, 0, "y").round(), false)]
    {
        let (events, damages) = read(&file.stream());
        let losses = lines_with(&events, "cpu0");
        let lost_there =
            losses.iter().any(|line| line.starts_with("400") && line.ends_with("lost 0 since 110"));
        assert_eq!((lost_there, faults(&damages).len()), (lost, usize::from(lost)), "{losses:?} {damages:?}");
    }
}

#[test]
fn a_file_cut_in_its_records_lacks_the_tracepoints_descriptions() {
    let bytes = two_cpus(20).bytes();
    let size = u64::from_le_bytes(*bytes[48..].first_chunk().expect("a header")) as usize;
    let end = records(&bytes) + size;
    for len in [records(&bytes) + 8, records(&bytes) + 301, end - 3, end, end + 20] {
        let error = opened(&bytes[..len]).expect_err("cut").to_string();
        let says = "a.data lacks the description of its tracepoints, which perf writes behind the records at its end, \
                    because it was cut short: copy the whole file";
        assert!(error.starts_with(says), "{len}: {error}");
    }
    // A killed perf has written no size.
    let error = opened(&changed(&bytes, 48, &[0; 8])[..end - 100]).expect_err("cut").to_string();
    assert!(error.contains("because perf did not finish it: let perf record end by itself"), "{error}");
}

#[test]
fn a_file_cut_behind_the_descriptions_is_read() {
    let bytes = two_cpus(20).bytes();
    let (all, _) = read(&bytes);
    // The last section has the clock.
    for cut in [1, 20] {
        let (part, damages) = read(&bytes[..bytes.len() - cut]);
        assert_eq!(lines_with(&part, " to "), lines_with(&all, " to "));
        assert_eq!(faults(&damages), [Fault::SectionMissing(29).to_string()]);
    }
}

#[test]
fn compressed_records_are_the_same_records() {
    let plain = two_cpus(20);
    let (expected, _) = read(&plain.bytes());
    for kind in [81, 83] {
        // Records go on in the next piece.
        for piece in [30, 64, 1000, 50_000] {
            let file = plain.clone().compressed(kind, piece);
            for bytes in [file.bytes(), file.round().stream()] {
                let (events, damages) = read(&bytes);
                assert_eq!((lines(&events), faults(&damages)), (lines(&expected), vec![]), "{kind} {piece}");
            }
        }
    }
}

#[test]
fn behind_a_damaged_piece_nothing_is_read_and_the_answer_says_so() {
    let plain = two_cpus(40);
    let (expected, _) = read(&plain.bytes());
    let file = plain.compressed(83, 500).stream();
    // Somewhere among the pieces, a block cannot be of this kind.
    let (mut damaged, mut fewer) = (0, 0);
    let is_number = |line: &String| line.contains(" to ") || line.contains(" wakes ");
    let expected: Vec<_> = lines(&expected).into_iter().filter(is_number).collect();
    for at in (file.len() - 20_000..file.len() - 8).step_by(97) {
        let bytes = changed(&file, at, &[0xff; 4]);
        let Ok(opened) = opened(&bytes) else { continue };
        let (events, damages) = events(&opened);
        damaged += usize::from(!damages.is_empty());
        let read: Vec<_> = lines(&events).into_iter().filter(is_number).collect();
        fewer += usize::from(read.len() < expected.len());
        // The whole file's events, each at most once, but for the event with the changed bytes.
        let mut rest = expected.clone();
        let mut is_other = |line: &&String| match rest.iter().position(|one| one == *line) {
            Some(place) => {
                rest.swap_remove(place);
                false
            }
            None => true,
        };
        let others = read.iter().filter(|line| is_other(line)).count();
        assert!(read.len() <= expected.len() && others <= 1, "{at}: {others} others");
    }
    assert!(damaged > 50 && fewer > 50, "{damaged} {fewer}");
}

#[test]
fn a_compressed_stream_is_read_up_to_the_cut_and_says_so_once() {
    let (expected, _) = read(&two_cpus(20).bytes());
    let expected = lines(&expected);
    let mut parts = 0;
    for piece in [4, 40, 700] {
        let whole = two_cpus(20).compressed(83, piece).round().stream();
        for len in cuts(&whole) {
            let Ok(file) = opened(&whole[..len]) else { continue };
            let (events, damages) = events(&file);
            assert_eq!(faults(&damages).len(), 1, "{piece}, {len}: {damages:?}");
            let mut rest = expected.iter();
            for line in lines(&events).into_iter().filter(|line| !line.contains("lost")) {
                assert!(rest.any(|one| *one == line), "{piece}, {len}: {line}");
            }
            parts += 1;
        }
    }
    assert!(parts > 100, "{parts}");
}

#[test]
fn events_of_single_threads_are_said_to_be() {
    let listed = |thread: u64| {
        let id = EventType::Switch as u64 * 16 + 1;
        let index: Vec<u8> = [1, id, 0, 0, thread].into_iter().flat_map(u64::to_le_bytes).collect();
        read(&two_cpus(3).record(69, 0, &index).bytes())
            .1
            .iter()
            .any(|one| one.kind == DamageKind::SomeThreads)
    };
    assert_eq!([7, u64::MAX].map(listed), [true, false]);
}

/// The section with the descriptions is the first behind the records.
#[test]
fn a_file_whose_descriptions_are_cut_is_refused_for_what_it_lacks() {
    let file = File::default().only(&[EventType::Switch, EventType::Waking]).waking((100, 0, 7, 7), 8);
    let bytes = file.bytes();
    let at = |text: &[u8]| bytes.windows(text.len()).position(|part| part == text).expect("a description");
    let refusal = |len: usize| opened(&bytes[..len]).map(|_| ()).expect_err("no switches").to_string();
    // The description of switches is there, and they are not.
    let said = refusal(at(b"name: sched_waking"));
    assert!(said.contains("sched:sched_switch was recorded and did not occur"), "{said}");
    let said = refusal(at(b"name: sched_switch"));
    assert!(said.contains("lacks the description of its tracepoints"), "{said}");
}

#[test]
fn a_piece_does_not_grow_beyond_perfs_buffer() {
    // Blocks that repeat a byte 128 KiB times, in 4 bytes each.
    let block = (((1_u32 << 17) << 3) | 2).to_le_bytes();
    let bomb = [&b"\x28\xb5\x2f\xfd\0\x48"[..], &[&block[..3], &[0]].concat().repeat(5000)].concat();
    let file = two_cpus(3).record(83, 0, &[&(bomb.len() as u64).to_le_bytes()[..], &bomb].concat());
    for buffer in [4096_u32, u32::MAX, 0] {
        let section = [1_u32, 1, 1, 1, buffer].map(u32::to_le_bytes).concat();
        let bytes = file.clone().section(27, &section).bytes();
        let (events, damages) = read(&bytes);
        let size = opened(&bytes).expect("a file").description().size;
        // perf compresses a buffer at a time.
        assert!(buffer != 4096 || size < 4096 + 2000, "{size} bytes of records");
        assert!(faults(&damages).contains(&Fault::TooManyCompressed.to_string()), "{damages:?}");
        assert!(events.len() > 6, "the uncompressed records are read");
    }
}

#[test]
fn no_size_in_a_stream_is_believed() {
    for good in [file_with_all_kinds().stream(), two_cpus(4).compressed(83, 100).stream()] {
        for value in [u64::MAX, good.len() as u64, 1 << 32] {
            for at in (8..good.len()).step_by(20) {
                let at = at.min(good.len() - 8);
                if let Err(error) = lines::survives(opened(&changed(&good, at, &value.to_le_bytes()))) {
                    assert!(error.contains("a.data"), "{value:#x} at {at}: {error}");
                }
            }
        }
    }
}
