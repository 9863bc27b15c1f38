//! The faults in a stream.

use std::fmt;

use crate::plan::Stop;

/// A damaged part in a stream. The bytes after it were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The packet's index in the file, from 0.
    pub packet: u64,
    /// The offset in the file, bytes.
    pub offset: u64,
    /// The kind of fault.
    pub kind: FaultKind,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {} at byte {}: {}", self.packet, self.offset, self.kind)
    }
}

/// The kind of fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum FaultKind {
    #[error("no packet begins here; {0} bytes skipped")]
    NoPacket(u64),
    #[error("the packet is of another trace; {0} bytes skipped")]
    OtherTrace(u64),
    #[error("the packet is of stream {stream}, which the metadata does not declare; {skipped} bytes skipped")]
    UnknownStream { stream: u64, skipped: u64 },
    #[error("the file ends in the packet's header")]
    HeaderCut,
    #[error("the packet says it has {claimed} bytes, and the file ends after {found}")]
    PacketCut { claimed: u64, found: u64 },
    #[error("the packet says it has {claimed} bytes, and another begins after {found}")]
    PacketOverrun { claimed: u64, found: u64 },
    #[error("the packet's size of {bits} bits is impossible; it is taken to end after {found} bytes")]
    Size { bits: u64, found: u64 },
    #[error("the packet's content of {content} bits is impossible in a packet of {size} bits")]
    Content { content: u64, size: u64 },
    #[error("event {0} is not declared; the rest of its packet is skipped")]
    UnknownEvent(u64),
    #[error("event `{event}` does not end in its packet, whose rest is skipped")]
    EventCut { event: String },
    #[error(
        "event `{event}` has a variant of tag {tag}, which none of its options is for; the rest of its packet is skipped"
    )]
    Tag { event: String, tag: u64 },
    #[error("event `{event}` has a number of more than 64 bits; the rest of its packet is skipped")]
    Large { event: String },
    #[error("event `{event}` has no size; the rest of its packet is skipped")]
    Empty { event: String },
    #[error("cannot be read: {0}")]
    Io(String),
}

impl FaultKind {
    pub(super) fn from_stop(stop: Stop, event: &str) -> Self {
        let event = event.to_owned();
        match stop {
            Stop::Short => Self::EventCut { event },
            Stop::Tag(tag) => Self::Tag { event, tag },
            Stop::Large => Self::Large { event },
            Stop::Empty => Self::Empty { event },
        }
    }
}
