//! Perfetto's traces, made by hand.

use std::path::Path;

use wakepath_event::{BlockedState, Event, EventKind, EventSource, SwitchOut, Tid};
use wakepath_import::PerfettoTrace;
use wakepath_import::perfetto::synthetic::{bundle, bytes, event, number, packed};

use crate::lines::lines_with;

/// Thread 7 runs on CPU 0 from 100 to 300; on CPU 1, the idle thread is woken into 8 at 200, which wakes 7 at 400.
pub fn packets() -> Vec<Vec<u8>> {
    let names = [bytes(5, b"here"), bytes(5, b"swapper")].concat();
    let compact = [
        names,
        packed(1, &[100, 200, 350]),
        packed(2, &[0, 1, 0]),
        packed(3, &[7, 0, 7]),
        packed(6, &[0, 1, 0]),
    ]
    .concat();
    let switch = [number(2, 0), number(4, 0), bytes(5, b"there"), number(6, 8)].concat();
    let waking = [bytes(1, b"here"), number(2, 7), number(5, 0)].concat();
    let other = [event(200, 0, 4, &switch), event(400, 8, 20, &waking)].concat();
    vec![bundle(0, &bytes(4, &compact)), bundle(1, &other)]
}

fn events(trace: Vec<u8>) -> Vec<Event> {
    let mut events = Vec::new();
    let trace = PerfettoTrace::from_source(&trace[..], Path::new("t.pftrace")).expect("a trace");
    trace.read(|event| events.push(event.clone()), |_| ());
    events
}

/// Switches and wake-ups: stamp, CPU, current thread, the other thread.
pub fn steps(events: &[Event]) -> Vec<(u64, u16, u32, u32)> {
    let step = |event: &Event| match &event.kind {
        EventKind::Switch { next: Tid(other), .. } | EventKind::Waking { target: Tid(other), .. } => {
            Some((event.at.ns(), event.cpu.0, event.current.0, *other))
        }
        _ => None,
    };
    events.iter().filter_map(step).collect()
}

#[test]
fn short_and_long_forms_are_merged_by_time() {
    let all = events(packets().concat());
    assert_eq!(steps(&all), [(200, 1, 0, 8), (300, 0, 7, 0), (400, 1, 8, 7), (650, 0, 0, 7)]);
    let out = all.iter().find_map(|event| match event.kind {
        EventKind::Switch { out, .. } if event.at.ns() == 300 => Some(out),
        _ => None,
    });
    assert_eq!(out, Some(SwitchOut::Blocked(BlockedState::Interruptible)));
    // A late bundle.
    let late: Vec<_> = packets().into_iter().rev().flatten().collect();
    assert_eq!(steps(&events(late)), steps(&all));
}

#[test]
fn a_thread_that_left_unseen_is_in_no_switch() {
    let compact = |state| {
        let names = [bytes(5, b"here"), bytes(5, b"there"), packed(6, &[0, 1, 0])].concat();
        let columns = [names, packed(1, &[100, 200, 350]), packed(2, &[0, state, 0]), packed(3, &[7, 9, 7])];
        bundle(0, &bytes(4, &columns.concat()))
    };
    assert_eq!(steps(&events(compact(0x100))), [(300, 0, 7, 9), (650, 0, 9, 7)]);
    let unseen = events(compact(0x4000));
    assert_eq!(steps(&unseen), [(650, 0, 9, 7)]);
    let first = unseen.iter().find(|event| event.current == Tid(9)).expect("the next thread");
    assert_eq!(first.at.ns(), 300);
}

#[test]
fn a_thread_has_the_name_in_each_wake_up() {
    let waking = |at, comm: &str| {
        let waking = [bytes(1, comm.as_bytes()), number(2, 8), number(5, 0)].concat();
        event(at, 7, 20, &waking)
    };
    let wakings = [waking(500, "bash"), waking(510, "bash"), waking(520, "sleep")].concat();
    let all = events([packets().concat(), bundle(0, &wakings)].concat());
    let names = lines_with(&all, " names 8 ");
    let last: Vec<_> = names.iter().filter(|line| line.starts_with('5')).collect();
    assert_eq!(last, ["500 cpu0 7 names 8 \"bash\"", "520 cpu0 7 names 8 \"sleep\""]);
}

#[test]
fn compressed_packets_give_the_same_events() {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&packets().concat()).expect("memory has no errors");
    let compressed = bytes(1, &bytes(50, &encoder.finish().expect("memory has no errors")));
    assert_eq!(events(compressed), events(packets().concat()));
}

#[test]
fn lost_events_make_the_cpu_unknown_from_its_last_event_on() {
    let compact = bytes(4, &[packed(1, &[900]), packed(2, &[0]), packed(3, &[0])].concat());
    let losses = |behind: &[Vec<u8>]| {
        let trace = [packets().concat(), behind.concat()].concat();
        let loss = |event: &Event| match event.kind {
            EventKind::Loss { from, .. } => Some((from.ns(), event.at.ns(), event.cpu.0)),
            _ => None,
        };
        events(trace).iter().filter_map(loss).collect::<Vec<_>>()
    };
    let with = |more: Vec<u8>| bundle(0, &[more, compact.clone()].concat());
    let unread = bundle(0, &bytes(2, &[number(1, 800), number(2, 7), bytes(9999, b"")].concat()));
    let senseless = bundle(0, &[0x12, 0x7f]);
    let whole = [(650, 900, 0)];
    assert_eq!(losses(&[with(number(3, 1))]), whole);
    // The bundle in front was overwritten; or it is here, or has events that are not read.
    assert_eq!(losses(&[with(number(10, 800))]), whole);
    assert_eq!(losses(&[with(number(10, 650))]), []);
    assert_eq!(losses(&[unread, with(number(10, 800))]), []);
    // A bundle without sense, in front of another bundle and at the end.
    assert_eq!(losses(&[senseless.clone(), with(Vec::new())]), whole);
    assert_eq!(losses(&[with(Vec::new()), senseless]), [(900, 900, 0)]);
    assert_eq!(losses(&[with(Vec::new())]), []);
}

#[test]
fn a_trace_without_switches_is_refused_with_what_to_record() {
    for trace in [bytes(1, &number(8, 5)), bundle(0, &[])] {
        let error = PerfettoTrace::from_source(&trace[..], Path::new("t")).expect_err("no switches");
        assert!(error.to_string().contains("perfetto -o t.pftrace -t 10s sched"), "{error}");
    }
}

#[test]
fn no_damage_ends_the_reader() {
    let whole = packets().concat();
    let mut seed = 1_u64;
    for _ in 0..2000 {
        let mut trace = whole.clone();
        for _ in 0..3 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let place = (seed >> 33) as usize % trace.len();
            trace[place] = (seed >> 20) as u8;
        }
        if let Ok(trace) = PerfettoTrace::from_source(&trace[..], Path::new("t")) {
            trace.read(|_| (), |_| ());
        }
    }
}
