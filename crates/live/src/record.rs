//! Recording a session.

use std::cell::RefCell;
use std::ffi::OsString;
use std::path::PathBuf;

pub use wakepath_collect::{
    Callers, EndReason, Error as CollectError, GRACE, GoFound, Goroutines, Options, Outcome, Running,
    Signals, Stacks, StartStep, UnreadContexts, drop_rights, exit_code, keep_child_status,
};
use wakepath_collect::{Counted, Destination, IsAsked, KeptAttributes, MAX_TARGETS, MappedFile};
use wakepath_engine::is_meant;
use wakepath_engine::latency::{OtherProcesses, RefusedTarget, RemovedProbes};
use wakepath_engine::record::{GoPrograms, GoRefused, GoStarted};
use wakepath_engine::spans::ReceivedSpans;
use wakepath_functions::{Pattern, Runtime};
use wakepath_process::Process;
pub use wakepath_recording::Place;
pub use wakepath_recording::WriteError;
use wakepath_recording::{Writer, this_host};
pub use wakepath_symbols::Kept;

use crate::flight::{Flight, FlightRequest};
use crate::go_trace::{GoTrace, ReadGoTrace, end_all};
pub use crate::latency::AllowedProbes;
use crate::latency::{
    LiveLatencyError, LiveTarget, Resolved, kernel_functions, other_processes, removed_probes, user_functions,
};
use crate::spans::SpanReceiver;

/// Recording stops when the disk's free space falls below this percentage, or below 4 GiB if that is less.
pub const MIN_FREE_PERCENT: u8 = 10;

/// A request for a recording.
#[derive(Debug, Clone)]
pub struct Request {
    /// The recording's directory. An existing recording becomes `.old`.
    pub destination: PathBuf,
    /// The recorder's options.
    pub options: Options,
    /// The recording's maximum size, bytes.
    pub most_bytes: u64,
    /// Recording stops below this share of free disk space, percent, or below 4 GiB if that is less.
    pub least_free_percent: u8,
    /// Extra attributes to keep besides the built-in list, from spans and from threads' contexts.
    pub attributes: Vec<String>,
    /// The targeted cgroup, unit or container, if any.
    pub cgroup: Option<String>,
    /// The command line, for the recording's metadata.
    pub asked: Vec<OsString>,
    /// The program's version, for the recording's metadata.
    pub version: &'static str,
    /// The functions whose calls are recorded, as users write them.
    pub calls: Vec<String>,
    /// The allowed probes on these functions.
    pub allowed: AllowedProbes,
}

/// A finished recording.
#[derive(Debug)]
pub struct Made {
    /// The session's result.
    pub outcome: Outcome,
    /// For each probed file, the other processes that paid for its probes. Their cost per call is not measured.
    pub other_processes: Vec<OtherProcesses>,
    /// The functions whose calls cannot be recorded.
    pub refused: Vec<RefusedTarget>,
    /// The functions whose probes were removed.
    pub removed: Vec<(String, RemovedProbes)>,
    /// The received spans, if asked for.
    pub spans: Option<ReceivedSpans>,
    /// The probed Go programs, and places in them.
    goroutines: Goroutines,
    /// Go programs' execution traces, as requested.
    pub go_traces: Vec<ReadGoTrace>,
    /// Functions whose calls belong to goroutines, while paths belong to threads because no goroutines were recorded.
    pub of_goroutines: Vec<String>,
}

impl Made {
    /// The Go programs that started meanwhile.
    pub fn go_started(&self) -> GoStarted {
        let wakepath_collect::GoStarted { probed, refused: unseen, left_alone, ended } =
            &self.outcome.go_started;
        GoStarted {
            spans_alone: self.goroutines == Goroutines::Spans,
            probed: probed.clone(),
            refused: unseen.iter().map(refused).collect(),
            left_alone: left_alone.clone(),
            ended: ended.clone(),
        }
    }

    /// The files with code names, opened while this process had the right to, to be read without it.
    pub fn take_kept_files(&mut self) -> Kept {
        let files = std::mem::take(&mut self.outcome.mapped_files);
        let files = files.into_iter().map(|MappedFile { path, build_id, file }| (path, build_id, file));
        Kept::new(self.outcome.kernel_names.take(), files)
    }
}

/// Why a recording was not made.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RecordError {
    #[error("there is no cgroup, unit or container `{0}`")]
    NoCgroup(String),
    #[error(transparent)]
    Function(#[from] LiveLatencyError),
    #[error(transparent)]
    Collect(#[from] CollectError),
}

/// Finds the Go programs for a request's goroutines, for [`record`].
pub fn find_go(request: &Request) -> GoFound {
    let is_asked = |cgroup: String| -> IsAsked {
        Box::new(move |pid| {
            let paths = Process::open(pid).and_then(|process| process.cgroups()).unwrap_or_default();
            paths.iter().any(|path| is_meant(cgroup.as_bytes(), path))
        })
    };
    wakepath_collect::find_go(&request.options, request.cgroup.clone().map(is_asked))
}

/// The found Go programs, as data for an answer.
pub fn go_programs(request: &Request, found: &GoFound) -> GoPrograms {
    GoPrograms {
        spans_alone: request.options.goroutines == Goroutines::Spans,
        probed: found.probed().map(PathBuf::from).collect(),
        refused: found.refused().iter().map(refused).collect(),
        left_alone: found.left_alone().to_vec(),
    }
}

fn refused(program: &wakepath_collect::GoRefused) -> GoRefused {
    GoRefused { path: program.path.clone(), why: program.why.clone() }
}

/// Records until the command ends, the time is over, no room is left, or `stop` is set. The records so far are in the
/// request's destination in any case; an earlier recording there is moved aside only when all is ready to begin. Spans
/// come from `spans`, from the command's start until the last drain. `traces` last until the end; a flight recorder keeps none. `step` gets each step before the start.
///
/// With `flight`, nothing is on disk until a trigger, and the destination is the directory for kept recordings; [`Request::most_bytes`]
/// bounds all of them together.
///
/// # Errors
/// When recording could not begin or continue.
pub fn record(
    request: &Request,
    go: GoFound,
    spans: Option<SpanReceiver>,
    traces: Vec<GoTrace>,
    flight: Option<FlightRequest>,
    step: &mut dyn FnMut(StartStep),
    stop: &Signals,
) -> Result<Made, RecordError> {
    if let Some(cgroup) = &request.cgroup {
        let there = wakepath_collect::cgroup_paths();
        // If no hierarchy is visible here, the events may still name the cgroup.
        if !there.is_empty() && !there.iter().any(|path| is_meant(cgroup.as_bytes(), path)) {
            return Err(RecordError::NoCgroup(cgroup.clone()));
        }
    }
    let mut recorder = request.options.clone();
    recorder.attributes = KeptAttributes::new(wakepath_otlp::is_kept(&request.attributes));
    let texts = request.calls.iter().map(String::as_str);
    let Resolved { targets, refused } = Resolved::all(texts, |text| match text.strip_prefix("kernel:") {
        Some(pattern) => kernel_functions(&Pattern::new(pattern)),
        None => user_functions(text, &recorder.targets, request.allowed),
    })?;
    if targets.len() > MAX_TARGETS {
        return Err(LiveLatencyError::TooMany { asked: targets.len(), max: MAX_TARGETS }.into());
    }
    let others = other_processes(&targets, &recorder.targets, &recorder.command);
    let mut other_processes: Vec<OtherProcesses> = others.into_iter().flatten().collect();
    other_processes.sort_by(|a, b| a.file.cmp(&b.file));
    other_processes.dedup();
    for LiveTarget { name, counted, .. } in targets {
        match counted {
            Counted::Function(probe) => recorder.functions.push((name, probe)),
            Counted::KernelFunction(function) => recorder.kernel_functions.push((name, function)),
            // All targets here are functions.
            _ => {}
        }
    }
    let asked: Vec<_> = request.asked.iter().map(|word| word.to_string_lossy()).collect();
    let mut options = wakepath_recording::Options::new(request.version, &asked.join(" "));
    options.caller = request.options.caller.clone();
    options.kept_for_end = kept_for_end(request.most_bytes);
    options.cgroup = request.cgroup.clone();
    options.most_bytes = Some(request.most_bytes);
    options.least_free_percent = Some(request.least_free_percent);
    recorder.variable = spans.as_ref().map(SpanReceiver::variable);
    let (wanted, file) = (spans.is_some(), RefCell::new(None));
    let (count, trace_files) = (traces.len(), RefCell::new(Vec::new()));
    let mut flight = flight.map(|asked| Flight::new(asked, wanted));
    let in_memory = flight.as_mut().and_then(Flight::span_end);
    let open = || {
        if let Some(flight) = flight {
            options.kept_for_end = 0;
            stop.watch_keep()
                .map_err(|source| WriteError::Io { path: request.destination.clone(), source })?;
            let kept = flight.open(&request.destination, request.most_bytes, options, this_host())?;
            return Ok(Destination::Flight(Box::new(kept)));
        }
        let writer = Writer::replace(&request.destination, &this_host(), &options)?;
        if wanted {
            file.replace(Some(writer.spans()?));
        }
        let files = (0..count).map(|number| writer.go_trace(number)).collect::<Result<_, _>>();
        trace_files.replace(files?);
        Ok(Destination::Recording(Box::new(writer)))
    };
    let (mut receiving, mut reading) = (None, Vec::new());
    let receive = || {
        let files = trace_files.take();
        reading = traces.into_iter().zip(files).map(|(trace, file)| trace.read_into(file)).collect();
        receiving = match in_memory {
            Some(end) => spans.map(|spans| spans.start_in_memory(end)),
            None => spans.zip(file.take()).map(|(spans, file)| spans.start(file)),
        };
    };
    let outcome = wakepath_collect::record(&recorder, go, open, receive, step, stop)?;
    // Behind the last drain: the traces reach as far as the records.
    let go_traces = end_all(reading);
    // It returns when all accepted spans are written.
    let spans = receiving.map(|receiving| receiving.stop(outcome.variable_given));
    let is_followed = recorder.goroutines != Goroutines::None;
    let of_goroutines = recorder.functions.iter().filter(|(_, probe)| probe.runtime == Runtime::Go);
    let of_goroutines = of_goroutines.filter(|_| !is_followed);
    let of_goroutines = of_goroutines.map(|(name, _)| name.clone()).collect();
    let goroutines = recorder.goroutines;
    let removed = outcome.removed.iter().filter_map(|(number, removed)| {
        let (name, _) = recorder.functions.get(*number as usize)?;
        Some((name.clone(), removed_probes(*removed)))
    });
    let removed = removed.collect();
    Ok(Made { outcome, other_processes, refused, removed, spans, go_traces, of_goroutines, goroutines })
}

/// The part of a recording's maximum size kept for its end, bytes: for names, and for rare records (forks, thread
/// names, samples) that are held back a little to be written in order. Without them an answer is worth little. A storm
/// of processes makes 400 KiB of them a second.
fn kept_for_end(most_bytes: u64) -> u64 {
    (most_bytes / 4).min(16 << 20)
}
