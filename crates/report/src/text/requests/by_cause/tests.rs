//! The words about requests by cause: the sentence, the rows, and the lines below them.

use expect_test::expect;
use wakepath_critical_path::Responsible;
use wakepath_engine::Algorithm;
use wakepath_engine::requests::{
    self as engine, BlockerOf, Operation, RequestsQuery, Traced, join, requests_by_cause_alone,
};
use wakepath_findings::{BasisMix, RowKey};

use super::super::tests::{chain, operations};
use super::*;
use crate::sample::requests::{recorded, traced};

/// By their spans alone: `explained` of the requests.
fn alone(traced: &Traced, explained: usize) -> ByCauseAnswer<'_> {
    let all = engine::requests_alone(traced, &RequestsQuery::default()).expect("requests");
    requests_by_cause_alone(traced, &all.requests, explained)
}

fn sentence(answer: &ByCauseAnswer<'_>) -> String {
    by_cause_sentence(answer, &answer.groups[0]).into_plain()
}

fn blocked_by(service: &str, name: &str) -> RequestCause {
    RequestCause::Blocked(BlockerOf::Operation(Operation { service: service.into(), name: name.into() }))
}

/// The rows, without the head and the lines behind them.
fn rows(answer: &ByCauseAnswer<'_>) -> String {
    let text = requests_by_cause(answer, "", Layout::PLAIN);
    let rows = text.lines().skip_while(|line| !line.starts_with("requests ")).skip(1);
    rows.take_while(|line| !line.is_empty()).map(|line| line.to_owned() + "\n").collect()
}

/// Requests to `GET` with these lengths in parts of 100 ns.
fn gets(count: u64) -> Traced {
    let spans: Vec<_> = (1..=count).map(|id| (id, None, "GET")).collect();
    chain(&spans)
}

#[test]
fn the_sentence_counts_the_group_among_the_explained_and_these_among_all() {
    for (all, explained, expected) in [
        (1, 5, "1 of 1 request took 100 ns: "),
        (3, 3, "3 of 3 requests took 900 ns in all: "),
        (3, 2, "2 of the 2 slowest of 3 requests took 600 ns in all: "),
        (3, 1, "the slowest of 3 requests took 300 ns: "),
    ] {
        let traced = gets(all);
        let text = sentence(&alone(&traced, explained));
        assert!(text.starts_with(expected), "{all} {explained}: {text}");
        assert!(text.ends_with(", inferred)"), "{text}");
    }
}

#[test]
fn the_sentence_is_that_of_its_cause() {
    let traced = gets(2);
    let mut answer = alone(&traced, 2);
    answer.groups[0].total_ns = 1000;
    let mut words = |cause: RequestCause, cause_ns| {
        (answer.groups[0].cause, answer.groups[0].cause_ns) = (cause, cause_ns);
        sentence(&answer)
    };
    assert_eq!(
        words(blocked_by("bank", "PUT"), 400),
        "2 of 2 requests were blocked by bank PUT, for 400 ns of 1.00 µs (40%, inferred)"
    );
    let operation = OperationIndex(0);
    let by_spans = |is_outside| RequestCause::Spans { operation, is_outside };
    for (cause_ns, expected) in [(500, ", the largest part: "), (501, ": mostly ")] {
        assert_eq!(
            words(by_spans(true), cause_ns),
            format!(
                "2 of 2 requests took 1.00 µs in all{expected}in (no service name) GET ({cause_ns} ns, 50%, inferred)"
            )
        );
    }
    assert_eq!(words(RequestCause::Empty, 0), "2 of 2 requests took 1.00 µs in all");
    let traced = gets(1);
    let mut answer = alone(&traced, 1);
    answer.groups[0].cause = blocked_by("bank", "PUT");
    assert!(sentence(&answer).starts_with("1 of 1 request was blocked by bank PUT, for "));
}

#[test]
fn a_row_has_the_cause_and_below_it_the_operations_and_the_slowest_request() {
    let traced = chain(&[
        (1, None, "A"),
        (2, None, "B"),
        (3, None, "C"),
        (4, None, "D"),
        (5, None, "E"),
        (6, None, "A"),
    ]);
    let mut answer = alone(&traced, 6);
    // All of them in a group.
    let others: Vec<_> = answer.groups.drain(1..).collect();
    for other in others {
        answer.groups[0].requests.extend(other.requests);
        answer.groups[0].operations.extend(other.operations);
        answer.groups[0].total_ns += other.total_ns;
    }
    // A first line without indentation keeps that of the rows.
    expect![[r#"
        rows
               6  1.20 µs   200 ns  in (no service name) A, by spans alone  inferred
                                    33% of 3.60 µs: (no service name) A (2), (no service name) B (1), (no
                                    service name) C (1), 2 other operations (2); the slowest 600 ns, request
                                    0000000000000001
    "#]]
    .assert_eq(&format!("rows\n{}", rows(&answer)));
    answer.groups[0].cause = RequestCause::Spans { operation: OperationIndex(0), is_outside: true };
    let text = rows(&answer);
    assert!(text.contains("A, by spans alone, from another time  inferred\n"), "{text}");
    answer.groups[0].cause = RequestCause::Empty;
    let text = rows(&answer);
    assert!(text.contains("no time\n"), "{text}");
    answer.groups[0].operations.truncate(4);
    let text = rows(&answer);
    assert!(text.contains("1 other operation (1); "), "{text}");
    answer.groups[0].operations.truncate(3);
    let text = rows(&answer);
    assert!(!text.contains("other operation"), "{text}");
}

#[test]
fn groups_beyond_twelve_share_a_row() {
    for (count, rest) in [
        (12, None),
        (13, Some("       1  1.30 µs  1.30 µs  1 other cause: --json has all")),
        (15, Some("       3  4.50 µs  1.50 µs  3 other causes: --json has all")),
    ] {
        let traced = operations(count);
        let text = rows(&alone(&traced, 100));
        assert_eq!(text.lines().filter(|line| line.contains("by spans alone")).count(), 12, "{text}");
        assert_eq!(text.lines().find(|line| line.contains("other cause")), rest, "{text}");
    }
}

#[test]
fn names_cannot_drive_a_terminal() {
    let traced = chain(&[(1, None, "a\\u001b[31m")]);
    let mut answer = alone(&traced, 1);
    for cause in [
        answer.groups[0].cause.clone(),
        blocked_by("b\x1b[2J", "\r"),
        RequestCause::Blocked(BlockerOf::WithoutSpans {
            service: Some(b"c\x1b[2J"[..].into()),
            sampled: false,
        }),
    ] {
        answer.groups[0].cause = cause;
        let text = requests_by_cause(&answer, "", Layout::PLAIN);
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        assert!(text.contains(r"\x1b["), "{text}");
    }
}

#[test]
fn a_paths_cause_has_its_certainty_and_the_operation_that_was_called() {
    let (recorded, traced) = (recorded(), traced());
    let joined = join(&recorded, &traced).expect("a clock");
    let all = engine::requests(&recorded, &traced, &RequestsQuery::default()).expect("requests");
    let mut answer = engine::requests_by_cause(&joined, &all.requests, 24, Algorithm::default(), |_| {});
    let text = rows(&answer);
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    assert_eq!(first(&text), "      15  15.9 µs  1.06 µs  running");
    let operation = answer.traced.operation(answer.groups[1].slowest());
    let place = traced.spans.operations.iter().position(|one| one == operation).expect("it is there");
    let group = &mut answer.groups[0];
    let called = Some(OperationIndex(place as u32));
    (group.cause, group.called_ns) = (RequestCause::Path { key: RowKey::Caller, called }, 12_000);
    assert_eq!(first(&rows(&answer)), "      15  15.9 µs  1.06 µs  running, for shop GET /cart (inferred)");
    assert_eq!(
        sentence(&answer),
        "15 of the 24 slowest of 25 requests took 15.9 µs in all: mostly running (15.9 µs, 100%, measured), \
         for shop GET /cart (12.0 µs, 76%, inferred)"
    );
    for (basis, row, words) in [
        (BasisMix { sampled: 9, ..BasisMix::default() }, "running  sampled", ", 100%, sampled)"),
        (BasisMix { ambiguous: 9, ..BasisMix::default() }, "running  ambiguous", ", 100%, ambiguous)"),
    ] {
        let group = &mut answer.groups[0];
        (group.basis, group.cause) = (basis, RequestCause::Path { key: RowKey::Caller, called: None });
        assert!(rows(&answer).contains(row), "{row}");
        assert!(sentence(&answer).ends_with(words), "{words}");
    }
    // Where nothing is known, nothing has been measured.
    let group = &mut answer.groups[0];
    group.basis = BasisMix { measured: 9, ..BasisMix::default() };
    group.cause = RequestCause::Path { key: RowKey::Unknown(Responsible::Itself), called: None };
    assert!(sentence(&answer).ends_with("mostly unknown (15.9 µs, 100%)"), "{}", sentence(&answer));
}

#[test]
fn the_host_is_named_unless_all_requests_are_from_another_time() {
    let (mut recorded, traced) = (recorded(), traced());
    recorded.host.name = "web3".into();
    let joined = join(&recorded, &traced).expect("a clock");
    let all = engine::requests(&recorded, &traced, &RequestsQuery::default()).expect("requests");
    let outside = &all.requests[all.requests.len() - 1..];
    for (requests, is_named) in [(&all.requests[..], true), (outside, false)] {
        let answer = engine::requests_by_cause(&joined, requests, 100, Algorithm::default(), |_| {});
        let text = requests_by_cause(&answer, "", Layout::PLAIN);
        let when = text.lines().find(|line| line.starts_with("2026-")).expect("a time");
        assert_eq!(when.ends_with(" on web3"), is_named, "{text}");
    }
}

#[test]
fn the_command_behind_many_answers_groups_the_same_requests() {
    assert_eq!(
        next_by_cause(" a.rec --slowest 6", Layout::PLAIN),
        "next: wakepath requests a.rec --slowest 6 --by-cause\n"
    );
}
