//! A function's decoded code: its returns, jumps and calls.

use std::collections::BTreeSet;
use std::ops::Range;

use iced_x86::{Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register};

use crate::instruction::decode;

/// The facts from decoding a function from its first byte to its last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Body {
    /// Whether every byte was decoded. Data amid the code, or unread code, make it false.
    pub whole: bool,
    /// The addresses of the `ret` instructions.
    pub returns: Vec<u64>,
    /// The targets of direct jumps inside the function.
    pub targets: BTreeSet<u64>,
    /// The targets of direct jumps out of the function.
    pub leaves: BTreeSet<u64>,
    /// The jumps to computed places: into the function by a table, or out of it, a call in the last place. The flag:
    /// whether the jump takes the place from a table, by an index.
    pub computed: Vec<(u64, bool)>,
    /// Whether the function calls anything.
    pub calls: bool,
    /// Whether code may run past its last byte.
    pub falls_out: bool,
    /// In the order of the parts, and by address within a part.
    instructions: Vec<Instruction>,
}

impl Body {
    /// Decodes a function's parts: the part with its entry first, then the seldom run parts elsewhere. `whole`: these
    /// are all parts.
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
        let mut rest = code;
        let mut falls_on = true;
        while !rest.is_empty() {
            let at = address.wrapping_add((code.len() - rest.len()) as u64);
            let Some(instruction) = decode(rest, at) else {
                self.whole = false;
                return true;
            };
            // Go puts a no-operation behind a last call that never returns.
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
            rest = &rest[instruction.len()..];
            self.instructions.push(instruction);
        }
        falls_on
    }

    /// The function's instructions, in the order of the parts, and by address within a part.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Whether no call ever returns to its caller: nothing in the function returns, or leaves it to code that could.
    pub fn never_returns(&self) -> bool {
        self.whole
            && !self.falls_out
            && self.computed.is_empty()
            && self.returns.is_empty()
            && self.leaves.is_empty()
            && !self.instructions.is_empty()
    }

    /// The obstacle to seeing each return at a `ret`, if there is an obstacle. `inside` decides for jumps to computed
    /// places whether they stay inside; `name` returns the name of the code at an address.
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

    /// Whether the function leaves alone the goroutine that Go keeps in r14: compiled code does, except for loading it
    /// anew behind a call to assembler code, from a known place or from a place loaded before into the same register.
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

    /// A place passed once by each call to a Go function: behind the check of its stack's size.
    ///
    /// A Go function begins by comparing the stack pointer with its goroutine's limit; if there is too little room it
    /// jumps to a call to `runtime.morestack`, behind which it jumps back to its first instruction, which therefore
    /// sees such a call twice. `None` if the code has another form.
    pub fn behind_stack_check(&self) -> Option<u64> {
        let entry = self.instructions.first()?.ip();
        let mut behind = None;
        // Big frames take two comparisons, in all up to six instructions.
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

    /// The place where a Go function saves the frame pointer, behind at most a check of the stack's size that makes no
    /// room.
    pub fn frame_push(&self) -> Option<u64> {
        let mut first = self.instructions.iter().take(4).skip_while(|instruction| {
            let compares = matches!(instruction.mnemonic(), Mnemonic::Cmp)
                && instruction.op0_register() != Register::None;
            compares || instruction.flow_control() == FlowControl::ConditionalBranch
        });
        let push = first.next().filter(|instruction| instruction.code() == Code::Push_r64)?;
        (push.op0_register() == Register::RBP && !self.targets.contains(&push.ip())).then(|| push.ip())
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
        // A call in the last place goes to a function that never returns: compilers know these functions.
        FlowControl::Call | FlowControl::IndirectCall => is_system_call(instruction),
        FlowControl::Exception => false,
        // Padding behind code that never returns; an intended trap would end the program too.
        _ => !matches!(instruction.code(), Code::Hlt | Code::Int3),
    }
}

/// The decoder counts system calls among the calls.
pub(crate) fn is_system_call(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Code::Syscall | Code::Sysenter)
}

fn writes_stack_pointer(instruction: &Instruction) -> bool {
    let compares = matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
    instruction.is_stack_instruction()
        || !compares && instruction.op0_register().full_register() == Register::RSP
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[(u64, &[u8])]) -> Body {
        let parts: Vec<_> = parts.iter().map(|&(address, code)| (address, code.to_vec())).collect();
        Body::of(&parts, true)
    }

    #[test]
    fn code_runs_out_of_a_function_unless_its_last_instruction_or_what_is_before_padding_stops_it() {
        // push %rbp, nop, ud2, int3, ret, syscall.
        for (code, falls_out) in [
            (&[0x55][..], true),
            (&[0x55, 0x90], true),
            (&[0x0f, 0x0b], false),
            (&[0x0f, 0x0b, 0x90], false),
            (&[0x0f, 0x0b, 0x55], true),
            (&[0x55, 0xcc], false),
            (&[0xc3], false),
            (&[0xc3, 0x90], false),
            (&[0x0f, 0x05], true),
        ] {
            let body = of(&[(0x1000, code)]);
            assert_eq!((body.falls_out, body.whole), (falls_out, true), "{code:x?}");
        }
        let cut = of(&[(0x1000, &[0x55, 0x48])]);
        assert_eq!((cut.whole, cut.falls_out), (false, false), "half an instruction");
    }

    /// `cmp 0x10(%r14),%rsp`, `jbe` to the code that makes room, and the code behind it; arguments are saved around the
    /// call.
    #[test]
    fn the_place_behind_a_stack_check_is_passed_once_by_each_call() {
        const CHECK: [u8; 10] = [0x49, 0x3b, 0x66, 0x10, 0x0f, 0x86, 0xf6, 0x0f, 0, 0];
        const SAVED: [u8; 5] = [0x48, 0x89, 0x44, 0x24, 0x08];
        let check_and = |behind: &[u8]| [&CHECK, behind].concat();
        // `call`, `mov` and `jmp` back to 0x1000.
        let call = [0xe8, 0, 0x10, 0, 0];
        let jump_from = |at: i32| [&[0xe9][..], &(0x1000 - at - 5).to_le_bytes()].concat();
        let room = [&SAVED[..], &call, &SAVED, &jump_from(0x200f)].concat();
        let behind = |code: &[u8], room: &[u8]| of(&[(0x1000, code), (0x2000, room)]).behind_stack_check();
        let code = check_and(&[0x55, 0xc3]);
        assert_eq!(behind(&code, &room), Some(0x100a));
        assert_eq!(behind(&CHECK, &room), None, "nothing is behind it");
        let without_call = [&SAVED[..], &jump_from(0x2005)].concat();
        assert_eq!(behind(&code, &without_call), None, "it makes no room");
        let elsewhere = [&call[..], &jump_from(0x2006)].concat();
        assert_eq!(behind(&code, &elsewhere), None, "it goes back to another place");
        // `sub $8,%rsp` before the check; a loop back to the place behind it.
        let moved = [&[0x48, 0x83, 0xec, 0x08][..], &check_and(&[0x55, 0xc3])].concat();
        assert_eq!(behind(&moved, &room), None, "the stack is in use by then");
        assert_eq!(behind(&check_and(&[0x55, 0xeb, 0xfd]), &room), None, "a loop leads there");
    }
}
