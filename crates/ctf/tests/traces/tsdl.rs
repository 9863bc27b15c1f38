//! Metadata as text, and its reading.

use proptest::prelude::*;
use wakepath_ctf::packet;
use wakepath_ctf::schema::{
    ByteOrder, Clock, EnvValue, EventClass, Field, FieldType, Integer, Mapping, Metadata, StreamClass,
};
use wakepath_ctf::tsdl::{read_facts, write};

fn metadata(env: Vec<(String, EnvValue)>, uuid: [u8; 16], offset_s: i64, offset: u64) -> Metadata {
    let number = || FieldType::Integer(Integer::unsigned(32));
    let text = || Box::new(FieldType::Integer(Integer::character()));
    let colour = FieldType::Enumeration(
        Integer::unsigned(8),
        vec![Mapping::new("RED", 0), Mapping::new("a \"b\"", 9)],
    );
    Metadata {
        uuid: Some(uuid),
        byte_order: ByteOrder::Little,
        env,
        clocks: vec![Clock {
            name: "ticks".to_owned(),
            uuid: None,
            description: "braces } and quotes \" in a text".to_owned(),
            frequency: 1_000_000_000,
            absolute: None,
            offset_s,
            offset,
        }],
        packet_header: packet::header_fields(),
        streams: vec![StreamClass {
            id: 0,
            packet_context: packet::context_fields("ticks", true),
            event_header: vec![Field::new("id", number())].into(),
            events: vec![EventClass {
                id: 1,
                name: "paint".to_owned(),
                fields: vec![
                    Field::new("colour", colour),
                    Field::new("len", number()),
                    Field::new("name", FieldType::Array(text(), 16)),
                    Field::new("words", FieldType::Sequence(text(), "len".to_owned())),
                    Field::new("inner", FieldType::Struct(vec![Field::new("env", number())].into())),
                ]
                .into(),
                ..EventClass::default()
            }],
            ..StreamClass::default()
        }],
    }
}

#[test]
fn the_text_reads_like_tsdl() {
    let text = write(&metadata(vec![("a".to_owned(), EnvValue::Number(-1))], [0x11; 16], -5, 6));
    assert!(text.starts_with("/* CTF 1.8 */\n"), "without this, nobody takes it for CTF");
    for line in [
        "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;",
        "typealias integer { size = 64; align = 8; signed = false; map = clock.ticks.value; } := uint64_ticks_t;",
        "\tuuid = \"11111111-1111-1111-1111-111111111111\";",
        "\tbyte_order = le;",
        "\ta = -1;",
        "\toffset_s = -5;",
        "\t\tenum : uint8_t { \"RED\" = 0, \"a \\\"b\\\"\" = 9 } colour;",
        "\t\tuint8_utf8_t name[16];",
        "\t\tuint8_utf8_t words[len];",
        "\t\tstruct { uint32_t env; } inner;",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nnot in\n{text}");
    }
}

proptest! {
    #[test]
    fn facts_come_back_from_the_text(
        texts in proptest::collection::vec("[^\\p{Cc}]{0,20}[\\n\\t]?[\"\\\\]?", 0..4),
        numbers in proptest::collection::vec(any::<i64>(), 0..4),
        uuid in any::<[u8; 16]>(),
        offset_s in any::<i64>(),
        offset in 0..i64::MAX as u64,
    ) {
        let texts = texts.into_iter().enumerate().map(|(i, text)| (format!("text{i}"), EnvValue::Text(text)));
        let numbers = numbers.into_iter().enumerate().map(|(i, n)| (format!("number{i}"), EnvValue::Number(n)));
        let metadata = metadata(texts.chain(numbers).collect(), uuid, offset_s, offset);
        let facts = read_facts(&write(&metadata)).expect("our own text");
        prop_assert_eq!(Some(facts.uuid), metadata.uuid);
        prop_assert_eq!(&facts.env, &metadata.env);
        prop_assert_eq!(&facts.clock, &metadata.clocks[0]);
        for (key, value) in &metadata.env {
            match value {
                EnvValue::Text(text) => prop_assert_eq!(facts.text(key), Some(text.as_str())),
                EnvValue::Number(number) => prop_assert_eq!(facts.number(key), Some(*number)),
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(trace|env|clock|event|\\{|\\}|;|=|:=|\"|/\\*|\\*/|//|-|[a-z0-9\\\\\\n ]){0,40}") {
        let _ = read_facts(&text);
    }
}

#[test]
fn control_characters_do_not_get_into_the_text() {
    let env = vec![("options".to_owned(), EnvValue::Text("a\x1b[31m\0b".to_owned()))];
    let facts = read_facts(&write(&metadata(env, [0; 16], 0, 0))).expect("our own text");
    assert_eq!(facts.text("options"), Some("a?[31m?b"));
}

#[test]
fn an_error_names_its_line() {
    let text = write(&metadata(vec![], [0; 16], 0, 0));
    for (from, to, error) in [
        ("clock {", "clack {", "the metadata ends without a clock block"),
        (
            "freq = 1000000000;",
            "freq = 0;",
            "the clock block lacks name or freq, or a number in it is out of range",
        ),
        (
            "offset = 0;",
            "offset = -1;",
            "the clock block lacks name or freq, or a number in it is out of range",
        ),
        ("freq = 1000000000;", "freq = 99999999999999999999;", "number too large"),
        ("freq = 1000000000;", "freq = 1x;", "1x is not a number"),
        ("inner;\n\t};\n};", "inner;", "a block does not end"),
        ("\"00000000-0000-0000-0000-000000000000\"", "\"00000000-0000\"", "the trace block has no uuid"),
        (
            "\"00000000-0000-0000-0000-000000000000\"",
            "\"éé000000-0000-0000-0000-000000000000\"",
            "the trace block has no uuid",
        ),
        ("\"ticks\"", "\"ticks", "a text does not end"),
        ("\"ticks\"", "\"\\q\"", "unknown escape Some('q')"),
        ("stream {", "stream { /* ", "a comment does not end"),
    ] {
        assert!(text.contains(from), "{from}");
        let error_found = read_facts(&text.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error_found.starts_with("line ") && error_found.contains(error), "{to}: {error_found}");
    }
}
