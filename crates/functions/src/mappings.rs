//! Which files a process has mapped to be executed.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A file, mapped to be executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// The addresses, as they are a name in `/proc/PID/map_files`.
    pub range: String,
    /// The addresses.
    pub addresses: Range<u64>,
    /// Where in the file the first of them stands, bytes.
    pub offset: u64,
    /// The device in the kernel's form: major and minor number.
    pub device: String,
    pub inode: u64,
    /// The path in the process's view.
    pub path: PathBuf,
    /// No path leads to it any more.
    pub deleted: bool,
}

/// The current mappings of a process.
pub(crate) fn mappings(pid: u32) -> io::Result<Vec<Mapping>> {
    let text = std::fs::read(format!("/proc/{pid}/maps"))?;
    Ok(text.split(|&byte| byte == b'\n').filter_map(mapping).collect())
}

/// `start-end perms offset device inode   path`; a newline in a path is written as `\012`.
pub(crate) fn mapping(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let mut text = || std::str::from_utf8(fields.next()?).ok();
    let (range, permissions, offset, device, inode) = (text()?, text()?, text()?, text()?, text()?);
    let path = fields.next()?.trim_ascii_start();
    if !path.starts_with(b"/") || permissions.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let (path, deleted) = match path.strip_suffix(b" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    };
    // Here they have leading zeros, there none.
    let (start, end) = range.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    Some(Mapping {
        range: format!("{start:x}-{end:x}"),
        addresses: start..end,
        offset: hex(offset)?,
        device: device.to_owned(),
        inode: inode.parse().ok()?,
        path: PathBuf::from(OsStr::from_bytes(path)),
        deleted,
    })
}

#[cfg(test)]
mod tests {
    use super::mapping;

    #[test]
    fn executable_files_are_read_and_nothing_else() {
        let line =
            b"0f12a000-7f13b000 r-xp 00028000 fe:00 1234                      /usr/lib/my lib.so (deleted)";
        let found = mapping(line).unwrap();
        assert_eq!(found.range, "f12a000-7f13b000");
        assert_eq!((found.addresses, found.offset), (0xf12a000..0x7f13b000, 0x28000));
        assert_eq!((found.device.as_str(), found.inode, found.deleted), ("fe:00", 1234, true));
        assert_eq!(found.path.to_str(), Some("/usr/lib/my lib.so"));
        for line in [
            &b"7f12a000-7f13b000 r--p 00000000 fe:00 1234    /usr/lib/x.so"[..],
            b"7ffc0000-7ffd0000 r-xp 00000000 00:00 0       [vdso]",
            b"7ffc0000-7ffd0000 r-xp 00000000 00:00 0 ",
            b"7f12a000-7f13b000 r-xp 0002800x fe:00 1234    /usr/lib/x.so",
            b"nonsense",
            b"",
        ] {
            assert_eq!(mapping(line), None, "{}", String::from_utf8_lossy(line));
        }
    }
}
