//! Writing a file: the whole file, or nothing.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::way::{Link, Way};
use crate::{Caller, acting_uid, belongs_to_another};

/// Where a file is to be written: a directory that is held open, and a name in it that is no link.
pub struct Destination {
    way: Way,
    name: OsString,
    /// The name stands for something that is open, such as stdout.
    is_open: bool,
    /// The owner, kind and mode of the present bearer of the name.
    there: Option<Stat>,
}

impl Destination {
    /// The file that `path` leads to, as the user who called sudo finds it.
    ///
    /// # Errors
    /// When there can be no file, or when another user owns what is there or a link on the way.
    pub fn find(path: &Path) -> io::Result<Self> {
        let _acting = act()?;
        let mut way = Way::along(path)?;
        loop {
            let Some(name) = way.next() else { return Err(ErrorKind::IsADirectory.into()) };
            if !way.is_at_end() || name == ".." {
                way.enter(&name)?;
                continue;
            }
            let is_open = match way.follow(&name)? {
                Link::Followed => continue,
                Link::OfKernel => true,
                Link::None => false,
            };
            let there = match fs::statat(&way.fd, &name, follow(is_open)) {
                Err(Errno::NOENT) => None,
                stat => Some(stat?),
            };
            let found = Self { way, name, is_open, there };
            found.check()?;
            return Ok(found);
        }
    }

    fn check(&self) -> io::Result<()> {
        let Some(there) = self.there.filter(|_| !self.is_open) else { return Ok(()) };
        let kind = FileType::from_raw_mode(there.st_mode);
        if kind == FileType::Directory {
            return Err(ErrorKind::IsADirectory.into());
        }
        // Devices are root's.
        let may_be_roots = kind != FileType::RegularFile;
        if there.st_uid != acting_uid() && !(may_be_roots && there.st_uid == 0) {
            return Err(belongs_to_another("the file", &self.way.path.join(&self.name), there.st_uid));
        }
        Ok(())
    }

    /// Writes the file. An existing file stays as it was until the new one is whole.
    ///
    /// # Errors
    /// When it cannot be written; then nothing of it is left.
    pub fn write(&self, write: impl FnOnce(File) -> io::Result<()>) -> io::Result<()> {
        let is_file = |there: &Stat| FileType::from_raw_mode(there.st_mode) == FileType::RegularFile;
        if self.is_open || self.there.as_ref().is_some_and(|there| !is_file(there)) {
            // A pipe or a device: what was written there cannot be taken back.
            return write(self.open(&self.name, OFlags::empty())?);
        }
        let part = beside(&self.name);
        let file = match self.open(&part, OFlags::CREATE | OFlags::EXCL) {
            // A file that may be written in a folder that may not.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && self.there.is_some() => {
                return write(self.open(&self.name, OFlags::TRUNC)?);
            }
            file => file?,
        };
        let mode = self.there.map(|there| Permissions::from_mode(there.st_mode & 0o7777));
        let whole = mode.map_or(Ok(()), |mode| file.set_permissions(mode)).and_then(|()| write(file));
        let _acting = act()?;
        let fd = &self.way.fd;
        let whole = whole.and_then(|()| Ok(fs::renameat(fd, &part, fd, &self.name)?));
        if whole.is_err() {
            // The first failure is the one to report.
            let _ = fs::unlinkat(fd, &part, AtFlags::empty());
        }
        whole
    }

    fn open(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        let _acting = act()?;
        let no_link = if self.is_open { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | no_link | flags;
        Ok(File::from(fs::openat(&self.way.fd, name, flags, Mode::from_raw_mode(0o666))?))
    }
}

fn act() -> io::Result<crate::Acting> {
    Caller::act(Caller::from_sudo().as_ref())
}

fn follow(links: bool) -> AtFlags {
    if links { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW }
}

/// The name of the file until it is whole: hidden, and of this process alone.
fn beside(name: &OsStr) -> OsString {
    let mut part = OsString::from(".");
    part.push(name);
    part.push(format!(".{}.part", std::process::id()));
    part
}
