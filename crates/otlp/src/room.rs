//! Bounds on memory: bytes are taken before their use, and given back on drop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of bytes, shared by many takers.
#[derive(Debug)]
pub(crate) struct Room {
    taken: AtomicUsize,
    most: usize,
}

impl Room {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { taken: AtomicUsize::new(0), most })
    }

    /// Takes these bytes, or none if too few are left.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<Taken> {
        let mut taken = Taken { room: Arc::clone(self), bytes: 0 };
        taken.grow(bytes).then_some(taken)
    }
}

/// Taken bytes.
#[derive(Debug)]
pub(crate) struct Taken {
    room: Arc<Room>,
    bytes: usize,
}

impl Taken {
    /// Takes more bytes; `false`, without a change, if too few are left.
    pub(crate) fn grow(&mut self, more: usize) -> bool {
        let most = self.room.most;
        let sum = |taken: usize| taken.checked_add(more).filter(|&sum| sum <= most);
        let grown = self.room.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok();
        if grown {
            self.bytes += more;
        }
        grown
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_is_there_and_what_is_dropped_is_there_again() {
        let room = Room::new(10);
        let mut first = room.take(4).expect("room");
        assert!(room.take(7).is_none() && room.take(usize::MAX).is_none());
        let second = room.take(6).expect("the rest");
        assert!(!first.grow(1));
        drop(second);
        assert!(first.grow(6) && room.take(1).is_none());
        drop(first);
        assert!(room.take(10).is_some());
    }
}
