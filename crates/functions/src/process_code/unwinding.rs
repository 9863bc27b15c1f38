//! The functions by which a process unwinds its stacks: for an exception, a panic.

use std::path::PathBuf;

use wakepath_process::FileId;

use super::{CodeFile, ProcessCode};
use crate::library::code_files;

/// The function that begins to unwind, in the library of compilers.
const RAISE: &str = "_Unwind_RaiseException";
/// Beside it: the functions by which code that is made at run time says how it is unwound.
const REGISTER: [&str; 2] = ["__register_frame_info", "__deregister_frame_info"];
/// The beginning of a table's entry whose functions have places that an exception goes on at.
const HAS_LANDING_PLACES: &[u8] = b"zPL";

/// The way in which a process unwinds its stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unwinding {
    /// No code of it does.
    Never,
    /// By libraries which can be given tables of other code: the addresses of the two functions for that, in the process.
    Tables(Vec<[u64; 2]>),
    /// The code of this file lets exceptions pass, and by what they are thrown is not known.
    Unknown(PathBuf),
}

impl ProcessCode {
    /// The way in which the process unwinds its stacks, with the files that are mapped now.
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

    /// The address in the process of an address of a file.
    fn in_process(&self, key: &FileId, stated: u64) -> Option<u64> {
        let offset = self.files.get(key)?.as_ref()?.image.offset(stated)?;
        let mut mappings = self.mappings.iter().filter(|mapping| mapping.file == *key);
        mappings.find_map(|mapping| mapping.address_of(offset))
    }
}

impl CodeFile {
    /// The address of a function of this file's own, as the file states it.
    fn own(&self, name: &str) -> Option<u64> {
        let symbols = &self.image.symbols;
        let found = symbols.iter().find(|symbol| !symbol.imported && symbols.name(symbol) == name);
        found.map(|symbol| symbol.address)
    }

    /// Whether its code has landing places for exceptions, and no name says whose: a program without symbols that holds its own
    /// unwinder.
    fn throws_unseen(&self) -> bool {
        let symbols = &self.image.symbols;
        let is_named = symbols.iter().any(|symbol| symbols.name(symbol).contains("_personality_"));
        let has_places =
            |table: &[u8]| table.windows(HAS_LANDING_PLACES.len()).any(|part| part == HAS_LANDING_PLACES);
        !is_named && self.image.frame_table().is_some_and(|(_, table)| has_places(&table))
    }
}
