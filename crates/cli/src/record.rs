//! `wakepath record`: records this machine, then prints where the time went.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use clap::Args;
use wakepath_caller::Caller;
use wakepath_engine::{PathQuery, Recorded};
use wakepath_live::command::CommandEnd;
use wakepath_live::go_trace::{GoTrace, GoTraceUrl, MAX_GO_TRACES, ReadGoTrace};
use wakepath_live::record::{
    AllowedProbes, Callers, Goroutines, Kept, MIN_FREE_PERCENT, Made, Options, Place, RecordError, Request,
    Stacks, UnreadContexts, find_go, go_programs, record,
};
use wakepath_live::spans::{self, ForwardUrl, ListenAt, ReceiverError, SpanReceiver};
use wakepath_report::text;

use crate::debuginfod::{CodeSources, DebuginfodArguments};
use crate::exit_code::Code;
use crate::failure::Failure;
use crate::flight::FlightArguments;
use crate::help;
use crate::input::{DEFAULT, Input};
use crate::output::Output;
use crate::parse::{Named, buffer, one_of, percent, samples, size, time};
use crate::starting::Starting;
use crate::{collecting, path, requests};

/// Record this machine, and show where the time went
///
/// The whole machine is always recorded, since any thread may be waited for. A command, -p, --cgroup or -a chooses
/// whose time is explained. Only the user who made a recording can read it. Under sudo, the command runs as the user
/// who called sudo.
#[derive(Debug, Args)]
#[command(after_help = help::first(EXAMPLES), after_long_help = EXAMPLES)]
pub struct RecordArguments {
    /// Explain these processes, and record until they end
    #[arg(short = 'p', long = "pid", value_name = "PID", value_delimiter = ',', conflicts_with_all = ["cgroup", "command"])]
    pids: Vec<u32>,
    /// Explain the threads in this cgroup, systemd unit or container
    #[arg(long, value_name = "CGROUP", conflicts_with_all = ["command", "everything"])]
    cgroup: Option<String>,
    /// Explain the whole machine
    #[arg(short = 'a', long = "all", conflicts_with_all = ["pids", "command"])]
    everything: bool,
    /// Stop recording after this time (10, 2.5s, 5min); a command is not stopped
    #[arg(short = 'd', long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
    /// Write the recording here; an existing recording is renamed to REC.old
    #[arg(short = 'o', long = "output", value_name = "REC", default_value = DEFAULT)]
    output: PathBuf,
    /// Stop recording at this size (512M, 2G)
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = size, hide_short_help = true)]
    max_size: u64,
    /// Buffer memory for each CPU, from 16K to 1G
    ///
    /// A larger buffer loses fewer records in a burst.
    #[arg(long, value_name = "SIZE", default_value = "8M", value_parser = buffer, hide_short_help = true)]
    buffer: usize,
    /// Stacks of running threads, per second and CPU, up to 10000; 0 for none
    #[arg(long, value_name = "RATE", default_value_t = 99, value_parser = samples, hide_short_help = true)]
    samples: u32,
    /// Also record stacks where a thread begins to wait and where it wakes another
    ///
    /// The answer then names the functions that wait. `remembered`: a thread that waits as it did before is assumed
    /// to have the same stack, which is checked now and then. `each`: every stack is read, at many times the cost.
    #[arg(
        long,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "remembered",
        value_parser = one_of(&STACKS),
        conflicts_with = "path_only",
        hide_short_help = true,
    )]
    stacks: Option<Stacks>,
    /// Find the callers in stacks and samples by frame pointers alone: no stack memory is copied
    ///
    /// Functions without a frame pointer then have wrong callers, or none. Otherwise callers are found by the files'
    /// tables for unwinding.
    #[arg(long, conflicts_with = "path_only", hide_short_help = true)]
    frame_pointers: bool,
    /// Record each call of this function (libc:malloc, ./app:handle_*, kernel:vfs_read) as a window of its own
    ///
    /// `wakepath path --call` then shows what the slow calls waited for.
    #[arg(long = "call", value_name = "TARGET")]
    calls: Vec<String>,
    /// With --call: remove single-stepped probes (some 20 µs a call) above this share in all CPUs' time [default: 5%;
    /// no limit with --slow-probes]
    #[arg(long, value_name = "PERCENT", value_parser = percent, requires = "calls", hide_short_help = true)]
    budget: Option<f64>,
    /// With --call: keep single-stepped probes, whatever they take
    #[arg(long, requires = "calls", hide_short_help = true)]
    slow_probes: bool,
    /// With --call: use return probes everywhere; may crash the program if an exception passes the probe
    ///
    /// The program may also crash if it switches stacks within a probed function, as coroutines do.
    #[arg(long, requires = "calls", hide_short_help = true)]
    no_exceptions: bool,
    /// Also receive the spans that services send (OTLP: gRPC and HTTP), at PORT of this host or at HOST:PORT
    ///
    /// Without ADDR, at the standard ports 4317 and 4318 of this host; each port takes every protocol. The command gets
    /// OTEL_EXPORTER_OTLP_ENDPOINT with the address, unless it knows where to send its spans. The recording keeps the spans' names,
    /// times and ids, and the attributes listed in docs/security.md.
    #[arg(long, value_name = "ADDR", num_args = 0..=1)]
    otlp: Option<Option<ListenAt>>,
    /// With --otlp: forward all received data unchanged to this backend (http://10.0.0.3:4317)
    ///
    /// The backend's answer goes to the client. With one of the standard ports, gRPC goes to 4317 and HTTP to 4318; any other port takes
    /// both.
    #[arg(long, value_name = "URL", requires = "otlp", hide_short_help = true)]
    otlp_forward: Option<ForwardUrl>,
    /// With --otlp: also keep this attribute of spans and resources (db.statement, shop.*)
    #[arg(long = "otlp-attribute", value_name = "KEY", requires = "otlp", hide_short_help = true)]
    otlp_attributes: Vec<String>,
    /// Also record goroutines: which thread runs which, why each waits, and which other makes it ready
    ///
    /// With --otlp, spans in Go programs then belong to goroutines. Each step of a goroutine (it waits, is made ready, runs) takes its
    /// thread about 1 µs longer; services whose goroutines do little else between steps get many times slower. Programs by Go 1.18 and
    /// later are understood; without debug information, only the versions in docs/requests.md.
    #[arg(
        long,
        value_name = "WHICH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        value_parser = one_of(&GOROUTINES)
    )]
    goroutines: Option<Goroutines>,
    /// Take goroutines from Go's own execution trace, which the program serves at URL by net/http/pprof, in place of probes
    ///
    /// URL is HOST:PORT or http://HOST:PORT, with /debug/pprof/trace unless it has another path. The trace lasts as long as the recording and
    /// stands in it. It costs a program by Go 1.22 or later a few percent (docs/requests.md), in place of 1 µs for each step. Spans cost 1 µs each. The program
    /// must run on this host, outside of containers. Repeat the option for several programs.
    #[arg(long = "go-trace", value_name = "URL", conflicts_with_all = ["goroutines", "flight"])]
    go_traces: Vec<GoTraceUrl>,
    /// With --goroutines: put each probe by a separate event, as before Linux 6.6
    ///
    /// `wakepath-bench requests` measures the difference.
    #[arg(long, hide = true)]
    single_probes: bool,
    /// Also record the call that failed before each sleep, and calls that fail again and again
    ///
    /// The answer then says for what a program polls; for a file lock it does so without this option. Meanwhile each system call on
    /// the machine takes some 0.15 µs longer, also in processes that are not asked about (docs/failed-calls.md).
    #[arg(long, conflicts_with = "path_only", hide_short_help = true)]
    failed_calls: bool,
    #[command(flatten)]
    flight: FlightArguments,
    /// Record only what a path needs, at the least cost: no system calls, lock words or stacks
    #[arg(long, hide_short_help = true)]
    path_only: bool,
    /// Do not first measure, for some 60 ms, the cost of recording on this machine
    ///
    /// It is measured once in an hour, by root: later recordings with the same options begin at once.
    /// The answer then does not say how much longer threads ran for the recording. The measurement loads one CPU, which
    /// another recorder sees.
    #[arg(long, hide_short_help = true)]
    no_calibration: bool,
    /// Also record the command lines of the command and its descendants, which `wakepath info` prints
    ///
    /// Only of processes that run as you: not of those that run as another user, nor with another user's rights, as sudo does.
    /// Command lines may hold passwords (docs/security.md). Otherwise a script's name alone is recorded.
    #[arg(long, requires = "command", conflicts_with_all = ["pids", "cgroup", "everything"], hide_short_help = true)]
    arguments: bool,
    /// Run the command as root, not as the user who called sudo
    #[arg(long, hide_short_help = true)]
    as_root: bool,
    #[command(flatten)]
    debuginfod: DebuginfodArguments,
    /// Print the answer as JSON, on stdout
    #[arg(long)]
    json: bool,
    /// The command to run and to explain, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The ways to take stacks.
const STACKS: [Named<Stacks>; 2] = [("remembered", None, Stacks::Remembered), ("each", None, Stacks::Each)];

/// The Go programs whose goroutines are recorded.
const GOROUTINES: [Named<Goroutines>; 3] = [
    (
        "asked",
        Some(
            "those of the command, of -p and of --cgroup, and of all that these start; none with -a (the default with --otlp)",
        ),
        Goroutines::Asked,
    ),
    ("all", Some("those of all Go programs, also of those that start meanwhile"), Goroutines::All),
    ("none", Some("none (the default without --otlp)"), Goroutines::None),
];

const EXAMPLES: &str = "\
Examples:
  sudo wakepath record -- make -j4       why does the build take so long?
  sudo wakepath record -p 912 -d 10      what does this server do for ten seconds?
  sudo wakepath record -a                the whole machine, until Ctrl-C
  sudo wakepath record --call ./it:handle -p 912 -d 10
                                         each call; then: wakepath path --call handle --peak 2
  sudo wakepath record --stacks -- ./it  which functions wait?
  sudo wakepath record --otlp -a -d 60   with the spans that the services of this host send
  sudo wakepath record --otlp --goroutines=none -p 912 -d 60
                                         a Go service that must not get slower
  sudo wakepath record --flight 30s -a   nothing on the disk; wakepath trigger keeps the last 30 s
  sudo wakepath record --flight 30s --otlp --trigger-span 'shop/*>2s' -a
                                         and so does a span of the service shop that takes longer

With a command, its own exit code is passed on. 125 means that wakepath failed, 126 that the command \
cannot be run, 127 that it was not found. If recording ends before the command does (-d, --max-size, a \
full disk), the answer is printed at once; wakepath then waits for the command and its exit code.

Ctrl-C and the signals INT, TERM and HUP end the recording, and the answer is printed. The command gets \
them as it would without wakepath, and is recorded for up to 2 more seconds while it ends.";

/// Records, and prints the answer.
pub fn run(arguments: &RecordArguments, output: &Output) -> Result<ExitCode, Failure> {
    record_and_answer(arguments, output).map_err(|failure| failure.beside(&arguments.command))
}

fn record_and_answer(arguments: &RecordArguments, output: &Output) -> Result<ExitCode, Failure> {
    if arguments.command.is_empty()
        && arguments.pids.is_empty()
        && arguments.cgroup.is_none()
        && !arguments.everything
    {
        return Err(Failure::new(Code::Usage, "no command, process or cgroup is given")
            .hint("wakepath record -- COMMAND, or -p PID, --cgroup CGROUP, or -a for the whole machine"));
    }
    let flight = arguments.flight.request(arguments.otlp.is_some(), arguments.max_size, output)?;
    let mut options = Options {
        calls: !arguments.path_only,
        samples_per_second: if arguments.path_only { 0 } else { arguments.samples },
        stacks: arguments.stacks.unwrap_or(Stacks::None),
        callers: if arguments.frame_pointers { Callers::ByFramePointers } else { Callers::ByTables },
        goroutines: arguments.goroutines.unwrap_or(if !arguments.go_traces.is_empty() {
            Goroutines::Spans
        } else if arguments.otlp.is_some() {
            Goroutines::Asked
        } else {
            Goroutines::None
        }),
        single_probes: arguments.single_probes,
        failed_calls: arguments.failed_calls,
        calibrate: !arguments.no_calibration,
        budget: collecting::step_budget(arguments.budget, arguments.slow_probes),
        duration: arguments.duration,
        command: arguments.command.clone(),
        targets: arguments.pids.clone(),
        caller: Caller::from_sudo(),
        as_root: arguments.as_root,
        arguments: arguments.arguments,
        ..Options::default()
    };
    let buffer = options.set_buffer(arguments.buffer);
    if buffer != arguments.buffer {
        let text = format!("each CPU's buffer is rounded up to {} KiB, a power of two", buffer >> 10);
        output.complain("note", &text);
    }
    let request = Request {
        destination: arguments.flight.destination(&arguments.output),
        options,
        attributes: arguments.otlp_attributes.clone(),
        most_bytes: arguments.max_size,
        least_free_percent: MIN_FREE_PERCENT,
        cgroup: arguments.cgroup.clone(),
        asked: std::env::args_os().skip(1).collect(),
        version: env!("CARGO_PKG_VERSION"),
        calls: arguments.calls.clone(),
        allowed: AllowedProbes {
            slow_probes: arguments.slow_probes,
            no_exceptions: arguments.no_exceptions,
            stubs: false,
        },
    };
    let receiver = arguments.otlp.as_ref().map(|at| receiver(arguments, at.as_ref())).transpose()?;
    if let Some(receiver) = &receiver {
        output.complain("note", &text::spans_awaited(&receiver.nothing_yet()));
    }
    let stop = Arc::new(collecting::watch_signals(!arguments.command.is_empty())?);
    let (signals, before_answer) = (Arc::clone(&stop), Arc::new(AtomicU32::new(u32::MAX)));
    let seen = Arc::clone(&before_answer);
    let sources =
        arguments.debuginfod.sources(output, move || signals.asked() > seen.load(Ordering::Relaxed))?;
    if arguments.command.is_empty() {
        output.note("recording; press Ctrl-C to stop and see the answer");
    }
    let go = find_go(&request);
    text::goroutines(&go_programs(&request, &go))
        .into_iter()
        .for_each(|(label, text)| output.complain(label, &text));
    let traces = go_traces(arguments)?;
    let mut starting = Starting::new(output);
    let mut step = |step| starting.at(step);
    let made = record(&request, go, receiver, traces, flight, &mut step, &stop);
    // A failed start clears its line before its error is printed.
    drop(starting);
    let mut made = made.map_err(record_failure)?;
    collecting::drop_privileges(arguments.as_root && !arguments.command.is_empty())?;
    warn(&made, output);
    let kept = made.take_kept_files();
    before_answer.store(stop.asked(), Ordering::Relaxed);
    let answered = match &made.outcome.place {
        Some(place) => answer(arguments, place, kept, &sources, output),
        None => Ok(()),
    };
    // From here on another recorder may delete the recording: the command may run for long.
    drop(made.outcome.place);
    let ended = CommandEnd { running: made.outcome.running, status: made.outcome.status };
    let status = collecting::await_command(ended, &arguments.command, "recorded", &stop, output)?;
    answered?;
    if !arguments.calls.is_empty() {
        collecting::warn_of_probes(status, arguments.no_exceptions, output);
    }
    Ok(collecting::code_of_command(status))
}

/// Prints the received spans, the recording's gaps, and the other processes slowed by its probes.
fn warn(made: &Made, output: &Output) {
    let Made { outcome, other_processes, refused, removed, spans, go_traces, of_goroutines, .. } = made;
    for (label, text) in spans.as_ref().map(text::spans_received).unwrap_or_default() {
        output.complain(label, &text);
    }
    for missing in &outcome.missing {
        output.complain("warning", &format!("this kernel has no {}: {}", missing.what, missing.consequence));
    }
    for UnreadContexts { tgid, comm, reason } in &outcome.unread_contexts {
        output.complain("warning", &text::unread_contexts(*tgid, comm, reason));
    }
    for refused in &outcome.go_refused {
        output.complain("note", &text::goroutines_unseen(&refused.path, &refused.why));
    }
    for (label, text) in text::goroutines_started(&made.go_started()) {
        output.complain(label, &text);
    }
    for ReadGoTrace { url, bytes, failed } in go_traces {
        let failed = failed.as_ref().map(ToString::to_string);
        for (label, text) in text::go_trace(&url.to_string(), *bytes, failed.as_deref()) {
            output.complain(label, &text);
        }
    }
    text::refused(refused).iter().for_each(|sentence| output.complain("note", sentence));
    for (function, removed) in removed {
        output.complain("warning", &text::recorded_until(function, removed));
    }
    for others in other_processes {
        output.complain("note", &text::other_processes(others));
    }
    if !of_goroutines.is_empty() {
        let text = format!(
            "{} run in goroutines, but a path follows a thread: the path of a call also shows other goroutines that \
             ran in its thread meanwhile, and a call that ended in another thread has no path; --goroutines follows them",
            of_goroutines.join(", ")
        );
        output.complain("note", &text);
    }
    for (count, why) in [
        (outcome.calls_overflowed, "too many were open at once, or recursion was too deep"),
        (outcome.calls_unseen, "their beginning or their end was missed"),
    ] {
        if count > 0 {
            output.complain("warning", &format!("{count} calls were not recorded: {why}"));
        }
    }
    if let Some(place) = &outcome.place
        && let Some(moved) = place.moved_running()
    {
        let asked = place.asked().display();
        let text = format!("{asked} was still being recorded: it is now {}", moved.display());
        output.complain("warning", &text);
    }
    if let Some(error) = &outcome.out_of_room {
        output.complain("warning", &format!("recording ended early: {error}"));
    }
}

/// Prints the answer for the new recording, even if another recorder has taken its name. `kept`: files with names of
/// code, which only the recorder may open.
fn answer(
    arguments: &RecordArguments,
    place: &Place,
    kept: Kept,
    sources: &CodeSources,
    output: &Output,
) -> Result<(), Failure> {
    let (input, mut recorded) = read_made(place, kept)?;
    sources.serve(&mut recorded);
    let (path, asked) = (&input.recordings[0], place.asked().display());
    if path != place.asked() {
        let text = format!("another recording took the name {asked}: this one is {}", path.display());
        output.complain("warning", &text);
    }
    // The answer to a recording with spans is about requests, and not about the machine.
    let is_of_requests = arguments.otlp.is_some() && arguments.command.is_empty() && !arguments.json;
    if is_of_requests && requests::answer_made(&input, &recorded, output)? {
        return Ok(());
    }
    let beside = output.beside(&arguments.command);
    let (view, output) =
        if arguments.json { (path::View::Json, output) } else { (path::View::Screen, &beside) };
    path::answer(
        &recorded,
        &PathQuery::default(),
        view,
        path::Asked { input: &input, is_made: true, sources },
        output,
    )?;
    // The first screen is short; `path` says where servers may have names.
    if sources.ask_servers() {
        sources.report(output);
    }
    Ok(())
}

/// Reads the new recording, even if it was renamed.
pub(crate) fn read_made(place: &Place, kept: Kept) -> Result<(Input, Recorded), Failure> {
    let asked = place.asked().display();
    let present = || {
        place
            .present()
            .map_err(|_| Failure::new(Code::Input, format!("{asked} was removed while it was recorded")))
    };
    loop {
        let input = Input { recordings: vec![present()?] };
        let recorded = input.read();
        // The name may change until the recording is open.
        if input.recordings == [present()?] {
            let mut recorded = recorded?;
            recorded.kept_files = kept;
            return Ok((input, recorded));
        }
    }
}

/// Asks the programs for their execution traces. A command's programs are asked once they have started.
fn go_traces(arguments: &RecordArguments) -> Result<Vec<GoTrace>, Failure> {
    if arguments.go_traces.len() > MAX_GO_TRACES {
        return Err(Failure::new(
            Code::Usage,
            format!("a recording has at most {MAX_GO_TRACES} execution traces"),
        ));
    }
    let begin = |url: &GoTraceUrl| {
        if !arguments.command.is_empty() {
            return Ok(GoTrace::when_started(url.clone()));
        }
        GoTrace::begin(url.clone()).map_err(|error| {
            let hint = "the program must import net/http/pprof and listen there, and may trace itself for one reader at a time; \
                 --goroutines records goroutines by probes, at about 1 µs for each of their steps";
            Failure::new(Code::Usage, format!("{url} gives no execution trace: {error}")).hint(hint)
        })
    };
    arguments.go_traces.iter().map(begin).collect()
}

/// Opens the sockets for spans.
fn receiver(arguments: &RecordArguments, at: Option<&ListenAt>) -> Result<SpanReceiver, Failure> {
    let options = spans::Options {
        listen: at.cloned().unwrap_or_default(),
        forward: arguments.otlp_forward.clone(),
        attributes: arguments.otlp_attributes.clone(),
    };
    SpanReceiver::open(options).map_err(|error| {
        let hint = match &error {
            ReceiverError::InUse { address } => format!(
                "--otlp PORT chooses another port; with --otlp-forward http://{address} that program still gets all spans"
            ),
            ReceiverError::Listen { .. } => {
                String::from("--otlp PORT listens on this host alone; ports below 1024 need root")
            }
            ReceiverError::ToItself { .. } => {
                String::from("name another backend, or let this receiver listen on another port: --otlp PORT")
            }
        };
        Failure::new(Code::Usage, &error).hint(hint)
    })
}

pub(crate) fn record_failure(error: RecordError) -> Failure {
    match error {
        RecordError::Collect(error) => collecting::collect_failure(&error),
        RecordError::Function(error) => collecting::target_failure(error),
        RecordError::NoCgroup(_) => Failure::new(Code::Usage, error.to_string())
            .hint("systemd-cgls lists cgroups; -a also records a cgroup that does not exist yet"),
    }
}
