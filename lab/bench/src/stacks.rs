//! The cost of a stack at a wait or a wake-up, with callers found by the files' tables and by frame pointers: by the
//! kernel's statistics for the two programs that take stacks, as the difference between their time with stacks and
//! without. The ways alternate within a round, and a load runs only once the recorder has attached its programs.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;

use crate::load::{self, Load};
use crate::places::Places;
use crate::programs::{Statistics, totals};
use crate::statistics::{median, or_dash};
use crate::{processes, progress, recorders};

#[derive(Debug, Args)]
pub struct Options {
    /// Rounds; each runs each load in each way.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Approximate length of each run of a load.
    #[arg(long, default_value_t = 0.2)]
    seconds: f64,
    #[command(flatten)]
    places: Places,
}

/// The ways to record: the first takes no stacks, and the others are compared with it.
const WAYS: [&[&str]; 5] = [
    &[],
    &["--stacks"],
    &["--stacks", "--frame-pointers"],
    &["--stacks=each"],
    &["--stacks=each", "--frame-pointers"],
];

/// The programs that take stacks.
const PROGRAMS: [&str; 2] = ["sched_switch", "sched_waking"];

/// A recorded run of a load.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    /// From the recorder's start until its programs are attached, ms.
    start_ms: f64,
    /// The programs' time per round trip, ns.
    programs_ns: f64,
    /// The time of a round trip, ns.
    trip_ns: f64,
    /// Stacks read or repeated per round trip.
    stacks: f64,
    /// The share of repeated stacks among them.
    repeated: f64,
    /// The time to read a stack, ns.
    taken_ns: f64,
}

/// Prints the table.
pub fn run(options: &Options) -> Result<()> {
    let Places { workloads, .. } = &options.places;
    options.places.prepare("recorder", "recording needs root")?;
    println!(
        "`kernel.bpf_stats_enabled`, medians of {} rounds, least and most of the rounds in brackets. A stack by these \
         statistics is one that was read or repeated; what reading one takes is the recorder's own count.\n",
        options.rounds
    );
    for load in load::chosen(&[], workloads, options.seconds) {
        let rounds = measured(&load, options)?;
        println!("{}", table(&load, &rounds));
    }
    Ok(())
}

/// All ways in each round.
fn measured(load: &Load, options: &Options) -> Result<Vec<[Measured; WAYS.len()]>> {
    let _on = Statistics::on()?;
    let mut rounds = Vec::new();
    for round in 0..options.rounds {
        let mut ways = [Measured::default(); WAYS.len()];
        for index in 0..WAYS.len() {
            // Forwards, then backwards.
            let index = if round.is_multiple_of(2) { index } else { WAYS.len() - 1 - index };
            progress(&format!("stacks, {}, round {} of {}", load.name, round + 1, options.rounds));
            ways[index] = one(load, WAYS[index], &options.places)?;
        }
        rounds.push(ways);
    }
    progress("");
    Ok(rounds)
}

fn one(load: &Load, way: &'static [&'static str], places: &Places) -> Result<Measured> {
    let began = Instant::now();
    let recording = recorders::with(way, &places.wakepath, &places.output).start()?;
    let start = began.elapsed().saturating_sub(recorders::AFTER_READY);
    let programs_ns = || totals().into_iter().filter(|(name, _)| PROGRAMS.contains(&name.as_str()));
    let programs_ns = || programs_ns().map(|(_, (ns, _))| ns).sum::<u64>();
    let before = programs_ns();
    let run = load.run()?;
    let after = programs_ns();
    let recorded = recording.stop()?;
    processes::settle(Duration::from_millis(50));
    let mut measured = Measured {
        start_ms: start.as_secs_f64() * 1e3,
        programs_ns: after.saturating_sub(before) as f64 / run.count,
        trip_ns: 1e9 / run.rate,
        ..Measured::default()
    };
    if !way.is_empty() {
        let stacks = recorded.stacks.context("the recording has no stacks")?;
        let all = (stacks.taken + stacks.repeated) as f64;
        measured.stacks = all / run.count;
        measured.repeated = stacks.repeated as f64 / all;
        measured.taken_ns = stacks.taken_ns as f64 / stacks.taken.max(1) as f64;
    }
    Ok(measured)
}

/// A row for each way with stacks.
fn table(load: &Load, rounds: &[[Measured; WAYS.len()]]) -> String {
    let mut text = format!(
        "### {}\n\n`{}`\n\n\
         | recorder | ns a stack | repeated | ns to read one | ns a round trip more | ms to begin |\n\
         |---|---:|---:|---:|---:|---:|\n",
        load.name,
        load.command()
    );
    for (index, way) in WAYS.iter().enumerate() {
        let figure = |of: &dyn Fn(&Measured, &Measured) -> f64| {
            rounds.iter().map(|ways| of(&ways[index], &ways[0])).collect::<Vec<_>>()
        };
        let with_stacks = index > 0;
        let a_stack = figure(&|it, without| (it.programs_ns - without.programs_ns) / it.stacks);
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} |",
            [&["wakepath record -a"][..], way].concat().join(" "),
            shown(&a_stack, with_stacks, 1.0, ""),
            shown(&figure(&|it, _| it.repeated), with_stacks, 100.0, "%"),
            shown(&figure(&|it, _| it.taken_ns), with_stacks, 1.0, ""),
            shown(&figure(&|it, without| it.trip_ns - without.trip_ns), with_stacks, 1.0, ""),
            shown(&figure(&|it, _| it.start_ms), true, 1.0, ""),
        );
    }
    text
}

/// The median, and the least and the most.
fn shown(values: &[f64], is_known: bool, times: f64, unit: &str) -> String {
    let known = median(values).filter(|_| is_known);
    or_dash(known, |median| {
        let (least, most) =
            values.iter().fold((f64::MAX, f64::MIN), |(least, most), &it| (least.min(it), most.max(it)));
        format!("{:.0}{unit} ({:.0} to {:.0})", median * times, least * times, most * times)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_stack_costs_what_the_programs_take_more_than_without_stacks() {
        let load = load::chosen(&[load::Name::Schedfreq], Path::new("bin"), 0.1).remove(0);
        let round = |more: f64| {
            let without =
                Measured { programs_ns: 500.0, trip_ns: 3000.0, start_ms: 300.0, ..Measured::default() };
            let with = |a_stack: f64| Measured {
                programs_ns: 500.0 + 4.0 * a_stack,
                trip_ns: 3000.0 + 5.0 * a_stack,
                stacks: 4.0,
                repeated: 0.98,
                taken_ns: 2000.0,
                start_ms: 310.0,
            };
            [without, with(100.0 + more), with(90.0), with(3000.0), with(2000.0)]
        };
        let table = table(&load, &[round(0.0), round(20.0), round(10.0)]);
        let row = |index: usize| table.lines().nth(6 + index).expect("a row").to_owned();
        assert_eq!(row(0), "| `wakepath record -a` | – | – | – | – | 300 (300 to 300) |", "{table}");
        let expected = "| `wakepath record -a --stacks` | 110 (100 to 120) | 98% (98 to 98) | 2000 (2000 to 2000) | \
                        550 (500 to 600) | 310 (310 to 310) |";
        assert_eq!(row(1), expected, "{table}");
        assert_eq!(table.lines().count(), 6 + WAYS.len());
    }
}
