//! The files with a stripped program's names: its debug file, found by its build id or by the link in the program; the
//! symbols packed into the program; and, only where the user asked for it, files from servers.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use blazesym::helper::read_elf_build_id;
use xz4rust::{DICT_SIZE_MIN, XzDecoder, XzReader};

use crate::kept::Held;

/// A kind of file to ask for by build id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// The file with the symbols and the debug information.
    DebugInfo,
    /// The program or library itself.
    Program,
}

/// A source for files by build id, beyond this machine.
pub trait ByBuildId: fmt::Debug + Send + Sync {
    /// The file with this kind and build id; `None` if there is none. `name` is for messages.
    fn file(&self, wanted: Wanted, build_id: &[u8], name: &[u8]) -> Option<File>;
}

/// Debug files beyond the installed files. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct DebugFiles {
    servers: Option<Arc<dyn ByBuildId>>,
    nameless: Arc<Mutex<BTreeSet<Vec<u8>>>>,
}

impl DebugFiles {
    /// Debug files from servers, which the user allowed to ask.
    pub fn from_servers(servers: Arc<dyn ByBuildId>) -> Self {
        Self { servers: Some(servers), ..Self::default() }
    }

    /// The files in which code has no name, where servers could be asked by build id and were not.
    pub fn nameless(&self) -> Vec<Vec<u8>> {
        self.nameless.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(crate) fn ask_servers(&self) -> bool {
        self.servers.is_some()
    }

    /// A server's file; it has the build id, whatever the server sent.
    pub(crate) fn ask(&self, wanted: Wanted, build_id: &[u8], name: &[u8]) -> Option<Held> {
        let is_a_build_id = (2..=64).contains(&build_id.len());
        let servers = self.servers.as_ref().filter(|_| is_a_build_id)?;
        let held = Held::from(servers.file(wanted, build_id, name)?);
        has_build_id(&held.path(), build_id).then_some(held)
    }

    /// Notes a file with code that has no name, for [`DebugFiles::nameless`].
    pub(crate) fn note(&self, name: &[u8]) {
        self.nameless.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_vec());
    }
}

/// Whether a file has this build id, which is not empty.
pub fn has_build_id(path: &Path, build_id: &[u8]) -> bool {
    !build_id.is_empty() && read_elf_build_id(path).ok().flatten().is_some_and(|id| *id == *build_id)
}

/// The installed debug file for a program: by its build id, else by the link in it (a name, and the debug file's
/// checksum). `shown` is the program's path below `root`, the root folder of the processes that run it; `program` is
/// the path that leads to it here. `open` opens a debug file, and says whether it has the build id.
pub fn installed_debug_file<T>(
    build_id: &[u8],
    link: Option<(&[u8], u32)>,
    program: &Path,
    (shown, root): (&Path, &Path),
    open: impl Fn(&Path) -> Option<(T, bool)>,
) -> Option<T> {
    let debug = root.join("usr/lib/debug");
    let by_build_id = || {
        let path = debug.join(below_debug(build_id)?);
        open(&path).filter(|(_, has_build_id)| *has_build_id)
    };
    let by_link = || {
        let (name, checksum) = link?;
        linked(name, shown, root, &debug)?.into_iter().filter(|path| !same_file(path, program)).find_map(
            |path| {
                open(&path).filter(|(_, has_build_id)| *has_build_id || checksum_of(&path) == Some(checksum))
            },
        )
    };
    by_build_id().or_else(by_link).map(|(found, _)| found)
}

/// A build's path in a folder with debug files.
pub(crate) fn below_debug(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    if rest.is_empty() || rest.len() > 64 {
        return None;
    }
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(Path::new(".build-id").join(format!("{first:02x}")).join(rest + ".debug"))
}

/// A linked file's places: beside the program, in a folder below, and with all debug files.
fn linked(name: &[u8], shown: &Path, root: &Path, debug: &Path) -> Option<[PathBuf; 3]> {
    // A name, not a path: a file must not lead to other folders.
    if name.contains(&b'/') || name.len() > 255 {
        return None;
    }
    let name = OsStr::from_bytes(name);
    let folder = std::path::absolute(shown).ok()?.parent()?.to_owned();
    let below = |root: &Path| root.join(folder.strip_prefix("/").unwrap_or(&folder));
    Some([below(root).join(name), below(root).join(".debug").join(name), below(debug).join(name)])
}

fn same_file(a: &Path, b: &Path) -> bool {
    a.canonicalize().ok().is_some_and(|a| b.canonicalize().ok() == Some(a))
}

/// The CRC-32 of zlib, as in the link.
fn checksum_of(path: &Path) -> Option<u32> {
    let mut file = flate2::CrcReader::new(File::open(path).ok()?);
    io::copy(&mut file, &mut io::sink()).ok()?;
    Some(file.crc().sum())
}

/// The memory for unpacking, bytes: what the strongest compression needs.
const MAX_DICTIONARY: usize = 64 << 20;

/// The file with symbols, packed into a program at this offset and with this size.
pub(crate) fn unpacked(program: &File, (offset, size): (u64, u64)) -> Option<Held> {
    let packed = Part { file: program.try_clone().ok()?, at: offset, end: offset.checked_add(size)? };
    let decoder = XzDecoder::in_heap_with_alloc_dict_size(DICT_SIZE_MIN, MAX_DICTIONARY);
    let buffer = std::num::NonZeroUsize::new(1 << 16)?;
    Held::copy(XzReader::new_with_buffer_size_and_decoder(packed, buffer, decoder)).ok()
}

/// A part of a file.
struct Part {
    file: File,
    at: u64,
    end: u64,
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(&mut buffer[..left], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
