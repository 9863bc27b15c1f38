//! Unpacks compressed files and messages, up to a bound: a small file may unpack to any size.

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder, StreamingDecoder};

/// A gzip member's first bytes.
const GZIP: &[u8] = &[0x1f, 0x8b];

/// A Zstandard frame's first bytes, if it has contents.
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
    } else if packed.starts_with(ZSTD) || skippable(packed).is_some() {
        frames(packed, &mut bytes, bound)
    } else {
        return None;
    };
    Some(Unpacked { bytes: bytes.into(), cut })
}

/// Unpacks consecutive Zstandard frames.
fn frames(mut packed: &[u8], bytes: &mut Vec<u8>, bound: usize) -> Option<Cut> {
    while !packed.is_empty() {
        if let Some(length) = skippable(packed) {
            packed = match packed.get(length..) {
                Some(rest) => rest,
                None => return Some(Cut::Damaged("a skippable frame is cut off".to_owned())),
            };
            continue;
        }
        let mut frame = match StreamingDecoder::new(&mut packed) {
            Ok(frame) => frame,
            Err(error) => return Some(Cut::Damaged(error.to_string())),
        };
        if let Some(cut) = fill(&mut frame, bytes, bound) {
            if let Cut::Damaged(_) = cut {
                release(frame.decoder, bytes, bound);
            }
            return Some(cut);
        }
        let expected = frame.decoder.get_checksum_from_data();
        if expected.is_some_and(|expected| frame.decoder.get_calculated_checksum() != Some(expected)) {
            return Some(Cut::Damaged("a checksum differs".to_owned()));
        }
    }
    None
}

/// The skippable frame's length at the beginning, with its head; `None` for another frame. Parallel compressors
/// put their blocks' sizes into such frames (RFC 8878, section 3.1.2).
fn skippable(packed: &[u8]) -> Option<usize> {
    let head = packed.first_chunk::<8>()?;
    let [kind, magic @ .., a, b, c, d] = *head;
    let is_skippable = kind & 0xf0 == 0x50 && magic == [0x2a, 0x4d, 0x18];
    is_skippable.then(|| 8 + u32::from_le_bytes([a, b, c, d]) as usize)
}

/// Adds the whole blocks before the damage. The decoder holds them back, because later blocks may repeat them, until an empty last
/// block ends its frame.
fn release(mut decoder: FrameDecoder, bytes: &mut Vec<u8>, bound: usize) {
    const LAST: &[u8] = &[1, 0, 0];
    const CHECKSUM: &[u8] = &[0; 4];
    let end = [LAST, CHECKSUM].concat();
    if decoder.decode_blocks(&end[..], BlockDecodingStrategy::All).is_ok() {
        let room = (bound - bytes.len()) as u64;
        // Memory has no errors.
        let _ = decoder.take(room).read_to_end(bytes);
    }
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(bytes).expect("memory");
        packed.finish().expect("memory")
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    #[test]
    fn members_and_frames_share_one_bound_and_what_is_within_it_is_kept() {
        for packed in [[gzip(b"abc"), gzip(b"def")].concat(), [zstd(b"abc"), zstd(b"def")].concat()] {
            for bound in 0..8 {
                let Unpacked { bytes, cut } = unpack(&packed, bound).expect("packed bytes");
                assert_eq!(bytes, b"abcdef"[..bound.min(6)], "{bound}");
                let is_marked = matches!(cut, Some(Cut::TooLarge));
                assert_eq!((is_marked, cut.is_some()), (bound < 6, bound < 6), "{bound}");
            }
        }
    }

    #[test]
    fn a_wrong_checksum_is_damage_also_at_the_bound() {
        for mut packed in [gzip(b"abc"), zstd(b"abc")] {
            let last = packed.len() - 1;
            packed[last] ^= 1;
            for (bound, is_marked) in [(2, true), (3, false), (4, false)] {
                let Unpacked { bytes, cut } = unpack(&packed, bound).expect("packed bytes");
                assert_eq!(bytes, b"abc"[..bound.min(3)], "{bound}");
                let marks = [matches!(cut, Some(Cut::TooLarge)), matches!(cut, Some(Cut::Damaged(_)))];
                assert_eq!(marks, [is_marked, !is_marked], "{bound}");
            }
        }
    }

    #[test]
    fn blocks_before_damage_are_kept_within_the_bound() {
        // Two raw blocks, each with three bytes; a third is missing.
        let cut = [&[0x28, 0xb5, 0x2f, 0xfd, 0, 0][..], &[24, 0, 0], b"abc", &[24, 0, 0], b"def"].concat();
        for bound in 0..8 {
            let unpacked = unpack(&cut, bound).expect("packed bytes");
            assert_eq!(unpacked.bytes, b"abcdef"[..bound.min(6)], "{bound}");
            assert!(unpacked.cut.is_some(), "{bound}");
        }
    }
}
