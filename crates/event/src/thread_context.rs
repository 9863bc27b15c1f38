//! The span that a thread works for, by its own word.

/// The maximum recorded size of an attribute's value, bytes: `WP_ATTRIBUTE_BYTES`.
pub const MAX_ATTRIBUTE_BYTES: usize = 104;

/// A thread's context, read from the thread's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ThreadContext {
    /// The thread works for no span.
    None,
    /// The thread works for this span.
    Span {
        /// The trace id.
        trace: [u8; 16],
        /// The span's id in the trace.
        span: [u8; 8],
        /// The trace flags: 1 for a sampled trace.
        flags: u8,
    },
    /// The context could not be read, or was being written.
    Unknown,
}

/// An attribute that a thread publishes beside its span.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadAttribute {
    /// The key: the process publishes its name.
    pub key: u8,
    /// The whole value's size, bytes.
    pub length: u8,
    /// The value's first bytes, at most [`MAX_ATTRIBUTE_BYTES`].
    pub value: Box<[u8]>,
}
