//! A recording's place while this process writes or analyses it: its directory, locked, under any name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wakepath_caller::Directory;

/// A recording's directory, which this process writes. While it is held, no other recorder deletes it, but another
/// recorder may take its name and append `.old` to the name of this directory.
#[derive(Debug, Clone)]
pub struct Place {
    directory: Arc<Directory>,
    /// Whether the recording with this name before was still being written.
    moved_running: bool,
}

impl Place {
    pub(crate) fn new(directory: Directory, moved_running: bool) -> Self {
        Self { directory: Arc::new(directory), moved_running }
    }

    /// The requested path.
    pub fn asked(&self) -> &Path {
        &self.directory.path
    }

    /// The present path.
    ///
    /// # Errors
    /// When the directory was removed.
    pub fn present(&self) -> io::Result<PathBuf> {
        let known = [self.asked().to_owned(), old_path(self.asked())];
        for path in known.into_iter().chain(self.directory.path_of_kernel()) {
            if self.directory.is_at(&path)? {
                return Ok(path);
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Makes a private file in the directory. The file must not exist.
    pub(crate) fn create_file(&self, name: &str) -> io::Result<File> {
        self.directory.create_file(name)
    }

    /// The new path of the recording with this name before, if it was still being written.
    pub fn moved_running(&self) -> Option<PathBuf> {
        self.moved_running.then(|| old_path(self.asked()))
    }
}

/// A name for a recording that is moved aside.
pub(crate) fn old_name(name: &OsStr) -> OsString {
    let mut old = name.to_owned();
    old.push(".old");
    old
}

fn old_path(path: &Path) -> PathBuf {
    PathBuf::from(old_name(path.as_os_str()))
}
