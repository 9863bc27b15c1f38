//! `wakepath requests`: how long requests took, and why one of them did.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use wakepath_engine::Algorithm;
use wakepath_engine::requests::{
    Joined, RequestIndex, RequestsError, RequestsQuery, SpansError, join, request, requests, traced,
};
use wakepath_report::{json, text};

use crate::exit_code::Code;
use crate::failure::Failure;
use crate::input::{DEFAULT, Input};
use crate::output::Output;

/// Show how long requests took, from the spans of distributed tracing, and why one of them took its time
///
/// The spans are those that `record --otlp` received, or those of files: OTLP (JSON or protobuf, as the OpenTelemetry
/// Collector writes them) or Jaeger's JSON. A request is a service's local root span.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RequestsArguments {
    /// The recording, and files with spans [default: ./wakepath.rec]
    #[arg(value_name = "REC|SPANS")]
    files: Vec<PathBuf>,
    /// Explain the request with this id: the first digits of its trace's, or TRACE/SPAN
    #[arg(long, value_name = "ID", conflicts_with_all = ["slowest", "service", "operation"])]
    request: Option<String>,
    /// Explain the N slowest requests
    #[arg(long, value_name = "N")]
    slowest: Option<usize>,
    /// Only requests to this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Only requests of this operation
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// Print JSON, for scripts; a document for each request that is explained
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  wakepath requests                          the operations, and their longest requests
  wakepath requests --slowest 1              why the longest one took its time
  wakepath requests --request 5b8efff798038103
  wakepath requests web.rec spans.json       the spans of a file beside a recording
  wakepath requests --service frontend --json | jq '.operations[].p99_ns'";

/// Reads the recording and the spans, and prints the answer.
pub fn run(arguments: &RequestsArguments, output: &Output) -> Result<ExitCode, Failure> {
    let (mut recordings, files): (Vec<PathBuf>, Vec<PathBuf>) =
        arguments.files.iter().cloned().partition(|path| !is_spans(path));
    if recordings.is_empty() {
        recordings.push(DEFAULT.into());
    }
    let traced = traced(&recordings, &files).map_err(spans_failure)?;
    let input = Input { recordings };
    // A recording that is not there is the better reason.
    if traced.requests.requests.is_empty() && input.recordings.iter().all(|path| path.exists()) {
        return Err(requests_failure(RequestsError::NoSpans));
    }
    let recorded = input.read()?;
    let of_recording = input.argument();
    let argument = arguments.argument();
    let joined = || join(&recorded, &traced).map_err(requests_failure);
    let explain = |joined: &Joined<'_>, which: RequestIndex| -> Result<(), Failure> {
        let answer = request(joined, which, Algorithm::default());
        output.answer(&answer, arguments.json, json::request, |answer, layout| {
            text::request(answer, text::Source::Read(&of_recording), &argument, layout)
        })?;
        Ok(())
    };
    if let Some(id) = &arguments.request {
        let which = traced.find(id).map_err(requests_failure)?;
        explain(&joined()?, which)?;
        return Ok(ExitCode::SUCCESS);
    }
    let query = RequestsQuery { service: arguments.service.clone(), operation: arguments.operation.clone() };
    let answer = requests(&recorded, &traced, &query).map_err(requests_failure)?;
    match arguments.slowest {
        Some(slowest) => {
            let joined = joined()?;
            for (place, &which) in answer.requests.iter().take(slowest).enumerate() {
                if place > 0 && !arguments.json {
                    output.text("\n")?;
                }
                explain(&joined, which)?;
            }
        }
        None => output.answer(&answer, arguments.json, json::requests, |answer, layout| {
            text::requests(answer, text::Source::Read(&argument), layout)
        })?,
    }
    Ok(ExitCode::SUCCESS)
}

impl RequestsArguments {
    /// The recording and the files as arguments of a command line; empty for the default.
    fn argument(&self) -> String {
        self.files.iter().map(|path| format!(" {}", path.display())).collect()
    }
}

/// Whether this is a file with spans: a file, and no trace of a tracer.
fn is_spans(path: &Path) -> bool {
    const TRACES: [&[u8]; 3] = [b"PERFILE2", b"2ELIFREP", b"\x17\x08\x44tracing"];
    let begins = std::fs::File::open(path).and_then(|file| {
        let mut begin = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(file, 16), &mut begin)?;
        Ok(begin)
    });
    path.is_file() && begins.is_ok_and(|begin| !TRACES.iter().any(|magic| begin.starts_with(magic)))
}

fn spans_failure(error: SpansError) -> Failure {
    let hint = match &error {
        SpansError::Format { .. } => {
            "give OTLP as the Collector's file exporter writes it (JSON or protobuf), or Jaeger's JSON"
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
        RequestsError::Several { .. } => "write more digits",
        RequestsError::NoRealtime | RequestsError::IllFormed(_) => "",
    };
    let code = match &error {
        RequestsError::NoSpans | RequestsError::NoRealtime => Code::Input,
        _ => Code::Usage,
    };
    Failure::new(code, &error).hint(hint)
}
