//! `wakepath record --flight` and `wakepath trigger`: the last seconds, kept at a trigger.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use wakepath_live::flight::{
    AskError, FlightRequest, KeptRecording, LinkedRecording, NoRoomToKeep, Recorder, SlowSpans,
    SpanThreshold, TriggerError, Way, now, shared_moment,
};
use wakepath_live::record::WriteError;
use wakepath_report::escape;

use crate::exit_code::Code;
use crate::failure::Failure;
use crate::help;
use crate::input::DEFAULT;
use crate::output::Output;
use crate::parse::{size, time};

/// A flight recorder's directory, unless another is given.
const DEFAULT_DIRECTORY: &str = "wakepath.flight";

/// A flight recorder's options.
#[derive(Debug, Args)]
pub struct FlightArguments {
    /// Keep the last seconds (30s) in memory, and write them to the disk only at a trigger
    ///
    /// A trigger is `wakepath trigger`, the signal USR1, or a slow span (--trigger-span, --trigger-outlier, --trigger-open). A kept recording is
    /// an ordinary recording, in the directory REC (by default ./wakepath.flight). --max-size bounds all kept recordings together.
    #[arg(long, value_name = "TIME", value_parser = time)]
    flight: Option<Duration>,
    /// With --flight: the memory for records and spans; if it is too small, fewer seconds are kept
    ///
    /// The buffers (--buffer) take their memory as always. --max-size has to be a quarter larger.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size, requires = "flight", hide_short_help = true)]
    flight_memory: u64,
    /// With --flight: also keep this time after a trigger (default: 1s; with --otlp 6s, since spans come late)
    #[arg(long, value_name = "TIME", value_parser = time, requires = "flight", hide_short_help = true)]
    flight_after: Option<Duration>,
    /// With --flight: keep at most this number of recordings, the newest
    #[arg(long, value_name = "NUMBER", default_value_t = 20, requires = "flight", hide_short_help = true)]
    flight_keep: usize,
    /// With --flight and --otlp: a span that takes longer triggers ('frontend/HTTP GET /dispatch>500ms', 'shop/*>2s')
    #[arg(long = "trigger-span", value_name = "RULE", requires = "flight", requires = "otlp")]
    trigger_spans: Vec<SpanThreshold>,
    /// With --flight and --otlp: a request triggers if it takes more than 4 times as long as 99 of 100 before it
    ///
    /// It is compared with earlier requests of the same operation, at least 200.
    #[arg(long, requires = "flight", requires = "otlp", hide_short_help = true)]
    trigger_outlier: bool,
    /// With --flight: a thread triggers while it works for the same span for longer than TIME; no spans need to arrive
    ///
    /// Read from each thread's context (docs/requests.md). Idle spans count too: choose a TIME longer than they take.
    #[arg(long, value_name = "TIME", value_parser = time, requires = "flight", hide_short_help = true)]
    trigger_open: Option<Duration>,
    /// With --flight: after a kept recording, no span triggers for this time
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time, requires = "flight", hide_short_help = true)]
    flight_rest: Duration,
    /// With --flight: each trigger here also triggers that recorder, for the same moment; may be repeated
    ///
    /// DIR is another recorder's directory, on this host or on another, which is asked through ssh by the user who called sudo. Recorders linked
    /// with each other ask each other once.
    #[arg(long = "flight-link", value_name = "[HOST:]DIR", requires = "flight")]
    flight_links: Vec<Recorder>,
    /// With --flight-link: the command line of wakepath on other hosts
    #[arg(long, value_name = "COMMAND", default_value = PROGRAM, requires = "flight_links", hide_short_help = true)]
    remote_program: String,
}

/// The program on other hosts.
const PROGRAM: &str = "wakepath";
/// The time that a linked recorder may take: it records some seconds past the trigger, and then writes.
const WAIT_FOR_LINKED: Duration = Duration::from_secs(120);

/// The kept time after a trigger.
const AFTER: Duration = Duration::from_secs(1);
/// The kept time after a trigger if spans are received: SDKs send them in batches, most of them every 5 s.
const AFTER_WITH_SPANS: Duration = Duration::from_secs(6);

impl FlightArguments {
    /// The requested flight recorder; `None` without `--flight`. All its kept recordings together may take `most`
    /// bytes.
    pub fn request(
        &self,
        with_spans: bool,
        most: u64,
        output: &Output,
    ) -> Result<Option<FlightRequest>, Failure> {
        let Some(before) = self.flight else { return Ok(None) };
        let output = output.clone();
        let request = FlightRequest {
            before,
            after: self.flight_after.unwrap_or(if with_spans { AFTER_WITH_SPANS } else { AFTER }),
            rest: self.flight_rest,
            memory: usize::try_from(self.flight_memory).unwrap_or(usize::MAX),
            recordings: self.flight_keep,
            longest_open: self.trigger_open,
            slow: SlowSpans::new(self.trigger_spans.clone(), self.trigger_outlier),
            taken: self.links(&output),
            kept: Box::new(move |kept| report(&kept, before, &output)),
        };
        request.check_room(most).map_err(no_room)?;
        Ok(Some(request))
    }

    /// Asks the linked recorders for each trigger's moment, and prints what they kept.
    fn links(&self, output: &Output) -> Box<dyn FnMut(u64) + Send> {
        let (links, program, output) =
            (self.flight_links.clone(), self.remote_program.clone(), output.clone());
        Box::new(move |at| {
            for recorder in &links {
                let way = Way { at: Some(at), linked: true, wait: WAIT_FOR_LINKED, program: program.clone() };
                let (recorder, to) = (recorder.clone(), output.clone());
                let ask = move || match ask(&recorder, &way) {
                    Ok(path) => {
                        to.complain("kept", &format!("{path}: by a linked recorder, the same moment"))
                    }
                    Err(failure) => drop(failure.report(&to)),
                };
                let named = std::thread::Builder::new().name("link".to_owned());
                if let Err(error) = named.spawn(ask) {
                    output.complain("warning", &format!("a linked recorder was not asked: {error}"));
                }
            }
        })
    }

    /// The place for kept recordings.
    pub fn destination(&self, output: &Path) -> PathBuf {
        let is_default = self.flight.is_some() && output == Path::new(DEFAULT);
        if is_default { DEFAULT_DIRECTORY.into() } else { output.to_owned() }
    }
}

/// The failure for a kept recording that might lack room, reported before a trigger needs it.
fn no_room(error: NoRoomToKeep) -> Failure {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let NoRoomToKeep { needs, memory, most } = error;
    let text = format!(
        "a kept recording may take {} MiB (--flight-memory is {} MiB), and --max-size allows {} MiB for all of them together",
        mib(needs),
        mib(memory),
        mib(most)
    );
    let smaller = match error.largest_memory() >> 20 {
        0 => String::new(),
        fits => format!(", or --flight-memory {fits}M"),
    };
    Failure::new(Code::Usage, text).hint(format!("--max-size {}M{smaller}", mib(needs)))
}

/// Prints the lines about a kept recording.
fn report(kept: &KeptRecording, before: Duration, output: &Output) {
    for (label, text) in lines(kept, before) {
        output.complain(label, &text);
    }
}

/// The lines about a kept recording, each with its label. `before`: the requested time before the trigger.
fn lines(kept: &KeptRecording, before: Duration) -> Vec<(&'static str, String)> {
    let cause = &kept.cause.text;
    let window = match &kept.window {
        Ok(window) => window,
        Err(error) => {
            let text = format!("{cause}, and nothing could be kept: {error}");
            return vec![("error", text), ("hint", next_after(error).to_owned())];
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
    vec![("kept", text)]
}

/// The next step after a recording could not be kept. The recorder continues in any case.
const fn next_after(error: &WriteError) -> &'static str {
    match error {
        WriteError::DiskFull(_) | WriteError::DiskReserve { .. } => {
            "free some space there, and trigger again: the recorder goes on"
        }
        WriteError::SizeLimit { .. }
        | WriteError::SpansLimit { .. }
        | WriteError::LargerThanAllKept { .. } => {
            "begin it again with a larger --max-size, or a smaller --flight-memory"
        }
        _ => "trigger again, or begin it again with another place (-o): the recorder goes on",
    }
}

/// Asks a recorder to keep a moment, waits for the recording and returns its path, with its host in front.
fn ask(recorder: &Recorder, way: &Way) -> Result<String, Failure> {
    recorder.ask(way).map(|kept| shown(&kept)).map_err(|error| {
        let failure = Failure::new(Code::Input, error.to_string());
        match error {
            AskError::NoSsh { .. } => {
                failure.hint("install the OpenSSH client, or run wakepath trigger there")
            }
            AskError::Refused { .. } => {
                failure.hint("`ssh HOST wakepath trigger DIR` has to work without a password")
            }
            AskError::Trigger(error) => failure.hint(next_after_trigger(&error)),
            AskError::Late { .. } => {
                failure.hint("the recorder's own output says why, or --wait allows more time")
            }
        }
    })
}

/// A kept recording, with its host in front. The path of another host may have any bytes.
fn shown(kept: &LinkedRecording) -> String {
    match kept {
        LinkedRecording::Here(path) => path.display().to_string(),
        LinkedRecording::There { host, path } => format!("{host}:{}", escape(path.as_bytes())),
    }
}

/// The next step after a recorder on this host could not be asked.
fn next_after_trigger(error: &TriggerError) -> &'static str {
    let is_refused = match error {
        TriggerError::Io { error, .. } => error.kind() == ErrorKind::PermissionDenied,
        TriggerError::Signal { .. } => true,
        TriggerError::NoRecorder(_) => false,
    };
    match is_refused {
        true => "run as the user who started the recorder, or as root",
        false => "sudo wakepath record --flight 30s -a -o DIR starts one",
    }
}

/// Reads seconds since 1970, with up to nine decimals; returns ns.
pub fn moment(text: &str) -> Result<u64, String> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let ns = (is_number(whole) && is_number(part) && part.len() <= 9)
        .then(|| {
            let part: u64 = format!("{part:0<9}").parse().ok()?;
            whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)
        })
        .flatten();
    ns.ok_or_else(|| "expected seconds since 1970, such as 1795229921.25 (`date +%s.%N`)".to_owned())
}

/// Ask a flight recorder to keep the last seconds
///
/// `wakepath record --flight` then writes its memory as a recording, whose path is printed.
#[derive(Debug, Args)]
#[command(after_help = help::first(EXAMPLES), after_long_help = EXAMPLES)]
pub struct TriggerArguments {
    /// The flight recorder's directory (its option -o), or HOST:DIR for another host, through ssh; several keep the same moment
    #[arg(value_name = "[HOST:]DIR", default_value = DEFAULT_DIRECTORY)]
    recorders: Vec<Recorder>,
    /// The moment to keep, in seconds since 1970 (default: now); the recording ends after it (--flight-after)
    #[arg(long, value_name = "SECONDS", value_parser = moment)]
    at: Option<u64>,
    /// Do not let the recorder ask its linked recorders (--flight-link)
    #[arg(long)]
    linked: bool,
    /// The command line of wakepath on other hosts
    #[arg(long, value_name = "COMMAND", default_value = PROGRAM, hide_short_help = true)]
    remote_program: String,
    /// Wait at most this long for the recording
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    wait: Duration,
}

const EXAMPLES: &str = "\
Examples:
  wakepath trigger                  the recorder that writes into ./wakepath.flight
  wakepath trigger /var/lib/flight  another one
  wakepath trigger /var/lib/flight web2:/var/lib/flight --remote-program 'sudo -n wakepath'
                                    the same seconds of two hosts
  wakepath trigger --at $(date -d '10 seconds ago' +%s.%N)
                                    the time around a moment that is past";

/// Triggers all recorders at once, waits for their recordings, and prints their paths.
pub fn run(arguments: &TriggerArguments, output: &Output) -> Result<ExitCode, Failure> {
    let at = shared_moment(arguments.at, arguments.recorders.len(), now);
    let way =
        Way { at, linked: arguments.linked, wait: arguments.wait, program: arguments.remote_program.clone() };
    let kept: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> =
            arguments.recorders.iter().map(|recorder| scope.spawn(|| ask(recorder, &way))).collect();
        asked.into_iter().filter_map(|one| one.join().ok()).collect()
    });
    let mut failed = None;
    for kept in kept {
        match kept {
            Ok(path) => output.text(&format!("{path}\n"))?,
            Err(failure) => {
                if let Some(earlier) = failed.replace(failure) {
                    earlier.report(output);
                }
            }
        }
    }
    failed.map_or(Ok(ExitCode::SUCCESS), Err)
}

#[cfg(test)]
mod tests {
    use wakepath_live::flight::{KeptWindow, TriggerCause};

    use super::*;
    use crate::output::Colour;

    const SECOND: u64 = 1_000_000_000;

    fn kept(since: Option<u64>, window: Result<(u64, u64), WriteError>, ignored: u64) -> KeptRecording {
        let cause =
            TriggerCause { text: "a signal".to_owned(), word: "signal", since, asked: true, linked: false };
        let window = window.map(|(from, to)| KeptWindow { from: from * SECOND, to: to * SECOND });
        KeptRecording { path: "flight/kept-1".into(), cause, window, spans_short: false, ignored }
    }

    fn arguments(memory: u64) -> FlightArguments {
        FlightArguments {
            flight: Some(Duration::from_secs(30)),
            flight_memory: memory,
            flight_after: None,
            flight_keep: 7,
            trigger_spans: Vec::new(),
            trigger_outlier: false,
            trigger_open: Some(Duration::from_secs(2)),
            flight_rest: Duration::from_secs(60),
            flight_links: Vec::new(),
            remote_program: PROGRAM.to_owned(),
        }
    }

    #[test]
    fn a_recorder_waits_longer_behind_a_trigger_where_spans_come_unless_it_is_asked_for_a_time() {
        let output = Output::new(Colour::Never);
        let half = Duration::from_millis(500);
        for (asked, with_spans, after) in [
            (None, false, Duration::from_secs(1)),
            (None, true, Duration::from_secs(6)),
            (Some(half), false, half),
            (Some(half), true, half),
        ] {
            let arguments = FlightArguments { flight_after: asked, ..arguments(1 << 20) };
            let request = arguments.request(with_spans, 2 << 20, &output).expect("room").expect("a recorder");
            let times = (request.before, request.after, request.rest, request.longest_open);
            let expected = (Duration::from_secs(30), after, Duration::from_secs(60), arguments.trigger_open);
            assert_eq!(times, expected, "{asked:?}, spans: {with_spans}");
            assert_eq!((request.memory, request.recordings), (1 << 20, 7));
        }
        let none = FlightArguments { flight: None, ..arguments(1 << 20) };
        assert!(none.request(true, 1, &output).is_ok_and(|request| request.is_none()), "no flight recorder");
    }

    #[test]
    fn a_recorder_whose_recordings_may_have_no_room_is_refused_with_sizes_that_fit() {
        let output = Output::new(Colour::Never);
        for (memory, most, room) in [
            (256, 320, None),
            (256, 319, Some("MiB for all of them together")),
            (256, 1, Some("--max-size allows 1 MiB")),
        ] {
            let answer = arguments(memory << 20).request(true, most << 20, &output);
            let refused = answer.err().map(|failure| format!("{failure:?}"));
            assert_eq!(refused.is_some(), room.is_some(), "{memory} of {most}");
            let has = |text: &str| refused.as_ref().is_none_or(|refused| refused.contains(text));
            assert!(has(room.unwrap_or_default()) && has("--max-size 320M"), "{refused:?}");
        }
    }

    #[test]
    fn recordings_are_kept_in_a_directory_of_their_own_unless_another_one_is_named() {
        let flight = arguments(1);
        let none = FlightArguments { flight: None, ..arguments(1) };
        for (arguments, output, expected) in [
            (&flight, DEFAULT, DEFAULT_DIRECTORY),
            (&flight, "/var/lib/flight", "/var/lib/flight"),
            (&none, DEFAULT, DEFAULT),
            (&none, "rec", "rec"),
        ] {
            assert_eq!(arguments.destination(Path::new(output)), Path::new(expected));
        }
    }

    #[test]
    fn the_line_about_a_kept_recording_says_what_it_has_and_what_it_lacks() {
        // The cause's beginning, the window, earlier triggers, and the line's text after the cause. The request is 30 s.
        for (since, window, ignored, text) in [
            (None, (100, 130), 0, "the 30.0 s until then"),
            (None, (100, 131), 0, "the 31.0 s until then"),
            (None, (100, 129), 0, "the 29.0 s until then; no more was in memory"),
            (Some(100), (100, 131), 0, "the 31.0 s until then"),
            (Some(98), (100, 131), 0, "the 31.0 s until then; it began 2.0 s before that"),
            (Some(98), (100, 110), 0, "the 10.0 s until then; it began 2.0 s before that"),
            (Some(105), (100, 110), 0, "the 10.0 s until then; no more was in memory"),
            (None, (100, 131), 1, "the 31.0 s until then; 1 trigger before came too soon"),
            (None, (100, 131), 7, "the 31.0 s until then; 7 triggers before came too soon"),
        ] {
            let mut kept = kept(since.map(|since| since * SECOND), Ok(window), ignored);
            let line = |kept: &KeptRecording| lines(kept, Duration::from_secs(30));
            assert_eq!(line(&kept), [("kept", format!("flight/kept-1: a signal; {text}"))]);
            kept.spans_short = true;
            assert!(line(&kept)[0].1.contains("; some spans had no room in memory"), "{text}");
        }
    }

    #[test]
    fn a_recording_that_could_not_be_kept_has_its_reason_and_the_next_step() {
        for (error, reason, hint) in [
            (WriteError::DiskFull("flight".into()), "no space left", "free some space"),
            (WriteError::SizeLimit { limit: 5 }, "its limit of 5 bytes", "--max-size"),
            (WriteError::SpansLimit { limit: 5 }, "a quarter", "--max-size"),
            (WriteError::LargerThanAllKept { bytes: 9, limit: 5 }, "larger than all", "--max-size"),
            (WriteError::InTheWay("flight".into()), "in the way", "another place"),
        ] {
            let lines = lines(&kept(None, Err(error), 0), Duration::from_secs(30));
            let [("error", text), ("hint", next)] = &lines[..] else { panic!("{lines:?}") };
            assert!(
                text.starts_with("a signal, and nothing could be kept: ") && text.contains(reason),
                "{text}"
            );
            assert!(next.contains(hint), "{next}");
        }
    }

    #[test]
    fn moments_are_seconds_since_1970() {
        assert_eq!(moment("1795229921"), Ok(1_795_229_921_000_000_000));
        assert_eq!(moment("1795229921.25"), Ok(1_795_229_921_250_000_000));
        assert_eq!(moment("0.000000001"), Ok(1));
        for text in ["", ".5", "5.", "-1", "1e9", "1.0000000001", "18446744074", "+1"] {
            assert!(moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_next_step_is_another_user_where_a_recorder_runs_and_a_recorder_where_none_does() {
        let io = |kind| TriggerError::Io { path: "flight".into(), error: std::io::Error::from(kind) };
        let signal = TriggerError::Signal {
            path: "flight".into(),
            pid: 912,
            error: std::io::Error::from(ErrorKind::PermissionDenied),
        };
        for (error, word) in [
            (io(ErrorKind::PermissionDenied), "root"),
            (io(ErrorKind::NotFound), "record --flight"),
            (signal, "root"),
            (TriggerError::NoRecorder("flight".into()), "record --flight"),
        ] {
            assert!(next_after_trigger(&error).contains(word), "{error}");
        }
    }

    #[test]
    fn a_path_of_another_host_is_shown_behind_it_and_without_its_control_characters() {
        let path = "/var/\u{1b}[31mkept".to_owned();
        let there = LinkedRecording::There { host: "web2".to_owned(), path };
        assert_eq!(shown(&there), "web2:/var/\\x1b[31mkept");
        assert_eq!(shown(&LinkedRecording::Here("flight/kept-1".into())), "flight/kept-1");
    }
}
