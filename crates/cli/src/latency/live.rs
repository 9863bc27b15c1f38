//! `wakepath latency` without a recording: counts on this machine.

use std::process::ExitCode;

use wakepath_caller::Caller;
use wakepath_live::latency::{AllowedProbes, LiveQuery, Options, live_latency};
use wakepath_report::{json, parquet, text};

use super::LatencyArguments;
use crate::exit_code::Code;
use crate::failure::Failure;
use crate::output::Output;
use crate::{collecting, file};

/// Counts, and shows the counts.
pub fn run(arguments: &LatencyArguments, output: &Output) -> Result<ExitCode, Failure> {
    counted(arguments, output).map_err(|failure| failure.beside(&arguments.command))
}

fn counted(arguments: &LatencyArguments, output: &Output) -> Result<ExitCode, Failure> {
    if arguments.command.is_empty() && arguments.pids.is_empty() && !arguments.everything {
        return Err(Failure::new(Code::Usage, "no processes are chosen").hint(
            "write wakepath latency TARGET -- COMMAND, or -p PID, or -a for the whole machine, or -i REC",
        ));
    }
    if let Some(path) = &arguments.parquet {
        file::check_path(path)?;
    }
    let query = LiveQuery {
        targets: arguments.targets.clone(),
        options: Options {
            targets: Vec::new(),
            in_cycles: arguments.cycles,
            by: arguments.by,
            processes: arguments.pids.clone(),
            command: arguments.command.clone(),
            caller: Caller::from_sudo(),
            as_root: arguments.as_root,
            duration: arguments.duration,
            every: arguments.every,
            budget: collecting::step_budget(arguments.budget, arguments.slow_probes),
        },
        allowed: AllowedProbes {
            slow_probes: arguments.slow_probes,
            no_exceptions: arguments.no_exceptions,
            stubs: false,
        },
    };
    let stop = collecting::watch_signals(!arguments.command.is_empty())?;
    if arguments.command.is_empty() && arguments.duration.is_none() {
        output.note("counting; press Ctrl-C to stop and see the answer");
    }
    let (found, ended) = live_latency(&query, &stop).map_err(collecting::target_failure)?;
    collecting::drop_privileges(arguments.as_root && !arguments.command.is_empty())?;
    if arguments.json {
        output.write(|out| json::live_latency(&found, out))?;
    } else {
        let beside = output.beside(&arguments.command);
        beside.text(&text::live_latency(&found, beside.layout()))?;
    }
    // Written after the answer, so that a failure here does not lose it.
    let written = match &arguments.parquet {
        Some(path) => file::write(path, |file| parquet::live_latency(&found, file)),
        None => Ok(()),
    };
    let status = collecting::await_command(ended, &arguments.command, "counted", &stop, output)?;
    if found.targets.iter().any(|target| target.probe.is_some()) {
        collecting::warn_of_probes(status, arguments.no_exceptions, output);
    }
    written?;
    Ok(collecting::code_of_command(status))
}
