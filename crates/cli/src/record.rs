//! `wakepath record`: records this machine, and tells at once where the time went.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use wakepath_engine::PathQuery;
use wakepath_engine::record::{
    Allowed, CollectError, GRACE, Identity, Made, Options, RecordError, Request, Running, Signals, Stacks,
    WriteError, drop_rights, exit_code, record,
};

use wakepath_report::text;

use crate::failure::{Code, Failure};
use crate::input::{DEFAULT, Input};
use crate::latency::{live, time};
use crate::output::Output;
use crate::path;

/// Record this machine, and tell where the time went
///
/// The whole machine is recorded whatever is asked, since who is waited for may be anyone: a command,
/// processes or a cgroup choose the question. Recordings are private to who made them. Under sudo, the
/// command runs as the user who called sudo.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RecordArguments {
    /// Ask about these processes, until they end
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',', conflicts_with_all = ["cgroup", "command"])]
    pids: Vec<u32>,
    /// Ask about the threads of this cgroup, systemd unit or container
    #[arg(long, value_name = "CGROUP", conflicts_with_all = ["command", "everything"])]
    cgroup: Option<String>,
    /// Ask about the whole machine
    #[arg(short = 'a', long = "all", conflicts_with_all = ["pids", "command"])]
    everything: bool,
    /// Stop recording after this time: 10, 2.5s, 5min; a command is not stopped
    #[arg(short = 'd', long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
    /// Write the recording here; one that is there becomes REC.old
    #[arg(short = 'o', long = "output", value_name = "REC", default_value = DEFAULT)]
    output: PathBuf,
    /// Stop recording when it has this size: 512M, 2G
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = size)]
    max_size: u64,
    /// Memory a CPU for what is yet to be written: 16K to 1G; more loses less under bursts
    #[arg(long, value_name = "SIZE", default_value = "8M", value_parser = buffer)]
    buffer: usize,
    /// Stacks of running threads, so many a second; 0 for none
    #[arg(long, value_name = "RATE", default_value_t = 99)]
    samples: u32,
    /// Stacks also where a thread begins to wait and where it wakes another, so that the answer names
    /// the functions; not together with --path-only. A thread that waits as it did before is taken to be
    /// where it was then, and now and then checked; `each` takes every stack anew, at many times the cost
    #[arg(
        long,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "remembered",
        conflicts_with = "path_only"
    )]
    stacks: Option<HowStacks>,
    /// Record each call of this function as a window of its own: libc:malloc, ./app:handle_*, kernel:vfs_read;
    /// `wakepath path --call` then tells what the slow ones waited for
    #[arg(long = "call", value_name = "TARGET")]
    calls: Vec<String>,
    /// With --call, probe functions also where the kernel has to single-step their instructions, at some
    /// 20 µs a call
    #[arg(long, requires = "calls")]
    slow_probes: bool,
    /// With --call, use return probes also where an exception might pass, or the stack be switched: one
    /// that does ends the program
    #[arg(long, requires = "calls")]
    no_exceptions: bool,
    /// Only what a path needs: no system calls, lock words or stacks, at the least cost
    #[arg(long)]
    path_only: bool,
    /// Run the command as root, though sudo was called by somebody else
    #[arg(long)]
    as_root: bool,
    /// Tell the answer as JSON, on stdout
    #[arg(long)]
    json: bool,
    /// The command to run and to ask about, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How stacks are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HowStacks {
    Remembered,
    Each,
}

const EXAMPLES: &str = "\
Examples:
  sudo wakepath record -- make -j4       why does the build take so long?
  sudo wakepath record -p 912 -d 10      what does this server do for ten seconds?
  sudo wakepath record -a                everything, until Ctrl-C
  sudo wakepath record --call ./it:handle -p 912 -d 10
                                         and then: wakepath path --call handle --peak 2
  sudo wakepath record --stacks -- ./it  which functions wait?

With a command, its own exit code is passed on; 125 is a failure of wakepath, 126 a command that
cannot be run, 127 one that was not found. Where recording ends before the command does (-d, --max-size,
a full disk), the answer comes at once, the command goes on, and its exit code is waited for.

Ctrl-C, and signals INT, TERM and HUP, end the recording, and it answers. The command gets them as it
would without wakepath, and is recorded for up to 2 more seconds while it ends.";

/// A disk with less free than this is left alone, percent.
const MIN_FREE: u8 = 10;
/// How a command that could not be run is told, as shells do; and failures of our own beside a command.
pub const OURS: u8 = 125;
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Records, and answers.
pub fn run(arguments: &RecordArguments, output: &Output) -> Result<ExitCode, Failure> {
    let result = recorded(arguments, output);
    // Beside a command every failure of ours has one code, which the command's own are told from.
    let ours = |failure: Failure| if arguments.command.is_empty() { failure } else { failure.or_code(OURS) };
    result.map_err(ours)
}

fn recorded(arguments: &RecordArguments, output: &Output) -> Result<ExitCode, Failure> {
    if arguments.command.is_empty()
        && arguments.pids.is_empty()
        && arguments.cgroup.is_none()
        && !arguments.everything
    {
        return Err(Failure::new(Code::Usage, "nothing to ask about")
            .hint("wakepath record -- COMMAND, or -p PID, --cgroup CGROUP, or -a for the whole machine"));
    }
    let caller = Identity::from_sudo();
    let mut options = Options {
        calls: !arguments.path_only,
        samples_per_second: if arguments.path_only { 0 } else { arguments.samples },
        stacks: match arguments.stacks {
            None => Stacks::None,
            Some(HowStacks::Remembered) => Stacks::Remembered,
            Some(HowStacks::Each) => Stacks::Each,
        },
        duration: arguments.duration,
        command: arguments.command.clone(),
        targets: arguments.pids.clone(),
        caller,
        as_root: arguments.as_root,
        ..Options::default()
    };
    let given = options.set_buffer(arguments.buffer);
    if given != arguments.buffer {
        let text =
            format!("buffers of {} KiB a CPU: sizes are powers of two, so it was rounded up", given >> 10);
        output.complain("note", &text);
    }
    let request = Request {
        destination: arguments.output.clone(),
        options,
        most_bytes: arguments.max_size,
        least_free_percent: MIN_FREE,
        cgroup: arguments.cgroup.clone(),
        asked: std::env::args_os().skip(1).collect(),
        version: env!("CARGO_PKG_VERSION"),
        calls: arguments.calls.clone(),
        allowed: Allowed { slow_probes: arguments.slow_probes, no_exceptions: arguments.no_exceptions },
    };
    let beside_command = !arguments.command.is_empty();
    let stop = Signals::watch(beside_command)
        .map_err(|error| Failure::new(Code::Rights, format!("cannot watch for Ctrl-C: {error}")))?;
    if !beside_command {
        output.note("recording; Ctrl-C ends it and answers");
    }
    let Made { outcome, elsewhere, of_goroutines } = record(&request, &stop).map_err(why_not)?;
    // The answer is computed without any rights.
    drop_rights().map_err(|error| Failure::new(Code::Rights, format!("cannot give up rights: {error}")))?;
    for missing in &outcome.missing {
        output.complain("warning", &format!("this kernel has no {}: {}", missing.what, missing.consequence));
    }
    for others in &elsewhere {
        output.complain("note", &text::elsewhere(others));
    }
    if !of_goroutines.is_empty() {
        let text = format!(
            "calls of {} are goroutines', and a path is a thread's: it also tells of other goroutines that the thread ran \
             meanwhile, and calls that ended in another thread have none",
            of_goroutines.join(", ")
        );
        output.complain("note", &text);
    }
    if outcome.calls_overflowed > 0 {
        let text = format!(
            "{} calls were not recorded: too many at once, or too deep in themselves",
            outcome.calls_overflowed
        );
        output.complain("warning", &text);
    }
    if outcome.calls_unseen > 0 {
        let text = format!(
            "{} calls were not recorded: it was not seen where they began, or ended",
            outcome.calls_unseen
        );
        output.complain("warning", &text);
    }
    if let Some(error) = &outcome.out_of_room {
        output.complain("warning", &format!("recording ended early: {error}"));
    }
    let told = tell(arguments, output);
    let status = match outcome.running {
        Some(running) => {
            let name = arguments.command[0].to_string_lossy();
            Some(await_end(running, &name, "recorded", (&stop, GRACE), output)?)
        }
        None => outcome.status,
    };
    told?;
    if !arguments.calls.is_empty() {
        live::doubt_probes(status, arguments.no_exceptions, output);
    }
    // The command's own code; else whether we did what was asked.
    Ok(status.map_or(ExitCode::SUCCESS, |status| ExitCode::from(exit_code(status) as u8)))
}

/// Waits for a command that outlived its recording or counting: nobody asked for its end, and whoever
/// called us wants its code.
pub fn await_end(
    running: Running,
    command: &str,
    done: &str,
    (stop, grace): (&Signals, Duration),
    output: &Output,
) -> Result<i32, Failure> {
    let name = format!("{command} ({})", running.pid);
    output.complain("note", &format!("{name} goes on, and is no longer {done}; waiting for its exit code"));
    running.wait(stop, grace).ok_or_else(|| {
        Failure::new(Code::Usage, format!("{name} does not end: it was left alone"))
            .hint(format!("kill -KILL {} ends it", running.pid))
    })
}

/// The answer to what was recorded.
fn tell(arguments: &RecordArguments, output: &Output) -> Result<(), Failure> {
    let input = Input { recordings: vec![arguments.output.clone()] };
    let recorded = input.read()?;
    let query = PathQuery::default();
    // A command's stdout is its own.
    let beside = if arguments.command.is_empty() { output.clone() } else { output.on_stderr() };
    let view = if arguments.json { path::View::Json } else { path::View::Screen };
    let output = if arguments.json { output } else { &beside };
    path::answer(&recorded, &query, view, text::Source::Made(&input.argument()), output)?;
    Ok(())
}

fn why_not(error: RecordError) -> Failure {
    match error {
        RecordError::Collect(error) => could_not_collect(&error),
        RecordError::Function(error) => live::why_not(error),
        RecordError::NoCgroup(_) => Failure::new(Code::Usage, error.to_string())
            .hint("systemd-cgls lists them; one that is yet to begin is in a recording of all, -a"),
    }
}

/// Why the collector did not run, and what may help.
pub fn could_not_collect(error: &CollectError) -> Failure {
    let text = error.to_string();
    let needs_rights = |source: &std::io::Error| source.kind() == ErrorKind::PermissionDenied;
    match error {
        CollectError::CommandNotFound { .. } => Failure::new(Code::Usage, text).or_code(NOT_FOUND),
        CollectError::NoProcess { .. } => {
            Failure::new(Code::Usage, text).hint("ps lists the processes that live")
        }
        CollectError::Exec { .. } => Failure::new(Code::Usage, text).or_code(CANNOT_RUN),
        CollectError::Load { source }
        | CollectError::Attach { source, .. }
        | CollectError::MapRings { source }
        | CollectError::Snapshot { source }
        | CollectError::Probe { source, .. }
        | CollectError::KernelProbe { source, .. }
        | CollectError::Counts { source }
            if needs_rights(source) =>
        {
            Failure::new(Code::Rights, text)
                .hint("run with sudo, or grant CAP_BPF and CAP_PERFMON; wakepath doctor says what is missing")
        }
        CollectError::Write(error) => {
            let failure = Failure::new(Code::Input, text);
            let place = matches!(
                error,
                WriteError::InTheWay(_)
                    | WriteError::Rotate(_)
                    | WriteError::Io { .. }
                    | WriteError::DiskFull(_)
                    | WriteError::DiskReserve { .. }
            );
            if place { failure.hint("choose another place with -o") } else { failure }
        }
        _ => Failure::new(Code::Rights, text)
            .hint("wakepath doctor says what this kernel and these rights allow"),
    }
}

fn size(text: &str) -> Result<u64, String> {
    let wrong = || String::from("write bytes, or 512K, 100M, 2G");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "m" | "MiB" => 20,
        "G" | "g" | "GiB" => 30,
        "T" | "t" | "TiB" => 40,
        _ => return Err(wrong()),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift)).filter(|&n| n > 0);
    bytes.ok_or_else(wrong)
}

fn buffer(text: &str) -> Result<usize, String> {
    let bytes = usize::try_from(size(text)?).unwrap_or(usize::MAX);
    if Options::BUFFER.contains(&bytes) { Ok(bytes) } else { Err(String::from("from 16K to 1G")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, expected) in [
            ("2G", Some(2 << 30)),
            ("512K", Some(512 << 10)),
            ("7", Some(7)),
            ("0", None),
            ("G", None),
            ("2X", None),
            ("-1", None),
            ("99999999T", None),
        ] {
            assert_eq!(size(text).ok(), expected, "{text}");
        }
    }
}
