//! Traces in CTF 2: the same streams, with their metadata converted from CTF 1.8, have the same events.

pub mod convert;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use wakepath_ctf::plan::{Plan, Visitor};
use wakepath_ctf::stream::{Item, Plans, Reader, Selection};
use wakepath_ctf::trace::Trace;
use wakepath_event::{ClockId, Event, EventKind, EventSource, RecordingFormat};
use wakepath_import::Lttng;

/// An event's fields as text, by their numbers.
#[derive(Default)]
struct Fields(String);

impl Fields {
    fn add(&mut self, field: u16, value: impl std::fmt::Debug) {
        let _ = write!(self.0, "{field} = {value:?}; ");
    }
}

impl Visitor for Fields {
    fn begin(&mut self) {
        self.0.clear();
    }
    fn unsigned(&mut self, field: u16, value: u64) {
        self.add(field, value);
    }
    fn signed(&mut self, field: u16, value: i64) {
        self.add(field, value);
    }
    fn float(&mut self, field: u16, value: f64) {
        self.add(field, value);
    }
    fn bytes(&mut self, field: u16, value: &[u8]) {
        self.add(field, value);
    }
    fn open(&mut self, field: u16) {
        self.add(field, "{");
    }
    fn close(&mut self, field: u16) {
        self.add(field, "}");
    }
}

/// The next item of a stream as text, with all fields.
fn next(plans: &Plans, reader: &mut Reader<'_, fs::File>) -> Option<String> {
    let item = reader.next()?;
    let Item::Event(head) = &item else { return Some(format!("{item:?}")) };
    let class = plans.class(head.class).expect("a class");
    let mut fields = Fields::default();
    match reader.fields(&mut fields) {
        Ok(()) => Some(format!("{} {}: {}", head.stamp, class.event.name, fields.0)),
        Err(fault) => Some(fault.to_string()),
    }
}

/// Writes a trace's folder again, with its metadata in CTF 2.
fn convert(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let copy = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            convert(&path, &copy);
        } else {
            fs::copy(&path, &copy).expect("a copy");
        }
    }
    if from.join("metadata").is_file() {
        let metadata = Trace::open(from).expect("a trace").metadata;
        fs::remove_file(to.join("metadata")).expect("a file that may be read-only");
        fs::write(to.join("metadata"), convert::as_ctf_2(&metadata)).expect("a file");
    }
}

/// The stream files in the folders with metadata.
fn folders(path: &Path, into: &mut Vec<PathBuf>) {
    if path.join("metadata").is_file() {
        into.push(path.to_owned());
    }
    for entry in fs::read_dir(path).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            folders(&path, into);
        }
    }
}

/// Compares a trace in both versions, item by item with all fields; returns the number of items.
fn compare_streams(one: &Path, two: &Path) -> u64 {
    let (mut items, mut found) = (0, Vec::new());
    folders(one, &mut found);
    for folder in found {
        let other = two.join(folder.strip_prefix(one).expect("a folder below"));
        let plans = |folder: &Path| {
            let trace = Trace::open(folder).expect("a trace");
            (Plans::new(trace.metadata, &Selection::All).expect("plans"), trace.streams)
        };
        let ((one, files), (two, _)) = (plans(&folder), plans(&other));
        let paths = |plans: &Plans| {
            let classes = (0..plans.len() as u32).map(|class| plans.class(class).expect("a class"));
            let fields = |plan: &Plan| {
                (0..plan.fields().len() as u16).map(|field| plan.path(field)).collect::<Vec<_>>()
            };
            classes.map(|class| (class.event.name.clone(), fields(class.plan))).collect::<Vec<_>>()
        };
        assert_eq!(paths(&one), paths(&two));
        for file in files {
            let reader =
                |plans| Reader::new(plans, fs::File::open(&file).expect("a file")).expect("a stream");
            let (mut first, mut second) = (reader(&one), reader(&two));
            loop {
                let item = next(&one, &mut first);
                assert_eq!(item, next(&two, &mut second), "{}, item {items}", file.display());
                if item.is_none() {
                    break;
                }
                items += 1;
            }
        }
    }
    items
}

/// A trace's description, events and damages.
fn whole(folder: &Path) -> (String, Vec<Event>, Vec<String>) {
    let trace = Lttng::open(folder).unwrap_or_else(|error| panic!("{error}"));
    let mut events = Vec::new();
    let damages = trace.for_each(|event| events.push(event.clone()));
    let place = folder.display().to_string();
    let described = |text: String| text.replace(&place, "TRACE");
    (
        described(format!("{:?}", trace.description())),
        events,
        damages.iter().map(|damage| described(format!("{damage:?}"))).collect(),
    )
}

/// Converts a trace, and compares both versions.
fn compare(one: &Path) -> (u64, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let two = folder.path().join("trace");
    convert(one, &two);
    let items = compare_streams(one, &two);
    let (first, second) = (whole(one), whole(&two));
    assert_eq!(first.0, second.0);
    assert_eq!(first.2, second.2);
    assert_eq!(first.1.len(), second.1.len());
    for (first, second) in first.1.iter().zip(&second.1) {
        assert_eq!(first, second);
    }
    (items, second.1.len())
}

/// A kernel trace as LTTng writes it, with a field of each form.
const METADATA: &str = "typealias integer { size = 8; } := u8;
    typealias integer { size = 32; } := u32;
    typealias integer { size = 64; } := u64;
    typealias integer { size = 64; map = clock.monotonic.value; } := stamp;
    trace { major = 1; uuid = \"2a6422d0-6cee-11e0-8c08-cb07d7b3a564\"; byte_order = le;
        packet.header := struct { u32 magic; u8 uuid[16]; u32 stream_id; u64 stream_instance_id; }; };
    env { hostname = \"h\"; domain = \"kernel\"; kernel_release = \"6.1.0\"; tracer_name = \"lttng-modules\";
        tracer_major = 2; tracer_minor = 15; };
    clock { name = monotonic; uuid = \"df5431f1-2a64-423e-ac6c-3aedcb52a769\"; freq = 1000000000; offset = 1700; };
    stream { id = 0;
        event.header := struct { enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;
            variant <id> { struct { integer { size = 27; align = 1; map = clock.monotonic.value; } timestamp; } compact;
                struct { u32 id; stamp timestamp; } extended; } v; } align(8);
        packet.context := struct { stamp timestamp_begin; stamp timestamp_end; u64 content_size; u64 packet_size;
            u64 packet_seq_num; u64 events_discarded; u32 cpu_id; }; };
    event { name = sched_switch; id = 1; stream_id = 0; fields := struct {
        integer { size = 8; encoding = UTF8; } _prev_comm[16]; integer { size = 32; signed = true; } _prev_tid;
        integer { size = 64; signed = true; } _prev_state; integer { size = 8; encoding = UTF8; } _next_comm[16];
        integer { size = 32; signed = true; } _next_tid; }; };
    event { name = sched_waking; id = 2; stream_id = 0; fields := struct {
        integer { size = 32; signed = true; } _tid; integer { size = 32; signed = true; } _target_cpu; }; };
    event { name = other; id = 40; stream_id = 0; fields := struct {
        u8 __n_length; u8 _n[__n_length]; string _s; enum : u8 { a = 0 ... 3, b = 4, b = 9 } _which;
        variant <_which> { u8 a; struct { u32 x; } b; } _v; floating_point { exp_dig = 8; mant_dig = 24; align = 8; } _f; }; };";

/// A packet of that trace: another event between two switches and a wake-up.
fn stream() -> Vec<u8> {
    let mut events = Vec::new();
    let switch = |stamp: u32, from: i32, to: i32| {
        let mut event = (1 | stamp << 5).to_le_bytes().to_vec();
        event.extend(b"from\0\0\0\0\0\0\0\0\0\0\0\0");
        event.extend(from.to_le_bytes());
        event.extend(1_i64.to_le_bytes());
        event.extend(b"to\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        event.extend(to.to_le_bytes());
        event
    };
    events.extend(switch(100, 7, 8));
    events.extend((2 | 150_u32 << 5).to_le_bytes());
    events.extend([7_i32.to_le_bytes(), 0_i32.to_le_bytes()].concat());
    for which in [2_u8, 4, 9] {
        events.push(31);
        events.extend(40_u32.to_le_bytes());
        events.extend((160 + u64::from(which)).to_le_bytes());
        events.extend([2, 5, 6, b's', 0, which]);
        events.extend(if which < 4 { vec![11] } else { 70_000_u32.to_le_bytes().to_vec() });
        events.extend(1.5_f32.to_le_bytes());
    }
    events.extend(switch(200, 8, 7));
    let mut bytes = 0xc1fc_1fc1_u32.to_le_bytes().to_vec();
    bytes.extend(0x2a64_22d0_6cee_11e0_8c08_cb07_d7b3_a564_u128.to_be_bytes());
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    let content = (bytes.len() + 6 * 8 + 4 + events.len()) as u64 * 8;
    for value in [90, 210, content, 4096 * 8, 0, 0] {
        bytes.extend(u64::to_le_bytes(value));
    }
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(events);
    bytes.resize(4096, 0);
    bytes
}

#[test]
fn a_kernel_trace_in_ctf_2_is_read_with_the_same_events() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("metadata"), METADATA).expect("a file");
    fs::write(folder.path().join("cpu_0"), stream()).expect("a file");
    let (items, events) = compare(folder.path());
    assert!(items == 7 && events >= 3, "{items} items, {events} events");
    let (description, events, damages) = whole(folder.path());
    assert!(description.contains("lttng-modules 2.15") && description.contains("df5431f1"), "{description}");
    assert!(events.iter().any(|event| matches!(event.kind, EventKind::Switch { .. })), "{events:?}");
    assert!(damages.iter().all(|damage| !damage.contains("Fault")), "{damages:?}");
}

#[test]
fn a_host_a_clock_or_a_tracer_that_a_trace_does_not_name_is_not_known() {
    let described = |metadata: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("metadata"), metadata).expect("a file");
        fs::write(folder.path().join("cpu_0"), stream()).expect("a file");
        let description = Lttng::open(folder.path()).expect("a trace").description().clone();
        (description.clock, description.host.name, description.host.boot_id, description.tracer)
    };
    let named = described(METADATA);
    assert_eq!((named.0, &*named.1), (ClockId::Monotonic, "h"));
    assert!(named.2.starts_with("df5431f1"), "{named:?}");
    let unnamed = METADATA
        .replace("monotonic", "own")
        .replace("uuid = \"df5431f1-2a64-423e-ac6c-3aedcb52a769\"; ", "")
        .replace("hostname = \"h\"; ", "")
        .replace("tracer_name = \"lttng-modules\";", "")
        .replace("tracer_major = 2; tracer_minor = 15;", "");
    let tracer = "a tracer without a name".to_owned();
    assert_eq!(described(&unnamed), (ClockId::Unknown, String::new(), String::new(), Some(tracer)));
}

#[test]
fn real_kernel_traces_converted_to_ctf_2_are_read_with_the_same_events() {
    let Some(folder) = std::env::var_os("WAKEPATH_TRACES").map(PathBuf::from) else {
        println!("skipped: not possible here: WAKEPATH_TRACES names no folder of traces to convert");
        return;
    };
    for name in [
        "lttng-imbalance/ctf",
        "lttng-mutex/ctf",
        "lttng-pipeline/ctf",
        "lttng-rpc-local/ctf",
        "lttng-ust-app/ctf",
        "many-threads",
        "scp_dest",
        "scp_src",
    ] {
        let (items, events) = compare(&folder.join(name));
        println!("{name}: {items} items, {events} events are equal");
        assert!(items > 1000 && events > 1000, "{name}: {items} items, {events} events");
    }
}
