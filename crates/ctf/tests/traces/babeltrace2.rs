//! Every field of every event in real traces, against babeltrace2's output. The traces lie in `$WAKEPATH_TRACES`;
//! without it the test prints a note and passes, and so it does without babeltrace2 unless `WAKEPATH_REQUIRE_LIVE=1`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use wakepath_ctf::stream::{Plans, Selection};
use wakepath_ctf::trace::Trace;

use crate::text;

/// A trace's stream as babeltrace2 reads it: alone and without its muxer, which gives up on packets with wrong
/// bounds.
fn babeltrace2(trace: &Path, stream: &Path) -> impl Iterator<Item = String> {
    let alone = tempfile::tempdir().expect("a directory");
    for file in [trace.join("metadata"), stream.to_owned()] {
        std::fs::copy(&file, alone.path().join(file.file_name().expect("a name"))).expect("a copy");
    }
    let mut child = Command::new("babeltrace2")
        .args(["run", "--component=in:source.ctf.fs"])
        .arg(format!("--params=inputs=[\"{}\"]", alone.path().display()))
        .args([
            "--component=out:sink.text.pretty",
            "--params=no-delta=yes,clock-cycles=yes,field-trace:hostname=no",
        ])
        .arg("--connect=in:out")
        .stdout(Stdio::piped())
        .spawn()
        .expect("babeltrace2 runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    std::iter::from_fn(move || {
        let _kept = &alone;
        match lines.next() {
            Some(line) => Some(line.expect("text")),
            None => {
                assert!(child.wait().expect("babeltrace2 ends").success());
                None
            }
        }
    })
}

/// The directories with a trace below a directory.
fn traces(below: &Path, into: &mut Vec<PathBuf>) {
    if below.join("metadata").is_file() {
        return into.push(below.to_owned());
    }
    let entries = std::fs::read_dir(below).expect("a directory");
    let mut folders: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    folders.sort();
    for folder in folders.into_iter().filter(|path| path.is_dir()) {
        traces(&folder, into);
    }
}

/// Whether two lines are equal except for empty texts: for an empty text (a lone NUL in the file), babeltrace2 2.0
/// shows an earlier text from the same memory.
fn equal_but_for_empty_texts(ours: &str, theirs: &str) -> bool {
    let mut parts = ours.split("\"\"");
    let Some(mut theirs) = parts.next().and_then(|first| theirs.strip_prefix(first)) else { return false };
    for part in parts {
        // Their text is a single quoted text.
        let Some(text) = theirs.strip_prefix('"') else { return false };
        let mut escaped = false;
        let end = text.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let Some(rest) = end.and_then(|end| text[end + 1..].strip_prefix(part)) else { return false };
        theirs = rest;
    }
    theirs.is_empty()
}

#[test]
fn every_field_of_every_event_is_as_babeltrace2_prints_it() {
    let Some(folder) = std::env::var_os("WAKEPATH_TRACES") else {
        println!(
            "skipped: not possible here: WAKEPATH_TRACES names no folder of traces to compare with babeltrace2"
        );
        return;
    };
    if Command::new("babeltrace2").arg("--version").stdout(Stdio::null()).status().is_err() {
        assert!(std::env::var_os("WAKEPATH_REQUIRE_LIVE").is_none(), "babeltrace2 is required here");
        println!("skipped: babeltrace2 is not installed, nothing to compare with");
        return;
    }
    let mut found = Vec::new();
    traces(Path::new(&folder), &mut found);
    assert!(!found.is_empty(), "no trace below {}", folder.display());
    for trace in found {
        let opened = Trace::open(&trace).unwrap_or_else(|error| panic!("{error}"));
        let (plans, streams) = (Plans::new(opened.metadata, &Selection::All).expect("plans"), opened.streams);
        let (mut events, mut stale) = (0, 0);
        for stream in streams {
            let mut theirs = babeltrace2(&trace, &stream);
            let others = text::lines(&plans, &stream, |ours| {
                let theirs = theirs.next().unwrap_or_default();
                if ours != theirs && equal_but_for_empty_texts(&ours, &theirs) {
                    stale += 1;
                } else {
                    assert_eq!(ours, theirs, "event {events} of {}", stream.display());
                }
                events += 1;
            });
            assert_eq!(theirs.next(), None, "{} has more events", stream.display());
            assert_eq!(others, [], "{}", stream.display());
        }
        let trace = trace.strip_prefix(&folder).unwrap_or(&trace).display();
        println!("{trace}: {events} events agree; in {stale} it shows another text for an empty one");
    }
}
