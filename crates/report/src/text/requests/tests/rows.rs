//! The rows of a request, and its lines behind them.

use wakepath_critical_path::WaitId;
use wakepath_engine::Algorithm;
use wakepath_engine::requests::{self as engine, BlockedBy, BlockingRequest, DiskAccesses, OwnTime};
use wakepath_engine::requests::{RequestAnswer, find_request, join, request};
use wakepath_event::HostIndex;

use super::super::{request as request_text, requests as requests_text};
use super::{in_a_row, operations};
use crate::sample::requests::recorded;
use crate::screen::Layout;
use crate::text::Source;

#[test]
fn the_host_is_named_with_a_time_that_its_recording_covers() {
    let traced = operations(3);
    let mut recorded = recorded();
    recorded.host.name = "web3".into();
    let mut answer =
        engine::requests(&recorded, &traced, &engine::RequestsQuery::default()).expect("requests");
    // With requests at another time alone, the time is that of any host.
    for (outside, is_named) in [(0, true), (2, true), (3, false)] {
        answer.outside = outside;
        let text = requests_text(&answer, Source::Read(" a.rec"), Layout::PLAIN);
        let when = text.lines().nth(1).expect("the second line");
        assert_eq!(when.ends_with(" on web3"), is_named, "{outside}: {when}");
    }
    let joined = join(&recorded, &traced).expect("a clock");
    let which = find_request(&traced, "0000000000000001").expect("it is there");
    let mut answer = request(&joined, which, Algorithm::default());
    assert!(answer.path.is_err(), "no thread is known");
    for is_outside in [false, true] {
        answer.is_outside = is_outside;
        let text = request_text(&answer, Source::Read(" a.rec"), "", Layout::PLAIN);
        assert_eq!(text.contains(" on web3"), !is_outside, "{text}");
    }
}

#[test]
fn several_blocking_requests_or_one_through_another_have_rows_and_the_thirteenth_shares_one() {
    let (recorded, traced) = (recorded(), crate::sample::requests::traced());
    let joined = join(&recorded, &traced).expect("a clock");
    let which = find_request(&traced, &format!("{:0>32}", "3003")).expect("it is there");
    let mut answer = request(&joined, which, Algorithm::default());
    let other = find_request(&traced, &format!("{:0>32}", "4000")).expect("it is there");
    let mut rows = |times: &[u64], through: Vec<(BlockingRequest, u64)>| {
        let blocked =
            |total_ns: &u64| BlockedBy { request: other, total_ns: *total_ns, through: through.clone() };
        let path = answer.path.as_mut().expect("a path");
        (path.blocked_by, path.blocked_by_missing) = (times.iter().map(blocked).collect(), Vec::new());
        let text = request_text(&answer, Source::Read(" a.rec"), "", Layout::PLAIN);
        let rows = text.lines().skip_while(|line| !line.ends_with("blocked by other requests, inferred"));
        rows.skip(1).take_while(|line| !line.is_empty()).map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(rows(&[700], vec![]), Vec::<String>::new(), "the sentence says it");
    let through = rows(&[700], vec![(BlockingRequest::Request(other), 700)]);
    assert_eq!(through.len(), 2, "{through:?}");
    let below = format!("{}it held back bank POST /pay", " ".repeat(17));
    assert!(through[1].starts_with(&below), "{through:?}");
    assert_eq!(rows(&[700, 600], vec![]).len(), 2);
    let is_rest = |row: &&String| row.ends_with("other requests: --json has all");
    for (count, rest) in [(12, None), (13, Some("100 ns")), (14, Some("200 ns"))] {
        let rows = rows(&vec![100; count], vec![]);
        assert_eq!(rows.iter().filter(|row| !is_rest(row)).count(), 12, "{rows:?}");
        let shared = rows.iter().find(is_rest);
        assert_eq!(shared.is_some(), rest.is_some(), "{count}: {rows:?}");
        assert!(shared.is_none_or(|row| rest.is_some_and(|rest| row.contains(rest))), "{shared:?}");
    }
}

#[test]
fn a_blocking_request_that_asked_for_collections_is_said_to_have_from_half_of_the_time_on() {
    let (recorded, traced) = (recorded(), crate::sample::requests::traced());
    let joined = join(&recorded, &traced).expect("a clock");
    let which = find_request(&traced, &format!("{:0>32}", "3002")).expect("it is there");
    let mut answer = request(&joined, which, Algorithm::default());
    let first = answer.path.as_ref().expect("a path").blocked_by[0].clone();
    let mut told = |collections: &[u32], total_ns| {
        let path = answer.path.as_mut().expect("a path");
        path.blocked_by = vec![BlockedBy { total_ns, ..first.clone() }];
        path.blocked_by_missing = Vec::new();
        let stacks = std::mem::take(&mut path.answer.stacks);
        path.answer.stacks = stacks.with_collections(collections.iter().map(|id| WaitId(*id)));
        let (_, ns) = path.collections_by(first.request);
        let text = request_text(&answer, Source::Read(" a.rec"), "", Layout::PLAIN);
        let sentence = text.split("\n\n").next().expect("a sentence").replace('\n', " ");
        (sentence.split_once(", inferred)").map(|(_, end)| end.to_owned()), ns)
    };
    let said = Some(String::from(", in a garbage collection that it asked for"));
    let (nothing, none) = told(&[], first.total_ns);
    assert_eq!((nothing.as_deref(), none), (Some(""), 0));
    let (end, ns) = told(&[0], first.total_ns);
    assert_eq!(end, said);
    assert_eq!(told(&[0], 2 * ns).0, said);
    assert_eq!(told(&[0], 2 * ns + 2).0.as_deref(), Some(""));
}

#[test]
fn disks_are_mentioned_only_where_something_was_sent_to_them() {
    let (recorded, traced) = (recorded(), crate::sample::requests::traced());
    let joined = join(&recorded, &traced).expect("a clock");
    let which = find_request(&traced, &format!("{:0>32}", "3003")).expect("it is there");
    let mut answer = request(&joined, which, Algorithm::default());
    let disk = |count| DiskAccesses { count, open: 0, bytes: 4096 * count, total_ns: 300 * count };
    for (disk, is_said) in [(None, false), (Some(disk(0)), false), (Some(disk(1)), true)] {
        answer.path.as_mut().expect("a path").disk = disk;
        let text = request_text(&answer, Source::Read(" a.rec"), "", Layout::PLAIN);
        assert_eq!(text.contains("its threads sent 1 request of 4.00 KiB to disks"), is_said, "{text}");
        assert_eq!(text.contains("its threads sent"), is_said, "{text}");
    }
}

#[test]
fn a_rows_host_is_said_to_be_unrecorded_where_its_longest_span_has_none() {
    let (recorded, traced) = (recorded(), in_a_row(2));
    let joined = join(&recorded, &traced).expect("a clock");
    let which = find_request(&traced, "0000000000000001").expect("it is there");
    let mut answer = request(&joined, which, Algorithm::default());
    for part in &mut answer.by_span {
        part.host = Some(HostIndex::default());
    }
    let unrecorded = |answer: &RequestAnswer| {
        let text = request_text(answer, Source::Read(" a.rec"), "", Layout::PLAIN);
        let rows = text.lines().filter(|line| line.contains("inferred, its host not recorded"));
        rows.map(|row| row.contains("part 2")).collect::<Vec<_>>()
    };
    assert_eq!(unrecorded(&answer), Vec::<bool>::new());
    let is_longest =
        |own: &OwnTime| traced.spans.operations[own.operation.0 as usize].name.ends_with("part 2");
    let longest = answer.own.iter().copied().find(is_longest).expect("its row").longest;
    answer.by_span.iter_mut().find(|part| part.span == longest).expect("its part").host = None;
    assert_eq!(unrecorded(&answer), [true]);
}
