//! An open directory in `/proc`: its files are opened relative to it, so that a reused number leads to no other process.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, readlinkat, statat};

use crate::error::Error;

/// The open directory of a process or a thread.
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

    pub(crate) const fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
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

    /// A thread's name, which may hold any byte but zero. Its line has an extra newline.
    pub(crate) fn comm(&self) -> Result<Vec<u8>, Error> {
        let mut name = self.read("comm")?;
        name.pop();
        Ok(name)
    }

    pub(crate) fn link(&self, name: &str) -> Result<PathBuf, Error> {
        let target = readlinkat(&self.descriptor, name, Vec::new());
        let target = target.map_err(|errno| self.failed(name, errno.into()))?;
        Ok(crate::text::path_of(target.into_bytes()))
    }

    /// The entries of a subdirectory whose names are numbers.
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

    /// A missing file says nothing about the process: a kernel thread has no program. Each process has `stat`.
    fn failed(&self, name: &str, source: io::Error) -> Error {
        let found = statat(&self.descriptor, "stat", AtFlags::empty());
        Error::new(self.pid, name, source, found.is_err())
    }
}
