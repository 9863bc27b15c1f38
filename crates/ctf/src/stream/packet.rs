//! A packet's header and context.

use crate::plan::Visitor;

/// A packet's header and context, in front of its events. All values are only claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Packet {
    /// The packet's offset in the file, bytes.
    pub offset: u64,
    /// The packet's index in the file, from 0.
    pub number: u64,
    /// The CPU with its events.
    pub cpu: Option<u64>,
    /// The clock at its beginning, ticks.
    pub begin: Option<u64>,
    /// The clock at its end, ticks.
    pub end: Option<u64>,
    /// The used bits, with header and context.
    pub content: Option<u64>,
    /// The whole size, bits.
    pub size: Option<u64>,
    /// The number of events lost in its stream when it was closed.
    pub discarded: Option<u64>,
    /// The packet's number in its stream.
    pub sequence: Option<u64>,
    /// The number at its beginning.
    pub(super) magic: Option<u64>,
    pub(super) uuid: Option<[u8; 16]>,
    /// Its stream class.
    pub stream: Option<u64>,
}

/// The used fields, with their slots in [`Packet`].
pub(super) const FIELDS: [(&str, u16); 10] = [
    ("magic", 0),
    ("uuid", 1),
    ("stream_id", 2),
    ("timestamp_begin", 3),
    ("timestamp_end", 4),
    ("content_size", 5),
    ("packet_size", 6),
    ("events_discarded", 7),
    ("packet_seq_num", 8),
    ("cpu_id", 9),
];

impl Visitor for Packet {
    fn unsigned(&mut self, field: u16, value: u64) {
        let place = match field {
            0 => &mut self.magic,
            2 => &mut self.stream,
            3 => &mut self.begin,
            4 => &mut self.end,
            5 => &mut self.content,
            6 => &mut self.size,
            7 => &mut self.discarded,
            8 => &mut self.sequence,
            9 => &mut self.cpu,
            _ => return,
        };
        *place = Some(value);
    }

    fn signed(&mut self, field: u16, value: i64) {
        if let Ok(value) = u64::try_from(value) {
            self.unsigned(field, value);
        }
    }

    fn float(&mut self, _: u16, _: f64) {}

    fn bytes(&mut self, field: u16, value: &[u8]) {
        if field == 1 {
            self.uuid = value.try_into().ok();
        }
    }
}
