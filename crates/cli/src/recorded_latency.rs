//! `wakepath latency -i REC`: how long calls, waits and requests took in a recording.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use wakepath_engine::{
    Algorithm, Comm, LatencyQuery, Name, NoLatency, Subject, Tid, TimeSpec, Whom, recorded_latency,
};
use wakepath_report::{json, parquet, text};

use crate::exit_code::{self, Code, is_doubtful};
use crate::failure::Failure;
use crate::file;
use crate::input::Input;
use crate::output::Output;

/// Which recording, and which part of it.
#[derive(Debug, Args)]
#[command(next_help_heading = "From a recording")]
pub struct RecordedArguments {
    /// Count what is in this recording, or in a trace of another tracer, instead of what happens now; of
    /// several hosts, one each. Whose: what it was made for, unless -p, -a or one of these says it
    #[arg(short = 'i', long = "input", value_name = "REC", conflicts_with_all = ["duration", "command"])]
    pub recordings: Vec<PathBuf>,
    /// Of this thread
    #[arg(long, value_name = "TID", requires = "recordings", conflicts_with_all = ["pids", "everything"])]
    tid: Option<u32>,
    /// Of the threads of this name
    #[arg(
        long,
        value_name = "NAME",
        requires = "recordings",
        conflicts_with_all = ["pids", "everything", "tid"]
    )]
    comm: Option<String>,
    /// Of the threads of this cgroup, systemd unit or container
    #[arg(
        long,
        value_name = "CGROUP",
        requires = "recordings",
        conflicts_with_all = ["pids", "everything", "tid", "comm"]
    )]
    cgroup: Option<String>,
    /// Of several hosts' recordings, the threads of this host
    #[arg(long, value_name = "HOST", requires = "recordings")]
    host: Option<String>,
    /// What ended from here on: UTC (02:58:41.310), seconds since the start (1.5), or before the end (-5s)
    #[arg(long, value_name = "TIME", requires = "recordings", allow_hyphen_values = true)]
    from: Option<TimeSpec>,
    /// Up to here, in the same forms
    #[arg(long, value_name = "TIME", requires = "recordings", allow_hyphen_values = true)]
    to: Option<TimeSpec>,
    /// Exit with 1 when losses or doubts touch the answer
    #[arg(long, requires = "recordings")]
    strict: bool,
}

/// What counting now and counting in a recording are asked alike.
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
    fn whom(&self, asked: &Asked<'_>) -> Whom {
        if let Some(tid) = self.tid {
            Whom::Threads(Subject::Tid(Tid(tid)))
        } else if let Some(comm) = &self.comm {
            Whom::Threads(Subject::Comm(Comm::new(comm.as_bytes())))
        } else if let Some(cgroup) = &self.cgroup {
            Whom::Threads(Subject::Cgroup(Name::from(cgroup.as_str())))
        } else if asked.everything {
            Whom::Everyone
        } else if asked.pids.is_empty() {
            Whom::Recorded
        } else {
            Whom::Processes(asked.pids.iter().copied().map(Tid).collect())
        }
    }
}

/// Reads the recording, counts and shows.
pub fn run(arguments: &RecordedArguments, asked: Asked<'_>, output: &Output) -> Result<ExitCode, Failure> {
    if let Some(path) = asked.parquet {
        file::check_path(path)?;
    }
    let recorded = Input { recordings: arguments.recordings.clone() }.read()?;
    let query = LatencyQuery {
        targets: asked.targets.to_vec(),
        whom: arguments.whom(&asked),
        host: arguments.host.as_deref().map(Name::from),
        from: arguments.from,
        to: arguments.to,
        every: asked.every,
        algorithm: Algorithm::Active,
    };
    let told = recorded_latency(&recorded, &query).map_err(why_not)?;
    if asked.json {
        output.write(|out| json::recorded_latency(&told, out))?;
    } else {
        output.text(&text::recorded_latency(&told, output.paper()))?;
    }
    if let Some(path) = asked.parquet {
        file::write(path, |file| parquet::recorded_latency(&told, file))?;
    }
    Ok(exit_code::of_answer(is_doubtful(&told.head), arguments.strict))
}

fn why_not(error: NoLatency) -> Failure {
    let error = match error {
        NoLatency::Query(error) => return error.into(),
        other => other,
    };
    let hint = match &error {
        NoLatency::NoTarget(_) => String::from(
            "FUNCTION, runqueue, disk, disk:NAME, lock, lock:user, lock:kernel, blocked:CALL and segment:KIND \
             can: wakepath latency --help",
        ),
        NoLatency::NoCalls(target) => format!("wakepath record --call {target} records them"),
        NoLatency::SystemCall(name) => format!(
            "blocked:{name} is how long threads were blocked in it; without -i, syscall:{name} counts whole calls"
        ),
        NoLatency::WhosePath => String::from("--comm, --tid, --cgroup or -p says it"),
        NoLatency::NoSuch { .. }
        | NoLatency::Query(_)
        | NoLatency::Nothing(_)
        | NoLatency::TooManyParts { .. }
        | NoLatency::NoRealtime(_) => String::new(),
    };
    let failure = Failure::new(Code::Usage, error);
    if hint.is_empty() { failure } else { failure.hint(hint) }
}
