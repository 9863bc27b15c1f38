//! Counting now.

use std::process::ExitCode;

use wakepath_engine::groups::GroupBy;
use wakepath_engine::latency::{
    Allowed, CollectError, GRACE, Identity, LatencyError, Options, Request, Signals, latency,
};
use wakepath_engine::record::{drop_rights, exit_code};
use wakepath_report::{json, parquet, text};

use super::{By, LatencyArguments};
use crate::failure::{Code, Failure};
use crate::file;
use crate::output::Output;
use crate::record::{OURS, await_end, could_not_collect};

impl From<By> for GroupBy {
    fn from(by: By) -> Self {
        match by {
            By::Process => Self::Process,
            By::Thread => Self::Thread,
            By::Cgroup => Self::Cgroup,
        }
    }
}

/// Counts, and shows what was counted.
pub fn run(arguments: &LatencyArguments, output: &Output) -> Result<ExitCode, Failure> {
    let ours = |failure: Failure| if arguments.command.is_empty() { failure } else { failure.or_code(OURS) };
    counted(arguments, output).map_err(ours)
}

fn counted(arguments: &LatencyArguments, output: &Output) -> Result<ExitCode, Failure> {
    if arguments.command.is_empty() && arguments.pids.is_empty() && !arguments.everything {
        return Err(Failure::new(Code::Usage, "of whom?")
            .hint("wakepath latency TARGET -- COMMAND, or -p PID, or -a for the whole machine, or -i REC"));
    }
    if let Some(path) = &arguments.parquet {
        file::may_be_at(path)?;
    }
    let request = Request {
        targets: arguments.targets.clone(),
        options: Options {
            targets: Vec::new(),
            in_cycles: arguments.cycles,
            by: arguments.by.map(GroupBy::from),
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
    // After the answer, which is not lost with the file.
    let written = match &arguments.parquet {
        Some(path) => file::write(path, |file| parquet::latency(&found, file)),
        None => Ok(()),
    };
    let status = match found.running {
        Some(running) => {
            let name = arguments.command[0].to_string_lossy();
            Some(await_end(running, &name, "counted", (&stop, GRACE), output)?)
        }
        None => found.status,
    };
    if found.targets.iter().any(|target| target.probe.is_some()) {
        doubt_probes(status, arguments.no_exceptions, output);
    }
    written?;
    Ok(status.map_or(ExitCode::SUCCESS, |status| ExitCode::from(exit_code(status) as u8)))
}

/// Says of a command that probes may have ended that they may have: a promise was not kept, or its stacks are
/// switched by code that is not known to.
pub fn doubt_probes(status: Option<i32>, no_exceptions: bool, output: &Output) {
    const SIGILL: i32 = 4;
    const SIGABRT: i32 = 6;
    let signal = status.map(|status| exit_code(status) - 128);
    let text = match signal {
        Some(SIGABRT) if no_exceptions => {
            "the command ended itself (SIGABRT): an exception that passes a probed function does that, and with \
             --no-exceptions it was promised that none does"
        }
        Some(SIGILL) => {
            "the command was killed by SIGILL: a thread that goes on on another stack within a function whose return \
             address a probe replaced is (coroutines); probe functions within which none does"
        }
        _ => return,
    };
    output.complain("warning", text);
}

/// Why nothing was counted, and what may help.
pub fn why_not(error: LatencyError) -> Failure {
    match error {
        LatencyError::Collect(CollectError::Cycles { .. }) => Failure::new(Code::Rights, error.to_string())
            .hint("without --cycles, nanoseconds are counted"),
        LatencyError::Collect(error) => could_not_collect(&error),
        LatencyError::NoTarget(_) => Failure::new(Code::Usage, error.to_string())
            .hint("FILE:FUNCTION, syscall:NAME, runqueue, lock, disk and disk:NAME can: wakepath latency --help"),
        LatencyError::KernelFunction { .. } => Failure::new(Code::Rights, error.to_string())
            .hint("count the system call that it serves (syscall:NAME), or what it waits for: lock:kernel, disk, runqueue"),
        LatencyError::Slow { .. } => {
            Failure::new(Code::Usage, error.to_string()).hint("--slow-probes does it all the same")
        }
        other => Failure::new(Code::Usage, other.to_string()),
    }
}
