//! Compares documents with the things in them: links, paths in the tree, crates, Makefile commands, and the
//! recording format's number.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::{Finding, line_of};

/// Folders whose files a document may name as plain code, like `crates/clock/src/lib.rs`.
const OURS: [&str; 10] =
    ["bpf/", "cases/", "crates/", "docs/", "fuzz/", "lab/", "packaging/", "plugins/", "recordings/", "vm/"];

/// A document's links, code and headings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Link targets, with their lines.
    pub links: Vec<(usize, String)>,
    /// Pieces of code: code spans, and lines in code blocks.
    pub code: Vec<(usize, String)>,
    /// The headings' anchors, derived from their text.
    pub anchors: BTreeSet<String>,
}

impl Document {
    /// Parses CommonMark with tables.
    pub fn parse(text: &str) -> Self {
        let mut document = Self::default();
        let mut heading: Option<String> = None;
        let mut in_block = false;
        for (event, span) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let line = line_of(text, span.start);
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push((line, dest_url.into_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => document.anchor(&heading.take().unwrap_or_default()),
                Event::Start(Tag::CodeBlock(_)) => in_block = true,
                Event::End(TagEnd::CodeBlock) => in_block = false,
                Event::Code(code) => {
                    heading.iter_mut().for_each(|heading| heading.push_str(&code));
                    document.code.push((line, code.into_string()));
                }
                Event::Text(block) if in_block => {
                    let lines = block.lines().enumerate();
                    document.code.extend(lines.map(|(index, code)| (line + index, code.to_owned())));
                }
                Event::Text(part) => heading.iter_mut().for_each(|heading| heading.push_str(&part)),
                _ => {}
            }
        }
        document
    }

    fn anchor(&mut self, heading: &str) {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let slug: String = kept.flat_map(char::to_lowercase).collect::<String>().replace(' ', "-");
        let again = (1..).map(|count| format!("{slug}-{count}")).find(|it| !self.anchors.contains(it));
        let taken = self.anchors.contains(&slug);
        self.anchors.extend(if taken { again } else { Some(slug) });
    }
}

/// The Makefile's commands: its phony targets, and findings for phony targets without a description (after `##`) or
/// without a rule.
pub fn make_targets(makefile: &str) -> (BTreeSet<String>, Vec<Finding>) {
    let phony = makefile.lines().filter_map(|line| line.strip_prefix(".PHONY:"));
    let targets: BTreeSet<_> = phony.flat_map(str::split_whitespace).map(str::to_owned).collect();
    let unsaid = targets.iter().filter(|target| {
        let rule = format!("{target}:");
        !makefile.lines().any(|line| line.starts_with(&rule) && line.contains("## "))
    });
    let findings =
        unsaid.map(|target| Finding::new("Makefile", format!("`{target}` has no rule that says `## …`")));
    (targets.clone(), findings.collect())
}

/// The targets that a shell line passes to make, if it runs make here (and not with `-C`).
pub fn made(line: &str) -> Vec<&str> {
    let line = line.trim_start().trim_start_matches("$ ");
    let commands = line.split(['#']).next().unwrap_or_default().split("&&").flat_map(|it| it.split(';'));
    let targets = commands.flat_map(|command| {
        let prefix = |word: &&str| *word == "sudo" || word.contains('=');
        let mut words = command.split_whitespace().skip_while(prefix);
        let runs_make = words.next() == Some("make");
        let is_name = |word: &&str| {
            word.starts_with(|c: char| c.is_ascii_lowercase())
                && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        words.filter(|word| !word.contains('=')).take_while(is_name).take(if runs_make { 9 } else { 0 })
    });
    targets.collect()
}

/// Whether a piece of code is meant as the path of a file in the tree: no placeholder, no build result.
fn is_path(code: &str) -> bool {
    OURS.iter().any(|folder| code.starts_with(folder) && code.len() > folder.len())
        && code.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
        && !code.split('/').any(|part| part == "bin" || part == "NAME")
}

/// Whether a piece of code is a source file's name: in documents, such files have their whole path.
fn is_source(code: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    code.ends_with(".rs") && !code.starts_with(['.', '/']) && code.chars().all(is_name)
}

/// The words in a piece of code that name a package of the workspace.
fn packages_in(code: &str) -> impl Iterator<Item = &str> {
    let words = code.split(|c: char| !c.is_ascii_alphanumeric() && !"-_./".contains(c));
    words.filter(|word| {
        let name = word.strip_prefix("wakepath-").unwrap_or_default();
        !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-')
    })
}

/// The longest thread name that the kernel keeps, bytes: output in a document may show a program name cut to this
/// length.
const MAX_COMM_BYTES: usize = 15;

/// The package names in manifests.
pub fn package_names<'a>(manifests: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let lines = manifests.flat_map(|manifest| manifest.lines().take_while(|line| !line.starts_with("[dep")));
    let name = |line: &str| Some(line.strip_prefix("name = \"")?.strip_suffix('"')?.to_owned());
    lines.filter_map(name).collect()
}

/// Checks that a page has the same recording format number as `FORMAT` in `source`.
pub fn check_format(page: &str, source: &str) -> Vec<Finding> {
    let number = |text: &str| -> String { text.chars().take_while(char::is_ascii_digit).collect() };
    let place = |line: usize| format!("docs/recording-format.md:{line}");
    let Some((_, current)) = source.split_once("const FORMAT: i64 = ") else {
        return vec![Finding::new(place(1), "the constant `FORMAT` is not where it was")];
    };
    let current = number(current);
    let mut findings = Vec::new();
    for (index, line) in page.lines().enumerate() {
        for begin in ["format **", "the number of the format: "] {
            let named = line.split_once(begin).map(|(_, rest)| number(rest));
            if let Some(named) = named.filter(|named| *named != current) {
                findings.push(Finding::new(
                    place(index + 1),
                    format!("says format {named}, written is {current}"),
                ));
            }
        }
    }
    if !page.lines().any(|line| line.starts_with(&format!("| {current} |"))) {
        findings.push(Finding::new(place(1), format!("has no row about the changes in format {current}")));
    }
    findings
}

/// A link's path within the tree; `None` if it leads outside.
fn within(folder: &Path, link: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for part in folder.join(link).components() {
        match part {
            Component::ParentDir => path.pop().then_some(())?,
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// Checks all documents, given by their paths within the tree.
///
/// `exists` answers for the tree's files and folders.
pub fn check(
    documents: &BTreeMap<PathBuf, Document>,
    targets: &BTreeSet<String>,
    packages: &BTreeSet<String>,
    exists: impl Fn(&Path) -> bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, document) in documents {
        let mut say = |line: &usize, text: String| {
            findings.push(Finding::new(format!("{}:{line}", path.display()), text))
        };
        for (line, link) in document.links.iter().filter(|(_, link)| !link.contains(':')) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = path.parent().unwrap_or(Path::new(""));
            let target = if file.is_empty() { Some(path.clone()) } else { within(folder, file) };
            let Some(target) = target.filter(|target| exists(target)) else {
                say(line, format!("links to `{link}`, which is not there"));
                continue;
            };
            let known = documents.get(&target).is_none_or(|document| document.anchors.contains(anchor));
            if !anchor.is_empty() && !known {
                say(line, format!("links to `{link}`: there is no such heading"));
            }
        }
        for (line, code) in &document.code {
            if (is_path(code) || is_source(code)) && !exists(Path::new(code)) {
                say(line, format!("names `{code}`, which is not there"));
            }
            let is_package = |name: &str| {
                let is_cut = |package: &String| name.len() == MAX_COMM_BYTES && package.starts_with(name);
                packages.contains(name) || packages.iter().any(is_cut)
            };
            for name in packages_in(code).filter(|name| !is_package(name)) {
                say(line, format!("names the package `{name}`, which is not there"));
            }
            for target in made(code).into_iter().filter(|target| !targets.contains(*target)) {
                say(line, format!("says `make {target}`, which the Makefile does not know"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let other = Document::parse("# What is recorded\n\n## Again\n\n## Again\n");
        let documents = BTreeMap::from([
            (PathBuf::from("docs/a.md"), Document::parse(text)),
            (PathBuf::from("docs/b.md"), other),
        ]);
        let targets = BTreeSet::from(["test".to_owned()]);
        let there = ["docs/a.md", "docs/b.md", "LICENSE-MIT", "crates/clock"];
        let packages =
            package_names(["name = \"wakepath-tidy\"\n", "name = \"wakepath-libfuzzer\"\n"].into_iter());
        let findings =
            check(&documents, &targets, &packages, |path| there.iter().any(|it| path == Path::new(it)));
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn links_lead_to_files_and_headings_that_are_there() {
        let good =
            "[a](b.md) [b](b.md#what-is-recorded) [c](../LICENSE-MIT) [d](#x) [e](b.md#again-1)\n\n# X";
        assert_eq!(findings(good), [""; 0]);
        for bad in ["[a](c.md)", "[b](b.md#gone)", "[c](../../out)", "[d](#gone)", "[e](b.md#again-2)"] {
            assert_eq!(findings(bad).len(), 1, "{bad}");
        }
        assert_eq!(findings("one\n[a](c.md)"), ["docs/a.md:2: links to `c.md`, which is not there"]);
    }

    #[test]
    fn paths_in_code_spans_are_there() {
        assert_eq!(findings("`crates/clock`, `crates/NAME`, `lab/workloads/bin/rpc`, `crates/`"), [""; 0]);
        assert_eq!(findings("`crates/gone`"), ["docs/a.md:1: names `crates/gone`, which is not there"]);
        assert_eq!(findings("`gone.rs` and `*.rs`"), ["docs/a.md:1: names `gone.rs`, which is not there"]);
    }

    #[test]
    fn packages_in_code_are_there() {
        assert_eq!(
            findings("`cargo test -p wakepath-tidy`, `wakepath-libfuz` ran, `wakepath-NAME`"),
            [""; 0]
        );
        assert_eq!(
            findings("`wakepath-tid --x`"),
            ["docs/a.md:1: names the package `wakepath-tid`, which is not there"]
        );
    }

    #[test]
    fn the_page_about_the_format_has_the_number_that_is_written() {
        let source = "pub const FORMAT: i64 = 5;";
        let page = "This is format **5**.\n| `format` | the number of the format: 5 |\n| 5 | `stolen` |\n";
        assert_eq!(check_format(page, source), []);
        let old = page.replace("**5**", "**4**").replace("| 5 |", "| 4 |");
        let lines: Vec<_> = check_format(&old, source).iter().map(Finding::to_string).collect();
        assert_eq!(
            lines,
            [
                "docs/recording-format.md:1: says format 4, written is 5",
                "docs/recording-format.md:1: has no row about the changes in format 5"
            ]
        );
    }

    #[test]
    fn commands_in_spans_and_blocks_are_targets_of_the_makefile() {
        assert_eq!(findings("`make test`, `make CLANG=clang-13 test`, and `make`; make sure\n"), [""; 0]);
        assert_eq!(
            findings("`make demo`\n\n```sh\ncd x && make fly  # make believe\n```\n"),
            [
                "docs/a.md:1: says `make demo`, which the Makefile does not know",
                "docs/a.md:4: says `make fly`, which the Makefile does not know"
            ]
        );
    }

    #[test]
    fn a_command_is_made_only_where_make_is_the_command() {
        assert_eq!(made("$ sudo X=1 make test dist # make no"), ["test", "dist"]);
        assert_eq!(made("make -C lab/workloads all"), [""; 0]);
        assert_eq!(made("to make test of it"), [""; 0]);
    }

    #[test]
    fn every_phony_target_says_what_it_does() {
        let (targets, findings) = make_targets(".PHONY: a b\na: ## does a\n\techo\nb: a\n");
        assert_eq!(targets.into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(findings, [Finding::new("Makefile", "`b` has no rule that says `## …`")]);
    }
}
