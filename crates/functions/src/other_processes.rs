//! The number of processes that have a probed file mapped and are not targets: a probe stands in the file, so that it
//! slows down their calls too.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use wakepath_process::{Mapping, Process, processes};

use crate::library::code_files;

/// For each file, the number of processes that have it mapped as executable, except the targets and this process. A
/// file is given by the path to open and the path that its processes see.
///
/// The count holds for a moment: processes come and go. A process that cannot be read is not counted. Reads each
/// process's mappings once, some 50 µs each.
pub fn other_processes(files: &[(&Path, &Path)], asked: &[u32]) -> Vec<usize> {
    let mut counts = vec![0; files.len()];
    let files: Vec<File> = files.iter().map(|&(open, shown)| File::of(open, shown)).collect();
    let others = |pid: &u32| !asked.contains(pid) && *pid != std::process::id();
    for pid in processes().into_iter().filter(others) {
        let Ok(mapped) = Process::open(pid).and_then(|process| code_files(&process)) else { continue };
        for (count, file) in counts.iter_mut().zip(&files) {
            *count += usize::from(mapped.iter().any(|mapping| file.is_mapped(mapping)));
        }
    }
    counts
}

/// A file, by its identity in mappings.
struct File {
    inode: Option<u64>,
    /// Its major and minor number.
    device: (u32, u32),
    shown: std::path::PathBuf,
}

impl File {
    fn of(open: &Path, shown: &Path) -> Self {
        let found = open.metadata().ok();
        Self {
            device: numbers(found.as_ref().map_or(0, MetadataExt::dev)),
            inode: found.map(|found| found.ino()),
            shown: shown.canonicalize().unwrap_or_else(|_| shown.to_owned()),
        }
    }

    /// Some filesystems (btrfs, overlays) state another device in mappings than in a file's metadata: there the path
    /// has to do.
    fn is_mapped(&self, mapping: &Mapping) -> bool {
        let (major, minor, inode) = mapping.file;
        self.inode == Some(inode) && (self.device == (major, minor) || mapping.path() == Some(&self.shown))
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
    use std::process::Command;

    use wakepath_process::{Mapping, Process};

    use super::{File, numbers, other_processes};

    #[test]
    fn processes_are_counted_that_have_a_file_mapped_but_for_those_asked_about() {
        let folder = tempfile::tempdir().unwrap();
        let sleep = folder.path().join("sleeps");
        std::fs::copy("/bin/sleep", &sleep).unwrap();
        let mut sleeping: Vec<_> = (0..3).map(|_| Command::new(&sleep).arg("60").spawn().unwrap()).collect();
        let other = folder.path().join("nobody's");
        std::fs::copy("/bin/sleep", &other).unwrap();
        let files = [(sleep.as_path(), sleep.as_path()), (other.as_path(), other.as_path())];
        // A spawned process does not run yet, and has its new program's name before the program is mapped.
        let runs = |child: &std::process::Child| {
            let mappings =
                Process::open(child.id()).and_then(|process| process.mappings()).unwrap_or_default();
            mappings.iter().any(|it| it.is_code() && it.name.ends_with(b"/sleeps"))
        };
        let began = std::time::Instant::now();
        while !sleeping.iter().all(runs) && began.elapsed().as_secs() < 10 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let found =
            [other_processes(&files, &[]), other_processes(&files, &[sleeping[0].id(), sleeping[2].id()])];
        for child in &mut sleeping {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(found, [[3, 0], [1, 0]]);
    }

    #[test]
    fn a_file_is_known_by_its_inode_on_its_device_or_at_its_path() {
        let file = |device| File { inode: Some(7), device, shown: "/lib/a.so".into() };
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
