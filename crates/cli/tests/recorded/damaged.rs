//! Input that is cut off, of another kind, or has hostile names: it is answered as far as possible or refused with a
//! clear message, and no partial file is left.

use std::fs;
use std::path::Path;

use serde_json::Value;
use wakepath_event::{EventKind, NameSpace};
use wakepath_harness::made::{Made, made};

/// Calls of `./app:handle` that wait for a backend, which another process wakes.
const CALLS: &str = "
thread worker tid=10
thread backend tid=20
    0 c0 idle    started
    0 c0 idle    switch worker
    0 c1 idle    switch backend
  900 c0 worker  called 0 from=500
 1000 c0 worker  switch idle blocked call=202:0x1000
 5000 c1 backend waking worker
 5000 c0 idle    switch worker
 6000 c0 worker  called 0 from=950
 7000 c0 worker  switch idle blocked call=202:0x1000
 9000 c1 backend waking worker
 9100 c0 idle    switch worker
 9500 c0 worker  called 0 from=6900
20000 c0 worker  switch idle blocked call=35:0
";

fn calls(trace: &str, target: &[u8]) -> Made {
    made(trace, &[EventKind::Name(NameSpace::Target, 0, target.into())])
}

const QUESTIONS: [&[&str]; 4] = [
    &["latency", "-i", "wakepath.rec", "runqueue", "blocked:*", "disk", "-a", "--parquet", "found.parquet"],
    &["latency", "-i", "wakepath.rec", "handle", "-a", "--json"],
    &["path", "--call", "--slowest", "2"],
    &["path", "--call", "--slowest", "2", "--tree"],
];

/// The names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().expect("text")).collect();
    names.sort();
    names
}

#[test]
fn a_recording_that_was_cut_anywhere_is_answered_or_refused_by_a_line() {
    let made = calls(CALLS, b"./app:handle");
    for question in QUESTIONS {
        let (code, _, err) = made.run(question);
        assert_eq!((code, err.as_str()), (0, ""), "{question:?}");
    }
    let folder = made.recording().join("kernel");
    for name in names(&folder) {
        let path = folder.join(&name);
        let whole = fs::read(&path).expect("a stream");
        // The metadata is long, and no crash cuts it, since it is written first.
        let step = if name == "metadata" { whole.len() / 8 } else { (whole.len() / 24).max(1) };
        for length in (0..whole.len()).step_by(step).chain([1, 7, whole.len().saturating_sub(1)]) {
            fs::write(&path, &whole[..length]).expect("room");
            for question in QUESTIONS {
                let _ = fs::remove_file(made.folder().join("found.parquet"));
                let (code, out, err) = made.run(question);
                let said = format!("{question:?} of {length} bytes of {name}: {code}\n{out}{err}");
                assert!(matches!(code, 0 | 2 | 3), "{said}");
                assert!((code == 0) != err.starts_with("error: "), "{said}");
                assert!(code == 0 || out.is_empty() && err.lines().count() <= 3, "{said}");
                let left = names(made.folder());
                let whole = if code == 0 && question.contains(&"--parquet") { 2 } else { 1 };
                assert_eq!(left.len(), whole, "{left:?} {said}");
            }
        }
        fs::write(&path, &whole).expect("room");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_said_and_the_one_that_was_there_stays() {
    let made = calls(CALLS, b"./app:handle");
    let folder = made.folder();
    fs::write(folder.join("file"), "text").expect("room");
    for (file, says, hint) in [
        ("none/found", "No such file or directory", "make the folder `none` first"),
        ("file/found", "not a directory", "make the folder `file` first"),
        (".", "is a directory", "name a file in it"),
        ("/dev/full", "No space left on device", "name a file on another disk"),
    ] {
        let before = names(folder);
        let arguments = ["latency", "-i", "wakepath.rec", "runqueue", "-a", "--parquet", file];
        let (code, out, err) = made.run(arguments);
        assert_eq!((code, names(folder)), (3, before), "{file}: {err}");
        assert!(err.starts_with(&format!("error: cannot write `{file}`: ")), "{err}");
        assert!(err.contains(says) && err.contains(&format!("hint: {hint}")), "{err}");
        // A failure that shows only at the end does not lose the answer.
        assert_eq!(out.contains("runqueue: "), file == "/dev/full", "{file}: {out}");
        let (code, _, err) = made.run(["export", "--format", "perfetto", "--tid", "10", "-o", file]);
        assert!(code == 3 && err.contains(&format!("cannot write `{file}`")), "{code} {err}");
    }
    let (code, _, err) = made.run(["latency", "-i", "wakepath.rec", "runqueue", "-a", "--parquet", "file"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        fs::read(folder.join("file")).expect("there").starts_with(b"PAR1"),
        "it is replaced when it is whole"
    );
    assert_eq!(names(folder), ["file", "wakepath.rec"]);
}

#[test]
fn what_is_compared_has_to_be_latencies() {
    let made = calls(CALLS, b"./app:handle");
    let write = |name: &str, arguments: &[&str]| {
        let (code, out, err) = made.run(arguments);
        assert_eq!(code, 0, "{err}");
        fs::write(made.folder().join(name), out).expect("room");
    };
    write("good", &["latency", "-i", "wakepath.rec", "runqueue", "-a", "--json"]);
    write("calls", &["path", "--call", "--slowest", "2", "--json"]);
    write("path", &["path", "--tid", "10", "--json"]);
    write("info", &["info", "--json"]);
    fs::write(made.folder().join("text"), "once upon a time").expect("room");
    fs::write(made.folder().join("none"), "").expect("room");
    assert_eq!(made.run(["latency", "--compare", "good", "good"]).0, 0);
    for (other, says) in [
        ("calls", "its schema is `wakepath.calls/1`, not `wakepath.latency/1`"),
        ("path", "its schema is `wakepath.path/1`"),
        ("info", "its schema is `wakepath.info/1`"),
        ("text", "it is no document of `wakepath latency --json`"),
        ("none", "it is no document of `wakepath latency --json`"),
        ("missing", "No such file or directory"),
        ("wakepath.rec", "Is a directory"),
    ] {
        for pair in [["good", other], [other, "good"]] {
            let (code, out, err) = made.run(["latency", "--compare"].iter().chain(&pair));
            assert_eq!((code, out.as_str()), (3, ""), "{pair:?}: {err}");
            assert!(err.starts_with(&format!("error: cannot read `{other}`: {says}")), "{err}");
        }
    }
}

#[test]
fn names_are_no_commands_to_a_terminal_and_stay_what_they_are_in_data() {
    let made = calls(
        &CALLS.replace("backend", "b\u{1b}[2J\u{7}").replace("worker", "w\u{9b}\u{202e}"),
        b"./a\x1b]0;x\x07\xff:f",
    );
    for question in [
        &["path", "--call", "--slowest", "2"][..],
        &["path", "--call", "--slowest", "2", "--tree"],
        &["path", "--call", "--slowest", "2", "--json"],
        &["path", "--call", "none", "--slowest", "2"],
        &["latency", "-i", "wakepath.rec", "f", "runqueue", "-a"],
        &["latency", "-i", "wakepath.rec", "f", "-a", "--json"],
        &["latency", "-i", "wakepath.rec", "none", "-a"],
    ] {
        let (_, out, err) = made.run(question);
        let evil = |c: char| c != '\n' && c.is_control() || c == '\u{202e}';
        assert!(!out.contains(evil) && !err.contains(evil), "{question:?}: {out:?} {err:?}");
    }
    let answer = made.document(["path", "--call", "--slowest", "2", "--json"]);
    assert_eq!(answer["target"], "./a\u{1b}]0;x\u{7}\\xff:f");
    assert!(answer["tree"][1]["who"].as_str().is_some_and(|who| who.starts_with("b\\x1b[2J")), "{answer}");
    let (code, _, err) = made.run(["latency", "-i", "wakepath.rec", "f", "-a", "--parquet", "a.parquet"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let file = fs::read(made.folder().join("a.parquet")).expect("a file");
    let name = "./a\u{1b}]0;x\u{7}\u{fffd}:f".as_bytes();
    assert!(file.windows(name.len()).any(|bytes| bytes == name), "data hold names as they are, in UTF-8");
    let (code, _, err) = made.run(["export", "--format", "perfetto", "--tid", "10", "-o", "a.perfetto"]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn what_is_lost_of_the_calls_is_said_with_them_and_only_then() {
    let lossy = CALLS.replace(" 5000 c0 idle ", " 4950 c0 idle loss from=3500 count=2\n 5000 c0 idle ");
    let made = calls(&lossy, b"./app:handle");
    for view in [&[][..], &["--tree"]] {
        let (code, out, _) = made.run(["path", "--call", "--slowest", "1"].iter().chain(view));
        assert!(code == 0 && out.contains("\nlost 2 records\n"), "{code} {out}");
    }
    let (code, out, _) = made.run(["path", "--call", "--slowest", "1", "--json", "--strict"]);
    let answer: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, answer["losses"][0]["count"].as_u64()), (1, Some(2)), "{answer}");
    // A later loss affects no call.
    let later = CALLS.replace("20000 c0 worker ", "19000 c0 idle loss from=15000 count=2\n20000 c0 worker ");
    let (code, out, _) = self::calls(&later, b"f").run(["path", "--call", "--slowest", "1", "--strict"]);
    assert!(code == 0 && out.contains("\nlost 0 records\n"), "{code} {out}");
}
