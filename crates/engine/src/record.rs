//! Recording a session: where the collector is built in.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use crate::latency::Allowed;
use crate::latency::{LatencyError, functions};
use crate::query::is_meant;
pub use wakepath_collect::{
    EndReason, Error as CollectError, GRACE, Identity, Options, Outcome, Running, Signals, Stacks, exit_code,
};
pub use wakepath_recording::WriteError;
use wakepath_recording::{HostIdentity, Owner, Writer};

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
    /// The cgroup, unit or container that is asked about, if it is one.
    pub cgroup: Option<String>,
    /// What was asked for, for the recording's metadata.
    pub asked: Vec<OsString>,
    /// The program's version, for the recording's metadata.
    pub version: &'static str,
    /// Functions of which each call is recorded, as people write them.
    pub calls: Vec<String>,
    /// Which probes may be put on them.
    pub allowed: Allowed,
}

/// Why a recording was not made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RecordError {
    #[error("there is no cgroup, unit or container `{0}`")]
    NoCgroup(String),
    #[error(transparent)]
    Function(#[from] LatencyError),
    #[error(transparent)]
    Collect(#[from] CollectError),
}

/// Records until the command ends, the time is over, there is no more room, or `stop` was asked. What was
/// recorded so far is in the request's destination, whatever comes of it; an earlier recording there is
/// moved aside only when all is ready to begin.
///
/// # Errors
/// When recording could not begin or not go on.
pub fn record(request: &Request, stop: &Signals) -> Result<Outcome, RecordError> {
    let destination: &Path = &request.destination;
    if let Some(cgroup) = &request.cgroup {
        let there = wakepath_collect::cgroup_paths();
        // Where no hierarchy can be seen, the events may know more.
        if !there.is_empty() && !there.iter().any(|path| is_meant(cgroup.as_bytes(), path)) {
            return Err(RecordError::NoCgroup(cgroup.clone()));
        }
    }
    let mut recorder = request.options.clone();
    for text in &request.calls {
        for function in functions(text, &recorder.targets, request.allowed)? {
            recorder.functions.push((function.name, function.probes));
        }
    }
    let asked: Vec<_> = request.asked.iter().map(|word| word.to_string_lossy()).collect();
    let mut options = wakepath_recording::Options::new(request.version, &asked.join(" "));
    options.owner = request.options.caller.as_ref().map(|caller| Owner { uid: caller.uid, gid: caller.gid });
    options.kept_for_end = kept_for_end(request.most_bytes);
    options.cgroup = request.cgroup.clone();
    options.most_bytes = Some(request.most_bytes);
    options.least_free_percent = Some(request.least_free_percent);
    let open = || Writer::replace(destination, &HostIdentity::of_this_host(), &options);
    Ok(wakepath_collect::record(&recorder, open, stop)?)
}

/// What of a recording's largest size is kept for its end: names, and the rare records (births, names
/// of threads, samples) that are held back a little to be written in order. Without them an answer is
/// worth little. A storm of processes makes 400 KiB of them a second.
fn kept_for_end(most_bytes: u64) -> u64 {
    (most_bytes / 4).min(16 << 20)
}

/// Gives up all rights: an answer needs none.
///
/// # Errors
/// When the kernel refuses.
pub fn drop_rights() -> std::io::Result<()> {
    wakepath_collect::drop_capabilities()
}
