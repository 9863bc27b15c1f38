//! Recording a session: where the collector is built in.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

pub use wakepath_collect::{EndReason, Error as CollectError, Identity, Options, Outcome, exit_code};
pub use wakepath_recording::WriteError;
use wakepath_recording::{HostIdentity, Owner, RotateError, Writer, rotate};

/// What to record, and where to.
#[derive(Debug, Clone)]
pub struct Request {
    /// The recording's directory. A recording that is there becomes `.old`.
    pub destination: PathBuf,
    /// What to record.
    pub options: Options,
    /// Stop when the recording has so many bytes.
    pub most_bytes: u64,
    /// Stop before the disk has less than this free, percent.
    pub least_free_percent: u8,
    /// What was asked for, for the recording's metadata.
    pub asked: Vec<OsString>,
    /// The program's version, for the recording's metadata.
    pub version: &'static str,
}

/// Why a recording was not made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RecordError {
    #[error(transparent)]
    Rotate(#[from] RotateError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Collect(#[from] CollectError),
}

/// Records until the command ends, the time is over, there is no more room, or `stop` is set. What was
/// recorded so far is in the request's destination, whatever comes of it.
///
/// # Errors
/// When recording could not begin or not go on.
pub fn record(request: &Request, stop: &AtomicBool) -> Result<Outcome, RecordError> {
    let destination: &Path = &request.destination;
    rotate(destination)?;
    let asked: Vec<_> = request.asked.iter().map(|word| word.to_string_lossy()).collect();
    let mut options = wakepath_recording::Options::new(request.version, &asked.join(" "));
    options.owner = request.options.caller.as_ref().map(|caller| Owner { uid: caller.uid, gid: caller.gid });
    options.most_bytes = Some(request.most_bytes);
    options.least_free_percent = Some(request.least_free_percent);
    let mut writer = Writer::create(destination, &HostIdentity::of_this_host(), &options)?;
    Ok(wakepath_collect::record(&request.options, &mut writer, stop)?)
}

/// Gives up all rights: an answer needs none.
///
/// # Errors
/// When the kernel refuses.
pub fn drop_rights() -> std::io::Result<()> {
    wakepath_collect::drop_capabilities()
}
