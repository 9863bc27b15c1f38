//! Probes on kernel functions: `bpf/kernel_function.bpf.h`.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::btf::types::Func;
use libbpf_rs::{Object, OpenObject, libbpf_sys};

use crate::error::Error;
use crate::libbpf::{kernel_types, load_error, owned, program, program_info};
use crate::probes::NEVER;

/// The kernel's own function for testing such programs: it does nothing, and nothing else calls it.
const TEST_FUNCTION: &str = "bpf_fentry_test1";

/// The programs copied for each function.
const PROGRAMS: [&str; 2] = ["kernel_leave", "kernel_enter"];

/// A kernel function whose calls are seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFunction {
    /// The name, as in the kernel's type information.
    pub name: String,
    /// The function never returns, since it ends a thread or for other reasons: only a call's beginning is seen.
    pub never_returns: bool,
}

impl KernelFunction {
    /// The kernel's test function for such programs.
    pub(crate) fn for_tests() -> Self {
        Self { name: TEST_FUNCTION.into(), never_returns: false }
    }
}

/// The functions in the kernel's type information, with their numbers there.
#[derive(Debug)]
pub struct KernelTypes(HashMap<String, u32>);

impl KernelTypes {
    /// Reads the functions.
    ///
    /// # Errors
    /// When the kernel has no type information, or it may not be read.
    pub fn read() -> Result<Self, Error> {
        let types = kernel_types()?;
        let functions = (1..types.len() as u32).filter_map(|number| {
            let function = types.type_by_id::<Func<'_>>(number.into())?;
            Some((function.name()?.to_str()?.to_owned(), number))
        });
        Ok(Self(functions.collect()))
    }

    /// Whether a function's parameters are described; without them it cannot be probed.
    pub fn describes(&self, function: &str) -> bool {
        self.0.contains_key(function)
    }
}

/// Makes the programs loadable: their originals belong to a function that nothing calls.
pub(crate) fn prepare(object: &mut OpenObject) -> Result<(), Error> {
    for mut program in
        object.progs_mut().filter(|program| PROGRAMS.iter().any(|name| program.name() == *name))
    {
        program.set_attach_target(0, Some(TEST_FUNCTION.into())).map_err(load_error)?;
    }
    Ok(())
}

/// A program's copy for a function.
struct Copy {
    target: u32,
    returns: bool,
    /// `None` once the copy is detached.
    link: Option<OwnedFd>,
    program: OwnedFd,
}

/// Probes on kernel functions, until they are detached or dropped.
#[derive(Default)]
pub(crate) struct KernelProbes(Vec<Copy>);

impl KernelProbes {
    /// Puts probes on a target. Returns are probed first: a return without its entry is ignored, an entry without its
    /// return is not.
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
        for name in PROGRAMS {
            let returns = name == "kernel_leave";
            if returns && function.never_returns {
                continue;
            }
            let program = program(object, name)?;
            let kind = if returns { libbpf_sys::BPF_TRACE_FEXIT } else { libbpf_sys::BPF_TRACE_FENTRY };
            let program = load(program.insns(), name, kind, number).map_err(failed)?;
            let link = Some(link(program.as_fd(), kind, u64::from(target) | never).map_err(failed)?);
            self.0.push(Copy { target, returns, link, program });
        }
        Ok(())
    }

    /// Detaches the probes in reverse order.
    pub fn detach(&mut self) {
        self.0.iter_mut().rev().for_each(|copy| copy.link = None);
    }

    /// The number of calls of some targets whose beginning or return was missed: the skipped entries, and the skipped
    /// returns or, if larger, the missed returns counted by the programs (`returned`), since both may concern the
    /// same calls.
    pub fn unseen(&self, is_asked: impl Fn(u32) -> bool, returned: u64) -> u64 {
        let skipped = |returns| -> u64 {
            let copies = self.0.iter().filter(|copy| is_asked(copy.target) && copy.returns == returns);
            copies.map(|copy| program_info(copy.program.as_fd()).recursion_misses).sum()
        };
        skipped(false) + skipped(true).max(returned)
    }

    /// The number of runs that the kernel skipped because the program was already running on the CPU.
    pub fn skipped(&self) -> u64 {
        self.0.iter().map(|copy| program_info(copy.program.as_fd()).recursion_misses).sum()
    }
}

/// Loads another copy of a program, for the function with this number in the kernel's types.
fn load(
    instructions: &[libbpf_sys::bpf_insn],
    name: &str,
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
    // SAFETY: NUL-terminated names, the length of the live instructions, and options with their stated size, which
    // outlive the call.
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
    // SAFETY: a program with this attach type, and options with their stated size, which outlive the call.
    owned(unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), 0, kind, &raw const options) })
}

/// Makes the kernel call each of its test functions once, these programs' function included.
pub(crate) fn call_test_functions(object: &Object) -> io::Result<()> {
    let program = program(object, PROGRAMS[1]).map_err(io::Error::other)?;
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    // SAFETY: a loaded program, and options with their stated size, which outlive the call.
    let failed = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_fd().as_raw_fd(), &raw mut options) };
    if failed < 0 { Err(io::Error::from_raw_os_error(-failed)) } else { Ok(()) }
}
