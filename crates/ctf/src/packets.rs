//! Finds the packets of a trace in any file, damaged ones too.

use std::io;

use crate::packet::{HEADER_BYTES, PacketHeader};
use crate::signature::Signature;
use crate::window::Source;

/// Finds the packets of one stream file, front to back, also in a damaged file.
///
/// A packet's size is trusted only where another packet begins at its end, or the file ends there. Elsewhere the
/// next packet is found by its first 20 bytes, which hold the trace's random uuid. Every byte is read a bounded
/// number of times. One damaged number in a header does not cost the packet: those 20 bytes and the size confirm
/// each other.
#[derive(Debug)]
pub struct Packets {
    signature: [u8; 20],
    find: Signature,
    at: u64,
    size: u64,
    /// Found together with a packet and returned after it.
    pending: Option<Fault>,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// A packet.
    Packet(PacketAt),
    /// Something that is not as it was written.
    Fault(Fault),
}

/// A packet in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketAt {
    /// Where it begins.
    pub offset: u64,
    /// Its header; [`PacketHeader::content`] is only a claim.
    pub header: PacketHeader,
    /// Where its events begin.
    pub from: u64,
    /// Where they end, in the file.
    pub to: u64,
}

impl PacketAt {
    /// Whether less is there than the header says.
    pub const fn is_cut(&self) -> bool {
        self.to - self.from < self.header.content
    }
}

/// Bytes that cannot be read as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where it begins, bytes from the file's beginning.
    pub offset: u64,
    /// Where what can be read goes on.
    pub to: u64,
    /// The kind of the fault.
    pub kind: FaultKind,
}

/// A fault of a file.
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
    /// All packets of a trace in `source`, which now has the size that it is taken to have.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn new(source: &impl Source, uuid: [u8; 16]) -> io::Result<Self> {
        let signature = PacketHeader::signature(uuid);
        Ok(Self { signature, find: Signature::new(&signature), at: 0, size: source.size()?, pending: None })
    }

    /// The next finding; `None` at the end.
    ///
    /// # Errors
    /// Errors of the operating system.
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

    /// The header of the packet that comes next, if one begins there as it was written.
    ///
    /// # Errors
    /// Errors of the operating system.
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
        // Its size may be wrong, or what follows is: whichever packet begins next says.
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
            // The next header is damaged; it is reported in its turn.
            _ => {
                self.at = to;
                Ok(Finding::Packet(PacketAt { offset, header, from, to }))
            }
        }
    }

    /// Goes behind the packet and keeps the fault for next time.
    fn packet_with_fault(&mut self, packet: PacketAt, kind: FaultKind) -> Finding {
        self.at = packet.to;
        self.pending = Some(Fault { offset: packet.offset, to: packet.to, kind });
        Finding::Packet(packet)
    }
}
