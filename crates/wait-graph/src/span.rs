use wakepath_clock::{Reference, Stamp};
use wakepath_event::Cpu;

use crate::chunks::Chunks;
use crate::{Seen, WaitIndex};

/// What a thread did from here to there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its first nanosecond.
    pub from: Stamp<Reference>,
    /// One past its last.
    pub to: Stamp<Reference>,
    /// What.
    pub doing: Doing,
}

/// What a thread did for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It ran.
    Running {
        /// On which CPU.
        cpu: Cpu,
        /// How much of it interrupts took, ns; where within it is not known.
        interrupts_ns: u32,
    },
    /// It waited for a CPU.
    Runnable {
        /// The CPU on which it next ran ([`Cpu::UNKNOWN`] when it did not).
        cpu: Cpu,
    },
    /// A cgroup's limit kept it off the CPU.
    Throttled {
        /// The CPU from which it was taken.
        cpu: Cpu,
    },
    /// It was blocked. Such a span may be empty: see [`crate::Wait`].
    Blocked(WaitIndex),
    /// Nobody knows.
    Unknown(Seen),
}

/// A [`Span`] without its end, which is where the next begins.
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
    Throttled,
    Blocked,
    NotYet,
    Lost,
}

impl Packed {
    pub(crate) fn new(from: Stamp<Reference>, doing: Doing) -> Self {
        const NO_CPU: u16 = Cpu::UNKNOWN.0;
        let (tag, cpu, value) = match doing {
            Doing::Running { cpu, interrupts_ns } => (Tag::Running, cpu.0, interrupts_ns),
            Doing::Runnable { cpu } => (Tag::Runnable, cpu.0, 0),
            Doing::Throttled { cpu } => (Tag::Throttled, cpu.0, 0),
            Doing::Blocked(wait) => (Tag::Blocked, NO_CPU, wait.0),
            Doing::Unknown(Seen::NotYet) => (Tag::NotYet, NO_CPU, 0),
            Doing::Unknown(Seen::Lost) => (Tag::Lost, NO_CPU, 0),
        };
        Self { from: from.ns(), value, cpu, tag }
    }

    pub(crate) const fn from(self) -> Stamp<Reference> {
        Stamp::from_ns(self.from)
    }

    pub(crate) const fn doing(self) -> Doing {
        let cpu = Cpu(self.cpu);
        match self.tag {
            Tag::Running => Doing::Running { cpu, interrupts_ns: self.value },
            Tag::Runnable => Doing::Runnable { cpu },
            Tag::Throttled => Doing::Throttled { cpu },
            Tag::Blocked => Doing::Blocked(WaitIndex(self.value)),
            Tag::NotYet => Doing::Unknown(Seen::NotYet),
            Tag::Lost => Doing::Unknown(Seen::Lost),
        }
    }
}

/// A thread's spans, in time order and without gap. [`Spans::get`] and [`Spans::find`] serve walks
/// that go back and forth; iterate for the rest.
#[derive(Debug, Clone, Copy)]
pub struct Spans<'a> {
    pub(crate) packed: &'a Chunks<Packed>,
    pub(crate) end: Stamp<Reference>,
}

impl<'a> Spans<'a> {
    /// How many.
    pub fn len(self) -> usize {
        self.packed.len()
    }

    /// Whether nothing was ever seen of the thread but its name.
    pub fn is_empty(self) -> bool {
        self.packed.is_empty()
    }

    /// The `index`th.
    pub fn get(self, index: usize) -> Option<Span> {
        let packed = *self.packed.get(index)?;
        let to = self.packed.get(index + 1).map_or(self.end, |next| next.from());
        Some(Span { from: packed.from(), to, doing: packed.doing() })
    }

    /// The first that ends after `at`: the one that holds this nanosecond, or the thread's first if
    /// it begins later. [`Spans::len`] if all end before.
    pub fn find(self, at: Stamp<Reference>) -> usize {
        if at >= self.end {
            return self.len();
        }
        self.packed.partition_point(|span| span.from() <= at).saturating_sub(1)
    }

    /// The same, looked for around `near`.
    pub(crate) fn find_near(self, near: usize, at: Stamp<Reference>) -> usize {
        if at >= self.end {
            return self.len();
        }
        self.packed.partition_point_near(near, |span| span.from() <= at).saturating_sub(1)
    }

    /// The last that begins before `at`, where there is one.
    pub fn find_before(self, at: Stamp<Reference>) -> Option<usize> {
        self.packed.partition_point(|span| span.from() < at).checked_sub(1)
    }

    /// Those that share time with a window, whole.
    pub fn overlapping(
        self,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> impl Iterator<Item = Span> + 'a {
        (self.find(from)..self.len()).map_while(move |index| self.get(index).filter(|span| span.from < to))
    }
}
