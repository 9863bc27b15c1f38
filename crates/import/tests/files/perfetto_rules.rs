//! How Perfetto's packets become events, rule by rule.

use std::path::Path;

use wakepath_event::{ClockId, Damage, DamageKind, Description, Event, EventKind, EventSource, Tid};
use wakepath_import::perfetto::synthetic::{bundle, bytes, event, number, packed};
use wakepath_import::{Fault, PerfettoTrace};

use crate::lines::lines_with;
use crate::perfetto::{packets, steps};

/// A trace's events, damages and description.
fn read(trace: &[u8]) -> (Vec<Event>, Vec<Damage>, Description) {
    let trace = PerfettoTrace::from_source(trace, Path::new("t.pftrace")).expect("a trace");
    let mut events = Vec::new();
    let damages = trace.for_each(|event| events.push(event.clone()));
    (events, damages, trace.description().clone())
}

/// The short example, and these packets behind it.
fn with(more: &[Vec<u8>]) -> Vec<u8> {
    [packets().concat(), more.concat()].concat()
}

/// A CPU's switch between two threads.
fn switch(at: u64, prev: u64, next: u64) -> Vec<u8> {
    event(at, prev, 4, &[number(2, prev), number(4, 1), number(6, next)].concat())
}

fn waking(at: u64, tid: u64, target: u64, cpu: u64) -> Vec<u8> {
    event(at, tid, 20, &[number(2, target), number(5, cpu)].concat())
}

fn packet(fields: &[Vec<u8>]) -> Vec<u8> {
    bytes(1, &fields.concat())
}

/// `ProcessTree`: processes and threads.
fn tree(at: u64, parts: &[Vec<u8>]) -> Vec<u8> {
    packet(&[number(8, at), bytes(2, &parts.concat())])
}

fn process(tid: u64, parent: u64, name: &[u8], is_name: bool) -> Vec<u8> {
    bytes(1, &[number(1, tid), number(2, parent), bytes(3, name), number(9, is_name.into())].concat())
}

fn thread(tid: u64, tgid: u64, name: &[u8]) -> Vec<u8> {
    bytes(2, &[number(1, tid), bytes(2, name), number(3, tgid)].concat())
}

fn faults(damages: &[Damage]) -> Vec<String> {
    let fault = |damage: &Damage| match &damage.kind {
        DamageKind::Fault(fault) => Some(fault.clone()),
        _ => None,
    };
    damages.iter().filter_map(fault).collect()
}

/// CPU, begin and end of each loss.
fn losses(events: &[Event]) -> Vec<(u16, u64, u64)> {
    let loss = |event: &Event| match event.kind {
        EventKind::Loss { from, .. } => Some((event.cpu.0, from.ns(), event.at.ns())),
        _ => None,
    };
    events.iter().filter_map(loss).collect()
}

#[test]
fn packets_of_another_machine_are_not_read_and_are_counted() {
    let other = packet(&[number(98, 3), bytes(1, &[number(1, 0), switch(700, 7, 9)].concat())]);
    let clock = packet(&[number(98, 3), number(8, 1)]);
    let (events, damages, _) = read(&with(&[other.clone(), other, clock]));
    assert_eq!(steps(&events), steps(&read(&packets().concat()).0));
    assert_eq!(faults(&damages), ["2 packets of another machine are not read"]);
}

#[test]
fn a_bundle_without_sense_is_a_damage_and_its_cpu_is_unknown_from_its_first_event() {
    // An event, and a field that ends behind the bundle.
    let cut = bundle(0, &[waking(700, 7, 9, 0), waking(720, 7, 9, 0), vec![0x12, 0x7f]].concat());
    let (events, damages, _) = read(&with(&[cut]));
    assert_eq!(faults(&damages), [Fault::BundleCut.to_string()]);
    assert_eq!(losses(&events), [(0, 700, 720)]);
    // The tracer itself says from where on.
    let errors = bytes(8, &number(1, 710));
    let said = bundle(0, &[waking(700, 7, 9, 0), waking(720, 7, 9, 0), errors].concat());
    let (events, damages, _) = read(&with(&[said]));
    assert_eq!((faults(&damages), losses(&events)), (vec![], vec![(0, 710, 720)]));
}

#[test]
fn columns_that_are_shorter_than_their_stamps_are_a_damage() {
    for missing in [2, 3, 8] {
        let columns = [(1, 100), (2, 0), (3, 7), (7, 50), (8, 9)].iter();
        let columns =
            columns.filter(|(field, _)| *field != missing).map(|&(field, value)| packed(field, &[value]));
        let (_, damages, _) = read(&with(&[bundle(0, &bytes(4, &columns.collect::<Vec<_>>().concat()))]));
        assert_eq!(faults(&damages), [Fault::BundleCut.to_string()], "without column {missing}");
    }
}

#[test]
fn damages_beyond_a_limit_are_counted() {
    let (_, damages, _) = read(&with(&vec![bundle(0, &[0x12, 0x7f]); 70]));
    assert_eq!(damages.iter().filter(|one| matches!(one.kind, DamageKind::Fault(_))).count(), 64);
    assert!(damages.iter().any(|one| one.kind == DamageKind::More(6)), "{damages:?}");
}

#[test]
fn events_of_an_impossible_cpu_are_no_events() {
    let (events, _, description) = read(&with(&[bundle(1 << 20, &switch(9000, 7, 9))]));
    assert_eq!(steps(&events), steps(&read(&packets().concat()).0));
    assert_eq!(description.extent.map(|(_, to)| to.ns()), Some(650));
}

#[test]
fn an_event_whose_fields_are_missing_is_counted() {
    let (_, damages, _) = read(&with(&[bundle(0, &event(700, 7, 4, &number(2, 7)))]));
    assert!(
        damages.iter().any(|one| one.kind == DamageKind::EventsSkipped { count: 1, first: None }),
        "{damages:?}"
    );
}

#[test]
fn a_field_without_a_number_ends_the_packets() {
    let (_, damages, _) = read(&with(&[vec![0x02, 1, 0], bundle(0, &switch(700, 7, 9))]));
    assert_eq!(faults(&damages).len(), 1, "{damages:?}");
    assert!(faults(&damages)[0].contains("up to the end of the records"), "{damages:?}");
}

#[test]
fn clocks_are_converted_by_the_traces_own_pairs() {
    let snapshot = {
        let clock = |id, at| bytes(1, &[number(1, id), number(2, at)].concat());
        packet(&[bytes(6, &[clock(1, 5000), clock(6, 100)].concat())])
    };
    let bundles = |clocks: [u64; 2]| {
        let head = |clock| match clock {
            0 => Vec::new(),
            clock => [number(5, clock), number(6, 900), number(7, 990)].concat(),
        };
        [
            bundle(0, &[head(clocks[0]), switch(100, 0, 7)].concat()),
            bundle(1, &[head(clocks[1]), switch(200, 0, 8)].concat()),
        ]
        .concat()
    };
    // The boot clock is 100 at 5000 of realtime; the global clock is 90 behind the boot clock.
    for (clocks, name, offset) in [
        ([0, 0], ClockId::Numbered(7), Some(4900)),
        ([2, 2], ClockId::Global, Some(4990)),
        ([3, 3], ClockId::Local, Some(4990)),
        ([4, 4], ClockId::Numbered(4), Some(4990)),
        ([2, 4], ClockId::Unknown, None),
    ] {
        let (.., description) = read(&[snapshot.clone(), bundles(clocks)].concat());
        assert_eq!((description.clock, description.realtime_offset_ns), (name, offset), "{clocks:?}");
    }
    // The boot clock's own stamps need no pair.
    let own = bundle(0, &[number(6, 900), number(7, 990), switch(100, 0, 7)].concat());
    assert_eq!(read(&[snapshot, own].concat()).2.realtime_offset_ns, Some(4900));
}

#[test]
fn at_the_same_stamp_a_thread_wakes_before_it_leaves() {
    let columns = [
        packed(1, &[100, 200]),
        packed(2, &[0, 1]),
        packed(3, &[7, 0]),
        packed(7, &[300]),
        packed(8, &[9]),
        packed(9, &[0]),
    ];
    let (events, ..) = read(&bundle(0, &bytes(4, &columns.concat())));
    assert_eq!(steps(&events), [(300, 0, 7, 9), (300, 0, 7, 0)]);
}

#[test]
fn the_current_thread_is_the_events_own_and_unknown_behind_a_loss() {
    // The CPU's first event is a wake-up by thread 5.
    let (events, ..) = read(&with(&[bundle(2, &[waking(500, 5, 9, 2), switch(510, 5, 6)].concat())]));
    assert!(steps(&events).contains(&(500, 2, 5, 9)), "{:?}", steps(&events));
    // In the short form it is the thread that came last, which a loss makes unknown.
    let short = |lost: u64| {
        let columns = [packed(7, &[900]), packed(8, &[9]), packed(9, &[0])].concat();
        with(&[bundle(0, &[number(3, lost), bytes(4, &columns)].concat())])
    };
    let current = |trace: &[u8]| {
        let events = read(trace).0;
        let at = events
            .iter()
            .find(|event| event.at.ns() == 900 && matches!(event.kind, EventKind::Waking { .. }));
        at.map(|event| event.current)
    };
    assert_eq!(current(&short(0)), Some(Tid(7)));
    assert_ne!(current(&short(1)), Some(Tid(7)));
}

#[test]
fn the_numbers_of_calls_are_those_of_the_recorded_machine() {
    let trace = |machine: &[u8]| {
        let name = [bytes(3, b"6.1.0"), bytes(4, machine)].concat();
        let info = packet(&[bytes(45, &bytes(1, &name))]);
        let enter = event(500, 7, 329, &[number(1, 202), packed(2, &[64, 128])].concat());
        [info, bundle(0, &[switch(100, 0, 7), enter, switch(600, 7, 0)].concat())].concat()
    };
    let call = |machine: &[u8]| {
        read(&trace(machine)).0.into_iter().find_map(|event| match event.kind {
            EventKind::Switch { call, .. } if event.at.ns() == 600 => call.map(|call| call.number),
            _ => None,
        })
    };
    assert_eq!(call(b"x86_64"), Some(202));
    assert_ne!(call(b"aarch64"), Some(202));
}

#[test]
fn threads_have_their_processes_and_names_from_the_tracers_list() {
    let list = |at| {
        tree(
            at,
            &[process(7, 1, b"/usr/bin/here --all", false), thread(7, 7, b"here"), thread(9, 7, b"worker")],
        )
    };
    let (events, ..) = read(
        &[list(50), bundle(0, &[switch(100, 0, 7), switch(200, 7, 9), switch(300, 9, 0)].concat())].concat(),
    );
    let known = lines_with(&events, " of 7");
    assert_eq!(
        known,
        ["200 cpu0 7 is \"here\" 7 of 7, child of 1", "300 cpu0 9 is \"worker\" 9 of 7, child of 1"]
    );
    // The list came later, and the thread is known from its first event on.
    let late = [bundle(0, &[switch(100, 0, 7), switch(200, 7, 0)].concat()), list(5000)].concat();
    assert_eq!(lines_with(&read(&late).0, " of 7").len(), 1);
    // A process whose list has its name, and not a command line.
    let named = [
        tree(50, &[process(7, 1, b"here", true)]),
        bundle(0, &[switch(100, 0, 7), switch(200, 7, 0)].concat()),
    ];
    assert_eq!(lines_with(&read(&named.concat()).0, " of 7"), ["200 cpu0 7 is \"here\" 7 of 7, child of 1"]);
    let line = [
        tree(50, &[process(7, 1, b"/bin/here", false)]),
        bundle(0, &[switch(100, 0, 7), switch(200, 7, 0)].concat()),
    ];
    assert_eq!(lines_with(&read(&line.concat()).0, " of 7"), ["200 cpu0 7 is \"\" 7 of 7, child of 1"]);
}

#[test]
fn a_number_that_is_anothers_later_has_the_process_found_then() {
    let trace = [
        tree(50, &[thread(9, 7, b"worker")]),
        tree(550, &[thread(9, 8, b"other")]),
        bundle(0, &[switch(100, 0, 9), switch(200, 9, 0), switch(600, 0, 9), switch(700, 9, 0)].concat()),
    ];
    let known = lines_with(&read(&trace.concat()).0, " is ");
    assert_eq!(known.len(), 2, "{known:?}");
    assert!(known[0].starts_with("200 ") && known[0].contains(" of 7"), "{known:?}");
    assert!(known[1].starts_with("700 ") && known[1].contains(" of 8"), "{known:?}");
}

#[test]
fn a_born_threads_process_is_the_one_that_the_tracer_found_later() {
    let fork = event(300, 7, 239, &[number(2, 7), bytes(3, b"new"), number(4, 20)].concat());
    let trace = [
        bundle(0, &[switch(100, 0, 7), fork, switch(400, 7, 0)].concat()),
        tree(500, &[thread(20, 7, b"new")]),
    ];
    assert_eq!(lines_with(&read(&trace.concat()).0, "bears"), ["300 cpu0 7 bears \"new\" 20 of 7"]);
    // Nothing says it.
    assert_eq!(lines_with(&read(&trace[0]).0, "bears"), ["300 cpu0 7 bears \"new\" 20 of 20"]);
}

#[test]
fn only_the_wake_ups_that_are_used_prove_a_cpu() {
    let wakeup = |field| event(500, 7, field, &[number(2, 9), number(5, 6)].concat());
    let unrecorded = |field| {
        let damages = read(&with(&[bundle(0, &wakeup(field))])).1;
        damages
            .iter()
            .any(|one| matches!(&one.kind, DamageKind::CpusUnrecorded { cpus, .. } if cpus.contains(&6)))
    };
    assert_eq!([20, 17].map(unrecorded), [true, false]);
}
