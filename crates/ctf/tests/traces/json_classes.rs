//! CTF 2's field classes: a field class, bytes, and their meaning.

use wakepath_ctf::json::read;

use crate::json::{PREAMBLE, decode, sequence, structure, unsigned};

/// The first event's payload as text, or its fault.
fn said(members: &[(&str, &str)], bytes: &[u8]) -> String {
    let metadata = read(&sequence(&[
        PREAMBLE,
        r#"{"type": "data-stream-class"}"#,
        &format!(
            r#"{{"type": "event-record-class", "name": "e", "payload-field-class": {}}}"#,
            structure(members, 1)
        ),
    ]));
    let metadata = metadata.unwrap_or_else(|error| panic!("{members:?}: {error}"));
    let (lines, others) = decode(metadata, bytes);
    match lines.first() {
        Some(line) => line.split_once("e: ").expect("a name").1.to_owned(),
        None => format!("{others:?}"),
    }
}

#[test]
fn each_class_of_numbers_means_what_ctf_2_says() {
    let class = |kind: &str, more: &str| format!(r#"{{"type": "{kind}", "byte-order": {more}}}"#);
    for (kind, more, bytes, meaning) in [
        ("fixed-length-unsigned-integer", r#""little-endian", "length": 16"#, &[1, 2][..], "513"),
        ("fixed-length-unsigned-integer", r#""big-endian", "length": 16"#, &[1, 2], "258"),
        ("fixed-length-unsigned-integer", r#""little-endian", "length": 3"#, &[0b1111_1010], "2"),
        ("fixed-length-unsigned-integer", r#""big-endian", "length": 3"#, &[0b0101_1111], "2"),
        (
            "fixed-length-unsigned-integer",
            r#""big-endian", "length": 8, "bit-order": "last-to-first", "preferred-display-base": 16"#,
            &[31],
            "0x1F",
        ),
        ("fixed-length-signed-integer", r#""little-endian", "length": 5"#, &[0b1_1111], "-1"),
        (
            "fixed-length-signed-integer",
            r#""little-endian", "length": 8, "mappings": {"below": [[-128, -2], [-1, -1]], "above": [[1, 127]]}"#,
            &[0xff],
            "( \"below\" : container = -1 )",
        ),
        (
            "fixed-length-unsigned-integer",
            r#""little-endian", "length": 64, "mappings": {"most": [[1, 1], [9, 18446744073709551615]]}"#,
            &[0xff; 8],
            "( \"most\" : container = 18446744073709551615 )",
        ),
        ("fixed-length-boolean", r#""little-endian", "length": 8"#, &[2], "2"),
        ("fixed-length-bit-array", r#""little-endian", "length": 12"#, &[0x34, 0x12], "0x234"),
        (
            "fixed-length-bit-map",
            r#""little-endian", "length": 8, "flags": {"a": [[0, 0]]}"#,
            &[0x81],
            "0x81",
        ),
        ("fixed-length-floating-point-number", r#""little-endian", "length": 32"#, &[0, 0, 0x80, 0x3f], "1"),
        (
            "fixed-length-floating-point-number",
            r#""big-endian", "length": 64"#,
            &[0x40, 0, 0, 0, 0, 0, 0, 0],
            "2",
        ),
        ("variable-length-unsigned-integer", r#""""#, &[0x80, 0x80, 1], "16384"),
        ("variable-length-unsigned-integer", r#""""#, &[0x7f], "127"),
        (
            "variable-length-unsigned-integer",
            r#""""#,
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            "18446744073709551615",
        ),
        ("variable-length-signed-integer", r#""""#, &[0x7f], "-1"),
        ("variable-length-signed-integer", r#""""#, &[0xff, 0], "127"),
        (
            "variable-length-signed-integer",
            r#""", "mappings": {"least": [[-9223372036854775808, -9223372036854775808]]}"#,
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f],
            "( \"least\" : container = -9223372036854775808 )",
        ),
    ] {
        assert_eq!(
            said(&[("x", &class(kind, more))], bytes),
            format!("{{ x = {meaning} }}"),
            "{kind} {more}"
        );
    }
    for (bytes, fault) in [
        (&[0xff; 9][..], "EventCut"),
        (&[0xff; 11], "Large"),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], "Large"),
    ] {
        let class = r#"{"type": "variable-length-unsigned-integer"}"#;
        assert!(said(&[("x", class)], bytes).contains(fault), "{bytes:?}");
    }
}

#[test]
fn fields_stand_at_their_alignment() {
    let byte = unsigned(8, 8, "");
    let bits = unsigned(3, 1, "");
    let word = unsigned(16, 32, "");
    let text = r#"{"type": "null-terminated-string"}"#;
    let variable = r#"{"type": "variable-length-unsigned-integer"}"#;
    assert_eq!(said(&[("a", &bits), ("b", &bits)], &[0b10_1001]), "{ a = 1, b = 5 }");
    assert_eq!(said(&[("a", &byte), ("b", &word)], &[1, 9, 9, 9, 2, 0]), "{ a = 1, b = 2 }");
    for aligned in [text, variable, r#"{"type": "static-length-string", "length": 1}"#] {
        let found = said(&[("a", &bits), ("b", aligned)], &[1, b'z', 0]);
        assert!(found == "{ a = 1, b = \"z\" }" || found == "{ a = 1, b = 122 }", "{found}");
    }
    // A structure stands at its own alignment, or its members'.
    let own = structure(&[("b", &byte)], 16);
    assert_eq!(said(&[("a", &byte), ("s", &own)], &[1, 9, 2]), "{ a = 1, s = { b = 2 } }");
    let empty = structure(&[], 32);
    assert_eq!(
        said(&[("a", &byte), ("s", &empty), ("b", &byte)], &[1, 9, 9, 9, 2]),
        "{ a = 1, s = { }, b = 2 }"
    );
    let members = structure(&[("b", &byte), ("c", &word)], 1);
    assert_eq!(
        said(&[("a", &byte), ("s", &members)], &[1, 9, 9, 9, 2, 9, 9, 9, 3, 0]),
        "{ a = 1, s = { b = 2, c = 3 } }"
    );
}

#[test]
fn an_empty_structure_with_an_alignment_of_its_own_is_aligned_as_a_whole() {
    let byte = unsigned(8, 8, "");
    let metadata = sequence(&[
        PREAMBLE,
        &format!(
            r#"{{"type": "data-stream-class", "packet-context-field-class": {},
                "event-record-header-field-class": {}}}"#,
            structure(&[("a", &byte)], 1),
            structure(&[], 32)
        ),
        &format!(
            r#"{{"type": "event-record-class", "name": "e", "payload-field-class": {}}}"#,
            structure(&[("n", &byte)], 1)
        ),
    ]);
    let (lines, _) = decode(read(&metadata).expect("metadata"), &[1, 9, 9, 9, 5]);
    assert_eq!(lines, ["[00000000000000000000] e: { n = 5 }"]);
}

/// A class with a length in the payload's field `n`.
fn sized(kind: &str, more: &str, location: &str) -> String {
    format!(r#"{{"type": "dynamic-length-{kind}"{more}, "length-field-location": {location}}}"#)
}

#[test]
fn lengths_are_fixed_or_in_an_earlier_field() {
    let byte = unsigned(8, 8, "");
    let short = unsigned(16, 8, "");
    let in_n = r#"{"origin": "event-record-payload", "path": ["n"]}"#;
    let element = |class: &str| format!(r#", "element-field-class": {class}"#);
    let fixed = |kind: &str, length: u32, more: &str| {
        format!(r#"{{"type": "static-length-{kind}", "length": {length}{more}}}"#)
    };
    for (class, bytes, meaning) in [
        (fixed("string", 3, ""), &[b'a', 0, b'b', 9][..], "\"a\""),
        (fixed("blob", 2, r#", "media-type": "x/y""#), &[7, 0], "[ [0] = 7, [1] = 0 ]"),
        (fixed("array", 2, &element(&short)), &[1, 0, 2, 0], "[ [0] = 1, [1] = 2 ]"),
        (fixed("array", 0, &element(&short)), &[], "[ ]"),
    ] {
        assert_eq!(
            said(&[("n", &byte), ("x", &class)], &[&[5], bytes].concat()),
            format!("{{ n = 5, x = {meaning} }}")
        );
    }
    for (kind, more, bytes, meaning) in [
        ("string", String::new(), &[2, b'a', b'b', b'c'][..], "\"ab\""),
        ("blob", String::new(), &[1, 7, 8], "[ [0] = 7 ]"),
        ("array", element(&short), &[2, 1, 0, 2, 0], "[ [0] = 1, [1] = 2 ]"),
        (
            "array",
            element(&structure(&[("y", &byte)], 1)),
            &[2, 1, 2],
            "[ [0] = { y = 1 }, [1] = { y = 2 } ]",
        ),
    ] {
        for location in [in_n, r#"{"path": ["n"]}"#, r#"{"path": ["n", null, "n"]}"#] {
            let class = sized(kind, &more, location);
            let found = said(&[("n", &byte), ("x", &class)], bytes);
            assert_eq!(found, format!("{{ n = {}, x = {meaning} }}", bytes[0]), "{class}");
        }
    }
    let variable = r#"{"type": "variable-length-unsigned-integer"}"#;
    let class = sized("string", "", in_n);
    assert_eq!(said(&[("n", variable), ("x", &class)], &[0x81, 0, b'a']), "{ n = 1, x = \"a\" }");
}

#[test]
fn locations_lead_out_of_structures_and_into_earlier_ones() {
    let byte = unsigned(8, 8, "");
    let text = |location: &str| sized("string", "", location);
    let outer = |location: &str| {
        let inner = structure(&[("n", &byte), ("x", &text(location))], 1);
        let whole = structure(&[("n", &byte)], 1);
        said(&[("n", &byte), ("s", &whole), ("t", &inner)], b"\x01\x02\x03abcd")
    };
    let with =
        |count: usize| format!("{{ n = 1, s = {{ n = 2 }}, t = {{ n = 3, x = \"{}\" }} }}", &"abcd"[..count]);
    for (location, count) in [
        (r#"{"path": [null, "n"]}"#, 1),
        (r#"{"path": [null, "s", "n"]}"#, 2),
        (r#"{"path": ["n"]}"#, 3),
        (r#"{"origin": "event-record-payload", "path": ["n"]}"#, 1),
        (r#"{"origin": "event-record-payload", "path": ["s", "n"]}"#, 2),
        (r#"{"origin": "event-record-payload", "path": ["t", "n"]}"#, 3),
        (r#"{"origin": "event-record-payload", "path": ["t", null, "n"]}"#, 1),
    ] {
        assert_eq!(outer(location), with(count), "{location}");
    }
    // An element's field means the length in the same element.
    let pair = structure(
        &[("n", &byte), ("x", &text(r#"{"origin": "event-record-payload", "path": ["a", "n"]}"#))],
        1,
    );
    let array = format!(r#"{{"type": "static-length-array", "length": 2, "element-field-class": {pair}}}"#);
    assert_eq!(
        said(&[("a", &array)], b"\x01a\x02bc"),
        "{ a = [ [0] = { n = 1, x = \"a\" }, [1] = { n = 2, x = \"bc\" } ] }"
    );
}

#[test]
fn locations_lead_into_each_earlier_part_of_an_event() {
    let byte = unsigned(8, 8, "");
    for (origin, length) in [
        ("packet-header", 1),
        ("packet-context", 2),
        ("event-record-header", 3),
        ("event-record-common-context", 4),
        ("event-record-specific-context", 5),
    ] {
        let part = structure(&[("n.m", &byte)], 1);
        let text = sized("string", "", &format!(r#"{{"origin": "{origin}", "path": ["n.m"]}}"#));
        let metadata = sequence(&[
            PREAMBLE,
            &format!(r#"{{"type": "field-class-alias", "name": "part", "field-class": {part}}}"#),
            r#"{"type": "field-class-alias", "name": "again", "field-class": "part"}"#,
            r#"{"type": "trace-class", "packet-header-field-class": "part"}"#,
            r#"{"type": "data-stream-class", "packet-context-field-class": "part",
                "event-record-header-field-class": "again", "event-record-common-context-field-class": "part"}"#,
            &format!(
                r#"{{"type": "event-record-class", "name": "e", "specific-context-field-class": "part",
                    "payload-field-class": {}}}"#,
                structure(&[("x", &text)], 1)
            ),
        ]);
        let (lines, _) = decode(read(&metadata).expect("metadata"), b"\x01\x02\x03\x04\x05abcdefg");
        let end = format!("{{ x = \"{}\" }}", &"abcdefg"[..length]);
        assert!(lines[0].ends_with(&end), "{origin}: {}", lines[0]);
    }
}

#[test]
fn ranges_of_the_selector_choose_a_variants_option() {
    let byte = unsigned(8, 8, "");
    let signed = byte.replace("unsigned", "signed");
    let option = |name: &str, ranges: &str, class: &str| {
        format!(r#"{{{name}"selector-field-ranges": {ranges}, "field-class": {class}}}"#)
    };
    let variant = |options: &[String]| {
        format!(
            r#"{{"type": "variant", "selector-field-location": {{"path": ["s"]}}, "options": [{}]}}"#,
            options.join(", ")
        )
    };
    let text = r#"{"type": "null-terminated-string"}"#;
    // The names say the opposite of the ranges.
    let names = unsigned(8, 8, r#", "mappings": {"text": [[0, 3]], "number": [[4, 9], [200, 200]]}"#);
    let by_ranges = variant(&[
        option(r#""name": "number", "#, "[[0, 3]]", &byte),
        option(r#""name": "text", "#, "[[4, 9], [200, 200]]", text),
    ]);
    for selector in [&byte, &names] {
        for (value, meaning) in
            [(0, "{ 97 }"), (3, "{ 97 }"), (4, "{ \"a\" }"), (9, "{ \"a\" }"), (200, "{ \"a\" }")]
        {
            let found = said(&[("s", selector), ("v", &by_ranges)], &[value, b'a', 0]);
            assert!(found.ends_with(&format!("v = {meaning} }}")), "{value}: {found}");
        }
        for value in [10, 199, 201, 255] {
            let found = said(&[("s", selector), ("v", &by_ranges)], &[value, b'a', 0]);
            assert!(found.contains(&format!("Tag {{ event: \"e\", tag: {value} }}")), "{found}");
        }
    }
    let of_signs = variant(&[option("", "[[-128, -1]]", &byte), option("", "[[0, 127]]", text)]);
    assert_eq!(said(&[("s", &signed), ("v", &of_signs)], &[0xfe, 7]), "{ s = -2, v = { 7 } }");
    assert_eq!(said(&[("s", &signed), ("v", &of_signs)], &[2, b'a', 0]), "{ s = 2, v = { \"a\" } }");
}

#[test]
fn an_optional_field_is_there_or_takes_no_room() {
    let byte = unsigned(8, 8, "");
    let bit = r#"{"type": "fixed-length-boolean", "length": 4, "byte-order": "little-endian"}"#;
    let optional = |more: &str, class: &str| {
        format!(
            r#"{{"type": "optional", "selector-field-location": {{"path": ["s"]}}{more}, "field-class": {class}}}"#
        )
    };
    let word = unsigned(16, 16, "");
    // Behind it, the alignment is that of either case.
    let fields = [("s", bit), ("o", &optional("", &word)), ("t", &byte), ("u", &word)];
    assert_eq!(said(&fields, &[2, 9, 3, 0, 4, 9, 5, 0]), "{ s = 2, o = { 3 }, t = 4, u = 5 }");
    assert_eq!(said(&fields, &[0x70, 3, 4, 0]), "{ s = 0, o = { }, t = 3, u = 4 }");
    let ranges = r#", "selector-field-ranges": [[33, 55], [60, 60]]"#;
    for (value, there) in [(32, false), (33, true), (55, true), (56, false), (60, true)] {
        let found = said(&[("s", &byte), ("o", &optional(ranges, &byte)), ("t", &byte)], &[value, 1, 2]);
        let end = if there { "o = { 1 }, t = 2 }" } else { "o = { }, t = 1 }" };
        assert!(found.ends_with(end), "{found}");
    }
    // Its own locations lead out of it.
    let inner = structure(&[("x", &sized("string", "", r#"{"path": [null, "s"]}"#))], 1);
    let fields = [("s", byte.as_str()), ("o", &optional(r#", "selector-field-ranges": [[1, 9]]"#, &inner))];
    assert_eq!(said(&fields, b"\x02ab"), "{ s = 2, o = { { x = \"ab\" } } }");
}
