//! Plants culprits in random programs, and compares the path found by `wakepath drill` with the planted path.
//!
//! A program has levels of functions. Each function calls functions on the next level at several places: at one place the
//! callee goes on to the level below, at the others it returns at once. In each eighth call of `f0` the callees that go on are
//! those on the planted path, and the function at its end takes milliseconds.

mod program;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use wakepath_runner::Running;

pub use program::{Culprit, Language, Program, SystemCall};

/// A request to judge drill-downs.
#[derive(Debug, Clone)]
pub struct Run {
    /// The tool under judgement.
    pub wakepath: PathBuf,
    /// The first program's seed.
    pub seed: u64,
    /// The number of programs.
    pub programs: u64,
    /// The programs' languages, in turn.
    pub languages: Vec<Language>,
    /// Whether calls are measured by stubs in the process, where the language allows it.
    pub stubs: bool,
    /// The folder that keeps programs whose answer is not right.
    pub keep: Option<PathBuf>,
}

/// The judgement on an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrillVerdict {
    /// The path is the planted path.
    Right,
    /// The path is another, or there are several, and the answer says that it is not certain.
    Doubtful,
    /// The path is another, or a planted path is missing, without a mark of doubt.
    Wrong,
    /// There is no answer.
    NoAnswer,
}

/// A program and its answer.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The program.
    pub program: Program,
    /// The judgement.
    pub verdict: DrillVerdict,
    /// The found paths, as text.
    pub found: String,
    /// The time until the answer, ns.
    pub elapsed_ns: u64,
    /// The calls of `f0` until the answer.
    pub calls: u64,
    /// Whether the tool refused to begin without `--slow-probes`, and was asked again with it.
    pub slow_probes: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    pub status: String,
    pub root_causes: Vec<Vec<String>>,
    pub causes: Vec<DrillCause>,
    pub elapsed_ns: u64,
    pub calls: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct DrillCause {
    pub cause: Option<String>,
    pub doubts: Vec<String>,
}

/// Makes the programs, drills into each, and judges the answers. `each` gets every judgement as it is made.
pub fn run(run: &Run, mut each: impl FnMut(&Judged)) -> Result<Vec<Judged>> {
    let languages: Vec<Language> =
        run.languages.iter().copied().filter(|language| language.can_be_built()).collect();
    ensure!(!languages.is_empty(), "none of the languages has a compiler here");
    let mut all = Vec::new();
    for number in 0..run.programs {
        let language = languages[number as usize % languages.len()];
        let program = Program::from_seed(run.seed + number, language);
        let folder = tempfile::tempdir()?;
        let judged = drill(run, program, folder.path())?;
        each(&judged);
        if let (Some(keep), true) = (&run.keep, judged.verdict != DrillVerdict::Right) {
            let to = keep.join(format!("{}", judged.program.seed));
            std::fs::create_dir_all(&to)?;
            for file in std::fs::read_dir(folder.path())? {
                let file = file?;
                std::fs::copy(file.path(), to.join(file.file_name()))?;
            }
        }
        all.push(judged);
    }
    Ok(all)
}

/// Starts a program, which may write files into a folder. Returns it with its process id.
pub(crate) fn start(program: &Program, file: &Path, folder: &Path) -> Result<(Running, String)> {
    // Above all ordinary threads: otherwise the machine's other work is part of the slow calls.
    let mut command = Command::new("chrt");
    command.args(["-f", "10"]).args(program.interpreter()).arg(file).current_dir(folder);
    Running::start(&mut command)
}

fn drill(run: &Run, program: Program, folder: &Path) -> Result<Judged> {
    let file = program.build(folder)?;
    let (running, pid) = start(&program, &file, folder)?;
    let target = program.target(&file);
    let by_stubs: &[&str] = if run.stubs && !matches!(program.language, Language::Go | Language::Python) {
        &["--stubs"]
    } else {
        &[]
    };
    let ask = |more: &[&str]| {
        Command::new(&run.wakepath)
            .args(["drill", &target, "-p", &pid, "--start-ops", "200"])
            // A path may go on in libraries below the deepest culprit.
            .args(by_stubs)
            .args(["--json", "--no-waits", "-d", "30s", "--no-exceptions", "--max-depth", "16"])
            .args(more)
            .output()
            .context("cannot run wakepath")
    };
    let mut output = ask(&[])?;
    // The drill-down did not begin, and the refusal proposes an option, which a user would take.
    let is_proposed =
        |output: &Output| String::from_utf8_lossy(&output.stderr).contains("hint: --slow-probes");
    let slow_probes = !output.status.success() && is_proposed(&output);
    if slow_probes {
        output = ask(&["--slow-probes"])?;
    }
    drop(running);
    std::fs::write(folder.join("answer.json"), &output.stdout)?;
    let Ok(answer) = serde_json::from_slice::<Answer>(&output.stdout) else {
        let found = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Ok(Judged {
            program,
            verdict: DrillVerdict::NoAnswer,
            found,
            elapsed_ns: 0,
            calls: 0,
            slow_probes,
        });
    };
    let (verdict, found) = judge(&program.paths(), &answer);
    Ok(Judged { program, verdict, found, elapsed_ns: answer.elapsed_ns, calls: answer.calls, slow_probes })
}

/// Compares the found paths with the planted paths. Below the program's functions, a path may go on in library functions.
pub(crate) fn judge(planted: &[Vec<String>], answer: &Answer) -> (DrillVerdict, String) {
    let own = |path: &[String]| -> Vec<String> {
        let named = path.iter().filter(|name| !name.ends_with("<genexpr>"));
        named.take_while(|name| is_own(name)).map(|name| bare(name).to_owned()).collect()
    };
    let paths: Vec<Vec<String>> = answer.root_causes.iter().map(|path| own(path)).collect();
    let mut found = String::new();
    for (path, cause) in answer.root_causes.iter().zip(&answer.causes) {
        let doubts =
            if cause.doubts.is_empty() { String::new() } else { format!(" ({})", cause.doubts.join(", ")) };
        let _ = write!(found, "{} [{}]{doubts}; ", path.join(" "), cause.cause.as_deref().unwrap_or("none"));
    }
    let mut distinct = paths.clone();
    distinct.sort();
    distinct.dedup();
    let mut expected = planted.to_vec();
    expected.sort();
    expected.dedup();
    // The path is judged, not its cause, which is not known where the C library's own functions cannot be measured.
    if distinct == expected && ["root cause found", "path ends early"].contains(&answer.status.as_str()) {
        return (DrillVerdict::Right, found);
    }
    let wrong = paths
        .iter()
        .zip(&answer.causes)
        .any(|(path, cause)| !planted.contains(path) && cause.doubts.is_empty() && cause.cause.is_some());
    let missing = expected.iter().any(|path| !paths.contains(path));
    // A missing culprit is a wrong answer too, unless the others are not certain.
    let is_certain = answer.causes.iter().all(|cause| cause.doubts.is_empty() && cause.cause.is_some());
    let is_wrong = answer.status == "root cause found" && (wrong || missing && is_certain);
    (if is_wrong { DrillVerdict::Wrong } else { DrillVerdict::Doubtful }, found)
}

/// The name without its class, crate or package and parameters: `Node::f1_2(int)`, `program::f1_2`, `main.(*v).f1_2` and `Vf1_2.f1_2` are
/// `f1_2`.
fn bare(name: &str) -> &str {
    if let Some((class, method)) = name.split_once('.')
        && class.strip_prefix('V') == Some(method)
    {
        return method;
    }
    if let Some(of_go) = name.strip_prefix("main.") {
        return of_go.rsplit('.').next().unwrap_or_default();
    }
    let name = name.split('(').next().unwrap_or_default();
    name.rsplit("::").next().unwrap_or_default()
}

fn is_own(name: &str) -> bool {
    let name = bare(name);
    name == "f0"
        || name.strip_prefix('f').and_then(|rest| rest.split_once('_')).is_some_and(|(level, number)| {
            let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number(level) && is_number(number)
        })
}

/// The judgements by language and optimisation, as a table, and whether the answers are good enough: at least 99% right, none
/// wrong.
pub fn table(all: &[Judged]) -> (String, bool) {
    let mut text = String::from(
        "| language | programs | right | doubtful | WRONG | no answer | seconds, median | calls, median |\n|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let mut kinds: Vec<String> = all.iter().map(|judged| judged.program.kind()).collect();
    kinds.sort();
    kinds.dedup();
    let mut row = |name: &str, of: &[&Judged]| {
        let number = |verdict| of.iter().filter(|judged| judged.verdict == verdict).count();
        let median = |value: fn(&Judged) -> u64| {
            let mut values: Vec<u64> = of.iter().map(|judged| value(judged)).collect();
            values.sort_unstable();
            values.get(values.len() / 2).copied().unwrap_or(0)
        };
        let seconds = median(|judged| judged.elapsed_ns) as f64 / 1e9;
        let [right, doubtful, wrong, none] =
            [DrillVerdict::Right, DrillVerdict::Doubtful, DrillVerdict::Wrong, DrillVerdict::NoAnswer]
                .map(number);
        let calls = median(|judged| judged.calls);
        let _ = writeln!(
            text,
            "| {name} | {} | {right} | {doubtful} | {wrong} | {none} | {seconds:.2} | {calls} |",
            of.len()
        );
    };
    for kind in &kinds {
        let of: Vec<&Judged> = all.iter().filter(|judged| judged.program.kind() == *kind).collect();
        row(kind, &of);
    }
    row("all", &all.iter().collect::<Vec<_>>());
    let slow = all.iter().filter(|judged| judged.slow_probes).count();
    if slow > 0 {
        let _ = writeln!(
            text,
            "\n{slow} of them were asked about with --slow-probes, as the refusal without it proposed."
        );
    }
    let right = all.iter().filter(|judged| judged.verdict == DrillVerdict::Right).count();
    let is_good =
        right * 100 >= all.len() * 99 && all.iter().all(|judged| judged.verdict != DrillVerdict::Wrong);
    (text, is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(paths: &[(&[&str], Option<&str>, &[&str])], status: &str) -> Answer {
        let strings = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let cause = |cause: Option<&str>, doubts: &[&str]| DrillCause {
            cause: cause.map(str::to_owned),
            doubts: strings(doubts),
        };
        Answer {
            status: status.to_owned(),
            root_causes: paths.iter().map(|(path, ..)| strings(path)).collect(),
            causes: paths.iter().map(|&(_, why, doubts)| cause(why, doubts)).collect(),
            elapsed_ns: 1,
            calls: 1,
        }
    }

    #[test]
    fn an_answer_is_right_doubtful_or_wrong() {
        let planted = vec![vec!["f0".to_owned(), "f1_2".to_owned()]];
        let (itself, found) = (Some("itself"), "root cause found");
        let other: &[&str] = &["f0", "f1_1"];
        let planted_path: &[&str] = &["f0", "f1_2"];
        for (what, paths, status, verdict) in [
            ("the path", vec![(planted_path, itself, &[][..])], found, DrillVerdict::Right),
            (
                "with a library",
                vec![(&["f0", "f1_2", "nanosleep"][..], itself, &[])],
                found,
                DrillVerdict::Right,
            ),
            ("a method", vec![(&["f0", "Level::f1_2(int)"][..], itself, &[])], found, DrillVerdict::Right),
            (
                "Rust",
                vec![(
                    &["program::f0", "<program::Vf1_2 as program::Bf1_2>::f1_2", "std::thread::sleep"][..],
                    itself,
                    &[],
                )],
                found,
                DrillVerdict::Right,
            ),
            (
                "Go",
                vec![(&["main.f0", "main.(*vf1_2).f1_2", "main.takeTime"][..], itself, &[])],
                found,
                DrillVerdict::Right,
            ),
            (
                "Python",
                vec![(&["f0", "f0.<locals>.<genexpr>", "Vf1_2.f1_2", "take_time"][..], itself, &[])],
                found,
                DrillVerdict::Right,
            ),
            ("another", vec![(other, itself, &[])], found, DrillVerdict::Wrong),
            ("another, in doubt", vec![(other, itself, &["few calls"])], found, DrillVerdict::Doubtful),
            ("both", vec![(planted_path, itself, &[]), (other, itself, &[])], found, DrillVerdict::Wrong),
            ("too short", vec![(&["f0"][..], itself, &[])], found, DrillVerdict::Wrong),
            (
                "too short, not decided",
                vec![(&["f0"][..], None, &[])],
                "stopped: the time is over",
                DrillVerdict::Doubtful,
            ),
            (
                "the path, without a cause",
                vec![(planted_path, None, &[])],
                "path ends early",
                DrillVerdict::Right,
            ),
            (
                "too short, without a cause",
                vec![(&["f0"][..], None, &[])],
                "path ends early",
                DrillVerdict::Doubtful,
            ),
            ("nothing", vec![], found, DrillVerdict::Wrong),
        ] {
            assert_eq!(judge(&planted, &answer(&paths, status)).0, verdict, "{what}");
        }
        let two = vec![planted[0].clone(), vec!["f0".to_owned(), "f1_1".to_owned()]];
        let one = answer(&[(planted_path, itself, &[])], found);
        assert_eq!(judge(&two, &one).0, DrillVerdict::Wrong, "one of two culprits is missing");
    }

    #[test]
    fn names_of_the_program_are_told_from_those_of_libraries() {
        for name in
            ["f0", "f1_2", "Level3::f3_0(int)", "f12_34", "program::f0", "<program::V as program::T>::f2_0"]
        {
            assert!(is_own(name), "{name}");
        }
        for name in ["nanosleep", "f", "free_1", "f1", "fsync_2", "f_1", "std::thread::sleep"] {
            assert!(!is_own(name), "{name}");
        }
    }
}
