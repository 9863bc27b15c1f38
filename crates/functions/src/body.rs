//! The decoded code of a function: its returns, jumps and calls.

use std::collections::BTreeSet;
use std::ops::Range;

use iced_x86::{
    Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use crate::instruction::decode;

/// The facts from decoding a function from its first byte to its last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Body {
    /// Whether every byte was decoded. Data amid the code, or code that was not read, make it false.
    pub whole: bool,
    /// Where a `ret` stands.
    pub returns: Vec<u64>,
    /// Where direct jumps lead that stay inside.
    pub targets: BTreeSet<u64>,
    /// Where direct jumps lead that leave the function.
    pub leaves: BTreeSet<u64>,
    /// Where a jump to a computed place stands: into the function by a table, or out of it, a call in the
    /// last place. And whether it takes the place from a table, by an index.
    pub computed: Vec<(u64, bool)>,
    /// Whether it calls anything.
    pub calls: bool,
    /// Whether code may run past its last byte.
    pub falls_out: bool,
    /// In order of the parts, and within a part of the address.
    instructions: Vec<Instruction>,
}

impl Body {
    /// Decodes the parts of a function: the one with its entry first, then those that are seldom run
    /// and stand elsewhere. `whole`: this is all of it.
    pub fn of(parts: &[(u64, Vec<u8>)], whole: bool) -> Self {
        let mut body = Self { whole, ..Self::default() };
        let ranges: Vec<Range<u64>> =
            parts.iter().map(|(address, code)| *address..address.saturating_add(code.len() as u64)).collect();
        for (address, code) in parts {
            let falls_on = body.decode_part(*address, code, &ranges);
            body.falls_out |= falls_on && body.whole;
        }
        body
    }

    /// Whether the code runs on behind the part.
    fn decode_part(&mut self, address: u64, code: &[u8], ranges: &[Range<u64>]) -> bool {
        let mut at = 0;
        let mut falls_on = true;
        while at < code.len() {
            let Some(instruction) = decode(&code[at..], address.wrapping_add(at as u64)) else {
                self.whole = false;
                return true;
            };
            // Go puts one behind a last call that never returns.
            let padding = !falls_on && instruction.mnemonic() == Mnemonic::Nop;
            falls_on = !padding && falls_through(&instruction);
            match instruction.flow_control() {
                FlowControl::Return => self.returns.push(instruction.ip()),
                FlowControl::Call | FlowControl::IndirectCall => self.calls |= !is_system_call(&instruction),
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                    let target = instruction.near_branch_target();
                    match ranges.iter().any(|range| range.contains(&target)) {
                        true => self.targets.insert(target),
                        false => self.leaves.insert(target),
                    };
                }
                FlowControl::IndirectBranch => {
                    self.computed.push((instruction.ip(), instruction.memory_index() != Register::None));
                }
                _ => {}
            }
            at += instruction.len();
            self.instructions.push(instruction);
        }
        falls_on
    }

    /// Whether no call of it ever returns to its caller: nothing in it returns, or leaves it to where
    /// something could.
    pub fn never_returns(&self) -> bool {
        self.whole
            && !self.falls_out
            && self.computed.is_empty()
            && self.returns.is_empty()
            && self.leaves.is_empty()
            && !self.instructions.is_empty()
    }

    /// The obstacle to seeing each of its returns at a `ret`, if there is one. `inside` decides for
    /// jumps to computed places whether they stay inside; `name` returns the name of the code at an address.
    pub fn unseen_returns(
        &self,
        inside: impl Fn(u64, bool) -> bool,
        name: impl Fn(u64) -> Option<String>,
    ) -> Option<String> {
        match () {
            () if !self.whole => Some("not all of its code could be decoded".to_owned()),
            () if self.computed.iter().any(|&(jump, indexed)| !inside(jump, indexed)) => {
                Some("it may leave by a jump to a computed address".to_owned())
            }
            () if self.falls_out => Some("it continues into the next function".to_owned()),
            () => self.leaves.first().map(|&target| {
                let to = name(target).map_or_else(|| format!("{target:#x}"), |name| format!("`{name}`"));
                format!("it also leaves by a jump to {to}")
            }),
        }
    }

    /// Whether it leaves alone what Go keeps in r14: compiled code does, but that it loads it anew behind a
    /// call of assembler code, from a place that is known or that it loads before into the same register.
    pub fn keeps_goroutine(&self) -> bool {
        let mut factory = InstructionInfoFactory::new();
        let mut called = false;
        let loads = |instruction: &Instruction| {
            instruction.mnemonic() == Mnemonic::Mov && instruction.memory_segment() == Register::FS
        };
        self.instructions.iter().enumerate().all(|(index, instruction)| {
            called |= matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall);
            let writes = factory.info(instruction).used_registers().iter().any(|used| {
                used.register().full_register() == Register::R14
                    && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
            });
            let next = || self.instructions.get(index + 1);
            !writes || called && (loads(instruction) || next().is_some_and(loads))
        })
    }

    /// Where each call of a Go function passes once: behind the check of its stack's size.
    ///
    /// A Go function begins by comparing the stack pointer with its goroutine's limit; if there is too
    /// little room it jumps to a call of `runtime.morestack`, behind which it jumps back to its first
    /// instruction, which therefore sees such a call twice. Nothing if that is not what is found.
    pub fn behind_stack_check(&self) -> Option<u64> {
        let entry = self.instructions.first()?.ip();
        let mut behind = None;
        // Big frames take two comparisons, of up to six instructions in all.
        for instruction in self.instructions.iter().take(8) {
            match instruction.flow_control() {
                FlowControl::Next if !writes_stack_pointer(instruction) => {}
                FlowControl::ConditionalBranch
                    if self.comes_back(instruction.near_branch_target(), entry) =>
                {
                    behind = Some(instruction.next_ip());
                }
                _ => break,
            }
        }
        behind.filter(|at| {
            !self.targets.contains(at) && self.instructions.iter().any(|instruction| instruction.ip() == *at)
        })
    }

    /// Whether the code at `from` jumps to `entry` after a call, without a condition.
    fn comes_back(&self, from: u64, entry: u64) -> bool {
        let Some(at) = self.instructions.iter().position(|instruction| instruction.ip() == from) else {
            return false;
        };
        let mut called = false;
        // Arguments in registers are saved before the call and loaded after it.
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
        FlowControl::Call | FlowControl::IndirectCall => is_system_call(instruction),
        FlowControl::Exception => false,
        // Padding behind what never returns; a trap that was meant would end the program too.
        _ => !matches!(instruction.code(), Code::Hlt | Code::Int3),
    }
}

/// The decoder counts them among the calls.
fn is_system_call(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Code::Syscall | Code::Sysenter)
}

fn writes_stack_pointer(instruction: &Instruction) -> bool {
    let compares = matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
    let to_register = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register;
    instruction.is_stack_instruction()
        || !compares && to_register && instruction.op0_register().full_register() == Register::RSP
}
