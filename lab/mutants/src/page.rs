//! The result for a line in the list: files with its mutants, and its row in `lab/results/mutants.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::judge::MutantVerdict;
use crate::mutant::Mutant;

/// All mutants for a line in the list, by outcome.
#[derive(Debug, Default)]
pub struct Outcome<'a> {
    noticed: Vec<(&'a Mutant, String)>,
    late: Vec<(&'a Mutant, String)>,
    missed: Vec<(&'a Mutant, usize)>,
    argued: Vec<&'a Mutant>,
    not_building: Vec<&'a Mutant>,
    no_switch: Vec<&'a Mutant>,
    /// Argued mutants noticed by a test.
    stale: Vec<String>,
}

impl<'a> Outcome<'a> {
    /// Sorts mutants by their verdicts.
    pub fn new(
        mutants: &[&'a Mutant],
        verdicts: &BTreeMap<u32, MutantVerdict>,
        not_building: &BTreeSet<u32>,
        argued: &BTreeMap<String, String>,
    ) -> Self {
        let mut outcome = Self::default();
        for mutant in mutants.iter().copied() {
            let is_argued = argued.contains_key(&mutant.name);
            match verdicts.get(&mutant.number) {
                Some(MutantVerdict::Noticed(test)) => {
                    outcome.noticed.push((mutant, test.clone()));
                    outcome.stale.extend(is_argued.then(|| mutant.name.clone()));
                }
                Some(_) if is_argued => outcome.argued.push(mutant),
                Some(MutantVerdict::Late(test)) => outcome.late.push((mutant, test.clone())),
                Some(MutantVerdict::Missed(tests)) => outcome.missed.push((mutant, *tests)),
                None if not_building.contains(&mutant.number) => outcome.not_building.push(mutant),
                None => outcome.no_switch.push(mutant),
            }
        }
        outcome
    }

    fn tried(&self) -> usize {
        self.noticed.len() + self.late.len() + self.missed.len()
    }

    /// True if all tried mutants are noticed.
    pub fn is_complete(&self) -> bool {
        self.noticed.len() == self.tried()
    }

    fn share(&self) -> f64 {
        100.0 * self.noticed.len() as f64 / self.tried().max(1) as f64
    }

    /// A sentence, and the mutants that need work.
    pub fn summary(&self) -> String {
        let mut text = format!(
            "{:.1}% of {} noticed, {} missed, {} late, {} argued; {} do not build, {} have no switch\n",
            self.share(),
            self.tried(),
            self.missed.len(),
            self.late.len(),
            self.argued.len(),
            self.not_building.len(),
            self.no_switch.len()
        );
        for (mutant, tests) in &self.missed {
            let _ = writeln!(text, "  missed: {} ({tests} tests reach it)", mutant.placed_name());
        }
        for (mutant, test) in &self.late {
            let _ = writeln!(text, "  late: {} (in {test})", mutant.placed_name());
        }
        for name in &self.stale {
            let _ = writeln!(text, "  argued, but noticed: {name}");
        }
        text
    }

    /// Writes a file for each verdict, a mutant per line.
    pub fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        let write = |name: &str, lines: Vec<String>| {
            let text: String = lines.into_iter().map(|line| line + "\n").collect();
            fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))
        };
        let names = |mutants: &[&Mutant]| mutants.iter().map(|mutant| mutant.placed_name()).collect();
        let with = |mutants: &[(&Mutant, String)]| {
            mutants.iter().map(|(mutant, test)| format!("{}\t{test}", mutant.placed_name())).collect()
        };
        let missed =
            self.missed.iter().map(|(mutant, tests)| format!("{}\t{tests} tests", mutant.placed_name()));
        write("noticed.txt", with(&self.noticed))?;
        write("late.txt", with(&self.late))?;
        write("missed.txt", missed.collect())?;
        write("argued.txt", names(&self.argued))?;
        write("not-building.txt", names(&self.not_building))?;
        write("no-switch.txt", names(&self.no_switch))
    }

    /// The table row.
    pub fn row(&self, name: &str, took: Duration, commit: &str) -> String {
        format!(
            "| `{name}` | {} | {} | {} | {} | {} | {} | {} | {:.1}% | {} s | {commit} |",
            self.tried(),
            self.noticed.len(),
            self.late.len(),
            self.missed.len(),
            self.argued.len(),
            self.not_building.len(),
            self.no_switch.len(),
            self.share(),
            took.as_secs()
        )
    }
}

/// The page with a row in place of an earlier row with this name, or at its end.
pub fn with_row(page: &str, name: &str, row: &str) -> String {
    // The tables with breaks by hand have other rows.
    let begin = format!("| `{name}` | ");
    let mut lines: Vec<_> = page.lines().collect();
    match lines.iter().position(|line| line.starts_with(&begin)) {
        Some(index) => lines[index] = row,
        None => lines.push(row),
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use super::{Outcome, with_row};
    use crate::judge::MutantVerdict;
    use crate::mutant::{Genre, Mutant};

    #[test]
    fn a_mutant_is_in_one_column() {
        let mutants: Vec<_> = (1..=7)
            .map(|number| Mutant {
                number,
                name: format!("a.rs: {number}"),
                file: "a.rs".to_owned(),
                genre: Genre::FnValue,
                replacement: String::new(),
                at: (1, 1),
            })
            .collect();
        let verdicts = BTreeMap::from([
            (1, MutantVerdict::Noticed("t".to_owned())),
            (2, MutantVerdict::Late("t".to_owned())),
            (3, MutantVerdict::Missed(4)),
            (4, MutantVerdict::Missed(0)),
            (7, MutantVerdict::Noticed("t".to_owned())),
        ]);
        let argued = [("a.rs: 4", "why"), ("a.rs: 7", "why")];
        let argued = argued.map(|(name, reason)| (name.to_owned(), reason.to_owned()));
        let all: Vec<_> = mutants.iter().collect();
        let outcome = Outcome::new(&all, &verdicts, &BTreeSet::from([5]), &BTreeMap::from(argued));
        assert_eq!(
            outcome.row("a", Duration::from_millis(1999), "abc"),
            "| `a` | 4 | 2 | 1 | 1 | 1 | 1 | 1 | 50.0% | 1 s | abc |"
        );
        assert_eq!(
            outcome.summary(),
            "50.0% of 4 noticed, 1 missed, 1 late, 1 argued; 1 do not build, 1 have no switch\n  \
             missed: a.rs:1:1: 3 (4 tests reach it)\n  late: a.rs:1:1: 2 (in t)\n  argued, but noticed: a.rs: 7\n"
        );
        assert!(!outcome.is_complete());
    }

    #[test]
    fn a_row_stands_in_the_place_of_the_last_one() {
        assert_eq!(
            with_row("# x\n| `a` | 1 |\n| `b` | 2 |\n", "a", "| `a` | 3 |"),
            "# x\n| `a` | 3 |\n| `b` | 2 |\n"
        );
        assert_eq!(with_row("# x\n| `ab` | 1 |\n", "a", "| `a` | 3 |"), "# x\n| `ab` | 1 |\n| `a` | 3 |\n");
    }
}
