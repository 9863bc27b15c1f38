//! Mutants from `cargo mutants --list --json`, each with a number and a name that does not depend on the lines above it.

use std::collections::HashMap;

use anyhow::{Context, Result};
use serde::Deserialize;

/// The kind of a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub enum Genre {
    /// A function returns at once, with a value of its type.
    FnValue,
    BinaryOperator,
    /// An operator is deleted.
    UnaryOperator,
    /// An arm is deleted.
    MatchArm,
    /// A guard is always true, or always false.
    MatchArmGuard,
    /// A field is deleted from a struct with a base.
    StructField,
    #[serde(other)]
    Other,
}

/// A line and a column, both from 1; columns count characters.
pub type Position = (usize, usize);

/// A break in the code.
#[derive(Debug, Clone)]
pub struct Mutant {
    /// From 1, and different for all mutants in a run: the value of the tests' environment variable.
    pub number: u32,
    /// `FILE: CHANGE`, with ` [2]` behind it for the second equal change in a file, and so on.
    pub name: String,
    pub file: String,
    pub genre: Genre,
    /// The code in place of the mutated code.
    pub replacement: String,
    pub at: Position,
}

impl Mutant {
    /// `FILE:LINE:COLUMN: CHANGE`.
    pub fn placed_name(&self) -> String {
        let change = self.name.strip_prefix(&self.file).unwrap_or(&self.name);
        format!("{}:{}:{}{change}", self.file, self.at.0, self.at.1)
    }
}

#[derive(Deserialize)]
struct Listed {
    file: String,
    genre: Genre,
    name: String,
    replacement: String,
    span: Span,
}

#[derive(Deserialize)]
struct Span {
    start: Start,
}

#[derive(Deserialize)]
struct Start {
    line: usize,
    column: usize,
}

/// Reads a list; numbers count from 1 within it.
pub fn parse(json: &str) -> Result<Vec<Mutant>> {
    let mut listed: Vec<Listed> = serde_json::from_str(json).context("the list of mutants")?;
    listed.sort_by(|a, b| {
        (&a.file, a.span.start.line, a.span.start.column).cmp(&(
            &b.file,
            b.span.start.line,
            b.span.start.column,
        ))
    });
    let mut seen: HashMap<String, u32> = HashMap::new();
    Ok((1..)
        .zip(listed)
        .map(|(number, Listed { file, genre, name, replacement, span: Span { start } })| {
            let name = unplaced(&name);
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            let name = if *count == 1 { name } else { format!("{name} [{count}]") };
            Mutant { number, name, file, genre, replacement, at: (start.line, start.column) }
        })
        .collect())
}

/// A mutant's name without its line and column.
pub fn unplaced(name: &str) -> String {
    let mut parts = name.splitn(4, ':');
    let (Some(file), Some(line), Some(column), Some(change)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return name.to_owned();
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number(line) && is_number(column) { format!("{file}:{change}") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{Genre, parse, unplaced};

    const LIST: &str = r#"[
        {"file": "a.rs", "genre": "BinaryOperator", "name": "a.rs:9:4: replace < with <= in f",
         "replacement": "<=", "span": {"start": {"line": 9, "column": 4}, "end": {"line": 9, "column": 5}}},
        {"file": "a.rs", "genre": "BinaryOperator", "name": "a.rs:2:4: replace < with <= in f",
         "replacement": "<=", "span": {"start": {"line": 2, "column": 4}, "end": {"line": 2, "column": 5}}},
        {"file": "a.rs", "genre": "New", "name": "a.rs:3:1: something new in f",
         "replacement": "", "span": {"start": {"line": 3, "column": 1}, "end": {"line": 3, "column": 2}}}]"#;

    #[test]
    fn equal_changes_of_a_file_have_names_of_their_own() {
        let mutants = parse(LIST).unwrap();
        let names: Vec<_> = mutants.iter().map(|mutant| (mutant.number, mutant.name.as_str())).collect();
        assert_eq!(
            names,
            [
                (1, "a.rs: replace < with <= in f"),
                (2, "a.rs: something new in f"),
                (3, "a.rs: replace < with <= in f [2]")
            ]
        );
        assert_eq!(mutants[2].placed_name(), "a.rs:9:4: replace < with <= in f [2]");
        assert_eq!(unplaced(&mutants[2].placed_name()), mutants[2].name);
    }

    #[test]
    fn a_genre_of_a_later_version_is_read_too() {
        assert_eq!(parse(LIST).unwrap()[1].genre, Genre::Other);
    }

    #[test]
    fn a_name_without_a_place_stays() {
        assert_eq!(unplaced("a.rs: replace f -> T with a::b()"), "a.rs: replace f -> T with a::b()");
    }
}
