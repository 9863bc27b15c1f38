//! A flight recorder's window says of each thread what the whole recording says of that time.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wakepath_clock::Stamp;
use wakepath_critical_path::{Cause, Path, SegmentKind, Window, active};
use wakepath_event::{Cpu, Event, EventSource as _, HostIdentity, RecordingFormat as _, Tid};
use wakepath_kernel_records::{Buffer, Encoder, Kind};
use wakepath_recording::flight::{Flight, FlightLimits};
use wakepath_recording::{Options, Recording, Writer};
use wakepath_scenario::arbitrary::cases;
use wakepath_scenario::simulate::{Run, simulate};
use wakepath_wait_graph::{Graph, ThreadIndex};

use crate::schedules::program;

const RELEASE: &str = "6.18.0";
/// The longest time that a packet is on its way, ns.
const FLIGHT: u64 = 31_000;

/// The events of a recording that a flight recorder keeps of these, where its window begins at `from`.
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
        // As often as not, a packet goes on beyond the beginning of the window.
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

/// The end of a stretch of a path, its kind and its thread, and a cause without the numbers of a graph.
type Stretch = (u64, SegmentKind, Option<Tid>, String);

pub fn stretches(graph: &Graph, path: &Path) -> Vec<Stretch> {
    let tid = |thread: ThreadIndex| graph.thread(thread).tid();
    let mut stretches: Vec<Stretch> = Vec::new();
    for segment in &path.segments {
        let cause = match segment.cause {
            Cause::None => "none",
            _ => "some",
        };
        let kind = match segment.kind {
            // The share of interrupts is spread over the whole stay on the CPU, which the window cuts.
            SegmentKind::Interrupted => SegmentKind::Running,
            kind => kind,
        };
        // A packet that is on its way when the window begins is a record before it: its sender is not known.
        let sent_before = kind == SegmentKind::Network && segment.from.ns() < path.window.from.ns() + FLIGHT;
        let thread = segment.thread.filter(|_| !sent_before).map(tid);
        let next = (segment.to.ns(), kind, thread, cause.to_owned());
        match stretches.last_mut() {
            Some(last) if (last.1, last.2, &last.3) == (next.1, next.2, &next.3) => last.0 = next.0,
            _ => stretches.push(next),
        }
    }
    stretches
}

/// The events with a stamp of their own each, in the same order: a file has no order between its streams.
fn without_ties(events: &[Event]) -> Vec<Event> {
    let (mut last, mut distinct) = (0, Vec::new());
    for event in events {
        last = (event.at.ns() * 1000).max(last + 1);
        distinct.push(Event { at: Stamp::from_ns(last), ..event.clone() });
    }
    distinct
}

fn says_the_same(run: &Run, share: u64) -> Result<(), TestCaseError> {
    let run = Run { events: without_ties(&run.events), ..run.clone() };
    let end = run.events.iter().map(|event| event.at.ns()).max().unwrap_or(0);
    let from = (end * share / 100).max(1);
    if end <= from {
        return Ok(());
    }
    let events = window(&run.events, from, end);
    let kept: Graph = events.iter().collect();
    let whole: Graph = run.events.iter().collect();
    for (index, thread) in whole.threads() {
        let identity = thread.identity.as_ref().map(|identity| (identity.tid, identity.start));
        let same = kept.threads().find(|(_, other)| {
            other.identity.as_ref().map(|identity| (identity.tid, identity.start)) == identity
        });
        let life = (thread.first.ns().max(from), thread.last.ns());
        if life.1 <= life.0 {
            continue;
        }
        let Some((other, _)) = same else {
            return Err(TestCaseError::fail(format!("{identity:?} is missing")));
        };
        let window = |thread| Window {
            thread,
            from: Stamp::from_ns(life.0),
            to: Stamp::from_ns(life.1),
        };
        let (a, b) = (active(&whole, window(index)), active(&kept, window(other)));
        prop_assert!(b.tiles_window());
        prop_assert_eq!(
            stretches(&whole, &a),
            stretches(&kept, &b),
            "{:?} from {}: {:#?}",
            identity,
            from,
            events
        );
    }
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
