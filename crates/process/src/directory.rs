//! An open directory of `/proc`: its files are opened relative to it, so that a number that is used again is no other process.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, readlinkat, statat};

use crate::error::Error;

/// An open directory, of a process or a thread.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) pid: u32,
    descriptor: OwnedFd,
}

impl Directory {
    pub(crate) fn open(path: &str, pid: u32) -> Result<Self, Error> {
        let opened = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let descriptor = opened.map_err(|errno| Error::new(pid, "", errno.into(), true))?;
        Ok(Self { pid, descriptor })
    }

    pub(crate) fn directory(&self, name: &str) -> Result<Self, Error> {
        let descriptor = self.opened(name, OFlags::PATH)?;
        Ok(Self { pid: self.pid, descriptor })
    }

    pub(crate) fn file(&self, name: &str) -> Result<File, Error> {
        self.opened(name, OFlags::RDONLY).map(File::from)
    }

    pub(crate) fn writable_file(&self, name: &str) -> Result<File, Error> {
        self.opened(name, OFlags::RDWR).map(File::from)
    }

    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let mut text = Vec::new();
        self.file(name)?.read_to_end(&mut text).map_err(|source| self.failed(name, source))?;
        Ok(text)
    }

    /// The name of a thread, which may hold any byte but zero. Its line has one newline more.
    pub(crate) fn comm(&self) -> Result<Vec<u8>, Error> {
        let mut name = self.read("comm")?;
        name.pop();
        Ok(name)
    }

    pub(crate) fn link(&self, name: &str) -> Result<PathBuf, Error> {
        let target = readlinkat(&self.descriptor, name, Vec::new());
        let target = target.map_err(|errno| self.failed(name, errno.into()))?;
        Ok(crate::path_of(target.into_bytes()))
    }

    /// The entries of a directory here whose names are numbers.
    pub(crate) fn numbers(&self, name: &str) -> Result<Vec<u32>, Error> {
        let failed = |errno: rustix::io::Errno| self.failed(name, errno.into());
        let entries = Dir::new(self.opened(name, OFlags::RDONLY)?).map_err(failed)?;
        let mut numbers = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            numbers.extend(entry.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
        }
        Ok(numbers)
    }

    pub(crate) fn malformed(&self, name: &str, line: usize) -> Error {
        Error::malformed(self.pid, name, line)
    }

    fn opened(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Error> {
        openat(&self.descriptor, name, flags | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| self.failed(name, errno.into()))
    }

    /// A file that is missing says nothing of the process: a thread of the kernel has no program. Each process has this one.
    fn failed(&self, name: &str, source: io::Error) -> Error {
        let found = statat(&self.descriptor, "stat", AtFlags::empty());
        Error::new(self.pid, name, source, found.is_err())
    }
}
