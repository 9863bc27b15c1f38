//! The bytes that a recording may take.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::WriteError;

/// The bytes that a recording may take, and has taken. Shared by its streams, which several threads may write.
#[derive(Debug)]
pub(super) struct Budget {
    written: AtomicU64,
    most: u64,
    /// The part of `most` that is kept for the end.
    kept: AtomicU64,
    least_free_percent: u8,
}

/// The space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that ordinary users may still take.
    pub free: u64,
    /// All bytes.
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

    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Takes `bytes`, or nothing when there is not enough room.
    pub fn take(&self, bytes: u64) -> Result<(), WriteError> {
        let kept = self.kept.load(Ordering::Relaxed);
        let taken = self.written.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |written| {
            written.checked_add(bytes).filter(|&sum| sum <= self.most.saturating_sub(kept))
        });
        taken.map(drop).map_err(|_| WriteError::SizeLimit { limit: self.most })
    }

    /// Gives back bytes that were taken and not used.
    pub fn give_back(&self, bytes: u64) {
        self.written.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub fn check(&self, path: &Path, space: Space) -> Result<Space, WriteError> {
        let Space { free, total } = space;
        if u128::from(free) * 100 < u128::from(total) * u128::from(self.least_free_percent) {
            let least_percent = self.least_free_percent;
            return Err(WriteError::DiskReserve { path: path.to_owned(), free, total, least_percent });
        }
        Ok(space)
    }
}
