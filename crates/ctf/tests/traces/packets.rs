//! Finding packets in sound and damaged files.

use std::cell::Cell;
use std::io;

use proptest::prelude::*;
use wakepath_ctf::packet::{HEADER_BYTES, PacketHeader};
use wakepath_ctf::{Finding, Packets, Source};

const UUID: [u8; 16] = *b"\x00packets of test";

/// A packet with this number of event bytes, all alike.
fn packet(number: u64, content: usize, fill: u8) -> Vec<u8> {
    let header = PacketHeader {
        uuid: UUID,
        stream_id: 7,
        cpu: 3,
        begin: 10 * number,
        end: 10 * number + 9,
        content: content as u64,
        discarded: 1,
        number,
        events: 2,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.resize(HEADER_BYTES + content, fill);
    bytes
}

/// The findings as text: `0+24` a packet at 0 with 24 event bytes, `0-104 why` a fault.
fn found(bytes: &[u8]) -> Vec<String> {
    let mut packets = Packets::new(&bytes, UUID).expect("memory has no errors");
    let mut found = Vec::new();
    while let Some(next) = packets.next(&bytes).expect("memory has no errors") {
        found.push(match next {
            Finding::Packet(packet) => {
                let cut = if packet.is_cut() { " cut" } else { "" };
                format!("{}+{}{cut}", packet.offset, packet.to - packet.from)
            }
            Finding::Fault(fault) => format!("{}-{} {}", fault.offset, fault.to, fault.kind),
        });
    }
    found
}

/// Three packets: at 0, 104 and 200; the file ends at 320.
fn three() -> Vec<u8> {
    [packet(0, 24, 1), packet(1, 16, 2), packet(2, 40, 3)].concat()
}

#[test]
fn a_header_comes_back_as_it_was_written() {
    let bytes = packet(5, 64, 0);
    let (header, agree) = PacketHeader::from_bytes(bytes.first_chunk().expect("a header"));
    assert!(agree);
    assert_eq!(header.to_bytes(), bytes[..HEADER_BYTES]);
    assert_eq!((header.cpu, header.stream_id, header.content, header.events), (3, 7, 64, 2));
}

#[test]
fn packets_are_found_where_they_are() {
    assert_eq!(found(&three()), ["0+24", "104+16", "200+40"]);
    assert_eq!(found(&[]), [""; 0]);
}

#[test]
fn a_fault_is_reported_and_all_other_packets_are_found() {
    type Damage = fn(&mut Vec<u8>);
    let cases: [(Damage, &[&str]); 9] = [
        // The file ends in a header, and in events.
        (
            |bytes| bytes.truncate(220),
            &["0+24", "104+16", "200-220 the file ends 20 bytes into a packet's header, which takes 80"],
        ),
        (
            |bytes| bytes.truncate(300),
            &[
                "0+24",
                "104+16",
                "200+20 cut",
                "200-300 the packet says it has 120 bytes, and the file ends after 100",
            ],
        ),
        // Both sizes damaged alike: too large within the file, beyond it, and too small.
        (
            |bytes| size(bytes, 0, 8 * 216),
            &[
                "0+24 cut",
                "0-104 the packet says it has 216 bytes, and another begins after 104",
                "104+16",
                "200+40",
            ],
        ),
        (
            |bytes| size(bytes, 0, u64::MAX - 63),
            &[
                "0+24 cut",
                "0-104 the packet says it has 2305843009213693944 bytes, and another begins after 104",
                "104+16",
                "200+40",
            ],
        ),
        (
            |bytes| size(bytes, 0, 8 * 88),
            &["0+8", "88-104 no packet begins here; 16 bytes skipped", "104+16", "200+40"],
        ),
        // A single size damaged, the magic number, and more.
        (
            |bytes| bytes[104 + 40] ^= 1,
            &[
                "0+24",
                "104+16",
                "104-200 the packet's two sizes disagree; it is taken to end after 96 bytes",
                "200+40",
            ],
        ),
        (
            |bytes| bytes[105] ^= 1,
            &["0+24", "104+16", "104-200 the packet's first bytes are damaged", "200+40"],
        ),
        (
            |bytes| bytes[104..200].fill(0xaa),
            &["0+24", "104-200 no packet begins here; 96 bytes skipped", "200+40"],
        ),
        (
            |bytes| drop(bytes.splice(104..104, [9; 5])),
            &["0+24", "104-109 no packet begins here; 5 bytes skipped", "109+16", "205+40"],
        ),
    ];
    for (damage, expected) in cases {
        let mut bytes = three();
        damage(&mut bytes);
        assert_eq!(found(&bytes), expected);
    }
}

fn size(bytes: &mut [u8], packet: usize, bits: u64) {
    for at in [packet + 40, packet + 48] {
        bytes[at..at + 8].copy_from_slice(&bits.to_le_bytes());
    }
}

/// At any place of the next packet in the search's blocks.
#[test]
fn a_packet_behind_rubbish_of_any_length_is_found() {
    for rubbish in (1000..1100).chain(3000..3100) {
        let bytes = [vec![0xc1; rubbish], packet(0, 24, 1)].concat();
        let expected =
            [format!("0-{rubbish} no packet begins here; {rubbish} bytes skipped"), format!("{rubbish}+24")];
        assert_eq!(found(&bytes), expected);
    }
}

#[test]
fn packets_of_another_trace_are_none_of_ours() {
    let mut foreign = packet(0, 24, 0);
    foreign[4..20].copy_from_slice(b"somebody else's!");
    let bytes = [packet(0, 24, 1), foreign, packet(1, 16, 2)].concat();
    assert_eq!(found(&bytes), ["0+24", "104-208 no packet begins here; 104 bytes skipped", "208+16"]);
}

/// Counts the bytes read from it.
struct Counting<'a>(&'a [u8], Cell<u64>);

impl Source for Counting<'_> {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read_at(offset, into)?;
        self.1.set(self.1.get() + n as u64);
        Ok(n)
    }
}

/// Files that make a careless reader read the same bytes many times.
#[test]
fn every_byte_is_looked_at_a_bounded_number_of_times() {
    let empty = packet(0, 0, 0);
    let separated = [empty.clone(), vec![0; 8]].concat();
    let mut endless = packet(0, 24, 0);
    size(&mut endless, 0, 1 << 60);
    let mut disagreeing = packet(0, 24, 0);
    disagreeing[40] ^= 8;
    let nearly = [packet(0, 24, 0)[..20].to_vec(), vec![0; 4]].concat();
    let mut almost = packet(0, 24, 0);
    almost[0] ^= 1;
    for (what, piece) in [
        ("empty packets", empty),
        ("packets with rubble between", separated),
        ("packets that claim all", endless),
        ("packets whose sizes disagree", disagreeing),
        ("packets that are only begun", nearly),
        ("packets with damaged beginnings", almost),
        ("no packets", vec![0xc1; 100]),
    ] {
        let bytes = piece.repeat(2_000_000 / piece.len());
        let source = Counting(&bytes, Cell::new(0));
        let mut packets = Packets::new(&source, UUID).expect("memory has no errors");
        while packets.next(&source).expect("memory has no errors").is_some() {}
        // A header with 80 bytes and two searches with at most 1 KiB for the next header, for each piece with at
        // least 24 bytes: independent of the file's length.
        let looks = source.1.get() as f64 / bytes.len() as f64;
        assert!(looks < 100.0, "{what}: every byte read {looks:.1} times");
    }
}

proptest! {
    #[test]
    fn findings_tile_any_file(pieces in proptest::collection::vec((0..5u8, 0..60usize, any::<u8>()), 0..12)) {
        let mut bytes = Vec::new();
        for (number, (what, len, fill)) in pieces.into_iter().enumerate() {
            let packet = packet(number as u64, len / 8 * 8, fill);
            match what {
                0 | 1 => bytes.extend(packet),
                2 => bytes.extend(vec![fill; len]),
                3 => bytes.extend(&packet[..packet.len().min(len * 2)]),
                _ => {
                    let mut packet = packet;
                    let at = len % packet.len();
                    packet[at] ^= fill;
                    bytes.extend(packet);
                }
            }
        }
        let source = bytes.as_slice();
        let mut packets = Packets::new(&source, UUID).expect("memory has no errors");
        let mut at = 0;
        while let Some(found) = packets.next(&source).expect("memory has no errors") {
            match found {
                Finding::Packet(packet) => {
                    prop_assert_eq!(packet.offset, at);
                    prop_assert_eq!(packet.from, at + HEADER_BYTES as u64);
                    prop_assert!(packet.to >= packet.from && packet.to <= bytes.len() as u64);
                    at = packet.to;
                }
                // A fault in the packet just found, or in the bytes behind it.
                Finding::Fault(fault) => {
                    prop_assert!(fault.to == at || fault.offset == at);
                    at = fault.to;
                }
            }
        }
        prop_assert_eq!(at, bytes.len() as u64);
    }
}
