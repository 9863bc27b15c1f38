//! Work handed over between threads while another thread waited for it.
//!
//! The thread that ends a wait may have picked the work up late: from a queue, or from a thread that read it. Its own time before the pick-up has
//! nothing to do with the wait:
//!
//! ```text
//! waiter    ....................|=      sends a request, and waits for the answer
//! reader    ~~~~~~=r                    has no CPU, then reads the request and puts it into a queue
//! worker    ~~~~~~~~~~~~~=======a       works for others, takes the request up, and answers
//!           reader   queue  worker      the parts of the wait
//! ```
//!
//! The graph does not show which thread had the work. A caller with that knowledge implements [`HandOvers`].

use std::fmt::Debug;

use wakepath_clock::{Reference, Stamp};
use wakepath_event::Call;
use wakepath_wait_graph::ThreadIndex;

use crate::explain::WaitPart;
use crate::tiles::Trust;
use crate::{Basis, Cause, Rule, SegmentKind, Via};

/// A wait ended by a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedWait {
    /// The waiting thread.
    pub waiter: ThreadIndex,
    /// The wait's beginning.
    pub began: Stamp<Reference>,
    /// The thread that ended the wait.
    pub by: ThreadIndex,
    /// The time of the action that ended the wait, after its beginning.
    pub at: Stamp<Reference>,
}

/// A part of the time of handed-over work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Had {
    /// A thread had the work.
    Thread {
        /// The thread.
        thread: ThreadIndex,
        /// The beginning.
        from: Stamp<Reference>,
        /// The end.
        to: Stamp<Reference>,
    },
    /// No thread had the work: it was in a queue, or a call for it was under way.
    NoThread {
        /// The thread that picked the work up next, and did something else here. If the work was in a queue, this activity kept it waiting.
        next: ThreadIndex,
        /// The beginning.
        from: Stamp<Reference>,
        /// The end.
        to: Stamp<Reference>,
        /// The kind of time: `Queue`, `Network`, or `Unknown`.
        kind: SegmentKind,
        /// The certainty.
        basis: Basis,
    },
}

/// Knowledge about handed-over work.
pub trait HandOvers: Debug {
    /// The parts of a wait from its beginning to its end: they follow each other without gaps, and the last belongs to the thread that ended the
    /// wait. `None` if the work was not handed over, or its way is not known.
    fn parts_of_wait(&self, wait: &EndedWait) -> Option<Vec<Had>>;

    /// The beginning of a thread's work at `at`. `None` if not known.
    fn since(&self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<Stamp<Reference>>;

    /// The rule by which the end explains a thread's own wait in this call, where the thread may have awaited something else.
    fn rule_of_wait(&self, _: ThreadIndex, _: Option<&Call>) -> Option<Rule> {
        None
    }
}

/// The graph alone: no hand-over is known.
#[derive(Debug, Clone, Copy)]
pub struct NoHandOvers;

impl HandOvers for NoHandOvers {
    fn parts_of_wait(&self, _: &EndedWait) -> Option<Vec<Had>> {
        None
    }

    fn since(&self, _: ThreadIndex, _: Stamp<Reference>) -> Option<Stamp<Reference>> {
        None
    }
}

/// The same parts of a wait, which begins at `from`. If a lock was taken out of turn at an unknown time, the taker has it from its pick-up of the
/// work for which it released the lock: a critical section follows the pick-up sooner than the thread woken for the lock gets a CPU. The part stays
/// ambiguous.
pub(crate) fn taken_for_work(
    hand_overs: &dyn HandOvers,
    from: Stamp<Reference>,
    parts: Vec<WaitPart>,
) -> Vec<WaitPart> {
    let mut split = Vec::with_capacity(parts.len());
    let mut begin = from;
    for (place, part) in parts.iter().enumerate() {
        let since = match (part, parts.get(place + 1)) {
            (
                WaitPart::Thread { via: Via::Lock, trust: Trust::Doubtful, .. },
                Some(WaitPart::Thread { thread: taker, via: Via::Lock, acted, .. }),
            ) => hand_overs.since(*taker, *acted).map(|since| (*taker, since)),
            _ => None,
        };
        match (part, since) {
            (WaitPart::Thread { to, acted, via, lock, trust, .. }, Some((thread, since))) if since < *to => {
                let (to, acted, via, lock, trust) = (*to, *acted, *via, *lock, *trust);
                if begin < since {
                    split.push(part.clone().until(since, None));
                }
                split.push(WaitPart::Thread { thread, to, acted, via, lock, trust });
            }
            _ => split.push(part.clone()),
        }
        begin = part.to();
    }
    split
}

/// A part of a wait, and whether the work is in a queue in its time.
pub(crate) struct Piece {
    pub(crate) part: WaitPart,
    pub(crate) queued: bool,
}

/// The pieces of a part of a wait that began at `began`: several if the part's thread picked the work up from others.
pub(crate) fn pieces(
    hand_overs: &dyn HandOvers,
    waiter: ThreadIndex,
    began: Stamp<Reference>,
    part: WaitPart,
) -> Vec<Piece> {
    let whole = |part| vec![Piece { part, queued: false }];
    let WaitPart::Thread {
        thread: by,
        to: end,
        acted,
        via: via @ (Via::Packet | Via::Wakeup),
        lock: None,
        trust,
    } = part
    else {
        return whole(part);
    };
    let is_known = trust != Trust::Doubtful && began < acted;
    let had =
        is_known.then(|| hand_overs.parts_of_wait(&EndedWait { waiter, began, by, at: acted })).flatten();
    let Some(had) = had else { return whole(part) };
    let last = had.len().saturating_sub(1);
    let before = |thread, to: Stamp<Reference>, trust| WaitPart::Thread {
        thread,
        to: to.min(end),
        acted: to,
        via,
        lock: None,
        trust,
    };
    let handed_over = trust.and(Trust::By(Rule::HandedOver));
    let piece = |(place, had)| match had {
        Had::Thread { .. } if place == last => Piece { part: part.clone(), queued: false },
        Had::Thread { thread, to, .. } => Piece { part: before(thread, to, handed_over), queued: false },
        Had::NoThread { next, to, kind: SegmentKind::Queue, basis, .. } => {
            let trust = if basis == Basis::Measured { trust } else { handed_over };
            Piece { part: before(next, to, trust), queued: true }
        }
        // The activity of the thread that had the work next delayed nothing.
        Had::NoThread { to, kind: kind @ SegmentKind::Unknown, basis, .. } => {
            let cause = Cause::NoWakeupSeen;
            Piece { part: WaitPart::Other { to: to.min(end), kind, cause, basis }, queued: false }
        }
        Had::NoThread { from, to, basis, .. } => {
            let cause = Cause::Network { flow: None };
            Piece { part: WaitPart::InFlight { sent: from, to: to.min(end), cause, basis }, queued: false }
        }
    };
    had.into_iter().enumerate().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thread 2, the taker, does its work since the given time, ns.
    #[derive(Debug)]
    struct Since(Option<u64>);

    impl HandOvers for Since {
        fn parts_of_wait(&self, _: &EndedWait) -> Option<Vec<Had>> {
            None
        }

        fn since(&self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<Stamp<Reference>> {
            assert_eq!((thread, at.ns()), (ThreadIndex(2), 90));
            self.0.map(Stamp::from_ns)
        }
    }

    #[test]
    fn a_lock_that_was_taken_at_an_unknown_time_is_had_since_the_taker_took_its_work_up() {
        let part = |thread, to, trust| WaitPart::Thread {
            thread: ThreadIndex(thread),
            to: Stamp::from_ns(to),
            acted: Stamp::from_ns(to),
            via: Via::Lock,
            lock: None,
            trust,
        };
        let sure = Trust::By(Rule::LockTurns);
        let parts = [part(0, 20, sure), part(1, 50, Trust::Doubtful), part(2, 90, sure)];
        for (since, expected) in [
            (None, &[(0, 20, false), (1, 50, true), (2, 90, false)][..]),
            (Some(10), &[(0, 20, false), (2, 50, true), (2, 90, false)]),
            (Some(20), &[(0, 20, false), (2, 50, true), (2, 90, false)]),
            (Some(21), &[(0, 20, false), (1, 21, true), (2, 50, true), (2, 90, false)]),
            (Some(50), &[(0, 20, false), (1, 50, true), (2, 90, false)]),
        ] {
            let split = taken_for_work(&Since(since), Stamp::from_ns(5), parts.to_vec());
            let found = split.into_iter().map(|part| match part {
                WaitPart::Thread { thread, to, trust, .. } => (thread.0, to.ns(), trust == Trust::Doubtful),
                other => panic!("{other:?}"),
            });
            assert_eq!(found.collect::<Vec<_>>(), expected, "{since:?}");
        }
    }

    /// The parts of the work that ended each wait.
    #[derive(Debug)]
    struct Parts(Vec<Had>);

    impl HandOvers for Parts {
        fn parts_of_wait(&self, wait: &EndedWait) -> Option<Vec<Had>> {
            let EndedWait { waiter, by, at, .. } = *wait;
            assert_eq!((waiter, by, at.ns()), (ThreadIndex(9), ThreadIndex(3), 90));
            Some(self.0.clone())
        }

        fn since(&self, _: ThreadIndex, _: Stamp<Reference>) -> Option<Stamp<Reference>> {
            None
        }
    }

    const fn at(ns: u64) -> Stamp<Reference> {
        Stamp::from_ns(ns)
    }

    /// Thread 3's part, up to `to`.
    fn ended(to: u64, via: Via, trust: Trust) -> WaitPart {
        WaitPart::Thread { thread: ThreadIndex(3), to: at(to), acted: at(90), via, lock: None, trust }
    }

    /// A piece as a line: the thread or kind, its end, the time of the action, the certainty, and whether the work is in a queue.
    fn line(piece: &Piece) -> String {
        let queue = if piece.queued { " queue" } else { "" };
        let of_part = match &piece.part {
            WaitPart::Thread { thread, to, acted, trust, .. } => {
                format!("thread {} {} {} {:?}", thread.0, to.ns(), acted.ns(), trust.basis(Basis::Measured))
            }
            WaitPart::Other { to, kind, basis, .. } => format!("{kind:?} {} {basis:?}", to.ns()),
            WaitPart::InFlight { sent, to, basis, .. } => {
                format!("flight {} {} {basis:?}", sent.ns(), to.ns())
            }
        };
        of_part + queue
    }

    fn lines(had: &[Had], began: u64, part: WaitPart) -> Vec<String> {
        pieces(&Parts(had.to_vec()), ThreadIndex(9), at(began), part).iter().map(line).collect()
    }

    #[test]
    fn the_pieces_of_a_wait_are_those_of_whoever_had_the_work() {
        let thread =
            |thread, from, to| Had::Thread { thread: ThreadIndex(thread), from: at(from), to: at(to) };
        let none = |from, to, kind, basis| Had::NoThread {
            next: ThreadIndex(3),
            from: at(from),
            to: at(to),
            kind,
            basis,
        };
        use SegmentKind::{Network, Queue, Unknown};
        let had = [
            thread(3, 10, 20),
            none(20, 30, Queue, Basis::Measured),
            none(30, 40, Queue, Basis::Inferred(Rule::HandedOver)),
            none(40, 50, Unknown, Basis::Ambiguous),
            none(50, 60, Network, Basis::Inferred(Rule::HandedOver)),
            thread(3, 60, 90),
        ];
        // The first turn of the thread that ended the wait does not prove its last turn.
        assert_eq!(
            lines(&had, 10, ended(90, Via::Wakeup, Trust::Sure)),
            [
                "thread 3 20 20 Inferred(HandedOver)",
                "thread 3 30 30 Measured queue",
                "thread 3 40 40 Inferred(HandedOver) queue",
                "Unknown 50 Ambiguous",
                "flight 50 60 Inferred(HandedOver)",
                "thread 3 90 90 Measured",
            ]
        );
        // A part of the wait is explained: no piece is longer than the part.
        assert_eq!(
            lines(&had[..2], 10, ended(15, Via::Packet, Trust::Sure)),
            ["thread 3 15 20 Inferred(HandedOver)", "thread 3 15 30 Measured queue"]
        );
    }

    #[test]
    fn a_wait_whose_end_is_doubtful_or_that_had_ended_is_not_asked_about() {
        let had = [(4, 10, 20), (3, 20, 90)].map(|(thread, from, to)| Had::Thread {
            thread: ThreadIndex(thread),
            from: at(from),
            to: at(to),
        });
        let whole = |began, part: WaitPart| {
            lines(&had, began, part.clone()) == [line(&Piece { part, queued: false })]
        };
        let mine = |via, trust| ended(90, via, trust);
        assert!(whole(10, mine(Via::Wakeup, Trust::Doubtful)));
        assert!(whole(90, mine(Via::Wakeup, Trust::Sure)), "it ended as it began");
        assert!(whole(95, mine(Via::Wakeup, Trust::Sure)), "it ended before it began");
        assert!(whole(10, mine(Via::Lock, Trust::Sure)), "a lock has its own turns");
        let asked = ["thread 4 20 20 Inferred(HandedOver)", "thread 3 90 90 Measured"];
        assert_eq!(lines(&had, 89, mine(Via::Wakeup, Trust::Sure)), asked);
        assert_eq!(lines(&[], 10, mine(Via::Wakeup, Trust::Sure)), [""; 0]);
    }
}
