//! Runs programs under `wakepath record`, asks the tool about the recordings, and has the answers compared with the
//! programs' logs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wakepath_runner::{command_line, ended};

use crate::compare::{Limits, PathVerdict, compare};
use crate::dated_back::{self, Readings};
use crate::document::{PathDocument, Truth};
use crate::kernel_threads;
use crate::noise::{self, Noise};
use crate::workloads::{View, Workload};

/// The longest time for a command, and for a recording's neighbour. No workload runs longer than a minute.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(90);

/// The file with the kernel threads' CPU time in a run.
const KERNEL_THREADS: &str = "kernel-threads.json";

/// The file with the switches and sleeps that the kernel's clocks misdate, in a run where the judge looks for them.
pub(crate) const DATED_BACK: &str = "dated-back.json";

/// A run's programs and settings.
#[derive(Debug)]
pub struct Runner {
    /// The tool under judgement.
    pub wakepath: PathBuf,
    /// The program `wakepath-split`, which splits a host's recording into several hosts' recordings.
    pub split: PathBuf,
    /// The folder with the workloads.
    pub programs: PathBuf,
    /// The neighbour.
    pub noise: Noise,
    /// This machine's slowness: a factor, 1 for a usual machine.
    pub slowness: f64,
}

/// The judgement on a run.
#[derive(Debug)]
pub struct Judgement {
    /// The comparison's result.
    pub verdict: PathVerdict,
    /// The share of the window that was runnable behind a neighbour.
    pub by_noise: f64,
    /// The runnable share of the window.
    pub runnable: f64,
}

impl Runner {
    /// Records a run into `folder`, which then holds `recording`, `truth.json` and `path.json`.
    ///
    /// # Errors
    ///
    /// If a program cannot be started, fails or hangs.
    pub fn run(&self, workload: &Workload, folder: &Path) -> Result<Judgement> {
        let mut command = self.recorder(folder)?;
        if let Some(seconds) = workload.record_for {
            command.arg("-d").arg(seconds.to_string());
        }
        command.arg("--").arg(self.programs.join(workload.program)).args(workload.arguments);
        let which = match workload.view {
            View::Host => "--truth",
            View::TwoHosts => "--truth-hosts",
        };
        // The readings begin before the recorder, so that the recorder stamps each switch later.
        let readings = Some(Readings::begin()).filter(|readings| readings.is_ok() || self.dates_back());
        self.record(command.arg(which), folder, TIMEOUT, workload.record_for.is_some())?;
        if let Some(readings) = readings {
            let truth = Truth::deserialize(&read(&folder.join("truth.json"))?)?;
            let threads = truth.threads.iter().map(|thread| thread.tid).collect();
            let found = dated_back::find(readings, &folder.join("recording"), &threads)?;
            write(&folder.join(DATED_BACK), &found)?;
        }
        self.replay(workload, folder)
    }

    /// Whether the kernel's clocks date back more than a limit allows in any run: beside chatter by the number of switches, on a
    /// slower machine by the time between the clock's reading and each switch. Where the clocks cannot be read, each preemption
    /// in such a run is assumed to be dated back; in other runs, none is.
    fn dates_back(&self) -> bool {
        self.noise == Noise::Chatter || self.slowness > 1.0
    }

    /// `wakepath record` into the folder, which is emptied.
    pub(crate) fn recorder(&self, folder: &Path) -> Result<Command> {
        make_empty(folder)?;
        let mut command = Command::new(&self.wakepath);
        command.arg("record").arg("-o").arg(folder.join("recording"));
        Ok(command)
    }

    /// Runs a recorder whose last argument asks for the truth, beside the neighbour.
    pub(crate) fn record(
        &self,
        command: &mut Command,
        folder: &Path,
        patience: Duration,
        may_fail: bool,
    ) -> Result<()> {
        let truth = folder.join("truth.json");
        command.arg(&truth).stdout(Stdio::null());
        let neighbour = self.noise.start(&self.programs, patience.as_secs())?;
        let before = kernel_threads::snapshot();
        let status = finish(command, &folder.join("record.log"), patience)?;
        let threads = kernel_threads::between(&before, &kernel_threads::snapshot());
        drop(neighbour);
        write(&folder.join(KERNEL_THREADS), &threads)?;
        ensure!(truth.exists(), "`{}` ended with {status} and no truth was written", command_line(command));
        ensure!(status.success() || may_fail, "`{}` ended with {status}", command_line(command));
        Ok(())
    }

    /// Judges the path from a kept recording.
    ///
    /// # Errors
    ///
    /// If the tool fails, or a document has the wrong form.
    pub fn replay(&self, workload: &Workload, folder: &Path) -> Result<Judgement> {
        let mut command = Command::new(&self.wakepath);
        command.arg("path").args(workload.as_timed_out.then_some("--as-timed-out"));
        command.args(self.recordings(workload, folder)?);
        let path = answer(&mut command, &folder.join("path"), TIMEOUT)?;
        let limits = Limits {
            error: workload.limit_on(self.slowness),
            ..Limits::with_error(workload.limit).slower(self.slowness)
        };
        let mut truth = read(&folder.join("truth.json"))?;
        for (file, key) in [(KERNEL_THREADS, "kernel_threads"), (DATED_BACK, "dated_back")] {
            // Kept runs from an earlier judge lack these files.
            if folder.join(file).exists() {
                truth[key] = read(&folder.join(file))?;
            }
        }
        judge(limits, &truth, &path)
    }

    /// A run's recordings, one for each host.
    fn recordings(&self, workload: &Workload, folder: &Path) -> Result<Vec<PathBuf>> {
        let recording = folder.join("recording");
        if workload.view == View::Host {
            return Ok(vec![recording]);
        }
        let apart = folder.join("apart");
        make_empty(&apart)?;
        let truth = Truth::deserialize(&read(&folder.join("truth.json"))?)?;
        let mut command = Command::new(&self.split);
        command.arg(recording).arg(&apart).stdout(Stdio::null());
        for host in &truth.hosts {
            let processes: Vec<String> = host.pids.iter().map(u32::to_string).collect();
            command.arg("--host").arg(format!("{}:{}:{}", host.name, host.netns, processes.join(",")));
        }
        for process in &truth.wire {
            command.arg("--wire").arg(process.to_string());
        }
        succeed(&mut command, &folder.join("split.log"), TIMEOUT)?;
        Ok(truth.hosts.iter().map(|host| apart.join(&host.name)).collect())
    }
}

/// Judges a path by the truth.
///
/// # Errors
///
/// If a document does not have its schema's form.
pub fn judge(limits: Limits, truth: &Value, path: &Value) -> Result<Judgement> {
    let mut verdict = compare(truth, path, limits)?;
    let (runnable, by_noise, violations) =
        noise::blamed(&Truth::deserialize(truth)?, &PathDocument::deserialize(path)?, limits.slowness);
    if verdict.sound_books {
        verdict.violations.extend(violations);
    }
    Ok(Judgement { verdict, by_noise, runnable })
}

/// Reads a document.
///
/// # Errors
///
/// If there is no such file, or it is no JSON.
pub fn read(file: &Path) -> Result<Value> {
    let bytes = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("`{}` is no JSON", file.display()))
}

/// Writes a document.
pub(crate) fn write(file: &Path, value: &impl Serialize) -> Result<()> {
    fs::write(file, serde_json::to_vec(value)?).with_context(|| format!("cannot write `{}`", file.display()))
}

/// Makes an empty folder.
pub(crate) fn make_empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty `{}`", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))
}

/// Runs a tool command with `--json`, and returns its document, which stays in the file `name.json`.
pub(crate) fn answer(command: &mut Command, name: &Path, patience: Duration) -> Result<Value> {
    let file = name.with_extension("json");
    let out = File::create(&file).with_context(|| format!("cannot make `{}`", file.display()))?;
    succeed(command.arg("--json").stdout(out), &name.with_extension("log"), patience)?;
    read(&file)
}

/// Runs a command to its end, and fails if the command fails.
pub(crate) fn succeed(command: &mut Command, log: &Path, patience: Duration) -> Result<()> {
    let status = finish(command, log, patience)?;
    let line = command_line(command);
    ensure!(status.success(), "`{line}` ended with {status}; its messages are in `{}`", log.display());
    Ok(())
}

/// Runs a command to its end, or kills it after `patience`; its stderr goes to the log.
fn finish(command: &mut Command, log: &Path, patience: Duration) -> Result<ExitStatus> {
    let file = File::create(log).with_context(|| format!("cannot make `{}`", log.display()))?;
    let mut child = command
        .stdin(Stdio::null())
        .stderr(file)
        .spawn()
        .with_context(|| format!("cannot start `{}`", command_line(command)))?;
    ended(&mut child, patience)?
        .with_context(|| format!("`{}` did not end within {} s", command_line(command), patience.as_secs()))
}
