//! `wakepath doctor`: what this kernel and these privileges allow.

use std::process::ExitCode;

use clap::Args;
use wakepath_engine::doctor::CheckVerdict;
use wakepath_live::doctor::examine;
use wakepath_report::{json, text};

use crate::exit_code::Code;
use crate::failure::Failure;
use crate::output::Output;

/// Show what this kernel and your privileges allow, by trying each feature
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 recording is possible; 4 recording is not possible.")]
pub struct DoctorArguments {
    /// Print JSON, for scripts
    #[arg(long)]
    json: bool,
}

/// Tries each feature and prints the results.
pub fn run(arguments: &DoctorArguments, output: &Output) -> Result<ExitCode, Failure> {
    let checks = examine(&mut |feature| output.passing(&format!("trying: {feature}")));
    output.passing("");
    output.answer(checks.as_slice(), arguments.json, json::doctor, text::doctor)?;
    let blocked = checks.iter().any(|check| matches!(check.verdict, CheckVerdict::Blocking { .. }));
    Ok(if blocked { Code::Rights.into() } else { ExitCode::SUCCESS })
}
