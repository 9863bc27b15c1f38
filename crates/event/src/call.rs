//! System calls in which threads block, with the lock word of a futex wait.

use crate::Tid;

/// The system call in which a thread blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    /// The x86-64 number.
    pub number: u32,
    /// The first argument: a descriptor, or an address; for a polling call, the id of its [`Call::set`].
    /// [`Call::NO_ARGUMENT`] if not recorded. Beside a descriptor set it may also hold the time-out,
    /// [`Call::timeout`], and at the end of a wait in its place the known part of the end: [`Call::ended_by`].
    pub arg0: u64,
    /// For futex waits: the lock word, read at the wait's beginning.
    pub lock: Option<LockWord>,
}

impl Call {
    /// `futex`, whose second argument is the operation on the word.
    pub const FUTEX: u32 = 202;

    /// `restart_syscall`, by which the kernel goes on with a call that a stop interrupted.
    pub const RESTART: u32 = 219;

    /// In the place of a call number: a page fault instead of a system call. The thread touched memory that was not there, and the kernel read it
    /// from a disk or waited for a lock.
    pub const PAGE_FAULT: u32 = 0xffff_fffe;

    /// No descriptor, and no address in user memory.
    pub const NO_ARGUMENT: u64 = u64::MAX;

    /// The id of a set without descriptors: only the time can end such a wait.
    pub const EMPTY_SET: u64 = 1 << 63;

    /// `poll`, `select`, `pselect6` and `ppoll`, which wait for any descriptor in a set.
    pub const POLLS: [u32; 4] = [7, 23, 270, 271];

    /// `nanosleep` and `clock_nanosleep`, which wait only for their timer.
    pub const SLEEPS: [u32; 2] = [35, 230];

    /// `wait4` and `waitid`, which wait for a child's end.
    pub const CHILD_WAITS: [u32; 2] = [61, 247];

    /// `epoll_wait`, `epoll_pwait` and `epoll_pwait2`, which wait for any descriptor in a set kept by the kernel.
    pub const EPOLLS: [u32; 3] = [232, 281, 441];

    /// `io_uring_enter`, which waits for any request in an io_uring.
    pub const IO_URING_ENTER: u32 = 426;

    /// Set in the number of a system call that an io_uring worker makes for a request.
    pub const REQUEST: u32 = 0x4000_0000;

    /// `write`, `writev`, `sendfile`, `sendto`, `sendmsg` and `sendmmsg`, which wait for room in a socket.
    pub const SENDS: [u32; 6] = [1, 20, 40, 44, 46, 307];

    /// `msync`, `fsync`, `fdatasync`, `sync`, `sync_file_range` and `syncfs`, which wait until written data is on the disk.
    pub const FLUSHES: [u32; 6] = [26, 74, 75, 162, 277, 306];

    /// The system call by which an io_uring worker does a request; `None` for a thread's own call.
    pub const fn requested(number: u32) -> Option<u32> {
        match number & Self::REQUEST {
            Self::REQUEST if number != Self::PAGE_FAULT => Some(number & !Self::REQUEST),
            _ => None,
        }
    }

    /// Whether the call waits only for its timer.
    pub fn is_sleep(&self) -> bool {
        Self::SLEEPS.contains(&self.number) || self.set() == Some(Self::EMPTY_SET)
    }

    /// The address of the futex awaited by this call.
    pub fn futex(&self) -> Option<u64> {
        (self.number == Self::FUTEX).then_some(self.arg0)
    }

    /// Whether two futexes may be the same condition variable: glibc's waiters use two words by turns.
    pub const fn is_same_condition(one: u64, other: u64) -> bool {
        const SECOND: u64 = 4;
        one & !SECOND == other & !SECOND
    }

    /// The id of the descriptor set polled by this call, if recorded. Equal sets in a process have the same id. No address in user memory is a set
    /// id.
    pub fn set(&self) -> Option<u64> {
        let is_set = self.arg0 >= Self::EMPTY_SET && self.arg0 != Self::NO_ARGUMENT;
        (is_set && Self::POLLS.contains(&self.number)).then_some(self.argument())
    }

    /// The first argument alone, for comparing two calls.
    pub fn argument(&self) -> u64 {
        match self.number {
            _ if self.arg0 == Self::NO_ARGUMENT => self.arg0,
            number if Self::EPOLLS.contains(&number) || Self::SENDS.contains(&number) => {
                self.arg0 & u64::from(u32::MAX)
            }
            number if Self::POLLS.contains(&number) && self.arg0 > Self::EMPTY_SET => {
                self.arg0 & !TIMER_MEMBER
            }
            _ => self.arg0,
        }
    }

    /// This call with the known part of a wait's end, if a wait in it can end this way.
    pub fn with_end(self, end: WaitEnd) -> Self {
        let argument = self.argument();
        let arg0 = match end {
            _ if argument == Self::NO_ARGUMENT => argument,
            WaitEnd::TimerMember if self.set().is_some() => argument | TIMER_MEMBER,
            WaitEnd::Ready(fd) if Self::EPOLLS.contains(&self.number) && fd < NOTHING => {
                HAS_END | u64::from(fd) << FD_SHIFT | argument
            }
            WaitEnd::NothingReady if Self::EPOLLS.contains(&self.number) => {
                HAS_END | u64::from(NOTHING) << FD_SHIFT | argument
            }
            WaitEnd::WindowClosed if Self::SENDS.contains(&self.number) => HAS_END | argument,
            _ => argument,
        };
        Self { arg0, ..self }
    }

    /// This call with its time-out, if it is a call whose time-out is kept. The wait's end takes its place: [`Call::with_end`].
    #[must_use]
    pub fn with_timeout(self, timeout: Option<Timeout>) -> Self {
        let argument = self.argument();
        let is_kept = Self::EPOLLS.contains(&self.number) && argument != Self::NO_ARGUMENT;
        let code = match timeout {
            _ if !is_kept => return self,
            None => 0,
            Some(Timeout::Never) => NOTHING,
            Some(Timeout::Ms(ms)) if ms < NOTHING => ms,
            Some(Timeout::Ms(_)) => 0,
        };
        Self { arg0: u64::from(code) << FD_SHIFT | argument, ..self }
    }

    /// The call's time-out, before the wait's end is known; `None` where it is not recorded.
    pub fn timeout(&self) -> Option<Timeout> {
        let has_end = self.arg0 >> HAS_END.trailing_zeros() != 0;
        if !Self::EPOLLS.contains(&self.number) || has_end {
            return None;
        }
        match (self.arg0 >> FD_SHIFT) as u32 {
            0 => None,
            NOTHING => Some(Timeout::Never),
            ms => Some(Timeout::Ms(ms)),
        }
    }

    /// The known part of a wait's end in this call.
    pub fn ended_by(&self) -> WaitEnd {
        let has_end = self.arg0 >> HAS_END.trailing_zeros() == 1;
        if Self::EPOLLS.contains(&self.number) && has_end {
            match (self.arg0 >> FD_SHIFT) as u32 & NOTHING {
                NOTHING => WaitEnd::NothingReady,
                fd => WaitEnd::Ready(fd),
            }
        } else if Self::SENDS.contains(&self.number) && has_end {
            WaitEnd::WindowClosed
        } else if self.set().is_some() && self.arg0 & TIMER_MEMBER != 0 {
            WaitEnd::TimerMember
        } else {
            WaitEnd::NotKnown
        }
    }
}

/// For how long a call waits for a set's descriptors at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Timeout {
    /// Without an end.
    Never,
    /// This many milliseconds, at least 1: such a call does not wait at all with 0.
    Ms(u32),
}

impl Timeout {
    /// The time-out in a record; `None` if it was not recorded.
    pub const fn recorded(record: u32) -> Option<Self> {
        match record {
            0 => None,
            u32::MAX => Some(Self::Never),
            ms => Some(Self::Ms(ms)),
        }
    }

    /// The number that stands for it in a record.
    pub const fn record(self) -> u32 {
        match self {
            Self::Never => u32::MAX,
            Self::Ms(ms) => ms,
        }
    }
}

/// The known part of a wait's end: a wait for any descriptor in a set, or for room in a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum WaitEnd {
    /// Nothing.
    #[default]
    NotKnown,
    /// This descriptor had become ready last.
    Ready(u32),
    /// No descriptor was ready: a time-out or a signal ended the wait.
    NothingReady,
    /// The set has a timer as a member, so the wake-up by a timer may be the member's expiry or a time-out.
    TimerMember,
    /// For most of the wait, the connection's other end took no more data: its receive window was closed.
    WindowClosed,
}

/// In a set's id: the set has a timer descriptor. The recorder leaves this bit clear.
const TIMER_MEMBER: u64 = 2;
/// In the first argument of a [`Call::EPOLLS`] or [`Call::SENDS`] call, whose descriptor has 32 bits; for the former the bits above `FD_SHIFT` are a
/// ready descriptor. The highest bit is clear, unlike in [`Call::NO_ARGUMENT`].
const HAS_END: u64 = 1 << 62;
const FD_SHIFT: u32 = 32;
/// In the place of a descriptor; the kernel's limit for descriptors is below it.
const NOTHING: u32 = 0x3fff_ffff;

/// A futex word, read when a wait for it began. The word's address is [`Call::arg0`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockWord {
    /// The futex operation, with its flags.
    pub operation: u32,
    /// The word; `None` if it could not be read.
    pub value: Option<u32>,
    /// The value in a glibc mutex's owner field. It is only a claim, to be compared with the threads of the process and the waker: a condition
    /// variable has other values there.
    pub claimed_owner: Option<Tid>,
}

impl LockWord {
    /// `FUTEX_PRIVATE_FLAG`
    const PRIVATE: u32 = 128;
    /// This and `FUTEX_CLOCK_REALTIME`.
    const FLAGS: u32 = Self::PRIVATE | 256;

    /// Without a time-out: no operation has this bit.
    const UNTIMED: u32 = 1 << 31;

    /// An unread word. Only threads in the same process end the wait, no time-out does.
    pub const fn private_futex() -> Self {
        Self { operation: Self::PRIVATE | Self::UNTIMED, value: None, claimed_owner: None }
    }

    /// Whether other processes cannot wake its waiters.
    pub const fn is_private(&self) -> bool {
        self.operation & Self::PRIVATE != 0
    }

    /// The value of a locked glibc mutex with waiters.
    pub const CONTENDED: u32 = 2;
    /// The waiters bit in robust and priority-inheriting mutexes, beside their owner's tid.
    pub const WAITERS: u32 = 0x8000_0000;

    /// Whether it has the shape of a lock word. A glibc mutex has no owner while one thread lets it go and another takes it, and is
    /// uncontended for a moment; a condition variable's waiters use an operation with a mask of bits.
    pub fn looks_like_a_lock(&self) -> bool {
        const WAIT: u32 = 0;
        const LOCKED: u32 = 1;
        let is_plain = self.operation & !Self::FLAGS == WAIT;
        let is_locked = matches!(self.value, Some(LOCKED | Self::CONTENDED));
        is_plain && is_locked || self.shaped_owner().is_some()
    }

    /// The lock's owner, if the word is a lock word: by its shape alone, so another word may be mistaken for a lock word.
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
    fn a_lock_word_is_locked_or_has_an_owner_and_a_condition_has_neither() {
        let word = |operation, value, owner: u32| {
            let word = LockWord { operation, value: Some(value), claimed_owner: Some(Tid(owner)) };
            (word.looks_like_a_lock(), word.shaped_owner().is_some())
        };
        // FUTEX_WAIT with both flags, and FUTEX_WAIT_BITSET.
        assert_eq!(
            [word(128, 2, 9), word(128, 2, 0), word(384, 1, 0)],
            [(true, true), (true, false), (true, false)]
        );
        assert_eq!([word(128, 0, 9), word(128, 3, 9), word(137, 2, 0), word(137, 1, 9)], [(false, false); 4]);
        assert_eq!([word(137, 2, 9), word(134, LockWord::WAITERS | 9, 0)], [(true, true); 2]);
        assert!(!LockWord::private_futex().looks_like_a_lock());
    }

    #[test]
    fn both_words_of_a_condition_lie_side_by_side() {
        let same = [(0x1028, 0x102c), (0x102c, 0x1028), (0x1028, 0x1028)];
        assert!(same.iter().all(|&(one, other)| Call::is_same_condition(one, other)));
        assert!(![0x1020, 0x1024, 0x1030].iter().any(|&other| Call::is_same_condition(0x1028, other)));
    }

    #[test]
    fn a_requests_call_has_a_bit_that_no_other_number_has() {
        let of = Call::requested;
        assert_eq!([of(74 | Call::REQUEST), of(74), of(Call::IO_URING_ENTER)], [Some(74), None, None]);
        assert_eq!(of(Call::PAGE_FAULT), None);
    }

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

    #[test]
    fn a_time_out_travels_with_its_call_until_the_waits_end_takes_its_place() {
        let call = |number, arg0| Call { number, arg0, lock: None };
        let (short, long) = (Timeout::Ms(1), Timeout::Ms(NOTHING - 1));
        for number in Call::EPOLLS {
            for timeout in [None, Some(short), Some(long), Some(Timeout::Never)] {
                let with = call(number, 7).with_timeout(Some(Timeout::Ms(5))).with_timeout(timeout);
                assert_eq!(
                    (with.timeout(), with.argument(), with.ended_by()),
                    (timeout, 7, WaitEnd::NotKnown)
                );
                let ended = with.with_end(WaitEnd::Ready(3));
                assert_eq!((ended.timeout(), ended.ended_by()), (None, WaitEnd::Ready(3)));
            }
            assert_eq!(call(number, 7).with_timeout(Some(Timeout::Ms(NOTHING))).timeout(), None, "too long");
            let unknown = call(number, Call::NO_ARGUMENT);
            assert_eq!((unknown.with_timeout(Some(short)), unknown.timeout()), (unknown, None));
        }
        for number in [0, 7, 44] {
            assert_eq!(call(number, 7).with_timeout(Some(short)), call(number, 7), "no set of the kernel's");
            assert_eq!(call(number, 5 << FD_SHIFT | 7).timeout(), None);
        }
        let numbers = [short, Timeout::Never].map(Timeout::record);
        assert_eq!(numbers, [1, u32::MAX]);
        let read = [0, 1, u32::MAX].map(Timeout::recorded);
        assert_eq!(read, [None, Some(short), Some(Timeout::Never)]);
    }

    #[test]
    fn the_end_of_a_wait_travels_with_its_call_and_leaves_the_argument() {
        let call = |number, arg0| Call { number, arg0, lock: None };
        let ends = [WaitEnd::Ready(0), WaitEnd::Ready(NOTHING - 1), WaitEnd::NothingReady, WaitEnd::NotKnown];
        for number in Call::EPOLLS {
            for end in ends {
                // Another end replaces it; the register's half that the kernel does not read has none.
                let with = call(number, 7 | 1 << 40).with_end(WaitEnd::Ready(3)).with_end(end);
                assert_eq!((with.ended_by(), with.argument(), with.set()), (end, 7, None));
            }
            for end in [WaitEnd::Ready(NOTHING), WaitEnd::TimerMember] {
                assert_eq!(call(number, 7).with_end(end).ended_by(), WaitEnd::NotKnown);
            }
            let unknown = call(number, Call::NO_ARGUMENT).with_end(WaitEnd::Ready(3));
            assert_eq!((unknown.ended_by(), unknown.arg0), (WaitEnd::NotKnown, Call::NO_ARGUMENT));
        }
        let set = Call::EMPTY_SET | 5;
        for number in Call::POLLS {
            let with = call(number, set).with_end(WaitEnd::TimerMember);
            assert_eq!(
                (with.ended_by(), with.argument(), with.set()),
                (WaitEnd::TimerMember, set, Some(set))
            );
            let empty = call(number, Call::EMPTY_SET | TIMER_MEMBER);
            assert_eq!(call(number, 5).with_end(WaitEnd::TimerMember).arg0, 5, "an address");
            assert_eq!(call(number, set).with_end(WaitEnd::Ready(3)).arg0, set);
            assert_eq!(empty.argument(), Call::EMPTY_SET);
        }
        for end in ends {
            assert_eq!(call(0, 7).with_end(end), call(0, 7), "a read waits for no set");
        }
        assert_eq!(call(0, 7).with_end(WaitEnd::WindowClosed), call(0, 7), "nor for room");
        for number in Call::SENDS {
            let with = call(number, 7 | 1 << 40).with_end(WaitEnd::WindowClosed);
            assert_eq!((with.ended_by(), with.argument()), (WaitEnd::WindowClosed, 7));
            assert_eq!(with.with_end(WaitEnd::Ready(3)).ended_by(), WaitEnd::NotKnown);
        }
        assert_eq!((call(0, 6).argument(), call(0, HAS_END).ended_by()), (6, WaitEnd::NotKnown));
    }
}
