//! The list of tests that may be tried again, `packaging/noisy-tests`: each test exists, and has its reason.

use std::collections::BTreeSet;
use std::path::Path;

use crate::Finding;

/// A source file's tests as cargo names them, `PROGRAM TEST`; none if it belongs to no program in a `tests` folder.
pub fn tests(path: &Path, text: &str) -> BTreeSet<String> {
    let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    let Some(at) = parts.iter().position(|part| *part == "tests") else { return BTreeSet::new() };
    let (program, modules) = match &parts[at + 1..] {
        [file] => (file.trim_end_matches(".rs"), &[][..]),
        [program, "main.rs"] => (*program, &[][..]),
        [program, modules @ ..] => (*program, modules),
        [] => return BTreeSet::new(),
    };
    let module: String = modules.iter().map(|name| format!("{}::", name.trim_end_matches(".rs"))).collect();
    let mut lines = text.lines();
    let mut found = BTreeSet::new();
    while lines.by_ref().any(|line| line.trim() == "#[test]") {
        let name = lines.by_ref().find_map(|line| line.trim().strip_prefix("fn ")?.split_once('('));
        found.extend(name.map(|(name, _)| format!("{program} {module}{name}")));
    }
    found
}

/// Compares the list with the tree's tests.
pub fn check(list: &str, tests: &BTreeSet<String>) -> Vec<Finding> {
    let at =
        |line: usize, text: String| Some(Finding::new(format!("packaging/noisy-tests:{}", line + 1), text));
    let mut listed = BTreeSet::new();
    let lines = list.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    lines
        .filter_map(|(number, line)| {
            let Some((test, _)) = line.split_once(": ").filter(|(_, reason)| !reason.trim().is_empty())
            else {
                return at(number, String::from("write `PROGRAM TEST: REASON`"));
            };
            if !tests.contains(test) {
                return at(number, format!("there is no test `{test}`: remove the line, or rename it"));
            }
            if !test.starts_with("live_root_") {
                return at(number, format!("`{test}` is no live test: it has one try"));
            }
            let is_new = listed.insert(test);
            if is_new { None } else { at(number, format!("`{test}` is listed twice")) }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        "#[test]\nfn x() {\n}\nfn helper() {}\n    #[test]\n    #[ignore]\n    fn y(a: u8) {}\n";

    #[test]
    fn tests_have_the_names_that_cargo_gives_them() {
        for (path, expected) in [
            ("crates/cli/tests/live_root_a.rs", vec!["live_root_a x", "live_root_a y"]),
            ("crates/cli/tests/live_root_a/main.rs", vec!["live_root_a x", "live_root_a y"]),
            ("crates/cli/tests/live_root_a/m.rs", vec!["live_root_a m::x", "live_root_a m::y"]),
            ("crates/cli/tests/live_root_a/m/n.rs", vec!["live_root_a m::n::x", "live_root_a m::n::y"]),
            ("crates/cli/src/a.rs", vec![]),
        ] {
            assert_eq!(Vec::from_iter(tests(Path::new(path), SOURCE)), expected, "{path}");
        }
    }

    #[test]
    fn a_line_names_a_live_test_once_with_its_reason() {
        let there = tests(Path::new("tests/live_root_a.rs"), SOURCE);
        let there = there.into_iter().chain([String::from("other z")]).collect();
        for (list, expected) in [
            ("# text\nlive_root_a x: it measures time\n", ""),
            ("live_root_a gone: a reason", "there is no test `live_root_a gone`"),
            ("live_root_b x: a reason", "there is no test `live_root_b x`"),
            ("live_root_a x", "write `PROGRAM TEST: REASON`"),
            ("live_root_a x: ", "write `PROGRAM TEST: REASON`"),
            ("other z: a reason", "`other z` is no live test"),
            ("live_root_a x: a reason\nlive_root_a x: another", "`live_root_a x` is listed twice"),
        ] {
            let findings: Vec<_> = check(list, &there).iter().map(|finding| finding.text.clone()).collect();
            assert_eq!(findings.len(), usize::from(!expected.is_empty()), "{list}: {findings:?}");
            assert!(findings.concat().starts_with(expected), "{list}: {findings:?}");
        }
    }
}
