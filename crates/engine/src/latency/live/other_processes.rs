//! The processes that pay for probes without having been asked about.

use std::path::{Path, PathBuf};

use wakepath_functions::Probe;

use crate::latency::OtherProcesses;

/// For each function, given by its probe and its file as processes see it, the processes besides those `asked`
/// about that have the file mapped.
pub(crate) fn other_processes<'a>(
    functions: impl Iterator<Item = Option<(&'a Probe, &'a Path)>>,
    asked: &[u32],
) -> Vec<Option<OtherProcesses>> {
    let functions: Vec<Option<(&Path, &Path)>> =
        functions.map(|function| function.map(|(probe, shown)| (probe.file.as_path(), shown))).collect();
    // Each file once, whatever the number of its functions.
    let mut files: Vec<(&Path, &Path)> = functions.iter().flatten().copied().collect();
    files.sort_unstable();
    files.dedup();
    if files.is_empty() {
        return vec![None; functions.len()];
    }
    let counts = wakepath_functions::other_processes(&files, asked);
    let of_function = |function: Option<(&Path, &Path)>| {
        let found = files.iter().position(|file| Some(*file) == function)?;
        let processes = counts.get(found).copied().filter(|&processes| processes > 0)?;
        Some(OtherProcesses { processes, file: PathBuf::from(files[found].1), per_call_ns: None })
    };
    functions.into_iter().map(of_function).collect()
}
