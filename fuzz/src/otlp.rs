//! Request bodies that a span receiver takes from the network, down to the part written to disk.
//!
//! Input: a byte with the body's form, then the body.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, TracesData};
use prost::Message as _;
use wakepath_otlp::{Form, KEPT_ATTRIBUTES, Kept, MAX_MESSAGE_BYTES, NoMessage, keep, keep_body};
use wakepath_spans::Reader;

/// The attributes that a user allows beside the usual attributes.
const MORE: &str = "shop.*";

/// Puts bytes through a receiver's processing of a body.
///
/// # Panics
/// When a law is broken.
pub fn check(input: &[u8]) {
    let Some((kind, body)) = input.split_first() else { return };
    let form = Form { gzip: kind & 1 == 1, json: kind & 2 == 2 };
    let more = [MORE.to_owned()];
    let kept = match keep_body(body, form, &more) {
        Ok(kept) => kept,
        Err(NoMessage::TooLarge) => return assert!(form.gzip, "only a compressed one grows"),
        Err(NoMessage::Malformed(why)) => return assert!(!why.is_empty()),
    };
    let most = if form.gzip || form.json { MAX_MESSAGE_BYTES } else { body.len() };
    assert!(kept.spans + kept.invalid <= most as u64, "each span takes some bytes");
    assert_eq!(kept.spans == 0, kept.message.is_empty(), "nothing is kept without spans");
    allowed(&kept);
    let again = keep(&kept.message, &more).expect("it is a message");
    assert_eq!(again, Kept { invalid: 0, ..kept.clone() }, "nothing more is dropped");
    let mut reader = Reader::default();
    reader.take_protobuf(kept.message.into()).expect("all that is kept can be read");
    let (spans, dropped) = reader.finish();
    assert_eq!(spans.spans.len() as u64 + dropped.missing() + dropped.repeated, kept.spans);
}

/// Only listed attributes are kept, and no other application data in spans.
fn allowed(kept: &Kept) {
    let data = TracesData::decode(&kept.message[..]).expect("it is a message");
    let is_allowed = |key: &str| {
        KEPT_ATTRIBUTES.iter().chain([&MORE]).any(|allowed| match allowed.strip_suffix('*') {
            Some(beginning) => key.starts_with(beginning),
            None => *allowed == key,
        })
    };
    let mut spans = 0;
    for resource_spans in &data.resource_spans {
        let resource = resource_spans.resource.iter().flat_map(|resource| &resource.attributes);
        assert!(resource.into_iter().all(|attribute| is_allowed(&attribute.key)));
        for scope_spans in &resource_spans.scope_spans {
            assert!(scope_spans.scope.iter().all(|scope| scope.attributes.is_empty()));
            spans += scope_spans.spans.len() as u64;
            for span in &scope_spans.spans {
                assert!(span.attributes.iter().all(|attribute| is_allowed(&attribute.key)));
                assert!(span.events.is_empty() && span.trace_state.is_empty());
                assert!(span.status.iter().all(|status| status.message.is_empty()));
                let mut links = span.links.iter();
                assert!(links.all(|link| link.attributes.is_empty() && link.trace_state.is_empty()));
            }
        }
    }
    assert_eq!(spans, kept.spans);
}

/// The first inputs: a message with each kept and each dropped field, in each form; a message with an invalid span id;
/// and parts of them.
///
/// # Panics
/// Never: memory takes what is written into it.
pub fn seeds() -> Vec<Vec<u8>> {
    let attribute = |key: &str, value: Value| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    };
    let text = |text: &str| Value::StringValue(text.to_owned());
    let attributes = || {
        vec![
            attribute("wakepath.tid", Value::IntValue(12)),
            attribute("shop.cart", text("7")),
            attribute("db.statement", text("select secret")),
            attribute("net.peer.port", Value::DoubleValue(80.5)),
        ]
    };
    let span = |id: u8| Span {
        trace_id: vec![7; 16],
        span_id: vec![id; 8],
        parent_span_id: vec![1; 8],
        trace_state: "a=b".to_owned(),
        name: "GET /".to_owned(),
        kind: 2,
        start_time_unix_nano: 100,
        end_time_unix_nano: 900,
        attributes: attributes(),
        events: vec![Event { name: "exception".to_owned(), ..Event::default() }],
        links: vec![Link {
            trace_id: vec![8; 16],
            span_id: vec![9; 8],
            attributes: attributes(),
            ..Link::default()
        }],
        status: Some(Status { message: "secret".to_owned(), code: 2 }),
        flags: 1,
        ..Span::default()
    };
    let data = TracesData {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: vec![attribute("service.name", text("shop")), attribute("secret", text("x"))],
                ..Resource::default()
            }),
            scope_spans: vec![ScopeSpans {
                scope: Some(InstrumentationScope {
                    name: "lib".to_owned(),
                    attributes: attributes(),
                    ..InstrumentationScope::default()
                }),
                spans: vec![span(1), span(2), span(0)],
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    };
    let protobuf = data.encode_to_vec();
    let json = serde_json::to_vec(&data).expect("memory");
    let gzip = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory")
    };
    let bomb = gzip(&vec![0; MAX_MESSAGE_BYTES + 1]);
    let of_form = |form: u8, body: &[u8]| [&[form], body].concat();
    vec![
        of_form(0, &protobuf),
        of_form(1, &gzip(&protobuf)),
        of_form(2, &json),
        of_form(3, &gzip(&json)),
        of_form(1, &bomb),
        of_form(0, &protobuf[..protobuf.len() / 2]),
        of_form(3, &gzip(&json)[..20]),
        of_form(2, b"{}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_inputs_keep_the_law_and_reach_what_is_kept() {
        seeds().iter().for_each(|seed| check(seed));
        let more = [MORE.to_owned()];
        for (seed, form) in seeds().iter().zip([(false, false), (true, false), (false, true), (true, true)]) {
            let kept = keep_body(&seed[1..], Form { gzip: form.0, json: form.1 }, &more).expect("a message");
            assert_eq!((kept.spans, kept.invalid), (2, 1), "{form:?}");
        }
    }
}
