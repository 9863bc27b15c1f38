//! Judges peaks of calls, and single calls, of a server slowed by six planted causes.
//!
//! `lab/workloads/causes.c` logs each call's planted cause and its time. Under `record --call` each call is a window;
//! `path --call --peak` reports the causes for a peak's calls. The judge checks that each planted cause has a peak of
//! its own, unless neighbours mixed it with others; for each peak, that the first cause has the right name and a time
//! right to within a hundredth of the calls'; for each slow call, that the first cause is right.
//!
//! There are two conditions. Under `calls-ahead` the server's priority is above all neighbours', so that each call
//! meets its planted cause, and the neighbours' effects on disk and interrupts must change nothing. Under `calls` the
//! server competes with them: a neighbour is a further cause, mixed into the others' peaks, with a time of its own in
//! the log.

pub mod judge;
mod lines;
pub mod log;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::dated_back::{self, Readings};
use crate::document::DatedBack;
use crate::noise::Noise;
use crate::runner::{DATED_BACK, Runner, answer, read, write};
use crate::tries::Outcome;
use judge::{CallsVerdict, PeakVerdict};
pub use lines::lines;
use log::{CallCause, CallLog, CallsDocument};

/// The server's priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// Its name in folders and flags.
    pub name: &'static str,
    /// Whether the priority is above all neighbours'.
    pub ahead: bool,
}

/// Both conditions.
pub const CONDITIONS: [Condition; 2] =
    [Condition { name: "calls", ahead: false }, Condition { name: "calls-ahead", ahead: true }];

/// 700 slow calls in 7000. The cause that uses a CPU longest takes longest, so that neighbours cannot make its calls as
/// long as another cause's. With these numbers each cause takes some seconds in all.
const ARGUMENTS: &str = "--calls 7000 --compute 25 --mutex 25 --timer 20 --limit 15 --fsync 11 --peer 4 \
                         --limit-us 24000 --fsync-us 80000 --peer-us 300000";

/// A command's longest time. A run takes some 30 s, and beside neighbours up to four times as long.
const TIMEOUT: Duration = Duration::from_secs(240);

/// The number of slowest calls explained individually: they include all calls with a planted cause, unless neighbours
/// make more than 1300 others as slow.
const MAX_SLOWEST: &str = "2000";

/// The judgement on a run.
#[derive(Debug)]
pub struct CallsJudgement {
    /// The verdict on each peak.
    pub peaks: Vec<PeakVerdict>,
    /// The verdict on the slow calls.
    pub calls: CallsVerdict,
    /// Planted causes that should have a peak and have none.
    pub missing_peaks: Vec<CallCause>,
    /// Planted causes whose calls neighbours mixed with others, so that they need no peak of their own.
    pub mixed: Vec<CallCause>,
    /// Causes that could not be planted, with the reasons.
    pub left_out: Vec<String>,
    /// Whether the spinning neighbour competed with the server and was never named.
    pub never_blamed: bool,
}

impl CallsJudgement {
    /// Whether nothing is wrong.
    pub fn is_right(&self) -> bool {
        self.peaks.iter().all(|peak| peak.violations.is_empty())
            && self.calls.is_right()
            && self.missing_peaks.is_empty()
            && !self.never_blamed
    }

    /// Whether something could not be judged.
    pub fn is_void(&self) -> bool {
        !self.left_out.is_empty()
            || self.calls.is_void()
            || self.peaks.iter().any(|peak| !peak.void.is_empty())
    }

    /// The run's outcome.
    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.is_right(), !self.is_void())
    }
}

impl Runner {
    /// Records a run of calls into `folder`, which then holds `recording`, `truth.json` and the tool's answers.
    ///
    /// # Errors
    ///
    /// If a program cannot be started, fails or hangs.
    pub fn run_calls(&self, condition: Condition, folder: &Path) -> Result<CallsJudgement> {
        let mut command = self.recorder(folder)?;
        let program = fs::canonicalize(self.programs.join("causes")).context("cannot find `causes`")?;
        command.arg("--call").arg(format!("{}:handle", program.display()));
        command.arg("--").arg(program).args(ARGUMENTS.split_whitespace());
        if condition.ahead {
            command.arg("--ahead");
        }
        // The readings begin before the recorder, so that the recorder stamps each switch later. Ahead of its neighbours,
        // the server's runnable time is not judged.
        let readings = (!condition.ahead).then(Readings::begin);
        self.record(command.arg("--truth"), folder, TIMEOUT, false)?;
        if let Some(readings) = readings {
            let threads = CallLog::read(&read(&folder.join("truth.json"))?)?.threads();
            let found = dated_back::find(readings, &folder.join("recording"), &threads)?;
            write(&folder.join(DATED_BACK), &found)?;
        }
        self.replay_calls(condition, folder)
    }

    /// Judges a kept recording of calls.
    ///
    /// # Errors
    ///
    /// If the tool fails, or a document has the wrong form.
    pub fn replay_calls(&self, condition: Condition, folder: &Path) -> Result<CallsJudgement> {
        let mut log = CallLog::read(&read(&folder.join("truth.json"))?)?;
        if folder.join(DATED_BACK).exists() {
            log.correct(&DatedBack::deserialize(&read(&folder.join(DATED_BACK))?)?.switches);
        }
        let ask = |which: [&str; 2]| {
            let mut command = Command::new(&self.wakepath);
            command.arg("path").arg(folder.join("recording")).args(["--call", "handle"]).args(which);
            let answer = answer(&mut command, &folder.join(format!("calls{}", which.concat())), TIMEOUT)?;
            CallsDocument::read(answer)
        };
        let (slowest, origin) = ask(["--slowest", MAX_SLOWEST])?;
        let calls = judge::calls(&log, &slowest, origin);
        let peaks = (1..=slowest.peaks.len()).map(|number| {
            let (document, origin) = ask(["--peak", &number.to_string()])?;
            Ok(judge::peak(&log, &document, origin, number, condition.ahead))
        });
        let peaks = peaks.collect::<Result<Vec<PeakVerdict>>>()?;
        let has_peak = |cause: CallCause| peaks.iter().any(|peak| peak.main_cause == cause);
        let apart = judge::separate_causes(&log);
        let missing = |cause: &CallCause| !has_peak(*cause) && !log.left_out.contains_key(cause.name());
        let (missing_peaks, mixed) =
            CallCause::PLANTED.into_iter().filter(missing).partition(|cause| apart.contains(cause));
        let left_out = log.left_out.iter().map(|(cause, why)| format!("{cause}: {why}")).collect();
        let blamed = peaks.iter().any(|peak| peak.by_noise > 0.0);
        let never_blamed = self.noise == Noise::Spin && !condition.ahead && !blamed;
        Ok(CallsJudgement { peaks, calls, missing_peaks, mixed, left_out, never_blamed })
    }
}

/// The condition with this name.
pub fn by_name(name: &str) -> Option<Condition> {
    CONDITIONS.into_iter().find(|condition| condition.name == name)
}
