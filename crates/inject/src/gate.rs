//! The kernel's break points at instructions, while the instructions' other bytes are changed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The size of `struct perf_event_attr` with all fields that are written here.
const ATTRIBUTE_BYTES: usize = 112;
/// The size of `union bpf_attr`, as far as it is used.
const BPF_ATTRIBUTE_BYTES: usize = 80;
const BPF_PROG_LOAD: u64 = 5;
const BPF_LINK_CREATE: u64 = 28;
const BPF_PROG_TYPE_KPROBE: u32 = 2;
const BPF_TRACE_UPROBE_MULTI: u32 = 48;
/// `r0 = 0; exit`
const NOTHING: [u64; 2] = [0xb7, 0x95];

/// Break points that stand while this value lives: uprobes that count nothing. A thread that hits a break point
/// executes the instruction from the *file*, whatever the other bytes in memory are.
pub(crate) struct Gate {
    /// Removed in this order; each removal waits for a grace period.
    _held: Vec<OwnedFd>,
}

impl Gate {
    /// Puts break points at places in files, in one process: many at once where the kernel can (Linux 6.6).
    ///
    /// # Errors
    /// When the kernel refuses a break point; then none is set.
    pub fn at<'a>(pid: u32, places: impl Iterator<Item = (&'a Path, u64)>) -> io::Result<Self> {
        let mut files: BTreeMap<&Path, Vec<u64>> = BTreeMap::new();
        for (file, offset) in places {
            files.entry(file).or_default().push(offset);
        }
        let held = match program() {
            Ok(program) => files
                .iter()
                .map(|(file, offsets)| many(&program, pid, file, offsets))
                .collect::<io::Result<Vec<_>>>()?,
            Err(_) => {
                let kind = fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
                let kind: u32 =
                    kind.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
                let each =
                    files.iter().flat_map(|(file, offsets)| offsets.iter().map(move |it| (*file, *it)));
                each.map(|(file, offset)| one(kind, pid, file, offset)).collect::<io::Result<Vec<_>>>()?
            }
        };
        Ok(Self { _held: held })
    }
}

/// Fields of a kernel structure, by offset.
struct Fields<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Fields<BYTES> {
    fn put(mut self, at: usize, value: &[u8]) -> Self {
        self.0[at..at + value.len()].copy_from_slice(value);
        self
    }

    fn number(self, at: usize, value: u32) -> Self {
        self.put(at, &value.to_ne_bytes())
    }

    fn address<T>(self, at: usize, of: *const T) -> Self {
        self.put(at, &(of as u64).to_ne_bytes())
    }
}

/// The descriptor that a system call returned.
fn descriptor(result: i64) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just returned this descriptor, and no other code has it.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

fn bpf(command: u64, fields: &Fields<BPF_ATTRIBUTE_BYTES>) -> io::Result<OwnedFd> {
    // SAFETY: the attribute has the stated size, and the callers keep alive all that it points to.
    descriptor(unsafe { libc::syscall(libc::SYS_bpf, command, fields.0.as_ptr(), BPF_ATTRIBUTE_BYTES) })
}

/// A program without effect, for many places at once.
fn program() -> io::Result<OwnedFd> {
    let license = c"Dual BSD/GPL";
    let fields = Fields([0; BPF_ATTRIBUTE_BYTES])
        .number(0, BPF_PROG_TYPE_KPROBE)
        .number(4, NOTHING.len() as u32)
        .address(8, NOTHING.as_ptr())
        .address(16, license.as_ptr())
        .number(68, BPF_TRACE_UPROBE_MULTI);
    bpf(BPF_PROG_LOAD, &fields)
}

fn many(program: &OwnedFd, pid: u32, file: &Path, offsets: &[u64]) -> io::Result<OwnedFd> {
    let path = ended(file);
    let fields = Fields([0; BPF_ATTRIBUTE_BYTES])
        .number(0, program.as_raw_fd() as u32)
        .number(8, BPF_TRACE_UPROBE_MULTI)
        .address(16, path.as_ptr())
        .address(24, offsets.as_ptr())
        .number(48, offsets.len() as u32)
        .number(56, pid);
    bpf(BPF_LINK_CREATE, &fields)
}

fn one(kind: u32, pid: u32, file: &Path, offset: u64) -> io::Result<OwnedFd> {
    let path = ended(file);
    let fields = Fields([0; ATTRIBUTE_BYTES])
        .number(0, kind)
        .number(4, ATTRIBUTE_BYTES as u32)
        .address(56, path.as_ptr())
        .put(64, &offset.to_ne_bytes());
    let close_at_exec = 8_u64;
    let (attribute, process) = (fields.0.as_ptr(), pid as libc::pid_t);
    // SAFETY: the attribute has the size that it states, and the path lives during the call.
    descriptor(unsafe { libc::syscall(libc::SYS_perf_event_open, attribute, process, -1, -1, close_at_exec) })
}

fn ended(path: &Path) -> Vec<u8> {
    let mut path = path.as_os_str().as_bytes().to_vec();
    path.push(0);
    path
}
