//! Unpacks compressed files and messages, up to a bound: a small file may unpack to any size.

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

/// A gzip member's first bytes.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// A Zstandard frame's first bytes.
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Unpacked bytes, and the reason why they are not all.
pub(super) struct Unpacked {
    pub(super) bytes: Bytes,
    pub(super) cut: Option<Cut>,
}

/// The reason for an end before the end.
pub(super) enum Cut {
    /// The unpacked bytes would pass the bound.
    TooLarge,
    /// The compressed data is damaged, or ends early.
    Damaged(String),
}

/// The unpacked bytes, at most `bound`; `None` for bytes in neither format.
pub(super) fn unpack(packed: &[u8], bound: usize) -> Option<Unpacked> {
    let mut bytes = Vec::new();
    let cut = if packed.starts_with(GZIP) {
        fill(MultiGzDecoder::new(packed), &mut bytes, bound)
    } else if packed.starts_with(ZSTD) {
        frames(packed, &mut bytes, bound)
    } else {
        return None;
    };
    Some(Unpacked { bytes: bytes.into(), cut })
}

/// Unpacks consecutive Zstandard frames.
fn frames(mut packed: &[u8], bytes: &mut Vec<u8>, bound: usize) -> Option<Cut> {
    while !packed.is_empty() {
        let frame = match StreamingDecoder::new(&mut packed) {
            Ok(frame) => frame,
            Err(error) => return Some(Cut::Damaged(error.to_string())),
        };
        if let Some(cut) = fill(frame, bytes, bound) {
            return Some(cut);
        }
    }
    None
}

/// Reads to the end, or until `bytes` has more than `bound`.
fn fill(mut from: impl Read, bytes: &mut Vec<u8>, bound: usize) -> Option<Cut> {
    let room = (bound - bytes.len()) as u64;
    if let Err(error) = from.by_ref().take(room).read_to_end(bytes) {
        return Some(Cut::Damaged(error.to_string()));
    }
    // At the bound, a further byte decides.
    match from.read(&mut [0]) {
        Ok(0) => None,
        Ok(_) => Some(Cut::TooLarge),
        Err(error) => Some(Cut::Damaged(error.to_string())),
    }
}
