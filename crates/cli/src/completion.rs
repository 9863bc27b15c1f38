//! `wakepath completion SHELL`: what a shell needs to complete our options.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::output::Output;

/// Print completions for a shell
#[derive(Debug, Args)]
pub struct CompletionArguments {
    /// For which shell
    shell: Shell,
}

/// Prints the completions.
pub fn run(arguments: &CompletionArguments, output: &Output) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "wakepath", &mut script);
    output.write(|out| out.write_all(&script))?;
    Ok(ExitCode::SUCCESS)
}
