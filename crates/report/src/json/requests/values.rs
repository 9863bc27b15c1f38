//! Whole documents about requests, their values included, and the same answers as text.
//!
//! `UPDATE_EXPECT=1 cargo test -p wakepath-report --lib values` writes the files anew; read the difference before
//! you keep it.

use expect_test::{ExpectFile, expect_file};
use serde_json::Value;
use wakepath_engine::requests::{GroupQuery, RequestsQuery};
use wakepath_engine::{Algorithm, requests as engine};

use crate::json;
use crate::sample::requests::{recorded, traced};
use crate::screen::Layout;
use crate::text::{self, Source};

/// The words that name the inputs.
fn words() -> [String; 2] {
    ["a.rec", "spans.json"].map(String::from)
}

/// Compares a document, indented, with a file.
fn check(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>, expected: ExpectFile) {
    let mut out = Vec::new();
    write(&mut out).expect("a vector takes everything");
    let document: Value = serde_json::from_slice(&out).expect("JSON");
    expected.assert_eq(&(serde_json::to_string_pretty(&document).expect("JSON") + "\n"));
}

#[test]
fn the_list_of_requests_has_these_values() {
    let (recorded, traced) = (recorded(), traced());
    let answer = engine::requests(&recorded, &traced, &RequestsQuery::default()).expect("requests");
    check(|out| json::requests(&answer, out), expect_file!["../../../tests/requests/list.json"]);
    let text = text::requests(&answer, Source::Read(" a.rec"), Layout::PLAIN);
    expect_file!["../../../tests/requests/list.txt"].assert_eq(&text);
}

#[test]
fn a_request_with_a_path_and_one_without_have_these_values() {
    let (recorded, traced) = (recorded(), traced());
    let joined = engine::join(&recorded, &traced).expect("a clock");
    for (id, document, expected) in [
        (
            "3003",
            expect_file!["../../../tests/requests/one.json"],
            expect_file!["../../../tests/requests/one.txt"],
        ),
        (
            "5001",
            expect_file!["../../../tests/requests/without_path.json"],
            expect_file!["../../../tests/requests/without_path.txt"],
        ),
    ] {
        let which = engine::find_request(&traced, &format!("{id:0>32}")).expect("it is there");
        let answer = engine::request(&joined, which, Algorithm::default());
        let words = words();
        let named = json::Named { recording: &words[..1], with_spans: &words };
        check(|out| json::request(&answer, named, out), document);
        let text = text::request(&answer, Source::Read(" a.rec"), " a.rec spans.json", Layout::PLAIN);
        expected.assert_eq(&text);
    }
}

#[test]
fn the_requests_of_a_peak_have_these_values() {
    let (recorded, traced) = (recorded(), traced());
    let joined = engine::join(&recorded, &traced).expect("a clock");
    let requests = RequestsQuery { operation: Some("GET /cart".to_owned()), service: None };
    let query = GroupQuery { requests, peak: Some(2), algorithm: Algorithm::default() };
    let answer = engine::request_group(&joined, &query, None).expect("an answer");
    let words = words();
    let named = json::Named { recording: &words[..1], with_spans: &words };
    check(|out| json::request_group(&answer, named, out), expect_file!["../../../tests/requests/peak.json"]);
    let text = text::request_group(&answer, false, " a.rec spans.json", Layout::PLAIN);
    expect_file!["../../../tests/requests/peak.txt"].assert_eq(&text);
    let query = GroupQuery { peak: None, ..query };
    let answer = engine::request_group(&joined, &query, Some(&joined)).expect("an answer");
    let text = text::request_group(&answer, false, " a.rec spans.json", Layout::PLAIN);
    expect_file!["../../../tests/requests/compared.txt"].assert_eq(&text);
}

#[test]
fn the_slowest_requests_by_cause_have_these_values() {
    let (recorded, traced) = (recorded(), traced());
    let joined = engine::join(&recorded, &traced).expect("a clock");
    let all = engine::requests(&recorded, &traced, &RequestsQuery::default()).expect("requests");
    let answer = engine::requests_by_cause(&joined, &all.requests, 24, Algorithm::default(), |_| {});
    let words = words();
    let named = json::Named { recording: &words[..1], with_spans: &words };
    check(
        |out| json::requests_by_cause(&answer, named, out),
        expect_file!["../../../tests/requests/by_cause.json"],
    );
    let text = text::requests_by_cause(&answer, " a.rec spans.json", Layout::PLAIN);
    expect_file!["../../../tests/requests/by_cause.txt"].assert_eq(&text);
    let alone = engine::requests_alone(&traced, &RequestsQuery::default()).expect("requests");
    let answer = engine::requests_by_cause_alone(&traced, &alone.requests, 100);
    let text = text::requests_by_cause(&answer, " spans.json", Layout::PLAIN);
    expect_file!["../../../tests/requests/by_cause_alone.txt"].assert_eq(&text);
}
