//! Whether a process unwinds its stacks: for an exception, a panic.

use std::path::PathBuf;

use super::{Mapping, ProcessCode};
use crate::mappings::mappings;

impl ProcessCode {
    /// A file that is mapped now and whose code throws exceptions, or lets them pass.
    pub fn unwinds(&mut self) -> Option<PathBuf> {
        self.mappings = mappings(self.pid).unwrap_or_default();
        let mut keys: Vec<_> = self.mappings.iter().map(Mapping::key).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            self.open(&key);
            let Some(Some(file)) = self.files.get(&key) else { continue };
            if file.image.unwinds() {
                return Some(file.place.shown.clone());
            }
        }
        None
    }
}
