//! Requests through several services, each with a planted cause: each answer from `wakepath requests`, compared with the
//! services' log.
//!
//! A part of a request's time is right within two percentage points of the request. The blocking requests are right if each that
//! takes more than two points, in the log or in the answer, is in both, with the same size. An answer naming another request is
//! wrong, and worse if that part has no mark of doubt: an ambiguous segment, or a doubt or loss among the problems.

mod judge;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde::Deserialize;

pub use judge::{BlockersVerdict, Judged, MAX_POINTS, judge};

use crate::joins::{Given, node_with_plugin, python_with_plugin};
use crate::noise::Noise;
use crate::runner::{TIMEOUT, make_empty, succeed};

/// The services' log (`wakepath.requests-truth/1`).
#[derive(Debug, Clone, Deserialize)]
pub struct Truth {
    /// The document's schema.
    pub schema: String,
    /// The services' processes.
    pub pids: Vec<u32>,
    /// The requests.
    pub requests: Vec<LoggedRequest>,
    /// The time by which a part may be longer than planted, ns: an event loop's time-outs are whole milliseconds.
    #[serde(default)]
    pub slack_ns: i64,
}

/// A request's log.
#[derive(Debug, Clone, Deserialize)]
pub struct LoggedRequest {
    /// Its trace id.
    pub trace_id: String,
    /// The planted cause.
    pub planted: String,
    /// Its length, ns.
    pub window_ns: i64,
    /// Its planted parts.
    pub parts: Vec<PlantedPart>,
}

/// A planted part of a request's time.
#[derive(Debug, Clone, Deserialize)]
pub struct PlantedPart {
    /// A kind in the path contract; `blocked` by another request; `possible`: perhaps blocked by another request, which the
    /// program does not know; or `shared`: disk time while another request wrote too, which may be that request's.
    pub kind: String,
    /// The trace id of the blocking request.
    pub by: Option<String>,
    /// Its length, ns.
    pub ns: i64,
}

/// An answer, with the keys that the judge needs.
#[derive(Debug, Clone, Deserialize)]
pub struct Answer {
    /// The request.
    pub request: Asked,
    /// The reason why there is no path.
    #[serde(default)]
    pub no_path: Option<String>,
    /// The path's segments.
    #[serde(default)]
    pub segments: Vec<Segment>,
    /// The segments' pieces, each with its blocking requests.
    #[serde(default)]
    pub pieces: Vec<Piece>,
    /// The remarks on the answer.
    #[serde(default)]
    pub problems: Vec<Problem>,
}

/// The request to which an answer belongs.
#[derive(Debug, Clone, Deserialize)]
pub struct Asked {
    /// Its trace id.
    pub trace_id: String,
    /// The beginning.
    pub from_ns: i64,
    /// The end.
    pub to_ns: i64,
}

/// A segment of the path.
#[derive(Debug, Clone, Deserialize)]
pub struct Segment {
    /// The kind of its time.
    pub kind: String,
    /// Its thread's process.
    pub pid: Option<u32>,
    /// The certainty of its kind and thread.
    pub basis: String,
}

/// A piece of a segment in which its thread worked for a single request.
#[derive(Debug, Clone, Deserialize)]
pub struct Piece {
    /// The segment's index.
    pub segment: usize,
    /// The beginning.
    pub from_ns: i64,
    /// The end.
    pub to_ns: i64,
    /// The chain of requests that blocked this request; the last blocked it by its own time.
    #[serde(default)]
    pub waits_for: Vec<Waited>,
}

/// A request for which another request waits.
#[derive(Debug, Clone, Deserialize)]
pub struct Waited {
    /// Its trace id.
    pub trace_id: String,
}

/// A remark on an answer.
#[derive(Debug, Clone, Deserialize)]
pub struct Problem {
    /// Its severity; `note` marks no doubt.
    pub severity: String,
}

/// The services under judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Services {
    /// Three processes with threads.
    Threads,
    /// An event loop of Python's asyncio, which calls another.
    Asyncio,
    /// An event loop of Node, which calls another. The plug-in leaves promises out, as by default.
    Node,
    /// The same, and the plug-in follows promises too.
    NodeAll,
}

impl Services {
    /// The first service's name.
    const fn name(self) -> &'static str {
        match self {
            Self::Threads => "front",
            _ => "books",
        }
    }

    /// The usual number of requests from each client.
    const fn each(self) -> u32 {
        match self {
            Self::Threads => 180,
            _ => 60,
        }
    }

    /// The command without its arguments. `folder` is for what has to be installed.
    fn command(self, given: &Given, folder: &Path) -> Result<Command> {
        let missing = "packaging/plugins did not fetch its packages";
        let workloads = given.sources().join("lab/workloads");
        Ok(match self {
            Self::Threads => Command::new(given.programs.join("services")),
            Self::Asyncio => {
                let mut command = python_with_plugin(given, folder, false)?.context(missing)?;
                command.arg(workloads.join("loop_books.py"));
                command
            }
            Self::Node | Self::NodeAll => {
                let mut command = node_with_plugin(given)?.context(missing)?;
                command.arg(workloads.join("loop_books.js"));
                if self == Self::NodeAll {
                    command.env("WAKEPATH_READY", "all");
                }
                command
            }
        })
    }
}

/// The options of a run, or of judging a kept run.
#[derive(Debug, Args)]
pub struct Options {
    /// The services.
    #[arg(long, value_enum, default_value = "threads")]
    pub services: Services,
    /// The number of requests from each client [default: 180 from 6 for threads, 60 from 4 for event loops].
    #[arg(long)]
    pub each: Option<u32>,
    /// The neighbours to run beside the services.
    #[arg(long, value_enum, default_value = "none")]
    pub noise: Noise,
    /// The number of these neighbours, each a process.
    #[arg(long, default_value_t = 1)]
    pub neighbours: u32,
    /// The tool under judgement.
    #[arg(long, default_value = "target/release/wakepath")]
    pub wakepath: PathBuf,
    /// The folder with the built workloads.
    #[arg(long, default_value = "lab/workloads/bin")]
    pub programs: PathBuf,
    /// The folder with the packages fetched by `packaging/plugins`.
    #[arg(long, default_value = "target/plugins")]
    pub packages: PathBuf,
    /// Keep the recording, the truth and the answers in this folder.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Judge the run kept in this folder by `--keep`, without running anything.
    #[arg(long, value_name = "DIR", conflicts_with = "keep")]
    pub replay: Option<PathBuf>,
    /// List at most this number of requests whose answers are not right, the worst first.
    #[arg(long, default_value_t = 5)]
    pub worst: usize,
}

impl Options {
    /// The run.
    pub fn run(&self) -> Run {
        Run {
            wakepath: self.wakepath.clone(),
            given: Given { programs: self.programs.clone(), packages: self.packages.clone() },
            services: self.services,
            each: self.each,
            noise: self.noise,
            neighbours: self.neighbours,
        }
    }
}

/// A run's programs and size.
#[derive(Debug)]
pub struct Run {
    /// The tool under judgement.
    pub wakepath: PathBuf,
    /// The folders with the programs and packages.
    pub given: Given,
    /// The services.
    pub services: Services,
    /// The number of requests from each client, if not the usual number.
    pub each: Option<u32>,
    /// The neighbours beside the services.
    pub noise: Noise,
    /// The number of these neighbours.
    pub neighbours: u32,
}

/// The files with the log and the recording, in a run's folder.
const TRUTH: &str = "truth.json";
const RECORDING: &str = "recording";

impl Run {
    /// Records the services into a folder, which is emptied.
    ///
    /// # Errors
    /// If a program cannot be run, fails or hangs.
    pub fn record(&self, folder: &Path) -> Result<()> {
        make_empty(folder)?;
        let services = self.services.command(&self.given, folder)?;
        let mut command = Command::new(&self.wakepath);
        command.args(["record", "--otlp", "0", "--as-root", "-o"]).arg(folder.join(RECORDING)).arg("--");
        command.arg(services.get_program()).args(services.get_args());
        command.envs(services.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let each = self.each.unwrap_or_else(|| self.services.each());
        command.args(["--each", &each.to_string(), "--truth"]).arg(folder.join(TRUTH));
        command.stdout(std::process::Stdio::null());
        let programs = &self.given.programs;
        let neighbours = (0..self.neighbours).map(|_| self.noise.start(programs, TIMEOUT.as_secs()));
        let _running: Vec<_> = neighbours.collect::<Result<_>>()?;
        succeed(&mut command, &folder.join("record.log"), TIMEOUT)
    }

    /// Asks for all requests to the first service in a kept run, and judges the answers.
    ///
    /// # Errors
    /// If the tool fails, or a document has another form.
    pub fn judge(&self, folder: &Path) -> Result<Vec<Judged>> {
        let service = self.services.name();
        let truth = crate::runner::read(&folder.join(TRUTH))?;
        let truth = Truth::deserialize(&truth).context("the truth has another form")?;
        let expected = "wakepath.requests-truth/1";
        ensure!(truth.schema == expected, "the truth has schema `{}`, not `{expected}`", truth.schema);
        let file = folder.join(format!("{service}.json"));
        let out = File::create(&file).with_context(|| format!("cannot make `{}`", file.display()))?;
        let mut command = Command::new(&self.wakepath);
        command.arg("requests").arg(folder.join(RECORDING)).args([
            "--service",
            service,
            "--json",
            "--slowest",
        ]);
        command.arg(truth.requests.len().to_string()).stdout(out);
        succeed(&mut command, &folder.join("requests.log"), 4 * TIMEOUT)?;
        let mut answers = Vec::new();
        for line in BufReader::new(File::open(&file)?).lines() {
            let answer = serde_json::from_str::<Answer>(&line?);
            answers.push(answer.with_context(|| format!("`{}` has another form", file.display()))?);
        }
        Ok(judge(&truth, &answers))
    }
}

/// The table's head.
pub const HEAD: &str = "planted   requests  in 2 points    median      p99     most  blocker right  WRONG  of it unmarked  no answer";

/// The table: a line for each planted cause, and a line for all.
pub fn table(judged: &[Judged]) -> String {
    let mut planted: Vec<&str> = judged.iter().map(|one| one.planted.as_str()).collect();
    planted.sort_unstable();
    planted.dedup();
    let mut lines = String::new();
    for name in planted {
        let of: Vec<&Judged> = judged.iter().filter(|one| one.planted == name).collect();
        lines += &line(name, &of);
    }
    lines + &line("all", &judged.iter().collect::<Vec<_>>())
}

fn line(name: &str, judged: &[&Judged]) -> String {
    let count = |is: fn(&Judged) -> bool| judged.iter().filter(|one| is(one)).count();
    let mut errors: Vec<f64> = judged.iter().filter_map(|one| one.points).collect();
    errors.sort_by(f64::total_cmp);
    let at =
        |part: f64| errors.get(((errors.len() as f64 * part) as usize).min(errors.len().saturating_sub(1)));
    let points = |part| at(part).map_or_else(|| "-".to_owned(), |points| format!("{points:.2}"));
    format!(
        "{name:<9} {:>8} {:>12} {:>9} {:>8} {:>8} {:>14} {:>6} {:>15} {:>10}\n",
        judged.len(),
        count(|one| one.points.is_some_and(|points| points <= MAX_POINTS)),
        points(0.5),
        points(0.99),
        points(1.0),
        count(|one| one.verdict == BlockersVerdict::Right),
        count(|one| matches!(one.verdict, BlockersVerdict::Wrong { .. })),
        count(|one| one.verdict == BlockersVerdict::Wrong { marked: false }),
        count(|one| one.verdict == BlockersVerdict::NoAnswer),
    )
}

/// The worst judgements: wrong answers first, then by error.
pub fn worst(judged: &[Judged], count: usize) -> Vec<&Judged> {
    let is_right = |one: &Judged| {
        one.verdict == BlockersVerdict::Right && one.points.is_some_and(|points| points <= MAX_POINTS)
    };
    let mut worst: Vec<&Judged> = judged.iter().filter(|one| !is_right(one)).collect();
    let rank = |one: &Judged| match one.verdict {
        BlockersVerdict::Wrong { marked: false } => 0,
        BlockersVerdict::Wrong { marked: true } => 1,
        BlockersVerdict::NoAnswer => 2,
        BlockersVerdict::Missed => 3,
        BlockersVerdict::Right => 4,
    };
    worst.sort_by(|a, b| {
        (rank(a), b.points).partial_cmp(&(rank(b), a.points)).unwrap_or(std::cmp::Ordering::Equal)
    });
    worst.truncate(count);
    worst
}

/// A request's differing parts, as text.
pub fn parts(one: &Judged) -> String {
    let differ = one.parts.iter().filter(|(_, books, answer)| (books - answer).abs() > 0.5);
    let parts = differ
        .map(|(name, books, answer)| format!("{name} {books:.1}% by the books, {answer:.1}% by the answer"));
    format!("  {} {} {:?}: {}", one.planted, one.trace_id, one.verdict, parts.collect::<Vec<_>>().join("; "))
}

/// Whether the answers hold what is claimed: blockers right in 99 of 100, errors within [`MAX_POINTS`] in 99 of 100, and
/// none wrong without a mark. False without answers.
pub fn is_right(judged: &[Judged]) -> bool {
    let count = |is: fn(&Judged) -> bool| judged.iter().filter(|one| is(one)).count();
    let is_close = |one: &Judged| one.points.is_some_and(|points| points <= MAX_POINTS);
    count(|one| one.verdict == BlockersVerdict::Right) * 100 >= judged.len() * 99
        && count(|one| one.verdict == BlockersVerdict::Wrong { marked: false }) == 0
        && judged.iter().filter(|one| is_close(one)).count() * 100 >= judged.len() * 99
        && !judged.is_empty()
}
