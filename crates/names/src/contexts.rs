//! The contexts of threads as they were read, by thread.

use std::collections::HashMap;

use wakepath_clock::{Local, Stamp};
use wakepath_event::{ThreadContext, Tid};

/// The contexts that threads had, each from the time at which it was first read. Between two readings of a thread that
/// are not here, its context was the same at each event at which it is read.
#[derive(Debug, Clone, Default)]
pub struct Contexts {
    by_thread: HashMap<Tid, Vec<(Stamp<Local>, u32)>>,
    /// The different contexts: those of threads are numbers of these, since one span has many readings.
    different: Vec<ThreadContext>,
    numbers: HashMap<ThreadContext, u32>,
}

impl Contexts {
    /// Notes that a thread's context was read. Events come in time order.
    pub(crate) fn read(&mut self, at: Stamp<Local>, thread: Tid, context: ThreadContext) {
        let number = *self.numbers.entry(context).or_insert_with(|| {
            self.different.push(context);
            u32::try_from(self.different.len() - 1).unwrap_or(u32::MAX)
        });
        self.by_thread.entry(thread).or_default().push((at, number));
    }

    /// Notes that a thread runs another program from here on.
    pub(crate) fn forget(&mut self, at: Stamp<Local>, thread: Tid) {
        if self.by_thread.contains_key(&thread) {
            self.read(at, thread, ThreadContext::Unknown);
        }
    }

    /// The tids of threads with readings, in order.
    pub fn threads(&self) -> Vec<Tid> {
        let mut threads: Vec<_> = self.by_thread.keys().copied().collect();
        threads.sort_unstable();
        threads
    }

    /// Whether a context of these threads was read at any time.
    pub fn were_read(&self, thread: Tid) -> bool {
        self.of(thread).any(|(_, context)| context != ThreadContext::Unknown)
    }

    /// The readings of the threads with this tid, in order of time.
    pub fn of(&self, thread: Tid) -> impl Iterator<Item = (Stamp<Local>, ThreadContext)> + '_ {
        let readings = self.by_thread.get(&thread).map_or(&[][..], Vec::as_slice);
        let context = |number: u32| self.different.get(number as usize).copied();
        readings.iter().map(move |&(at, number)| (at, context(number).unwrap_or(ThreadContext::Unknown)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readings_of_a_thread_are_kept_and_another_program_has_none_of_them() {
        let mut contexts = Contexts::default();
        let [one, two] = [1, 2].map(|id| ThreadContext::Span { trace: [id; 16], span: [id; 8], flags: 1 });
        let at = Stamp::from_ns;
        contexts.forget(at(1), Tid(7));
        for (ns, thread, context) in [(2, 7, one), (3, 8, two), (4, 7, ThreadContext::None), (5, 7, one)] {
            contexts.read(at(ns), Tid(thread), context);
        }
        contexts.forget(at(6), Tid(7));
        let of = |thread| contexts.of(Tid(thread)).collect::<Vec<_>>();
        let (none, unknown) = (ThreadContext::None, ThreadContext::Unknown);
        assert_eq!(of(7), [(at(2), one), (at(4), none), (at(5), one), (at(6), unknown)]);
        assert_eq!(of(8), [(at(3), two)]);
        assert_eq!(of(9), []);
        assert_eq!(contexts.threads(), [Tid(7), Tid(8)]);
        assert_eq!(contexts.different.len(), 4);
    }
}
