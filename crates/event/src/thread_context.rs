//! The span that a thread works for, by its own word.

/// The bytes of an attribute's value that are recorded: `WP_ATTRIBUTE_BYTES`.
pub const MAX_ATTRIBUTE_BYTES: usize = 104;

/// A thread's context as it was read in the thread's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ThreadContext {
    /// The thread works for no span.
    None,
    /// The thread works for this span.
    Span {
        /// The id of its trace.
        trace: [u8; 16],
        /// Its id in that trace.
        span: [u8; 8],
        /// The flags of the trace: 1 for a sampled one.
        flags: u8,
    },
    /// It could not be read, or it was being written.
    Unknown,
}

/// An attribute that a thread says beside its span.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadAttribute {
    /// Its key: the process publishes its name.
    pub key: u8,
    /// The bytes of the whole value.
    pub length: u8,
    /// The first bytes of the value, at most [`MAX_ATTRIBUTE_BYTES`].
    pub value: Box<[u8]>,
}
