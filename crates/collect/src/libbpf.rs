//! libbpf calls for several sessions: finding and running programs, reading maps, errors.

use std::ffi::CString;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::btf::types::Enum;
use libbpf_rs::btf::{Btf, BtfKind};
use libbpf_rs::{AsRawLibbpf, Iter, IterOpts, MapCore, MapFlags, Object, Program, ProgramMut, libbpf_sys};

use crate::error::Error;

/// A libbpf-rs error with the kind that callers test for.
pub(crate) fn into_io(error: libbpf_rs::Error) -> io::Error {
    let kind = match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
        libbpf_rs::ErrorKind::OutOfMemory => io::ErrorKind::OutOfMemory,
        libbpf_rs::ErrorKind::NotFound => io::ErrorKind::NotFound,
        _ => io::ErrorKind::Other,
    };
    // With the kernel's message below it.
    io::Error::new(kind, format!("{error:#}"))
}

/// [`Error::Load`] with a libbpf-rs error.
pub(crate) fn load_error(source: libbpf_rs::Error) -> Error {
    Error::Load { source: into_io(source) }
}

/// Stops libbpf from printing to stderr: our returned errors hold the cause.
pub(crate) fn silence() {
    libbpf_rs::set_print(None);
}

/// The running kernel's type information.
///
/// # Errors
/// When the kernel was built without them, or they may not be read.
pub(crate) fn kernel_types() -> Result<Btf<'static>, Error> {
    Btf::from_vmlinux().map_err(|source| Error::NoBtf { source: into_io(source) })
}

/// Whether the kernel has a tracepoint with this name.
pub(crate) fn has_tracepoint(kernel: &Btf<'_>, name: &str) -> bool {
    has(kernel, &format!("btf_trace_{name}"), BtfKind::Typedef)
}

/// Whether the kernel has a function with this name that BPF programs can name.
pub(crate) fn has_function(kernel: &Btf<'_>, name: &str) -> bool {
    has(kernel, name, BtfKind::Func)
}

/// Whether a type with this kind and name exists. libbpf compares the names in this kind alone, and finds it behind an
/// equal name in another.
fn has(kernel: &Btf<'_>, name: &str, kind: BtfKind) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: a live object, and a NUL-terminated name.
    unsafe {
        libbpf_sys::btf__find_by_name_kind(kernel.as_libbpf_object().as_ptr(), name.as_ptr(), kind as u32) > 0
    }
}

/// Whether the kernel has a BPF helper with this name (`BPF_FUNC_loop`).
pub(crate) fn has_helper(kernel: &Btf<'_>, name: &str) -> bool {
    let helpers = kernel.type_by_name::<Enum<'_>>("bpf_func_id");
    helpers.is_some_and(|helpers| helpers.iter().any(|helper| helper.name.is_some_and(|it| it == name)))
}

/// Whether the kernel attaches a program to many places in a process at once, for all its threads. Before Linux 6.10
/// this worked for a single thread; a kernel with the tested feature (6.13) is newer.
pub(crate) fn has_uprobe_sessions(kernel: &Btf<'_>) -> bool {
    let kinds = kernel.type_by_name::<Enum<'_>>("bpf_attach_type");
    kinds.is_some_and(|kinds| {
        kinds.iter().any(|kind| kind.name.is_some_and(|it| it == "BPF_TRACE_UPROBE_SESSION"))
    })
}

/// The program with this name.
pub(crate) fn program<'a>(object: &'a Object, name: &'static str) -> Result<Program<'a>, Error> {
    object.progs().find(|program| program.name() == name).ok_or(Error::Skeleton(name))
}

/// The same, to be attached.
pub(crate) fn program_mut<'a>(object: &'a Object, name: &'static str) -> Result<ProgramMut<'a>, Error> {
    object.progs_mut().find(|program| program.name() == name).ok_or(Error::Skeleton(name))
}

/// Runs an iterator program once, and returns what it wrote.
pub(crate) fn run_iterator(object: &Object, name: &'static str) -> io::Result<Vec<u8>> {
    let program = program_mut(object, name).map_err(io::Error::other)?;
    let link = program.attach_iter_with_opts(IterOpts::None).map_err(into_io)?;
    let mut written = Vec::new();
    Iter::new(&link).map_err(into_io)?.read_to_end(&mut written)?;
    Ok(written)
}

/// A 64-bit word at a byte offset in a value; 0 where the value is too short.
pub(crate) fn word(value: &[u8], at: usize) -> u64 {
    value.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_ne_bytes(*word))
}

/// A per-CPU map entry's values, by CPU; empty without such an entry.
pub(crate) fn per_cpu(map: &impl MapCore, entry: u32) -> Result<Vec<Vec<u8>>, libbpf_rs::Error> {
    Ok(map.lookup_percpu(&entry.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default())
}

/// The sum over all CPUs for a counter in a per-CPU map.
pub(crate) fn sum_per_cpu(map: &impl MapCore, entry: u32) -> Result<u64, libbpf_rs::Error> {
    Ok(per_cpu(map, entry)?.iter().map(|value| word(value, 0)).sum())
}

/// The kernel's counts for a program, all 0 where it does not give them: the runs skipped because the program was
/// already running on the CPU (`recursion_misses`); while statistics are on, the runs and their time.
pub(crate) fn program_info(program: BorrowedFd<'_>) -> libbpf_sys::bpf_prog_info {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: `info` is plain data with `len` bytes that the call fills; its array fields are zero, which asks for
    // none of them.
    let failed = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(program.as_raw_fd(), (&raw mut info).cast(), &raw mut len)
    };
    if failed == 0 { info } else { libbpf_sys::bpf_prog_info::default() }
}

/// Takes ownership of a descriptor returned by libbpf; a negative value is an error number.
pub(crate) fn owned(descriptor: libc::c_int) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(-descriptor));
    }
    // SAFETY: just opened, and owned by nothing else.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
