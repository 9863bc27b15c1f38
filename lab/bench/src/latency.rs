//! Measures the cost per call of counting latencies, beside its peers at the same question, as tables in
//! Markdown.
//!
//! Each round runs the load alone and then under each tool; a call's added time is relative to the same round's
//! run alone, and the median of the rounds is the figure. The load measures its own calls, so the tools' work
//! before and after is not included.

mod tools;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::places::Places;
use crate::statistics::{median, or_dash, quantile};
use crate::{machine, peers, progress};
use tools::{Question, Tool};

#[derive(Debug, Args)]
pub struct Options {
    /// Number of calls in a run.
    #[arg(long, default_value_t = 200_000)]
    calls: u64,
    /// Rounds; each runs the load alone and under each tool.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    #[command(flatten)]
    places: Places,
}

/// The result of a run under a tool.
pub struct Run {
    /// A call's time, ns.
    pub a_call: f64,
    /// Calls that the tool counted, if it reports them.
    pub counted: Option<u64>,
}

/// A tool's runs.
struct Row {
    tool: Tool,
    a_call: Vec<f64>,
    added: Vec<f64>,
    counted: Vec<f64>,
}

/// Prints a table for a function and a table for a system call.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0 && options.calls > 0, "nothing to run: no rounds or no calls");
    options.places.prepare("tools", "counting needs root")?;
    let calls = options.places.workloads.join("calls");
    let calls = calls.canonicalize().with_context(|| format!("no {}: make workloads", calls.display()))?;
    println!("## Cost of counting latencies\n\n{}; {}\n", machine::describe(), peers::version("bpftrace"));
    for question in [Question::Function, Question::SystemCall] {
        table(question, &calls, options)?;
    }
    Ok(())
}

fn table(question: Question, calls: &Path, options: &Options) -> Result<()> {
    let place = tools::Paths { calls, wakepath: &options.places.wakepath, output: &options.places.output };
    // The path within the tree: the location of the tree does not matter.
    let shown = options.places.workloads.join("calls");
    let shown = tools::Paths { calls: &shown, ..place };
    let mut rows: Vec<Row> = Vec::new();
    for &tool in question.tools() {
        match tool.missing() {
            Some(program) => println!("skipped: {}: no {program} on this machine\n", tool.name()),
            None => rows.push(Row { tool, a_call: Vec::new(), added: Vec::new(), counted: Vec::new() }),
        }
    }
    let mut alone = Vec::new();
    for round in 1..=options.rounds {
        progress(&format!("{}, round {round} of {}", question.name(), options.rounds));
        let bare = question.alone(&place, options.calls)?;
        alone.push(bare.a_call);
        let mut kept = Vec::new();
        for mut row in rows {
            match row.tool.run(question, &place, options.calls) {
                Ok(run) => {
                    // A probe on other calls than the load's costs nothing.
                    ensure!(
                        run.counted.is_none_or(|counted| counted > 0),
                        "{} counted none of {} calls",
                        row.tool.name(),
                        options.calls
                    );
                    row.a_call.push(run.a_call);
                    row.added.push(run.a_call - bare.a_call);
                    row.counted.extend(run.counted.map(|counted| counted as f64));
                    kept.push(row);
                }
                Err(error) => println!("skipped: {}: {error:#}\n", row.tool.name()),
            }
        }
        rows = kept;
    }
    progress("");
    let ns = |value: Option<f64>| or_dash(value, |ns| format!("{ns:.0} ns"));
    println!(
        "### {}\n\n`{}`: {} a call alone; medians of {} rounds, {} calls each\n",
        question.name(),
        question.load(&shown, options.calls).join(" "),
        ns(median(&alone)),
        options.rounds,
        options.calls,
    );
    println!("| tool | a call takes | added to a call | quartiles | times wakepath's | calls counted |");
    println!("|---|---:|---:|---:|---:|---:|");
    let ours = rows.iter().find(|row| row.tool == Tool::Wakepath).and_then(|row| median(&row.added));
    for row in &rows {
        let added = median(&row.added);
        let peer = row.tool != Tool::Wakepath;
        let ratio = added.zip(ours.filter(|ours| peer && *ours > 0.0)).map(|(added, ours)| added / ours);
        println!(
            "| {} | {} | {} | {} to {} | {} | {} |",
            row.tool.name(),
            ns(median(&row.a_call)),
            ns(added),
            ns(quantile(&row.added, 0.25)),
            ns(quantile(&row.added, 0.75)),
            or_dash(ratio, |ratio| format!("{ratio:.2}")),
            or_dash(median(&row.counted), |counted| format!("{counted:.0}")),
        );
    }
    println!();
    for row in &rows {
        println!("- {}: `{}`", row.tool.name(), row.tool.command(question));
    }
    println!();
    Ok(())
}
