//! Any trace's metadata, and an event decoded by it: a TSDL snippet, bytes, and their meaning.

use proptest::prelude::*;
use wakepath_ctf::schema::{ByteOrder, FieldType};
use wakepath_ctf::stream::{Item, Plans, Reader, Selection};
use wakepath_ctf::tsdl::{read, text_of_file, uuid_text, write};

use crate::text;

/// The snippets' types.
const TYPES: &str = "
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := unsigned short;
typedef integer { size = 32; align = 32; signed = true; base = hex; } word_t;
typealias integer { size = 3; align = 1; signed = false; } := bits3;
typealias integer { size = 5; align = 1; signed = true; } := signed5;
struct pair { uint8_t a; unsigned short b; };
enum colour : uint8_t { RED, GREEN = 5, BLUE, \"any other\" = 10 ... 19 };
variant either { uint8_t RED; unsigned short GREEN; struct pair BLUE; };
";

/// The metadata for an event class without a header, with these fields.
fn metadata(order: &str, fields: &str) -> String {
    format!(
        "/* CTF 1.8 */ trace {{ major = 1; minor = 8; byte_order = {order}; }};\n{TYPES}
         stream {{ }};
         event {{ name = \"e\"; fields := struct {{ {fields} }}; }};"
    )
}

/// The first event in `bytes` as text.
fn decode(order: &str, fields: &str, bytes: &[u8]) -> String {
    let metadata = read(&metadata(order, fields)).unwrap_or_else(|error| panic!("{fields}: {error}"));
    assert_eq!(read(&write(&metadata)).as_ref(), Ok(&metadata), "{fields}: what is written reads the same");
    let plans = Plans::new(metadata, &Selection::All).unwrap_or_else(|error| panic!("{fields}: {error}"));
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("stream");
    std::fs::write(&file, bytes).expect("a file");
    let mut lines = Vec::new();
    let others = text::lines(&plans, &file, |line| lines.push(line));
    match (lines.first(), others.first()) {
        (Some(line), _) => line.split_once("e: ").expect("a name").1.to_owned(),
        (None, Some(Item::Fault(fault))) => fault.to_string(),
        other => panic!("{fields}: {other:?}"),
    }
}

#[test]
fn each_type_means_what_ctf_says() {
    for (order, fields, bytes, said) in [
        ("le", "uint8_t x;", &[7][..], "{ x = 7 }"),
        ("le", "uint8_t _x, __y;", &[7, 8], "{ x = 7, _y = 8 }"),
        ("le", "unsigned short x;", &[1, 2], "{ x = 513 }"),
        ("be", "unsigned short x;", &[1, 2], "{ x = 258 }"),
        ("be", "integer { size = 16; byte_order = le; } x;", &[1, 2], "{ x = 513 }"),
        ("le", "integer { size = 16; byte_order = network; } x;", &[1, 2], "{ x = 258 }"),
        ("le", "word_t x;", &[0xff, 0xff, 0xff, 0xff], "{ x = 0xFFFFFFFF }"),
        ("le", "uint8_t a; word_t b;", &[1, 9, 9, 9, 16, 0, 0, 0], "{ a = 1, b = 0x10 }"),
        ("le", "bits3 a; signed5 b; uint8_t c;", &[0b1111_1010, 4], "{ a = 2, b = -1, c = 4 }"),
        ("be", "bits3 a; signed5 b; uint8_t c;", &[0b0101_1111, 4], "{ a = 2, b = -1, c = 4 }"),
        ("le", "bits3 a; uint8_t b;", &[2, 4], "{ a = 2, b = 4 }"),
        ("le", "integer { size = 8; base = octal; } a;", &[8], "{ a = 010 }"),
        ("le", "integer { size = 8; base = 2; } a;", &[5], "{ a = 0b101 }"),
        ("le", "integer { size = 64; signed = 1; } a;", &[0xff; 8], "{ a = -1 }"),
        ("le", "struct pair p;", &[1, 2, 0], "{ p = { a = 1, b = 2 } }"),
        ("le", "uint8_t a; struct pair p align(16);", &[], "line"),
        ("le", "uint8_t x[3];", &[1, 2, 3], "{ x = [ [0] = 1, [1] = 2, [2] = 3 ] }"),
        ("le", "uint8_t x[0]; uint8_t y;", &[1], "{ x = [ ], y = 1 }"),
        ("le", "uint8_t x[2][1];", &[1, 2], "{ x = [ [0] = [ [0] = 1 ], [1] = [ [0] = 2 ] ] }"),
        ("le", "uint8_t n; unsigned short x[n];", &[1, 2, 3], "{ n = 1, x = [ [0] = 770 ] }"),
        (
            "le",
            "uint8_t n; struct pair x[n]; uint8_t z;",
            &[2, 1, 2, 0, 3, 4, 0, 9],
            "{ n = 2, x = [ [0] = { a = 1, b = 2 }, [1] = { a = 3, b = 4 } ], z = 9 }",
        ),
        (
            "le",
            "integer { size = 8; encoding = UTF8; } x[4]; uint8_t y;",
            b"ab\0c\x05",
            "{ x = \"ab\", y = 5 }",
        ),
        ("le", "string s; uint8_t y;", b"ab\"c\0\x05", "{ s = \"ab\\\"c\", y = 5 }"),
        ("le", "string { encoding = ASCII; } s[2];", b"a\0\0", "{ s = [ [0] = \"a\", [1] = \"\" ] }"),
        ("le", "enum colour c;", &[0], "{ c = ( \"RED\" : container = 0 ) }"),
        ("le", "enum colour c;", &[6], "{ c = ( \"BLUE\" : container = 6 ) }"),
        ("le", "enum colour c;", &[12], "{ c = ( \"any other\" : container = 12 ) }"),
        ("le", "enum colour c;", &[4], "{ c = ( <unknown> : container = 4 ) }"),
        (
            "le",
            "enum : signed5 { low = -16 ... -1, high = 0 ... 15 } c; variant <c> { uint8_t low; } v;",
            &[0b1_1110, 3],
            "{ c = ( \"low\" : container = -2 ), v = { 3 } }",
        ),
        (
            "le",
            "enum colour tag; variant either <tag> v; uint8_t z;",
            &[5, 1, 2, 9],
            "{ tag = ( \"GREEN\" : container = 5 ), v = { 513 }, z = 9 }",
        ),
        (
            "le",
            "struct { enum colour tag; } h; struct { variant <h.tag> { uint8_t RED; string BLUE; } v; } s;",
            b"\x06x\0",
            "{ h = { tag = ( \"BLUE\" : container = 6 ) }, s = { v = { \"x\" } } }",
        ),
        ("le", "uint8_t n; variant <event.fields.t> { uint8_t a; } v;", &[1, 2], "line"),
        (
            "le",
            "floating_point { exp_dig = 8; mant_dig = 24; align = 8; } f;",
            &[0, 0, 0x20, 0x40],
            "{ f = 2.5 }",
        ),
        (
            "le",
            "floating_point { exp_dig = 11; mant_dig = 53; align = 8; byte_order = be; } f;",
            &[0xc0, 4, 0, 0, 0, 0, 0, 0],
            "{ f = -2.5 }",
        ),
        ("le", "struct { } e; uint8_t a;", &[1], "{ e = { }, a = 1 }"),
        (
            "le",
            "uint8_t n; struct { } e[n]; uint8_t a;",
            &[1, 1],
            "packet 0 at byte 0: event `e` has no size; the rest of its packet is skipped",
        ),
        (
            "le",
            "uint8_t n; uint8_t x[n];",
            &[200, 1],
            "packet 0 at byte 0: event `e` does not end in its packet, whose rest is skipped",
        ),
        (
            "le",
            "string s;",
            b"abc",
            "packet 0 at byte 0: event `e` does not end in its packet, whose rest is skipped",
        ),
        ("le", "", &[1], "packet 0 at byte 0: event `e` has no size; the rest of its packet is skipped"),
        (
            "le",
            "enum colour tag; variant either <tag> v;",
            &[77, 1, 2],
            "packet 0 at byte 0: event `e` has a variant of tag 77, which none of its options is for; the rest of its packet is skipped",
        ),
        (
            "le",
            "uint8_t x[0xffffffffffffffff];",
            &[1],
            "packet 0 at byte 0: event `e` does not end in its packet, whose rest is skipped",
        ),
    ] {
        if said != "line" {
            assert_eq!(decode(order, fields, bytes), said, "{order}: {fields}");
        }
    }
}

#[test]
fn a_type_that_cannot_be_decoded_is_refused_by_name() {
    let refused = |fields: &str| {
        let metadata = read(&metadata("le", fields)).map_err(|error| error.to_string())?;
        Plans::new(metadata, &Selection::All).map(|_| ()).map_err(|error| error.to_string())
    };
    for (fields, why) in [
        ("uint8_t x[n];", "event `e`: field `x` refers to `n`, which is no number in front of it"),
        ("uint8_t x[n]; uint8_t n;", "field `x` refers to `n`"),
        ("string n; uint8_t x[n];", "field `x` refers to `n`"),
        ("uint8_t n; variant <event.fields.t> { uint8_t a; } v;", "field `v` refers to `event.fields.t`"),
        ("uint64_t x;", "line 13, column 58: no type `uint64_t` is declared here"),
        ("struct nothing x;", "no type `nothing` is declared here"),
        ("integer { size = 65; } x;", "an integer whose size is no number from 1 to 64"),
        ("integer { align = 8; } x;", "an integer without a size"),
        ("integer { size = 8; align = 3; } x;", "an alignment that is no power of two up to 512"),
        ("floating_point { exp_dig = 5; mant_dig = 11; } x;", "neither of 32 nor of 64 bits"),
        ("enum : uint8_t { A = 5 ... 4 } x;", "a range in an enumeration that ends before it begins"),
        ("uint8_t x[-1];", "a negative length"),
        ("uint8_t;", "no type `` is declared here"),
        (&"struct { ".repeat(40), "types nest too deep"),
        (
            &format!("{}uint8_t x{};{}", "struct { ".repeat(20), "[1]".repeat(20), "} f;".repeat(20)),
            "types nest too deep",
        ),
    ] {
        let error = refused(fields).expect_err(fields);
        assert!(error.contains(why), "{fields}: {error}");
    }
}

#[test]
fn types_of_types_do_not_fill_memory() {
    let mut text = String::from("typealias integer { size = 8; } := t0;\nstruct s0 { t0 a; };\n");
    for i in 1..30 {
        text += &format!("struct s{i} {{ struct s{} a; struct s{} b; }};\n", i - 1, i - 1);
    }
    let error = read(&text).expect_err("2^30 fields").to_string();
    assert!(error.contains("too many parts"), "{error}");
    let mut deep = String::from("struct s0 { integer { size = 8; } a; };\n");
    for i in 1..2000 {
        deep += &format!("struct s{i} {{ struct s{} a; }};\n", i - 1);
    }
    let error = read(&deep).expect_err("too deep").to_string();
    assert!(error.contains("nest too deep"), "{error}");
}

#[test]
fn a_block_that_contradicts_itself_is_refused_with_its_place() {
    for (text, why) in [
        ("event { id = 1; };", "line 1, column 7: an event without a name"),
        ("event { name = x; };", "the metadata ends without a stream block"),
        ("stream { id = 1; }; stream { id = 1; };", "stream 1 is declared twice"),
        ("stream { id = 1; }; event { name = x; stream_id = 2; };", "is of stream 2, which is not declared"),
        ("stream { }; event { name = x; }; event { name = y; };", "event 0 of stream 0 is declared twice"),
        ("stream { id = 1; }; stream { id = 2; }; event { name = x; };", "does not say which stream"),
        ("trace { major = 2; };", "another major version"),
        ("trace { byte_order = pdp; };", "`pdp` is no byte order"),
        ("trace { uuid = \"12\"; };", "the trace's uuid is none"),
        ("clock { freq = 0; };", "a clock's freq"),
        ("nonsense { };", "a block `nonsense` that CTF 1.8 does not have"),
        ("stream { event.header := uint8_t; };", "no type `uint8_t`"),
        ("\n  }", "line 2, column 3: expected a block, found `}`"),
    ] {
        let error = read(text).expect_err(text).to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

/// Ways to write an integer. Some begin alike, and comments and texts hold braces.
fn an_integer() -> impl Strategy<Value = String> {
    let size = prop::sample::select(vec!["size = 8;", "size=16;", "size = 32; ", "size = 8; align = 32;"]);
    let rest = prop::sample::select(vec![
        "",
        "signed = 1;",
        "signed = 1; base = 16;",
        "byte_order = be;",
        "encoding = UTF8;",
        "map = clock.monotonic.value;",
        "/* } */ signed = true;",
        "// }\n base = 8;",
        "comment = \"}\"; base = 2;",
    ]);
    (prop::sample::select(vec!["", " "]), size, rest, prop::sample::select(vec!["}", " }"]))
        .prop_map(|(space, size, rest, end)| format!("integer{space}{{{size}{rest}{end}"))
}

proptest! {
    #[test]
    fn an_integer_means_the_same_however_many_are_written_before_it(
        written in prop::collection::vec(an_integer(), 1..60),
    ) {
        let types = |written: &[String]| -> Vec<FieldType> {
            let fields: String = written.iter().map(|one| format!("{one} x;")).collect();
            let metadata = read(&metadata("le", &fields)).unwrap_or_else(|error| panic!("{fields}: {error}"));
            metadata.streams[0].events[0].fields.fields.iter().map(|field| field.ty.clone()).collect()
        };
        let alone: Vec<FieldType> = written.iter().flat_map(|one| types(std::slice::from_ref(one))).collect();
        prop_assert_eq!(types(&written), alone);
    }
}

#[test]
fn an_error_behind_an_integer_names_its_place() {
    let fields = "integer { size = 9; } a;\n integer { size = 9; } b;\n integer { size = 9; } 7;";
    let error = read(&metadata("le", fields)).expect_err("a number is no name");
    assert_eq!((error.line, error.column), (metadata("le", "").lines().count() + 2, 24), "{error}");
}

#[test]
fn names_clocks_and_all_generations_of_events_are_read() {
    let metadata = read(
        "typealias integer { size = 8; } := uint8_t;
         env { hostname = \"h\"; tracer_major = 2; minus = -3; domain = kernel; };
         clock { name = mono; uuid = \"74715693-28c1-4d0d-bee9-24790a4942b0\"; freq = 1000; offset_s = -1; offset = 500; };
         clock { name = \"other\"; uuid = \"x\"; absolute = FALSE; };
         callsite { name = e; func = \"f\"; line = 3; };
         event { name = sched_switch; fields := struct { uint8_t a; }; loglevel = 3; };
         event { name = \"a:b\"; id = 1ULL; model.emf.uri = \"u\"; context := struct { uint8_t c; }; };
         stream { event.header := struct { uint8_t id; }; };",
    )
    .expect("all of it");
    assert_eq!(metadata.text("hostname"), Some("h"));
    assert_eq!(metadata.text("domain"), Some("kernel"));
    assert_eq!((metadata.number("tracer_major"), metadata.number("minus")), (Some(2), Some(-3)));
    assert_eq!(metadata.byte_order, ByteOrder::Little);
    let names: Vec<_> = metadata.streams[0].events.iter().map(|event| (event.id, &*event.name)).collect();
    assert_eq!(names, [(0, "sched_switch"), (1, "a:b")]);
    let clock = metadata.clock("mono").expect("a clock");
    assert_eq!((clock.origin_ns(), clock.ns(3), clock.ns(u64::MAX)), (-500_000_000, 3_000_000, u64::MAX));
    assert_eq!(clock.uuid.map(uuid_text).as_deref(), Some("74715693-28c1-4d0d-bee9-24790a4942b0"));
    assert_eq!(metadata.clock("other").map(|clock| clock.frequency), Some(1_000_000_000));
}

#[test]
fn metadata_in_packets_is_unwrapped_in_either_byte_order() {
    let packet = |text: &str, big: bool, size: u32| {
        let number = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut packet = number(0x75d1_1d57).to_vec();
        packet.extend([0; 16]);
        packet.extend(number(0));
        packet.extend(number((37 + text.len() as u32) * 8));
        packet.extend(number(size * 8));
        packet.extend([0, 0, 0, 1, 8]);
        packet.extend(text.as_bytes());
        packet.resize(packet.len().max(size as usize), 0);
        packet
    };
    for big in [false, true] {
        let both = [packet("trace { maj", big, 64), packet("or = 1; };", big, 64)].concat();
        assert_eq!(text_of_file(&both).expect("two packets"), "trace { major = 1; };");
        for cut in 1..both.len() {
            // Cut inside its padding, the file is whole; elsewhere it is refused.
            let _ = text_of_file(&both[..cut]);
        }
        let error = text_of_file(&packet("x", big, 3)).expect_err("an impossible size").to_string();
        assert!(error.contains("metadata packet at byte 0 says it has 38 of 3 bytes"), "{error}");
    }
    assert_eq!(text_of_file(b"/* CTF 1.8 */").expect("text"), "/* CTF 1.8 */");
    assert!(text_of_file(b"\x7fELF\0\0\0").is_err());
}

#[test]
fn only_wanted_fields_are_reported() {
    let fields = "uint8_t n; string s; struct { uint8_t a; unsigned short b; } p; uint8_t x[n]; \
                  enum colour t; variant either <t> v; uint8_t last;";
    let wanted =
        |_: &wakepath_ctf::schema::EventClass| Some(vec![("p.b", 3), ("x", 4), ("v.GREEN", 5), ("last", 6)]);
    let metadata = read(&metadata("le", fields)).expect("metadata");
    let plans = Plans::new(metadata, &Selection::Fields(&wanted)).expect("plans");
    #[derive(Default)]
    struct Told(Vec<(u16, Vec<u8>)>);
    impl wakepath_ctf::plan::Visitor for Told {
        fn unsigned(&mut self, field: u16, value: u64) {
            self.0.push((field, value.to_le_bytes()[..2].to_vec()));
        }
        fn signed(&mut self, _: u16, _: i64) {}
        fn float(&mut self, _: u16, _: f64) {}
        fn bytes(&mut self, field: u16, value: &[u8]) {
            self.0.push((field, value.to_vec()));
        }
    }
    let bytes = [2, b'h', b'i', 0, 9, 1, 2, 7, 8, 5, 3, 4, 42];
    let mut reader = Reader::new(&plans, &bytes[..]).expect("memory");
    let mut told = Told::default();
    while let Some(item) = reader.next() {
        if matches!(item, Item::Event(_)) {
            reader.fields(&mut told).expect("fields");
        }
    }
    assert_eq!(told.0, [(3, vec![1, 2]), (4, vec![7, 8]), (5, vec![3, 4]), (6, vec![42, 0])]);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(trace|env|clock|event|stream|struct|enum|variant|integer|string|typealias|typedef|align|size|fields|name|id|\\{|\\}|;|=|:=|:|<|>|\\[|\\]|\\(|\\)|,|\\.\\.\\.|\\.|\"|-|[a-z0-9 ]){0,60}") {
        if let Ok(metadata) = read(&text) {
            let _ = Plans::new(metadata, &Selection::All);
        }
    }
}
