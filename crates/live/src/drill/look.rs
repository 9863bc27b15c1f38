//! A drill-down's first look, without probes below f0: a recording of the process shows where its peaks' calls ran, and what they waited for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use wakepath_caller::Caller;
use wakepath_collect::{Options, Signals, Stacks};
use wakepath_distribution::{Peak, bounds};
use wakepath_engine::drill::ENOUGH_SAMPLES;

use super::python::PythonTarget;
use super::{ChosenPeaks, DrillQuery};
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

/// The reason that a recording does not show these calls; `None` if it does.
pub fn unrecorded(query: &DrillQuery) -> Option<Unrecorded> {
    match (PythonTarget::parse(&query.target), &query.hand_over) {
        (Some(_), _) => Some(Unrecorded::Python),
        (None, Some(_)) => Some(Unrecorded::HandedOver),
        (None, None) => None,
    }
}

/// The samples a second of a thread that runs: enough calls of some ms have one.
const SAMPLES_PER_SECOND: u32 = 997;

/// The shortest and the longest recording.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(10);

impl ChosenPeaks {
    /// The time in which the rarest peak has some ten calls, and enough samples if its calls only run.
    pub fn time_of_look(&self) -> Duration {
        let peaks = self.numbers.iter().filter_map(|number| self.peaks.get(number.checked_sub(1)?));
        let times = peaks.map(|peak| self.counted_for.as_secs_f64() * self.times_for(peak));
        let longest = times.fold(0.0, f64::max);
        Duration::from_secs_f64(longest.clamp(SHORTEST.as_secs_f64(), LONGEST.as_secs_f64()))
    }

    /// The calls wanted in a peak, as a multiple of the counted calls.
    fn times_for(&self, peak: &Peak) -> f64 {
        let calls = 10.0 / peak.count.max(1) as f64;
        let counts = self.histogram.counts();
        let lower = |bucket: usize| *bounds(bucket).start() as f64 * counts[bucket] as f64;
        let ns: f64 = (peak.from_bucket..=peak.to_bucket).map(lower).sum();
        // The buckets' lower bounds make it up to twice as long as it has to be.
        calls.max(ENOUGH_SAMPLES as f64 * 1e9 / f64::from(SAMPLES_PER_SECOND) / ns.max(1.0))
    }
}

/// A request to record a function's process.
#[derive(Debug, Clone)]
pub struct LookRequest {
    /// The function, as users write it.
    pub target: String,
    /// The process.
    pub pid: u32,
    /// Whether its calls are recorded; if not, samples and waits alone.
    pub with_calls: bool,
    /// The time.
    pub time: Duration,
    /// The recording's directory.
    pub destination: PathBuf,
    /// The probes that may be put on the function.
    pub allowed: AllowedProbes,
    /// The budget for single-stepped probes; `None`: no limit.
    pub budget: Option<f64>,
    /// The user who called.
    pub caller: Option<Caller>,
    /// The command line, for the recording's metadata.
    pub asked: Vec<OsString>,
    /// The program's version, for the recording's metadata.
    pub version: &'static str,
}

/// Records a function's calls, with samples and the waits' stacks of its process. Afterwards this process keeps few rights: it may put no more probes.
///
/// # Errors
/// The errors of [`record`].
pub fn record_look(request: LookRequest, stop: &Signals) -> Result<Made, RecordError> {
    let LookRequest { target, pid, with_calls, time, destination, allowed, budget, caller, asked, version } =
        request;
    let options = Options {
        duration: Some(time),
        targets: vec![pid],
        caller,
        samples_per_second: SAMPLES_PER_SECOND,
        stacks: Stacks::Remembered,
        only_in: Some(pid),
        budget,
        ..Options::default()
    };
    let request = Request {
        destination,
        options,
        attributes: Vec::new(),
        most_bytes: MAX_BYTES,
        least_free_percent: MIN_FREE_PERCENT,
        cgroup: None,
        asked,
        version,
        calls: with_calls.then_some(target).into_iter().collect(),
        allowed: AllowedProbes { stubs: false, ..allowed },
    };
    let go = find_go(&request);
    record(&request, go, None, Vec::new(), None, &mut |_| (), stop)
}
