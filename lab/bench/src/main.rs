//! Measures wakepath and prints tables in Markdown: the cost of recording against its floor and its peers, the cost
//! of counting latencies and of drilling down, and the speed of analysis.

mod analysis;
mod comparison;
mod cost;
mod ctf;
mod drill;
mod figures;
mod history;
mod latency;
mod load;
mod machine;
mod peers;
mod places;
mod processes;
mod programs;
mod reads;
mod recorders;
mod requests;
mod services;
mod stacks;
mod start;
mod statistics;
mod tracepoints;
mod used;

use std::io::{IsTerminal, Write};

use anyhow::Result;
use clap::Parser;

/// Measures wakepath, and prints tables in Markdown.
#[derive(Debug, Parser)]
enum Command {
    /// Recording costs: a load alone and under each recorder, in turns.
    Cost(cost::Options),
    /// Each BPF program's time by the kernel's statistics, for a build or several builds in turns.
    Programs(programs::Options),
    /// Latency counting costs per call: a load alone and under each tool, in turns.
    Latency(latency::Options),
    /// Drill-down costs, per probed call and for whole programs, beside runs without them.
    Drill(drill::Options),
    /// Read costs at each wait and wake-up, beside their budgets.
    Reads(reads::Options),
    /// Costs for joining threads with requests: goroutines, thread contexts, the span receiver.
    Requests(requests::Options),
    /// Recording costs for services with their own tracing, beside other ways to join it with a kernel trace.
    Services(services::Options),
    /// The time until the recorded command begins, beside other recorders, idle and busy.
    Start(start::Options),
    /// The cost per stack, with callers by tables and by frame pointers, in turns.
    Stacks(stacks::Options),
    /// The analysis speed, over recordings with different sizes.
    Analysis(analysis::Options),
    /// The reading speed for other tracers' traces, beside babeltrace2.
    Ctf(ctf::Options),
    /// The time and memory that a program uses, without the bench's own.
    Used(used::Options),
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Cost(options) => cost::run(&options),
        Command::Reads(options) => reads::run(&options),
        Command::Requests(options) => requests::run(&options),
        Command::Services(options) => services::run(&options),
        Command::Start(options) => start::run(&options),
        Command::Stacks(options) => stacks::run(&options),
        Command::Programs(options) => programs::run(&options),
        Command::Latency(options) => latency::run(&options),
        Command::Drill(options) => drill::run(&options),
        Command::Analysis(options) => analysis::run(&options),
        Command::Ctf(options) => ctf::run(&options),
        Command::Used(options) => used::run(&options),
    }
}

/// Shows the current step, on a terminal only: the tables are the program's output.
fn progress(text: &str) {
    let mut terminal = std::io::stderr();
    if terminal.is_terminal() {
        let _ = write!(terminal, "\r\x1b[K{text}");
    }
}
