//! Breaks the crates that decide, one operator, condition or function at a time, and reports the breaks that no test
//! notices.
//!
//! `packaging/mutants` runs it. cargo-mutants lists the breaks (mutants); all are built at once, each as a branch behind a
//! switch ([`rewrite`]), in a copy of the tree ([`tree`]): no other build contains them. Switches rejected by the compiler
//! are taken out ([`blame`]). Then each test runs without a mutant, to check that it passes and to record the switches it
//! reaches, and each mutant is judged by the tests that reach it, up to the first failure ([`judge`]).

mod blame;
mod compile;
mod judge;
mod list;
mod mutant;
mod page;
mod rewrite;
mod tree;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use judge::MutantVerdict;
use list::Subject;
use mutant::Mutant;
use page::Outcome;

const LIST: &str = "packaging/mutants.list";
const EQUIVALENT: &str = "packaging/mutants.equivalent";
const PAGE: &str = "lab/results/mutants.md";

/// Prints a line of progress.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { println!("mutants: {}", format_args!($($text)*)) };
}

/// The command line's words.
struct Asked {
    subjects: Vec<Subject>,
    /// The names of the only mutants to try; `None` for all.
    only: Option<HashSet<String>>,
}

fn asked(arguments: impl Iterator<Item = String>) -> Result<Asked> {
    let all = list::subjects(&read(LIST)?)?;
    let (mut subjects, mut only) = (Vec::new(), None);
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        if argument == "--only" {
            let file = arguments.next().context("--only needs a file with a mutant a line")?;
            let text = read(&file)?;
            let names =
                text.lines().map(|line| mutant::unplaced(line.split('\t').next().unwrap_or(line).trim()));
            only = Some(names.filter(|name| !name.is_empty()).collect());
        } else if let Some(subject) = all.iter().find(|subject| subject.name == argument) {
            subjects.push(subject.clone());
        } else {
            let names: Vec<_> = all.iter().map(|subject| &*subject.name).collect();
            bail!("there is no `{argument}` in {LIST}\nhint: there are: {}", names.join(" "));
        }
    }
    Ok(Asked { subjects: if subjects.is_empty() { all } else { subjects }, only })
}

fn read(file: &str) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))
}

/// The mutants for a line in the list.
fn mutants_of(subject: &Subject) -> Result<Vec<Mutant>> {
    let tool = "target/tools/bin/cargo-mutants";
    let output = Command::new(tool)
        .args(["mutants", "--list", "--json", "--colors=never", "--package"])
        .arg(format!("wakepath-{}", subject.crate_name))
        .args(subject.files.iter().map(|file| match file.strip_prefix('!') {
            Some(file) => format!("--exclude={file}"),
            None => format!("--file={file}"),
        }))
        .output()
        .with_context(|| format!("cannot run {tool}: packaging/mutants installs it"))?;
    ensure!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
    let mutants = mutant::parse(&String::from_utf8_lossy(&output.stdout))?;
    ensure!(!mutants.is_empty(), "{} has no mutant: are its files in {LIST} still there?", subject.name);
    Ok(mutants)
}

/// The commit whose files are tried.
fn commit() -> String {
    let output = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = output("git", &["describe", "--always", "--dirty", "--exclude=*"]).unwrap_or_default();
    format!("{commit}, {}", output("date", &["-u", "+%F"]).unwrap_or_default())
}

/// Judges the mutants of the requested lines; true if all are noticed.
fn run(asked: &Asked) -> Result<bool> {
    let checkout = std::env::current_dir()?;
    let out = checkout.join("target/mutants");
    let commit = commit();
    let argued = list::argued(&read(EQUIVALENT)?)?;
    let mut mutants = Vec::new();
    let mut ranges = Vec::new();
    for subject in &asked.subjects {
        let begin = mutants.len();
        let mut listed = mutants_of(subject)?;
        if let Some(only) = &asked.only {
            listed.retain(|mutant| only.contains(&mutant.name));
        }
        mutants.extend(listed);
        ranges.push(begin..mutants.len());
    }
    // Mutants from several lists get new numbers.
    for (number, mutant) in (1..).zip(&mut mutants) {
        mutant.number = number;
    }
    ensure!(!mutants.is_empty(), "none of the mutants that --only names is there");
    let judges: BTreeSet<_> = asked.subjects.iter().flat_map(|subject| &subject.judges).cloned().collect();
    let judges: Vec<_> = judges.into_iter().collect();
    let tree = tree::Tree::copy(&checkout, &out.join("tree"))?;
    let built = compile::compile(&tree, &mutants, &judges, &out.join("build"))?;
    let mut is_complete = true;
    for (subject, range) in asked.subjects.iter().zip(ranges) {
        let mutants: Vec<_> = mutants[range].iter().collect();
        let outcome =
            judge_one(subject, &mutants, &built, &argued, &out, asked.only.is_none().then_some(&*commit));
        match outcome {
            Ok(noticed) => is_complete &= noticed,
            Err(error) => {
                say!("{}: error: {error:#}", subject.name);
                is_complete = false;
            }
        }
    }
    Ok(is_complete)
}

/// Judges a line in the list, and writes its files, and its row if a commit is given.
fn judge_one(
    subject: &Subject,
    mutants: &[&Mutant],
    built: &compile::Built,
    argued: &std::collections::BTreeMap<String, String>,
    out: &Path,
    commit: Option<&str>,
) -> Result<bool> {
    let begun = Instant::now();
    let programs: Vec<_> =
        built.programs.iter().filter(|program| subject.judges.contains(&program.crate_name)).collect();
    let scratch: PathBuf = out.join("reached");
    let tests = judge::tests(&programs, &scratch)?;
    let has_switch = |number: &u32| !built.not_building.contains(number) && !built.no_switch.contains(number);
    let numbers: Vec<_> = mutants.iter().map(|mutant| mutant.number).filter(has_switch).collect();
    say!(
        "{}: {} mutants, judged by {} tests of {}",
        subject.name,
        numbers.len(),
        tests.len(),
        subject.judges.join(", ")
    );
    let verdicts = judge::judge(&tests, &numbers, subject.limit, |number, verdict| {
        let word = match verdict {
            MutantVerdict::Noticed(_) => return,
            MutantVerdict::Late(_) => "late",
            MutantVerdict::Missed(_) => "missed",
        };
        let mutant = mutants.iter().find(|mutant| mutant.number == number);
        say!("{word}: {}", mutant.map(|mutant| mutant.placed_name()).unwrap_or_default());
    })?;
    let outcome = Outcome::new(mutants, &verdicts, &built.not_building, argued);
    outcome.write(&out.join(&subject.name))?;
    say!("{}: {}", subject.name, outcome.summary().trim_end());
    if let Some(commit) = commit {
        let row = outcome.row(&subject.name, begun.elapsed(), commit);
        std::fs::write(PAGE, page::with_row(&read(PAGE)?, &subject.name, &row))?;
    }
    Ok(outcome.is_complete())
}

fn main() -> ExitCode {
    match asked(std::env::args().skip(1)).and_then(|asked| run(&asked)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutants: error: {error:#}");
            ExitCode::from(2)
        }
    }
}
