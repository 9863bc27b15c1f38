//! The lines of `/proc/PID/maps`.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::text::number;

/// A file, by its device (major, minor) and inode numbers. Some filesystems (btrfs, overlays) state another device
/// here than for the file itself.
pub type FileId = (u32, u32, u64);

/// The kernel's mark behind the path of a deleted file.
pub(crate) const DELETED: &[u8] = b" (deleted)";

/// A process's mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The addresses, at least one.
    pub addresses: Range<u64>,
    /// `r-xp` and the like.
    pub permissions: [u8; 4],
    /// The first address's place in the file, bytes.
    pub offset: u64,
    /// The file; zeros for memory without a file.
    pub file: FileId,
    /// The path in the process's view, or a name such as `[heap]`, as the kernel writes it; empty for memory
    /// without a name. A newline stands there as `\012`. A file's own name may have that, or end in ` (deleted)`,
    /// too: only [`Mapping::file`] identifies it.
    pub name: Vec<u8>,
}

impl Mapping {
    /// Reads the text of a `maps` file. An error is the number of the first line, from 1, that no kernel writes.
    ///
    /// # Errors
    /// When a line has another form, or is cut.
    pub fn parse_all(text: &[u8]) -> Result<Vec<Self>, usize> {
        let lines = text.split_inclusive(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\n"));
        (1..).zip(lines).map(|(at, line)| line.and_then(Self::parse).ok_or(at)).collect()
    }

    /// Reads a line without its newline: `from-to permissions offset device inode   name`.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.splitn(6, |&byte| byte == b' ');
        let (from, to) = pair(fields.next()?, b'-')?;
        let permissions: [u8; 4] = fields.next()?.try_into().ok()?;
        let is_allowed = permissions.iter().zip(["r-", "w-", "x-", "sp"]);
        let is_allowed = is_allowed.into_iter().all(|(letter, either)| either.as_bytes().contains(letter));
        let offset = number(fields.next()?, 16)?;
        let (major, minor) = pair(fields.next()?, b':')?;
        let inode = number(fields.next()?, 10)?;
        let padded = fields.next().unwrap_or_default();
        let blanks = padded.iter().take_while(|&&byte| byte == b' ').count();
        (from < to && is_allowed).then_some(())?;
        Some(Self {
            addresses: from..to,
            permissions,
            offset,
            file: (u32::try_from(major).ok()?, u32::try_from(minor).ok()?, inode),
            name: padded[blanks..].to_vec(),
        })
    }

    /// Whether the process may execute the mapping.
    pub fn is_code(&self) -> bool {
        self.permissions[2] == b'x'
    }

    /// The file's path in the process's view, without the mark of a deleted file; `None` for memory without a file.
    pub fn path(&self) -> Option<&Path> {
        let path = self.name.strip_suffix(DELETED).unwrap_or(&self.name);
        path.starts_with(b"/").then(|| Path::new(OsStr::from_bytes(path)))
    }

    /// Whether the file has no path any more.
    pub fn is_deleted(&self) -> bool {
        self.path().is_some() && self.name.ends_with(DELETED)
    }

    /// An address's offset in the file, bytes; `None` if the address is not mapped here.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        self.addresses.contains(&address).then(|| self.offset.checked_add(address - self.addresses.start))?
    }

    /// The address of an offset in the file, bytes; `None` if the offset is not mapped here.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let into = offset.checked_sub(self.offset)?;
        (into < self.addresses.end - self.addresses.start).then(|| self.addresses.start + into)
    }
}

/// A path to the file that a process has mapped at these addresses, for opening it later, or for handing it to the
/// kernel. It belongs to whichever process has the number then.
pub fn path_through(pid: u32, addresses: &Range<u64>) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{}", name_in_map_files(addresses)))
}

/// The name in `map_files`, without the leading zeros in `maps`.
pub(crate) fn name_in_map_files(addresses: &Range<u64>) -> String {
    format!("map_files/{:x}-{:x}", addresses.start, addresses.end)
}

/// Two hexadecimal numbers with a mark between them.
fn pair(text: &[u8], mark: u8) -> Option<(u64, u64)> {
    let at = text.iter().position(|&byte| byte == mark)?;
    Some((number(&text[..at], 16)?, number(&text[at + 1..], 16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "7f0000001000-7f0000003000 r-xp 00002000 fd:10 42                         ";

    fn named(name: &[u8]) -> Mapping {
        Mapping::parse(&[LINE.as_bytes(), name].concat()).expect("a line of the kernel's form")
    }

    #[test]
    fn each_field_of_a_line_is_read() {
        let expected = Mapping {
            addresses: 0x7f00_0000_1000..0x7f00_0000_3000,
            permissions: *b"r-xp",
            offset: 0x2000,
            file: (0xfd, 0x10, 42),
            name: b"/usr/lib/a.so".to_vec(),
        };
        assert_eq!(named(b"/usr/lib/a.so"), expected);
        // Code without a file is code, too.
        for (permissions, is_code) in [("rwxs", true), ("---p", false), ("r--p", false), ("--xp", true)] {
            let found = Mapping::parse(LINE.replace("r-xp", permissions).as_bytes()).expect("a line");
            assert_eq!((&found.permissions[..], found.is_code()), (permissions.as_bytes(), is_code));
        }
    }

    #[test]
    fn a_name_is_any_bytes_and_a_path_if_it_begins_at_the_root() {
        for (name, path, is_deleted) in [
            (&b"/usr/lib/my  lib.so"[..], Some(&b"/usr/lib/my  lib.so"[..]), false),
            (b"/tmp/a (deleted)", Some(b"/tmp/a"), true),
            (b"/tmp/a (deleted) (deleted)", Some(b"/tmp/a (deleted)"), true),
            (b"/tmp/(deleted)", Some(b"/tmp/(deleted)"), false),
            (b"/tmp/two\\012lines", Some(b"/tmp/two\\012lines"), false),
            (b"/tmp/\xff\xfe-not-utf8", Some(b"/tmp/\xff\xfe-not-utf8"), false),
            (b"/tmp/blanks behind  ", Some(b"/tmp/blanks behind  "), false),
            (b"/tmp/) r-xp 00000000 00:00 0 /b", Some(b"/tmp/) r-xp 00000000 00:00 0 /b"), false),
            (b"/SYSV", Some(b"/SYSV"), false),
            (b"/memfd:x (deleted)", Some(b"/memfd:x"), true),
            (b"\t[heap]", None, false),
            (b"[anon: a (deleted)", None, false),
            (b"[stack:", None, false),
            (b" (deleted)", None, false),
            (b"", None, false),
        ] {
            let found = named(name);
            let shown = String::from_utf8_lossy(name);
            assert_eq!(String::from_utf8_lossy(&found.name), shown.trim_start_matches(' '));
            assert_eq!(found.path().map(|path| path.as_os_str().as_bytes()), path, "{shown}");
            assert_eq!(found.is_deleted(), is_deleted, "{shown}");
        }
    }

    #[test]
    fn a_line_that_no_kernel_writes_is_none() {
        let whole = "7f0000001000-7f0000003000 r-xp 00002000 fd:10 42 /a";
        assert!(Mapping::parse(whole.as_bytes()).is_some());
        assert!(Mapping::parse(whole.trim_end_matches(" /a").as_bytes()).is_some(), "memory of no file");
        for (part, instead) in [
            ("7f0000001000-7f0000003000", "7f0000001000"),
            ("7f0000001000-7f0000003000", "7f0000001000-"),
            ("7f0000001000-7f0000003000", "-7f0000001000-7f0000003000"),
            ("7f0000001000-7f0000003000", "7f0000003000-7f0000001000"),
            ("7f0000001000-7f0000003000", "7f0000003000-7f0000003000"),
            ("7f0000001000-7f0000003000", "+f0000001000-7f0000003000"),
            ("7f0000001000-7f0000003000", "7f0000001000-1ffffffffffffffff"),
            ("7f0000001000-7f0000003000", "7g0000001000-7f0000003000"),
            ("r-xp", "r-x"),
            ("r-xp", "r-xpp"),
            ("r-xp", "-rxp"),
            ("r-xp", "r-x-"),
            ("00002000", ""),
            ("00002000", "0x2000"),
            ("fd:10", "fd10"),
            ("fd:10", "fd:10:1"),
            ("fd:10", "fd:100000000"),
            ("fd:10", "100000000:10"),
            (" 42 ", "  "),
            (" 42 ", " 4a "),
            (" 42 ", " -1 "),
            (" r-xp 00002000 fd:10 42 /a", ""),
            (whole, ""),
        ] {
            let line = whole.replacen(part, instead, 1);
            assert_eq!(Mapping::parse(line.as_bytes()), None, "{line}");
        }
        assert_eq!(Mapping::parse(&[0xff; 80]), None);
    }

    #[test]
    fn the_first_wrong_line_of_a_text_is_named() {
        let good = format!("{LINE}/a\n");
        let count = |text: &str| Mapping::parse_all(text.as_bytes()).map(|all| all.len());
        assert_eq!(count(""), Ok(0), "a process without memory");
        assert_eq!(count(&good.repeat(3)), Ok(3));
        assert_eq!(count(&format!("{good}{good}nonsense\n{good}")), Err(3));
        assert_eq!(count(&format!("{good}\n")), Err(2));
        assert_eq!(count(&format!("{good}{LINE}/cut")), Err(2), "its name may be longer");
    }

    #[test]
    fn offsets_and_addresses_lead_to_each_other_within_the_mapping() {
        let mapping = named(b"/a");
        for (address, offset) in [(0x7f00_0000_1000, 0x2000), (0x7f00_0000_2fff, 0x3fff)] {
            assert_eq!(
                (mapping.offset_of(address), mapping.address_of(offset)),
                (Some(offset), Some(address))
            );
        }
        for (address, offset) in [(0x7f00_0000_0fff, 0x1fff), (0x7f00_0000_3000, 0x4000), (0, 0)] {
            assert_eq!((mapping.offset_of(address), mapping.address_of(offset)), (None, None));
        }
        let highest = Mapping { offset: u64::MAX, ..mapping };
        assert_eq!(highest.offset_of(0x7f00_0000_1000), Some(u64::MAX));
        assert_eq!(highest.offset_of(0x7f00_0000_1001), None, "no number has so many bits");
    }

    #[test]
    fn the_way_through_a_mapping_has_no_zeros_in_front() {
        let mapping = Mapping::parse(b"00400000-00401000 r-xp 00000000 fd:00 7 /a").expect("a line");
        assert_eq!(path_through(12, &mapping.addresses), Path::new("/proc/12/map_files/400000-401000"));
    }
}
