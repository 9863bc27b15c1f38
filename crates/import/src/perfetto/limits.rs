//! Tests of the limits, which are small in tests: a hostile file fills no memory.

use std::io::Write as _;
use std::path::Path;

use wakepath_event::{EventKind, EventSource};

use super::PerfettoTrace;
use super::container::walk;
use super::survey::Survey;
use super::synthetic::{bundle, bytes, event, number};
use crate::Fault;

/// A packet with a bundle of switches between the idle thread and another, at these stamps.
fn switches(cpu: u64, stamps: impl Iterator<Item = u64>) -> Vec<u8> {
    switches_behind(&[], cpu, stamps)
}

/// The same, with these fields in the bundle's head.
fn switches_behind(head: &[u8], cpu: u64, stamps: impl Iterator<Item = u64>) -> Vec<u8> {
    let switch = |(n, at): (u64, u64)| {
        let (prev, next) = if n % 2 == 0 { (0, 7 + cpu) } else { (7 + cpu, 0) };
        event(at, prev, 4, &[number(2, prev), number(4, n % 2), number(6, next)].concat())
    };
    bundle(cpu, &[head, &(0..).zip(stamps).flat_map(switch).collect::<Vec<_>>()].concat())
}

fn faults(trace: &[u8]) -> Vec<Fault> {
    let found = walk(&trace, trace.len() as u64, |_, _| ()).expect("memory has no errors");
    found.into_iter().map(|(_, fault)| fault).collect()
}

#[test]
fn a_packet_beyond_the_limit_is_left_out_packed_or_not() {
    let packed = |size: usize| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        // An unknown field that is as long.
        encoder.write_all(&bytes(1, &bytes(900, &vec![0; size]))).expect("memory has no errors");
        bytes(1, &bytes(50, &encoder.finish().expect("memory has no errors")))
    };
    assert_eq!(faults(&packed(60_000)), []);
    assert_eq!(faults(&packed(70_000)), [Fault::CompressionDamaged]);
    let plain = |size: usize| bytes(1, &bytes(900, &vec![0; size]));
    assert_eq!(faults(&plain(60_000)), []);
    assert!(matches!(&faults(&plain(70_000))[..], [Fault::NoRecord(_)]));
    // The packet behind it is read.
    let trace = [plain(70_000), switches(0, [100, 200].into_iter())].concat();
    let trace = PerfettoTrace::from_source(&trace[..], Path::new("t")).expect("a trace");
    let mut count = 0;
    trace.for_each(|event| count += u32::from(matches!(event.kind, EventKind::Switch { .. })));
    assert_eq!(count, 2);
}

#[test]
fn the_tracers_list_of_threads_does_not_fill_memory() {
    let thread = |tid| bytes(2, &[number(1, tid), number(3, 7)].concat());
    let list: Vec<u8> = (1..100).flat_map(thread).collect();
    let trace = bytes(1, &bytes(2, &list));
    let survey = Survey::new(&&trace[..], trace.len() as u64).expect("memory has no errors");
    assert_eq!(survey.threads.values().map(Vec::len).sum::<usize>(), 64);
}

#[test]
fn a_bundle_too_many_at_a_time_is_left_out_and_its_cpu_is_unknown_meanwhile() {
    let trace =
        [switches(0, (0..40).map(|n| 100 + 10 * n)), switches(1, (0..40).map(|n| 105 + 10 * n))].concat();
    let trace = PerfettoTrace::from_source(&trace[..], Path::new("t")).expect("a trace");
    let (mut found, mut losses) = (Vec::new(), Vec::new());
    let damages = trace.for_each(|event| match event.kind {
        EventKind::Switch { .. } => found.push(event.cpu.0),
        EventKind::Loss { from, .. } => losses.push((event.cpu.0, from.ns(), event.at.ns())),
        _ => {}
    });
    assert_eq!((found.len(), found.iter().max()), (40, Some(&0)));
    assert_eq!(losses, [(1, 105, 495)]);
    let fault = Fault::TooManyOverlap.to_string();
    assert!(damages.iter().any(|damage| format!("{:?}", damage.kind).contains(&fault)), "{damages:?}");
}

#[test]
fn a_left_out_bundle_begins_with_its_own_losses_and_ends_where_it_would() {
    let losses = |parts: &[Vec<u8>]| {
        let trace = parts.concat();
        let trace = PerfettoTrace::from_source(&trace[..], Path::new("t")).expect("a trace");
        let mut losses = Vec::new();
        trace.for_each(|event| {
            if let EventKind::Loss { from, .. } = event.kind {
                losses.push((event.cpu.0, from.ns(), event.at.ns()));
            }
        });
        losses
    };
    let busy = || switches(0, (0..40).map(|n| 100 + 10 * n));
    let left_out = |head: &[u8]| switches_behind(head, 1, (0..40).map(|n| 105 + 10 * n));
    let (early, late) = (
        || switches(1, [50, 60].into_iter()),
        |head: &[u8]| switches_behind(head, 1, [600, 610].into_iter()),
    );
    let (lost, previous_end) = (number(3, 1), |at| number(9, at));
    for (head, behind, expected) in [
        (vec![], previous_end(495), &[(1, 105, 495)][..]),
        (lost.clone(), previous_end(495), &[(1, 60, 495)]),
        (previous_end(90), previous_end(495), &[(1, 60, 495)]),
        // Its own doubts begin later than its events.
        (bytes(8, &number(1, 300)), previous_end(495), &[(1, 105, 495)]),
        // Another bundle is missing behind it.
        (vec![], previous_end(496), &[(1, 105, 495), (1, 60, 600)]),
    ] {
        assert_eq!(
            losses(&[early(), busy(), left_out(&head), late(&behind)]),
            expected,
            "{head:?} {behind:?}"
        );
    }
    // Without a bundle in front, from the trace's begin.
    assert_eq!(losses(&[busy(), left_out(&lost)]), [(1, 100, 495)]);
}
