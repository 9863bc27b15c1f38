//! The command line: the options of the program and its verbs.

use clap::{Parser, Subcommand};

use crate::output::Colour;
use crate::{completion, exit_code, export, info, latency, path, sync};
#[cfg(feature = "collect")]
use crate::{doctor, record};

/// Explain why a command was slow
///
/// Records what the kernel's scheduler, interrupts, disks, locks and network do while a command
/// runs, and accounts for every nanosecond of its time: what it ran, which threads and devices it
/// waited for, and what those did meanwhile.
#[derive(Debug, Parser)]
#[command(
    name = "wakepath",
    version = version(),
    max_term_width = 100,
    propagate_version = false,
    disable_help_subcommand = true,
    after_help = format!("{EXAMPLES}\n\n{}\n\n{GLOSSARY}", exit_code::help()),
)]
pub struct Arguments {
    /// Use colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long = "color",
        value_name = "WHEN",
        global = true,
        default_value = "auto",
        hide_possible_values = true
    )]
    pub colour: Colour,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    #[cfg(feature = "collect")]
    Record(record::RecordArguments),
    Path(path::PathArguments),
    Info(info::InfoArguments),
    Latency(latency::LatencyArguments),
    Export(export::ExportArguments),
    Sync(sync::SyncArguments),
    #[cfg(feature = "collect")]
    Doctor(doctor::DoctorArguments),
    #[command(hide = true)]
    Completion(completion::CompletionArguments),
    /// Print the manual page
    #[command(hide = true)]
    Man,
}

const EXAMPLES: &str = "\
Examples:
  sudo wakepath record -- ./checkout     record a command, and show where its time went
  wakepath path                          show it again, from ./wakepath.rec
  wakepath path --tree                   each wait, with what the awaited thread did
  wakepath path --tid 912 --from -5s     the last five seconds of a thread
  wakepath info                          the summary of the recording";

const GLOSSARY: &str = "The words of the output are defined in docs/glossary.md.";

/// The program's version and the newest recording that it reads.
const fn version() -> &'static str {
    VERSION
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (recording format ", "5", ")");

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_options_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_version_names_the_format_that_is_read() {
        assert!(VERSION.ends_with(&format!("(recording format {})", wakepath_engine::FORMAT)), "{VERSION}");
    }
}
