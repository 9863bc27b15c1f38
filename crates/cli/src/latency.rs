//! `wakepath latency`: how long calls, waits and requests take, as distributions.

#[cfg(feature = "collect")]
pub mod live;
mod recorded;

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use wakepath_engine::latency::GroupBy;
use wakepath_engine::{Measure, compare};
use wakepath_report::{json, text};

use crate::exit_code::Code;
use crate::failure::Failure;
use crate::help;
use crate::output::Output;
use crate::parse::{Named, one_of, percent, time};
use recorded::RecordedArguments;

/// Count how long calls, waits and requests take, by powers of two, and number the peaks
///
/// A TARGET is a function in a program or library (`libc:malloc`, `./app:handle_*`, `app+0x2880` by its address) or in
/// the kernel (`kernel:vfs_read`, where the kernel allows it), a system call (`syscall:read`, or several: `syscall:p*64`), waits
/// for a CPU (`runqueue`) or for locks (`lock:user`, `lock:kernel`, `lock` for both), or disk requests (`disk`,
/// `disk:sda`). The kernel counts each; only the counts leave it.
///
/// In a recording (`-i REC`), a TARGET is a function whose calls were recorded (`record --call`), `runqueue`, locks and
/// disks as before, waits in a system call (`blocked:read`, `blocked:*`), path segments of the chosen threads, by their
/// kind (`segment:timer`, `segment:*`), a service's spans (`span:SERVICE/OPERATION`), or a program's own marks from
/// LTTng-UST: `ust:PROVIDER:NAME` counts the states from NAME_begin to NAME_end (also _start and _stop, _entry and
/// _exit), and for a single mark the times from each to the same thread's next one; `ust:*` counts all.
#[derive(Debug, Args)]
#[command(after_help = help::first(EXAMPLES), after_long_help = EXAMPLES)]
#[cfg_attr(not(feature = "collect"), allow(dead_code, reason = "only counting asks for them"))]
pub struct LatencyArguments {
    /// The targets to count
    #[arg(value_name = "TARGET", required_unless_present = "compare")]
    targets: Vec<String>,
    /// Count nothing: compare two files that --json wrote, by six measures
    #[arg(
        long,
        num_args = 2,
        value_names = ["A", "B"],
        conflicts_with_all = ["targets", "pids", "everything", "duration", "every", "cycles", "by", "command", "recordings"]
    )]
    compare: Option<Vec<PathBuf>>,
    /// Report a difference by this measure, above --threshold
    #[arg(long, requires_all = ["compare", "threshold"], value_name = "MEASURE", value_parser = one_of(&MEASURES), hide_short_help = true)]
    measure: Option<Measure>,
    /// The score of --measure above which two distributions differ
    #[arg(long, requires = "measure", value_name = "SCORE", value_parser = score, hide_short_help = true)]
    threshold: Option<f64>,
    /// Count these processes and the processes they start, until they end
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',', conflicts_with = "command")]
    pids: Vec<u32>,
    /// Count the whole machine
    #[arg(short = 'a', long = "all", conflicts_with_all = ["pids", "command"])]
    everything: bool,
    /// Stop counting after this time: 10, 2.5s, 5min; a command is not stopped
    #[arg(short = 'd', long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
    /// Show the latencies in each time slice of this length: 1.5s
    #[arg(long, value_name = "TIME", value_parser = time)]
    every: Option<Duration>,
    /// Count in cycles of the processor's time-stamp counter instead of nanoseconds
    #[arg(long, conflicts_with = "recordings", hide_short_help = true)]
    cycles: bool,
    /// Group the latencies, groups with most time first; --json has all groups
    #[arg(long, value_name = "WHOM", value_parser = one_of(&GROUPINGS), conflicts_with = "recordings")]
    by: Option<GroupBy>,
    /// Remove single-stepped probes (20 µs a call on some virtual machines) above this share in all CPUs' time
    /// [default: 5%; no limit with --slow-probes]
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with = "recordings", hide_short_help = true)]
    budget: Option<f64>,
    /// Keep single-stepped probes, whatever they take
    #[arg(long, conflicts_with = "recordings", hide_short_help = true)]
    slow_probes: bool,
    /// Use return probes everywhere; may crash the program if an exception passes the probe, or the stack is
    /// switched
    #[arg(long, conflicts_with = "recordings", hide_short_help = true)]
    no_exceptions: bool,
    /// Run the command as root, not as the user who called sudo
    #[arg(long, conflicts_with = "recordings", hide_short_help = true)]
    as_root: bool,
    /// Print JSON on stdout, for scripts
    #[arg(long)]
    json: bool,
    /// Also write a Parquet file, a row for each bucket
    #[arg(long, value_name = "FILE", conflicts_with = "compare", hide_short_help = true)]
    parquet: Option<PathBuf>,
    #[command(flatten)]
    recorded: RecordedArguments,
    /// The command to run and to count, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The ways to group latencies.
const GROUPINGS: [Named<GroupBy>; 3] = [
    ("process", Some("One group for each process"), GroupBy::Process),
    ("thread", Some("One group for each thread"), GroupBy::Thread),
    ("cgroup", Some("One group for each cgroup"), GroupBy::Cgroup),
];

/// The measures of T08 chapter 9.
const MEASURES: [Named<Measure>; 6] = [
    ("totops", None, Measure::TotalOperations),
    ("totlat", None, Measure::TotalLatency),
    ("chisquare", None, Measure::ChiSquare),
    ("earthmover", None, Measure::EarthMover),
    ("groupops", None, Measure::GroupOperations),
    ("grouplat", None, Measure::GroupLatency),
];

fn score(text: &str) -> Result<f64, String> {
    let score = text.parse::<f64>().ok().filter(|score| *score >= 0.0);
    score.ok_or_else(|| String::from("a number that is not negative"))
}

/// The largest document to read, bytes.
const MAX_BYTES: u64 = 64 << 20;

const EXAMPLES: &str = "\
Examples:
  sudo wakepath latency syscall:fsync -p 912 -d 10     how long does this server's fsync take?
  sudo wakepath latency libssl:SSL_write -p 912        how long do its calls of a function take?
  sudo wakepath latency kernel:vfs_fsync_range -a      how long does the kernel's part of it take, for all processes?
  sudo wakepath latency runqueue -a -d 5               how long do threads wait for a CPU?
  sudo wakepath latency runqueue -a -d 5 --by cgroup   and in which cgroups?
  sudo wakepath latency disk --every 1s -- ./backup    how do the disks' latencies change meanwhile?

  wakepath latency -i wakepath.rec runqueue lock -p 912
                                                       how long did this server wait, when it was recorded?
  wakepath latency -i wakepath.rec 'segment:*' --comm postgres
  wakepath latency -i lttng-traces/shop 'ust:shop:*'   how long were the program's own states?

  wakepath latency --compare before.json after.json    and did they change?

A disk's requests are counted for all processes: a request does not say which process it is for.

Ctrl-C ends the counting and shows the answer. With a command, its own exit code is passed on; 125 is a
failure of wakepath, 126 a command that cannot be run, 127 one that was not found.";

/// Counts and shows the latencies, or compares two files with latencies.
pub fn run(arguments: &LatencyArguments, output: &Output) -> Result<ExitCode, Failure> {
    if let Some([first, second]) = arguments.compare.as_deref() {
        return compared([first, second], arguments, output);
    }
    if !arguments.recorded.recordings.is_empty() {
        return recorded::run(arguments, output);
    }
    #[cfg(feature = "collect")]
    let answer = live::run(arguments, output);
    #[cfg(not(feature = "collect"))]
    let answer = Err(Failure::new(Code::Usage, "this wakepath was built without what counts and records")
        .hint("wakepath latency -i REC TARGET counts in a recording"));
    answer
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
        file.take(MAX_BYTES).read_to_end(&mut document).map_err(|error| cannot(error.to_string()))?;
        json::profiles(&document).map_err(|error| {
            cannot(error.to_string()).hint("wakepath latency TARGET --json -a -d 10 > A makes one")
        })
    };
    let [first, second] = paths.map(read);
    let measure = arguments.measure.zip(arguments.threshold);
    let found =
        compare(first?, second?, measure).map_err(|error| Failure::new(Code::Input, error.to_string()))?;
    output.answer(&found, arguments.json, json::comparison, text::comparison)?;
    Ok(ExitCode::SUCCESS)
}
