//! `wakepath path`: why it was slow.

use std::process::ExitCode;

use clap::Args;
use wakepath_engine::{
    Algorithm, Answer, CallsError, CallsQuery, Head, Name, Overview, PathAnswer, PathQuery, QueryError,
    Recorded, Subject, TimeSpec, Which, calls, duration, path,
};
use wakepath_report::{json, text};

use crate::failure::{Code, Failure};
use crate::input::Input;
use crate::output::{Output, exit_code};

/// Tell why it was slow: what a window of a thread's time went to
///
/// Without an option, the command that was recorded, from its exec to its exit. Where a recording has
/// no single window, threads are listed, with what they did and whom to ask about.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PathArguments {
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub window: WindowArguments,
    /// The longest path back from the end, waits that threads ended taken as nothing
    #[arg(long)]
    pub exact: bool,
    /// Where a wait timed out and the thread went back to it, tell what the whole wait was for
    #[arg(long, conflicts_with = "exact")]
    pub join_timeouts: bool,
    #[command(flatten)]
    pub view: ViewArguments,
    /// Exit with 1 when losses or doubts touch the answer
    #[arg(long)]
    pub strict: bool,
}

const EXAMPLES: &str = "\
Examples:
  wakepath path                            the command that was recorded
  wakepath path --tree                     who waited for whom
  wakepath path --comm postgres --all      every thread of that name
  wakepath path --tid 912 --from 02:58:41 --to 02:58:43
  wakepath path web.rec db.rec --host db1 --comm postgres
  wakepath path --json | jq '.contributors[:3]'";

/// Whose time, and which part of it.
#[derive(Debug, Args)]
pub struct WindowArguments {
    /// The time of this process
    #[arg(long, value_name = "PID", group = "subject")]
    pid: Option<u32>,
    /// The time of this thread
    #[arg(long, value_name = "TID", group = "subject")]
    tid: Option<u32>,
    /// The time of the thread of this name
    #[arg(long, value_name = "NAME", group = "subject")]
    comm: Option<String>,
    /// The threads of this cgroup, systemd unit or container
    #[arg(long, value_name = "CGROUP", group = "subject")]
    cgroup: Option<String>,
    /// The calls of a function that was recorded with `record --call`: what the slow ones waited for, beside
    /// the usual ones
    #[arg(long, value_name = "TARGET", num_args = 0..=1, group = "subject")]
    call: Option<Option<String>>,
    /// With --call: those of this peak, as `latency` and this answer number them
    #[arg(long, value_name = "N", requires = "call", group = "which")]
    peak: Option<usize>,
    /// With --call: those that took longer than this: 50ms
    #[arg(long, value_name = "TIME", requires = "call", group = "which", value_parser = ns)]
    above: Option<u64>,
    /// With --call: so many that took longest; 10 if nothing else is asked
    #[arg(long, value_name = "N", requires = "call", group = "which")]
    slowest: Option<usize>,
    /// Of several hosts' recordings, the threads of this host
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Where several threads fit, answer for each
    #[arg(long)]
    all: bool,
    /// From here on: UTC (02:58:41.310), seconds since the start (1.5), or before the end (-5s)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<TimeSpec>,
    /// Up to here, in the same forms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<TimeSpec>,
}

/// How the answer is shown; the first screen without any.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct ViewArguments {
    /// Who waited for whom, recursively, with shares of the window
    #[arg(long)]
    tree: bool,
    /// Every segment of the path
    #[arg(long)]
    segments: bool,
    /// The whole answer as JSON, for scripts
    #[arg(long)]
    json: bool,
    /// How the numbers were made, and what is doubtful
    #[arg(long)]
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
        match (self.exact, self.join_timeouts) {
            (true, _) => Algorithm::Exact,
            (false, true) => Algorithm::Joined,
            (false, false) => Algorithm::Active,
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
    /// What is meant.
    pub fn query(&self, algorithm: Algorithm) -> PathQuery {
        use wakepath_engine::{Comm, Tid};
        let subject = if let Some(pid) = self.pid {
            Subject::Pid(Tid(pid))
        } else if let Some(tid) = self.tid {
            Subject::Tid(Tid(tid))
        } else if let Some(comm) = &self.comm {
            Subject::Comm(Comm::new(comm.as_bytes()))
        } else if let Some(cgroup) = &self.cgroup {
            Subject::Cgroup(Name::from(cgroup.as_str()))
        } else {
            Subject::Recorded
        };
        let host = self.host.as_deref().map(Name::from);
        PathQuery { subject, host, from: self.from, to: self.to, algorithm, all: self.all }
    }
}

/// Reads the recording and answers.
pub fn run(arguments: &PathArguments, output: &Output) -> Result<ExitCode, Failure> {
    let recorded = arguments.input.read()?;
    if let Some(target) = &arguments.window.call {
        return of_calls(&recorded, target.clone(), arguments, output);
    }
    let query = arguments.window.query(arguments.algorithm());
    let argument = arguments.input.argument();
    let source = text::Source::Read(&argument);
    let doubtful = answer(&recorded, &query, arguments.view.view(), source, output)?;
    Ok(exit_code(doubtful, arguments.strict))
}

/// What the calls of a function that are asked about waited for.
fn of_calls(
    recorded: &Recorded,
    target: Option<String>,
    arguments: &PathArguments,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let WindowArguments { peak, above, slowest, host, .. } = &arguments.window;
    if host.is_some() {
        let failure = Failure::new(Code::Usage, "--call asks about the host of the first recording");
        return Err(
            failure.hint("give the recording of the host whose calls are meant first, without --host")
        );
    }
    let which = match (peak, above) {
        (Some(peak), _) => Which::Peak(*peak),
        (_, Some(ns)) => Which::Above(*ns),
        _ => Which::Slowest(slowest.unwrap_or(10)),
    };
    let query = CallsQuery { target, which, algorithm: arguments.algorithm() };
    let answer = calls(recorded, &query).map_err(|error| {
        let failure = Failure::new(Code::Usage, error.to_string());
        match error {
            CallsError::NothingAsked => failure.hint("wakepath record --call FILE:FUNCTION records them"),
            CallsError::Several { .. } => failure.hint("--call FUNCTION says which"),
            CallsError::NoPeak { .. } => failure.hint("wakepath latency -i REC FUNCTION shows them"),
            CallsError::NoneReturned { .. } => failure.hint("record for longer, or a function that returns"),
            _ => failure,
        }
    })?;
    match arguments.view.view() {
        View::Json => {
            warn(&answer.head, output)?;
            output.write(|out| json::calls(&answer, out))?;
        }
        View::Tree => output.text(&text::merged(&answer, output.paper()))?,
        _ => output.text(&text::calls(&answer, output.paper()))?,
    }
    Ok(exit_code(is_doubtful(&answer.head), arguments.strict))
}

fn ns(text: &str) -> Result<u64, String> {
    duration(text).ok_or_else(|| String::from("write 50ms, 2.5s or 300us"))
}

/// Puts the question and shows the answer; says whether losses or doubts touch it. `source` is the
/// recording as further questions name it.
pub fn answer(
    recorded: &Recorded,
    query: &PathQuery,
    view: View,
    source: text::Source<'_>,
    output: &Output,
) -> Result<bool, Failure> {
    let answer = path(recorded, query).map_err(|error| ask_back(recorded, error))?;
    Ok(match &answer {
        Answer::Paths(paths) => {
            for (i, path) in paths.iter().enumerate() {
                show(path, view, i > 0, source, output)?;
            }
            paths.iter().any(|path| is_doubtful(&path.head))
        }
        Answer::Overview(overview) => {
            show_overview(overview, view, source, output)?;
            is_doubtful(&overview.head)
        }
    })
}

/// Shows one answer; the first screen is also what `record` ends with.
fn show(
    path: &PathAnswer,
    view: View,
    not_first: bool,
    source: text::Source<'_>,
    output: &Output,
) -> Result<(), Failure> {
    let paper = output.paper();
    let separator = if not_first { "\n" } else { "" };
    let text = match view {
        View::Json => {
            output.write(|out| json::path(path, out))?;
            return warn(&path.head, output);
        }
        View::Screen => text::path(path, source, paper),
        View::Tree => text::tree(path, paper),
        View::Segments => text::segments(path, paper),
        View::Explain => text::explain(path, paper),
    };
    output.text(&format!("{separator}{text}"))?;
    match view {
        // Its own warnings are on it.
        View::Screen | View::Explain => Ok(()),
        _ => warn(&path.head, output),
    }
}

fn show_overview(
    overview: &Overview,
    view: View,
    source: text::Source<'_>,
    output: &Output,
) -> Result<(), Failure> {
    match view {
        View::Json => {
            output.write(|out| json::overview(overview, out))?;
            warn(&overview.head, output)
        }
        View::Screen => Ok(output.text(&text::overview(overview, source, output.paper()))?),
        View::Tree | View::Segments | View::Explain => {
            Ok(output.text(&text::overview(overview, source, output.paper()))?)
        }
    }
}

fn is_doubtful(head: &Head) -> bool {
    use wakepath_engine::Severity;
    !head.losses.is_empty() || head.problems.iter().any(|problem| problem.severity > Severity::Note)
}

/// Views that do not show what is doubtful say it on stderr.
fn warn(head: &Head, output: &Output) -> Result<(), Failure> {
    use wakepath_engine::Severity;
    for problem in head.problems.iter().filter(|problem| problem.severity > Severity::Note) {
        output.complain("warning", &problem.text);
    }
    Ok(())
}

/// Several threads fit: which are they?
fn ask_back(recorded: &Recorded, error: QueryError) -> Failure {
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
