//! A bounded map that forgets its oldest entries.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

/// The number of sent packets, and of disk requests, remembered until they arrive.
pub(crate) const IN_FLIGHT: usize = 1 << 16;

const WAYS: usize = 4;

/// A bounded map that forgets its oldest entries.
///
/// Keys share sets of four; a full set loses its oldest entry. Nothing is allocated before the first
/// entry, and the same insertions always forget the same entries.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    sets: usize,
    entries: Vec<Option<Entry<K, V>>>,
    inserted: u64,
    /// The number of entries forgotten for lack of room.
    pub(crate) forgotten: u64,
}

#[derive(Debug, Clone)]
struct Entry<K, V> {
    key: K,
    value: V,
    age: u64,
}

impl<K: Hash + Eq + Copy, V: Copy> Default for Recent<K, V> {
    fn default() -> Self {
        Self::new(IN_FLIGHT)
    }
}

impl<K: Hash + Eq + Copy, V: Copy> Recent<K, V> {
    /// Room for about `capacity` entries.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { sets: (capacity / WAYS).max(1), entries: Vec::new(), inserted: 0, forgotten: 0 }
    }

    fn set(&self, key: &K) -> std::ops::Range<usize> {
        // DefaultHasher::default() has fixed keys, so every run is the same.
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        let set = (hash % self.sets as u64) as usize * WAYS;
        set..set + WAYS
    }

    /// Sets the value for `key`.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.entries.is_empty() {
            self.entries.resize_with(self.sets * WAYS, || None);
        }
        self.inserted += 1;
        let age = self.inserted;
        let set = self.set(&key);
        let ways = &mut self.entries[set];
        let mut oldest = (0, u64::MAX);
        for (way, entry) in ways.iter_mut().enumerate() {
            match entry {
                Some(entry) if entry.key == key => {
                    (entry.value, entry.age) = (value, age);
                    return;
                }
                Some(entry) if entry.age < oldest.1 => oldest = (way, entry.age),
                Some(_) => {}
                None if oldest.1 > 0 => oldest = (way, 0),
                None => {}
            }
        }
        self.forgotten += u64::from(ways[oldest.0].is_some());
        ways[oldest.0] = Some(Entry { key, value, age });
    }

    /// The value for `key`.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let mut ways = self.entries.get(self.set(key))?.iter().flatten();
        ways.find(|entry| entry.key == *key).map(|entry| entry.value)
    }

    /// Removes `key` and returns its value.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let set = self.set(key);
        let mut ways = self.entries.get_mut(set)?.iter_mut();
        ways.find_map(|way| way.take_if(|entry| entry.key == *key)).map(|entry| entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entry_is_forgotten_and_counted() {
        let mut recent = Recent::new(4);
        for key in 0..4 {
            recent.insert(key, key * 10);
        }
        recent.insert(0, 99);
        recent.insert(4, 40);
        assert_eq!(
            (0..5).map(|key| recent.get(&key)).collect::<Vec<_>>(),
            [Some(99), None, Some(20), Some(30), Some(40)]
        );
        assert_eq!(recent.forgotten, 1);
        assert_eq!(recent.remove(&4), Some(40));
        assert_eq!(recent.get(&4), None);
    }

    /// Each set has its own places: keys spread over the sets use all of them.
    #[test]
    fn nearly_as_many_entries_as_there_is_room_for_are_kept() {
        let mut recent = Recent::new(4096);
        (0..2048).for_each(|key| recent.insert(key, key));
        let kept = (0..2048).filter(|key| recent.get(key) == Some(*key)).count();
        assert!(kept > 1900, "{kept} of 2048 in 4096 places");
        assert_eq!(recent.forgotten, 2048 - kept as u64);
    }
}
