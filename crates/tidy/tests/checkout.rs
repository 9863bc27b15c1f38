//! The checks, run on this checkout.

use std::collections::BTreeMap;

use wakepath_tidy::documents::{self, Document};
use wakepath_tidy::packages::Metadata;
use wakepath_tidy::tree::Tree;
use wakepath_tidy::{Finding, TARGET, budget, files, language, layers, licences, noisy, notices};

fn tree() -> Tree {
    Tree::from_checkout().unwrap()
}

fn assert_none(findings: Vec<Finding>) {
    let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
}

#[test]
fn every_crate_has_its_row_in_the_map_and_uses_only_what_it_names() {
    let tree = tree();
    let metadata = Metadata::read(tree.root(), TARGET).unwrap();
    let rows = layers::rows(&tree.text("ARCHITECTURE.md").unwrap());
    let (crates, edges, mut findings) = layers::crates_and_edges(&metadata);
    assert!(crates.contains("tidy") && !edges.is_empty(), "cargo metadata shows our crates");
    findings.extend(layers::check(&rows, &crates, &edges));
    let laboratory = layers::crates_in(&metadata, "lab");
    assert!(laboratory.contains("truth") && !laboratory.contains("cli"), "{laboratory:?}");
    findings.extend(layers::check_laboratory(&laboratory, &edges));
    assert_none(findings);
}

#[test]
fn every_dependency_has_a_licence_that_lets_us_ship_it() {
    let metadata = Metadata::read(tree().root(), TARGET).unwrap();
    // A product dependency and a laboratory dependency.
    for name in ["spdx", "syn"] {
        assert!(metadata.theirs().any(|package| package.name == name), "cargo metadata shows dependencies");
    }
    assert_none(licences::check(metadata.theirs()));
}

/// `make fuzz` uses a workspace with its own lock file.
#[test]
fn the_fuzzers_dependencies_may_be_used_as_all_others() {
    let metadata = Metadata::read(&tree().root().join("fuzz/libfuzzer"), TARGET).unwrap();
    assert!(metadata.theirs().any(|package| package.name == "libfuzzer-sys"), "it is read from its own lock");
    // There, the packages it uses from this workspace count as external.
    let ours = |name: &str| name.starts_with("wakepath-");
    assert_none(licences::check(metadata.theirs().filter(|package| !ours(&package.name))));
}

#[test]
fn notices_name_what_is_linked_in_and_not_what_only_tests_or_builds() {
    let metadata = Metadata::read(tree().root(), TARGET).unwrap();
    let names = |program| -> Vec<String> {
        let linked = metadata.linked_into(program).unwrap();
        linked.iter().map(|package| package.name.clone()).collect()
    };
    let linked = names("wakepath-bench");
    assert!(linked.contains(&"libbpf-sys".to_owned()), "through libbpf-rs: {linked:?}");
    assert!(!linked.contains(&"libbpf-cargo".to_owned()), "it only builds: {linked:?}");
    let text = notices::notices(&metadata, "wakepath-bench").unwrap();
    assert!(text.contains("\nclap ") && text.contains("Permission is hereby granted"), "{text}");
    assert!(metadata.linked_into("nonesuch").is_err());
}

#[test]
fn every_file_keeps_the_rules_for_files() {
    let tree = tree();
    assert!(tree.files().len() > 20, "the files of this checkout are found");
    let findings = tree.files().iter().flat_map(|file| files::check(file, &tree.bytes(file).unwrap()));
    assert_none(findings.collect());
}

#[test]
fn documents_name_only_what_is_there() {
    let tree = tree();
    let is_document = |path: &&std::path::PathBuf| path.extension().is_some_and(|it| it == "md");
    let documents: BTreeMap<_, _> = tree
        .files()
        .iter()
        .filter(is_document)
        .map(|path| (path.clone(), Document::parse(&tree.text(path).unwrap())))
        .collect();
    let (targets, mut findings) = documents::make_targets(&tree.text("Makefile").unwrap());
    let manifests = tree.files().iter().filter(|path| path.ends_with("Cargo.toml"));
    let manifests: Vec<_> = manifests.map(|path| tree.text(path).unwrap()).collect();
    let packages = documents::package_names(manifests.iter().map(String::as_str));
    findings.extend(documents::check(&documents, &targets, &packages, |path| tree.has(path)));
    let page = tree.text("docs/recording-format.md").unwrap();
    findings.extend(documents::check_format(&page, &tree.text("crates/recording/src/metadata.rs").unwrap()));
    assert_none(findings);
}

#[test]
fn prose_keeps_the_rules_for_language() {
    let tree = tree();
    let check = |file: &std::path::PathBuf| language::check(file, &tree.text(file).unwrap_or_default());
    assert_none(tree.files().iter().flat_map(check).collect());
}

#[test]
fn tests_that_may_be_tried_again_are_there() {
    let tree = tree();
    let of_file = |file: &std::path::PathBuf| noisy::tests(file, &tree.text(file).unwrap_or_default());
    let tests = tree.files().iter().filter(|file| file.extension().is_some_and(|it| it == "rs"));
    let tests = tests.flat_map(of_file).collect();
    let list = tree.text("packaging/noisy-tests").unwrap();
    assert!(list.lines().any(|line| !line.starts_with('#')), "the list has tests");
    assert_none(noisy::check(&list, &tests));
}

#[test]
fn words_that_make_sentences_hard_to_read_stay_within_their_budgets() {
    let tree = tree();
    let mut tally = budget::Tally::default();
    for file in tree.files() {
        if let Ok(text) = tree.text(file) {
            tally.add(file, &text);
        }
    }
    let found = tally.figures();
    let budgets = budget::budgets(&tree.text(budget::FILE).unwrap_or_default()).expect("lines of budgets");
    if std::env::var_os("WAKEPATH_BLESS").is_some() {
        let lowered = budget::text(&budget::lowered(&budgets, &found));
        std::fs::write(tree.root().join(budget::FILE), lowered).expect("a file");
        return;
    }
    assert_none(budget::check(&budgets, &found));
}
