//! Finds a trace's packets in any file, also in a damaged file.

use std::io;

use crate::packet::{HEADER_BYTES, PacketHeader};
use crate::signature::Signature;
use crate::window::Source;

/// Finds a stream file's packets, front to back, also in a damaged file.
///
/// A packet's size is trusted only where another packet, or the file's end, follows. Elsewhere the next packet is
/// found by its first 20 bytes, which hold the trace's random uuid. Every byte is read a bounded number of times. A
/// single damaged number in a header does not cost the packet: these 20 bytes and the size confirm each other.
#[derive(Debug)]
pub struct Packets {
    signature: [u8; 20],
    find: Signature,
    at: u64,
    size: u64,
    /// Found with a packet and returned after it.
    pending: Option<Fault>,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// A packet.
    Packet(PacketAt),
    /// A damaged part.
    Fault(Fault),
}

/// A packet in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketAt {
    /// Its first byte's offset.
    pub offset: u64,
    /// Its header; [`PacketHeader::content`] is only a claim.
    pub header: PacketHeader,
    /// The events' offset.
    pub from: u64,
    /// The events' end in the file.
    pub to: u64,
}

impl PacketAt {
    /// Whether the file holds less than the header claims.
    pub const fn is_cut(&self) -> bool {
        self.to - self.from < self.header.content
    }
}

/// Bytes that are not as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The fault's offset in the file, bytes.
    pub offset: u64,
    /// The offset from which bytes are readable again.
    pub to: u64,
    /// The kind of fault.
    pub kind: FaultKind,
}

/// A fault in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum FaultKind {
    #[error("the file ends {found} bytes into a packet's header, which takes {HEADER_BYTES}")]
    HeaderCut { found: u64 },
    #[error("the packet says it has {claimed} bytes, and the file ends after {found}")]
    PacketCut { claimed: u64, found: u64 },
    #[error("the packet says it has {claimed} bytes, and another begins after {found}")]
    PacketOverrun { claimed: u64, found: u64 },
    #[error("the packet's two sizes disagree; it is taken to end after {found} bytes")]
    SizesDisagree { found: u64 },
    #[error("the packet's first bytes are damaged")]
    Signature,
    #[error("no packet begins here; {0} bytes skipped")]
    NoPacket(u64),
}

/// The largest number of wrong bits in 20 bytes that count as damage; with more, the bytes are no packet.
const MAX_WRONG_BITS: u32 = 8;

impl Packets {
    /// All a trace's packets in `source`, whose present size counts from now on.
    ///
    /// # Errors
    /// The operating system's read errors.
    pub fn new(source: &impl Source, uuid: [u8; 16]) -> io::Result<Self> {
        let signature = PacketHeader::signature(uuid);
        Ok(Self { signature, find: Signature::new(&signature), at: 0, size: source.size()?, pending: None })
    }

    /// The next finding; `None` at the end.
    ///
    /// # Errors
    /// The operating system's read errors.
    pub fn next(&mut self, source: &impl Source) -> io::Result<Option<Finding>> {
        if let Some(fault) = self.pending.take() {
            return Ok(Some(Finding::Fault(fault)));
        }
        if self.at >= self.size {
            return Ok(None);
        }
        let mut bytes = [0; HEADER_BYTES];
        let found = source.read_at(self.at, &mut bytes)?;
        if found < HEADER_BYTES {
            let fault =
                Fault { offset: self.at, to: self.size, kind: FaultKind::HeaderCut { found: found as u64 } };
            self.at = self.size;
            return Ok(Some(Finding::Fault(fault)));
        }
        let (header, sizes_agree) = PacketHeader::from_bytes(&bytes);
        let wrong: u32 = bytes.iter().zip(&self.signature).map(|(a, b)| (a ^ b).count_ones()).sum();
        if wrong == 0 && sizes_agree {
            return self.packet(source, header).map(Some);
        }
        let (offset, from) = (self.at, self.at + HEADER_BYTES as u64);
        if wrong == 0 {
            let to = self.find.find(source, from)?.unwrap_or(self.size);
            let kind = FaultKind::SizesDisagree { found: to - offset };
            return Ok(Some(self.packet_with_fault(PacketAt { offset, header, from, to }, kind)));
        }
        let to = from.saturating_add(header.content);
        if wrong <= MAX_WRONG_BITS
            && sizes_agree
            && (to == self.size || self.find.begins(source, self.size, to)?)
        {
            let packet = PacketAt { offset, header, from, to };
            return Ok(Some(self.packet_with_fault(packet, FaultKind::Signature)));
        }
        let to = self.find.find(source, offset + 1)?.unwrap_or(self.size);
        self.at = to;
        Ok(Some(Finding::Fault(Fault { offset, to, kind: FaultKind::NoPacket(to - offset) })))
    }

    /// The next packet's header, if an undamaged packet begins there.
    ///
    /// # Errors
    /// The operating system's read errors.
    pub fn peek(&self, source: &impl Source) -> io::Result<Option<PacketHeader>> {
        let mut bytes = [0; HEADER_BYTES];
        let found = source.read_at(self.at, &mut bytes)?;
        let whole = found == HEADER_BYTES && bytes[..20] == self.signature;
        Ok(whole.then(|| PacketHeader::from_bytes(&bytes).0))
    }

    fn packet(&mut self, source: &impl Source, header: PacketHeader) -> io::Result<Finding> {
        let (offset, from) = (self.at, self.at + HEADER_BYTES as u64);
        let claimed = header.content.saturating_add(HEADER_BYTES as u64);
        let to = offset.saturating_add(claimed);
        if to == self.size || self.find.begins(source, self.size, to)? {
            self.at = to;
            return Ok(Finding::Packet(PacketAt { offset, header, from, to }));
        }
        // Its size may be wrong, or the bytes behind: the next packet decides.
        match self.find.find(source, from)? {
            Some(next) if next < to => {
                let packet = PacketAt { offset, header, from, to: next };
                let kind = FaultKind::PacketOverrun { claimed, found: next - offset };
                Ok(self.packet_with_fault(packet, kind))
            }
            _ if to > self.size => {
                let packet = PacketAt { offset, header, from, to: self.size };
                let kind = FaultKind::PacketCut { claimed, found: self.size - offset };
                Ok(self.packet_with_fault(packet, kind))
            }
            // The next header is damaged, and reported in its turn.
            _ => {
                self.at = to;
                Ok(Finding::Packet(PacketAt { offset, header, from, to }))
            }
        }
    }

    /// Goes behind the packet and keeps the fault for the next call.
    fn packet_with_fault(&mut self, packet: PacketAt, kind: FaultKind) -> Finding {
        self.at = packet.to;
        self.pending = Some(Fault { offset: packet.offset, to: packet.to, kind });
        Finding::Packet(packet)
    }
}
