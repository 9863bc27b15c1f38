//! Intervals from one event to another, other than thread states: disk requests, and waits for kernel locks.

use std::collections::HashMap;

use wakepath_clock::{Local, Stamp};
use wakepath_event::{BlockRequest, Event, EventKind, Reclaim, Tid};

/// From an event to its counterpart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval<K> {
    /// The request or wait.
    pub of: K,
    /// Its beginning; `None` if not seen.
    pub from: Option<Stamp<Local>>,
    /// Its end; `None` if not seen: the next interval, which cannot begin before this end, had begun.
    pub to: Option<Stamp<Local>>,
}

/// A disk request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRequest {
    /// The device (major << 20 | minor).
    pub device: u32,
    /// Its first 512-byte sector.
    pub sector: u64,
    /// Its size, bytes.
    pub bytes: u32,
    /// Whether it reads.
    pub is_read: bool,
    /// The thread that sent it to the device; `None` if an interrupt did, or if not seen.
    pub issuer: Option<Tid>,
}

/// All intervals in a recording, ordered by their ends.
#[derive(Debug, Clone, Default)]
pub struct Intervals {
    /// Disk requests, from issue to completion.
    pub requests: Vec<Interval<DiskRequest>>,
    /// Threads' waits for kernel locks.
    pub lock_waits: Vec<Interval<Tid>>,
    /// Reclaims of memory for a cgroup's memory limit, each with its thread.
    pub reclaims: Vec<(Stamp<Local>, Tid, Reclaim)>,
    issued: HashMap<u64, (DiskRequest, Stamp<Local>)>,
    contended: HashMap<Tid, (u64, Stamp<Local>)>,
}

impl Intervals {
    /// Takes the interval that an event begins or ends. Events come in time order.
    pub fn observe(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Reclaim(reclaim) => self.reclaims.push((event.at, event.current, *reclaim)),
            // A request issued again before its completion had been put back.
            EventKind::BlockIssue(request) => {
                let issuer = Some(event.current).filter(|_| !event.context.is_interrupt());
                let issued = DiskRequest { issuer, ..disk_request(request) };
                self.issued.insert(request.id, (issued, event.at));
            }
            // The kernel's own issue stamp is no use here: a request that completes in parts would be several.
            EventKind::BlockComplete(request) => {
                let issued = self.issued.remove(&request.id);
                let of = issued.map_or(disk_request(request), |(issued, _)| issued);
                self.requests.push(Interval { of, from: issued.map(|(_, at)| at), to: Some(event.at) });
            }
            // An interrupt never waits by sleeping.
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

    /// Uncompleted requests, and their beginnings.
    pub fn open_requests(&self) -> impl Iterator<Item = (DiskRequest, Stamp<Local>)> {
        self.issued.values().copied()
    }

    /// Unfinished waits: the thread, and the beginning.
    pub fn open_lock_waits(&self) -> impl Iterator<Item = (Tid, Stamp<Local>)> {
        self.contended.iter().map(|(&thread, &(_, at))| (thread, at))
    }
}

/// A request without its issuer.
const fn disk_request(request: &BlockRequest) -> DiskRequest {
    let BlockRequest { device, sector, bytes, .. } = *request;
    DiskRequest { device, sector, bytes, is_read: request.is_read(), issuer: None }
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
            "10 c0 #1 complete 9 issued=1 bytes=512
             20 c0 #1 issue 5 issued=1
             25 c0 #1 issue 6 issued=1
             30 c0 #2 issue 5 issued=1 bytes=8192
             40 c0 idle complete 5 issued=1 bytes=4096
             50 c0 idle complete 5 issued=1",
        );
        let device = 8 << 20;
        let disk = |bytes, issuer: Option<u32>| {
            let issuer = issuer.map(Tid);
            DiskRequest { device, sector: 0, bytes, is_read: false, issuer }
        };
        assert_eq!(
            spans(&intervals.requests),
            [
                (disk(512, None), None, Some(10)),
                (disk(8192, Some(2)), Some(30), Some(40)),
                (disk(4096, None), None, Some(50))
            ]
        );
        let open = (disk(4096, Some(1)), Stamp::from_ns(25));
        assert_eq!(intervals.open_requests().collect::<Vec<_>>(), [open]);
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

    #[test]
    fn an_interrupt_sends_requests_for_nobody_and_waits_for_no_lock() {
        let intervals = found(
            "10 c0 #7/net_rx issue 5
             20 c0 #7/net_rx lock 1
             30 c0 #7 lock 2
             40 c0 #7/net_rx unlock 2
             50 c0 #7 unlock 2
             60 c0 #7 complete 5",
        );
        assert_eq!(spans(&intervals.lock_waits), [(Tid(7), Some(30), Some(50))]);
        let [request] = &intervals.requests[..] else { panic!("one request") };
        assert_eq!((request.of.issuer, request.from.map(Stamp::ns)), (None, Some(10)));
    }

    #[test]
    fn each_request_that_has_not_completed_is_open() {
        let intervals = found("10 c0 #7 issue 5\n20 c0 #8 issue 6\n30 c0 #8 complete 6");
        let open: Vec<_> = intervals.open_requests().map(|(request, at)| (request.issuer, at.ns())).collect();
        assert_eq!(open, [(Some(Tid(7)), 10)]);
        assert_eq!(found("10 c0 #7 lock 1\n20 c0 #7 unlock 1").open_lock_waits().count(), 0);
    }
}
