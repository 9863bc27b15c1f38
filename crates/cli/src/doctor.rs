//! `wakepath doctor`: what this kernel and these rights allow.

use std::process::ExitCode;

use clap::Args;
use wakepath_engine::doctor::{Verdict, examine};
use wakepath_report::{json, text};

use crate::failure::{Code, Failure};
use crate::output::Output;

/// Say what this kernel and these rights allow, by trying each thing
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 recording is possible; 4 it is not.")]
pub struct DoctorArguments {
    /// As JSON, for scripts
    #[arg(long)]
    json: bool,
}

/// Tries, and says how it went.
pub fn run(arguments: &DoctorArguments, output: &Output) -> Result<ExitCode, Failure> {
    let checks = examine();
    if arguments.json {
        output.write(|out| json::doctor(&checks, out))?;
    } else {
        output.text(&text::doctor(&checks, output.paper()))?;
    }
    let blocked = checks.iter().any(|check| matches!(check.verdict, Verdict::Blocking { .. }));
    Ok(if blocked { Code::Rights.into() } else { ExitCode::SUCCESS })
}
