//! A long time's slices in constant memory: the longer the time, the coarser.

use super::Stretch;
use crate::histogram::MismatchError;

/// The maximum number of parts in a history: a screen row each, and some tens of KiB a target.
pub const MAX_HISTORY_PARTS: usize = 64;

/// Slices in order. When there are too many, neighbours are merged in pairs.
#[derive(Debug, Clone)]
pub(super) struct History {
    parts: Vec<Stretch>,
    /// The slices in the last part.
    in_last: u64,
    /// The slices in each part before it.
    in_each: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { parts: Vec::new(), in_last: 0, in_each: 1 }
    }
}

impl History {
    pub(super) fn add(&mut self, slice: &Stretch) -> Result<(), MismatchError> {
        if let Some(last) = self.parts.last_mut().filter(|_| self.in_last < self.in_each) {
            self.in_last += 1;
            return last.extend(slice);
        }
        if self.parts.len() == MAX_HISTORY_PARTS {
            for pair in 0..MAX_HISTORY_PARTS / 2 {
                let mut whole = self.parts[2 * pair].clone();
                whole.extend(&self.parts[2 * pair + 1])?;
                self.parts[pair] = whole;
            }
            self.parts.truncate(MAX_HISTORY_PARTS / 2);
            self.in_each = self.in_each.saturating_mul(2);
        }
        self.parts.push(slice.clone());
        self.in_last = 1;
        Ok(())
    }

    pub(super) fn parts(&self) -> &[Stretch] {
        &self.parts
    }
}
