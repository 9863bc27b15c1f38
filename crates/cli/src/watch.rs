//! `wakepath watch`: counts the targets' latencies and reports changes.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use wakepath_caller::Caller;
use wakepath_engine::watch::{Alarm, Change, Notice, WatchEvent, WatchNews, as_latency};
use wakepath_live::latency::{AllowedProbes, LiveQuery, Options};
use wakepath_live::watch::{Kept, KeptChanges, WatchQuery, watch};
use wakepath_report::text::KeptFiles;
use wakepath_report::{json, text};

use crate::collecting;
use crate::exit_code::Code;
use crate::failure::Failure;
use crate::file::hint_under_sudo;
use crate::help;
use crate::output::Output;
use crate::parse::{percent, time};

/// Watch how long calls, waits and requests take, and report when that changes
///
/// The latencies of each TARGET (as in `wakepath latency`) are counted in slices of time. The first 10,000 calls are the
/// reference. When at least 1000 calls differ from it by more than the threshold of `latency --compare`, and the next 1000 too,
/// the change is printed at once, both distributions are kept as files, and the next command is named. It also prints when
/// calls stop, and when they come back. Memory does not grow with time.
#[derive(Debug, Args)]
#[command(after_help = help::first(EXAMPLES), after_long_help = EXAMPLES)]
pub struct WatchArguments {
    /// The targets to watch
    #[arg(value_name = "TARGET", required = true)]
    targets: Vec<String>,
    /// Watch these processes and the processes they start, until they end
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',', conflicts_with = "command")]
    pids: Vec<u32>,
    /// Watch the whole machine
    #[arg(short = 'a', long = "all", conflicts_with_all = ["pids", "command"])]
    everything: bool,
    /// Stop after this time: 90, 5min, 8h; a command is not stopped
    #[arg(short = 'd', long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
    /// The length of a slice, which bounds how exactly a change's time is known
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    every: Duration,
    /// Keep the distributions before and after each change in this directory, for the newest 100 changes
    #[arg(short, long, value_name = "DIR", default_value = DEFAULT_DIRECTORY)]
    output: PathBuf,
    /// After a function changed in one process (-p PID), drill down into its new peak, as `wakepath drill` does
    ///
    /// A drill-down's probes make calls slower: it takes at most --drill-time, and no other begins within 20 times this
    /// time, so the process has probes for at most 5% of the time. Slices with a drill-down are left out.
    #[arg(long, requires = "pids")]
    drill: bool,
    /// With --drill: stop a drill-down after this time
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "20s", requires = "drill", hide_short_help = true)]
    drill_time: Duration,
    /// Remove single-stepped probes (20 µs a call on some virtual machines) above this share in all CPUs' time
    /// [default: 5%; no limit with --slow-probes]
    #[arg(long, value_name = "PERCENT", value_parser = percent, hide_short_help = true)]
    budget: Option<f64>,
    /// Keep single-stepped probes, whatever they take
    #[arg(long, hide_short_help = true)]
    slow_probes: bool,
    /// Use return probes everywhere; may crash the program if an exception passes the probe, or the stack is
    /// switched
    #[arg(long, hide_short_help = true)]
    no_exceptions: bool,
    /// Run the command as root, not as the user who called sudo
    #[arg(long, hide_short_help = true)]
    as_root: bool,
    /// Print JSON on stdout: a line with a document for each change and for the end
    #[arg(long)]
    json: bool,
    /// The command to run and to watch, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The directory for distributions, unless another is given.
const DEFAULT_DIRECTORY: &str = "./wakepath.watch";

const EXAMPLES: &str = "\
Examples:
  sudo wakepath watch ./server:handle_request -p 4242
                                     does this function of a server become slower, and when?
  sudo wakepath watch ./server:handle_request -p 4242 --drill
                                     and which functions below it are slow then?
  sudo wakepath watch disk runqueue syscall:fsync -a -d 8h -o tonight
                                     do disks, the waits for a CPU or fsync change overnight?
  sudo wakepath watch libpq:PQexec --every 1s -- ./load-test
                                     the same while a command runs, to a second

Ctrl-C ends it and shows a summary. With a command, its own exit code is passed on; 125 is a failure of
wakepath, 126 a command that cannot be run, 127 one that was not found.";

/// Watches, prints changes, and a summary at the end.
pub fn run(arguments: &WatchArguments, output: &Output) -> Result<ExitCode, Failure> {
    watched(arguments, output).map_err(|failure| failure.beside(&arguments.command))
}

fn watched(arguments: &WatchArguments, output: &Output) -> Result<ExitCode, Failure> {
    if arguments.command.is_empty() && arguments.pids.is_empty() && !arguments.everything {
        return Err(Failure::new(Code::Usage, "no processes are chosen").hint(
            "write wakepath watch TARGET -p PID, or -a for the whole machine, or wakepath watch TARGET -- COMMAND",
        ));
    }
    if arguments.drill && arguments.pids.len() > 1 {
        return Err(Failure::new(Code::Usage, "--drill drills into the functions of one process")
            .hint("choose one with -p PID, or watch the others by a command of their own"));
    }
    let query = WatchQuery {
        live: LiveQuery {
            targets: arguments.targets.clone(),
            options: Options {
                processes: arguments.pids.clone(),
                command: arguments.command.clone(),
                caller: Caller::from_sudo(),
                as_root: arguments.as_root,
                duration: arguments.duration,
                budget: collecting::step_budget(arguments.budget, arguments.slow_probes),
                ..Options::default()
            },
            allowed: AllowedProbes {
                slow_probes: arguments.slow_probes,
                no_exceptions: arguments.no_exceptions,
                stubs: false,
            },
        },
        every: arguments.every,
        drill_for: arguments.drill.then_some(arguments.drill_time),
    };
    let stop = collecting::watch_signals(!arguments.command.is_empty())?;
    if arguments.command.is_empty() && arguments.duration.is_none() {
        output.note("watching; press Ctrl-C to stop and see the summary");
    }
    // Standard output belongs to the command; only requested documents go there.
    let beside = output.beside(&arguments.command);
    let mut written = Ok(());
    let found = watch(&query, &stop, &mut |news| {
        let files = keep(news, &arguments.output, output);
        let said = say(news, files.as_ref(), arguments.json, if arguments.json { output } else { &beside });
        written = std::mem::replace(&mut written, Ok(())).and(said);
    });
    let (found, ended) = found.map_err(collecting::target_failure)?;
    collecting::drop_privileges(arguments.as_root && !arguments.command.is_empty())?;
    if arguments.json {
        output.write(|out| json::watched(&found, out))?;
    } else {
        beside.text(&format!("\n{}", text::watched(&found, beside.layout())))?;
    }
    let status = collecting::await_command(ended, &arguments.command, "watched", &stop, output)?;
    if found.targets.iter().any(|target| target.distribution.probe.is_some()) {
        collecting::warn_of_probes(status, arguments.no_exceptions, output);
    }
    written?;
    Ok(collecting::code_of_command(status))
}

/// Keeps a change's distributions; a failure is only a warning, since the change itself is the answer.
fn keep(news: &WatchNews<'_>, directory: &Path, output: &Output) -> Option<Kept> {
    let WatchEvent::Notice(Notice::Changed(change)) = news.what else { return None };
    if change.alarm == Alarm::Quiet {
        return None;
    }
    keep_change(news, change, directory).map_err(|text| output.complain("warning", &text)).ok()
}

/// Keeps the distributions of a change in a directory; where it cannot, a sentence says why.
fn keep_change(news: &WatchNews<'_>, change: &Change, directory: &Path) -> Result<Kept, String> {
    let name = text::kept_name(news, change.since);
    let kept = KeptChanges::new(directory)
        .keep(name, change, |stretch, out| json::live_latency(&as_latency(news, stretch), out));
    kept.map_err(|error| {
        let hint = hint_under_sudo(&error).map_or_else(String::new, |hint| format!("; {hint}"));
        format!("cannot keep the distributions in `{}`: {error}{hint}", directory.display())
    })
}

fn say(news: &WatchNews<'_>, kept: Option<&Kept>, as_json: bool, output: &Output) -> io::Result<()> {
    let files = kept.map(|kept| KeptFiles { before: &kept.before, after: &kept.after });
    if as_json {
        output.write(|out| json::watch_news(news, files, out))
    } else {
        output.text(&text::watch_news(news, files, output.layout()))
    }
}

#[cfg(test)]
mod tests {
    use wakepath_engine::Host;
    use wakepath_engine::latency::LatencySource;
    use wakepath_engine::watch::{Histogram, Stretch, Unit, WatchedTarget};

    use super::*;

    #[test]
    fn a_directory_that_cannot_be_is_an_error_with_its_name() {
        let place = tempfile::tempdir().expect("a folder");
        let stretch = Stretch::new(Duration::ZERO, Duration::from_secs(1), Histogram::new(Unit::Nanoseconds));
        let (before, since) = (stretch.clone(), Duration::from_secs(20));
        let change =
            Change { since, before, after: stretch, score: 1100.0, as_it_was: None, alarm: Alarm::Rings };
        let notice = Notice::Changed(Box::new(change.clone()));
        let news = WatchNews {
            host: &Host::default(),
            target: &WatchedTarget {
                name: String::from("disk"),
                source: LatencySource::DiskRequests,
                process: None,
            },
            origin_realtime_ns: Some(1_000_000_000_000_000_000),
            at: since,
            what: WatchEvent::Notice(&notice),
        };
        let file = place.path().join("file");
        std::fs::write(&file, "").expect("room");
        for path in [file.clone(), file.join("below"), place.path().join("none/below")] {
            let error = keep_change(&news, &change, &path).expect_err("no directory");
            assert!(error.contains(&*path.to_string_lossy()), "{error}");
        }
    }
}
