//! A drill-down's first look, by samples and waits, in a process for itself.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use wakepath_caller::Caller;
use wakepath_engine::drill::calls_of_peak;
use wakepath_engine::{CallsQuery, PathQuery, Tid, Which, calls, function_stacks};
use wakepath_live::drill::{ChosenPeaks, DrillError, LookRequest, Next, Unrecorded, record_look};
use wakepath_live::latency::AllowedProbes;
use wakepath_report::{json, text};

use super::DrillArguments;
use crate::collecting;
use crate::failure::Failure;
use crate::output::Output;
use crate::record::read_made;

/// The first look at a peak's calls, by samples and waits. Another process takes it: recording gives up the right to put probes.
pub(super) struct FirstLook<'a> {
    arguments: &'a DrillArguments,
    target: String,
    unrecorded: Option<Unrecorded>,
    output: &'a Output,
    /// With --json, what it printed: for each peak a document in a line.
    pub documents: Vec<String>,
    /// Whether it printed an answer.
    pub shown: bool,
}

impl<'a> FirstLook<'a> {
    pub(super) fn new(
        arguments: &'a DrillArguments,
        target: &str,
        unrecorded: Option<Unrecorded>,
        output: &'a Output,
    ) -> Self {
        Self { arguments, target: target.to_owned(), unrecorded, output, documents: Vec::new(), shown: false }
    }

    /// Takes the look, unless it shows nothing.
    pub(super) fn take(&mut self, chosen: &ChosenPeaks) -> Next {
        let next = if self.arguments.samples_only { Next::End } else { Next::Search };
        if self.arguments.no_samples {
            return next;
        }
        let why = match self.unrecorded {
            Some(Unrecorded::Python) => Some("follows no functions of Python"),
            Some(Unrecorded::HandedOver) => Some("does not know which requests were handed over"),
            None => None,
        };
        let pid = chosen.pid;
        if let Some(why) = why {
            self.output.complain(
                "note",
                &format!(
                    "what the calls wait for was not recorded: a recording {why}; wakepath record -p {pid} -d 5s, then wakepath path --tree, \
                     shows what the threads of the process wait for"
                ),
            );
            return next;
        }
        let why = if chosen.is_too_often {
            Some("it is called so often that a record of each call would take more than --budget")
        } else if chosen.of_goroutines {
            Some(
                "goroutines call it, and a recording of calls follows threads; a goroutine that waits is in no stack",
            )
        } else {
            None
        };
        let looked = match why {
            Some(why) => {
                let target = &self.target;
                self.output.complain("note", &format!("the calls of `{target}` were not recorded: {why}"));
                self.look_at_stacks(pid)
            }
            None => self.look(chosen),
        };
        match looked {
            Ok(shown) => self.shown = shown,
            Err(error) => {
                self.output.complain("note", &format!("samples and waits were not recorded: {error}"))
            }
        }
        next
    }

    /// Answers by the stacks that hold a function, which no probe shows for this reason. Returns whether there is an answer.
    pub(super) fn answer_instead(&mut self, error: &DrillError, pid: u32) -> bool {
        let why = error.to_string();
        // Stacks have names.
        if let Some(named) = error.name_for_address(&self.target) {
            self.target = named;
        }
        self.output.complain("note", &format!("{why}: samples and waits answer instead, not call by call"));
        self.shown = self.look_at_stacks(pid).unwrap_or(false);
        self.shown
    }

    /// The part of this program's command that begins any look.
    fn command(&self, pid: u32, time: Duration) -> Command {
        let arguments = self.arguments;
        // Its name, which threads beside the target see, is in this path; the file may have been replaced meanwhile.
        let program = std::env::current_exe().ok().filter(|path| path.exists());
        let mut look = Command::new(program.unwrap_or_else(|| PathBuf::from("/proc/self/exe")));
        look.arg("drill").arg(&self.target).arg("-p").arg(pid.to_string());
        look.arg("-d").arg(format!("{}ms", time.as_millis())).arg("-o").arg(&arguments.output);
        look.stdin(Stdio::null());
        look
    }

    /// Runs this program anew for a look at stacks.
    fn look_at_stacks(&mut self, pid: u32) -> std::io::Result<bool> {
        let time = (self.arguments.duration / PART_FOR_STACKS).max(SHORTEST);
        let mut look = self.command(pid, time);
        look.arg("--look-at-stacks");
        self.run(look)
    }

    /// Runs this program anew for the look.
    fn look(&mut self, chosen: &ChosenPeaks) -> std::io::Result<bool> {
        let arguments = self.arguments;
        let mut look = self.command(chosen.pid, chosen.time_of_look().min(arguments.duration / 3));
        for number in &chosen.numbers {
            let (above, to) = match calls_of_peak(&chosen.peaks, *number) {
                Which::Between(above, to) => (above, to),
                Which::Above(above) => (above, u64::MAX),
                _ => (0, u64::MAX),
            };
            look.arg("--look").arg(format!("{above}..{to}"));
        }
        for (given, flag) in
            [(arguments.slow_probes, "--slow-probes"), (arguments.no_exceptions, "--no-exceptions")]
        {
            look.args(given.then_some(flag));
        }
        if let Some(share) = arguments.budget {
            look.arg("--budget").arg((share * 100.0).to_string());
        }
        self.run(look)
    }

    /// Runs the command for a look; returns whether it printed an answer, or with --json, any document.
    fn run(&mut self, mut look: Command) -> std::io::Result<bool> {
        let arguments = self.arguments;
        if arguments.json {
            let output = look.arg("--json").stdout(Stdio::piped()).output()?;
            self.documents = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
            return Ok(!self.documents.is_empty());
        }
        if !arguments.command.is_empty() {
            look.stdout(std::io::stderr().as_fd().try_clone_to_owned()?);
        }
        Ok(look.status()?.success())
    }
}

/// The part of -d in which stacks are sampled, where nothing else answers, and the shortest time.
const PART_FOR_STACKS: u32 = 12;
const SHORTEST: Duration = Duration::from_secs(1);

/// Records a function's calls for a first look, and prints what they did.
pub(super) fn look(arguments: &DrillArguments, target: &str, output: &Output) -> Result<ExitCode, Failure> {
    let stop = collecting::watch_signals(false)?;
    output.passing(&format!(
        "sampling the calls for {:.0} s, and recording what they wait for",
        arguments.duration.as_secs_f64()
    ));
    let request = LookRequest {
        target: target.to_owned(),
        pid: arguments.pid.unwrap_or(0),
        with_calls: !arguments.look_at_stacks,
        time: arguments.duration,
        destination: arguments.output.clone(),
        allowed: AllowedProbes {
            slow_probes: arguments.slow_probes,
            no_exceptions: arguments.no_exceptions,
            stubs: false,
        },
        budget: collecting::step_budget(arguments.budget, arguments.slow_probes),
        caller: Caller::from_sudo(),
        asked: std::env::args_os().skip(1).collect(),
        version: env!("CARGO_PKG_VERSION"),
    };
    let made = record_look(request, &stop);
    output.passing("");
    // The search goes on without it: a recording probes kernel functions in another way, which not all of them allow.
    let mut made = match made {
        Ok(made) => made,
        Err(error) => {
            output.complain("note", &format!("samples and waits were not recorded: {error}"));
            return Ok(ExitCode::FAILURE);
        }
    };
    collecting::drop_privileges(false)?;
    let kept = made.take_kept_files();
    let Some(place) = &made.outcome.place else { return Ok(ExitCode::FAILURE) };
    let (input, recorded) = read_made(place, kept)?;
    let mut any = false;
    if arguments.look_at_stacks {
        let process = Tid(arguments.pid.unwrap_or(0));
        let answer = function_stacks(&recorded, process, target);
        any = !answer.is_empty();
        match (any, arguments.json) {
            (false, _) => output.complain(
                "note",
                &format!("no sample and no wait of the process has `{target}` in its stack"),
            ),
            (true, true) => output.write(|out| json::function_stacks(&answer, out))?,
            (true, false) => output.text(&text::function_stacks(&answer, output.layout()))?,
        }
    }
    for (number, &(above, to)) in arguments.look.iter().enumerate() {
        let which = if to == u64::MAX { Which::Above(above) } else { Which::Between(above, to) };
        let query = CallsQuery { target: None, which, algorithm: PathQuery::default().algorithm };
        let answer = match calls(&recorded, None, &query) {
            Ok(answer) => answer,
            Err(error) => {
                output.complain("note", &format!("no samples and waits show these calls: {error}"));
                continue;
            }
        };
        if arguments.json {
            output.write(|out| json::calls(&answer, out))?;
        } else {
            let between = if number > 0 { "\n" } else { "" };
            let functions =
                answer.sampled_path().map(|path| text::function_path(&answer, &path, output.layout()) + "\n");
            let waits = text::calls(&answer, output.layout());
            output.text(&format!("{between}{}{waits}", functions.unwrap_or_default()))?;
        }
        any = true;
    }
    if any && !arguments.json {
        let saved = input.recordings[0].display();
        let next = if arguments.look_at_stacks { "--tree" } else { "--call --tree" };
        output.text(&format!("saved in {saved}   next: wakepath path{} {next}\n", input.argument()))?;
    }
    Ok(if any { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
