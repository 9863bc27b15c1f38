//! What trace-cmd compressed.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;

use super::head::MAX_BYTES;

/// How bytes may be compressed.
pub(super) const READ: [&str; 2] = ["zlib", "zstd"];

/// Why something packed cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unpack {
    /// Nobody here knows how.
    Unknown,
    Damaged,
}

/// zlib makes at most so many bytes of one, and nothing of a trace is worth more.
const MAX_OF_ONE: u64 = 1000;
/// But for so many, which may all be zero: a chunk is some pages.
const FEW: u64 = 1 << 16;
/// What a decoder of zstd has to keep of what it unpacked: as much as its format recommends.
const WINDOW: u64 = 8 << 20;

/// Bytes that were compressed, and are so many when they are not. What is allocated is bounded by what is in the
/// file.
pub(super) fn unpack(packed: &[u8], whole: u32, by: &str) -> Result<Vec<u8>, Unpack> {
    let most = (packed.len() as u64).saturating_mul(MAX_OF_ONE).saturating_add(FEW).min(MAX_BYTES);
    if !READ.contains(&by) {
        return Err(Unpack::Unknown);
    }
    if u64::from(whole) > most {
        return Err(Unpack::Damaged);
    }
    let mut bytes = Vec::new();
    let read = match by {
        "zlib" => flate2::read::ZlibDecoder::new(packed).take(whole.into()).read_to_end(&mut bytes),
        _ => {
            let stream = StreamingDecoder::new_with_max_window_size(packed, WINDOW);
            stream.map_err(|_| Unpack::Damaged)?.take(whole.into()).read_to_end(&mut bytes)
        }
    };
    match read {
        Ok(read) if read as u64 == u64::from(whole) => Ok(bytes),
        _ => Err(Unpack::Damaged),
    }
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    #[test]
    fn what_says_that_it_is_far_larger_than_it_is_is_not_unpacked() {
        let zeros = vec![0; 32 << 20];
        let packed = compress_to_vec(&zeros[..], CompressionLevel::Fastest);
        assert!(packed.len() < 20_000, "{}", packed.len());
        assert_eq!(unpack(&packed, zeros.len() as u32, "zstd"), Err(Unpack::Damaged));
        let few = &zeros[..FEW as usize];
        let packed = compress_to_vec(few, CompressionLevel::Fastest);
        assert_eq!(unpack(&packed, few.len() as u32, "zstd").as_deref(), Ok(few));
        assert_eq!(unpack(&packed, few.len() as u32 + 1, "zstd"), Err(Unpack::Damaged));
        assert_eq!(unpack(&packed, 1, "lz4"), Err(Unpack::Unknown));
        assert_eq!(unpack(b"nonsense", 1, "zstd"), Err(Unpack::Damaged));
    }
}
