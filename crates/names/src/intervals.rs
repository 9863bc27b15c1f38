//! Intervals that begin with one event and end with another, and are no state of a thread: requests of disks, and
//! waits for kernel locks.

use std::collections::HashMap;

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Event, EventKind, Tid};

/// From an event to the one that belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval<K> {
    /// The request or wait.
    pub of: K,
    /// Its beginning; `None` where that was not seen.
    pub from: Option<Stamp<Local>>,
    /// Its end; `None` where that was not seen: something that cannot begin before it is over began.
    pub to: Option<Stamp<Local>>,
}

/// All of a recording, in the order of their ends.
#[derive(Debug, Clone, Default)]
pub struct Intervals {
    /// Requests, from where they went to the device (major << 20 | minor) until they were completed.
    pub requests: Vec<Interval<u32>>,
    /// Waits of threads for kernel locks.
    pub lock_waits: Vec<Interval<Tid>>,
    issued: HashMap<u64, (u32, Stamp<Local>)>,
    contended: HashMap<Tid, (u64, Stamp<Local>)>,
}

impl Intervals {
    /// Takes what this event begins or ends. Events come in time order.
    pub fn observe(&mut self, event: &Event) {
        match &event.kind {
            // One that is issued again before it was completed had been put back.
            EventKind::BlockIssue(request) => {
                self.issued.insert(request.id, (request.device, event.at));
            }
            // The kernel's own stamp of the issue is of no use here: a request that completes in parts would
            // be several.
            EventKind::BlockComplete(request) => {
                let from = self.issued.remove(&request.id).map(|(_, at)| at);
                self.requests.push(Interval { of: request.device, from, to: Some(event.at) });
            }
            // An interrupt waits for nobody by sleeping.
            EventKind::LockBegin(lock) if !event.context.is_interrupt() => {
                let thread = event.current;
                match self.contended.get(&thread) {
                    Some(&(address, _)) if address == lock.address => {}
                    before => {
                        if let Some(&(_, from)) = before {
                            self.lock_waits.push(Interval { of: thread, from: Some(from), to: None });
                        }
                        self.contended.insert(thread, (lock.address, event.at));
                    }
                }
            }
            EventKind::LockEnd(lock) if !event.context.is_interrupt() => {
                let begun = self.contended.remove(&event.current);
                let from = begun.filter(|&(address, _)| address == lock.address).map(|(_, at)| at);
                self.lock_waits.push(Interval { of: event.current, from, to: Some(event.at) });
            }
            _ => {}
        }
    }

    /// Requests that were not completed: of which device, and since when.
    pub fn open_requests(&self) -> impl Iterator<Item = (u32, Stamp<Local>)> {
        self.issued.values().copied()
    }

    /// Waits that were not over: of which thread, and since when.
    pub fn open_lock_waits(&self) -> impl Iterator<Item = (Tid, Stamp<Local>)> {
        self.contended.iter().map(|(&thread, &(_, at))| (thread, at))
    }
}

#[cfg(test)]
mod tests {
    use wakepath_event::{BlockRequest, KernelLock};

    use super::*;
    use crate::testing::event;

    fn told(events: &[(u64, u32, EventKind)]) -> Intervals {
        let mut intervals = Intervals::default();
        for (at, current, what) in events {
            intervals.observe(&event(*at, 0, *current, what.clone()));
        }
        intervals
    }

    fn spans<K: Copy>(intervals: &[Interval<K>]) -> Vec<(K, Option<u64>, Option<u64>)> {
        let ns = |at: Option<Stamp<Local>>| at.map(Stamp::ns);
        intervals.iter().map(|one| (one.of, ns(one.from), ns(one.to))).collect()
    }

    #[test]
    fn a_request_is_from_its_last_issue_to_its_first_completion() {
        let request = |id| BlockRequest {
            id,
            device: 8 << 20,
            sector: 0,
            bytes: 512,
            operation: 0,
            start: None,
            issued: Some(Stamp::from_ns(1)),
        };
        let intervals = told(&[
            (10, 1, EventKind::BlockComplete(request(9))),
            (20, 1, EventKind::BlockIssue(request(5))),
            (25, 1, EventKind::BlockIssue(request(6))),
            (30, 1, EventKind::BlockIssue(request(5))),
            (40, 0, EventKind::BlockComplete(request(5))),
            (50, 0, EventKind::BlockComplete(request(5))),
        ]);
        let disk = 8 << 20;
        assert_eq!(
            spans(&intervals.requests),
            [(disk, None, Some(10)), (disk, Some(30), Some(40)), (disk, None, Some(50))]
        );
        assert_eq!(intervals.open_requests().collect::<Vec<_>>(), [(disk, Stamp::from_ns(25))]);
    }

    #[test]
    fn a_wait_for_a_lock_ends_with_that_lock_and_a_thread_has_one_at_a_time() {
        let lock = |address| KernelLock { address, flags: 32, owner: None };
        let intervals = told(&[
            (10, 7, EventKind::LockBegin(lock(1))),
            (20, 7, EventKind::LockBegin(lock(1))),
            (30, 8, EventKind::LockBegin(lock(1))),
            (40, 7, EventKind::LockEnd(lock(1))),
            (50, 8, EventKind::LockBegin(lock(2))),
            (60, 8, EventKind::LockEnd(lock(3))),
            (70, 9, EventKind::LockBegin(lock(4))),
        ]);
        assert_eq!(
            spans(&intervals.lock_waits),
            [(Tid(7), Some(10), Some(40)), (Tid(8), Some(30), None), (Tid(8), None, Some(60))]
        );
        assert_eq!(intervals.open_lock_waits().collect::<Vec<_>>(), [(Tid(9), Stamp::from_ns(70))]);
    }
}
