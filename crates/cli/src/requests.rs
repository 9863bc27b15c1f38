//! `wakepath requests`: how long requests took, and why a slow request did.

mod by_cause;
mod export;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use wakepath_engine::requests::{
    AloneAnswer, FromArrival, GroupQuery, Joined, NoPath, RequestIndex, RequestsError, RequestsQuery,
    SpansError, TimeRange, Traced, find_request, from_arrival, join, request, request_group, requests,
    requests_alone, requests_by_cause, requests_by_cause_alone, requests_within, traced,
};
use wakepath_engine::{Algorithm, Recorded, TimeSpec, is_recording};
use wakepath_report::{json, text};

use crate::debuginfod::{CodeSources, DebuginfodArguments};
use crate::exit_code::Code;
use crate::failure::Failure;
use crate::help;
use crate::input::{DEFAULT, Input};
use crate::output::Output;
use crate::parse::some;
use by_cause::{next_by_cause, progress};
use export::Export;

/// Show how long requests took, from the spans of distributed tracing, and why one of them took its time
///
/// The spans come from `record --otlp`, or from files: OTLP (JSON or protobuf, as the OpenTelemetry Collector writes
/// them), or the JSON of Tempo, Jaeger or Zipkin; also compressed. Without a recording, the spans alone answer. A request is
/// a service's local root span.
#[derive(Debug, Args)]
#[command(after_help = help::first(EXAMPLES), after_long_help = EXAMPLES)]
pub struct RequestsArguments {
    /// The recording, and files with spans [default: ./wakepath.rec, if there]
    #[arg(value_name = "REC|SPANS")]
    files: Vec<PathBuf>,
    /// Explain the request with this id: the first digits of its trace id, TRACE/SPAN, or a span's id
    #[arg(long, value_name = "ID", conflicts_with_all = ["slowest", "service", "operation"])]
    request: Option<String>,
    /// Explain the N slowest requests
    #[arg(long, value_name = "N", value_parser = some)]
    slowest: Option<usize>,
    /// Group the slowest requests by what made them slow: 100, or as many as --slowest says
    #[arg(long, conflicts_with_all = ["request", "peak", "compare", "export_otlp", "export_perfetto"])]
    by_cause: bool,
    /// With --slowest or --by-cause: the slowest since their data came, which a busy server takes up only later
    #[arg(long)]
    from_arrival: bool,
    /// Only requests under way from here on: UTC (02:58:41.310), seconds since the start (1.5), or before the end (-5s)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["request", "peak", "compare"])]
    from: Option<TimeSpec>,
    /// Only requests begun by then, in the same forms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["request", "peak", "compare"])]
    to: Option<TimeSpec>,
    /// Explain the requests in this peak of an operation's histogram, beside the usual requests
    ///
    /// The peaks are numbered as `wakepath latency -i REC span:SERVICE/OPERATION` shows them.
    #[arg(long, value_name = "N", conflicts_with_all = ["request", "slowest"])]
    peak: Option<usize>,
    /// Explain an operation's requests beside its requests in another recording, or in another file with spans
    #[arg(long, value_name = "REC|SPANS", num_args = 1.., conflicts_with_all = ["request", "slowest"])]
    compare: Vec<PathBuf>,
    /// With --peak or --compare: show which threads waited for which
    #[arg(long, conflicts_with_all = ["request", "slowest", "json"])]
    tree: bool,
    /// Only requests to this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Only requests with this operation
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// With --request or --slowest: also write each request's path as OpenTelemetry spans
    ///
    /// To a file: a line of OTLP in JSON for each trace, as the OpenTelemetry Collector writes them, with all spans. To a URL, by
    /// OTLP over HTTP, for a backend that already has the trace: a span below the slow span with the cause's sentence, and below it a
    /// span for each part of the path, with links to the requests that blocked it.
    #[arg(long, value_name = "FILE|URL")]
    export_otlp: Option<OsString>,
    /// With --request or --slowest: also write a Perfetto trace of the recording, with tracks for each request
    ///
    /// A request has its spans, its path, the waits behind the path, and arrows to the requests that blocked it.
    /// https://ui.perfetto.dev opens the file, and keeps it in the browser.
    #[arg(long, value_name = "FILE")]
    export_perfetto: Option<PathBuf>,
    /// Print JSON, for scripts; a document for each explained request
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    debuginfod: DebuginfodArguments,
}

const EXAMPLES: &str = "\
Examples:
  wakepath requests                          the operations, and their longest requests
  wakepath requests --slowest 1              why the longest one took its time
  wakepath requests --slowest 3 --from-arrival
                                             the longest from the moment on at which their data came
  wakepath requests --slowest 200 --by-cause the 200 longest, grouped by what made them slow
  wakepath requests --by-cause --from 02:58:41 --to 02:58:43
                                             the 100 longest of two seconds
  wakepath requests --request 5b8efff798038103
  wakepath requests web.rec spans.json       the spans of a file beside a recording
  wakepath requests --operation 'GET /cart' --peak 2
                                             what those of the second peak waited for, beside the usual ones
  wakepath requests today.rec --operation 'GET /cart' --compare yesterday.rec
  wakepath requests --slowest 3 --export-otlp http://127.0.0.1:4318
                                             the paths of the three as spans below theirs, where Jaeger shows them
  wakepath requests --slowest 3 --export-otlp slow.json --export-perfetto slow.perfetto-trace
  wakepath requests --service frontend --json | jq '.operations[].p99_ns'";

/// Reads the recording and the spans, and prints the answer.
pub fn run(arguments: &RequestsArguments, output: &Output) -> Result<ExitCode, Failure> {
    let exports = [
        ("--export-otlp", arguments.export_otlp.is_some()),
        ("--export-perfetto", arguments.export_perfetto.is_some()),
    ];
    if let Some((flag, _)) = exports.iter().find(|(_, is_given)| *is_given)
        && arguments.request.is_none()
        && arguments.slowest.is_none()
    {
        return Err(Failure::new(Code::Usage, format!("{flag} needs --request or --slowest")));
    }
    if arguments.tree && arguments.peak.is_none() && arguments.compare.is_empty() {
        return Err(Failure::new(Code::Usage, "--tree needs --peak or --compare"));
    }
    if arguments.from_arrival && arguments.slowest.is_none() && !arguments.by_cause {
        return Err(Failure::new(Code::Usage, "--from-arrival needs --slowest or --by-cause"));
    }
    if let Some(files) = alone(&arguments.files) {
        return run_alone(arguments, files, output);
    }
    let sources = arguments.debuginfod.sources(output, || false)?;
    let (input, traced, mut recorded) = read(&arguments.files)?;
    sources.serve(&mut recorded);
    let recorded = recorded;
    let code = answer(arguments, (&input, &traced, &recorded), &sources, output)?;
    sources.report(output);
    Ok(code)
}

/// Prints the requests in a new recording, if it has any. Returns whether it has.
pub fn answer_made(input: &Input, recorded: &Recorded, output: &Output) -> Result<bool, Failure> {
    let traced = traced(&input.recordings, &[]).map_err(spans_failure)?;
    if traced.requests.requests.is_empty() {
        return Ok(false);
    }
    let answer = requests(recorded, &traced, &RequestsQuery::default()).map_err(requests_failure)?;
    let argument = input.argument();
    output.answer(&answer, false, json::requests, |answer, layout| {
        text::requests(answer, text::Source::Made(&argument), layout)
    })?;
    Ok(true)
}

/// Answers by spans and a recording.
fn answer(
    arguments: &RequestsArguments,
    (input, traced, recorded): (&Input, &Traced, &Recorded),
    sources: &CodeSources,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let (of_recording, argument) = (input.argument(), arguments.argument());
    let (recording, with_spans) = (input.words(), arguments.words());
    let named = json::Named { recording: &recording, with_spans: &with_spans };
    let joined = || join(recorded, traced).map_err(requests_failure);
    let explain = |joined: &Joined<'_>, requests: &[RequestIndex]| -> Result<(), Failure> {
        let mut export = Export::new(arguments)?;
        for (place, &which) in requests.iter().enumerate() {
            if place > 0 && !arguments.json {
                output.text("\n")?;
            }
            let answer = request(joined, which, Algorithm::default());
            let json = |answer: &_, out: &mut dyn io::Write| json::request(answer, named, out);
            output.answer(&answer, arguments.json, json, |answer, layout| {
                let text = text::request(answer, text::Source::Read(&of_recording), &argument, layout);
                sources.shown(recorded, text)
            })?;
            export.add(answer);
        }
        export.write(joined, output)
    };
    if let Some(id) = &arguments.request {
        let which = find_request(traced, id).map_err(requests_failure)?;
        explain(&joined()?, &[which])?;
        return Ok(ExitCode::SUCCESS);
    }
    let query = arguments.query();
    if arguments.peak.is_some() || !arguments.compare.is_empty() {
        return explain_group(arguments, &joined()?, query, (named, sources), output);
    }
    let answer = requests_within(recorded, traced, &query, arguments.range()).map_err(requests_failure)?;
    let Some(slowest) = arguments.explained() else {
        output.answer(&answer, arguments.json, json::requests, |answer, layout| {
            text::requests(answer, text::Source::Read(&argument), layout)
        })?;
        return Ok(ExitCode::SUCCESS);
    };
    let joined = joined()?;
    let ranked = arguments.from_arrival.then(|| from_arrival(&joined, &answer.requests));
    let requests = ranked.as_ref().map_or(&answer.requests, |ranked| &ranked.requests);
    if arguments.by_cause {
        let shown = progress(output, slowest.min(requests.len()));
        let answer = requests_by_cause(&joined, requests, slowest, Algorithm::default(), shown);
        output.passing("");
        let json = |answer: &_, out: &mut dyn io::Write| json::requests_by_cause(answer, named, out);
        output.answer(&answer, arguments.json, json, |answer, layout| {
            sources.shown(recorded, text::requests_by_cause(answer, &argument, layout))
        })?;
    } else {
        explain(&joined, &requests[..slowest.min(requests.len())])?;
        next_by_cause(arguments, slowest, output)?;
    }
    if let Some(ranked) = ranked.filter(|ranked| ranked.known < answer.requests.len()) {
        output.complain("note", &arrival_unknown(&ranked));
    }
    Ok(ExitCode::SUCCESS)
}

/// `the arrival of 3 of 40 requests is not known: they count from the beginning of their span`.
fn arrival_unknown(ranked: &FromArrival) -> String {
    let all = ranked.requests.len();
    format!(
        "the arrival of {} of {all} requests is not known: they count from their span's beginning",
        all - ranked.known
    )
}

/// The files, if all have spans and there is no recording in the usual place.
fn alone(files: &[PathBuf]) -> Option<&[PathBuf]> {
    let is_alone =
        !files.is_empty() && files.iter().all(|path| is_spans(path)) && !Path::new(DEFAULT).exists();
    is_alone.then_some(files)
}

/// Answers by spans alone.
fn run_alone(arguments: &RequestsArguments, files: &[PathBuf], output: &Output) -> Result<ExitCode, Failure> {
    let needs_recording = [
        ("--peak", arguments.peak.is_some()),
        ("--compare", !arguments.compare.is_empty()),
        ("--export-otlp", arguments.export_otlp.is_some()),
        ("--export-perfetto", arguments.export_perfetto.is_some()),
        ("--from-arrival", arguments.from_arrival),
        ("--from", arguments.from.is_some()),
        ("--to", arguments.to.is_some()),
    ];
    if let Some((flag, _)) = needs_recording.iter().find(|(_, is_given)| *is_given) {
        let text = format!("{flag} needs a recording, and only spans were given");
        let hint = "record with `sudo wakepath record --otlp -a`, then: wakepath requests REC SPANS";
        return Err(Failure::new(Code::Usage, text).hint(hint));
    }
    let traced = traced(&[], files).map_err(spans_failure)?;
    let answer = requests_alone(&traced, &arguments.query()).map_err(requests_failure)?;
    if let Some(slowest) = arguments.explained().filter(|_| arguments.by_cause) {
        let answer = requests_by_cause_alone(&traced, &answer.requests, slowest);
        let words = arguments.words();
        let named = json::Named { recording: &[], with_spans: &words };
        let json = |answer: &_, out: &mut dyn io::Write| json::requests_by_cause(answer, named, out);
        output.answer(&answer, arguments.json, json, |answer, layout| {
            text::requests_by_cause(answer, &arguments.argument(), layout)
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let explained = match (&arguments.request, arguments.slowest) {
        (Some(id), _) => Some(vec![find_request(&traced, id).map_err(requests_failure)?]),
        (None, Some(slowest)) => Some(answer.requests.iter().take(slowest).copied().collect()),
        (None, None) => None,
    };
    let write = |answer: &AloneAnswer<'_>, out: &mut dyn io::Write| {
        json::requests_alone(answer, explained.as_ref().unwrap_or(&answer.requests), out)
    };
    output.answer(&answer, arguments.json, write, |answer, layout| match &explained {
        Some(requests) => {
            let texts = requests.iter().map(|&which| text::request_alone(&traced, which, layout));
            texts.collect::<Vec<_>>().join("\n")
        }
        None => text::requests_alone(answer, &arguments.argument(), layout),
    })?;
    if let Some(slowest) = arguments.slowest {
        next_by_cause(arguments, slowest, output)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads recordings, and the spans from them and from files.
fn read(files: &[PathBuf]) -> Result<(Input, Traced, Recorded), Failure> {
    let (mut recordings, files): (Vec<PathBuf>, Vec<PathBuf>) =
        files.iter().cloned().partition(|path| !is_spans(path));
    if recordings.is_empty() {
        recordings.push(DEFAULT.into());
    }
    let traced = traced(&recordings, &files).map_err(spans_failure)?;
    let input = Input { recordings };
    // A missing recording is the better reason.
    if traced.requests.requests.is_empty() && input.recordings.iter().all(|path| path.exists()) {
        return Err(requests_failure(RequestsError::NoSpans));
    }
    let recorded = input.read()?;
    Ok((input, traced, recorded))
}

/// Explains an operation's requests together.
fn explain_group(
    arguments: &RequestsArguments,
    joined: &Joined<'_>,
    requests: RequestsQuery,
    (named, sources): (json::Named<'_>, &CodeSources),
    output: &Output,
) -> Result<ExitCode, Failure> {
    let query = GroupQuery { requests, peak: arguments.peak, algorithm: Algorithm::default() };
    let mut other = if arguments.compare.is_empty() { None } else { Some(read(&arguments.compare)?) };
    if let Some((_, _, recorded)) = &mut other {
        sources.serve(recorded);
    }
    let other = other.as_ref().map(|(_, traced, recorded)| join(recorded, traced)).transpose();
    let other = other.map_err(requests_failure)?;
    let answer = request_group(joined, &query, other.as_ref()).map_err(requests_failure)?;
    let argument = arguments.argument();
    let json = |answer: &_, out: &mut dyn io::Write| json::request_group(answer, named, out);
    output.answer(&answer, arguments.json, json, |answer, layout| {
        sources.shown(joined.recorded, text::request_group(answer, arguments.tree, &argument, layout))
    })?;
    Ok(ExitCode::SUCCESS)
}

impl RequestsArguments {
    fn query(&self) -> RequestsQuery {
        RequestsQuery { service: self.service.clone(), operation: self.operation.clone() }
    }

    fn range(&self) -> TimeRange {
        TimeRange { from: self.from, to: self.to }
    }

    /// How many requests to explain; `None` to list all.
    fn explained(&self) -> Option<usize> {
        const BY_CAUSE: usize = 100;
        self.slowest.or(self.by_cause.then_some(BY_CAUSE))
    }

    /// The recording and the files as arguments on a command line; empty for the default.
    fn argument(&self) -> String {
        self.words().iter().map(|word| format!(" {word}")).collect()
    }

    /// The recording and the files as words.
    fn words(&self) -> Vec<String> {
        self.files.iter().map(|path| path.display().to_string()).collect()
    }
}

/// Whether the path is a file with spans: a readable file with contents, and no recording in any format.
pub fn is_spans(path: &Path) -> bool {
    let has_contents = path.metadata().is_ok_and(|data| data.is_file() && data.len() > 0);
    has_contents && std::fs::File::open(path).is_ok() && !is_recording(path)
}

pub fn spans_failure(error: SpansError) -> Failure {
    let hint = match &error {
        SpansError::Format { .. } => {
            "give OTLP as the Collector's file exporter writes it (JSON or protobuf), or the JSON of Tempo, Jaeger or Zipkin (version 2)"
        }
        SpansError::Io { .. } | SpansError::TooLarge { .. } => "",
    };
    Failure::new(Code::Input, &error).hint(hint)
}

fn requests_failure(error: RequestsError) -> Failure {
    let hint = match &error {
        RequestsError::NoSpans => {
            "record with `wakepath record --otlp`, or give a file with spans: wakepath requests REC SPANS"
        }
        RequestsError::NoId(_) | RequestsError::NoneSo { .. } => "`wakepath requests` lists the longest ones",
        RequestsError::Several { .. }
        | RequestsError::SeveralSpans { .. }
        | RequestsError::SeveralParts { .. } => "write more digits",
        RequestsError::SeveralServices { .. } => "write one of these",
        RequestsError::SeveralOperations { .. } => "choose one with --service and --operation",
        RequestsError::NoPeak { .. } => "wakepath latency -i REC span:SERVICE/OPERATION shows the peaks",
        RequestsError::NoPaths { why } => match why.by_reason().first() {
            Some((NoPath::Outside, _)) => "`wakepath info` shows the time that was recorded",
            Some((NoPath::OtherHost, _)) => "give the recordings of all hosts: docs/requests.md says how",
            _ => "docs/requests.md says how to write the thread on each span",
        },
        RequestsError::EmptyTime => "`wakepath info` shows when the recording began and ended",
        RequestsError::NoneWithin { .. } => "`wakepath requests` without --from and --to shows their times",
        RequestsError::NoRealtime | RequestsError::IllFormed(_) => "",
    };
    let code = match &error {
        RequestsError::NoSpans | RequestsError::NoRealtime => Code::Input,
        _ => Code::Usage,
    };
    Failure::new(code, &error).hint(hint)
}
