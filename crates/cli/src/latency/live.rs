//! `wakepath latency` without a recording: counts on this machine.

use std::process::ExitCode;

use wakepath_engine::latency::GroupBy;
use wakepath_engine::latency::live::{AllowedProbes, Identity, LiveQuery, Options, live_latency};
use wakepath_report::{json, parquet, text};

use super::{By, LatencyArguments};
use crate::exit_code::Code;
use crate::failure::Failure;
use crate::output::Output;
use crate::{collecting, file};

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
    let result = counted(arguments, output);
    result.map_err(|failure| if arguments.command.is_empty() { failure } else { failure.beside_command() })
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
            by: arguments.by.map(GroupBy::from),
            processes: arguments.pids.clone(),
            command: arguments.command.clone(),
            caller: Identity::from_sudo(),
            as_root: arguments.as_root,
            duration: arguments.duration,
            every: arguments.every,
        },
        allowed: AllowedProbes { slow_probes: arguments.slow_probes, no_exceptions: arguments.no_exceptions },
    };
    let stop = collecting::watch_signals(!arguments.command.is_empty())?;
    if arguments.command.is_empty() && arguments.duration.is_none() {
        output.note("counting; press Ctrl-C to stop and see the answer");
    }
    let found = live_latency(&query, &stop).map_err(collecting::target_failure)?;
    collecting::drop_privileges()?;
    if arguments.json {
        output.write(|out| json::live_latency(&found, out))?;
    } else {
        let beside = output.beside(&arguments.command);
        beside.text(&text::live_latency(&found, beside.layout()))?;
    }
    // After the answer, which is not lost with the file.
    let written = match &arguments.parquet {
        Some(path) => file::write(path, |file| parquet::live_latency(&found, file)),
        None => Ok(()),
    };
    let ended = (found.running, found.status);
    let status = collecting::await_command(ended, &arguments.command, "counted", &stop, output)?;
    if found.targets.iter().any(|target| target.probe.is_some()) {
        collecting::warn_of_probes(status, arguments.no_exceptions, output);
    }
    written?;
    Ok(collecting::code_of_command(status))
}
