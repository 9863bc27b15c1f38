//! `wakepath record --flight` and `wakepath trigger`: the last seconds, kept when something triggers.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use wakepath_engine::flight::{
    FlightRequest, KeptRecording, SlowSpans, SpanThreshold, TriggerError, is_written, kept_recordings,
    trigger,
};
use wakepath_engine::record::WriteError;

use crate::exit_code::Code;
use crate::failure::Failure;
use crate::input::DEFAULT;
use crate::output::Output;
use crate::parse::{size, time};

/// The directory of a flight recorder, unless another one is given.
const DEFAULT_DIRECTORY: &str = "wakepath.flight";

/// The options of a flight recorder.
#[derive(Debug, Args)]
pub struct FlightArguments {
    /// Keep the last seconds (30s) in memory, and write them to the disk only when something triggers
    ///
    /// A trigger is `wakepath trigger`, the signal USR1, or a slow span (--trigger-span, --trigger-outlier). A kept recording is an ordinary one,
    /// in the directory REC (by default ./wakepath.flight). --max-size bounds all kept recordings together.
    #[arg(long, value_name = "TIME", value_parser = time)]
    flight: Option<Duration>,
    /// With --flight: the memory for records and spans; where it is too small, fewer seconds are kept
    ///
    /// Beside it the buffers take what they always do (--buffer).
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size, requires = "flight")]
    flight_memory: u64,
    /// With --flight: also keep this time after a trigger (default: 1s; with --otlp 6s, since spans come late)
    #[arg(long, value_name = "TIME", value_parser = time, requires = "flight")]
    flight_after: Option<Duration>,
    /// With --flight: keep at most this number of recordings, the newest
    #[arg(long, value_name = "NUMBER", default_value_t = 20, requires = "flight")]
    flight_keep: usize,
    /// With --flight and --otlp: a span that takes longer triggers ('frontend/HTTP GET /dispatch>500ms', 'shop/*>2s')
    #[arg(long = "trigger-span", value_name = "RULE", requires = "flight", requires = "otlp")]
    trigger_spans: Vec<SpanThreshold>,
    /// With --flight and --otlp: a request triggers that takes more than 4 times as long as 99 of 100 before it
    ///
    /// They are compared with requests of their own operation, of which there must have been 200.
    #[arg(long, requires = "flight", requires = "otlp")]
    trigger_outlier: bool,
    /// With --flight: after a recording was kept, wait so long before a span triggers again
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time, requires = "flight")]
    flight_rest: Duration,
}

/// The time after a trigger that is kept.
const AFTER: Duration = Duration::from_secs(1);
/// The same where spans come: SDKs send them in batches, most of them each 5 s.
const AFTER_WITH_SPANS: Duration = Duration::from_secs(6);

impl FlightArguments {
    /// The flight recorder that is asked for, if one is.
    pub fn request(&self, with_spans: bool, output: &Output) -> Option<FlightRequest> {
        let before = self.flight?;
        let output = output.clone();
        Some(FlightRequest {
            before,
            after: self.flight_after.unwrap_or(if with_spans { AFTER_WITH_SPANS } else { AFTER }),
            rest: self.flight_rest,
            memory: usize::try_from(self.flight_memory).unwrap_or(usize::MAX),
            recordings: self.flight_keep,
            slow: SlowSpans::new(self.trigger_spans.clone(), self.trigger_outlier),
            kept: Box::new(move |kept| report(&kept, before, &output)),
        })
    }

    /// The place of what is kept.
    pub fn destination(&self, output: &Path) -> PathBuf {
        let is_default = self.flight.is_some() && output == Path::new(DEFAULT);
        if is_default { DEFAULT_DIRECTORY.into() } else { output.to_owned() }
    }
}

/// Prints the line about a kept recording.
fn report(kept: &KeptRecording, before: Duration, output: &Output) {
    let cause = &kept.cause.text;
    let window = match &kept.window {
        Ok(window) => window,
        Err(error) => {
            output.complain("error", &format!("{cause}, and nothing could be kept: {error}"));
            return output.complain("hint", next_after(error));
        }
    };
    let seconds = |ns: u64| format!("{:.1} s", ns as f64 / 1e9);
    let path = kept.path.display();
    let mut text = format!("{path}: {cause}; the {} until then", seconds(window.to - window.from));
    let wanted = u64::try_from(before.as_nanos()).unwrap_or(u64::MAX);
    match kept.cause.since {
        Some(since) if since < window.from => {
            text += &format!("; it began {} before that", seconds(window.from - since));
        }
        _ if window.to - window.from < wanted => text += "; no more was in memory",
        _ => {}
    }
    if kept.spans_short {
        text += "; some spans had no room in memory";
    }
    match kept.ignored {
        0 => {}
        1 => text += "; 1 trigger before came too soon",
        ignored => text += &format!("; {ignored} triggers before came too soon"),
    }
    output.complain("kept", &text);
}

/// The next step where a recording could not be kept. The recorder goes on in any case.
const fn next_after(error: &WriteError) -> &'static str {
    match error {
        WriteError::DiskFull(_) | WriteError::DiskReserve { .. } => {
            "free some space there, and trigger again: the recorder goes on"
        }
        WriteError::SizeLimit { .. } | WriteError::SpansLimit { .. } => {
            "begin it again with a larger --max-size, or a smaller --flight-memory"
        }
        _ => "trigger again, or begin it again with another place (-o): the recorder goes on",
    }
}

/// Ask a flight recorder to keep the last seconds
///
/// `wakepath record --flight` then writes what it has in memory as a recording, whose path is printed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TriggerArguments {
    /// The directory of the flight recorder (its option -o)
    #[arg(value_name = "DIR", default_value = DEFAULT_DIRECTORY)]
    directory: PathBuf,
    /// Wait at most this long until the recording is there
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    wait: Duration,
}

const EXAMPLES: &str = "\
Examples:
  wakepath trigger                  the recorder that writes into ./wakepath.flight
  wakepath trigger /var/lib/flight  another one
  for host in web1 web2; do ssh $host wakepath trigger /var/lib/flight & done
                                    the same seconds of several hosts";

/// The interval at which it is looked whether a recording is there.
const POLL: Duration = Duration::from_millis(50);

/// Triggers, waits for the recording, and prints its path.
pub fn run(arguments: &TriggerArguments, output: &Output) -> Result<ExitCode, Failure> {
    let directory = &arguments.directory;
    let before = kept_recordings(directory).unwrap_or_default();
    trigger(directory).map_err(|error| {
        let failure = Failure::new(Code::Input, error.to_string());
        let is_refused = match &error {
            TriggerError::Io { error, .. } => error.kind() == ErrorKind::PermissionDenied,
            TriggerError::Signal { .. } => true,
            TriggerError::NoRecorder(_) => false,
        };
        failure.hint(match is_refused {
            true => "run as the user who started the recorder, or as root",
            false => "sudo wakepath record --flight 30s -a -o DIR starts one",
        })
    })?;
    let began = Instant::now();
    while began.elapsed() < arguments.wait {
        let now = kept_recordings(directory).unwrap_or_default();
        if let Some(new) = now.iter().rev().find(|path| !before.contains(path) && is_written(path)) {
            output.text(&format!("{}\n", new.display()))?;
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(POLL);
    }
    let text = format!("no recording came within {} s", arguments.wait.as_secs());
    Err(Failure::new(Code::Input, text)
        .hint("the recorder's own output says why, or --wait allows more time"))
}
