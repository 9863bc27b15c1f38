//! Directories and files that another user may try to replace: everything goes through descriptors of directories
//! that were checked, and no symbolic link is followed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::way::Way;

/// A directory that is held open.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
    /// Its path, for messages.
    pub path: PathBuf,
}

const OPEN_DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// The directory that `path` stands in, and its name there.
fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok((parent, name))
}

impl Directory {
    /// The directory that `path` stands in, and its name there. Links on the way are followed if they belong to the
    /// user as whom this thread acts, or to root; that is not asked of `path` itself.
    ///
    /// # Errors
    /// When there is no such directory, a link on the way belongs to another user, or `path` ends in no name.
    pub fn of(path: &Path) -> io::Result<(Self, &OsStr)> {
        let (parent, name) = split(path)?;
        let Way { fd, .. } = Way::along(parent)?.into_directory()?;
        Ok((Self { fd, path: parent.to_owned() }, name))
    }

    /// The directory at `path`; follows all links. For reading what the user gave.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn at(path: &Path) -> io::Result<Self> {
        let fd = fs::open(path, OPEN_DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty())?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// The directory `name` in this one; a symbolic link is an error.
    pub fn open(&self, name: &OsStr) -> io::Result<Self> {
        let fd = fs::openat(&self.fd, name, OPEN_DIRECTORY, Mode::empty())?;
        Ok(Self { fd, path: self.path.join(name) })
    }

    /// Makes the directory `name` in this one, mode 0700, and opens it.
    pub fn create(&self, name: &OsStr) -> io::Result<Self> {
        fs::mkdirat(&self.fd, name, Mode::RWXU)?;
        let made = self.open(name)?;
        // The umask may have taken from the mode; nothing may have added to it.
        fs::fchmod(&made.fd, Mode::RWXU)?;
        Ok(made)
    }

    /// Makes the file `name` in this directory, mode 0600. It must not exist, not even as a link.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(File::from(fd))
    }

    /// Opens the regular file `name` in this directory. Never waits, as opening a pipe would.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = fs::openat(&self.fd, name, flags, Mode::empty())?;
        if FileType::from_raw_mode(fs::fstat(&fd)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(File::from(fd))
    }

    /// The text in the file `name`, of at most `limit` bytes.
    pub fn read_text(&self, name: &str, limit: u64) -> io::Result<String> {
        let mut text = String::new();
        let n = self.open_file(OsStr::new(name))?.take(limit + 1).read_to_string(&mut text)?;
        if n as u64 > limit {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {limit} bytes")));
        }
        Ok(text)
    }

    /// The names in this directory, sorted, and what they are.
    pub fn names(&self) -> io::Result<Vec<(std::ffi::OsString, FileType)>> {
        use std::os::unix::ffi::OsStrExt as _;
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let stat = fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
            names.push((name.to_owned(), FileType::from_raw_mode(stat.st_mode)));
        }
        names.sort_by(|a: &(std::ffi::OsString, FileType), b| a.0.cmp(&b.0));
        Ok(names)
    }

    /// Whether `name` is here, and what it is.
    pub fn kind_of(&self, name: &OsStr) -> io::Result<Option<FileType>> {
        match fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// The user id of the owner of `name`, if it is here.
    pub fn owner_of(&self, name: &OsStr) -> io::Result<Option<u32>> {
        match fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat.st_uid)),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Locks this directory for this process until it is closed; `false` if another one has locked it. A file system
    /// without locks locks nothing.
    pub fn lock(&self) -> bool {
        fs::flock(&self.fd, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
    }

    /// Its path as the kernel knows it.
    pub fn path_of_kernel(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.fd.as_raw_fd())).ok()
    }

    /// Whether `path` leads to this directory.
    pub fn is_at(&self, path: &Path) -> io::Result<bool> {
        let own = fs::fstat(&self.fd)?;
        Ok(fs::stat(path).is_ok_and(|there| (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)))
    }

    /// Removes the file `name`.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes the empty directory `name`.
    pub fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Renames within this directory; an existing `to` is an error.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(fs::renameat_with(&self.fd, from, &self.fd, to, fs::RenameFlags::NOREPLACE)?)
    }

    /// Renames within this directory; `to` may be an empty directory and nothing else.
    pub fn rename_over_empty(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// The same directory under the name that it has got.
    pub fn renamed(self, path: PathBuf) -> Self {
        Self { path, ..self }
    }

    /// Bytes free for ordinary users, and all bytes, of the file system.
    pub fn space(&self) -> io::Result<(u64, u64)> {
        let stat = fs::fstatvfs(&self.fd)?;
        Ok((stat.f_bavail.saturating_mul(stat.f_frsize), stat.f_blocks.saturating_mul(stat.f_frsize)))
    }
}
