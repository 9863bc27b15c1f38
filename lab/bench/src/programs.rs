//! The time of each of our BPF programs by the kernel's own statistics (`kernel.bpf_stats_enabled`), beside an empty program
//! on the same tracepoint: it scatters less than a whole run, since it leaves out everything but the program.
//!
//! While the statistics are on, the kernel reads a clock before and after each run, and a part of this time is in the
//! figure: the empty program shows its size.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use libbpf_rs::query::ProgInfoIter;

use crate::load::{self, Load};
use crate::places::Places;
use crate::recorders::{self, Recorder};
use crate::statistics::{median, or_dash};
use crate::{processes, progress};

#[derive(Debug, Args)]
pub struct Options {
    /// Builds to measure in turns, instead of the program under test.
    #[arg(long)]
    build: Vec<PathBuf>,
    /// Rounds; each runs each load under each build.
    #[arg(long, default_value_t = ROUNDS)]
    rounds: usize,
    /// Approximate length of each run of the load.
    #[arg(long, default_value_t = 0.2)]
    seconds: f64,
    #[command(flatten)]
    places: Places,
}

/// The number of rounds in a whole bench.
const ROUNDS: usize = 5;
const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";
/// Programs that run less often than once in two round trips are not shown.
const MIN_RUNS_A_TRIP: f64 = 0.5;

/// A program under a load.
pub struct Program {
    pub load: load::Name,
    /// The build; `None` for the empty programs.
    pub build: Option<PathBuf>,
    pub name: String,
    pub runs_a_trip: f64,
    pub ns: Vec<f64>,
}

/// Prints the builds' table.
pub fn run(options: &Options) -> Result<()> {
    options.places.prepare("recorders", "recording needs root")?;
    let only = [options.places.wakepath.clone()];
    let builds = if options.build.is_empty() { &only[..] } else { &options.build };
    let builds: Vec<&Path> = builds.iter().map(PathBuf::as_path).collect();
    let programs = measured(&builds, &options.places, options.seconds, options.rounds)?;
    println!("{}", table(&programs));
    Ok(())
}

/// All programs in this build, and the empty programs.
pub fn measure(build: &Path, places: &Places, seconds: f64) -> Result<Vec<Program>> {
    measured(&[build], places, seconds, ROUNDS)
}

fn measured(builds: &[&Path], places: &Places, seconds: f64, rounds: usize) -> Result<Vec<Program>> {
    let _on = Statistics::on()?;
    let mut programs: Vec<Program> = Vec::new();
    for round in 1..=rounds {
        for load in load::chosen(&[], &places.workloads, seconds) {
            for build in [None].into_iter().chain(builds.iter().copied().map(Some)) {
                progress(&format!("BPF programs, round {round} of {rounds}, {}", load.name));
                let mut recorder = match build {
                    Some(build) => recorders::by_default(build, &places.output),
                    None => recorders::chosen(&[recorders::Name::Floor], &places.wakepath, &places.output)
                        .remove(0),
                };
                for (name, (ns, runs)) in times(&load, recorder.as_mut())? {
                    let same = |it: &&mut Program| {
                        it.load == load.kind && it.build.as_deref() == build && it.name == name
                    };
                    match programs.iter_mut().find(same) {
                        Some(program) => program.ns.push(ns),
                        None if runs < MIN_RUNS_A_TRIP => {}
                        None => programs.push(Program {
                            load: load.kind,
                            build: build.map(Path::to_path_buf),
                            name,
                            runs_a_trip: runs,
                            ns: vec![ns],
                        }),
                    }
                }
            }
        }
    }
    progress("");
    Ok(programs)
}

/// The ns per run and the runs per round trip, by program.
fn times(load: &Load, recorder: &mut dyn Recorder) -> Result<BTreeMap<String, (f64, f64)>> {
    let recording = recorder.start()?;
    let before = totals();
    let run = load.run()?;
    let after = totals();
    recording.stop()?;
    processes::settle(Duration::from_millis(50));
    let each = after.into_iter().filter_map(|(name, (ns, runs))| {
        let (ns_before, runs_before) = before.get(&name).copied().unwrap_or((0, 0));
        let (ns, runs) = (ns.checked_sub(ns_before)?, runs.checked_sub(runs_before)?);
        (runs > 0).then(|| (name, (ns as f64 / runs as f64, runs as f64 / run.count)))
    });
    Ok(each.collect())
}

/// The ns and runs so far, by program name.
pub fn totals() -> BTreeMap<String, (u64, u64)> {
    let mut totals = BTreeMap::<_, (u64, u64)>::new();
    for program in ProgInfoIter::default() {
        let total = totals.entry(program.name.to_string_lossy().into_owned()).or_default();
        *total = (total.0 + program.run_time_ns, total.1 + program.run_cnt);
    }
    totals
}

/// The kernel's statistics, on until drop.
pub struct Statistics(String);

impl Statistics {
    pub fn on() -> Result<Self> {
        let before = fs::read_to_string(STATISTICS).with_context(|| format!("cannot read {STATISTICS}"))?;
        fs::write(STATISTICS, "1").with_context(|| format!("cannot write {STATISTICS}"))?;
        Ok(Self(before))
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        let _ = fs::write(STATISTICS, &self.0);
    }
}

/// The median ns of a program's runs.
pub fn ns_of(programs: &[Program], load: load::Name, name: &str, ours: bool) -> Option<f64> {
    let found =
        programs.iter().find(|it| it.load == load && it.name == name && it.build.is_some() == ours)?;
    median(&found.ns)
}

/// A row for each program in each build.
pub fn table(programs: &[Program]) -> String {
    let rounds = programs.iter().map(|program| program.ns.len()).max().unwrap_or(0);
    let mut text = format!(
        "### Our BPF programs, by the kernel's statistics\n\n\
         `kernel.bpf_stats_enabled`, `wakepath record -a`; medians of {rounds} rounds. The statistics' own clock is \
         in each figure, as the empty program on the same tracepoint shows.\n\n\
         | load | program | runs a round trip | ns a run | of an empty program |\n|---|---|---:|---:|---:|\n"
    );
    let several = programs.iter().any(|program| {
        program.build.is_some() && programs.iter().any(|it| it.build.is_some() && it.build != program.build)
    });
    for program in programs.iter().filter(|program| program.build.is_some()) {
        let load = match program.load {
            load::Name::Schedfreq => "ping-pong",
            load::Name::Tcpping => "TCP",
        };
        let build = program.build.as_ref().filter(|_| several).map(|it| format!(" of {}", it.display()));
        let ns = |value| or_dash(value, |ns| format!("{ns:.0}"));
        let _ = writeln!(
            text,
            "| {load} | `{}`{} | {:.2} | {} | {} |",
            program.name,
            build.unwrap_or_default(),
            program.runs_a_trip,
            ns(median(&program.ns)),
            ns(ns_of(programs, program.load, &program.name, false)),
        );
    }
    text
}
