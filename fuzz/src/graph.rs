//! Events → timeline → wait graph → paths.
//!
//! Input: a byte whose bit 0 is 1 if the rest is records as in a recording, 0 for events in few bytes
//! (`fuzz/src/events.rs`), and whose bit 1 is 0 if they are sorted by stamp; two bytes with the beginning
//! and end of further windows.

use wakepath_clock::Stamp;
use wakepath_critical_path::{
    Path, Timeouts, WaitId, Window, active, active_by, contributors, deadlocks, exact, hangs,
};
use wakepath_event::{Cpu, Event};
use wakepath_kernel_records::{Buffer, Decoder, Header, Kind, record_length};
use wakepath_wait_graph::{Graph, ThreadState};

/// The number of threads whose paths are made: among many more, the first are as good as any.
const THREADS: usize = 24;

/// Builds the events' graph, and asks it all possible questions.
///
/// # Panics
/// When a law is broken.
pub fn check(input: &[u8]) {
    let &[kind, begin, end, ref bytes @ ..] = input else { return };
    let mut events = if kind & 1 == 0 { crate::events::events(bytes) } else { records(bytes) };
    if kind & 2 == 0 {
        events.sort_by_key(|event| event.at);
    }
    let graph: Graph = events.iter().collect();
    threads(&graph);
    let again: Graph = events.iter().collect();
    assert_eq!(hangs(&graph), hangs(&again), "the same events, the same hangs");
    for cycle in deadlocks(&graph) {
        assert!(!cycle.is_empty());
    }
    let (from, to) = (graph.from(), graph.to());
    for cpu in graph.cpus().take(THREADS) {
        let mut at = from;
        for occupancy in graph.occupancies(cpu, from, to) {
            assert!(
                occupancy.from == at && occupancy.from < occupancy.to,
                "stays follow each other on {cpu:?}"
            );
            at = occupancy.to;
        }
        assert_eq!(at, to, "and tile the window");
    }
    let place = |share: u8| from.plus((u128::from(to.since(from)) * u128::from(share) / 255) as u64);
    let cut = (place(begin).min(place(end)), place(begin).max(place(end)));
    for (thread, _) in graph.threads().take(THREADS) {
        for (from, to) in [(from, to), cut] {
            let window = Window { thread, from, to };
            for path in
                [active(&graph, window), exact(&graph, window), active_by(&graph, window, Timeouts::Joined)]
            {
                adds_up(&graph, &path);
            }
            assert_eq!(active(&graph, window), active(&again, window), "the same events, the same path");
        }
    }
}

/// Records one behind the other, from any buffers; undecodable records are left out.
fn records(bytes: &[u8]) -> Vec<Event> {
    let decoder = Decoder::for_release("6.18.0");
    let (mut events, mut rest) = (Vec::new(), bytes);
    while let (Some(header), Ok(length)) = (Header::read(rest), record_length(rest)) {
        let of_life = Kind::from_number(header.kind).is_some_and(|kind| Buffer::Life.holds(kind));
        let cpu = if of_life { Cpu::numbered(header.seq.into()) } else { Cpu(header.seq % 2) };
        events.extend(decoder.decode(rest, cpu).map(|(event, _)| event));
        rest = &rest[length..];
    }
    events
}

/// A thread's intervals follow each other from its first known time to its last.
fn threads(graph: &Graph) {
    for (thread, row) in graph.threads() {
        let intervals = graph.state_intervals(thread);
        let mut end = row.first;
        for index in 0..intervals.len() {
            let interval = intervals.get(index).expect("as many intervals as there are");
            assert!(interval.from == end && interval.to >= interval.from, "intervals follow each other");
            assert_eq!(matches!(interval.state, ThreadState::Blocked(_)), graph.wait(&interval).is_some());
            end = interval.to;
        }
        assert_eq!(end, row.last);
        let mut at = Stamp::MIN;
        for sample in graph.samples(thread, graph.from(), graph.to()) {
            assert!(sample.at >= at, "samples are in the order of time");
            at = sample.at;
        }
    }
}

/// Segments tile the window, and so do the contributors; a wait's parent comes before it.
fn adds_up(graph: &Graph, path: &Path) {
    assert!(path.tiles_window(), "segments tile the window: {path:#?}");
    let depth_under = |parent: Option<WaitId>, known: usize| match parent {
        None => 0,
        Some(WaitId(id)) => {
            assert!((id as usize) < known, "a wait's parent comes before it");
            path.waits[id as usize].depth + 1
        }
    };
    for segment in &path.segments {
        assert_eq!(segment.depth, depth_under(segment.parent, path.waits.len()));
    }
    for (id, wait) in path.waits.iter().enumerate() {
        assert!(wait.from <= wait.to);
        assert_eq!(wait.depth, depth_under(wait.parent, id));
    }
    let sum: u64 = contributors(graph, path).iter().map(|part| part.total_ns).sum();
    assert_eq!(sum, path.window.to.since(path.window.from), "contributors add up to the window");
}
