//! The calls and returns in a kernel function's code.
//!
//! Against speculation, the compiler writes calls to small pieces of code (thunks) in place of some instructions: `call
//! __x86_indirect_thunk_rax` for `call *%rax`, `jmp __x86_return_thunk` for `ret`. At boot the kernel replaces the
//! thunks that this machine does not need. `call __fentry__` at the entry is where the kernel's tracer comes in: no
//! call.

use iced_x86::{Code, ConditionCode, FlowControl, Instruction, Register};

use super::symbols::Symbols;
use crate::body::{Body, is_system_call};
use crate::instruction::decode;
use crate::sites::{Operand, operand};

/// The maximum number of places behind a call to see its return at, where the kernel refuses the first.
const MAX_RESUMES: usize = 3;

/// A call, or a jump in place of a call and a return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelCall {
    /// The instruction's address.
    pub address: u64,
    /// The return address; `None`: a jump.
    pub returns_to: Option<u64>,
    /// The jump's condition: its opcode's lower half.
    pub condition: Option<u8>,
    /// The places to see a return, the best place first: the return address, and the instructions that follow in any
    /// case.
    pub resumes: Vec<u64>,
    /// The called function.
    pub target: Target,
}

/// The called function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The function at this address.
    At(u64),
    /// A function whose address the kernel computes.
    Computed(Operand),
}

/// An instruction at which a function returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelExit {
    /// The instruction's address.
    pub address: u64,
    /// The condition of a jump to a return: its opcode's lower half.
    pub condition: Option<u8>,
}

/// A function's calls and returns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Calls {
    /// In the order of the parts, and by address within a part.
    pub calls: Vec<KernelCall>,
    pub exits: Vec<KernelExit>,
    /// Whether every byte was decoded.
    pub whole: bool,
    /// Whether the function may be left in another way: by a jump to a computed place, or to a place where no function
    /// begins.
    pub leaves_unseen: bool,
}

/// A code address's name that stands for an instruction.
enum Thunk {
    Return,
    Indirect(u8),
    /// A call with a target that the kernel may change: code that jumps there.
    Static,
}

impl Calls {
    /// Decodes a function's parts, the part with its entry first. `word` reads the kernel's memory, `code` the
    /// beginning of the code at an address.
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
                    // The call does nothing now, and returns.
                    StaticTarget::Nothing if is_jump => {
                        return self.exits.push(KernelExit { address, condition });
                    }
                    StaticTarget::Nothing => return,
                },
                None => Target::At(target),
            },
            // A jump by a `switch` table: it stays inside.
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
            // A jump into the middle of another function: its return is not known.
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

/// The kernel's data for looking up a target.
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

/// Whether the code at a function's entry lets the kernel's tracer in: a call to it, or the no-operation in its place.
pub(super) fn is_traceable(code: &[u8]) -> bool {
    // `endbr64`, or the kernel's replacement where no pointer leads to the function.
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

/// The places to see a call's return; empty if it never returns.
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

/// A jump's condition, as its opcode has it.
fn condition_of(instruction: &Instruction) -> Option<u8> {
    match instruction.condition_code() {
        ConditionCode::None => None,
        code => Some(code as u8 - 1),
    }
}

const fn in_register(register: u8) -> Operand {
    Operand { base: Some(register), index: None, scale: 1, displacement: 0, in_memory: false }
}
