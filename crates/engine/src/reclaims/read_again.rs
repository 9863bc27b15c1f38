//! Data on a disk, read more than once in a recording.

use std::collections::BTreeMap;

use wakepath_clock::{Local, Stamp};
use wakepath_loaded::Recorded;

/// The sectors in a page of memory.
const SECTORS_IN_PAGE: u64 = 8;

/// A completed read request.
#[derive(Debug, Clone, Copy)]
struct Read {
    at: Stamp<Local>,
    sectors: Sectors,
    /// The sectors read again by requests up to here.
    again: u64,
}

/// A device's sectors, up to before `to`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sectors {
    device: u32,
    from: u64,
    to: u64,
}

impl Sectors {
    /// A request's sectors; `None` without data.
    pub(super) fn new(device: u32, first: u64, bytes: u32) -> Option<Self> {
        let to = first.saturating_add(bytes.div_ceil(512).into());
        (to > first).then_some(Self { device, from: first, to })
    }

    /// Their number.
    pub(super) const fn count(self) -> u64 {
        self.to - self.from
    }
}

/// The reads in a recording, taken in the order in which they end.
pub(super) struct Reads {
    all: Vec<Read>,
    /// The number already taken.
    taken: usize,
    /// By device and first sector: the sector behind. No two ranges touch.
    ranges: BTreeMap<(u32, u64), u64>,
}

impl Reads {
    pub(super) fn new(recorded: &Recorded) -> Self {
        let reads = recorded.survey.intervals.requests.iter().filter(|request| request.of.is_read);
        let read = |request: &wakepath_loaded::Interval<wakepath_loaded::DiskRequest>| {
            let of = request.of;
            Some(Read { at: request.to?, sectors: Sectors::new(of.device, of.sector, of.bytes)?, again: 0 })
        };
        let mut all: Vec<Read> = reads.filter_map(read).collect();
        let (mut ranges, mut again) = (BTreeMap::new(), 0);
        for read in &mut all {
            again += known(&ranges, read.sectors);
            add(&mut ranges, read.sectors);
            read.again = again;
        }
        Self { all, taken: 0, ranges: BTreeMap::new() }
    }

    /// How many sectors among these had been read by `at`; later calls ask for later times.
    pub(super) fn read_before(&mut self, sectors: Sectors, at: Stamp<Local>) -> u64 {
        while let Some(read) = self.all.get(self.taken).filter(|read| read.at <= at) {
            self.taken += 1;
            add(&mut self.ranges, read.sectors);
        }
        known(&self.ranges, sectors)
    }

    /// The pages read again between `from` and `to`.
    pub(super) fn pages_again(&self, from: Stamp<Local>, to: Stamp<Local>) -> u64 {
        let until = |at| {
            let count = self.all.partition_point(|read| read.at <= at);
            self.all[..count].last().map_or(0, |read| read.again)
        };
        until(to).saturating_sub(until(from)) / SECTORS_IN_PAGE
    }
}

/// How many sectors are in the ranges.
fn known(ranges: &BTreeMap<(u32, u64), u64>, sectors: Sectors) -> u64 {
    let Sectors { device, from, to } = sectors;
    let before = ranges.range((device, 0)..(device, to)).rev();
    before.take_while(|&(_, &end)| end > from).map(|(&(_, first), &end)| end.min(to) - first.max(from)).sum()
}

fn add(ranges: &mut BTreeMap<(u32, u64), u64>, sectors: Sectors) {
    let Sectors { device, mut from, mut to } = sectors;
    while let Some((&(_, first), &end)) = ranges.range((device, 0)..=(device, to)).next_back()
        && end >= from
    {
        ranges.remove(&(device, first));
        (from, to) = (from.min(first), to.max(end));
    }
    ranges.insert((device, from), to);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sectors(from: u64, to: u64) -> Sectors {
        Sectors { device: 8, from, to }
    }

    #[test]
    fn ranges_of_sectors_join_where_they_touch_and_count_once() {
        let mut ranges = BTreeMap::new();
        for (from, to, before, count) in [
            (10, 20, 0, 1),
            (30, 40, 0, 2),
            // Apart by one sector, then touching.
            (21, 29, 0, 3),
            (20, 21, 0, 2),
            (29, 30, 0, 1),
            (10, 40, 30, 1),
            (5, 15, 5, 1),
            (39, 50, 1, 1),
            (0, 100, 45, 1),
        ] {
            assert_eq!(known(&ranges, sectors(from, to)), before, "{from}..{to}");
            add(&mut ranges, sectors(from, to));
            assert_eq!(ranges.len(), count, "{from}..{to}: {ranges:?}");
        }
        assert_eq!(known(&ranges, sectors(99, 101)), 1);
        assert_eq!(known(&ranges, sectors(100, 101)), 0);
        assert_eq!(known(&ranges, Sectors { device: 9, ..sectors(0, 9) }), 0, "another device");
    }

    #[test]
    fn a_request_without_data_has_no_sectors() {
        let count = |bytes| Sectors::new(8, 7, bytes).map(Sectors::count);
        assert_eq!([0, 1, 512, 513].map(count), [None, Some(1), Some(1), Some(2)]);
        assert_eq!(Sectors::new(8, u64::MAX, 4096).map(Sectors::count), None);
    }
}
