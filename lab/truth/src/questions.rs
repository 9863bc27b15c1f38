//! Questions to services, as users write them, under OpenTelemetry's own packages. A question plants
//! a cause in one of its requests, and asks `wakepath requests` about that request. The twin is the same without the cause.

mod ask;
mod head;
mod receive;
mod send;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

pub use ask::{Answered, Mode, Places, ask};
pub use head::{Question, Service};

use crate::incidents::{IncidentVerdict, TwinVerdict};

/// The options of the questions.
#[derive(Debug, Args)]
pub struct Options {
    /// The services, by name; all if none is named.
    names: Vec<String>,
    /// With the plug-in, or without it; both if not given.
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    #[command(flatten)]
    places: Places,
    /// Keep recordings, screens and documents in this folder.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Ask again about the recordings kept in this folder by `--keep`.
    #[arg(long, value_name = "DIR", conflicts_with = "keep")]
    pub replay: Option<PathBuf>,
}

/// Asks each service's questions in each mode, and prints the table. True if no answer is wrong.
///
/// # Errors
/// If a service's file cannot be read, or no service has a given name.
pub fn ask_all(options: &Options, folder: &Path) -> Result<bool> {
    println!("{HEAD}");
    let mut all = Vec::new();
    for service in services(&options.places.scripts, &options.names)? {
        for mode in options.mode.map_or_else(|| vec![Mode::Plain, Mode::PlugIn], |mode| vec![mode]) {
            let kept = folder.join(format!("{}.{}", service.name, mode.name()));
            for answered in ask(&options.places, &service, mode, &kept, options.replay.is_some()) {
                println!("{}", row(&answered));
                all.push(answered);
            }
        }
    }
    println!("\n{}", sums(&all));
    Ok(is_right(&all))
}

/// The services in a folder, by name; only the named ones, if names are given.
///
/// # Errors
/// If the folder or a head cannot be read, or no service has a given name.
pub fn services(folder: &Path, names: &[String]) -> Result<Vec<Service>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.retain(|file: &PathBuf| {
        let extension = file.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| ["py", "js", "java", "go"].contains(&extension))
    });
    files.sort_unstable();
    let mut services = Vec::new();
    for file in files {
        let service = Service::read(&file)?;
        // A file without questions is only called.
        let has_questions = !service.questions.is_empty();
        if has_questions && (names.is_empty() || names.contains(&service.name)) {
            services.push(service);
        }
    }
    for name in names {
        ensure!(services.iter().any(|service| service.name == *name), "no service is called `{name}`");
    }
    Ok(services)
}

/// The table's head.
pub const HEAD: &str =
    "| service | mode | question | planted | said | verdict | twin |\n|---|---|---|---|---|---|---|";

/// A question and its answer, as a row of the table.
pub fn row(answered: &Answered) -> String {
    let verdict = match &answered.verdict {
        IncidentVerdict::Right => "right".to_owned(),
        IncidentVerdict::Wrong(why) if answered.is_measured => format!("**WRONG, measured**: {why}"),
        IncidentVerdict::Wrong(why) => format!("**WRONG**: {why}"),
        IncidentVerdict::NoAnswer(why) => format!("no answer: {why}"),
        IncidentVerdict::Undecided(_) => "undecided".to_owned(),
        IncidentVerdict::NotRun(why) => format!("not asked: {why}"),
    };
    let twin = match &answered.twin {
        None => "–".to_owned(),
        Some(TwinVerdict::Right(_)) => "right".to_owned(),
        Some(TwinVerdict::Wrong(word, headline)) => {
            format!("**WRONG**: the headline says `{word}`: {headline}")
        }
        Some(TwinVerdict::NotJudged(why)) => format!("not judged: {why}"),
    };
    let cells = [
        answered.service.clone(),
        answered.mode.name().to_owned(),
        answered.question.clone(),
        format!("{}: {}", answered.cause, answered.planted),
        answered.said.clone(),
        verdict,
        twin,
    ];
    format!("| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

/// The largest share of undecided answers with the plug-in, and without it, %.
const MAX_UNDECIDED: [(Mode, usize); 2] = [(Mode::PlugIn, 5), (Mode::Plain, 20)];

/// The lines below the table: the verdicts of each mode, and the twins.
pub fn sums(all: &[Answered]) -> String {
    let mut lines = Vec::new();
    for (mode, aim) in MAX_UNDECIDED {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for answered in all.iter().filter(|answered| answered.mode == mode) {
            let name = match answered.verdict {
                IncidentVerdict::Right => "right",
                IncidentVerdict::Wrong(_) if answered.is_measured => "measured",
                IncidentVerdict::Wrong(_) => "wrong",
                IncidentVerdict::NoAnswer(_) => "none",
                IncidentVerdict::Undecided(_) => "undecided",
                IncidentVerdict::NotRun(_) => "not asked",
            };
            *counts.entry(name).or_default() += 1;
        }
        let count = |name: &str| counts.get(name).copied().unwrap_or(0);
        let wrong = count("wrong") + count("measured");
        let asked = count("right") + wrong + count("none") + count("undecided");
        let share = |part: usize| (100 * part).checked_div(asked).unwrap_or(0);
        let open = count("undecided");
        lines.push(format!(
            "{}: {asked} questions: {} right ({}%), {open} undecided ({}%, aim {aim}% at most), {} stop short, {wrong} WRONG \
             (aim 0), {} of them called measured (aim 0); {} not asked.",
            mode.title(),
            count("right"),
            share(count("right")),
            share(open),
            count("none"),
            count("measured"),
            count("not asked"),
        ));
    }
    let twins = |is: fn(&TwinVerdict) -> bool| {
        all.iter().filter_map(|it| it.twin.as_ref()).filter(|it| is(it)).count()
    };
    lines.push(format!(
        "Twins: {} right, {} WRONG (aim 0), {} not judged.",
        twins(|twin| matches!(twin, TwinVerdict::Right(_))),
        twins(|twin| matches!(twin, TwinVerdict::Wrong(..))),
        twins(|twin| matches!(twin, TwinVerdict::NotJudged(_))),
    ));
    lines.join("\n\n")
}

/// True if no answer says what is not so, and no twin's headline names the cause.
pub fn is_right(all: &[Answered]) -> bool {
    !all.iter().any(|answered| {
        matches!(answered.verdict, IncidentVerdict::Wrong(_))
            || matches!(answered.twin, Some(TwinVerdict::Wrong(..)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(mode: Mode, verdict: IncidentVerdict, is_measured: bool) -> Answered {
        Answered { mode, verdict, is_measured, ..Answered::default() }
    }

    #[test]
    fn each_mode_s_verdicts_are_counted_apart() {
        let why = String::new;
        let mut all = vec![
            answered(Mode::PlugIn, IncidentVerdict::Right, true),
            answered(Mode::PlugIn, IncidentVerdict::NotRun(why()), false),
            answered(Mode::Plain, IncidentVerdict::Undecided(why()), false),
            answered(Mode::Plain, IncidentVerdict::NoAnswer(why()), false),
            answered(Mode::Plain, IncidentVerdict::Right, true),
        ];
        all[0].twin = Some(TwinVerdict::Right(why()));
        assert!(is_right(&all));
        let words = sums(&all);
        assert!(
            words.contains("With the plug-in: 1 questions: 1 right (100%), 0 undecided (0%, aim 5% at most)"),
            "{words}"
        );
        assert!(
            words.contains(
                "3 questions: 1 right (33%), 1 undecided (33%, aim 20% at most), 1 stop short, 0 WRONG"
            ),
            "{words}"
        );
        assert!(words.ends_with("Twins: 1 right, 0 WRONG (aim 0), 0 not judged."), "{words}");
        all.push(answered(Mode::Plain, IncidentVerdict::Wrong(why()), true));
        all.push(answered(Mode::Plain, IncidentVerdict::Wrong(why()), false));
        assert!(!is_right(&all));
        assert!(sums(&all).contains("2 WRONG (aim 0), 1 of them called measured"), "{}", sums(&all));
        all.truncate(5);
        all[1].twin = Some(TwinVerdict::Wrong(why(), why()));
        assert!(!is_right(&all));
    }
}
