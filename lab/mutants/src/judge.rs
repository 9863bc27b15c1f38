//! Runs tests: once without a mutant, to record the switches that each test reaches, and then for each mutant the tests that reach
//! it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::compile::TestProgram;
use crate::rewrite::VARIABLE;

/// A mutant that allocates without end is stopped before the machine is out of memory.
const MAX_MEMORY_KIB: u64 = 4 << 20;
/// A waiting test takes no CPU time: it is stopped after this multiple of its limit.
const WAITS_PER_LIMIT: u32 = 60;
/// The longest CPU time for a test without a mutant.
const MAX_WITHOUT_MUTANT: Duration = Duration::from_secs(60);
/// With a mutant a test may take this multiple of its time without a mutant, or the list's limit if it is larger.
const SLOWER_WITH_MUTANT: u32 = 10;
/// When this number of tests ran into a mutant's limit, and none failed before, no more tests run: it is late.
const MAX_LATE_TESTS: u32 = 2;

/// A test that passes without a mutant.
#[derive(Debug)]
pub struct Test<'a> {
    pub program: &'a TestProgram,
    pub name: String,
    took: Duration,
    /// The mutants whose switches it reaches.
    reaches: HashSet<u32>,
}

/// A mutant's verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MutantVerdict {
    /// The name of a failed test.
    Noticed(String),
    /// A test that ran into the limit; none failed.
    Late(String),
    /// The number of tests that reached the mutant; all passed.
    Missed(usize),
}

/// The end of a test's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Passed,
    Failed,
    Late,
}

/// The programs' tests, each run alone without a mutant: all must pass.
pub fn tests<'a>(programs: &[&'a TestProgram], scratch: &Path) -> Result<Vec<Test<'a>>> {
    let mut names = Vec::new();
    for program in programs {
        let list = Command::new(&program.path)
            .args(["--list", "--format=terse"])
            .current_dir(&program.folder)
            .output()
            .with_context(|| format!("cannot run {}", program.path.display()))?;
        ensure!(list.status.success(), "{} does not list its tests", program.name);
        let list = String::from_utf8_lossy(&list.stdout).into_owned();
        names.extend(
            list.lines().filter_map(|line| Some((*program, line.strip_suffix(": test")?.to_owned()))),
        );
    }
    ensure!(!names.is_empty(), "there is no test");
    fs::create_dir_all(scratch)?;
    let one = |index: usize| -> Result<Test<'a>> {
        let (program, name) = &names[index];
        let reached = scratch.join(format!("reached-{index}"));
        let _ = fs::remove_file(&reached);
        let begun = Instant::now();
        let end = run(program, name, reached.as_os_str(), MAX_WITHOUT_MUTANT)?;
        let took = begun.elapsed();
        match end {
            End::Passed => {}
            End::Failed => bail!("without a mutant `{name}` of {} fails", program.name),
            End::Late => {
                bail!("without a mutant `{name}` of {} takes more than {MAX_WITHOUT_MUTANT:?}", program.name)
            }
        }
        let text = fs::read_to_string(&reached).unwrap_or_default();
        let reaches = text.lines().map(|line| line.parse().context("a number of a switch"));
        Ok(Test { program, name: name.clone(), took, reaches: reaches.collect::<Result<_>>()? })
    };
    in_parallel(names.len(), one)
}

/// Judges each mutant, and passes on each verdict at once.
pub fn judge(
    tests: &[Test],
    mutants: &[u32],
    limit: Duration,
    hand_on: impl Fn(u32, &MutantVerdict) + Sync,
) -> Result<BTreeMap<u32, MutantVerdict>> {
    let order = Order { noticed: tests.iter().map(|_| AtomicUsize::new(0)).collect(), tests };
    let one = |index: usize| {
        let verdict = judge_one(tests, &order, mutants[index], limit)?;
        hand_on(mutants[index], &verdict);
        Ok((mutants[index], verdict))
    };
    Ok(in_parallel(mutants.len(), one)?.into_iter().collect())
}

fn judge_one(tests: &[Test], order: &Order, number: u32, limit: Duration) -> Result<MutantVerdict> {
    let reaching = order.of(number);
    let count = reaching.len();
    let mut late = Vec::new();
    for index in reaching {
        let test = &tests[index];
        let limit = limit.max(test.took * SLOWER_WITH_MUTANT);
        match run(test.program, &test.name, number.to_string().as_ref(), limit)? {
            End::Passed => {}
            End::Failed => {
                order.noticed[index].fetch_add(1, Ordering::Relaxed);
                return Ok(MutantVerdict::Noticed(test.name.clone()));
            }
            End::Late => late.push(test.name.clone()),
        }
        if late.len() as u32 >= MAX_LATE_TESTS {
            break;
        }
    }
    Ok(late.into_iter().next().map_or(MutantVerdict::Missed(count), MutantVerdict::Late))
}

/// The order in which tests judge a mutant affects the time it takes, not the verdict.
struct Order<'a> {
    tests: &'a [Test<'a>],
    /// Each test's number of noticed mutants.
    noticed: Vec<AtomicUsize>,
}

impl Order<'_> {
    /// The tests that reach a mutant: first the tests with many noticed mutants per time.
    fn of(&self, number: u32) -> Vec<usize> {
        let reaching = (0..self.tests.len()).filter(|index| self.tests[*index].reaches.contains(&number));
        let mut reaching: Vec<_> = reaching.collect();
        reaching.sort_by_cached_key(|index| {
            let noticed = 1 + self.noticed[*index].load(Ordering::Relaxed) as u128;
            Reverse(noticed * 1_000_000_000 / self.tests[*index].took.as_micros().max(1))
        });
        reaching
    }
}

/// Runs a test, with the switches' variable.
fn run(program: &TestProgram, test: &str, variable: &std::ffi::OsStr, limit: Duration) -> Result<End> {
    let runner = std::env::var("MUTANTS_RUNNER").unwrap_or_else(|_| String::from("nice"));
    let mut words = runner.split_whitespace();
    let limits = format!("ulimit -t {} && ulimit -v {MAX_MEMORY_KIB} && exec \"$@\"", limit.as_secs());
    let mut child = Command::new(words.next().context("MUTANTS_RUNNER is empty")?)
        .args(words)
        .args(["sh", "-c", &limits, "sh"])
        .arg(&program.path)
        .args(["--exact", test, "--test-threads=1", "--quiet"])
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env(VARIABLE, variable)
        // The same property cases each time, fewer than in `make test`, and the first failing case is enough.
        .env("PROPTEST_CASES", "40")
        .env("PROPTEST_RNG_SEED", "1")
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
        .env_remove("WAKEPATH_BLESS")
        .env_remove("UPDATE_EXPECT")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run a test")?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let elapsed = begun.elapsed();
        if elapsed > limit * WAITS_PER_LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(End::Late);
        }
        std::thread::sleep((elapsed / 20).clamp(Duration::from_micros(300), Duration::from_millis(20)));
    };
    Ok(match status.signal() {
        // The kernel's signals when the CPU time is used up.
        Some(SIGKILL | SIGXCPU) => End::Late,
        _ if status.success() => End::Passed,
        _ => End::Failed,
    })
}

const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

/// Calls a function for each number below `count`; the number of threads is `MUTANTS_JOBS`, or else the number of CPUs.
fn in_parallel<T: Send>(count: usize, one: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let asked = std::env::var("MUTANTS_JOBS").ok().and_then(|jobs| jobs.parse().ok());
    let jobs = asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<T>)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    let result = one(index);
                    results.lock().expect("no thread panics").push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no thread panics");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::{MutantVerdict, judge, tests};
    use crate::compile::TestProgram;

    /// Runs `body` on a test program that is a script: `case` has its behaviour for a test and a mutant.
    fn check(name: &str, case: &str, body: impl FnOnce(&TestProgram, &PathBuf)) {
        let folder = std::env::temp_dir().join(format!("wakepath-mutants-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("program");
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = --list ]; then printf 'a: test\\nb: test\\nf: benchmark\\n'; exit; fi\n\
             case $WAKEPATH_MUTANT in */*) printf '1\\n2\\n3\\n' >\"$WAKEPATH_MUTANT\" ;; esac\n\
             case $2-$WAKEPATH_MUTANT in {case} esac\n"
        );
        // A separate process writes it: a file open for writing cannot be run, and a program started by another test meanwhile would
        // have it open too.
        let mut writer = Command::new("sh")
            .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        writer.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(writer.wait().unwrap().success());
        let program = TestProgram {
            crate_name: "clock".to_owned(),
            name: "program".to_owned(),
            path,
            folder: folder.clone(),
        };
        body(&program, &folder);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_mutant_is_noticed_late_or_missed() {
        let case = "a-2) exit 1 ;; b-2) exit 0 ;; ?-3) while :; do :; done ;;";
        check("verdicts", case, |program, folder| {
            let limit = Duration::from_secs(2);
            let tests = tests(&[program], folder).unwrap();
            assert_eq!(tests.iter().map(|test| &*test.name).collect::<Vec<_>>(), ["a", "b"]);
            let verdicts = judge(&tests, &[1, 2, 3, 4], limit, |_, _| ()).unwrap();
            assert_eq!(verdicts[&1], MutantVerdict::Missed(2));
            assert_eq!(verdicts[&2], MutantVerdict::Noticed("a".to_owned()));
            assert!(matches!(&verdicts[&3], MutantVerdict::Late(_)), "{verdicts:?}");
            assert_eq!(verdicts[&4], MutantVerdict::Missed(0), "no test reaches it");
        });
    }

    #[test]
    fn a_mutant_that_runs_into_the_limit_in_one_test_may_be_noticed_by_another() {
        // In any order, the first test runs into the limit with one of the mutants.
        let case = "a-1 | b-2) while :; do :; done ;; b-1 | a-2) exit 1 ;;";
        check("another", case, |program, folder| {
            let limit = Duration::from_secs(2);
            let tests = tests(&[program], folder).unwrap();
            let verdicts = judge(&tests, &[1, 2], limit, |_, _| ()).unwrap();
            assert_eq!(verdicts[&1], MutantVerdict::Noticed("b".to_owned()));
            assert_eq!(verdicts[&2], MutantVerdict::Noticed("a".to_owned()));
        });
    }

    #[test]
    fn a_test_that_fails_without_a_mutant_judges_nothing() {
        check("fails", "b-*/*) exit 1 ;;", |program, folder| {
            let error = tests(&[program], folder).unwrap_err();
            assert_eq!(error.to_string(), "without a mutant `b` of program fails");
        });
    }
}
