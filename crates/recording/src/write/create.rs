//! Making the directory of a recording, whole or not at all.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use rustix::fs::FileType;

use super::WriteError;
use crate::directory::{Directory, Owner, split};
use crate::rotate::rotate;

/// The treatment of a recording that already has the name.
pub(super) enum ExistingRecording<'a> {
    /// It is in the way.
    Stays,
    /// It moves aside, when the new one, whose `kernel` directory is given, passes this check.
    MovesAside(&'a dyn Fn(&Directory) -> Result<(), WriteError>),
}

/// Makes the directory `path` with this metadata in it, and returns its `kernel` directory.
///
/// It gets its name when its metadata is whole: a recording with its name can always be read, even if the recorder was
/// killed right here. An earlier recording moves aside at the last moment, when nothing
/// but the change of names can fail any more.
pub(super) fn create(
    path: &Path,
    owner: Option<Owner>,
    metadata: &str,
    earlier: ExistingRecording<'_>,
) -> Result<Directory, WriteError> {
    let io = |source| WriteError::from_io(path, source);
    let in_the_way = || WriteError::InTheWay(path.to_owned());
    let (parent, name) = split(path).map_err(io)?;
    let parent = Directory::at(parent).map_err(io)?;
    let is_free = is_free(&parent, name, owner).map_err(io)?;
    if !is_free && matches!(earlier, ExistingRecording::Stays) {
        return Err(in_the_way());
    }
    let unfinished = unfinished(name);
    discard(&parent, &unfinished, owner)?;
    let kernel = match fill(&parent, &unfinished, owner, metadata) {
        Ok(kernel) => kernel,
        Err(e) => {
            let _ = discard(&parent, &unfinished, owner);
            return Err(io(e));
        }
    };
    if let ExistingRecording::MovesAside(check) = earlier {
        let aside = || if is_free { Ok(false) } else { rotate(path) };
        if let Err(e) = check(&kernel).and_then(|()| Ok(aside()?)) {
            let _ = discard(&parent, &unfinished, owner);
            return Err(e);
        }
    }
    // This replaces nothing but an empty directory.
    if let Err(e) = parent.rename_over_empty(&unfinished, name) {
        let _ = discard(&parent, &unfinished, owner);
        return Err(match e.kind() {
            ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
                in_the_way()
            }
            _ => io(e),
        });
    }
    Ok(kernel.renamed(path.join("kernel")))
}

fn fill(parent: &Directory, name: &OsStr, owner: Option<Owner>, metadata: &str) -> io::Result<Directory> {
    let kernel = parent.create(name, owner)?.create("kernel".as_ref(), owner)?;
    kernel.create_file("metadata", owner)?.write_all(metadata.as_bytes())?;
    Ok(kernel)
}

/// Whether nothing but perhaps an empty directory of our own, or of the owner to be, has this name.
fn is_free(parent: &Directory, name: &OsStr, owner: Option<Owner>) -> io::Result<bool> {
    match parent.kind_of(name)? {
        None => Ok(true),
        Some(FileType::Directory) => {
            let there = parent.open(name)?;
            Ok(is_ours(&there, owner)? && there.names()?.is_empty())
        }
        Some(_) => Ok(false),
    }
}

fn is_ours(directory: &Directory, owner: Option<Owner>) -> io::Result<bool> {
    let whose = directory.owner()?.uid;
    Ok(whose == rustix::process::geteuid().as_raw() || owner.is_some_and(|owner| owner.uid == whose))
}

/// The name of a recording until its metadata is written.
fn unfinished(name: &OsStr) -> OsString {
    let mut unfinished = OsString::from(".");
    unfinished.push(name);
    unfinished.push(".new");
    unfinished
}

/// Removes the directory that a recorder left which was killed at its very beginning; anything else is in the way.
fn discard(parent: &Directory, unfinished: &OsStr, owner: Option<Owner>) -> Result<(), WriteError> {
    let all_gone = || -> io::Result<bool> {
        if parent.kind_of(unfinished)?.is_none() {
            return Ok(true);
        }
        let (kernel, metadata) = (OsStr::new("kernel"), OsStr::new("metadata"));
        let left = parent.open(unfinished)?;
        if !is_ours(&left, owner)? {
            return Ok(false);
        }
        if left.kind_of(kernel)?.is_some() {
            let inside = left.open(kernel)?;
            if inside.kind_of(metadata)?.is_some() {
                inside.remove_file(metadata)?;
            }
            left.remove_directory(kernel)?;
        }
        parent.remove_directory(unfinished)?;
        Ok(true)
    };
    match all_gone() {
        Ok(true) => Ok(()),
        Ok(false) | Err(_) => Err(WriteError::InTheWay(parent.path.join(unfinished))),
    }
}
