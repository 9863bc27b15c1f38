//! The processes that pay for probes although they are not targets.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use wakepath_collect::Counted;

use super::LiveTarget;
use wakepath_engine::latency::OtherProcesses;

/// For each target, the processes that have its probed file mapped, besides those `asked` about and `command`.
pub(crate) fn other_processes(
    targets: &[LiveTarget],
    asked: &[u32],
    command: &[OsString],
) -> Vec<Option<OtherProcesses>> {
    // The file itself, and as processes see it.
    let file_of = |target: &LiveTarget| match (&target.counted, &target.file) {
        (Counted::Function(probe), Some(shown)) => Some((probe.file.clone(), shown.clone())),
        _ => None,
    };
    // Each file once, whatever the number of its functions.
    let mut files: Vec<(PathBuf, PathBuf)> = targets.iter().filter_map(file_of).collect();
    files.sort_unstable();
    files.dedup();
    // If all processes are asked about, there are no others.
    if files.is_empty() || asked.is_empty() && command.is_empty() {
        return vec![None; targets.len()];
    }
    let paths: Vec<(&Path, &Path)> = files.iter().map(|(file, shown)| (&**file, &**shown)).collect();
    let counts = wakepath_functions::other_processes(&paths, asked);
    let of_target = |target: &LiveTarget| {
        let file = file_of(target)?;
        let found = files.binary_search(&file).ok()?;
        let processes = counts.get(found).copied().filter(|&processes| processes > 0)?;
        Some(OtherProcesses { processes, file: file.1, per_call_ns: None })
    };
    targets.iter().map(of_target).collect()
}
