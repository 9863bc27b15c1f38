//! The place of a recording while it is written and answered for: its directory, locked, under whatever name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wakepath_caller::Directory;

/// The directory of a recording that this process writes. While it is held, no other recorder deletes it, though another
/// one may take its name and give it the name with `.old` behind it.
#[derive(Debug, Clone)]
pub struct Place {
    directory: Arc<Directory>,
    /// Whether a recording that had the name before was still being written.
    moved_running: bool,
}

impl Place {
    pub(crate) fn new(directory: Directory, moved_running: bool) -> Self {
        Self { directory: Arc::new(directory), moved_running }
    }

    /// The path that was asked for.
    pub fn asked(&self) -> &Path {
        &self.directory.path
    }

    /// The path where it is now.
    ///
    /// # Errors
    /// When it was removed.
    pub fn present(&self) -> io::Result<PathBuf> {
        let known = [self.asked().to_owned(), old_path(self.asked())];
        for path in known.into_iter().chain(self.directory.path_of_kernel()) {
            if self.directory.is_at(&path)? {
                return Ok(path);
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Makes a private file in it, which must not exist.
    pub(crate) fn create_file(&self, name: &str) -> io::Result<File> {
        self.directory.create_file(name)
    }

    /// The new path of the recording that had the name before, if that one was still being written.
    pub fn moved_running(&self) -> Option<PathBuf> {
        self.moved_running.then(|| old_path(self.asked()))
    }
}

/// The name of a recording that was moved aside.
pub(crate) fn old_name(name: &OsStr) -> OsString {
    let mut old = name.to_owned();
    old.push(".old");
    old
}

fn old_path(path: &Path) -> PathBuf {
    PathBuf::from(old_name(path.as_os_str()))
}
