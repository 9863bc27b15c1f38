//! Starts a service's programs, records its requests, and judges the answer to each question.

use std::fs::{self, File};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::Value;
use wakepath_runner::ended;

use super::head::{Program, Question, Service, Size};
use super::receive::Receiving;
use super::send::{Sent, send, send_all};
use crate::incidents::{Expected, IncidentVerdict, TwinVerdict, begins_with_year, check, judge_twin};
use crate::runner::{TIMEOUT, make_empty, succeed};

/// How the services run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Mode {
    /// Under OpenTelemetry's packages alone.
    #[default]
    Plain,
    /// With wakepath's plug-in too.
    PlugIn,
}

impl Mode {
    /// Its name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "without",
            Self::PlugIn => "plug-in",
        }
    }

    /// The beginning of its line of sums.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Plain => "Without the plug-in",
            Self::PlugIn => "With the plug-in",
        }
    }
}

/// An answered question.
#[derive(Debug)]
pub struct Answered {
    /// The service's file.
    pub service: String,
    /// How it ran.
    pub mode: Mode,
    /// The question.
    pub question: String,
    /// The planted cause.
    pub cause: String,
    /// The planted size.
    pub planted: String,
    /// The block of the screen that answers, else the headline.
    pub said: String,
    /// The verdict.
    pub verdict: IncidentVerdict,
    /// Whether the answer calls itself measured.
    pub is_measured: bool,
    /// The twin's verdict; `None` without a twin.
    pub twin: Option<TwinVerdict>,
}

impl Default for Answered {
    fn default() -> Self {
        Self {
            service: String::new(),
            mode: Mode::default(),
            question: String::new(),
            cause: String::new(),
            planted: String::new(),
            said: String::new(),
            verdict: IncidentVerdict::Right,
            is_measured: false,
            twin: None,
        }
    }
}

/// The programs and packages.
#[derive(Debug, Args)]
pub struct Places {
    /// The tool under judgement.
    #[arg(long, default_value = "target/release/wakepath")]
    pub wakepath: PathBuf,
    /// The folder with the services' files.
    #[arg(long, default_value = "lab/questions")]
    pub scripts: PathBuf,
    /// Spans come by a file of OTLP, as a collector writes it, and not through the recorder.
    #[arg(long)]
    pub files: bool,
    /// The folder with the packages fetched by `packaging/questions`.
    #[arg(long, default_value = "target/questions")]
    pub packages: PathBuf,
}

/// The words of an answer by spans alone.
const NO_PATH: [&str; 2] =
    ["the thread that worked for it is not known", "whose goroutines were not recorded"];
/// The longest time until a program listens.
const START: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(50);

/// Asks all questions of a service in a mode. `folder` is emptied, unless a run is kept there that is judged again.
pub fn ask(places: &Places, service: &Service, mode: Mode, folder: &Path, is_replay: bool) -> Vec<Answered> {
    let recorded = if is_replay { Ok(()) } else { record(places, service, mode, folder) };
    let sent = recorded.and_then(|()| read_log(&folder.join(LOG)));
    let answered = |(index, question): (usize, &Question)| {
        let base = Answered {
            service: service.name.clone(),
            mode,
            question: question.name.clone(),
            cause: question.cause.clone(),
            ..Answered::default()
        };
        let judged = match &sent {
            Ok(sent) => judge(places, question, &requests_in(sent, index), folder),
            Err(error) => {
                Ok(Answered { verdict: IncidentVerdict::NotRun(format!("{error:#}")), ..Answered::default() })
            }
        };
        match judged {
            Ok(judged) => {
                Answered { service: base.service, mode, question: base.question, cause: base.cause, ..judged }
            }
            Err(error) => Answered { verdict: IncidentVerdict::NoAnswer(format!("{error:#}")), ..base },
        }
    };
    service.questions.iter().enumerate().map(answered).collect()
}

/// The requests of a question.
fn requests_in(sent: &[Sent], question: usize) -> Vec<Sent> {
    sent.iter().filter(|it| it.question == question).cloned().collect()
}

/// The files of a run.
const LOG: &str = "sent.json";
const RECORDING: &str = "recording";
const SPANS: &str = "spans.otlp";

fn record(places: &Places, service: &Service, mode: Mode, folder: &Path) -> Result<()> {
    make_empty(folder)?;
    let missing = |program: &&Program| {
        program.runtime != "postgres" && !places.packages.join(&program.runtime).join("versions").exists()
    };
    if let Some(program) = service.programs.iter().find(missing) {
        bail!("packaging/questions did not fetch what {} needs", program.runtime);
    }
    let spans = places.files.then(|| Receiving::into_file(&folder.join(SPANS))).transpose()?;
    // The others first: the service that is asked may need them as it starts.
    let started = service.programs.iter().rev();
    let _running = started.map(|program| start(places, program, mode, folder)).collect::<Result<Vec<_>>>()?;
    // The work that a program does once is no part of a question.
    send_all(service, 0).context("before the recording")?;
    let mut command = Command::new(&places.wakepath);
    command.args(["record", "-a", "-o"]).arg(folder.join(RECORDING));
    if spans.is_none() {
        command.arg("--otlp");
    }
    if mode == Mode::PlugIn {
        command.args(&service.record);
    }
    let out = File::create(folder.join("record.log"))?;
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    let mut recorder = Started(command.spawn().context("cannot start the recorder")?);
    let sent = send(service);
    Command::new("kill").args(["-s", "INT", &recorder.0.id().to_string()]).status()?;
    let status = ended(&mut recorder.0, TIMEOUT)?.context("the recorder did not end")?;
    ensure!(status.success(), "the recorder ended with {status}: see its log");
    drop(spans);
    serde_json::to_writer(File::create(folder.join(LOG))?, &sent?)?;
    Ok(())
}

/// A running program and its processes; they end when this is dropped.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        for signal in ["TERM", "KILL"] {
            let _ = Command::new("kill").args(["-s", signal, "--", &group]).stderr(Stdio::null()).status();
            let _ = ended(&mut self.0, Duration::from_secs(3));
        }
    }
}

fn start(places: &Places, program: &Program, mode: Mode, folder: &Path) -> Result<Started> {
    let address = ("127.0.0.1", program.port);
    ensure!(TcpStream::connect(address).is_err(), "port {} is in use", program.port);
    let log = File::create(folder.join(format!("{}.log", program.service)))?;
    let mut command = Command::new(places.scripts.join("start"));
    command.args([program.runtime.as_str(), &program.service, if mode == Mode::PlugIn { "1" } else { "0" }]);
    command.args(&program.command).env("QUESTIONS", places.packages.canonicalize()?);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    let mut running = Started(command.spawn().context("cannot start `lab/questions/start`")?);
    let began = Instant::now();
    while TcpStream::connect(address).is_err() {
        ensure!(running.0.try_wait()?.is_none(), "`{}` ended: see its log", program.service);
        ensure!(began.elapsed() < START, "`{}` does not listen on {}", program.service, program.port);
        thread::sleep(INTERVAL);
    }
    Ok(running)
}

fn read_log(file: &Path) -> Result<Vec<Sent>> {
    let text = fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

/// Asks about the planted request and its twin.
fn judge(places: &Places, question: &Question, sent: &[Sent], folder: &Path) -> Result<Answered> {
    let requests = |is_twin: bool| sent.iter().filter(move |it| it.is_twin == is_twin).collect::<Vec<_>>();
    let planted = requests(false);
    let asked = planted.get(question.asked_index(&question.send)?).context("it was not sent")?;
    let size = planted_ns(question.size, &planted, asked).context("the service did not say the size")?;
    let name = format!("{}.{}", folder.file_name().unwrap_or_default().to_string_lossy(), question.name);
    let (screen, document) = answer(places, &asked.trace_id, folder, &name)?;
    let expected = Expected {
        size: format!("{} ns", size.round()),
        who: question.who.clone(),
        says: question.says.clone(),
        never: question.never.clone(),
        short: question.short.clone(),
        json: Vec::new(),
    };
    let checked = check(&expected, &screen, &document);
    let one_line = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    let basis = document["headline"]["basis"].as_str().unwrap_or_default();
    let mut answered = Answered {
        planted: checked.planted,
        is_measured: checked.said.contains("measured") || basis == "measured",
        said: checked.said,
        verdict: match checked.verdict {
            IncidentVerdict::Wrong(why) => {
                let admitted = NO_PATH.into_iter().find(|words| one_line.contains(words));
                admitted
                    .map_or(IncidentVerdict::Wrong(why), |words| IncidentVerdict::Undecided(words.to_owned()))
            }
            verdict => verdict,
        },
        ..Answered::default()
    };
    let twins = requests(true);
    if !twins.is_empty() {
        let twin = twins.get(question.asked_index(&question.twin)?).context("the twin was not sent")?;
        let left = match question.size {
            Size::Fixed(_) | Size::OtherBody => Some(0.0),
            by => planted_ns(by, &twins, twin),
        };
        let (screen, _) = answer(places, &twin.trace_id, folder, &format!("{name}.twin"))?;
        answered.twin = Some(judge_twin(&[screen], &question.forbidden_in_twin(), left, Some(size)));
    }
    Ok(answered)
}

/// The planted size, ns.
fn planted_ns(size: Size, sent: &[&Sent], asked: &Sent) -> Option<f64> {
    match size {
        Size::Fixed(ns) => Some(ns),
        Size::Body => Some(asked.body? * 1e6),
        Size::OtherBody => sent.iter().find(|it| it.request != asked.request)?.body.map(|ms| ms * 1e6),
        Size::Beyond(least) => Some((asked.took_ns - least).max(0.0)),
        Size::BodyBeyond(least) => Some((asked.body? * 1e6 - least).max(0.0)),
    }
}

/// The first screen and the document for a request.
fn answer(places: &Places, trace_id: &str, folder: &Path, name: &str) -> Result<(String, Value)> {
    let command = |more: &[&str], ending: &str| -> Result<String> {
        let file = folder.join(format!("{name}.{ending}"));
        let mut command = Command::new(&places.wakepath);
        command.arg("requests").arg(folder.join(RECORDING));
        let spans = folder.join(SPANS);
        if spans.exists() {
            command.arg(spans);
        }
        command.args(["--request", trace_id]).args(more).stdout(File::create(&file)?);
        succeed(&mut command, &folder.join(format!("{name}.log")), TIMEOUT)?;
        Ok(String::from_utf8_lossy(&fs::read(&file)?).into_owned())
    };
    Ok((
        with_long_lines(&without_possible_causes(&command(&[], "txt")?)),
        serde_json::from_str(&command(&["--json"], "json")?).unwrap_or_default(),
    ))
}

/// A screen without its paragraphs about possible causes: they are no answer, and no false one.
fn without_possible_causes(screen: &str) -> String {
    let paragraphs = screen.split("\n\n").filter(|paragraph| !paragraph.starts_with("perhaps "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// A screen with a long line for each paragraph above the line with the time: a screen has narrow lines.
fn with_long_lines(screen: &str) -> String {
    let head = screen
        .split("\n\n")
        .take_while(|part| !part.lines().nth(1).is_some_and(|line| line.starts_with(' ')));
    let paragraphs: Vec<&str> = head.collect();
    let rest = &screen[paragraphs.join("\n\n").len()..];
    let long = paragraphs.iter().map(|part| part.lines().fold(String::new(), joined));
    long.collect::<Vec<_>>().join("\n\n") + rest
}

/// Adds a line to a paragraph's line, or behind it where a new sentence begins.
fn joined(long: String, line: &str) -> String {
    let begins = line.starts_with("or, if ") || begins_with_year(line);
    let between = match (long.is_empty(), begins) {
        (true, _) => "",
        (false, true) => "\n",
        (false, false) => " ",
    };
    format!("{long}{between}{line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(request: usize, took_ms: f64, body: Option<f64>) -> Sent {
        Sent { question: 0, is_twin: false, request, trace_id: String::new(), took_ns: took_ms * 1e6, body }
    }

    #[test]
    fn a_size_is_read_from_its_own_or_the_other_answer_or_from_the_client_s_time() {
        let [holder, asked] = [sent(0, 400.0, Some(90.0)), sent(1, 130.0, Some(120.0))];
        let all = [&holder, &asked];
        for (size, ms) in [
            (Size::Fixed(7e6), 7.0),
            (Size::Body, 120.0),
            (Size::OtherBody, 90.0),
            (Size::Beyond(100e6), 30.0),
            (Size::Beyond(200e6), 0.0),
            (Size::BodyBeyond(100e6), 20.0),
        ] {
            assert_eq!(planted_ns(size, &all, &asked), Some(ms * 1e6), "{size:?}");
        }
        assert_eq!(planted_ns(Size::Body, &all, &sent(1, 1.0, None)), None);
    }

    #[test]
    fn lines_above_the_table_are_joined_up_to_the_time_and_the_other_reading() {
        let screen = "its data had waited\n20 ms for GET\n/hold\n\nGET /item took 3 ms: mostly\nrunning\nor, if none: x\ny\n2026-11-30 z\n\n share  time\n 1%  2 ms  a\n           b\n\nlost\n0\n";
        assert_eq!(
            with_long_lines(screen),
            "its data had waited 20 ms for GET /hold\n\nGET /item took 3 ms: mostly running\nor, if none: x y\n2026-11-30 z\n\n share  time\n 1%  2 ms  a\n           b\n\nlost\n0\n"
        );
    }

    #[test]
    fn a_possible_cause_is_no_part_of_the_answer() {
        let screen =
            "GET /item took 3 ms\n\nperhaps blocked by GET /hold,\nfor 3 ms at most\n\nin all: 3 ms\n";
        assert_eq!(without_possible_causes(screen), "GET /item took 3 ms\n\nin all: 3 ms\n");
    }

    #[test]
    fn a_question_has_its_own_requests() {
        let mut other = sent(0, 1.0, None);
        other.question = 3;
        assert_eq!(requests_in(&[sent(0, 1.0, None), other], 3).len(), 1);
    }
}
