//! The path of work that several threads did one after the other.

use wakepath_clock::{Reference, Stamp};
use wakepath_wait_graph::{Graph, ThreadIndex};

use crate::find_problems::problems;
use crate::{Algorithm, Basis, Cause, JoinedSum, Path, Segment, SegmentKind, Via, WaitId, Window};

/// A stretch of the time of work that threads handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stretch {
    /// A thread did it: the path of that thread.
    Thread(Path),
    /// It is not a thread's time.
    Other {
        /// The thread that then did the work, and did something else here.
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

/// One path of stretches that follow each other without gaps. Its window has the first one's thread; `None` without a stretch.
pub fn path_of_stretches(graph: &Graph, algorithm: Algorithm, stretches: Vec<Stretch>) -> Option<Path> {
    let (mut segments, mut waits, mut joined) = (Vec::new(), Vec::new(), JoinedSum::default());
    let mut first = None;
    for stretch in stretches {
        match stretch {
            Stretch::Thread(path) => {
                first = first.or(Some(path.window.thread));
                let before = waits.len() as u32;
                let moved = |id: Option<WaitId>| id.map(|id| WaitId(id.0 + before));
                joined.waits += path.joined.waits;
                joined.ns += path.joined.ns;
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
    let problems = problems(graph, &window, &segments, &waits);
    Some(Path { window, algorithm, segments, waits, joined, problems })
}
