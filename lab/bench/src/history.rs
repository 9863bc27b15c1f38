//! Our own cost over commits: a file in the tree, to which each whole bench adds a line.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::load::Name;
use crate::machine;
use crate::programs::{self, Program};

/// The file's columns, separated by tabs; a dash is an unknown figure. Costs are ns added to a round trip, programs
/// ns per run.
const COLUMNS: [&str; 13] = [
    "commit",
    "date",
    "kernel",
    "method",
    "ping-pong: floor",
    "path only",
    "default",
    "TCP: floor",
    "path only",
    "default",
    "empty sched_switch",
    "sched_switch",
    "sched_waking",
];
const UNKNOWN: &str = "–";
/// Today's method; `lab/bench/head.md` describes the other methods.
const METHOD: &str = "rounds";

/// A commit on a machine.
#[derive(Debug, PartialEq, Eq)]
pub struct Line(Vec<String>);

impl Line {
    /// Today's line. `own` returns the ns that a recorder adds to a round trip, if known.
    pub fn now(commit: &str, own: impl Fn(Name, &str) -> Option<f64>, programs: &[Program]) -> Self {
        let date = Command::new("date").args(["-u", "+%F"]).output();
        let date = date.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        let mut cells =
            vec![commit.to_owned(), date.unwrap_or_default(), machine::kernel(), METHOD.to_owned()];
        let figure =
            |value: Option<f64>| value.map_or_else(|| UNKNOWN.to_owned(), |value| format!("{value:.0}"));
        for load in [Name::Schedfreq, Name::Tcpping] {
            for recorder in ["empty BPF programs (the floor)", "wakepath, path events alone", "wakepath"] {
                cells.push(figure(own(load, recorder)));
            }
        }
        let of = |name, ours| figure(programs::ns_of(programs, Name::Schedfreq, name, ours));
        cells.extend([of("sched_switch", false), of("sched_switch", true), of("sched_waking", true)]);
        Self(cells)
    }

    fn parse(text: &str) -> Result<Self> {
        let cells: Vec<_> = text.split('\t').map(str::to_owned).collect();
        ensure!(cells.len() == COLUMNS.len(), "{} columns instead of {}: {text}", cells.len(), COLUMNS.len());
        Ok(Self(cells))
    }

    /// A known figure.
    fn figure(&self, index: usize) -> Option<f64> {
        self.0[index].parse().ok()
    }
}

/// Puts the line into the file, in place of an earlier line with the same commit, machine and method, and returns the
/// table of all lines.
pub fn append(file: &Path, line: &Line) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut lines = read(&text).with_context(|| file.display().to_string())?;
    let key = |line: &Line| [0, 2, 3].map(|index| line.0[index].clone());
    lines.retain(|other| key(other) != key(line));
    let mut text = COLUMNS.join("\t") + "\n";
    lines.push(Line(line.0.clone()));
    for line in &lines {
        text.push_str(&(line.0.join("\t") + "\n"));
    }
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(table(&lines))
}

fn read(text: &str) -> Result<Vec<Line>> {
    let mut lines = text.lines();
    ensure!(lines.next() == Some(COLUMNS.join("\t").as_str()), "the first line is not the columns of today");
    lines.map(Line::parse).collect()
}

fn table(lines: &[Line]) -> String {
    let mut text = "### Our own cost over commits\n\nns that are added to a round trip, and as multiples of the floor; \
                    the last three columns: ns a run by the kernel's statistics, under the ping-pong. Two lines can be \
                    compared where kernel and method are the same.\n\n"
        .to_owned();
    let _ = writeln!(text, "| {} |\n|{}", COLUMNS.join(" | "), "---|".repeat(4) + &"---:|".repeat(9));
    for line in lines {
        let cells = line.0.iter().enumerate().map(|(index, cell)| {
            let floor = match index {
                5 | 6 => 4,
                8 | 9 => 7,
                _ => return cell.clone(),
            };
            match line.figure(index).zip(line.figure(floor)) {
                Some((ours, floor)) => format!("{cell} ({:.2}×)", ours / floor),
                None => cell.clone(),
            }
        });
        let _ = writeln!(text, "| {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Line, append, read, table};

    const OLD: &str = "c0ffee1\t2026-11-22\t6.18\tpairs\t282\t610\t735\t964\t1896\t2078\t–\t–\t–";

    fn file() -> String {
        COLUMNS.join("\t") + "\n" + OLD + "\n"
    }

    #[test]
    fn the_file_of_the_tree_can_be_read() {
        let lines = read(include_str!("../cost-history.tsv")).unwrap();
        assert!(!lines.is_empty());
    }

    #[test]
    fn each_cost_is_shown_beside_its_floor() {
        let table = table(&read(&file()).unwrap());
        let row = "| c0ffee1 | 2026-11-22 | 6.18 | pairs | 282 | 610 (2.16×) | 735 (2.61×) | 964 | 1896 (1.97×) \
                   | 2078 (2.16×) | – | – | – |";
        assert!(table.contains(row), "{table}");
    }

    #[test]
    fn a_commit_that_is_measured_again_has_one_line() {
        let folder = std::env::temp_dir().join(format!("wakepath-history-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("history.tsv");
        std::fs::write(&path, file()).unwrap();
        append(&path, &Line::parse(&OLD.replace("610", "600")).unwrap()).unwrap();
        append(&path, &Line::parse(&OLD.replace("pairs", "rounds")).unwrap()).unwrap();
        append(&path, &Line::parse(&OLD.replace("c0ffee1", "c0ffee2")).unwrap()).unwrap();
        let lines = read(&std::fs::read_to_string(&path).unwrap()).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let costs: Vec<_> = lines.iter().map(|line| (line.0[0].as_str(), line.0[5].as_str())).collect();
        assert_eq!(costs, [("c0ffee1", "600"), ("c0ffee1", "610"), ("c0ffee2", "610")]);
    }

    #[test]
    fn a_line_with_a_missing_column_is_an_error() {
        let text = COLUMNS.join("\t") + "\n" + &OLD[..OLD.len() - 4] + "\n";
        assert!(read(&text).is_err());
        assert!(read(OLD).is_err());
    }

    #[test]
    fn a_figure_that_is_too_noisy_has_a_dash_and_no_ratio() {
        let line = Line::now("c0ffee3", |_, name| (name == "wakepath").then_some(633.4), &[]);
        assert_eq!(line.0[4..10], ["–", "–", "633", "–", "–", "633"]);
        assert!(table(&[line]).contains("| – | – | 633 | – | – | 633 |"));
    }
}
