//! System calls failing before a sleep, or again and again.

use wakepath_clock::{Local, Stamp};

use crate::{Address, Tid};

/// A failed call object's maximum recorded size, bytes: `WP_OBJECT_BYTES`.
pub const MAX_OBJECT_BYTES: usize = 64;

/// A thread's last failed call before a sleep.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FailedCall {
    /// The call and its failure: the same try again and again has equal values.
    pub attempt: Attempt,
    /// The equal failures since a time-out ended the thread's wait.
    pub tries: u32,
    /// The calls returned between the last try and the sleep.
    pub later: u32,
}

/// A failed system call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempt {
    /// The x86-64 number.
    pub call: u32,
    /// The errno; 0 for a success by which a process still runs.
    pub error: u32,
    /// The command for `fcntl`, the operation for `flock`, the signal for `kill`; else 0.
    pub operation: u32,
    /// The process holding the lock just after the call, if known.
    pub holder: Option<Tid>,
    /// The object.
    pub object: AttemptObject,
}

/// A failed call's object, at most [`MAX_OBJECT_BYTES`] long.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AttemptObject {
    /// The call has none, or an unrecorded object.
    None,
    /// A path.
    Path(Box<[u8]>),
    /// A longer path's end.
    PathEnd(Box<[u8]>),
    /// A socket's address.
    Address(Address),
    /// A Unix socket's path; an abstract name begins with NUL.
    Unix(Box<[u8]>),
    /// A process, by the number given by the caller, in its own namespace; 0 and negative numbers mean groups.
    Process(i32),
    /// The last component in a descriptor's path.
    File(Box<[u8]>),
    /// The object could not be read.
    Unreadable,
}

/// A stretch in which a call by [`crate::Event::current`] failed at least 1000 times a second. The event's stamp is its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spin {
    /// The x86-64 number.
    pub call: u32,
    /// The errno.
    pub error: u32,
    /// The first call's end.
    pub from: Stamp<Local>,
    /// The count.
    pub count: u64,
}
