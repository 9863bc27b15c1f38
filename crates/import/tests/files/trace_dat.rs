//! `trace-cmd record` files, as events.

use std::path::Path;

use wakepath_event::{BlockedState, ClockId, Event, EventKind, EventSource, SwitchOut};
use wakepath_event::{Damage, DamageKind};
use wakepath_import::trace_cmd::synthetic::{EventType, File};
use wakepath_import::{Fault, OpenError, TraceDat};

use crate::lines::{self, changed, events, lines, lines_with};

const ANY: i64 = 1;
const FORMS: [(u8, &str); 4] = [(6, "none"), (7, "none"), (7, "zlib"), (7, "zstd")];

pub fn opened(bytes: &[u8]) -> Result<TraceDat<&[u8]>, OpenError> {
    TraceDat::from_source(bytes, Path::new("a.dat"))
}

/// A file's events, and its damages.
fn read(file: &File) -> (Vec<Event>, Vec<Damage>) {
    events(&opened(&file.bytes()).expect("a file"))
}

/// Thread 7 wakes 8 on the other CPU.
pub fn two_cpus() -> File {
    File::default()
        .switch((110, 1, 0, 0), 0, 8, "there")
        .switch((150, 1, 8, 8), ANY, 0, "swapper/1")
        .switch((100, 0, 0, 0), 0, 7, "here")
        .waking((105, 0, 7, 7), 8)
        .switch((200, 0, 7, 7), 2, 0, "swapper/0")
}

const OF_TWO_CPUS: [&str; 7] = [
    "100 cpu0 0 to 7 Runnable",
    "100 cpu0 7 names 7 \"here\"",
    "105 cpu0 7 names 8 \"there\"",
    "105 cpu0 7 wakes 8",
    "110 cpu1 0 to 8 Runnable",
    "150 cpu1 8 to 0 Blocked(Interruptible)",
    "200 cpu0 7 to 0 Blocked(Uninterruptible)",
];

/// `OF_TWO_CPUS`, without a name emitted twice.
fn event_lines(file: &File) -> Vec<String> {
    let mut lines = lines(&read(file).0);
    lines.retain(|line| line != "110 cpu1 8 names 8 \"there\"");
    lines
}

#[test]
fn events_are_by_time_in_either_version_compressed_or_not() {
    for (version, compression) in FORMS {
        let file = two_cpus().version(version).compressed(compression);
        assert_eq!(event_lines(&file), OF_TWO_CPUS, "version {version}, {compression}");
        assert_eq!(read(&file).1, []);
        let bytes = file.bytes();
        let file = opened(&bytes).expect("a file");
        let source = file.description();
        assert_eq!(source.clock, ClockId::Monotonic);
        assert_eq!(source.extent.map(|(from, to)| (from.ns(), to.ns())), Some((100, 200)));
        let host = (source.host.name.as_str(), source.host.kernel_release.as_str());
        assert_eq!((host, source.tracer.as_deref()), (("web3", "6.1.0"), Some("trace-cmd 3.1.6")));
    }
}

#[test]
fn many_pages_of_a_cpu_are_read_one_after_the_other() {
    for (version, compression) in FORMS {
        let mut file = two_cpus().version(version).compressed(compression);
        // Some far apart: more than an event's own delta can hold.
        let mut at = 1000;
        for n in 0..500 {
            at += if n % 100 == 0 { 1 << 30 } else { 7 };
            file = file.waking((at, n % 2, 7, 7), 8);
        }
        let (events, damages) = read(&file);
        let wakings: Vec<_> =
            events.iter().filter(|event| matches!(event.kind, EventKind::Waking { .. })).collect();
        assert_eq!((wakings.len(), damages), (501, vec![]), "version {version}, {compression}");
        assert_eq!(wakings.last().map(|event| event.at.ns()), Some(at));
    }
}

#[test]
fn a_state_means_what_the_file_says() {
    let out = |state| {
        let (events, _) = read(&File::default().switch((100, 0, 7, 7), state, 0, "x"));
        events.iter().find_map(|event| match event.kind {
            EventKind::Switch { out, .. } => Some(out),
            _ => None,
        })
    };
    for (state, meaning) in [
        (0, SwitchOut::Runnable),
        (2048, SwitchOut::Runnable),
        (512, SwitchOut::Blocked(BlockedState::Parked)),
        (16, SwitchOut::Dead),
    ] {
        assert_eq!(out(state), Some(meaning), "{state}");
    }
}

#[test]
fn time_passes_as_the_pages_words_say() {
    // 100, and 5 << 27 | 3 later; skipped padding; an absolute stamp; an empty rest of the page.
    let file = File::default()
        .switch((100, 0, 0, 0), 0, 7, "here")
        .words((100 + (5 << 27 | 3), 0), &[30 | 3 << 5, 5])
        .waking((100 + (5 << 27 | 3), 0, 7, 7), 8)
        .words((100 + (5 << 27 | 3) + 9, 0), &[29 | 9 << 5, 12, 0, 0])
        .waking((100 + (5 << 27 | 3) + 11, 0, 7, 7), 8)
        .words((9 << 27, 0), &[31, 9])
        .waking((9 << 27 | 5, 0, 7, 7), 8)
        .words((9 << 27, 0), &[29, 0])
        .words((9 << 27, 0), &[77]);
    let (events, damages) = read(&file);
    let wakings = events.iter().filter(|event| matches!(event.kind, EventKind::Waking { .. }));
    let stamps: Vec<_> = wakings.map(|event| event.at.ns()).collect();
    assert_eq!(stamps, [100 + (5 << 27 | 3), 100 + (5 << 27 | 3) + 11, 9 << 27 | 5]);
    assert_eq!(damages, []);
}

#[test]
fn events_lost_before_a_page_are_a_loss_of_its_cpu() {
    for (version, compression) in FORMS {
        let file = two_cpus()
            .version(version)
            .compressed(compression)
            .page(1, Some(5))
            .switch((180, 1, 0, 0), 0, 8, "there")
            .page(1, Some(0))
            .switch((190, 1, 8, 8), ANY, 0, "swapper/1");
        let lost = lines_with(&read(&file).0, "lost");
        assert_eq!(lost, ["180 cpu1 0 lost 5 since 150", "190 cpu1 8 lost 0 since 180"]);
    }
    // Events without room were counted, without their times.
    let stats = b"CPU: 1\nentries: 0\noverrun: 0\ncommit overrun: 0\ndropped events: 9\nread events: 2\n\0";
    let (_, damages) = read(&two_cpus().option(2, stats));
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert_eq!(damages[0].kind, DamageKind::BufferFull { cpu: 1, count: 9 });
}

#[test]
fn a_cpu_with_fewer_events_than_the_kernel_counted_is_unknown_until_its_first() {
    let unknown = |file: File| {
        let (events, damages) = read(&file);
        let lacks = |event: &&Event| matches!(event.kind, EventKind::Unrecorded | EventKind::Loss { .. });
        let at = |event: &Event| match event.kind {
            EventKind::Loss { from, .. } => (event.cpu.0, Some(from.ns()), event.at.ns()),
            _ => (event.cpu.0, None, event.at.ns()),
        };
        let said = damages.iter().any(|damage| format!("{:?}", damage.kind).contains("the kernel counted"));
        (events.iter().filter(lacks).map(at).collect::<Vec<_>>(), said)
    };
    let counted = |left: u64, read: u64| format!("CPU: 1\nentries: {left}\nread events: {read}\n\0");
    let with = |left, read| two_cpus().option(2, counted(left, read).as_bytes());
    assert_eq!(unknown(with(0, 2)), (vec![], false));
    assert_eq!(unknown(with(2, 0)), (vec![], false));
    // More than the kernel counted: the file's buffer was used again.
    assert_eq!(unknown(with(0, 1)), (vec![], false));
    assert_eq!(unknown(with(1, 2)), (vec![(1, None, 100), (1, Some(100), 110)], true));
    // The counts do not name their buffer among several; and a noted loss explains them.
    assert_eq!(unknown(with(1, 2).instance()), (vec![], false));
    let lossy = with(3, 2).page(1, Some(5)).switch((180, 1, 0, 0), 0, 8, "there");
    assert_eq!(unknown(lossy), (vec![(1, Some(150), 180)], false));
}

#[test]
fn a_newborn_is_a_thread_or_a_process_where_the_file_says_so() {
    let file = two_cpus()
        .birth((210, 0, 7, 7), 20, true, "worker")
        .birth((220, 0, 20, 20), 21, true, "worker")
        .birth((230, 0, 7, 7), 22, false, "here")
        .tracepoint(EventType::WakeupNew, (231, 0, 7, 7), &[(20, &22_u32.to_le_bytes())]);
    let lines = lines(&read(&file).0);
    let told: Vec<_> = lines.iter().filter(|line| line.contains("bears") || line.contains("born")).collect();
    assert_eq!(
        told,
        [
            "210 cpu0 7 bears \"worker\" 20 of 7",
            "220 cpu0 20 bears \"worker\" 21 of 7",
            "230 cpu0 7 bears \"here\" 22 of 22",
            "231 cpu0 7 wakes 22, born",
        ]
    );
}

#[test]
fn stamps_of_a_clock_that_is_time_are_said_to_be_its_and_of_others_refused() {
    // A 2 GHz counter.
    let tsc = [&1_u32.to_le_bytes()[..], &1_u32.to_le_bytes(), &1000_u64.to_le_bytes()].concat();
    for (clock, means) in [
        ("mono", ClockId::Monotonic),
        ("mono_raw", ClockId::Numbered(4)),
        ("boot", ClockId::Numbered(7)),
        ("tai", ClockId::Numbered(11)),
        ("local", ClockId::Local),
        ("global", ClockId::Global),
        ("perf", ClockId::Perf),
        ("uptime", ClockId::Uptime),
        ("x86-tsc", ClockId::Tsc),
        ("", ClockId::Unknown),
    ] {
        for version in [6, 7] {
            let bytes = two_cpus().version(version).clock(clock).option(14, &tsc).bytes();
            let file = opened(&bytes).expect("a file");
            let expected = if means == ClockId::Tsc { (1050, 1100) } else { (100, 200) };
            let source = file.description();
            let extent = source.extent.map(|(from, to)| (from.ns(), to.ns()));
            assert_eq!((source.clock, extent), (means, Some(expected)), "{clock}");
            assert_eq!(source.realtime_offset_ns, None);
            let doubts = file.for_each(|_| {});
            assert_eq!(doubts.len(), usize::from(means == ClockId::Uptime), "{clock}: {doubts:?}");
        }
    }
    for (clock, says) in [
        ("counter", "a.dat has stamps of the clock `counter`, which counts events and does not measure time"),
        ("x86-tsc", "which counts cycles, and the file does not say how many there are in a second"),
        ("s390-tod", "which is not known here: record with -C mono"),
    ] {
        let bytes = two_cpus().clock(clock).bytes();
        let error = opened(&bytes).expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
    }
    let bytes = two_cpus().option(1, b"0x10\0").bytes();
    let file = opened(&bytes).expect("a file");
    assert_eq!(file.description().realtime_offset_ns, Some(16_000));
}

#[test]
fn one_buffer_is_read_and_others_are_said() {
    for version in [6, 7] {
        let file = two_cpus().version(version).instance();
        let (_, damages) = read(&file);
        assert_eq!(event_lines(&file), OF_TWO_CPUS, "version {version}");
        assert_eq!(damages.len(), 1, "{damages:?}");
        assert_eq!(damages[0].kind, DamageKind::OtherBuffers(vec!["other".to_owned()]));
    }
}

#[test]
fn wakeups_stand_in_where_wakings_are_not_recorded_and_the_answer_says_so() {
    let wakeup =
        |file: File| file.tracepoint(EventType::Wakeup, (220, 0, 7, 7), &[(12, &8_u32.to_le_bytes())]);
    let alone = wakeup(File::default().switch((100, 0, 0, 0), 0, 7, "here"));
    let count = |file: &File| lines_with(&read(file).0, "wakes 8").len();
    assert_eq!((count(&wakeup(two_cpus())), count(&alone)), (1, 1));
    let says = |file: &File| read(file).1.iter().any(|damage| damage.kind == DamageKind::LateWakings);
    assert!(says(&alone) && !says(&two_cpus()));
}

#[test]
fn an_error_names_the_reason_and_the_way_out() {
    let bytes = two_cpus().version(6).bytes();
    let changed = |at, with: &[u8]| changed(&bytes, at, with);
    let replaced = |from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).rposition(|window| window == from).expect("there");
        changed(at, to)
    };
    let of = |file: File| file.bytes();
    for (bytes, says) in [
        (b"PERFILE2".to_vec(), "a.dat is no trace.dat"),
        (b"".to_vec(), "a.dat is no trace.dat"),
        (changed(10, b"5"), "a.dat is a trace.dat of version 5, and versions 6 and 7 are read: convert it"),
        (changed(12, &[1]), "big-endian"),
        (changed(12, &[2]), "a.dat at byte 12: 2 is no byte order"),
        (bytes[..14].to_vec(), "a.dat at byte 14: the size of its pages should take 4 bytes"),
        (replaced(b"flyrecord\0", b"latency  \0"), "a.dat holds the text that a latency tracer printed"),
        (replaced(b"flyrecord\0", b"something\0"), "neither events nor text begin here"),
        (replaced(b"type == 30", b"type == 77"), "not laid out as any that is known"),
        (
            bytes[..bytes.len() - 2000].to_vec(),
            "it was cut short, and holds no switches of threads up to there",
        ),
        (of(two_cpus())[..2000].to_vec(), "it was cut short"),
        (
            of(two_cpus().compressed("lz4")),
            "a.dat is compressed by lz4, which is not read: convert it (trace-cmd convert --compression none",
        ),
        (
            of(File::default().waking((5, 0, 7, 7), 8)),
            "holds no switches of threads (it holds sched:sched_waking)",
        ),
        (of(File::default()), "(it holds no events), so that the waits of threads are not known"),
    ] {
        let error = opened(&bytes).expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
    }
}

/// A file with all kinds of items.
fn file_with_all_kinds(version: u8, compression: &'static str) -> File {
    let name = (16_u32 | 4 << 16).to_le_bytes();
    two_cpus()
        .version(version)
        .compressed(compression)
        .instance()
        .tracepoint(EventType::IrqEntry, (210, 0, 0, 0), &[(8, &name), (12, &[11, 0, 0, 0]), (16, b"disk")])
        .waking((211, 0, 0, 0), 7)
        .tracepoint(EventType::IrqExit, (212, 0, 0, 0), &[(12, &[11, 0, 0, 0])])
        .birth((215, 0, 7, 7), 20, true, "worker")
        .page(1, Some(3))
        .switch((220, 1, 0, 0), 0, 8, "there")
        .words((221, 1), &[30 | 1 << 5, 0])
        .words((222, 1), &[29 | 1 << 5, 8, 0])
        .tracepoint(EventType::CallEntry, (240, 1, 8, 8), &[(8, &[0]), (16, &[0; 48])])
        .option(2, b"CPU: 0\ndropped events: 1\n\0")
}

fn survives(bytes: &[u8]) -> Result<(usize, Vec<Damage>), String> {
    lines::survives(opened(bytes))
}

#[test]
fn a_file_cut_short_anywhere_is_refused_by_name_and_place_or_says_from_where_on_it_lacks_pages() {
    for (version, compression) in FORMS {
        let bytes = file_with_all_kinds(version, compression).bytes();
        let (whole, damages) = survives(&bytes).expect("whole");
        assert!(whole > 12 && damages.len() == 2, "{whole} {damages:?}");
        for len in (0..bytes.len()).filter(|len| len % 3 == 0 || *len < 200) {
            match survives(&bytes[..len]) {
                Ok((_, damages)) => {
                    let said = format!("{:?}", damages.first());
                    assert!(version == 6 && said.contains("the file was cut short"), "{len}: {said}");
                }
                Err(error) => {
                    assert!(error.contains("a.dat"), "{len}: {error}");
                    assert!(len < 10 || error.contains(" at byte "), "version {version}, {len}: {error}");
                }
            }
        }
    }
}

#[test]
fn an_instance_behind_the_cut_is_said() {
    let whole = two_cpus().version(6).instance().bytes();
    let alone = two_cpus().version(6).bytes();
    // The instance's table stands behind the top buffer's pages.
    let file = opened(&whole[..alone.len()]).expect("the top buffer is whole");
    let (events, damages) = events(&file);
    assert_eq!(lines(&events).len(), OF_TWO_CPUS.len() + 1);
    assert_eq!(damages.len(), 1);
    assert_eq!(damages[0].kind, DamageKind::Fault(Fault::OtherBufferCut.to_string()));
    // In version 7, an option that leads to nowhere.
    let mut bytes = two_cpus().bytes();
    let at = bytes.len() - 8;
    let behind = bytes.len() as u64 + 4096;
    bytes[at..].copy_from_slice(&behind.to_le_bytes());
    let (count, damages) = survives(&bytes).expect("the top buffer is whole");
    assert_eq!((count > 7, damages.len()), (true, 1));
    assert_eq!(damages[0].kind, DamageKind::Fault(Fault::OtherBufferCut.to_string()));
}

#[test]
fn a_cpu_without_pages_is_unknown_once_a_thread_is_woken_there() {
    let waking = |cpu: u32| {
        let fields: [(usize, &[u8]); 2] = [(12, &8_u32.to_le_bytes()), (20, &cpu.to_le_bytes())];
        let file = File::default().switch((100, 0, 0, 0), 0, 7, "here");
        read(&file.tracepoint(EventType::Waking, (105, 0, 7, 7), &fields).switch(
            (200, 0, 7, 7),
            2,
            0,
            "swapper/0",
        ))
    };
    let (events, damages) = waking(1);
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert_eq!(damages[0].kind, DamageKind::CpusUnrecorded { cpus: vec![1], wakings: 1 });
    assert!(events.iter().any(|event| event.kind == EventKind::Unrecorded && event.cpu.0 == 1));
    assert_eq!(lines_with(&events, "lost"), ["200 cpu1 0 lost 0 since 100"]);
    // It may have been idle.
    assert_eq!(waking(0).1, []);
}

#[test]
fn a_changed_byte_anywhere_is_a_local_matter_or_an_error() {
    for (version, compression) in FORMS {
        let good = file_with_all_kinds(version, compression).bytes();
        for (at, bit) in (0..good.len()).step_by(2).map(|at| (at, at / 2 % 8)) {
            for value in [good[at] ^ 1 << bit, 0xff] {
                if let Err(error) = survives(&changed(&good, at, &[value])) {
                    assert!(error.contains("a.dat"), "byte {at}: {error}");
                }
            }
        }
    }
}

#[test]
fn no_size_is_believed() {
    for (version, compression) in FORMS {
        let good = file_with_all_kinds(version, compression).bytes();
        for value in [u64::MAX, good.len() as u64, 1 << 62, 1 << 32] {
            for at in (0..good.len() - 8).step_by(5) {
                if let Err(error) = survives(&changed(&good, at, &value.to_le_bytes())) {
                    assert!(error.contains("a.dat"), "{value:#x} at {at}: {error}");
                }
            }
        }
    }
}

#[test]
fn behind_a_damaged_event_the_next_page_is_read_and_what_may_be_missing_is_lost() {
    let file = two_cpus()
        // Too long for its page.
        .words((205, 0), &[1 << 5, 4000])
        .waking((206, 0, 7, 7), 8)
        .page(0, None)
        .waking((300, 0, 7, 7), 8);
    let (events, damages) = read(&file);
    let lines = lines(&events);
    assert!(
        lines.iter().any(|line| line.starts_with("300 ") && line.ends_with("lost 0 since 200")),
        "{lines:#?}"
    );
    assert_eq!(lines.iter().filter(|line| line.contains("wakes 8")).count(), 2, "{lines:#?}");
    assert_eq!(damages.len(), 1, "{damages:?}");
    assert_eq!(damages[0].kind, DamageKind::Fault(Fault::EventOverrun(4000).to_string()));
}

#[test]
fn an_unreadable_end_of_a_cpu_is_a_loss_up_to_there() {
    let file = two_cpus().page(0, None).words((300, 0), &[1 << 5, 4000]);
    let lines = lines(&read(&file).0);
    assert!(lines.last().is_some_and(|line| line.ends_with("lost 0 since 200")), "{lines:#?}");
    // A chunk that claims more bytes than it holds.
    let good = file_with_all_kinds(7, "zlib").bytes();
    let at = good.windows(4).position(|window| window == 1024_u32.to_le_bytes()).expect("a chunk of a page");
    let at =
        good[at + 4..].windows(4).position(|window| window == 1024_u32.to_le_bytes()).expect("it") + at + 4;
    let said = survives(&changed(&good, at, &1025_u32.to_le_bytes()))
        .map_or_else(|error| error, |(_, damages)| format!("{damages:?}"));
    assert!(said.contains("a chunk of pages cannot be decompressed"), "{said}");
}

#[test]
fn no_page_is_of_two_cpus() {
    // The table in version 6: the place and size of each CPU's pages.
    let file = (0..200).fold(two_cpus().version(6), |file, n| file.waking((300 + n, 0, 7, 7), 8));
    let mut bytes = file.bytes();
    let table = bytes.windows(10).position(|window| window == b"flyrecord\0").expect("a table") + 10;
    let all = bytes.len() as u64 - 1024;
    for cpu in [0, 1] {
        let entry = [1024_u64, all].map(u64::to_le_bytes).concat();
        bytes[table + cpu * 16..table + cpu * 16 + 16].copy_from_slice(&entry);
    }
    let error = survives(&bytes).expect_err("twice the same");
    assert!(error.contains("its CPUs' pages should take"), "{error}");
}
