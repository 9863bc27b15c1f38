//! The process as `/proc` shows it: whether stubs may be put into it, its mappings, its files.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Refusal};
use crate::maps::{Mapping, mappings};

/// The bit of `AT_HWCAP2` for programs that may read their thread pointer.
const HAS_THREAD_POINTER: u64 = 1 << 1;
const AT_HWCAP2: u64 = 26;

/// The reasons for which a process is refused before anything is touched.
pub(crate) fn check(pid: u32) -> Result<(), Error> {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = processor.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    if !["constant_tsc", "nonstop_tsc"].iter().all(|flag| flags.split_whitespace().any(|it| it == *flag)) {
        return Err(Refusal::Clock.into());
    }
    let ended = |_| Error::Ended { pid };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(ended)?;
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")?.trim().parse().ok());
    if let Some(tracer) = tracer.filter(|&tracer: &u32| tracer != 0) {
        return Err(Refusal::Traced { pid, tracer }.into());
    }
    let mut head = [0; 5];
    let exe = File::open(format!("/proc/{pid}/exe"));
    let read = exe.and_then(|file| file.read_exact_at(&mut head, 0));
    if read.is_ok() && head[4] != 2 {
        return Err(Refusal::Narrow { pid }.into());
    }
    let auxiliary = fs::read(format!("/proc/{pid}/auxv")).map_err(ended)?;
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
    let has =
        auxiliary.chunks_exact(16).find(|pair| word(&pair[..8]) == AT_HWCAP2).map(|pair| word(&pair[8..]));
    if has.unwrap_or_default() & HAS_THREAD_POINTER == 0 {
        return Err(Refusal::ThreadPointer.into());
    }
    Ok(())
}

pub(crate) fn maps(pid: u32) -> Result<Vec<Mapping>, Error> {
    mappings(pid).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::Ended { pid },
        _ => Error::of("the mappings", pid, source),
    })
}

/// The moment at which a process started, ticks; `None` if there is none.
pub(crate) fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// A mapped file, in whatever mount namespace the process is.
pub(crate) fn of_mapping(pid: u32, mapping: &Mapping) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.addresses.start, mapping.addresses.end))
}

/// The code at a site is that of its file, which the kernel's break point takes it for.
pub(crate) fn is_of_file(file: &Path, offset: u64, code: &[u8]) -> bool {
    let mut stated = vec![0; code.len()];
    let read = File::open(file).and_then(|file| file.read_exact_at(&mut stated, offset));
    read.is_ok() && stated == code
}
