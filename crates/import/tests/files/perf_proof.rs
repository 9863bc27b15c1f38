//! Killed perf's files: the records prove which tracepoint is the switch, or nothing is read.

use std::path::Path;

use wakepath_event::{Damage, DamageKind, Event};
use wakepath_import::PerfData;
use wakepath_import::perf::synthetic::{EventType, File};

use crate::lines::{changed, events, lines_with};
use crate::perf_data::records;

/// A switch with its fields at the places since Linux 2.6.35.
#[derive(Clone)]
struct Switch {
    event: EventType,
    /// Stamp, CPU, sampled thread.
    origin: (u64, u32, u32),
    /// The head's thread, and the fields.
    common: u32,
    prev: u32,
    next: u32,
    state: u64,
    priorities: [u32; 2],
    names: [[u8; 16]; 2],
    /// Bytes behind the fields.
    more: usize,
}

impl Switch {
    fn new(at: u64, prev: u32, next: u32) -> Self {
        let (event, names) = (EventType::Switch, [*b"thread\0\0\0\0\0\0\0\0\0\0"; 2]);
        let (origin, state, priorities) = ((at, 0, prev), 1, [120; 2]);
        Self { event, origin, common: prev, prev, next, state, priorities, names, more: 4 }
    }

    fn in_file(&self, file: File) -> File {
        let (at, cpu, sampled) = self.origin;
        let fields: [(usize, &[u8]); 9] = [
            (4, &self.common.to_le_bytes()),
            (8, &self.names[0]),
            (24, &self.prev.to_le_bytes()),
            (28, &self.priorities[0].to_le_bytes()),
            (32, &self.state.to_le_bytes()),
            (40, &self.names[1]),
            (56, &self.next.to_le_bytes()),
            (60, &self.priorities[1].to_le_bytes()),
            (64, &vec![0; self.more]),
        ];
        file.tracepoint(self.event, (at, cpu, sampled, sampled), &fields)
    }
}

/// A file as a killed perf leaves it: its header has no size, and nothing follows the records.
fn killed(file: &File) -> Vec<u8> {
    let bytes = file.bytes();
    let size = u64::from_le_bytes(*bytes[48..].first_chunk().expect("a header")) as usize;
    changed(&bytes, 48, &[0; 8])[..records(&bytes) + size].to_vec()
}

/// This many switches between these threads in turn, on CPU 0, from stamp 100 on.
fn in_turn(count: u64, threads: &[u32]) -> File {
    (0..count).fold(File::default().waking((90, 0, 9, 9), 7), |file, n| {
        let thread = |n: u64| threads[n as usize % threads.len()];
        Switch { state: n % 2, ..Switch::new(100 + 10 * n, thread(n), thread(n + 1)) }.in_file(file)
    })
}

const THREE: [u32; 3] = [7, 8, 9];

/// The events and damages, or the refusal.
fn read(file: &File) -> Result<(Vec<Event>, Vec<Damage>), String> {
    let bytes = killed(file);
    PerfData::from_source(&bytes[..], Path::new("a.data"))
        .map(|file| events(&file))
        .map_err(|error| error.to_string())
}

fn refused(file: &File) -> bool {
    read(file).is_err_and(|error| error.contains("lacks the description of its tracepoints"))
}

/// The stated proof.
fn proof(damages: &[Damage]) -> String {
    let found = damages.iter().find_map(|damage| match &damage.kind {
        DamageKind::Fault(fault) if fault.contains("is proved by") => Some(fault.clone()),
        _ => None,
    });
    found.expect("a proof")
}

#[test]
fn switches_without_a_description_are_read_where_the_records_prove_them() {
    let (events, damages) = read(&in_turn(30, &THREE)).expect("proved");
    let switches = lines_with(&events, " to ");
    assert_eq!(switches.len(), 30);
    assert_eq!(switches[1], "110 cpu0 8 to 9 Blocked(Interruptible)");
    let says = proof(&damages);
    assert!(says.contains("by 29 switches") && says.contains("(0 switches left another thread)"), "{says}");
    assert!(says.ends_with("and other events are not read"), "{says}");
    let cut = |damage: &Damage| format!("{:?}", damage.kind).contains("because perf did not finish the file");
    assert!(damages.iter().any(cut), "{damages:?}");
    // The wake-ups may be there.
    assert!(damages.iter().all(|damage| damage.kind != DamageKind::NoWakings), "{damages:?}");
    // With the description, no proof is needed or made.
    let whole = in_turn(30, &THREE).bytes();
    let whole = PerfData::from_source(&whole[..], Path::new("a.data")).expect("a whole file");
    assert!(lines_with(&self::events(&whole).0, " to ").iter().all(|line| !line.contains("8 to 9")));
}

#[test]
fn a_cut_part_is_read_by_the_description_in_another_part_and_needs_no_proof() {
    let whole = File::default().waking((990, 0, 9, 9), 7).switch((1000, 0, 9, 9), 1, 7, "seven");
    let (cut, whole) = (killed(&in_turn(30, &THREE)), whole.bytes());
    for parts in [[&cut, &whole], [&whole, &cut]] {
        let named = parts.map(|bytes| (&bytes[..], Path::new("a.data").to_owned()));
        let file = PerfData::from_sources(named.to_vec(), Path::new("a")).expect("parts");
        let (events, damages) = self::events(&file);
        let faults: Vec<_> = damages.iter().map(|damage| format!("{:?}", damage.kind)).collect();
        assert!(faults.iter().all(|fault| !fault.contains("is proved by")), "{faults:?}");
        assert!(faults.iter().any(|fault| fault.contains("perf did not finish the file")), "{faults:?}");
        // Their own description has the fields at other places.
        assert!(lines_with(&events, " to ").iter().all(|line| !line.contains("8 to 9")));
        assert_eq!(lines_with(&events, "9 to 7").len(), 1, "{:?}", lines_with(&events, " to "));
    }
}

#[test]
fn one_record_that_is_no_switch_refutes_the_event() {
    let good = Switch::new(900, 7, 8);
    assert!(!refused(&good.in_file(in_turn(30, &THREE))));
    let long = *b"sixteen letters!";
    for (why, bad) in [
        ("the sampled thread does not leave", Switch { origin: (900, 0, 8), ..good.clone() }),
        ("the thread in the record's head does not leave", Switch { common: 8, ..good.clone() }),
        ("a thread leaves for itself", Switch { next: 7, ..good.clone() }),
        ("a priority", Switch { priorities: [120, 141], ..good.clone() }),
        ("a priority", Switch { priorities: [u32::MAX, 120], ..good.clone() }),
        ("a state beyond all", Switch { state: 1 << 16, ..good.clone() }),
        ("a name without an end", Switch { names: [long, good.names[1]], ..good.clone() }),
        ("a name without an end", Switch { names: [good.names[0], long], ..good.clone() }),
        ("a longer record", Switch { more: 12, ..good.clone() }),
    ] {
        assert!(refused(&bad.in_file(in_turn(30, &THREE))), "{why}");
    }
    // A dead thread has no number in its sample.
    assert!(!refused(&Switch { origin: (900, 0, u32::MAX), ..good.clone() }.in_file(in_turn(30, &THREE))));
    // The record has another event number than its sample.
    let other = in_turn(30, &THREE).bytes();
    let last = other.windows(4).rposition(|word| word == [44, 1, 0, 0]).expect("a switch's number");
    let bytes = killed(&in_turn(30, &THREE));
    let bytes = changed(&bytes, last, &[45, 1]);
    assert!(PerfData::from_source(&bytes[..], Path::new("a.data")).is_err());
}

#[test]
fn a_whole_file_without_descriptions_is_not_proved() {
    let bytes = in_turn(30, &THREE).section(1, b"").bytes();
    let error = PerfData::from_source(&bytes[..], Path::new("a.data")).map(|_| ()).expect_err("refused");
    assert!(error.to_string().contains("holds no switches"), "{error}");
}

#[test]
fn few_switches_and_few_threads_prove_nothing() {
    assert!(refused(&in_turn(20, &THREE)) && !refused(&in_turn(21, &THREE)), "the links");
    assert!(refused(&in_turn(200, &[7, 8])) && !refused(&in_turn(200, &[7, 8, 7, 9])), "the threads");
}

#[test]
fn two_events_that_look_like_switches_prove_none() {
    let both = (0..30).fold(in_turn(30, &THREE), |file, n| {
        let (from, to) = (THREE[n as usize % 3], THREE[(n as usize + 1) % 3]);
        let like = Switch { event: EventType::IrqEntry, ..Switch::new(1000 + 10 * n, from, to) };
        like.in_file(file)
    });
    assert!(refused(&both));
}

/// Some kernels report no switch from the idle thread, on some CPUs.
#[test]
fn a_missing_switch_of_the_idle_thread_proves_nothing_either_way() {
    let idle = |from: u64, count: u64| {
        move |file: File| {
            (0..count).fold(file, |file, n| Switch::new(from + 10 * n, 20 + n as u32 % 3, 0).in_file(file))
        }
    };
    let (_, damages) = read(&idle(900, 30)(in_turn(30, &THREE))).expect("proved");
    // The first of these leaves a thread other than the last that came.
    let says = proof(&damages);
    assert!(says.contains("by 29 switches") && says.contains("(1 switches left another thread)"), "{says}");
    assert!(refused(&idle(100, 30)(File::default().waking((90, 0, 9, 9), 7))), "no link");
    let from_idle = |file, n: u64| {
        Switch { origin: (900 + 10 * n, 0, 0), ..Switch::new(900 + 10 * n, 0, 7) }.in_file(file)
    };
    let (_, damages) = read(&(0..9).fold(in_turn(30, &THREE), from_idle)).expect("proved");
    let says = proof(&damages);
    assert!(says.contains("by 29 switches") && says.contains("(0 switches left another thread)"), "{says}");
}

/// On a busy machine, perf loses a few switches without a note: whole files show it too.
#[test]
fn one_in_twenty_links_may_break_and_the_answer_says_how_many() {
    // Behind 41 switches, that make 40 links, a broken link each.
    let with_broken = |count: u64| {
        (0..count).fold(in_turn(41, &THREE), |file, n| Switch::new(900 + 10 * n, 20, 7).in_file(file))
    };
    let (events, damages) = read(&with_broken(2)).expect("proved");
    assert_eq!(lines_with(&events, " to ").len(), 43);
    let says = proof(&damages);
    assert!(says.contains("by 40 switches") && says.contains("(2 switches left another thread)"), "{says}");
    assert!(refused(&with_broken(3)));
    // A noted loss breaks no link.
    let lost = [7_u64, 5].map(u64::to_le_bytes).concat();
    let noted = in_turn(30, &THREE).plain(2, 0, &lost, (890, 0, 0, 0));
    let (_, damages) = read(&Switch::new(900, 20, 7).in_file(noted)).expect("proved");
    let says = proof(&damages);
    assert!(says.contains("by 29 switches") && says.contains("(0 switches"), "{says}");
}
