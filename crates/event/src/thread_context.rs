//! The span that a thread works for, by its own word.

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
