//! `wakepath-truth`: runs the workloads under the tool and prints the tool's errors. For developers.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use wakepath_truth::Limits;
use wakepath_truth::calls::{self, CallsJudgement, Condition};
use wakepath_truth::cost::{self, Series, TRIALS};
use wakepath_truth::drills::{self, Language};
use wakepath_truth::incidents;
use wakepath_truth::noise::{self, Noise};
use wakepath_truth::pair;
use wakepath_truth::questions;
use wakepath_truth::runner::{Judgement, Runner, judge, read};
use wakepath_truth::states;
use wakepath_truth::table;
use wakepath_truth::tries::{MAX_TRIES, Outcome, Tally};
use wakepath_truth::workloads::{self, Workload};
use wakepath_truth::{joins, kernel_drills, requests};

/// Runs programs with known truths under `wakepath record`, and compares `wakepath path` with the truths.
///
/// Exit codes: 0 all paths are right; 1 a path is wrong or could not be judged, a run failed, or too many runs were
/// void; 2 wrong usage, or nothing could be run.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Options {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// The workloads to run, by name, or `calls` and `calls-ahead`; all if none is named.
    names: Vec<String>,
    /// The number of runs for each workload.
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// The neighbours to run beside them, in turn: `--noise none,spin`.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "none")]
    noise: Vec<Noise>,
    /// The tool under judgement.
    #[arg(long, default_value = "target/release/wakepath")]
    wakepath: PathBuf,
    /// The program that splits a host's recording into two hosts' recordings.
    #[arg(long, default_value = "target/release/wakepath-split")]
    split: PathBuf,
    /// The folder with the built workloads.
    #[arg(long, default_value = "lab/workloads/bin")]
    programs: PathBuf,
    /// Keep recordings, truths and answers in this folder.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Judge the recordings kept in this folder by `--keep`, without running anything.
    #[arg(long, value_name = "DIR", conflicts_with = "keep")]
    replay: Option<PathBuf>,
    /// Only compare these two files.
    #[arg(long, num_args = 2, value_names = ["TRUTH", "PATH"], conflicts_with_all = ["keep", "replay"])]
    compare: Option<Vec<PathBuf>>,
    /// Judge the recordings left in this folder by `vm/pair`: a client and its server, in two guests.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["keep", "replay", "compare"])]
    pair: Option<PathBuf>,
    /// With --pair, the drift set for the server's clock.
    #[arg(long, value_name = "PPM", default_value_t = 100.0)]
    drift: f64,
    /// This machine's slowness: a factor, 1 for a usual machine, more for an emulated machine; the limits for switches
    /// and stamps grow by it.
    #[arg(long, value_name = "TIMES", default_value_t = 1.0)]
    slower: f64,
    /// List the contributors for every run, not only for runs that are not right.
    #[arg(long)]
    parts: bool,
    /// List the workloads.
    #[arg(long)]
    list: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Plants incidents with known cause and size, asks as a newcomer would, and prints a table with the answers.
    Incidents {
        /// The incidents, by name; all if none is named.
        names: Vec<String>,
        /// The tool under judgement.
        #[arg(long, default_value = "target/release/wakepath")]
        wakepath: PathBuf,
        /// The folder with the incidents.
        #[arg(long, default_value = "lab/incidents")]
        scripts: PathBuf,
        /// Keep screens, documents and recordings in this folder.
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
        /// Plant no twins.
        #[arg(long)]
        without_twins: bool,
    },
    /// Plants causes in requests to services that a user would write, asks about them, and prints a table with the answers.
    Questions(questions::Options),
    /// Checks the recording cost that the tool prints: pairs of runs of a load, alone and recorded.
    Cost {
        /// The loads, by name; all if none is named.
        names: Vec<String>,
        /// The number of pairs.
        #[arg(long, default_value_t = 8)]
        pairs: u32,
        /// About how long a load runs each time, s; it does a fixed number of round trips.
        #[arg(long, default_value_t = 1.0)]
        seconds: f64,
        /// The tool under judgement.
        #[arg(long, default_value = "target/release/wakepath")]
        wakepath: PathBuf,
        /// The folder with the built workloads.
        #[arg(long, default_value = "lab/workloads/bin")]
        programs: PathBuf,
    },
    /// Plants causes in requests through services, and compares each request's answer with the services' log.
    Requests(requests::Options),
    /// Compares the request found for each thread with the programs' logs, for each way to find it.
    Joins {
        /// The programs, by name; all if none is named.
        names: Vec<String>,
        /// The folder with the packages fetched by `packaging/plugins`.
        #[arg(long, default_value = "target/plugins")]
        packages: PathBuf,
        /// The tool under judgement.
        #[arg(long, default_value = "target/release/wakepath")]
        wakepath: PathBuf,
        /// The folder with the built workloads.
        #[arg(long, default_value = "lab/workloads/bin")]
        programs: PathBuf,
        /// Keep the recordings, the logs and the spans in this folder.
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
    },
    /// Plants culprits in random programs, and compares the path found by `wakepath drill` with the planted path.
    Drills {
        /// The number of programs.
        #[arg(long, default_value_t = 1000)]
        programs: u64,
        /// The first program's seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The languages, in turn; those without a compiler here are left out.
        #[arg(long, value_enum, value_delimiter = ',', default_value = "c,cpp,rust,go")]
        languages: Vec<Language>,
        /// Ask with --stubs, except for Go and Python.
        #[arg(long)]
        stubs: bool,
        /// The tool under judgement.
        #[arg(long, default_value = "target/release/wakepath")]
        wakepath: PathBuf,
        /// Keep the programs whose answer is not right in this folder.
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
    },
    /// Plants slow system calls in programs, and compares the path found by `wakepath drill` across them into the kernel
    /// with the planted path.
    ///
    /// Exit codes: 0 at least 99% are right and none is wrong; 1 otherwise; 2 nothing could be run.
    KernelDrills(kernel_drills::Run),
    /// Compares the states of all threads in LTTng traces with the states proved by a replay of the scheduler's events.
    States {
        /// The traces, each with its metadata.
        #[arg(required = true)]
        traces: Vec<PathBuf>,
        /// The tool under judgement.
        #[arg(long, default_value = "target/release/wakepath")]
        wakepath: PathBuf,
        /// List every thread's times.
        #[arg(long)]
        threads: bool,
    },
}

fn main() -> ExitCode {
    let options = Options::parse();
    let result = match &options.verb {
        Some(Verb::Incidents { names, wakepath, scripts, keep, without_twins }) => {
            plant(names, wakepath, scripts, keep.as_ref(), !without_twins)
        }
        Some(Verb::Questions(options)) => place(options.replay.as_ref().or(options.keep.as_ref()))
            .and_then(|(folder, _temporary)| questions::ask_all(options, &folder)),
        Some(Verb::Cost { names, pairs, seconds, wakepath, programs }) => {
            let series = Series { wakepath: wakepath.clone(), programs: programs.clone(), seconds: *seconds };
            check_cost(names, *pairs, &series)
        }
        Some(Verb::Requests(options)) => judge_requests(options),
        Some(Verb::Joins { names, packages, wakepath, programs, keep }) => {
            let given = joins::Given { programs: programs.clone(), packages: packages.clone() };
            judge_joins(wakepath, &given, names, keep.as_ref())
        }
        Some(Verb::Drills { programs, seed, languages, stubs, wakepath, keep }) => {
            let run = drills::Run {
                wakepath: wakepath.clone(),
                seed: *seed,
                programs: *programs,
                languages: languages.clone(),
                stubs: *stubs,
                keep: keep.clone(),
            };
            judge_drills(&run)
        }
        Some(Verb::KernelDrills(run)) => judge_kernel_drills(run),
        Some(Verb::States { traces, wakepath, threads }) => compare_states(traces, wakepath, *threads),
        None => run(&options),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Does what the options ask. True if all paths are right, and few enough runs were void.
fn run(options: &Options) -> Result<bool> {
    if options.list {
        for workload in workloads::ALL.iter().chain(workloads::IN_GUESTS) {
            println!("{:<16} {}", workload.name, limit_of(workload));
        }
        for condition in calls::CONDITIONS {
            println!("{:<16} within one percentage point, its calls under record --call", condition.name);
        }
        return Ok(true);
    }
    if let Some([truth, path]) = options.compare.as_deref() {
        println!("{}", table::HEAD);
        let limits = Limits::with_error(0.01).slower(options.slower);
        let judged = read(truth).and_then(|truth| judge(limits, &truth, &read(path)?));
        return Ok(show(options, "", limits.error, judged));
    }
    if let Some(folder) = &options.pair {
        return judge_pair(options, folder);
    }
    let runner = |noise| Runner {
        wakepath: options.wakepath.clone(),
        split: options.split.clone(),
        programs: options.programs.clone(),
        noise,
        slowness: options.slower,
    };
    if let Some(folder) = &options.replay {
        return replay(options, &runner(Noise::None), folder);
    }
    let mut all_right = true;
    let mut tally = Tally::default();
    for &noise in &options.noise {
        let workloads = chosen(&options.names)?;
        if !workloads.is_empty() {
            println!("\nbeside noise: {}\n{}", noise.name(), table::HEAD);
            all_right &= live(options, &workloads, &runner(noise), &mut tally)?;
        }
    }
    // Beside chatter the server's clocks are wrong too, and no recording of its calls shows by how much.
    for &noise in options.noise.iter().filter(|&&noise| noise != Noise::Chatter) {
        all_right &= live_calls(options, &runner(noise), &mut tally)?;
    }
    println!("\n{}", tally.line());
    Ok(all_right && tally.is_within_bound())
}

/// Compares the threads' states for each trace. True if no trace proves other times.
fn compare_states(traces: &[PathBuf], wakepath: &Path, list: bool) -> Result<bool> {
    println!("{}", states::HEAD);
    let mut lines = Vec::new();
    let mut same = true;
    for trace in traces {
        let name = trace.file_name().unwrap_or(trace.as_os_str()).to_string_lossy();
        let threads = states::compare(wakepath, trace).with_context(|| format!("`{}`", trace.display()))?;
        println!("{}", states::row(&name, &threads));
        let is_different = |thread: &&states::Thread| thread.verdict() == states::ThreadVerdict::Different;
        same &= threads.iter().find(is_different).is_none();
        let shown = threads.iter().filter(|thread| list || is_different(thread));
        lines.extend(shown.map(|thread| format!("{name} {}", states::line(thread))));
    }
    println!(
        "\n{} of the threads differ{}",
        if same { "None" } else { "Some" },
        if same { "." } else { ":" }
    );
    lines.iter().for_each(|line| println!("{line}"));
    Ok(same)
}

/// Runs pairs for each load and prints the table. True if each pair has a range, and enough pairs of each judged load
/// lie in their ranges.
fn check_cost(names: &[String], pairs: u32, series: &Series) -> Result<bool> {
    let (folder, _temporary) = place(None)?;
    println!("{}", cost::HEAD);
    let mut all_right = true;
    for trial in
        TRIALS.iter().filter(|trial| names.is_empty() || names.iter().any(|name| name == trial.program()))
    {
        let pairs = (0..pairs).map(|_| series.pair(trial, &folder)).collect::<Result<Vec<_>>>()?;
        println!("{}", cost::row(trial, &pairs));
        all_right &= cost::has_a_range(&pairs) && (cost::is_inside(&pairs) || !trial.is_judged());
    }
    Ok(all_right)
}

/// Runs the programs and prints the table. True if the best ways are right.
fn judge_joins(
    wakepath: &Path,
    given: &joins::Given,
    names: &[String],
    keep: Option<&PathBuf>,
) -> Result<bool> {
    let (folder, _temporary) = place(keep)?;
    let table = joins::run(wakepath, given, names, &folder)?;
    println!("{}", joins::HEAD);
    table.rows.iter().for_each(|row| println!("{row}"));
    table.skipped.iter().for_each(|skipped| println!("SKIPPED: {skipped}"));
    println!("{} programs skipped", table.skipped.len());
    for part in &table.wrong {
        println!("WRONG: {part}: the best way does not have the request of each thread at each moment");
    }
    Ok(table.wrong.is_empty())
}

/// Runs the services once, or replays a kept run, and prints the table. True if the answers are right.
fn judge_requests(options: &requests::Options) -> Result<bool> {
    let (run, replay) = (options.run(), options.replay.as_ref());
    let (folder, _temporary) = place(replay.or(options.keep.as_ref()))?;
    if replay.is_none() {
        run.record(&folder)?;
    }
    let judged = run.judge(&folder)?;
    println!("{}", requests::HEAD);
    print!("{}", requests::table(&judged));
    for one in requests::worst(&judged, options.worst) {
        println!("{}", requests::parts(one));
    }
    Ok(requests::is_right(&judged))
}

/// Plants each incident once, and its twins, and prints the table. True if no answer is wrong.
fn plant(
    names: &[String],
    wakepath: &Path,
    scripts: &Path,
    keep: Option<&PathBuf>,
    with_twins: bool,
) -> Result<bool> {
    let (folder, _temporary) = place(keep)?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    // Under sudo the programs run as the invoking user, and write there.
    std::fs::set_permissions(&folder, Permissions::from_mode(0o755))?;
    println!("{}", incidents::HEAD);
    let mut judged = Vec::new();
    for incident in incidents::scripts(scripts, names)? {
        let checked = incidents::ask(wakepath, &incident, &folder.join(&incident.name), with_twins);
        println!("{}", incidents::row(&incident, &checked));
        judged.push((incident, checked));
    }
    println!("\n{}", incidents::sums(&judged));
    Ok(incidents::is_right(&judged))
}

/// The folder for recordings: the folder to keep, or a temporary folder, removed when the second value is dropped.
fn place(keep: Option<&PathBuf>) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    if let Some(folder) = keep {
        return Ok((folder.clone(), None));
    }
    let temporary = tempfile::tempdir().context("cannot make a folder for the recordings")?;
    Ok((temporary.path().to_owned(), Some(temporary)))
}

/// The largest number of runs of calls until a run can be judged; each takes 30 s.
const MAX_TRIES_OF_CALLS: u32 = 3;

/// Runs each condition until a run can be judged, whatever `--repeat` says: a single run has enough calls.
fn live_calls(options: &Options, runner: &Runner, tally: &mut Tally) -> Result<bool> {
    let (folder, _temporary) = place(options.keep.as_ref())?;
    let mut all_right = true;
    for condition in chosen_calls(&options.names) {
        println!("\n{}, beside noise: {}", condition.name, runner.noise.name());
        let place = folder.join(format!("{}.{}.1", condition.name, runner.noise.name()));
        let run = || runner.run_calls(condition, &place);
        let judged =
            tally.until_judged(MAX_TRIES_OF_CALLS, run, CallsJudgement::outcome, |discarded, turn| {
                print!("{}", calls::lines(discarded));
                println!("  void, discarded (run {turn} of at most {MAX_TRIES_OF_CALLS})");
            });
        all_right &= show_calls(judged);
    }
    Ok(all_right)
}

/// Prints a run of calls. True if it was right.
fn show_calls(judged: Result<CallsJudgement>) -> bool {
    match judged {
        Ok(judged) => {
            print!("{}", calls::lines(&judged));
            judged.outcome() == Outcome::Right
        }
        Err(error) => {
            println!("  FAILED: {error:#}");
            false
        }
    }
}

fn live(options: &Options, workloads: &[Workload], runner: &Runner, tally: &mut Tally) -> Result<bool> {
    let (folder, _temporary) = place(options.keep.as_ref())?;
    let mut all_right = true;
    let mut by_noise = Vec::new();
    for workload in workloads {
        for turn in 1..=options.repeat {
            let place = folder.join(format!("{}.{}.{turn}", workload.name, runner.noise.name()));
            let limit = workload.limit_on(options.slower);
            let judged = tally.until_judged(
                MAX_TRIES,
                || runner.run(workload, &place),
                |judged| judged.verdict.outcome(),
                |discarded, turn| {
                    println!("{}", table::line(workload.name, limit, discarded));
                    println!("    discarded (run {turn} of at most {MAX_TRIES})");
                    print!("{}", table::parts(&discarded.verdict));
                },
            );
            by_noise.extend(judged.as_ref().map(|judged| judged.by_noise));
            all_right &= show(options, workload.name, limit, judged);
        }
    }
    if noise::never_blamed(runner.noise, &by_noise) {
        println!("WRONG: no run names the spinning neighbour as a competitor");
        all_right = false;
    }
    Ok(all_right)
}

fn judge_pair(options: &Options, folder: &Path) -> Result<bool> {
    let pair = pair::judge(&options.wakepath, folder, options.drift / 1e6, options.slower)?;
    for fact in &pair.findings.facts {
        println!("{fact}");
    }
    println!("\n{}", table::HEAD);
    let right = show(options, "rpc", pair.limit, Ok(pair.judged));
    for violation in &pair.findings.violations {
        println!("WRONG: {violation}");
    }
    Ok(right && pair.findings.violations.is_empty())
}

/// Judges kept runs again. Their folders have the names WORKLOAD.NOISE.TURN.
fn replay(options: &Options, runner: &Runner, folder: &Path) -> Result<bool> {
    let mut places: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read `{}`", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|place| place.join("truth.json").exists())
        .collect();
    places.sort_unstable();
    let wanted = chosen(&options.names)?;
    println!("{}", table::HEAD);
    let mut all_right = true;
    let mut judged = 0;
    for place in &places {
        let name = place.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let program = name.split('.').next().unwrap_or_default();
        if let Some(condition) =
            calls::by_name(program).filter(|one| chosen_calls(&options.names).contains(one))
        {
            judged += 1;
            println!("\n{name}");
            all_right &= show_calls(runner.replay_calls(condition, place));
        }
        let Some(workload) = workloads::by_name(program) else { continue };
        if !wanted.contains(&workload) {
            continue;
        }
        judged += 1;
        all_right &=
            show(options, workload.name, workload.limit_on(options.slower), runner.replay(&workload, place));
    }
    if judged == 0 {
        bail!("`{}` has no recordings of these workloads", folder.display());
    }
    Ok(all_right)
}

fn chosen(names: &[String]) -> Result<Vec<Workload>> {
    if names.is_empty() {
        return Ok(workloads::ALL.to_vec());
    }
    let workloads = names.iter().filter(|name| calls::by_name(name).is_none());
    workloads
        .map(|name| {
            workloads::by_name(name).with_context(|| format!("no workload is called `{name}`: see --list"))
        })
        .collect()
}

fn chosen_calls(names: &[String]) -> Vec<Condition> {
    let wanted = |condition: &Condition| names.is_empty() || names.iter().any(|name| name == condition.name);
    calls::CONDITIONS.into_iter().filter(wanted).collect()
}

fn limit_of(workload: &Workload) -> String {
    format!("within {:.0}%, {} {}", workload.limit * 100.0, workload.program, workload.arguments.join(" "))
}

/// Prints a run. True if it was right.
fn show(options: &Options, name: &str, limit: f64, judged: Result<Judgement>) -> bool {
    let judged = match judged {
        Ok(judged) => judged,
        Err(error) => {
            println!("{name:<16} FAILED: {error:#}");
            return false;
        }
    };
    println!("{}", table::line(name, limit, &judged));
    // A run that cannot be judged is not right either.
    let right = judged.verdict.outcome() == Outcome::Right;
    if options.parts || !right {
        print!("{}", table::parts(&judged.verdict));
    }
    right
}

fn print_if_not_right(judged: &drills::Judged) {
    if judged.verdict != drills::DrillVerdict::Right {
        println!("{:?}: {}\n    found {}", judged.verdict, judged.program.describe(), judged.found);
    }
}

/// Judges drill-downs across system calls as [`judge_drills`] does, or builds the programs.
fn judge_kernel_drills(run: &kernel_drills::Run) -> Result<bool> {
    if run.build {
        kernel_drills::build(run)?;
        return Ok(true);
    }
    let (table, is_good) = drills::table(&kernel_drills::run(run, print_if_not_right)?);
    print!("{table}");
    Ok(is_good)
}

/// Prints the answers that are not right, and the table.
fn judge_drills(run: &drills::Run) -> Result<bool> {
    let missing: Vec<String> = run
        .languages
        .iter()
        .filter(|language| !language.can_be_built())
        .map(|language| {
            format!("left out: {}, for there is no {} on the PATH", language.shown(), language.compiler())
        })
        .collect();
    missing.iter().for_each(|line| println!("{line}"));
    let all = drills::run(run, print_if_not_right)?;
    let (table, is_good) = drills::table(&all);
    print!("{table}");
    // Again, at the end of a long run's output, where its reader looks.
    missing.iter().for_each(|line| println!("{line}"));
    Ok(is_good)
}
