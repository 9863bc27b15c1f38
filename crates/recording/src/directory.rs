//! Directories and files that another user may try to replace: everything goes through descriptors of directories
//! that were checked, and no symbolic link is followed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, Uid};

/// The owner of a recording's files and directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// A directory that is held open.
#[derive(Debug)]
pub(crate) struct Directory {
    fd: OwnedFd,
    /// Its path, for messages.
    pub path: PathBuf,
}

const OPEN_DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// The directory that `path` stands in, and its name there.
pub(crate) fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok((parent, name))
}

impl Directory {
    /// The directory at `path`; follows links. For the path that the user gave, and its parent.
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
    pub fn create(&self, name: &OsStr, owner: Option<Owner>) -> io::Result<Self> {
        fs::mkdirat(&self.fd, name, Mode::RWXU)?;
        let made = self.open(name)?;
        // The umask may have taken from the mode; nothing may have added to it.
        fs::fchmod(&made.fd, Mode::RWXU)?;
        give(&made.fd, owner)?;
        Ok(made)
    }

    /// Makes the file `name` in this directory, mode 0600. It must not exist, not even as a link.
    pub fn create_file(&self, name: &str, owner: Option<Owner>) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?;
        give(&fd, owner)?;
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
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

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

    /// Its owner.
    pub fn owner(&self) -> io::Result<Owner> {
        let stat = fs::fstat(&self.fd)?;
        Ok(Owner { uid: stat.st_uid, gid: stat.st_gid })
    }
}

fn give(fd: impl AsFd, owner: Option<Owner>) -> io::Result<()> {
    if let Some(Owner { uid, gid }) = owner {
        fs::fchown(fd, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    Ok(())
}
