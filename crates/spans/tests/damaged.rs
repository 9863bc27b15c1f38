//! Damaged span files in each format: none ends the reader, and a cut file has whole spans or an error.

use std::collections::HashSet;

use bytes::Bytes;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};
use prost::Message;
use wakepath_spans::{Reader, SpanIndex};

/// A service's spans: each message has some.
fn messages() -> Vec<TracesData> {
    let message = |first: u8| {
        let span = |id: u8| Span {
            trace_id: vec![7; 16],
            span_id: vec![id; 8],
            parent_span_id: if id % 4 == 1 { Vec::new() } else { vec![id - 1; 8] },
            name: format!("step {id}"),
            start_time_unix_nano: 1_795_229_921_310_000_000 + 1000 * u64::from(id),
            end_time_unix_nano: 1_795_229_921_311_000_000 + 7 * u64::from(id),
            ..Span::default()
        };
        let scope_spans =
            vec![ScopeSpans { spans: (first..first + 4).map(span).collect(), ..ScopeSpans::default() }];
        let resource = Some(Resource::default());
        TracesData {
            resource_spans: vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }],
        }
    };
    (0..12).map(|n| message(1 + 4 * n)).collect()
}

fn protobuf() -> Vec<u8> {
    let framed = messages().into_iter().flat_map(|message| {
        let message = message.encode_to_vec();
        [&(message.len() as u32).to_be_bytes()[..], &message].concat()
    });
    framed.collect()
}

fn lines_of_json() -> Vec<u8> {
    let lines = messages().into_iter().map(|message| serde_json::to_string(&message).expect("JSON") + "\n");
    lines.collect::<String>().into_bytes()
}

/// One document, with each span by `span` from its number, parent's number, begin and length in us.
fn document(begin: &str, end: &str, span: impl Fn(u64, u64, u64, u64) -> String) -> Vec<u8> {
    let spans: Vec<_> =
        (1..49).map(|id| span(id, id / 2, 1_795_229_921_310_000 + 3 * id, 1000 + id)).collect();
    format!("{begin}{}{end}", spans.join(",\n")).into_bytes()
}

fn jaeger() -> Vec<u8> {
    let end = "], \"processes\": {\"p1\": {\"serviceName\": \"shop\", \"tags\": []}}}]}";
    document("{\"data\": [{\"traceID\": \"ab\", \"spans\": [", end, |id, parent, begin, length| {
        format!(
            "{{\"traceID\": \"ab\", \"spanID\": \"{id:x}\", \"operationName\": \"step\", \"startTime\": {begin}, \
             \"duration\": {length}, \"processID\": \"p1\", \
             \"references\": [{{\"refType\": \"CHILD_OF\", \"traceID\": \"ab\", \"spanID\": \"{parent:x}\"}}]}}"
        )
    })
}

fn zipkin() -> Vec<u8> {
    document("[", "]", |id, parent, begin, length| {
        format!(
            "{{\"traceId\": \"ab\", \"id\": \"{id:x}\", \"parentId\": \"{parent:x}\", \"name\": \"step\", \
             \"timestamp\": {begin}, \"duration\": {length}, \"localEndpoint\": {{\"serviceName\": \"shop\"}}}}"
        )
    })
}

fn in_gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory has no errors");
    encoder.finish().expect("memory has no errors")
}

fn in_zstandard(bytes: &[u8]) -> Vec<u8> {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// Each kept span's identity, parent and times; and whether something says so if spans are missing.
fn read(file: Vec<u8>) -> (HashSet<String>, bool) {
    let mut reader = Reader::default();
    let read = reader.take_file(&Bytes::from(file));
    let (spans, dropped) = reader.finish();
    let line = |index: u32| {
        let span = spans.span(SpanIndex(index));
        assert!(span.from <= span.to, "{span:?}");
        format!("{:?} {:?} {:?} {} {}", span.trace, span.id, span.parent, span.from.ns(), span.to.ns())
    };
    ((0..spans.spans.len() as u32).map(line).collect(), read.is_err() || dropped.missing() > 0)
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

#[test]
fn no_damage_ends_the_reader_and_a_cut_file_has_whole_spans_or_an_error() {
    for (format, file) in [
        ("OTLP, protobuf", protobuf()),
        ("OTLP, JSON", lines_of_json()),
        ("Jaeger", jaeger()),
        ("Zipkin", zipkin()),
        ("Zipkin, gzip", in_gzip(&zipkin())),
        ("Zipkin, Zstandard", in_zstandard(&zipkin())),
    ] {
        let (whole, is_marked) = read(file.clone());
        assert_eq!((whole.len(), is_marked), (48, false), "{format}");
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let (mut parts, mut unmarked) = (0, 0);
        for variant in 0..2000 {
            let mut bytes = file.clone();
            let at = random.below(file.len());
            let block = at..file.len().min(at + 1 + random.below(300));
            match variant % 4 {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(block)),
                2 => bytes[block].fill([0, 0xff][random.below(2)]),
                _ => (0..3).for_each(|_| bytes[random.below(file.len())] = random.below(256) as u8),
            }
            let (spans, is_marked) = read(bytes.clone());
            if variant % 4 == 0 {
                assert!(spans.is_subset(&whole), "{format}, cut at {at}");
                // A file with fewer messages is a whole one.
                let at_end = match format {
                    "OTLP, protobuf" => bytes.is_empty() || protobuf_ends().contains(&at),
                    "OTLP, JSON" => at == 0 || [file[at], file[at - 1]].contains(&b'\n'),
                    _ => bytes.is_empty(),
                };
                assert!(is_marked || at_end, "{format}, cut at {at}: {} spans", spans.len());
                parts += usize::from(!spans.is_empty());
            }
            unmarked += usize::from(spans != whole && !is_marked);
        }
        println!(
            "{format}: {parts} cut files with spans, {unmarked} of 2000 variants differ without an error"
        );
    }
}

/// The messages' ends.
fn protobuf_ends() -> Vec<usize> {
    let lengths = messages().into_iter().map(|message| 4 + message.encoded_len());
    lengths
        .scan(0, |end, length| {
            *end += length;
            Some(*end)
        })
        .collect()
}
