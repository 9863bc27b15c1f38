//! A futex's owner, read from the word at its address and the word beside it.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Call, Tid};

use crate::ThreadIndex;

const WAIT: u32 = 0;
const LOCK_PI: u32 = 6;
const LOCK_PI2: u32 = 13;
/// `FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME`: flags that do not change the operation.
const FLAGS: u32 = 128 | 256;
const TID_MASK: u32 = 0x3fff_ffff;
const WAITERS: u32 = 0x8000_0000;
/// The value that glibc writes into a mutex with waiters.
const CONTENDED: u32 = 2;

/// The owner of the futex that a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FutexOwner {
    /// The owner's tid in its process's pid namespace.
    pub(crate) ns_tid: Tid,
    /// The kernel wrote the owner into the word. Otherwise it is a claim by user space.
    pub(crate) proved: bool,
}

/// A time in which an owner certainly held a lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holding {
    pub(crate) owner: ThreadIndex,
    pub(crate) from: Stamp<Reference>,
    pub(crate) to: Stamp<Reference>,
}

/// The owner of the lock on which a thread blocks in this call, if it can be a lock with an owner.
///
/// Only two kinds of futex have an owner. A priority-inheriting futex keeps its owner in the word, by the
/// kernel's protocol. A glibc mutex waits with the plain operation while the word says "locked, with
/// waiters", and keeps its owner beside the word (a robust mutex in the word too). Condition variables,
/// semaphores and timed waits use the bit-set operation, and a barrier has a constant in the owner's place:
/// for them the word beside the futex is ignored.
pub(crate) fn futex_owner(call: &Call) -> Option<FutexOwner> {
    let lock = call.lock?;
    let word = lock.value?;
    let in_word = word & TID_MASK;
    match lock.operation & !FLAGS {
        LOCK_PI | LOCK_PI2 if in_word != 0 => Some(FutexOwner { ns_tid: Tid(in_word), proved: true }),
        WAIT => {
            let claim = lock.claimed_owner.filter(|&claim| claim != Tid::IDLE)?;
            let locked = word == CONTENDED || (word & WAITERS != 0 && in_word == claim.0);
            locked.then_some(FutexOwner { ns_tid: claim, proved: false })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use wakepath_event::LockWord;

    use super::*;

    #[test]
    fn only_what_can_be_a_lock_has_an_owner() {
        const PRIVATE: u32 = 128;
        const WAIT_BITSET: u32 = 9;
        let claimed = Some(FutexOwner { ns_tid: Tid(77), proved: false });
        let proved = Some(FutexOwner { ns_tid: Tid(77), proved: true });
        for (what, operation, value, claim, expected) in [
            ("a glibc mutex", WAIT | PRIVATE, Some(2), Some(77), claimed),
            ("a mutex between processes", WAIT, Some(2), Some(77), claimed),
            ("a robust mutex", WAIT, Some(WAITERS | 77), Some(77), claimed),
            ("a robust mutex that changed hands meanwhile", WAIT, Some(WAITERS | 78), Some(77), None),
            ("an owner without waiters, which nobody waits for", WAIT, Some(77), Some(77), None),
            ("a priority-inheriting mutex", LOCK_PI | PRIVATE, Some(WAITERS | 77), None, proved),
            ("the same by the other clock", LOCK_PI2 | PRIVATE, Some(77), None, proved),
            ("a priority-inheriting mutex just freed", LOCK_PI, Some(0), Some(77), None),
            ("a semaphore", WAIT_BITSET | FLAGS, Some(0), Some(77), None),
            ("a condition variable that looks locked", WAIT_BITSET | FLAGS, Some(2), Some(77), None),
            ("a barrier in its second round", WAIT | PRIVATE, Some(2), Some(0), None),
            ("a join", WAIT, Some(78), Some(77), None),
            ("a word that could not be read", WAIT, None, Some(77), None),
            ("a claim that could not be read", WAIT, Some(2), None, None),
        ] {
            let lock = LockWord { operation, value, claimed_owner: claim.map(Tid) };
            let call = Call { number: 202, arg0: 0x1000, lock: Some(lock) };
            assert_eq!(futex_owner(&call), expected, "{what}");
        }
        assert_eq!(futex_owner(&Call { number: 0, arg0: 3, lock: None }), None, "a read");
    }
}
