//! The bundled recordings with records dropped: a path's measured or inferred parts agree with the whole recording.

use std::path::Path as File;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use wakepath_critical_path::{Basis, Path, Rule, Segment, SegmentKind, Window, active};
use wakepath_event::{Cpu, Event, EventKind, EventSource, RecordingFormat, Tid};
use wakepath_recording::Recording;
use wakepath_scenario::arbitrary::cases;
use wakepath_scenario::simulate::{LossReport, lose_from};
use wakepath_wait_graph::{Graph, ThreadIndex};

/// A recording and the answers about it.
struct Recorded {
    events: Vec<Event>,
    /// Each event's buffer: its stream's number, and its CPU.
    buffers: Vec<Option<(usize, Cpu)>>,
    graph: Graph,
}

/// A bundled recording's events in reading order, each with its stream.
fn read(name: &str) -> Recorded {
    let path = File::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings").join(name);
    let recording = Recording::open(&path).expect("a bundled recording");
    let mut events = Vec::new();
    for (number, stream) in recording.streams().iter().enumerate() {
        let problems =
            recording.for_each_of(number, |event| events.push((event.clone(), number, stream.cpu)));
        assert!(problems.is_empty(), "{problems:?}");
    }
    events.sort_by_key(|(event, number, _)| (event.at, *number));
    let mut whole = Vec::new();
    recording.for_each(|event| whole.push(event.clone()));
    assert!(whole.len() > 1000 && events.iter().map(|(event, ..)| event).eq(&whole), "the order of reading");
    // Names, marks and the snapshot are kept: without them there is no thread to ask about.
    let buffers =
        events.iter().map(|(event, number, cpu)| is_lost_at_times(event).then_some((*number, *cpu)));
    Recorded { buffers: buffers.collect(), graph: whole.iter().collect(), events: whole }
}

const fn is_lost_at_times(event: &Event) -> bool {
    !matches!(
        event.kind,
        EventKind::Thread { .. }
            | EventKind::Flow(..)
            | EventKind::Name(..)
            | EventKind::Mark(_)
            | EventKind::Clocks(_)
    )
}

/// The threads by their identity in any graph of the same recording: tid and start.
fn threads(graph: &Graph) -> Vec<(ThreadIndex, (Tid, u64))> {
    let named = graph.threads().filter_map(|(index, thread)| {
        let identity = thread.identity.as_ref()?;
        Some((index, (identity.tid, identity.start.ns())))
    });
    named.collect()
}

/// A stretch's end, and its kind and thread if they are claimed for certain.
type Claim = (u64, Option<(SegmentKind, Option<Tid>)>);

/// The explanation of each stretch of a path.
fn claims(graph: &Graph, path: &Path) -> Vec<Claim> {
    let claim = |segment: &Segment| {
        // If records are missing, that rule chooses another wait, and the basis says so.
        let taken_up = segment.basis == Basis::Inferred(Rule::TakenUp);
        let ambiguous = segment.basis == Basis::Ambiguous || taken_up;
        let claimed = segment.kind != SegmentKind::Unknown && !ambiguous;
        let kind = match segment.kind {
            // The interrupt share is spread over the whole stay on the CPU, which a loss cuts.
            SegmentKind::Interrupted => SegmentKind::Running,
            kind => kind,
        };
        claimed.then(|| (kind, segment.thread.map(|thread| graph.thread(thread).tid())))
    };
    path.segments.iter().map(|segment| (segment.to.ns(), claim(segment))).collect()
}

/// The first time at which both claim something, and the claims differ.
fn disagreement(whole: &[Claim], lossy: &[Claim]) -> Option<String> {
    let mut next = 0;
    for &(to, claim) in lossy {
        loop {
            let &(end, truth) = whole.get(next)?;
            if let (Some(claim), Some(truth)) = (claim, truth)
                && claim != truth
            {
                return Some(format!("before {}: {claim:?}, in the whole {truth:?}", to.min(end)));
            }
            if end > to {
                break;
            }
            next += 1;
            if end == to {
                break;
            }
        }
    }
    None
}

fn nothing_moves_unmarked(
    recorded: &Recorded,
    report: LossReport,
    lost: impl Fn(usize) -> bool,
) -> Result<(), TestCaseError> {
    let buffers = recorded.buffers.iter().map(|buffer| match report {
        LossReport::WithoutCpu => buffer.map(|_| (0, Cpu::UNKNOWN)),
        _ => *buffer,
    });
    let kept: Graph = lose_from(&recorded.events, buffers, report, lost).iter().collect();
    let whole = threads(&recorded.graph);
    for (thread, key) in threads(&kept) {
        let Some(&(same, _)) = whole.iter().find(|(_, other)| *other == key) else { continue };
        let window = |thread| Window { thread, from: recorded.graph.from(), to: recorded.graph.to() };
        let (whole, lossy) = (active(&recorded.graph, window(same)), active(&kept, window(thread)));
        prop_assert!(lossy.tiles_window());
        let found = disagreement(&claims(&recorded.graph, &whole), &claims(&kept, &lossy));
        prop_assert!(found.is_none(), "thread {}: {}", key.0, found.unwrap_or_default());
    }
    Ok(())
}

/// Ranges of lost events: few long ranges or many short ones.
fn ranges(events: usize) -> impl Strategy<Value = Vec<(usize, usize)>> {
    let range = move |longest: usize| (0..events, 1..longest);
    prop_oneof![
        prop::collection::vec(range(2), 1..200),
        prop::collection::vec(range(10), 1..40),
        prop::collection::vec(range(400), 1..4),
    ]
}

fn check(name: &str) {
    let recorded = read(name);
    let reports = prop::sample::select(&LossReport::ALL[..]);
    let mut runner = TestRunner::new_with_rng(cases(40), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let outcome = runner.run(&(ranges(recorded.events.len()), reports), |(ranges, report)| {
        let mut lost = vec![false; recorded.events.len()];
        for (first, count) in ranges {
            lost.iter_mut().skip(first).take(count).for_each(|lost| *lost = true);
        }
        nothing_moves_unmarked(&recorded, report, |number| lost[number])
    });
    if let Err(error) = outcome {
        panic!("{name}: {error}");
    }
}

#[test]
fn what_lost_records_of_a_recording_move_is_unknown_or_marked() {
    check("backup");
}

#[test]
fn what_lost_records_of_an_older_recording_move_is_unknown_or_marked() {
    check("backup-of-format-1");
}
