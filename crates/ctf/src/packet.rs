//! The framing of wakepath's own streams: a header and context with a fixed size in front of each packet (CTF 1.8,
//! section 5.1 and 5.2), little endian, a multiple of 8 bytes.

use crate::schema::{Field, FieldType, Integer, Structure};

/// The number at every CTF packet's beginning.
pub const MAGIC: u32 = 0xc1fc_1fc1;

/// The size of header and context together, bytes.
pub const HEADER_BYTES: usize = 80;

/// A packet's header and context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketHeader {
    /// The trace's uuid.
    pub uuid: [u8; 16],
    /// The stream class's number.
    pub stream_id: u32,
    /// The CPU with the events' buffer; 0 for a shared buffer.
    pub cpu: u32,
    /// The first event's stamp, or earlier.
    pub begin: u64,
    /// The last event's stamp, or later.
    pub end: u64,
    /// The events' size, bytes.
    pub content: u64,
    /// The number of events lost in this stream since its beginning, when the packet was made.
    pub discarded: u64,
    /// The packet's index in its stream, from 0.
    pub number: u64,
    /// The number of events in the packet.
    pub events: u32,
}

impl PacketHeader {
    /// The bytes to write in front of `content` bytes with events.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let size = (self.content + HEADER_BYTES as u64) * 8;
        bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..20].copy_from_slice(&self.uuid);
        bytes[20..24].copy_from_slice(&self.stream_id.to_le_bytes());
        for (i, value) in
            [self.begin, self.end, size, size, self.discarded, self.number].into_iter().enumerate()
        {
            bytes[24 + 8 * i..32 + 8 * i].copy_from_slice(&value.to_le_bytes());
        }
        bytes[72..76].copy_from_slice(&self.events.to_le_bytes());
        bytes[76..80].copy_from_slice(&self.cpu.to_le_bytes());
        bytes
    }

    /// Reads a packet's first bytes, and whether its two sizes agree and are possible. If not,
    /// [`PacketHeader::content`] has no meaning. Checks nothing else.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> (Self, bool) {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[4..20]);
        let (content, size) = (u64_at(40), u64_at(48));
        let events = (size / 8).checked_sub(HEADER_BYTES as u64);
        let header = Self {
            uuid,
            stream_id: u32_at(20),
            cpu: u32_at(76),
            begin: u64_at(24),
            end: u64_at(32),
            content: events.unwrap_or(0),
            discarded: u64_at(56),
            number: u64_at(64),
            events: u32_at(72),
        };
        (header, content == size && size.is_multiple_of(64) && events.is_some())
    }

    /// The first 20 bytes in all a trace's packets, for searches.
    pub fn signature(uuid: [u8; 16]) -> [u8; 20] {
        let mut signature = [0; 20];
        signature[..4].copy_from_slice(&MAGIC.to_le_bytes());
        signature[4..].copy_from_slice(&uuid);
        signature
    }
}

/// The header's fields, for [`crate::schema::Metadata::packet_header`].
pub fn header_fields() -> Structure {
    let byte = FieldType::Integer(Integer::unsigned(8));
    vec![
        Field::new("magic", FieldType::Integer(Integer::hexadecimal(32))),
        Field::new("uuid", FieldType::Array(Box::new(byte), 16)),
        Field::new("stream_id", FieldType::Integer(Integer::unsigned(32))),
    ]
    .into()
}

/// The context's fields, for [`crate::schema::StreamClass::packet_context`]. `clock` is the clock's name; `per_cpu`:
/// each stream belongs to a single CPU.
pub fn context_fields(clock: &str, per_cpu: bool) -> Structure {
    let number = |bits| FieldType::Integer(Integer::unsigned(bits));
    let stamp = || FieldType::Integer(Integer { clock: Some(clock.to_owned()), ..Integer::unsigned(64) });
    let mut fields = vec![
        Field::new("timestamp_begin", stamp()),
        Field::new("timestamp_end", stamp()),
        Field::new("content_size", number(64)),
        Field::new("packet_size", number(64)),
        Field::new("events_discarded", number(64)),
        Field::new("packet_seq_num", number(64)),
    ];
    if per_cpu {
        fields.push(Field::new("event_count", number(32)));
        fields.push(Field::new("cpu_id", number(32)));
    } else {
        // Here the CPU is 0: both words make a single number.
        fields.push(Field::new("event_count", number(64)));
    }
    fields.into()
}
