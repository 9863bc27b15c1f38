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

use super::check::{Checked, Expected, IncidentVerdict, check};
use super::script::{Incident, facts, with_facts};

/// The longest time for a command, and until a program is ready.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The interval between two looks at a program.
const INTERVAL: Duration = Duration::from_millis(10);

/// The tool's answer.
#[derive(Debug)]
pub struct Answer {
    /// The last command's output.
    pub screen: String,
    /// The document of the last command, or of `path` if the last command records.
    pub document: Value,
    /// The facts written by the program.
    pub facts: BTreeMap<String, String>,
}

/// Plants an incident in this folder, which is emptied, asks, and judges the answer.
pub fn ask(wakepath: &Path, incident: &Incident, folder: &Path) -> Checked {
    let failed = |why: String| Checked {
        verdict: IncidentVerdict::NoAnswer(why),
        said: String::new(),
        planted: incident.size.clone(),
    };
    let program = match program(incident, folder) {
        Ok(Ok(program)) => program,
        Ok(Err(missing)) => {
            return Checked {
                verdict: IncidentVerdict::NotRun(format!("`{missing}` is not installed")),
                ..failed(String::new())
            };
        }
        Err(error) => return failed(format!("{error:#}")),
    };
    match run(wakepath, incident, &program, folder) {
        Ok(answer) => {
            let fill = |texts: &[String]| texts.iter().map(|text| with_facts(text, &answer.facts)).collect();
            let expected = Expected {
                size: with_facts(&incident.size, &answer.facts),
                who: fill(&incident.who),
                says: fill(&incident.says),
                never: fill(&incident.never),
                json: fill(&incident.json),
            };
            check(&expected, &answer.screen, &answer.document)
        }
        Err(error) => failed(format!("{error:#}")),
    }
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
        _ => bail!("no program runs `.{kind}`"),
    };
    let missing = |name: &&str| search(name).is_none();
    if let Some(missing) = incident.needs.iter().map(String::as_str).chain([tool]).find(missing) {
        return Ok(Err(missing.to_owned()));
    }
    let script = incident.file.canonicalize()?;
    let compiled = folder.join(&incident.name);
    let mut compiler = Command::new(search(tool).unwrap_or_default());
    match kind {
        "c" => compiler.args(["-O1", "-g", "-pthread", "-o"]).arg(&compiled).arg(&script),
        "go" => compiler.args(["build", "-o"]).arg(&compiled).arg(&script),
        "py" => return Ok(Ok(vec![python()?, script])),
        _ => return Ok(Ok(vec![PathBuf::from(tool), script])),
    };
    let status = compiler.status().with_context(|| format!("cannot start `{tool}`"))?;
    ensure!(status.success(), "`{}` cannot be compiled", incident.file.display());
    Ok(Ok(vec![compiled]))
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

fn run(wakepath: &Path, incident: &Incident, program: &[PathBuf], folder: &Path) -> Result<Answer> {
    let wakepath =
        wakepath.canonicalize().with_context(|| format!("no `{}`: build it", wakepath.display()))?;
    let planted = folder.join("planted");
    let command = |program: &Path| {
        let mut command = Command::new(program);
        command.current_dir(folder).env("PLANTED", &planted).stdin(Stdio::null());
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
    let mut screen = String::new();
    for (turn, ask) in incident.asks.iter().enumerate() {
        let mut wakepath = command(&wakepath);
        wakepath.args(words(ask, program, &read_facts(&planted)?));
        let file = folder.join(format!("screen{}", turn + 1));
        let out = File::create(&file)?;
        let mut group = Group::start(wakepath.stdout(out.try_clone()?).stderr(out))?;
        if let (0, Some((signal, after))) = (turn, &incident.signal) {
            wait_until_ready(&planted)?;
            std::thread::sleep(*after);
            group.signal(signal)?;
        }
        group.finish().with_context(|| format!("`wakepath {ask}`"))?;
        screen = String::from_utf8_lossy(&fs::read(&file)?).into_owned();
    }
    drop(before);
    let facts = read_facts(&planted)?;
    let last = incident.asks.last().map_or("", String::as_str);
    let last = if last.starts_with("record ") { "path" } else { last };
    let output = command(&wakepath).args(words(last, program, &facts)).arg("--json").output()?;
    fs::write(folder.join("document.json"), &output.stdout)?;
    let document = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("`wakepath {last} --json` printed no document"))?;
    Ok(Answer { screen, document, facts })
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
        let _ = self.0.wait();
    }
}
