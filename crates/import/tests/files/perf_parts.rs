//! The parts by `perf record --switch-output`, as one recording.

use std::cell::Cell;
use std::io;
use std::path::PathBuf;

use wakepath_ctf::Source;
use wakepath_event::{Damage, DamageKind, Event, EventKind, EventSource};
use wakepath_import::perf::by_run;
use wakepath_import::perf::synthetic::{EventType, File};
use wakepath_import::{Fault, OpenError, PerfData};

use crate::lines::{events, lines, lines_with};

/// Parts, in this order, with times in their names as perf writes them.
fn named(parts: &[Vec<u8>]) -> Vec<(&[u8], PathBuf)> {
    let name = |nth: usize| PathBuf::from(format!("perf.data.20261128{nth:08}"));
    parts.iter().enumerate().map(|(nth, part)| (&part[..], name(nth))).collect()
}

fn opened(parts: Vec<(&[u8], PathBuf)>) -> Result<PerfData<&[u8]>, OpenError> {
    PerfData::from_sources(parts, "folder".as_ref())
}

fn read(parts: &[Vec<u8>]) -> (Vec<Event>, Vec<Damage>) {
    events(&opened(named(parts)).expect("parts"))
}

/// Processes' names as they begin each part, without stamps.
fn begin(names: &[(u32, &str)]) -> File {
    names.iter().fold(File::default().cpus(&[0, 1]), |file, (tid, name)| {
        let body = [&tid.to_le_bytes()[..], &tid.to_le_bytes(), name.as_bytes(), &[0]].concat();
        file.plain(3, 0, &body, (0, 0, 0, 0))
    })
}

/// Three parts' events: CPU 1's reach beyond the beginning of CPU 0's in the next part, as perf empties it later.
fn thirds() -> [fn(File) -> File; 3] {
    [
        |file| {
            let file = file.switch((100, 0, 0, 0), 0, 7, "seven").switch((110, 0, 7, 7), 1, 0, "swapper/0");
            file.round().switch((105, 1, 0, 0), 0, 8, "eight").switch((130, 1, 8, 8), 1, 9, "nine").round()
        },
        |file| {
            let file = file.switch((120, 0, 0, 0), 0, 7, "seven").switch((205, 0, 7, 7), 1, 0, "swapper/0");
            file.round().switch((150, 1, 9, 9), 0, 8, "eight").waking((210, 1, 8, 8), 7).round()
        },
        |file| {
            let file = file.waking((209, 0, 0, 0), 9).switch((220, 0, 0, 0), 0, 7, "seven");
            file.round().switch((230, 1, 8, 8), 1, 9, "nine").round()
        },
    ]
}

const NAMES: [(u32, &str); 3] = [(7, "seven"), (8, "eight"), (9, "nine")];

/// The three parts, and the same events in a single file.
fn three() -> (Vec<File>, File) {
    let parts = thirds().map(|third| third(begin(&NAMES))).to_vec();
    (parts, thirds().iter().fold(begin(&NAMES), |file, third| third(file)))
}

fn bytes(parts: &[File]) -> Vec<Vec<u8>> {
    parts.iter().map(File::bytes).collect()
}

#[test]
fn the_parts_of_a_run_are_read_like_one_file_in_any_order() {
    let (parts, whole) = three();
    let whole = whole.bytes();
    let whole = opened(vec![(&whole[..], PathBuf::from("whole"))]).expect("a file");
    let (expected, none) = events(&whole);
    assert_eq!(none, []);
    assert!(lines(&expected).len() >= 10, "{:?}", lines(&expected));
    let parts = bytes(&parts);
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let named = named(&parts);
        let one = opened(order.map(|nth| named[nth].clone()).to_vec()).expect("parts");
        let (found, damages) = events(&one);
        assert_eq!((lines(&found), damages), (lines(&expected), vec![]), "{order:?}");
        assert_eq!(one.description().extent, whole.description().extent);
        assert_eq!(one.description().host, whole.description().host);
    }
    // Without times in their names, by their stamps.
    let unnamed = [2, 0, 1].map(|nth| (&parts[nth][..], PathBuf::from(format!("{nth}.data"))));
    assert_eq!(lines(&events(&opened(unnamed.to_vec()).expect("parts")).0), lines(&expected));
}

#[test]
fn compressed_parts_go_on_in_one_stream() {
    let (parts, whole) = three();
    let expected = lines(&read(&[whole.bytes()]).0);
    for kind in [81, 83] {
        let head = begin(&NAMES).len();
        let heads: Vec<_> = parts.iter().map(|part| (part.clone(), head)).collect();
        let parts = File::compressed_parts(&heads, kind, 40);
        let (found, damages) = read(&bytes(&parts));
        assert_eq!((lines(&found), damages), (expected.clone(), vec![]), "{kind}");
        // Alone, a later part says why it makes no sense.
        let error = opened(named(&bytes(&parts[1..2]))).expect_err("no begin").to_string();
        assert!(error.contains(&Fault::NoCompressionBegin.to_string()), "{error}");
        // A stream for each part is read, too.
        let own: Vec<_> = three().0.into_iter().map(|part| part.compressed(kind, 40)).collect();
        assert_eq!(lines(&read(&bytes(&own)).0), expected);
    }
}

#[test]
fn a_part_that_was_left_out_makes_its_time_unknown_on_all_cpus() {
    let (mut parts, _) = three();
    parts.remove(1);
    let (found, damages) = read(&bytes(&parts));
    assert_eq!(lines_with(&found, "lost"), ["209 cpu0 0 lost 0 since 110", "230 cpu1 9 lost 0 since 130"]);
    let [damage] = &damages[..] else { panic!("{damages:?}") };
    assert_eq!(damage.file, "perf.data.2026112800000001");
    let fault = Fault::PartMissing("perf.data.2026112800000000".to_owned());
    assert_eq!(damage.kind, DamageKind::Fault(fault.to_string()));
}

#[test]
fn a_cpu_has_samples_if_one_part_has_them() {
    let first = begin(&NAMES).switch((100, 0, 0, 0), 0, 7, "seven").waking_to((110, 0, 7, 7), 8, 1);
    let switch = |cpu: u32| begin(&NAMES).switch((200, cpu, 7, 7), 1, 0, "swapper/0").bytes();
    let unrecorded = |cpu: u32| {
        let damages = read(&[first.bytes(), switch(cpu)]).1;
        let is_said = |one: &Damage| matches!(one.kind, DamageKind::CpusUnrecorded { .. });
        damages.iter().filter(|one| is_said(one)).count()
    };
    assert_eq!([0, 1].map(unrecorded), [1, 0]);
}

#[test]
fn processes_found_at_a_parts_begin_count_only_behind_missing_records() {
    // In either case, thread 5 has another name when the second part begins, without a record.
    let second = |from: u32, names: &[(u32, &str)]| {
        begin(names).switch((300, 0, from, from), 1, 5, "").switch((310, 0, 5, 5), 1, 0, "swapper/0").bytes()
    };
    let first = begin(&[(5, "old")]).switch((100, 0, 0, 0), 0, 7, "seven").bytes();
    for (from, name) in [(7, "old"), (6, "new")] {
        let (found, _) = read(&[first.clone(), second(from, &[(5, "new")])]);
        assert_eq!(lines_with(&found, " is \""), [format!("300 cpu0 5 is {name:?} 5 of 5, child of 0")]);
    }
}

#[test]
fn overwritten_buffers_leave_the_time_between_parts_unknown() {
    let part = |at: u64| {
        let file = File::default().cpus(&[0]).overwritten();
        file.switch((at + 10, 0, 7, 7), 1, 0, "swapper/0").switch((at, 0, 0, 0), 0, 7, "seven").bytes()
    };
    let (found, damages) = read(&[part(100), part(200)]);
    assert_eq!(lines_with(&found, "lost"), ["200 cpu0 0 lost 0 since 110"]);
    let fault = Fault::PartMissing("perf.data.2026112800000000".to_owned());
    assert_eq!(damages[0].kind, DamageKind::Fault(fault.to_string()));
}

#[test]
fn a_cut_part_has_its_description_from_the_others() {
    let (parts, whole) = three();
    let expected = lines(&read(&[whole.bytes()]).0);
    for nth in [0, 2] {
        let mut parts = bytes(&parts);
        // perf was killed, or the copy is not whole: the records' size is 0, and no section follows.
        let cut = &mut parts[nth];
        let data = u64::from_le_bytes(cut[40..48].try_into().expect("a place"));
        let size = u64::from_le_bytes(cut[48..56].try_into().expect("a size"));
        cut[48..56].fill(0);
        cut.truncate((data + size) as usize);
        let (found, damages) = read(&parts);
        let until = |lines: &[String]| {
            lines.iter().filter(|line| !line.contains("lost")).cloned().collect::<Vec<_>>()
        };
        assert_eq!(until(&lines(&found)), expected, "part {nth}");
        assert_eq!(damages.len(), 1, "{damages:?}");
        assert_eq!(damages[0].kind, DamageKind::Fault(Fault::Unfinished.to_string()));
        assert_eq!(damages[0].file, format!("perf.data.202611280000000{nth}"));
    }
}

/// A file's bytes, which cannot be read any more once it is gone.
struct Removable<'a>(&'a [u8], &'a Cell<bool>);

impl Source for Removable<'_> {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        if self.1.get() { Err(io::ErrorKind::NotConnected.into()) } else { self.0.read_at(offset, into) }
    }
}

#[test]
fn a_part_that_cannot_be_read_any_more_is_named_with_the_place_in_it() {
    let parts = bytes(&three().0);
    for gone in 0..3 {
        let is_gone = [false; 3].map(Cell::new);
        let sources = named(&parts).into_iter().zip(&is_gone);
        let sources = sources.map(|((bytes, path), is_gone)| (Removable(bytes, is_gone), path)).collect();
        let file = PerfData::from_sources(sources, "folder".as_ref()).expect("parts");
        is_gone[gone].set(true);
        let damages = file.for_each(|_| {});
        let data = u64::from_le_bytes(parts[gone][40..48].try_into().expect("a place"));
        let name = format!("perf.data.202611280000000{gone}");
        assert!(!damages.is_empty());
        assert!(damages.iter().all(|damage| *damage.file == name), "{damages:?}");
        let places = damages.iter().filter_map(|damage| damage.offset);
        assert!(places.clone().all(|place| place >= data && place < parts[gone].len() as u64), "{damages:?}");
        // Behind the processes at its begin, which are not read again in later parts.
        let first = data + if gone == 0 { 0 } else { begin(&NAMES).len() as u64 };
        assert_eq!(places.min(), Some(first), "{damages:?}");
    }
}

#[test]
fn a_damage_names_the_part_with_its_place_there() {
    let (parts, _) = three();
    let mut parts = bytes(&parts);
    let data = u64::from_le_bytes(parts[1][40..48].try_into().expect("a place"));
    parts[1][data as usize..data as usize + 8].fill(0);
    let (_, damages) = read(&parts);
    assert_eq!((&*damages[0].file, damages[0].offset), ("perf.data.2026112800000001", Some(data)));
}

#[test]
fn parts_of_other_runs_hosts_events_and_clocks_are_refused_and_so_is_the_same_part_twice() {
    let (parts, _) = three();
    let first = parts[0].bytes();
    let other = |file: File| thirds()[1](file).bytes();
    let host = [&5_u32.to_le_bytes()[..], b"web4\0"].concat();
    let clock = [1_u32, 1].map(u32::to_le_bytes).concat();
    let later_clock = [clock, [6_000_000_000_u64, 1_000].map(u64::to_le_bytes).concat()].concat();
    for (what, second) in [
        ("host", other(begin(&NAMES).section(3, &host))),
        ("events", other(begin(&NAMES).only(&[EventType::Switch, EventType::Waking]))),
        ("clock", other(begin(&NAMES).clock(None))),
        ("begin", other(begin(&NAMES).section(29, &later_clock))),
        ("command", other(begin(&NAMES).section(11, b"other"))),
    ] {
        let first = if what == "command" {
            thirds()[0](begin(&NAMES).section(11, b"first")).bytes()
        } else {
            first.clone()
        };
        let error = opened(named(&[first, second])).expect_err(what).to_string();
        assert!(
            error.starts_with("perf.data.2026112800000001 is of another run of perf record than "),
            "{error}"
        );
    }
    let error = opened(named(&[first.clone(), first])).expect_err("twice").to_string();
    assert!(error.contains("holds records of the same time as perf.data.2026112800000000"), "{error}");
}

#[test]
fn files_of_a_run_are_one_recording_and_a_folder_of_parts_is_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let (parts, whole) = three();
    let mut paths = Vec::new();
    for (bytes, name) in named(&bytes(&parts)) {
        paths.push(folder.path().join(name));
        std::fs::write(paths.last().expect("a path"), bytes).expect("room");
    }
    let other = folder.path().join("other");
    let host = [&5_u32.to_le_bytes()[..], b"web4\0"].concat();
    std::fs::write(&other, whole.clone().section(3, &host).bytes()).expect("room");
    let given = [&paths[..2], std::slice::from_ref(&other), &paths[2..]].concat();
    assert_eq!(by_run(&given).expect("files"), [paths.clone(), vec![other.clone()]]);
    std::fs::remove_file(other).expect("a file");
    use wakepath_event::RecordingFormat;
    assert!(PerfData::recognises(folder.path()));
    let (found, damages) = events(&PerfData::open(folder.path()).expect("a folder"));
    assert_eq!((lines(&found), damages), (lines(&read(&[whole.bytes()]).0), vec![]));
    let switches = found.iter().filter(|event| matches!(event.kind, EventKind::Switch { .. }));
    assert_eq!(switches.count(), 9);
}
