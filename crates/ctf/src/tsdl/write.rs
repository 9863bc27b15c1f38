//! Writes metadata as TSDL.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use crate::schema::{
    Base, ByteOrder, Clock, Encoding, EnvValue, Field, FieldType, Integer, Mapping, Metadata, Structure,
};

/// The metadata as TSDL text. TSDL has no words for CTF 2's own types: numbers with 7 bits in each byte, and variants
/// chosen by ranges.
pub fn write(metadata: &Metadata) -> String {
    let mut text = Text {
        out: String::from("/* CTF 1.8 */\n"),
        names: BTreeMap::new(),
        byte_order: metadata.byte_order,
    };
    text.aliases(metadata);
    text.trace(metadata);
    text.env(metadata);
    for clock in &metadata.clocks {
        text.clock(clock);
    }
    for stream in &metadata.streams {
        text.line(0, "stream {");
        text.line(1, &format!("id = {};", stream.id));
        text.structure(1, "packet.context", &stream.packet_context);
        text.structure(1, "event.header", &stream.event_header);
        if !stream.event_context.fields.is_empty() {
            text.structure(1, "event.context", &stream.event_context);
        }
        text.line(0, "};\n");
        for event in &stream.events {
            text.line(0, "event {");
            text.line(1, &format!("name = {};", quoted(&event.name)));
            text.line(1, &format!("id = {};", event.id));
            text.line(1, &format!("stream_id = {};", stream.id));
            if !event.context.fields.is_empty() {
                text.structure(1, "context", &event.context);
            }
            text.structure(1, "fields", &event.fields);
            text.line(0, "};\n");
        }
    }
    text.out
}

struct Text {
    out: String,
    /// The integer types and their names here.
    names: BTreeMap<Integer, String>,
    /// The default byte order for types.
    byte_order: ByteOrder,
}

impl Text {
    fn line(&mut self, depth: usize, line: &str) {
        for _ in 0..depth {
            self.out.push('\t');
        }
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// Names every integer type in use, so that the events read like C.
    fn aliases(&mut self, metadata: &Metadata) {
        let mut integers = Vec::new();
        collect_all(&metadata.packet_header, &mut integers);
        for stream in &metadata.streams {
            let events = stream.events.iter().flat_map(|event| [&event.context, &event.fields]);
            for structure in [&stream.packet_context, &stream.event_header, &stream.event_context]
                .into_iter()
                .chain(events)
            {
                collect_all(structure, &mut integers);
            }
        }
        integers.sort();
        integers.dedup();
        for integer in integers {
            let name = alias(&integer);
            let mut properties =
                format!("size = {}; align = {}; signed = {};", integer.bits, integer.align, integer.signed);
            if integer.byte_order != self.byte_order {
                let _ = write!(properties, " byte_order = {};", order_text(integer.byte_order));
            }
            if integer.base != Base::Decimal {
                let _ = write!(properties, " base = {};", radix(integer.base));
            }
            if integer.encoding != Encoding::None {
                let _ = write!(properties, " encoding = {};", encoding_text(integer.encoding));
            }
            if let Some(clock) = &integer.clock {
                let _ = write!(properties, " map = clock.{clock}.value;");
            }
            self.line(0, &format!("typealias integer {{ {properties} }} := {name};"));
            self.names.insert(integer, name);
        }
        self.out.push('\n');
    }

    fn trace(&mut self, metadata: &Metadata) {
        self.line(0, "trace {");
        self.line(1, "major = 1;");
        self.line(1, "minor = 8;");
        if let Some(uuid) = metadata.uuid {
            self.line(1, &format!("uuid = \"{}\";", uuid_text(uuid)));
        }
        self.line(1, &format!("byte_order = {};", order_text(metadata.byte_order)));
        self.structure(1, "packet.header", &metadata.packet_header);
        self.line(0, "};\n");
    }

    fn env(&mut self, metadata: &Metadata) {
        self.line(0, "env {");
        for (key, value) in &metadata.env {
            let value = match value {
                EnvValue::Text(text) => quoted(text),
                EnvValue::Number(number) => number.to_string(),
            };
            self.line(1, &format!("{key} = {value};"));
        }
        self.line(0, "};\n");
    }

    fn clock(&mut self, clock: &Clock) {
        self.line(0, "clock {");
        self.line(1, &format!("name = {};", quoted(&clock.name)));
        if let Some(uuid) = clock.uuid {
            self.line(1, &format!("uuid = \"{}\";", uuid_text(uuid)));
        }
        self.line(1, &format!("description = {};", quoted(&clock.description)));
        self.line(1, &format!("freq = {};", clock.frequency));
        self.line(1, &format!("offset_s = {};", clock.offset_s));
        self.line(1, &format!("offset = {};", clock.offset));
        self.line(0, "};\n");
    }

    fn structure(&mut self, depth: usize, name: &str, structure: &Structure) {
        self.line(depth, &format!("{name} := struct {{"));
        for field in &structure.fields {
            self.line(depth + 1, &self.member(field));
        }
        self.line(depth, &format!("}}{};", align_text(structure)));
    }

    /// The text before a field's name, and the text behind it.
    fn declarator(&self, ty: &FieldType) -> (String, String) {
        match ty {
            FieldType::Integer(integer) | FieldType::Leb128(integer, _) => {
                (self.name(integer), String::new())
            }
            FieldType::Enumeration(integer, mappings) => {
                let names: Vec<_> = mappings.iter().map(mapping_text).collect();
                (format!("enum : {} {{ {} }}", self.name(integer), names.join(", ")), String::new())
            }
            FieldType::Array(element, count) => self.elements(element, count),
            FieldType::Sequence(element, count) => self.elements(element, count),
            FieldType::Struct(structure) => {
                let members = self.members(&structure.fields);
                (format!("struct {{ {members} }}{}", align_text(structure)), String::new())
            }
            FieldType::Variant(variant) => {
                let options = self.members(&variant.options);
                (format!("variant <{}> {{ {options} }}", variant.tag), String::new())
            }
            FieldType::Float(float) => {
                let (exponent, mantissa) = if float.bits == 32 { (8, 24) } else { (11, 53) };
                let order = order_text(float.byte_order);
                let text = format!(
                    "floating_point {{ exp_dig = {exponent}; mant_dig = {mantissa}; align = {}; byte_order = {order}; }}",
                    float.align
                );
                (text, String::new())
            }
            FieldType::Text(encoding) => match encoding {
                Encoding::None | Encoding::Utf8 => ("string".to_owned(), String::new()),
                Encoding::Ascii => ("string { encoding = ASCII; }".to_owned(), String::new()),
            },
        }
    }

    fn members(&self, fields: &[Field]) -> String {
        fields.iter().map(|field| self.member(field)).collect::<Vec<_>>().join(" ")
    }

    fn member(&self, field: &Field) -> String {
        let (before, after) = self.declarator(&field.ty);
        format!("{before} {}{after};", field.name)
    }

    fn elements(&self, element: &FieldType, count: &dyn Display) -> (String, String) {
        let (before, after) = self.declarator(element);
        (before, format!("[{count}]{after}"))
    }

    fn name(&self, integer: &Integer) -> String {
        self.names.get(integer).cloned().unwrap_or_else(|| alias(integer))
    }
}

fn collect_all(structure: &Structure, into: &mut Vec<Integer>) {
    structure.fields.iter().for_each(|field| collect(&field.ty, into));
}

fn collect(ty: &FieldType, into: &mut Vec<Integer>) {
    match ty {
        FieldType::Integer(integer) | FieldType::Enumeration(integer, _) | FieldType::Leb128(integer, _) => {
            into.push(integer.clone())
        }
        FieldType::Array(element, _) | FieldType::Sequence(element, _) => collect(element, into),
        FieldType::Struct(structure) => collect_all(structure, into),
        FieldType::Variant(variant) => variant.options.iter().for_each(|field| collect(&field.ty, into)),
        FieldType::Float(_) | FieldType::Text(_) => {}
    }
}

const fn order_text(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "le",
        ByteOrder::Big => "be",
    }
}

const fn encoding_text(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::None => "none",
        Encoding::Ascii => "ASCII",
        Encoding::Utf8 => "UTF8",
    }
}

const fn radix(base: Base) -> u32 {
    match base {
        Base::Binary => 2,
        Base::Octal => 8,
        Base::Decimal => 10,
        Base::Hexadecimal => 16,
    }
}

fn align_text(structure: &Structure) -> String {
    if structure.align > 1 { format!(" align({})", structure.align) } else { String::new() }
}

fn mapping_text(mapping: &Mapping) -> String {
    let name = quoted(&mapping.name);
    if mapping.from == mapping.to {
        format!("{name} = {}", mapping.from)
    } else {
        format!("{name} = {} ... {}", mapping.from, mapping.to)
    }
}

/// A name with all an integer type's properties, so that no two types share a name.
fn alias(integer: &Integer) -> String {
    let mut name = format!("{}int{}", if integer.signed { "" } else { "u" }, integer.bits);
    if integer.align != 8 {
        let _ = write!(name, "_align{}", integer.align);
    }
    if integer.byte_order == ByteOrder::Big {
        name.push_str("_be");
    }
    match integer.base {
        Base::Decimal => {}
        Base::Hexadecimal => name.push_str("_hex"),
        Base::Octal | Base::Binary => {
            let _ = write!(name, "_base{}", radix(integer.base));
        }
    }
    match integer.encoding {
        Encoding::None => {}
        Encoding::Ascii => name.push_str("_ascii"),
        Encoding::Utf8 => name.push_str("_utf8"),
    }
    if let Some(clock) = &integer.clock {
        let _ = write!(name, "_{clock}");
    }
    name + "_t"
}

/// A TSDL string. Control characters without their own escape do not belong in metadata; each becomes a question
/// mark.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
pub fn uuid_text(uuid: [u8; 16]) -> String {
    let mut text = String::new();
    for (i, byte) in uuid.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}
