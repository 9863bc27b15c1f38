//! Plants an incident, runs its script's wakepath commands, and keeps the first screen and the document.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use wakepath_runner::ended;

use super::check::{Checked, Expected, IncidentVerdict, blocks, check};
use super::healthy;
use super::script::{Incident, facts, nanoseconds, with_facts};
use super::twin::{TwinVerdict, judge as judge_twin};

/// The longest time for a command, and until a program is ready.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The longest time until a killed process ends.
const KILLED: Duration = Duration::from_secs(5);
/// The interval between two looks at a program.
const INTERVAL: Duration = Duration::from_millis(10);

/// An answer to a command.
#[derive(Debug)]
pub struct Answer {
    /// The command's output.
    pub screen: String,
    /// The document of the command, or of `path` if the command records; null if there is none.
    pub document: Value,
    /// The facts written by the program until then.
    pub facts: BTreeMap<String, String>,
}

/// A way to plant an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planting {
    /// With its cause.
    Planted,
    /// Without its cause.
    Twin,
    /// Without its cause, beside a spinning process for each CPU.
    LoadedTwin,
}

impl Planting {
    /// The folder's name ends so.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Planted => "",
            Self::Twin => ".twin",
            Self::LoadedTwin => ".loaded-twin",
        }
    }
}

/// The facts by which a program says that this machine lacks something, and how long its cause held a twin, s.
const LACKS: &str = "lacks";
const LEFT: &str = "twin";

/// Plants an incident in this folder, which is emptied, asks, and judges the answer; then its twins beside it.
pub fn ask(wakepath: &Path, incident: &Incident, folder: &Path, with_twins: bool) -> Checked {
    let mut checked = planted(wakepath, incident, folder);
    let is_planted = !matches!(checked.verdict, IncidentVerdict::NotRun(_));
    if with_twins && is_planted && !incident.is_healthy {
        for planting in [Planting::Twin, Planting::LoadedTwin] {
            let size = checked.planted.clone();
            checked.twins.push(twin(wakepath, incident, folder, planting, nanoseconds(&size)));
        }
    }
    checked
}

/// The judged answers to a planted incident: to its first command, and to the second if that one was not right.
fn planted(wakepath: &Path, incident: &Incident, folder: &Path) -> Checked {
    let failed = |verdict| Checked { planted: incident.size.clone(), ..Checked::of(verdict) };
    let program = match program(incident, folder) {
        Ok(Ok(program)) => program,
        Ok(Err(missing)) => return failed(IncidentVerdict::NotRun(format!("`{missing}` is missing"))),
        Err(error) => return failed(IncidentVerdict::NoAnswer(format!("{error:#}"))),
    };
    let mut last = None;
    let mut judged = |answer: &Answer, turn: usize| {
        let checked = judge(incident, answer, turn + 1);
        let is_over = checked.verdict == IncidentVerdict::Right || checked.is_false;
        last = Some(checked);
        is_over
    };
    let ran = run(wakepath, incident, &program, folder, Planting::Planted, &mut judged);
    let lacks = read_facts(&folder.join("planted")).ok().and_then(|facts| facts.get(LACKS).cloned());
    match (ran, last, lacks) {
        (_, _, Some(lacks)) => failed(IncidentVerdict::NotRun(format!("this machine lacks {lacks}"))),
        (Ok(()), Some(checked), None) => checked,
        (Ok(()), None, None) => failed(IncidentVerdict::NoAnswer("nothing was asked".to_owned())),
        (Err(error), ..) => failed(IncidentVerdict::NoAnswer(format!("{error:#}"))),
    }
}

fn expected(incident: &Incident, facts: &BTreeMap<String, String>) -> Expected {
    let fill = |texts: &[String]| texts.iter().map(|text| with_facts(text, facts)).collect();
    Expected {
        size: with_facts(&incident.size, facts),
        who: fill(&incident.who),
        says: fill(&incident.says),
        never: fill(&incident.never),
        short: fill(&incident.short),
        json: fill(&incident.json),
    }
}

/// The verdict after this many commands.
fn judge(incident: &Incident, answer: &Answer, commands: usize) -> Checked {
    if incident.is_healthy {
        let verdict = match healthy::blamed(&answer.screen, &answer.document) {
            Ok(None) => IncidentVerdict::Right,
            Ok(Some(blamed)) => IncidentVerdict::Wrong(blamed),
            Err(missing) => IncidentVerdict::NoAnswer(missing),
        };
        let said = blocks(&answer.screen).first().cloned().unwrap_or_default();
        return Checked { said, planted: "nothing".to_owned(), commands, ..Checked::of(verdict) };
    }
    Checked { commands, ..check(&expected(incident, &answer.facts), &answer.screen, &answer.document) }
}

/// Plants an incident without its cause, asks, and judges the headlines.
fn twin(
    wakepath: &Path,
    incident: &Incident,
    folder: &Path,
    planting: Planting,
    planted_ns: Option<f64>,
) -> TwinVerdict {
    let mut name = folder.as_os_str().to_owned();
    name.push(planting.suffix());
    let folder = PathBuf::from(name);
    let not_judged = |error: anyhow::Error| TwinVerdict::NotJudged(format!("{error:#}"));
    let program = match program(incident, &folder) {
        Ok(Ok(program)) => program,
        Ok(Err(missing)) => return TwinVerdict::NotJudged(format!("`{missing}` is missing")),
        Err(error) => return not_judged(error),
    };
    let mut screens = Vec::new();
    let mut keep = |answer: &Answer, _| {
        screens.push(answer.screen.clone());
        false
    };
    let ran = match planting {
        Planting::LoadedTwin => Load::start(&folder)
            .and_then(|_load| run(wakepath, incident, &program, &folder, planting, &mut keep)),
        _ => run(wakepath, incident, &program, &folder, planting, &mut keep),
    };
    let facts = match ran.and_then(|()| read_facts(&folder.join("planted"))) {
        Ok(facts) => facts,
        Err(error) => return not_judged(error),
    };
    let forbidden: Vec<String> =
        incident.forbidden_in_twin().iter().map(|word| with_facts(word, &facts)).collect();
    let left = facts.get(LEFT).and_then(|seconds| nanoseconds(&format!("{seconds} s")));
    judge_twin(&screens, &forbidden, left, planted_ns)
}

/// The command that runs the script: an interpreter and the script, or the compiled program. The inner error is the name
/// of a program that is not installed.
fn program(incident: &Incident, folder: &Path) -> Result<Result<Vec<PathBuf>, String>> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty `{}`", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    // Under sudo the program runs as the invoking user, and writes its facts there.
    let planted = folder.join("planted");
    File::create(&planted)?;
    fs::set_permissions(&planted, Permissions::from_mode(0o666))?;
    let kind = incident.file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let tool = match kind {
        "py" => "python3",
        "sh" => "sh",
        "js" => "node",
        "c" => "cc",
        "go" => "go",
        "java" => "javac",
        _ => bail!("no program runs `.{kind}`"),
    };
    let missing =
        |name: &&str| if name.starts_with('/') { !Path::new(name).exists() } else { search(name).is_none() };
    if let Some(missing) = incident.needs.iter().map(String::as_str).chain([tool]).find(missing) {
        return Ok(Err(missing.to_owned()));
    }
    let script = incident.file.canonicalize()?;
    let compiled = folder.join(&incident.name);
    let mut compiler = Command::new(search(tool).unwrap_or_default());
    match kind {
        "c" => compiler.args(["-O1", "-g", "-pthread", "-o"]).arg(&compiled).arg(&script),
        "go" => compiler.args(["build", "-o"]).arg(&compiled).arg(&script),
        "java" => compiler.arg("-d").arg(folder).arg(&script),
        "py" => return Ok(Ok(vec![python()?, script])),
        _ => return Ok(Ok(vec![PathBuf::from(tool), script])),
    };
    let status = compiler.status().with_context(|| format!("cannot start `{tool}`"))?;
    ensure!(status.success(), "`{}` cannot be compiled", incident.file.display());
    Ok(Ok(match kind {
        "java" => vec!["java".into(), "-cp".into(), folder.to_owned(), "Main".into()],
        _ => vec![compiled],
    }))
}

/// The interpreter itself: `python3` may be a script that looks for it.
fn python() -> Result<PathBuf> {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output()?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// A program on the search path, to which Go's usual folder is added.
fn search(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/local/go/bin")]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Runs the program and the commands, until `is_over` says so of an answer and its turn.
fn run(
    wakepath: &Path,
    incident: &Incident,
    program: &[PathBuf],
    folder: &Path,
    planting: Planting,
    is_over: &mut dyn FnMut(&Answer, usize) -> bool,
) -> Result<()> {
    let wakepath =
        wakepath.canonicalize().with_context(|| format!("no `{}`: build it", wakepath.display()))?;
    let planted = folder.join("planted");
    let command = |program: &Path| {
        let mut command = Command::new(program);
        command.current_dir(folder).env("PLANTED", &planted).stdin(Stdio::null());
        match planting {
            Planting::Planted => command.env_remove("TWIN"),
            Planting::Twin | Planting::LoadedTwin => command.env("TWIN", "1"),
        };
        command
    };
    let mut before = None;
    if !incident.is_command() {
        let log = File::create(folder.join("program.log"))?;
        let mut start = command(&program[0]);
        start.args(&program[1..]).stdout(log.try_clone()?).stderr(log);
        let group = Group::start(&mut start)?;
        wait_until_ready(&planted)?;
        before = Some(group);
    }
    for (turn, ask) in incident.asks.iter().enumerate() {
        let mut asked = command(&wakepath);
        asked.args(words(ask, program, &read_facts(&planted)?));
        let file = folder.join(format!("screen{}", turn + 1));
        let out = File::create(&file)?;
        // A command's answer goes to stderr, its own output to stdout.
        let printed = match ask.starts_with("record ") && ask.contains(" -- ") {
            true => File::create(folder.join("output"))?,
            false => out.try_clone()?,
        };
        let mut group = Group::start(asked.stdout(printed).stderr(out))?;
        if let (0, Some((signal, after))) = (turn, &incident.signal) {
            wait_until_ready(&planted)?;
            std::thread::sleep(*after);
            group.signal(signal)?;
        }
        group.finish().with_context(|| format!("`wakepath {ask}`"))?;
        let screen = String::from_utf8_lossy(&fs::read(&file)?).into_owned();
        let facts = read_facts(&planted)?;
        let ask = if ask.starts_with("record ") { "path" } else { ask };
        let output = command(&wakepath).args(words(ask, program, &facts)).arg("--json").output()?;
        fs::write(folder.join(format!("document{}.json", turn + 1)), &output.stdout)?;
        let document = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if is_over(&Answer { screen, document, facts }, turn) {
            break;
        }
    }
    drop(before);
    Ok(())
}

/// The arguments of a command: `$0` is the program, `$NAME` a fact.
fn words(ask: &str, program: &[PathBuf], facts: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let word = |word: &str| {
        if word == "$0" { program.to_vec() } else { vec![PathBuf::from(with_facts(word, facts))] }
    };
    ask.split_whitespace().flat_map(word).collect()
}

fn read_facts(planted: &Path) -> Result<BTreeMap<String, String>> {
    Ok(facts(&fs::read_to_string(planted).with_context(|| format!("cannot read `{}`", planted.display()))?))
}

fn wait_until_ready(planted: &Path) -> Result<()> {
    let began = Instant::now();
    while !read_facts(planted)?.contains_key("ready") {
        ensure!(!read_facts(planted)?.contains_key(LACKS), "this machine lacks something");
        ensure!(began.elapsed() < TIMEOUT, "the program did not write `ready`");
        std::thread::sleep(INTERVAL);
    }
    Ok(())
}

/// A program and the processes started by it, as a terminal has them in its foreground. They end when this is dropped.
struct Group(Child);

impl Group {
    fn start(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        Ok(Self(command.process_group(0).spawn().with_context(|| format!("cannot start `{name}`"))?))
    }

    /// Sends a signal to all processes in the group, like a terminal.
    fn signal(&self, signal: &str) -> Result<()> {
        let group = format!("-{}", self.0.id());
        let status =
            Command::new("kill").args(["-s", signal, "--", &group]).stderr(Stdio::null()).status()?;
        ensure!(status.success(), "cannot send {signal}");
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        ensure!(ended(&mut self.0, TIMEOUT)?.is_some(), "did not end within {} s", TIMEOUT.as_secs());
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Where all processes have ended, there is no such group.
        let _ = self.signal("KILL");
        // A killed process may hang in the kernel: then nobody waits for it.
        let began = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && began.elapsed() < KILLED {
            std::thread::sleep(INTERVAL);
        }
    }
}

/// A spinning process for each CPU, until this is dropped.
struct Load {
    _spinners: Vec<Group>,
}

impl Load {
    fn start(folder: &Path) -> Result<Self> {
        // The kernel names a process by the file that it runs.
        let spinner = folder.join("spinner");
        std::os::unix::fs::symlink(search("sh").context("no shell")?, &spinner)?;
        let cpus = std::thread::available_parallelism()?.get();
        let spin = || Group::start(Command::new(&spinner).args(["-c", "while :; do :; done"]));
        Ok(Self { _spinners: (0..cpus).map(|_| spin()).collect::<Result<_>>()? })
    }
}
