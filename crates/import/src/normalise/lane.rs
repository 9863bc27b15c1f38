use wakepath_clock::{Local, Stamp};
use wakepath_event::{Call, Context, Softirq, Tid};

use crate::tracepoint::Interrupt;

/// What is known of one CPU now: who is current, and what borrows it from whom (G15 §4.4).
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// `None`: nothing has told yet, or records were lost.
    pub current: Option<Tid>,
    /// The system call that the current thread is in.
    pub call: Option<Call>,
    stack: Vec<Level>,
    /// Since when the stack is not empty.
    since: Stamp<Local>,
    /// What interrupts took since the last switch, ns.
    taken: u64,
    /// Exits without an entry, entries without an exit.
    pub unmatched: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Level {
    kind: Kind,
    /// A device's number.
    irq: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Device,
    Softirq(u8),
    Hrtimer,
    Vector(Context),
}

/// Interrupts nest a few deep; whatever is deeper is exits that were lost.
const MAX_DEPTH: usize = 16;

impl Level {
    const fn of(interrupt: Interrupt<'_>) -> Self {
        match interrupt {
            Interrupt::Device(irq, _) => Self { kind: Kind::Device, irq },
            Interrupt::Softirq(vector) => Self { kind: Kind::Softirq(vector), irq: 0 },
            Interrupt::Hrtimer => Self { kind: Kind::Hrtimer, irq: 0 },
            Interrupt::Vector(context) => Self { kind: Kind::Vector(context), irq: 0 },
        }
    }
}

impl Lane {
    pub fn enter(&mut self, at: Stamp<Local>, interrupt: Interrupt<'_>) {
        if self.stack.is_empty() {
            self.since = at;
        }
        if self.stack.len() == MAX_DEPTH {
            self.stack.remove(0);
            self.unmatched += 1;
        }
        self.stack.push(Level::of(interrupt));
    }

    /// An exit ends what began last of its kind, and whatever began since, whose exits were not seen. One
    /// that nothing fits ends nothing. `own`: this is the current thread's own work.
    pub fn leave(&mut self, at: Stamp<Local>, interrupt: Interrupt<'_>, own: bool) {
        let level = Level::of(interrupt);
        match self.stack.iter().rposition(|other| *other == level) {
            Some(index) => {
                self.unmatched += (self.stack.len() - index - 1) as u64;
                self.stack.truncate(index);
            }
            None => {
                self.unmatched += 1;
                return;
            }
        }
        if self.stack.is_empty() && !own {
            self.taken += at.since(self.since);
        }
    }

    /// The innermost interrupt, and the number of its device.
    pub fn context(&self) -> (Context, u16) {
        let Some(level) = self.stack.last() else { return (Context::Task, 0) };
        let context = match level.kind {
            Kind::Device => Context::Device,
            Kind::Softirq(vector) => Softirq::ALL
                .get(usize::from(vector))
                .map_or(Context::UnknownInterrupt, |&v| Context::Softirq(v)),
            Kind::Vector(context) => context,
            // Where the interrupt is not traced, the timers that expire in it are: in the local timer's, that
            // may come amid any softirq, or in the softirqs that run timers themselves.
            Kind::Hrtimer => match self.stack.iter().rev().find(|level| level.kind != Kind::Hrtimer) {
                Some(Level { kind: Kind::Softirq(8), .. }) => Context::Softirq(Softirq::Hrtimer),
                Some(Level { kind: Kind::Softirq(1), .. }) => Context::Softirq(Softirq::Timer),
                _ => Context::LocalTimer,
            },
        };
        (context, level.irq)
    }

    /// Another thread has the CPU: no interrupt does. Says what interrupts took since the last time, ns.
    pub fn switch(&mut self, next: Tid) -> u32 {
        self.unmatched += self.stack.len() as u64;
        self.stack.clear();
        self.current = Some(next);
        u32::try_from(std::mem::take(&mut self.taken)).unwrap_or(u32::MAX)
    }

    /// User code runs: no interrupt does.
    pub fn in_task(&mut self) {
        self.unmatched += self.stack.len() as u64;
        self.stack.clear();
    }

    /// Records were lost: nothing is known.
    pub fn lose(&mut self) {
        self.stack.clear();
        self.current = None;
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMER: Interrupt<'static> = Interrupt::Vector(Context::LocalTimer);
    const NET_RX: Interrupt<'static> = Interrupt::Softirq(3);
    const DISK: Interrupt<'static> = Interrupt::Device(11, None);

    fn at(ns: u64) -> Stamp<Local> {
        Stamp::from_ns(ns)
    }

    #[test]
    fn the_innermost_interrupt_is_the_context() {
        let mut lane = Lane::default();
        lane.enter(at(10), NET_RX);
        lane.enter(at(12), DISK);
        assert_eq!(lane.context(), (Context::Device, 11));
        lane.leave(at(15), DISK, false);
        assert_eq!(lane.context(), (Context::Softirq(Softirq::NetRx), 0));
        lane.leave(at(20), NET_RX, false);
        assert_eq!(lane.context(), (Context::Task, 0));
        assert_eq!((lane.switch(Tid(5)), lane.unmatched), (10, 0));
        assert_eq!(lane.switch(Tid(6)), 0, "each interrupt is charged once");
    }

    #[test]
    fn what_does_not_match_is_a_local_matter() {
        let mut lane = Lane::default();
        lane.leave(at(1), DISK, false);
        assert_eq!((lane.context().0, lane.unmatched), (Context::Task, 1));
        lane.enter(at(2), NET_RX);
        lane.enter(at(3), TIMER);
        lane.leave(at(9), NET_RX, false);
        assert_eq!((lane.context().0, lane.unmatched), (Context::Task, 2), "the timer's exit was lost");
        lane.enter(at(10), NET_RX);
        assert_eq!(lane.switch(Tid(1)), 7, "no thread is switched in an interrupt");
        assert_eq!((lane.context().0, lane.unmatched), (Context::Task, 3));
        for n in 0..1000 {
            lane.enter(at(n), NET_RX);
        }
        assert!(lane.stack.len() <= MAX_DEPTH);
    }

    #[test]
    fn a_timer_expires_in_the_interrupt_around_it() {
        let mut lane = Lane::default();
        lane.enter(at(1), Interrupt::Hrtimer);
        assert_eq!(lane.context().0, Context::LocalTimer, "even if nobody traces that");
        lane.enter(at(2), Interrupt::Softirq(8));
        lane.enter(at(3), Interrupt::Hrtimer);
        assert_eq!(lane.context().0, Context::Softirq(Softirq::Hrtimer));
        // Amid another softirq it is the local timer's interrupt, traced or not.
        for around in [&[Interrupt::Softirq(7), TIMER][..], &[Interrupt::Softirq(7)]] {
            let mut lane = Lane::default();
            around.iter().for_each(|&interrupt| lane.enter(at(1), interrupt));
            lane.enter(at(2), Interrupt::Hrtimer);
            assert_eq!(lane.context().0, Context::LocalTimer, "{around:?}");
        }
    }

    #[test]
    fn softirqs_are_the_own_work_of_their_thread() {
        let mut lane = Lane::default();
        lane.enter(at(0), NET_RX);
        lane.leave(at(50), NET_RX, true);
        assert_eq!(lane.switch(Tid(1)), 0);
    }
}
