//! The calls and returns in the code of a function of the kernel.
//!
//! Against speculation, the compiler writes calls of small pieces of code (thunks) in place of some instructions: `call
//! __x86_indirect_thunk_rax` for `call *%rax`, `jmp __x86_return_thunk` for `ret`. At boot the kernel replaces those that this machine does not
//! need. `call __fentry__` at the entry is where the kernel's tracer comes in: no call.

use iced_x86::{Code, ConditionCode, FlowControl, Instruction, Register};

use super::symbols::Symbols;
use crate::body::{Body, is_system_call};
use crate::instruction::decode;
use crate::sites::{Operand, operand};

/// Places behind a call at which its return can be seen, where the kernel refuses the first ones.
const MAX_RESUMES: usize = 3;

/// A call, or a jump in place of a call and a return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelCall {
    /// The address of the instruction.
    pub address: u64,
    /// Where the call returns to; `None`: a jump.
    pub returns_to: Option<u64>,
    /// The condition of the jump: the lower half of its opcode.
    pub condition: Option<u8>,
    /// Where a return is seen, the best place first: where the call returns to, and the instructions that follow that in any case.
    pub resumes: Vec<u64>,
    /// The function that is called.
    pub target: Target,
}

/// The function that is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The one at this address.
    At(u64),
    /// One whose address the kernel computes.
    Computed(Operand),
}

/// An instruction at which a function returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelExit {
    /// Its address.
    pub address: u64,
    /// The condition of a jump to a return: the lower half of its opcode.
    pub condition: Option<u8>,
}

/// The calls and returns of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Calls {
    /// In order of the parts, and within a part of the address.
    pub calls: Vec<KernelCall>,
    pub exits: Vec<KernelExit>,
    /// Whether every byte was decoded.
    pub whole: bool,
    /// Whether it may be left in a way that is not among these: a jump to a place that is computed, or that is no function's beginning.
    pub leaves_unseen: bool,
}

/// A name of the code at an address that stands for an instruction.
enum Thunk {
    Return,
    Indirect(u8),
    /// A call whose target the kernel may change: code that jumps there.
    Static,
}

impl Calls {
    /// Decodes the parts of a function, the one with its entry first. `word` reads the kernel's memory, `code` the beginning of the code at an address.
    pub fn of(
        parts: &[(u64, Vec<u8>)],
        symbols: &Symbols,
        word: &dyn Fn(u64) -> Option<u64>,
        code: &dyn Fn(u64) -> Vec<u8>,
    ) -> Self {
        let body = Body::of(parts, true);
        let mut found = Self { whole: body.whole, leaves_unseen: body.falls_out, ..Self::default() };
        let entry = parts.first().map_or(0, |(address, _)| *address);
        for (index, instruction) in body.instructions().iter().enumerate() {
            if is_call_of_tracer(instruction, entry, symbols) {
                continue;
            }
            found.look_at(instruction, index, &body, &Kernel { symbols, word, code });
        }
        found
    }

    fn look_at(&mut self, instruction: &Instruction, index: usize, body: &Body, kernel: &Kernel<'_>) {
        let address = instruction.ip();
        let condition = condition_of(instruction);
        let is_jump = !matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
        let target = match instruction.flow_control() {
            FlowControl::Return => return self.exits.push(KernelExit { address, condition: None }),
            FlowControl::Call | FlowControl::IndirectCall if is_system_call(instruction) => return,
            FlowControl::Call if instruction.near_branch_target() == instruction.next_ip() => return,
            FlowControl::Call => Some(instruction.near_branch_target()),
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                let target = instruction.near_branch_target();
                if !body.leaves.contains(&target) {
                    return;
                }
                Some(target)
            }
            FlowControl::IndirectCall | FlowControl::IndirectBranch => None,
            _ => return,
        };
        let target = match target {
            Some(target) => match kernel.thunk(target) {
                Some(Thunk::Return) if is_jump => return self.exits.push(KernelExit { address, condition }),
                Some(Thunk::Return) => return,
                Some(Thunk::Indirect(register)) => Target::Computed(in_register(register)),
                Some(Thunk::Static) => match kernel.static_target(target) {
                    StaticTarget::At(target) => Target::At(target),
                    // It does nothing now, and returns.
                    StaticTarget::Nothing if is_jump => {
                        return self.exits.push(KernelExit { address, condition });
                    }
                    StaticTarget::Nothing => return,
                },
                None => Target::At(target),
            },
            // A table of a `switch`: it stays inside.
            None if is_jump && instruction.memory_index() != Register::None => return,
            None if instruction.is_ip_rel_memory_operand() => {
                match (kernel.word)(instruction.ip_rel_memory_address()) {
                    Some(target) => Target::At(target),
                    None => return self.leaves_unseen |= is_jump,
                }
            }
            None => match operand(instruction) {
                Some(operand) => Target::Computed(operand),
                None => return self.leaves_unseen |= is_jump,
            },
        };
        if is_jump {
            // Into the middle of another function: where it returns is not known.
            if let Target::At(target) = target
                && kernel.symbols.beginning_at(target).is_none()
            {
                self.leaves_unseen = true;
                return;
            }
            let call = KernelCall { address, returns_to: None, condition, resumes: Vec::new(), target };
            return self.calls.push(call);
        }
        let resumes = resumes(instruction, index, body);
        // Behind a call that never returns stands nothing, or a trap.
        if let Some(&returns_to) = resumes.first() {
            self.calls.push(KernelCall {
                address,
                returns_to: Some(returns_to),
                condition: None,
                resumes,
                target,
            });
        }
    }
}

/// The parts of the kernel that a target is looked up in.
struct Kernel<'a> {
    symbols: &'a Symbols,
    word: &'a dyn Fn(u64) -> Option<u64>,
    code: &'a dyn Fn(u64) -> Vec<u8>,
}

enum StaticTarget {
    At(u64),
    Nothing,
}

impl Kernel<'_> {
    fn thunk(&self, target: u64) -> Option<Thunk> {
        let name = self.symbols.beginning_at(target)?.name;
        if name.ends_with("_return_thunk") {
            return Some(Thunk::Return);
        }
        if name.starts_with("__SCT__") {
            return Some(Thunk::Static);
        }
        let register = name.strip_prefix("__x86_indirect_").filter(|rest| rest.contains("thunk_"))?;
        let register = register.rsplit('_').next()?;
        let numbers = [
            "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
            "r14", "r15",
        ];
        numbers.iter().position(|name| *name == register).map(|number| Thunk::Indirect(number as u8))
    }

    fn static_target(&self, address: u64) -> StaticTarget {
        match decode(&(self.code)(address), address) {
            Some(jump) if jump.flow_control() == FlowControl::UnconditionalBranch => {
                let target = jump.near_branch_target();
                match self.thunk(target) {
                    Some(Thunk::Return) => StaticTarget::Nothing,
                    _ => StaticTarget::At(target),
                }
            }
            _ => StaticTarget::Nothing,
        }
    }
}

/// Whether the code at the entry of a function lets the kernel's tracer in: a call of it, or the no-operation in place of that.
pub(super) fn is_traceable(code: &[u8]) -> bool {
    // `endbr64`, or what the kernel writes over it where no pointer leads to the function.
    const LANDINGS: [[u8; 4]; 3] =
        [[0xf3, 0x0f, 0x1e, 0xfa], [0x66, 0x0f, 0x1f, 0], [0x0f, 0x1f, 0x40, 0xd6]];
    let code = LANDINGS.iter().find_map(|landing| code.strip_prefix(landing)).unwrap_or(code);
    code.starts_with(&[0x0f, 0x1f, 0x44, 0, 0]) || code.first() == Some(&0xe8)
}

/// Whether this is the call at the entry by which the kernel's tracer comes in.
fn is_call_of_tracer(instruction: &Instruction, entry: u64, symbols: &Symbols) -> bool {
    const ENDBR64: u64 = 4;
    let at_entry = [entry, entry.wrapping_add(ENDBR64)].contains(&instruction.ip());
    let tracer = |text: super::Text<'_>| {
        text.name == "__fentry__"
            || text.name.starts_with("ftrace_")
            || text.module.is_some_and(|module| module.starts_with("__builtin__") || module == "bpf")
    };
    instruction.flow_control() == FlowControl::Call
        && at_entry
        && symbols.around(instruction.near_branch_target()).is_none_or(tracer)
}

/// Where the return of a call is seen; empty if it never returns.
fn resumes(call: &Instruction, index: usize, body: &Body) -> Vec<u64> {
    let instructions = body.instructions();
    let at = |address: u64| instructions.iter().position(|instruction| instruction.ip() == address);
    let mut next = Some(index + 1)
        .filter(|&next| instructions.get(next).is_some_and(|instruction| instruction.ip() == call.next_ip()));
    let mut found = Vec::new();
    while let Some(instruction) = next.and_then(|next| instructions.get(next)) {
        if found.is_empty() && matches!(instruction.code(), Code::Ud2 | Code::Int3) {
            break;
        }
        found.push(instruction.ip());
        next = match instruction.flow_control() {
            _ if found.len() >= MAX_RESUMES || moves_stack(instruction) => None,
            FlowControl::Next => at(instruction.next_ip()),
            FlowControl::UnconditionalBranch => at(instruction.near_branch_target()),
            _ => None,
        };
    }
    found
}

fn moves_stack(instruction: &Instruction) -> bool {
    instruction.is_stack_instruction() || instruction.op0_register().full_register() == Register::RSP
}

/// The condition of a jump, as its opcode has it.
fn condition_of(instruction: &Instruction) -> Option<u8> {
    match instruction.condition_code() {
        ConditionCode::None => None,
        code => Some(code as u8 - 1),
    }
}

const fn in_register(register: u8) -> Operand {
    Operand { base: Some(register), index: None, scale: 1, displacement: 0, in_memory: false }
}
