//! System calls in which threads block, with the lock word of a futex wait.

use crate::Tid;

/// The system call that a thread is in when it blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    /// Its x86-64 number.
    pub number: u32,
    /// Its first argument: a descriptor, an address; of a call that polls, the id of its [`Call::set`].
    /// [`Call::NO_ARGUMENT`] where it was not recorded.
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

    /// The id of a set without descriptors: only the time can end such a wait.
    pub const EMPTY_SET: u64 = 1 << 63;

    /// The numbers of `poll`, `select`, `pselect6` and `ppoll`, which wait for any of a set of descriptors.
    pub const POLLS: [u32; 4] = [7, 23, 270, 271];

    /// The numbers of `nanosleep` and `clock_nanosleep`, which wait for nothing but their timer.
    pub const SLEEPS: [u32; 2] = [35, 230];

    /// Whether it waits for nothing but its timer.
    pub fn is_sleep(&self) -> bool {
        Self::SLEEPS.contains(&self.number) || self.set() == Some(Self::EMPTY_SET)
    }

    /// The id of the set of descriptors that this call polls, where it was recorded. Equal sets of a process have the
    /// same id. No address in user memory is one.
    pub fn set(&self) -> Option<u64> {
        let is_set = self.arg0 >= Self::EMPTY_SET && self.arg0 != Self::NO_ARGUMENT;
        (is_set && Self::POLLS.contains(&self.number)).then_some(self.arg0)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_has_a_set_unless_its_argument_is_an_address_or_was_not_recorded() {
        let call = |number, arg0| Call { number, arg0, lock: None };
        let id = Call::EMPTY_SET | 5;
        for number in Call::POLLS {
            assert_eq!(call(number, id).set(), Some(id));
            assert_eq!(call(number, Call::EMPTY_SET - 1).set(), None);
            assert_eq!(call(number, Call::NO_ARGUMENT).set(), None);
            assert_eq!([id, Call::EMPTY_SET].map(|set| call(number, set).is_sleep()), [false, true]);
        }
        assert_eq!((call(0, id).set(), call(202, Call::EMPTY_SET).is_sleep()), (None, false));
        assert!(Call::SLEEPS.iter().all(|&number| call(number, 0).is_sleep()));
    }
}
