//! A CPU's state: its current thread, and the interrupts that take its time.

use std::ops::Range;

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Call, Context, Softirq, Tid};

use crate::tracepoint::Interrupt;

/// A CPU's present state (G15 §4.4).
#[derive(Debug, Default)]
pub(super) struct CpuState {
    /// `None` before the first record that names it, or after a loss.
    pub current: Option<Tid>,
    /// The current thread's system call.
    pub call: Option<Call>,
    /// The interrupts, innermost last, without their names.
    stack: Vec<Interrupt<'static>>,
    /// The stamp from which the stack is not empty.
    since: Stamp<Local>,
    /// The interrupts' time since the last switch, ns.
    taken: u64,
    /// Exits without an entry, entries without an exit, by kind.
    unmatched: Vec<(Interrupt<'static>, u64)>,
}

/// An interrupt's kind: each kind has a tracepoint for its entries, and another for its exits.
const fn kind(interrupt: Interrupt<'_>) -> Interrupt<'static> {
    match interrupt {
        Interrupt::Device(..) => Interrupt::Device(0, None),
        Interrupt::Softirq(_) => Interrupt::Softirq(0),
        Interrupt::Hrtimer => Interrupt::Hrtimer,
        Interrupt::Vector(context) => Interrupt::Vector(context),
    }
}

/// The interrupts' kinds with a recorded entry, and those with a recorded exit. A tracer switches its tracepoints on one after the other: until
/// both are on, ends without their other end prove no loss.
#[derive(Debug, Default)]
pub(super) struct SeenEnds(Vec<(Interrupt<'static>, bool, bool)>);

impl SeenEnds {
    /// Notes an end. Where now both ends are seen for the first time, the CPUs forget what was unmatched before.
    pub fn note(&mut self, interrupt: Interrupt<'_>, is_entry: bool, cpus: &mut [CpuState]) {
        if let Some(kind) = self.completed(interrupt, is_entry) {
            cpus.iter_mut().for_each(|state| state.forget_unmatched(kind));
        }
    }

    /// The kind, if this is the first time that both its ends are seen.
    fn completed(&mut self, interrupt: Interrupt<'_>, is_entry: bool) -> Option<Interrupt<'static>> {
        let kind = kind(interrupt);
        let place = self.0.iter().position(|(seen, ..)| *seen == kind).unwrap_or_else(|| {
            self.0.push((kind, false, false));
            self.0.len() - 1
        });
        let (_, entry, exit) = &mut self.0[place];
        let before = *entry && *exit;
        *entry |= is_entry;
        *exit |= !is_entry;
        (*entry && *exit && !before).then_some(kind)
    }
}

/// Interrupts nest a few deep; a deeper stack is due to lost exits.
const MAX_DEPTH: usize = 16;

const fn without_name(interrupt: Interrupt<'_>) -> Interrupt<'static> {
    match interrupt {
        Interrupt::Device(irq, _) => Interrupt::Device(irq, None),
        Interrupt::Softirq(vector) => Interrupt::Softirq(vector),
        Interrupt::Hrtimer => Interrupt::Hrtimer,
        Interrupt::Vector(context) => Interrupt::Vector(context),
    }
}

impl CpuState {
    pub fn enter(&mut self, at: Stamp<Local>, interrupt: Interrupt<'_>) {
        if self.stack.is_empty() {
            self.since = at;
        }
        if self.stack.len() == MAX_DEPTH {
            self.drop_unmatched(0..1);
        }
        self.stack.push(without_name(interrupt));
    }

    /// Ends the last interrupt of this kind, and any later interrupts, whose exits were not seen. An exit without an
    /// entry ends nothing. `own`: the interrupt is the current thread's own work.
    pub fn leave(&mut self, at: Stamp<Local>, interrupt: Interrupt<'_>, own: bool) {
        let interrupt = without_name(interrupt);
        let Some(index) = self.stack.iter().rposition(|other| *other == interrupt) else {
            self.count_unmatched(interrupt);
            return;
        };
        self.drop_unmatched(index + 1..self.stack.len());
        self.stack.truncate(index);
        if self.stack.is_empty() && !own {
            self.taken += at.since(self.since);
        }
    }

    /// The innermost interrupt, and its device's number.
    pub fn context(&self) -> (Context, u16) {
        let Some(&innermost) = self.stack.last() else { return (Context::Task, 0) };
        let context = match innermost {
            Interrupt::Device(irq, _) => return (Context::Device, irq),
            Interrupt::Softirq(vector) => Softirq::ALL
                .get(usize::from(vector))
                .map_or(Context::UnknownInterrupt, |&v| Context::Softirq(v)),
            Interrupt::Vector(context) => context,
            // Expiring timers are traced even where their interrupt is not. They expire in the local timer's
            // interrupt, which may come amid any softirq, or in the timer softirqs.
            Interrupt::Hrtimer => match self.stack.iter().rev().find(|other| **other != Interrupt::Hrtimer) {
                Some(Interrupt::Softirq(8)) => Context::Softirq(Softirq::Hrtimer),
                Some(Interrupt::Softirq(1)) => Context::Softirq(Softirq::Timer),
                _ => Context::LocalTimer,
            },
        };
        (context, 0)
    }

    /// Another thread takes the CPU, which ends all interrupts. Returns the interrupts' time since the last switch,
    /// ns.
    pub fn switch(&mut self, next: Tid) -> u32 {
        self.drop_unmatched(0..self.stack.len());
        self.current = Some(next);
        u32::try_from(std::mem::take(&mut self.taken)).unwrap_or(u32::MAX)
    }

    /// User code runs, which ends all interrupts.
    pub fn in_task(&mut self) {
        self.drop_unmatched(0..self.stack.len());
    }

    /// Drops interrupts whose exits were not seen.
    fn drop_unmatched(&mut self, places: Range<usize>) {
        for interrupt in self.stack.drain(places).collect::<Vec<_>>() {
            self.count_unmatched(interrupt);
        }
    }

    fn count_unmatched(&mut self, interrupt: Interrupt<'static>) {
        let kind = kind(interrupt);
        match self.unmatched.iter_mut().find(|(counted, _)| *counted == kind) {
            Some((_, count)) => *count += 1,
            None => self.unmatched.push((kind, 1)),
        }
    }

    /// How many exits have no entry, and entries no exit.
    pub fn unmatched(&self) -> u64 {
        self.unmatched.iter().map(|(_, count)| count).sum()
    }

    /// Forgets what was unmatched of a kind.
    fn forget_unmatched(&mut self, kind: Interrupt<'static>) {
        self.unmatched.retain(|(counted, _)| *counted != kind);
    }

    /// Forgets the state: records were lost.
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
        let mut state = CpuState::default();
        state.enter(at(10), NET_RX);
        state.enter(at(12), DISK);
        assert_eq!(state.context(), (Context::Device, 11));
        state.leave(at(15), DISK, false);
        assert_eq!(state.context(), (Context::Softirq(Softirq::NetRx), 0));
        state.leave(at(20), NET_RX, false);
        assert_eq!(state.context(), (Context::Task, 0));
        assert_eq!((state.switch(Tid(5)), state.unmatched()), (10, 0));
        assert_eq!(state.switch(Tid(6)), 0, "each interrupt is charged once");
    }

    #[test]
    fn an_entry_or_exit_without_its_other_end_does_no_lasting_harm() {
        let mut state = CpuState::default();
        state.leave(at(1), DISK, false);
        assert_eq!((state.context().0, state.unmatched()), (Context::Task, 1));
        state.enter(at(2), NET_RX);
        state.enter(at(3), TIMER);
        state.leave(at(9), NET_RX, false);
        assert_eq!((state.context().0, state.unmatched()), (Context::Task, 2), "the timer's exit was lost");
        state.enter(at(10), NET_RX);
        assert_eq!(state.switch(Tid(1)), 7, "no thread is switched in an interrupt");
        assert_eq!((state.context().0, state.unmatched()), (Context::Task, 3));
        for n in 0..1000 {
            state.enter(at(n), NET_RX);
        }
        assert!(state.stack.len() <= MAX_DEPTH);
        assert_eq!(state.unmatched(), 3 + 1000 - MAX_DEPTH as u64, "the exits of the others were lost");
    }

    #[test]
    fn a_kinds_unmatched_ends_are_forgotten_and_no_others() {
        let mut state = CpuState::default();
        for interrupt in [DISK, NET_RX, Interrupt::Softirq(1), TIMER, Interrupt::Device(12, None)] {
            state.leave(at(1), interrupt, false);
        }
        assert_eq!(state.unmatched(), 5);
        state.forget_unmatched(kind(DISK));
        assert_eq!(state.unmatched(), 3);
        state.forget_unmatched(kind(NET_RX));
        assert_eq!(state.unmatched(), 1);
    }

    #[test]
    fn both_ends_of_a_kind_are_seen_for_the_first_time_once() {
        let mut seen = SeenEnds::default();
        assert_eq!(seen.completed(NET_RX, true), None);
        assert_eq!(seen.completed(DISK, false), None);
        assert_eq!(seen.completed(NET_RX, true), None);
        // Another softirq has the same kind.
        assert_eq!(seen.completed(Interrupt::Softirq(1), false), Some(kind(NET_RX)));
        assert_eq!(seen.completed(NET_RX, false), None);
        assert_eq!(seen.completed(NET_RX, true), None);
        assert_eq!(seen.completed(TIMER, true), None);
        assert_eq!(seen.completed(Interrupt::Vector(Context::UnknownInterrupt), false), None);
        assert_eq!(seen.completed(DISK, true), Some(kind(DISK)));
    }

    #[test]
    fn a_timer_expires_in_the_interrupt_around_it() {
        let mut state = CpuState::default();
        state.enter(at(1), Interrupt::Hrtimer);
        assert_eq!(state.context().0, Context::LocalTimer, "even if that is not traced");
        state.enter(at(2), Interrupt::Softirq(8));
        state.enter(at(3), Interrupt::Hrtimer);
        assert_eq!(state.context().0, Context::Softirq(Softirq::Hrtimer));
        state.enter(at(4), Interrupt::Softirq(1));
        state.enter(at(5), Interrupt::Hrtimer);
        assert_eq!(state.context().0, Context::Softirq(Softirq::Timer));
        // Amid another softirq, the local timer's interrupt is the context, traced or not.
        for around in [&[Interrupt::Softirq(7), TIMER][..], &[Interrupt::Softirq(7)]] {
            let mut state = CpuState::default();
            around.iter().for_each(|&interrupt| state.enter(at(1), interrupt));
            state.enter(at(2), Interrupt::Hrtimer);
            assert_eq!(state.context().0, Context::LocalTimer, "{around:?}");
        }
    }

    #[test]
    fn softirqs_are_the_own_work_of_their_thread() {
        let mut state = CpuState::default();
        state.enter(at(0), NET_RX);
        state.leave(at(50), NET_RX, true);
        assert_eq!(state.switch(Tid(1)), 0);
    }

    #[test]
    fn user_code_ends_all_interrupts() {
        let mut state = CpuState::default();
        state.enter(at(1), NET_RX);
        state.enter(at(2), TIMER);
        state.in_task();
        assert_eq!((state.context().0, state.unmatched()), (Context::Task, 2));
    }
}
