//! The meaning of the kernel's task state bits. The values changed between versions, so that a recording
//! is read with the table of the kernel that recorded it, never with that of the reader.
//!
//! Sources: `include/linux/sched.h` of the releases named at each row. The bits are those of
//! `task_struct.__state` as the tracepoint passes them, not the folded ones that the text format of
//! `sched_switch` prints.

use wakepath_event::{BlockedState, SwitchOut};

const INTERRUPTIBLE: u32 = 0x1;
const UNINTERRUPTIBLE: u32 = 0x2;
const STOPPED: u32 = 0x4;
const TRACED: u32 = 0x8;

/// One meaning of the state bits. A bit that a release does not have is 0 here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskStates {
    /// The first release with this meaning.
    since: (u32, u32),
    parked: u32,
    dead: u32,
    noload: u32,
    rt_lock_wait: u32,
    frozen: u32,
    /// Bits that say how a wait may end and not what kind it is.
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
/// 4.14 made room for the parked state among those that are printed and moved the rest.
const OF_4_14: TaskStates =
    TaskStates { since: (4, 14), parked: 0x40, dead: 0x80, modifiers: 0x100, ..OF_4_2 };
/// 5.15: sleeping spin locks of real-time kernels.
const OF_5_15: TaskStates = TaskStates { since: (5, 15), rt_lock_wait: 0x1000, ..OF_4_14 };
/// 6.1: freezing became a state; a wait says whether it may be frozen (0x2000, with lockdep 0x4000).
const OF_6_1: TaskStates =
    TaskStates { since: (6, 1), frozen: 0x8000, modifiers: 0x100 | 0x2000 | 0x4000, ..OF_5_15 };

const TABLE: [TaskStates; 4] = [OF_4_2, OF_4_14, OF_5_15, OF_6_1];

impl TaskStates {
    /// The newest meaning that we know; taken for releases that do not read as one.
    pub const NEWEST: &'static Self = &TABLE[TABLE.len() - 1];

    /// The meaning in the kernel of this release, as `uname -r` prints it.
    pub fn of_release(release: &str) -> &'static Self {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return Self::NEWEST;
        };
        TABLE.iter().rev().find(|row| row.since <= (major, minor)).unwrap_or(Self::NEWEST)
    }

    /// Why a thread with these bits left its CPU, when it was not preempted.
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

    /// How a thread with these bits waits; they are neither 0 nor those of a dead thread.
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

    /// Bits that mean this; `None` where the release has none for it.
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

    /// One line a claim: release, bits, what they mean there.
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
            assert_eq!(TaskStates::of_release(release).switch_out(bits), meaning, "{release} {bits:#x}");
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
