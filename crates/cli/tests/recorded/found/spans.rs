//! Span files by other tools that were once misread, with their right values.

use std::path::Path;

use wakepath_harness::live::{document, list, number, run};

use super::found;

/// A recording of another time than these spans.
const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recordings/backup");

/// The longest request in a file: its service, operation and length, ns; and the number of spans, and of damaged files.
fn longest(name: &str) -> Option<((String, String, u64), u64, usize)> {
    let folder = found(&format!("spans/{name}"), "spans by other tools are read")?;
    let all = document(folder.path(), &["requests", RECORDING, "file"]);
    let longest =
        list(&all["operations"]).iter().max_by_key(|one| number(&one["max_ns"])).expect("a request");
    let text = |key: &str| longest[key].as_str().expect("a text").to_owned();
    let request = (text("service"), text("operation"), number(&longest["max_ns"]));
    let (out, _) = run(folder.path(), &["requests", RECORDING, "file"], 0);
    assert!(out.contains("the spans are from another time"), "{out}");
    Some((request, number(&all["spans"]), list(&all["spans_damaged"]).len()))
}

#[test]
fn otlp_with_ids_in_base64_old_keys_tempos_keys_or_a_cut_line_has_its_five_spans() {
    for (name, damaged) in [
        ("otlp-base64-ids.json", 0),
        ("otlp-instrumentationLibrarySpans.json", 0),
        ("tempo-batches.json", 0),
        ("otlp-last-line-cut.json", 1),
    ] {
        let Some(found) = longest(name) else { return };
        assert_eq!(found, (("shop".to_owned(), "GET /a".to_owned(), 8_069_900), 5, damaged), "{name}");
    }
}

#[test]
fn jaegers_short_ids_and_nulls_are_read_and_the_request_has_its_time_from_before_the_boot() {
    let expected = (("hello-world".to_owned(), "say-hello".to_owned(), 516_362_000), 5, 0);
    for name in ["jaeger-64-bit-trace-id.json", "jaeger-null-references.json"] {
        let Some(found) = longest(name) else { return };
        assert_eq!(found, expected, "{name}");
    }
    let Some(folder) = found("spans/jaeger-64-bit-trace-id.json", "a request is found by a short id") else {
        return;
    };
    // By the id that Jaeger shows, beside a recording and without one.
    for files in [&[RECORDING, "file"][..], &["file"]] {
        let ask = |how: &[&str]| run(folder.path(), &[&["requests"], files, how].concat(), 0).0;
        for how in [&["--request", "410a7dbc6d6cfeb6"][..], &["--slowest", "1"]] {
            let out = ask(how);
            assert!(out.starts_with("hello-world say-hello took 516 ms"), "{files:?} {how:?}: {out}");
            assert!(out.contains("2018-05-30 12:47:41.617"), "{files:?} {how:?}: {out}");
        }
    }
    assert!(Path::new(RECORDING).exists());
}
