//! Numbers at any bit position in bytes.

use super::run::Stop;

/// `bits` bits, 1 to 64, from bit `at` in `bytes` on; `None` if some are missing. A little-endian number's bits count
/// from a byte's least significant bit, a big-endian number's from the most significant.
#[inline]
pub(super) fn number(bytes: &[u8], at: u64, bits: u32, big: bool) -> Option<u64> {
    let first = usize::try_from(at / 8).ok()?;
    let shift = (at % 8) as u32;
    if shift == 0 {
        // Most have these widths and begin with a byte.
        match (bits, big) {
            (8, _) => return bytes.get(first).map(|&byte| byte.into()),
            (16, _) => {
                let two = *bytes.get(first..)?.first_chunk()?;
                return Some(if big { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) }.into());
            }
            (32, _) => {
                let four = *bytes.get(first..)?.first_chunk()?;
                return Some(if big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }.into());
            }
            (64, _) => {
                let eight = *bytes.get(first..)?.first_chunk()?;
                return Some(if big { u64::from_be_bytes(eight) } else { u64::from_le_bytes(eight) });
            }
            _ => {}
        }
    }
    let spanned = (shift + bits).div_ceil(8) as usize;
    let span = bytes.get(first..first.checked_add(spanned)?)?;
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    // At most nine bytes.
    let value = if big {
        let all = span.iter().fold(0_u128, |all, &byte| all << 8 | u128::from(byte));
        all >> (spanned as u32 * 8 - shift - bits)
    } else {
        let all = span.iter().rev().fold(0_u128, |all, &byte| all << 8 | u128::from(byte));
        all >> shift
    };
    Some(value as u64 & mask)
}

/// A number with 7 bits in each byte, the lowest first; the last byte has no eighth bit. `at` moves behind it.
#[inline]
pub(super) fn leb128(bytes: &[u8], at: &mut u64, with_sign: bool) -> Result<u64, Stop> {
    let rest = bytes.get((*at / 8) as usize..).ok_or(Stop::Short)?;
    let mut value = 0_u128;
    // Ten bytes hold 64 bits; more only repeat the sign.
    for (index, &byte) in rest.iter().enumerate() {
        if index == 10 {
            return Err(Stop::Large);
        }
        value |= u128::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *at += (index as u64 + 1) * 8;
            let bits = 7 * (index as u32 + 1);
            let unused = 128 - bits;
            let whole = if with_sign { ((value << unused) as i128) >> unused } else { value as i128 };
            let fits = if with_sign { i64::try_from(whole).is_ok() } else { u64::try_from(value).is_ok() };
            return if fits { Ok(whole as u64) } else { Err(Stop::Large) };
        }
    }
    Err(Stop::Short)
}

/// The lowest `bits` bits as two's complement.
#[inline]
pub(super) const fn signed(value: u64, bits: u32) -> i64 {
    let unused = 64 - bits;
    ((value << unused) as i64) >> unused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_from_the_end_that_the_byte_order_says() {
        let bytes = [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 0x11];
        for (at, bits, big, value) in [
            (0, 4, false, 0x2),
            (4, 4, false, 0x1),
            (0, 4, true, 0x1),
            (4, 4, true, 0x2),
            (4, 8, true, 0x23),
            (4, 8, false, 0x41),
            (0, 5, false, 0x12),
            (5, 27, false, 0x7856_3412 >> 5),
            (7, 9, true, 0x34),
            (0, 24, true, 0x12_3456),
            (0, 24, false, 0x56_3412),
            (4, 64, false, 0x1f0d_ebc9_a785_6341),
            (4, 64, true, 0x2345_6789_abcd_ef01),
            (0, 64, true, 0x1234_5678_9abc_def0),
            (8, 32, false, 0x9a78_5634),
        ] {
            assert_eq!(number(&bytes, at, bits, big), Some(value), "{bits} bits at {at}, big: {big}");
        }
        assert_eq!(number(&bytes, 9, 64, false), None, "one bit is missing");
        assert_eq!(number(&bytes, u64::MAX, 64, false), None);
        assert_eq!((signed(0b101, 3), signed(0b011, 3), signed(u64::MAX, 64)), (-3, 3, -1));
    }
}
