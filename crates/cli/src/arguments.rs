//! The command line: the program's options and verbs.

#[cfg(all(test, feature = "collect"))]
mod ranges;

use clap::{Parser, Subcommand};

use crate::output::Colour;
use crate::{completion, exit_code, export, info, latency, path, plugin, requests, sync};
#[cfg(feature = "collect")]
use crate::{doctor, drill, flight, record, watch};

/// Explain why a command was slow
///
/// Records what the kernel's scheduler, interrupts, disks, locks and network do while a command
/// runs, and accounts for every nanosecond of its time: what it ran, which threads and devices it
/// waited for, and what those did meanwhile.
#[derive(Debug, Parser)]
#[command(
    name = "wakepath",
    version = VERSION,
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
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub colour: Colour,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    #[cfg(feature = "collect")]
    Record(record::RecordArguments),
    #[cfg(feature = "collect")]
    Trigger(flight::TriggerArguments),
    Path(path::PathArguments),
    Info(info::InfoArguments),
    Latency(latency::LatencyArguments),
    #[cfg(feature = "collect")]
    Watch(watch::WatchArguments),
    #[cfg(feature = "collect")]
    Drill(drill::DrillArguments),
    Requests(requests::RequestsArguments),
    Plugin(plugin::PluginArguments),
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

/// The program's version and the newest recording format it reads.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (recording format ", "17", ")");

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

    /// The words of a wakepath command line in a document's line, from its verb on; `None` without such a command.
    #[cfg(feature = "collect")]
    fn command_line(code: &str) -> Option<Vec<&str>> {
        let is_before = |word: &&str| matches!(*word, "$" | "sudo") || word.contains('=');
        let mut words = code.split_whitespace().skip_while(is_before);
        let is_end = |word: &&str| matches!(*word, "--" | "|" | "&&" | "#") || word.starts_with('>');
        (words.next() == Some("wakepath")).then(|| words.take_while(|word| !is_end(word)).collect())
    }

    /// The finding about a command line whose verb or options do not exist.
    #[cfg(feature = "collect")]
    fn unknown(words: &[&str]) -> Option<String> {
        let mut command = Arguments::command();
        command.build();
        let verb = words.first().filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
        let command = match verb {
            Some(verb) => command.find_subcommand(verb).ok_or(format!("no verb `{verb}`")),
            None => Ok(&command),
        };
        let knows = |word: &str| {
            let name = word.split(['=', '`', ',', ')']).next().unwrap_or_default();
            let mut arguments = command.as_ref().into_iter().flat_map(|command| command.get_arguments());
            match (name.strip_prefix("--"), name.strip_prefix('-').and_then(|rest| rest.chars().next())) {
                (Some(long), _) => arguments.any(|it| {
                    let aliases = it.get_all_aliases().unwrap_or_default();
                    it.get_long() == Some(long) || aliases.contains(&long)
                }),
                (None, Some(short)) if short.is_ascii_alphabetic() => {
                    arguments.any(|it| it.get_short() == Some(short))
                }
                _ => true,
            }
        };
        let option = words.iter().find(|word| !knows(word)).map(|word| format!("no option `{word}`"));
        command.as_ref().err().cloned().or(option)
    }

    #[test]
    #[cfg(feature = "collect")]
    fn documents_show_only_commands_that_can_be_typed() {
        assert_eq!(unknown(&["path", "--tree", "-5s"]), None);
        assert_eq!(unknown(&["walk"]).as_deref(), Some("no verb `walk`"));
        assert_eq!(unknown(&["path", "--tre"]).as_deref(), Some("no option `--tre`"));
        let tree = wakepath_tidy::tree::Tree::from_checkout().unwrap();
        let pages = tree.files().iter().filter(|path| path.extension().is_some_and(|it| it == "md"));
        let mut commands = 0;
        let mut findings = Vec::new();
        for page in pages {
            for (line, code) in wakepath_tidy::documents::Document::parse(&tree.text(page).unwrap()).code {
                let Some(words) = command_line(&code) else { continue };
                commands += 1;
                findings.extend(unknown(&words).map(|text| format!("{}:{line}: {text}", page.display())));
            }
        }
        assert!(commands > 30, "{commands} commands in the documents");
        assert!(findings.is_empty(), "\n{}", findings.join("\n"));
    }
}
