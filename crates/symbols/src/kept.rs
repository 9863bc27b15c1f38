//! Files opened while this process had the rights to: the kernel functions' names, and program files that it may no
//! longer open by their paths.
//!
//! The rights are dropped before a recording is read, since its content is not trusted. An open file stays readable.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};

/// A recorded path, and the build id of its file.
type FileKey = (Box<[u8]>, Box<[u8]>);

/// Files opened while this process had the rights to. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    kernel: Option<Arc<File>>,
    files: Arc<HashMap<FileKey, File>>,
}

impl Kept {
    /// `kernel` is `/proc/kallsyms`: the kernel decides at its opening whether it shows addresses. `files` are program
    /// files with their recorded paths and build ids.
    pub fn new(kernel: Option<File>, files: impl IntoIterator<Item = (Box<[u8]>, Box<[u8]>, File)>) -> Self {
        let files = files.into_iter().map(|(path, build_id, file)| ((path, build_id), file));
        Self { kernel: kernel.map(Arc::new), files: Arc::new(files.collect()) }
    }

    /// A copy of the kernel's names.
    pub(crate) fn kernel(&self) -> Option<Held> {
        Held::copy(FromStart { file: self.kernel.as_ref()?, at: 0 }).ok()
    }

    /// A copy of the file kept for this path and build id.
    pub(crate) fn file(&self, path: &[u8], build_id: &[u8]) -> Option<Held> {
        let file = self.files.get(&(path.into(), build_id.into()))?;
        Held::copy(FromStart { file, at: 0 }).ok()
    }
}

/// The maximum size of a copied file, bytes. A copy is in memory.
pub(crate) const MAX_FILE_BYTES: u64 = 256 << 20;

/// A file that this process holds open, and may open again by a path. A file that only a descriptor reaches is copied.
#[derive(Debug)]
pub(crate) struct Held(OwnedFd);

impl Held {
    /// A copy in memory, of at most [`MAX_FILE_BYTES`].
    pub fn copy(from: impl Read) -> io::Result<Self> {
        let mut copy = File::from(memfd_create("symbols", MemfdFlags::CLOEXEC)?);
        let copied = io::copy(&mut from.take(MAX_FILE_BYTES + 1), &mut copy)?;
        if copied > MAX_FILE_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Self(copy.into()))
    }

    /// Its path in this process, while this lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

impl From<File> for Held {
    fn from(file: File) -> Self {
        Self(file.into())
    }
}

/// Reads a file from its start, whatever was read before.
struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = std::os::unix::fs::FileExt::read_at(self.file, buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
