//! Whether stubs may be put into a process, and whether its code equals its files'.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use wakepath_process::Process;

use crate::error::{Error, Refusal};

/// The bit in `AT_HWCAP2`: programs may read their thread pointer.
const HAS_THREAD_POINTER: u64 = 1 << 1;
const AT_HWCAP2: u64 = 26;

/// Refuses a process, before anything is touched.
pub(crate) fn check(process: &Process) -> Result<(), Error> {
    let pid = process.pid();
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = processor.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    if !["constant_tsc", "nonstop_tsc"].iter().all(|flag| flags.split_whitespace().any(|it| it == *flag)) {
        return Err(Refusal::Clock.into());
    }
    let tracer = process.status()?.number("TracerPid").and_then(|tracer| u32::try_from(tracer).ok());
    if let Some(tracer) = tracer.filter(|&tracer| tracer != 0) {
        return Err(Refusal::Traced { pid, tracer }.into());
    }
    let mut head = [0; 5];
    let read = process.exe().is_ok_and(|file| file.read_exact_at(&mut head, 0).is_ok());
    if read && head[4] != 2 {
        return Err(Refusal::Narrow { pid }.into());
    }
    if process.auxiliary(AT_HWCAP2)?.unwrap_or_default() & HAS_THREAD_POINTER == 0 {
        return Err(Refusal::ThreadPointer.into());
    }
    Ok(())
}

/// A process's start time, ticks; `None` without the process.
pub(crate) fn started(pid: u32) -> Option<u64> {
    Some(Process::open(pid).ok()?.stat().ok()?.started)
}

/// Whether the code at a site equals the file's, which the kernel's break point assumes.
pub(crate) fn is_of_file(file: &Path, offset: u64, code: &[u8]) -> bool {
    let mut stated = vec![0; code.len()];
    let read = File::open(file).and_then(|file| file.read_exact_at(&mut stated, offset));
    read.is_ok() && stated == code
}
