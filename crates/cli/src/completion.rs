//! `wakepath completion SHELL`: the script with which a shell completes our options.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::Failure;
use crate::output::Output;

/// Print the completion script for a shell
#[derive(Debug, Args)]
pub struct CompletionArguments {
    /// The shell
    shell: Shell,
}

/// Prints the script for all that `command` accepts.
pub fn run(
    arguments: &CompletionArguments,
    mut command: Command,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "wakepath", &mut script);
    output.write(|out| out.write_all(&script))?;
    Ok(ExitCode::SUCCESS)
}
