//! Slow spans in messages: the slow spans, their rule, and the spans that they are compared with.

use super::*;

const MS: u64 = 1_000_000;
/// The beginning of these tests' spans, ns since 1970.
const FROM: u64 = 1_764_000_000_000_000_000;

/// A span in a message.
#[derive(Clone, Copy)]
pub(in crate::flight) struct Made {
    pub name: &'static str,
    /// The number of its OTLP kind: 1 internal, 2 server, 3 client, 4 producer, 5 consumer.
    pub kind: u64,
    pub has_parent: bool,
    pub from: u64,
    pub length_ns: u64,
}

impl Default for Made {
    fn default() -> Self {
        Self { name: "GET /cart", kind: 2, has_parent: false, from: FROM, length_ns: MS }
    }
}

/// An OTLP message with a service's spans, in protobuf (`opentelemetry/proto/trace/v1/trace.proto`).
pub(in crate::flight) fn message(service: &str, spans: &[Made]) -> Vec<u8> {
    let attribute = [bytes_of(1, b"service.name"), bytes_of(2, &bytes_of(1, service.as_bytes()))].concat();
    let resource = bytes_of(1, &bytes_of(1, &attribute));
    let of_scope: Vec<u8> = (1_u64..)
        .zip(spans)
        .flat_map(|(number, span)| {
            let parent = if span.has_parent { bytes_of(4, &[9; 8]) } else { Vec::new() };
            let fields = [
                bytes_of(1, &[7; 16]),
                bytes_of(2, &number.to_be_bytes()),
                parent,
                bytes_of(5, span.name.as_bytes()),
                [varint(6 << 3), varint(span.kind)].concat(),
                fixed(7, span.from),
                fixed(8, span.from + span.length_ns),
            ];
            bytes_of(2, &fields.concat())
        })
        .collect();
    bytes_of(1, &[resource, bytes_of(2, &of_scope)].concat())
}

/// A field with bytes.
fn bytes_of(field: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// A field with an 8-byte number.
fn fixed(field: u64, number: u64) -> Vec<u8> {
    [varint(field << 3 | 1), number.to_le_bytes().to_vec()].concat()
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// `SlowSpans` with these thresholds.
fn with(thresholds: &[&str], outliers: bool) -> SlowSpans {
    let read = |text: &&str| text.parse().expect("a threshold");
    SlowSpans::new(thresholds.iter().map(read).collect(), outliers)
}

#[test]
fn a_span_beyond_the_threshold_of_its_operation_is_slow() {
    let span = |name, length_ns| Made { name, length_ns, ..Made::default() };
    let earlier = |name, length_ns| Made { from: FROM - MS, ..span(name, length_ns) };
    // The thresholds, the service `shop`'s spans, and the slow span's operation and rule.
    for (thresholds, spans, slow) in [
        (&["shop/GET /cart>500ms"][..], &[span("GET /cart", 500 * MS)][..], None),
        (&["shop/GET /cart>500ms"], &[span("GET /cart", 500 * MS + 1)], Some((0, "500.0 ms"))),
        (&["shop/GET /cart>500ms"], &[span("GET /cart/7", 900 * MS)], None),
        (&["shop/GET /cart*>500ms"], &[span("GET /cart/7", 900 * MS)], Some((0, "500.0 ms"))),
        (&["shop/GET*>500ms"], &[span("POST", 900 * MS)], None),
        (&["bank/*>500ms"], &[span("GET /cart", 900 * MS)], None),
        (&["shop/*>2s", "*/*>500us"], &[span("GET /cart", 900 * MS)], Some((0, "500.0 µs"))),
        (&["*/*>0.1s", "shop/*>0.2s"], &[span("GET /cart", 900 * MS)], Some((0, "100.0 ms"))),
        (&["*/*>1ms"], &[], None),
        // The longest, and the first of equals.
        (&["*/*>1ms"], &[span("a", 3 * MS), span("b", 5 * MS), span("c", 4 * MS)], Some((1, "1.0 ms"))),
        (&["*/*>1ms"], &[span("a", 5 * MS), span("b", 5 * MS)], Some((0, "1.0 ms"))),
        (&["*/*>1ms"], &[earlier("a", 3 * MS), span("b", 5 * MS)], Some((1, "1.0 ms"))),
        (&["*/*>1ms"], &[span("a", 5 * MS), earlier("b", 3 * MS)], Some((0, "1.0 ms"))),
        (&["*/*>1min"], &[span("a", 61_000 * MS)], Some((0, "60.00 s"))),
        (&[], &[span("GET /cart", 900 * MS)], None),
    ] {
        let found = with(thresholds, false).in_message(&message("shop", spans));
        let expected = slow.map(|(place, limit): (usize, &str)| SlowSpan {
            word: "span",
            text: format!(
                "shop/{} took {}, more than {limit} (trace {})",
                spans[place].name,
                shown(spans[place].length_ns),
                "07".repeat(16)
            ),
            from_realtime_ns: FROM,
            length_ns: spans[place].length_ns,
        });
        assert_eq!(found, expected, "{thresholds:?}");
    }
}

#[test]
fn a_threshold_counts_for_spans_of_every_kind() {
    for kind in 0..=5 {
        for has_parent in [false, true] {
            let span = Made { kind, has_parent, length_ns: 3 * MS, ..Made::default() };
            let found = with(&["*/*>2ms"], true).in_message(&message("shop", &[span]));
            assert_eq!(found.map(|slow| slow.word), Some("span"), "kind {kind}, parent: {has_parent}");
        }
    }
}

#[test]
fn outliers_are_requests_among_the_requests_of_their_operation_alone() {
    // The kind's number, whether the span has a parent, and whether it is a request.
    for (kind, has_parent, is_request) in [
        (0, false, true),
        (0, true, false),
        (1, false, true),
        (1, true, false),
        (2, false, true),
        (2, true, true),
        (3, false, true),
        (3, true, false),
        (4, false, true),
        (4, true, false),
        (5, false, true),
        (5, true, true),
    ] {
        let usual = [Made::default(); MIN_REQUESTS as usize];
        let span = Made { kind, has_parent, length_ns: 100 * MS, ..Made::default() };
        let mut slow = with(&[], true);
        assert_eq!(slow.in_message(&message("shop", &usual[1..])), None);
        assert_eq!(slow.in_message(&message("shop", &[span])), None, "too few to compare with");
        // Whether the span counted: then there are enough spans.
        let again = slow.in_message(&message("shop", &[Made { length_ns: 100 * MS, ..Made::default() }]));
        assert_eq!(again.is_some(), is_request, "kind {kind}, parent: {has_parent}");
        let mut slow = with(&[], true);
        slow.in_message(&message("shop", &usual));
        let found = slow.in_message(&message("shop", &[span]));
        let word = is_request.then_some("outlier");
        assert_eq!(found.as_ref().map(|slow| slow.word), word, "kind {kind}, parent: {has_parent}");
        if let Some(found) = found {
            assert!(
                found.text.starts_with("shop/GET /cart took 100.0 ms, 99 of 100 before it no more than 1.")
            );
        }
        // Other operations, and other services' operations, have their own lengths.
        for (service, name) in [("bank", "GET /cart"), ("shop", "POST /cart")] {
            assert_eq!(
                slow.in_message(&message(service, &[Made { name, ..span }])),
                None,
                "{service}/{name}"
            );
        }
    }
}

#[test]
fn every_span_of_a_message_counts_among_the_lengths() {
    let mut slow = with(&["*/*>50ms"], true);
    // Slow spans too, by whichever rule.
    let lengths = [60 * MS; MIN_REQUESTS as usize].map(|length_ns| Made { length_ns, ..Made::default() });
    assert!(slow.in_message(&message("shop", &lengths)).is_some());
    let span = Made { length_ns: 10 * MS, ..Made::default() };
    assert_eq!(slow.in_message(&message("shop", &[span])), None);
    let mut slow = with(&[], true);
    slow.in_message(&message("shop", &[Made::default(); MIN_REQUESTS as usize]));
    let long = Made { length_ns: 100 * MS, ..Made::default() };
    // After these, 99 of 100 are no longer short.
    slow.in_message(&message("shop", &[long; 3]));
    assert_eq!(slow.in_message(&message("shop", &[long])), None);
}

#[test]
fn no_more_operations_are_looked_at_than_the_limit_and_the_known_ones_stay() {
    let name = |number: usize| -> &'static str { Box::leak(format!("GET /{number}").into_boxed_str()) };
    let spans: Vec<_> =
        (0..MAX_OPERATIONS + 1).map(|number| Made { name: name(number), ..Made::default() }).collect();
    let mut slow = with(&[], true);
    assert_eq!(slow.in_message(&message("shop", &spans)), None);
    for (place, is_known) in [(0, true), (MAX_OPERATIONS - 1, true), (MAX_OPERATIONS, false)] {
        slow.in_message(&message("shop", &[spans[place]; MIN_REQUESTS as usize]));
        let found = slow.in_message(&message("shop", &[Made { length_ns: 100 * MS, ..spans[place] }]));
        assert_eq!(found.is_some(), is_known, "operation {place}");
    }
}

#[test]
fn spans_before_damage_count_and_other_bytes_have_none() {
    let mut bytes = message("shop", &[Made { length_ns: 5 * MS, ..Made::default() }]);
    let whole = bytes.len();
    // Another resource's spans, which are invalid.
    bytes.extend(bytes_of(1, &[0x0f, 1, 2]));
    assert!(with(&["*/*>1ms"], false).in_message(&bytes).is_some(), "damage behind a span");
    for cut in [0, 1, whole / 2] {
        assert_eq!(with(&["*/*>1ms"], false).in_message(&bytes[..cut]), None, "{cut} bytes");
    }
    assert_eq!(with(&["*/*>1ms"], false).in_message(b"GET / HTTP/1.1"), None);
}

#[test]
fn lengths_are_shown_in_the_unit_that_fits() {
    for (ns, text) in [
        (1, "0.0 µs"),
        (999_940, "999.9 µs"),
        (MS, "1.0 ms"),
        (999_940_000, "999.9 ms"),
        (1_000 * MS, "1.00 s"),
        (61_500 * MS, "61.50 s"),
    ] {
        assert_eq!(shown(ns), text);
    }
}

#[test]
fn the_usual_length_is_the_end_of_the_bucket_in_which_the_99th_of_100_is() {
    // The numbers of short and long requests, and whether the usual length is short; `None`: there are too few.
    for (short, long, is_short) in [
        (MIN_REQUESTS - 1, 0, None),
        (MIN_REQUESTS, 0, Some(true)),
        (198, 2, Some(true)),
        (197, 3, Some(false)),
        (990, 10, Some(true)),
        (989, 11, Some(false)),
    ] {
        let mut lengths = Lengths::default();
        (0..short).for_each(|_| _ = lengths.add(MS));
        (0..long).for_each(|_| _ = lengths.add(16 * MS));
        let expected = is_short.map(|is_short| bucket_end(bucket(if is_short { MS } else { 16 * MS })));
        assert_eq!(lengths.usual(), expected, "{short} and {long}");
    }
}

#[test]
fn buckets_are_four_for_each_power_of_two() {
    for (ns, number, end) in [
        (0, 8, 5),
        (4, 8, 5),
        (5, 9, 6),
        (7, 11, 8),
        (8, 12, 10),
        (9, 12, 10),
        (10, 13, 12),
        (1 << 20, 80, 5 << 18),
        (u64::MAX, 255, u64::MAX),
    ] {
        assert_eq!((bucket(ns), bucket_end(bucket(ns))), (number, end), "{ns}");
    }
}

#[test]
fn a_threshold_is_read_from_its_ends() {
    let read = |text: &str| text.parse::<SpanThreshold>().map(|it| (it.service, it.operation, it.limit_ns));
    let own = |a: &str, b: &str, ns| Ok((a.to_owned(), b.to_owned(), ns));
    assert_eq!(read("shop/GET /cart>500ms"), own("shop", "GET /cart", 500_000_000));
    assert_eq!(read("shop/a>b>2"), own("shop", "a>b", 2_000_000_000));
    assert_eq!(read("*/* > 1.5s"), own("*", "*", 1_500_000_000));
    for text in ["", "shop", "shop/a", "shop>1s", "/a>1s", "shop/>1s", "shop/a>", "shop/a>xs"] {
        assert_eq!(read(text), Err(NotAThreshold), "{text}");
    }
    assert_eq!(read("shop/a>0.000000001"), own("shop", "a", 1));
    for time in ["0", "0.0000000001s", "-1s", "1e400", "-1e400", "inf", "nan", "1e400ms"] {
        assert_eq!(read(&format!("shop/a>{time}")), Err(NotAThreshold), "{time}");
    }
}

#[test]
fn an_outlier_is_far_beyond_what_99_of_100_before_it_took() {
    let mut lengths = Lengths::default();
    for number in 0..MIN_REQUESTS {
        // The first requests are no outliers, however long.
        assert_eq!(lengths.add(1_000_000 + number), None);
    }
    assert_eq!(lengths.add(4_000_000), None);
    let limit = lengths.usual().expect("enough requests") * TIMES;
    assert_eq!(lengths.add(limit), None);
    let usual = lengths.add(limit + 1).expect("an outlier");
    assert_eq!(usual * TIMES, limit);
    assert!((1_000_000..1_400_000).contains(&usual), "{usual}");
    // Where many take long, that is usual.
    for _ in 0..10 {
        lengths.add(6_000_000);
    }
    assert_eq!(lengths.add(6_000_000), None);
}

#[test]
fn lengths_of_long_ago_count_less() {
    let mut lengths = Lengths::default();
    for number in 1..=3 * MAX_REQUESTS {
        lengths.add(1_000);
        assert!(lengths.count <= MAX_REQUESTS, "{}", lengths.count);
        // Half of them stay.
        assert!(lengths.count > (number / 2).min(MAX_REQUESTS / 2), "{} after {number}", lengths.count);
    }
    assert_eq!(lengths.count, lengths.counts.iter().map(|&count| u64::from(count)).sum::<u64>());
    assert!(lengths.count > MAX_REQUESTS / 2, "{}", lengths.count);
    assert!(lengths.add(1_000_000).is_some());
}

#[test]
fn a_bucket_ends_behind_its_lengths() {
    for ns in [0, 4, 5, 7, 8, 1_000, 1_250_000, u64::MAX / 2, u64::MAX] {
        assert!(bucket(ns) < 256 && bucket_end(bucket(ns)) >= ns, "{ns}");
    }
}
