//! Runs a plan over an event's bytes.

use super::bits::{leb128, number, signed};
use super::{Count, NONE, Op, Plan, Visitor};

/// The values to which later fields refer: lengths of sequences, tags of variants.
#[derive(Debug, Clone)]
pub(crate) struct Registers {
    values: [u64; 256],
    /// The arrays in progress: an element's first operation, the number of elements left, and the last element's
    /// first bit. They stand here so that events without arrays pay nothing for them.
    loops: [(u32, u64, u64); MAX_LOOP_DEPTH],
}

impl Default for Registers {
    fn default() -> Self {
        Self { values: [0; 256], loops: [(0, 0, 0); MAX_LOOP_DEPTH] }
    }
}

impl Registers {
    #[inline]
    pub const fn get(&self, register: u16) -> u64 {
        self.values[register as u8 as usize]
    }

    #[inline]
    pub const fn set(&mut self, register: u16, value: u64) {
        self.values[register as u8 as usize] = value;
    }
}

/// Why a plan stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The bytes end first.
    Short,
    /// A variant's tag has this value, which selects no option.
    Tag(u64),
    /// A number with more than 64 bits.
    Large,
    /// An array whose elements have no size.
    Empty,
}

/// The deepest nesting of arrays other than arrays of plain numbers.
pub(super) const MAX_LOOP_DEPTH: usize = 8;

impl Plan {
    /// Decodes the fields from bit `at` of `bytes` on, whose first byte is aligned like the packet's first. Returns
    /// the bit behind them.
    #[inline]
    pub(crate) fn run(
        &self,
        bytes: &[u8],
        at: u64,
        registers: &mut Registers,
        visitor: &mut impl Visitor,
    ) -> Result<u64, Stop> {
        let at = self.run_ops::<false>(&self.ops, bytes, at, registers, visitor)?;
        if at > bytes.len() as u64 * 8 { Err(Stop::Short) } else { Ok(at) }
    }

    /// The same, for a plan with a [`Plan::size`] and all its bytes: only passes the fields on.
    #[inline]
    pub(crate) fn run_fixed(
        &self,
        bytes: &[u8],
        at: u64,
        registers: &mut Registers,
        visitor: &mut impl Visitor,
    ) -> Result<(), Stop> {
        let reporting = self.ops.get(..self.reporting).unwrap_or_default();
        self.run_ops::<true>(reporting, bytes, at, registers, visitor).map(|_| ())
    }

    /// `FIXED`: all operations have a fixed size.
    #[inline]
    fn run_ops<const FIXED: bool>(
        &self,
        ops: &[Op],
        bytes: &[u8],
        mut at: u64,
        registers: &mut Registers,
        visitor: &mut impl Visitor,
    ) -> Result<u64, Stop> {
        let end = bytes.len() as u64 * 8;
        let mut depth = 0;
        let mut next = 0;
        // A fixed-width number at the byte with the bit `at`.
        macro_rules! fixed {
            ($ty:ty, $bits:literal) => {{
                let first = (at / 8) as usize;
                let found = bytes.get(first..).and_then(|rest| rest.first_chunk()).ok_or(Stop::Short)?;
                at += $bits;
                <$ty>::from_le_bytes(*found)
            }};
        }
        while let Some(&op) = ops.get(next) {
            next += 1;
            match op {
                Op::U8(slot) => visitor.unsigned(slot, fixed!(u8, 8).into()),
                Op::U16(slot) => visitor.unsigned(slot, fixed!(u16, 16).into()),
                Op::U32(slot) => visitor.unsigned(slot, fixed!(u32, 32).into()),
                Op::U64(slot) => visitor.unsigned(slot, fixed!(u64, 64)),
                Op::I8(slot) => visitor.signed(slot, fixed!(i8, 8).into()),
                Op::I16(slot) => visitor.signed(slot, fixed!(i16, 16).into()),
                Op::I32(slot) => visitor.signed(slot, fixed!(i32, 32).into()),
                Op::I64(slot) => visitor.signed(slot, fixed!(i64, 64)),
                Op::Skip(bits) => {
                    at = at.checked_add(bits).filter(|&at| at <= end).ok_or(Stop::Short)?;
                }
                Op::Chars { slot, bytes: count } => {
                    let all = take(bytes, &mut at, count.into())?;
                    visitor.bytes(slot, up_to_nul(all));
                }
                Op::Number { slot, register, bits, big, signed: with_sign } => {
                    let bits = u32::from(bits);
                    let value = number(bytes, at, bits, big).ok_or(Stop::Short)?;
                    at += u64::from(bits);
                    let whole = if with_sign { signed(value, bits) } else { value as i64 };
                    if register != NONE {
                        registers.set(register, whole as u64);
                    }
                    if slot != NONE {
                        if with_sign { visitor.signed(slot, whole) } else { visitor.unsigned(slot, value) }
                    }
                }
                Op::Float { slot, wide, big } => {
                    let bits = if wide { 64 } else { 32 };
                    let value = number(bytes, at, bits, big).ok_or(Stop::Short)?;
                    at += u64::from(bits);
                    let value =
                        if wide { f64::from_bits(value) } else { f32::from_bits(value as u32).into() };
                    visitor.float(slot, value);
                }
                Op::Bytes { slot, bytes: count } => {
                    let all = take(bytes, &mut at, count.into())?;
                    visitor.bytes(slot, all);
                }
                Op::Open(slot) => visitor.open(slot),
                Op::Close(slot) => visitor.close(slot),
                // Operations without a fixed size.
                _ if FIXED => return Err(Stop::Short),
                Op::Leb128 { slot, register, signed } => {
                    let value = leb128(bytes, &mut at, signed)?;
                    if register != NONE {
                        registers.set(register, value);
                    }
                    if slot != NONE {
                        if signed {
                            visitor.signed(slot, value as i64)
                        } else {
                            visitor.unsigned(slot, value)
                        }
                    }
                }
                Op::Text(slot) => {
                    let text = text(bytes, &mut at)?;
                    visitor.bytes(slot, text);
                }
                Op::SkipText => {
                    text(bytes, &mut at)?;
                }
                Op::CharsOf { slot, register } => {
                    let count = registers.get(register);
                    let all = take(bytes, &mut at, count)?;
                    visitor.bytes(slot, up_to_nul(all));
                }
                Op::BytesOf { slot, register, bytes: each } => {
                    let count = registers.get(register);
                    let count = count.checked_mul(each.into()).ok_or(Stop::Short)?;
                    let all = take(bytes, &mut at, count)?;
                    visitor.bytes(slot, all);
                }
                Op::SkipOf { register, bits } => {
                    let count = registers.get(register);
                    let bits = count.checked_mul(bits.into());
                    let to = bits.and_then(|bits| at.checked_add(bits));
                    at = to.filter(|&at| at <= end).ok_or(Stop::Short)?;
                }
                Op::Align(bits) => {
                    at = at.next_multiple_of(bits.into());
                }
                Op::Integers(index) => {
                    let array = self.integers[usize::from(index)];
                    let count = self.count(array.count, registers);
                    // Nothing is passed on from an incomplete array.
                    let size = count.checked_mul(array.stride.into()).and_then(|bits| at.checked_add(bits));
                    size.filter(|&size| size <= end + 7).ok_or(Stop::Short)?;
                    let bits = u32::from(array.bits);
                    visitor.open(array.array);
                    for _ in 0..count {
                        let value = number(bytes, at, bits, array.big).ok_or(Stop::Short)?;
                        at += u64::from(array.stride);
                        if array.signed {
                            visitor.signed(array.element, signed(value, bits));
                        } else {
                            visitor.unsigned(array.element, value);
                        }
                    }
                    visitor.close(array.array);
                }
                Op::Repeat(index) => {
                    let body = self.loops[usize::from(index)];
                    let count = self.count(body.count, registers);
                    if count == 0 {
                        next = body.end as usize;
                    } else if count > end.saturating_sub(at) {
                        return Err(Stop::Short);
                    } else {
                        registers.loops[depth % MAX_LOOP_DEPTH] = (next as u32, count, at);
                        depth += 1;
                    }
                }
                Op::Again => {
                    let (body, left, from) = &mut registers.loops[(depth - 1) % MAX_LOOP_DEPTH];
                    if *from == at {
                        return Err(Stop::Empty);
                    }
                    *from = at;
                    *left -= 1;
                    if *left == 0 {
                        depth -= 1;
                    } else {
                        next = *body as usize;
                    }
                }
                Op::Choose(index) => {
                    let choice = &self.choices[usize::from(index)];
                    let value = registers.get(choice.register);
                    let biased = value.wrapping_add(choice.bias);
                    let found = choice.ranges.iter().find(|(from, to, _)| (*from..=*to).contains(&biased));
                    let to = found.map(|(_, _, to)| *to).or(choice.otherwise);
                    next = to.ok_or(Stop::Tag(value))? as usize;
                }
                Op::Jump(to) => next = to as usize,
            }
        }
        Ok(at)
    }

    fn count(&self, count: Count, registers: &Registers) -> u64 {
        match count {
            Count::Fixed(count) => count,
            Count::Register(register) => registers.get(register),
        }
    }
}

/// The next `count` bytes; `at` moves behind them.
#[inline]
fn take<'a>(bytes: &'a [u8], at: &mut u64, count: u64) -> Result<&'a [u8], Stop> {
    let rest = bytes.get((*at / 8) as usize..).ok_or(Stop::Short)?;
    let count = usize::try_from(count).map_err(|_| Stop::Short)?;
    let taken = rest.get(..count).ok_or(Stop::Short)?;
    *at += count as u64 * 8;
    Ok(taken)
}

/// Bytes up to a NUL, which is passed too.
#[inline]
fn text<'a>(bytes: &'a [u8], at: &mut u64) -> Result<&'a [u8], Stop> {
    let rest = bytes.get((*at / 8) as usize..).ok_or(Stop::Short)?;
    let len = memchr::memchr(0, rest).ok_or(Stop::Short)?;
    *at += (len as u64 + 1) * 8;
    Ok(&rest[..len])
}

#[inline]
fn up_to_nul(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    &bytes[..len]
}
