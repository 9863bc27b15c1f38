//! Where in a function the probe goes.

use std::cell::Cell;

use crate::body::Body;
use crate::error::Reason;
use crate::function::{Probe, Return, Runtime};
use crate::image::Image;
use crate::instruction::{Cost, LONGEST, Probed, probed};

/// A function's extent as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub address: u64,
    /// Behind the last byte.
    pub end: u64,
    /// Whether a symbol states it; else it is where the next function begins.
    pub stated: bool,
}

/// How much of a file is still decoded. Functions that do not overlap are decoded within it; symbols
/// that state they do would else make a small file take hours.
pub(crate) struct Budget(Cell<u64>);

impl Budget {
    pub fn of(image: &Image) -> Self {
        Self(Cell::new(image.code_bytes().saturating_mul(2).max(LONGEST as u64)))
    }

    /// Code of a function, and whether it is all of it.
    fn code(&self, image: &Image, extent: Extent) -> (Vec<u8>, bool) {
        let stated = extent.end.saturating_sub(extent.address);
        let allowed = stated.min(self.0.get());
        let code = image.code(extent.address..extent.address + allowed).unwrap_or_default();
        self.0.set(self.0.get() - code.len() as u64);
        let whole = code.len() as u64 == stated;
        (code, whole)
    }
}

/// Chooses where calls of a function are seen to begin and end.
///
/// The entry's own instruction, but for two kinds of it. `endbr64` is single-stepped: the instruction
/// behind it is taken if that is cheaper, unless a loop jumps there, or not all of the function could
/// be decoded to know. It is not taken if it is a 5-byte no-operation, although nothing is below the
/// stack pointer yet at that place: the call that Linux 6.18 puts there pushes onto the stack, and where
/// that overwrites something, the program is corrupted; a rule that needs no further argument is worth
/// the 20 µs. And a Go function may jump back to its entry when its stack has grown.
pub(crate) fn place(
    image: &Image,
    extent: Extent,
    runtime: Runtime,
    budget: &Budget,
) -> Result<Probe, Reason> {
    let address = extent.address;
    let (code, whole) = budget.code(image, extent);
    let first = match probed(&code, address) {
        Some(first) => first,
        None => at(image, address)?,
    };
    let body = Body::of(&code, address, whole);
    let jumped_to = body.targets.contains(&address);
    let entry = match runtime {
        Runtime::Go if jumped_to => body.behind_stack_check().ok_or(Reason::LoopToEntry)?,
        _ if jumped_to => return Err(Reason::LoopToEntry),
        _ => behind_endbr64(image, &body, first, address).unwrap_or(address),
    };
    let probed = if entry == address { first } else { at(image, entry)? };
    let cost = probed.cost.ok_or_else(|| refused(image, entry, probed.length))?;
    if entry != address && cost == Cost::Optimised {
        return Err(Reason::LoopToEntry);
    }
    let offset = image.offset(entry).ok_or(Reason::NotCode { address: entry })?;
    Ok(Probe { offset, cost, returns: returns(image, &body, extent, runtime)? })
}

/// The instruction behind an `endbr64` at the entry, if it is better and only passed by calls.
fn behind_endbr64(image: &Image, body: &Body, first: Probed, address: u64) -> Option<u64> {
    if !first.endbr64 || !body.whole {
        return None;
    }
    let next = address + first.length as u64;
    let second = at(image, next).ok()?;
    (second.cost == Some(Cost::Emulated) && !body.targets.contains(&next)).then_some(next)
}

fn at(image: &Image, address: u64) -> Result<Probed, Reason> {
    if image.offset(address).is_none() {
        return Err(Reason::NotCode { address });
    }
    let code = image.code(address..address.saturating_add(LONGEST as u64)).unwrap_or_default();
    probed(&code, address).ok_or(Reason::NoInstruction { address })
}

fn refused(image: &Image, address: u64, length: usize) -> Reason {
    let code = image.code(address..address + length as u64).unwrap_or_default();
    let instruction = code.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    Reason::Instruction { instruction }
}

fn returns(image: &Image, body: &Body, extent: Extent, runtime: Runtime) -> Result<Return, Reason> {
    // Where the next function begins says nothing about what lies between.
    if extent.stated && body.never_returns() {
        return Ok(Return::Never);
    }
    if runtime == Runtime::Native {
        return Ok(Return::ReturnProbe);
    }
    let why = match () {
        () if !body.whole || !extent.stated => "not all of its code could be read as instructions".to_owned(),
        () if body.computed => "it holds a jump to a computed place, by which it may leave".to_owned(),
        () if body.falls_out => "it runs on into the next function".to_owned(),
        () => match body.leaves.first() {
            Some(target) => format!("it also leaves by a jump to {target:#x}"),
            None => {
                let offsets = body.returns.iter().map(|&address| image.offset(address));
                let offsets: Option<Vec<u64>> = offsets.collect();
                return offsets
                    .map(Return::AtInstructions)
                    .ok_or(Reason::NotCode { address: extent.address });
            }
        },
    };
    Err(Reason::GoReturns { why })
}
