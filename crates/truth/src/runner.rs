//! Runs a workload under `wakepath record`, asks `wakepath path`, and has the two judged.

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

/// No workload lives longer than a minute; nor may what records it.
const PATIENCE: Duration = Duration::from_secs(90);

/// Nor does noise, s.
const NOISE_LASTS: u64 = 55;

/// How often a run is repeated that judges nothing.
const TRIES: u32 = 4;

/// What is judged, and with what.
#[derive(Debug)]
pub struct Runner {
    /// The tool under judgement.
    pub wakepath: PathBuf,
    /// What tells one host's recording as those of several: `wakepath-split`.
    pub split: PathBuf,
    /// Where the workloads are.
    pub programs: PathBuf,
    /// What is beside them.
    pub noise: Noise,
    /// How many times slower this machine is than those the limits were argued for.
    pub slowness: f64,
}

/// One run, judged.
#[derive(Debug)]
pub struct Judged {
    /// What the comparison found.
    pub verdict: Verdict,
    /// Part of the window that was runnable by the neighbours.
    pub by_noise: f64,
    /// Part of the window that was runnable at all.
    pub runnable: f64,
}

impl Runner {
    /// Records runs until one judges, four at most; the last is judged as it is.
    ///
    /// # Errors
    ///
    /// As for [`Runner::run`].
    pub fn run_until_it_judges(
        &self,
        workload: &Workload,
        folder: &Path,
        mut void: impl FnMut(&Verdict),
    ) -> Result<Judged> {
        for _ in 1..TRIES {
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
    /// When a program cannot be started, fails or hangs.
    pub fn run(&self, workload: &Workload, folder: &Path) -> Result<Judged> {
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
        let neighbour = self.noise.start(&self.programs, NOISE_LASTS)?;
        let status = finish(&mut command, &folder.join("record.log"), PATIENCE)?;
        drop(neighbour);
        ensure!(truth.exists(), "`{}` ended with {status} and no truth was written", said(&command));
        ensure!(
            status.success() || workload.record_for.is_some(),
            "`{}` ended with {status}",
            said(&command)
        );
        self.replay(workload, folder)
    }

    /// Asks again for the path of a recording that was kept.
    ///
    /// # Errors
    ///
    /// When the tool fails, or the documents are none.
    pub fn replay(&self, workload: &Workload, folder: &Path) -> Result<Judged> {
        let answer = folder.join("path.json");
        let mut command = Command::new(&self.wakepath);
        command.arg("path").args(self.recordings(workload, folder)?).arg("--json");
        command.stdout(File::create(&answer).with_context(|| format!("cannot make `{}`", answer.display()))?);
        let status = finish(&mut command, &folder.join("path.log"), PATIENCE)?;
        ensure!(status.success(), "`{}` ended with {status}", said(&command));
        judge(Limits::with_error(workload.limit).slower(self.slowness), &folder.join("truth.json"), &answer)
    }
}

impl Runner {
    /// Where the recordings of a run are, one of each host.
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
        let status = finish(&mut command, &folder.join("split.log"), PATIENCE)?;
        ensure!(status.success(), "`{}` ended with {status}", said(&command));
        Ok(truth.hosts.iter().map(|host| apart.join(&host.name)).collect())
    }
}

/// Judges two documents that are files.
///
/// # Errors
///
/// When a file cannot be read or is not of its schema.
pub fn judge(limits: Limits, truth: &Path, path: &Path) -> Result<Judged> {
    let (truth, path) = (read(truth)?, read(path)?);
    let mut verdict = compare(&truth, &path, limits)?;
    let (runnable, by_noise, violations) =
        noise::blamed(&Truth::deserialize(&truth)?, &PathDocument::deserialize(&path)?, limits.slowness);
    verdict.violations.extend(violations);
    Ok(Judged { verdict, by_noise, runnable })
}

pub(crate) fn read(file: &Path) -> Result<Value> {
    let bytes = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("`{}` is no JSON", file.display()))
}

/// Runs to the end, or kills it; what it says on stderr goes to the log.
pub(crate) fn finish(command: &mut Command, log: &Path, patience: Duration) -> Result<ExitStatus> {
    let file = File::create(log).with_context(|| format!("cannot make `{}`", log.display()))?;
    let mut child = command
        .stdin(Stdio::null())
        .stderr(file)
        .spawn()
        .with_context(|| format!("cannot start `{}`", said(command)))?;
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if began.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            bail!("`{}` did not end within {} s", said(command), patience.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn said(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
