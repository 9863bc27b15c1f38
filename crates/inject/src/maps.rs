//! The mappings of a process: `/proc/PID/maps`.

use std::ops::Range;

/// A mapping of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub addresses: Range<u64>,
    /// `r-xp` and the like.
    pub rights: [u8; 4],
    /// The path, or a name in brackets; empty for memory without one.
    pub name: Vec<u8>,
    /// The offset in the file, bytes.
    pub offset: u64,
}

pub(crate) fn mappings(pid: u32) -> std::io::Result<Vec<Mapping>> {
    let text = std::fs::read(format!("/proc/{pid}/maps"))?;
    Ok(text.split(|&byte| byte == b'\n').filter_map(mapping).collect())
}

/// `from-to rights offset device inode   name`
fn mapping(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let mut text = || std::str::from_utf8(fields.next()?).ok();
    let (addresses, rights, offset, _, _) = (text()?, text()?, text()?, text()?, text()?);
    let (from, to) = addresses.split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    let (from, to) = (number(from)?, number(to)?);
    Some(Mapping {
        addresses: from..to,
        rights: rights.as_bytes().try_into().ok()?,
        name: fields.next().unwrap_or_default().trim_ascii_start().to_vec(),
        offset: number(offset)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let file =
            mapping(b"7f0000001000-7f0000002000 r-xp 00001000 fd:00 42    /usr/lib/a b.so").expect("a line");
        assert_eq!(file.addresses, 0x7f00_0000_1000..0x7f00_0000_2000);
        assert_eq!((file.rights, file.offset, &file.name[..]), (*b"r-xp", 0x1000, &b"/usr/lib/a b.so"[..]));
        let plain = mapping(b"7f0000001000-7f0000002000 rw-p 00000000 00:00 0").expect("a line");
        assert!(plain.name.is_empty());
        for wrong in [&b""[..], b"1-2", b"x-2 r-xp 0 0 0", b"1-2 r-x 0 0 0"] {
            assert_eq!(mapping(wrong), None, "{wrong:?}");
        }
    }
}
