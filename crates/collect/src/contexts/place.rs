//! The place of the word in a process, by its files and by the loader's entries in its memory. Both are foreign
//! input: all reads are checked, and a wrong place leads to reads that fail or find no context.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use wakepath_event::Mapping;
use wakepath_process::{Memory, Process, path_through};

use super::symbol::{Slot, Symbol};
use super::words::Word;
use crate::mapped_code::Inode;
use crate::mappings::{code_of_file, open_mapped};

/// The most files remembered.
const MAX_FILES: usize = 16_384;
/// The largest distance from a word to the thread pointer, or to the beginning of its module's memory, bytes.
const MAX_DISTANCE: i64 = 1 << 31;
/// The largest module number.
const MAX_MODULE: u64 = 1 << 16;
/// The address range for user memory.
const USER: std::ops::Range<u64> = 0x1000..1 << 47;

/// The outcome of looking at a process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The process has no such word, or is gone.
    None,
    /// A library has the word, and the loader has not written its place.
    NotYet,
    /// The process has the word, which cannot be read.
    Unreadable(&'static str),
    /// The place of the word.
    Word(Word),
}

/// A file's version when it was read: an inode number is used again, and a file can be written to.
type Version = (Inode, i64, i64, u64);

/// The files looked at so far.
#[derive(Default)]
pub(super) struct Files {
    known: HashMap<Version, Option<Arc<Symbol>>>,
}

impl Files {
    /// Whether a process's mapped file names the word.
    pub(super) fn has_symbol(&mut self, tgid: u32, mapping: &Mapping, inode: Inode) -> bool {
        self.symbol(tgid, mapping, inode).is_some()
    }

    fn symbol(&mut self, tgid: u32, mapping: &Mapping, inode: Inode) -> Option<Arc<Symbol>> {
        // Not a file that could have the word.
        if !mapping.path.starts_with(b"/") {
            return None;
        }
        let version = version(tgid, mapping, inode)?;
        if let Some(known) = self.known.get(&version) {
            return known.clone();
        }
        let found = Symbol::find(open_mapped(tgid, mapping, inode)?).map(Arc::new);
        if self.known.len() >= MAX_FILES {
            self.known.clear();
        }
        self.known.insert(version, found.clone());
        found
    }

    /// Looks for the word in a process.
    pub(super) fn find(&mut self, tgid: u32) -> Found {
        let Ok(process) = Process::open(tgid) else { return Found::None };
        let start_stack = || process.stat().ok().map(|stat| stat.start_stack);
        let (Some(before), Ok(mappings)) = (start_stack(), process.mappings()) else { return Found::None };
        let mapped: Vec<_> = mappings.iter().filter_map(|mapping| code_of_file(tgid, mapping)).collect();
        let mut users = Vec::new();
        for (mapping, inode) in &mapped {
            if let Some(symbol) = self.symbol(tgid, mapping, *inode) {
                users.push((mapping, symbol));
            }
        }
        if users.is_empty() {
            return Found::None;
        }
        let program = process.program().unwrap_or_default();
        let is_musl = mapped.iter().any(|(mapping, _)| is_musl(&mapping.path));
        let found = place(&process, &users, &program, is_musl);
        // Another program may run there by now.
        match (found, start_stack()) {
            (Ok((offset, module)), Some(after)) if after == before => {
                Found::Word(Word { start_stack: before, offset, module })
            }
            (Ok(_), Some(_)) => Found::NotYet,
            (Ok(_), None) => Found::None,
            (Err(found), _) => found,
        }
    }
}

/// The offset of the word and its module, 0 for a fixed place.
fn place(
    process: &Process,
    users: &[(&Mapping, Arc<Symbol>)],
    program: &Path,
    is_musl: bool,
) -> Result<(i64, u64), Found> {
    // The program's own word takes precedence over the libraries' words, for all of them.
    let own = users.iter().find(|(mapping, symbol)| {
        symbol.offset.is_some()
            && (symbol.is_program || Path::new(OsStr::from_bytes(&mapping.path)) == program)
    });
    if let Some((_, symbol)) = own
        && let Some(offset) = symbol.offset
    {
        // Both are below 2^32.
        return Ok((offset as i64 - symbol.block as i64, 0));
    }
    let memory = process.memory().map_err(|_| Found::Unreadable("its memory may not be read"))?;
    for (mapping, symbol) in users {
        let Some(bias) = symbol.bias(mapping.from, mapping.offset) else { continue };
        for slot in &symbol.slots {
            if let Some((offset, module)) = resolve(&memory, bias, *slot, symbol.offset) {
                if module != 0 && is_musl {
                    let reason = "its C library is musl, and the word is in a library that was loaded later";
                    return Err(Found::Unreadable(reason));
                }
                return Ok((offset, module));
            }
        }
    }
    Err(Found::NotYet)
}

/// The place of the word by a slot; `None` where no valid place is there yet.
fn resolve(memory: &Memory, bias: u64, slot: Slot, own: Option<u64>) -> Option<(i64, u64)> {
    let word = |address: u64| USER.contains(&address).then(|| memory.word(address).ok())?;
    let at = |address: u64| word(bias.wrapping_add(address));
    let second = |address: u64| at(address.wrapping_add(8));
    let module = |number: u64, offset: u64| {
        let is_one = (1..MAX_MODULE).contains(&number) && offset < MAX_DISTANCE as u64;
        is_one.then_some((offset as i64, number))
    };
    match slot {
        Slot::Distance(address) => distance(at(address)?),
        Slot::Module(address) => module(at(address)?, own?),
        Slot::ModuleAndOffset(address) => {
            let offset = second(address)?;
            // The loader has written the module and not yet the offset.
            if own.is_some_and(|own| own != offset) && offset == 0 {
                return None;
            }
            module(at(address)?, offset)
        }
        Slot::Descriptor(address) => {
            // A descriptor's function is there once it is resolved.
            at(address).filter(|function| USER.contains(function))?;
            let argument = second(address)?;
            distance(argument).or_else(|| module(word(argument)?, word(argument.checked_add(8)?)?))
        }
    }
}

/// On x86-64 all words with a fixed place lie before the thread pointer.
fn distance(value: u64) -> Option<(i64, u64)> {
    let value = value as i64;
    (-MAX_DISTANCE..0).contains(&value).then_some((value, 0))
}

fn is_musl(path: &[u8]) -> bool {
    path.rsplit(|&b| b == b'/').next().is_some_and(|name| name.starts_with(b"ld-musl"))
}

fn version(tgid: u32, mapping: &Mapping, inode: Inode) -> Option<Version> {
    let through = path_through(tgid, &(mapping.from..mapping.to));
    let named = || {
        let data = Path::new(OsStr::from_bytes(&mapping.path)).metadata().ok()?;
        let device = data.dev();
        ((libc::major(device), libc::minor(device), data.ino()) == inode).then_some(data)
    };
    let data = fs::metadata(through).ok().or_else(named)?;
    Some((inode, data.ctime(), data.ctime_nsec(), data.len()))
}
