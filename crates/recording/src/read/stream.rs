//! A recording's streams, as their packet headers describe them.

use std::io;

use wakepath_ctf::{Finding, Packets, Source};
use wakepath_event::Cpu;
use wakepath_kernel_records::Buffer;

/// A stream, as its packet headers describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInfo {
    /// The file name.
    pub name: String,
    /// The buffer whose records it holds.
    pub buffer: Buffer,
    /// Its CPU; [`Cpu::UNKNOWN`] for the shared buffer.
    pub cpu: Cpu,
    /// The file's size, bytes.
    pub bytes: u64,
    /// The number of packets.
    pub packets: u64,
    /// The number of records.
    pub records: u64,
    /// The number of records lost by the recorder, from the largest counter.
    pub discarded: u64,
    /// The first record's stamp, ns; `None` without records.
    pub first: Option<u64>,
    /// The last record's stamp, ns; `None` without records.
    pub last: Option<u64>,
    /// The recorder's mark stands at the end: no record is missing behind the last.
    pub closed: bool,
}

impl StreamInfo {
    /// Walks through the packet headers. Damaged packets are left out here, and reported when the stream is read.
    ///
    /// # Errors
    /// The operating system's read errors.
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
