//! Events in babeltrace2's text form.

use std::fmt::Write as _;

use wakepath_ctf::plan::{EventPart, FieldInfo, FieldKind, Visitor};
use wakepath_ctf::schema::{Base, Integer};
use wakepath_ctf::stream::{Class, Head, Item, Plans, Reader};

/// Writes an event's fields.
struct Line<'a> {
    class: Class<'a>,
    out: String,
    /// The current structure, and the number of its members so far.
    inside: Vec<(bool, u32)>,
    part: usize,
}

impl<'a> Line<'a> {
    fn new(class: Class<'a>) -> Self {
        Self { class, out: String::new(), inside: vec![], part: 0 }
    }

    /// Goes on to the context, or to the payload.
    fn part(&mut self, part: usize) {
        let there = |index: usize| match index {
            0 => self.class.plan.fields().iter().any(|field| field.part == EventPart::StreamContext),
            1 => !self.class.event.context.fields.is_empty(),
            _ => true,
        };
        let begin: Vec<usize> = (self.part..part).filter(|&index| there(index)).collect();
        for _ in begin {
            if let Some((_, count)) = self.inside.pop() {
                self.out.push_str(if count > 0 { " }" } else { "}" });
                self.out.push_str(", ");
            }
            self.out.push_str("{ ");
            self.inside.push((false, 0));
        }
        self.part = part;
    }

    /// The text in front of a value.
    fn label(&mut self, field: u16) -> FieldInfo {
        let info = self.class.plan.fields()[usize::from(field)].clone();
        if self.inside.len() <= 1 {
            let part = match info.part {
                EventPart::StreamContext => 1,
                EventPart::Context => 2,
                EventPart::Payload => 3,
            };
            if self.part < part {
                self.part(part);
            }
        }
        let (array, count) = self.inside.last_mut().expect("a part");
        if *count > 0 {
            self.out.push_str(", ");
        }
        match (*array, self.inside.last().map(|(_, count)| *count)) {
            (true, Some(count)) => {
                let _ = write!(self.out, "[{count}] = ");
            }
            _ if info.name.is_empty() || self.in_variant() => {}
            _ => {
                let _ = write!(self.out, "{} = ", info.name);
            }
        }
        self.inside.last_mut().expect("a part").1 += 1;
        info
    }

    fn in_variant(&self) -> bool {
        self.out.ends_with("\u{1}")
    }

    fn finish(mut self) -> String {
        self.part(3);
        let (_, count) = self.inside.pop().expect("the payload");
        self.out.push_str(if count > 0 { " }" } else { "}" });
        self.out.replace('\u{1}', "")
    }

    fn integer(&mut self, kind: &FieldKind, value: i128) {
        match kind {
            FieldKind::Enumeration(integer, mappings) => {
                let names: Vec<_> = mappings
                    .iter()
                    .filter(|mapping| (mapping.from..=mapping.to).contains(&value))
                    .map(|mapping| format!("\"{}\"", mapping.name))
                    .collect();
                let names = match names.as_slice() {
                    [] => "<unknown>".to_owned(),
                    [one] => one.clone(),
                    more => format!("{{ {} }}", more.join(", ")),
                };
                let _ = write!(self.out, "( {names} : container = {} )", number(integer, value));
            }
            FieldKind::Integer(integer) => self.out.push_str(&number(integer, value)),
            other => panic!("a number for {other:?}"),
        }
    }
}

fn number(integer: &Integer, value: i128) -> String {
    let bits = if value < 0 { value & ((1 << integer.bits) - 1) } else { value };
    match integer.base {
        Base::Decimal => value.to_string(),
        Base::Hexadecimal => format!("0x{bits:X}"),
        Base::Octal => format!("0{bits:o}"),
        Base::Binary => format!("0b{bits:b}"),
    }
}

fn quoted(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for c in String::from_utf8_lossy(bytes).chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\x1b' => out.push_str("\\e"),
            c => out.push(c),
        }
    }
    out + "\""
}

impl Visitor for Line<'_> {
    fn begin(&mut self) {
        *self = Self::new(self.class);
    }

    fn unsigned(&mut self, field: u16, value: u64) {
        let info = self.label(field);
        self.integer(&info.kind, value.into());
    }

    fn signed(&mut self, field: u16, value: i64) {
        let info = self.label(field);
        self.integer(&info.kind, value.into());
    }

    fn float(&mut self, field: u16, value: f64) {
        self.label(field);
        let _ = write!(self.out, "{value}");
    }

    fn bytes(&mut self, field: u16, value: &[u8]) {
        self.label(field);
        self.out.push_str(&quoted(value));
    }

    fn open(&mut self, field: u16) {
        let info = self.label(field);
        let array = matches!(info.kind, FieldKind::Array);
        self.out.push_str(if array { "[ " } else { "{ " });
        if matches!(info.kind, FieldKind::Variant) {
            // Its only member has no name.
            self.out.push('\u{1}');
        }
        self.inside.push((array, 0));
    }

    fn close(&mut self, _: u16) {
        let (array, count) = self.inside.pop().expect("what was opened");
        if count > 0 {
            self.out.push(' ');
        }
        self.out.push(if array { ']' } else { '}' });
    }
}

/// A stream file's events, a line each, and all other items.
pub fn lines(plans: &Plans, file: &std::path::Path, mut tell: impl FnMut(String)) -> Vec<Item> {
    let mut reader = Reader::new(plans, std::fs::File::open(file).expect("a stream")).expect("a file");
    let (mut cpu, mut others) = (None, Vec::new());
    while let Some(item) = reader.next() {
        match item {
            Item::Event(Head { class, stamp }) => {
                let class = plans.class(class).expect("a class of these plans");
                let mut line = Line::new(class);
                match reader.fields(&mut line) {
                    Ok(()) => {
                        let cpu = cpu.map_or(String::new(), |cpu| format!("{{ cpu_id = {cpu} }}, "));
                        tell(format!("[{stamp:020}] {}: {cpu}{}", class.event.name, line.finish()));
                    }
                    Err(fault) => others.push(Item::Fault(fault)),
                }
            }
            Item::Packet(packet) => cpu = packet.cpu,
            other => others.push(other),
        }
    }
    others
}
