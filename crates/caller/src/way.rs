//! The way along a path, one name at a time: a symbolic link is followed only where the caller or root made it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC};
use rustix::io::Errno;

use crate::{acting_uid, belongs_to_another};

/// The largest number of links on the way, as in the kernel.
const MAX_LINKS: u32 = 40;
const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const ANYTHING: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How far the way along a path was gone.
pub(crate) struct Way {
    pub fd: OwnedFd,
    /// The path so far, for messages.
    pub path: PathBuf,
    /// The names that are to come, the next one last.
    ahead: Vec<OsString>,
    links: u32,
}

/// A link that was followed, or not.
pub(crate) enum Link {
    /// The names in it are the next ones of the way.
    Followed,
    /// It stands for something that is open, and only the kernel can follow it.
    OfKernel,
    /// It is no link.
    None,
}

impl Way {
    /// Begins where `path` begins.
    pub fn along(path: &Path) -> io::Result<Self> {
        let fd = fs::openat(CWD, ".", DIRECTORY, Mode::empty())?;
        let mut way = Self { fd, path: PathBuf::new(), ahead: Vec::new(), links: 0 };
        way.turn(path)?;
        Ok(way)
    }

    /// Goes to the end, which has to be a directory.
    pub fn into_directory(mut self) -> io::Result<Self> {
        while let Some(name) = self.next() {
            self.enter(&name)?;
        }
        if self.path.as_os_str().is_empty() {
            self.path.push(".");
        }
        Ok(self)
    }

    /// The next name, and no more the last one of those ahead.
    pub fn next(&mut self) -> Option<OsString> {
        self.ahead.pop()
    }

    pub fn is_at_end(&self) -> bool {
        self.ahead.is_empty()
    }

    /// Goes into the directory `name`, or to where the link `name` leads.
    pub fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        // Opened as a directory first, which mounts what is mounted on demand.
        match fs::openat(&self.fd, name, DIRECTORY, Mode::empty()) {
            Ok(fd) => {
                self.fd = fd;
                self.path.push(name);
                return Ok(());
            }
            Err(Errno::NOTDIR | Errno::LOOP) => {}
            Err(other) => return Err(other.into()),
        }
        match self.follow(name)? {
            Link::Followed => Ok(()),
            Link::OfKernel => {
                let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
                self.fd = fs::openat(&self.fd, name, flags, Mode::empty())?;
                self.path.push(name);
                Ok(())
            }
            Link::None => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Follows `name` if it is a link, which then has to be the caller's or root's.
    pub fn follow(&mut self, name: &OsStr) -> io::Result<Link> {
        let link = match fs::openat(&self.fd, name, ANYTHING, Mode::empty()) {
            Err(Errno::NOENT) if self.is_at_end() => return Ok(Link::None),
            other => other?,
        };
        let stat = fs::fstat(&link)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(Link::None);
        }
        if stat.st_uid != 0 && stat.st_uid != acting_uid() {
            return Err(belongs_to_another("the symbolic link", &self.path.join(name), stat.st_uid));
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        if fs::fstatfs(self.fd.as_fd())?.f_type == PROC_SUPER_MAGIC {
            return Ok(Link::OfKernel);
        }
        let target = fs::readlinkat(&link, "", Vec::new())?;
        self.turn(Path::new(&OsString::from_vec(target.into_bytes())))?;
        Ok(Link::Followed)
    }

    /// Puts the names of `path` before those that are ahead.
    fn turn(&mut self, path: &Path) -> io::Result<()> {
        if path.as_os_str().is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        if path.has_root() {
            self.fd = fs::openat(CWD, "/", DIRECTORY, Mode::empty())?;
            self.path = PathBuf::from("/");
        }
        let names = path.components().filter_map(|part| match part {
            Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
            _ => None,
        });
        let names: Vec<_> = names.collect();
        self.ahead.extend(names.into_iter().rev());
        Ok(())
    }
}
