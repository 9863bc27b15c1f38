//! Goroutine drawings, for tests: a line each, a column for each [`STEP`].
//!
//! The label is the goroutine's number, `@` and its thread if the numbers differ, `<` and the goroutine that started it. A column is `=` while it
//! runs, `q` in a queue, `_` while it is not alive, `?` without a record. A park is a letter for its reason (`s` sleep, `i` a descriptor, `l` a lock,
//! `c` a channel, `o` another), and in its last column its end: the goroutine that made it ready, `t` the scheduler, `p` nothing but a thread running
//! it. Threads run all the time, unless they are drawn too.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Cause, Path, SegmentKind, Timeouts};
use wakepath_event::{GoStep, GoroutineStep, LostRecords, Tid};
use wakepath_scenario::{Drawing, STEP, draw};
use wakepath_wait_graph::{Graph, ThreadIndex};

use crate::{Calls, GoPath, GoWait, GoWindow, GoroutineIndex, Goroutines, NoCalls, Step, path};

/// The reasons by number, and their letters.
const REASONS: [(u8, GoWait); 5] = [
    (b's', GoWait::Sleep),
    (b'i', GoWait::Descriptor),
    (b'l', GoWait::Lock),
    (b'c', GoWait::Channel),
    (b'o', GoWait::Other),
];

/// A parsed drawing.
pub(crate) struct Drawn {
    pub(crate) graph: Graph,
    pub(crate) goroutines: Goroutines,
    end: u64,
}

fn at(column: usize) -> u64 {
    column as u64 * STEP
}

pub(crate) fn stamp(column: usize) -> Stamp<Reference> {
    Stamp::from_ns(at(column))
}

/// The drawn goroutines, with losses of any records in these columns.
pub(crate) fn drawn(drawing: &str, losses: &[(usize, usize)]) -> Drawn {
    drawn_without(drawing, losses, |_| true)
}

/// The same, with losses of this kind of record.
pub(crate) fn drawn_with_lost(drawing: &str, records: LostRecords, losses: &[(usize, usize)]) -> Drawn {
    drawn_of(drawing, (records, losses), |_| true)
}

/// The same without the steps for which `keeps` is false.
pub(crate) fn drawn_without(
    drawing: &str,
    losses: &[(usize, usize)],
    keeps: impl Fn(&(u64, GoroutineStep)) -> bool,
) -> Drawn {
    drawn_of(drawing, (LostRecords::Any, losses), keeps)
}

/// The same over drawn threads, with as many columns.
pub(crate) fn drawn_over(threads: &str, drawing: &str) -> Drawn {
    drawn_on(threads, drawing, (LostRecords::Any, &[]), |_| true)
}

fn drawn_of(
    drawing: &str,
    losses: (LostRecords, &[(usize, usize)]),
    keeps: impl Fn(&(u64, GoroutineStep)) -> bool,
) -> Drawn {
    let lines = drawing.lines().map(str::trim);
    let columns = lines.clone().map(|line| line.split_once(' ').expect("a label").1.len()).max();
    let running = "=".repeat(columns.expect("a line"));
    let threads: String = (0..lines.count()).map(|row| format!("{row} {running}\n")).collect();
    drawn_on(&threads, drawing, losses, keeps)
}

fn drawn_on(
    threads: &str,
    drawing: &str,
    (records, losses): (LostRecords, &[(usize, usize)]),
    keeps: impl Fn(&(u64, GoroutineStep)) -> bool,
) -> Drawn {
    let lines: Vec<&str> = drawing.lines().map(str::trim).collect();
    let columns =
        lines.iter().map(|line| line.split_once(' ').expect("a label").1.len()).max().expect("a line");
    let Drawing { mut events, tids, .. } = draw(threads);
    for &(from, to) in losses {
        use wakepath_event::{Context, Cpu, Event, EventKind};
        let kind = EventKind::Loss { from: Stamp::from_ns(at(from)), count: 2, records };
        let (cpu, context, current) = (Cpu::UNKNOWN, Context::Task, Tid::IDLE);
        events.push(Event { at: Stamp::from_ns(at(to)), cpu, context, current, kind });
    }
    events.sort_by_key(|event| event.at);
    let graph: Graph = events.iter().collect();
    let mut steps: Vec<(u64, usize, usize, GoroutineStep)> = Vec::new();
    for line in &lines {
        let (label, states) = line.split_once(' ').expect("a label");
        let (label, parent) = label.split_once('<').unwrap_or((label, "9"));
        let parent = parent.parse().ok().filter(|parent| *parent != 9).map_or(0, |parent: u64| parent + 1);
        let (number, thread) = label.split_once('@').unwrap_or((label, label));
        let (number, thread): (u64, usize) =
            (number.parse().expect("a number"), thread.parse().expect("a thread"));
        let mut take = |column: usize, order: usize, on: usize, step| {
            let step = GoroutineStep { tgid: tids[0], program: 0, goroutine: number + 1, began_in: 0, step };
            steps.push((at(column), order, on, step));
        };
        let states = states.as_bytes();
        let mut before = b'_';
        for (column, &state) in states.iter().enumerate() {
            let is_park = |state| REASONS.iter().any(|(letter, _)| *letter == state);
            let is_end = |state: u8| state.is_ascii_digit() || state == b't' || state == b'p';
            if state == before || is_end(state) {
                before = state;
                continue;
            }
            match before {
                b'0'..=b'9' => {
                    let by = usize::from(before - b'0');
                    take(column, 1, by, GoStep::Ready(by as u64 + 1));
                }
                b't' => take(column, 1, thread, GoStep::Ready(0)),
                _ => {}
            }
            match state {
                b'=' => take(column, 2, thread, GoStep::Runs(if before == b'_' { parent } else { 0 })),
                b'q' if before == b'=' => take(column, 0, thread, GoStep::Yields),
                b'_' if before == b'=' => take(column, 0, thread, GoStep::Ends),
                _ if is_park(state) => {
                    let reason = REASONS.iter().position(|(letter, _)| *letter == state).expect("a reason");
                    take(column, 0, thread, GoStep::Parks(reason as u8));
                }
                _ => {}
            }
            before = state;
        }
    }
    // At the same time, leaving a thread comes first, then becoming ready, then running.
    steps.sort_by_key(|&(at, order, ..)| (at, order));
    let kept = steps.into_iter().filter(|&(at, _, _, step)| keeps(&(at / STEP, step)));
    let steps: Vec<Step> = kept.map(|(at, _, on, step)| (Stamp::from_ns(at), tids[on], step)).collect();
    let thread = |tid: Tid, _| graph.with_tid(tid).next().map(|(index, _)| index);
    let goroutines = Goroutines::new(&graph, &steps, &[], thread);
    Drawn { goroutines, graph, end: at(columns) }
}

impl Drawn {
    pub(crate) fn goroutine(&self, number: u64) -> GoroutineIndex {
        let found = self.goroutines.iter().find(|(_, goroutine)| goroutine.number == number + 1);
        found.expect("a goroutine").0
    }

    pub(crate) fn thread(&self, row: u32) -> ThreadIndex {
        let mut threads: Vec<_> = self.graph.threads().map(|(index, thread)| (thread.tid(), index)).collect();
        threads.sort();
        threads.retain(|(tid, _)| *tid != Tid::IDLE);
        threads[row as usize].1
    }

    pub(crate) fn path_of(&self, number: u64, from: usize, to: usize) -> GoPath {
        self.path_with(number, (from, to), &NoCalls)
    }

    /// The same, with known calls.
    pub(crate) fn path_with(&self, number: u64, (from, to): (usize, usize), calls: &dyn Calls) -> GoPath {
        let goroutine = self.goroutine(number);
        let window = GoWindow { goroutine, from: stamp(from), to: stamp(to) };
        let reasons = |_, reason: u8| REASONS[usize::from(reason)].1;
        let path = path(&self.graph, &self.goroutines, &[window], Timeouts::Joined, &reasons, calls);
        let path = path.expect("a window");
        assert!(path.path.tiles_window(), "{path:#?}");
        assert_eq!(path.goroutines.len(), path.path.segments.len());
        assert_eq!(path.parks.len(), path.path.waits.len());
        path
    }

    /// The path as a line, a column per step: the running goroutine, or a letter for the kind of wait.
    pub(crate) fn line(&self, number: u64) -> String {
        let columns = (self.end / STEP) as usize;
        let GoPath { path, goroutines, .. } = self.path_of(number, 0, columns);
        self.letters(&path, &goroutines)
    }

    pub(crate) fn letters(&self, path: &Path, goroutines: &[Option<GoroutineIndex>]) -> String {
        let mut line = String::new();
        for (segment, goroutine) in path.segments.iter().zip(goroutines) {
            let mark = match (segment.kind, &segment.cause) {
                (SegmentKind::Running, _) => goroutine.map_or('-', |index| {
                    char::from_digit(self.goroutines.get(index).number as u32 - 1, 10).expect("a digit")
                }),
                (SegmentKind::Queue, _) => 'q',
                (SegmentKind::Timer, _) => 't',
                (SegmentKind::Network, _) => 'n',
                (SegmentKind::Lock, _) => 'l',
                (_, Cause::NotAlive) => '_',
                _ => '?',
            };
            let length = segment.to.since(segment.from);
            assert_eq!(length % STEP, 0, "whole columns");
            line.extend(std::iter::repeat_n(mark, (length / STEP) as usize));
        }
        line
    }
}
