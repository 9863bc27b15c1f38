//! Event headers: the event's id and stamp.

use crate::plan::{Plan, Registers, Stop, Visitor};
use crate::schema::{ByteOrder, FieldType, Integer, Selector, StreamClass};

/// The form of a stream's event headers.
#[derive(Debug)]
pub(super) enum HeadShape {
    /// LTTng's: 5 bits for the id and 27 for the stamp in a single word, or id 31 and both in full.
    Compact { register: Option<u16> },
    /// LTTng's: 16 bits for the id and 32 for the stamp, or id 65 535 and both in full.
    Large { register: Option<u16> },
    /// Any other.
    Any(Plan),
}

/// The content of an event's header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heading {
    pub id: u64,
    /// The clock, in ticks.
    pub stamp: u64,
}

impl Visitor for Heading {
    #[inline]
    fn unsigned(&mut self, slot: u16, value: u64) {
        match slot {
            0 => self.id = value,
            bits => self.stamp = extend(self.stamp, value, bits.into()),
        }
    }

    fn signed(&mut self, slot: u16, value: i64) {
        let mask = if slot == 0 || slot >= 64 { u64::MAX } else { (1 << slot) - 1 };
        self.unsigned(slot, value as u64 & mask);
    }

    fn float(&mut self, _: u16, _: f64) {}
    fn bytes(&mut self, _: u16, _: &[u8]) {}
}

/// The first clock value at or after `last` whose lowest `bits` bits are `value` (CTF 1.8, section 8). The tracer
/// writes later stamps in full.
#[inline]
pub(super) const fn extend(last: u64, value: u64, bits: u32) -> u64 {
    if bits >= 64 {
        return value;
    }
    last.wrapping_add(value.wrapping_sub(last) & ((1 << bits) - 1))
}

impl HeadShape {
    /// `register` keeps the id, if another field refers to it.
    pub fn of(stream: &StreamClass, plan: Plan, register: Option<u16>) -> Self {
        if is_lttng(stream, 5, 1, 27) {
            Self::Compact { register }
        } else if is_lttng(stream, 16, 8, 32) {
            Self::Large { register }
        } else {
            Self::Any(plan)
        }
    }

    /// Decodes the header at bit `at`; returns the bit behind it.
    #[inline]
    pub fn read(
        &self,
        bytes: &[u8],
        at: u64,
        registers: &mut Registers,
        last: u64,
    ) -> Result<(Heading, u64), Stop> {
        let first = at.div_ceil(8);
        let rest = || bytes.get(first as usize..).unwrap_or_default();
        let (register, found) = match self {
            Self::Compact { register } => (*register, compact(rest(), last)),
            Self::Large { register } => (*register, large(rest(), last)),
            Self::Any(plan) => {
                let mut heading = Heading { id: 0, stamp: last };
                let at = plan.run(bytes, at, registers, &mut heading)?;
                return Ok((heading, at));
            }
        };
        let (heading, size) = found.ok_or(Stop::Short)?;
        if let Some(register) = register {
            registers.set(register, heading.id);
        }
        Ok((heading, (first + size as u64) * 8))
    }
}

/// A [`HeadShape::Compact`] header at `rest`'s beginning, and its size in bytes; `None` if the bytes end first.
#[inline]
pub(super) fn compact(rest: &[u8], last: u64) -> Option<(Heading, usize)> {
    let word = u32::from_le_bytes(*rest.first_chunk()?);
    match word & 31 {
        31 => full(rest, 1),
        id => Some((Heading { id: id.into(), stamp: extend(last, (word >> 5).into(), 27) }, 4)),
    }
}

/// A [`HeadShape::Large`] header, likewise.
#[inline]
pub(super) fn large(rest: &[u8], last: u64) -> Option<(Heading, usize)> {
    let [a, b, low @ ..] = *rest.first_chunk::<6>()?;
    match u16::from_le_bytes([a, b]) {
        0xffff => full(rest, 2),
        id => {
            let stamp = extend(last, u32::from_le_bytes(low).into(), 32);
            Some((Heading { id: id.into(), stamp }, 6))
        }
    }
}

/// Id and stamp in full, behind `from` bytes.
#[cold]
fn full(rest: &[u8], from: usize) -> Option<(Heading, usize)> {
    let (id, rest) = rest.get(from..)?.split_first_chunk()?;
    let stamp = u64::from_le_bytes(*rest.first_chunk()?);
    Some((Heading { id: u32::from_le_bytes(*id).into(), stamp }, from + 12))
}

/// Whether headers are `enum { 0 … largest − 1, largest } id; variant <id> { { stamp }, { id, stamp } }`.
fn is_lttng(stream: &StreamClass, id_bits: u32, align: u32, stamp_bits: u32) -> bool {
    let largest = (1_i128 << id_bits) - 1;
    let header = &stream.event_header;
    let [tag, variant] = header.fields.as_slice() else { return false };
    let (FieldType::Enumeration(id, names), FieldType::Variant(variant)) = (&tag.ty, &variant.ty) else {
        return false;
    };
    let ([short, long], [compact, extended]) = (names.as_slice(), variant.options.as_slice()) else {
        return false;
    };
    let names_fit = short.name == compact.name
        && long.name == extended.name
        && (short.from, short.to, long.from, long.to) == (0, largest - 1, largest, largest);
    let (FieldType::Struct(compact), FieldType::Struct(extended)) = (&compact.ty, &extended.ty) else {
        return false;
    };
    let ([low], [id_too, whole]) = (compact.fields.as_slice(), extended.fields.as_slice()) else {
        return false;
    };
    let is = |ty: &FieldType, bits: u32, align: u32, stamp: bool| matches!(ty, FieldType::Integer(integer) if plain(integer, bits, align) && integer.clock.is_some() == stamp);
    // A stamp aligned to bits makes its structure so; a stamp aligned to bytes could leave a gap.
    let low_align = if id_bits == 5 { 1 } else { 8 };
    names_fit
        && header.aligned() == 8
        && tag.name == "id"
        && id_too.name == "id"
        && variant.tag == "id"
        && variant.selector == Selector::Names
        && plain(id, id_bits, align)
        && compact.align <= low_align
        && extended.align <= 8
        && is(&low.ty, stamp_bits, low_align, true)
        && is(&id_too.ty, 32, 8, false)
        && is(&whole.ty, 64, 8, true)
}

fn plain(integer: &Integer, bits: u32, align: u32) -> bool {
    integer.bits == bits
        && integer.align == align
        && !integer.signed
        && integer.byte_order == ByteOrder::Little
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_stamps_go_on_from_the_last_one() {
        for (last, value, bits, stamp) in [
            (0, 5, 27, 5),
            (100, 100, 27, 100),
            (100, 99, 27, (1 << 27) + 99),
            ((7 << 27) + 5, 6, 27, (7 << 27) + 6),
            ((7 << 27) + 5, 4, 27, (8 << 27) + 4),
            ((1 << 32) - 1, 0, 32, 1 << 32),
            (10, 3, 64, 3),
            (u64::MAX, 0, 32, 0),
        ] {
            assert_eq!(extend(last, value, bits), stamp, "{value:#x} of {bits} bits after {last:#x}");
        }
    }
}
