//! Record headers and lengths.

use crate::layout::{HEADER_BYTES, LAYOUTS, Layout, MAX_FRAMES, MAX_RECORD_BYTES};
use crate::{DecodeError, Kind};

/// A record's header, `struct wp_header`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// `CLOCK_MONOTONIC`, ns.
    pub stamp: u64,
    /// A [`Kind`]'s number, or an unassigned number.
    pub kind: u8,
    /// `enum wp_context`.
    pub context: u8,
    /// A counter in a per-CPU ring; in the buffer for all CPUs, the CPU.
    pub seq: u16,
    /// The thread current on the CPU.
    pub tid: u32,
}

impl Header {
    /// The header at the beginning of `bytes`; `None` if `bytes` has fewer than 16.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let h = bytes.first_chunk::<HEADER_BYTES>()?;
        Some(Self {
            stamp: u64::from_le_bytes([h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]]),
            kind: h[8],
            context: h[9],
            seq: u16::from_le_bytes([h[10], h[11]]),
            tid: u32::from_le_bytes([h[12], h[13], h[14], h[15]]),
        })
    }
}

/// The record sizes, bytes, for kinds with a fixed length, by kind number; 0 for other kinds.
const FIXED: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < LAYOUTS.len() {
        let layout = &LAYOUTS[i];
        if layout.tail.is_empty() {
            table[layout.kind as usize] = layout.bytes as u8;
        }
        i += 1;
    }
    table
};

/// This kind's record size, bytes, if all its records have the same length.
#[inline]
pub fn fixed_length(kind: u8) -> Option<usize> {
    match FIXED[usize::from(kind)] {
        0 => None,
        bytes => Some(usize::from(bytes)),
    }
}

/// The size of the first record in `bytes`: a multiple of 8, at most [`MAX_RECORD_BYTES`]. The whole record is in `bytes`.
///
/// # Errors
/// [`DecodeError::Short`] has the needed number of bytes (never beyond the bound); with the other errors, the record's end cannot be known.
#[inline]
pub fn record_length(bytes: &[u8]) -> Result<usize, DecodeError> {
    let Some(header) = Header::read(bytes) else {
        return Err(DecodeError::Short { record: "any", needs: HEADER_BYTES, found: bytes.len() });
    };
    match fixed_length(header.kind) {
        Some(needs) if needs <= bytes.len() => Ok(needs),
        _ => odd_length(bytes, header.kind),
    }
}

#[cold]
fn odd_length(bytes: &[u8], kind: u8) -> Result<usize, DecodeError> {
    let layout = Layout::of(Kind::from_number(kind).ok_or(DecodeError::UnknownKind(kind))?);
    let short = |needs| DecodeError::Short { record: layout.name, needs, found: bytes.len() };
    if bytes.len() < layout.bytes {
        return Err(short(layout.bytes));
    }
    let most_tail = match layout.kind {
        Kind::Sample | Kind::Stack | Kind::StackLater => MAX_FRAMES * 8,
        _ => MAX_RECORD_BYTES - layout.bytes,
    };
    let mut length = layout.bytes;
    for tail in layout.tail {
        let count = layout.field(tail.count).map_or(0, |field| number(bytes, field.offset, 4));
        let claimed = count.saturating_mul(tail.element.bytes() as u64);
        if claimed > most_tail as u64 || !claimed.is_multiple_of(8) {
            return Err(DecodeError::BadField { record: layout.name, field: tail.count, value: count });
        }
        // Both terms are bounded by MAX_RECORD_BYTES.
        length += claimed as usize;
    }
    if length > MAX_RECORD_BYTES {
        return Err(DecodeError::TooLong { record: layout.name, claims: length, most: MAX_RECORD_BYTES });
    }
    if bytes.len() < length { Err(short(length)) } else { Ok(length) }
}

/// The little-endian integer of `width` bytes (at most 8) at `offset`; 0 beyond the end, which no caller
/// reaches after asking for the length.
pub(crate) fn number(bytes: &[u8], offset: usize, width: usize) -> u64 {
    let mut all = [0; 8];
    if let (Some(from), Some(to)) = (bytes.get(offset..offset + width), all.get_mut(..width)) {
        to.copy_from_slice(from);
    }
    u64::from_le_bytes(all)
}
