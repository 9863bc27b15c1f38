//! The meaning of the kernel's task state bits. The values changed between versions, so a recording is read
//! with its own kernel's table, never with the reader's.
//!
//! Sources: `include/linux/sched.h` in the releases named at each row. The bits are `task_struct.__state` as
//! the tracepoint passes it, not the folded bits in `sched_switch`'s text format.

use wakepath_event::{BlockedState, SwitchOut};

const INTERRUPTIBLE: u32 = 0x1;
const UNINTERRUPTIBLE: u32 = 0x2;
const STOPPED: u32 = 0x4;
const TRACED: u32 = 0x8;

/// A release's meaning for the state bits. A bit that a release does not have is 0 here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskStates {
    /// The first release with this meaning.
    since: (u32, u32),
    parked: u32,
    dead: u32,
    noload: u32,
    rt_lock_wait: u32,
    frozen: u32,
    /// Bits for the way in which a wait may end, not for its kind.
    modifiers: u32,
}

/// 4.2 added TASK_NOLOAD; killable waits carry 0x80.
const OF_4_2: TaskStates = TaskStates {
    since: (0, 0),
    parked: 0x200,
    dead: 0x40,
    noload: 0x400,
    rt_lock_wait: 0,
    frozen: 0,
    modifiers: 0x80,
};
/// 4.14 made room for the parked state among the printed states and moved the rest.
const OF_4_14: TaskStates =
    TaskStates { since: (4, 14), parked: 0x40, dead: 0x80, modifiers: 0x100, ..OF_4_2 };
/// 5.15: sleeping spin locks in real-time kernels.
const OF_5_15: TaskStates = TaskStates { since: (5, 15), rt_lock_wait: 0x1000, ..OF_4_14 };
/// 6.1: freezing became a state; a bit marks a wait that may be frozen (0x2000, with lockdep 0x4000).
const OF_6_1: TaskStates =
    TaskStates { since: (6, 1), frozen: 0x8000, modifiers: 0x100 | 0x2000 | 0x4000, ..OF_5_15 };

const TABLE: [TaskStates; 4] = [OF_4_2, OF_4_14, OF_5_15, OF_6_1];

impl TaskStates {
    /// The newest known meaning; taken for unreadable release numbers.
    pub const NEWEST: &'static Self = &TABLE[TABLE.len() - 1];

    /// The meaning in this kernel release, as `uname -r` prints it.
    pub fn for_release(release: &str) -> &'static Self {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return Self::NEWEST;
        };
        TABLE.iter().rev().find(|row| row.since <= (major, minor)).unwrap_or(Self::NEWEST)
    }

    /// The reason for which a thread with these bits left its CPU, if it was not preempted.
    #[inline]
    pub fn switch_out(&self, bits: u32) -> SwitchOut {
        match bits {
            0 => SwitchOut::Runnable,
            INTERRUPTIBLE => SwitchOut::Blocked(BlockedState::Interruptible),
            UNINTERRUPTIBLE => SwitchOut::Blocked(BlockedState::Uninterruptible),
            _ if bits & self.dead != 0 => SwitchOut::Dead,
            _ => SwitchOut::Blocked(self.blocked(bits)),
        }
    }

    /// The kind of wait of a thread with these bits, which are neither 0 nor a dead thread's.
    fn blocked(&self, bits: u32) -> BlockedState {
        let how = bits & !self.modifiers;
        match how & !self.noload {
            UNINTERRUPTIBLE if how & self.noload != 0 => BlockedState::Idle,
            UNINTERRUPTIBLE => BlockedState::Uninterruptible,
            INTERRUPTIBLE => BlockedState::Interruptible,
            STOPPED => BlockedState::Stopped,
            TRACED => BlockedState::Traced,
            0 => BlockedState::Other(bits),
            bit if bit == self.parked => BlockedState::Parked,
            bit if bit == self.frozen => BlockedState::Frozen,
            bit if bit == self.rt_lock_wait => BlockedState::RtLockWait,
            _ => BlockedState::Other(bits),
        }
    }

    /// The bits for `out`; `None` if the release has none.
    pub fn bits(&self, out: SwitchOut) -> Option<u32> {
        let bit = match out {
            SwitchOut::Runnable | SwitchOut::Throttled => return Some(0),
            SwitchOut::Dead => self.dead,
            SwitchOut::Blocked(BlockedState::Interruptible) => INTERRUPTIBLE,
            SwitchOut::Blocked(BlockedState::Uninterruptible) => UNINTERRUPTIBLE,
            SwitchOut::Blocked(BlockedState::Idle) => UNINTERRUPTIBLE | self.noload,
            SwitchOut::Blocked(BlockedState::Stopped) => STOPPED,
            SwitchOut::Blocked(BlockedState::Traced) => TRACED,
            SwitchOut::Blocked(BlockedState::Parked) => self.parked,
            SwitchOut::Blocked(BlockedState::Frozen) => self.frozen,
            SwitchOut::Blocked(BlockedState::RtLockWait) => self.rt_lock_wait,
            SwitchOut::Blocked(BlockedState::Other(bits)) => bits,
        };
        (bit != 0).then_some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BlockedState::*;

    /// A line per claim: release, bits, their meaning there.
    #[test]
    fn bits_mean_what_the_kernel_of_that_release_means() {
        let blocked = SwitchOut::Blocked;
        for (release, bits, meaning) in [
            ("6.18.44-fc-v595", 0x0, SwitchOut::Runnable),
            ("6.18.44-fc-v595", 0x1, blocked(Interruptible)),
            ("6.18.44-fc-v595", 0x2, blocked(Uninterruptible)),
            ("6.18.44-fc-v595", 0x102, blocked(Uninterruptible)), // killable
            ("6.18.44-fc-v595", 0x402, blocked(Idle)),
            ("6.18.44-fc-v595", 0x2402, blocked(Idle)), // and freezable
            ("6.18.44-fc-v595", 0x2001, blocked(Interruptible)),
            ("6.18.44-fc-v595", 0x6001, blocked(Interruptible)), // freezable, with lockdep
            ("6.18.44-fc-v595", 0x104, blocked(Stopped)),
            ("6.18.44-fc-v595", 0x8, blocked(Traced)),
            ("6.18.44-fc-v595", 0x40, blocked(Parked)),
            ("6.18.44-fc-v595", 0x80, SwitchOut::Dead),
            ("6.18.44-fc-v595", 0x1000, blocked(RtLockWait)),
            ("6.18.44-fc-v595", 0x8000, blocked(Frozen)),
            ("6.18.44-fc-v595", 0x200, blocked(Other(0x200))), // already being woken
            ("6.18.44-fc-v595", 0x100, blocked(Other(0x100))), // a modifier alone
            ("6.18.44-fc-v595", 0x3, blocked(Other(0x3))),
            ("6.18.44-fc-v595", 0x1_0000, blocked(Other(0x1_0000))),
            ("6.1.0-13-amd64", 0x8000, blocked(Frozen)),
            ("6.0.19", 0x8000, blocked(Other(0x8000))),
            ("6.0.19", 0x2001, blocked(Other(0x2001))),
            ("5.15.0-91-generic", 0x1000, blocked(RtLockWait)),
            ("5.14.0-427.el9.x86_64", 0x1000, blocked(Other(0x1000))),
            ("5.8.0", 0x40, blocked(Parked)),
            ("4.14.336", 0x80, SwitchOut::Dead),
            ("4.13.16", 0x40, SwitchOut::Dead),
            ("4.13.16", 0x82, blocked(Uninterruptible)), // killable there
            ("4.13.16", 0x200, blocked(Parked)),
            ("not a release", 0x8000, blocked(Frozen)),
        ] {
            assert_eq!(TaskStates::for_release(release).switch_out(bits), meaning, "{release} {bits:#x}");
        }
    }

    #[test]
    fn bits_come_back_as_what_they_were_made_from() {
        for row in &TABLE {
            let common = [Interruptible, Uninterruptible, Idle, Stopped, Traced, Parked];
            for how in common.into_iter().chain([Frozen, RtLockWait, Other(0x40_0000)]) {
                let out = SwitchOut::Blocked(how);
                if let Some(bits) = row.bits(out) {
                    assert_eq!(row.switch_out(bits), out, "{row:?}");
                }
            }
            assert_eq!(row.bits(SwitchOut::Dead).map(|bits| row.switch_out(bits)), Some(SwitchOut::Dead));
        }
    }
}
