//! Requests by cause: the command to get them, and the progress line.

use std::time::{Duration, Instant};

use wakepath_report::{escape, text};

use super::RequestsArguments;
use crate::failure::Failure;
use crate::output::Output;

/// More explained requests than these are easier to read by cause.
const MANY: usize = 5;

/// Prints the command to group the same requests by cause, behind the answers for many.
pub fn next_by_cause(arguments: &RequestsArguments, slowest: usize, output: &Output) -> Result<(), Failure> {
    if slowest <= MANY || arguments.json {
        return Ok(());
    }
    let words = next_words(arguments, slowest);
    output.text(&text::next_by_cause(&words, output.layout()))?;
    Ok(())
}

/// The words behind `wakepath requests`, each after a space.
fn next_words(arguments: &RequestsArguments, slowest: usize) -> String {
    let mut words = arguments.words();
    let options = [
        ("--service", &arguments.service),
        ("--operation", &arguments.operation),
        ("--from", &arguments.from.map(|at| at.to_string())),
        ("--to", &arguments.to.map(|at| at.to_string())),
        ("--slowest", &Some(slowest.to_string())),
    ];
    for (option, value) in options {
        words.extend(value.iter().flat_map(|value| [option.to_owned(), quoted(value)]));
    }
    words.extend(arguments.from_arrival.then(|| String::from("--from-arrival")));
    words.iter().map(|word| format!(" {word}")).collect()
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    let word = escape(word.as_bytes());
    if !word.is_empty() && word.chars().all(is_plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Shows the number explained so far, if it takes long.
pub fn progress(output: &Output, all: usize) -> impl FnMut(usize) {
    /// The time without a line, and from one line to the next.
    const PATIENCE: Duration = Duration::from_millis(700);
    let mut shown = Instant::now();
    move |done| {
        if shown.elapsed() >= PATIENCE {
            output.passing(&format!("explained {done} of {all} requests"));
            shown = Instant::now();
        }
    }
}
