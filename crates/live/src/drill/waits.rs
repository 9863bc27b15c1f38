//! A drill-down's second half: a recording of the process shows what its peaks' calls waited for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use wakepath_caller::Caller;
use wakepath_collect::{Options, Signals};
use wakepath_engine::drill::Drilled;
use wakepath_engine::{CallsAnswer, CallsError, CallsQuery, PathQuery, Recorded, calls};

use crate::latency::AllowedProbes;
use crate::record::{MIN_FREE_PERCENT, Made, RecordError, Request, find_go, record};

/// A recording's maximum size, bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Why a recording does not show what calls waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unrecorded {
    /// A recording follows no Python functions.
    Python,
    /// A recording does not know which requests were handed over.
    HandedOver,
}

/// The reason that a recording does not show the waits of this answer's calls; `None` if it does.
pub fn unrecorded(found: &Drilled) -> Option<Unrecorded> {
    match (found.of_python, &found.handed_over) {
        (true, _) => Some(Unrecorded::Python),
        (false, Some(_)) => Some(Unrecorded::HandedOver),
        (false, None) => None,
    }
}

/// A request for a recording with waits.
#[derive(Debug, Clone)]
pub struct WaitsRequest {
    /// The recording's directory.
    pub destination: PathBuf,
    /// The probes that may be put on the function.
    pub allowed: AllowedProbes,
    /// The user who called.
    pub caller: Option<Caller>,
    /// The command line, for the recording's metadata.
    pub asked: Vec<OsString>,
    /// The program's version, for the recording's metadata.
    pub version: &'static str,
}

/// The time for a recording with these peaks' calls.
pub fn time_of_waits<'a>(found: impl Iterator<Item = &'a Drilled>) -> Duration {
    found.map(Drilled::time_of_calls).max().unwrap_or_default()
}

/// Records the calls of an answer's function for this time.
///
/// # Errors
/// The errors of [`record`].
pub fn record_waits(
    found: &Drilled,
    time: Duration,
    request: WaitsRequest,
    stop: &Signals,
) -> Result<Made, RecordError> {
    let WaitsRequest { destination, allowed, caller, asked, version } = request;
    let options =
        Options { duration: Some(time), targets: vec![found.process.0], caller, ..Options::default() };
    let request = Request {
        destination,
        options,
        attributes: Vec::new(),
        most_bytes: MAX_BYTES,
        least_free_percent: MIN_FREE_PERCENT,
        cgroup: None,
        asked,
        version,
        calls: vec![found.target.clone()],
        allowed: AllowedProbes { stubs: false, ..allowed },
    };
    let go = find_go(&request);
    record(&request, go, None, Vec::new(), None, &mut |_| (), stop)
}

/// The waits in an answer's peak, from a recording of its calls.
///
/// # Errors
/// When no such calls were recorded.
pub fn waits_of_peak<'r>(recorded: &'r Recorded, found: &Drilled) -> Result<CallsAnswer<'r>, CallsError> {
    let algorithm = PathQuery::default().algorithm;
    calls(recorded, None, &CallsQuery { target: None, which: found.calls_of_peak(), algorithm })
}
