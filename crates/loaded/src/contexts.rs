//! Threads' contexts as they were read, by thread.

use std::collections::{BTreeMap, HashMap};

use wakepath_clock::{Local, Stamp};
use wakepath_event::{ThreadAttribute, ThreadContext, Tid};

/// Threads' contexts, each from its first reading. Until the next entry of a thread, each of its readings gave the
/// same context.
#[derive(Debug, Clone, Default)]
pub struct Contexts {
    by_thread: HashMap<Tid, Vec<(Stamp<Local>, u32)>>,
    /// The different contexts: threads' entries are indices into these, since a span has many readings.
    different: Vec<ThreadContext>,
    numbers: HashMap<ThreadContext, u32>,
    /// The attributes beside readings: the reading's index in its thread's list, and the attribute's index. In order.
    beside: HashMap<Tid, Vec<(u32, u32)>>,
    /// The different attributes.
    attributes: Vec<ThreadAttribute>,
    attribute_numbers: HashMap<ThreadAttribute, u32>,
}

impl Contexts {
    /// Notes a reading of a thread's context. Events come in time order.
    pub(crate) fn read(&mut self, at: Stamp<Local>, thread: Tid, context: ThreadContext) {
        let number = *self.numbers.entry(context).or_insert_with(|| {
            self.different.push(context);
            u32::try_from(self.different.len() - 1).unwrap_or(u32::MAX)
        });
        self.by_thread.entry(thread).or_default().push((at, number));
    }

    /// Notes an attribute beside a thread's last reading.
    pub(crate) fn add(&mut self, thread: Tid, attribute: &ThreadAttribute) {
        let Some(read) = self.by_thread.get(&thread).and_then(|read| read.len().checked_sub(1)) else {
            return;
        };
        let number = *self.attribute_numbers.entry(attribute.clone()).or_insert_with(|| {
            self.attributes.push(attribute.clone());
            u32::try_from(self.attributes.len() - 1).unwrap_or(u32::MAX)
        });
        self.beside.entry(thread).or_default().push((u32::try_from(read).unwrap_or(u32::MAX), number));
    }

    /// A thread's attributes beside a span in this trace, at about this time: from the last reading until then if
    /// it belongs to the trace, else from the next if that does. Ordered by key, each key once.
    pub fn attributes(&self, thread: Tid, trace: [u8; 16], at: Stamp<Local>) -> Vec<&ThreadAttribute> {
        let (Some(read), Some(beside)) = (self.by_thread.get(&thread), self.beside.get(&thread)) else {
            return Vec::new();
        };
        let until = read.partition_point(|(since, _)| *since <= at);
        let is_of_trace = |place: &usize| {
            let context = read.get(*place).and_then(|(_, number)| self.different.get(*number as usize));
            matches!(context, Some(ThreadContext::Span { trace: of, .. }) if *of == trace)
        };
        let Some(place) = until.checked_sub(1).into_iter().chain([until]).find(is_of_trace) else {
            return Vec::new();
        };
        let from = beside.partition_point(|&(of, _)| (of as usize) < place);
        let of_reading = beside[from..].iter().take_while(|&&(of, _)| of as usize == place);
        let all = of_reading.filter_map(|(_, number)| self.attributes.get(*number as usize));
        // With equal keys, the later attribute counts.
        let by_key: BTreeMap<u8, &ThreadAttribute> = all.map(|one| (one.key, one)).collect();
        by_key.into_values().collect()
    }

    /// Notes another program in a thread: its context is unknown from here on.
    pub(crate) fn forget(&mut self, at: Stamp<Local>, thread: Tid) {
        if self.by_thread.contains_key(&thread) {
            self.read(at, thread, ThreadContext::Unknown);
        }
    }

    /// Notes an exec in a thread, which has the number `new` from then on.
    pub(crate) fn execute(&mut self, at: Stamp<Local>, old: Tid, new: Tid) {
        let had_context = self.by_thread.contains_key(&old);
        self.forget(at, old);
        if new != old && had_context {
            self.read(at, new, ThreadContext::Unknown);
        }
    }

    /// The tids of threads with readings, in order.
    pub fn threads(&self) -> Vec<Tid> {
        let mut threads: Vec<_> = self.by_thread.keys().copied().collect();
        threads.sort_unstable();
        threads
    }

    /// Whether any context was read for threads with this tid.
    pub fn were_read(&self, thread: Tid) -> bool {
        self.of(thread).any(|(_, context)| context != ThreadContext::Unknown)
    }

    /// The readings for threads with this tid, in time order.
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

    #[test]
    fn attributes_are_those_of_the_reading_at_the_time_if_it_is_of_the_trace_and_the_later_one_counts() {
        let mut contexts = Contexts::default();
        let at = Stamp::from_ns;
        let span = |id| ThreadContext::Span { trace: [id; 16], span: [id; 8], flags: 0 };
        let attribute = |key, value: &str| ThreadAttribute {
            key,
            length: value.len() as u8,
            value: value.as_bytes().into(),
        };
        // Without a reading, an attribute belongs to nothing.
        contexts.add(Tid(7), &attribute(1, "lost"));
        contexts.read(at(10), Tid(7), span(1));
        contexts.add(Tid(7), &attribute(2, "GET"));
        contexts.add(Tid(7), &attribute(1, "/early"));
        contexts.add(Tid(7), &attribute(1, "/cart"));
        contexts.read(at(20), Tid(7), span(2));
        contexts.add(Tid(7), &attribute(1, "/pay"));
        contexts.read(at(30), Tid(7), span(1));
        contexts.read(at(40), Tid(7), ThreadContext::None);
        let of = |trace, ns| {
            let all = contexts.attributes(Tid(7), [trace; 16], at(ns));
            all.into_iter().map(|one| (one.key, String::from_utf8_lossy(&one.value))).collect::<Vec<_>>()
        };
        let (cart, pay) = ([(1, "/cart".into()), (2, "GET".into())], [(1, "/pay".into())]);
        assert_eq!(of(1, 10), cart);
        assert_eq!(of(1, 19), cart);
        assert_eq!(of(2, 19), pay, "the next reading is of this trace");
        assert_eq!(of(2, 29), pay);
        assert_eq!(of(1, 5), cart, "before the first reading");
        assert_eq!(of(1, 30), [], "a reading without attributes");
        assert_eq!(of(2, 45), [], "no span");
        assert!(contexts.attributes(Tid(8), [1; 16], at(10)).is_empty());
    }
}
