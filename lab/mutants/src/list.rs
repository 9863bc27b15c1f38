//! The code that decides, as pinned in `packaging/mutants.list`, and the argued mutants in `packaging/mutants.equivalent`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// A line in the list: code in a crate, and the tests that judge its mutants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub name: String,
    /// The crate, without `wakepath-`.
    pub crate_name: String,
    /// Patterns for files that are broken, or with `!` are not; none for the whole crate.
    pub files: Vec<String>,
    /// The crates whose tests judge, without `wakepath-`.
    pub judges: Vec<String>,
    /// The longest CPU time for a test with a mutant.
    pub limit: Duration,
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Reads the list.
pub fn subjects(text: &str) -> Result<Vec<Subject>> {
    lines(text)
        .map(|line| {
            let [name, crate_name, files, judges, limit] = line.split_whitespace().collect::<Vec<_>>()[..]
            else {
                bail!("`{line}` needs five words: name, crate, files, judges, limit");
            };
            let limit = limit.parse().with_context(|| format!("`{limit}` is no number of seconds"))?;
            let words = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
            Ok(Subject {
                name: name.to_owned(),
                crate_name: crate_name.to_owned(),
                files: if files == "-" { Vec::new() } else { words(files) },
                judges: words(judges),
                limit: Duration::from_secs(limit),
            })
        })
        .collect()
}

/// Reads the argued mutants: each mutant's reason, by its name.
pub fn argued(text: &str) -> Result<BTreeMap<String, String>> {
    lines(text)
        .map(|line| {
            let (name, reason) = line
                .split_once("  # ")
                .with_context(|| format!("`{line}` has no reason: two blanks, #, the reason"))?;
            Ok((name.to_owned(), reason.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{argued, subjects};

    #[test]
    fn a_line_names_code_and_the_tests_that_judge_it() {
        let found = subjects("# code\n\na  clock  -  clock,sync  10\nb import x.rs,y/* import 5\n").unwrap();
        assert_eq!(found[0].judges, ["clock", "sync"]);
        assert!(found[0].files.is_empty());
        assert_eq!(found[1].files, ["x.rs", "y/*"]);
        assert_eq!(found[1].limit.as_secs(), 5);
    }

    #[test]
    fn a_line_with_a_word_too_few_and_a_mutant_without_a_reason_are_refused() {
        assert!(subjects("a clock - clock\n").is_err());
        assert!(argued("x.rs: replace f with ()\n").is_err());
        assert_eq!(argued("x.rs: replace f with ()  # why\n").unwrap()["x.rs: replace f with ()"], "why");
    }

    #[test]
    fn the_lists_of_the_tree_can_be_read() {
        let list = include_str!("../../../packaging/mutants.list");
        let list = subjects(list).unwrap();
        assert!(list.iter().any(|subject| subject.name == "timeline"));
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
        for subject in &list {
            for name in subject.judges.iter().chain([&subject.crate_name]) {
                assert!(folder.join(name).is_dir(), "{name}");
            }
        }
        assert!(!argued(include_str!("../../../packaging/mutants.equivalent")).unwrap().is_empty());
    }
}
