//! `wakepath latency`: how long calls, waits and requests take, as distributions.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use wakepath_engine::latency::{Allowed, GRACE, Identity, LatencyError, Options, Request, Signals, latency};
use wakepath_engine::record::{drop_rights, exit_code};
use wakepath_engine::{Measure, compare};
use wakepath_report::{json, text};

use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::record::{OURS, await_end, could_not_collect, time};

/// Count how long calls, waits and requests take, by powers of two, and number the peaks
///
/// A TARGET is a function of a program or library (`libc:malloc`, `./app:handle_*`), a system call
/// (`syscall:read`, or several: `syscall:p*64`), waits for a CPU (`runqueue`), or requests of disks (`disk`,
/// `disk:sda`). All is counted in the kernel, exactly, and nothing else leaves it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LatencyArguments {
    /// What to count
    #[arg(value_name = "TARGET", required_unless_present = "compare")]
    targets: Vec<String>,
    /// Count nothing: say how far what --json wrote at two times is apart, by six measures
    #[arg(
        long,
        num_args = 2,
        value_names = ["A", "B"],
        conflicts_with_all = ["targets", "pids", "everything", "duration", "every", "command"]
    )]
    compare: Option<Vec<PathBuf>>,
    /// Say that two distributions differ by this measure, above --threshold
    #[arg(long, requires_all = ["compare", "threshold"], value_name = "MEASURE", value_enum)]
    measure: Option<MeasureName>,
    /// The score of --measure above which they do
    #[arg(long, requires = "measure", value_name = "SCORE", value_parser = score)]
    threshold: Option<f64>,
    /// Of these processes and those that they start, until they end
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',', conflicts_with = "command")]
    pids: Vec<u32>,
    /// Of the whole machine
    #[arg(short = 'a', long = "all", conflicts_with_all = ["pids", "command"])]
    everything: bool,
    /// Stop counting after this time: 10, 2.5s, 5min; a command is not stopped
    #[arg(short = 'd', long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
    /// Show apart what came in each such time: 1.5s
    #[arg(long, value_name = "TIME", value_parser = time)]
    every: Option<Duration>,
    /// Probe functions also where the kernel has to single-step their instructions: each call then costs
    /// many times as much, 20 µs on some virtual machines
    #[arg(long)]
    slow_probes: bool,
    /// Use return probes also where an exception might pass: one that does ends the program
    #[arg(long)]
    no_exceptions: bool,
    /// Run the command as root, though sudo was called by somebody else
    #[arg(long)]
    as_root: bool,
    /// As JSON, for scripts, on stdout
    #[arg(long)]
    json: bool,
    /// The command to run and to count, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The measures of T08 chapter 9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
enum MeasureName {
    TotOps,
    TotLat,
    ChiSquare,
    EarthMover,
    GroupOps,
    GroupLat,
}

impl MeasureName {
    const fn measure(self) -> Measure {
        match self {
            Self::TotOps => Measure::TotalOperations,
            Self::TotLat => Measure::TotalLatency,
            Self::ChiSquare => Measure::ChiSquare,
            Self::EarthMover => Measure::EarthMover,
            Self::GroupOps => Measure::GroupOperations,
            Self::GroupLat => Measure::GroupLatency,
        }
    }
}

fn score(text: &str) -> Result<f64, String> {
    let score = text.parse::<f64>().ok().filter(|score| *score >= 0.0);
    score.ok_or_else(|| String::from("a number that is not negative"))
}

/// Most of a document that is read.
const MOST_BYTES: u64 = 64 << 20;

const EXAMPLES: &str = "\
Examples:
  sudo wakepath latency syscall:fsync -p 912 -d 10     how long does this server's fsync take?
  sudo wakepath latency libssl:SSL_write -p 912        how long do its calls of a function take?
  sudo wakepath latency runqueue -a -d 5               how long does anybody wait for a CPU?
  sudo wakepath latency disk --every 1s -- ./backup    how do the disks' latencies change meanwhile?

  wakepath latency --compare before.json after.json    and did they change?

A disk's requests are counted whoever made them: which process one is for, no request says.

Ctrl-C ends the counting, and it answers. With a command, its own exit code is passed on; 125 is a
failure of wakepath, 126 a command that cannot be run, 127 one that was not found.";

/// Counts, and shows what was counted; or compares what was.
pub fn run(arguments: &LatencyArguments, output: &Output) -> Result<ExitCode, Failure> {
    if let Some([first, second]) = arguments.compare.as_deref() {
        return compared([first, second], arguments, output);
    }
    let ours = |failure: Failure| if arguments.command.is_empty() { failure } else { failure.or_code(OURS) };
    counted(arguments, output).map_err(ours)
}

fn compared(
    paths: [&PathBuf; 2],
    arguments: &LatencyArguments,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let read = |path: &PathBuf| -> Result<_, Failure> {
        let cannot =
            |why: String| Failure::new(Code::Input, format!("cannot read `{}`: {why}", path.display()));
        let mut document = Vec::new();
        let file = File::open(path).map_err(|error| cannot(error.to_string()))?;
        file.take(MOST_BYTES).read_to_end(&mut document).map_err(|error| cannot(error.to_string()))?;
        json::profiles(&document).map_err(|error| {
            cannot(error.to_string()).hint("wakepath latency TARGET --json -a -d 10 > A makes one")
        })
    };
    let [first, second] = paths.map(read);
    let measure = arguments.measure.map(MeasureName::measure).zip(arguments.threshold);
    let found =
        compare(first?, second?, measure).map_err(|error| Failure::new(Code::Input, error.to_string()))?;
    if arguments.json {
        output.write(|out| json::comparison(&found, out))?;
    } else {
        output.text(&text::comparison(&found, output.paper()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn counted(arguments: &LatencyArguments, output: &Output) -> Result<ExitCode, Failure> {
    if arguments.command.is_empty() && arguments.pids.is_empty() && !arguments.everything {
        return Err(Failure::new(Code::Usage, "of whom?")
            .hint("wakepath latency TARGET -- COMMAND, or -p PID, or -a for the whole machine"));
    }
    let request = Request {
        targets: arguments.targets.clone(),
        options: Options {
            targets: Vec::new(),
            processes: arguments.pids.clone(),
            command: arguments.command.clone(),
            caller: Identity::from_sudo(),
            as_root: arguments.as_root,
            duration: arguments.duration,
            every: arguments.every,
        },
        allowed: Allowed { slow_probes: arguments.slow_probes, no_exceptions: arguments.no_exceptions },
    };
    let beside_command = !arguments.command.is_empty();
    let stop = Signals::watch(beside_command)
        .map_err(|error| Failure::new(Code::Rights, format!("cannot watch for Ctrl-C: {error}")))?;
    if !beside_command && arguments.duration.is_none() {
        output.note("counting; Ctrl-C ends it and answers");
    }
    let found = latency(&request, &stop).map_err(why_not)?;
    drop_rights().map_err(|error| Failure::new(Code::Rights, format!("cannot give up rights: {error}")))?;
    if arguments.json {
        output.write(|out| json::latency(&found, out))?;
    } else {
        // A command's stdout is its own.
        let beside = if beside_command { output.on_stderr() } else { output.clone() };
        beside.text(&text::latency(&found, beside.paper()))?;
    }
    let status = match found.running {
        Some(running) => {
            let name = arguments.command[0].to_string_lossy();
            Some(await_end(running, &name, "counted", (&stop, GRACE), output)?)
        }
        None => found.status,
    };
    Ok(status.map_or(ExitCode::SUCCESS, |status| ExitCode::from(exit_code(status) as u8)))
}

pub fn why_not(error: LatencyError) -> Failure {
    match error {
        LatencyError::Collect(error) => could_not_collect(&error),
        LatencyError::NoTarget(_) => Failure::new(Code::Usage, error.to_string())
            .hint("FILE:FUNCTION, syscall:NAME, runqueue, disk and disk:NAME can: wakepath latency --help"),
        LatencyError::Slow { .. } => {
            Failure::new(Code::Usage, error.to_string()).hint("--slow-probes does it all the same")
        }
        other => Failure::new(Code::Usage, other.to_string()),
    }
}
