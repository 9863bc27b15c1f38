//! CTF 2 metadata that is wrong, hostile, damaged, or needs what is not read: an error with the fragment, no panic.

use std::time::{Duration, Instant};

use wakepath_ctf::json::read;
use wakepath_ctf::plan::Ignore;
use wakepath_ctf::stream::{Item, Plans, Reader, Selection};

use crate::json::{PREAMBLE, sequence, structure, unsigned};

fn error(fragments: &[&str]) -> String {
    read(&sequence(fragments)).expect_err("an error").to_string()
}

#[test]
fn an_error_names_the_fragment_and_its_reason() {
    let stream = r#"{"type": "data-stream-class"}"#;
    let event = r#"{"type": "event-record-class"}"#;
    for (fragments, why) in [
        (&[][..], "fragment 1: the metadata ends without a preamble"),
        (&[stream], "fragment 1: it is not the preamble"),
        (&[PREAMBLE, PREAMBLE], "fragment 2: a second preamble"),
        (&["{}"], "fragment 1: it has no `type`"),
        (&[r#"{"type": 1}"#], "fragment 1: its `type` is not a text"),
        (&["[]"], "fragment 1: it is not an object"),
        (&[r#"{"type": "preamble"}"#], "fragment 1: preamble: it has no `version`"),
        (
            &[r#"{"type": "preamble", "version": 3}"#],
            "fragment 1: preamble: version 3 of CTF, which is not read",
        ),
        (
            &[r#"{"type": "preamble", "version": 2, "uuid": [1, 2]}"#],
            "fragment 1: preamble: its `uuid` is not 16 bytes",
        ),
        (
            &[r#"{"type": "preamble", "version": 2, "extensions": {"acme": {"zip": true}}}"#],
            "fragment 1: it needs the extension `zip`, which is not read",
        ),
        (
            &[PREAMBLE, event],
            "fragment 2: event-record-class: no data stream class 0 is declared in front of it",
        ),
        (
            &[PREAMBLE, stream, event, event],
            "fragment 4: event-record-class: event record class 0 of data stream class 0 is declared twice",
        ),
        (&[PREAMBLE, stream, stream], "fragment 3: data-stream-class: data stream class 0 is declared twice"),
        (
            &[PREAMBLE, r#"{"type": "data-stream-class", "default-clock-class-id": "c"}"#],
            "fragment 2: data-stream-class: no clock class `c` is declared in front of it",
        ),
        (
            &[PREAMBLE, r#"{"type": "clock-class", "id": "c", "frequency": 0}"#],
            "fragment 2: clock-class: its `frequency` is 0",
        ),
        (
            &[PREAMBLE, r#"{"type": "clock-class", "id": "c", "frequency": -1}"#],
            "fragment 2: clock-class: its `frequency` is not a number from 0 up",
        ),
        (
            &[PREAMBLE, r#"{"type": "trace-class"}"#, r#"{"type": "trace-class"}"#],
            "fragment 3: trace-class: a second one",
        ),
        (
            &[PREAMBLE, r#"{"type": "trace-class", "environment": {"a\u001b": []}}"#],
            "fragment 2: trace-class: `a\\u{1b}` in the environment is no text and no number",
        ),
        (
            &[PREAMBLE, r#"{"type": "trace-class", "packet-header-field-class": "x"}"#],
            "fragment 2: trace-class: `packet-header-field-class`: no field class alias `x` is declared in front of it",
        ),
        (
            &[PREAMBLE, r#"{"type": "field-class-alias", "name": "x", "field-class": "x"}"#],
            "fragment 2: field-class-alias: no field class alias `x` is declared in front of it",
        ),
    ] {
        assert_eq!(error(fragments), why);
    }
}

#[test]
fn cut_metadata_is_an_error_with_its_place() {
    let whole = sequence(&[PREAMBLE, r#"{"type": "data-stream-class", "id": 7}"#]);
    let second = whole.iter().rposition(|&byte| byte == 0x1e).expect("a separator");
    for cut in second + 2..whole.len() - 1 {
        let found = read(&whole[..cut]).expect_err("cut metadata").to_string();
        let column = format!("line 1 column {}", cut - second - 1);
        assert!(found.starts_with("fragment 2: EOF while parsing") && found.ends_with(&column), "{found}");
    }
    // Cut within the first fragment: an event could not follow.
    assert!(read(&whole[..10]).expect_err("cut metadata").to_string().starts_with("fragment 1: EOF"));
}

/// The error for a payload with a field before, and a member of this class.
fn payload_error(class: &str) -> String {
    let before = unsigned(8, 8, "");
    let payload = structure(&[("n", &before), ("x", class)], 1);
    let event = format!(r#"{{"type": "event-record-class", "name": "e", "payload-field-class": {payload}}}"#);
    let all = error(&[PREAMBLE, r#"{"type": "data-stream-class"}"#, &event]);
    let front = "fragment 3: event-record-class: `e`: `payload-field-class`: member `x`: ";
    all.strip_prefix(front).unwrap_or_else(|| panic!("{all}")).to_owned()
}

#[test]
fn field_classes_that_are_not_read_are_refused_by_name() {
    let number = |more: &str| format!(r#"{{"type": "fixed-length-unsigned-integer", {more}}}"#);
    let at = |path: &str, more: &str| {
        format!(r#"{{"type": "dynamic-length-blob", "length-field-location": {{"path": {path}{more}}}}}"#)
    };
    let element = |class: &str, more: &str| {
        format!(r#"{{"type": "static-length-array", "length": 1, "element-field-class": {class}{more}}}"#)
    };
    for (class, why) in [
        (r#"{"type": "quantum"}"#.to_owned(), "a field class of type `quantum`, which is not read"),
        ("7".to_owned(), "a field class is not an object"),
        (
            r#"{"type": "structure", "extensions": {"acme": {"zip": {}}}}"#.to_owned(),
            "it needs the extension `zip`, which is not read",
        ),
        (number(r#""length": 8"#), "it has no `byte-order`"),
        (number(r#""length": 8, "byte-order": "middle""#), "`middle` is no byte order"),
        (
            number(r#""length": 65, "byte-order": "big-endian""#),
            "a field with 65 bits, which is not read: 1 to 64 are",
        ),
        (
            number(r#""length": 0, "byte-order": "big-endian""#),
            "a field with 0 bits, which is not read: 1 to 64 are",
        ),
        (
            number(r#""length": 8, "byte-order": "big-endian", "bit-order": "first-to-last""#),
            "a bit order `first-to-last` against the byte order, which is not read",
        ),
        (
            number(r#""length": 8, "byte-order": "big-endian", "alignment": 3"#),
            "its `alignment` of 3 is no power of two up to 512",
        ),
        (
            number(r#""length": 8, "byte-order": "big-endian", "alignment": 1024"#),
            "its `alignment` of 1024 is no power of two up to 512",
        ),
        (
            number(r#""length": 8, "byte-order": "big-endian", "mappings": {"a": [[2, 1]]}"#),
            "ranges of values that are not pairs of numbers, the lower first",
        ),
        (
            r#"{"type": "fixed-length-floating-point-number", "length": 16, "byte-order": "big-endian"}"#
                .to_owned(),
            "a floating-point number with 16 bits, which is not read",
        ),
        (
            r#"{"type": "null-terminated-string", "encoding": "utf-16le"}"#.to_owned(),
            "a string in `utf-16le`, which is not read: only utf-8 is",
        ),
        (
            element(r#"{"type": "null-terminated-string"}"#, r#", "minimum-alignment": 16"#),
            "an array aligned beyond its elements, which is not read",
        ),
        (at("[]", ""), "a field location's path leads to no field"),
        (at(r#"["n", null]"#, ""), "a field location's path leads to no field"),
        (at("[1]", ""), "a field location's path has a step other than a name or null"),
        (
            at(r#"["n"]"#, r#", "origin": "moon""#),
            "a field location begins in a structure that CTF 2 does not have",
        ),
        (at(r#"["m"]"#, ""), "`m` leads to no number in front of the field"),
        (at(r#"["x"]"#, ""), "`x` leads to no number in front of the field"),
        (at(r#"["n", "o"]"#, ""), "`n/o` leads to no number in front of the field"),
        (at(r#"[null, "n"]"#, ""), "`n` leads out of its origin"),
        (at(r#"[null, "n"]"#, r#", "origin": "event-record-payload""#), "`n` leads out of its origin"),
        (
            structure(&[("a", &element(&unsigned(8, 8, ""), "")), ("b", &at(r#"["a", "n"]"#, ""))], 1),
            "member `b`: `a/n` leads into an array, which is not read",
        ),
        (
            structure(
                &[("s", &unsigned(8, 8, "").replace("unsigned", "signed")), ("b", &at(r#"["s"]"#, ""))],
                1,
            ),
            "member `b`: a length that is no unsigned integer",
        ),
        (
            r#"{"type": "optional", "field-class": {"type": "null-terminated-string"},
                "selector-field-location": {"path": ["n"]}}"#
                .to_owned(),
            "an optional field without ranges for its selector",
        ),
        (
            structure(&[("a", &unsigned(8, 8, "")), ("a", &unsigned(8, 8, ""))], 1),
            "a structure has two members `a`",
        ),
    ] {
        assert_eq!(payload_error(&class), why, "{class}");
    }
}

#[test]
fn roles_that_no_reader_would_find_are_refused() {
    let stamp = unsigned(8, 8, r#", "roles": ["default-clock-timestamp"]"#);
    let variable = r#"{"type": "variable-length-unsigned-integer", "roles": ["default-clock-timestamp"]}"#;
    let clock = r#"{"type": "clock-class", "id": "c", "frequency": 1}"#;
    let of = |key: &str, clock: &str, members: &[(&str, &str)]| {
        format!(r#"{{"type": "data-stream-class"{clock}, "{key}": {}}}"#, structure(members, 1))
    };
    let (context, header) = ("packet-context-field-class", "event-record-header-field-class");
    let with = r#", "default-clock-class-id": "c""#;
    let inner = structure(&[("t", &stamp)], 1);
    let array = format!(r#"{{"type": "static-length-array", "length": 2, "element-field-class": {stamp}}}"#);
    let two = unsigned(8, 8, r#", "roles": ["default-clock-timestamp", "packet-sequence-number"]"#);
    for (stream, why) in [
        (of(header, "", &[("t", &stamp)]), "a timestamp of a data stream without a default clock"),
        (of(header, with, &[("t", variable)]), "a timestamp of variable length, which is not read"),
        (of(header, with, &[("t", &array)]), "a role for an array's elements, which is not read"),
        (
            of(context, with, &[("s", &inner)]),
            "a role inside a field of the packet's header or context, which is not read",
        ),
        (of(context, with, &[("t", &two)]), "two roles at once, which are not read"),
        (of(context, with, &[("t", &stamp), ("u", &stamp)]), "member `u` has the same role as another"),
    ] {
        let found = error(&[PREAMBLE, clock, &stream]);
        assert!(found.starts_with("fragment 3: data-stream-class: `") && found.ends_with(why), "{found}");
    }
}

#[test]
fn types_of_types_cannot_take_much_time_or_memory() {
    let begun = Instant::now();
    let mut fragments = vec![PREAMBLE.to_owned()];
    let alias = |name: usize, class: &str| {
        format!(r#"{{"type": "field-class-alias", "name": "a{name}", "field-class": {class}}}"#)
    };
    fragments.push(alias(0, &unsigned(8, 8, "")));
    for name in 1..20 {
        let before = format!("\"a{}\"", name - 1);
        let members: Vec<String> = (0..9).map(|number| format!("m{number}")).collect();
        let members: Vec<_> = members.iter().map(|name| (name.as_str(), before.as_str())).collect();
        fragments.push(alias(name, &structure(&members, 1)));
    }
    let bomb = r#"{"type": "trace-class", "packet-header-field-class": "a19"}"#;
    let mut all: Vec<&str> = fragments.iter().map(String::as_str).collect();
    all.push(bomb);
    assert!(error(&all).ends_with("the field classes of this metadata have too many parts"));
    // Nesting, by aliases and directly: far beyond the limit, up to the end of the stack.
    let mut fragments = vec![PREAMBLE.to_owned(), alias(0, &unsigned(8, 8, ""))];
    for name in 1..10_000 {
        fragments.push(alias(name, &structure(&[("m", &format!("\"a{}\"", name - 1))], 1)));
    }
    let all: Vec<&str> = fragments.iter().map(String::as_str).collect();
    assert_eq!(error(&all), "fragment 26: field-class-alias: field classes nest too deep");
    let deep =
        [r#"{"type": "structure", "member-classes": [{"name": "m", "field-class": "#].concat().repeat(10_000);
    let found =
        error(&[PREAMBLE, &format!(r#"{{"type": "trace-class", "packet-header-field-class": {deep}"#)]);
    assert!(found.starts_with("fragment 2: recursion limit exceeded"), "{found}");
    let long = format!(r#"{{"type": "trace-class", "later": "{}"}}"#, "x".repeat(5 << 20));
    assert_eq!(error(&[PREAMBLE, &long]), "fragment 2: it has more than 4194304 bytes");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

/// Metadata with every field class, and a packet for it.
fn rich() -> (Vec<u8>, Vec<u8>) {
    let byte = unsigned(8, 8, "");
    let optional = format!(
        r#"{{"type": "optional", "selector-field-location": {{"path": ["n"]}}, "selector-field-ranges": [[1, 9]],
            "field-class": {byte}}}"#
    );
    let variant = format!(
        r#"{{"type": "variant", "selector-field-location": {{"path": ["n"]}}, "options": [
            {{"name": "a", "selector-field-ranges": [[0, 4]], "field-class": {byte}}},
            {{"selector-field-ranges": [[5, 9]], "field-class": {}}}]}}"#,
        structure(&[("x", &byte)], 16)
    );
    let array = format!(
        r#"{{"type": "dynamic-length-array", "length-field-location": {{"origin": "event-record-payload",
            "path": ["n"]}}, "element-field-class": {}}}"#,
        structure(&[("y", &unsigned(5, 1, "")), ("z", r#"{"type": "null-terminated-string"}"#)], 1)
    );
    let payload = structure(
        &[
            ("n", r#"{"type": "variable-length-unsigned-integer"}"#),
            ("o", &optional),
            ("v", &variant),
            ("w", &array),
            ("t", r#"{"type": "static-length-string", "length": 3}"#),
        ],
        1,
    );
    let role = |name: &str| unsigned(8, 8, &format!(r#", "roles": ["{name}"]"#));
    let metadata = sequence(&[
        PREAMBLE,
        &format!(
            r#"{{"type": "field-class-alias", "name": "header", "field-class": {}}}"#,
            role("event-record-class-id")
        ),
        r#"{"type": "trace-class", "environment": {"domain": "kernel"}}"#,
        r#"{"type": "clock-class", "id": "c", "frequency": 1000, "origin": "unix-epoch",
            "offset-from-origin": {"seconds": 1, "cycles": 2}}"#,
        &format!(
            r#"{{"type": "data-stream-class", "default-clock-class-id": "c",
                "packet-context-field-class": {}, "event-record-header-field-class": {}}}"#,
            structure(&[("s", &role("packet-total-length"))], 1),
            structure(&[("i", "\"header\""), ("t", &role("default-clock-timestamp"))], 1)
        ),
        &format!(r#"{{"type": "event-record-class", "name": "e", "payload-field-class": {payload}}}"#),
    ]);
    let mut packet = vec![160, 0, 7, 2, 1, 2, 3, b'a', 0, 3, b'b', 0, b'x', b'y', b'z'];
    packet.resize(20, 0);
    (metadata, packet)
}

/// Reads everything; returns the number of events.
fn read_all(metadata: &[u8], stream: &[u8]) -> Option<usize> {
    let plans = Plans::new(read(metadata).ok()?, &Selection::All).ok()?;
    let mut reader = Reader::new(&plans, stream).expect("memory");
    let mut events = 0;
    while let Some(item) = reader.next() {
        events += usize::from(matches!(item, Item::Event(_)) && reader.fields(&mut Ignore).is_ok());
    }
    Some(events)
}

#[test]
fn damaged_metadata_never_panics() {
    let (metadata, packet) = rich();
    assert_eq!(read_all(&metadata, &packet), Some(1), "undamaged");
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let tokens: [&[u8]; 12] = [
        b"null",
        b"-1",
        b"18446744073709551615",
        b"[]",
        b"{}",
        b"\"n\"",
        b"[[0, 1]]",
        b"\x1e",
        b"8",
        b"]",
        b"}",
        b"\"",
    ];
    let (mut read, mut refused) = (0, 0);
    for _ in 0..2_000 {
        let mut damaged = metadata.clone();
        for _ in 0..=random(3) {
            let at = random(damaged.len());
            match random(5) {
                0 => damaged[at] ^= 1 << random(8),
                1 => drop(damaged.drain(at..(at + 1 + random(40)).min(damaged.len()))),
                2 => drop(damaged.splice(at..at, tokens[random(tokens.len())].iter().copied())),
                3 => damaged.truncate(at + 1),
                // A number for another.
                _ => {
                    if let Some(digit) = damaged[at..].iter_mut().find(|byte| byte.is_ascii_digit()) {
                        *digit = b'0' + random(10) as u8;
                    }
                }
            }
        }
        match read_all(&damaged, &packet) {
            Some(_) => read += 1,
            None => refused += 1,
        }
    }
    assert!(read > 100 && refused > 200, "{read} read, {refused} refused: both ways were taken");
}
