//! Thread states, as each kernel release reports them in the `sched_switch` tracepoint.

use wakepath_event::{BlockedState, SwitchOut};

use super::StateEvidence;

/// The bits in the `sched_switch` tracepoint's `prev_state`, which LTTng, perf and trace-cmd record. This is not
/// `task_struct.__state`: since 4.14 the kernel folds the state into a single bit for human readers; before, it
/// passed the state, with another bit for a preempted task.
///
/// Sources: `__trace_sched_switch_state` in `include/trace/events/sched.h` and the task states in
/// `include/linux/sched.h`, in the releases named below. Before 5.18, the kernel reads the state anew at the
/// tracepoint, and the task may just be waking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportedStates {
    /// The bits from here on mark a preempted task.
    preempted: i64,
    dead: i64,
    parked: i64,
    /// Uninterruptible and not counted as load, as a separate bit.
    idle: i64,
    /// The same as a bit beside the uninterruptible bit.
    noload: i64,
    /// Bits for the possible ends of a wait, which do not change its kind.
    modifiers: i64,
    interruptible: i64,
    uninterruptible: i64,
    stopped: i64,
    traced: i64,
    writes: Writes,
}

/// The form of a value in `prev_state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writes {
    /// A single bit for the state, or the bit for a preempted task.
    Bit,
    /// The index of the state, from 1 on: kernel 4.14, up to kernel commit 3f5fe9fef5b2.
    Index,
    /// The task's own state, perhaps with the bit for a preempted task.
    Whole,
}

/// The flags with the same place in all kernels.
const LETTERS: ReportedStates = ReportedStates {
    preempted: 0,
    dead: 0,
    parked: 0,
    idle: 0,
    noload: 0,
    modifiers: 0,
    interruptible: 0x1,
    uninterruptible: 0x2,
    stopped: 0x4,
    traced: 0x8,
    writes: Writes::Whole,
};

/// The bits since 4.15.
const REPORTED: ReportedStates = ReportedStates {
    preempted: 0x100,
    dead: 0x10 | 0x20,
    parked: 0x40,
    idle: 0x80,
    writes: Writes::Bit,
    ..LETTERS
};

/// The same states' indices, which 4.14 wrote.
const INDEXED: ReportedStates = ReportedStates { writes: Writes::Index, ..REPORTED };
const LAST_INDEX: i64 = 8;

/// The task's own state since 4.14, as some tracers write it.
const WHOLE_4_14: ReportedStates = ReportedStates {
    preempted: 0x1000,
    dead: 0x10 | 0x20 | 0x80,
    parked: 0x40,
    noload: 0x400,
    modifiers: 0x100 | 0x200 | 0x800,
    ..LETTERS
};

impl ReportedStates {
    /// The bits in this kernel release, as `uname -r` prints it. Any other text counts as a new kernel.
    pub fn for_release(release: &str) -> Self {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        let version = match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
            _ => (u32::MAX, 0),
        };
        // EXIT_ZOMBIE, EXIT_DEAD and, before states were folded, TASK_DEAD. TASK_STATE_MAX moved with each new state:
        // parked in 3.9, no load in 4.2, new in 4.8.
        let whole = |preempted, parked, noload| Self {
            preempted,
            dead: 0x10 | 0x20 | 0x40,
            parked,
            noload,
            modifiers: 0x80 | 0x100,
            ..LETTERS
        };
        match version {
            (0..=2, _) | (3, 0..=8) => whole(0x200, 0, 0),
            (3, _) | (4, 0..=1) => whole(0x400, 0x200, 0),
            (4, 2..=7) => whole(0x800, 0x200, 0x400),
            (4, 8..=13) => whole(0x1000, 0x200, 0x400),
            _ => REPORTED,
        }
    }

    /// The possible meanings of values in a trace without a table, the release's own first.
    pub fn candidates(release: &str) -> Vec<Self> {
        let others = ["4.14", "4.13", "4.7", "4.1", "3.8"].map(Self::for_release);
        let mut all = vec![Self::for_release(release), REPORTED, WHOLE_4_14, INDEXED];
        all.extend(others);
        let mut kept: Vec<Self> = Vec::new();
        for states in all {
            if !kept.contains(&states) {
                kept.push(states);
            }
        }
        kept
    }

    /// For a table that a kernel wrote beside the index of a state, that meaning and this table's; else nothing.
    ///
    /// Sign: the table has the folded states up to the idle one, and the bit for a preempted task is not the next one.
    pub fn indexed_candidates(&self) -> Option<[Self; 2]> {
        let is_next = self.preempted == self.idle.checked_mul(2)?;
        (self.idle == REPORTED.idle && self.parked == REPORTED.parked && !is_next)
            .then_some([Self { preempted: self.preempted, ..INDEXED }, *self])
    }

    /// Whether a file with this table needs [`StateEvidence`] for its states' meaning.
    pub fn needs_evidence(table: Option<&Self>) -> bool {
        table.is_none_or(|table| table.indexed_candidates().is_some())
    }

    /// The meaning in a file with this table, from a kernel with this release; and whether it is certain.
    pub fn by_table(table: Option<Self>, release: &str, evidence: StateEvidence) -> (Self, bool) {
        match (table, table.and_then(|table| table.indexed_candidates())) {
            // The kernel that writes such a table writes the index, unless the values contradict it.
            (_, Some(candidates)) => {
                let (states, _) = evidence.decide(&candidates);
                (states, true)
            }
            (Some(table), None) => (table, true),
            (None, None) => evidence.decide(&Self::candidates(release)),
        }
    }

    /// Whether the kernel can write this value.
    pub(super) fn can_be(&self, value: i64) -> bool {
        let is_bit = |value: i64| value > 0 && value & (value - 1) == 0;
        match self.writes {
            _ if value == 0 => true,
            Writes::Bit => is_bit(value) && value <= self.preempted,
            Writes::Index => (1..=LAST_INDEX).contains(&value) || is_bit(value) && value >= self.preempted,
            Writes::Whole => {
                // A task's own state never has the bits for zombies, which are in its exit state.
                let state = value & !self.preempted & !self.modifiers;
                let was_preempted = value & self.preempted != 0;
                let known = state == self.uninterruptible | self.noload
                    || is_bit(state)
                        && (state < 0x10 || state == self.parked || state & self.dead & !0x30 != 0);
                value > 0
                    && value < self.preempted.saturating_mul(2)
                    && (known || was_preempted && value == self.preempted)
            }
        }
    }

    /// The bits from a table: flags with the letters that the tracepoint prints, and the bit from which on the thread
    /// was preempted. Letters unknown here are other states.
    pub fn from_flags(letters: &[(i64, char)], preempted: i64) -> Self {
        let all = |wanted: &str| {
            letters.iter().filter(|(_, letter)| wanted.contains(*letter)).fold(0, |all, (flag, _)| all | flag)
        };
        Self {
            preempted,
            // x: dead; X: dead, too, or a trace of death; Z: waits for its parent.
            dead: all("xXZ"),
            parked: all("P"),
            idle: all("I"),
            noload: all("N"),
            // Killable, and just being woken.
            modifiers: all("KW"),
            interruptible: all("S"),
            uninterruptible: all("D"),
            stopped: all("T"),
            traced: all("t"),
            writes: if all("I") != 0 { Writes::Bit } else { Writes::Whole },
        }
    }

    /// The reason why a thread with this `prev_state` left its CPU.
    pub fn switch_out(&self, state: i64) -> SwitchOut {
        if state == 0 || state >= self.preempted {
            return SwitchOut::Runnable;
        }
        let state = match self.writes {
            Writes::Index if (1..=LAST_INDEX).contains(&state) => 1 << (state - 1),
            // No state has such an index.
            Writes::Index => return SwitchOut::Blocked(BlockedState::Other(state as u32)),
            Writes::Bit | Writes::Whole => state,
        };
        if state & self.dead != 0 {
            return SwitchOut::Dead;
        }
        let how = state & !self.modifiers;
        let is = |flag: i64| flag != 0 && how & !self.noload == flag;
        SwitchOut::Blocked(match () {
            () if is(self.uninterruptible) && how & self.noload != 0 => BlockedState::Idle,
            () if is(self.interruptible) => BlockedState::Interruptible,
            () if is(self.uninterruptible) => BlockedState::Uninterruptible,
            () if is(self.stopped) => BlockedState::Stopped,
            () if is(self.traced) => BlockedState::Traced,
            () if is(self.parked) => BlockedState::Parked,
            () if is(self.idle) => BlockedState::Idle,
            () => BlockedState::Other(state as u32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BlockedState::*;

    /// A claim in each line: release, `prev_state`, its meaning there.
    #[test]
    fn states_mean_what_the_tracepoint_of_that_release_means() {
        let blocked = SwitchOut::Blocked;
        for (release, state, meaning) in [
            ("6.1.0-56-amd64", 0, SwitchOut::Runnable),
            ("6.1.0-56-amd64", 0x100, SwitchOut::Runnable),
            ("6.1.0-56-amd64", 1, blocked(Interruptible)),
            ("6.1.0-56-amd64", 2, blocked(Uninterruptible)),
            ("6.1.0-56-amd64", 4, blocked(Stopped)),
            ("6.1.0-56-amd64", 8, blocked(Traced)),
            ("6.1.0-56-amd64", 0x10, SwitchOut::Dead),
            ("6.1.0-56-amd64", 0x20, SwitchOut::Dead),
            ("6.1.0-56-amd64", 0x40, blocked(Parked)),
            ("6.1.0-56-amd64", 0x80, blocked(Idle)),
            ("6.1.0-56-amd64", 3, blocked(Other(3))),
            ("4.14.0", 0x40, blocked(Parked)),
            ("4.13.0", 0x10, SwitchOut::Dead),
            ("4.13.0", 0x20, SwitchOut::Dead),
            ("4.13.0", 0x40, SwitchOut::Dead),
            ("4.13.0", 0x101, blocked(Interruptible)),
            ("4.13.0", 0x402, blocked(Idle)),
            ("4.13.0", 0x82, blocked(Uninterruptible)),
            ("4.13.0", 0x1001, SwitchOut::Runnable),
            ("4.4.3-1-ARCH", 0x800, SwitchOut::Runnable),
            ("4.4.3-1-ARCH", 0x40, SwitchOut::Dead),
            ("3.6.11-1-ARCH", 0x200, SwitchOut::Runnable),
            ("3.6.11-1-ARCH", 0x40, SwitchOut::Dead),
            ("3.10.0-1160.el7", 0x200, blocked(Parked)),
            ("3.10.0-1160.el7", 0x400, SwitchOut::Runnable),
            ("nonsense", 0x100, SwitchOut::Runnable),
            ("nonsense", -1, SwitchOut::Dead),
        ] {
            assert_eq!(
                ReportedStates::for_release(release).switch_out(state),
                meaning,
                "{release} {state:#x}"
            );
        }
    }

    #[test]
    fn a_flag_that_a_table_has_twice_counts_once() {
        let states = ReportedStates::from_flags(&[(1, 'S'), (0x20, 'X'), (0x20, 'Z')], 0x100);
        assert_eq!(states.switch_out(0x20), SwitchOut::Dead);
        assert_eq!(states.switch_out(1), SwitchOut::Blocked(Interruptible));
    }
}
