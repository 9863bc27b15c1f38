//! Probes on functions of the kernel: `bpf/kernel_function.bpf.h`.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;
use libbpf_rs::{Object, OpenObject, libbpf_sys};

use crate::Error;
use crate::probes::NEVER;
use crate::programs::{into_io, recursion_misses};

/// The kernel's own function to try such programs on: it does nothing, and nobody else calls it.
pub(crate) const TRIED: &str = "bpf_fentry_test1";

/// The programs that each function gets a copy of.
const PROGRAMS: [&str; 2] = ["kernel_leave", "kernel_enter"];

/// A function of the kernel of which calls are seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFunction {
    /// Its name, as the kernel's type information has it.
    pub name: String,
    /// It ends a thread, or never comes back for other reasons: only that it is called is seen.
    pub never_returns: bool,
}

/// The functions in the kernel's type information, with their numbers there.
#[derive(Debug)]
pub struct KernelTypes(HashMap<String, u32>);

impl KernelTypes {
    /// # Errors
    /// When the kernel has none, or it may not be read.
    pub fn read() -> Result<Self, Error> {
        let types = Btf::from_vmlinux().map_err(|source| Error::NoBtf { source: into_io(source) })?;
        let functions = (1..types.len() as u32).filter_map(|number| {
            let function = types.type_by_id::<Func<'_>>(number.into())?;
            Some((function.name()?.to_str()?.to_owned(), number))
        });
        Ok(Self(functions.collect()))
    }

    /// Whether it tells what that function takes, without which no probe can stand there.
    pub fn describes(&self, function: &str) -> bool {
        self.0.contains_key(function)
    }
}

/// Sets what is to be loaded: the programs themselves are for a function that nobody calls.
pub(crate) fn prepare(object: &mut OpenObject) -> Result<(), Error> {
    for mut program in object.progs_mut().filter(|program| PROGRAMS.iter().any(|of| program.name() == *of)) {
        let set = program.set_attach_target(0, Some(TRIED.into()));
        set.map_err(|source| Error::Load { source: into_io(source) })?;
    }
    Ok(())
}

/// A copy of a program for one function.
struct Copy {
    target: u32,
    returns: bool,
    /// As long as it is attached.
    link: Option<OwnedFd>,
    program: OwnedFd,
}

/// Probes on functions of the kernel, until they are detached or dropped.
#[derive(Default)]
pub(crate) struct KernelProbes(Vec<Copy>);

impl KernelProbes {
    /// Puts probes on one target. Returns first: one without its entry is left alone, an entry without
    /// its return is not.
    pub fn attach(
        &mut self,
        object: &Object,
        types: &KernelTypes,
        target: u32,
        function: &KernelFunction,
    ) -> Result<(), Error> {
        let failed = |source| Error::KernelProbe { name: function.name.clone(), source };
        let number = types.0.get(&function.name).copied();
        let number = number.ok_or_else(|| failed(io::Error::other("its type is not known")))?;
        let never = if function.never_returns { NEVER } else { 0 };
        for program in PROGRAMS {
            let returns = program == "kernel_leave";
            if returns && function.never_returns {
                continue;
            }
            let program = object.progs().find(|found| found.name() == program);
            let program = program.ok_or(Error::Skeleton("no program for functions of the kernel"))?;
            let kind = if returns { libbpf_sys::BPF_TRACE_FEXIT } else { libbpf_sys::BPF_TRACE_FENTRY };
            let name = program.name().as_encoded_bytes();
            let program = load(program.insns(), name, kind, number).map_err(failed)?;
            let link = Some(link(program.as_fd(), kind, u64::from(target) | never).map_err(failed)?);
            self.0.push(Copy { target, returns, link, program });
        }
        Ok(())
    }

    /// Takes them away, what was attached last first.
    pub fn detach(&mut self) {
        self.0.iter_mut().rev().for_each(|copy| copy.link = None);
    }

    /// How many calls of the targets that are meant nobody knows when they began or returned, where so many
    /// are known to have `returned` unseen: with those whose entry the kernel skipped. It also says how
    /// often it skipped a return, which may be of the same calls.
    pub fn unseen(&self, is_meant: impl Fn(u32) -> bool, returned: u64) -> u64 {
        let skipped = |returns| -> u64 {
            let copies = self.0.iter().filter(|copy| is_meant(copy.target) && copy.returns == returns);
            copies.map(|copy| recursion_misses(copy.program.as_fd())).sum()
        };
        skipped(false) + skipped(true).max(returned)
    }

    /// How often the kernel skipped a program, since it already ran on that CPU.
    pub fn skipped(&self) -> u64 {
        self.0.iter().map(|copy| recursion_misses(copy.program.as_fd())).sum()
    }
}

fn owned(descriptor: libc::c_int) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::from_raw_os_error(-descriptor));
    }
    // SAFETY: just opened, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Loads a loaded program once more, for the function with this number in the kernel's types.
fn load(
    instructions: &[libbpf_sys::bpf_insn],
    name: &[u8],
    kind: libbpf_sys::bpf_attach_type,
    function: u32,
) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
        expected_attach_type: kind,
        attach_btf_id: function,
        ..Default::default()
    };
    // SAFETY: names that are NUL-terminated, so many instructions as there are, options of the size that
    // they state, which outlive the call.
    owned(unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_TRACING,
            name.as_ptr(),
            c"Dual BSD/GPL".as_ptr(),
            instructions.as_ptr(),
            instructions.len() as libbpf_sys::size_t,
            &raw mut options,
        )
    })
}

fn link(program: BorrowedFd<'_>, kind: libbpf_sys::bpf_attach_type, cookie: u64) -> io::Result<OwnedFd> {
    let mut options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    options.__bindgen_anon_1.tracing.cookie = cookie;
    // SAFETY: a program of that kind, and options of the size that they state, which outlive the call.
    owned(unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), 0, kind, &raw const options) })
}

/// Has the kernel call what it tries such programs on, [`TRIED`] among others: once each.
pub(crate) fn call_tried(object: &Object) -> io::Result<()> {
    let program = object.progs().find(|found| found.name() == PROGRAMS[1]);
    let program = program.ok_or_else(|| io::Error::other("no program for functions of the kernel"))?;
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    // SAFETY: a loaded program, and options of the size that they state, which outlive the call.
    let failed = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_fd().as_raw_fd(), &raw mut options) };
    if failed < 0 { Err(io::Error::from_raw_os_error(-failed)) } else { Ok(()) }
}
