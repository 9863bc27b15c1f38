//! Runs a workload under `wakepath record`, runs `wakepath path`, and has the two documents compared.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::compare::{Limits, Verdict, compare};
use crate::document::{PathDocument, Truth};
use crate::noise::{self, Noise};
use crate::workloads::{View, Workload};

/// The longest time of a command. No workload runs longer than a minute.
const TIMEOUT: Duration = Duration::from_secs(90);

/// The longest time of a neighbour, s.
const NOISE_SECONDS: u64 = 55;

/// The number of runs of a workload until one can be judged.
const MAX_TRIES: u32 = 4;

/// The programs and settings of a run.
#[derive(Debug)]
pub struct Runner {
    /// The tool under judgement.
    pub wakepath: PathBuf,
    /// The program `wakepath-split`, which splits the recording of one host into those of several.
    pub split: PathBuf,
    /// The folder of the workloads.
    pub programs: PathBuf,
    /// The neighbour.
    pub noise: Noise,
    /// The factor by which this machine is slower than a usual one.
    pub slowness: f64,
}

/// The judgement of one run.
#[derive(Debug)]
pub struct Judgement {
    /// The result of the comparison.
    pub verdict: Verdict,
    /// The part of the window that was runnable behind a neighbour.
    pub by_noise: f64,
    /// The part of the window that was runnable.
    pub runnable: f64,
}

impl Runner {
    /// Records runs until one can be judged, at most four. `void` gets each verdict without a judgement.
    ///
    /// # Errors
    ///
    /// The same as [`Runner::run`].
    pub fn run_until_it_judges(
        &self,
        workload: &Workload,
        folder: &Path,
        mut void: impl FnMut(&Verdict),
    ) -> Result<Judgement> {
        for _ in 1..MAX_TRIES {
            let judged = self.run(workload, folder)?;
            if judged.verdict.void.is_empty() {
                return Ok(judged);
            }
            void(&judged.verdict);
        }
        self.run(workload, folder)
    }

    /// Records a run into `folder`, which then holds `recording`, `truth.json` and `path.json`.
    ///
    /// # Errors
    ///
    /// If a program cannot be started, fails or hangs.
    pub fn run(&self, workload: &Workload, folder: &Path) -> Result<Judgement> {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot empty `{}`", folder.display()))?;
        }
        fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
        let truth = folder.join("truth.json");
        let mut command = Command::new(&self.wakepath);
        command.arg("record").arg("-o").arg(folder.join("recording"));
        if let Some(seconds) = workload.record_for {
            command.arg("-d").arg(seconds.to_string());
        }
        command.arg("--").arg(self.programs.join(workload.program)).args(workload.arguments);
        let which = match workload.view {
            View::Host => "--truth",
            View::TwoHosts => "--truth-hosts",
        };
        command.arg(which).arg(&truth).stdout(Stdio::null());
        let neighbour = self.noise.start(&self.programs, NOISE_SECONDS)?;
        let status = finish(&mut command, &folder.join("record.log"), TIMEOUT)?;
        drop(neighbour);
        ensure!(truth.exists(), "`{}` ended with {status} and no truth was written", command_line(&command));
        ensure!(
            status.success() || workload.record_for.is_some(),
            "`{}` ended with {status}",
            command_line(&command)
        );
        self.replay(workload, folder)
    }

    /// Judges the path of a kept recording.
    ///
    /// # Errors
    ///
    /// If the tool fails, or a document has the wrong form.
    pub fn replay(&self, workload: &Workload, folder: &Path) -> Result<Judgement> {
        let answer = folder.join("path.json");
        let mut command = Command::new(&self.wakepath);
        command.arg("path").args(self.recordings(workload, folder)?).arg("--json");
        command.stdout(File::create(&answer).with_context(|| format!("cannot make `{}`", answer.display()))?);
        let status = finish(&mut command, &folder.join("path.log"), TIMEOUT)?;
        ensure!(status.success(), "`{}` ended with {status}", command_line(&command));
        judge(Limits::with_error(workload.limit).slower(self.slowness), &folder.join("truth.json"), &answer)
    }
}

impl Runner {
    /// The recordings of a run, one of each host.
    fn recordings(&self, workload: &Workload, folder: &Path) -> Result<Vec<PathBuf>> {
        let recording = folder.join("recording");
        if workload.view == View::Host {
            return Ok(vec![recording]);
        }
        let apart = folder.join("apart");
        if apart.exists() {
            fs::remove_dir_all(&apart).with_context(|| format!("cannot empty `{}`", apart.display()))?;
        }
        fs::create_dir(&apart).with_context(|| format!("cannot make `{}`", apart.display()))?;
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
        let status = finish(&mut command, &folder.join("split.log"), TIMEOUT)?;
        ensure!(status.success(), "`{}` ended with {status}", command_line(&command));
        Ok(truth.hosts.iter().map(|host| apart.join(&host.name)).collect())
    }
}

/// Judges two documents in files.
///
/// # Errors
///
/// If a file cannot be read or does not have the form of its schema.
pub fn judge(limits: Limits, truth: &Path, path: &Path) -> Result<Judgement> {
    let (truth, path) = (read(truth)?, read(path)?);
    let mut verdict = compare(&truth, &path, limits)?;
    let (runnable, by_noise, violations) =
        noise::blamed(&Truth::deserialize(&truth)?, &PathDocument::deserialize(&path)?, limits.slowness);
    verdict.violations.extend(violations);
    Ok(Judgement { verdict, by_noise, runnable })
}

pub(crate) fn read(file: &Path) -> Result<Value> {
    let bytes = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("`{}` is no JSON", file.display()))
}

/// Runs a command to its end, or kills it after `patience`; its stderr goes to the log.
pub(crate) fn finish(command: &mut Command, log: &Path, patience: Duration) -> Result<ExitStatus> {
    let file = File::create(log).with_context(|| format!("cannot make `{}`", log.display()))?;
    let mut child = command
        .stdin(Stdio::null())
        .stderr(file)
        .spawn()
        .with_context(|| format!("cannot start `{}`", command_line(command)))?;
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if began.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            bail!("`{}` did not end within {} s", command_line(command), patience.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
