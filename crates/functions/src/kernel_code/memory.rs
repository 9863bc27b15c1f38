//! The kernel's memory in `/proc/kcore`: an ELF file with parts named by their addresses.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The maximum number of parts to look at: a machine has some tens.
const MAX_PARTS: u64 = 65_536;

/// The kernel's memory.
#[derive(Debug)]
pub(super) struct Memory {
    source: Source,
    /// Each part's addresses, and its first byte's offset in the source.
    parts: Vec<(Range<u64>, u64)>,
}

#[derive(Debug)]
enum Source {
    File(File),
    #[cfg(test)]
    Bytes(Vec<u8>),
}

impl Memory {
    /// Opens `/proc/kcore`.
    pub fn open() -> io::Result<Self> {
        let file = File::open("/proc/kcore")?;
        let parts = parts(|bytes, at| file.read_exact_at(bytes, at))?;
        Ok(Self { source: Source::File(file), parts })
    }

    /// These bytes at these addresses.
    #[cfg(test)]
    pub fn of(pieces: &[(u64, &[u8])]) -> Self {
        let (mut all, mut parts) = (Vec::new(), Vec::new());
        for (address, bytes) in pieces {
            parts.push((*address..*address + bytes.len() as u64, all.len() as u64));
            all.extend_from_slice(bytes);
        }
        Self { source: Source::Bytes(all), parts }
    }

    /// The bytes at these addresses; `None` if some are missing.
    pub fn read(&self, range: Range<u64>) -> Option<Vec<u8>> {
        let (part, at) =
            self.parts.iter().find(|(part, _)| part.contains(&range.start) && range.end <= part.end)?;
        let length = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        let at = at + (range.start - part.start);
        match &self.source {
            Source::File(file) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, at).ok()?;
                Some(bytes)
            }
            #[cfg(test)]
            Source::Bytes(bytes) => Some(bytes.get(at as usize..at as usize + length)?.to_vec()),
        }
    }
}

/// The loadable parts of a 64-bit core file: their addresses, and their places in it.
fn parts(read: impl Fn(&mut [u8], u64) -> io::Result<()>) -> io::Result<Vec<(Range<u64>, u64)>> {
    const LOADABLE: u32 = 1;
    let mut header = [0; 64];
    read(&mut header, 0)?;
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
    };
    let half = |at: usize| word(&header, at) & 0xffff;
    let (table, size, count) = (word(&header, 32), half(54), half(56).min(MAX_PARTS));
    if !header.starts_with(b"\x7fELF\x02") || size < 56 {
        return Err(io::Error::other("it is no core file of 64 bits"));
    }
    let mut found = Vec::new();
    for number in 0..count {
        let mut part = [0; 56];
        read(&mut part, table + number * size)?;
        let (kind, offset, address, length) =
            (word(&part, 0) as u32, word(&part, 8), word(&part, 16), word(&part, 32));
        if kind == LOADABLE {
            found.push((address..address.saturating_add(length), offset));
        }
    }
    Ok(found)
}

/// The kernel's build id in its file's notes, in hexadecimal; empty where there is none.
pub(super) fn build_id(notes: &[u8]) -> String {
    const BUILD_ID: u32 = 3;
    let mut rest = notes;
    loop {
        let half = |at: usize| {
            rest.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u32::from_le_bytes(*bytes))
        };
        let (Some(name), Some(length), Some(kind)) = (half(0), half(4), half(8)) else {
            return String::new();
        };
        let padded = |length: u32| (length as usize).next_multiple_of(4);
        let (from, to) = (12 + padded(name), 12 + padded(name) + length as usize);
        if kind == BUILD_ID && rest.get(12..16) == Some(b"GNU\0") {
            return rest.get(from..to).unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect();
        }
        let Some(next) = rest.get(12 + padded(name) + padded(length)..) else { return String::new() };
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core file with these parts: kind, address and length.
    fn core(of: &[(u32, u64, u64)]) -> Vec<u8> {
        let mut file = vec![0; 64 + of.len() * 56];
        file[..5].copy_from_slice(b"\x7fELF\x02");
        file[32..40].copy_from_slice(&64_u64.to_le_bytes());
        file[54..56].copy_from_slice(&56_u16.to_le_bytes());
        file[56..58].copy_from_slice(&(of.len() as u16).to_le_bytes());
        for (number, (kind, address, length)) in of.iter().enumerate() {
            let at = 64 + number * 56;
            file[at..at + 4].copy_from_slice(&kind.to_le_bytes());
            file[at + 8..at + 16].copy_from_slice(&(1000 * (number as u64 + 1)).to_le_bytes());
            file[at + 16..at + 24].copy_from_slice(&address.to_le_bytes());
            file[at + 32..at + 40].copy_from_slice(&length.to_le_bytes());
        }
        file
    }

    fn parts_of(file: &[u8]) -> io::Result<Vec<(Range<u64>, u64)>> {
        parts(|bytes, at| {
            let there =
                file.get(at as usize..at as usize + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            bytes.copy_from_slice(there);
            Ok(())
        })
    }

    #[test]
    fn the_loadable_parts_of_a_core_file_are_its_memory() {
        let file = core(&[(4, 0, 100), (1, 0x1000, 0x100), (1, u64::MAX - 1, 8)]);
        let found = parts_of(&file).expect("a core file");
        assert_eq!(found, [(0x1000..0x1100, 2000), (u64::MAX - 1..u64::MAX, 3000)]);
        assert!(parts_of(&file[..100]).is_err(), "it is cut");
        assert!(parts_of(&[0; 64]).is_err(), "it is none");
    }

    #[test]
    fn memory_is_read_where_all_of_it_is_there() {
        let memory = Memory::of(&[(0x1000, &[1, 2, 3]), (0x2000, &[4])]);
        assert_eq!(memory.read(0x1001..0x1003), Some(vec![2, 3]));
        assert_eq!(memory.read(0x2000..0x2001), Some(vec![4]));
        for range in [0x1002..0x1004, 0xfff..0x1001, 0x2001..0x2002] {
            assert_eq!(memory.read(range.clone()), None, "{range:x?}");
        }
    }

    #[test]
    fn the_build_is_found_among_other_notes() {
        let note = |name: &[u8], kind: u32, content: &[u8]| {
            let mut note = (name.len() as u32).to_le_bytes().to_vec();
            note.extend((content.len() as u32).to_le_bytes());
            note.extend(kind.to_le_bytes());
            for part in [name, content] {
                note.extend(part);
                note.resize(note.len().next_multiple_of(4), 0);
            }
            note
        };
        let all =
            [note(b"Xen\0", 6, b"linux"), note(b"Linux\0", 3, b"x"), note(b"GNU\0", 3, &[0xab, 1])].concat();
        assert_eq!(build_id(&all), "ab01");
        assert_eq!((build_id(&all[..20]), build_id(&[])), (String::new(), String::new()));
    }
}
