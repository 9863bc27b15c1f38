//! Call stacks and their counts.

use crate::Tid;

/// A call stack: addresses, innermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// The process of the user frames' address space.
    pub tgid: Tid,
    /// Kernel addresses.
    pub kernel: Box<[u64]>,
    /// User addresses.
    pub user: Box<[u64]>,
    /// The number of frames in `user`, behind the first, that are not in the frame-pointer chain, but were found on the stack with a call before
    /// them. They are return addresses, though perhaps from calls that ended long ago. If the innermost function has no frame, the first fitting
    /// address is its caller; the chain passes over it.
    pub scanned: u16,
    /// The number of frames in `user`, from the first on, to which the thread's registers and the files' unwinding tables led, each with a call
    /// before it. The others are guesses: from a frame pointer that may not be one, or from the stack's content.
    pub proved: u16,
}

/// A stack's id: a hash of its content, or a separate number; equal ids mean equal stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u64);

impl Stack {
    /// The id, as `stack_id` in `bpf/stack.h` computes it.
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

/// The origins of stacks at switch-outs and wake-ups, since the recording began. A stack is not taken anew if
/// the thread looks as before: the same registers, the same system call. Some of these are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StackCounts {
    /// Taken stacks.
    pub taken: u64,
    /// Stacks not taken: the previous stack stands for them.
    pub repeated: u64,
    /// The number of stacks in `taken` that checked a repeated stack.
    pub checked: u64,
    /// The number of stacks in `checked` that differed.
    pub disagreed: u64,
    /// The maximum number of wrong stacks in `repeated`: those between a disagreeing check and the check before it.
    pub doubtful: u64,
}

/// The unwinding work since the recording began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UnwindCounts {
    /// The kernel side's time for reading the stacks in [`StackCounts::taken`], ns.
    pub taken_ns: u64,
    /// Stacks and samples with a memory copy, for user space to finish.
    pub copied: u64,
    /// The number of copies in `copied` that user space did not finish: the process was gone, or too many waited.
    pub refused: u64,
    /// CPU time of the thread that finished the other copies, ns.
    pub unwound_ns: u64,
}
