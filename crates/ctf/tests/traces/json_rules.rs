//! CTF 2's rarer rules: limits, locations through options, roles inside fields.

use std::fmt::Write as _;

use wakepath_ctf::json::read;
use wakepath_ctf::schema::{ByteOrder, FieldType, Structure};

use crate::json::{PREAMBLE, sequence, structure, unsigned};

/// The error for these fragments behind the preamble.
fn error(fragments: &[&str]) -> String {
    read(&sequence(&[&[PREAMBLE], fragments].concat())).expect_err("an error").to_string()
}

fn event(payload: &str) -> String {
    format!(r#"{{"type": "event-record-class", "name": "e", "payload-field-class": {payload}}}"#)
}

const STREAM: &str = r#"{"type": "data-stream-class"}"#;

/// The only event's payload.
fn payload(members: &[(&str, &str)]) -> Result<Structure, String> {
    let metadata = read(&sequence(&[PREAMBLE, STREAM, &event(&structure(members, 1))]));
    metadata.map(|mut all| all.streams.remove(0).events.remove(0).fields).map_err(|error| error.to_string())
}

#[test]
fn a_name_is_declared_once() {
    let clock = r#"{"type": "clock-class", "id": "c", "frequency": 1}"#;
    assert_eq!(error(&[clock, clock]), "fragment 3: clock-class: clock class `c` is declared twice");
    let alias =
        format!(r#"{{"type": "field-class-alias", "name": "x", "field-class": {}}}"#, unsigned(8, 8, ""));
    let twice = "fragment 3: field-class-alias: the field class alias `x` is declared twice";
    assert_eq!(error(&[&alias, &alias]), twice);
}

#[test]
fn extensions_that_are_no_object_are_an_error() {
    let error = error(&[r#"{"type": "trace-class", "extensions": []}"#]);
    assert_eq!(error, "fragment 2: its `extensions` are not an object");
}

#[test]
fn a_long_name_is_shown_by_its_begin() {
    let name = "n".repeat(81);
    let said = error(&[&format!(r#"{{"type": "trace-class", "packet-header-field-class": "{name}"}}"#)]);
    assert!(said.contains(&format!("`{}…`", "n".repeat(80))), "{said}");
}

/// A hostile file may declare any number.
#[test]
fn there_are_no_more_than_65536_classes_of_a_kind() {
    let many = |declare: &dyn Fn(u32) -> String, fragments: &[&str]| {
        let mut text = sequence(&[&[PREAMBLE], fragments].concat());
        let mut more = String::new();
        for number in 0..65_537 {
            let _ = writeln!(more, "\x1e{}", declare(number));
        }
        text.extend(more.into_bytes());
        read(&text).map(|_| ()).map_err(|error| error.text)
    };
    let clock = |number| format!(r#"{{"type":"clock-class","id":"c{number}","frequency":1}}"#);
    assert_eq!(many(&clock, &[]), Err("clock-class: there are too many".to_owned()));
    let stream = |number| format!(r#"{{"type":"data-stream-class","id":{number}}}"#);
    assert_eq!(many(&stream, &[]), Err("data-stream-class: there are too many".to_owned()));
    let event = |number| format!(r#"{{"type":"event-record-class","id":{number}}}"#);
    assert_eq!(many(&event, &[STREAM]), Err("event-record-class: there are too many".to_owned()));
}

#[test]
fn the_byte_order_of_the_first_number_is_that_of_the_trace() {
    for (order, expected) in [("little-endian", ByteOrder::Little), ("big-endian", ByteOrder::Big)] {
        let magic = unsigned(32, 8, r#", "roles": ["packet-magic-number"]"#).replace("little-endian", order);
        let header = structure(&[("magic", &magic)], 8);
        let class = format!(r#"{{"type": "trace-class", "packet-header-field-class": {header}}}"#);
        assert_eq!(read(&sequence(&[PREAMBLE, &class])).expect("metadata").byte_order, expected);
    }
}

/// An array whose length is at this location.
fn array(origin: &str, path: &str) -> String {
    format!(
        r#"{{"type": "dynamic-length-array", "element-field-class": {},
            "length-field-location": {{{origin}"path": [{path}]}}}}"#,
        unsigned(8, 8, "")
    )
}

#[test]
fn a_header_finds_lengths_in_the_packets_context() {
    let context = structure(&[("n", &unsigned(8, 8, ""))], 8);
    let header = structure(&[("a", &array(r#""origin": "packet-context", "#, "\"n\""))], 8);
    let stream = format!(
        r#"{{"type": "data-stream-class", "packet-context-field-class": {context}, "event-record-header-field-class": {header}}}"#
    );
    let metadata = read(&sequence(&[PREAMBLE, &stream])).expect("metadata");
    let FieldType::Sequence(_, path) = &metadata.streams[0].event_header.fields[0].ty else { panic!() };
    assert_eq!(path, "stream.packet.context.n");
}

/// A variant chosen by `tag`, with these options for 0, 1, and so on.
fn variant(options: &[(&str, &str)]) -> String {
    let options: Vec<_> = (0..)
        .zip(options)
        .map(|(value, (name, class))| {
            format!(r#"{{"name": "{name}", "selector-field-ranges": [[{value}, {value}]], "field-class": {class}}}"#)
        })
        .collect();
    let options = options.join(", ");
    format!(
        r#"{{"type": "variant", "selector-field-location": {{"path": ["tag"]}}, "options": [{options}]}}"#
    )
}

/// The paths to a type's lengths, from outside in.
fn lengths(ty: &FieldType, into: &mut Vec<String>) {
    match ty {
        FieldType::Sequence(element, path) => {
            into.push(path.clone());
            lengths(element, into);
        }
        FieldType::Struct(inner) => inner.fields.iter().for_each(|field| lengths(&field.ty, into)),
        FieldType::Variant(variant) => variant.options.iter().for_each(|field| lengths(&field.ty, into)),
        _ => {}
    }
}

#[test]
fn a_location_leads_out_of_an_option_and_through_it() {
    let tag = unsigned(8, 8, "");
    // Directly in the option, the length stands beside the variant; in the option's structure, within or around it.
    let direct = array("", "\"n\"");
    let within = structure(&[("m", &tag), ("s", &structure(&[("a", &array("", "null, \"m\""))], 8))], 8);
    let around = structure(&[("a", &array("", "null, \"n\""))], 8);
    let members = [
        ("n", tag.as_str()),
        ("tag", &tag),
        ("v", &variant(&[("direct", &direct), ("within", &within), ("around", &around)])),
    ];
    let mut found = Vec::new();
    payload(&members).expect("a payload").fields.iter().for_each(|field| lengths(&field.ty, &mut found));
    assert_eq!(found, ["event.fields.n", "event.fields.v.within.m", "event.fields.n"]);
}

#[test]
fn a_variant_is_chosen_by_a_number_and_its_options_have_no_roles_in_a_packets_context() {
    let flag = unsigned(8, 8, "").replace("unsigned-integer", "boolean");
    let option = unsigned(8, 8, "");
    let chosen = payload(&[("tag", &flag), ("v", &variant(&[("a", &option)]))]).expect_err("refused");
    assert!(chosen.ends_with("a variant chosen by a boolean"), "{chosen}");
    let refused = |role: &str, class: &dyn Fn(&str) -> String| {
        let own = unsigned(8, 8, &format!(r#", "roles": ["{role}"]"#));
        let context = structure(&[("tag", &option), ("v", &class(&own))], 8);
        let stream = format!(r#"{{"type": "data-stream-class", "packet-context-field-class": {context}}}"#);
        read(&sequence(&[PREAMBLE, &stream])).map(|_| ()).map_err(|error| error.text)
    };
    let inside = |said: Result<(), String>, why: &str| {
        let said = said.expect_err("refused");
        assert!(said.contains(why), "{said}");
    };
    let direct = |own: &str| variant(&[("a", own)]);
    let in_structure = |own: &str| variant(&[("a", &structure(&[("x", own)], 8))]);
    inside(refused("packet-total-length", &direct), "a role for a variant's option, which is not read");
    inside(
        refused("packet-total-length", &in_structure),
        "a role inside a field of the packet's header or context",
    );
    // A field without a role may be anywhere.
    assert_eq!(refused("a-later-role", &direct), Ok(()));
}

#[test]
fn the_number_of_a_stream_may_be_inside_a_field_of_the_header() {
    let id = unsigned(8, 8, r#", "roles": ["data-stream-id"]"#);
    let header = structure(&[("s", &structure(&[("id", &id)], 8))], 8);
    let class = format!(r#"{{"type": "trace-class", "packet-header-field-class": {header}}}"#);
    assert!(read(&sequence(&[PREAMBLE, &class])).is_ok());
    let class = class.replace("data-stream-id", "data-stream-class-id");
    assert!(read(&sequence(&[PREAMBLE, &class])).is_err());
}

#[test]
fn the_names_of_values_are_by_value_and_name_the_options_with_the_same_ranges() {
    let tag = unsigned(8, 8, r#", "mappings": {"z": [[4, 4], [0, 1]], "a": [[7, 7]]}"#);
    let option = |name: &str, ranges: &str| {
        format!(
            r#"{{"name": "{name}", "selector-field-ranges": {ranges}, "field-class": {}}}"#,
            unsigned(8, 8, "")
        )
    };
    let with = |ranges: &str| {
        let variant = format!(
            r#"{{"type": "variant", "selector-field-location": {{"path": ["tag"]}}, "options": [{}, {}]}}"#,
            option("z", ranges),
            option("a", "[[7, 7]]")
        );
        payload(&[("tag", &tag), ("v", &variant)]).expect("a payload")
    };
    let fields = with("[[4, 4], [0, 1]]").fields;
    let FieldType::Enumeration(_, mappings) = &fields[0].ty else { panic!("{fields:?}") };
    assert_eq!(mappings.iter().map(|one| (one.from, one.to)).collect::<Vec<_>>(), [(0, 1), (4, 4), (7, 7)]);
    let by_names = |fields: &[wakepath_ctf::schema::Field]| {
        let FieldType::Variant(variant) = &fields[1].ty else { panic!("{fields:?}") };
        variant.selector == wakepath_ctf::schema::Selector::Names
    };
    assert!(by_names(&fields) && by_names(&with("[[0, 1], [4, 4]]").fields));
    assert!(!by_names(&with("[[0, 1], [4, 5]]").fields));
}

/// The first option of the variant with this name among a structure's fields: its name, and its clock.
fn option_of(structure: &Structure, name: &str) -> (String, Option<String>) {
    let field = structure.fields.iter().find(|field| field.name == name).expect("a field");
    let FieldType::Variant(variant) = &field.ty else { panic!("{field:?}") };
    let FieldType::Integer(integer) = &variant.options[0].ty else { panic!("{variant:?}") };
    (variant.options[0].name.clone(), integer.clock.clone())
}

#[test]
fn an_options_role_gives_it_the_clock_and_in_an_event_header_the_name() {
    let tag = unsigned(8, 8, "");
    let with = |role: &str| unsigned(8, 8, &format!(r#", "roles": ["{role}"]"#));
    let optional = |class: &str| {
        format!(
            r#"{{"type": "optional", "selector-field-location": {{"path": ["tag"]}}, "selector-field-ranges": [[1, 1]],
            "field-class": {class}}}"#
        )
    };
    let stream = |key: &str, class: &str| {
        let clock = r#"{"type": "clock-class", "id": "c", "frequency": 1}"#;
        let members = structure(&[("tag", &tag), ("v", class)], 8);
        let stream =
            format!(r#"{{"type": "data-stream-class", "default-clock-class-id": "c", "{key}": {members}}}"#);
        read(&sequence(&[PREAMBLE, clock, &stream])).expect("metadata").streams.remove(0)
    };
    let clock = || Some("c".to_owned());
    let (header, context) = ("event-record-header-field-class", "packet-context-field-class");
    // A reader looks for the name in an event header, at any depth.
    let chosen = stream(header, &variant(&[("a", &with("default-clock-timestamp"))])).event_header;
    assert_eq!(option_of(&chosen, "v"), ("timestamp".to_owned(), clock()));
    let chosen = stream(header, &variant(&[("a", &with("event-record-class-id"))])).event_header;
    assert_eq!(option_of(&chosen, "v"), ("id".to_owned(), None));
    let perhaps = stream(header, &optional(&with("default-clock-timestamp"))).event_header;
    assert_eq!(option_of(&perhaps, "timestamp"), ("timestamp".to_owned(), clock()));
    // In a packet's context, the member has the name.
    let perhaps = stream(context, &optional(&with("default-clock-timestamp"))).packet_context;
    assert_eq!(option_of(&perhaps, "timestamp_begin"), (String::new(), clock()));
}
