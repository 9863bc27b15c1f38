//! Metadata of CTF 1.8 as CTF 2: reserved names become roles, and paths become locations.

use serde_json::{Map, Value, json};
use wakepath_ctf::schema::{
    Base, ByteOrder, Encoding, EnvValue, Field, FieldType, Integer, Mapping, Metadata, Structure, shown,
};
use wakepath_ctf::tsdl::uuid_text;

const ORIGINS: [&str; 6] = [
    "packet-header",
    "packet-context",
    "event-record-header",
    "event-record-common-context",
    "event-record-specific-context",
    "event-record-payload",
];

/// A structure with the fields in front.
struct Level<'a> {
    root: usize,
    /// The names on the way from the root.
    path: Vec<&'a str>,
    seen: Vec<&'a Field>,
}

struct Converter<'a> {
    /// Whole structures, then those around the field.
    levels: Vec<Level<'a>>,
}

/// The fragments of the same metadata.
pub fn as_ctf_2(metadata: &Metadata) -> Vec<u8> {
    let mut preamble = json!({"type": "preamble", "version": 2});
    if let Some(uuid) = metadata.uuid {
        preamble["uuid"] = json!(uuid);
    }
    let environment = metadata.env.iter().map(|(key, value)| {
        let value = match value {
            EnvValue::Text(text) => json!(text),
            EnvValue::Number(number) => json!(number),
        };
        (key.clone(), value)
    });
    let mut converter = Converter { levels: Vec::new() };
    let header = converter.root(0, &metadata.packet_header);
    let mut fragments = vec![
        preamble,
        json!({"type": "trace-class", "environment": environment.collect::<Map<_, _>>(),
            "packet-header-field-class": header}),
    ];
    for clock in &metadata.clocks {
        let mut fragment = json!({"type": "clock-class", "id": clock.name, "frequency": clock.frequency,
            "description": clock.description,
            "offset-from-origin": {"seconds": clock.offset_s, "cycles": clock.offset}});
        if clock.date_ns().is_some() {
            fragment["origin"] = json!("unix-epoch");
        }
        if let Some(uuid) = clock.uuid {
            fragment["uid"] = json!(uuid_text(uuid));
        }
        fragments.push(fragment);
    }
    for stream in &metadata.streams {
        converter.levels.truncate(1);
        let context = converter.root(1, &stream.packet_context);
        let header = converter.root(2, &stream.event_header);
        let mut fragment = json!({"type": "data-stream-class", "id": stream.id,
            "packet-context-field-class": context, "event-record-header-field-class": header,
            "event-record-common-context-field-class": converter.root(3, &stream.event_context)});
        if let Some(clock) = metadata.clocks.first() {
            fragment["default-clock-class-id"] = json!(clock.name);
        }
        fragments.push(fragment);
        for event in &stream.events {
            converter.levels.truncate(4);
            let context = converter.root(4, &event.context);
            fragments.push(json!({"type": "event-record-class", "id": event.id, "name": event.name,
                "data-stream-class-id": stream.id, "specific-context-field-class": context,
                "payload-field-class": converter.root(5, &event.fields)}));
        }
    }
    fragments.iter().flat_map(|fragment| format!("\x1e{fragment}\n").into_bytes()).collect()
}

/// The role for a field that CTF 1.8 knows by its name or its clock.
fn role(root: usize, field: &Field) -> Option<&'static str> {
    let has_clock = matches!(&field.ty, FieldType::Integer(integer) if integer.clock.is_some());
    Some(match (root, field.name.as_str()) {
        (0, "magic") => "packet-magic-number",
        (0, "uuid") => "metadata-stream-uuid",
        (0, "stream_id") => "data-stream-class-id",
        (0, "stream_instance_id") => "data-stream-id",
        (1, "timestamp_begin") => "default-clock-timestamp",
        (1, "timestamp_end") => "packet-end-default-clock-timestamp",
        (1, "content_size") => "packet-content-length",
        (1, "packet_size") => "packet-total-length",
        (1, "packet_seq_num") => "packet-sequence-number",
        (1, "events_discarded") => "discarded-event-record-counter-snapshot",
        (2, "id") => "event-record-class-id",
        (2, _) if has_clock => "default-clock-timestamp",
        _ => return None,
    })
}

impl<'a> Converter<'a> {
    fn root(&mut self, root: usize, structure: &'a Structure) -> Value {
        self.structure(Level { root, path: Vec::new(), seen: Vec::new() }, structure)
    }

    /// The structure; its level stays only if it is a root.
    fn structure(&mut self, level: Level<'a>, structure: &'a Structure) -> Value {
        let (root, path) = (level.root, level.path.clone());
        self.levels.push(level);
        let mut members = Vec::new();
        for field in &structure.fields {
            let mut inner = path.clone();
            inner.push(shown(&field.name));
            let mut class = self.class(root, &inner, &field.ty);
            if let Some(role) = role(root, field) {
                class["roles"] = json!([role]);
                if role == "metadata-stream-uuid" {
                    class = json!({"type": "static-length-blob", "length": 16, "roles": [role]});
                }
            }
            members.push(json!({"name": shown(&field.name), "field-class": class}));
            self.levels.last_mut().expect("this level").seen.push(field);
        }
        if !path.is_empty() {
            self.levels.pop();
        }
        json!({"type": "structure", "minimum-alignment": structure.align, "member-classes": members})
    }

    fn class(&mut self, root: usize, path: &[&'a str], ty: &'a FieldType) -> Value {
        match ty {
            FieldType::Integer(integer) => number(integer),
            FieldType::Enumeration(integer, mappings) => {
                let mut class = number(integer);
                class["mappings"] = Value::Object(mapped(mappings));
                class
            }
            FieldType::Float(float) => json!({"type": "fixed-length-floating-point-number",
                "length": float.bits, "alignment": float.align, "byte-order": order(float.byte_order)}),
            FieldType::Text(_) => json!({"type": "null-terminated-string"}),
            FieldType::Array(element, length) if is_character(element) => {
                json!({"type": "static-length-string", "length": length})
            }
            FieldType::Array(element, length) => json!({"type": "static-length-array", "length": length,
                "element-field-class": self.class(root, path, element)}),
            FieldType::Sequence(element, length) => {
                let (location, _) = self.location(length);
                if is_character(element) {
                    return json!({"type": "dynamic-length-string", "length-field-location": location});
                }
                json!({"type": "dynamic-length-array", "length-field-location": location,
                    "element-field-class": self.class(root, path, element)})
            }
            FieldType::Struct(structure) => {
                self.structure(Level { root, path: path.to_vec(), seen: Vec::new() }, structure)
            }
            FieldType::Variant(variant) => {
                let (location, tag) = self.location(&variant.tag);
                let FieldType::Enumeration(_, mappings) = tag else { panic!("a tag without names") };
                let names = mapped(mappings);
                let mut options = Vec::new();
                for option in &variant.options {
                    options.push(json!({"name": option.name, "selector-field-ranges": names[&option.name],
                        "field-class": self.class(root, path, &option.ty)}));
                }
                json!({"type": "variant", "selector-field-location": location, "options": options})
            }
            FieldType::Leb128(..) => panic!("CTF 1.8 has none"),
        }
    }

    /// The location of the field that a reference means, from the inside out, and its type.
    fn location(&self, reference: &str) -> (Value, &'a FieldType) {
        let mut steps = reference.split('.');
        let first = steps.next().expect("a name");
        let found = self.levels.iter().rev().find_map(|level| {
            level.seen.iter().rev().find(|field| field.name == first).map(|field| (level, *field))
        });
        let (level, mut field) = found.unwrap_or_else(|| panic!("nothing is called {reference}"));
        let mut path: Vec<&str> = level.path.clone();
        path.push(shown(&field.name));
        for step in steps {
            let FieldType::Struct(structure) = &field.ty else { panic!("no structure") };
            field = structure.fields.iter().find(|field| field.name == step).expect("a member");
            path.push(shown(&field.name));
        }
        (json!({"origin": ORIGINS[level.root], "path": path}), &field.ty)
    }
}

fn is_character(ty: &FieldType) -> bool {
    matches!(ty, FieldType::Integer(integer) if integer.bits == 8 && integer.encoding != Encoding::None)
}

fn number(integer: &Integer) -> Value {
    let sign = if integer.signed { "signed" } else { "unsigned" };
    let base = match integer.base {
        Base::Binary => 2,
        Base::Octal => 8,
        Base::Decimal => 10,
        Base::Hexadecimal => 16,
    };
    json!({"type": format!("fixed-length-{sign}-integer"), "length": integer.bits, "alignment": integer.align,
        "byte-order": order(integer.byte_order), "preferred-display-base": base})
}

fn order(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "little-endian",
        ByteOrder::Big => "big-endian",
    }
}

/// Each name's ranges.
fn mapped(mappings: &[Mapping]) -> Map<String, Value> {
    let mut names = Map::new();
    for Mapping { name, from, to } in mappings {
        let number =
            |value: i128| i64::try_from(value).map_or_else(|_| json!(value as u64), |value| json!(value));
        let ranges = names.entry(name.clone()).or_insert_with(|| json!([]));
        ranges.as_array_mut().expect("an array").push(json!([number(*from), number(*to)]));
    }
    names
}
