//! Measures the cost of `wakepath drill`: a probed call, beside other tools; a program during a search below its functions, by the
//! tree's shape (T08 §8.2); the shortest calls whose latencies stay in their bucket (T08 table 8.2); calls of stat() and reads
//! from a disk (T08 §8.3 and §8.4). All in Markdown.
//!
//! A program (`lab/workloads/asked.c`) makes calls on request, and times them: alone, and with probes, one behind the other in the
//! same process if the tool can attach to a running process. So each figure has its own run alone.

mod asked;
mod buckets;
mod calls;
mod held;
mod loads;
mod search;
mod trees;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::places::Places;
use crate::statistics::{median, or_dash};
use crate::{machine, peers, progress};

#[derive(Debug, Args)]
pub struct Options {
    /// Number of calls that are timed at once.
    #[arg(long, default_value_t = 40_000)]
    calls: u64,
    /// Rounds for probed calls, and for the loads.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Rounds for trees and buckets, which take longer.
    #[arg(long, default_value_t = 3)]
    tree_rounds: usize,
    #[command(flatten)]
    places: Places,
}

/// The measurement's paths.
struct Setting<'a> {
    places: &'a Places,
    /// The workload, by its absolute path, and as the page shows it: the location of the tree does not matter.
    program: &'a Path,
    shown: &'a Path,
}

/// Prints all tables.
pub fn run(options: &Options) -> Result<()> {
    let Options { places, calls, rounds, tree_rounds } = options;
    ensure!(*rounds > 0 && *tree_rounds > 0 && *calls > 0, "nothing to run: no rounds or no calls");
    places.prepare("tools", "probes need root")?;
    let shown = places.workloads.join("asked");
    let program = shown.canonicalize().with_context(|| format!("no {}: make workloads", shown.display()))?;
    let setting = Setting { places, program: &program, shown: &shown };
    println!("## Cost of drill-downs\n");
    println!("{}; {}; {}\n", machine::describe(), peers::version("bpftrace"), peers::version("uftrace"));
    // The other tables are useful if a table cannot be made; then the command fails at its end.
    let mut unmade = 0;
    for table in [calls::table, trees::tables, buckets::table, loads::table] {
        if let Err(error) = table(&setting, options) {
            progress("");
            println!("not measured: {error:#}\n");
            unmade += 1;
        }
    }
    ensure!(unmade == 0, "{unmade} of the tables could not be made: see above");
    Ok(())
}

/// Prints the failed rounds, which are in no figure.
fn print_failed(failed: &[String]) {
    for failed in failed {
        println!("a round failed, and is in no figure: {failed}\n");
    }
}

/// The median, and the range if there are several values.
fn shown(values: &[f64], digits: usize, unit: &str) -> String {
    or_dash(median(values), |median| {
        let (least, most) =
            values.iter().fold((f64::MAX, f64::MIN), |(least, most), &it| (least.min(it), most.max(it)));
        let range =
            if values.len() > 1 { format!(" ({least:.digits$} to {most:.digits$})") } else { String::new() };
        format!("{median:.digits$}{unit}{range}")
    })
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_figure_has_its_range() {
        assert_eq!(shown(&[3.0, 1.0, 2.0], 0, " ns"), "2 ns (1 to 3)");
        assert_eq!(shown(&[1.25], 2, "%"), "1.25%");
        assert_eq!(shown(&[-0.4, 0.2], 1, "%"), "-0.1% (-0.4 to 0.2)");
        assert_eq!(shown(&[], 1, "%"), "–");
    }
}
