//! The choice of the places for a function's probes.

use std::cell::Cell;
use std::ops::Range;

use crate::body::Body;
use crate::error::RefusalReason;
use crate::function::{Return, Runtime};
use crate::image::Image;
use crate::instruction::{MAX_BYTES, ProbeMethod, Probed, probed};

/// A function has few parts; a hostile table may lead from part to part for ever.
const MAX_PARTS: usize = 16;

/// A function's known extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub address: u64,
    /// Behind the last byte.
    pub end: u64,
    /// Whether a symbol states it; else it reaches to the next function.
    pub stated: bool,
}

/// The number of bytes that may still be decoded in a file. Functions without overlap are decoded within it; symbols
/// that claim overlaps would else make a small file take hours.
pub(crate) struct Budget(Cell<u64>);

impl Budget {
    pub fn of(image: &Image) -> Self {
        Self(Cell::new(image.code_bytes().saturating_mul(2).max(MAX_BYTES as u64)))
    }

    /// A function's code, and whether it is complete.
    fn code(&self, image: &Image, extent: Extent) -> (Vec<u8>, bool) {
        let stated = extent.end.saturating_sub(extent.address);
        let allowed = stated.min(self.0.get());
        let code = image.code(extent.address..extent.address + allowed).unwrap_or_default();
        self.0.set(self.0.get() - code.len() as u64);
        let whole = code.len() as u64 == stated;
        (code, whole)
    }
}

/// A function for which to place probes.
#[derive(Clone, Copy)]
pub(crate) struct ProbeRequest<'a> {
    /// The part with the entry.
    pub main: Extent,
    /// The seldom run parts elsewhere.
    pub cold: &'a [Extent],
    pub runtime: Runtime,
    /// Whether an exception may pass through the function's callees into it.
    pub unwinds: bool,
    /// Whether a thread may go on on another stack within it.
    pub switches: bool,
    /// Whether the kernel enters it, not a call: then there is no return address.
    pub uncalled: bool,
    /// Whether its callers may be learned, to see returns behind their calls.
    pub learns: bool,
    /// The name of the code that begins at an address, for output.
    pub name: &'a dyn Fn(u64) -> Option<String>,
}

impl ProbeRequest<'_> {
    /// Whether each return must be found, since a return probe would break the stack.
    fn every_return(&self) -> bool {
        self.unwinds || self.switches || self.runtime == Runtime::Go
    }
}

/// Chooses the places where a function's calls are seen to begin (the offset in the file, and how the kernel executes
/// the instruction there) and to end.
///
/// The place is the entry's own instruction, with two exceptions. `endbr64` is single-stepped: the instruction behind
/// it is taken if it is cheaper, unless a loop jumps there, or not all of the function could be decoded to know. It is
/// not taken if it is a 5-byte no-operation, although nothing useful is below the stack pointer yet at this place: the
/// call that Linux 6.18 puts there pushes onto the stack, and where this overwrites something, the program is
/// corrupted; a rule without further argument is worth the 20 µs. And a Go function may jump back to its entry when its
/// stack has grown.
pub(crate) fn place(
    image: &Image,
    wanted: &ProbeRequest<'_>,
    budget: &Budget,
) -> Result<(u64, ProbeMethod, Return), RefusalReason> {
    let address = wanted.main.address;
    let first = at(image, address)?;
    let body = body(image, wanted, budget);
    if wanted.runtime == Runtime::Go && (image.old_go || !body.keeps_goroutine()) {
        return Err(RefusalReason::NoGoroutine { old: image.old_go });
    }
    let jumped_to = body.targets.contains(&address);
    let entry = match wanted.runtime {
        Runtime::Go if jumped_to => body.behind_stack_check().ok_or(RefusalReason::LoopToEntry)?,
        _ if jumped_to => return Err(RefusalReason::LoopToEntry),
        _ => behind_endbr64(image, &body, first, address).unwrap_or(address),
    };
    let probed = if entry == address { first } else { at(image, entry)? };
    let method = match probed.method {
        Some(ProbeMethod::Optimised) if entry != address => return Err(RefusalReason::InnerNop),
        Some(method) => method,
        None => return Err(refused(image, entry, probed.length)),
    };
    let offset = image.offset(entry).ok_or(RefusalReason::NotCode { address: entry })?;
    Ok((offset, method, returns(image, &body, wanted)?))
}

/// Decodes a function with its parts elsewhere: the parts named by symbols, and the parts only in the table for
/// unwinding.
pub(crate) fn body(image: &Image, wanted: &ProbeRequest<'_>, budget: &Budget) -> Body {
    let mut extents: Vec<Extent> = [wanted.main].iter().chain(wanted.cold).copied().collect();
    let mut parts = Vec::new();
    let mut whole = true;
    loop {
        for &extent in &extents[parts.len()..] {
            let (code, all) = budget.code(image, extent);
            whole &= all;
            parts.push((extent.address, code));
        }
        let body = Body::of(&parts, whole);
        if !wanted.every_return() || extents.len() > MAX_PARTS {
            return body;
        }
        let elsewhere = body.leaves.iter().filter_map(|&target| image.frames.get(image).part_around(target));
        let is_new = |range: &Range<u64>| extents.iter().all(|extent| extent.address != range.start);
        let mut new: Vec<_> = elsewhere.filter(is_new).collect();
        // Several jumps may lead into the same part; they come in order.
        new.dedup();
        if new.is_empty() {
            return body;
        }
        extents.extend(new.into_iter().map(|range| Extent {
            address: range.start,
            end: range.end,
            stated: true,
        }));
    }
}

/// The instruction behind an `endbr64` at the entry, if it is better and only passed by calls.
fn behind_endbr64(image: &Image, body: &Body, first: Probed, address: u64) -> Option<u64> {
    if !first.endbr64 || !body.whole {
        return None;
    }
    let next = address.checked_add(first.length as u64)?;
    let second = at(image, next).ok()?;
    (second.method == Some(ProbeMethod::Emulated) && !body.targets.contains(&next)).then_some(next)
}

fn at(image: &Image, address: u64) -> Result<Probed, RefusalReason> {
    if image.offset(address).is_none() {
        return Err(RefusalReason::NotCode { address });
    }
    let code = image.code(address..address.saturating_add(MAX_BYTES as u64)).unwrap_or_default();
    probed(&code, address).ok_or(RefusalReason::NoInstruction { address })
}

fn refused(image: &Image, address: u64, length: usize) -> RefusalReason {
    let code = image.code(address..address.saturating_add(length as u64)).unwrap_or_default();
    let instruction = code.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    RefusalReason::Instruction { instruction }
}

/// The way to see the return. A return probe replaces the return address on the stack: code that walks the stack to
/// move it (Go) or to unwind it (an exception) then finds an address outside all functions, and ends the program. And
/// the kernel keeps a thread's replaced addresses on a single stack: where another call returns first, on another
/// stack, the kernel ends the program, or goes on behind the wrong call.
fn returns(image: &Image, body: &Body, wanted: &ProbeRequest<'_>) -> Result<Return, RefusalReason> {
    // The next function's beginning does not show the code in between.
    let stated = wanted.main.stated;
    if wanted.uncalled || stated && body.never_returns() {
        return Ok(Return::Never);
    }
    // A function that calls nothing, and leaves only by returning, is passed by no exception, and no other call comes
    // between.
    let inside = |jump, indexed| match wanted.runtime {
        // Go's compiler makes no other use of an index.
        Runtime::Go => indexed,
        Runtime::Native | Runtime::Kernel | Runtime::Python => {
            wanted.every_return() && image.frames.get(image).is_amid(jump)
        }
    };
    let unseen = body.unseen_returns(inside, wanted.name);
    let passed = body.calls || unseen.is_some();
    if !wanted.every_return() || wanted.runtime == Runtime::Native && !passed {
        return Ok(Return::ReturnProbe);
    }
    let unknown = || (!stated).then(|| "its symbol does not state its size".to_owned());
    if let Some(why) = unseen.or_else(unknown) {
        return Err(match wanted.runtime {
            Runtime::Native if wanted.learns => return Ok(Return::AtCallers),
            Runtime::Go => RefusalReason::GoReturns { why },
            Runtime::Native if wanted.switches => RefusalReason::SwitchReturns { why },
            Runtime::Native | Runtime::Kernel | Runtime::Python => RefusalReason::ExceptionReturns { why },
        });
    }
    // All code is known, and nothing in it returns: its jumps to computed places stay inside (`_Unwind_Resume`).
    if body.returns.is_empty() {
        return Ok(Return::Never);
    }
    let offsets: Option<Vec<u64>> = body.returns.iter().map(|&address| image.offset(address)).collect();
    offsets.map(Return::AtInstructions).ok_or(RefusalReason::NotCode { address: wanted.main.address })
}

#[cfg(test)]
mod tests {
    use super::{Budget, Extent};
    use crate::error::{FindError, RefusalReason};
    use crate::testing::{CODE, Elf, Section};

    #[test]
    fn each_byte_of_a_file_may_be_decoded_twice() {
        for (code, pieces) in [
            // 32 bytes: two whole functions of 16.
            (&[0x90; 16][..], [(16, true), (16, true), (0, false), (0, false)]),
            (&[0x90; 10], [(10, false), (10, false), (0, false), (0, false)]),
            // At least the bytes that an instruction may take.
            (&[0x90; 4], [(4, false), (4, false), (4, false), (3, false)]),
        ] {
            let image = Elf::default().code(CODE, code).write().image();
            let budget = Budget::of(&image);
            let extent = Extent { address: CODE, end: CODE + 16, stated: true };
            let found = pieces.map(|_| budget.code(&image, extent)).map(|(code, whole)| (code.len(), whole));
            assert_eq!(found, pieces, "{}", code.len());
        }
        let image = Elf::default().code(CODE, &[0x90; 16]).write().image();
        let nowhere = Extent { address: CODE + 4, end: CODE, stated: true };
        assert_eq!(Budget::of(&image).code(&image, nowhere), (Vec::new(), true), "it ends before it begins");
    }

    #[test]
    fn a_nop_of_5_bytes_behind_a_check_of_the_stack_is_refused() {
        // cmp 0x10(%r14),%rsp, jbe 9f, nop of 5 bytes or of one, ret, 9: call *%rax, jmp to the beginning.
        let code = |nop: &[u8]| {
            let jump_to = nop.len() as u8 + 1;
            let check = [0x49, 0x3b, 0x66, 0x10, 0x76, jump_to];
            let back = (-(6 + nop.len() as i8 + 1 + 4)) as u8;
            [&check[..], nop, &[0xc3, 0xff, 0xd0, 0xeb, back]].concat()
        };
        let go = |nop: &[u8]| {
            let code = code(nop);
            let elf = Elf::default().code(CODE, &code).function("main.f", CODE, code.len() as u64);
            elf.section(Section::new(".go.buildinfo", &[0; 8]))
        };
        let plain = go(&[0x90]);
        assert_eq!(plain.write().only("main.f").probe.offset, plain.offset(CODE + 6));
        match go(&[0x0f, 0x1f, 0x44, 0, 0]).write().find("main.f") {
            Err(FindError::Refused(refusal)) => assert_eq!(refusal.why, RefusalReason::InnerNop),
            other => panic!("{other:?}"),
        }
    }
}
