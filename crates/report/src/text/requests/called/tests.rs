//! Called requests in a request's sentence and rows.

use wakepath_engine::Algorithm;
use wakepath_engine::requests::{CalledRequest, find_request, join, request};

use crate::sample::requests::{recorded, traced};
use crate::screen::Layout;
use crate::text::{Source, request as request_text};

/// The sentence and the rows of a request of 5034 ns without a blocker, which called others: with these depths and times.
fn told(called: &[(u32, u64)]) -> (String, Vec<String>) {
    let (recorded, traced) = (recorded(), traced());
    let joined = join(&recorded, &traced).expect("a clock");
    let find = |id: &str| find_request(&traced, &format!("{id:0>32}")).expect("it is there");
    let (which, other) = (find("3002"), find("4000"));
    let mut answer = request(&joined, which, Algorithm::default());
    let path = answer.path.as_mut().expect("a path");
    (path.blocked_by, path.blocked_by_missing) = (Vec::new(), Vec::new());
    path.called = called
        .iter()
        .map(|&(depth, total_ns)| CalledRequest { request: other, caller: which, depth, total_ns })
        .collect();
    let text = request_text(&answer, Source::Read(" a.rec"), "", Layout::PLAIN);
    let sentence = text.lines().take_while(|line| !line.starts_with("20")).collect::<Vec<_>>().join(" ");
    let rows = text.lines().skip_while(|line| !line.ends_with("requests that it called, inferred"));
    (sentence, rows.skip(1).take_while(|line| !line.is_empty()).map(String::from).collect())
}

#[test]
fn the_innermost_called_request_with_more_than_half_of_the_time_stands_in_the_sentence() {
    let end = |called: &[(u32, u64)]| told(called).0.split_once(", for ").map(|(_, end)| end.to_owned());
    assert_eq!(end(&[]), None);
    assert_eq!(end(&[(0, 2517)]), None, "a half");
    assert_eq!(end(&[(0, 2518)]).as_deref(), Some("bank POST /pay (2.52 µs, 50%, inferred)"));
    // The innermost first, then the longest.
    assert_eq!(end(&[(0, 4000), (1, 3000)]).as_deref(), Some("bank POST /pay (3.00 µs, 60%, inferred)"));
    assert_eq!(end(&[(0, 4000), (1, 2000)]).as_deref(), Some("bank POST /pay (4.00 µs, 79%, inferred)"));
    for called in [[(0, 3000), (0, 4000)], [(0, 4000), (0, 3000)]] {
        assert_eq!(end(&called).as_deref(), Some("bank POST /pay (4.00 µs, 79%, inferred)"));
    }
}

#[test]
fn called_requests_with_a_hundredth_of_the_time_have_rows_and_the_thirteenth_is_counted_elsewhere() {
    assert!(told(&[]).1.is_empty() && told(&[(0, 49)]).1.is_empty());
    let (_, rows) = told(&[(0, 50), (1, 49)]);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows[0].starts_with("  1.0%    50 ns  bank POST /pay, request "), "{rows:?}");
    let (_, rows) = told(&[(0, 3000), (1, 2000)]);
    let by: Vec<_> = rows.iter().map(|row| row.contains(", called by ")).collect();
    assert_eq!(by, [false, true], "{rows:?}");
    for (count, rest) in [(12, false), (13, true)] {
        let (_, rows) = told(&vec![(0, 100); count]);
        assert_eq!(rows.iter().filter(|row| row.contains(" 100 ns ")).count(), 12, "{rows:?}");
        assert_eq!(rows.iter().any(|row| row.contains("other requests: --json has all")), rest, "{rows:?}");
    }
}
