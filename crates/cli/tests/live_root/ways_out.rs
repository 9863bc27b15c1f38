//! Calls that do not end in the reverse order of their beginning: unwound by exceptions, or made by threads that
//! continue on another stack.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wakepath_harness::live::{Place, document_among, not_possible, number, place, skip, texts, wakepath};

/// A folder where a test may count, with a program from this folder built in it; `None`, with a printed reason, if
/// counting is not allowed or the compiler is missing.
fn built(compiler: &str, source: &str, would_show: &str) -> Option<(Place, String)> {
    let folder = place(would_show)?;
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live_root/ways_out")).join(source);
    let program = folder.join(source.file_stem().expect("a name"));
    match Command::new(compiler).args(["-O2", "-w", "-o"]).arg(&program).arg(source).status() {
        Ok(status) => {
            assert!(status.success(), "{} does not build", program.display());
            return Some((folder, program.to_str()?.to_owned()));
        }
        // `make setup` installs no C++ compiler.
        Err(error) if compiler == "c++" && error.kind() == ErrorKind::NotFound => {
            not_possible("no c++ here", would_show);
        }
        Err(error) => skip(&format!("{compiler} cannot be run: {error}"), would_show),
    }
    None
}

/// The result of a program under `wakepath latency`.
struct Ended {
    code: Option<i32>,
    targets: Vec<Value>,
    /// `NAME COUNT` each.
    own: String,
    said: String,
}

fn latency(folder: &Path, targets: &[&str], options: &[&str], command: &[&str]) -> Ended {
    let arguments = [&["latency"], targets, options, &["--json", "--"], command].concat();
    let output = wakepath(folder, &arguments);
    let (printed, said) = texts(&output);
    let (document, own) = document_among(&printed);
    Ended {
        code: output.status.code(),
        targets: document["targets"].as_array().cloned().unwrap_or_default(),
        own: own.join(" "),
        said: said.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// The numbers of calls that returned, were unwound, and had not ended.
fn ends(target: &Value) -> [u64; 3] {
    ["count", "left", "open"].map(|key| number(&target[key]))
}

fn notes(target: &Value) -> String {
    target["notes"].to_string()
}

#[test]
fn exceptions_pass_probed_functions_and_the_calls_that_they_unwind_are_counted_apart() {
    let Some((folder, throws)) = built("c++", "throws.cc", "exceptions pass probed functions") else {
        return;
    };
    let all = ["./throws:throws", "./throws:passed", "./throws:catches", "./throws:calm"];
    // The kernel single-steps their returns, which a few calls may cost.
    let counted = latency(&folder, &all, &[], &[&throws, "20"]);
    let found: Vec<_> = counted.targets.iter().map(ends).collect();
    assert_eq!(found, [[10, 10, 0], [10, 10, 0], [20, 0, 0], [20, 0, 0]], "{}", counted.said);
    let counted = latency(&folder, &all, &["--slow-probes"], &[&throws, "100"]);
    assert_eq!((counted.code, counted.own.as_str()), (Some(0), "calls 100 thrown 50 caught 50"));
    let found: Vec<_> = counted.targets.iter().map(ends).collect();
    assert_eq!(found, [[50, 50, 0], [50, 50, 0], [100, 0, 0], [100, 0, 0]], "{}", counted.said);
    for target in &counted.targets {
        assert!(notes(target).contains("if an exception passes it"), "{target}");
    }
}

#[test]
fn no_exceptions_works_if_none_passes_and_else_the_program_ends_with_a_warning() {
    let Some((folder, throws)) = built("c++", "throws.cc", "what is promised of exceptions is believed")
    else {
        return;
    };
    // No exception passes these functions: `catches` catches it, and `calm` throws none.
    let kept = latency(
        &folder,
        &["./throws:catches", "./throws:calm"],
        &["--no-exceptions", "--slow-probes"],
        &[&throws, "100"],
    );
    assert_eq!((kept.code, kept.own.as_str()), (Some(0), "calls 100 thrown 50 caught 50"));
    let found: Vec<_> = kept.targets.iter().map(ends).collect();
    assert_eq!(found, [[100, 0, 0], [100, 0, 0]], "{}", kept.said);
    assert!(kept.targets.iter().all(|target| !notes(target).contains("exception")), "{:?}", kept.targets);
    // SIGABRT: the program found no handler for the exception.
    let broken =
        latency(&folder, &["./throws:passed"], &["--no-exceptions", "--slow-probes"], &[&throws, "100"]);
    assert_eq!(broken.code, Some(128 + 6), "{}", broken.said);
    assert!(broken.said.contains("--no-exceptions") && broken.said.contains("SIGABRT"), "{}", broken.said);
    assert_eq!(ends(&broken.targets[0]), [1, 1, 0], "one returned, and one threw: {}", broken.said);
}

#[test]
fn coroutines_survive_probes_and_their_calls_are_counted_one_by_one() {
    let Some((folder, coroutines)) = built("cc", "coroutines.c", "coroutines live on under probes") else {
        return;
    };
    let all = ["./coroutines:switches", "./coroutines:steady"];
    // The kernel single-steps their returns, which a few calls may cost.
    let few = latency(&folder, &all[..1], &[], &[&coroutines, "20"]);
    assert_eq!(ends(&few.targets[0]), [40, 0, 0], "{}", few.said);
    for order in [&[][..], &["turned"]] {
        let command = [&[coroutines.as_str(), "500"], order].concat();
        let counted = latency(&folder, &all, &["--slow-probes"], &command);
        assert_eq!((counted.code, counted.own.as_str()), (Some(0), "returned 1000 wrong 0"));
        // Each coroutine calls each function 500 times, and all these calls return.
        let [switches, steady] = [0, 1].map(|target| ends(&counted.targets[target]));
        assert_eq!((switches, steady), ([1000, 0, 0], [1000, 0, 0]), "{order:?}: {}", counted.said);
        assert!(
            notes(&counted.targets[0]).contains("because its file switches stacks"),
            "{}",
            counted.targets[0]
        );
    }
    // With --no-exceptions the probes are return probes: the kernel kills the program.
    let promised = latency(&folder, &all[..1], &["--no-exceptions"], &[&coroutines, "500"]);
    assert_eq!(promised.code, Some(128 + 4), "{}", promised.said);
    assert!(promised.said.contains("SIGILL") && promised.said.contains("another stack"), "{}", promised.said);
}
