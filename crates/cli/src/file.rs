//! Writing a file beside an answer: the whole file, or nothing.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use wakepath_caller::{Caller, Destination};

use crate::exit_code::Code;
use crate::failure::Failure;

/// Checks, before a long count, that `write` can create the file: its folder exists, and the path is no folder.
///
/// # Errors
/// If the path cannot hold a file.
pub fn check_path(path: &Path) -> Result<(), Failure> {
    Destination::find(path).map(drop).map_err(|error| cannot(path, &error))
}

/// Writes a file, with the rights of the calling user. An existing file stays unchanged until the new file is whole.
///
/// # Errors
/// If the file cannot be written; then no part of it is left.
pub fn write(path: &Path, write: impl FnOnce(File) -> io::Result<()>) -> Result<(), Failure> {
    Destination::find(path).and_then(|file| file.write(write)).map_err(|error| cannot(path, &error))
}

/// The hint for a user under sudo without the right to write there.
pub fn hint_under_sudo(error: &io::Error) -> Option<String> {
    let refused = error.raw_os_error().is_some() && error.kind() == ErrorKind::PermissionDenied;
    Caller::from_sudo().filter(|_| refused).map(|caller| {
        format!(
            "under sudo, files are written with the rights of the user who called it (user id {}): choose a place \
             where this user may write",
            caller.uid
        )
    })
}

/// The failure to write a file, with what to do next.
pub fn cannot(path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(Code::Input, format!("cannot write `{}`: {error}", path.display()));
    if let Some(hint) = hint_under_sudo(error) {
        return failure.hint(hint);
    }
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            failure.hint(format!("make the folder `{}` first", parent(path).display()))
        }
        ErrorKind::IsADirectory => failure.hint("name a file in it"),
        ErrorKind::PermissionDenied => failure.hint("name a file in a folder that you may write to"),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => failure.hint("name a file on another disk"),
        _ => failure,
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().expect("text")).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_there_whole_or_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("answer");
        let half = |mut file: File| {
            file.write_all(b"half")?;
            Err(io::Error::from(ErrorKind::StorageFull))
        };
        write(&path, half).expect_err("a full disk");
        assert_eq!(names(folder.path()), [""; 0]);
        write(&path, |mut file| file.write_all(b"one")).expect("room");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("mine");
        write(&path, half).expect_err("a full disk");
        assert_eq!(fs::read(&path).expect("there"), b"one");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("answer", &link).expect("a link");
        write(&link, |mut file| file.write_all(b"two")).expect("room");
        assert_eq!(fs::read(&path).expect("there"), b"two");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["answer", "link"]);
    }

    #[test]
    fn a_path_where_no_file_can_be_is_refused_before_the_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("room");
        for (path, can) in [
            (folder.path().join("new"), true),
            (file.clone(), true),
            (PathBuf::from("new"), true),
            (PathBuf::from("/dev/null"), true),
            (folder.path().to_owned(), false),
            (folder.path().join("none/new"), false),
            (file.join("new"), false),
            (PathBuf::from("/"), false),
        ] {
            assert_eq!(check_path(&path).is_ok(), can, "{}", path.display());
        }
    }
}
