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
                let of = event.current;
                let before = self.contended.get(&of).copied();
                if before.is_none_or(|(address, _)| address != lock.address) {
                    let unended = |(_, from)| Interval { of, from: Some(from), to: None };
                    self.lock_waits.extend(before.map(unended));
                    self.contended.insert(of, (lock.address, event.at));
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
    use super::*;

    fn found(text: &str) -> Intervals {
        let mut intervals = Intervals::default();
        let events = wakepath_scenario::text::parse(text).expect("a trace").events;
        events.iter().for_each(|event| intervals.observe(event));
        intervals
    }

    fn spans<K: Copy>(intervals: &[Interval<K>]) -> Vec<(K, Option<u64>, Option<u64>)> {
        let ns = |at: Option<Stamp<Local>>| at.map(Stamp::ns);
        intervals.iter().map(|one| (one.of, ns(one.from), ns(one.to))).collect()
    }

    #[test]
    fn a_request_is_from_its_last_issue_to_its_first_completion() {
        let intervals = found(
            "10 c0 #1 complete 9 issued=1
             20 c0 #1 issue 5 issued=1
             25 c0 #1 issue 6 issued=1
             30 c0 #1 issue 5 issued=1
             40 c0 idle complete 5 issued=1
             50 c0 idle complete 5 issued=1",
        );
        let disk = 8 << 20;
        assert_eq!(
            spans(&intervals.requests),
            [(disk, None, Some(10)), (disk, Some(30), Some(40)), (disk, None, Some(50))]
        );
        assert_eq!(intervals.open_requests().collect::<Vec<_>>(), [(disk, Stamp::from_ns(25))]);
    }

    #[test]
    fn a_wait_for_a_lock_ends_with_that_lock_and_a_thread_has_one_at_a_time() {
        let intervals = found(
            "10 c0 #7 lock 1
             20 c0 #7 lock 1
             30 c0 #8 lock 1
             40 c0 #7 unlock 1
             50 c0 #8 lock 2
             60 c0 #8 unlock 3
             70 c0 #9 lock 4",
        );
        assert_eq!(
            spans(&intervals.lock_waits),
            [(Tid(7), Some(10), Some(40)), (Tid(8), Some(30), None), (Tid(8), None, Some(60))]
        );
        assert_eq!(intervals.open_lock_waits().collect::<Vec<_>>(), [(Tid(9), Stamp::from_ns(70))]);
    }
}
