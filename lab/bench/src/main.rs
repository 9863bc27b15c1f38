//! Measures wakepath and prints tables in Markdown: what recording costs against its floor and its
//! peers, what counting latencies and drilling down costs, and how fast recordings are analysed.

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
mod statistics;
mod tracepoints;
mod used;

use std::io::{IsTerminal, Write};

use anyhow::Result;
use clap::Parser;

/// Measures wakepath, and prints tables in Markdown.
#[derive(Debug, Parser)]
enum Command {
    /// The cost of recording: a load alone and under each recorder, in turns.
    Cost(cost::Options),
    /// The time of each BPF program by the kernel's statistics, of one build or of several in turns.
    Programs(programs::Options),
    /// The cost of counting latencies, per call: a load alone and under each tool, in turns.
    Latency(latency::Options),
    /// The cost of drill-downs, per probed call and for whole programs, beside runs without one.
    Drill(drill::Options),
    /// The cost of what is read at each wait and wake-up, beside its budget.
    Reads(reads::Options),
    /// The cost of what joins threads with requests: goroutines, contexts of threads, the receiver of spans.
    Requests(requests::Options),
    /// The cost of recording services that have tracing of their own, beside other ways to join it with a trace of the kernel.
    Services(services::Options),
    /// The cost of a stack, with callers by tables and by frame pointers, in turns.
    Stacks(stacks::Options),
    /// How fast recordings are analysed, over their sizes.
    Analysis(analysis::Options),
    /// How fast traces of other tracers are read, beside babeltrace2.
    Ctf(ctf::Options),
    /// The time and memory that a program uses, whatever the bench itself has.
    Used(used::Options),
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Cost(options) => cost::run(&options),
        Command::Reads(options) => reads::run(&options),
        Command::Requests(options) => requests::run(&options),
        Command::Services(options) => services::run(&options),
        Command::Stacks(options) => stacks::run(&options),
        Command::Programs(options) => programs::run(&options),
        Command::Latency(options) => latency::run(&options),
        Command::Drill(options) => drill::run(&options),
        Command::Analysis(options) => analysis::run(&options),
        Command::Ctf(options) => ctf::run(&options),
        Command::Used(options) => used::run(&options),
    }
}

/// Shows what is running, on a terminal only: the tables are what the program prints.
fn progress(text: &str) {
    let mut terminal = std::io::stderr();
    if terminal.is_terminal() {
        let _ = write!(terminal, "\r\x1b[K{text}");
    }
}
