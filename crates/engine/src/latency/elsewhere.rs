//! Who pays for probes without having been asked about.

use std::path::{Path, PathBuf};

use wakepath_functions::Probe;

use super::Elsewhere;

/// For each of these functions, its probes with their file as processes see it, whoever has that mapped beside
/// the processes that were asked about.
pub(crate) fn elsewhere<'a>(
    functions: impl Iterator<Item = Option<(&'a Probe, &'a Path)>>,
    asked: &[u32],
) -> Vec<Option<Elsewhere>> {
    let functions: Vec<Option<(&Path, &Path)>> =
        functions.map(|function| function.map(|(probe, shown)| (probe.file.as_path(), shown))).collect();
    // A file once, however many of its functions.
    let mut files: Vec<(&Path, &Path)> = functions.iter().flatten().copied().collect();
    files.sort_unstable();
    files.dedup();
    if files.is_empty() {
        return vec![None; functions.len()];
    }
    let counts = wakepath_functions::elsewhere(&files, asked);
    let of_function = |function: Option<(&Path, &Path)>| {
        let found = files.iter().position(|file| Some(*file) == function)?;
        let processes = counts.get(found).copied().filter(|&processes| processes > 0)?;
        Some(Elsewhere { processes, file: PathBuf::from(files[found].1), per_call_ns: None })
    };
    functions.into_iter().map(of_function).collect()
}
