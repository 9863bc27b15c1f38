//! A file of packets.

use std::fs::File;
use std::io::{self, IoSlice, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wakepath_caller::{Caller, Directory};
use wakepath_ctf::packet::{HEADER_BYTES, PacketHeader};
use wakepath_kernel_records::Buffer;

use super::WriteError;
use super::budget::Budget;
use crate::metadata::stream_id;

/// Makes stream files.
#[derive(Debug)]
pub(super) struct StreamFiles {
    pub kernel: Directory,
    pub uuid: [u8; 16],
    pub caller: Option<Caller>,
    pub budget: Arc<Budget>,
}

impl StreamFiles {
    /// Makes an empty stream.
    pub fn make(&self, name: &str, buffer: Buffer, cpu: u32) -> Result<Stream, WriteError> {
        let path = self.kernel.path.join(name);
        let file = Caller::act(self.caller.as_ref()).and_then(|_acting| self.kernel.create_file(name));
        let file = file.map_err(|source| WriteError::from_io(&path, source))?;
        let header = PacketHeader {
            uuid: self.uuid,
            stream_id: stream_id(buffer),
            cpu,
            begin: 0,
            end: 0,
            content: 0,
            discarded: 0,
            number: 0,
            events: 0,
        };
        Ok(Stream { file, path, header, bytes: 0, budget: Arc::clone(&self.budget) })
    }
}

/// A file of packets in time order.
#[derive(Debug)]
pub struct Stream {
    file: File,
    path: PathBuf,
    /// The last packet's header.
    header: PacketHeader,
    bytes: u64,
    budget: Arc<Budget>,
}

/// The largest number of pieces in a packet.
const MAX_CHUNKS: usize = 7;

impl Stream {
    /// Writes `chunks`, with `records` whole records in a row, as a single packet, in a single system call without a
    /// copy. `first` and `last` are the first and the last record's stamp, from [`wakepath_kernel_records::walk`].
    ///
    /// `lost_total` is the number of records lost in this buffer since the beginning. Read this counter *before* the
    /// buffer's write position: then a counted loss lies before this packet's end or right behind it, and the reader
    /// places it there.
    ///
    /// Without records, no packet is written.
    ///
    /// # Errors
    /// When there is no room ([`WriteError::is_out_of_room`]) or the file cannot be written: the packet is taken back
    /// whole. When `first` lies before the previous packet's end.
    pub fn append(
        &mut self,
        chunks: &[&[u8]],
        first: u64,
        last: u64,
        records: u64,
        lost_total: u64,
    ) -> Result<(), WriteError> {
        let content: usize = chunks.iter().map(|chunk| chunk.len()).sum();
        if content == 0 {
            return Ok(());
        }
        if chunks.len() > MAX_CHUNKS || !content.is_multiple_of(8) || records == 0 {
            return Err(WriteError::NotRecords {
                path: self.path.clone(),
                bytes: content,
                chunks: chunks.len(),
            });
        }
        if first < self.header.end || last < first {
            let (stamp, after) = if last < first { (last, first) } else { (first, self.header.end) };
            return Err(WriteError::Backwards { path: self.path.clone(), stamp, after });
        }
        let header = PacketHeader {
            begin: first,
            end: last,
            content: content as u64,
            discarded: lost_total.max(self.header.discarded),
            number: if self.bytes == 0 { 0 } else { self.header.number + 1 },
            events: u32::try_from(records).unwrap_or(u32::MAX),
            ..self.header
        };
        let packet = (HEADER_BYTES + content) as u64;
        self.budget.take(packet)?;
        let framing = header.to_bytes();
        let mut slices = [IoSlice::new(&[]); MAX_CHUNKS + 1];
        slices[0] = IoSlice::new(&framing);
        for (slice, chunk) in slices[1..].iter_mut().zip(chunks) {
            *slice = IoSlice::new(chunk);
        }
        if let Err(e) = write_all(&mut self.file, &mut slices[..=chunks.len()]) {
            self.budget.give_back(packet);
            // Half a packet would read as damage, as it does if even this fails.
            let _ = self.file.set_len(self.bytes);
            let _ = io::Seek::seek(&mut self.file, io::SeekFrom::Start(self.bytes));
            return Err(WriteError::from_io(&self.path, e));
        }
        self.bytes += packet;
        self.header = header;
        Ok(())
    }

    /// Writes an empty packet: the stream holds all records up to `at`, and no more come.
    pub(super) fn close(&mut self, at: u64) -> Result<(), WriteError> {
        let at = at.max(self.header.end);
        let header = PacketHeader {
            begin: at,
            end: at,
            content: 0,
            number: if self.bytes == 0 { 0 } else { self.header.number + 1 },
            events: 0,
            ..self.header
        };
        let closed = self.file.write_all(&header.to_bytes());
        closed.map_err(|e| WriteError::from_io(&self.path, e))?;
        self.bytes += HEADER_BYTES as u64;
        self.header = header;
        Ok(())
    }

    /// The bytes written.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The stream's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last written record's stamp; 0 without records.
    pub const fn last(&self) -> u64 {
        self.header.end
    }
}

/// A single `writev`, unless the system takes fewer bytes.
pub(super) fn write_all(file: &mut impl io::Write, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    while !slices.is_empty() {
        match file.write_vectored(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut slices, n),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes bytes in the sizes of a script, and fails at the script's end.
    struct Scripted {
        answers: std::vec::IntoIter<Result<usize, io::ErrorKind>>,
        taken: Vec<u8>,
    }

    impl io::Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let most = self.answers.next().expect("no more calls")?;
            let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).take(most).collect();
            self.taken.extend_from_slice(&bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_packet_is_written_whole_in_however_many_pieces_or_an_error_says_why_not() {
        use io::ErrorKind::{Interrupted, StorageFull, WriteZero};
        for (answers, taken, error) in [
            (vec![Ok(9)], "abcdef", None),
            (vec![Ok(2), Ok(3), Ok(1)], "abcdef", None),
            (vec![Err(Interrupted), Ok(4), Err(Interrupted), Ok(9)], "abcdef", None),
            (vec![Ok(4), Err(StorageFull)], "abcd", Some(StorageFull)),
            // No bytes taken and no error: a retry would never end.
            (vec![Ok(4), Ok(0)], "abcd", Some(WriteZero)),
        ] {
            let case = format!("{answers:?}");
            let mut file = Scripted { answers: answers.into_iter(), taken: Vec::new() };
            let mut slices = [IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"def")];
            let written = write_all(&mut file, &mut slices);
            assert_eq!(written.err().map(|error| error.kind()), error, "{case}");
            assert_eq!(String::from_utf8_lossy(&file.taken), taken, "{case}");
            assert_eq!(file.answers.next(), None, "{case}: all of the script");
        }
    }
}
