//! Words that make sentences hard to read, counted in each part of the tree: `of`, `that` and `one` per thousand words of
//! prose, and names that begin with `of` or `tell`. `crates/tidy/budget.txt` has each part's maximum, and these figures
//! only fall.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{Finding, language};

/// The budget file, within the tree.
pub const FILE: &str = "crates/tidy/budget.txt";

/// The file's first lines.
const HEAD: &str = "\
# The most that each part of the tree may have: `of`, `that` and `one` in a thousand words of prose (comments, pages), and
# names of functions and types that begin with `of` or `tell`. A figure may only fall: WAKEPATH_BLESS=1 cargo test -p
# wakepath-tidy lowers those that did.
";

/// A part with fewer words of prose than this has no rates: each word would move them by more than 1.
const MIN_WORDS: u64 = 1000;

/// A part's figures. Rates are per thousand words of prose, rounded up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// `of`, `that` and `one` per thousand words.
    pub rates: [u64; 3],
    /// The number of functions and types whose names begin with `of` or `tell`.
    pub names: u64,
}

/// The words with limited rates.
const WORDS: [&str; 3] = ["of", "that", "one"];

/// A part's counts.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    words: u64,
    each: [u64; 3],
    names: u64,
}

/// Each part's counts. A part is a crate, a folder in the laboratory or at the root, or the root's pages.
#[derive(Debug, Default)]
pub struct Tally {
    parts: BTreeMap<String, Counts>,
}

impl Tally {
    /// Adds a file, given by its path within the tree.
    pub fn add(&mut self, path: &Path, text: &str) {
        let Some(part) = part(path) else { return };
        let counts = self.parts.entry(part).or_default();
        for (_, sentence) in language::prose(path, text) {
            for word in sentence.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
                counts.words += 1;
                for (count, counted) in counts.each.iter_mut().zip(WORDS) {
                    *count += u64::from(word.eq_ignore_ascii_case(counted));
                }
            }
        }
        if path.extension().is_some_and(|extension| extension == "rs") {
            counts.names += text.lines().filter(|line| has_such_a_name(line)).count() as u64;
        }
    }

    /// All parts' figures.
    pub fn figures(&self) -> BTreeMap<String, Figures> {
        let of_part = |counts: &Counts| {
            let has_rates = counts.words >= MIN_WORDS;
            let rate = |count: u64| if has_rates { (count * 1000).div_ceil(counts.words) } else { 0 };
            Figures { rates: counts.each.map(rate), names: counts.names }
        };
        self.parts.iter().map(|(part, counts)| (part.clone(), of_part(counts))).collect()
    }
}

/// A file's part in the tree; `None` for a file without a budget.
fn part(path: &Path) -> Option<String> {
    let names: Vec<&str> = path.iter().filter_map(|name| name.to_str()).collect();
    match names[..] {
        // Programs write the result pages.
        ["lab", "results", ..] => None,
        ["crates", name, _, ..] | ["lab", name, _, ..] => Some(name.to_owned()),
        ["docs" | "bpf" | "packaging" | "vm" | "plugins" | "fuzz" | "bench" | "workloads", ..] => {
            Some(names[0].to_owned())
        }
        [page] if page.ends_with(".md") => Some(String::from("pages")),
        _ => None,
    }
}

/// Whether a line of code defines a function or a type whose name has no subject.
fn has_such_a_name(line: &str) -> bool {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        match word {
            "fn" => {
                return words.next().is_some_and(|name| name.starts_with("of_") || name.starts_with("tell_"));
            }
            "struct" | "enum" | "trait" | "type" => {
                let rest = |name: &str| name.strip_prefix("Of").and_then(|rest| rest.chars().next());
                return words.next().and_then(rest).is_some_and(char::is_uppercase);
            }
            "pub" | "crate" | "super" | "in" | "const" | "async" | "unsafe" | "extern" => {}
            _ => return false,
        }
    }
    false
}

/// Parses budgets: a part, its three rates and its number of names per line.
pub fn budgets(text: &str) -> Result<BTreeMap<String, Figures>, Finding> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|(number, line)| {
            let wrong = || Finding::new(format!("{FILE}:{}", number + 1), "write `PART OF THAT ONE NAMES`");
            let mut words = line.split_whitespace();
            let part = words.next().ok_or_else(wrong)?;
            let figures: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
            let [of, that, one, names] = figures[..] else { return Err(wrong()) };
            Ok((part.to_owned(), Figures { rates: [of, that, one], names }))
        })
        .collect()
}

/// The budgets as text.
pub fn text(budgets: &BTreeMap<String, Figures>) -> String {
    let mut text = String::from(HEAD);
    for (part, Figures { rates: [of, that, one], names }) in budgets {
        text += &format!("{part:<16} {of:>3} {that:>3} {one:>3} {names:>3}\n");
    }
    text
}

/// The budgets lowered by new figures: figures that fell are lower, a new part gets its own, a removed part has none.
pub fn lowered(
    budgets: &BTreeMap<String, Figures>,
    found: &BTreeMap<String, Figures>,
) -> BTreeMap<String, Figures> {
    let lower = |(part, figures): (&String, &Figures)| {
        let old = budgets.get(part).unwrap_or(figures);
        let rates = std::array::from_fn(|index| old.rates[index].min(figures.rates[index]));
        (part.clone(), Figures { rates, names: old.names.min(figures.names) })
    };
    found.iter().map(lower).collect()
}

/// Compares figures with their budgets: a figure above its budget is a finding, and so is a budget above its figure.
pub fn check(budgets: &BTreeMap<String, Figures>, found: &BTreeMap<String, Figures>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (part, figures) in found {
        let mut say = |text: String| findings.push(Finding::new(part.clone(), text));
        let Some(budget) = budgets.get(part) else {
            say(format!("has no budget: WAKEPATH_BLESS=1 cargo test -p wakepath-tidy writes it into {FILE}"));
            continue;
        };
        for ((word, most), rate) in WORDS.iter().zip(budget.rates).zip(figures.rates) {
            if rate > most {
                say(format!(
                    "`{word}` stands {rate} times in a thousand words, at most {most} ({FILE}): say the noun"
                ));
            }
        }
        if figures.names > budget.names {
            say(format!(
                "{} names begin with `of` or `tell`, at most {} ({FILE}): name the thing",
                figures.names, budget.names
            ));
        }
    }
    let lowered = lowered(budgets, found);
    if findings.is_empty() && lowered != *budgets {
        findings.push(Finding::new(FILE, "figures fell: WAKEPATH_BLESS=1 cargo test -p wakepath-tidy"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(files: &[(&str, &str)]) -> BTreeMap<String, Figures> {
        let mut tally = Tally::default();
        files.iter().for_each(|(path, text)| tally.add(Path::new(path), text));
        tally.figures()
    }

    /// A comment with 1001 words, this number of each among them.
    fn prose(of: usize, that: usize, one: usize) -> String {
        let words = [("of ", of), ("That ", that), ("ONE ", one), ("off ", 1001 - of - that - one)];
        format!("// {}\n", words.map(|(word, count)| word.repeat(count)).concat())
    }

    #[test]
    fn words_are_counted_in_prose_alone_and_names_in_code_alone() {
        let code = "fn of_x() {}\npub(crate) const fn tell_y() {}\npub struct OfZ;\nlet of = one; // of\n\
            struct Office;\nfn offer() {}\nfn x(of_y: u8) {}\nenum Of { A }\n";
        let found = tally(&[("crates/a/src/x.rs", &(prose(7, 5, 3) + code)), ("docs/a.md", "One of them.")]);
        // Rates are rounded up.
        assert_eq!(found["a"], Figures { rates: [7, 5, 3], names: 3 });
        assert_eq!(found["docs"], Figures::default(), "a few words have no rates");
        assert_eq!(tally(&[("Cargo.toml", "of"), ("recordings/a", "of")]), BTreeMap::new());
        assert_eq!(tally(&[("README.md", ""), ("lab/truth/src/a.rs", "")]).len(), 2);
    }

    #[test]
    fn a_figure_may_only_fall() {
        let figures = |of, that, one, names| Figures { rates: [of, that, one], names };
        let parts = |figures| BTreeMap::from([(String::from("a"), figures)]);
        let budget = parts(figures(8, 5, 3, 1));
        let lines = |found| -> Vec<String> {
            check(&budget, &parts(found)).iter().map(ToString::to_string).collect()
        };
        assert_eq!(lines(figures(8, 5, 3, 1)), [""; 0]);
        for (found, word) in
            [(figures(9, 5, 3, 1), "`of`"), (figures(8, 6, 3, 1), "`that`"), (figures(8, 5, 4, 1), "`one`")]
        {
            assert!(lines(found).len() == 1 && lines(found)[0].contains(word), "{word}: {:?}", lines(found));
        }
        assert!(lines(figures(8, 5, 3, 2))[0].starts_with("a: 2 names begin with `of`"));
        // A lower figure is written down, and does not make room for another.
        let fell = figures(7, 5, 3, 0);
        assert_eq!(
            lines(fell),
            [format!("{FILE}: figures fell: WAKEPATH_BLESS=1 cargo test -p wakepath-tidy")]
        );
        assert_eq!(lowered(&budget, &parts(figures(7, 9, 3, 0))), parts(figures(7, 5, 3, 0)));
        assert!(check(&BTreeMap::new(), &budget)[0].text.starts_with("has no budget"));
        assert_eq!(check(&budget, &BTreeMap::new()).len(), 1, "a part that is gone");
    }

    #[test]
    fn budgets_come_back_as_they_were_written() {
        let budget = BTreeMap::from([(String::from("a"), Figures { rates: [1, 2, 3], names: 4 })]);
        assert_eq!(budgets(&text(&budget)), Ok(budget));
        for bad in ["a 1 2 3", "a 1 2 3 4 5", "a 1 2 x 4"] {
            assert_eq!(budgets(bad).expect_err("an error").place, format!("{FILE}:1"), "{bad}");
        }
    }
}
