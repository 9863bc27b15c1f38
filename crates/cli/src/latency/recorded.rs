//! `wakepath latency -i REC`: counts in a recording.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use wakepath_engine::latency::TargetError;
use wakepath_engine::latency::recorded::{
    RecordedLatencyError, RecordedQuery, ThreadFilter, recorded_latency,
};
use wakepath_engine::{Algorithm, Comm, Name, Subject, Tid, TimeSpec};
use wakepath_report::{json, parquet, text};

use crate::exit_code::{self, Code, is_doubtful};
use crate::failure::Failure;
use crate::file;
use crate::input::Input;
use crate::output::Output;

/// The recording, and the part of it that is counted.
#[derive(Debug, Args)]
#[command(next_help_heading = "From a recording")]
pub struct RecordedArguments {
    /// Count in this recording, or in a trace of another tracer, instead of on this machine; repeat it for
    /// several hosts. Covers what the recording was made for, unless -p, -a or an option below chooses threads
    #[arg(short = 'i', long = "input", value_name = "REC", conflicts_with_all = ["duration", "command"])]
    pub recordings: Vec<PathBuf>,
    /// Count this thread
    #[arg(long, value_name = "TID", requires = "recordings", conflicts_with_all = ["pids", "everything"])]
    tid: Option<u32>,
    /// Count the threads of this name
    #[arg(
        long,
        value_name = "NAME",
        requires = "recordings",
        conflicts_with_all = ["pids", "everything", "tid"]
    )]
    comm: Option<String>,
    /// Count the threads of this cgroup, systemd unit or container
    #[arg(
        long,
        value_name = "CGROUP",
        requires = "recordings",
        conflicts_with_all = ["pids", "everything", "tid", "comm"]
    )]
    cgroup: Option<String>,
    /// In recordings of several hosts, count the threads of this host
    #[arg(long, value_name = "HOST", requires = "recordings")]
    host: Option<String>,
    /// Count what ended from here on: UTC (02:58:41.310), seconds since the start (1.5), or before the end (-5s)
    #[arg(long, value_name = "TIME", requires = "recordings", allow_hyphen_values = true)]
    from: Option<TimeSpec>,
    /// Count what ended up to here, in the same forms
    #[arg(long, value_name = "TIME", requires = "recordings", allow_hyphen_values = true)]
    to: Option<TimeSpec>,
    /// Exit with 1 when losses or doubts touch the answer
    #[arg(long, requires = "recordings")]
    strict: bool,
}

/// The arguments that live counting and recordings share.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub targets: &'a [String],
    pub pids: &'a [u32],
    pub everything: bool,
    pub every: Option<Duration>,
    pub parquet: Option<&'a Path>,
    pub json: bool,
}

impl RecordedArguments {
    fn threads(&self, asked: &Asked<'_>) -> ThreadFilter {
        if let Some(tid) = self.tid {
            ThreadFilter::Subject(Subject::Tid(Tid(tid)))
        } else if let Some(comm) = &self.comm {
            ThreadFilter::Subject(Subject::Comm(Comm::new(comm.as_bytes())))
        } else if let Some(cgroup) = &self.cgroup {
            ThreadFilter::Subject(Subject::Cgroup(Name::from(cgroup.as_str())))
        } else if asked.everything {
            ThreadFilter::All
        } else if asked.pids.is_empty() {
            ThreadFilter::Recorded
        } else {
            ThreadFilter::Processes(asked.pids.iter().copied().map(Tid).collect())
        }
    }
}

/// Reads the recording, counts and shows.
pub fn run(arguments: &RecordedArguments, asked: Asked<'_>, output: &Output) -> Result<ExitCode, Failure> {
    if let Some(path) = asked.parquet {
        file::check_path(path)?;
    }
    let recorded = Input { recordings: arguments.recordings.clone() }.read()?;
    let query = RecordedQuery {
        targets: asked.targets.to_vec(),
        threads: arguments.threads(&asked),
        host: arguments.host.as_deref().map(Name::from),
        from: arguments.from,
        to: arguments.to,
        every: asked.every,
        algorithm: Algorithm::Active,
    };
    let latency = recorded_latency(&recorded, &query).map_err(failure)?;
    if asked.json {
        output.write(|out| json::recorded_latency(&latency, out))?;
    } else {
        output.text(&text::recorded_latency(&latency, output.layout()))?;
    }
    if let Some(path) = asked.parquet {
        file::write(path, |file| parquet::recorded_latency(&latency, file))?;
    }
    Ok(exit_code::of_answer(is_doubtful(&latency.head), arguments.strict))
}

fn failure(error: RecordedLatencyError) -> Failure {
    let error = match error {
        RecordedLatencyError::Query(error) => return error.into(),
        other => other,
    };
    let hint = match &error {
        RecordedLatencyError::Target(TargetError::NotATarget(_)) => String::from(
            "a target is FUNCTION, runqueue, disk, disk:NAME, lock, lock:user, lock:kernel, blocked:CALL or \
             segment:KIND; wakepath latency --help explains each",
        ),
        RecordedLatencyError::NoCalls(target) => format!("wakepath record --call {target} records them"),
        RecordedLatencyError::SystemCall(name) => format!(
            "blocked:{name} counts how long threads were blocked in it; without -i, syscall:{name} counts whole calls"
        ),
        RecordedLatencyError::NoThreads => String::from("choose them by --comm, --tid, --cgroup or -p"),
        _ => String::new(),
    };
    let failure = Failure::new(Code::Usage, error);
    if hint.is_empty() { failure } else { failure.hint(hint) }
}
