//! Files by paths as people write them: which file it is, and its path in the kernel's lists of mappings.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2, readlinkat};

use crate::directory::Directory;
use crate::error::Error;
use crate::mapping::DELETED;

/// A file that a path leads to.
#[derive(Debug)]
pub struct SeenFile {
    /// The file's metadata.
    pub metadata: Metadata,
    /// Its path without links, as the kernel writes it into `maps`; without the mark of a deleted file.
    pub path: PathBuf,
    /// Whether the path is gone: `/proc/PID/exe` leads to a deleted file.
    pub is_deleted: bool,
}

impl SeenFile {
    /// The file at a path. Nothing is opened for reading: a pipe does not wait.
    ///
    /// # Errors
    /// When no file is there, or rights are lacking.
    pub fn at(path: &Path) -> io::Result<Self> {
        Self::of(openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
    }

    fn of(file: OwnedFd) -> io::Result<Self> {
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let link = readlinkat(CWD, own, Vec::new())?.into_bytes();
        let deleted = link.strip_suffix(DELETED).map(<[u8]>::to_vec);
        let is_deleted = deleted.is_some();
        let path = crate::text::path_of(deleted.unwrap_or(link));
        Ok(Self { metadata: File::from(file).metadata()?, path, is_deleted })
    }
}

/// The file at a path in a process's view: its root is where absolute paths and links begin.
pub(crate) fn inside(directory: &Directory, path: &Path) -> Result<SeenFile, Error> {
    let failed = |source| Error::new(directory.pid, "root", source, false);
    let root = directory.file("root")?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(root, path, flags, Mode::empty(), resolve).map_err(|errno| failed(errno.into()))?;
    SeenFile::of(file).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;
    use crate::Process;

    #[test]
    fn a_file_is_seen_behind_links_and_after_its_path_is_gone() {
        let folder = std::env::temp_dir().join(format!("seen-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let folder = folder.canonicalize().expect("its path");
        let (file, link) = (folder.join("file"), folder.join("link"));
        std::fs::write(&file, "x").expect("a file");
        symlink("file", &link).expect("a link");
        let seen = SeenFile::at(&link).expect("the file");
        assert_eq!((&seen.path, seen.is_deleted), (&file, false));
        let open = File::open(&file).expect("the file");
        assert_eq!(seen.metadata.ino(), open.metadata().expect("metadata").ino());
        std::fs::remove_file(&file).expect("its own file");
        assert!(SeenFile::at(&link).is_err() && SeenFile::at(&file).is_err());
        let gone = SeenFile::at(Path::new(&format!("/proc/self/fd/{}", open.as_raw_fd()))).expect("the file");
        assert_eq!((&gone.path, gone.is_deleted), (&file, true));
        assert_eq!(gone.metadata.ino(), seen.metadata.ino());
        std::fs::remove_dir_all(&folder).expect("its own folder");
    }

    #[test]
    fn a_process_sees_its_own_files() {
        let own = Process::own().expect("this process");
        let program = std::env::current_exe().expect("this program");
        let seen = own.seen(&program).expect("this program");
        assert_eq!(seen.path, program.canonicalize().expect("its path"));
        assert!(own.seen(Path::new("/no/such/file")).is_err());
        assert!(own.seen(Path::new("/proc/self/exe")).is_err(), "no link of the kernel's leads outside");
    }
}
