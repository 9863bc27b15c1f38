//! Recording and counting: signals, the command beside them, and the failures shared by `record`, `latency`, `drill`
//! and `watch`.

use std::io::ErrorKind;
use std::process::ExitCode;

use wakepath_caller::Caller;
use wakepath_engine::latency::TargetError;
use wakepath_live::command::CommandEnd;
use wakepath_live::drill::BUDGET;
use wakepath_live::latency::{AbsenceReason, FindError, Interpreter, LiveLatencyError};
use wakepath_live::record::{CollectError, GRACE, Signals, WriteError, drop_rights, exit_code};

use crate::exit_code::Code;
use crate::failure::Failure;
use crate::file;
use crate::output::Output;

/// Catches the signals that ask for a stop.
pub fn watch_signals(beside_command: bool) -> Result<Signals, Failure> {
    Signals::watch(beside_command)
        .map_err(|error| Failure::new(Code::Rights, format!("cannot watch for Ctrl-C: {error}")))
}

/// Drops all privileges: answers are computed and written with the rights of the calling user.
pub fn drop_privileges(command_is_roots: bool) -> Result<(), Failure> {
    drop_rights(Caller::from_sudo().as_ref(), command_is_roots)
        .map_err(|error| Failure::new(Code::Rights, format!("cannot drop privileges: {error}")))
}

/// The command's wait status; `None` without a command. A command that still runs after its recording or counting
/// (`done`) is awaited: wakepath was not asked to end it, and the caller needs its exit code.
pub fn await_command(
    CommandEnd { running, status }: CommandEnd,
    command: &[std::ffi::OsString],
    done: &str,
    stop: &Signals,
    output: &Output,
) -> Result<Option<i32>, Failure> {
    let Some(running) = running else { return Ok(status) };
    let name = format!("{} ({})", command[0].to_string_lossy(), running.pid);
    output.complain("note", &format!("{name} still runs and is no longer {done}; waiting for its exit code"));
    running.wait(stop, GRACE).map(Some).ok_or_else(|| {
        Failure::new(Code::Usage, format!("{name} did not end and still runs"))
            .hint(format!("kill -KILL {} ends it", running.pid))
    })
}

/// The budget for single-stepped probes, as the user wrote it; `None`: no limit.
pub fn step_budget(asked: Option<f64>, slow_probes: bool) -> Option<f64> {
    asked.or((!slow_probes).then_some(BUDGET))
}

/// The command's own exit code; success without a command.
pub fn code_of_command(status: Option<i32>) -> ExitCode {
    status.map_or(ExitCode::SUCCESS, |status| ExitCode::from(exit_code(status) as u8))
}

/// Warns if the command ended as programs under probes do: an exception passed a probed function, or the command
/// switches stacks in an unrecognised way.
pub fn warn_of_probes(status: Option<i32>, no_exceptions: bool, output: &Output) {
    const SIGILL: i32 = 4;
    const SIGABRT: i32 = 6;
    let text = match status.map(|status| exit_code(status) - 128) {
        Some(SIGABRT) if no_exceptions => {
            "the command ended itself (SIGABRT), as it does when an exception passes a probed function; probe it \
             without --no-exceptions"
        }
        Some(SIGILL) => {
            "the command was killed by SIGILL, as it is when a thread continues on another stack (coroutines) \
             within a function whose return address a probe replaced; probe functions that switch no stacks"
        }
        _ => return,
    };
    output.complain("warning", text);
}

/// The failure of a recording or count, with a hint.
pub fn collect_failure(error: &CollectError) -> Failure {
    let text = error.to_string();
    match error {
        CollectError::CommandNotFound { .. } => Failure::new(Code::NotFound, text),
        CollectError::Exec { .. } => Failure::new(Code::CannotRun, text),
        CollectError::NoProcess { .. } => {
            Failure::new(Code::Usage, text).hint("ps lists the running processes")
        }
        CollectError::Cycles { .. } => {
            Failure::new(Code::Rights, text).hint("without --cycles, nanoseconds are counted")
        }
        _ if error.is_refusal_of_a_program() => {
            Failure::new(Code::Rights, text).hint(
                "this kernel refuses one of the programs, whatever the rights; wakepath doctor shows what it allows",
            )
        }
        CollectError::Load { source }
        | CollectError::Attach { source, .. }
        | CollectError::MapRings { source }
        | CollectError::Snapshot { source }
        | CollectError::Probe { source, .. }
        | CollectError::KernelProbe { source, .. }
        | CollectError::Counts { source }
            if source.kind() == ErrorKind::PermissionDenied =>
        {
            Failure::new(Code::Rights, text).hint(
                "run with sudo, or grant CAP_BPF and CAP_PERFMON; wakepath doctor shows what is missing",
            )
        }
        CollectError::Write(error) => {
            let failure = Failure::new(Code::Input, text);
            if let WriteError::Io { source, .. } = error
                && let Some(hint) = file::hint_under_sudo(source)
            {
                return failure.hint(hint);
            }
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
            .hint("wakepath doctor shows what this kernel and your privileges allow"),
    }
}

/// The failure to find or count the targets, with a hint.
pub fn target_failure(error: LiveLatencyError) -> Failure {
    match error {
        LiveLatencyError::Collect(error) => collect_failure(&error),
        LiveLatencyError::Target(TargetError::NotATarget(_)) => Failure::new(Code::Usage, error.to_string()).hint(
            "a target is FILE:FUNCTION, FILE+0xADDRESS, kernel:FUNCTION, syscall:NAME, runqueue, lock, disk or disk:NAME; \
             wakepath latency --help explains each",
        ),
        LiveLatencyError::OnlyRecorded(_) => Failure::new(Code::Usage, error.to_string())
            .hint("wakepath latency -i REC TARGET counts in a recording"),
        LiveLatencyError::OnlyDrilled(target) => {
            let hint = format!("wakepath drill {target} -p PID finds what makes its calls slow");
            Failure::new(Code::Usage, LiveLatencyError::OnlyDrilled(target)).hint(hint)
        }
        LiveLatencyError::Find(FindError::NotFound(absent)) => {
            let hint = match absent.why {
                AbsenceReason::Interpreted(Interpreter::JavaScript | Interpreter::Java) => {
                    "wakepath requests explains its requests, with the plug-in for its runtime (docs/requests.md); \
                     wakepath record -p PID -d 5s, then wakepath path --tree, shows what its threads wait for"
                }
                AbsenceReason::Interpreted(Interpreter::Python) => {
                    "wakepath drill python:FUNCTION -p PID finds what makes the calls of a function of Python slow"
                }
                _ => "",
            };
            Failure::new(Code::Usage, absent).hint(hint)
        }
        LiveLatencyError::KernelFunction { .. } => Failure::new(Code::Rights, error.to_string()).hint(
            "count the system call that reaches it (syscall:NAME), or what it waits for: lock:kernel, disk, runqueue",
        ),
        other => Failure::new(Code::Usage, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use super::*;

    #[test]
    fn a_kernel_that_refuses_a_program_is_not_asked_for_rights() {
        let says = |number| {
            let error = CollectError::Load { source: Error::from_raw_os_error(number) };
            format!("{:?}", collect_failure(&error))
        };
        assert!(
            says(libc::EACCES).contains("this kernel refuses one of the programs"),
            "the verifier's answer"
        );
        assert!(says(libc::EPERM).contains("run with sudo"));
    }
}
