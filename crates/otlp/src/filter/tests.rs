//! The kept part of a message; arbitrary bytes do no harm.

use opentelemetry_proto::tonic::common::v1::{ArrayValue, InstrumentationScope, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, TracesData};
use proptest::prelude::*;

use super::*;

const SECRET: &str = "s3cret";

fn value(value: Attribute) -> AnyValue {
    AnyValue { value: Some(value) }
}

fn key_value(key: &str, attribute: Attribute) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value(attribute)), ..KeyValue::default() }
}

fn text(key: &str, text: &str) -> KeyValue {
    key_value(key, Attribute::StringValue(text.to_owned()))
}

fn span() -> Span {
    Span {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        parent_span_id: vec![3; 8],
        name: "GET /cart".to_owned(),
        kind: 2,
        start_time_unix_nano: 1_795_229_921_310_000_000,
        end_time_unix_nano: 1_795_229_921_310_000_009,
        flags: 0x101,
        ..Span::default()
    }
}

fn of(spans: Vec<Span>) -> TracesData {
    let resource = Resource { attributes: vec![text("service.name", "shop")], ..Resource::default() };
    let scope =
        InstrumentationScope { name: "http".to_owned(), version: "2".to_owned(), ..Default::default() };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, schema_url: String::new() }];
    TracesData {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans,
            schema_url: String::new(),
        }],
    }
}

fn kept_by(message: &TracesData, more: &[&str]) -> (Kept, TracesData) {
    let more: Vec<_> = more.iter().map(|&key| key.to_owned()).collect();
    let kept = filter(&message.encode_to_vec(), &AllowList::with(&more)).expect("a message");
    let decoded = TracesData::decode(&kept.message[..]).expect("a message");
    (kept, decoded)
}

#[test]
fn a_message_of_nothing_but_kept_fields_stays_as_it_is() {
    let mut one = span();
    one.attributes = vec![
        text("http.route", "/cart"),
        key_value("http.response.status_code", Attribute::IntValue(-1)),
        key_value("thread.id", Attribute::IntValue(912)),
        key_value("wakepath.on", Attribute::BoolValue(true)),
        key_value("wakepath.share", Attribute::DoubleValue(0.5)),
        key_value(
            "wakepath.list",
            Attribute::ArrayValue(ArrayValue { values: vec![value(Attribute::IntValue(1))] }),
        ),
    ];
    one.links = vec![Link { trace_id: vec![4; 16], span_id: vec![5; 8], flags: 1, ..Link::default() }];
    one.status = Some(Status { message: String::new(), code: 2 });
    (one.dropped_attributes_count, one.dropped_events_count, one.dropped_links_count) = (7, 8, 9);
    let root = Span { parent_span_id: Vec::new(), ..span() };
    let message = of(vec![one, root]);
    let (kept, decoded) = kept_by(&message, &[]);
    assert_eq!(decoded, message);
    assert_eq!((kept.spans, kept.invalid, &kept.services[..]), (2, 0, &["shop".to_owned()][..]));
}

#[test]
fn nothing_else_reaches_the_disk_and_is_counted_where_the_protocol_counts() {
    let mut one = span();
    one.trace_state = SECRET.to_owned();
    one.attributes = vec![text("url.full", SECRET), text("http.method", "GET"), text("db.statement", SECRET)];
    one.dropped_attributes_count = 5;
    one.events = vec![
        Event { name: SECRET.to_owned(), attributes: vec![text("http.method", SECRET)], ..Event::default() },
        Event::default(),
    ];
    one.links = vec![Link {
        trace_id: vec![4; 16],
        span_id: vec![5; 8],
        trace_state: SECRET.to_owned(),
        attributes: vec![text("http.method", SECRET)],
        dropped_attributes_count: 2,
        ..Link::default()
    }];
    one.status = Some(Status { message: SECRET.to_owned(), code: 2 });
    let mut message = of(vec![one]);
    let of_resource = &mut message.resource_spans[0];
    of_resource.schema_url = SECRET.to_owned();
    of_resource.scope_spans[0].schema_url = SECRET.to_owned();
    let scope = of_resource.scope_spans[0].scope.as_mut().expect("a scope");
    scope.attributes = vec![text("http.method", SECRET)];
    let resource = of_resource.resource.as_mut().expect("a resource");
    resource.attributes.push(text("os.user", SECRET));
    resource.dropped_attributes_count = 3;
    let (kept, decoded) = kept_by(&message, &[]);
    let bytes = String::from_utf8_lossy(&kept.message).into_owned();
    assert!(!bytes.contains(SECRET) && bytes.contains("GET /cart"), "{bytes}");
    let resource = decoded.resource_spans[0].resource.as_ref().expect("a resource");
    assert_eq!((resource.attributes.len(), resource.dropped_attributes_count), (1, 4));
    let one = &decoded.resource_spans[0].scope_spans[0].spans[0];
    assert_eq!(one.attributes, [text("http.method", "GET")]);
    assert_eq!((one.dropped_attributes_count, one.dropped_events_count), (7, 2));
    assert_eq!((one.links.len(), one.links[0].dropped_attributes_count), (1, 3));
    assert_eq!(one.status.as_ref().map(|status| status.code), Some(2));
}

#[test]
fn the_list_can_be_widened() {
    let mut one = span();
    one.attributes = vec![text("db.statement", "select"), text("shop.cart", "7")];
    let message = of(vec![one]);
    for (more, kept) in [(&[][..], 0), (&["db.statement"], 1), (&["shop.*"], 1), (&["*"], 2)] {
        let (_, decoded) = kept_by(&message, more);
        let span = &decoded.resource_spans[0].scope_spans[0].spans[0];
        assert_eq!(
            (span.attributes.len(), span.dropped_attributes_count),
            (kept, 2 - kept as u32),
            "{more:?}"
        );
    }
}

#[test]
fn values_that_hold_attributes_or_are_large_are_dropped() {
    let list = || Attribute::KvlistValue(KeyValueList { values: vec![text("password", SECRET)] });
    let array = Attribute::ArrayValue(ArrayValue { values: vec![value(list())] });
    let longest = MAX_ATTRIBUTE_BYTES - "wakepath.x".len() - 3;
    for (attribute, kept) in [
        (list(), false),
        (array, false),
        (Attribute::StringValue("x".repeat(longest)), true),
        (Attribute::StringValue("x".repeat(longest + 1)), false),
        (Attribute::BytesValue(vec![1, 2]), true),
    ] {
        let one = Span { attributes: vec![key_value("wakepath.x", attribute)], ..span() };
        let (_, decoded) = kept_by(&of(vec![one]), &[]);
        let span = &decoded.resource_spans[0].scope_spans[0].spans[0];
        assert_eq!((span.attributes.len(), span.dropped_attributes_count), (kept.into(), (!kept).into()));
    }
}

#[test]
fn a_value_with_attributes_at_any_place_is_dropped_whole() {
    let list = |values| Attribute::KvlistValue(KeyValueList { values });
    let attributes = || list(vec![text("password", SECRET)]);
    let array = |values: Vec<Attribute>| {
        Attribute::ArrayValue(ArrayValue { values: values.into_iter().map(value).collect() })
    };
    let plain = || Attribute::IntValue(7);
    let unset = || Attribute::ArrayValue(ArrayValue { values: vec![AnyValue { value: None }] });
    for (what, attribute, kept) in [
        ("a list behind a plain value", array(vec![plain(), attributes()]), false),
        ("a list between plain values", array(vec![plain(), attributes(), plain()]), false),
        ("a list before plain values", array(vec![attributes(), plain()]), false),
        ("a list behind an array", array(vec![array(vec![plain()]), attributes()]), false),
        (
            "a list in an array behind another one",
            array(vec![array(vec![plain()]), array(vec![attributes()])]),
            false,
        ),
        ("a list in three arrays", array(vec![array(vec![array(vec![plain(), attributes()])])]), false),
        ("a list behind a value that is not set", array(vec![unset(), attributes()]), false),
        ("a list of nothing", list(Vec::new()), false),
        ("a list of nothing in an array", array(vec![plain(), list(Vec::new())]), false),
        ("a list whose only key is on the list", list(vec![text("http.method", "GET")]), false),
        ("an array of nothing", array(Vec::new()), true),
        ("an array of arrays", array(vec![plain(), array(vec![plain(), array(Vec::new())])]), true),
        ("an array with a value that is not set", unset(), true),
    ] {
        let attributes = vec![key_value("wakepath.x", attribute.clone()), text("http.method", "GET")];
        let mut message = of(vec![Span { attributes: attributes.clone(), ..span() }]);
        let resource = message.resource_spans[0].resource.as_mut().expect("a resource");
        resource.attributes = attributes.clone();
        let (bytes, decoded) = kept_by(&message, &["*"]);
        let found = &decoded.resource_spans[0];
        let expected = if kept { &attributes[..] } else { &attributes[1..] };
        let span = &found.scope_spans[0].spans[0];
        assert_eq!(
            (&span.attributes[..], span.dropped_attributes_count),
            (expected, (!kept).into()),
            "{what}"
        );
        let resource = found.resource.as_ref().expect("a resource");
        assert_eq!(
            (&resource.attributes[..], resource.dropped_attributes_count),
            (expected, (!kept).into()),
            "{what}"
        );
        assert!(!String::from_utf8_lossy(&bytes.message).contains(SECRET), "{what}");
    }
}

#[test]
fn spans_without_valid_ids_are_counted_and_left_out() {
    let with = |change: fn(&mut Span)| {
        let mut span = span();
        change(&mut span);
        span
    };
    let invalid = vec![
        with(|span| span.trace_id = vec![1; 15]),
        with(|span| span.trace_id = vec![0; 16]),
        with(|span| span.trace_id.clear()),
        with(|span| span.span_id = vec![1; 9]),
        with(|span| span.span_id = vec![0; 8]),
        with(|span| span.parent_span_id = vec![1; 7]),
    ];
    let count = invalid.len() as u64;
    let (kept, decoded) = kept_by(&of([&invalid[..], &[span()]].concat()), &[]);
    assert_eq!((kept.spans, kept.invalid), (1, count));
    assert_eq!(decoded, of(vec![span()]));
    // Resources and scopes without spans are not written either.
    let mut message = of(invalid.clone());
    message.resource_spans[0].scope_spans.extend(of(vec![span()]).resource_spans.remove(0).scope_spans);
    let (_, decoded) = kept_by(&message, &[]);
    assert_eq!(decoded, of(vec![span()]));
    let (kept, _) = kept_by(&of(invalid), &[]);
    assert_eq!(kept, Kept { invalid: count, ..Kept::default() });
    // A link without both ids points to no span.
    let link = |trace_id: &[u8], span_id: &[u8]| Link {
        trace_id: trace_id.to_vec(),
        span_id: span_id.to_vec(),
        ..Link::default()
    };
    let links = vec![link(&[], &[]), link(&[4; 16], &[]), link(&[], &[5; 8])];
    let (_, decoded) = kept_by(&of(vec![Span { links, ..span() }]), &[]);
    assert_eq!(decoded, of(vec![Span { dropped_links_count: 3, ..span() }]));
}

#[test]
fn a_message_that_is_none_is_refused_whole() {
    let allowed = AllowList::with(&[]);
    let good = of(vec![span()]).encode_to_vec();
    for cut in 1..good.len() {
        assert!(filter(&good[..cut], &allowed).is_err(), "cut at {cut}");
    }
    // A name with invalid UTF-8, a number in place of a message, an invalid value.
    assert_eq!(filter(b"\x0a\x08\x12\x06\x12\x04\x2a\x02\xff\xfe", &allowed), Err(Malformed::NotText));
    assert_eq!(filter(b"\x08\x01", &allowed), Err(Malformed::OtherType(1)));
    let mut resource = Vec::new();
    put_bytes(1, b"service.name", &mut resource);
    put_bytes(2, b"\x0a\x01\xff", &mut resource);
    let mut message = Vec::new();
    put_bytes(1, &resource, &mut message);
    let [mut of_resource, mut request] = [Vec::new(), Vec::new()];
    put_bytes(1, &message, &mut of_resource);
    put_bytes(1, &of_resource, &mut request);
    assert_eq!(filter(&request, &allowed), Err(Malformed::NoValue));
}

#[test]
fn a_message_of_many_empty_parts_takes_no_more_memory_than_it_has_bytes() {
    // Two bytes per span, 4 MiB in all.
    let spans = [0x12, 0].repeat(2 << 20);
    let [mut of_resource, mut request] = [Vec::new(), Vec::new()];
    put_bytes(2, &spans, &mut of_resource);
    put_bytes(1, &of_resource, &mut request);
    let kept = filter(&request, &AllowList::with(&[])).expect("a message");
    assert_eq!(kept, Kept { invalid: 2 << 20, ..Kept::default() });
}

proptest! {
    #[test]
    fn any_bytes_become_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(kept) = filter(&bytes, &AllowList::with(&["*".to_owned()])) {
            TracesData::decode(&kept.message[..]).expect("a message");
        }
    }

    #[test]
    fn a_changed_byte_of_a_message_leaves_a_message_or_an_error(at in 0_usize..2000, to in any::<u8>()) {
        let mut one = span();
        one.attributes = vec![text("http.method", "GET"), text("url.full", SECRET)];
        one.links = vec![Link { trace_id: vec![4; 16], span_id: vec![5; 8], ..Link::default() }];
        let mut bytes = of(vec![one]).encode_to_vec();
        let at = at % bytes.len();
        bytes[at] = to;
        if let Ok(kept) = filter(&bytes, &AllowList::with(&[])) {
            let again = filter(&kept.message, &AllowList::with(&[])).expect("a message");
            prop_assert_eq!(again.message, kept.message, "what was kept is kept");
        }
    }
}
