//! `wakepath sync`: the offsets between several hosts' clocks.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use wakepath_engine::sync;
use wakepath_report::{json, text};

use crate::exit_code::Code;
use crate::failure::Failure;
use crate::help;
use crate::input::Progress;
use crate::output::Output;

/// Show the offsets between the clocks of several hosts, by the packets between them
///
/// `wakepath path` finds the same offsets itself when it is given several recordings; this verb shows them and their
/// error bounds.
#[derive(Debug, Args)]
#[command(after_help = help::first(EXAMPLES), after_long_help = EXAMPLES)]
pub struct SyncArguments {
    /// Each host's recording: by wakepath, an LTTng kernel trace, a perf.data or a trace.dat
    #[arg(value_name = "REC", num_args = 2.., required = true)]
    recordings: Vec<PathBuf>,
    /// Print JSON, for scripts
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  wakepath sync web.rec db.rec           the offset between the clocks of two hosts, and its error
  wakepath path web.rec db.rec           why it was slow on the first host, with its waits for the second";

/// Reads the packets in all recordings and prints the offsets.
pub fn run(arguments: &SyncArguments, output: &Output) -> Result<ExitCode, Failure> {
    let mut progress = Progress::new();
    let synchronised = sync(&arguments.recordings, |done, total| progress.show(done, total));
    progress.end();
    let synchronised = synchronised?;
    if synchronised.clocks.reference.is_none() {
        return Err(Failure::new(Code::Input, "there is nothing to compare"));
    }
    output.answer(&synchronised, arguments.json, json::sync, text::sync)?;
    Ok(ExitCode::SUCCESS)
}
