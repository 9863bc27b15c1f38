//! The places in a function's code where it calls others.

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use crate::body::{Body, is_system_call};

/// The number of instructions before a jump in which to find the computation of its target.
const MAX_RUN: usize = 8;

/// A place where a function calls another function, or jumps to it in place of a call and a return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSite {
    /// The instruction's address in the file.
    pub address: u64,
    /// The return address; `None` for a jump (a tail call), behind which nothing in the caller runs.
    pub returns_to: Option<u64>,
    /// The called function.
    pub callee: Callee,
}

/// The function that a site calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callee {
    /// The code at this address in the same file.
    At(u64),
    /// The function whose address stands in memory at this address in the same file.
    Slot(u64),
    /// The function whose address the program computes: a pointer, a virtual function.
    Computed(Operand),
}

/// The place of a function's address when an instruction calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The register that holds it or is part of its place, as x86 numbers them (0 `rax`, 1 `rcx`, …, 4 `rsp`, …, 15
    /// `r15`).
    pub base: Option<u8>,
    /// A register multiplied by `scale` and added to the place.
    pub index: Option<u8>,
    /// 1, 2, 4 or 8.
    pub scale: u8,
    /// Bytes added to the place.
    pub displacement: u64,
    /// Whether the address stands in memory at the place; else the base register holds it.
    pub in_memory: bool,
}

/// The calls in a function's code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sites {
    /// By address within each part of the function.
    pub sites: Vec<CallSite>,
    /// Whether every byte of the function was decoded.
    pub whole: bool,
    /// The number of jumps by `switch` tables, which stay inside.
    pub computed_jumps: usize,
    /// The addresses of system call instructions, and the addresses behind them.
    pub system_calls: Vec<(u64, u64)>,
}

impl Sites {
    pub(crate) fn of(body: &Body) -> Self {
        let mut found = Self { whole: body.whole, ..Self::default() };
        for (place, instruction) in body.instructions().iter().enumerate() {
            if is_system_call(instruction) {
                found.system_calls.push((instruction.ip(), instruction.next_ip()));
            }
            match site(instruction, body, place) {
                Some(site) => found.sites.push(site),
                None if instruction.flow_control() == FlowControl::IndirectBranch => {
                    found.computed_jumps += 1;
                }
                None => {}
            }
        }
        found
    }
}

fn site(instruction: &Instruction, body: &Body, place: usize) -> Option<CallSite> {
    let behind = Some(instruction.next_ip());
    let (returns_to, callee) = match instruction.flow_control() {
        FlowControl::Call if is_system_call(instruction) => return None,
        FlowControl::Call => {
            let target = instruction.near_branch_target();
            // A `call` to the next instruction only reads its own address.
            if target == instruction.next_ip() {
                return None;
            }
            (behind, Callee::At(target))
        }
        FlowControl::IndirectCall if is_system_call(instruction) => return None,
        FlowControl::IndirectCall if instruction.is_ip_rel_memory_operand() => {
            (behind, Callee::Slot(instruction.ip_rel_memory_address()))
        }
        FlowControl::IndirectCall => (behind, Callee::Computed(operand(instruction)?)),
        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
            let target = instruction.near_branch_target();
            if !body.leaves.contains(&target) {
                return None;
            }
            (None, Callee::At(target))
        }
        FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
            (None, Callee::Slot(instruction.ip_rel_memory_address()))
        }
        FlowControl::IndirectBranch if !is_by_table(&body.instructions()[..=place]) => {
            (None, Callee::Computed(operand(instruction)?))
        }
        _ => return None,
    };
    Some(CallSite { address: instruction.ip(), returns_to, callee })
}

/// Whether the last instruction, a jump to a computed place, takes its target from a `switch` table, and not from a
/// function pointer: an index chooses it, a distance is added to the table's place, or the compiler marked it
/// (`notrack`).
fn is_by_table(instructions: &[Instruction]) -> bool {
    let Some((jump, before)) = instructions.split_last() else { return false };
    // Compilers that mark permitted jump targets write the prefix of `ds` there.
    if jump.segment_prefix() == Register::DS || jump.memory_index() != Register::None {
        return true;
    }
    if jump.op0_kind() != OpKind::Register {
        return false;
    }
    let mut factory = InstructionInfoFactory::new();
    let mut writes = |instruction: &Instruction| {
        factory.info(instruction).used_registers().iter().any(|used| {
            used.register().full_register() == jump.op0_register()
                && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
        })
    };
    // Compilers compute it right before, in a single run of instructions.
    let run = before.iter().rev().take_while(|it| it.flow_control() == FlowControl::Next).take(MAX_RUN);
    run.into_iter().find(|it| writes(it)).is_some_and(|it| {
        matches!(it.mnemonic(), Mnemonic::Add | Mnemonic::Sub) || it.memory_index() != Register::None
    })
}

/// An indirect call's operand; `None` if it depends on more than registers and memory.
pub(crate) fn operand(instruction: &Instruction) -> Option<Operand> {
    let number = |register: Register| {
        (register != Register::None && register.is_gpr64()).then(|| register.number() as u8)
    };
    if instruction.op0_kind() == OpKind::Register {
        let base = number(instruction.op0_register())?;
        return Some(Operand { base: Some(base), index: None, scale: 1, displacement: 0, in_memory: false });
    }
    // A place relative to `%fs` differs by thread.
    let is_plain = !matches!(instruction.memory_segment(), Register::FS | Register::GS);
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    let is_read = |register: Register| register == Register::None || register.is_gpr64();
    (is_plain && is_read(base) && is_read(index)).then(|| Operand {
        base: number(base),
        index: number(index),
        scale: instruction.memory_index_scale() as u8,
        displacement: instruction.memory_displacement64(),
        in_memory: true,
    })
}

/// The place in memory from which code that only passes a call on (an entry in a procedure linkage table) takes its
/// target; `code` begins at `address`.
pub(crate) fn passed_on_by(code: &[u8], address: u64) -> Option<u64> {
    let mut at = 0;
    // `endbr64` may come before the jump.
    for _ in 0..2 {
        let instruction = crate::instruction::decode(code.get(at..)?, address.checked_add(at as u64)?)?;
        match instruction.flow_control() {
            FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
                return Some(instruction.ip_rel_memory_address());
            }
            FlowControl::Next if instruction.code() == iced_x86::Code::Endbr64 => {}
            _ => return None,
        }
        at += instruction.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites(code: &[u8]) -> Sites {
        Sites::of(&Body::of(&[(0x1000, code.to_vec())], true))
    }

    #[test]
    fn each_kind_of_call_is_found_with_its_callee() {
        let register =
            |base| Operand { base: Some(base), index: None, scale: 1, displacement: 0, in_memory: false };
        let memory =
            |base, index, scale, displacement| Operand { base, index, scale, displacement, in_memory: true };
        for (what, code, returns, callee) in [
            ("call rel32", &[0xe8, 0, 1, 0, 0][..], true, Callee::At(0x1105)),
            ("call *x(%rip)", &[0xff, 0x15, 0, 1, 0, 0], true, Callee::Slot(0x1106)),
            ("call *%rax", &[0xff, 0xd0], true, Callee::Computed(register(0))),
            ("call *%r12", &[0x41, 0xff, 0xd4], true, Callee::Computed(register(12))),
            ("call *0x18(%rax)", &[0xff, 0x50, 0x18], true, Callee::Computed(memory(Some(0), None, 1, 0x18))),
            (
                "call *-8(%rbp,%rcx,8)",
                &[0xff, 0x54, 0xcd, 0xf8],
                true,
                Callee::Computed(memory(Some(5), Some(1), 8, 8_u64.wrapping_neg())),
            ),
            ("jmp out", &[0xe9, 0, 1, 0, 0], false, Callee::At(0x1105)),
            ("je out", &[0x0f, 0x84, 0, 1, 0, 0], false, Callee::At(0x1106)),
            ("jmp *x(%rip)", &[0xff, 0x25, 0, 1, 0, 0], false, Callee::Slot(0x1106)),
            ("jmp *%rsi", &[0xff, 0xe6], false, Callee::Computed(register(6))),
            ("jmp *0x28(%rax)", &[0xff, 0x60, 0x28], false, Callee::Computed(memory(Some(0), None, 1, 0x28))),
        ] {
            let returns_to = returns.then_some(0x1000 + code.len() as u64);
            let expected = CallSite { address: 0x1000, returns_to, callee };
            assert_eq!(sites(code).sites, [expected], "{what}");
        }
    }

    #[test]
    fn a_jump_by_a_pointer_is_a_call_and_a_jump_by_a_table_is_none() {
        for (before, is_call) in [
            // mov 0x10(%rdi),%rax; a vtable, or a pointer in a structure.
            (&[0x48, 0x8b, 0x47, 0x10][..], true),
            // mov %rsi,%rax
            (&[0x48, 0x89, 0xf0], true),
            // mov 0(,%rdx,8),%rax; a table of addresses.
            (&[0x48, 0x8b, 0x04, 0xd5, 0, 0, 0, 0], false),
            // movslq (%rcx,%rdx,4),%rax; add %rcx,%rax; a table of distances.
            (&[0x48, 0x63, 0x04, 0x91, 0x48, 0x01, 0xc8], false),
            // The same, and lea 1(%rdx),%rcx behind it.
            (&[0x48, 0x63, 0x04, 0x91, 0x48, 0x01, 0xc8, 0x48, 0x8d, 0x4a, 1], false),
            // The same, and mov %rax,%rdx behind it, which only reads it.
            (&[0x48, 0x63, 0x04, 0x91, 0x48, 0x01, 0xc8, 0x48, 0x89, 0xc2], false),
            // add %rcx,%rax; mov (%rax),%rax
            (&[0x48, 0x01, 0xc8, 0x48, 0x8b, 0x00], true),
            // add %rcx,%rax; call 0: the function may have written it.
            (&[0x48, 0x01, 0xc8, 0xe8, 0, 1, 0, 0], true),
        ] {
            let found = sites(&[before, &[0xff, 0xe0]].concat());
            let is_jump = |site: &&CallSite| site.returns_to.is_none();
            let jumps = found.sites.iter().filter(is_jump).count();
            assert_eq!((jumps == 1, found.computed_jumps == 0), (is_call, is_call), "{before:x?}");
        }
    }

    #[test]
    fn other_instructions_call_nothing() {
        for (what, code, computed_jumps) in [
            ("syscall", &[0x0f, 0x05][..], 0),
            ("call of the next", &[0xe8, 0, 0, 0, 0], 0),
            ("call *%fs:0", &[0x64, 0xff, 0x14, 0x25, 0, 0, 0, 0], 0),
            ("jmp inside", &[0xeb, 0xfe], 0),
            ("notrack jmp *%rax", &[0x3e, 0xff, 0xe0], 1),
            ("jmp *0(,%rax,8)", &[0xff, 0x24, 0xc5, 0, 0, 0, 0], 1),
            ("ret", &[0xc3], 0),
        ] {
            let found = sites(code);
            assert_eq!(
                (found.sites.len(), found.computed_jumps, found.whole),
                (0, computed_jumps, true),
                "{what}"
            );
        }
        assert!(!sites(&[0xe8, 0]).whole, "half a call");
    }

    #[test]
    fn a_system_call_has_a_place_of_its_own() {
        // mov $0,%eax, syscall, ret.
        let found = sites(&[0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3]);
        assert_eq!((found.system_calls, found.sites.len()), (vec![(0x1005, 0x1007)], 0));
    }

    #[test]
    fn an_entry_of_a_linkage_table_says_where_its_target_stands() {
        for (what, code, slot) in [
            ("jmp *x(%rip)", &[0xff, 0x25, 0, 1, 0, 0][..], Some(0x1106)),
            (
                "endbr64, bnd jmp *x(%rip)",
                &[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0, 1, 0, 0],
                Some(0x110b),
            ),
            ("push", &[0x55, 0xff, 0x25, 0, 1, 0, 0], None),
            ("jmp *%rax", &[0xff, 0xe0], None),
            ("nothing", &[], None),
            ("endbr64 alone", &[0xf3, 0x0f, 0x1e, 0xfa], None),
        ] {
            assert_eq!(passed_on_by(code, 0x1000), slot, "{what}");
        }
    }
}
