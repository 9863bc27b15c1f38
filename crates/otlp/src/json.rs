//! OTLP's JSON, converted to the equivalent protobuf.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;

/// The largest number of objects in a message. Decoding makes a struct of a few hundred bytes from each, and an object
/// may take only 3 bytes.
const MAX_JSON_OBJECTS: usize = 1 << 17;

/// The reason why a text is no request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonError {
    #[error("more than {MAX_JSON_OBJECTS} objects; send smaller batches, or protobuf")]
    TooMany,
    #[error("{0}")]
    Syntax(#[from] serde_json::Error),
}

/// Converts a request to export spans to protobuf.
pub(crate) fn to_protobuf(text: &[u8]) -> Result<Vec<u8>, JsonError> {
    // Braces in texts are counted too.
    if text.iter().filter(|&&byte| byte == b'{').count() > MAX_JSON_OBJECTS {
        return Err(JsonError::TooMany);
    }
    let request: ExportTraceServiceRequest = serde_json::from_slice(text)?;
    Ok(request.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_the_specification_is_read() {
        // After the example in the protocol's own repository.
        let text = br#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},
            "scopeSpans":[{"scope":{"name":"lib","version":"1"},"spans":[{"traceId":"5B8EFFF798038103D269B633813FC60C",
            "spanId":"EEE19B7EC3C1B174","parentSpanId":"EEE19B7EC3C1B173","name":"GET /","kind":2,
            "startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000",
            "attributes":[{"key":"thread.id","value":{"intValue":"7"}}],"unknown":{"a":1}}]}]}]}"#;
        let bytes = to_protobuf(text).expect("a request");
        let request = ExportTraceServiceRequest::decode(&bytes[..]).expect("a request");
        let span = &request.resource_spans[0].scope_spans[0].spans[0];
        assert_eq!((span.trace_id[0], span.span_id[7], span.name.as_str()), (0x5b, 0x74, "GET /"));
        assert_eq!(span.end_time_unix_nano - span.start_time_unix_nano, 1_000_000_000);
        assert_eq!(to_protobuf(b"{}").expect("a request without spans"), [0_u8; 0]);
    }

    #[test]
    fn other_texts_are_errors() {
        for text in [
            "",
            "{",
            "null",
            "{\"resourceSpans\":7}",
            "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"traceId\":\"xy\"}]}]}]}",
        ] {
            assert!(matches!(to_protobuf(text.as_bytes()), Err(JsonError::Syntax(_))), "{text}");
        }
        let deep = "[".repeat(1 << 20);
        assert!(matches!(
            to_protobuf(format!("{{\"resourceSpans\":{deep}").as_bytes()),
            Err(JsonError::Syntax(_))
        ));
        let spans = |count| format!("{{\"resourceSpans\":[{}{{}}]}}", "{},".repeat(count - 2));
        assert!(to_protobuf(spans(MAX_JSON_OBJECTS).as_bytes()).is_ok());
        assert!(matches!(to_protobuf(spans(MAX_JSON_OBJECTS + 1).as_bytes()), Err(JsonError::TooMany)));
    }
}
