//! A few rules for every file: its licence, where it differs from the tree's, its size, its name, no path from the author's
//! machine, no printing in libraries, and no access to `/proc/PID` outside the crate for it.

use std::path::Path;

use crate::{Finding, licences};

/// The longest file without an entry in [`LONG`], lines: past this a reader asks why.
const MAX_LINES: usize = 600;

/// Longer files, each with the reason.
const LONG: [(&str, &str); 0] = [];

/// Names without a description of the content.
const EMPTY_NAMES: [&str; 9] =
    ["common", "helper", "helpers", "manager", "managers", "misc", "shared", "util", "utils"];

/// Beginnings of paths that exist on a single machine. Split, so that this file contains none itself.
const PRIVATE_PATHS: [[&str; 2]; 4] = [["/home", "/"], ["/root", "/"], ["/Users", "/"], ["/work", "/"]];

/// The crates that may print. All others return their texts.
const PRINTERS: [&str; 3] = ["crates/cli", "crates/harness", "crates/tidy"];

const PRINTS: [&str; 6] = ["println!(", "print!(", "eprintln!(", "eprint!(", "dbg!(", "process::exit("];

/// The crates that read process files: the crate for it, and the crate that must not share its mistakes.
const PROCESS_READERS: [&str; 2] = ["crates/process", "lab/truth"];

/// The files in a process's directory. The links to this program and to its descriptors (`exe`, `fd`) are paths for the
/// kernel, and only this process's have a fixed path.
const PROCESS_FILES: [&str; 14] = [
    "auxv",
    "cgroup",
    "cmdline",
    "comm",
    "environ",
    "fdinfo",
    "map_files",
    "maps",
    "mem",
    "ns",
    "root",
    "stat",
    "status",
    "task",
];

/// Checks a file, given by its path within the tree.
pub fn check(path: &Path, bytes: &[u8]) -> Vec<Finding> {
    let mut findings = private_paths(path, bytes);
    findings.extend(name(path));
    if let Ok(text) = std::str::from_utf8(bytes) {
        findings.extend(licence(path, text));
        findings.extend(size(path, text));
        findings.extend(prints(path, text));
        findings.extend(modules(path, text));
        findings.extend(skips(path, text));
        findings.extend(rules_in_views(path, text));
        findings.extend(vectors_in_findings(path, text));
        findings.extend(reads_processes(path, text));
    }
    findings
}

fn at(path: &Path, line: usize, text: impl Into<String>) -> Finding {
    Finding::new(format!("{}:{line}", path.display()), text)
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().and_then(|extension| extension.to_str()).is_some_and(|it| extensions.contains(&it))
}

/// BPF code is loaded into the kernel, which requires its licence; so each file names it.
fn licence(path: &Path, text: &str) -> Option<Finding> {
    let is_bpf = path.starts_with("bpf") || path.to_string_lossy().ends_with(".bpf.c");
    if !is_bpf || !has_extension(path, &["c", "h"]) {
        return None;
    }
    let first = text.lines().next().unwrap_or_default();
    let Some((_, expression)) = first.split_once("SPDX-License-Identifier:") else {
        return Some(at(path, 1, "the first line of a BPF file is its `SPDX-License-Identifier:`"));
    };
    let expression = expression.trim_end_matches("*/").trim();
    match licences::allows(expression) {
        Ok(true) => None,
        Ok(false) => Some(at(path, 1, format!("`{expression}` leaves no alternative that is allowed"))),
        Err(error) => Some(at(path, 1, format!("`{expression}` {error}"))),
    }
}

fn size(path: &Path, text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    let argued = LONG.iter().any(|(long, _)| path == Path::new(long));
    let is_code = has_extension(path, &["rs", "c", "h", "py", "sh", "ts", "tsx"]);
    (is_code && !argued && lines > MAX_LINES)
        .then(|| at(path, lines, format!("{lines} lines; split it, or say why in `LONG`")))
}

fn name(path: &Path) -> Option<Finding> {
    let empty = path.iter().find(|part| {
        let stem = Path::new(part).file_stem().unwrap_or(part).to_string_lossy();
        EMPTY_NAMES.contains(&stem.as_ref())
    })?;
    let text = format!("`{}` says nothing of what is inside", empty.display());
    Some(Finding::new(path.display().to_string(), text))
}

/// A module is `name.rs`, its own modules are in the folder `name` beside it; no file is included from another place.
fn modules(path: &Path, text: &str) -> Vec<Finding> {
    if !has_extension(path, &["rs"]) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    if path.ends_with("mod.rs") {
        let text = "call it as its folder, and put it beside the folder; tests with modules have a `main.rs`";
        findings.push(Finding::new(path.display().to_string(), text));
    }
    findings.extend(
        text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("#[path")).map(
            |(index, _)| {
                at(path, index + 1, "a file is in one crate: what two need is in a crate that both use")
            },
        ),
    );
    let named = text.lines().enumerate().filter_map(|(index, line)| {
        let line = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        let name = line.strip_prefix("mod ")?.trim_end_matches([';', '{', ' ']);
        EMPTY_NAMES
            .contains(&name)
            .then(|| at(path, index + 1, format!("the module name `{name}` says nothing of what is inside")))
    });
    findings.extend(named);
    findings
}

/// Binary files are searched too: a recording contains the paths of recorded programs.
fn private_paths(path: &Path, bytes: &[u8]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for parts in PRIVATE_PATHS {
        let private = parts.concat();
        let found = bytes.windows(private.len()).enumerate().find(|(index, window)| {
            // `docs/work/` and `https://host/home/` are not paths from the root.
            let before = index.checked_sub(1).and_then(|index| bytes.get(index));
            let inside = before.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(byte));
            *window == private.as_bytes() && !inside
        });
        if let Some((index, _)) = found {
            let line = bytes[..index].iter().filter(|byte| **byte == b'\n').count() + 1;
            findings.push(at(path, line, format!("`{private}` is a path of one machine")));
        }
    }
    findings
}

/// A library returns its texts; only the program knows where to print them.
fn prints(path: &Path, text: &str) -> Vec<Finding> {
    let is_library = path.starts_with("crates") && path.iter().nth(2).is_some_and(|folder| folder == "src");
    if !is_library || !has_extension(path, &["rs"]) || PRINTERS.iter().any(|it| path.starts_with(it)) {
        return Vec::new();
    }
    let product = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code = product.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.filter_map(|(index, line)| {
        let print = PRINTS.iter().find(|print| line.contains(*print))?;
        Some(at(path, index + 1, format!("`{print}…)` in a library; hand the text back instead")))
    })
    .collect()
}

/// Names in process files are hostile, and pids are reused: a single crate knows how to read them. Tests beside the code
/// (`tests/`) may read them directly.
fn reads_processes(path: &Path, text: &str) -> Vec<Finding> {
    let is_source = has_extension(path, &["rs"]) && path.iter().any(|folder| folder == "src");
    if !is_source || PROCESS_READERS.iter().any(|it| path.starts_with(it)) {
        return Vec::new();
    }
    let root = ["/pro", "c"].concat();
    let mut beginnings = vec![format!("{root}/{{"), format!("\"{root}\""), format!("\"{root}/\"")];
    for own in ["self", "thread-self"] {
        beginnings.extend(PROCESS_FILES.map(|file| format!("{root}/{own}/{file}")));
    }
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
    let is_whole = |line: &str, beginning: &str| {
        line.match_indices(beginning).any(|(at, _)| {
            let rest = &line[at + beginning.len()..];
            beginning.ends_with(['{', '"']) || ends(rest)
        })
    };
    let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let found = code.filter_map(|(index, line)| {
        let beginning = beginnings.iter().find(|beginning| is_whole(line, beginning))?;
        Some(at(
            path,
            index + 1,
            format!("`{beginning}`: only `crates/process` reads the files of processes"),
        ))
    });
    found.collect()
}

/// A live test's skip goes through the harness, which makes it a failure where all tests must run; and `packaging/test` counts
/// only lines with this beginning.
fn skips(path: &Path, text: &str) -> Vec<Finding> {
    let is_test = has_extension(path, &["rs"]) && path.iter().any(|folder| folder == "tests");
    let lines = text.lines().enumerate().filter(|_| is_test);
    let wrong = lines.filter_map(|(index, line)| {
        let of_harness = path.starts_with("crates/cli") && line.contains("\"skipped: ");
        let is_other = line.contains("\"SKIPPED") || line.contains("\"Skipped");
        (of_harness || is_other).then_some(index + 1)
    });
    wrong.map(|line| at(path, line, "a skip by hand; use `skip` or `not_possible` of the harness")).collect()
}

/// Findings belong to the answer: a view words them, and calls no rule that makes them. Types have a capital letter.
fn rules_in_views(path: &Path, text: &str) -> Vec<Finding> {
    const CRATE: &str = "wakepath_findings::";
    if !path.starts_with("crates/report/src") || !has_extension(path, &["rs"]) {
        return Vec::new();
    }
    let product = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut findings = Vec::new();
    for (place, _) in product.match_indices(CRATE) {
        let named = &product[place + CRATE.len()..];
        let end = if named.starts_with('{') { named.find('}') } else { named.find(|c: char| !is_word(c)) };
        let words = named[..end.unwrap_or(named.len())].split(|c: char| !is_word(c));
        let is_rule = |word: &&str| word.starts_with(|c: char| c.is_lowercase()) && *word != "testing";
        let line = product[..place].lines().count().max(1);
        findings.extend(words.filter(is_rule).map(|word| {
            at(path, line, format!("`{word}` of `findings` in a view; let the answer of `engine` have it"))
        }));
    }
    findings
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Rules access paths, the graph and the recording by methods, so that these need not lie in a single vector.
fn vectors_in_findings(path: &Path, text: &str) -> Vec<Finding> {
    const VECTORS: [&str; 10] = [
        ".segments.",
        ".segments[",
        ".path.segments {",
        ".waits.iter(",
        ".waits.get(",
        ".waits[",
        ".survey.",
        ".graph.",
        "&recorded.graph,",
        "&recorded.graph;",
    ];
    let is_rule = path.starts_with("crates/findings/src") && !path.ends_with("testing.rs");
    if !is_rule || !has_extension(path, &["rs"]) {
        return Vec::new();
    }
    let product = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = product.lines().enumerate();
    let wrong = lines.filter_map(|(index, line)| {
        let field = VECTORS.iter().find(|field| line.contains(*field))?;
        Some(at(path, index + 1, format!("`{field}` reaches a field; use a method")))
    });
    wrong.collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use std::path::Path;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(Path::new(path), text.as_bytes()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_bpf_file_begins_with_a_licence_that_is_allowed() {
        let good = "// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)\n";
        assert_eq!(findings("bpf/switch.bpf.c", good), [""; 0]);
        assert_eq!(
            findings("bpf/switch.bpf.c", "/* SPDX-License-Identifier: GPL-2.0-only */\n"),
            ["bpf/switch.bpf.c:1: `GPL-2.0-only` leaves no alternative that is allowed"]
        );
        for path in ["bpf/records.h", "lab/bench/empty.bpf.c"] {
            assert_eq!(
                findings(path, "int x;\n"),
                [format!("{path}:1: the first line of a BPF file is its `SPDX-License-Identifier:`")]
            );
        }
        assert_eq!(findings("lab/workloads/rpc.c", "int x;\n"), [""; 0]);
    }

    #[test]
    fn a_file_of_601_lines_is_too_long() {
        assert_eq!(findings("crates/clock/src/lib.rs", &"\n".repeat(600)), [""; 0]);
        assert_eq!(
            findings("crates/clock/src/lib.rs", &"\n".repeat(601)),
            ["crates/clock/src/lib.rs:601: 601 lines; split it, or say why in `LONG`"]
        );
        assert_eq!(findings("cases/long.txt", &"\n".repeat(601)), [""; 0]);
    }

    #[test]
    fn names_that_say_nothing_are_refused() {
        for path in ["crates/clock/src/utils.rs", "crates/clock/tests/common/hull.rs", "docs/helpers/a.md"] {
            assert_eq!(findings(path, "").len(), 1, "{path}");
        }
        assert_eq!(
            findings("crates/clock/src/lib.rs", "pub mod hull;\npub(crate) mod shared {\n"),
            ["crates/clock/src/lib.rs:2: the module name `shared` says nothing of what is inside"]
        );
    }

    #[test]
    fn a_module_is_a_file_beside_its_folder_in_one_crate() {
        for good in ["crates/clock/src/hull.rs", "crates/clock/tests/pairs/main.rs"] {
            assert_eq!(findings(good, "mod hull;\n"), [""; 0]);
        }
        assert_eq!(findings("crates/clock/tests/pairs/mod.rs", "").len(), 1);
        assert_eq!(
            findings(
                "crates/sync/tests/a.rs",
                "//! A.\n\n#[path = \"../../clock/tests/pair.rs\"]\nmod pair;\n"
            ),
            ["crates/sync/tests/a.rs:3: a file is in one crate: what two need is in a crate that both use"]
        );
    }

    #[test]
    fn paths_of_one_machine_are_found_in_text_and_in_binary_files() {
        let home = ["/home", "/someone/x"].concat();
        assert_eq!(findings("docs/a.md", &format!("\nsee {home}")).len(), 1);
        let mut bytes = vec![0xff, 0];
        bytes.extend(home.as_bytes());
        assert_eq!(check(Path::new("recordings/a/stream_0"), &bytes).len(), 1);
        assert_eq!(findings("docs/a.md", &format!("https://host{home}")), [""; 0]);
    }

    #[test]
    fn live_tests_skip_by_the_harness_and_all_skips_are_counted() {
        let [counted, other] =
            ["skipped: ", "SKIPPED: "].map(|word| format!("fn f() {{ println!(\"{word}no\") }}"));
        let says = "a skip by hand; use `skip` or `not_possible` of the harness";
        for (path, text, expected) in [
            ("crates/cli/tests/a.rs", &counted, vec![format!("crates/cli/tests/a.rs:1: {says}")]),
            ("crates/ctf/tests/a.rs", &other, vec![format!("crates/ctf/tests/a.rs:1: {says}")]),
            ("crates/ctf/tests/a.rs", &counted, vec![]),
        ] {
            assert_eq!(findings(path, text), expected);
        }
    }

    #[test]
    fn a_view_calls_no_rule_of_findings() {
        let text =
            "use wakepath_findings::{\n    Row, rows,\n};\nfn f() {\n    wakepath_findings::causes(g)\n}\n";
        let test = "#[cfg(test)]\nmod t { use wakepath_findings::rows; }\n";
        let rule = |line, word| {
            format!(
                "crates/report/src/a.rs:{line}: `{word}` of `findings` in a view; let the answer of `engine` have it"
            )
        };
        assert_eq!(findings("crates/report/src/a.rs", text), [rule(1, "rows"), rule(5, "causes")]);
        for good in ["use wakepath_findings::testing::checkout;\n", "use wakepath_findings::Row;\n", test] {
            assert_eq!(findings("crates/report/src/a.rs", good), [""; 0], "{good}");
        }
        assert_eq!(findings("crates/engine/src/a.rs", text), [""; 0]);
    }

    #[test]
    fn rules_reach_the_graph_by_methods() {
        let path = "crates/findings/src/rows.rs";
        for field in ["p.segments.iter()", "e.path.waits[0]", "r.survey.names.x()", "r.graph.thread(t)"] {
            assert_eq!(findings(path, &format!("fn f() {{\n    {field}\n}}\n")).len(), 1, "{field}");
        }
        assert_eq!(findings(path, "e.segments(); r.graph().thread(t); r.names()\n"), [""; 0]);
        let test = "#[cfg(test)]\nmod t { fn f() { r.graph.thread(t) } }\n";
        assert_eq!(findings(path, test), [""; 0]);
        assert_eq!(findings("crates/findings/src/testing.rs", "s.segments.len()\n"), [""; 0]);
    }

    #[test]
    fn one_crate_reads_the_files_of_processes() {
        let root = ["/pro", "c"].concat();
        let says = |beginning: &str| {
            format!("crates/a/src/b.rs:2: `{beginning}`: only `crates/process` reads the files of processes")
        };
        for (text, beginning) in [
            (format!("read(format!(\"{root}/{{pid}}/maps\"))"), format!("{root}/{{")),
            (format!("read(format!(\"{root}/{{}}/exe\", pid))"), format!("{root}/{{")),
            (format!("Path::new(\"{root}\").join(pid)"), format!("\"{root}\"")),
            (format!("let folder = \"{root}/\";"), format!("\"{root}/\"")),
            (format!("open(\"{root}/self/mem\")"), format!("{root}/self/mem")),
            (format!("open(\"{root}/thread-self/task/7/comm\")"), format!("{root}/thread-self/task")),
        ] {
            let text = format!("//! A.\n{text}\n");
            assert_eq!(findings("crates/a/src/b.rs", &text), [says(&beginning)], "{text}");
            for path in
                ["crates/process/src/lib.rs", "lab/truth/src/b.rs", "crates/a/tests/b.rs", "docs/b.md"]
            {
                assert_eq!(findings(path, &text), [""; 0], "{path}");
            }
            assert_eq!(findings("lab/bench/src/b.rs", &text).len(), 1, "{text}");
        }
        for other in ["self/exe", "self/mounts", "self/fd/3", "stat", "kallsyms", "sys/kernel/osrelease"] {
            assert_eq!(
                findings("crates/a/src/b.rs", &format!("read(\"{root}/{other}\")\n")),
                [""; 0],
                "{other}"
            );
        }
        assert_eq!(findings("crates/a/src/b.rs", &format!("// {root}/{{pid}}/maps\n")), [""; 0]);
    }

    #[test]
    fn only_programs_print() {
        let text = "/// println!(1)\nfn f() {\n    println!(\"x\");\n}\n#[cfg(test)]\nmod t { print!(1) }\n";
        assert_eq!(
            findings("crates/engine/src/lib.rs", text),
            ["crates/engine/src/lib.rs:3: `println!(…)` in a library; hand the text back instead"]
        );
        for path in ["crates/cli/src/main.rs", "crates/engine/build.rs", "crates/engine/tests/live.rs"] {
            assert_eq!(findings(path, text), [""; 0], "{path}");
        }
    }
}
