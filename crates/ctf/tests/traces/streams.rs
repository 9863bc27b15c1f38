//! Cut, damaged or lying streams: the events read, and the faults reported.

use proptest::prelude::*;
use wakepath_ctf::plan::{Ignore, Visitor};
use wakepath_ctf::schema::EventClass;
use wakepath_ctf::stream::{FaultKind, Item, Lost, Plans, Reader, Selection};
use wakepath_ctf::tsdl::read;

use crate::text;

const UUID: [u8; 16] = *b"uuid of a trace!";

/// LTTng's layout, with all parts that may go wrong.
fn plans() -> Plans {
    plans_of(&Selection::All)
}

fn plans_of(wanted: &Selection<'_>) -> Plans {
    let uuid: String = UUID.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!(
        "typealias integer {{ size = 8; }} := uint8_t;
         typealias integer {{ size = 16; }} := uint16_t;
         typealias integer {{ size = 32; }} := uint32_t;
         typealias integer {{ size = 64; }} := uint64_t;
         typealias integer {{ size = 27; align = 1; map = clock.c.value; }} := stamp27;
         typealias integer {{ size = 64; map = clock.c.value; }} := stamp64;
         trace {{ major = 1; minor = 8; uuid = \"{uuid}\"; byte_order = le;
             packet.header := struct {{ uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; }}; }};
         clock {{ name = c; }};
         stream {{ id = 0;
             packet.context := struct {{ stamp64 timestamp_begin; stamp64 timestamp_end; uint64_t content_size;
                 uint64_t packet_size; uint64_t packet_seq_num; uint64_t events_discarded; uint32_t cpu_id; }};
             event.header := struct {{ enum : integer {{ size = 5; align = 1; }} {{ compact = 0 ... 30, extended = 31 }} id;
                 variant <id> {{ struct {{ stamp27 timestamp; }} compact;
                                 struct {{ uint32_t id; stamp64 timestamp; }} extended; }} v; }} align(8);
         }};
         event {{ name = number; id = 1; stream_id = 0; fields := struct {{ uint16_t n; }}; }};
         event {{ name = words; id = 2; stream_id = 0; fields := struct {{ uint8_t n; uint16_t w[n]; string s; }}; }};
         event {{ name = other; id = 9; stream_id = 0; fields := struct {{ uint16_t n; }}; }};"
    );
    Plans::new(read(&text).expect("metadata"), wanted).expect("plans")
}

/// A packet with `number` events at these stamps, 256 bytes long.
fn packet(sequence: u64, discarded: u64, stamps: &[u64]) -> Vec<u8> {
    let (first, last) = (stamps[0], stamps[stamps.len() - 1]);
    let mut bytes = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
    bytes.extend(UUID);
    bytes.extend(0_u32.to_le_bytes());
    let sizes = bytes.len() + 16;
    for value in [first, last, 0, 256 * 8, sequence, discarded] {
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(3_u32.to_le_bytes());
    for &stamp in stamps {
        bytes.extend((1 | (stamp as u32 & 0x7ff_ffff) << 5).to_le_bytes());
        bytes.extend((stamp as u16).to_le_bytes());
    }
    let content = bytes.len() as u64 * 8;
    bytes[sizes..sizes + 8].copy_from_slice(&content.to_le_bytes());
    assert!(bytes.len() <= 256);
    bytes.resize(256, 0);
    bytes
}

/// All events' stamps, and all other items.
fn read_all(plans: &Plans, bytes: &[u8]) -> (Vec<u64>, Vec<Item>) {
    let mut reader = Reader::new(plans, bytes).expect("memory");
    let (mut stamps, mut others) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next() {
        match item {
            Item::Event(head) if reader.stamp() != head.stamp => panic!("another stamp: {}", reader.stamp()),
            Item::Event(head) => match reader.fields(&mut Ignore) {
                Ok(()) => stamps.push(head.stamp),
                Err(fault) => others.push(Item::Fault(fault)),
            },
            Item::Packet(_) => {}
            other => others.push(other),
        }
    }
    (stamps, others)
}

fn three() -> Vec<u8> {
    [packet(0, 0, &[10, 20, 30]), packet(1, 0, &[40, 50]), packet(2, 0, &[60, 70])].concat()
}

#[test]
fn stamps_go_on_over_the_end_of_their_bits() {
    let round = 1 << 27;
    let stamps = [round - 5, round - 1, round + 3, 2 * round + 2, 3 * round + 1];
    assert_eq!(read_all(&plans(), &packet(0, 0, &stamps)), (stamps.to_vec(), vec![]));
}

#[test]
fn events_that_nobody_asked_for_count_for_the_stamps_of_others() {
    let nothing_of_words = |event: &EventClass| (event.name == "words").then(Vec::new);
    let plans = plans_of(&Selection::Fields(&nothing_of_words));
    let round = 1 << 27;
    let mut bytes = packet(0, 0, &[5, round + 1, 2 * round, 3 * round - 1, 3 * round + 4, 3 * round + 5]);
    // The last event but one is now a `words` event, with no words and an empty text.
    let of_words = 76 + 4 * 6;
    let header = bytes[of_words..].first_chunk_mut::<4>().expect("a header");
    *header = (u32::from_le_bytes(*header) ^ 3).to_le_bytes();
    bytes[of_words + 4..of_words + 6].fill(0);
    let mut reader = Reader::new(&plans, bytes.as_slice()).expect("memory");
    let mut stamps = Vec::new();
    while let Some(item) = reader.next() {
        if let Item::Event(head) = item {
            assert_eq!(reader.stamp(), head.stamp);
            stamps.push(head.stamp);
        }
    }
    assert_eq!((stamps, reader.stamp()), (vec![3 * round + 4], 3 * round + 5));
}

/// A packet with these events: `n` is a `number`, `o` is `other`, with the same size, and `w` is `words`, without a
/// fixed size.
fn mixed(sequence: u64, begin: u64, kinds: &str) -> Vec<u8> {
    let stamps: Vec<u64> = (begin..).take(kinds.len()).collect();
    let mut bytes = packet(sequence, 0, &stamps);
    let first = 76;
    for (index, kind) in kinds.chars().enumerate() {
        let at = first + index * 6;
        if kind == 'w' {
            // A word count of 0, and an empty text: two bytes, as in `number`.
            let header = bytes[at..].first_chunk_mut::<4>().expect("a header");
            *header = (u32::from_le_bytes(*header) ^ 3).to_le_bytes();
            bytes[at + 4..at + 6].fill(0);
        }
        if kind == 'o' {
            let header = bytes[at..].first_chunk_mut::<4>().expect("a header");
            *header = (u32::from_le_bytes(*header) ^ 8).to_le_bytes();
        }
    }
    bytes
}

#[test]
fn the_first_and_last_of_a_row_of_events_in_a_packet_are_reported() {
    let all = |_: &EventClass| Some(Vec::new());
    let plans = || plans_of(&Selection::Fields(&all)).with_last_of(|event| event.name == "number");
    for (kinds, reported) in [
        ("nnnnnn", [0, 5].as_slice()),
        ("nwnnnw", &[0, 1, 2, 4, 5]),
        ("wnnnnn", &[0, 1, 5]),
        ("n", &[0]),
        ("nn", &[0, 1]),
    ] {
        let bytes = mixed(0, 10, kinds);
        let stamps: Vec<u64> = reported.iter().map(|index| 10 + index).collect();
        assert_eq!(read_all(&plans(), &bytes), (stamps, vec![]), "{kinds}");
    }
    // A row ends with its packet, since records may have been lost behind it.
    let two = [mixed(0, 10, "nnnn"), mixed(1, 20, "nnn")].concat();
    assert_eq!(read_all(&plans(), &two).0, [10, 13, 20, 22]);
    // The fields belong to the reported event.
    let bytes = mixed(0, 30, "nnnn");
    let plans = plans_of(&Selection::All).with_last_of(|event| event.name == "number");
    let mut reader = Reader::new(&plans, bytes.as_slice()).expect("memory");
    let mut numbers = Numbers::default();
    while let Some(item) = reader.next() {
        if matches!(item, Item::Event(_)) {
            reader.fields(&mut numbers).expect("fields");
        }
    }
    assert_eq!(numbers.0, [30, 33]);
}

#[test]
fn events_that_are_not_wanted_do_not_end_a_row() {
    let numbers = |event: &EventClass| (event.name == "number").then(Vec::new);
    let plans = plans_of(&Selection::Fields(&numbers)).with_last_of(|_| true);
    assert_eq!(read_all(&plans, &mixed(0, 10, "nnonon")).0, [10, 15]);
    // Nor do they take the place of an event in the row.
    assert_eq!(read_all(&plans, &mixed(0, 10, "nnono")).0, [10, 13]);
    // Their size is not fixed, so the look ahead ends before them.
    assert_eq!(read_all(&plans, &mixed(0, 10, "nnwnn")).0, [10, 11, 13, 14]);
}

/// Keeps its numbers.
#[derive(Default)]
struct Numbers(Vec<u64>);

impl Visitor for Numbers {
    fn unsigned(&mut self, _: u16, value: u64) {
        self.0.push(value);
    }
    fn signed(&mut self, _: u16, _: i64) {}
    fn float(&mut self, _: u16, _: f64) {}
    fn bytes(&mut self, _: u16, _: &[u8]) {}
}

#[test]
fn fields_are_those_of_the_last_event() {
    let (plans, bytes) = (plans(), three());
    let mut reader = Reader::new(&plans, bytes.as_slice()).expect("memory");
    let mut numbers = Numbers::default();
    while let Some(item) = reader.next() {
        // The other events' fields are not read.
        if matches!(item, Item::Event(head) if head.stamp % 20 == 10) {
            reader.fields(&mut numbers).expect("fields");
        }
    }
    assert_eq!(numbers.0, [10, 30, 50, 70]);
}

#[test]
fn an_event_that_goes_beyond_the_content_is_none() {
    let mut bytes = three();
    // A byte less than the first packet's events take.
    bytes[40..48].copy_from_slice(&((76 + 3 * 6 - 1) * 8_u64).to_le_bytes());
    let (stamps, others) = read_all(&plans(), &bytes);
    assert_eq!(stamps, [10, 20, 40, 50, 60, 70]);
    let [Item::Fault(fault)] = others.as_slice() else { panic!("{others:?}") };
    assert_eq!((fault.packet, fault.offset), (0, 76 + 2 * 6), "{fault}");
}

#[test]
fn a_stream_that_is_cut_is_read_up_to_there() {
    let (plans, whole) = (plans(), three());
    let (all, none) = read_all(&plans, &whole);
    assert_eq!((all.as_slice(), none), (&[10, 20, 30, 40, 50, 60, 70][..], vec![]));
    for cut in 0..whole.len() {
        let (stamps, others) = read_all(&plans, &whole[..cut]);
        assert!(all.starts_with(&stamps), "cut at {cut}: {stamps:?}");
        let (full, rest) = (cut / 256, cut % 256);
        let of_full = [0, 3, 5, 7][full];
        assert!(stamps.len() >= of_full, "cut at {cut}: whole packets are read whole");
        assert_eq!(others.is_empty(), rest == 0, "cut at {cut}: {others:?}");
    }
}

#[test]
fn damage_costs_its_packet_and_is_reported_with_its_place() {
    let (plans, whole) = (plans(), three());
    // The place in the second packet, the new bytes, the stamps read, the fault reported.
    for (at, bytes, stamps, said) in [
        (
            0,
            vec![0],
            vec![10, 20, 30, 60, 70],
            "packet 1 at byte 256: no packet begins here; 256 bytes skipped",
        ),
        (
            5,
            vec![0],
            vec![10, 20, 30, 60, 70],
            "packet 1 at byte 256: the packet is of another trace; 256 bytes skipped",
        ),
        (
            20,
            vec![9],
            vec![10, 20, 30, 60, 70],
            "packet 1 at byte 256: the packet is of stream 9, which the metadata does not declare; 256 bytes skipped",
        ),
        (
            48,
            vec![0; 8],
            vec![10, 20, 30, 40, 50, 60, 70],
            "packet 1 at byte 256: the packet's size of 0 bits is impossible; it is taken to end after 256 bytes",
        ),
        (
            48,
            vec![0xff; 8],
            vec![10, 20, 30, 40, 50, 60, 70],
            "packet 1 at byte 256: the packet's size of 18446744073709551615 bits is impossible; it is taken to end after 256 bytes",
        ),
        (
            48,
            vec![0, 0, 1],
            vec![10, 20, 30, 40, 50, 60, 70],
            "packet 1 at byte 256: the packet says it has 8192 bytes, and the file ends after 256",
        ),
        (
            48,
            vec![0, 9],
            vec![10, 20, 30, 40, 50, 60, 70],
            "packet 1 at byte 256: the packet says it has 288 bytes, and another begins after 256",
        ),
        (
            40,
            vec![0xff; 8],
            vec![10, 20, 30, 40, 50],
            "packet 1 at byte 256: the packet's content of 18446744073709551615 bits is impossible in a packet of 2048 bits",
        ),
        (
            76,
            vec![3],
            vec![10, 20, 30, 60, 70],
            "packet 1 at byte 332: event 3 is not declared; the rest of its packet is skipped",
        ),
        (
            82,
            vec![2],
            vec![10, 20, 30, 40, 60, 70],
            "packet 1 at byte 338: event `words` does not end in its packet, whose rest is skipped",
        ),
    ] {
        let mut damaged = whole.clone();
        damaged[256 + at..256 + at + bytes.len()].copy_from_slice(&bytes);
        let (read, others) = read_all(&plans, &damaged);
        let faults: Vec<_> = others
            .iter()
            .filter_map(|item| if let Item::Fault(fault) = item { Some(fault.to_string()) } else { None })
            .collect();
        assert!(faults.iter().any(|fault| fault == said), "{said}\nnot in {faults:?}");
        for stamp in stamps {
            assert!(read.contains(&stamp), "{said}: {stamp} is not in {read:?}");
        }
    }
}

#[test]
fn content_that_another_packet_begins_in_ends_there() {
    // Full up to its last byte: directly behind it come the next packet's first bytes.
    let stamps: Vec<u64> = (10..40).collect();
    let mut first = packet(0, 0, &stamps);
    first[40..48].copy_from_slice(&(300_u64 * 8).to_le_bytes());
    first[48..56].copy_from_slice(&(320_u64 * 8).to_le_bytes());
    let (read, others) = read_all(&plans(), &[first, packet(1, 0, &[60, 70])].concat());
    assert_eq!(read, stamps.into_iter().chain([60, 70]).collect::<Vec<_>>());
    let said = "packet 0 at byte 0: the packet says it has 320 bytes, and another begins after 256";
    assert!(matches!(&others[..], [Item::Fault(fault)] if fault.to_string() == said), "{others:?}");
}

#[test]
fn each_lost_event_is_counted_once_and_between_what_is_there() {
    let plans = plans();
    for (packets, losses) in [
        (vec![(0, 0), (1, 0), (2, 0)], vec![]),
        // Counted when the second packet was closed: lost behind the first packet's events.
        (vec![(0, 0), (1, 5), (2, 5)], vec![Lost { from: 30, to: 60, count: 5 }]),
        (vec![(0, 2), (1, 2), (2, 2)], vec![Lost { from: 10, to: 40, count: 2 }]),
        (vec![(0, 0), (1, 0), (2, 7)], vec![Lost { from: 50, to: 70, count: 7 }]),
        // The first packets are missing: their losses were before.
        (vec![(4, 9), (5, 9), (6, 10)], vec![Lost { from: 50, to: 70, count: 1 }]),
        // Packets were overwritten.
        (vec![(0, 0), (5, 0), (6, 0)], vec![Lost { from: 30, to: 40, count: 0 }]),
        // A damaged counter does not count a loss twice.
        (vec![(0, 3), (1, 0), (2, 3)], vec![Lost { from: 10, to: 40, count: 3 }]),
    ] {
        let stamps: [&[u64]; 3] = [&[10, 20, 30], &[40, 50], &[60, 70]];
        let bytes: Vec<u8> = packets
            .iter()
            .zip(stamps)
            .flat_map(|(&(sequence, discarded), stamps)| packet(sequence, discarded, stamps))
            .collect();
        let (read, others) = read_all(&plans, &bytes);
        assert_eq!(read, [10, 20, 30, 40, 50, 60, 70], "{packets:?}");
        assert_eq!(others, losses.into_iter().map(Item::Lost).collect::<Vec<_>>(), "{packets:?}");
    }
}

#[test]
fn an_event_larger_than_what_is_read_at_once_is_read() {
    let text = "typealias integer { size = 32; } := uint32_t;
        trace { packet.header := struct { uint32_t magic; }; };
        stream { packet.context := struct { uint32_t packet_size; }; };
        event { name = large; fields := struct { string s; uint32_t n; }; };";
    let plans = Plans::new(read(text).expect("metadata"), &Selection::All).expect("plans");
    let mut bytes = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
    let (count, len) = (5_u32, 700_000);
    let size = (8 + count * (len as u32 + 5)) * 8;
    bytes.extend(size.to_le_bytes());
    for n in 0..count {
        bytes.extend(std::iter::repeat_n(b'x', len));
        bytes.push(0);
        bytes.extend(n.to_le_bytes());
    }
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("stream");
    std::fs::write(&file, bytes).expect("a file");
    let mut lines = Vec::new();
    assert_eq!(text::lines(&plans, &file, |line| lines.push(line)), []);
    assert_eq!(lines.len(), 5);
    assert!(lines.iter().enumerate().all(|(n, line)| line.ends_with(&format!("x\", n = {n} }}"))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// With any flipped bits, untouched packets are read, and reading ends.
    #[test]
    fn flipped_bits_cost_no_other_packet(flips in proptest::collection::vec((256_usize..512, 0_u8..8), 1..6)) {
        let (plans, mut bytes) = (plans(), three());
        for (at, bit) in flips {
            bytes[at] ^= 1 << bit;
        }
        let (stamps, others) = read_all(&plans, &bytes);
        prop_assert!(stamps.starts_with(&[10, 20, 30]), "{:?} {:?}", stamps, others);
        prop_assert!(stamps.ends_with(&[60, 70]), "{:?} {:?}", stamps, others);
        prop_assert!(others.len() < 20);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let (stamps, others) = read_all(&plans(), &bytes);
        prop_assert!(stamps.is_empty());
        let skipped: u64 = others.iter().map(|item| match item {
            Item::Fault(fault) => match fault.kind { FaultKind::NoPacket(n) => n, _ => 1 },
            _ => 0,
        }).sum();
        prop_assert!(bytes.is_empty() || skipped > 0);
    }
}
