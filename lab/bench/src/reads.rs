//! The cost of the reads at each wait and wake-up, beyond the record: by the kernel's statistics for the two programs that
//! read (`kernel.bpf_stats_enabled`), as the difference between their time with these reads and without, under a load that
//! waits in a single kind of call.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use libbpf_rs::query::ProgInfoIter;
use wakepath_runner::{alone, median, printed};

use crate::places::Places;
use crate::{processes, progress};

#[derive(Debug, Args)]
pub struct Options {
    /// Rounds; each runs each load with the reads and without.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Round trips per run.
    #[arg(long, default_value_t = 50_000)]
    trips: u64,
    #[command(flatten)]
    places: Places,
}

/// A read: the load that has it (`lab/workloads/handover.c`), its name, and its budget in ns.
struct Read {
    kind: &'static str,
    name: &'static str,
    budget_ns: f64,
}

const fn read(kind: &'static str, name: &'static str, budget_ns: f64) -> Read {
    Read { kind, name, budget_ns }
}

/// The first read is a part of all others, whose figures exclude it.
const READS: [Read; 7] = [
    read(
        "condition",
        "the system call and its first argument, at each wait; the waker's look for `epoll_wait`",
        80.0,
    ),
    read("lock", "the lock word of a futex, and the word beside it", 80.0),
    read("read", "the file behind the descriptor of `read`", 80.0),
    read("poll", "the set of a `poll` of 1 descriptor", 110.0),
    read("poll16", "the set of a `poll` of 16 descriptors", 560.0),
    read("select", "the set of a `select` of 1 descriptor", 240.0),
    read("epoll", "the newest ready descriptor of `epoll_wait`, and its file; one more record", 160.0),
];

/// The programs that read.
const PROGRAMS: [&str; 2] = ["sched_switch", "sched_waking"];
const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Prints the table.
pub fn run(options: &Options) -> Result<()> {
    let places = &options.places;
    places.prepare("recorder", "recording needs root")?;
    let before = fs::read_to_string(STATISTICS).with_context(|| format!("cannot read {STATISTICS}"))?;
    fs::write(STATISTICS, "1").with_context(|| format!("cannot write {STATISTICS}"))?;
    let measured = measured(options);
    fs::write(STATISTICS, before.trim())?;
    print!("{}", table(&measured?));
    Ok(())
}

/// The ns per wait with each read, by round.
fn measured(options: &Options) -> Result<Vec<Vec<f64>>> {
    let mut all = vec![Vec::new(); READS.len()];
    for round in 1..=options.rounds {
        for (read, costs) in READS.iter().zip(&mut all) {
            progress(&format!("reads, round {round} of {}: {}", options.rounds, read.kind));
            let one = |arguments: &[&str]| ns_a_wait(&options.places, read.kind, options.trips, arguments);
            costs.push(one(&[])? - one(&["--path-only"])?);
        }
    }
    progress("");
    Ok(all)
}

/// The programs' time for each wait in a load.
fn ns_a_wait(places: &Places, kind: &str, trips: u64, arguments: &[&str]) -> Result<f64> {
    let recorder = record(&places.wakepath, &places.output, arguments)?;
    let before = total_ns();
    let words = alone();
    let mut handover = Command::new(&words[0]);
    handover.args(&words[1..]).arg(places.workloads.join("handover")).args([kind, &trips.to_string()]);
    let ran = printed(&mut handover);
    let after = total_ns();
    processes::interrupt(recorder, Duration::from_secs(60))?;
    fs::remove_dir_all(places.output.join("reads.rec"))?;
    ran?;
    Ok(after.saturating_sub(before) as f64 / (2 * trips) as f64)
}

fn record(program: &Path, folder: &Path, arguments: &[&str]) -> Result<Child> {
    let mut command = Command::new(program);
    command.args(["record", "-a"]).args(arguments).arg("-o").arg(folder.join("reads.rec"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
    sleep(Duration::from_secs(1));
    Ok(child)
}

/// The total run time of the programs so far.
fn total_ns() -> u64 {
    let ours = ProgInfoIter::default()
        .filter(|info| PROGRAMS.iter().any(|name| info.name.to_string_lossy() == *name));
    ours.map(|info| info.run_time_ns).sum()
}

fn table(measured: &[Vec<f64>]) -> String {
    let costs: Vec<_> = measured.iter().map(|costs| median(costs).unwrap_or(f64::NAN)).collect();
    let base = costs.first().copied().unwrap_or(0.0);
    let mut table = String::from(
        "| read at a wait or its wake-up | ns | least and most of the rounds | budget, ns | |\n|---|---:|---|---:|---|\n",
    );
    for (index, (read, ns)) in READS.iter().zip(&costs).enumerate() {
        let base = if index == 0 { 0.0 } else { base };
        let (least, most) = measured[index]
            .iter()
            .fold((f64::MAX, f64::MIN), |(least, most), &ns| (least.min(ns - base), most.max(ns - base)));
        let ns = ns - base;
        let verdict = if ns <= read.budget_ns { "within" } else { "**over**" };
        table += &format!(
            "| {} | {ns:.0} | {least:.0} to {most:.0} | {:.0} | {verdict} |\n",
            read.name, read.budget_ns
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_is_given_without_what_all_waits_cost() {
        let mut measured = vec![vec![140.0, 120.0, 130.0]; READS.len()];
        measured[0] = vec![40.0, 50.0, 60.0];
        measured[1] = vec![300.0];
        let table = table(&measured);
        let row = |index: usize| table.lines().nth(2 + index).expect("a row").to_owned();
        assert!(row(0).ends_with("| 50 | 40 to 60 | 80 | within |"), "{table}");
        assert!(row(1).ends_with("| 250 | 250 to 250 | 80 | **over** |"), "{table}");
        assert!(row(2).ends_with("| 80 | 70 to 90 | 80 | within |"), "{table}");
        assert_eq!(table.lines().count(), 2 + READS.len());
    }
}
