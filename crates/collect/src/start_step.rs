//! The steps before a recording begins.

/// A step of a recording's start, which [`record`](crate::record) reports when the step begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartStep {
    /// The BPF programs are loaded into the kernel.
    Load,
    /// They are attached.
    Attach,
    /// Their cost on this machine is measured.
    Measure,
    /// The threads and names that are there already are read.
    List,
    /// The recording runs, and so does its command. Threads that were started for the start have to end now, before
    /// this process gives up its rights.
    Begun,
}
