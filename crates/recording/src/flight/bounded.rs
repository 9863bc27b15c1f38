//! A map with a limit on its facts: beyond it, the least recently used facts go.

use std::collections::HashMap;
use std::hash::Hash;

use wakepath_event::{Event, EventKind};

/// Facts by key, each as the event with which it was stated.
#[derive(Debug)]
pub(super) struct Bounded<K> {
    facts: HashMap<K, Fact>,
    max: usize,
    /// The facts' memory outside themselves, bytes.
    payload: usize,
}

#[derive(Debug)]
struct Fact {
    event: Event,
    /// The stamp of the last record with a need for this fact, ns.
    used: u64,
}

impl<K: Copy + Eq + Hash> Bounded<K> {
    /// An empty map for at most `max` facts.
    pub fn new(max: usize) -> Self {
        Self { facts: HashMap::new(), max, payload: 0 }
    }

    /// Whether a fact with this key fits without the loss of another.
    pub fn has_room_for(&self, key: &K) -> bool {
        self.facts.len() < self.max || self.facts.contains_key(key)
    }

    /// States a fact, in place of an earlier one with this key.
    pub fn state(&mut self, key: K, event: &Event) {
        self.payload += payload(&event.kind);
        let fact = Fact { event: event.clone(), used: event.at.ns() };
        if let Some(before) = self.facts.insert(key, fact) {
            self.payload -= payload(&before.event.kind);
        }
        if self.facts.len() > self.max {
            self.shed();
        }
    }

    /// Notes that a record at `at` needs the fact.
    pub fn use_at(&mut self, key: K, at: u64) {
        if let Some(fact) = self.facts.get_mut(&key) {
            fact.used = at;
        }
    }

    /// Forgets this key's fact.
    pub fn forget(&mut self, key: K) {
        if let Some(fact) = self.facts.remove(&key) {
            self.payload -= payload(&fact.event.kind);
        }
    }

    /// Forgets the facts for which `keep` is false.
    pub fn retain(&mut self, mut keep: impl FnMut(&K) -> bool) {
        let payload_bytes = &mut self.payload;
        self.facts.retain(|key, fact| {
            let kept = keep(key);
            if !kept {
                *payload_bytes -= payload(&fact.event.kind);
            }
            kept
        });
    }

    /// The facts, in the order in which they were stated.
    pub fn events(&self) -> Vec<&Event> {
        let mut events: Vec<_> = self.facts.values().map(|fact| &fact.event).collect();
        // The order at equal stamps must not depend on the map either.
        events.sort_by_cached_key(|event| (event.at, format!("{:?}", event.kind)));
        events
    }

    /// The memory in use, bytes.
    pub fn bytes(&self) -> usize {
        table_bytes::<(K, Fact)>(self.facts.capacity()) + self.payload
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.facts.len()
    }

    /// Forgets the least recently used quarter: rarely, and then enough for a while.
    fn shed(&mut self) {
        let mut used: Vec<u64> = self.facts.values().map(|fact| fact.used).collect();
        let quarter = self.facts.len().div_ceil(4);
        let (_, &mut oldest, _) = used.select_nth_unstable(quarter - 1);
        let mut left = quarter;
        let payload_bytes = &mut self.payload;
        self.facts.retain(|_, fact| {
            let goes = left > 0 && fact.used <= oldest;
            if goes {
                left -= 1;
                *payload_bytes -= payload(&fact.event.kind);
            }
            !goes
        });
    }
}

/// A hash table's memory with room for `capacity` entries, bytes: an eighth stays free, and each place has an extra byte.
pub(super) const fn table_bytes<Entry>(capacity: usize) -> usize {
    capacity.div_ceil(7) * 8 * (size_of::<Entry>() + 1)
}

/// An event's heap memory, bytes.
fn payload(kind: &EventKind) -> usize {
    match kind {
        EventKind::Name(_, _, name) => name.len(),
        EventKind::Mapping(mapping) => mapping.path.len() + mapping.build_id.len(),
        EventKind::File(file) => file.name.len(),
        EventKind::Stack(stack) | EventKind::StackLater(_, stack) | EventKind::Sample(stack) => {
            (stack.kernel.len() + stack.user.len()) * size_of::<u64>()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use wakepath_clock::Stamp;
    use wakepath_event::{Context, Cpu, FileName, Mapping, NameSpace, Stack, StackId, Tid};

    use super::*;

    fn name(at: u64, key: u64, length: usize) -> Event {
        let kind = EventKind::Name(NameSpace::Cgroup, key, vec![b'x'; length].into());
        Event { at: Stamp::from_ns(at), cpu: Cpu::UNKNOWN, context: Context::Task, current: Tid::IDLE, kind }
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_goes_first() {
        let mut facts = Bounded::new(8);
        for key in 0..8u64 {
            facts.state(key, &name(key, key, 10));
        }
        facts.use_at(0, 100);
        facts.state(8, &name(9, 8, 10));
        let left: Vec<u64> = facts.events().iter().map(|event| event.at.ns()).collect();
        assert_eq!(left, [0, 4, 5, 6, 7, 9], "a quarter of nine, rounded up, without the one that was used");
        assert_eq!(facts.payload, 60);
    }

    #[test]
    fn there_is_room_until_the_limit_and_then_for_known_keys_alone() {
        let mut facts = Bounded::new(2);
        let room = |facts: &Bounded<u64>| [0, 1, 2].map(|key| facts.has_room_for(&key));
        for (key, expected) in [(0, [true; 3]), (1, [true, true, false])] {
            facts.state(key, &name(key, key, 0));
            assert_eq!(room(&facts), expected, "with {key}");
        }
    }

    #[test]
    fn facts_of_one_time_leave_no_more_than_a_quarter() {
        let mut facts = Bounded::new(8);
        (0..9u64).for_each(|key| facts.state(key, &name(5, key, 0)));
        assert_eq!(facts.len(), 6);
    }

    #[test]
    fn the_bytes_of_a_fact_are_counted_until_it_goes() {
        let mut facts = Bounded::new(8);
        facts.state(1u64, &name(1, 1, 10));
        facts.state(1, &name(2, 1, 30));
        facts.state(2, &name(2, 2, 5));
        assert_eq!(facts.payload, 35);
        facts.forget(2);
        assert_eq!(facts.payload, 30);
        facts.retain(|_| false);
        assert_eq!((facts.payload, facts.len()), (0, 0));
    }
    #[test]
    fn the_memory_of_a_table_has_its_free_places_and_a_byte_for_each_place() {
        assert_eq!([0, 7, 14, 448].map(table_bytes::<[u8; 9]>), [0, 80, 160, 5120]);
        assert_eq!(table_bytes::<u64>(3), 72, "a small table has no fewer than the places that it needs");
    }
    #[test]
    fn texts_and_addresses_count_beside_their_fact() {
        let file =
            |name: &[u8]| FileName { tgid: Tid(7), fd: 3, mode: 0, inode: 5, flow: None, name: name.into() };
        let mapping = Mapping {
            tgid: Tid(7),
            from: 0x1000,
            to: 0x2000,
            offset: 0,
            build_id: [1, 2, 3].into(),
            path: b"/bin/worker".as_slice().into(),
        };
        let stack =
            Stack { tgid: Tid(7), kernel: [1, 2].into(), user: [3, 4, 5].into(), scanned: 0, proved: 0 };
        for (kind, bytes) in [
            (EventKind::Name(NameSpace::Cgroup, 1, b"/shop".as_slice().into()), 5),
            (EventKind::File(file(b"data.db")), 7),
            (EventKind::Mapping(mapping), 14),
            (EventKind::Stack(stack.clone()), 40),
            (EventKind::StackLater(StackId(7), stack), 40),
            (EventKind::Exit, 0),
        ] {
            assert_eq!(payload(&kind), bytes, "{kind:?}");
        }
    }
}
