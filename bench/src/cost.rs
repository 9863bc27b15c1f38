//! Measures what recording costs, against its floor and its peers, as a table in Markdown.
//!
//! Runs alternate: the load alone, then with one recorder, again and again; each pair gives one
//! ratio, and the median of the ratios is the figure. Slow changes over seconds (clock speeds,
//! neighbours of a virtual machine) therefore affect both halves of a pair alike.
//!
//! The load has one CPU to itself, under a real-time priority; recorders read and write on another.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use crate::figures::{self, Row};
use crate::load::{self, Load};
use crate::places::Places;
use crate::recorders::{self, Recorder};
use crate::{machine, processes, progress, tracepoints};

#[derive(Debug, Args)]
pub struct Options {
    /// About how long the load runs each time; it does a fixed number of round trips.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// How many pairs of runs each recorder gets.
    #[arg(long, default_value_t = 9)]
    pairs: usize,
    /// Which loads run; both if none is named.
    #[arg(long, value_enum)]
    load: Vec<load::Name>,
    /// Which recorders run; all if none is named.
    #[arg(long, value_enum)]
    recorder: Vec<recorders::Name>,
    #[command(flatten)]
    places: Places,
}

/// Prints a table for each load.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.pairs > 0 && options.seconds > 0.0, "nothing to run: no pairs or no seconds");
    options.places.prepare("recorders", "recording needs root for the peers too")?;
    let Places { workloads, wakepath, output } = &options.places;

    tracepoints::mount()?;
    println!("## Cost of recording\n\n{}\n", machine::describe());
    println!("EVENTS, of peers: {}\n", tracepoints::here().join(" "));
    for load in load::chosen(&options.load, workloads, options.seconds) {
        let mut rows = Vec::new();
        for mut recorder in recorders::chosen(&options.recorder, wakepath, output) {
            match measure(&load, recorder.as_mut(), options.pairs) {
                Ok(row) => rows.push(row),
                Err(error) => println!("skipped: {}: {error:#}\n", recorder.name()),
            }
        }
        println!("{}", figures::table(&load, &rows));
    }
    if options.load.is_empty() && options.recorder.is_empty() {
        rate(options)?;
    }
    Ok(())
}

/// Prints what our recorder itself uses where all CPUs make as many events as they can.
fn rate(options: &Options) -> Result<()> {
    let Places { workloads, wakepath, output } = &options.places;
    let cpus = machine::cpus();
    let seconds = options.seconds * 3.0;
    let load = load::chosen(&[load::Name::Schedfreq], workloads, seconds).remove(0);
    println!("### The recorder itself, at a semaphore ping-pong on each of {cpus} CPUs\n");
    println!("`{}` on each CPU; medians of {} runs\n", load.command_on_each(), options.pairs);
    println!("| recorder | million events a second | lost | its own CPU | for a million events a second |");
    println!("|---|---:|---:|---:|---:|");
    for mut recorder in recorders::chosen(&[recorders::Name::Wakepath], wakepath, output) {
        let (mut rates, mut shares, mut each, mut lost) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for run in 1..=options.pairs {
            progress(&format!("{} on each CPU, run {run} of {}", recorder.name(), options.pairs));
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
        let [rate, share, each] = [rates, shares, each].map(|values| figures::median(&values));
        println!(
            "| {} | {} | {lost} | {} | {} |",
            recorder.command(),
            figures::or_dash(rate, |rate| format!("{rate:.2}")),
            figures::or_dash(share, |share| format!("{:.1}%", share * 100.0)),
            figures::or_dash(each, |each| format!("{:.1}%", each * 100.0)),
        );
    }
    progress("");
    println!();
    Ok(())
}

/// Runs pairs of the load, alone and recorded.
fn measure(load: &Load, recorder: &mut dyn Recorder, pairs: usize) -> Result<Row> {
    let mut row = Row::new(recorder);
    for pair in 1..=pairs {
        progress(&format!("{}, {}, pair {pair} of {pairs}", load.name, recorder.name()));
        let alone = load.run()?;
        let mut recording = recorder.start()?;
        let before = recording.consumer_cpu()?;
        let recorded = load.run()?;
        let consumer = recording.consumer_cpu()?.saturating_sub(before);
        row.add(&alone, &recorded, consumer, recording.stop()?);
        // The data of one run must not be flushed during the next.
        processes::settle(Duration::from_millis(200));
    }
    progress("");
    Ok(row)
}
