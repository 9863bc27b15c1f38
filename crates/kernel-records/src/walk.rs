//! Walks the records in a piece of a buffer without decoding them.

use crate::layout::{HEADER_BYTES, MAX_RECORD_BYTES};
use crate::length::fixed_length;
use crate::{Buffer, DecodeError, Header, Kind, record_length};

/// The content of a piece of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The number of whole records.
    pub records: u64,
    /// The whole records' size, bytes, from the stretch's beginning.
    pub bytes: usize,
    /// The first record's stamp, ns; 0 without a record.
    pub first_stamp: u64,
    /// The last record's stamp, ns; 0 without a record.
    pub last_stamp: u64,
    /// The record counts, by [`Kind::number`].
    pub per_kind: [u32; KINDS],
}

/// An upper bound for kind numbers, exclusive.
pub const KINDS: usize = 64;

impl Summary {
    /// The number of records of this kind.
    pub fn count(&self, kind: Kind) -> u32 {
        self.per_kind[usize::from(kind.number())]
    }

    const fn empty() -> Self {
        Self { records: 0, bytes: 0, first_stamp: 0, last_stamp: 0, per_kind: [0; KINDS] }
    }
}

/// A stretch with other content than whole records in time order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault} at byte {} of what a buffer held", .before.bytes)]
pub struct WalkError {
    /// The good records before the fault.
    pub before: Summary,
    /// The next record's fault.
    pub fault: WalkFault,
}

/// A record's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum WalkFault {
    #[error(transparent)]
    Record(#[from] DecodeError),
    #[error("{0} records do not belong here")]
    Foreign(&'static str),
    #[error("stamp {stamp} comes after stamp {after}")]
    Backwards { stamp: u64, after: u64 },
}

/// Walks the records in a stretch of a buffer: the writer makes a packet from the stretch and the summary.
///
/// `chunks` are parts of the same stretch (a ring's end and its beginning); a record may straddle them. Reads
/// the headers only, touches nothing else, allocates nothing.
///
/// # Errors
/// At the first content that is not a whole record for this buffer, or at the first record before
/// its predecessor. The error holds the summary of all records before, so that these can be written.
pub fn walk(buffer: Buffer, chunks: &[&[u8]]) -> Result<Summary, Box<WalkError>> {
    let mut summary = Summary::empty();
    let mut last = 0;
    // The bytes in the next chunk that belong to a record begun in the previous chunk.
    let mut into_next = 0;
    for (i, chunk) in chunks.iter().enumerate() {
        let mut at = into_next;
        into_next = 0;
        while at < chunk.len() {
            let rest = &chunk[at..];
            let (header, length) = match Header::read(rest).map(|header| (header, fixed_length(header.kind)))
            {
                Some((header, Some(length))) if length <= rest.len() => (header, length),
                _ => match straddling(rest, &chunks[i + 1..]) {
                    Ok(found) => found,
                    Err(fault) => return fail(summary, fault.into()),
                },
            };
            if header.stamp < last {
                let fault = WalkFault::Backwards { stamp: header.stamp, after: last };
                return fail(summary, fault);
            }
            // Only kinds with a length come here, all below KINDS.
            let slot = usize::from(header.kind) % KINDS;
            if summary.per_kind[slot] == 0 {
                match Kind::from_number(header.kind) {
                    Some(kind) if buffer.holds(kind) => {}
                    Some(kind) => {
                        let name = crate::layout::Layout::of(kind).name;
                        return fail(summary, WalkFault::Foreign(name));
                    }
                    None => return fail(summary, DecodeError::UnknownKind(header.kind).into()),
                }
            }
            summary.per_kind[slot] += 1;
            if summary.records == 0 {
                summary.first_stamp = header.stamp;
            }
            last = header.stamp;
            summary.last_stamp = last;
            summary.records += 1;
            summary.bytes += length;
            into_next = length.saturating_sub(rest.len());
            at += length;
        }
    }
    Ok(summary)
}

#[cold]
fn fail(before: Summary, fault: WalkFault) -> Result<Summary, Box<WalkError>> {
    Err(Box::new(WalkError { before, fault }))
}

/// A record without a fixed length, or a record that continues in the next chunk (never in the chunk after
/// it).
#[cold]
fn straddling(rest: &[u8], following: &[&[u8]]) -> Result<(Header, usize), DecodeError> {
    if let (Some(header), Ok(length)) = (Header::read(rest), record_length(rest)) {
        return Ok((header, length));
    }
    let mut bytes = rest[..rest.len().min(MAX_RECORD_BYTES)].to_vec();
    if let Some(next) = following.first() {
        bytes.extend_from_slice(&next[..next.len().min(MAX_RECORD_BYTES - bytes.len())]);
    }
    let length = record_length(&bytes)?;
    match Header::read(&bytes) {
        Some(header) => Ok((header, length)),
        None => Err(DecodeError::Short { record: "any", needs: HEADER_BYTES, found: bytes.len() }),
    }
}
