//! Call stacks and their counts.

use crate::Tid;

/// A call stack: addresses, innermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// The process whose address space the user frames are of.
    pub tgid: Tid,
    /// Kernel addresses.
    pub kernel: Box<[u64]>,
    /// User addresses.
    pub user: Box<[u64]>,
    /// The number of frames in `user`, behind the first one, that are not in the chain of frame pointers, but were found on
    /// the stack with a call before them. They are return addresses, though perhaps of calls that ended long ago. Where the
    /// innermost function has no frame, the first one that fits is its caller; the chain passes over it.
    pub scanned: u16,
    /// The number of frames in `user`, from the first one on, to which the thread's registers and the tables of the files
    /// led, each with a call before it. The others are a guess: by a frame pointer that may be none, or by what the stack holds.
    pub proved: u16,
}

/// The id of a stack: a hash of its content, or a number of its own; equal ids mean equal stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u64);

impl Stack {
    /// Its id, as `stack_id` of `bpf/stack.h` computes it.
    pub fn id(&self) -> StackId {
        let counts = (self.kernel.len() as u64) << 16 | self.user.len() as u64;
        let found = u64::from(self.proved) << 16 | u64::from(self.scanned);
        let hash = mix(mix(0, u64::from(self.tgid.0) << 32 | counts), found);
        StackId(self.kernel.iter().chain(&self.user).fold(hash, |hash, &frame| mix(hash, frame)))
    }
}

fn mix(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

/// How stacks at switch-outs and wakings came about, since the recording began. A stack is not taken
/// anew where a thread looks as it did before: the same registers, the same system call. Some of these
/// are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StackCounts {
    /// Taken.
    pub taken: u64,
    /// Not taken: that of before was meant.
    pub repeated: u64,
    /// The number of those in `taken` that were taken to check a repeated stack.
    pub checked: u64,
    /// The number of those in `checked` that differed.
    pub disagreed: u64,
    /// The number of those in `repeated` since the last check before one that disagreed: at most these are wrong.
    pub doubtful: u64,
}

/// How stacks were unwound, since the recording began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnwindCounts {
    /// The time in which the kernel side read the stacks of [`StackCounts::taken`], ns.
    pub taken_ns: u64,
    /// Stacks and samples of which memory was copied, for user space to finish.
    pub copied: u64,
    /// The number of those in `copied` that user space did not finish: the process was gone, or too many waited.
    pub refused: u64,
    /// CPU time of the thread that finished the others, ns.
    pub unwound_ns: u64,
}
