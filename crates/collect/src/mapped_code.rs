//! The code that processes map, as the kernel reports it: a perf event on each CPU counts nothing, and has a record
//! for each file mapped as code. The list of a process's mappings is gone at its end, a few milliseconds after its
//! start perhaps, and its samples would have no names.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::libbpf_sys;
use wakepath_event::{Mapping, Tid};

use crate::{rings, sampling};

/// All processes' latest mappings.
pub(crate) struct MappedCode {
    rings: Vec<Ring>,
    made: VecDeque<Made>,
}

/// A file.
pub(crate) type Inode = wakepath_process::FileId;

/// A file that a process mapped as code; the build id is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) mapping: Mapping,
    pub(crate) inode: Inode,
}

/// The most mappings kept, some 150 bytes each: enough for 10 000 short processes.
const MAX_MADE: usize = 65_536;

/// `PERF_RECORD_MMAP2`.
const MMAP2: u32 = 10;

impl MappedCode {
    /// From now on the kernel reports new mappings.
    ///
    /// # Errors
    /// When perf events are not allowed, or a CPU has none.
    pub(crate) fn watch() -> io::Result<Self> {
        let attributes = attributes();
        let ring = |cpu| Ring::new(sampling::event(cpu, &attributes)?);
        let rings = sampling::online_cpus()?.into_iter().map(ring).collect::<io::Result<_>>()?;
        Ok(Self { rings, made: VecDeque::new() })
    }

    /// Takes the reports since the last call, and passes each on to `see`.
    pub(crate) fn take(&mut self, mut see: impl FnMut(&Made)) {
        let Self { rings, made } = self;
        for ring in rings {
            ring.drain(|record| {
                if let Some(one) = decode(record) {
                    see(&one);
                    if made.len() == MAX_MADE {
                        made.pop_front();
                    }
                    made.push_back(one);
                }
            });
        }
    }

    /// A process's mappings, the latest first.
    pub(crate) fn of(&self, tgid: u32) -> impl Iterator<Item = &Made> {
        self.made.iter().rev().filter(move |made| made.mapping.tgid == Tid(tgid))
    }
}

/// An event that counts nothing, and reports files mapped as code.
pub(crate) fn attributes() -> libbpf_sys::perf_event_attr {
    let mut attributes = libbpf_sys::perf_event_attr {
        type_: libbpf_sys::PERF_TYPE_SOFTWARE,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        config: u64::from(libbpf_sys::PERF_COUNT_SW_DUMMY),
        ..Default::default()
    };
    attributes.set_mmap(1);
    attributes.set_mmap2(1);
    attributes.set_watermark(1);
    // No thread is woken: the records are polled.
    attributes.__bindgen_anon_2.wakeup_watermark = u32::MAX;
    attributes
}

/// A record's mapping; `None` unless it is a file's, or the `[vdso]`.
pub(crate) fn decode(record: &[u8]) -> Option<Made> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(*record.get(at..)?.first_chunk()?));
    let u64_at = |at: usize| Some(u64::from_le_bytes(*record.get(at..)?.first_chunk()?));
    if u32_at(0)? != MMAP2 {
        return None;
    }
    let path = record.get(72..)?;
    let path = &path[..path.iter().position(|&b| b == 0)?];
    let is_file = path.starts_with(b"/") && !path.starts_with(b"//");
    if !is_file && path != b"[vdso]" {
        return None;
    }
    let (from, length) = (u64_at(16)?, u64_at(24)?);
    let mapping = Mapping {
        tgid: Tid(u32_at(8)?),
        from,
        to: from.checked_add(length)?,
        offset: u64_at(32)?,
        build_id: Box::default(),
        path: path.into(),
    };
    Some(Made { mapping, inode: (u32_at(40)?, u32_at(44)?, u64_at(48)?) })
}

/// A CPU's records, in memory that the kernel writes.
pub(crate) struct Ring {
    /// The kernel writes while the event is open.
    _event: OwnedFd,
    /// A page with positions, then [`DATA_BYTES`].
    memory: NonNull<u8>,
    page: usize,
    record: Vec<u8>,
}

/// Bytes of records that a CPU keeps until they are taken: more than 1000 mappings.
const DATA_BYTES: usize = 256 << 10;

// SAFETY: the memory is a separate mapping, which belongs to this value alone.
unsafe impl Send for Ring {}

impl Ring {
    pub(crate) fn new(event: OwnedFd) -> io::Result<Self> {
        // SAFETY: takes a plain number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let memory = rings::map(page + DATA_BYTES, libc::MAP_SHARED, event.as_raw_fd())?;
        Ok(Self { _event: event, memory, page, record: Vec::new() })
    }

    /// Passes on each record since the last call.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(&[u8])) {
        let positions = self.memory.cast::<libbpf_sys::perf_event_mmap_page>().as_ptr();
        // SAFETY: the first page holds this structure. The kernel writes the head and reads the tail, both 8 bytes,
        // aligned.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*positions).data_head),
                AtomicU64::from_ptr(&raw mut (*positions).data_tail),
            )
        };
        let (end, mut at) = (head.load(Ordering::Acquire), tail.load(Ordering::Relaxed));
        while end.wrapping_sub(at) >= 8 {
            self.copy(at, 8);
            let size = usize::from(u16::from_le_bytes([self.record[6], self.record[7]]));
            if size < 8 || end.wrapping_sub(at) < size as u64 {
                break;
            }
            self.copy(at, size);
            each(&self.record);
            at += size as u64;
        }
        tail.store(end, Ordering::Release);
    }

    /// Copies `size` bytes from a position on, which may wrap around the end.
    fn copy(&mut self, at: u64, size: usize) {
        let from = (at % DATA_BYTES as u64) as usize;
        let first = size.min(DATA_BYTES - from);
        self.record.clear();
        for (from, length) in [(from, first), (0, size - first)] {
            // SAFETY: the range lies within the mapping, behind its first page; the kernel does not write there
            // before the tail has moved past it.
            let part =
                unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(self.page + from), length) };
            self.record.extend_from_slice(part);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `new`, which nothing else refers to.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.page + DATA_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as the kernel writes it.
    fn record(kind: u32, path: &[u8]) -> Vec<u8> {
        let mut record = Vec::new();
        record.extend(kind.to_le_bytes());
        record.extend([0; 4]);
        record.extend([7u32, 8].map(u32::to_le_bytes).concat());
        record.extend([0x1000u64, 0x2000, 0x3000].map(u64::to_le_bytes).concat());
        record.extend([8u32, 1].map(u32::to_le_bytes).concat());
        record.extend([99u64, 0].map(u64::to_le_bytes).concat());
        record.extend([5u32, 2].map(u32::to_le_bytes).concat());
        record.extend(path);
        record
    }

    #[test]
    fn a_file_that_is_mapped_as_code_is_a_mapping() {
        let made = decode(&record(MMAP2, b"/bin/true\0\0\0")).expect("a mapping");
        assert_eq!((made.mapping.tgid, made.mapping.from, made.mapping.to), (Tid(7), 0x1000, 0x3000));
        assert_eq!((made.mapping.offset, &*made.mapping.path), (0x3000, &b"/bin/true"[..]));
        assert_eq!(made.inode, (8, 1, 99));
        assert!(decode(&record(MMAP2, b"[vdso]\0")).is_some());
        for no_file in [&b"//anon\0"[..], b"[stack]\0", b"anon_inode:x\0", b"/not/ended", b""] {
            assert_eq!(decode(&record(MMAP2, no_file)), None);
        }
        assert_eq!(decode(&record(1, b"/bin/true\0")), None);
        assert_eq!(decode(&record(MMAP2, b"/bin/true\0")[..60]), None);
    }

    #[test]
    fn needs_root_a_process_that_is_gone_has_left_its_mappings() {
        let Ok(mut code) = MappedCode::watch() else {
            eprintln!("skipped: perf events need root; would show that a short process leaves its mappings");
            return;
        };
        let mut child = std::process::Command::new("true").spawn().expect("a program");
        let tgid = child.id();
        child.wait().expect("its end");
        let mut seen = 0;
        code.take(|_| seen += 1);
        assert!(seen >= 3);
        let paths: Vec<_> = code.of(tgid).map(|made| String::from_utf8_lossy(&made.mapping.path)).collect();
        for part in ["/true", "/libc", "[vdso]"] {
            assert!(paths.iter().any(|path| path.contains(part)), "{part}: {paths:?}");
        }
        assert_eq!(code.of(0).count(), 0);
    }
}
