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
    let round = 1_u64 << bits;
    let at = last & !(round - 1) | value & (round - 1);
    if at < last { at.wrapping_add(round) } else { at }
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
        let first = (at.div_ceil(8)) as usize;
        match self {
            Self::Compact { register } => {
                let rest = bytes.get(first..).ok_or(Stop::Short)?;
                let word = u32::from_le_bytes(*rest.first_chunk().ok_or(Stop::Short)?);
                let id = u64::from(word & 31);
                keep(registers, *register, id);
                if id < 31 {
                    let stamp = extend(last, u64::from(word >> 5), 27);
                    return Ok((Heading { id, stamp }, first as u64 * 8 + 32));
                }
                full(rest, 1).map(|heading| (heading, first as u64 * 8 + 8 + 96))
            }
            Self::Large { register } => {
                let rest = bytes.get(first..).ok_or(Stop::Short)?;
                let id = u64::from(u16::from_le_bytes(*rest.first_chunk().ok_or(Stop::Short)?));
                keep(registers, *register, id);
                if id < 0xffff {
                    let low = rest.get(2..).and_then(|rest| rest.first_chunk()).ok_or(Stop::Short)?;
                    let stamp = extend(last, u32::from_le_bytes(*low).into(), 32);
                    return Ok((Heading { id, stamp }, first as u64 * 8 + 48));
                }
                full(rest, 2).map(|heading| (heading, first as u64 * 8 + 16 + 96))
            }
            Self::Any(plan) => {
                let mut heading = Heading { id: 0, stamp: last };
                let at = plan.run(bytes, at, registers, &mut heading)?;
                Ok((heading, at))
            }
        }
    }
}

#[inline]
fn keep(registers: &mut Registers, register: Option<u16>, id: u64) {
    if let Some(register) = register {
        registers.set(register, id);
    }
}

/// Id and stamp in full.
fn full(rest: &[u8], from: usize) -> Result<Heading, Stop> {
    let both: &[u8; 12] = rest.get(from..).and_then(|rest| rest.first_chunk()).ok_or(Stop::Short)?;
    let (id, stamp) = both.split_at(4);
    Ok(Heading {
        id: u32::from_le_bytes(id.try_into().map_err(|_| Stop::Short)?).into(),
        stamp: u64::from_le_bytes(stamp.try_into().map_err(|_| Stop::Short)?),
    })
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
