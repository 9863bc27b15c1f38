//! Field classes, as a fragment writes them: locations and roles get their meaning where the class is used.

use std::rc::Rc;

use super::location::Location;
use crate::schema::{Float, Integer, Mapping, Range};

/// A field class.
#[derive(Debug)]
pub(super) struct Class {
    pub kind: Kind,
    /// Marks for the packet reader.
    pub roles: Vec<Role>,
    /// Its nesting depth.
    pub depth: usize,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// A number; it may also be true or false.
    Number {
        integer: Integer,
        mappings: Vec<Mapping>,
        boolean: bool,
    },
    /// A number with 7 bits in each byte.
    Leb128 {
        integer: Integer,
        mappings: Vec<Mapping>,
    },
    Float(Float),
    /// Bytes up to a NUL.
    Text,
    /// Text or other bytes with a length.
    Bytes {
        text: bool,
        length: Length,
    },
    Array {
        element: Rc<Class>,
        length: Length,
        align: u32,
    },
    Structure {
        members: Vec<(String, Rc<Class>)>,
        align: u32,
    },
    Variant {
        selector: Location,
        options: Vec<ChoiceOption>,
    },
    /// A field that is there if the selector is true, or has a value in the ranges.
    Optional {
        selector: Location,
        ranges: Option<Vec<Range>>,
        field: Rc<Class>,
    },
}

#[derive(Debug)]
pub(super) struct ChoiceOption {
    pub name: Option<String>,
    pub ranges: Vec<Range>,
    pub field: Rc<Class>,
}

/// Elements or bytes.
#[derive(Debug)]
pub(super) enum Length {
    Fixed(u64),
    At(Location),
}

/// A field's meaning for whoever reads packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Magic,
    Uuid,
    StreamClassId,
    StreamId,
    TotalLength,
    ContentLength,
    Stamp,
    EndStamp,
    Discarded,
    Sequence,
    EventClassId,
}

impl Role {
    /// The role with this name; the specification has no others.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "packet-magic-number" => Self::Magic,
            "metadata-stream-uuid" => Self::Uuid,
            "data-stream-class-id" => Self::StreamClassId,
            "data-stream-id" => Self::StreamId,
            "packet-total-length" => Self::TotalLength,
            "packet-content-length" => Self::ContentLength,
            "default-clock-timestamp" => Self::Stamp,
            "packet-end-default-clock-timestamp" => Self::EndStamp,
            "discarded-event-record-counter-snapshot" => Self::Discarded,
            "packet-sequence-number" => Self::Sequence,
            "event-record-class-id" => Self::EventClassId,
            _ => return None,
        })
    }

    /// The name reserved in CTF 1.8 for a field with this role, in the structure with this index among an event's
    /// six; `None` where the role means nothing.
    pub const fn reserved_name(self, root: usize) -> Option<&'static str> {
        Some(match (root, self) {
            (0, Self::Magic) => "magic",
            (0, Self::Uuid) => "uuid",
            (0, Self::StreamClassId) => "stream_id",
            (0, Self::StreamId) => "stream_instance_id",
            (1, Self::TotalLength) => "packet_size",
            (1, Self::ContentLength) => "content_size",
            (1, Self::Stamp) => "timestamp_begin",
            (1, Self::EndStamp) => "timestamp_end",
            (1, Self::Discarded) => "events_discarded",
            (1, Self::Sequence) => "packet_seq_num",
            (2, Self::EventClassId) => "id",
            (2, Self::Stamp) => "timestamp",
            _ => return None,
        })
    }
}
