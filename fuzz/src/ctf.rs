//! Metadata as text, and packets in any file.
//!
//! Input: a byte whose lowest bit is 0 for a text, 1 for a file, then the text or the file.

use std::cell::Cell;
use std::io;

use wakepath_ctf::packet::{self, HEADER_BYTES, PacketHeader};
use wakepath_ctf::schema::{ByteOrder, EnvValue, Metadata};
use wakepath_ctf::tsdl::{Facts, read_facts, write};
use wakepath_ctf::{FaultKind, Finding, Packets, Source};

/// The uuid of the trace whose packets are searched for.
pub const UUID: [u8; 16] = *b"\x00packets of fuzz";

/// Puts bytes through the metadata reader or the packet finder.
///
/// # Panics
/// When a law is broken.
pub fn check(input: &[u8]) {
    match input.split_first() {
        Some((kind, bytes)) if kind & 1 == 0 => text(&String::from_utf8_lossy(bytes)),
        Some((_, bytes)) => packets(bytes),
        None => {}
    }
}

/// Metadata from a text can be written, and reads the same.
fn text(text: &str) {
    let Ok(facts) = read_facts(text) else { return };
    let again = read_facts(&write(&metadata(&facts))).expect("what was read can be written and read again");
    assert_eq!(again, spelled_out(facts));
}

/// Control characters do not get into the text: a question mark replaces each.
fn spelled_out(facts: Facts) -> Facts {
    let shown = |text: &str| -> String {
        text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '?' } else { c }).collect()
    };
    let mut facts = facts;
    for (_, value) in &mut facts.env {
        if let EnvValue::Text(text) = value {
            *text = shown(text);
        }
    }
    facts.clock.name = shown(&facts.clock.name);
    facts.clock.description = shown(&facts.clock.description);
    facts
}

/// Metadata with only these facts.
fn metadata(facts: &Facts) -> Metadata {
    Metadata {
        uuid: Some(facts.uuid),
        byte_order: ByteOrder::Little,
        env: facts.env.clone(),
        clocks: vec![facts.clock.clone()],
        packet_header: packet::header_fields(),
        streams: Vec::new(),
    }
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

/// Findings tile any file, and every byte in it is read a bounded number of times.
fn packets(bytes: &[u8]) {
    let source = Counting(bytes, Cell::new(0));
    let mut packets = Packets::new(&source, UUID).expect("memory has no errors");
    let signature = PacketHeader::signature(UUID);
    let (mut at, mut findings) = (0, 0_u64);
    while let Some(found) = packets.next(&source).expect("memory has no errors") {
        findings += 1;
        match found {
            Finding::Packet(packet) => {
                assert_eq!(packet.offset, at);
                assert_eq!(packet.from, at + HEADER_BYTES as u64);
                assert!(packet.to >= packet.from && packet.to <= bytes.len() as u64);
                let header = bytes[at as usize..].first_chunk().expect("a header");
                let (header, agree) = PacketHeader::from_bytes(header);
                assert_eq!(header, packet.header);
                let whole = agree && packet.to - packet.from == header.content;
                assert!(!whole || PacketHeader::from_bytes(&header.to_bytes()).1);
                assert_eq!(packet.is_cut(), packet.to - packet.from < header.content);
                at = packet.to;
            }
            // A fault in the last packet, or in the bytes behind it.
            Finding::Fault(fault) => {
                assert!(fault.to == at || fault.offset == at, "{fault:?} at {at}");
                assert!(fault.offset < fault.to);
                if matches!(fault.kind, FaultKind::NoPacket(_)) {
                    let passed = &bytes[fault.offset as usize + 1..fault.to as usize];
                    assert!(
                        !passed.windows(20).any(|window| window == signature),
                        "no packet is passed over"
                    );
                }
                at = fault.to;
            }
        }
    }
    assert_eq!(at, bytes.len() as u64);
    // For each finding, a header of 80 bytes and two searches over 1 KiB for the next header are read. A longer
    // search finds nothing in the bytes that it passes, and only the next finding passes them again.
    let looks = source.1.get();
    let most = findings * (80 + 2 * 1024 + 20) + 4 * bytes.len() as u64;
    assert!(looks <= most, "{looks} bytes read of {}, for {findings} findings", bytes.len());
}
