//! Peaks of calls, and the calls in them, held against a server that is slow for six reasons.
//!
//! `workloads/causes.c` says of each call what it met and for how long. Under `record --call` each call is a
//! window; `path --call --peak` says what the calls of a peak waited for. Asked of each peak: whether each
//! cause that was planted has its own, whether the first cause is the right one by name, and whether its time
//! is right to within a hundredth of the calls'. Asked of each slow call: whether its first cause is right.
//!
//! Twice: `calls-ahead` has the server before all neighbours by its priority, so that each call meets what was
//! planted, and what neighbours do elsewhere, to the disk or the interrupts, must change nothing. `calls` has it
//! among them: there each neighbour is a cause that nobody planted, mixed into the peaks of the others, and the
//! books have it apart.

pub mod books;
pub mod judge;
mod lines;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::noise::Noise;
use crate::runner::{finish, read, said};
use books::{Books, CallsDocument, Cause};
use judge::{CallsVerdict, PeakVerdict};

/// How the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// As folders and flags call it.
    pub name: &'static str,
    /// Before all neighbours.
    pub ahead: bool,
}

/// Both of them.
pub const CONDITIONS: [Condition; 2] =
    [Condition { name: "calls", ahead: false }, Condition { name: "calls-ahead", ahead: true }];

/// 1000 slow calls of 10 000. The one that keeps a CPU longest takes longest: what neighbours make of its time
/// is mistaken for no other's. How many of each: so that they take some seconds each.
const ARGUMENTS: &str = "--calls 10000 --compute 25 --mutex 25 --timer 20 --limit 15 --fsync 11 --peer 4 \
                         --limit-us 24000 --fsync-us 80000 --peer-us 300000";

/// A run takes some 40 s, and beside neighbours up to four times as long.
const PATIENCE: Duration = Duration::from_secs(240);

/// So many of the slowest calls are explained for the verdict on single calls: all the slow ones are among
/// them, unless neighbours make more than a thousand fast ones as slow.
const SLOWEST: &str = "2000";

/// How often a run is made that judges nothing.
const TRIES: u32 = 3;

/// With what is judged, and beside what.
#[derive(Debug)]
pub struct CallsRunner<'a> {
    /// The tool under judgement.
    pub wakepath: &'a Path,
    /// Where the workloads are.
    pub programs: &'a Path,
    /// What is beside it.
    pub noise: Noise,
}

/// A run, judged.
#[derive(Debug)]
pub struct Judged {
    /// Each peak that was found.
    pub peaks: Vec<PeakVerdict>,
    /// The slow calls.
    pub calls: CallsVerdict,
    /// Planted causes that have no peak and should.
    pub without: Vec<Cause>,
    /// Planted causes that have none of their own: neighbours mixed them with others.
    pub mixed: Vec<Cause>,
    /// Causes that could not be planted, with the reasons.
    pub left_out: Vec<String>,
    /// A thread that never waits was beside it, not behind it, and was never blamed by its name.
    pub never_blamed: bool,
}

impl Judged {
    /// Whether nothing is wrong.
    pub fn is_right(&self) -> bool {
        self.peaks.iter().all(|peak| peak.violations.is_empty())
            && self.calls.is_right()
            && self.without.is_empty()
            && !self.never_blamed
    }

    /// Whether something could not be judged.
    pub fn is_void(&self) -> bool {
        !self.left_out.is_empty()
            || self.calls.is_void()
            || self.peaks.iter().any(|peak| !peak.void.is_empty())
    }

    /// As lines for people.
    pub fn lines(&self) -> String {
        lines::lines(self)
    }
}

impl CallsRunner<'_> {
    /// Makes runs until one judges, three at most; the last is judged as it is.
    ///
    /// # Errors
    ///
    /// As for [`CallsRunner::run`].
    pub fn run_until_it_judges(
        &self,
        condition: Condition,
        folder: &Path,
        mut void: impl FnMut(&Judged),
    ) -> Result<Judged> {
        for _ in 1..TRIES {
            let judged = self.run(condition, folder)?;
            if !judged.is_void() {
                return Ok(judged);
            }
            void(&judged);
        }
        self.run(condition, folder)
    }

    /// Records a run into `folder`, which then holds `recording` and `truth.json`, and what was told of it.
    ///
    /// # Errors
    ///
    /// When a program cannot be started, fails or hangs.
    pub fn run(&self, condition: Condition, folder: &Path) -> Result<Judged> {
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
        let neighbour = self.noise.start(self.programs, PATIENCE.as_secs())?;
        let status = finish(&mut command, &folder.join("record.log"), PATIENCE)?;
        drop(neighbour);
        ensure!(status.success(), "`{}` ended with {status}", said(&command));
        ensure!(truth.exists(), "`{}` wrote no truth", said(&command));
        self.replay(condition, folder)
    }

    /// Asks again about a recording that was kept.
    ///
    /// # Errors
    ///
    /// When the tool fails, or a document is none.
    pub fn replay(&self, condition: Condition, folder: &Path) -> Result<Judged> {
        let books = Books::read(&read(&folder.join("truth.json"))?)?;
        let (slowest, origin) = CallsDocument::read(self.ask(folder, &["--slowest", SLOWEST])?)?;
        let calls = judge::calls(&books, &slowest, origin);
        let peaks = (1..=slowest.peaks.len()).map(|number| {
            let (document, origin) =
                CallsDocument::read(self.ask(folder, &["--peak", &number.to_string()])?)?;
            Ok(judge::peak(&books, &document, origin, number, condition.ahead))
        });
        let peaks = peaks.collect::<Result<Vec<PeakVerdict>>>()?;
        let has_peak = |cause: Cause| peaks.iter().any(|peak| peak.whose == cause);
        let apart = judge::apart(&books);
        let missing = |cause: &Cause| !has_peak(*cause) && !books.left_out.contains_key(cause.name());
        let (without, mixed) =
            Cause::PLANTED.into_iter().filter(missing).partition(|cause| apart.contains(cause));
        let left_out = books.left_out.iter().map(|(cause, why)| format!("{cause}: {why}")).collect();
        let blamed = peaks.iter().any(|peak| peak.by_noise > 0.0);
        let never_blamed = self.noise == Noise::Spin && !condition.ahead && !blamed;
        Ok(Judged { peaks, calls, without, mixed, left_out, never_blamed })
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
        let status = finish(&mut command, &folder.join("path.log"), PATIENCE)?;
        ensure!(status.success(), "`{}` ended with {status}", said(&command));
        read(&answer)
    }
}

/// The condition of that name.
pub fn by_name(name: &str) -> Option<Condition> {
    CONDITIONS.into_iter().find(|condition| condition.name == name)
}
