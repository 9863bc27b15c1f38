//! Span files as other tools write them: Tempo, Zipkin, Jaeger's storage, a Collector that compresses, and writers that were
//! killed.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use wakepath_spans::{Dropped, Kind, ReadError, Reader, Spans, read, requests};

/// An OTLP document with this span id and list name.
fn otlp(id: u8, list: &str) -> String {
    format!(
        r#"{{"{list}": [{{"resource": {{"attributes": [{{"key": "service.name", "value": {{"stringValue": "shop"}}}}]}},
        "scopeSpans": [{{"spans": [{{"traceId": "07070707070707070707070707070707", "spanId": "{id:016x}", "name": "a",
        "kind": "SPAN_KIND_SERVER", "startTimeUnixNano": 5, "endTimeUnixNano": "9"}}]}}]}}]}}"#
    )
    .replace('\n', " ")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(bytes).expect("memory");
    packed.finish().expect("memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

fn ids(spans: &Spans) -> Vec<u8> {
    spans.spans.iter().map(|span| span.id.0[7]).collect()
}

/// The ids in a file, and its error.
fn kept(file: Vec<u8>) -> (Vec<u8>, Option<ReadError>) {
    let mut reader = Reader::default();
    let error = reader.take_file(&file.into()).err();
    let count = reader.count();
    let (spans, _) = reader.finish();
    assert_eq!(spans.spans.len() as u64, count);
    (ids(&spans), error)
}

#[test]
fn tempos_answers_are_otlp_under_other_names() {
    let plain = read(&otlp(1, "resourceSpans").into()).expect("OTLP");
    for file in [
        otlp(1, "batches"),
        format!(r#"{{"trace": {}}}"#, otlp(1, "resourceSpans")),
        otlp(1, "resource_spans"),
    ] {
        assert_eq!(read(&file.clone().into()), Ok(plain.clone()), "{file}");
    }
}

#[test]
fn a_byte_order_mark_is_passed_over_and_counts_in_places() {
    let mark = "\u{feff}";
    for text in [otlp(1, "resourceSpans"), format!("\n {ZIPKIN}")] {
        let (ids, error) = kept(text.clone().into());
        assert!(!ids.is_empty() && error.is_none(), "{error:?}");
        assert_eq!(kept(format!("{mark}{text}").into()), (ids.clone(), None));
        let Some(ReadError::Damaged { at, .. }) = kept(format!("{text}\n{{").into()).1 else {
            panic!("{text}")
        };
        let (marked, error) = kept(format!("{mark}{text}\n{{").into());
        assert!(
            marked == ids && matches!(error, Some(ReadError::Damaged { at: other, .. }) if other == at + 3)
        );
    }
    assert_eq!(kept(mark.into()), (vec![], None));
}

#[test]
fn a_line_that_is_cut_keeps_the_lines_before_it_and_the_error_names_it() {
    let [first, second] = [1, 2].map(|id| otlp(id, "resourceSpans"));
    for cut in [1, 20, second.len() / 2, second.len() - 8, second.len() - 1] {
        let (ids, error) = kept(format!("{first}\n{}", &second[..cut]).into());
        let error = error.expect("it is cut").to_string();
        // The second line's span is whole where the five brackets behind it begin.
        let expected = if cut > second.len() - 6 { &[1, 2][..] } else { &[1] };
        assert!(ids == expected && error.contains("line 2"), "{cut}: {ids:?}, {error}");
    }
}

#[test]
fn a_document_in_many_lines_that_is_cut_keeps_its_whole_spans_and_says_where_they_end() {
    let span = |id: u8| {
        format!(
            r#"{{"traceId": "{:032x}", "spanId": "{id:016x}", "startTimeUnixNano": 5, "endTimeUnixNano": 9, "attributes": [{{"key": "a[}}"}}]}}"#,
            7
        )
    };
    let otlp = format!(
        r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{}]}}]}}, {{"scopeSpans": [{{"spans": [{}]}}]}}]}}"#,
        [span(1), span(2)].join(", "),
        span(3)
    );
    let jaeger = |id: u8| {
        format!(r#"{{"traceID": "7", "spanID": "{id}", "startTime": 5, "duration": 4, "processID": "p"}}"#)
    };
    let jaegers = format!(
        r#"{{"data": [{{"traceID": "7", "spans": [{}], "processes": {{"p": {{"serviceName": "shop"}}}}}}, {{"spans": [{}], "processes": {{}}}}]}}"#,
        [jaeger(1), jaeger(2)].join(", "),
        jaeger(3)
    );
    let zipkin = |id: u8| {
        format!(r#"{{"traceId": "7", "id": "{id}", "timestamp": 5, "duration": 4, "tags": {{"]": "}}"}}}}"#)
    };
    let zipkins = format!("[{}]", [1, 2, 3].map(zipkin).join(", "));
    for (file, spans) in
        [(otlp, [1, 2, 3].map(span)), (jaegers, [1, 2, 3].map(jaeger)), (zipkins, [1, 2, 3].map(zipkin))]
    {
        let file = file.replace("}, {", "},\n{");
        let ends = spans.map(|span| file.find(&span).expect("a span") + span.len());
        for cut in 1..file.len() {
            let count = ends.iter().filter(|&&end| end <= cut).count() as u8;
            let (ids, error) = kept(file.as_bytes()[..cut].to_vec());
            assert_eq!(ids, (1..=count).collect::<Vec<_>>(), "{}", &file[..cut]);
            let Some(ReadError::Damaged { at, .. }) = error else { panic!("{error:?}: {}", &file[..cut]) };
            assert!(at <= cut && ends[..count.into()].iter().all(|end| *end <= at), "{at}: {}", &file[..cut]);
        }
        assert_eq!(kept(file.into()), (vec![1, 2, 3], None));
    }
}

#[test]
fn a_trace_of_jaegers_that_is_cut_behind_its_processes_keeps_their_names() {
    let file = r#"{"data": [{"spans": [{"traceID": "7", "spanID": "1", "startTime": 5, "duration": 4, "processID": "p"}],
        "processes": {"p": {"serviceName": "shop"}}, "warn"#;
    let mut reader = Reader::default();
    assert!(reader.take_file(&file.into()).is_err());
    assert_eq!(&*reader.finish().0.services[0].name, "shop");
    // Without them, the service is not known.
    let mut reader = Reader::default();
    assert!(reader.take_file(&file[..file.find("processes").expect("a key")].to_owned().into()).is_err());
    assert_eq!(&*reader.finish().0.services[0].name, "");
}

#[test]
fn compressed_files_and_messages_are_read_and_a_cut_one_keeps_its_beginning() {
    let lines = (1..=3).map(|id| otlp(id, "resourceSpans") + "\n").collect::<String>();
    for packed in [gzip(lines.as_bytes()), zstd(lines.as_bytes())] {
        assert_eq!(kept(packed), (vec![1, 2, 3], None));
    }
    // Members and frames, one behind the other.
    let [first, second] = [1, 2].map(|id| otlp(id, "resourceSpans").into_bytes());
    for pack in [gzip, zstd] {
        assert_eq!(kept([pack(&first), pack(&second)].concat()), (vec![1, 2], None));
        let second = pack(&second);
        let (ids, error) = kept([&pack(&first), &second[..second.len() / 2]].concat());
        assert!(ids == [1] && matches!(error, Some(ReadError::Packed { .. })), "{ids:?}, {error:?}");
    }
    // The Collector's file exporter with compression: each message behind its length.
    let framed = |message: &[u8]| [&(message.len() as u32).to_be_bytes(), message].concat();
    let frames = [framed(&zstd(&first)), framed(&zstd(&second))].concat();
    assert_eq!(kept(frames.clone()), (vec![1, 2], None));
    let (ids, error) = kept(frames[..frames.len() - 3].to_vec());
    assert!(ids == [1] && matches!(error, Some(ReadError::Damaged { .. })), "{ids:?}, {error:?}");
}

#[test]
fn a_message_that_unpacks_to_more_than_the_bound_is_refused() {
    let bomb = zstd(&vec![b' '; (64 << 20) + 1]);
    let file = [&(bomb.len() as u32).to_be_bytes()[..], &bomb].concat();
    assert_eq!(kept(file), (vec![], Some(ReadError::TooLarge)));
}

const ZIPKIN: &str = r#"[
    {"traceId": "410a7dbc6d6cfeb6", "id": "1", "kind": "SERVER", "name": "get", "timestamp": 1000, "duration": 90,
     "localEndpoint": {"serviceName": "web", "ipv4": "10.0.0.1"}, "remoteEndpoint": null, "tags": {"wakepath.tid": "17"}},
    {"traceId": "410a7dbc6d6cfeb6", "id": "2", "parentId": "1", "kind": "CLIENT", "name": "call", "timestamp": 1010, "duration": 50,
     "localEndpoint": {"serviceName": "web"}, "annotations": [{"timestamp": 1011, "value": "sent"}]},
    {"traceId": "410a7dbc6d6cfeb6", "id": "2", "parentId": "1", "kind": "SERVER", "name": "answer", "timestamp": 1020,
     "duration": 30, "shared": true, "localEndpoint": {"serviceName": "bank"}, "tags": {"error": "no money"}},
    {"traceId": "410a7dbc6d6cfeb6", "id": "3", "parentId": "2", "name": "open", "timestamp": 1025},
    {"traceId": "410a7dbc6d6cfeb6", "id": "4", "name": "early", "timestamp": -5, "duration": 3, "tags": null}]"#;

#[test]
fn zipkins_spans_have_their_service_and_share_ids_between_the_sides_of_a_call() {
    for file in [ZIPKIN.to_owned(), format!("[{ZIPKIN}]")] {
        let (spans, dropped) = read(&file.into()).expect("Zipkin's JSON");
        assert_eq!(dropped, Dropped { without_length: 2, ..Dropped::default() });
        assert_eq!(spans.resolution_ns, 1000);
        let described: Vec<_> = spans
            .iter()
            .map(|(index, span)| {
                let (service, name) = (&*spans.service(index).name, &*spans.operation(index).name);
                (service, name, span.kind, span.from.ns(), span.length_ns(), span.failed, span.tid)
            })
            .collect();
        let expected = [
            ("web", "get", Kind::Server, 1_000_000, 90_000, false, Some(17)),
            ("web", "call", Kind::Client, 1_010_000, 50_000, false, None),
            ("bank", "answer", Kind::Server, 1_020_000, 30_000, true, None),
        ];
        assert_eq!(described, expected);
        assert!(spans.services.iter().all(|service| service.host.is_none()), "an address is no host's name");
        // The answer is its own request, within the caller's.
        let requests = requests(&spans);
        assert_eq!(requests.requests.len(), 2);
    }
}

#[test]
fn zipkins_first_version_and_other_arrays_are_refused() {
    let v1 = r#"[{"traceId": "1", "id": "1", "name": "get", "timestamp": 1, "duration": 2, FIELD}]"#;
    for field in [
        r#""binaryAnnotations": []"#,
        r#""annotations": [{"timestamp": 1, "value": "sr", "endpoint": {"serviceName": "a"}}]"#,
    ] {
        assert_eq!(kept(v1.replace("FIELD", field).into()).1, Some(ReadError::ZipkinV1), "{field}");
    }
    for other in ["[1, 2]", "[{}]", r#"["a"]"#, "[null]", "[[]]", "[[null], {}]", "[]", "[]\n[]", "[]\n[{}]"]
    {
        assert_eq!(kept(other.into()).1, Some(ReadError::Unknown), "{other}");
    }
}

#[test]
fn an_element_of_zipkins_that_is_no_span_is_counted_and_its_neighbours_are_read() {
    let span = |id: u8| format!(r#"{{"traceId": "7", "id": "{id}", "timestamp": 5, "duration": 4}}"#);
    let [first, second] = [1, 2].map(span);
    for odd in [
        "null",
        "7",
        r#""a""#,
        "{}",
        "[null]",
        "[{}]",
        r#"{"name": "a"}"#,
        r#"{"traceId": null, "id": null}"#,
    ] {
        for file in [
            format!("[{odd}, {first}, {second}]"),
            format!("[{first}, {odd}, {second}]"),
            format!("[[{first}], [{odd}, {second}]]"),
        ] {
            let (spans, dropped) =
                read(&file.clone().into()).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert_eq!(
                (ids(&spans), dropped),
                (vec![1, 2], Dropped { without_id: 1, ..Dropped::default() }),
                "{file}"
            );
        }
    }
    // Half an identity shows whose array it is.
    for half in [r#"[{"traceId": "7"}]"#, r#"[{"id": "1"}]"#] {
        let (spans, dropped) = read(&half.into()).expect("Zipkin's JSON");
        assert_eq!((spans.spans.len(), dropped.without_id), (0, 1), "{half}");
    }
    // Consecutive arrays: an empty array says nothing, and another program's is named by its place.
    for file in [format!("[]\n[{first}]\n[]\n[{second}]"), format!("[{first}]\n[{second}]\n[]")] {
        assert_eq!(kept(file.clone().into()), (vec![1, 2], None), "{file}");
    }
    let (ids, error) = kept(format!("[{first}]\n[{{}}]\n[{second}]").into());
    let Some(ReadError::Damaged { at, what }) = error else { panic!("{error:?}") };
    assert_eq!((ids, at, what.as_str()), (vec![1], first.len() + 2, "an array without spans"));
}

#[test]
fn jaegers_spans_may_have_nulls_no_process_or_their_process_within() {
    let file = r#"{"data": [{"traceID": "ab", "processes": null, "spans": [
        {"traceID": "ab", "spanID": "1", "operationName": "a", "references": null, "tags": null, "logs": null, "startTime": 5,
         "duration": 4, "warnings": null},
        {"traceID": "ab", "spanID": "2", "operationName": "b", "parentSpanID": "1", "startTime": 6, "duration": 1,
         "process": {"serviceName": "inner", "tags": null}},
        {"traceID": "ab", "spanID": "3", "operationName": "c", "startTime": -6, "duration": 1},
        {"traceID": "-", "spanID": "4", "operationName": "c", "startTime": 6, "duration": 1}]}]}"#;
    let (spans, dropped) = read(&file.into()).expect("Jaeger's JSON");
    assert_eq!(dropped, Dropped { without_length: 1, without_id: 1, ..Dropped::default() });
    let names: Vec<_> = spans.iter().map(|(index, _)| &*spans.service(index).name).collect();
    assert_eq!((names, ids(&spans)), (vec!["", "inner"], vec![1, 2]));
    assert_eq!(spans.spans[1].parent, Some(spans.spans[0].id));
}

#[test]
fn zipkins_tags_name_the_process_and_times_beyond_the_largest_stay_the_largest() {
    let file = r#"[{"traceId": "7", "id": "1", "timestamp": 3, "duration": 18446744073709551615, "tags": {
        "service.instance.id": "i-1", "host.name": "web3", "process.pid": "34", "wakepath.queued_ns": "2000",
        "wakepath.turns": "3000 1 2."}},
        {"traceId": "7", "id": "2", "parentId": "1", "timestamp": 18446744073709551615, "duration": 1},
        {"traceId": "7", "id": "3", "timestamp": 3, "duration": 1, "tags": {"wakepath.explains": "1"}}]"#;
    let (spans, dropped) = read(&file.into()).expect("Zipkin's JSON");
    assert_eq!(dropped, Dropped { explaining: 1, ..Dropped::default() });
    let [first, second] = &spans.spans[..] else { panic!("{spans:?}") };
    assert_eq!(
        (first.from.ns(), first.to.ns(), second.from.ns(), second.to.ns()),
        (3000, u64::MAX, u64::MAX, u64::MAX)
    );
    assert_eq!(
        (first.queued.map(|at| at.ns()), first.turns.is_some(), second.parent),
        (Some(2000), true, Some(first.id))
    );
    let service = &spans.services[first.service.0 as usize];
    assert_eq!(
        (service.instance.as_deref(), service.host.as_deref(), service.pid),
        (Some("i-1"), Some("web3"), Some(34))
    );
}
