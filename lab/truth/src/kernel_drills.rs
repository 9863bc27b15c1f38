//! Plants slow system calls in random programs, and compares the path found by `wakepath drill` across the system call with the planted path
//! and the kernel functions below it.
//!
//! It runs in guests whose kernel allows probes and that have no compiler: the programs are built before, into a folder.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::drills::{Answer, DrillCause, DrillVerdict, Judged, Program, judge, start};

/// A request to judge drill-downs across system calls.
#[derive(Debug, Clone, clap::Args)]
pub struct Run {
    /// The number of programs.
    #[arg(long, default_value_t = 100)]
    pub programs: u64,
    /// The first program's seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The folder with the built programs, by seed.
    #[arg(long, value_name = "DIR")]
    pub built: PathBuf,
    /// Build the programs there, and run nothing.
    #[arg(long)]
    pub build: bool,
    /// The tool under judgement.
    #[arg(long, default_value = "target/release/wakepath")]
    pub wakepath: PathBuf,
    /// Keep the answers in this folder.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

impl Run {
    fn seeds(&self) -> std::ops::Range<u64> {
        self.seed..self.seed + self.programs
    }

    fn folder(&self, seed: u64) -> PathBuf {
        self.built.join(seed.to_string())
    }
}

/// Makes and compiles the programs.
pub fn build(run: &Run) -> Result<()> {
    for seed in run.seeds() {
        let folder = run.folder(seed);
        std::fs::create_dir_all(&folder)?;
        Program::from_seed_in_kernel(seed).build(&folder)?;
    }
    Ok(())
}

/// Drills into each program, and judges the answers. `each` gets every judgement as it is made.
pub fn run(run: &Run, mut each: impl FnMut(&Judged)) -> Result<Vec<Judged>> {
    let mut all = Vec::new();
    for seed in run.seeds() {
        let judged = drill(run, Program::from_seed_in_kernel(seed))?;
        each(&judged);
        all.push(judged);
    }
    Ok(all)
}

fn drill(run: &Run, program: Program) -> Result<Judged> {
    let file = run.folder(program.seed).join("program");
    ensure!(file.exists(), "{} is not built: `--build` does it", file.display());
    // The program writes its files here.
    let folder = tempfile::tempdir()?;
    let own = folder.path().join("program");
    std::fs::copy(&file, &own)?;
    let (running, pid) = start(&program, &own, folder.path())?;
    let target = format!("{}:{}", own.display(), program.first());
    let output = Command::new(&run.wakepath)
        .args(["drill", &target, "-p", &pid, "--start-ops", "200", "--json", "--no-waits", "-d", "100s"])
        .args(["--no-exceptions", "--slow-probes", "--max-depth", "24"])
        .output()
        .context("cannot run wakepath")?;
    drop(running);
    if let Some(keep) = &run.keep {
        std::fs::write(keep.join(format!("{}.json", program.seed)), &output.stdout)?;
    }
    let mut judged = Judged {
        program,
        verdict: DrillVerdict::NoAnswer,
        found: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        elapsed_ns: 0,
        calls: 0,
        slow_probes: true,
    };
    if let Ok(answer) = serde_json::from_slice::<Answer>(&output.stdout) {
        let below = judged.program.system_call().map_or(&[][..], |call| call.path());
        (judged.verdict, judged.found) = judge_both(&judged.program.paths(), below, &answer);
        (judged.elapsed_ns, judged.calls) = (answer.elapsed_ns, answer.calls);
    }
    Ok(judged)
}

/// Judges whether the program's functions are the planted functions, and the kernel's follow in their order.
fn judge_both(planted: &[Vec<String>], below: &[&str], answer: &Answer) -> (DrillVerdict, String) {
    let (verdict, found) = judge(planted, answer);
    if verdict != DrillVerdict::Right {
        return (verdict, found);
    }
    let ends = |path: &[String]| {
        let mut rest = path.iter();
        below.iter().all(|name| rest.any(|function| function == name))
    };
    let short: Vec<_> =
        answer.root_causes.iter().zip(&answer.causes).filter(|(path, _)| !ends(path)).collect();
    let is_doubtful = |cause: &DrillCause| cause.cause.is_none() || !cause.doubts.is_empty();
    let verdict = match short.as_slice() {
        [] => DrillVerdict::Right,
        short if answer.status != "root cause found" || short.iter().all(|(_, cause)| is_doubtful(cause)) => {
            DrillVerdict::Doubtful
        }
        _ => DrillVerdict::Wrong,
    };
    (verdict, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(path: &[&str], cause: Option<&str>, doubts: &[&str], status: &str) -> DrillVerdict {
        let strings = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let answer = Answer {
            status: status.to_owned(),
            root_causes: vec![strings(path)],
            causes: vec![DrillCause { cause: cause.map(str::to_owned), doubts: strings(doubts) }],
            elapsed_ns: 1,
            calls: 1,
        };
        judge_both(&[strings(&["f0", "f1_2"])], &["__x64_sys_read", "schedule"], &answer).0
    }

    #[test]
    fn the_part_in_the_kernel_is_judged_too() {
        let (found, itself) = ("root cause found", Some("itself"));
        let whole = ["f0", "f1_2", "read", "__x64_sys_read", "ksys_read", "schedule"];
        assert_eq!(verdict(&whole, itself, &[], found), DrillVerdict::Right);
        assert_eq!(verdict(&whole, itself, &["few calls"], found), DrillVerdict::Right);
        assert_eq!(verdict(&whole[..5], itself, &[], found), DrillVerdict::Wrong);
        assert_eq!(verdict(&whole[..3], itself, &["few calls"], found), DrillVerdict::Doubtful);
        assert_eq!(verdict(&whole[..3], None, &[], "path ends early"), DrillVerdict::Doubtful);
        assert_eq!(
            verdict(&["f0", "f1_1", "read", "__x64_sys_read", "schedule"], itself, &[], found),
            DrillVerdict::Wrong
        );
        assert_eq!(
            verdict(&["f0", "f1_2", "schedule", "__x64_sys_read"], itself, &[], found),
            DrillVerdict::Wrong
        );
    }

    #[test]
    fn programs_with_a_culprit_in_the_kernel_compile() {
        let folder = tempfile::tempdir().expect("a folder");
        let built = folder.path().to_owned();
        let run = Run { programs: 12, seed: 1, built, build: true, wakepath: PathBuf::new(), keep: None };
        build(&run).expect("they compile");
        let mut calls: Vec<_> =
            run.seeds().filter_map(|seed| Program::from_seed_in_kernel(seed).system_call()).collect();
        calls.sort_by_key(|call| call.in_c());
        calls.dedup();
        assert!(calls.len() >= 4, "{calls:?}");
    }
}
