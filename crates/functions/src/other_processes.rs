//! The number of processes that have a probed file mapped and are not targets: a probe stands in the file, so that it
//! slows down their calls too.

use std::path::Path;

use wakepath_process::{Process, processes};

use crate::identity::FileIdentity;
use crate::library::code_files;

/// For each file, the number of processes that have it mapped as executable, except the targets and this process. A
/// file is given by the path to open and the path that its processes see.
///
/// The count holds for a moment: processes come and go. A process that cannot be read is not counted. Reads each
/// process's mappings once, some 50 µs each.
pub fn other_processes(files: &[(&Path, &Path)], asked: &[u32]) -> Vec<usize> {
    let mut counts = vec![0; files.len()];
    let files: Vec<FileIdentity> = files.iter().map(|&(open, shown)| FileIdentity::of(open, shown)).collect();
    let others = |pid: &u32| !asked.contains(pid) && *pid != std::process::id();
    for pid in processes().into_iter().filter(others) {
        let Ok(mapped) = Process::open(pid).and_then(|process| code_files(&process)) else { continue };
        for (count, file) in counts.iter_mut().zip(&files) {
            *count += usize::from(mapped.iter().any(|mapping| file.is_mapped(mapping)));
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use wakepath_process::Process;

    use super::other_processes;

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
}
