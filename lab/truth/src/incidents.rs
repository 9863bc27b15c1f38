//! Planted incidents: a script makes a program slow, with a single cause and a known size; the tool is asked as a newcomer
//! would ask it, and its first screen and its JSON must both name the cause, the thread and the size.

mod check;
mod healthy;
mod run;
mod script;
mod sums;
mod twin;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

pub(crate) use check::begins_with_year;
pub use check::{Checked, Expected, IncidentVerdict, check};
pub use run::{Answer, ask};
pub use script::Incident;
pub use sums::{is_right, sums};
pub use twin::{TwinVerdict, judge as judge_twin};

/// The largest error in a size, as a share of the planted size.
pub const MAX_ERROR: f64 = 0.1;

/// The scripts in this folder, by name; only the named scripts, if names are given.
///
/// # Errors
///
/// If the folder or a script cannot be read, or no script has a given name.
pub fn scripts(folder: &Path, names: &[String]) -> Result<Vec<Incident>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension != "md"));
    files.sort_unstable();
    let mut incidents = Vec::new();
    for file in files {
        let incident = Incident::read(&file)?;
        if names.is_empty() || names.contains(&incident.name) {
            incidents.push(incident);
        }
    }
    for name in names {
        ensure!(incidents.iter().any(|one| one.name == *name), "no incident is called `{name}`");
    }
    Ok(incidents)
}

/// The table's head.
pub const HEAD: &str =
    "| incident | planted | asked | said | verdict | twin, idle and beside load |\n|---|---|---|---|---|---|";

/// An incident and its answer, as a row of the table.
pub fn row(incident: &Incident, checked: &Checked) -> String {
    let asks = incident.asks.iter().take(checked.commands.max(1));
    let asked = asks.map(|ask| format!("`{ask}`")).collect::<Vec<_>>().join(", ");
    let verdict = match (&checked.verdict, &incident.known) {
        (IncidentVerdict::Right, _) => "right".to_owned(),
        (IncidentVerdict::Wrong(why), known) => format!("**WRONG**: {}", reason(why, known.as_deref())),
        (IncidentVerdict::NoAnswer(why), known) => format!("no answer: {}", reason(why, known.as_deref())),
        (IncidentVerdict::Undecided(why), known) => format!("undecided: {}", reason(why, known.as_deref())),
        (IncidentVerdict::NotRun(why), _) => format!("not run: {why}"),
    };
    let twins = checked.twins.iter().map(twin_words).collect::<Vec<_>>().join("; ");
    let cells = [
        &incident.name,
        &format!("{}: {}", incident.cause, checked.planted),
        &asked,
        &checked.said,
        &verdict,
        &twins,
    ];
    let cells = cells.map(|cell| cell.replace('|', "\\|"));
    format!("| {} |", cells.join(" | "))
}

fn twin_words(twin: &TwinVerdict) -> String {
    match twin {
        TwinVerdict::Right(_) => "right".to_owned(),
        TwinVerdict::Wrong(word, headline) => format!("**WRONG**: the headline says `{word}`: {headline}"),
        TwinVerdict::NotJudged(why) => format!("not judged: {why}"),
    }
}

fn reason(why: &str, known: Option<&str>) -> String {
    known.map_or_else(|| why.to_owned(), |known| format!("{why}; {known}"))
}
