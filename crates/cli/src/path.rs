//! `wakepath path`: where a thread's time went.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use wakepath_engine::requests::{Traced, traced};
use wakepath_engine::{
    Algorithm, Answer, CallsError, CallsQuery, Comm, Head, Name, Overview, PathAnswer, PathQuery, QueryError,
    Recorded, Severity, Subject, Tid, TimeSpec, Which, calls, has_calls_of, is_recording, path,
};
use wakepath_report::{json, problem, text};

use crate::debuginfod::{CodeSources, DebuginfodArguments};
use crate::exit_code::{self, Code, is_doubtful};
use crate::failure::Failure;
use crate::help;
use crate::input::{DEFAULT, Input};
use crate::output::Output;
use crate::parse::ns;
use crate::requests::{is_spans, spans_failure};

/// Show where a thread's time went: what it ran, what it waited for, and why
///
/// Without an option, explains the recorded command, from its exec to its exit. If the recording was not made for one
/// command, lists its threads with the time that each waited and ran.
#[derive(Debug, Args)]
#[command(after_help = help::first(EXAMPLES), after_long_help = EXAMPLES)]
pub struct PathArguments {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub window: WindowArguments,
    /// Show the exact critical path: the longest chain of running and waiting for devices, back from the end
    ///
    /// Waits ended by another thread count as nothing.
    #[arg(long, hide_short_help = true)]
    pub exact: bool,
    /// Show each wait that timed out as a wait for its timer
    ///
    /// Otherwise, waits that time out and resume are explained by what ended the last of them, where that is proved (a lock, whose owner
    /// ended it) or where a thread seems to wait in slices; the latter is ambiguous.
    #[arg(long, conflicts_with = "exact", hide_short_help = true)]
    pub as_timed_out: bool,
    /// Explain waits that timed out by what ended the last, also if they may have been different waits
    ///
    /// Their time is then ambiguous. Sleeps are never joined, nor is a single time-out of `epoll_wait`.
    #[arg(long, conflicts_with_all = ["exact", "as_timed_out"], hide_short_help = true)]
    pub join_timeouts: bool,
    #[command(flatten)]
    pub view: ViewArguments,
    #[command(flatten)]
    pub debuginfod: DebuginfodArguments,
    /// Exit with 1 if lost records or other problems affect the answer
    #[arg(long, hide_short_help = true)]
    pub strict: bool,
}

const EXAMPLES: &str = "\
Examples:
  wakepath path                            the command that was recorded
  wakepath path --tree                     each wait, with what the awaited thread did
  wakepath path --comm postgres --all      every thread of that name
  wakepath path --tid 912 --from 02:58:41 --to 02:58:43
  wakepath path web.rec db.rec --host db1 --comm postgres
  wakepath path --json | jq '.contributors[:3]'";

/// The threads to explain, and the part of their time.
#[derive(Debug, Args)]
pub struct WindowArguments {
    /// The time of this process
    #[arg(long, value_name = "PID", group = "subject")]
    pid: Option<u32>,
    /// The time of this thread
    #[arg(long, value_name = "TID", group = "subject")]
    tid: Option<u32>,
    /// The time of the thread with this name
    #[arg(long, value_name = "NAME", group = "subject")]
    comm: Option<String>,
    /// The threads in this cgroup, systemd unit or container
    #[arg(long, value_name = "CGROUP", group = "subject")]
    cgroup: Option<String>,
    /// The calls of a function recorded with `record --call`: the slow calls beside the usual calls
    #[arg(long, value_name = "TARGET", num_args = 0..=1, group = "subject")]
    call: Option<Option<String>>,
    /// With --call: the calls in this peak, numbered as in the histogram of `latency` and of this answer
    #[arg(long, value_name = "N", requires = "call", group = "which")]
    peak: Option<usize>,
    /// With --call: the calls that took longer than this (50ms)
    #[arg(long, value_name = "TIME", requires = "call", group = "which", value_parser = ns)]
    above: Option<u64>,
    /// With --call: the N slowest calls; 10 if neither --peak nor --above is given
    #[arg(long, value_name = "N", requires = "call", group = "which")]
    slowest: Option<usize>,
    /// The threads on this host, if recordings of several hosts are given
    #[arg(long, value_name = "HOST", hide_short_help = true)]
    host: Option<String>,
    /// If several threads match, answer for each
    #[arg(long, hide_short_help = true)]
    all: bool,
    /// Begin here: UTC (02:58:41.310), seconds since the start (1.5), or before the end (-5s)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<TimeSpec>,
    /// End here, in the same forms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<TimeSpec>,
}

/// The view of the answer; by default the first screen.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct ViewArguments {
    /// Show the tree of waits: each with what the awaited thread did, and its share of the window
    #[arg(long)]
    tree: bool,
    /// Show every segment of the path
    #[arg(long, hide_short_help = true)]
    segments: bool,
    /// Print the whole answer as JSON, for scripts
    #[arg(long)]
    json: bool,
    /// Show how the numbers were computed, and which are doubtful
    #[arg(long, hide_short_help = true)]
    explain: bool,
}

/// The views of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    Screen,
    Tree,
    Segments,
    Json,
    Explain,
}

impl PathArguments {
    fn algorithm(&self) -> Algorithm {
        match (self.exact, self.as_timed_out, self.join_timeouts) {
            (true, ..) => Algorithm::Exact,
            (_, true, _) => Algorithm::Active,
            (.., true) => Algorithm::JoinedIfAlike,
            _ => Algorithm::default(),
        }
    }
}

impl ViewArguments {
    fn view(&self) -> View {
        let flags = [
            (self.tree, View::Tree),
            (self.segments, View::Segments),
            (self.json, View::Json),
            (self.explain, View::Explain),
        ];
        flags.into_iter().find(|(set, _)| *set).map_or(View::Screen, |(_, view)| view)
    }
}

impl WindowArguments {
    /// The query for these options.
    pub fn query(&self, algorithm: Algorithm) -> PathQuery {
        let subject = subject(self.pid, self.tid, self.comm.as_deref(), self.cgroup.as_deref());
        let subject = subject.unwrap_or(Subject::Recorded);
        let host = self.host.as_deref().map(Name::from);
        PathQuery { subject, host, from: self.from, to: self.to, algorithm, all: self.all }
    }
}

/// The threads chosen by options; `None` without such an option.
pub fn subject(
    pid: Option<u32>,
    tid: Option<u32>,
    comm: Option<&str>,
    cgroup: Option<&str>,
) -> Option<Subject> {
    let pid = pid.map(|pid| Subject::Pid(Tid(pid)));
    pid.or(tid.map(|tid| Subject::Tid(Tid(tid))))
        .or(comm.map(|comm| Subject::Comm(Comm::new(comm.as_bytes()))))
        .or(cgroup.map(|cgroup| Subject::Cgroup(Name::from(cgroup))))
}

/// Reads the recording and prints the answer.
pub fn run(arguments: &PathArguments, output: &Output) -> Result<ExitCode, Failure> {
    let sources = arguments.debuginfod.sources(output, || false)?;
    if let Some(target) = &arguments.window.call {
        let (files, recordings) = arguments.input.recordings.iter().cloned().partition(|path| is_spans(path));
        let (input, mut recorded, target) = read_calls(Input { recordings }, target.as_deref())?;
        sources.serve(&mut recorded);
        let traced = spans_beside(&recorded, &input, &files)?;
        let code = run_calls(&recorded, traced.as_ref(), target, (arguments, &sources), output)?;
        sources.report(output);
        return Ok(code);
    }
    let mut recorded = arguments.input.read()?;
    sources.serve(&mut recorded);
    let query = arguments.window.query(arguments.algorithm());
    let asked = Asked { input: &arguments.input, is_made: false, sources: &sources };
    let doubtful = answer(&recorded, &query, arguments.view.view(), asked, output)?;
    sources.report(output);
    Ok(exit_code::for_answer(doubtful, arguments.strict))
}

/// Reads the recording with the requested calls. `--call` has an optional value, and the next word may be meant as the
/// recording: `path --call web.rec`. The word is read as a recording if it names a recording, no other is given, and the
/// default recording has no calls of this name.
fn read_calls(input: Input, target: Option<&str>) -> Result<(Input, Recorded, Option<&str>), Failure> {
    let Some(word) = target.filter(|word| is_recording(Path::new(word))) else {
        let recorded = input.read()?;
        return Ok((input, recorded, target));
    };
    let is_default = input.recordings.is_empty();
    let recorded = if is_default && !is_recording(Path::new(DEFAULT)) { None } else { Some(input.read()?) };
    match recorded {
        Some(recorded) if has_calls_of(&recorded, word) => Ok((input, recorded, target)),
        _ if is_default => {
            let input = Input { recordings: vec![PathBuf::from(word)] };
            let recorded = input.read()?;
            Ok((input, recorded, None))
        }
        _ => Err(Failure::new(
            Code::Usage,
            format!("`{word}` after --call is no function whose calls were recorded; it is a recording"),
        )
        .hint(format!(
            "--call=FUNCTION names the function; to read {word} alone: wakepath path {word} --call"
        ))),
    }
}

/// The spans from the recording and from files. `None` without files and without goroutines, which might have worked
/// for spans.
fn spans_beside(recorded: &Recorded, input: &Input, files: &[PathBuf]) -> Result<Option<Traced>, Failure> {
    if recorded.survey.goroutines.is_empty() && files.is_empty() {
        return Ok(None);
    }
    let default = [PathBuf::from(DEFAULT)];
    let recordings = if input.recordings.is_empty() { &default[..] } else { &input.recordings };
    traced(recordings, files).map(Some).map_err(spans_failure)
}

/// Prints what the chosen calls of a function waited for.
fn run_calls(
    recorded: &Recorded,
    traced: Option<&Traced>,
    target: Option<&str>,
    (arguments, sources): (&PathArguments, &CodeSources),
    output: &Output,
) -> Result<ExitCode, Failure> {
    let WindowArguments { peak, above, slowest, host, .. } = &arguments.window;
    if host.is_some() {
        let text = "--call and --host cannot be combined: --call explains the host of the first recording";
        return Err(
            Failure::new(Code::Usage, text).hint("give the recording of that host first, without --host")
        );
    }
    let which = match (peak, above) {
        (Some(peak), _) => Which::Peak(*peak),
        (_, Some(ns)) => Which::Above(*ns),
        _ => Which::Slowest(slowest.unwrap_or(10)),
    };
    let query = CallsQuery { target: target.map(String::from), which, algorithm: arguments.algorithm() };
    let answer = calls(recorded, traced, &query).map_err(|error| {
        Failure::new(Code::Usage, &error).hint(match error {
            CallsError::NothingAsked => {
                "wakepath record --call FILE:FUNCTION records the calls of a function"
            }
            CallsError::Several { .. } => "choose one with --call FUNCTION",
            CallsError::NoPeak { .. } => "wakepath latency -i REC FUNCTION shows the peaks",
            CallsError::NoneReturned { .. } => "record for longer, or choose a function that returns",
            _ => "",
        })
    })?;
    match arguments.view.view() {
        View::Json => {
            warn(&answer.head, output);
            output.write(|out| json::calls(&answer, out))?;
        }
        view => {
            let text = match view {
                View::Tree => text::merged(&answer, output.layout()),
                _ => text::calls(&answer, output.layout()),
            };
            output.text(&sources.shown(recorded, text))?;
        }
    }
    Ok(exit_code::for_answer(is_doubtful(&answer.head), arguments.strict))
}

/// The recording behind the answer, for the commands that the answer suggests.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The recordings read.
    pub input: &'a Input,
    /// The recording was just made, so the answer says where it is.
    pub is_made: bool,
    /// Notes the names that the answer lacks.
    pub sources: &'a CodeSources,
}

/// Computes and prints the answer, and returns whether losses or problems affect it.
pub fn answer(
    recorded: &Recorded,
    query: &PathQuery,
    view: View,
    asked: Asked<'_>,
    output: &Output,
) -> Result<bool, Failure> {
    let (argument, words) = (asked.input.argument(), asked.input.words());
    let source = if asked.is_made { text::Source::Made(&argument) } else { text::Source::Read(&argument) };
    let answer = path(recorded, query).map_err(|error| query_failure(recorded, error))?;
    Ok(match &answer {
        Answer::Paths(paths) => {
            for (i, path) in paths.iter().enumerate() {
                print_path(path, view, i > 0, (source, &words, asked.sources), output)?;
            }
            paths.iter().any(|path| is_doubtful(&path.head))
        }
        Answer::Overview(overview) => {
            print_overview(overview, view, (source, &words, asked.sources), output)?;
            is_doubtful(&overview.head)
        }
    })
}

/// Prints one path.
fn print_path(
    path: &PathAnswer,
    view: View,
    not_first: bool,
    (source, words, sources): (text::Source<'_>, &[String], &CodeSources),
    output: &Output,
) -> Result<(), Failure> {
    let layout = output.layout();
    let separator = if not_first { "\n" } else { "" };
    let text = match view {
        View::Json => {
            output.write(|out| json::path(path, words, out))?;
            warn(&path.head, output);
            return Ok(());
        }
        View::Screen => text::path(path, source, layout),
        View::Tree => text::tree(path, layout),
        View::Segments => text::segments(path, layout),
        View::Explain => text::explain(path, layout),
    };
    output.text(&sources.shown(path.recorded, format!("{separator}{text}")))?;
    // The other views show the warnings themselves.
    if matches!(view, View::Tree | View::Segments) {
        warn(&path.head, output);
    }
    Ok(())
}

fn print_overview(
    overview: &Overview,
    view: View,
    (source, words, sources): (text::Source<'_>, &[String], &CodeSources),
    output: &Output,
) -> Result<(), Failure> {
    if view == View::Json {
        output.write(|out| json::overview(overview, words, out))?;
        warn(&overview.head, output);
    } else {
        let text = text::overview(overview, source, output.layout());
        output.text(&sources.shown(overview.recorded, text))?;
    }
    Ok(())
}

/// Prints the problems to stderr, for views without them.
fn warn(head: &Head, output: &Output) {
    for problem in head.problems.iter().filter(|problem| problem.severity() > Severity::Note) {
        output.complain("warning", &problem::sentence(problem));
    }
}

/// The failure, with the threads to choose from if several match.
fn query_failure(recorded: &Recorded, error: QueryError) -> Failure {
    const LISTED: usize = 20;
    let mut details = Vec::new();
    if let QueryError::Several { candidates, .. } = &error {
        details.extend(candidates.iter().take(LISTED).map(|candidate| text::candidate(recorded, candidate)));
        if let Some(more @ 1..) = candidates.len().checked_sub(LISTED) {
            details.push(format!("and {more} more"));
        }
    }
    Failure::from(error).details(details)
}
