//! Who and what a window's time went to, added up over the path.

use std::collections::HashMap;

use wakepath_critical_path::{Cause, Kind, Path, Segment};
use wakepath_event::{Context, FlowId};
use wakepath_wait_graph::ThreadIndex;

/// A part of the window.
#[derive(Debug, Clone, PartialEq)]
pub struct Contributor {
    /// Whose time, running or waiting; `None` in flight between hosts.
    pub thread: Option<ThreadIndex>,
    /// What the time went to.
    pub kind: Kind,
    /// Who or what is responsible beyond the thread.
    pub responsible: Responsible,
    /// The number of the system call that the thread was blocked in.
    pub call: Option<u32>,
    /// How many segments were added up.
    pub segments: u64,
    /// Their sum, ns. Authoritative.
    pub total_ns: u64,
    /// That sum as part of the window, 0 to 1; 0 in an empty window.
    pub share: f64,
}

/// A [`Cause`] without what differs from one wait to the next: what contributors are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Responsible {
    /// The thread itself.
    Itself,
    /// Who had the CPU.
    Competitor(ThreadIndex),
    /// A CPU that was idle or on its way out of idleness.
    IdleCpu,
    /// A timer.
    Timer,
    /// A disk, by major << 20 | minor.
    Disk {
        /// Which; `None` where the request was not seen.
        device: Option<u32>,
        /// Waiting in its queue (else: in the device).
        queued: bool,
    },
    /// The other end of a flow.
    Flow(Option<FlowId>),
    /// An interrupt.
    Interrupt {
        /// Its context.
        context: Context,
        /// Its number.
        irq: Option<u16>,
    },
    /// A lock.
    Lock {
        /// Its address.
        address: u64,
        /// It is the kernel's (else a futex).
        kernel: bool,
        /// Its owner when the wait began.
        owner: Option<ThreadIndex>,
    },
    /// Still waiting when the window closed.
    StillWaiting,
    /// The wait began before the recording did.
    BeforeRecording,
    /// A blocked wait with no waking.
    NoWakeupSeen,
    /// Records were lost.
    Lost,
    /// The thread was not alive.
    NotAlive,
}

impl From<&Cause> for Responsible {
    fn from(cause: &Cause) -> Self {
        match *cause {
            Cause::None => Self::Itself,
            Cause::Competitor(thread) => Self::Competitor(thread),
            Cause::IdleCpu => Self::IdleCpu,
            Cause::Timer { .. } => Self::Timer,
            Cause::Block { request, queued } => {
                Self::Disk { device: request.map(|request| request.device), queued }
            }
            Cause::Network { flow } => Self::Flow(flow),
            Cause::Interrupt { context, irq } => Self::Interrupt { context, irq },
            Cause::Lock(lock) => Self::Lock { address: lock.address, kernel: lock.kernel, owner: lock.owner },
            Cause::StillWaiting => Self::StillWaiting,
            Cause::BeforeRecording => Self::BeforeRecording,
            Cause::NoWakeupSeen => Self::NoWakeupSeen,
            Cause::Lost => Self::Lost,
            Cause::NotAlive => Self::NotAlive,
        }
    }
}

type Key = (Option<ThreadIndex>, Kind, Responsible, Option<u32>);

/// Adds up a path's segments by thread, kind, who is responsible and system call. The largest come
/// first; equals in the order of those four, so that the same path always gives the same list.
pub fn contributors(path: &Path) -> Vec<Contributor> {
    let mut sums: HashMap<Key, (u64, u64)> = HashMap::new();
    for segment in &path.segments {
        let (segments, total) = sums.entry(key(segment)).or_default();
        *segments += 1;
        *total += segment.to.since(segment.from);
    }
    let window = path.window.to.since(path.window.from);
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable_by_key(|&(key, (_, total))| (std::cmp::Reverse(total), key));
    sums.into_iter()
        .map(|((thread, kind, responsible, call), (segments, total_ns))| Contributor {
            thread,
            kind,
            responsible,
            call,
            segments,
            total_ns,
            share: if window == 0 { 0.0 } else { total_ns as f64 / window as f64 },
        })
        .collect()
}

fn key(segment: &Segment) -> Key {
    let call = segment.call.map(|call| call.number);
    (segment.thread, segment.kind, Responsible::from(&segment.cause), call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_clock::Stamp;
    use wakepath_critical_path::{Algorithm, Basis, Via, Window};

    fn path(parts: &[(u64, Option<u32>, Kind)]) -> Path {
        let mut at = Stamp::from_ns(1000);
        let from = at;
        let segments = parts
            .iter()
            .map(|&(ns, thread, kind)| {
                let from = at;
                at = at.plus(ns);
                Segment {
                    from,
                    to: at,
                    kind,
                    thread: thread.map(ThreadIndex),
                    parent: None,
                    depth: 0,
                    via: Via::Window,
                    call: None,
                    cause: Cause::None,
                    basis: Basis::Measured,
                }
            })
            .collect();
        let window = Window { thread: ThreadIndex(0), from, to: at };
        Path { window, algorithm: Algorithm::Active, segments, waits: Vec::new(), problems: Vec::new() }
    }

    #[test]
    fn contributors_are_the_whole_window_and_the_largest_comes_first() {
        let path = path(&[
            (3, Some(0), Kind::Running),
            (10, None, Kind::Network),
            (4, Some(0), Kind::Running),
            (7, Some(1), Kind::Running),
        ]);
        let parts = contributors(&path);
        let sums: Vec<_> = parts.iter().map(|part| (part.thread, part.total_ns, part.segments)).collect();
        assert_eq!(
            sums,
            [(None, 10, 1), (Some(ThreadIndex(0)), 7, 2), (Some(ThreadIndex(1)), 7, 1)],
            "equals in order of thread"
        );
        assert!((parts.iter().map(|part| part.share).sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn shares_of_many_parts_still_sum_to_one() {
        let parts: Vec<_> = (0..100_000).map(|i| (1 + i % 7, Some(i as u32), Kind::Running)).collect();
        let sum: f64 = contributors(&path(&parts)).iter().map(|part| part.share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn an_empty_window_has_no_contributors() {
        assert_eq!(contributors(&path(&[])), []);
    }
}
