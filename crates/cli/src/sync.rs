//! `wakepath sync`: how the clocks of several hosts lie.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use wakepath_engine::sync;
use wakepath_report::{json, text};

use crate::failure::{Code, Failure};
use crate::input::Progress;
use crate::output::Output;

/// Say how the clocks of several hosts lie, by the packets between them
///
/// `wakepath path` over several recordings does the same by itself; this shows how well it can.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SyncArguments {
    /// A recording of each host, a kernel trace by LTTng, a perf.data or a trace.dat
    #[arg(value_name = "REC", num_args = 2.., required = true)]
    recordings: Vec<PathBuf>,
    /// As JSON, for scripts
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  wakepath sync web.rec db.rec           how well the two clocks can be compared
  wakepath path web.rec db.rec           why it was slow on the first, wherever it waited";

/// Reads the packets of all and says what they say.
pub fn run(arguments: &SyncArguments, output: &Output) -> Result<ExitCode, Failure> {
    let mut progress = Progress::new();
    let synchronised = sync(&arguments.recordings, |done, total| progress.tell(done, total));
    progress.end();
    let synchronised = synchronised?;
    if synchronised.clocks.reference.is_none() {
        return Err(Failure::new(Code::Input, "there is nothing to compare"));
    }
    if arguments.json {
        output.write(|out| json::sync(&synchronised, out))?;
    } else {
        output.text(&text::sync(&synchronised, output.paper()))?;
    }
    Ok(ExitCode::SUCCESS)
}
