//! Predicts how the kernel executes an instruction under a uprobe.
//!
//! A uprobe replaces an instruction's first byte by a breakpoint. When it is hit, the kernel must also do the
//! instruction's work. It does a few itself; the others run out of line with the trap flag set, which costs a second
//! exception, and on a virtual machine often a way through the hypervisor. On a 5-byte no-operation, Linux 6.18 and
//! later put a call instead of a breakpoint. The rules are from Linux 6.18 for 64-bit code
//! (`arch/x86/kernel/uprobes.c`), each tried there: the instructions it refuses, and those that take as long as a
//! single step. Later kernels know more no-operations.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};

/// The longest x86 instruction, bytes.
pub(crate) const MAX_BYTES: usize = 15;

const PAGE: u64 = 4096;

/// The kernel's method to execute a probed instruction, from cheap to dear; times are per hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProbeMethod {
    /// A call replaces a 5-byte no-operation from Linux 6.18 on (0.25 µs where this was measured). On earlier kernels,
    /// and out of the call's reach, it is as [`ProbeMethod::Emulated`].
    Optimised,
    /// A breakpoint, and the kernel does the instruction's work (0.7 µs).
    Emulated,
    /// A breakpoint, and a copy of the instruction is single-stepped (20 µs on a virtual machine).
    SingleStepped,
}

/// An instruction as a uprobe sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probed {
    /// The kernel's method to execute it; `None` if the kernel refuses a probe there.
    pub method: Option<ProbeMethod>,
    /// Its length, bytes.
    pub length: usize,
    /// Whether it is `endbr64`, the landing place of indirect branches.
    pub endbr64: bool,
}

/// Whether a probe may be put on the instruction behind a call: `before` are the bytes up to it, `code` those from it on. A value on a stack
/// that is no return address must not get one: it may lie amid an instruction.
pub fn may_probe_behind_call(before: &[u8], code: &[u8], address: u64) -> bool {
    let is_call = |length: usize| {
        let Some(from) = before.len().checked_sub(length) else { return false };
        decode(&before[from..], address.wrapping_sub(length as u64)).is_some_and(|call| {
            let calls = matches!(call.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
            calls && call.len() == length && !crate::body::is_system_call(&call)
        })
    };
    // A 5-byte no-operation gets a call that pushes onto the stack.
    let method = probed(code, address).and_then(|probed| probed.method);
    (2..=8).any(is_call) && matches!(method, Some(ProbeMethod::Emulated | ProbeMethod::SingleStepped))
}

/// The parts of an instruction that the kernel looks at.
struct Parts<'a> {
    bytes: &'a [u8],
    prefixes: &'a [u8],
    rex: Option<u8>,
    /// From the opcode on.
    rest: &'a [u8],
    vex: bool,
}

impl<'a> Parts<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let legacy = bytes
            .iter()
            .take_while(|byte| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3))
            .count();
        let (prefixes, rest) = bytes.split_at(legacy);
        let (rex, rest) = match rest.first()? {
            rex @ 0x40..=0x4f => (Some(*rex), &rest[1..]),
            _ => (None, rest),
        };
        // The kernel takes the byte after the VEX prefix for the opcode.
        let (vex, rest) = match rest.first()? {
            0xc5 => (true, rest.get(2..)?),
            0xc4 => (true, rest.get(3..)?),
            _ => (false, rest),
        };
        rest.first()?;
        Some(Self { bytes, prefixes, rex, rest, vex })
    }

    /// The no-operations that Linux 6.18 does itself: its own, up to 8 bytes long, and the one-byte opcode with
    /// whatever prefixes.
    fn is_nop(&self) -> bool {
        match (self.vex, self.rest, self.bytes) {
            (true, _, _) => false,
            (_, [0x90, ..], _) => true,
            (_, _, [0x0f, 0x1f, 0x00] | [0x0f, 0x1f, 0x40, 0] | [0x0f, 0x1f, 0x44, 0, 0]) => true,
            (_, _, [0x66, 0x0f, 0x1f, 0x44, 0, 0]) => true,
            (_, _, [0x0f, 0x1f, 0x80, 0, 0, 0, 0] | [0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]) => true,
            _ => false,
        }
    }

    /// The no-operations that Linux 6.18 replaces by a call.
    fn is_nop5(&self) -> bool {
        self.bytes.len() == 5
            && !self.vex
            && matches!(self.rest, [0x90] | [0x0f, 0x1f, 0x00..=0x07 | 0x40..=0x47 | 0x80..=0x87 | 0xc0..=0xc7, ..])
    }

    /// `xchg %r8,%rax` has the opcode of a no-operation, and the kernel takes it for one: probed, it does not exchange.
    fn is_taken_for_nop(&self) -> bool {
        !self.vex && self.rest[0] == 0x90 && self.rex.is_some_and(|rex| rex & 1 != 0)
    }

    fn is_refused(&self) -> bool {
        // Segments that 64-bit code does not need, and bus locks.
        let prefix = self.prefixes.iter().any(|byte| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0xf0));
        let opcode = match self.rest[0] {
            // Not 64-bit code, privileged, a trap; and EVEX.
            0x06 | 0x07 | 0x0e | 0x16 | 0x17 | 0x1e | 0x1f | 0x27 | 0x2f | 0x37 | 0x3f => true,
            0x60..=0x62 | 0x6c..=0x6f | 0x82 | 0x9a | 0xcc..=0xcf | 0xd4..=0xd6 | 0xe4..=0xe7 => true,
            0xea | 0xec..=0xef | 0xf1 | 0xf4 | 0xfa | 0xfb => true,
            // A load of the stack segment holds exceptions back.
            0x8e => self.rest.get(1).is_some_and(|modrm| modrm >> 3 & 7 == 2),
            _ => false,
        };
        let short_branch = self.is_near_branch() && self.prefixes.contains(&0x66);
        prefix || opcode || short_branch || self.is_taken_for_nop()
    }

    fn is_near_branch(&self) -> bool {
        match self.rest {
            _ if self.vex => false,
            [0xe8 | 0xe9 | 0xeb | 0x70..=0x7f, ..] => true,
            [0x0f, 0x80..=0x8f, ..] => true,
            _ => false,
        }
    }

    fn is_push_of_register(&self) -> bool {
        !self.vex
            && matches!(self.rest[0], 0x50..=0x57)
            && (self.bytes.len() == 1 || self.bytes.len() == 2 && self.rex == Some(0x41))
    }

    fn method(&self, address: u64) -> Option<ProbeMethod> {
        if self.is_refused() {
            return None;
        }
        let in_one_page = address % PAGE <= PAGE - 5;
        Some(match () {
            () if self.is_nop5() && in_one_page => ProbeMethod::Optimised,
            () if self.is_nop() || self.is_near_branch() || self.is_push_of_register() => {
                ProbeMethod::Emulated
            }
            () => ProbeMethod::SingleStepped,
        })
    }
}

/// The instruction at the beginning of `code`, which stands at `address`; `None` if there is none.
pub(crate) fn probed(code: &[u8], address: u64) -> Option<Probed> {
    let instruction = decode(code, address)?;
    let parts = Parts::of(&code[..instruction.len()])?;
    Some(Probed {
        method: parts.method(address),
        length: instruction.len(),
        endbr64: instruction.code() == Code::Endbr64,
    })
}

/// Decodes an instruction.
pub(crate) fn decode(code: &[u8], address: u64) -> Option<Instruction> {
    let code = &code[..code.len().min(MAX_BYTES)];
    let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
    (!instruction.is_invalid()).then_some(instruction)
}

#[cfg(test)]
mod tests {
    use super::ProbeMethod::{self, Emulated, Optimised, SingleStepped};
    use super::{may_probe_behind_call, probed};

    #[test]
    fn a_probe_may_be_put_behind_a_call_alone() {
        for (before, code, may) in [
            // call, then add; call through a register, and through memory with the longest form.
            ("90 e8 00 01 00 00", "48 01 d8", true),
            ("ff d0", "48 01 d8", true),
            ("41 ff 94 c7 00 01 00 00", "90", true),
            // A jump, a system call, and no instruction's end.
            ("90 e9 00 01 00 00", "48 01 d8", false),
            ("0f 05", "48 01 d8", false),
            ("e8 00 01 00 00 55", "48 01 d8", false),
            ("", "48 01 d8", false),
            // A no-operation that gets a call, another program's breakpoint, and nothing.
            ("ff d0", "0f 1f 44 00 00", false),
            ("ff d0", "cc", false),
            ("ff d0", "", false),
        ] {
            assert_eq!(may_probe_behind_call(&bytes(before), &bytes(code), 0x1000), may, "{before} {code}");
        }
    }

    fn bytes(hex: &str) -> Vec<u8> {
        hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    }

    const CASES: &[(&str, &str, Option<ProbeMethod>)] = &[
        ("push %rbp", "55", Some(Emulated)),
        ("push %r12", "41 54", Some(Emulated)),
        ("push %rbp, with a prefix too many", "48 55", Some(SingleStepped)),
        ("nop", "90", Some(Emulated)),
        ("nop of 2 bytes", "66 90", Some(Emulated)),
        ("pause", "f3 90", Some(Emulated)),
        ("xchg %r8,%rax, which would be skipped", "49 90", None),
        ("nop, with a prefix too many", "48 90", Some(Emulated)),
        ("nop of 4 bytes", "0f 1f 40 00", Some(Emulated)),
        ("nop of 5 bytes", "0f 1f 44 00 00", Some(Optimised)),
        ("nop of 5 bytes, another", "66 0f 1f 40 00", Some(Optimised)),
        ("nop of 6 bytes", "66 0f 1f 44 00 00", Some(Emulated)),
        ("nop with a segment", "66 2e 0f 1f 84 00 00 00 00 00", None),
        ("nop of 5 bytes, of prefixes", "66 66 66 66 90", Some(Optimised)),
        ("nop of 4 bytes, an unusual one", "0f 1f 04 00", Some(SingleStepped)),
        ("nop of 5 bytes that is none for the kernel", "0f 1f 4c 00 00", Some(SingleStepped)),
        ("nop of 8 bytes", "0f 1f 84 00 00 00 00 00", Some(Emulated)),
        ("nop of 9 bytes", "66 0f 1f 84 00 00 00 00 00", Some(SingleStepped)),
        ("jmp to the next, 5 bytes", "e9 00 00 00 00", Some(Emulated)),
        ("lea 0(%rsp),%rsp", "48 8d 64 24 00", Some(SingleStepped)),
        ("lea 8(%rsp),%rsp", "48 8d 64 24 08", Some(SingleStepped)),
        ("mov %rax,%rax", "48 89 c0", Some(SingleStepped)),
        ("mov %rsp,%rbp", "48 89 e5", Some(SingleStepped)),
        ("call", "e8 01 00 00 00", Some(Emulated)),
        ("callw", "66 e8 01 00 00 00", None),
        ("jmp", "e9 01 00 00 00", Some(Emulated)),
        ("je", "74 05", Some(Emulated)),
        ("je near", "0f 84 01 00 00 00", Some(Emulated)),
        ("jmp *%rax", "ff e0", Some(SingleStepped)),
        ("jmp *x(%rip), of a procedure linkage table", "ff 25 00 00 00 00", Some(SingleStepped)),
        ("bnd jmp", "f2 e9 01 00 00 00", Some(Emulated)),
        ("endbr64", "f3 0f 1e fa", Some(SingleStepped)),
        ("sub $8,%rsp", "48 83 ec 08", Some(SingleStepped)),
        ("lea 8(%rdi),%rax", "48 8d 47 08", Some(SingleStepped)),
        ("test %rdi,%rdi", "48 85 ff", Some(SingleStepped)),
        ("xor %eax,%eax", "31 c0", Some(SingleStepped)),
        ("mov %fs:0,%rax", "64 48 8b 04 25 00 00 00 00", Some(SingleStepped)),
        ("ret", "c3", Some(SingleStepped)),
        ("lock incl (%rdi)", "f0 ff 07", None),
        ("int3", "cc", None),
        ("hlt", "f4", None),
        ("vzeroupper", "c5 f8 77", Some(SingleStepped)),
        ("vpxor %xmm0,%xmm0,%xmm0, whose opcode is no push", "c5 f9 ef c0", None),
        ("vmovdqu (%rdi),%ymm0, whose opcode reads like outsl", "c5 fe 6f 07", None),
        ("vsqrtps %xmm0,%xmm1, whose opcode reads like push", "c5 f8 51 c8", Some(SingleStepped)),
        ("kmovw %k1,%k0, whose opcode reads like nop", "c5 f8 90 c1", Some(SingleStepped)),
        ("vmovhps (%rdi),%xmm0,%xmm0, whose opcode reads like push %ss", "c5 f8 16 07", None),
        ("vmovdqu (%rdi),%ymm0 by the longer prefix", "c4 e1 7e 6f 07", None),
        ("vsqrtps by the longer prefix", "c4 e1 78 51 c8", Some(SingleStepped)),
        ("mov %eax,%ss, which holds exceptions back", "8e d0", None),
        ("mov (%rax),%ss", "8e 10", None),
        ("mov %eax,%ds", "8e d8", Some(SingleStepped)),
        ("mov %eax,%es", "8e c0", Some(SingleStepped)),
        ("evex vmovdqu64", "62 f1 fe 48 6f 07", None),
    ];

    #[test]
    fn the_method_is_what_the_kernel_does_with_the_instruction() {
        for (what, hex, method) in CASES {
            let code = bytes(hex);
            let found = probed(&code, 0x1000).unwrap_or_else(|| panic!("{what} is not decoded"));
            assert_eq!((found.method, found.length), (*method, code.len()), "{what}");
            assert_eq!(found.endbr64, *what == "endbr64", "{what}");
        }
    }

    #[test]
    fn a_call_is_not_written_across_a_page() {
        let nop5 = bytes("0f 1f 44 00 00");
        for (address, method) in
            [(0x1ffb, Optimised), (0x1ffc, Emulated), (0x1fff, Emulated), (0x2000, Optimised)]
        {
            assert_eq!(probed(&nop5, address).unwrap().method, Some(method), "{address:#x}");
        }
    }

    #[test]
    fn bytes_that_are_no_instruction_are_none() {
        for hex in ["", "0f", "48", "06", "0f 1f", "c4 e2"] {
            assert_eq!(probed(&bytes(hex), 0), None, "{hex}");
        }
    }
}
