//! `wakepath drill`: the functions which make a function's slow calls slow.

mod look;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use wakepath_caller::Caller;
use wakepath_engine::drill::{HandOver, PhaseMarks};
use wakepath_live::drill::{
    BUDGET, ChosenPeaks, ChosenProcess, DrillCommand, DrillError, DrillProgress, DrillQuery, EndReason,
    KernelCodeError, Mode, Parameters, ParametersFile, PythonError, SavedSearch, Searched, choose_process,
    drill, drill_all, unrecorded,
};
use wakepath_live::latency::{AllowedProbes, Signals};
use wakepath_report::{json, text};

use crate::collecting;
use crate::exit_code::Code;
use crate::failure::Failure;
use crate::file;
use crate::help;
use crate::input::DEFAULT;
use crate::output::Output;
use crate::parse::{percent, time};
use look::{FirstLook, look};

/// Find the functions that make the calls of a peak slow, by samples and waits, then by probes level by level
///
/// The calls of TARGET (FILE:FUNCTION or kernel:FUNCTION as in `wakepath latency`, or python:FUNCTION) are counted first, and their latencies have
/// peaks. Then they are recorded for some seconds with samples and waits: a first answer, without any probe below TARGET. For the calls within a
/// peak, the functions called by TARGET are measured, then the functions called by the slowest, and so on: at each
/// level only the calls on the way, and only in this process. The answer is the path of calls to the function that takes the time. All probes are
/// removed at the end, also after Ctrl-C or if wakepath is killed.
#[derive(Debug, Clone, Args)]
#[command(after_help = help::first(EXAMPLES), after_long_help = EXAMPLES)]
pub struct DrillArguments {
    /// The function to start from [default with --resume: the saved one]
    #[arg(value_name = "TARGET", required_unless_present = "resume")]
    target: Option<String>,
    /// The process that calls TARGET [default: the process with the most time in it]
    #[arg(short = 'p', long = "pid", value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,
    /// Explain this peak, numbered as in the histogram of `latency`, or `all`, the slowest first [default: the slowest]
    #[arg(long, value_name = "N|all", value_parser = asked_peak)]
    peak: Option<AskedPeak>,
    /// Save the search in FILE at the end, also after Ctrl-C
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Continue the search in FILE, in the same process or in another with the same code
    #[arg(long, value_name = "FILE", conflicts_with = "peak")]
    resume: Option<PathBuf>,
    /// Stop the search after this time (1m)
    #[arg(short = 'd', long, value_name = "TIME", value_parser = time, default_value = "60s")]
    duration: Duration,
    /// Decide after N calls within the peak
    #[arg(long, value_name = "N", hide_short_help = true)]
    decision_calls: Option<u64>,
    /// Follow a path over at most N calls
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_depth: Option<u32>,
    /// Follow each function with at least this part of the most votes (percent)
    #[arg(long, value_name = "PERCENT", hide_short_help = true)]
    maxcount_percentage: Option<u32>,
    /// Do not look below calls that take less than 2^N ns
    #[arg(long, value_name = "N", hide_short_help = true)]
    min_bucket: Option<usize>,
    /// Count N calls of TARGET before choosing the peak; after 10 s fewer are enough
    #[arg(long, value_name = "N", hide_short_help = true)]
    start_ops: Option<u64>,
    /// Read parameters from a file of lines `key = value`; options override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Remove probes that take more than this part of the machine's time [default: 5%; 100% with --slow-probes]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    budget: Option<f64>,
    /// Also probe instructions that the kernel has to single-step, which costs 20 µs a call and more
    #[arg(long, hide_short_help = true)]
    slow_probes: bool,
    /// Promise that no exception passes the functions: cheaper probes, which end the program if an exception does
    #[arg(long, hide_short_help = true)]
    no_exceptions: bool,
    /// Measure calls by code put into the running process, not by kernel probes: some 20 ns a call
    #[arg(long)]
    stubs: bool,
    /// Measure only calls of TARGET that begin in a phase: after a call of this function, until a call of --phase-ends
    #[arg(long, value_name = "FILE:FUNCTION", hide_short_help = true)]
    phase_begins: Option<String>,
    /// Measure no calls of TARGET that begin after a call of this function, until a call of --phase-begins
    #[arg(long, value_name = "FILE:FUNCTION", hide_short_help = true)]
    phase_ends: Option<String>,
    /// Measure only calls of TARGET whose request another thread handed over by this function, as its argument N (1)
    #[arg(long, value_name = "FILE:FUNCTION[:N]", value_parser = submission, hide_short_help = true)]
    handed_over: Option<Submission>,
    /// The argument of TARGET that is the request
    #[arg(long, value_name = "N", requires = "handed_over", default_value = "1", hide_short_help = true)]
    request: u32,
    /// Count only requests handed over within a call of this function
    #[arg(long, value_name = "FILE:FUNCTION", requires = "handed_over", hide_short_help = true)]
    handed_over_within: Option<String>,
    /// Answer by samples and waits alone: no function below TARGET gets probes
    #[arg(long, conflicts_with_all = ["resume", "save", "no_samples"])]
    samples_only: bool,
    /// Do not record samples and waits first
    #[arg(long, alias = "no-waits", hide_short_help = true)]
    no_samples: bool,
    /// Record samples and waits of calls that take this long, ns, for `wakepath drill` itself
    #[arg(long, value_name = "ABOVE..TO", value_parser = range, hide = true)]
    look: Vec<(u64, u64)>,
    /// Record samples and waits with TARGET in their stacks, for `wakepath drill` itself
    #[arg(long, hide = true)]
    look_at_stacks: bool,
    /// Record the samples and waits into this directory
    #[arg(short, long, value_name = "REC", default_value = DEFAULT, hide_short_help = true)]
    output: PathBuf,
    /// Run the command as root too, not as the user who called sudo
    #[arg(long, requires = "command", hide_short_help = true)]
    as_root: bool,
    /// Print the votes of each decision too
    #[arg(long, hide_short_help = true)]
    explain: bool,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    /// The command to run, which calls the function, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A function that hands requests over, and the number of the argument with the request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Submission {
    function: String,
    argument: u32,
}

/// Reads `FILE:FUNCTION` or `FILE:FUNCTION:N`. No function name is a number.
fn submission(text: &str) -> Result<Submission, String> {
    let number = |last: &str| last.bytes().all(|byte| byte.is_ascii_digit()) && !last.is_empty();
    let (function, argument) = match text.rsplit_once(':') {
        Some((function, last)) if number(last) => {
            (function, last.parse().map_err(|_| format!("there is no argument {last}"))?)
        }
        _ => (text, 1),
    };
    Ok(Submission { function: function.to_owned(), argument })
}

const EXAMPLES: &str = "\
Examples:
  sudo wakepath drill ./server:handle_request -p 4242
                                     why is the slowest peak of handle_request slow?
  sudo wakepath drill libpq:PQexec -p 4242 --peak 1
                                     the same for the first peak
  sudo wakepath drill ./server:handle_request -p 4242 --peak all
                                     the same for each peak, one after another
  sudo wakepath drill sqlite3:sqlite3_step -- ./load-test
                                     the same in a command, which runs on when the answer is there
  sudo wakepath drill kernel:vfs_read -p 4242
                                     the same below a function of the kernel, for this process
  sudo wakepath drill python:handle -- /usr/bin/python3 app.py
                                     the same below a function of Python (python:views.py:handle is the one of that file)
  sudo wakepath drill ./server:work --handed-over ./server:submit_order:2 -p 4242
                                     why are those calls of a worker slow whose first argument is a request that another thread
                                     handed over as the second argument of submit_order?
  sudo wakepath drill ./server:handle_request -p 4242 -d 5s --save search
  sudo wakepath drill --resume search -p 4242 --save search
                                     five seconds of it now, and the rest later
  sudo wakepath latency ./server:handle_request -p 4242 -d 10s
                                     which peaks are there?";

/// Reads `ABOVE..TO`, ns.
fn range(text: &str) -> Result<(u64, u64), String> {
    let read =
        || Some(text.split_once("..")?).and_then(|(above, to)| Some((above.parse().ok()?, to.parse().ok()?)));
    read().ok_or_else(|| String::from("two numbers: ABOVE..TO"))
}

/// The peak to explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AskedPeak {
    Number(usize),
    All,
}

fn asked_peak(text: &str) -> Result<AskedPeak, String> {
    match text {
        "all" => Ok(AskedPeak::All),
        number => number.parse().map(AskedPeak::Number).map_err(|_| String::from("a number, or `all`")),
    }
}

/// The largest file with a saved search, bytes.
const MAX_SAVE: u64 = 64 << 20;

/// This command's own keys in a parameter file, beside the keys for decisions: none.
const OWN_KEYS: [&str; 0] = [];

/// Runs the verb.
pub fn run(arguments: &DrillArguments, output: &Output) -> Result<ExitCode, Failure> {
    drill_and_answer(arguments, output).map_err(|failure| failure.beside(&arguments.command))
}

fn drill_and_answer(arguments: &DrillArguments, output: &Output) -> Result<ExitCode, Failure> {
    let resume = arguments.resume.as_deref().map(read_search).transpose()?;
    let target = arguments.target.clone().or_else(|| Some(resume.as_ref()?.target().to_owned()));
    let Some(target) = target else { return Err(Failure::new(Code::Usage, "no function is chosen")) };
    if !arguments.look.is_empty() || arguments.look_at_stacks {
        return look(arguments, &target, output);
    }
    let wants_all = arguments.peak == Some(AskedPeak::All);
    if let Some(path) = &arguments.save {
        if wants_all {
            return Err(Failure::new(Code::Usage, "a saved search is that of one peak")
                .hint("leave --save out, or name the peak: --peak N"));
        }
        file::check_path(path)?;
    }
    let stop = collecting::watch_signals(!arguments.command.is_empty())?;
    let chosen = choose(arguments, &target, &stop, output)?;
    let arguments = &DrillArguments {
        pid: arguments.pid.or(chosen.as_ref().map(|chosen| chosen.pid)),
        ..arguments.clone()
    };
    let query = DrillQuery {
        target: target.clone(),
        pid: arguments.pid.unwrap_or(0),
        command: (!arguments.command.is_empty()).then(|| DrillCommand {
            words: arguments.command.clone(),
            caller: Caller::from_sudo().filter(|_| !arguments.as_root),
        }),
        peak: match arguments.peak {
            Some(AskedPeak::Number(number)) => Some(number),
            Some(AskedPeak::All) | None => None,
        },
        parameters: parameters(arguments)?,
        duration: arguments.duration,
        allowed: AllowedProbes {
            slow_probes: arguments.slow_probes,
            no_exceptions: arguments.no_exceptions,
            stubs: arguments.stubs,
        },
        budget: arguments.budget.unwrap_or(if arguments.slow_probes { 1.0 } else { BUDGET }),
        phases: PhaseMarks { begins: arguments.phase_begins.clone(), ends: arguments.phase_ends.clone() },
        hand_over: arguments.handed_over.as_ref().map(|by| HandOver {
            by: by.function.clone(),
            argument: by.argument,
            request: arguments.request,
            within: arguments.handed_over_within.clone(),
        }),
        resume,
    };
    let mut last = String::new();
    let mut progress = |moment: DrillProgress| {
        let text = said(&moment);
        if text != last {
            output.passing(&text);
            last = text;
        }
    };
    let unrecorded = unrecorded(&query);
    let mut first = FirstLook::new(arguments, &target, unrecorded, output);
    let found = {
        let mut look = |chosen: &ChosenPeaks| first.take(chosen);
        match wants_all {
            true => drill_all(&query, &stop, &mut progress, &mut look),
            false => drill(&query, &stop, &mut progress, &mut look),
        }
    };
    output.passing("");
    let mut found = match found {
        Ok(found) => found,
        Err(error) if error.is_about_probes() && arguments.command.is_empty() && !arguments.no_samples => {
            if !first.answer_instead(&error, query.pid) {
                return Err(failure(error, &target, arguments));
            }
            first
                .documents
                .iter()
                .try_for_each(|document| output.write(|out| writeln!(out, "{document}")))?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(failure(error, &target, arguments)),
    };
    for searched in &mut found.searched {
        searched.drilled.notes.extend(chosen.iter().map(ToString::to_string));
    }
    // Standard output belongs to the command; only a requested document goes there.
    let beside = output.beside(&arguments.command);
    let shown = if arguments.json { output } else { &beside };
    answer(&found.searched, &first, arguments, shown)?;
    let status = collecting::await_command(found.command, &arguments.command, "measured", &stop, shown)?;
    collecting::warn_of_probes(status, arguments.no_exceptions, shown);
    if arguments.samples_only && !first.shown {
        return Err(Failure::new(Code::Usage, "samples and waits gave no answer")
            .hint("without --samples-only, probes below the function answer"));
    }
    Ok(collecting::code_of_command(status))
}

/// The process with the most time in the function, where none was named.
fn choose(
    arguments: &DrillArguments,
    target: &str,
    stop: &Signals,
    output: &Output,
) -> Result<Option<ChosenProcess>, Failure> {
    if arguments.pid.is_some() || !arguments.command.is_empty() {
        return Ok(None);
    }
    output.passing("looking for the process with the most time in the function");
    let allowed = AllowedProbes {
        slow_probes: arguments.slow_probes,
        no_exceptions: arguments.no_exceptions,
        stubs: false,
    };
    let chosen = choose_process(target, allowed, stop);
    output.passing("");
    let chosen = chosen.map_err(|error| refusal(error, target, arguments))?;
    output.complain("note", &chosen.to_string());
    Ok(Some(chosen))
}

/// Prints the answers of the probes.
fn answer(
    found: &[Searched],
    first: &FirstLook<'_>,
    arguments: &DrillArguments,
    output: &Output,
) -> Result<(), Failure> {
    if arguments.json && arguments.samples_only {
        first.documents.iter().try_for_each(|document| output.write(|out| writeln!(out, "{document}")))?;
    }
    for (index, found) in found.iter().enumerate() {
        if arguments.json {
            let document = first.documents.get(index).map(String::as_str);
            output.write(|out| json::drill(&found.drilled, document, out))?;
        } else {
            let between = if index > 0 || first.shown { "\n" } else { "" };
            let text = text::drill(&found.drilled, arguments.explain, output.layout());
            output.text(&format!("{between}{text}"))?;
        }
    }
    if let (Some(path), Some(found)) = (&arguments.save, found.first()) {
        write_search(path, found, output)?;
    }
    Ok(())
}

/// The parameters from the file and the options; options override the file.
fn parameters(arguments: &DrillArguments) -> Result<Parameters, Failure> {
    let mut parameters = Parameters::default();
    if let Some(path) = &arguments.config {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(Code::Usage, format!("cannot read {shown}: {error}")))?;
        let file = ParametersFile::parse(&text, &OWN_KEYS)
            .map_err(|error| Failure::new(Code::Usage, format!("{shown}: {error}")))?;
        parameters = file.parameters;
        if parameters.mode == Mode::Manual {
            return Err(Failure::new(
                Code::Usage,
                format!("{shown}: this command decides by itself: `mode` is `automatic`"),
            ));
        }
    }
    let given = arguments;
    parameters.decision_calls = given.decision_calls.unwrap_or(parameters.decision_calls);
    parameters.max_depth = given.max_depth.unwrap_or(parameters.max_depth);
    parameters.maxcount_percentage = given.maxcount_percentage.unwrap_or(parameters.maxcount_percentage);
    parameters.min_bucket = given.min_bucket.unwrap_or(parameters.min_bucket);
    parameters.start_ops = given.start_ops.unwrap_or(parameters.start_ops);
    Ok(parameters)
}

/// The progress in words.
fn said(moment: &DrillProgress) -> String {
    match moment {
        DrillProgress::Counted(calls) => format!("counting: {calls} calls"),
        DrillProgress::Peak(peak) => format!("explaining {} calls", peak.count),
        DrillProgress::Measuring { sites, of, calls } => {
            let mut paths: Vec<String> = of.iter().map(|path| path.join(" > ")).collect();
            if paths.len() > 1 {
                let others = paths.len() - 1;
                paths.truncate(1);
                paths.push(format!("{others} more"));
            }
            let calls = calls.map_or_else(String::new, |(seen, of)| format!(", {seen} of {of} calls"));
            format!("{}: measuring {sites} callees{calls}", paths.join(" and "))
        }
        DrillProgress::Sampling { function } => format!("sampling {function}"),
        DrillProgress::Looking { functions } => format!("looking at {functions} functions of Python"),
        DrillProgress::Watching { sites } => format!("watching {sites} indirect calls"),
    }
}

/// Reads a saved search from a file.
fn read_search(path: &Path) -> Result<SavedSearch, Failure> {
    let shown = path.display();
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_SAVE).read_to_string(&mut text));
    read.map_err(|error| Failure::new(Code::Input, format!("cannot read `{shown}`: {error}")))?;
    SavedSearch::parse(&text).map_err(|error| {
        Failure::new(Code::Input, format!("`{shown}`: {error}"))
            .hint("wakepath drill TARGET -p PID --save FILE makes such a file")
    })
}

/// Saves the search in a file.
fn write_search(path: &Path, found: &Searched, output: &Output) -> Result<(), Failure> {
    let Some(search) = &found.save else {
        let why = if found.drilled.of_python {
            "the search was not saved: nothing shows whether another process has the same functions of Python"
        } else {
            "the search was not saved: a file with one of its functions names no build (`cc -Wl,--build-id`)"
        };
        output.complain("note", why);
        return Ok(());
    };
    let text = search.text().map_err(|error| Failure::new(Code::Input, format!("cannot save: {error}")))?;
    file::write(path, |mut file| file.write_all(text.as_bytes()))?;
    let shown = path.display();
    output.complain(
        "note",
        &format!("the search is saved; wakepath drill --resume {shown} -p PID goes on with it"),
    );
    Ok(())
}

fn failure(error: DrillError, target: &str, arguments: &DrillArguments) -> Failure {
    let is_ended = error.ends_the_command() && !arguments.command.is_empty();
    let details = if is_ended { vec![String::from("the command was ended")] } else { Vec::new() };
    refusal(error, target, arguments).details(details)
}

/// The sentence about an error, and the next step.
fn refusal(error: DrillError, target: &str, arguments: &DrillArguments) -> Failure {
    let text = error.to_string();
    let pid = arguments.pid.map_or_else(|| String::from("PID"), |pid| pid.to_string());
    match error {
        DrillError::Target(error) => collecting::target_failure(error),
        DrillError::Collect(error) => collecting::collect_failure(&error),
        DrillError::Memory { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Failure::new(Code::Usage, format!("there is no process {pid}"))
                .hint("ps lists the running processes")
        }
        DrillError::Memory { .. } => Failure::new(Code::Rights, text).hint("run with sudo"),
        DrillError::NotAFunction(_) => {
            Failure::new(Code::Usage, text).hint("wakepath latency counts system calls, waits and disks")
        }
        DrillError::Several { .. } => Failure::new(Code::Usage, text).hint("write its whole name"),
        DrillError::InNoProcess(_) | DrillError::NoPython => Failure::new(Code::Usage, text)
            .hint("start the program, or let the drill-down start it: wakepath drill TARGET -- COMMAND"),
        DrillError::NoneChosen { .. } | DrillError::SeveralPythons(_) => {
            Failure::new(Code::Usage, text).hint(format!("name the process: wakepath drill {target} -p PID"))
        }
        DrillError::Python(PythonError::Process { .. }) => Failure::new(Code::Rights, text).hint("run with sudo"),
        DrillError::Python(
            PythonError::NoProbes { .. } | PythonError::Release { .. } | PythonError::OldRelease { .. },
        ) => Failure::new(Code::Rights, text).hint(
            "run the program by Debian 12's /usr/bin/python3, or by a CPython 3.11 that was built with `./configure --with-dtrace`",
        ),
        DrillError::Python(_) => Failure::new(Code::Usage, text)
            .hint("a drill-down into other programs needs FILE:FUNCTION"),
        DrillError::SeveralOfPython { .. } => {
            Failure::new(Code::Usage, text).hint("write python:FILE.py:FUNCTION, with as much of the path as it needs, or python:CLASS.FUNCTION")
        }
        DrillError::NotCalledInPython { .. } => Failure::new(Code::Usage, text)
            .hint("a function of Python is known when it is called: begin at one that is"),
        DrillError::StubsInGo | DrillError::StubsInKernel | DrillError::StubsInPython => Failure::new(Code::Usage, text).hint("leave --stubs out"),
        DrillError::StubsBelowExceptions { .. } => Failure::new(Code::Usage, text)
            .hint("leave --stubs out, or promise with --no-exceptions that none passes the functions"),
        DrillError::Kernel(KernelCodeError::Unreadable { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            Failure::new(Code::Rights, text).hint(
                "a drill-down into the kernel needs one that shows its memory (CONFIG_PROC_KCORE) and allows kprobes; \
                 begin at a function of the program: the waits below it explain its system calls",
            )
        }
        DrillError::Kernel(KernelCodeError::Unreadable { .. } | KernelCodeError::NoAddresses) => {
            Failure::new(Code::Rights, text).hint("run with sudo")
        }
        DrillError::NoSuchPeak { .. } => Failure::new(Code::Usage, text)
            .hint(format!("wakepath latency {target} -p {pid} -d 10s shows its calls and their peaks")),
        DrillError::Resume(_) => Failure::new(Code::Input, text)
            .hint(format!("wakepath drill {target} -p {pid} begins a new search")),
        DrillError::TooOften { .. } => Failure::new(Code::Usage, text).hint(
            "begin at a function that is called less often, such as its caller; --budget allows more, and --slow-probes whatever it takes",
        ),
        DrillError::NotCalled { .. } => Failure::new(Code::Usage, text).hint(format!(
            "wakepath latency -a {target} -d 10s counts its calls in all processes; if there are none, begin at a function that \
             calls it"
        )),
        DrillError::NoPhase { begins, .. } => Failure::new(Code::Usage, text).hint(format!(
            "wakepath latency -a {begins} -d 10s counts its calls; search for longer (-d) if it is called rarely"
        )),
        DrillError::HandOverInKernel { .. } | DrillError::HandOverInPython { .. } => {
            Failure::new(Code::Usage, text).hint("requests are followed between functions of C, C++, Rust and Go")
        }
        DrillError::NoRegister { .. } => Failure::new(Code::Usage, text).hint(
            "arguments are counted from 1 (in C++ and Rust, `this` or `self` is the first), without floating-point numbers; another \
             function on the way may have the request earlier in its list",
        ),
        DrillError::NotHandedOver { by, .. } => Failure::new(Code::Usage, text).hint(format!(
            "wakepath latency -a {by} -d 10s counts its calls; search for longer (-d) if it is called rarely"
        )),
        DrillError::HandedOverElsewhere { .. } => Failure::new(Code::Usage, text)
            .hint("leave --handed-over-within out, or name a function that calls it in the same thread"),
        DrillError::NullRequests { by, .. } => Failure::new(Code::Usage, text)
            .hint(format!("choose another argument: --handed-over {by}:N")),
        DrillError::NoneBegan { by, .. } => Failure::new(Code::Usage, text).hint(format!(
            "choose other arguments: --handed-over {by}:N --request M; a request that is copied on its way has another address then"
        )),
        DrillError::CallersUnseen { .. } => Failure::new(Code::Usage, text)
            .hint("begin at a function that calls it, or at a function that it calls"),
        DrillError::NotReturned { .. } => Failure::new(Code::Usage, text).hint(format!(
            "begin at a function below it that returns; wakepath record -p {pid} -d 10s, then wakepath path, shows what the \
             process does meanwhile"
        )),
        DrillError::EndedBefore { reason: EndReason::Ended, .. } => Failure::new(Code::Usage, text)
            .hint("let the program run for longer, or choose the peak from fewer calls: --start-ops N"),
        DrillError::EndedBefore { .. } => Failure::new(Code::Usage, text)
            .hint("search for longer (-d), or choose the peak from fewer calls: --start-ops N"),
        DrillError::Unloaded { .. } | DrillError::NotMapped { .. } => Failure::new(Code::Usage, text)
            .hint("drill while the process has the file loaded: /proc/PID/maps lists what it has"),
        _ => Failure::new(Code::Usage, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_behind_a_function_is_that_of_its_argument() {
        let read = |text| submission(text).map(|found| (found.function, found.argument));
        for (text, function, argument) in [
            ("./shop:submit", "./shop:submit", 1),
            ("./shop:submit:2", "./shop:submit", 2),
            ("./shop:shop::Queue::push", "./shop:shop::Queue::push", 1),
            ("./shop:shop::Queue::push:3", "./shop:shop::Queue::push", 3),
            ("./shop:main.submit:0", "./shop:main.submit", 0),
        ] {
            assert_eq!(read(text), Ok((function.to_owned(), argument)));
        }
        assert_eq!(read("./shop:submit:99999999999"), Err(String::from("there is no argument 99999999999")));
    }
}
