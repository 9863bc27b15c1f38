//! `wakepath info`: a recording's summary.

use std::process::ExitCode;

use clap::Args;
use wakepath_engine::info;
use wakepath_report::{json, text};

use crate::failure::Failure;
use crate::input::Input;
use crate::output::Output;

/// Summarise a recording: its time, size, losses, and what recording cost
#[derive(Debug, Args)]
pub struct InfoArguments {
    #[command(flatten)]
    input: Input,
    /// Print JSON, for scripts
    #[arg(long)]
    json: bool,
}

/// Reads the recording and prints its summary.
pub fn run(arguments: &InfoArguments, output: &Output) -> Result<ExitCode, Failure> {
    let recorded = arguments.input.read()?;
    let answer = info(&recorded);
    output.answer(&answer, arguments.json, json::info, text::info)?;
    Ok(ExitCode::SUCCESS)
}
