//! Making a recording's directory, whole or not at all.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use std::time::Duration;

use rustix::fs::FileType;
use wakepath_caller::{Directory, acting_uid};

use super::WriteError;
use crate::place::Place;
use crate::rotate::{Rotated, rotate_in};

/// The treatment of an existing recording with this name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExistingRecording {
    /// It is in the way.
    Stays,
    /// It moves aside, once the new recording passes the check for space.
    MovesAside,
}

/// The number of checks, and the pause between them, for another recorder that begins in the same directory: a wait
/// of at most 2 s.
const MAX_POLLS: u32 = 200;
const POLL: Duration = Duration::from_millis(10);

/// Makes the directory `path` with this metadata, and returns it and its `kernel` directory.
///
/// It gets its name once its metadata is whole: under its name, a recording can always be read, even if the recorder
/// was killed right here. An earlier recording moves aside at the last moment, when only the change of names can
/// still fail. Recorders that begin in the same directory take turns: the unfinished directory is locked from its
/// beginning.
pub(super) fn create(
    path: &Path,
    metadata: &str,
    earlier: ExistingRecording,
    has_space: impl Fn(&Directory) -> Result<(), WriteError>,
) -> Result<(Place, Directory), WriteError> {
    let io = |source| WriteError::from_io(path, source);
    let in_the_way = || WriteError::InTheWay(path.to_owned());
    let (parent, name) = Directory::of(path).map_err(io)?;
    let unfinished = unfinished(name);
    let made = begin(&parent, &unfinished)?;
    let finish = || {
        let is_free = is_free(&parent, name).map_err(io)?;
        if !is_free && earlier == ExistingRecording::Stays {
            return Err(in_the_way());
        }
        let kernel = fill(&made, metadata).map_err(io)?;
        let mut rotated = Rotated::Nothing;
        if earlier == ExistingRecording::MovesAside {
            has_space(&kernel)?;
            if !is_free {
                rotated = rotate_in(&parent, name)?;
            }
        }
        // Only an empty directory is replaced.
        parent.rename_over_empty(&unfinished, name).map_err(|e| match e.kind() {
            ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
                in_the_way()
            }
            _ => io(e),
        })?;
        Ok((kernel, rotated))
    };
    match finish() {
        Ok((kernel, rotated)) => {
            let place = Place::new(made.renamed(path.to_owned()), rotated == Rotated::Running);
            Ok((place, kernel.renamed(path.join("kernel"))))
        }
        Err(e) => {
            let _ = empty(&made).and_then(|()| parent.remove_directory(&unfinished));
            Err(e)
        }
    }
}

/// Makes the directory `unfinished`, and locks it. Waits for another recorder's unfinished directory; removes a
/// killed recorder's.
fn begin(parent: &Directory, unfinished: &OsStr) -> Result<Directory, WriteError> {
    let path = parent.path.join(unfinished);
    for _ in 0..MAX_POLLS {
        let made = match discard(parent, unfinished) {
            Ok(true) => parent.create(unfinished).and_then(|made| Ok(is_held(&made)?.then_some(made))),
            Ok(false) => Ok(None),
            Err(e) => return Err(e),
        };
        match made {
            Ok(Some(made)) => return Ok(made),
            Ok(None) => {}
            // Another recorder was faster: its directory exists, or is gone again.
            Err(e) if matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {}
            Err(e) => return Err(WriteError::from_io(&path, e)),
        }
        std::thread::sleep(POLL);
    }
    Err(WriteError::InTheWay(path))
}

/// Whether this process holds the lock, and the directory still has its name: another recorder may have finished or
/// removed it meanwhile.
fn is_held(directory: &Directory) -> io::Result<bool> {
    Ok(directory.lock() && directory.is_at(&directory.path)?)
}

fn fill(made: &Directory, metadata: &str) -> io::Result<Directory> {
    let kernel = made.create("kernel".as_ref())?;
    kernel.create_file("metadata")?.write_all(metadata.as_bytes())?;
    Ok(kernel)
}

/// Whether the name is free, or an empty directory of the same user has it.
fn is_free(parent: &Directory, name: &OsStr) -> io::Result<bool> {
    match parent.kind_of(name)? {
        None => Ok(true),
        Some(FileType::Directory) => Ok(is_ours(parent, name)? && parent.open(name)?.names()?.is_empty()),
        Some(_) => Ok(false),
    }
}

fn is_ours(parent: &Directory, name: &OsStr) -> io::Result<bool> {
    Ok(parent.owner_of(name)? == Some(acting_uid()))
}

/// A recording's name until its metadata is written.
fn unfinished(name: &OsStr) -> OsString {
    let mut unfinished = OsString::from(".");
    unfinished.push(name);
    unfinished.push(".new");
    unfinished
}

/// Removes the directory of a recorder killed at its very beginning; any other file is in the way. Returns `false` if
/// a recorder still holds it.
fn discard(parent: &Directory, unfinished: &OsStr) -> Result<bool, WriteError> {
    let remove = || -> io::Result<Option<bool>> {
        match parent.owner_of(unfinished)? {
            None => return Ok(Some(true)),
            Some(owner) if owner != acting_uid() => return Ok(None),
            Some(_) => {}
        }
        let left = parent.open(unfinished)?;
        if !is_held(&left)? {
            return Ok(Some(false));
        }
        empty(&left)?;
        parent.remove_directory(unfinished)?;
        Ok(Some(true))
    };
    match remove() {
        Ok(Some(gone)) => Ok(gone),
        // Meanwhile finished or removed.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Ok(None) | Err(_) => Err(WriteError::InTheWay(parent.path.join(unfinished))),
    }
}

/// Removes the files of a recording that has only metadata.
fn empty(directory: &Directory) -> io::Result<()> {
    let (kernel, metadata) = (OsStr::new("kernel"), OsStr::new("metadata"));
    if directory.kind_of(kernel)?.is_some() {
        let inside = directory.open(kernel)?;
        if inside.kind_of(metadata)?.is_some() {
            inside.remove_file(metadata)?;
        }
        directory.remove_directory(kernel)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The last check of the name and its change are two steps.
    #[test]
    fn what_gets_the_name_while_a_recorder_begins_stays() {
        for put in [
            (|path| fs::write(path, "mine").expect("a free name")) as fn(&Path),
            |path| fs::create_dir_all(path.join("mine")).expect("a free name"),
            |path| std::os::unix::fs::symlink("/nowhere", path).expect("a free name"),
        ] {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let path = folder.path().join("rec");
            let put = |_: &Directory| {
                put(&path);
                Ok(())
            };
            let error = create(&path, "metadata", ExistingRecording::MovesAside, put)
                .expect_err("a name that is taken");
            assert!(matches!(error, WriteError::InTheWay(ref at) if *at == path), "{error}");
            let left: Vec<_> = fs::read_dir(folder.path()).expect("the folder").collect();
            assert!(left.len() == 1 && fs::symlink_metadata(&path).is_ok(), "{left:?}");
        }
    }
}
