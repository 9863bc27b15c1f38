//! A list that grows by chunks.

/// The number of items in a full chunk.
const CHUNK: usize = 512;

/// A list that grows by chunks: its items are never copied to make room, and at most a chunk's memory is
/// empty.
#[derive(Debug)]
pub(crate) struct Chunks<T> {
    full: Vec<Box<[T]>>,
    /// The last items, fewer than a chunk.
    open: Vec<T>,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Chunks<T> {
    pub(crate) const fn new() -> Self {
        Self { full: Vec::new(), open: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.full.len() * CHUNK + self.open.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        self.open.push(item);
        if self.open.len() == CHUNK {
            self.close();
        }
    }

    #[cold]
    fn close(&mut self) {
        let full = std::mem::replace(&mut self.open, Vec::with_capacity(CHUNK));
        self.full.push(full.into_boxed_slice());
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.chunk(index / CHUNK).get(index % CHUNK)
    }

    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        self.open.last_mut().or_else(|| self.full.last_mut()?.last_mut())
    }

    /// All items, to change them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.full.iter_mut().flat_map(|chunk| chunk.iter_mut()).chain(&mut self.open)
    }

    /// The chunk with this number; empty beyond the last.
    fn chunk(&self, number: usize) -> &[T] {
        match self.full.get(number) {
            Some(chunk) => chunk,
            None if number == self.full.len() => &self.open,
            None => &[],
        }
    }

    /// The number of items before the first for which `before` is false, as `slice::partition_point`.
    pub(crate) fn partition_point(&self, mut before: impl FnMut(&T) -> bool) -> usize {
        let full = self.full.partition_point(|chunk| chunk.last().is_some_and(&mut before));
        full * CHUNK + self.chunk(full).partition_point(before)
    }

    /// Like `partition_point`, searched from `near` outwards: close items are found fast.
    pub(crate) fn partition_point_near(&self, near: usize, mut before: impl FnMut(&T) -> bool) -> usize {
        let mut is_before = |index: usize| self.get(index).is_some_and(&mut before);
        let mut at = near.min(self.len());
        let forwards = is_before(at);
        // The item `steps` further on, unless the searched place is passed on the way.
        let mut further = |at: usize, steps: usize| {
            let next = if forwards { at + steps } else { at.checked_sub(steps)? };
            (is_before(next) == forwards).then_some(next)
        };
        // Steps double up to the first too long step, and halve behind it.
        let mut doubled = 0;
        for bit in 0..usize::BITS {
            let Some(next) = further(at, 1 << bit) else { break };
            (at, doubled) = (next, bit + 1);
        }
        for bit in (0..doubled).rev() {
            at = further(at, 1 << bit).unwrap_or(at);
        }
        at + usize::from(forwards)
    }

    /// Frees the memory for further items.
    pub(crate) fn shrink(&mut self) {
        self.full.shrink_to_fit();
        self.open.shrink_to_fit();
    }

    /// The shrunk list's heap memory, bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<T>() * self.len() + size_of_val(&*self.full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_list_however_many_chunks_it_takes() {
        let mut chunks = Chunks::new();
        for n in 0..3 * CHUNK + 2 {
            for index in [0, n / 2, n.saturating_sub(1)].into_iter().filter(|&index| index < n) {
                assert_eq!(chunks.get(index), Some(&(index * 2)), "of {n}");
            }
            assert_eq!((chunks.len(), chunks.is_empty(), chunks.get(n)), (n, n == 0, None));
            assert_eq!(chunks.get(n + CHUNK), None);
            for bound in [0, 1, n, 2 * n, 2 * n + 1] {
                let expected = bound.div_ceil(2).min(n);
                assert_eq!(chunks.partition_point(|&item| item < bound), expected, "{bound} of {n}");
                for near in [0, 1, n / 3, expected.saturating_sub(1), expected, expected + 3, n, n + 9] {
                    let found = chunks.partition_point_near(near, |&item| item < bound);
                    assert_eq!(found, expected, "{bound} of {n}, near {near}");
                }
            }
            chunks.push(n);
            *chunks.last_mut().expect("one was pushed") *= 2;
        }
        let all: Vec<_> = chunks.iter_mut().map(|item| *item).collect();
        assert_eq!(all, (0..3 * CHUNK + 2).map(|n| 2 * n).collect::<Vec<_>>());
        chunks.shrink();
        assert_eq!(chunks.get(3 * CHUNK + 1), Some(&(2 * (3 * CHUNK + 1))));
        // Numbers of eight bytes each, and a pointer and a length for each of three full chunks.
        assert_eq!(chunks.bytes(), 8 * (3 * CHUNK + 2) + 3 * 16);
    }

    /// The number of looks grows with the logarithm of the distance, not with the list's length.
    #[test]
    fn a_close_item_is_found_in_few_looks() {
        let mut chunks = Chunks::new();
        (0..4 * CHUNK).for_each(|n| chunks.push(n));
        let near = 2 * CHUNK;
        for distance in [0_usize, 1, 2, 3, 5, 10, 30, 100, 1000] {
            let most = 2 + 2 * (usize::BITS - distance.leading_zeros());
            // The result is the first item behind `near`, or the last in front.
            for expected in [near + distance + 1, near - distance] {
                let mut looks = 0;
                let found = chunks.partition_point_near(near, |&item| {
                    looks += 1;
                    item < expected
                });
                assert_eq!(found, expected);
                assert!(looks <= most, "{looks} looks for {expected} near {near}, not {most}");
            }
        }
    }
}
