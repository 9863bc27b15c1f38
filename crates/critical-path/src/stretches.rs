//! The path of work that several threads did in turn.

use wakepath_clock::{Reference, Stamp};
use wakepath_wait_graph::{Graph, ThreadIndex};

use crate::find_problems::problems;
use crate::{
    Algorithm, Basis, Cause, JoinedSum, Path, Segment, SegmentKind, Unjoined, Via, Wait, WaitId, Window,
};

/// A stretch of the time of handed-over work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stretch {
    /// A thread did the work: the thread's path.
    Thread(Path),
    /// Time without a thread.
    Other {
        /// The thread that did the work next, and did something else here.
        thread: ThreadIndex,
        /// The beginning.
        from: Stamp<Reference>,
        /// The end.
        to: Stamp<Reference>,
        /// The kind of time.
        kind: SegmentKind,
        /// The certainty.
        basis: Basis,
    },
}

/// Joins stretches, which follow each other without gaps, to a path. Its window has the first stretch's thread; `None` without a stretch.
pub fn path_of_stretches(graph: &Graph, algorithm: Algorithm, stretches: Vec<Stretch>) -> Option<Path> {
    let (mut segments, mut waits, mut joined) = (Vec::new(), Vec::new(), JoinedSum::default());
    let mut first = None;
    for stretch in stretches {
        match stretch {
            Stretch::Thread(path) => {
                first = first.or(Some(path.window.thread));
                let before = waits.len() as u32;
                let moved = |id: Option<WaitId>| id.map(|id| WaitId(id.0 + before));
                joined = joined.with(path.joined);
                segments.extend(
                    path.segments
                        .into_iter()
                        .map(|segment| Segment { parent: moved(segment.parent), ..segment }),
                );
                let mut of_path = path.waits;
                of_path.iter_mut().for_each(|wait| wait.parent = moved(wait.parent));
                waits.append(&mut of_path);
            }
            Stretch::Other { thread, from, to, kind, basis } => {
                first = first.or(Some(thread));
                segments.push(Segment {
                    from,
                    to,
                    kind,
                    thread: Some(thread),
                    parent: None,
                    depth: 0,
                    via: Via::Window,
                    call: None,
                    cause: Cause::None,
                    basis,
                    goes_on: false,
                });
            }
        }
    }
    segments.retain(|segment| segment.from < segment.to);
    let window = Window { thread: first?, from: segments.first()?.from, to: segments.last()?.to };
    Some(assembled(graph, window, algorithm, segments, waits, joined))
}

/// A path with these segments, which tile the window, and the waits that they explain. Another choice about time-outs is for each part alone.
pub fn assembled(
    graph: &Graph,
    window: Window,
    algorithm: Algorithm,
    segments: Vec<Segment>,
    waits: Vec<Wait>,
    joined: JoinedSum,
) -> Path {
    let problems = problems(graph, &window, &segments, &waits);
    Path { window, algorithm, segments, waits, joined, unjoined: Unjoined::default(), problems }
}

#[cfg(test)]
mod tests {
    use wakepath_scenario::draw;

    use super::*;
    use crate::Rule;

    const fn at(ns: u64) -> Stamp<Reference> {
        Stamp::from_ns(ns)
    }

    /// A thread's path with a wait, and a second wait nested in the first; a wait timed out.
    fn path(thread: u32, from: u64, to: u64) -> Path {
        let thread = ThreadIndex(thread);
        let segment = |from, to, parent: Option<u32>| Segment {
            from: at(from),
            to: at(to),
            kind: SegmentKind::Running,
            thread: Some(thread),
            parent: parent.map(WaitId),
            depth: 0,
            via: Via::Window,
            call: None,
            cause: Cause::None,
            basis: Basis::Measured,
            goes_on: false,
        };
        let wait = |parent: Option<u32>| Wait {
            from: at(from),
            to: at(to),
            thread,
            parent: parent.map(WaitId),
            depth: 0,
            call: None,
            ended_by: None,
            via: Via::Wakeup,
            lock: None,
            basis: Basis::Measured,
            timed_out: false,
            goes_on: false,
        };
        Path {
            window: Window { thread, from: at(from), to: at(to) },
            algorithm: Algorithm::Active,
            segments: vec![segment(from, from + 5, None), segment(from + 5, to, Some(1))],
            waits: vec![wait(None), wait(Some(0))],
            joined: JoinedSum { waits: 2, ns: 30, by_threads: 1 },
            unjoined: Unjoined::default(),
            problems: Vec::new(),
        }
    }

    #[test]
    fn stretches_become_one_path_whose_waits_keep_their_parents() {
        let graph: Graph = draw("0 ====\n1 ====\n2 ====\n3 ====").events.iter().collect();
        let other = |from, to| Stretch::Other {
            thread: ThreadIndex(2),
            from: at(from),
            to: at(to),
            kind: SegmentKind::Queue,
            basis: Basis::Inferred(Rule::HandedOver),
        };
        let stretches = vec![
            Stretch::Thread(path(1, 100, 120)),
            other(120, 130),
            // A stretch without a thread and without length.
            other(130, 130),
            Stretch::Thread(path(2, 130, 150)),
        ];
        let found = path_of_stretches(&graph, Algorithm::Active, stretches).expect("a path");
        assert_eq!(found.window, Window { thread: ThreadIndex(1), from: at(100), to: at(150) });
        let segments = found.segments.iter();
        let segments = segments.map(|one| (one.from.ns(), one.to.ns(), one.parent.map(|wait| wait.0)));
        let expected =
            [(100, 105, None), (105, 120, Some(1)), (120, 130, None), (130, 135, None), (135, 150, Some(3))];
        assert_eq!(segments.collect::<Vec<_>>(), expected);
        let parents: Vec<_> = found.waits.iter().map(|wait| wait.parent.map(|wait| wait.0)).collect();
        assert_eq!(parents, [None, Some(0), None, Some(2)]);
        assert_eq!(found.joined, JoinedSum { waits: 4, ns: 60, by_threads: 2 });
        let queue = &found.segments[2];
        assert_eq!(
            (queue.kind, queue.thread, queue.basis),
            (SegmentKind::Queue, Some(ThreadIndex(2)), Basis::Inferred(Rule::HandedOver))
        );
        assert_eq!(path_of_stretches(&graph, Algorithm::Active, Vec::new()), None);
        let first = path_of_stretches(&graph, Algorithm::Active, vec![other(1, 2)]).expect("a path");
        assert_eq!(first.window.thread, ThreadIndex(2));
    }
}
