//! A trace from any tracer: metadata and a stream.
//!
//! Input: a metadata file up to the first byte 0xff, and the stream file behind it.

use wakepath_ctf::plan::{Ignore, Visitor};
use wakepath_ctf::schema::{EventClass, Metadata};
use wakepath_ctf::stream::{Item, Plans, Reader, Selection};
use wakepath_ctf::trace::read_metadata;

/// Puts bytes through the reader of other tracers' traces.
///
/// # Panics
/// When a law is broken.
pub fn check(input: &[u8]) {
    let end = input.iter().position(|&byte| byte == 0xff).unwrap_or(input.len());
    let (metadata, stream) = (&input[..end], input.get(end + 1..).unwrap_or_default());
    let Ok(metadata) = read_metadata(metadata) else { return };
    let Some(all) = items(metadata.clone(), &Selection::All, stream) else { return };
    let nothing = |_: &EventClass| Some(Vec::new());
    let none = items(metadata.clone(), &Selection::Fields(&nothing), stream);
    assert_eq!(Some(&all), none.as_ref(), "what is asked for changes nothing else");
    let even = |event: &EventClass| event.id.is_multiple_of(2).then(Vec::new);
    let some = items(metadata.clone(), &Selection::Fields(&even), stream);
    assert_eq!(Some(all.even), some.map(|some| some.even), "events that are passed over change no others");
    check_rows(&metadata, stream);
}

/// The last event in a row of events is present: the others may be left out, and nothing else is.
fn check_rows(metadata: &Metadata, stream: &[u8]) {
    let even = |event: &EventClass| event.id.is_multiple_of(2);
    let read = |of_rows: bool| {
        let plans = Plans::new(metadata.clone(), &Selection::Fields(&|_| Some(Vec::new()))).ok()?;
        let plans = if of_rows { plans.with_last_of(even) } else { plans };
        let in_row = |class| plans.class(class).is_some_and(|class| even(class.event));
        let mut reader = Reader::new(&plans, stream).expect("memory has no errors");
        let mut items = Vec::new();
        // Memory is counted: these are enough to see a difference.
        while let Some(item) = reader.next().filter(|_| items.len() < 1000) {
            let row = matches!(&item, Item::Event(head) if in_row(head.class));
            let fault = matches!(item, Item::Event(_)).then(|| reader.fields(&mut Ignore).is_err());
            items.push((item, row, fault));
        }
        (items.len() < 1000).then_some(items)
    };
    let (Some(every), Some(last)) = (read(false), read(true)) else { return };
    // From the end: where a row's events are equal, the last is the present event.
    let mut last = last.into_iter().rev().peekable();
    let mut next_is_of_row = false;
    for item in every.into_iter().rev() {
        let of_row = item.1;
        if last.next_if_eq(&item).is_none() {
            assert!(of_row, "only events of rows are left out");
            assert!(next_is_of_row, "the last event of a row is left out");
        }
        next_is_of_row = of_row;
    }
    assert_eq!(last.next(), None, "nothing is added");
}

/// A stream's items, in short.
#[derive(Debug, PartialEq, Eq)]
struct StreamItems {
    /// The first hundred, as texts.
    first: Vec<String>,
    count: u64,
    /// For the readable events with an even id: their number, and a sum over them in their order.
    even: (u64, u64),
}

/// Whether groups begin and end in pairs.
#[derive(Default)]
struct Pairs(Vec<u16>);

impl Visitor for Pairs {
    fn begin(&mut self) {
        self.0.clear();
    }
    fn unsigned(&mut self, _: u16, _: u64) {}
    fn signed(&mut self, _: u16, _: i64) {}
    fn float(&mut self, _: u16, _: f64) {}
    fn bytes(&mut self, _: u16, _: &[u8]) {}
    fn open(&mut self, field: u16) {
        self.0.push(field);
    }
    fn close(&mut self, field: u16) {
        assert_eq!(self.0.pop(), Some(field), "what begins last ends first");
    }
}

/// A stream's items; `None` if it cannot be decoded.
fn items(metadata: Metadata, wanted: &Selection<'_>, stream: &[u8]) -> Option<StreamItems> {
    let plans = Plans::new(metadata, wanted).ok()?;
    let mut reader = Reader::new(&plans, stream).expect("memory has no errors");
    let (mut first, mut count, mut pairs) = (Vec::new(), 0_u64, Pairs::default());
    let mut even = (0_u64, 0_u64);
    while let Some(item) = reader.next() {
        count += 1;
        // An event has a bit at least; so has a packet, or it is a fault that takes bytes.
        assert!(count <= 64 + 16 * stream.len() as u64, "{} bytes never end", stream.len());
        let mut line = match &item {
            Item::Event(head) => {
                assert!(plans.class(head.class).is_some());
                format!("{} at {}", head.class, head.stamp)
            }
            Item::Fault(fault) => {
                assert!(fault.offset <= stream.len() as u64, "{fault}");
                fault.to_string()
            }
            Item::Lost(lost) => {
                assert!(lost.from <= lost.to);
                format!("{lost:?}")
            }
            Item::Packet(packet) => format!("packet at {}", packet.offset),
        };
        if let Item::Event(head) = item {
            assert_eq!(reader.stamp(), head.stamp, "the last stamp is that of the last event");
            let fields = match wanted {
                Selection::All => reader.fields(&mut pairs),
                Selection::Fields(_) => reader.fields(&mut Ignore),
            };
            match fields {
                Ok(()) => {
                    assert!(pairs.0.is_empty(), "what begins ends");
                    if plans.class(head.class).is_some_and(|class| class.event.id.is_multiple_of(2)) {
                        let value = head.stamp.wrapping_mul(31).wrapping_add(head.class.into());
                        even = (even.0 + 1, even.1.wrapping_mul(37).wrapping_add(value));
                    }
                }
                Err(fault) => line = format!("{line}: {fault}"),
            }
        }
        // Memory is counted: these are enough to see a difference.
        if first.len() < 100 {
            first.push(line);
        }
    }
    Some(StreamItems { first, count, even })
}

/// The first inputs: traces in LTTng's layouts, and a trace with each type.
pub fn seeds() -> Vec<Vec<u8>> {
    const TYPES: &str = "typealias integer { size = 8; } := u8;typealias integer { size = 16; } := u16;\
        typealias integer { size = 32; } := u32;typealias integer { size = 64; } := u64;\
        typealias integer { size = 27; align = 1; map = clock.c.value; } := s27;\
        typealias integer { size = 32; map = clock.c.value; } := s32;\
        typealias integer { size = 64; map = clock.c.value; } := s64;clock { name = c; freq = 1000; };";
    const COMPACT: &str = "struct { enum : integer { size = 5; align = 1; } { a = 0 ... 30, b = 31 } id; \
        variant <id> { struct { s27 t; } a; struct { u32 id; s64 t; } b; } v; } align(8)";
    const LARGE: &str = "struct { enum : u16 { a = 0 ... 65534, b = 65535 } id; \
        variant <id> { struct { s32 t; } a; struct { u32 id; s64 t; } b; } v; } align(8)";
    const PLAIN: &str = "struct { u8 id; s64 t; }";
    let mut seeds = Vec::new();
    for (header, fields, events) in [
        (COMPACT, "u16 n;", &[1_u8, 1, 0, 0, 7, 7, 31, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 8, 8][..]),
        (LARGE, "u8 n; u16 w[n]; string s;", &[1, 0, 5, 0, 0, 0, 2, 1, 2, 3, 4, b'x', 0]),
        (PLAIN, "string a; string b[2];", b"\x01\0\0\0\0\0\0\0\0a\0b\0c\0"),
        (
            PLAIN,
            "enum : u8 { A, B = 3 ... 9 } t; variant <t> { u8 A; struct { u16 x; } B; } v;",
            &[1, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 2],
        ),
        (
            PLAIN,
            "struct { u8 n; struct { u8 a; string b; } e[n]; } p[2];",
            &[1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0],
        ),
        (
            PLAIN,
            "integer { size = 4; align = 4; byte_order = be; } a[2]; integer { size = 9; align = 1; byte_order = be; } f;",
            &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0x45, 0x80, 0x80],
        ),
        (
            PLAIN,
            "floating_point { exp_dig = 8; mant_dig = 24; align = 32; } f; floating_point { exp_dig = 11; mant_dig = 53; } g;",
            &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8],
        ),
        (
            PLAIN,
            "integer { size = 8; encoding = UTF8; } c[4]; u8 n; integer { size = 8; encoding = ASCII; } d[n];",
            &[1, 0, 0, 0, 0, 0, 0, 0, 0, b'a', 0, b'b', 0, 2, b'c', b'd'],
        ),
        (PLAIN, "struct { } e; struct { } align(64) f; u8 x[0]; u8 y[3][2];", &[1, 0, 0, 0, 0, 0, 0, 0, 0]),
        (PLAIN, "u8 a, b[stream.event.header.id];", &[1, 0, 0, 0, 0, 0, 0, 0, 0, 7, 8]),
    ] {
        let name = |order: &str, packets: &str, context: &str| {
            format!(
                "{TYPES}trace {{ major = 1; byte_order = {order};{packets} }};env {{ domain = \"kernel\"; n = -1; }};\
                 stream {{ event.header := {header};{context} }};event {{ name = \"e\"; id = 1; fields := struct {{ {fields} }}; }};"
            )
        };
        for order in ["le", "be"] {
            seeds.push([name(order, "", "").as_bytes(), &[0xff], events].concat());
        }
        let packets = " packet.header := struct { u32 magic; u8 uuid[4]; };";
        let context = " packet.context := struct { s64 timestamp_begin; u32 content_size; u32 packet_size; \
                        u32 events_discarded; u32 cpu_id; }; event.context := struct { u8 c; };";
        let mut packet = [&0xc1fc_1fc1_u32.to_le_bytes()[..], b"uuid", &[9, 0, 0, 0, 0, 0, 0, 0]].concat();
        let size = (packet.len() + 16 + events.len() + 1) as u32 * 8;
        for word in [size, size, 3, 1] {
            packet.extend(word.to_le_bytes());
        }
        packet.extend(events);
        packet.push(5);
        seeds.push([name("le", packets, context).as_bytes(), &[0xff], &packet, &packet].concat());
    }
    seeds
}
