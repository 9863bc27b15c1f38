//! Compares the layer table in ARCHITECTURE.md with the existing crates.
//!
//! The table is a newcomer's map: a row for each crate, in the direction of data, with the crates it may use. A row
//! may only name rows above it, so the table cannot contain a cycle.

use std::collections::{BTreeMap, BTreeSet};

use crate::Finding;
use crate::packages::Metadata;

const MAP: &str = "ARCHITECTURE.md";
const PREFIX: &str = "wakepath-";

/// A table row.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// The crate, by its folder name.
    pub name: String,
    /// The crates that it may use, by folder name.
    pub may_use: BTreeSet<String>,
    /// The row's line, counted from 1.
    pub line: usize,
}

/// The purpose of a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// To build or to run: only crates in the row.
    Product,
    /// For tests alone: any crate without a dependency on this crate.
    Tests,
}

/// A dependency between two workspace crates, by folder name.
#[derive(Debug)]
pub struct Edge {
    /// The dependent crate.
    pub from: String,
    /// The used crate.
    pub to: String,
    /// The purpose.
    pub why: Use,
}

/// The rows of all tables whose header begins with `| crate |`, as if they were one table.
///
/// The last column is `nothing` or crate names with blanks between.
pub fn rows(map: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    // Lines of this table seen so far; the first is its header, the second the line under it.
    let mut seen = 0;
    for (index, line) in map.lines().enumerate() {
        let in_table = if seen == 0 { line.starts_with("| crate |") } else { line.starts_with('|') };
        seen = if in_table { seen + 1 } else { 0 };
        if seen > 2 {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let may_use = cells.last().into_iter().flat_map(|cell| cell.split_whitespace());
            rows.push(Row {
                name: cells.first().unwrap_or(&"").trim_matches('`').to_owned(),
                may_use: may_use.map(str::to_owned).filter(|name| name != "nothing").collect(),
                line: index + 1,
            });
        }
    }
    rows
}

/// The workspace's crates by folder name, and the dependencies between them.
///
/// Findings are packages with another name than their folder.
pub fn crates_and_edges(metadata: &Metadata) -> (BTreeSet<String>, Vec<Edge>, Vec<Finding>) {
    let mut crates = BTreeSet::new();
    let mut edges = Vec::new();
    let mut findings = Vec::new();
    for package in metadata.ours() {
        let folder = package.manifest_path.parent().and_then(|path| path.file_name());
        let folder = folder.unwrap_or_default().to_string_lossy().into_owned();
        if package.name != format!("{PREFIX}{folder}") {
            let text = format!("stands in a folder named `{folder}`; name it `{PREFIX}{folder}`");
            findings.push(Finding::new(format!("package {}", package.name), text));
        }
        for dependency in &package.dependencies {
            let Some(to) = dependency.name.strip_prefix(PREFIX) else { continue };
            let why = if package.is_for_tests(dependency) { Use::Tests } else { Use::Product };
            edges.push(Edge { from: folder.clone(), to: to.to_owned(), why });
        }
        crates.insert(folder);
    }
    (crates, edges, findings)
}

/// The workspace's crates in this folder, by their own folder's name.
pub fn crates_in(metadata: &Metadata, folder: &str) -> BTreeSet<String> {
    let folders = metadata.ours().filter_map(|package| package.manifest_path.parent());
    let inside = folders.filter(|path| path.parent().is_some_and(|parent| parent.ends_with(folder)));
    inside.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
}

/// Finds dependencies on the laboratory in crates outside it, also in tests: a product that needs its judge cannot be
/// judged by it.
pub fn check_laboratory(laboratory: &BTreeSet<String>, edges: &[Edge]) -> Vec<Finding> {
    let from_outside =
        edges.iter().filter(|edge| laboratory.contains(&edge.to) && !laboratory.contains(&edge.from));
    let text = |to: &str| format!("uses `{to}` of the laboratory: move what needs it into `lab/`");
    from_outside.map(|edge| Finding::new(format!("crate {}", edge.from), text(&edge.to))).collect()
}

/// Compares the table with the crates.
pub fn check(rows: &[Row], crates: &BTreeSet<String>, edges: &[Edge]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if rows.is_empty() {
        findings.push(Finding::new(MAP, "has no table that begins `| crate |`"));
    }
    let mut above: BTreeMap<&str, &Row> = BTreeMap::new();
    for row in rows {
        let place = format!("{MAP}:{}", row.line);
        if !crates.contains(&row.name) {
            findings.push(Finding::new(&place, format!("there is no crate `{}`", row.name)));
        }
        for used in row.may_use.iter().filter(|used| !above.contains_key(used.as_str())) {
            let text = format!("`{}` may use `{used}`, which is no row above it", row.name);
            findings.push(Finding::new(&place, text));
        }
        if above.insert(&row.name, row).is_some() {
            findings.push(Finding::new(&place, format!("a second row for `{}`", row.name)));
        }
    }
    for name in crates.iter().filter(|name| !above.contains_key(name.as_str())) {
        findings.push(Finding::new(MAP, format!("has no row for the crate `{name}`")));
    }
    for edge in edges {
        let Some(row) = above.get(edge.from.as_str()) else { continue };
        let (from, to) = (&edge.from, &edge.to);
        let text = match edge.why {
            Use::Product if !row.may_use.contains(to) => {
                format!("uses `{to}`, which its row in {MAP} does not name")
            }
            Use::Tests if stands_on(&above, to, from) => {
                format!("uses `{to}` in its tests, which is built on `{from}` itself: move the test there")
            }
            Use::Product | Use::Tests => continue,
        };
        findings.push(Finding::new(format!("crate {from}"), text));
    }
    findings
}

/// Whether `upper` is `lower`, or may use it, directly or through others.
fn stands_on(rows: &BTreeMap<&str, &Row>, upper: &str, lower: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![upper];
    while let Some(name) = open.pop() {
        if name == lower {
            return true;
        }
        if let (true, Some(row)) = (seen.insert(name), rows.get(name)) {
            open.extend(row.may_use.iter().map(String::as_str));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "text\n\
        | crate | what lives there | may use |\n\
        |---|---|---|\n\
        | `clock` | stamps | nothing |\n\
        | `event` | events | clock |\n\
        | `graph` | waits | clock event |\n\
        \n\
        | another | table |\n\
        \n\
        | crate | for developers | may use |\n\
        |---|---|---|\n\
        | `tidy` | checks | nothing |\n";

    fn findings(table: &str, crates: &str, edges: &[(&str, &str, Use)]) -> Vec<String> {
        let crates = crates.split_whitespace().map(str::to_owned).collect();
        let edges: Vec<_> = edges
            .iter()
            .map(|&(from, to, why)| Edge { from: from.to_owned(), to: to.to_owned(), why })
            .collect();
        check(&rows(table), &crates, &edges).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn edges_that_the_table_names_pass() {
        let edges = [("event", "clock", Use::Product), ("graph", "event", Use::Product)];
        assert_eq!(findings(TABLE, "clock event graph tidy", &edges), Vec::<String>::new());
    }

    #[test]
    fn an_edge_against_the_flow_of_data_fails() {
        assert_eq!(
            findings(TABLE, "clock event graph tidy", &[("clock", "event", Use::Product)]),
            ["crate clock: uses `event`, which its row in ARCHITECTURE.md does not name"]
        );
    }

    #[test]
    fn tests_may_use_more_but_not_what_is_built_on_their_crate() {
        let table = TABLE.replace("| clock event |", "| event |");
        assert_eq!(
            findings(&table, "clock event graph tidy", &[("graph", "clock", Use::Tests)]),
            Vec::<String>::new()
        );
        assert_eq!(
            findings(&table, "clock event graph tidy", &[("clock", "graph", Use::Tests)]),
            ["crate clock: uses `graph` in its tests, which is built on `clock` itself: move the test there"]
        );
    }

    #[test]
    fn no_crate_uses_the_laboratory_but_its_own() {
        let laboratory = BTreeSet::from(["truth".to_owned(), "runner".to_owned()]);
        let edge = |from: &str, to: &str, why| Edge { from: from.to_owned(), to: to.to_owned(), why };
        let inside = [edge("truth", "runner", Use::Product), edge("truth", "harness", Use::Tests)];
        assert_eq!(check_laboratory(&laboratory, &inside), []);
        for why in [Use::Product, Use::Tests] {
            let findings = check_laboratory(&laboratory, &[edge("cli", "truth", why)]);
            let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
            assert_eq!(
                lines,
                ["crate cli: uses `truth` of the laboratory: move what needs it into `lab/`"],
                "{why:?}"
            );
        }
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_fail() {
        assert_eq!(
            findings(TABLE, "clock event sync tidy", &[]),
            [
                "ARCHITECTURE.md:6: there is no crate `graph`",
                "ARCHITECTURE.md: has no row for the crate `sync`"
            ]
        );
    }

    #[test]
    fn a_row_that_names_a_row_below_it_fails() {
        let table = TABLE.replace("| stamps | nothing |", "| stamps | graph |");
        assert_eq!(
            findings(&table, "clock event graph tidy", &[]),
            ["ARCHITECTURE.md:4: `clock` may use `graph`, which is no row above it"]
        );
    }

    #[test]
    fn a_map_without_a_table_fails() {
        assert_eq!(findings("", "", &[]), ["ARCHITECTURE.md: has no table that begins `| crate |`"]);
    }
}
