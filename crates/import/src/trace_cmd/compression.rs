//! Decompression of trace-cmd's data.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;

/// The supported methods.
pub(super) const METHODS: [&str; 2] = ["zlib", "zstd"];

/// Why compressed data cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecompressError {
    UnknownMethod,
    Damaged,
}

/// The limit on parts in front of a file's pages: the largest, a kernel's symbols, take some 15 MiB.
pub(super) const MAX_BYTES: u64 = 64 << 20;
/// zlib's largest compression factor; no real trace compresses better.
const MAX_FACTOR: u64 = 1000;
/// Up to this size all bytes may be zero, at any factor: a chunk is some pages.
const MAX_ZEROS_BYTES: u64 = 1 << 16;
/// The output kept by a zstd decoder: the format's recommendation.
const MAX_WINDOW_BYTES: u64 = 8 << 20;

/// Decompresses bytes into `whole` bytes. The compressed bytes in the file bound the allocated memory.
pub(super) fn decompress(bytes: &[u8], whole: u32, method: &str) -> Result<Vec<u8>, DecompressError> {
    let limit = (bytes.len() as u64).saturating_mul(MAX_FACTOR).saturating_add(MAX_ZEROS_BYTES);
    if !METHODS.contains(&method) {
        return Err(DecompressError::UnknownMethod);
    }
    if u64::from(whole) > limit.min(MAX_BYTES) {
        return Err(DecompressError::Damaged);
    }
    let mut output = Vec::new();
    let read = match method {
        "zlib" => flate2::read::ZlibDecoder::new(bytes).take(whole.into()).read_to_end(&mut output),
        _ => {
            let stream = StreamingDecoder::new_with_max_window_size(bytes, MAX_WINDOW_BYTES);
            stream.map_err(|_| DecompressError::Damaged)?.take(whole.into()).read_to_end(&mut output)
        }
    };
    match read {
        Ok(read) if read as u64 == u64::from(whole) => Ok(output),
        _ => Err(DecompressError::Damaged),
    }
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    #[test]
    fn data_that_claims_to_be_far_larger_than_it_is_is_not_decompressed() {
        let zeros = vec![0; 32 << 20];
        let compressed = compress_to_vec(&zeros[..], CompressionLevel::Fastest);
        assert!(compressed.len() < 20_000, "{}", compressed.len());
        let damaged = Err(DecompressError::Damaged);
        assert_eq!(decompress(&compressed, zeros.len() as u32, "zstd"), damaged);
        let few = &zeros[..MAX_ZEROS_BYTES as usize];
        let compressed = compress_to_vec(few, CompressionLevel::Fastest);
        assert_eq!(decompress(&compressed, few.len() as u32, "zstd").as_deref(), Ok(few));
        assert_eq!(decompress(&compressed, few.len() as u32 + 1, "zstd"), damaged);
        assert_eq!(decompress(&compressed, 1, "lz4"), Err(DecompressError::UnknownMethod));
        assert_eq!(decompress(b"nonsense", 1, "zstd"), damaged);
    }
}
