//! Moving an earlier recording out of the way of a new one.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use wakepath_caller::{Directory, acting_uid, user_name};
use wakepath_ctf::tsdl;

use crate::go_traces;
use crate::metadata::{MetadataError, recording_facts};
use crate::place::old_name;
use crate::spans::SPANS;
use crate::stream_name::is_stream_name;

/// Why an earlier recording cannot make room.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RotateError {
    #[error("{} is not a recording of wakepath ({why}): it stays where it is", .path.display())]
    Foreign { path: PathBuf, why: String },
    #[error("{} belongs to {}: only a recording of one's own is moved or deleted", .path.display(), user_name(*.owner))]
    Another { path: PathBuf, owner: u32 },
    #[error("{} is still being recorded, and a third recording would delete it", .path.display())]
    Running { path: PathBuf },
    #[error("cannot move {} out of the way: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Appends `.old` to the name of the recording at `path`, and deletes an earlier recording with that name. Returns
/// whether a recording was moved.
///
/// # Errors
/// When either is no wakepath recording, belongs to another user, or holds a foreign file; or when the recording to
/// delete is still being written. Then nothing is changed.
pub fn rotate(path: &Path) -> Result<bool, RotateError> {
    let (parent, name) =
        Directory::of(path).map_err(|source| RotateError::Io { path: path.to_owned(), source })?;
    Ok(rotate_in(&parent, name)? != Rotated::Nothing)
}

/// The moved recording's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rotated {
    /// No recording was there.
    Nothing,
    /// It had ended.
    Ended,
    /// Another process still writes it.
    Running,
}

/// Like [`rotate`], for `name` in a directory.
pub(crate) fn rotate_in(parent: &Directory, name: &OsStr) -> Result<Rotated, RotateError> {
    let io = |source| RotateError::Io { path: parent.path.join(name), source };
    if parent.kind_of(name).map_err(io)?.is_none() {
        return Ok(Rotated::Nothing);
    }
    let moving = inspect(parent, name)?;
    let old = old_name(name);
    if parent.kind_of(&old).map_err(io)?.is_some() {
        let inspected = inspect(parent, &old)?;
        // A recorder that has ended has released its directory's lock.
        if !inspected.recording.lock() {
            return Err(RotateError::Running { path: inspected.recording.path });
        }
        delete(&inspected).map_err(io)?;
        parent.remove_directory(&old).map_err(io)?;
    }
    parent.rename(name, &old).map_err(io)?;
    Ok(if moving.recording.lock() { Rotated::Ended } else { Rotated::Running })
}

/// A checked recording: all its files belong there.
pub(crate) struct Inspected {
    recording: Directory,
    kernel: Directory,
    kernel_files: Vec<OsString>,
    /// The files beside the streams: spans and execution traces.
    beside: Vec<OsString>,
}

impl Inspected {
    /// Its files' total size, bytes.
    pub(crate) fn bytes(&self) -> io::Result<u64> {
        let streams = self.kernel_files.iter().map(|name| self.kernel.open_file(name));
        let beside = self.beside.iter().map(|name| self.recording.open_file(name));
        streams.chain(beside).try_fold(0, |sum, file| Ok(sum + file?.metadata()?.len()))
    }
}

/// Checks the recording `name` and holds it open, so that later deletions remove the checked files.
pub(crate) fn inspect(parent: &Directory, name: &OsStr) -> Result<Inspected, RotateError> {
    let path = parent.path.join(name);
    let foreign = |why: String| RotateError::Foreign { path: path.clone(), why };
    match parent.owner_of(name).map_err(|source| RotateError::Io { path: path.clone(), source })? {
        Some(owner) if owner != acting_uid() => return Err(RotateError::Another { path, owner }),
        _ => {}
    }
    let cannot = |what: &str, e: io::Error| foreign(format!("{what}: {e}"));
    let recording = parent.open(name).map_err(|e| cannot("it cannot be opened as a directory", e))?;
    let names = recording.names().map_err(|e| cannot("it cannot be listed", e))?;
    let mut beside = Vec::new();
    for (name, kind) in names {
        if (name == SPANS || go_traces::is_name(&name)) && kind == FileType::RegularFile {
            beside.push(name);
        } else if !(name == "kernel" && kind == FileType::Directory) {
            return Err(foreign(format!("it holds {}", name.to_string_lossy().escape_debug())));
        }
    }
    let kernel = recording.open(OsStr::new("kernel")).map_err(|e| cannot("kernel/", e))?;
    let text = kernel.read_text("metadata", crate::metadata::MAX_METADATA_BYTES);
    let text = text.map_err(|e| cannot("kernel/metadata", e))?;
    let facts = tsdl::read_facts(&text).map_err(|e| foreign(format!("kernel/metadata {e}")))?;
    match recording_facts(&facts) {
        // A newer format is a recording too.
        Ok(_) | Err(MetadataError::Newer(_)) => {}
        Err(_) => return Err(foreign("its metadata says so".to_owned())),
    }
    let mut kernel_files = Vec::new();
    for (name, kind) in kernel.names().map_err(|e| cannot("kernel/ cannot be listed", e))? {
        let ours = name.to_str().is_some_and(|name| name == "metadata" || is_stream_name(name));
        if !ours || kind != FileType::RegularFile {
            return Err(foreign(format!("it holds kernel/{}", name.to_string_lossy().escape_debug())));
        }
        kernel_files.push(name);
    }
    Ok(Inspected { recording, kernel, kernel_files, beside })
}

/// Deletes a recording's files, and leaves its directory empty.
pub(crate) fn delete(inspected: &Inspected) -> io::Result<()> {
    for name in &inspected.beside {
        inspected.recording.remove_file(name)?;
    }
    // The metadata goes last: after an interrupted deletion, the rest is still recognisable as a recording.
    let (last, streams): (Vec<_>, Vec<_>) =
        inspected.kernel_files.iter().partition(|name| *name == "metadata");
    for name in streams.into_iter().chain(last) {
        inspected.kernel.remove_file(name)?;
    }
    inspected.recording.remove_directory(OsStr::new("kernel"))
}
