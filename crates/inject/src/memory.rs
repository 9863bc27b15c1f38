//! Reads and writes the memory of a process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::error::Error;

/// The memory of a process, through `/proc/PID/mem`: the kernel lets a debugger write code that the process itself may only
/// execute, into a copy of the page that is the process's own.
#[derive(Debug)]
pub(crate) struct Memory {
    pid: u32,
    file: File,
}

impl Memory {
    pub fn open(pid: u32) -> Result<Self, Error> {
        let file = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"));
        match file {
            Ok(file) => Ok(Self { pid, file }),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Err(Error::Ended { pid }),
            Err(source) => Err(Error::of("the memory", pid, source)),
        }
    }

    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Error> {
        self.file.read_exact_at(into, at).map_err(|source| self.failed("reading the memory", source))
    }

    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all_at(bytes, at).map_err(|source| self.failed("writing the memory", source))
    }

    pub fn word(&self, at: u64) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub fn set_word(&self, at: u64, value: u64) -> Result<(), Error> {
        self.write(at, &value.to_le_bytes())
    }

    /// The memory of a process that has ended is empty.
    fn failed(&self, what: &'static str, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::WriteZero => Error::Ended { pid: self.pid },
            _ => Error::of(what, self.pid, source),
        }
    }
}
