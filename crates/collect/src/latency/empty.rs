//! Empty functions in this program, for each kind of probe whose cost is measured.

use std::os::unix::fs::FileExt;
use std::time::Instant;

use wakepath_functions::{Probe, ProbeMethod, Return, Runtime};
use wakepath_process::Process;

/// The properties of a function's probes that determine their cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProbeKind {
    entry: ProbeMethod,
    pub(super) exit: Exit,
    /// The function is Go's, so the goroutine is read.
    pub(super) go: bool,
}

/// The place where a return is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// By a probe in place of the return address.
    ReturnAddress,
    /// At the return instruction, which is single-stepped.
    Instruction,
}

impl ProbeKind {
    /// Whether the kernel single-steps an instruction in each call.
    pub fn is_stepped(self) -> bool {
        self.entry == ProbeMethod::SingleStepped || self.exit == Exit::Instruction
    }

    /// The kind of a function's probes.
    pub(super) fn of(probe: &Probe) -> Self {
        let exit = match probe.returns {
            Return::AtInstructions(_) | Return::AtCallers => Exit::Instruction,
            Return::ReturnProbe | Return::Never => Exit::ReturnAddress,
        };
        Self { entry: probe.method, exit, go: probe.runtime == Runtime::Go }
    }
}

/// An empty function in this program.
pub(crate) struct Empty {
    pub(super) kind: ProbeKind,
    pub(super) code: &'static [u8],
    call: unsafe extern "C" fn(),
    /// The function's offset in this program's file, bytes.
    pub(crate) offset: u64,
}

impl Empty {
    /// The empty function for a kind of probe; `None` if this architecture has none.
    pub(super) fn of(kind: ProbeKind) -> Option<Self> {
        Self::with_code(kind, functions::of(kind)?)
    }

    /// Two functions that begin with a one-byte no-operation, which the kernel emulates, like the places in an
    /// interpreter.
    pub(crate) fn pair() -> Option<[Self; 2]> {
        let kind = ProbeKind { entry: ProbeMethod::Emulated, exit: Exit::ReturnAddress, go: false };
        let [begins, ends] = functions::pair()?.map(|function| Self::with_code(kind, function));
        Some([begins?, ends?])
    }

    fn with_code(kind: ProbeKind, (code, call): (&'static [u8], unsafe extern "C" fn())) -> Option<Self> {
        let offset = offset(call as usize as u64)?;
        let mut there = [0; 16];
        let there = there.get_mut(..code.len())?;
        Process::own().ok()?.exe().ok()?.read_exact_at(there, offset).ok()?;
        // A probe at any other place would do harm, in another file's mapping for instance.
        (there == code).then_some(Self { kind, code, call, offset })
    }

    /// Calls the function.
    pub(crate) fn call(&self) {
        // SAFETY: a function from below, which takes nothing, changes no register that the caller keeps, and returns.
        unsafe { functions::call(self.call, None) };
    }

    /// The time for `calls` calls, ns.
    pub(super) fn round(&self, calls: u64) -> u64 {
        // A goroutine's record begins with its stack bounds, which differ from this stack's.
        let goroutine = [0_u64; 2];
        let began = Instant::now();
        for _ in 0..calls {
            // SAFETY: a function from below, which takes nothing, changes no register that the caller keeps, and
            // returns.
            unsafe { functions::call(self.call, self.kind.go.then_some(&goroutine)) };
        }
        u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The file offset for an address in this process.
fn offset(address: u64) -> Option<u64> {
    Process::own().ok()?.mappings().ok()?.iter().find_map(|mapping| mapping.offset_of(address))
}

#[cfg(target_arch = "x86_64")]
mod functions {
    use super::{Exit, ProbeKind, ProbeMethod};

    // A kind's entry and, where it returns at an instruction, a function without other probes for it. Each begins at
    // a multiple of 16, so that a 5-byte no-operation lies in a single page; none keeps anything below its stack
    // pointer.
    std::arch::global_asm!(
        ".pushsection .text.wakepath_empty, \"ax\", @progbits",
        ".macro wakepath_empty name:req, code:vararg",
        ".p2align 4, 0xcc",
        ".globl \\name",
        ".hidden \\name",
        ".type \\name, @function",
        "\\name: .byte \\code",
        ".size \\name, . - \\name",
        ".endm",
        "wakepath_empty wakepath_empty_nop, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3",
        "wakepath_empty wakepath_empty_nop_leave, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3",
        "wakepath_empty wakepath_empty_nop_go, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3",
        "wakepath_empty wakepath_empty_push, 0x55, 0x5d, 0xc3",
        "wakepath_empty wakepath_empty_push_leave, 0x55, 0x5d, 0xc3",
        "wakepath_empty wakepath_empty_push_go, 0x55, 0x5d, 0xc3",
        "wakepath_empty wakepath_empty_lea, 0x48, 0x8d, 0x47, 0x01, 0xc3",
        "wakepath_empty wakepath_empty_lea_leave, 0x48, 0x8d, 0x47, 0x01, 0xc3",
        "wakepath_empty wakepath_empty_lea_go, 0x48, 0x8d, 0x47, 0x01, 0xc3",
        "wakepath_empty wakepath_empty_begins, 0x90, 0xc3",
        "wakepath_empty wakepath_empty_ends, 0x90, 0xc3",
        ".purgem wakepath_empty",
        ".popsection",
    );

    unsafe extern "C" {
        fn wakepath_empty_nop();
        fn wakepath_empty_nop_leave();
        fn wakepath_empty_nop_go();
        fn wakepath_empty_push();
        fn wakepath_empty_push_leave();
        fn wakepath_empty_push_go();
        fn wakepath_empty_lea();
        fn wakepath_empty_lea_leave();
        fn wakepath_empty_lea_go();
        fn wakepath_empty_begins();
        fn wakepath_empty_ends();
    }

    /// `nopl 0(%rax,%rax)`, `ret`.
    const NOP: &[u8] = &[0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3];
    /// `push %rbp`, `pop %rbp`, `ret`.
    const PUSH: &[u8] = &[0x55, 0x5d, 0xc3];
    /// `lea 1(%rdi),%rax`, `ret`.
    const LEA: &[u8] = &[0x48, 0x8d, 0x47, 0x01, 0xc3];

    /// `nop`, `ret`.
    const NOP1: &[u8] = &[0x90, 0xc3];

    /// Two functions that begin with a one-byte no-operation.
    pub fn pair() -> Option<[(&'static [u8], unsafe extern "C" fn()); 2]> {
        Some([(NOP1, wakepath_empty_begins), (NOP1, wakepath_empty_ends)])
    }

    /// A function's code, whose last byte is the return, and its address.
    pub fn of(kind: ProbeKind) -> Option<(&'static [u8], unsafe extern "C" fn())> {
        Some(match (kind.entry, kind.exit, kind.go) {
            (ProbeMethod::Optimised, Exit::ReturnAddress, false) => (NOP, wakepath_empty_nop),
            (ProbeMethod::Optimised, Exit::Instruction, false) => (NOP, wakepath_empty_nop_leave),
            (ProbeMethod::Optimised, Exit::Instruction, true) => (NOP, wakepath_empty_nop_go),
            (ProbeMethod::Emulated, Exit::ReturnAddress, false) => (PUSH, wakepath_empty_push),
            (ProbeMethod::Emulated, Exit::Instruction, false) => (PUSH, wakepath_empty_push_leave),
            (ProbeMethod::Emulated, Exit::Instruction, true) => (PUSH, wakepath_empty_push_go),
            (ProbeMethod::SingleStepped, Exit::ReturnAddress, false) => (LEA, wakepath_empty_lea),
            (ProbeMethod::SingleStepped, Exit::Instruction, false) => (LEA, wakepath_empty_lea_leave),
            (ProbeMethod::SingleStepped, Exit::Instruction, true) => (LEA, wakepath_empty_lea_go),
            // A Go function's return address is never replaced.
            (_, Exit::ReturnAddress, true) => return None,
        })
    }

    /// Calls a function from above, as the goroutine at this address if given.
    ///
    /// # Safety
    /// `function` is a function from above.
    pub unsafe fn call(function: unsafe extern "C" fn(), goroutine: Option<&[u64; 2]>) {
        match goroutine {
            // SAFETY: by this function's own contract.
            None => unsafe { function() },
            // SAFETY: by this function's own contract; the registers that a function may change by its ABI are
            // listed.
            Some(place) => unsafe {
                std::arch::asm!(
                    "call {function}",
                    function = in(reg) function,
                    in("r14") place.as_ptr(),
                    clobber_abi("C"),
                );
            },
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod functions {
    pub fn of(_: super::ProbeKind) -> Option<(&'static [u8], unsafe extern "C" fn())> {
        None
    }

    pub fn pair() -> Option<[(&'static [u8], unsafe extern "C" fn()); 2]> {
        None
    }

    /// # Safety
    /// Never called: there are no functions.
    pub unsafe fn call(function: unsafe extern "C" fn(), _: Option<&[u64; 2]>) {
        // SAFETY: never called, since there are no functions.
        unsafe { function() };
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_probe_has_an_empty_function_of_its_own_in_this_programs_file() {
        let returns = [(Exit::ReturnAddress, false), (Exit::Instruction, false), (Exit::Instruction, true)];
        let entries = [ProbeMethod::Optimised, ProbeMethod::Emulated, ProbeMethod::SingleStepped];
        let kinds = entries.iter().flat_map(|&entry| returns.map(|(exit, go)| ProbeKind { entry, exit, go }));
        let found: Vec<_> = kinds.map(|kind| Empty::of(kind).expect("it is there")).collect();
        let found: Vec<_> = found.into_iter().chain(Empty::pair().expect("they are there")).collect();
        let mut offsets: Vec<_> = found.iter().map(|empty| empty.offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets.len(), 11);
        for empty in &found {
            assert_eq!(empty.offset % 16, 0, "in one page");
            empty.round(1);
        }
    }

    #[test]
    fn an_address_outside_of_our_code_has_no_offset() {
        assert_eq!(offset(8), None);
    }
}
