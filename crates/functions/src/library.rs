//! Which file a name stands for.

use std::path::{Path, PathBuf};

use crate::error::LibraryError;
use crate::target::FileName;

/// A file that a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// To open, and to give to the kernel.
    pub open: PathBuf,
    /// To show.
    pub shown: PathBuf,
}

impl Place {
    fn plain(path: PathBuf) -> Self {
        Self { shown: path.clone(), open: path }
    }
}

/// The files that a name stands for: several, where processes have different ones mapped.
pub(crate) fn places(name: &FileName, _processes: &[u32]) -> Result<Vec<Place>, LibraryError> {
    match name {
        FileName::Path(path) => Ok(vec![Place::plain(path.clone())]),
        FileName::Short(name) => standard(name)
            .or_else(|| on_path(name))
            .map(|path| vec![Place::plain(path)])
            .ok_or_else(|| LibraryError::Unknown {
                name: name.clone(),
                looked: "in the standard folders of libraries and on PATH".to_owned(),
            }),
    }
}

fn standard(name: &str) -> Option<PathBuf> {
    let folders =
        ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
    folders.iter().find_map(|folder| {
        let mut found: Vec<String> = std::fs::read_dir(folder)
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|file| {
                file == name || file.strip_prefix(name).is_some_and(|rest| rest.starts_with(".so."))
            })
            .collect();
        found.sort();
        found.first().map(|file| Path::new(folder).join(file))
    })
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
