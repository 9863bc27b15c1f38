//! The folder with fetched files: the same that other debuginfod clients use, so that each file is fetched once.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use wakepath_caller::{Caller, Directory, acting_uid, belongs_to_another};
use wakepath_symbols::{Wanted, has_build_id};

/// The user's folder for fetched files; `None` if the environment names no home.
pub fn directory() -> Option<PathBuf> {
    directory_by(Caller::from_sudo().as_ref(), std::env::var_os)
}

fn directory_by(
    caller: Option<&Caller>,
    variable: impl Fn(&'static str) -> Option<OsString>,
) -> Option<PathBuf> {
    let folder = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(chosen) = folder("DEBUGINFOD_CACHE_PATH") {
        return Some(chosen);
    }
    let caches = match caller {
        // Under sudo the other variables may name root's folders.
        Some(caller) => caller.home()?.join(".cache"),
        None => folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?,
    };
    Some(caches.join("debuginfod_client"))
}

/// The files that were fetched.
#[derive(Debug)]
pub(crate) struct Cache {
    pub folder: PathBuf,
}

/// The name of a kind of file, in addresses and in the cache.
pub(crate) fn kind(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::DebugInfo => "debuginfo",
        Wanted::Program => "executable",
    }
}

/// Two digits for each byte.
pub(crate) fn hex(build_id: &[u8]) -> String {
    build_id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The path of an open file.
fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

impl Cache {
    /// A file that is there and has the build id.
    pub fn open(&self, wanted: Wanted, build_id: &[u8]) -> Option<File> {
        let path = self.folder.join(hex(build_id)).join(kind(wanted));
        let (folder, name) = Directory::of(&path).ok()?;
        // Another user could change it later.
        if !folder.owner_of(name).ok()?.is_some_and(|owner| owner == acting_uid() || owner == 0) {
            return None;
        }
        let file = folder.open_file(name).ok()?;
        has_build_id(&path_of(&file), build_id).then_some(file)
    }

    /// Writes a file, and keeps it only if `write` succeeds and the file then has the build id.
    ///
    /// # Errors
    /// Those of `write`; `not_it` for another build id.
    pub fn keep<E: From<io::Error>>(
        &self,
        wanted: Wanted,
        build_id: &[u8],
        write: impl FnOnce(&mut File) -> Result<(), E>,
        not_it: impl FnOnce() -> E,
    ) -> Result<(), E> {
        let path = self.folder.join(hex(build_id)).join(kind(wanted));
        let parent = self.folder.join(hex(build_id));
        std::fs::create_dir_all(&parent).map_err(|error| named(&error, &parent))?;
        let (folder, name) = Directory::of(&path).map_err(|error| named(&error, &path))?;
        let there = folder.owner_of(name)?;
        if let Some(owner) = there.filter(|&owner| owner != acting_uid()) {
            return Err(belongs_to_another("the file", &path, owner).into());
        }
        let part = format!(".{}.{}.part", kind(wanted), std::process::id());
        // One left by a process with the same number, which was killed.
        let _ = folder.remove_file(OsStr::new(&part));
        let mut file = folder.create_file(&part).map_err(|error| named(&error, &path))?;
        let kept = write(&mut file).and_then(|()| match has_build_id(&path_of(&file), build_id) {
            true => {
                there.map_or(Ok(()), |_| folder.remove_file(name))?;
                Ok(folder.rename(OsStr::new(&part), name)?)
            }
            false => Err(not_it()),
        });
        if kept.is_err() {
            // The first failure is the one to report.
            let _ = folder.remove_file(OsStr::new(&part));
        }
        kept
    }
}

/// The error with its path.
fn named(error: &io::Error, path: &std::path::Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetched_files_go_where_other_clients_put_them() {
        let all = [("DEBUGINFOD_CACHE_PATH", "/d"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h")];
        let with = |from: usize, caller: Option<Caller>| {
            directory_by(caller.as_ref(), |name| {
                all[from..].iter().find(|(it, _)| *it == name).map(|(_, value)| OsString::from(value))
            })
        };
        let path = |text| Some(PathBuf::from(text));
        assert_eq!(with(0, None), path("/d"));
        assert_eq!(with(1, None), path("/x/debuginfod_client"));
        assert_eq!(with(2, None), path("/h/.cache/debuginfod_client"));
        assert_eq!(with(3, None), None);
        // Under sudo: never a folder of root's, whatever the environment says.
        let caller = |uid| Caller { uid, gid: 0, groups: vec![] };
        let home = caller(0).home().expect("root has a home");
        assert_eq!(with(0, Some(caller(0))), path("/d"));
        assert_eq!(with(1, Some(caller(0))), Some(home.join(".cache/debuginfod_client")));
        assert_eq!(with(1, Some(caller(3_999_999_999))), None, "a user without a home");
        let empty = directory_by(None, |name| Some(OsString::from(if name == "HOME" { "/h" } else { "" })));
        assert_eq!(empty, path("/h/.cache/debuginfod_client"));
    }
}
