//! Judges the peaks of calls, and single calls, with a server that is slow for six planted causes.
//!
//! `workloads/causes.c` logs for each call the planted cause and its time. Under `record --call` each call is a
//! window; `path --call --peak` reports the causes of the calls of a peak. For each peak the judge checks that
//! each planted cause has a peak of its own, that the first cause has the right name, and that its time is
//! right to within a hundredth of the calls'. For each slow call it checks that the first cause is right.
//!
//! There are two conditions. Under `calls-ahead` the server's priority is above that of all neighbours, so that
//! each call meets its planted cause, and the neighbours' effects on disk and interrupts must change nothing.
//! Under `calls` the server competes with them: a neighbour is a further cause, mixed into the peaks of the
//! others, which the log has as a time of its own.

pub mod judge;
mod lines;
pub mod log;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::noise::Noise;
use crate::runner::{command_line, finish, read};
use judge::{CallsVerdict, PeakVerdict};
use log::{CallLog, CallsDocument, Cause};

/// The priority of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// Its name in folders and flags.
    pub name: &'static str,
    /// The priority is above that of all neighbours.
    pub ahead: bool,
}

/// Both conditions.
pub const CONDITIONS: [Condition; 2] =
    [Condition { name: "calls", ahead: false }, Condition { name: "calls-ahead", ahead: true }];

/// 1000 slow calls of 10 000. The cause that uses a CPU longest takes longest, so that neighbours cannot make its
/// calls as long as those of another. The numbers are such that each cause takes some seconds in all.
const ARGUMENTS: &str = "--calls 10000 --compute 25 --mutex 25 --timer 20 --limit 15 --fsync 11 --peer 4 \
                         --limit-us 24000 --fsync-us 80000 --peer-us 300000";

/// The longest time of a command. A run takes some 40 s, and beside neighbours up to four times as long.
const TIMEOUT: Duration = Duration::from_secs(240);

/// The number of slowest calls that are explained one by one: all calls with a planted cause are among them,
/// unless neighbours make more than a thousand others as slow.
const MAX_SLOWEST: &str = "2000";

/// The number of runs until one can be judged.
const MAX_TRIES: u32 = 3;

/// The programs and the neighbour of a run.
#[derive(Debug)]
pub struct CallsRunner<'a> {
    /// The tool under judgement.
    pub wakepath: &'a Path,
    /// The folder of the workloads.
    pub programs: &'a Path,
    /// The neighbour.
    pub noise: Noise,
}

/// The judgement of a run.
#[derive(Debug)]
pub struct CallsJudgement {
    /// The verdict on each peak.
    pub peaks: Vec<PeakVerdict>,
    /// The verdict on the slow calls.
    pub calls: CallsVerdict,
    /// Planted causes that should have a peak and have none.
    pub missing_peaks: Vec<Cause>,
    /// Planted causes whose calls neighbours mixed with others, so that they need no peak of their own.
    pub mixed: Vec<Cause>,
    /// Causes that could not be planted, with the reasons.
    pub left_out: Vec<String>,
    /// The spinning neighbour competed with the server and was never named.
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

    /// The judgement as text.
    pub fn lines(&self) -> String {
        lines::lines(self)
    }
}

impl CallsRunner<'_> {
    /// Makes runs until one can be judged, at most three. `void` gets each run without a judgement.
    ///
    /// # Errors
    ///
    /// The same as [`CallsRunner::run`].
    pub fn run_until_it_judges(
        &self,
        condition: Condition,
        folder: &Path,
        mut void: impl FnMut(&CallsJudgement),
    ) -> Result<CallsJudgement> {
        for _ in 1..MAX_TRIES {
            let judged = self.run(condition, folder)?;
            if !judged.is_void() {
                return Ok(judged);
            }
            void(&judged);
        }
        self.run(condition, folder)
    }

    /// Records a run into `folder`, which then holds `recording`, `truth.json` and the tool's answers.
    ///
    /// # Errors
    ///
    /// If a program cannot be started, fails or hangs.
    pub fn run(&self, condition: Condition, folder: &Path) -> Result<CallsJudgement> {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot empty `{}`", folder.display()))?;
        }
        fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
        let program = fs::canonicalize(self.programs.join("causes")).context("cannot find `causes`")?;
        let truth = folder.join("truth.json");
        let mut command = Command::new(self.wakepath);
        command.arg("record").arg("-o").arg(folder.join("recording"));
        command.arg("--call").arg(format!("{}:handle", program.display()));
        command.arg("--").arg(program).args(ARGUMENTS.split_whitespace());
        if condition.ahead {
            command.arg("--ahead");
        }
        command.arg("--truth").arg(&truth).stdout(Stdio::null());
        let neighbour = self.noise.start(self.programs, TIMEOUT.as_secs())?;
        let status = finish(&mut command, &folder.join("record.log"), TIMEOUT)?;
        drop(neighbour);
        ensure!(status.success(), "`{}` ended with {status}", command_line(&command));
        ensure!(truth.exists(), "`{}` wrote no truth", command_line(&command));
        self.replay(condition, folder)
    }

    /// Judges a kept recording.
    ///
    /// # Errors
    ///
    /// If the tool fails, or a document has the wrong form.
    pub fn replay(&self, condition: Condition, folder: &Path) -> Result<CallsJudgement> {
        let log = CallLog::read(&read(&folder.join("truth.json"))?)?;
        let (slowest, origin) = CallsDocument::read(self.ask(folder, &["--slowest", MAX_SLOWEST])?)?;
        let calls = judge::calls(&log, &slowest, origin);
        let peaks = (1..=slowest.peaks.len()).map(|number| {
            let (document, origin) =
                CallsDocument::read(self.ask(folder, &["--peak", &number.to_string()])?)?;
            Ok(judge::peak(&log, &document, origin, number, condition.ahead))
        });
        let peaks = peaks.collect::<Result<Vec<PeakVerdict>>>()?;
        let has_peak = |cause: Cause| peaks.iter().any(|peak| peak.main_cause == cause);
        let apart = judge::separate_causes(&log);
        let missing = |cause: &Cause| !has_peak(*cause) && !log.left_out.contains_key(cause.name());
        let (missing_peaks, mixed) =
            Cause::PLANTED.into_iter().filter(missing).partition(|cause| apart.contains(cause));
        let left_out = log.left_out.iter().map(|(cause, why)| format!("{cause}: {why}")).collect();
        let blamed = peaks.iter().any(|peak| peak.by_noise > 0.0);
        let never_blamed = self.noise == Noise::Spin && !condition.ahead && !blamed;
        Ok(CallsJudgement { peaks, calls, missing_peaks, mixed, left_out, never_blamed })
    }

    fn ask(&self, folder: &Path, which: &[&str]) -> Result<Value> {
        let answer: PathBuf = folder.join(format!("calls{}.json", which.concat()));
        let mut command = Command::new(self.wakepath);
        command
            .arg("path")
            .arg(folder.join("recording"))
            .args(["--call", "handle"])
            .args(which)
            .arg("--json");
        command.stdout(File::create(&answer).with_context(|| format!("cannot make `{}`", answer.display()))?);
        let status = finish(&mut command, &folder.join("path.log"), TIMEOUT)?;
        ensure!(status.success(), "`{}` ended with {status}", command_line(&command));
        read(&answer)
    }
}

/// The condition with this name.
pub fn by_name(name: &str) -> Option<Condition> {
    CONDITIONS.into_iter().find(|condition| condition.name == name)
}
