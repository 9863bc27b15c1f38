//! The words about a request: the sentence, the rows, and the requests by which it was blocked.

mod rows;

use wakepath_engine::Algorithm;
use wakepath_engine::requests::{self as engine, Traced, find_request, join, read_spans, request};

use super::*;
use crate::sample::requests::{REALTIME, recorded};

/// The sentence on a request of 1000 ns with spans of these names and lengths in a row; the rest is its own time.
fn sentence(parts: &[(&str, u64)]) -> String {
    let span = |id: usize, parent: &str, name: &str, from: u64, to: u64| {
        format!(
            r#"{{"traceId": "7777", "spanId": "{id}", "parentSpanId": "{parent}", "name": "{name}", "kind": 1,
            "startTimeUnixNano": {}, "endTimeUnixNano": {}}}"#,
            REALTIME + 2000 + from,
            REALTIME + 2000 + to
        )
    };
    let mut spans = vec![span(1, "", "GET", 0, 1000)];
    let mut at = 0;
    for (place, (name, length)) in parts.iter().enumerate() {
        spans.push(span(place + 2, "1", name, at, at + length));
        at += length;
    }
    let file = format!(r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{}]}}]}}]}}"#, spans.join(","));
    let (spans, dropped) = read_spans(&file.into()).expect("spans");
    let (recorded, traced) = (recorded(), Traced::new(spans, dropped));
    let joined = join(&recorded, &traced).expect("a clock");
    let answer = request(
        &joined,
        find_request(&traced, &format!("{:0>32}", "7777")).expect("one"),
        Algorithm::default(),
    );
    request_sentence(&answer).into_plain()
}

#[test]
fn a_span_of_more_than_half_is_most_of_a_request_and_a_smaller_one_is_its_largest_part() {
    for (parts, expected) in [
        (&[("A", 501), ("B", 499)][..], "mostly in (no service name) A (50%, inferred)"),
        (&[("A", 500), ("B", 499)], "the largest part: in (no service name) A (50%, inferred)"),
        (&[("A", 330), ("B", 340), ("C", 320)], "the largest part: in (no service name) B (34%, inferred)"),
        (&[("A", 100)], "mostly in (no service name) GET (90%, inferred)"),
        (&[], "mostly in (no service name) GET (100%, inferred)"),
    ] {
        let sentence = sentence(parts);
        let begin = "(no service name) GET took 1.00 µs";
        let rest = sentence.strip_prefix(begin).expect(begin).trim_start_matches([':', ',']).trim_start();
        assert_eq!(rest, expected, "{sentence}");
    }
}

/// Spans in a trace by their number, parent and name, each 100 ns long, in a row.
pub(super) fn chain(spans: &[(u64, Option<u64>, &str)]) -> Traced {
    let span = |(place, &(id, parent, name)): (usize, &(u64, Option<u64>, &str))| {
        let from = REALTIME + 2000 + 100 * place as u64;
        let parent = parent.map_or(String::new(), |parent| format!("{parent:016x}"));
        let length = if parent.is_empty() { 100 * spans.len() as u64 } else { 100 };
        format!(
            r#"{{"traceId": "{:032x}", "spanId": "{id:016x}", "parentSpanId": "{parent}", "name": "{name}",
            "startTimeUnixNano": {from}, "endTimeUnixNano": {}}}"#,
            if parent.is_empty() { id } else { spans[0].0 },
            from + length
        )
    };
    let spans: Vec<_> = spans.iter().enumerate().map(span).collect();
    let file = format!(r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{}]}}]}}]}}"#, spans.join(","));
    let (spans, dropped) = read_spans(&file.into()).expect("spans");
    Traced::new(spans, dropped)
}

/// Operations with these numbers' names, each with a single request.
pub(super) fn operations(count: u64) -> Traced {
    let names: Vec<_> = (1..=count).map(|id| format!("GET /{id}")).collect();
    let spans: Vec<_> = (1..).zip(&names).map(|(id, name)| (id, None, name.as_str())).collect();
    chain(&spans)
}

#[test]
fn operations_beyond_twelve_are_counted_and_the_five_longest_requests_are_listed() {
    for (count, more) in [
        (12, None),
        (13, Some("and 1 other operation: --json has all")),
        (15, Some("and 3 other operations: --json has all")),
    ] {
        let traced = operations(count);
        let answer = engine::requests_alone(&traced, &engine::RequestsQuery::default()).expect("requests");
        let text = requests_alone(&answer, " spans.json", Layout::PLAIN);
        assert_eq!(text.lines().find(|line| line.starts_with("and ")), more, "{text}");
        let rows = text.lines().filter(|line| line.starts_with("      1 ")).count();
        assert_eq!(rows, 12, "{text}");
        let longest = text.lines().skip_while(|line| !line.contains("longest")).skip(1);
        assert_eq!(longest.take_while(|line| !line.is_empty()).count(), 5, "{text}");
        // The first began first and ended last.
        let next = "next: wakepath requests spans.json --request 0000000000000001";
        assert!(text.contains(next), "{text}");
    }
}

/// A request whose end waits for `count` spans with different operations in a row, 100 ns each; its own time is none.
fn in_a_row(count: u64) -> Traced {
    let names: Vec<_> = (2..2 + count).map(|id| format!("part {id}")).collect();
    let root = [(1, None, "GET")];
    let parts = (2..).zip(&names).map(|(id, name)| (id, Some(1), name.as_str()));
    chain(&root.into_iter().chain(parts).collect::<Vec<_>>())
}

#[test]
fn spans_beyond_the_first_twelve_operations_share_a_row() {
    // With the root's own 100 ns, the request has a part more.
    for (count, share_and_time) in [(11, None), (12, Some(" 7.7%   100 ns")), (14, Some("20.0%   300 ns"))] {
        let traced = in_a_row(count);
        let request_index = find_request(&traced, "0000000000000001").expect("it is there");
        let alone = request_alone(&traced, request_index, Layout::PLAIN);
        let row = |text: &str| text.lines().find(|line| line.contains("other spans")).map(String::from);
        let expected = share_and_time.map(|row| format!(" {row}  other spans"));
        assert_eq!(row(&alone), expected, "{alone}");
        let (recorded, joined_to) = (recorded(), &traced);
        let joined = join(&recorded, joined_to).expect("a clock");
        let answer = request(&joined, request_index, Algorithm::default());
        let text = super::request(&answer, Source::Read(" a.rec"), " a.rec s.json", Layout::PLAIN);
        assert_eq!(row(&text), expected.map(|row| row + ": --json has all"), "{text}");
    }
}

#[test]
fn a_request_without_a_path_leads_on_to_what_can_be_done() {
    let (recorded, traced) = (recorded(), crate::sample::requests::traced());
    let joined = join(&recorded, &traced).expect("a clock");
    let which = find_request(&traced, &format!("{:0>32}", "5001")).expect("it is there");
    let mut answer = request(&joined, which, Algorithm::default());
    let part = find_request(&traced, &format!("{:0>32}", "3003")).expect("it is there");
    for (next, expected) in [
        (Next::Part(part), "wakepath requests a.rec s.json --request 0000000000003003"),
        (Next::Process(10), "wakepath path a.rec --pid 10 --from 0.000059 --to 0.000064002"),
        (Next::Times, "wakepath info a.rec"),
        (Next::RecordHost, "record its host too, and give both recordings: docs/requests.md says how"),
        (Next::RecordAll, "sudo wakepath record --otlp -a"),
        (Next::RecordGoroutines, "sudo wakepath record --otlp -a --goroutines=all"),
        (Next::Thread, "write the thread on each span, as wakepath.tid: docs/requests.md says how"),
    ] {
        answer.next = next;
        let text = super::request(&answer, Source::Read(" a.rec"), " a.rec s.json", Layout::PLAIN);
        assert!(text.ends_with(&format!("next: {expected}\n")), "{expected}: {text}");
    }
    let reason = |answer: &RequestAnswer| {
        let text = super::request(answer, Source::Read(""), "", Layout::PLAIN).replace('\n', " ");
        let from = text.find("warning: 3 spans").expect("the last warning");
        text[from..].contains("no recording covers it, since its spans are from another time")
    };
    for (is_outside, why, covered) in [
        (false, NoPath::NoThread, true),
        (true, NoPath::NoThread, false),
        // The times on a host that was not recorded say nothing.
        (true, NoPath::OtherHost, true),
        (false, NoPath::OtherHost, true),
    ] {
        answer.is_outside = is_outside;
        answer.path = Err(why);
        assert_eq!(reason(&answer), !covered, "{is_outside} {why:?}");
    }
}

#[test]
fn disk_requests_that_have_not_ended_are_counted_apart() {
    let disk = DiskAccesses { count: 3, open: 0, bytes: 24_576, total_ns: 1_200_000 };
    let ended = "its threads sent 3 requests of 24.0 KiB to disks, which took 1.20 ms";
    assert_eq!(disk_accesses(&disk), ended);
    assert_eq!(disk_accesses(&DiskAccesses { open: 1, ..disk }), format!("{ended}; 1 had not ended"));
}

#[test]
fn the_states_of_a_request_have_their_share_and_their_certainty_unless_they_are_measured() {
    use wakepath_critical_path::SegmentKind;
    use wakepath_findings::BasisMix;
    let measured = BasisMix { measured: 500, ..BasisMix::default() };
    let inferred = BasisMix { inferred: 300, ..BasisMix::default() };
    let sum = |state, total_ns, basis| StateSum { state, total_ns, basis };
    let sums = [
        sum(RequestState::Kind(SegmentKind::Running), 500, measured),
        sum(RequestState::Blocked, 300, inferred),
        sum(RequestState::Kind(SegmentKind::Lock), 200, BasisMix { ambiguous: 200, ..BasisMix::default() }),
    ];
    assert_eq!(
        states(&sums, 1000),
        "in all: 50.0% running, 30.0% blocked by other requests (inferred), 20.0% waiting for a lock (ambiguous)"
    );
}

#[test]
fn a_blocking_request_without_spans_is_named_by_what_its_threads_say() {
    let traced = operations(1);
    let trace = engine::TraceId([0xcc; 16]);
    let service = |name: &str, instance: Option<&str>| SaidService {
        name: name.into(),
        instance: instance.map(wakepath_loaded::Name::from),
    };
    let attribute =
        |name: &str, value: &str, is_cut| SaidAttribute { name: name.into(), value: value.into(), is_cut };
    let words = |sampled, services: Vec<SaidService>, attributes: Vec<SaidAttribute>| {
        let (services, attributes) = (services.into_iter().collect(), attributes.into_iter().collect());
        let blocked = engine::BlockedByMissing { trace, sampled, services, attributes, total_ns: 70 };
        let line = BlockedLine::new(&Blocking::Missing(&blocked), &traced, None);
        assert_eq!((line.ns, line.through), (70, None));
        line.other
    };
    let id = "cc".repeat(16);
    assert_eq!(words(false, vec![], vec![]), format!("request {id}, not sampled"));
    assert_eq!(words(true, vec![], vec![]), format!("request {id}, whose spans did not come"));
    let services = vec![service("bank", Some("7")), service("depot", None)];
    let attributes = vec![attribute("db.system", "post\x1b", true), attribute("http.route", "/pay", false)];
    assert_eq!(
        words(false, services, attributes),
        format!(
            r"bank (instance 7) and depot, request {id} with db.system post\x1b…, http.route /pay, not sampled"
        )
    );
}

#[test]
fn the_request_held_back_longest_is_named_and_the_others_are_counted() {
    let traced = operations(3);
    let ids = ["1", "2", "3"].map(|id| find_request(&traced, &format!("{id:0>32}")).expect("it is there"));
    let trace = engine::TraceId([0xcc; 16]);
    let [first, second] = [ids[1], ids[2]].map(BlockingRequest::Request);
    let missing = BlockingRequest::Missing(trace, true);
    let words = |through: &[BlockingRequest]| {
        let through = through.iter().map(|one| (*one, 5)).collect();
        super::through(&BlockedBy { request: ids[0], total_ns: 9, through }, &traced)
    };
    let named = "(no service name) GET /2, request 0000000000000002";
    assert_eq!(words(&[]), None);
    assert_eq!(words(&[first]).as_deref(), Some(named));
    assert_eq!(words(&[first, second, missing]), Some(format!("{named}, and 2 more")));
    assert_eq!(words(&[missing, first]), Some(format!("request {}, and 1 more", "cc".repeat(16))));
}

#[test]
fn requests_within_the_recording_need_no_word_about_another_time() {
    let (recorded, traced) = (recorded(), operations(3));
    let answer = engine::requests(&recorded, &traced, &engine::RequestsQuery::default()).expect("requests");
    let text = super::requests(&answer, Source::Read(" a.rec"), Layout::PLAIN);
    assert!(answer.outside == 0 && !text.contains("no recording covers"), "{text}");
}

#[test]
fn undecided_time_of_an_event_loop_has_a_next_step_from_a_twentieth_on() {
    let languages = [None, Some(Language::Python), Some(Language::Node), Some(Language::Go)];
    for (has_turns, language) in languages.into_iter().flat_map(|it| [(false, it), (true, it)]) {
        assert_eq!(decides(0, 1000, has_turns, language), None);
        assert_eq!(decides(50, 1000, has_turns, language), None);
    }
    let words = languages.map(|language| {
        let [without, with] =
            [false, true].map(|has_turns| decides(51, 1000, has_turns, language).expect("a step"));
        let beginning = without.split(':').next().expect("words").to_owned();
        (beginning, with.contains("WAKEPATH_READY=all"))
    });
    let install = "install the plug-in for its runtime, which notes what its event loop waited for";
    let plugin = |language: &str| format!("wakepath plugin {language}");
    assert_eq!(
        words,
        [(install.into(), true), (plugin("python"), false), (plugin("node"), true), (install.into(), false)]
    );
}
