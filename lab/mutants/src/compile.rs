//! Builds the tests in a tree with switches, without the switches that the compiler does not accept.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::blame::Blame;
use crate::mutant::Mutant;
use crate::rewrite::{Rewritten, rewrite, switch_module};
use crate::say;
use crate::tree::Tree;

/// After this number of builds the errors will not end.
const MAX_BUILDS: u32 = 20;

/// A test program.
#[derive(Debug)]
pub struct TestProgram {
    /// The tested crate, without `wakepath-`.
    pub crate_name: String,
    pub name: String,
    pub path: PathBuf,
    /// The folder in which cargo would run it.
    pub folder: PathBuf,
}

/// The test programs, and the mutants missing in them.
#[derive(Debug)]
pub struct Built {
    pub programs: Vec<TestProgram>,
    pub not_building: BTreeSet<u32>,
    pub no_switch: BTreeSet<u32>,
}

/// Puts the mutants' switches into the tree and builds some crates' tests, as often as necessary.
pub fn compile(tree: &Tree, mutants: &[Mutant], crates: &[String], target: &Path) -> Result<Built> {
    let (mut not_building, mut no_switch, mut keep_const) =
        (BTreeSet::new(), BTreeSet::new(), HashSet::new());
    for number in 1..=MAX_BUILDS {
        let is_out =
            |mutant: &Mutant| not_building.contains(&mutant.number) || no_switch.contains(&mutant.number);
        let mut by_file: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
        for mutant in mutants.iter().filter(|mutant| !is_out(mutant)) {
            by_file.entry(&mutant.file).or_default().push(mutant);
        }
        let files = rewrite_all(tree, &by_file, &keep_const)?;
        write(tree, &files, mutants.last().map_or(0, |mutant| mutant.number))?;
        let switched: usize = files.values().map(|file| file.switched.len()).sum();
        say!("build {number}, with {switched} switches");
        let (programs, blame) = build(tree, &files, crates, target)?;
        if let Some(programs) = programs {
            let has_switch = |mutant: &&Mutant| {
                is_out(mutant)
                    || files.get(&mutant.file).is_some_and(|file| file.switched.contains(&mutant.number))
            };
            let without: Vec<_> = mutants.iter().filter(|mutant| !has_switch(mutant)).collect();
            no_switch.extend(without.iter().map(|mutant| mutant.number));
            return Ok(Built { programs, not_building, no_switch });
        }
        if blame.not_building.is_empty() && blame.no_switch.is_empty() && blame.keep_const.is_empty() {
            bail!("the tests do not build, and no mutant explains it:\n{}", blame.unexplained.join("\n"));
        }
        not_building.extend(&blame.not_building);
        no_switch.extend(blame.no_switch.difference(&blame.not_building));
        keep_const.extend(blame.keep_const);
    }
    bail!("after {MAX_BUILDS} builds the compiler still finds errors");
}

fn rewrite_all(
    tree: &Tree,
    by_file: &BTreeMap<&str, Vec<&Mutant>>,
    keep_const: &HashSet<String>,
) -> Result<BTreeMap<String, Rewritten>> {
    let one = |(file, mutants): (&&str, &Vec<&Mutant>)| {
        let source = tree.source(file).with_context(|| format!("cannot read {file}"))?;
        let rewritten = rewrite(source, mutants, keep_const).with_context(|| (*file).to_owned())?;
        Ok(((*file).to_owned(), rewritten))
    };
    by_file.iter().map(one).collect()
}

/// Writes the files with switches; each crate gets the switch module.
fn write(tree: &Tree, files: &BTreeMap<String, Rewritten>, max_number: u32) -> Result<()> {
    let root = |file: &str| file.split_once("/src/").map(|(folder, _)| format!("{folder}/src/lib.rs"));
    let roots: BTreeSet<_> = files.keys().filter_map(|file| root(file)).collect();
    tree.write_sources(|file| {
        let text = files.get(file).map(|file| file.text.clone());
        if !roots.contains(file) {
            return text;
        }
        let text = text.or_else(|| tree.source(file).map(str::to_owned))?;
        Some(text + &switch_module(max_number))
    })
}

/// Builds; returns the programs if all could be built.
fn build(
    tree: &Tree,
    files: &BTreeMap<String, Rewritten>,
    crates: &[String],
    target: &Path,
) -> Result<(Option<Vec<TestProgram>>, Blame)> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| String::from("cargo"));
    // The recorder is left out: it needs clang and a kernel. Some optimisation, because tests run a thousand times as often
    // as they are built; overflow checks and assertions stay.
    let output = Command::new(&cargo)
        .args([
            "build",
            "--locked",
            "--tests",
            "--keep-going",
            "--no-default-features",
            "--message-format=json",
        ])
        .args(crates.iter().map(|name| format!("--package=wakepath-{name}")))
        .current_dir(&tree.folder)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        // A switch makes code with lints.
        .env("RUSTFLAGS", "--cap-lints=allow")
        .output()
        .with_context(|| format!("cannot run {cargo}"))?;
    let mut blame = Blame::default();
    let mut programs = Vec::new();
    let messages = String::from_utf8_lossy(&output.stdout);
    for message in messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if message["reason"] == "compiler-message" {
            blame.add(&message["message"], files);
        } else if message["reason"] == "compiler-artifact" && message["profile"]["test"] == true {
            programs.extend(program(&message));
        }
    }
    if output.status.success() {
        programs.sort_by(|a, b| (&a.crate_name, &a.name).cmp(&(&b.crate_name, &b.name)));
        return Ok((Some(programs), blame));
    }
    if blame == Blame::default() {
        blame.unexplained.push(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok((None, blame))
}

fn program(message: &Value) -> Option<TestProgram> {
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some(TestProgram {
        crate_name: folder.file_name()?.to_str()?.to_owned(),
        name: message["target"]["name"].as_str()?.to_owned(),
        path: PathBuf::from(message["executable"].as_str()?),
        folder: folder.to_owned(),
    })
}
