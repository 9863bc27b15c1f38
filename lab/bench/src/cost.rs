//! Measures the cost of recording, against its floor and its peers, as a table in Markdown.
//!
//! A round is a short run under each recorder, with a run alone between each two; the recorders' order moves on by
//! one from round to round. A recorded run is compared with the runs alone before and after it, and two recorders by
//! their runs in the same round. Slow changes (clock speeds, a virtual machine's neighbours) therefore affect both
//! sides of a comparison alike.
//!
//! The load has a CPU to itself, under a real-time priority; recorders read and write on another.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use crate::comparison::{Turn, WHOLE};
use crate::figures::{self, Row};
use crate::history::{self, Line};
use crate::load::{self, Load, Run};
use crate::places::Places;
use crate::recorders::{self, Recorder};
use crate::statistics::{median, or_dash};
use crate::{machine, processes, programs, progress, tracepoints};

#[derive(Debug, Args)]
pub struct Options {
    /// Approximate length of each run; the load does a fixed number of round trips.
    #[arg(long, default_value_t = 0.2)]
    seconds: f64,
    /// Rounds; each runs the load under each recorder, and alone in between.
    #[arg(long, default_value_t = 24)]
    rounds: usize,
    /// The loads to run; both by default.
    #[arg(long, value_enum)]
    load: Vec<load::Name>,
    /// The recorders to run; all by default.
    #[arg(long, value_enum)]
    recorder: Vec<recorders::Name>,
    /// The file with our own cost at earlier commits: gets a line, and is printed.
    #[arg(long, requires = "commit")]
    history: Option<PathBuf>,
    /// The measured commit.
    #[arg(long)]
    commit: Option<String>,
    #[command(flatten)]
    places: Places,
}

/// Runs of each recorder where all CPUs are loaded: the result is a share of a CPU, which scatters little.
const RUNS_ON_ALL_CPUS: usize = 5;

/// Prints a table for each load.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0 && options.seconds > 0.0, "nothing to run: no rounds or no seconds");
    options.places.prepare("recorders", "recording needs root for the peers too")?;
    let Places { workloads, .. } = &options.places;

    tracepoints::mount()?;
    println!("## Cost of recording\n\n{}\n", machine::describe());
    println!("EVENTS, of peers: {}\n", tracepoints::here().join(" "));
    let mut measured = Vec::new();
    for load in load::chosen(&options.load, workloads, options.seconds) {
        let (rows, alone) = measure(&load, options)?;
        println!("{}", figures::table(&load, &rows, &alone));
        measured.push((load.kind, rows));
    }
    if options.load.is_empty() && options.recorder.is_empty() {
        rate(options)?;
    }
    if let Some((file, commit)) = options.history.as_ref().zip(options.commit.as_deref()) {
        let programs = programs::measure(&options.places.wakepath, &options.places, options.seconds)?;
        println!("{}", programs::table(&programs));
        let own = |load, name: &str| {
            let rows = measured.iter().find(|(kind, _)| *kind == load).map(|(_, rows)| rows)?;
            rows.iter().find(|row| row.is(name))?.added_ns(WHOLE).map(|found| found.median)
        };
        println!("{}", history::append(file, &Line::now(commit, own, &programs))?);
    }
    Ok(())
}

/// Prints our recorder's own use where all CPUs make as many events as they can.
fn rate(options: &Options) -> Result<()> {
    let Places { workloads, wakepath, output } = &options.places;
    let cpus = machine::cpus();
    let load = load::chosen(&[load::Name::Schedfreq], workloads, 2.0).remove(0);
    println!("### The recorder itself, at a semaphore ping-pong on each of {cpus} CPUs\n");
    println!("`{}` on each CPU; medians of {RUNS_ON_ALL_CPUS} runs\n", load.command_on_each());
    println!("| recorder | million events a second | lost | its own CPU | for a million events a second |");
    println!("|---|---:|---:|---:|---:|");
    for mut recorder in recorders::chosen(&[recorders::Name::Wakepath], wakepath, output) {
        let (mut rates, mut shares, mut each, mut lost) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for run in 1..=RUNS_ON_ALL_CPUS {
            progress(&format!("{} on each CPU, run {run} of {RUNS_ON_ALL_CPUS}", recorder.name()));
            let mut recording = recorder.start()?;
            let before = recording.consumer_cpu()?;
            let runs = load.run_on_each(cpus)?;
            let consumer = recording.consumer_cpu()?.saturating_sub(before).as_secs_f64();
            let recorded = recording.stop()?;
            // All do the same number of round trips at once; the slowest gives the time.
            let took = runs.iter().map(|run| run.count / run.rate).fold(0.0, f64::max);
            let events = recorded.events.unwrap_or(0) as f64 / 1e6;
            rates.push(events / took);
            shares.push(consumer / took);
            each.push(consumer / events);
            lost += recorded.lost.unwrap_or(0);
            processes::settle(Duration::from_millis(200));
        }
        let [rate, share, each] = [rates, shares, each].map(|values| median(&values));
        println!(
            "| {} | {} | {lost} | {} | {} |",
            recorder.command(),
            or_dash(rate, |rate| format!("{rate:.2}")),
            or_dash(share, |share| format!("{:.1}%", share * 100.0)),
            or_dash(each, |each| format!("{:.1}%", each * 100.0)),
        );
    }
    progress("");
    println!();
    Ok(())
}

/// All rounds of a load: a row for each recorder that works here, and the runs alone in their order.
fn measure(load: &Load, options: &Options) -> Result<(Vec<Row>, Vec<Run>)> {
    let Places { wakepath, output, .. } = &options.places;
    let mut recorders = recorders::chosen(&options.recorder, wakepath, output);
    let mut rows: Vec<_> = recorders.iter().map(|recorder| Some(Row::new(recorder.as_ref()))).collect();
    let mut alone = vec![load.run()?];
    for round in 0..options.rounds {
        for index in order(round, recorders.len()) {
            let Some(row) = &mut rows[index] else { continue };
            let recorder = recorders[index].as_mut();
            progress(&format!(
                "{}, round {} of {}, {}",
                load.name,
                round + 1,
                options.rounds,
                recorder.name()
            ));
            let before = alone[alone.len() - 1];
            match turn(load, recorder, before) {
                Ok((turn, consumer, recorded)) => {
                    alone.push(turn.after);
                    row.add(turn, consumer, recorded);
                }
                Err(error) => {
                    println!("skipped: {}: {error:#}\n", recorder.name());
                    rows[index] = None;
                }
            }
        }
    }
    progress("");
    Ok((rows.into_iter().flatten().collect(), alone))
}

/// A round's recorders, each once: forwards, then backwards, then from the next on, so that no recorder always comes
/// first or after the same.
pub fn order(round: usize, recorders: usize) -> impl Iterator<Item = usize> {
    (0..recorders).map(move |index| {
        let index = if round.is_multiple_of(2) { index } else { recorders - 1 - index };
        (index + round / 2) % recorders
    })
}

/// A recorded run, and the run alone after it.
fn turn(
    load: &Load,
    recorder: &mut dyn Recorder,
    before: Run,
) -> Result<(Turn, Duration, recorders::Recorded)> {
    let mut recording = recorder.start()?;
    let used = recording.consumer_cpu()?;
    let with = load.run()?;
    let used = recording.consumer_cpu()?.saturating_sub(used);
    let recorded = recording.stop()?;
    // A run's data must not be flushed during the next.
    processes::settle(Duration::from_millis(50));
    Ok((Turn { before, with, after: load.run()? }, used, recorded))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::order;

    #[test]
    fn each_recorder_runs_once_in_a_round_and_at_each_place_of_it() {
        let rounds: Vec<Vec<usize>> = (0..12).map(|round| order(round, 6).collect()).collect();
        for round in &rounds {
            assert_eq!(round.iter().copied().collect::<BTreeSet<_>>(), (0..6).collect(), "{round:?}");
        }
        for place in 0..6 {
            let there: BTreeSet<_> = rounds.iter().map(|round| round[place]).collect();
            assert_eq!(there.len(), 6, "place {place} has only {there:?}");
        }
        let pairs: BTreeSet<_> =
            rounds.iter().flat_map(|round| round.windows(2)).map(<[_]>::to_vec).collect();
        assert!(pairs.len() > 6, "the same recorder always comes after the same");
    }
}
