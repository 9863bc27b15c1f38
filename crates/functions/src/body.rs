//! A function's code from its entry to its end: where it returns, where it goes, what jumps where.

use std::collections::BTreeSet;

use iced_x86::{Code, FlowControl, Instruction, Register};

use crate::instruction::decode;

/// What is learnt of a function by decoding it from its first byte to its last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Body {
    /// Whether every byte was decoded. Data amid the code, or a size that is unknown, make it false.
    pub whole: bool,
    /// Where a `ret` stands.
    pub returns: Vec<u64>,
    /// Where direct jumps lead that stay inside.
    pub targets: BTreeSet<u64>,
    /// Where direct jumps lead that leave the function.
    pub leaves: BTreeSet<u64>,
    /// Whether it holds a jump to a computed place: a table inside, or a call in the last place.
    pub computed: bool,
    /// Whether code may run past its last byte.
    pub falls_out: bool,
    /// What it jumps or calls to by a direct branch, ends with, in the order of the code.
    instructions: Vec<Instruction>,
}

impl Body {
    /// Decodes the `code` of a function at `address`; `whole`: it is all of it.
    pub fn of(code: &[u8], address: u64, whole: bool) -> Self {
        let mut body = Self { whole, ..Self::default() };
        let end = address.saturating_add(code.len() as u64);
        let mut at = 0;
        let mut falls_on = true;
        while at < code.len() {
            let Some(instruction) = decode(&code[at..], address.wrapping_add(at as u64)) else {
                body.whole = false;
                break;
            };
            falls_on = falls_through(&instruction);
            match instruction.flow_control() {
                FlowControl::Return => body.returns.push(instruction.ip()),
                FlowControl::UnconditionalBranch
                | FlowControl::ConditionalBranch
                | FlowControl::XbeginXabortXend => {
                    let target = instruction.near_branch_target();
                    if instruction.code() == Code::Xabort_imm8 || instruction.code() == Code::Xend {
                    } else if (address..end).contains(&target) {
                        body.targets.insert(target);
                    } else {
                        body.leaves.insert(target);
                    }
                }
                FlowControl::IndirectBranch => body.computed = true,
                _ => {}
            }
            at += instruction.len();
            body.instructions.push(instruction);
        }
        body.falls_out = body.whole && falls_on;
        body
    }

    /// Whether no call of it ever returns to its caller: nothing in it returns, or leaves it to where
    /// something could.
    pub fn never_returns(&self) -> bool {
        self.whole
            && !self.falls_out
            && !self.computed
            && self.returns.is_empty()
            && self.leaves.is_empty()
            && !self.instructions.is_empty()
    }

    /// Where each call of a Go function passes once: behind the check of its stack's size.
    ///
    /// A Go function begins by comparing the stack pointer with its goroutine's limit; if there is too
    /// little room it jumps to a call of `runtime.morestack`, behind which it jumps back to its first
    /// instruction, which therefore sees such a call twice. Nothing if that is not what is found.
    pub fn behind_stack_check(&self) -> Option<u64> {
        let entry = self.instructions.first()?.ip();
        let mut behind = None;
        // Big frames take two comparisons; six instructions in all.
        for instruction in self.instructions.iter().take(8) {
            match instruction.flow_control() {
                FlowControl::Next if !writes_stack_pointer(instruction) => {}
                FlowControl::ConditionalBranch => {
                    if !self.comes_back(instruction.near_branch_target(), entry) {
                        break;
                    }
                    behind = Some(instruction.next_ip());
                }
                _ => break,
            }
        }
        behind.filter(|at| !self.targets.contains(at) && self.instructions.iter().any(|i| i.ip() == *at))
    }

    /// Whether the code at `from` jumps to `entry` after a call, without a condition.
    fn comes_back(&self, from: u64, entry: u64) -> bool {
        let Ok(at) = self.instructions.binary_search_by_key(&from, Instruction::ip) else { return false };
        let mut called = false;
        // Arguments are saved before the call and loaded after it: Go passes up to 24 in registers.
        for instruction in self.instructions[at..].iter().take(64) {
            match instruction.flow_control() {
                FlowControl::Call | FlowControl::IndirectCall => called = true,
                FlowControl::UnconditionalBranch => {
                    return called && instruction.near_branch_target() == entry;
                }
                FlowControl::Next => {}
                _ => return false,
            }
        }
        false
    }
}

fn falls_through(instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => false,
        // A call in the last place is of a function that never returns: compilers know which do not.
        FlowControl::Call | FlowControl::IndirectCall => false,
        FlowControl::Exception | FlowControl::Interrupt => false,
        FlowControl::Next if matches!(instruction.code(), Code::Hlt) => false,
        _ => true,
    }
}

fn writes_stack_pointer(instruction: &Instruction) -> bool {
    instruction.is_stack_instruction()
        || instruction.op_count() > 0
            && instruction.op0_kind() == iced_x86::OpKind::Register
            && instruction.op0_register().full_register() == Register::RSP
            && !matches!(instruction.mnemonic(), iced_x86::Mnemonic::Cmp | iced_x86::Mnemonic::Test)
}
