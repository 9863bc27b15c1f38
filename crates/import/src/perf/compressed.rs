//! Records compressed by `perf record -z`.
//!
//! perf compresses the records of all buffers as a single zstd stream, and never ends it. Each record of kind 81 or 83
//! holds a piece. A record in the stream may go on in the next piece, so the pieces are joined first.
//!
//! Source: RFC 8878, section 3.1, for frames and blocks.

use std::io::{self, Read};
use std::ops::Range;

use ruzstd::decoding::StreamingDecoder;
use wakepath_ctf::Source;

use super::container::{Container, End};
use super::parts::PartFile;
use super::records::{Decoder, RecordHead};
use super::runs;
use crate::Fault;

/// A compressed file's records, or all records in a zstd stream.
#[derive(Debug)]
pub(super) struct Expanded {
    /// The uncompressed ones first: those with facts from before the recording have no stamps.
    pub records: Vec<u8>,
    /// By part and place in it; records behind them are missing.
    pub faults: Vec<(usize, u64, Fault)>,
}

/// The output kept by a zstd decoder: the format's recommendation.
const MAX_WINDOW_BYTES: u64 = 8 << 20;
/// zstd's factor for real records is below 100.
const MAX_FACTOR: u64 = 1000;
/// A block's largest output, at any factor.
const MIN_LIMIT_BYTES: u64 = 1 << 17;
/// The records are kept in memory.
const MAX_BYTES: u64 = 4 << 30;

/// Decompresses the parts' records. perf compressed at most `buffer` bytes for each piece, if known.
pub(super) fn expand<S: Source>(
    parts: &[PartFile<S>],
    decoder: &Decoder,
    buffer: Option<u64>,
) -> io::Result<Expanded> {
    let (mut records, mut stream, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
    let mut faults: Vec<(usize, u64, Fault)> = Vec::new();
    for (part, PartFile { source, container, .. }) in parts.iter().enumerate() {
        let Container { data, end, .. } = container;
        let index = runs::index(source, data, end, decoder, |offset, head, body, key| {
            // A later part repeats without stamps what the first part's records say.
            let repeats = part > 0 && head.describes_process() && key.at.is_none();
            if let Some(piece) = head.compressed(body) {
                pieces.push((stream.len(), part, offset));
                stream.extend(piece);
            } else if head.bytes_behind(body) == 0 && !repeats {
                records.extend(head.bytes());
                records.extend(body);
            }
        })?;
        faults.extend(index.faults.into_iter().map(|(offset, fault)| (part, offset, fault)));
    }
    // Behind a missing piece, the stream makes no sense.
    let broken = faults.first().map(|(part, offset, _)| (*part, *offset));
    let behind = |&&(_, part, at): &&(usize, usize, u64)| broken.is_some_and(|broken| (part, at) > broken);
    if let Some(&(from, ..)) = pieces.iter().find(behind) {
        stream.truncate(from);
    }
    let by_buffer = buffer.map_or(u64::MAX, |buffer| buffer.saturating_mul(pieces.len() as u64));
    let by_factor = (stream.len() as u64).saturating_mul(MAX_FACTOR).saturating_add(MIN_LIMIT_BYTES);
    let is_cut = broken.is_some() || parts.iter().any(|part| matches!(part.container.end, End::Cut(..)));
    if let Err((at, fault)) =
        decompress(&stream, by_buffer.min(by_factor).min(MAX_BYTES), is_cut, &mut records)
    {
        let piece = pieces.partition_point(|(from, ..)| *from <= at).saturating_sub(1);
        let begin = (0, parts.first().map_or(0, |part| part.container.data.start));
        let (part, offset) = pieces.get(piece).map_or(begin, |&(_, part, offset)| (part, offset));
        faults.push((part, offset, fault));
    }
    Ok(Expanded { records, faults })
}

/// A file's first compressed bytes, where events' records would begin.
pub(super) fn first_piece(source: &impl Source, data: &Range<u64>) -> io::Result<Option<[u8; 4]>> {
    let mut at = data.start;
    while at < data.end {
        let mut bytes = [0; RecordHead::SIZE + 8 + MAGIC.len()];
        let read = source.read_at(at, &mut bytes)?;
        let Some(head) = RecordHead::read(&bytes[..read]).filter(|head| head.is_plausible()) else { break };
        let body = &bytes[RecordHead::SIZE..read.max(RecordHead::SIZE)];
        if head.is_compressed() {
            return Ok(head.compressed(body).and_then(|piece| piece.first_chunk().copied()));
        }
        if head.is_sample() {
            break;
        }
        at = at.saturating_add(head.size as u64).saturating_add(head.bytes_behind(body));
    }
    Ok(None)
}

/// Whether a zstd stream begins with these bytes.
pub(super) fn begins_stream(bytes: &[u8; 4]) -> bool {
    *bytes == MAGIC
}

/// Appends the decompressed stream, at most `limit` bytes, up to a fault, which has a place in the stream.
fn decompress(stream: &[u8], limit: u64, is_cut: bool, into: &mut Vec<u8>) -> Result<(), (usize, Fault)> {
    let (begin, mut at) = (into.len(), 0);
    if stream.len() >= MAGIC.len() && !stream.starts_with(&MAGIC) {
        return Err((0, Fault::NoCompressionBegin));
    }
    while at < stream.len() {
        let frame = &stream[at..];
        let damaged = |place| Err((at + place, Fault::CompressionDamaged));
        let Some(blocks) = Blocks::up_to(frame, frame.len()) else {
            return if is_cut && frame.len() < MAX_HEADER { Ok(()) } else { damaged(0) };
        };
        let left = limit - (into.len() - begin) as u64;
        let whole = into.len();
        match inflate(frame, &blocks, left, into) {
            Ok(true) => {}
            Ok(false) => return Err((at, Fault::TooManyCompressed)),
            Err(read) => {
                into.truncate(whole);
                let good =
                    Blocks::up_to(frame, read.saturating_sub(1)).unwrap_or(Blocks { end: 0, last: false });
                let _ = inflate(frame, &good, left, into);
                return damaged(good.end);
            }
        }
        if !blocks.last {
            return if is_cut || blocks.end == frame.len() { Ok(()) } else { damaged(blocks.end) };
        }
        at += blocks.end;
    }
    Ok(())
}

/// A frame's first bytes.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// A frame's largest header.
const MAX_HEADER: usize = 18;

/// The whole blocks at a frame's begin.
struct Blocks {
    /// Their end, bytes.
    end: usize,
    /// Whether the last of them ends the frame.
    last: bool,
}

impl Blocks {
    /// The blocks up to this place; `None` without a frame's header.
    fn up_to(frame: &[u8], to: usize) -> Option<Self> {
        let (&magic, &descriptor) = (frame.first_chunk::<4>()?, frame.get(4)?);
        if magic != MAGIC {
            return None;
        }
        let single = descriptor >> 5 & 1;
        let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
        let content = [usize::from(single), 2, 4, 8][usize::from(descriptor >> 6)];
        let checksum = if descriptor >> 2 & 1 == 1 { 4 } else { 0 };
        let mut end = 5 + usize::from(1 - single) + dictionary + content;
        if end > to.min(frame.len()) {
            return None;
        }
        while let Some(&[a, b, c]) = frame.get(end..).and_then(|rest| rest.first_chunk()) {
            let head = u32::from_le_bytes([a, b, c, 0]);
            let (last, is_repeated, size) = (head & 1 == 1, head >> 1 & 3 == 1, head as usize >> 3);
            let next = end + 3 + if is_repeated { 1 } else { size } + if last { checksum } else { 0 };
            if next > to.min(frame.len()) {
                break;
            }
            end = next;
            if last {
                return Some(Self { end, last });
            }
        }
        Some(Self { end, last: false })
    }
}

/// Appends these blocks' output; returns whether it is all within `limit`, or on an error the number of bytes that were
/// read until then.
fn inflate(frame: &[u8], blocks: &Blocks, limit: u64, into: &mut Vec<u8>) -> Result<bool, usize> {
    // An empty last block: before a frame's end, the decoder keeps a part of its output. The other bytes stand for a
    // checksum.
    const END: &[u8] = &[1, 0, 0, 0, 0, 0, 0];
    let mut rest = &frame[..blocks.end];
    let input = (&mut rest).chain(if blocks.last { &[] } else { END });
    let before = into.len() as u64;
    let read = StreamingDecoder::new_with_max_window_size(input, MAX_WINDOW_BYTES)
        .map_err(io::Error::other)
        .and_then(|decoder| decoder.take(limit.saturating_add(1)).read_to_end(into));
    match read {
        Ok(_) if into.len() as u64 - before > limit => {
            into.truncate((before + limit) as usize);
            Ok(false)
        }
        Ok(_) => Ok(true),
        Err(_) => Err(blocks.end - rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with blocks of 5 bytes, of a byte that is repeated 9 times, and of 3 bytes.
    fn frame(descriptor: u8, checksum: usize) -> (Vec<u8>, [usize; 3]) {
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, descriptor, 0x48];
        let mut ends = [0; 3];
        for (n, (head, content)) in
            [(5 << 3, 5), (9 << 3 | 2, 1), (3 << 3 | 1, 3 + checksum)].into_iter().enumerate()
        {
            frame.extend(&u32::to_le_bytes(head)[..3]);
            frame.extend(vec![7; content]);
            ends[n] = frame.len();
        }
        (frame, ends)
    }

    #[test]
    fn a_frames_blocks_end_where_their_heads_say() {
        for (descriptor, checksum) in [(0, 0), (4, 4)] {
            let (frame, [first, second, third]) = frame(descriptor, checksum);
            let followed = [&frame[..], b"more"].concat();
            let up_to = |to| Blocks::up_to(&followed, to).map(|blocks| (blocks.end, blocks.last));
            for (to, expected) in [
                (5, None),
                (6, Some((6, false))),
                (first - 1, Some((6, false))),
                (first, Some((first, false))),
                (second, Some((second, false))),
                (third - 1, Some((second, false))),
                (third, Some((third, true))),
                (followed.len(), Some((third, true))),
            ] {
                assert_eq!(up_to(to), expected, "{descriptor}, up to {to}");
            }
        }
        assert!(Blocks::up_to(b"no frame", 8).is_none());
    }
}
