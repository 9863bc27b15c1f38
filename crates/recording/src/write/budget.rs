//! The limits on a recording's size.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::WriteError;

/// The largest reserve of free space, bytes. On a large disk, a share would refuse a recording of 2 GiB beside 20 GiB
/// free.
const MAX_RESERVE_BYTES: u64 = 4 << 30;

/// A recording's limit and its written bytes. Its streams share this, and several threads may write them.
#[derive(Debug)]
pub(crate) struct Budget {
    written: AtomicU64,
    most: u64,
    /// The reserve within `most` for the end.
    kept: AtomicU64,
    least_free_percent: u8,
}

/// A file system's space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// The bytes still available to ordinary users.
    pub free: u64,
    /// The total size, bytes.
    pub total: u64,
}

impl Budget {
    pub fn new(most: Option<u64>, kept: u64, least_free_percent: Option<u8>) -> Self {
        Self {
            written: AtomicU64::new(0),
            most: most.unwrap_or(u64::MAX),
            kept: AtomicU64::new(kept),
            least_free_percent: least_free_percent.unwrap_or(0),
        }
    }

    pub fn use_all(&self) {
        self.kept.store(0, Ordering::Relaxed);
    }

    pub const fn most(&self) -> u64 {
        self.most
    }

    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Takes `bytes`, or nothing without enough room.
    pub fn take(&self, bytes: u64) -> Result<(), WriteError> {
        let kept = self.kept.load(Ordering::Relaxed);
        let taken = self.written.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |written| {
            written.checked_add(bytes).filter(|&sum| sum <= self.most.saturating_sub(kept))
        });
        taken.map(drop).map_err(|_| WriteError::SizeLimit { limit: self.most })
    }

    /// Gives back unused bytes.
    pub fn give_back(&self, bytes: u64) {
        self.written.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub fn check(&self, path: &Path, space: Space) -> Result<Space, WriteError> {
        let Space { free, total } = space;
        let share = u128::from(total) * u128::from(self.least_free_percent) / 100;
        let least = u64::try_from(share).unwrap_or(u64::MAX).min(MAX_RESERVE_BYTES);
        if free < least {
            return Err(WriteError::DiskReserve { path: path.to_owned(), free, total, least });
        }
        Ok(space)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_a_small_disk_stays_free_and_4_gib_of_a_large_one() {
        const GIB: u64 = 1 << 30;
        let budget = Budget::new(None, 0, Some(10));
        let least = |free, total| match budget.check(Path::new("rec"), Space { free, total }) {
            Err(WriteError::DiskReserve { least, .. }) => Some(least),
            _ => None,
        };
        assert_eq!(least(GIB, 10 * GIB), None);
        assert_eq!(least(GIB - 1, 10 * GIB), Some(GIB));
        assert_eq!(least(4 * GIB, 252 * GIB), None);
        assert_eq!(least(4 * GIB - 1, 252 * GIB), Some(4 * GIB));
        assert_eq!(least(0, u64::MAX), Some(4 * GIB));
    }
}
