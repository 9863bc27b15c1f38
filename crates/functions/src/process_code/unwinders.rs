//! Where a process unwinds its stacks: for an exception, a panic, the end of a thread, a back-trace.

use std::path::PathBuf;

use super::{CodeFile, ProcessCode};
use crate::mappings::mappings;

/// The functions by which a stack is unwound (the C++ ABI's, which Rust uses too).
const UNWINDERS: [&str; 3] = ["_Unwind_RaiseException", "_Unwind_ForcedUnwind", "_Unwind_Backtrace"];

/// The places at which the code of a process begins to unwind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unwinders {
    /// The file as it can be opened, and the offset at which a probe can stand.
    pub places: Vec<(PathBuf, u64)>,
    /// A file whose code lets exceptions pass, while no function is known by which they would.
    pub unknown: Option<PathBuf>,
}

impl ProcessCode {
    /// Finds the functions that unwind stacks, in all files that are mapped now.
    pub fn unwinders(&mut self) -> Unwinders {
        self.mappings = mappings(self.pid).unwrap_or_default();
        let mut keys: Vec<_> = self.mappings.iter().map(super::Mapping::key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut found = Unwinders::default();
        for key in keys {
            self.open(&key);
            let Some(Some(file)) = self.files.get(&key) else { continue };
            found.places.extend(file.unwinders(self.exceptions));
            if file.image.unwinds() {
                found.unknown.get_or_insert_with(|| file.place.shown.clone());
            }
        }
        if !found.places.is_empty() {
            found.unknown = None;
        }
        found
    }
}

impl CodeFile {
    fn unwinders(&self, exceptions: bool) -> Vec<(PathBuf, u64)> {
        let symbols = &self.image.symbols;
        let own = symbols.iter().filter(|symbol| !symbol.imported && UNWINDERS.contains(&symbols.name(symbol)));
        let probes = own.filter_map(|symbol| Some(self.function_at(symbol.address, exceptions).ok()?.probe));
        probes.map(|probe| (probe.file, probe.offset)).collect()
    }
}
