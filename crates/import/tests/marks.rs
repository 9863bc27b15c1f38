//! Programs' own marks (LTTng-UST) beside a kernel trace, and alone.

use std::fs;
use std::path::Path;

use wakepath_event::{Damage, DamageKind, Event, EventKind, EventSource, Mark, RecordingFormat, Tid};
use wakepath_import::{Fault, Lttng};

const BOOT: &str = "2a6422d0-6cee-11e0-8c08-cb07d7b3a564";
const OTHER_BOOT: &str = "3a6422d0-6cee-11e0-8c08-cb07d7b3a564";

/// A trace's metadata: its domain, its clock's id, the stream's event context, and the events.
fn metadata(domain: &str, clock: &str, context: &str, events: &str) -> String {
    let clock = if clock.is_empty() { String::new() } else { format!("uuid = \"{clock}\";") };
    format!(
        "typealias integer {{ size = 8; }} := u8; typealias integer {{ size = 16; }} := u16;
        env {{ domain = {domain}; hostname = h; kernel_release = \"6.1.0\"; tracer_name = \"lttng\"; }};
        trace {{ major = 1; packet.header := struct {{ integer {{ size = 32; }} magic; }}; }};
        stream {{ packet.context := struct {{ u8 cpu_id; u8 packet_seq_num; u16 packet_size; u16 events_discarded;
                integer {{ size = 8; map = clock.c.value; }} timestamp_begin;
                integer {{ size = 8; map = clock.c.value; }} timestamp_end; }};
            event.header := struct {{ u8 id; integer {{ size = 8; map = clock.c.value; }} t; }};
            event.context := struct {{ {context} }}; }};
        clock {{ name = c; {clock} offset = 1000; }};
        {events}"
    )
}

const KERNEL: &str = "event { name = sched_switch; id = 1; fields := struct { u8 _prev_tid; u8 _prev_state; u8 _next_tid; }; };";
const MARKS: &str = "event { name = \"shop:order_begin\"; id = 1;
        fields := struct { u8 _id; string _kind; u8 __bytes_length; u8 _bytes[__bytes_length]; }; };
    event { name = \"shop:order_end\"; id = 2; fields := struct { u8 _id; }; };
    event { name = \"lttng_ust_statedump:start\"; id = 3; fields := struct { u8 _x; }; };";
const CONTEXT: &str = "u8 _vpid; u8 _vtid;";

/// A packet: CPU, number, discarded events so far, begin and end.
fn packet([cpu, number, discarded, begin, end]: [u8; 5], events: &[&[u8]]) -> Vec<u8> {
    let events = events.concat();
    let bits = (12 + events.len() as u16) * 8;
    let mut packet = [&0xc1fc_1fc1_u32.to_le_bytes()[..], &[cpu, number]].concat();
    packet.extend(bits.to_le_bytes());
    packet.extend([discarded, 0, begin, end]);
    packet.extend(events);
    packet
}

fn begin(at: u8, thread: u8, id: u8) -> Vec<u8> {
    [&[1, at, 70, thread, id][..], b"book\0\x02xy"].concat()
}

fn end(at: u8, thread: u8, id: u8) -> Vec<u8> {
    vec![2, at, 70, thread, id]
}

fn write(folder: &Path, name: &str, metadata: &str, streams: &[Vec<u8>]) {
    let folder = folder.join(name);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("metadata"), metadata).expect("a file");
    for (number, bytes) in streams.iter().enumerate() {
        fs::write(folder.join(format!("s_{number}")), bytes).expect("a file");
    }
}

/// A session's folder, with these marks' streams: the kernel's trace reaches from 10 to 90.
fn session(clock: &str, context: &str, marks: &[Vec<u8>]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    let switches = packet([0, 0, 0, 10, 90], &[&[1, 10, 0, 1, 7], &[1, 50, 7, 1, 8], &[1, 90, 8, 1, 0]]);
    write(folder.path(), "kernel", &metadata("kernel", BOOT, "", KERNEL), &[switches]);
    write(folder.path(), "ust/uid/0/64-bit", &metadata("ust", clock, context, MARKS), marks);
    folder
}

/// The events about marks as text, and the damages.
fn read(folder: &Path) -> (Vec<String>, Vec<Damage>) {
    shown(&Lttng::open(folder).expect("a trace"))
}

fn shown(trace: &Lttng) -> (Vec<String>, Vec<Damage>) {
    let mut events: Vec<Event> = Vec::new();
    let damages = trace.for_each(|event| events.push(event.clone()));
    assert!(events.is_sorted_by_key(|event| event.at), "{events:?}");
    let text = |event: &Event| {
        let at = event.at.ns();
        match &event.kind {
            EventKind::UserMark(mark) => {
                let fields: Vec<_> =
                    mark.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let id = |id: Option<Tid>| id.map_or(String::from("?"), |id| id.0.to_string());
                let who = format!("{}/{}", id(mark.process), id(mark.thread));
                Some(format!("{at} c{} {} {who} {}", event.cpu.0, mark.name, fields.join(" ")))
            }
            EventKind::UserMarksLost { from, count } => Some(format!("{} to {at}: {count} lost", from.ns())),
            EventKind::Loss { .. } => Some(format!("{at}: the kernel's records lost")),
            _ => None,
        }
    };
    (events.iter().filter_map(text).collect(), damages)
}

fn kinds(damages: &[Damage]) -> Vec<DamageKind> {
    damages
        .iter()
        .map(|damage| damage.kind.clone())
        .filter(|kind| !matches!(kind, DamageKind::NoWakings | DamageKind::StatesUndescribed))
        .collect()
}

#[test]
fn the_marks_of_all_streams_come_in_time_order_with_their_threads_and_fields() {
    let [b, e, own, late] = [begin(20, 7, 1), end(60, 7, 1), vec![3, 21, 70, 7, 9], end(95, 8, 2)];
    let streams =
        [packet([0, 0, 0, 20, 60], &[&b, &own, &e]), packet([1, 0, 0, 5, 95], &[&begin(5, 8, 2), &late])];
    let folder = session(BOOT, CONTEXT, &streams);
    let (marks, damages) = read(folder.path());
    assert_eq!(
        marks,
        [
            "5 c1 shop:order_begin 70/8 id=2 kind=book",
            "20 c0 shop:order_begin 70/7 id=1 kind=book",
            "60 c0 shop:order_end 70/7 id=1",
            "95 c1 shop:order_end 70/8 id=2",
        ]
    );
    assert_eq!(kinds(&damages), []);
}

#[test]
fn marks_by_another_clock_than_the_kernels_are_not_read() {
    let streams = [packet([0, 0, 0, 20, 60], &[&begin(20, 7, 1)])];
    for clock in [OTHER_BOOT, ""] {
        let folder = session(clock, CONTEXT, &streams);
        let (marks, damages) = read(folder.path());
        assert_eq!((marks, kinds(&damages)), (vec![], vec![DamageKind::ProgramsApart]), "{clock}");
    }
}

#[test]
fn marks_without_their_thread_say_so() {
    let folder = session(BOOT, "u8 _vpid;", &[packet([0, 0, 0, 20, 60], &[&[2, 20, 70, 1]])]);
    let (marks, damages) = read(folder.path());
    assert_eq!(marks, ["20 c0 shop:order_end 70/? id=1"]);
    assert_eq!(kinds(&damages), [DamageKind::MarksWithoutThread]);
}

#[test]
fn lost_marks_are_no_losses_of_the_kernels_records() {
    let streams =
        [packet([0, 0, 0, 20, 30], &[&begin(20, 7, 1)]), packet([0, 1, 3, 40, 60], &[&end(55, 7, 1)])]
            .concat();
    let folder = session(BOOT, CONTEXT, &[streams]);
    let (marks, damages) = read(folder.path());
    let lost = marks.iter().find(|text| text.contains("lost")).expect("a loss");
    assert!(lost.ends_with(": 3 lost"), "{lost}");
    assert!(!marks.iter().any(|text| text.contains("kernel")), "{marks:?}");
    assert_eq!(kinds(&damages), [DamageKind::MarksLost { count: Some(3) }]);
}

#[test]
fn marks_before_a_streams_first_packet_and_in_damaged_bytes_are_lost() {
    let late = [packet([0, 2, 0, 40, 60], &[&end(55, 7, 1)])];
    let (marks, damages) = read(session(BOOT, CONTEXT, &late).path());
    assert_eq!(marks, ["0 to 40: 0 lost", "55 c0 shop:order_end 70/7 id=1"]);
    assert_eq!(kinds(&damages), [DamageKind::MarksLost { count: None }]);

    let whole = packet([0, 0, 0, 20, 30], &[&begin(20, 7, 1)]);
    let bad =
        [whole.clone(), packet([0, 1, 0, 40, 60], &[&[9, 45]]), packet([0, 2, 0, 70, 80], &[&end(75, 7, 1)])];
    let (marks, damages) = read(session(BOOT, CONTEXT, &[bad.concat()]).path());
    assert!(marks[1].ends_with(" to 75: 0 lost") && marks.len() == 3, "{marks:?}");
    assert!(kinds(&damages).contains(&DamageKind::MarksLost { count: None }), "{damages:?}");

    // A cut file: nothing is known from there on.
    let mut cut = [whole, packet([0, 1, 0, 40, 60], &[&end(55, 7, 1)])].concat();
    cut.truncate(cut.len() - 2);
    let (marks, _) = read(session(BOOT, CONTEXT, &[cut]).path());
    assert!(marks.last().is_some_and(|last| last.ends_with("0 lost")), "{marks:?}");
}

#[test]
fn a_mark_whose_stamp_goes_back_is_left_out_and_the_marks_around_it_enclose_a_loss() {
    let folder = tempfile::tempdir().expect("a directory");
    let short = "integer { size = 8; map = clock.c.value; } t;";
    let text = metadata("ust", BOOT, CONTEXT, MARKS);
    assert!(text.contains(short));
    let mark = |at: u64| [&[2][..], &at.to_le_bytes(), &[70, 7, 1]].concat();
    let stream = packet([0, 0, 0, 20, 60], &[&mark(20), &mark(19), &mark(55)]);
    write(folder.path(), "ust", &text.replace(short, &short.replace('8', "64")), &[stream]);
    let (marks, damages) = shown(&Lttng::open_programs(folder.path()).expect("marks"));
    assert_eq!(
        marks,
        ["20 c0 shop:order_end 70/7 id=1", "20 to 55: 0 lost", "55 c0 shop:order_end 70/7 id=1"]
    );
    assert!(kinds(&damages).contains(&DamageKind::Fault(Fault::StampBack.to_string())), "{damages:?}");
}

#[test]
fn a_cpu_without_a_stream_and_a_stream_that_ends_early_have_lost_marks() {
    // The kernel has CPU 0 alone: CPU 0 is missing.
    let missing = [packet([1, 0, 0, 40, 60], &[&end(55, 7, 1)])];
    let (marks, damages) = read(session(BOOT, CONTEXT, &missing).path());
    assert_eq!(marks, ["55 c1 shop:order_end 70/7 id=1", "0 to 90: 0 lost"]);
    assert_eq!(kinds(&damages), [DamageKind::MarksLost { count: None }]);

    // At 1000 ticks a second, 40 to 60 is 20 ms, 40 to 250 is 210 ms.
    for (last, lost) in [(60, 0), (250, 1)] {
        let folder = tempfile::tempdir().expect("a directory");
        let slow = metadata("ust", BOOT, CONTEXT, MARKS).replace("offset =", "freq = 1000; offset =");
        let streams =
            [packet([0, 0, 0, 20, 40], &[&begin(20, 7, 1)]), packet([1, 0, 0, 30, last], &[&end(30, 7, 1)])];
        write(folder.path(), "ust", &slow, &streams);
        let (marks, _) = shown(&Lttng::open_programs(folder.path()).expect("marks"));
        let losses: Vec<_> = marks.iter().filter(|mark| mark.contains("lost")).collect();
        assert_eq!(losses.len(), lost, "{marks:?}");
        assert!(losses.iter().all(|loss| loss.starts_with("40000000 to ")), "{marks:?}");
    }
}

#[test]
fn programs_alone_are_a_session_from_their_first_mark_to_their_last() {
    let folder = tempfile::tempdir().expect("a directory");
    let streams = [packet([0, 0, 0, 20, 60], &[&begin(20, 7, 1), &end(60, 7, 1)])];
    // Some tracers give their clock no id.
    write(folder.path(), "ust", &metadata("ust", "", CONTEXT, MARKS), &streams);
    assert_eq!(shown(&Lttng::open_programs(folder.path()).expect("marks")).0.len(), 2);
    write(folder.path(), "ust", &metadata("ust", BOOT, CONTEXT, MARKS), &streams);
    assert!(Lttng::open(folder.path()).is_err(), "no question about threads has an answer");
    let trace = Lttng::open_programs(folder.path()).expect("marks");
    let mut seen = Vec::new();
    let damages = trace.for_each(|event| match &event.kind {
        EventKind::Mark(mark) => seen.push((event.at.ns(), format!("{mark:?}"))),
        EventKind::Thread { identity, .. } => {
            seen.push((event.at.ns(), format!("thread {} of {}", identity.tid, identity.tgid)));
        }
        _ => {}
    });
    let expected = [
        (20, format!("{:?}", Mark::Started)),
        (20, String::from("thread 7 of 70")),
        (60, format!("{:?}", Mark::Stopped)),
    ];
    assert_eq!((seen, kinds(&damages)), (expected.to_vec(), vec![DamageKind::ProgramsAlone]));
    assert!(Lttng::open_programs(session(BOOT, CONTEXT, &streams).path()).is_err(), "the kernel is there");
    // Beside a kernel trace, two clocks without an id may be two clocks.
    let both = session("", CONTEXT, &streams);
    let kernel = both.path().join("kernel/metadata");
    let nameless =
        fs::read_to_string(&kernel).expect("the metadata").replace(&format!("uuid = \"{BOOT}\";"), "");
    fs::write(kernel, nameless).expect("a file");
    let (marks, damages) = read(both.path());
    assert_eq!((marks, kinds(&damages)), (Vec::new(), vec![DamageKind::ProgramsApart]));
}
