//! The files in this checkout.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// Folders with build results, skipped where no git lists the tracked files.
const BUILT: [&str; 5] = [".git", "target", "dist", "bin", "wakepath.rec"];

/// A checkout: its root, and its files as sorted paths within it.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    files: Vec<PathBuf>,
}

impl Tree {
    /// The checkout from which this crate was built: files that git tracks or would add, so that a
    /// new file is checked before its commit. An unpacked archive without git is walked instead.
    pub fn from_checkout() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().with_context(|| format!("cannot find {}", root.display()))?;
        let mut files = match listed_by_git(&root) {
            Some(files) => files,
            None => walked(&root)?,
        };
        // A tracked file may be removed before the removal is committed.
        files.retain(|file| root.join(file).is_file());
        files.sort();
        files.dedup();
        Ok(Self { root, files })
    }

    /// The checkout's root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The files, as sorted paths within the tree.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// A file's bytes.
    pub fn bytes(&self, file: &Path) -> Result<Vec<u8>> {
        fs::read(self.root.join(file)).with_context(|| format!("cannot read {}", file.display()))
    }

    /// A file's text.
    pub fn text(&self, file: impl AsRef<Path>) -> Result<String> {
        let file = file.as_ref();
        String::from_utf8(self.bytes(file)?).with_context(|| format!("{} is not UTF-8", file.display()))
    }

    /// Whether a file or a folder with this path stands in the tree.
    pub fn has(&self, path: &Path) -> bool {
        path.as_os_str().is_empty() || self.files.iter().any(|file| file.starts_with(path))
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    let names = String::from_utf8(output.stdout).ok()?;
    let files: Vec<_> = names.split_terminator('\0').map(PathBuf::from).collect();
    (output.status.success() && !files.is_empty()).then_some(files)
}

fn walked(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                if !BUILT.iter().any(|built| path.ends_with(built)) {
                    folders.push(path);
                }
            } else {
                files.push(path.strip_prefix(root)?.to_path_buf());
            }
        }
    }
    Ok(files)
}
