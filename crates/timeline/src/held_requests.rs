//! Disk requests held back by a cgroup's I/O limit, from release to issue.
//!
//! The kernel reports a release per bio, its unit for disk input and output. The device's queue makes requests from bios later:
//! it may merge several, or split one. So releases and requests are matched by their sectors.
//!
//! A flush has no data and no sectors. The kernel issues a request of its own for it, so the empty request completes without an
//! issue; it began after its release.

use std::collections::VecDeque;

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{BlockRequest, HeldRequest};

use crate::HeldBack;

/// The most releases without their whole issue. The kernel lets 32 requests go at once.
const MAX_RELEASED: usize = 512;

const SECTOR_BYTES: u32 = 512;

#[derive(Debug, Default)]
pub(crate) struct HeldRequests {
    released: VecDeque<Released>,
    /// Empty requests that have not completed.
    flushes: VecDeque<Released>,
}

#[derive(Debug)]
struct Released {
    device: u32,
    operation: u8,
    /// The sectors not issued yet.
    from: u64,
    to: u64,
    held: HeldBack,
}

impl HeldRequests {
    pub(crate) fn release(&mut self, request: &HeldRequest, until: Stamp<Reference>) {
        let HeldRequest { cgroup, device, sector: from, bytes, operation } = *request;
        let held = HeldBack { until, cgroup };
        let to = end(from, bytes);
        let all = if from < to { &mut self.released } else { &mut self.flushes };
        if all.len() == MAX_RELEASED {
            all.pop_front();
        }
        all.push_back(Released { device, operation, from, to, held });
    }

    /// The last release among the bios in an issued request.
    pub(crate) fn issue(&mut self, request: &BlockRequest) -> Option<HeldBack> {
        let (from, to) = (request.sector, end(request.sector, request.bytes));
        let mut last = None;
        self.released.retain_mut(|released| {
            let is_in = released.device == request.device
                && released.operation == request.operation
                && released.from < to
                && from < released.to;
            if is_in {
                last = Some(released.held);
                // A bio is split from its front on.
                released.from = to;
            }
            released.from < released.to
        });
        last
    }
}

impl HeldRequests {
    /// The hold of an empty request that completes without an issue: the last release before its beginning.
    pub(crate) fn flush(&mut self, request: &BlockRequest, start: Stamp<Reference>) -> Option<HeldBack> {
        let is_it = |flush: &Released| {
            flush.device == request.device
                && flush.operation == request.operation
                && flush.held.until <= start
        };
        let last = self.flushes.iter().rposition(is_it).filter(|_| request.bytes == 0)?;
        self.flushes.remove(last).map(|flush| flush.held)
    }
}

/// The sector behind a request.
fn end(sector: u64, bytes: u32) -> u64 {
    sector.saturating_add(bytes.div_ceil(SECTOR_BYTES).into())
}

#[cfg(test)]
mod tests {
    use wakepath_event::CgroupId;

    use super::*;

    const WRITE: u8 = 1;

    fn held(sector: u64, sectors: u32) -> HeldRequest {
        HeldRequest { cgroup: CgroupId(sector), device: 8, sector, bytes: sectors * 512, operation: WRITE }
    }

    fn issued(sector: u64, sectors: u32) -> BlockRequest {
        let bytes = sectors * 512;
        BlockRequest { id: 1, device: 8, sector, bytes, operation: WRITE, start: None, issued: None }
    }

    /// The requests, each released at the time that is its place, from 1 on.
    fn released(requests: &[HeldRequest]) -> HeldRequests {
        let mut all = HeldRequests::default();
        (1..).zip(requests).for_each(|(at, request)| all.release(request, Stamp::from_ns(at)));
        all
    }

    fn until(requests: &mut HeldRequests, request: &BlockRequest) -> Option<u64> {
        requests.issue(request).map(|held| held.until.ns())
    }

    #[test]
    fn a_request_was_held_until_the_release_of_its_sectors() {
        let mut requests = released(&[held(100, 8), held(200, 8)]);
        assert_eq!(requests.issue(&issued(200, 8)).map(|held| held.cgroup), Some(CgroupId(200)));
        assert_eq!(until(&mut requests, &issued(200, 8)), None, "it was issued");
        assert_eq!(until(&mut requests, &issued(108, 8)), None, "the sectors behind");
        assert_eq!(until(&mut requests, &issued(92, 8)), None, "the sectors in front");
        assert_eq!(until(&mut requests, &issued(107, 8)), Some(1), "one sector is enough");
    }

    #[test]
    fn merged_bios_were_held_until_the_last_release_and_each_part_of_a_split_one_was_held() {
        let mut merged = released(&[held(108, 8), held(100, 8)]);
        assert_eq!(until(&mut merged, &issued(100, 16)), Some(2));
        assert_eq!(until(&mut merged, &issued(108, 8)), None);
        let mut split = released(&[held(100, 24)]);
        for (sector, expected) in [(100, Some(1)), (108, Some(1)), (116, Some(1)), (116, None)] {
            assert_eq!(until(&mut split, &issued(sector, 8)), expected, "{sector}");
        }
    }

    #[test]
    fn another_disk_or_operation_and_a_request_without_data_match_nothing() {
        let mut requests = released(&[held(100, 8), held(300, 0)]);
        assert_eq!(until(&mut requests, &BlockRequest { device: 9, ..issued(100, 8) }), None);
        assert_eq!(until(&mut requests, &BlockRequest { operation: 0, ..issued(100, 8) }), None);
        assert_eq!(until(&mut requests, &issued(300, 0)), None);
        assert_eq!(until(&mut requests, &issued(100, 0)), None);
        assert_eq!(until(&mut requests, &issued(u64::MAX, 8)), None);
        assert_eq!(until(&mut requests, &issued(100, 8)), Some(1));
    }

    #[test]
    fn a_flush_was_held_until_the_last_release_before_it_began() {
        let flush = |requests: &mut HeldRequests, request: BlockRequest, start| {
            requests.flush(&request, Stamp::from_ns(start)).map(|held| held.until.ns())
        };
        let mut requests = released(&[held(0, 0), held(0, 8), held(0, 0)]);
        assert_eq!(flush(&mut requests, BlockRequest { device: 9, ..issued(0, 0) }, 9), None);
        assert_eq!(flush(&mut requests, BlockRequest { operation: 2, ..issued(0, 0) }, 9), None);
        assert_eq!(flush(&mut requests, issued(0, 8), 9), None, "it has data");
        assert_eq!(flush(&mut requests, issued(0, 0), 2), Some(1), "another was let go behind its beginning");
        assert_eq!(flush(&mut requests, issued(0, 0), 3), Some(3));
        assert_eq!(flush(&mut requests, issued(0, 0), 9), None, "it completed");
        let many = vec![held(0, 0); 2 * MAX_RELEASED];
        assert_eq!(released(&many).flushes.len(), MAX_RELEASED);
    }

    #[test]
    fn releases_without_an_issue_take_bounded_room() {
        let many: Vec<_> = (0..3 * MAX_RELEASED as u64).map(|place| held(place * 8, 8)).collect();
        let mut requests = released(&many);
        assert_eq!(requests.released.len(), MAX_RELEASED);
        assert_eq!(until(&mut requests, &issued(0, 8)), None, "the oldest went");
        assert!(until(&mut requests, &issued((many.len() as u64 - 1) * 8, 8)).is_some());
    }
}
