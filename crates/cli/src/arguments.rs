//! What can be typed.

use clap::{Parser, Subcommand, ValueEnum};

use crate::{completion, export, info, latency, path, sync};
#[cfg(feature = "collect")]
use crate::{doctor, record};

/// Tells why it was slow.
///
/// Records what the kernel's scheduler, interrupts, disks, locks and network do while a command
/// runs, and accounts for every nanosecond of its time: what it did, for whom it waited, and what
/// those did meanwhile.
#[derive(Debug, Parser)]
#[command(
    name = "wakepath",
    version = version(),
    max_term_width = 100,
    propagate_version = false,
    disable_help_subcommand = true,
    after_help = EXAMPLES,
)]
pub struct Arguments {
    /// Use colours: on a terminal, always, or never. NO_COLOR set means never, unless this says so.
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

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    Auto,
    Always,
    Never,
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
  sudo wakepath record -- ./checkout     record a command, and tell where its time went
  wakepath path                          tell it again, from ./wakepath.rec
  wakepath path --tree                   who waited for whom
  wakepath path --tid 912 --from -5s     the last five seconds of a thread
  wakepath info                          what is in the recording

Exit codes: 0 answered; 1 answered with losses or doubts (only with --strict); 2 wrong usage;
3 input that cannot be read; 4 rights or kernel features missing.

The words of the output are defined in docs/glossary.md.";

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
    fn what_can_be_typed_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_version_names_the_format_that_is_read() {
        assert!(VERSION.ends_with(&format!("(recording format {})", wakepath_engine::FORMAT)), "{VERSION}");
    }
}
