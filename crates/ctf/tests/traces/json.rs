//! Metadata of CTF 2: the same trace in CTF 1.8 and in CTF 2, and what fragments, roles and clocks mean.

use std::fmt::Write as _;

use wakepath_ctf::json::read;
use wakepath_ctf::schema::{EnvValue, FieldType, Metadata};
use wakepath_ctf::stream::{Item, Plans, Reader, Selection};
use wakepath_ctf::trace::read_metadata;
use wakepath_ctf::tsdl;

use crate::text;

/// Fragments in a row.
pub fn sequence(fragments: &[&str]) -> Vec<u8> {
    fragments.iter().flat_map(|fragment| format!("\x1e{fragment}\n").into_bytes()).collect()
}

pub const PREAMBLE: &str = r#"{"type": "preamble", "version": 2}"#;

/// An integer's properties.
pub fn unsigned(bits: u32, align: u32, more: &str) -> String {
    format!(
        r#"{{"type": "fixed-length-unsigned-integer", "length": {bits}, "alignment": {align},
            "byte-order": "little-endian"{more}}}"#
    )
}

/// A structure of members: names and classes.
pub fn structure(members: &[(&str, &str)], align: u32) -> String {
    let members: Vec<_> = members
        .iter()
        .map(|(name, class)| format!(r#"{{"name": "{name}", "field-class": {class}}}"#))
        .collect();
    format!(
        r#"{{"type": "structure", "minimum-alignment": {align}, "member-classes": [{}]}}"#,
        members.join(", ")
    )
}

/// A stream's events as text, and all other items but packets.
pub fn decode(metadata: Metadata, bytes: &[u8]) -> (Vec<String>, Vec<Item>) {
    let plans = Plans::new(metadata, &Selection::All).expect("plans");
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("stream");
    std::fs::write(&file, bytes).expect("a file");
    let mut lines = Vec::new();
    let others = text::lines(&plans, &file, |line| lines.push(line));
    (lines, others)
}

/// LTTng's metadata in TSDL, with the compact event header or the large one.
fn lttng_tsdl(large: bool) -> String {
    let (id, low, last) = if large { (16, 32, 65535) } else { (5, 27, 31) };
    let align = if large { 8 } else { 1 };
    format!(
        "typealias integer {{ size = 8; }} := uint8_t;
         typealias integer {{ size = 16; }} := uint16_t;
         typealias integer {{ size = 32; }} := uint32_t;
         typealias integer {{ size = 64; }} := uint64_t;
         typealias integer {{ size = 64; map = clock.monotonic.value; }} := stamp64;
         trace {{ major = 1; minor = 8; uuid = \"75756964-206f-6620-6120-747261636521\"; byte_order = le;
             packet.header := struct {{ uint32_t magic; uint8_t uuid[16]; uint32_t stream_id;
                 uint64_t stream_instance_id; }}; }};
         env {{ domain = \"kernel\"; hostname = \"h\"; tracer_major = 2; }};
         clock {{ name = monotonic; uuid = \"00010203-0405-0607-0809-0a0b0c0d0e0f\"; description = \"d\";
             freq = 1000000000; offset_s = 3; offset = 5; absolute = TRUE; }};
         stream {{ id = 0;
             packet.context := struct {{ stamp64 timestamp_begin; stamp64 timestamp_end; uint64_t content_size;
                 uint64_t packet_size; uint64_t packet_seq_num; uint64_t events_discarded; uint32_t cpu_id; }};
             event.header := struct {{
                 enum : integer {{ size = {id}; align = {align}; }} {{ compact = 0 ... {}, extended = {last} }} id;
                 variant <id> {{
                     struct {{ integer {{ size = {low}; align = {align}; map = clock.monotonic.value; }} timestamp; }} compact;
                     struct {{ uint32_t id; stamp64 timestamp; }} extended; }} v; }} align(8);
             event.context := struct {{ integer {{ size = 32; signed = true; }} tid; }};
         }};
         event {{ name = switch; id = 1; stream_id = 0; fields := struct {{
             integer {{ size = 8; encoding = UTF8; }} comm[16]; integer {{ size = 64; signed = true; }} state;
             uint8_t len; uint16_t words[len]; string name; }}; }};
         event {{ name = late; id = 70000; stream_id = 0; fields := struct {{ uint8_t n; }}; }};",
        last - 1
    )
}

/// The same in CTF 2.
fn lttng_json(large: bool) -> Vec<u8> {
    let (id, low, last) = if large { (16, 32, 65535) } else { (5, 27, 31) };
    let align = if large { 8 } else { 1 };
    let role = |role: &str| format!(r#", "roles": ["{role}"]"#);
    let with_role = |bits, name: &str| unsigned(bits, 8, &role(name));
    let names = format!(
        r#", "roles": ["event-record-class-id"], "mappings": {{"extended": [[{last}, {last}]], "compact": [[0, {}]]}}"#,
        last - 1
    );
    let stamp = |bits, align| unsigned(bits, align, &role("default-clock-timestamp"));
    let signed = |bits| unsigned(bits, 8, "").replace("unsigned", "signed");
    let compact = structure(&[("t", &stamp(low, align))], 1);
    let extended = structure(&[("number", &with_role(32, "event-record-class-id")), ("t", &stamp(64, 8))], 1);
    let variant = format!(
        r#"{{"type": "variant", "selector-field-location": {{"origin": "event-record-header", "path": ["which"]}},
            "options": [
                {{"name": "compact", "selector-field-ranges": [[0, {}]], "field-class": {compact}}},
                {{"name": "extended", "selector-field-ranges": [[{last}, {last}]], "field-class": {extended}}}]}}"#,
        last - 1
    );
    let packet_header = structure(
        &[
            ("m", &with_role(32, "packet-magic-number")),
            ("u", r#"{"type": "static-length-blob", "length": 16, "roles": ["metadata-stream-uuid"]}"#),
            ("c", &with_role(32, "data-stream-class-id")),
            ("i", &with_role(64, "data-stream-id")),
        ],
        1,
    );
    let packet_context = structure(
        &[
            ("b", &with_role(64, "default-clock-timestamp")),
            ("e", &with_role(64, "packet-end-default-clock-timestamp")),
            ("c", &with_role(64, "packet-content-length")),
            ("s", &with_role(64, "packet-total-length")),
            ("n", &with_role(64, "packet-sequence-number")),
            ("d", &with_role(64, "discarded-event-record-counter-snapshot")),
            ("cpu_id", &unsigned(32, 8, "")),
        ],
        1,
    );
    let words = r#"{"type": "dynamic-length-array", "element-field-class": ELEMENT,
        "length-field-location": {"origin": "event-record-payload", "path": ["len"]}}"#
        .replace("ELEMENT", &unsigned(16, 8, ""));
    let payload = structure(
        &[
            ("comm", r#"{"type": "static-length-string", "length": 16}"#),
            ("state", &signed(64)),
            ("len", &unsigned(8, 8, "")),
            ("words", &words),
            ("name", r#"{"type": "null-terminated-string"}"#),
        ],
        1,
    );
    let uuid: Vec<u32> = b"uuid of a trace!".iter().map(|&byte| byte.into()).collect();
    sequence(&[
        &format!(r#"{{"type": "preamble", "version": 2, "uuid": {uuid:?}}}"#),
        &format!(
            r#"{{"type": "trace-class", "packet-header-field-class": {packet_header},
                "environment": {{"domain": "kernel", "hostname": "h", "tracer_major": 2}}}}"#
        ),
        r#"{"type": "clock-class", "id": "monotonic", "frequency": 1000000000, "description": "d",
            "origin": "unix-epoch", "offset-from-origin": {"seconds": 3, "cycles": 5},
            "uid": "00010203-0405-0607-0809-0a0b0c0d0e0f"}"#,
        &format!(
            r#"{{"type": "data-stream-class", "default-clock-class-id": "monotonic",
                "packet-context-field-class": {packet_context},
                "event-record-header-field-class": {},
                "event-record-common-context-field-class": {}}}"#,
            structure(&[("which", &unsigned(id, align, &names)), ("v", &variant)], 8),
            structure(&[("tid", &signed(32))], 1),
        ),
        &format!(
            r#"{{"type": "event-record-class", "id": 1, "name": "switch", "payload-field-class": {payload}}}"#
        ),
        &format!(
            r#"{{"type": "event-record-class", "id": 70000, "name": "late", "data-stream-class-id": 0,
                "payload-field-class": {}}}"#,
            structure(&[("n", &unsigned(8, 8, ""))], 1)
        ),
    ])
}

/// A packet with three events, the last with its id and stamp in full.
fn lttng_packet(large: bool) -> Vec<u8> {
    let mut events = Vec::new();
    for (stamp, word) in [(7_u32, 300_u16), (9, 4)] {
        if large {
            events.extend(1_u16.to_le_bytes());
            events.extend(stamp.to_le_bytes());
        } else {
            events.extend((1 | stamp << 5).to_le_bytes());
        }
        events.extend((-5_i32).to_le_bytes());
        events.extend(b"worker\0\0\0\0\0\0\0\0\0\0");
        events.extend((-2_i64).to_le_bytes());
        events.push(2);
        events.extend([word.to_le_bytes(), 1_u16.to_le_bytes()].concat());
        events.extend(b"end\0");
    }
    events.extend(if large { &[0xff, 0xff][..] } else { &[31] });
    events.extend(70_000_u32.to_le_bytes());
    events.extend((1_u64 << 40).to_le_bytes());
    events.extend([9, 0, 0, 0, 5]);
    let mut bytes = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
    bytes.extend(b"uuid of a trace!");
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(8_u64.to_le_bytes());
    let content = (bytes.len() + 6 * 8 + 4 + events.len()) as u64 * 8;
    for value in [5, 1 << 40, content, 512 * 8, 0, 3] {
        bytes.extend(u64::to_le_bytes(value));
    }
    bytes.extend(2_u32.to_le_bytes());
    bytes.extend(events);
    assert_eq!(bytes.len() as u64 * 8, content);
    bytes.resize(512, 0);
    bytes
}

#[test]
fn the_same_trace_in_both_versions_has_the_same_schema_and_the_same_events() {
    for large in [false, true] {
        let one = read_metadata(lttng_tsdl(large).as_bytes()).expect("CTF 1.8");
        let mut two = read_metadata(&lttng_json(large)).expect("CTF 2");
        // The only name without a role that differs.
        two.streams[0].event_header.fields[0].name = "id".to_owned();
        assert_eq!(two, one, "large: {large}");
        let (events, others) = decode(two, &lttng_packet(large));
        assert!(matches!(others.as_slice(), [Item::Lost(lost)] if lost.count == 3), "{others:?}");
        assert_eq!((events.clone(), others), decode(one, &lttng_packet(large)), "large: {large}");
        assert_eq!(
            events,
            [
                "[00000000000000000007] switch: { cpu_id = 2 }, { tid = -5 }, { comm = \"worker\", state = -2, \
                 len = 2, words = [ [0] = 300, [1] = 1 ], name = \"end\" }",
                "[00000000000000000009] switch: { cpu_id = 2 }, { tid = -5 }, { comm = \"worker\", state = -2, \
                 len = 2, words = [ [0] = 4, [1] = 1 ], name = \"end\" }",
                "[00000001099511627776] late: { cpu_id = 2 }, { tid = 9 }, { n = 5 }",
            ]
        );
    }
}

/// LTTng's metadata as a draft of CTF 2 had it.
fn lttng_draft() -> Vec<u8> {
    let uuid: Vec<u8> = (0..16).collect();
    let mut text = String::from_utf8(lttng_json(false)).expect("a text");
    for (from, to) in [
        (r#""id": "monotonic""#, r#""name": "monotonic""#),
        (r#""origin": "unix-epoch", "#, ""),
        ("offset-from-origin", "offset"),
        (r#""uid": "00010203-0405-0607-0809-0a0b0c0d0e0f""#, &format!(r#""uuid": {uuid:?}"#)),
        ("default-clock-class-id", "default-clock-class-name"),
        (r#"{"origin": "event-record-header", "path": ["which"]}"#, r#"["event-record-header", "which"]"#),
        (r#"{"origin": "event-record-payload", "path": ["len"]}"#, r#"["event-record-payload", "len"]"#),
        (
            r#""fixed-length-unsigned-integer", "length": 5"#,
            r#""fixed-length-unsigned-enumeration", "length": 5"#,
        ),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    text.into_bytes()
}

#[test]
fn a_draft_has_the_schema_of_the_specification() {
    let draft = lttng_draft();
    assert_eq!(read(&draft).expect("a draft"), read(&lttng_json(false)).expect("CTF 2"));
    let relative =
        String::from_utf8(draft.clone()).expect("a text").replace(r#""event-record-header", "#, "");
    assert_eq!(read(relative.as_bytes()).expect("a draft").streams, read(&draft).expect("a draft").streams);
    let undated = String::from_utf8(draft).expect("a text");
    let undated = undated.replace(r#""frequency""#, r#""origin-is-unix-epoch": false, "frequency""#);
    assert_eq!(read(undated.as_bytes()).expect("a draft").clocks[0].absolute, Some(false));
}

#[test]
fn a_clock_with_an_id_is_none_of_a_draft() {
    let text = String::from_utf8(lttng_json(false)).expect("a text");
    let id = r#""id": "monotonic""#;
    let more = r#""id": "monotonic", "name": "a clock", "offset": {"seconds": 9}, "uuid": [1]"#;
    let without_origin = text.replace(r#""offset-from-origin": {"seconds": 3, "cycles": 5},"#, "");
    for text in [text.clone(), without_origin] {
        let plain = read(text.as_bytes()).expect("CTF 2");
        assert_eq!(read(text.replace(id, more).as_bytes()).expect("CTF 2"), plain);
    }
    let nameless = read(text.replace(id, r#""x": 1"#).as_bytes()).expect_err("no id").to_string();
    assert!(nameless.contains("it has no `id`"), "{nameless}");
}

#[test]
fn a_drafts_enumerations_are_numbers_with_names() {
    for kind in
        ["fixed-length-unsigned", "fixed-length-signed", "variable-length-unsigned", "variable-length-signed"]
    {
        let read_with = |kind: &str| {
            let number = format!(
                r#"{{"type": "{kind}", "length": 8, "byte-order": "big-endian", "mappings": {{"on": [[1, 1]]}}}}"#
            );
            let event = format!(
                r#"{{"type": "event-record-class", "name": "e", "payload-field-class": {}}}"#,
                structure(&[("n", &number)], 1)
            );
            read(&sequence(&[PREAMBLE, r#"{"type": "data-stream-class"}"#, &event])).expect("metadata")
        };
        assert_eq!(
            read_with(&format!("{kind}-enumeration")),
            read_with(&format!("{kind}-integer")),
            "{kind}"
        );
    }
}

/// The metadata of an event stream without clocks, whose packets have this header and this context.
fn with_packets(header: &[(&str, &str)], context: &[(&str, &str)]) -> Vec<u8> {
    sequence(&[
        PREAMBLE,
        &format!(r#"{{"type": "trace-class", "packet-header-field-class": {}}}"#, structure(header, 1)),
        r#"{"type": "clock-class", "id": "c", "frequency": 1000}"#,
        &format!(
            r#"{{"type": "data-stream-class", "default-clock-class-id": "c", "packet-context-field-class": {}}}"#,
            structure(context, 1)
        ),
        &format!(
            r#"{{"type": "event-record-class", "name": "e", "payload-field-class": {}}}"#,
            structure(&[("n", &unsigned(8, 8, ""))], 1)
        ),
    ])
}

/// A stream's first packet, in short.
fn packet(metadata: &[u8], bytes: &[u8]) -> String {
    let plans = Plans::new(read(metadata).expect("metadata"), &Selection::All).expect("plans");
    let mut reader = Reader::new(&plans, bytes).expect("memory");
    let mut text = String::new();
    match reader.next().expect("an item") {
        Item::Packet(packet) => {
            let parts = [
                ("begin", packet.begin),
                ("end", packet.end),
                ("content", packet.content),
                ("size", packet.size),
                ("discarded", packet.discarded),
                ("sequence", packet.sequence),
                ("stream", packet.stream),
                ("cpu", packet.cpu),
            ];
            for (name, value) in parts {
                if let Some(value) = value {
                    let _ = write!(text, "{name} {value} ");
                }
            }
        }
        Item::Fault(fault) => text = fault.to_string(),
        other => panic!("{other:?}"),
    }
    text.trim_end().to_owned()
}

#[test]
fn roles_say_what_a_packets_fields_mean_and_names_do_not() {
    let byte = |role: &str| unsigned(8, 8, &format!(r#", "roles": [{role}]"#));
    for (role, said) in [
        (r#""default-clock-timestamp""#, "begin 32"),
        (r#""packet-end-default-clock-timestamp""#, "end 32"),
        (r#""packet-content-length""#, "content 32"),
        (r#""packet-total-length""#, "size 32"),
        (r#""packet-total-length", "packet-content-length""#, "size 32"),
        (r#""discarded-event-record-counter-snapshot""#, "discarded 32"),
        (r#""packet-sequence-number""#, "sequence 32"),
        // Roles of other structures, and a role of later versions.
        (r#""event-record-class-id", "packet-magic-number", "later""#, ""),
    ] {
        assert_eq!(packet(&with_packets(&[], &[("any", &byte(role))]), &[32, 1, 2, 3]), said, "{role}");
    }
    assert_eq!(
        packet(&with_packets(&[("any", &byte(r#""data-stream-class-id""#))], &[]), &[0, 1]),
        "stream 0"
    );
    let without = byte("");
    for name in [
        "magic",
        "uuid",
        "stream_id",
        "timestamp_begin",
        "timestamp_end",
        "content_size",
        "packet_size",
        "events_discarded",
        "packet_seq_num",
        "_packet_size",
    ] {
        assert_eq!(packet(&with_packets(&[], &[(name, &without)]), &[8, 1]), "", "{name}");
        assert_eq!(packet(&with_packets(&[(name, &without)], &[]), &[8, 1]), "", "{name}");
    }
    // No role exists for the CPU; tracers use the name.
    assert_eq!(packet(&with_packets(&[], &[("cpu_id", &without)]), &[8, 1]), "cpu 8");
    let optional = format!(
        r#"{{"type": "optional", "selector-field-location": {{"path": ["flag"]}}, "selector-field-ranges": [[1, 1]],
            "field-class": {}}}"#,
        byte(r#""packet-sequence-number""#)
    );
    let perhaps = with_packets(&[], &[("flag", &without), ("any", &optional)]);
    assert_eq!(
        (packet(&perhaps, &[1, 7]), packet(&perhaps, &[2, 7])),
        ("sequence 7".to_owned(), String::new())
    );
    let magic = with_packets(&[("any", &unsigned(32, 8, r#", "roles": ["packet-magic-number"]"#))], &[]);
    assert_eq!(packet(&magic, &[1, 2, 3, 4]), "packet 0 at byte 0: no packet begins here; 4 bytes skipped");
    assert_eq!(packet(&magic, &[0xc1, 0x1f, 0xfc, 0xc1]), "");
}

#[test]
fn an_event_headers_roles_choose_the_class_and_the_time() {
    let header = |members: &[(&str, &str)]| {
        let event = |id: u32| {
            format!(
                r#"{{"type": "event-record-class", "id": {id}, "name": "e{id}", "payload-field-class": {}}}"#,
                structure(&[("n", &unsigned(8, 8, ""))], 1)
            )
        };
        sequence(&[
            PREAMBLE,
            r#"{"type": "clock-class", "id": "c", "frequency": 1000}"#,
            &format!(
                r#"{{"type": "data-stream-class", "default-clock-class-id": "c",
                    "event-record-header-field-class": {}}}"#,
                structure(members, 1)
            ),
            &event(0),
            &event(1),
        ])
    };
    let events = |metadata: &[u8], bytes: &[u8]| decode(read(metadata).expect("metadata"), bytes).0;
    let byte = unsigned(8, 8, "");
    let class = unsigned(8, 8, r#", "roles": ["event-record-class-id"]"#);
    let stamp = unsigned(8, 8, r#", "roles": ["default-clock-timestamp"]"#);
    // A field called `id` is not the class without its role, and the class is 0 without a field for it.
    assert_eq!(
        events(&header(&[("id", &byte), ("t", &stamp)]), &[1, 9, 4]),
        ["[00000000000000000009] e0: { n = 4 }"]
    );
    assert_eq!(
        events(&header(&[("id", &byte), ("x", &class), ("t", &stamp)]), &[0, 1, 9, 4, 1, 0, 8, 5]),
        ["[00000000000000000009] e1: { n = 4 }", "[00000000000000000264] e0: { n = 5 }"]
    );
    // With two stamps, the last counts.
    assert_eq!(
        events(&header(&[("t", &stamp), ("u", &stamp)]), &[9, 12, 4]),
        ["[00000000000000000012] e0: { n = 4 }"]
    );
    let inner = structure(&[("x", &class), ("t", &stamp)], 1);
    let both = |name: &str| {
        format!(
            r#"{{"type": "variant", "selector-field-location": {{"path": ["s"]}}, "options": [
                {{{name}"selector-field-ranges": [[1, 1]], "field-class": {class}}},
                {{"selector-field-ranges": [[2, 5]], "field-class": {inner}}}]}}"#
        )
    };
    for name in ["", r#""name": "short", "#] {
        assert_eq!(
            events(&header(&[("s", &byte), ("v", &both(name))]), &[1, 1, 4, 5, 0, 7, 6]),
            ["[00000000000000000000] e1: { n = 4 }", "[00000000000000000007] e0: { n = 6 }"]
        );
    }
}

#[test]
fn a_clock_class_names_a_date_only_by_the_unix_epoch() {
    let clock = |more: &str| {
        let fragment = format!(r#"{{"type": "clock-class", "id": "c", "frequency": 1000{more}}}"#);
        let metadata = read(&sequence(&[PREAMBLE, &fragment])).expect("metadata");
        (metadata.clocks[0].date_ns(), metadata.clocks[0].uuid)
    };
    assert_eq!(clock(""), (None, None));
    assert_eq!(clock(r#", "origin": "unix-epoch""#), (Some(0), None));
    let offset = r#", "offset-from-origin": {"seconds": -2, "cycles": 7}"#;
    assert_eq!(clock(offset).0, None);
    assert_eq!(clock(&format!(r#"{offset}, "origin": "unix-epoch""#)).0, Some(-2_000_000_000 + 7_000_000));
    let custom = r#", "origin": {"name": "boot", "uid": "1"}"#;
    assert_eq!(clock(&format!("{offset}{custom}")).0, None);
    assert_eq!(clock(r#", "uid": "not a uuid""#).1, None);
    assert_eq!(clock(r#", "uid": "01010101-0101-0101-0101-010101010101""#).1, Some([1; 16]));
}

#[test]
fn unknown_properties_fragments_and_attributes_change_nothing() {
    let plain = [
        PREAMBLE,
        r#"{"type": "trace-class", "environment": {"a": -1, "b": "x", "c": 18446744073709551615}}"#,
        r#"{"type": "data-stream-class", "id": 3}"#,
        r#"{"type": "event-record-class", "data-stream-class-id": 3, "id": 4}"#,
    ];
    let metadata = read(&sequence(&plain)).expect("metadata");
    let said: Vec<_> = metadata.env.iter().map(|(key, value)| (key.as_str(), value)).collect();
    assert_eq!(
        said,
        [
            ("a", &EnvValue::Number(-1)),
            ("b", &EnvValue::Text("x".to_owned())),
            ("c", &EnvValue::Text("18446744073709551615".to_owned()))
        ]
    );
    assert_eq!((metadata.streams[0].id, metadata.streams[0].events[0].id), (3, 4));
    let more: Vec<String> = plain
        .iter()
        .map(|fragment| {
            fragment.replacen(
                '{',
                r#"{"attributes": {"them": {"extensions": 1}}, "later": [1], "extensions": {}, "#,
                1,
            )
        })
        .collect();
    let mut fragments: Vec<&str> = more.iter().map(String::as_str).collect();
    fragments.insert(2, r#"{"type": "of-a-later-version"}"#);
    let mut bytes = sequence(&fragments);
    assert_eq!(read(&bytes), Ok(metadata.clone()));
    // Separators in a row, space between fragments, and a last line that does not end.
    bytes.splice(0..0, *b"\n\x1e\x1e");
    bytes.pop();
    assert_eq!(read(&bytes), Ok(metadata));
}

#[test]
fn names_come_through_as_they_are_but_for_dots() {
    let names = ["_a", "__b", "c d", "e.f", "e_f", "", "id", "magic", "π"];
    let byte = unsigned(8, 8, "");
    let members: Vec<_> = names.iter().map(|name| (*name, byte.as_str())).collect();
    let metadata = read(&sequence(&[
        PREAMBLE,
        r#"{"type": "data-stream-class"}"#,
        &format!(r#"{{"type": "event-record-class", "payload-field-class": {}}}"#, structure(&members, 1)),
    ]))
    .expect("metadata");
    let fields = &metadata.streams[0].events[0].fields.fields;
    assert!(fields.iter().all(|field| matches!(field.ty, FieldType::Integer(_))));
    let shown: Vec<_> = fields.iter().map(|field| field.shown()).collect();
    assert_eq!(shown, ["_a", "__b", "c d", "e_f", "e_f_", "", "id", "magic", "π"]);
    let unique: std::collections::HashSet<_> = fields.iter().map(|field| &field.name).collect();
    assert_eq!(unique.len(), names.len());
}

#[test]
fn the_files_first_byte_decides_the_version() {
    assert!(read_metadata(b"/* CTF 1.8 */ trace { major = 1; };").is_ok());
    assert!(read_metadata(&sequence(&[PREAMBLE])).is_ok());
    let error = read_metadata(b" {\"type\": \"preamble\"}").expect_err("no separator").to_string();
    assert_eq!(error, "fragment 1: no record separator, byte 0x1e, stands in front of it");
    assert!(tsdl::read("{").is_err());
}
