//! A drill-down's errors.

use std::path::PathBuf;
use std::time::Duration;

use wakepath_collect::{EndReason, Error as CollectError};
use wakepath_distribution::Peak;
use wakepath_drilldown::{EventError, ParameterError};
use wakepath_functions::{FindError, KernelCodeError, PythonError, RefusalReason, Target};

use super::save::ResumeError;
use crate::latency::LiveLatencyError;

/// The error of a drill-down that could not begin or go on.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum DrillError {
    #[error(transparent)]
    Target(#[from] LiveLatencyError),
    #[error(transparent)]
    Collect(#[from] CollectError),
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    #[error("cannot read the memory of process {pid}: {source}")]
    Memory { pid: u32, source: std::io::Error },
    #[error(
        "`{0}` is not a function of a program: a drill-down needs FILE:FUNCTION, kernel:FUNCTION or python:FUNCTION"
    )]
    NotAFunction(String),
    #[error(
        "`{target}` matches {count} functions: a drill-down has one; among them: {}",
        .names.iter().map(|name| name.escape_debug().to_string()).collect::<Vec<_>>().join(", ")
    )]
    Several { target: String, count: usize, names: Vec<String> },
    #[error("no process has the file of `{0}` mapped")]
    InNoProcess(String),
    #[error("no process runs CPython 3.11, whose functions are followed")]
    NoPython,
    #[error(
        "`{target}` may be called in {} processes ({}), and none of them returned from it in {}",
        .processes.len(), listed(.processes), seconds(*.elapsed)
    )]
    NoneChosen { target: String, processes: Vec<u32>, elapsed: Duration },
    #[error("{} processes run CPython 3.11: {}", .0.len(), listed(.0))]
    SeveralPythons(Vec<u32>),
    #[error("process {pid} has not mapped {}, where `{function}` is", .file.display())]
    NotMapped { pid: u32, function: String, file: PathBuf },
    #[error(
        "calls of Go cannot be measured by stubs: its runtime looks at the return addresses on its stacks"
    )]
    StubsInGo,
    #[error("calls of the kernel cannot be measured by stubs")]
    StubsInKernel,
    #[error("calls of Python's functions cannot be measured by stubs")]
    StubsInPython,
    #[error(transparent)]
    Python(#[from] PythonError),
    #[error(
        "`{target}` was not called in {}, in which functions of Python were called {called} times{}",
        seconds(*.elapsed), among(.similar)
    )]
    NotCalledInPython { target: String, elapsed: Duration, called: u64, similar: Vec<String> },
    #[error("`{target}` is the name of several functions of Python: {}", .found.iter().map(|one| one.escape_debug().to_string()).collect::<Vec<_>>().join(", "))]
    SeveralOfPython { target: String, found: Vec<String> },
    #[error(transparent)]
    Kernel(#[from] KernelCodeError),
    #[error(
        "the code of {} lets exceptions pass, and no unwinder is found that could be given a table for stubs",
        .file.display()
    )]
    StubsBelowExceptions { file: PathBuf },
    #[error("`{0}` never returns, so that its calls have no latency")]
    NeverReturns(String),
    #[error(
        "`{target}` was not called in {}; a call that had begun before is not seen{}",
        seconds(*.elapsed), .notes.iter().map(|note| format!("; {note}")).collect::<String>()
    )]
    NotCalled { target: String, elapsed: Duration, notes: Vec<String> },
    #[error("no phase of the program began in {}: `{begins}` was not called", seconds(*.elapsed))]
    NoPhase { begins: String, elapsed: Duration },
    #[error(
        "`{function}` is a function of the kernel, which is probed at its callers, so that its arguments are not known"
    )]
    HandOverInKernel { function: String },
    #[error("no probe shows when `{0}` returns, since it may leave by a jump: name a function that calls it")]
    WithinUnseen(String),
    #[error("`{function}` is a function of Python, whose arguments are not in registers")]
    HandOverInPython { function: String },
    #[error("argument {argument} of `{function}` is in no register: those from 1 to {most} are")]
    NoRegister { function: String, argument: u32, most: usize },
    #[error("`{by}` was not called in {}, so that it handed no request over", seconds(*.elapsed))]
    NotHandedOver { by: String, elapsed: Duration },
    #[error("`{by}` was called {submitted} times in {}, but never within a call of `{within}`", seconds(*.elapsed))]
    HandedOverElsewhere { by: String, within: String, submitted: u64, elapsed: Duration },
    #[error("argument {argument} of `{by}` was 0 in each of its {null} calls in {}: it is no request", seconds(*.elapsed))]
    NullRequests { by: String, argument: u32, null: u64, elapsed: Duration },
    #[error(
        "`{by}` handed {handed_over} requests over in {} by its argument {argument}, and `{target}` was called {others} times, \
         but argument {request} of it was none of them", seconds(*.elapsed)
    )]
    NoneBegan {
        by: String,
        argument: u32,
        handed_over: u64,
        target: String,
        request: u32,
        others: u64,
        elapsed: Duration,
    },
    #[error(
        "`{target}` was called, but did not return in {}: {open} {} open, and a latency is known at the return alone",
        seconds(*.elapsed), if *.open == 1 { "call is" } else { "calls are" }
    )]
    NotReturned { target: String, open: usize, elapsed: Duration },
    #[error(
        "`{target}` was called {unseen} times in {}, and no probe shows when it returns: it may leave by a jump, and the places \
         that call it call mostly other functions, or are in no file",
        seconds(*.elapsed)
    )]
    CallersUnseen { target: String, unseen: u64, elapsed: Duration },
    #[error(
        "`{target}` is called {per_second:.0} times a second, and the kernel has to single-step its probes, {:.1} µs a call: {:.0}% of the machine, and \
         the budget is {:.0}%",
        *.per_call_ns as f64 / 1e3, *.share * 100.0, *.budget * 100.0
    )]
    TooOften { target: String, per_second: f64, per_call_ns: u64, share: f64, budget: f64 },
    #[error(
        "{} after {}, in which `{target}` returned {calls} of the {wanted} times by which its peaks are found",
        ended_by(*.reason), seconds(*.elapsed)
    )]
    EndedBefore { target: String, calls: u64, wanted: u64, elapsed: Duration, reason: EndReason },
    #[error(
        "process {pid} unloaded {}, where `{target}` is, after {}, in which it returned {calls} times",
        .file.display(), seconds(*.elapsed)
    )]
    Unloaded { pid: u32, target: String, file: PathBuf, calls: u64, elapsed: Duration },
    #[error("`{target}` has {} peaks; there is no peak {asked}", .peaks.len())]
    NoSuchPeak { target: String, asked: usize, peaks: Vec<Peak> },
    #[error("the search contradicts itself: {0}")]
    Event(#[from] EventError),
    #[error("the search cannot go on: {0}")]
    Resume(#[from] ResumeError),
}

impl DrillError {
    /// Whether a command that was started for the search is ended: the question has no answer. A failure of the
    /// recorder's own, as on a full disk, is no reason to end somebody's work.
    pub const fn ends_the_command(&self) -> bool {
        !matches!(self, Self::Collect(_))
    }

    /// The refused function by its name in the file, `FILE:FUNCTION`, if the target is its address.
    pub fn name_for_address(&self, target: &str) -> Option<String> {
        let is_address = Target::parse(target).is_ok_and(|target| target.address().is_some());
        match self {
            Self::Target(LiveLatencyError::Find(FindError::Refused(refusal))) if is_address => {
                Some(format!("{}:{}", refusal.file, refusal.name))
            }
            _ => None,
        }
    }

    /// Whether the function is there, and no probe shows its calls: the stacks that hold it may still answer.
    pub const fn is_about_probes(&self) -> bool {
        use LiveLatencyError::Find;
        match self {
            Self::Target(Find(FindError::Refused(refusal))) => !matches!(
                refusal.why,
                RefusalReason::NotCode { .. }
                    | RefusalReason::Amid { .. }
                    | RefusalReason::NoBeginning
                    | RefusalReason::UnnamedPart
                    | RefusalReason::ColdPart { .. }
                    | RefusalReason::Ifunc { .. }
            ),
            // A call that began before has a stack.
            Self::NotCalled { .. }
            | Self::TooOften { .. }
            | Self::CallersUnseen { .. }
            | Self::NotReturned { .. }
            | Self::NeverReturns(_) => true,
            _ => false,
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// The most processes named in an error.
const MAX_PROCESSES: usize = 8;

fn listed(processes: &[u32]) -> String {
    let mut names: Vec<String> = processes.iter().take(MAX_PROCESSES).map(ToString::to_string).collect();
    names.extend((processes.len() > MAX_PROCESSES).then(|| String::from("…")));
    names.join(", ")
}

fn among(similar: &[String]) -> String {
    let names: Vec<_> = similar.iter().map(|name| name.escape_debug().to_string()).collect();
    if names.is_empty() { String::new() } else { format!("; among them: {}", names.join(", ")) }
}

fn ended_by(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Ended => "the process ended",
        EndReason::Interrupted => "you stopped the search",
        EndReason::Duration | EndReason::OutOfRoom | EndReason::OverBudget => "the time of -d was over",
    }
}
