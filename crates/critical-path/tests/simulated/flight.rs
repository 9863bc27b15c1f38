//! A flight recorder's window has the same paths as the whole recording in its time.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wakepath_clock::Stamp;
use wakepath_critical_path::{Cause, Path, SegmentKind, active};
use wakepath_event::{Cpu, Event, EventKind, EventSource as _, HostIdentity, RecordingFormat as _, Tid};
use wakepath_kernel_records::{Buffer, Encoder, Kind};
use wakepath_recording::flight::{Flight, FlightLimits};
use wakepath_recording::{Options, Recording, Writer};
use wakepath_scenario::arbitrary::cases;
use wakepath_scenario::simulate::{Run, simulate};
use wakepath_scenario::text::parse;
use wakepath_wait_graph::{Graph, Thread, ThreadIndex};

use crate::schedules::program;

const RELEASE: &str = "6.18.0";
/// The longest flight time of a packet, ns.
const FLIGHT: u64 = 31_000;

/// The events that a flight recorder keeps of these, with a window that begins at `from`.
pub fn window(events: &[Event], from: u64, to: u64) -> Vec<Event> {
    let encoder = Encoder::for_release(RELEASE);
    let mut flight = Flight::new(FlightLimits { window_ns: u64::MAX, bytes: usize::MAX }, RELEASE);
    let mut rings: BTreeMap<(Buffer, Cpu), (u16, Vec<u8>)> = BTreeMap::new();
    let drain = |flight: &mut Flight, rings: &mut BTreeMap<_, (u16, Vec<u8>)>| {
        for ((buffer, cpu), (_, bytes)) in rings {
            flight.packet(*buffer, *cpu, &std::mem::take(bytes), 0);
        }
    };
    for (number, event) in events.iter().enumerate() {
        let mut record = Vec::new();
        encoder.encode(event, event.cpu.0, &mut record).expect("an event that fits");
        let kind = Kind::from_number(record[8]).expect("a kind");
        let buffer = Buffer::ALL.into_iter().find(|buffer| buffer.holds(kind)).expect("a buffer");
        if buffer == Buffer::Life || event.cpu == Cpu::UNKNOWN {
            flight.rare(&record).expect("a record");
        } else {
            let (seq, bytes) = rings.entry((buffer, event.cpu)).or_default();
            encoder.encode(event, *seq, bytes).expect("the same");
            *seq = seq.wrapping_add(1);
        }
        // Most packets go on beyond the window's beginning.
        if number % 7 == 6 {
            drain(&mut flight, &mut rings);
        }
    }
    drain(&mut flight, &mut rings);
    flight.cut(from);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("kept");
    let host = HostIdentity {
        name: "web3".to_owned(),
        boot_id: "67e2237c-99e6-488f-b6e0-82e34227d61c".to_owned(),
        kernel_release: RELEASE.to_owned(),
        machine: "x86_64".to_owned(),
        cpus: 8,
    };
    let mut writer = Writer::create(&path, &host, &Options::new("0", "")).expect("a place");
    flight.write(&mut writer, to).expect("room");
    drop(writer);
    let recording = Recording::open(&path).expect("a recording");
    let mut kept = Vec::new();
    let problems = recording.read(|event| kept.push(event.clone()), |_| {});
    assert!(problems.is_empty(), "{problems:?}");
    kept
}

/// A stretch's end, kind and thread, and its call and cause in words without a graph's indices.
type Stretch = (u64, SegmentKind, Option<Tid>, String);

fn stretches(graph: &Graph, path: &Path) -> Vec<Stretch> {
    let tid = |thread: ThreadIndex| graph.thread(thread).tid();
    let mut stretches: Vec<Stretch> = Vec::new();
    for segment in &path.segments {
        let kind = match segment.kind {
            // The interrupt share is spread over the whole stay on the CPU, which the window cuts.
            SegmentKind::Interrupted => SegmentKind::Running,
            kind => kind,
        };
        // A packet in flight at the window's beginning was recorded before it: its sender is not known.
        let sent_before = kind == SegmentKind::Network && segment.from.ns() < path.window.from.ns() + FLIGHT;
        let cause = match &segment.cause {
            Cause::Interrupt { .. } => String::new(),
            _ if sent_before || kind == SegmentKind::Unknown => String::new(),
            // A request that began at time 0 has no beginning in a record.
            Cause::Block { request, queued } => format!("{:?} {queued}", request.as_ref().map(|one| one.id)),
            Cause::Competitor(thread) => format!("{:?} has the CPU", tid(*thread)),
            Cause::Lock(lock) => format!("lock {:?} of {:?}", lock.address, lock.owner.map(tid)),
            Cause::Signal(signal) => format!("signal {} {:?}", signal.number, signal.effect),
            other => format!("{other:?}"),
        };
        let thread = segment.thread.filter(|_| !sent_before).map(tid);
        let call = segment.call.filter(|_| !sent_before && kind != SegmentKind::Unknown);
        let next = (segment.to.ns(), kind, thread, format!("{cause} {call:?}"));
        match stretches.last_mut() {
            Some(last) if (last.1, last.2, &last.3) == (next.1, next.2, &next.3) => last.0 = next.0,
            _ => stretches.push(next),
        }
    }
    stretches
}

/// The events in the same order, each with a distinct stamp: a file has no order between its streams.
fn without_ties(events: &[Event]) -> Vec<Event> {
    let (mut last, mut distinct) = (0, Vec::new());
    for event in events {
        last = (event.at.ns() * 1000).max(last + 1);
        distinct.push(Event { at: Stamp::from_ns(last), ..event.clone() });
    }
    distinct
}

/// A thread whose paths differ.
#[derive(Debug)]
#[allow(dead_code, reason = "for the message")]
struct Difference {
    thread: Tid,
    from: u64,
    whole: Vec<Stretch>,
    window: Vec<Stretch>,
}

/// The waits in a path from `begin` on for packets that may have been in flight as the window began: their beginnings and ends.
fn in_flight_at(from: u64, begin: u64, window: &[Stretch]) -> Vec<(u64, u64)> {
    let begins = std::iter::once(begin).chain(window.iter().map(|stretch| stretch.0));
    let waits = begins.zip(window).filter(|(_, (received, kind, thread, _))| {
        *kind == SegmentKind::Network && thread.is_none() && *received < from + FLIGHT
    });
    waits.map(|(since, (received, ..))| (since, *received)).collect()
}

/// The threads whose paths differ, from `from` to their ends.
fn differences(events: &[Event], from: u64) -> Vec<Difference> {
    let end = events.iter().map(|event| event.at.ns()).max().unwrap_or(0);
    let kept: Graph = window(events, from, end).iter().collect();
    let whole: Graph = events.iter().collect();
    let identity_of = |thread: &Thread| thread.identity.as_ref().map(|one| (one.tid, one.start));
    let mut found = Vec::new();
    for (index, thread) in whole.threads() {
        let (Some(identity), begin, end) = (identity_of(thread), thread.first.ns(), thread.last.ns()) else {
            continue;
        };
        let begin = begin.max(from);
        if begin >= end {
            continue;
        }
        let ask = |graph: &Graph, thread| {
            let path = active(graph, crate::window(thread, begin, end));
            assert!(path.tiles_window(), "{path:#?}");
            stretches(graph, &path)
        };
        let same = kept.threads().find(|(_, other)| identity_of(other) == Some(identity));
        let mut whole = ask(&whole, index);
        let mut window = same.map(|(same, _)| ask(&kept, same)).unwrap_or_default();
        // The same on one host: in the whole recording, the sender may have run on meanwhile.
        for (since, received) in in_flight_at(from, begin, &window) {
            whole.retain(|stretch| stretch.0 <= since || received < stretch.0);
            window.retain(|stretch| stretch.0 <= since || received < stretch.0);
        }
        if whole != window {
            found.push(Difference { thread: identity.0, from: begin, whole, window });
        }
    }
    found
}

#[test]
fn a_window_of_a_recording_says_what_the_recording_says() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/backup");
    let recording = Recording::open(&path).expect("a bundled recording");
    let mut events = Vec::new();
    recording.read(|event| events.push(event.clone()), |_| {});
    let (begin, end) = (events[0].at.ns(), events.iter().map(|event| event.at.ns()).max().expect("events"));
    for share in (1..100).step_by(7) {
        let from = begin + (end - begin) * share / 100;
        let found = differences(&events, from);
        assert!(found.is_empty(), "{share}%: {found:#?}");
    }
}

#[test]
fn a_window_knows_since_when_a_disk_has_a_request() {
    // The completion has no stamp of the issue: the kernel keeps no statistics.
    let events = without_ties(
        &parse(
            "thread A tid=10
             thread B tid=11
             0 c0 idle started
             0 c0 idle switch A
             10 c0 A switch B blocked=uninterruptible
             20 c0 B issue 7
             30 c0 B switch idle blocked=uninterruptible
             90 c0 idle/device complete 7
             91 c0 idle/device waking A
             92 c0 idle switch A
             99 c0 A stopped",
        )
        .expect("a case")
        .events,
    );
    let (from, to) = (50_000, 99_000);
    let graph: Graph = window(&events, from, to).iter().collect();
    let thread = crate::index(&graph, Tid(10)).expect("the thread that waits");
    let path = active(&graph, crate::window(thread, from, to));
    let first = stretches(&graph, &path).remove(0);
    assert_eq!((first.0, first.1), (91_000, SegmentKind::BlockDevice), "{path:#?}");
    assert!(differences(&events, from).is_empty());
}

/// The first moment at which both claim something, and the claims differ.
fn contradiction(Difference { whole, window, .. }: &Difference) -> Option<u64> {
    let at = |of: &[Stretch], moment: u64| {
        let stretch = of.iter().find(|stretch| stretch.0 >= moment)?;
        // The packet that ends a wait from before the window may also be from before it.
        let is_claim = !matches!(stretch.1, SegmentKind::Unknown | SegmentKind::Network);
        is_claim.then_some((stretch.1, stretch.2))
    };
    let moments = whole.iter().chain(window).map(|stretch| stretch.0);
    moments.into_iter().find(|&moment| {
        matches!((at(whole, moment), at(window, moment)), (Some(whole), Some(window)) if whole != window)
    })
}

/// Cases in which a window's claims may differ from the whole recording's, and why.
const OTHERWISE: [(&str, &str); 14] = [
    ("disk-request-of-the-waiter-during-its-wait", WITHIN_THE_INTERRUPT),
    ("lost-record-of-a-disk-request", WITHIN_THE_INTERRUPT),
    (
        "exec-by-a-thread-that-is-not-the-leader",
        "the window begins within an exec, whose threads change numbers",
    ),
    ("lock-found-taken-as-it-is-released", BEHIND_THE_WAKING),
    ("lock-found-taken-before-the-taker-runs", BEHIND_THE_WAKING),
    ("lock-taken-again-by-the-one-that-released-it", BEHIND_THE_WAKING),
    ("lock-taken-before-woken-runs", BEHIND_THE_WAKING),
    ("lock-taken-by-a-thread-without-a-cpu", BEHIND_THE_WAKING),
    ("lock-taken-by-another-that-was-woken-before", BEHIND_THE_WAKING),
    ("lock-taken-by-one-woken-from-another-lock", BEHIND_THE_WAKING),
    ("lock-taken-in-turn-behind-a-taker", BEHIND_THE_WAKING),
    ("lock-taken-out-of-turn", BEHIND_THE_WAKING),
    ("lock-taken-out-of-turn-after-another-wait", BEHIND_THE_WAKING),
    ("lock-taken-while-the-taker-sleeps", BEHIND_THE_WAKING),
];

const WITHIN_THE_INTERRUPT: &str = "the window begins within the interrupt of the disk";
const BEHIND_THE_WAKING: &str = "the window begins behind the waking of the thread for which a lock was let go, which is then not known to have its turn";

#[test]
fn a_window_of_a_case_claims_nothing_else_than_the_case() {
    let cases = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases");
    let folders = std::fs::read_dir(&cases).expect("the folder cases/");
    let mut names: Vec<_> = folders.map(|entry| entry.expect("an entry of cases/").path()).collect();
    names.sort();
    let (mut asked, mut wrong) = (0, Vec::new());
    for case in names {
        let Ok(trace) = std::fs::read_to_string(case.join("trace.txt")) else { continue };
        let name = case.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let events = without_ties(&parse(&trace).expect("a case").events);
        // Other tracers leave a CPU out; the recorder has no record for it.
        if events.iter().any(|event| event.kind == EventKind::Unrecorded) {
            continue;
        }
        // Not within the snapshot, which a recorder takes in its first milliseconds.
        let cuts = events.iter().map(|event| event.at.ns() + 1).filter(|&at| at > 1000);
        for from in cuts {
            asked += 1;
            // All were tried: a third is enough to find a broken rule.
            if asked % 3 != 0 {
                continue;
            }
            let found = differences(&events, from);
            let otherwise = found.iter().find_map(|one| Some((one, contradiction(one)?)));
            if let Some((one, at)) = otherwise.filter(|_| !OTHERWISE.iter().any(|(other, _)| *other == name))
            {
                wrong.push(format!("{name}, from {from}: at {at} {one:?}"));
            }
        }
    }
    assert!(asked > 1000, "{asked}");
    assert!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong.join("\n"));
}

fn says_the_same(run: &Run, share: u64) -> Result<(), TestCaseError> {
    let events = without_ties(&run.events);
    let end = events.iter().map(|event| event.at.ns()).max().unwrap_or(0);
    // Not within the snapshot, which a recorder takes in its first milliseconds.
    let found = differences(&events, (end * share / 100).max(1001));
    prop_assert!(found.is_empty(), "{:#?}", found);
    Ok(())
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_flight_recorders_window_says_what_the_whole_recording_says(
        program in program(prop_oneof![Just(None), Just(Some(1)), Just(Some(2))]),
        share in 1..100u64,
    ) {
        says_the_same(&simulate(&program), share)?;
    }
}
