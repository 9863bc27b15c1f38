//! System calls in which threads block, with the lock word of a futex wait.

use crate::Tid;

/// The system call that a thread is in when it blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    /// Its x86-64 number.
    pub number: u32,
    /// Its first argument: a descriptor, an address; [`Call::NO_ARGUMENT`] where it was not recorded.
    pub arg0: u64,
    /// For futex waits: the lock word as it was read when the wait began.
    pub lock: Option<LockWord>,
}

impl Call {
    /// The number of `futex`, whose second argument says what is done with the word.
    pub const FUTEX: u32 = 202;

    /// The number of `restart_syscall`, by which the kernel goes on with a call that a stop interrupted.
    pub const RESTART: u32 = 219;

    /// No descriptor, and no address of user memory.
    pub const NO_ARGUMENT: u64 = u64::MAX;
}

/// A futex word, read when a wait for it began. The word's address is [`Call::arg0`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockWord {
    /// The futex operation, with its flags.
    pub operation: u32,
    /// The word; `None` when it could not be read.
    pub value: Option<u32>,
    /// The value at the place where a glibc mutex keeps its owner. It is only a claim, to be compared with the threads
    /// of that process and the waker: a condition variable has other values there.
    pub claimed_owner: Option<Tid>,
}

impl LockWord {
    /// The value that a glibc mutex has while it is locked and threads wait for it.
    pub const CONTENDED: u32 = 2;
    /// The bit that robust and priority-inheriting mutexes have then, beside their owner's tid.
    pub const WAITERS: u32 = 0x8000_0000;

    /// The thread that owns the lock if the word is a lock's: by its shape alone, for which a word of something else
    /// may be mistaken.
    pub fn shaped_owner(&self) -> Option<Tid> {
        const TID_MASK: u32 = 0x3fff_ffff;
        let word = self.value?;
        let owner = match word {
            Self::CONTENDED => self.claimed_owner?,
            _ if word & Self::WAITERS != 0 => Tid(word & TID_MASK),
            _ => return None,
        };
        (owner != Tid::IDLE && owner.0 != TID_MASK).then_some(owner)
    }
}
