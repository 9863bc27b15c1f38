//! The functions by which a process unwinds its stacks: for an exception, a panic.

use std::path::PathBuf;

use wakepath_process::FileId;

use super::{CodeFile, ProcessCode};
use crate::library::code_files;

/// The function that begins to unwind, in the compilers' library.
const RAISE: &str = "_Unwind_RaiseException";
/// Beside it: the functions by which run-time generated code registers its unwinding tables.
const REGISTER: [&str; 2] = ["__register_frame_info", "__deregister_frame_info"];
/// The beginning of a table's entry for functions with landing places for exceptions.
const HAS_LANDING_PLACES: &[u8] = b"zPL";

/// The way in which a process unwinds its stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unwinding {
    /// None of its code does.
    Never,
    /// By libraries that accept tables for other code: the addresses of the two functions for it, in the process.
    Tables(Vec<[u64; 2]>),
    /// This file's code lets exceptions pass, and their thrower is not known.
    Unknown(PathBuf),
}

impl ProcessCode {
    /// The way in which the process unwinds its stacks, with the files mapped now.
    pub fn unwinding(&mut self) -> Unwinding {
        self.mappings = code_files(&self.process).unwrap_or_default();
        let mut keys: Vec<_> = self.mappings.iter().map(|mapping| mapping.file).collect();
        keys.sort_unstable();
        keys.dedup();
        let (mut throws, mut found) = (None, Vec::new());
        for key in keys {
            self.open(&key);
            let Some(Some(file)) = self.files.get(&key) else { continue };
            if file.throws_unseen() {
                return Unwinding::Unknown(file.place.shown.clone());
            }
            if file.own(RAISE).is_some() {
                let addresses = REGISTER.map(|name| file.own(name).and_then(|at| self.in_process(&key, at)));
                let [Some(register), Some(deregister)] = addresses else {
                    return Unwinding::Unknown(file.place.shown.clone());
                };
                found.push([register, deregister]);
            }
            if file.image.unwinds() {
                throws.get_or_insert_with(|| file.place.shown.clone());
            }
        }
        match throws {
            None => Unwinding::Never,
            Some(file) if found.is_empty() => Unwinding::Unknown(file),
            Some(_) => Unwinding::Tables(found),
        }
    }

    /// The process's address for a file's address.
    fn in_process(&self, key: &FileId, stated: u64) -> Option<u64> {
        let offset = self.files.get(key)?.as_ref()?.image.offset(stated)?;
        let mut mappings = self.mappings.iter().filter(|mapping| mapping.file == *key);
        mappings.find_map(|mapping| mapping.address_of(offset))
    }
}

impl CodeFile {
    /// The address of a function defined in this file, as the file states it.
    fn own(&self, name: &str) -> Option<u64> {
        let symbols = &self.image.symbols;
        let found = symbols.iter().find(|symbol| !symbol.imported && symbols.name(symbol) == name);
        found.map(|symbol| symbol.address)
    }

    /// Whether its code has landing places for exceptions, without a name for their language: a program without symbols
    /// that holds its own unwinder.
    fn throws_unseen(&self) -> bool {
        let symbols = &self.image.symbols;
        let is_named = symbols.iter().any(|symbol| symbols.name(symbol).contains("_personality_"));
        let has_places =
            |table: &[u8]| table.windows(HAS_LANDING_PLACES.len()).any(|part| part == HAS_LANDING_PLACES);
        !is_named && self.image.frame_table().is_some_and(|(_, table)| has_places(&table))
    }
}
