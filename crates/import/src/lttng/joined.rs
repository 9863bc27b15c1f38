//! A stream's files in order: LTTng may write a stream into several files, in one folder or in a folder each.

use std::fs::File;
use std::io;

use wakepath_ctf::Source;
use wakepath_ctf::stream::{Item, Packet, Plans, Reader};
use wakepath_event::Cpu;

/// A stream's file, with its first packet's head.
#[derive(Debug)]
pub(super) struct StreamFile {
    /// The path within the trace's directory.
    pub name: String,
    pub file: File,
    first: Option<Packet>,
}

/// A stream's files, read as one.
#[derive(Debug)]
pub(super) struct Joined {
    /// Each with its first byte's offset in the stream. Not empty.
    files: Vec<(u64, StreamFile)>,
    size: u64,
    /// Its first packet's head.
    pub first: Option<Packet>,
}

/// The limit on items read in search of a file's first packet.
const MAX_ITEMS: usize = 64;

impl StreamFile {
    /// Reads the first packet's head.
    pub fn new(plans: &Plans, name: String, file: File) -> Self {
        let mut first = None;
        if let Ok(mut reader) = Reader::new(plans, &file) {
            for _ in 0..MAX_ITEMS {
                match reader.next() {
                    Some(Item::Packet(packet)) => {
                        first = Some(*packet);
                        break;
                    }
                    Some(_) => {}
                    None => break,
                }
            }
        }
        Self { name, file, first }
    }

    /// The stream with this file: its class and its CPU, where packets are numbered.
    fn stream(&self) -> Option<(u64, u64)> {
        let first = self.first.filter(|first| first.sequence.is_some())?;
        Some((first.stream.unwrap_or(0), first.cpu?))
    }

    /// Its place among the stream's files: the first packet's number and begin.
    fn place(&self) -> (u64, u64) {
        self.first.map_or((0, 0), |first| (first.sequence.unwrap_or(0), first.begin.unwrap_or(0)))
    }
}

impl Joined {
    fn new(files: Vec<StreamFile>) -> io::Result<Self> {
        let mut joined =
            Self { first: files.first().and_then(|file| file.first), files: Vec::new(), size: 0 };
        for file in files {
            let begin = joined.size;
            joined.size = begin.saturating_add(file.file.metadata()?.len());
            joined.files.push((begin, file));
        }
        Ok(joined)
    }

    /// The first file's name.
    pub fn name(&self) -> &str {
        self.files.first().map_or("", |(_, file)| &file.name)
    }

    pub const fn is_one_file(&self) -> bool {
        self.files.len() == 1
    }

    /// The file with this offset, and the offset in the file.
    pub fn place(&self, offset: u64) -> (&str, u64) {
        let next = self.files.partition_point(|&(begin, _)| begin <= offset).max(1);
        self.files.get(next - 1).map_or(("", offset), |(begin, file)| (&file.name, offset - begin))
    }

    /// The stream's CPU: by its packets, or else by its name.
    pub fn cpu(&self) -> Cpu {
        let of_packet = self.first.and_then(|first| u32::try_from(first.cpu?).ok());
        of_packet.or_else(|| cpu_of_name(self.name())).map_or(Cpu::UNKNOWN, Cpu::numbered)
    }
}

impl Source for &Joined {
    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        let first = self.files.partition_point(|&(begin, _)| begin <= offset).saturating_sub(1);
        for (index, (begin, file)) in self.files.iter().enumerate().skip(first) {
            let end = self.files.get(index + 1).map_or(self.size, |&(next, _)| next);
            let from = offset + done as u64;
            let most = usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX).min(into.len() - done);
            let n = Source::read_at(&file.file, from - begin, &mut into[done..done + most])?;
            done += n;
            // A file that shrank is not filled up with the next file's bytes.
            if n < most || done == into.len() {
                break;
            }
        }
        Ok(done)
    }
}

/// Joins each stream's files, in their packets' order. Files without packet numbers, and files whose numbers do
/// not follow each other, stay apart.
///
/// # Errors
/// A file's metadata cannot be read.
pub(super) fn join(files: Vec<StreamFile>) -> io::Result<Vec<Joined>> {
    let mut streams: Vec<Vec<StreamFile>> = Vec::new();
    for file in files {
        let stream = file.stream();
        let known = streams.iter_mut().find(|files| stream.is_some() && files[0].stream() == stream);
        match known {
            Some(files) => files.push(file),
            None => streams.push(vec![file]),
        }
    }
    let mut joined = Vec::new();
    for mut files in streams {
        files.sort_by_key(StreamFile::place);
        let follow = |pair: &[StreamFile]| {
            let [before, after] = [pair[0].place(), pair[1].place()];
            before.0 < after.0 && before.1 <= after.1
        };
        match files.windows(2).all(follow) {
            true => joined.push(Joined::new(files)?),
            false => {
                for file in files {
                    joined.push(Joined::new(vec![file])?);
                }
            }
        }
    }
    joined.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(joined)
}

/// LTTng calls the stream for CPU 3 `channel0_3`.
fn cpu_of_name(name: &str) -> Option<u32> {
    name.rsplit_once('_').and_then(|(_, cpu)| cpu.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_shrank_is_not_filled_up_with_the_next() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).expect("room");
            StreamFile { name: name.to_owned(), file: File::open(path).expect("a file"), first: None }
        };
        let joined = Joined::new(vec![file("a_0", b"abcd"), file("a_1", b"efgh")]).expect("files");
        let read = |offset, len| {
            let mut into = vec![0; len];
            let n = (&joined).read_at(offset, &mut into).expect("bytes");
            into.truncate(n);
            into
        };
        assert_eq!(
            [read(0, 8), read(2, 4), read(4, 9)],
            [b"abcdefgh".to_vec(), b"cdef".to_vec(), b"efgh".to_vec()]
        );
        assert_eq!([3, 4, 7].map(|offset| joined.place(offset)), [("a_0", 3), ("a_1", 0), ("a_1", 3)]);
        std::fs::write(folder.path().join("a_0"), b"ab").expect("room");
        assert_eq!([read(0, 8), read(4, 4)], [b"ab".to_vec(), b"efgh".to_vec()]);
        assert_eq!((joined.cpu(), joined.is_one_file()), (Cpu(0), false));
    }
}
