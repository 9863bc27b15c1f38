//! The walk from a thread's registers up its stack, over a copy of its memory.

use crate::rule::{Base, Rule, SavedBp};

/// The registers that a walk needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// The instruction pointer, or a return address.
    pub ip: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer, if there is one.
    pub bp: u64,
}

/// A code address on a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its rule.
    pub rule: Rule,
    /// Whether a call stands before it; true for an address that is no return address.
    pub called: bool,
}

/// The result of a walk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unwound {
    /// The return addresses, innermost first, without the address at which the walk began.
    pub frames: Vec<u64>,
    /// The number of proved return addresses, from the first on.
    pub proved: usize,
    /// Whether the walk came to the outermost function, proved all the way.
    pub complete: bool,
}

/// Walks up from `registers`, for at most `most` frames. `stands`: the thread stands at `registers.ip`; otherwise it is
/// a return address, and the first frame. `proved`: the registers are certain. `memory` are the bytes from
/// `registers.sp` on; `place` gives an address's rule.
pub fn walk(
    mut registers: Registers,
    stands: bool,
    mut proved: bool,
    memory: &[u8],
    most: usize,
    mut place: impl FnMut(u64, bool) -> Place,
) -> Unwound {
    let beginning = registers.sp;
    let mut bp_known = true;
    let mut unwound = Unwound::default();
    let word = |address: u64| -> Option<u64> {
        let from = usize::try_from(address.checked_sub(beginning)?).ok()?;
        memory.get(from..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    };
    let mut at = place(registers.ip, stands);
    if !stands && at.rule == Rule::NoCode {
        return unwound;
    }
    if !stands && most > 0 {
        proved &= at.called;
        unwound.push(registers.ip, proved);
    }
    while unwound.frames.len() < most {
        let (base, words, bp) = match at.rule {
            Rule::Frame { base, words, bp } => (base, words, bp),
            // A thread stands there all the same: its mappings have changed.
            Rule::NoTable | Rule::NoCode => {
                proved = false;
                (Base::Bp, 2, SavedBp::At(2))
            }
            Rule::Outermost => {
                unwound.complete = proved;
                break;
            }
            Rule::Unsupported => break,
        };
        let from = match base {
            Base::Sp => registers.sp,
            Base::Bp if bp_known && registers.bp >= registers.sp => registers.bp,
            Base::Bp => break,
        };
        // A stack grows downwards: the caller's frame lies above.
        let Some(frame) = from.checked_add(u64::from(words) * 8).filter(|&frame| frame > registers.sp) else {
            break;
        };
        let Some(ip) = word(frame - 8).filter(|&ip| ip >= MIN_CODE) else { break };
        match bp {
            SavedBp::Unchanged => {}
            SavedBp::Lost => bp_known = false,
            SavedBp::At(at) => {
                // Below the stack pointer nothing is kept.
                let saved = frame.checked_sub(u64::from(at) * 8).filter(|&saved| saved >= registers.sp);
                match saved.and_then(word) {
                    Some(saved) => (registers.bp, bp_known) = (saved, true),
                    None => bp_known = false,
                }
            }
        }
        (registers.ip, registers.sp) = (ip, frame);
        at = place(ip, false);
        if at.rule == Rule::NoCode {
            break;
        }
        proved &= at.called;
        unwound.push(ip, proved);
    }
    unwound
}

impl Unwound {
    fn push(&mut self, frame: u64, proved: bool) {
        self.frames.push(frame);
        if proved {
            self.proved = self.frames.len();
        }
    }
}

/// No code is below this address.
const MIN_CODE: u64 = 0x1000;
