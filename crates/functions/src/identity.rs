//! A file's identity in lists of mappings.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use wakepath_process::{Mapping, SeenFile};

/// A file, by its identity in mappings.
pub(crate) struct FileIdentity {
    pub inode: Option<u64>,
    /// Its major and minor number.
    pub device: (u32, u32),
    /// Its path in mappings.
    pub path: PathBuf,
}

impl FileIdentity {
    /// A file's identity: it opens at `open`, and processes see it as `shown`.
    pub fn of(open: &Path, shown: &Path) -> Self {
        let path = shown.canonicalize().unwrap_or_else(|_| shown.to_owned());
        Self::new(open.metadata().ok().as_ref(), path)
    }

    pub fn seen(file: SeenFile) -> Self {
        Self::new(Some(&file.metadata), file.path)
    }

    fn new(metadata: Option<&Metadata>, path: PathBuf) -> Self {
        let device = numbers(metadata.map_or(0, MetadataExt::dev));
        Self { inode: metadata.map(MetadataExt::ino), device, path }
    }

    /// Some filesystems (btrfs, overlays) state another device in mappings than in a file's metadata: there the path
    /// has to do.
    pub fn is_mapped(&self, mapping: &Mapping) -> bool {
        let (major, minor, inode) = mapping.file;
        self.inode == Some(inode) && (self.device == (major, minor) || mapping.path() == Some(&self.path))
    }
}

/// A device's major and minor number, which C's library packs into one.
fn numbers(device: u64) -> (u32, u32) {
    let major = (device >> 8) & 0xfff | (device >> 32) & !0xfff;
    let minor = device & 0xff | (device >> 12) & !0xff;
    (major as u32, minor as u32)
}

#[cfg(test)]
mod tests {
    use wakepath_process::Mapping;

    use super::{FileIdentity, numbers};

    #[test]
    fn a_file_is_known_by_its_inode_on_its_device_or_at_its_path() {
        let file = |device| FileIdentity { inode: Some(7), device, path: "/lib/a.so".into() };
        let found = |line: &str| {
            let mapping = Mapping::parse(line.as_bytes()).unwrap();
            [file((0xfe, 0)).is_mapped(&mapping), file((0, 0x1f)).is_mapped(&mapping)]
        };
        assert_eq!(found("1000-2000 r-xp 00000000 fe:00 7 /elsewhere/lib/a.so"), [true, false]);
        assert_eq!(found("1000-2000 r-xp 00000000 00:2a 7 /lib/a.so"), [true, true]);
        assert_eq!(found("1000-2000 r-xp 00000000 fe:00 8 /lib/a.so"), [false, false]);
    }

    #[test]
    fn a_device_has_the_two_numbers_that_the_kernel_writes() {
        for (device, expected) in [
            (0, (0, 0)),
            (0xfe03, (0xfe, 3)),
            (0x0010_002a, (0, 0x12a)),
            (0x1_2000_abc3_45de, (0x12345, 0xabcde)),
        ] {
            assert_eq!(numbers(device), expected, "{device:#x}");
        }
    }
}
