use std::io;

use memchr::memmem::Finder;

use crate::packet::{HEADER_BYTES, PacketHeader};
use crate::window::Source;

/// Finds the packets of one stream file, front to back, whatever happened to the file.
///
/// A packet's size is believed only as far as another packet begins where it says to end, or the
/// file ends there. Where it does not, the next packet is found by its first 20 bytes, which hold
/// the trace's random uuid. Every byte is looked at a bounded number of times.
#[derive(Debug)]
pub struct Packets {
    finder: Finder<'static>,
    signature: [u8; 20],
    at: u64,
    size: u64,
    /// Found together with a packet and told after it.
    pending: Option<Fault>,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
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
    /// What it says about itself; [`PacketHeader::content`] is a claim.
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
    /// What is wrong.
    pub kind: FaultKind,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum FaultKind {
    #[error("the file ends {found} bytes into a packet's header, which takes {HEADER_BYTES}")]
    HeaderCut { found: u64 },
    #[error("the packet says it has {claimed} bytes, and the file ends after {found}")]
    PacketCut { claimed: u64, found: u64 },
    #[error("the packet says it has {claimed} bytes, and another begins after {found}")]
    PacketOverrun { claimed: u64, found: u64 },
    #[error("no packet begins here: {0}; {1} bytes skipped")]
    NoPacket(&'static str, u64),
}

impl Packets {
    /// All packets of a trace in `source`, which now has the size that it is taken to have.
    ///
    /// # Errors
    /// Of the operating system.
    pub fn new(source: &impl Source, uuid: [u8; 16]) -> io::Result<Self> {
        let signature = PacketHeader::signature(uuid);
        let finder = Finder::new(&signature).into_owned();
        Ok(Self { finder, signature, at: 0, size: source.size()?, pending: None })
    }

    /// The next finding; `None` at the end.
    ///
    /// # Errors
    /// Of the operating system.
    pub fn next(&mut self, source: &impl Source) -> io::Result<Option<Found>> {
        if let Some(fault) = self.pending.take() {
            return Ok(Some(Found::Fault(fault)));
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
            return Ok(Some(Found::Fault(fault)));
        }
        let header = match PacketHeader::from_bytes(&bytes) {
            Ok(header) if bytes[..20] == self.signature => header,
            Ok(_) => return self.skip(source, "it belongs to another recording").map(Some),
            Err(why) => return self.skip(source, why).map(Some),
        };
        self.packet(source, header).map(Some)
    }

    fn packet(&mut self, source: &impl Source, header: PacketHeader) -> io::Result<Found> {
        let from = self.at + HEADER_BYTES as u64;
        let claimed = header.content.saturating_add(HEADER_BYTES as u64);
        let claimed_end = self.at.saturating_add(claimed);
        let packet = |to| PacketAt { offset: from - HEADER_BYTES as u64, header, from, to };
        if claimed_end == self.size || (claimed_end < self.size && self.begins(source, claimed_end)?) {
            self.at = claimed_end;
            return Ok(Found::Packet(packet(claimed_end)));
        }
        // Its size may be wrong, or what follows is: whichever packet begins next says.
        let end = match self.find(source, from)? {
            Some(next) if next < claimed_end => {
                let found = next - self.at;
                self.pending = Some(Fault {
                    offset: self.at,
                    to: next,
                    kind: FaultKind::PacketOverrun { claimed, found },
                });
                next
            }
            _ if claimed_end > self.size => {
                let found = self.size - self.at;
                self.pending = Some(Fault {
                    offset: self.at,
                    to: self.size,
                    kind: FaultKind::PacketCut { claimed, found },
                });
                self.size
            }
            // The next header is what is damaged; it will be told in its turn.
            _ => claimed_end,
        };
        self.at = end;
        Ok(Found::Packet(packet(end)))
    }

    fn skip(&mut self, source: &impl Source, why: &'static str) -> io::Result<Found> {
        let to = self.find(source, self.at + 1)?.unwrap_or(self.size);
        let fault = Fault { offset: self.at, to, kind: FaultKind::NoPacket(why, to - self.at) };
        self.at = to;
        Ok(Found::Fault(fault))
    }

    /// Whether a packet begins at `offset`; the remains of one at the end of the file count too.
    fn begins(&self, source: &impl Source, offset: u64) -> io::Result<bool> {
        let mut bytes = [0; 20];
        let n = source.read_at(offset, &mut bytes)?;
        Ok(bytes[..n] == self.signature[..n])
    }

    /// Where the first packet at or after `from` begins.
    fn find(&self, source: &impl Source, from: u64) -> io::Result<Option<u64>> {
        let overlap = self.signature.len() - 1;
        // Little first: the next packet is near, or else it may be anywhere.
        let mut buffer = vec![0; 1024];
        let mut at = from;
        loop {
            let n = source.read_at(at, &mut buffer)?;
            if let Some(i) = self.finder.find(&buffer[..n]) {
                return Ok(Some(at + i as u64));
            }
            if n < buffer.len() {
                return Ok(None);
            }
            at += (n - overlap) as u64;
            if buffer.len() < 256 * 1024 {
                buffer.resize(2 * buffer.len(), 0);
            }
        }
    }
}
