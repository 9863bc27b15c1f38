//! The streams of a recording, as the headers of their packets describe them.

use std::io;

use wakepath_ctf::{Finding, Packets, Source};
use wakepath_event::Cpu;
use wakepath_kernel_records::Buffer;

/// One stream of a recording, as the headers of its packets describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInfo {
    /// Its file's name.
    pub name: String,
    /// The buffer that it comes from.
    pub buffer: Buffer,
    /// Its CPU; [`Cpu::UNKNOWN`] for the buffer that all share.
    pub cpu: Cpu,
    /// Bytes of its file.
    pub bytes: u64,
    /// Its packets.
    pub packets: u64,
    /// Its records.
    pub records: u64,
    /// Records that the recorder lost, by the last packet.
    pub discarded: u64,
    /// Stamp of the first record, ns; `None` without any.
    pub first: Option<u64>,
    /// Stamp of the last record, ns; `None` without any.
    pub last: Option<u64>,
    /// The recorder's mark stands at its end: nothing of it is missing behind the last record.
    pub closed: bool,
}

impl StreamInfo {
    /// Goes through the headers of the packets. Damaged ones are left out here, and reported when the stream is read.
    ///
    /// # Errors
    /// Those of the operating system.
    pub(super) fn scan(
        name: &str,
        buffer: Buffer,
        cpu: Cpu,
        source: &impl Source,
        uuid: [u8; 16],
    ) -> io::Result<Self> {
        let mut packets = Packets::new(source, uuid)?;
        let mut info = Self {
            name: name.to_owned(),
            buffer,
            cpu,
            bytes: source.size()?,
            packets: 0,
            records: 0,
            discarded: 0,
            first: None,
            last: None,
            closed: false,
        };
        while let Some(found) = packets.next(source)? {
            let Finding::Packet(packet) = found else { continue };
            let header = packet.header;
            info.closed = header.events == 0 && header.content == 0;
            if info.closed {
                continue;
            }
            info.packets += 1;
            info.records += u64::from(header.events);
            info.discarded = info.discarded.max(header.discarded);
            if header.begin <= header.end {
                info.first = Some(info.first.map_or(header.begin, |first| first.min(header.begin)));
                info.last = Some(info.last.map_or(header.end, |last| last.max(header.end)));
            }
        }
        Ok(info)
    }
}
