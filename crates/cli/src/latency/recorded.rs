//! `wakepath latency -i REC`: counts in a recording.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use wakepath_engine::latency::TargetError;
use wakepath_engine::latency::recorded::{
    RecordedLatencyError, RecordedQuery, ThreadFilter, recorded_latency_with,
};
use wakepath_engine::requests::traced;
use wakepath_engine::{Name, Tid, TimeSpec};
use wakepath_report::{json, parquet, text};

use super::LatencyArguments;
use crate::exit_code::{self, Code, is_doubtful};
use crate::failure::Failure;
use crate::file;
use crate::input::{DEFAULT, Input};
use crate::output::Output;
use crate::path::subject;
use crate::requests::{is_spans, spans_failure};

/// The recording, and its part to count.
#[derive(Debug, Args)]
#[command(next_help_heading = "From a recording")]
pub struct RecordedArguments {
    /// Count in this recording, or in another tracer's trace, instead of on this machine; repeat it for several hosts, or for a file
    /// with spans. Covers the threads for which the recording was made, unless -p, -a or an option below chooses threads
    #[arg(short = 'i', long = "input", value_name = "REC", conflicts_with_all = ["duration", "command"])]
    pub recordings: Vec<PathBuf>,
    /// Count this thread
    #[arg(long, value_name = "TID", requires = "recordings", conflicts_with_all = ["pids", "everything"])]
    tid: Option<u32>,
    /// Count the threads with this name
    #[arg(
        long,
        value_name = "NAME",
        requires = "recordings",
        conflicts_with_all = ["pids", "everything", "tid"]
    )]
    comm: Option<String>,
    /// Count the threads in this cgroup, systemd unit or container
    #[arg(
        long,
        value_name = "CGROUP",
        requires = "recordings",
        conflicts_with_all = ["pids", "everything", "tid", "comm"]
    )]
    cgroup: Option<String>,
    /// In recordings of several hosts, count the threads on this host
    #[arg(long, value_name = "HOST", requires = "recordings")]
    host: Option<String>,
    /// Count what ended from here on: UTC (02:58:41.310), seconds since the start (1.5), or before the end (-5s)
    #[arg(long, value_name = "TIME", requires = "recordings", allow_hyphen_values = true)]
    from: Option<TimeSpec>,
    /// Count what ended up to here, in the same forms
    #[arg(long, value_name = "TIME", requires = "recordings", allow_hyphen_values = true)]
    to: Option<TimeSpec>,
    /// Exit with 1 if lost records or other problems affect the answer
    #[arg(long, requires = "recordings")]
    strict: bool,
}

impl RecordedArguments {
    fn threads(&self, arguments: &LatencyArguments) -> ThreadFilter {
        let processes = &arguments.pids;
        match subject(None, self.tid, self.comm.as_deref(), self.cgroup.as_deref()) {
            Some(subject) => ThreadFilter::Subject(subject),
            None if arguments.everything => ThreadFilter::All,
            None if processes.is_empty() => ThreadFilter::Recorded,
            None => ThreadFilter::Processes(processes.iter().copied().map(Tid).collect()),
        }
    }
}

/// Reads the recording, counts and prints.
pub fn run(asked: &LatencyArguments, output: &Output) -> Result<ExitCode, Failure> {
    if let Some(path) = &asked.parquet {
        file::check_path(path)?;
    }
    let arguments = &asked.recorded;
    let (mut recordings, files): (Vec<PathBuf>, Vec<PathBuf>) =
        arguments.recordings.iter().cloned().partition(|path| !is_spans(path));
    if recordings.is_empty() {
        recordings.push(DEFAULT.into());
    }
    let with_spans = asked.targets.iter().any(|target| target.starts_with("span:"));
    let traced = with_spans.then(|| traced(&recordings, &files)).transpose().map_err(spans_failure)?;
    let input = Input { recordings };
    let only_marks = asked.targets.iter().all(|target| target.starts_with("ust:"));
    let recorded = if only_marks { input.read_marks()? } else { input.read()? };
    let query = RecordedQuery {
        targets: asked.targets.clone(),
        threads: arguments.threads(asked),
        host: arguments.host.as_deref().map(Name::from),
        from: arguments.from,
        to: arguments.to,
        every: asked.every,
    };
    let latency = recorded_latency_with(&recorded, traced.as_ref(), &query).map_err(failure)?;
    output.answer(&latency, asked.json, json::recorded_latency, text::recorded_latency)?;
    if let Some(path) = &asked.parquet {
        file::write(path, |file| parquet::recorded_latency(&latency, file))?;
    }
    let with_marks = asked.targets.iter().any(|target| target.starts_with("ust:"));
    let marks_lost = with_marks && !recorded.survey.user_marks.losses.is_empty();
    Ok(exit_code::for_answer(is_doubtful(&latency.head) || marks_lost, arguments.strict))
}

fn failure(error: RecordedLatencyError) -> Failure {
    let error = match error {
        RecordedLatencyError::Query(error) => return error.into(),
        other => other,
    };
    let hint = match &error {
        RecordedLatencyError::Target(TargetError::NotATarget(_)) => String::from(
            "a target is FUNCTION, runqueue, disk, disk:NAME, lock, lock:user, lock:kernel, blocked:CALL, \
             segment:KIND, span:SERVICE/OPERATION or ust:PROVIDER:NAME; wakepath latency --help explains each",
        ),
        RecordedLatencyError::NoCalls(target) => format!("wakepath record --call {target} records them"),
        RecordedLatencyError::SystemCall(name) => format!(
            "blocked:{name} counts how long threads were blocked in it; without -i, syscall:{name} counts whole calls"
        ),
        RecordedLatencyError::NoSpans => {
            String::from("record with `wakepath record --otlp`, or give a file with spans as another -i")
        }
        RecordedLatencyError::NoMarks => String::from(
            "record them with LTTng, in the kernel's session: lttng enable-event -u 'PROVIDER:*', and lttng add-context -u -t vpid -t vtid",
        ),
        RecordedLatencyError::NoThreads => String::from("choose them by --comm, --tid, --cgroup or -p"),
        _ => String::new(),
    };
    Failure::new(Code::Usage, error).hint(hint)
}
