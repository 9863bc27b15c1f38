//! A thread's state intervals.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::Cpu;
use wakepath_timeline::{QueueExit, State};

use crate::chunks::Chunks;
use crate::{UnknownReason, WaitIndex};

/// A stretch in which a thread stayed in the same state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateInterval {
    /// The first nanosecond.
    pub from: Stamp<Reference>,
    /// The nanosecond after the last.
    pub to: Stamp<Reference>,
    /// The state.
    pub state: ThreadState,
}

/// A thread's state. A blocked interval may be empty: see [`crate::Wait`].
pub type ThreadState = State<WaitIndex>;

/// A [`StateInterval`] without its end, which is the next beginning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packed {
    from: u64,
    value: u32,
    cpu: u16,
    tag: Tag,
}

const _: () = assert!(size_of::<Packed>() == 16);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Tag {
    Running,
    Runnable,
    Moved,
    MovedUnseen,
    Throttled,
    Blocked,
    NotYet,
    Lost,
}

impl Packed {
    pub(crate) fn new(from: Stamp<Reference>, state: ThreadState) -> Self {
        const NO_CPU: u16 = Cpu::UNKNOWN.0;
        let (tag, cpu, value) = match state {
            ThreadState::Running { cpu, interrupts_ns } => (Tag::Running, cpu.0, interrupts_ns),
            ThreadState::Runnable { cpu, left: QueueExit::Stayed } => (Tag::Runnable, cpu.0, 0),
            ThreadState::Runnable { cpu, left: QueueExit::Moved } => (Tag::Moved, cpu.0, 0),
            ThreadState::Runnable { cpu, left: QueueExit::MovedUnseen(to) } => {
                (Tag::MovedUnseen, cpu.0, u32::from(to.0))
            }
            ThreadState::Throttled { cpu } => (Tag::Throttled, cpu.0, 0),
            ThreadState::Blocked(wait) => (Tag::Blocked, NO_CPU, wait.0),
            ThreadState::Unknown(UnknownReason::NotSeenYet) => (Tag::NotYet, NO_CPU, 0),
            ThreadState::Unknown(UnknownReason::Lost) => (Tag::Lost, NO_CPU, 0),
        };
        Self { from: from.ns(), value, cpu, tag }
    }

    pub(crate) const fn from(self) -> Stamp<Reference> {
        Stamp::from_ns(self.from)
    }

    /// Replaces the state; the beginning stays.
    pub(crate) fn set_state(&mut self, state: ThreadState) {
        *self = Self::new(self.from(), state);
    }

    pub(crate) const fn state(self) -> ThreadState {
        let cpu = Cpu(self.cpu);
        match self.tag {
            Tag::Running => ThreadState::Running { cpu, interrupts_ns: self.value },
            Tag::Runnable => ThreadState::Runnable { cpu, left: QueueExit::Stayed },
            Tag::Moved => ThreadState::Runnable { cpu, left: QueueExit::Moved },
            Tag::MovedUnseen => {
                ThreadState::Runnable { cpu, left: QueueExit::MovedUnseen(Cpu(self.value as u16)) }
            }
            Tag::Throttled => ThreadState::Throttled { cpu },
            Tag::Blocked => ThreadState::Blocked(WaitIndex(self.value)),
            Tag::NotYet => ThreadState::Unknown(UnknownReason::NotSeenYet),
            Tag::Lost => ThreadState::Unknown(UnknownReason::Lost),
        }
    }
}

/// A thread's state intervals, in time order and without gaps. Use [`StateIntervals::get`] and
/// [`StateIntervals::find`] for walks back and forth, and [`StateIntervals::overlapping`] otherwise.
#[derive(Debug, Clone, Copy)]
pub struct StateIntervals<'a> {
    pub(crate) packed: &'a Chunks<Packed>,
    pub(crate) end: Stamp<Reference>,
}

impl<'a> StateIntervals<'a> {
    /// The number of intervals.
    pub fn len(self) -> usize {
        self.packed.len()
    }

    /// Whether no state of this thread is recorded.
    pub fn is_empty(self) -> bool {
        self.packed.is_empty()
    }

    /// The interval at `index`.
    pub fn get(self, index: usize) -> Option<StateInterval> {
        let packed = *self.packed.get(index)?;
        let to = self.packed.get(index + 1).map_or(self.end, |next| next.from());
        Some(StateInterval { from: packed.from(), to, state: packed.state() })
    }

    /// The index of the first interval that ends after `at`: the interval around this nanosecond, or the
    /// first if it begins later. [`StateIntervals::len`] if all end before.
    pub fn find(self, at: Stamp<Reference>) -> usize {
        if at >= self.end {
            return self.len();
        }
        self.packed.partition_point(|interval| interval.from() <= at).saturating_sub(1)
    }

    /// Like `find`, searched from `near` outwards.
    pub(crate) fn find_near(self, near: usize, at: Stamp<Reference>) -> usize {
        if at >= self.end {
            return self.len();
        }
        self.packed.partition_point_near(near, |interval| interval.from() <= at).saturating_sub(1)
    }

    /// The index of the last interval that begins before `at`.
    pub fn find_before(self, at: Stamp<Reference>) -> Option<usize> {
        self.packed.partition_point(|interval| interval.from() < at).checked_sub(1)
    }

    /// The time between `from` and `to` in states that `is` accepts, ns.
    pub fn time_in(
        self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
        is: impl Fn(ThreadState) -> bool,
    ) -> u64 {
        let intervals = self.overlapping(from, to).filter(|interval| is(interval.state));
        intervals.map(|interval| interval.to.min(to).since(interval.from.max(from))).sum()
    }

    /// The intervals that overlap a window, not clipped to it.
    pub fn overlapping(
        self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = StateInterval> + 'a {
        (self.find(from)..self.len())
            .map_while(move |index| self.get(index).filter(|interval| interval.from < to))
    }
}
