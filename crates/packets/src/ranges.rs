//! The bytes of TCP streams, as they passed a host.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::FixedState;
use wakepath_event::FlowId;

use crate::flows::StreamKey;
use crate::header::Place;

/// Consecutive bytes in their first sighting on a host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    /// The first byte, in a sequence that does not wrap.
    start: u64,
    pub len: u32,
    /// On the host's clock.
    pub at: u64,
    /// On the clock that all hosts nearly share.
    pub common: u64,
    pub place: Place,
    /// Whether some bytes passed the same place again.
    pub repeated: bool,
}

impl Range {
    fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    /// The first byte's sequence number.
    pub(crate) fn seq(&self) -> u32 {
        self.start as u32
    }
}

/// A stream on a host.
#[derive(Debug)]
struct Stream {
    flow: FlowId,
    /// By place in the stream; no two overlap.
    ranges: VecDeque<Range>,
    /// One past the last byte ever seen.
    top: u64,
}

/// A host's recent streams.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: HashMap<StreamKey, Stream, FixedState>,
    /// In time order: ranges not yet settled, then ranges not yet forgotten.
    young: VecDeque<PendingRange>,
    old: VecDeque<PendingRange>,
    count: usize,
}

#[derive(Debug, Clone, Copy)]
struct PendingRange {
    stream: StreamKey,
    start: u64,
    common: u64,
}

/// The send of received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The latest first send among these bytes, on the sender's clock.
    pub at: u64,
    /// Whether some bytes were sent again.
    pub repeated: bool,
}

impl Streams {
    pub(crate) fn add(
        &mut self,
        (stream, flow): (StreamKey, FlowId),
        (seq, len): (u32, u32),
        (at, common): (u64, u64),
        place: Place,
    ) {
        let known = self.streams.entry(stream).or_insert_with(|| {
            // One turn ahead, so that earlier bytes have a place, too.
            let start = (1 << 32) + u64::from(seq);
            Stream { flow, ranges: VecDeque::new(), top: start }
        });
        let start = unwrapped(known.top, seq);
        let range = Range { start, len, at, common, place, repeated: false };
        if let Some(index) = known.add(range) {
            let start = known.ranges[index].start;
            self.count += 1;
            self.young.push_back(PendingRange { stream, start, common });
        }
    }

    /// The next range to settle, if its common time is at most `until`.
    pub(crate) fn next_due(&mut self, until: u64) -> Option<(StreamKey, FlowId, Range)> {
        loop {
            let due = *self.young.front().filter(|due| due.common <= until)?;
            self.young.pop_front();
            self.old.push_back(due);
            let found = self.streams.get(&due.stream).and_then(|stream| {
                let index = stream.place(due.start)?;
                Some((due.stream, stream.flow, stream.ranges[index]))
            });
            if found.is_some() {
                return found;
            }
        }
    }

    /// Forgets settled ranges with common times up to `until`.
    pub(crate) fn forget(&mut self, until: u64) {
        while let Some(&due) = self.old.front().filter(|due| due.common <= until) {
            self.old.pop_front();
            let Some(stream) = self.streams.get_mut(&due.stream) else { continue };
            if let Some(index) = stream.place(due.start) {
                stream.ranges.remove(index);
                self.count -= 1;
            }
            if stream.ranges.is_empty() {
                self.streams.remove(&due.stream);
            } else if stream.ranges.len() < stream.ranges.capacity() / 4 {
                stream.ranges.shrink_to(stream.ranges.len() * 2);
            }
        }
    }

    /// This host's send of these bytes, between two common times; `None` unless it sent all of them.
    pub(crate) fn sent(&self, key: StreamKey, received: &Range, between: (u64, u64)) -> Option<Sent> {
        let stream = self.streams.get(&key)?;
        let start = unwrapped(stream.top, received.seq());
        let end = start + u64::from(received.len);
        let mut at = start;
        let mut last = 0;
        let mut repeated = false;
        for range in stream.ranges.range(stream.after(start)..) {
            if range.start > at || at >= end {
                break;
            }
            let in_time = between.0 <= range.common && range.common <= between.1;
            if !range.place.out || !in_time {
                return None;
            }
            repeated |= range.repeated;
            last = last.max(range.at);
            at = range.end();
        }
        if at < end {
            return None;
        }
        Some(Sent { at: last, repeated })
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

impl Stream {
    /// The index of the range that begins at `start`.
    fn place(&self, start: u64) -> Option<usize> {
        // The forgotten range is nearly always the first.
        if self.ranges.front().is_some_and(|first| first.start == start) {
            return Some(0);
        }
        self.ranges.binary_search_by_key(&start, |range| range.start).ok()
    }

    /// The index of the first range that ends behind this place.
    fn after(&self, start: u64) -> usize {
        self.ranges.partition_point(|range| range.end() <= start)
    }

    /// Adds the new part of a range; returns its index, `None` without a new part.
    fn add(&mut self, mut range: Range) -> Option<usize> {
        if range.start >= self.top {
            self.top = range.end();
            self.ranges.push_back(range);
            return Some(self.ranges.len() - 1);
        }
        let from = self.after(range.start);
        let to = self.ranges.partition_point(|before| before.start < range.end());
        let overlap = from < to;
        for before in self.ranges.range_mut(from..to.max(from)) {
            before.repeated |= before.place == range.place;
        }
        if range.end() > self.top {
            // Old and new bytes in a packet: the old bytes' sighting is unclear.
            range.len = (range.end() - self.top) as u32;
            range.start = self.top;
            range.repeated = true;
            self.top = range.end();
            self.ranges.push_back(range);
            return Some(self.ranges.len() - 1);
        }
        // Received late, into a gap: out of order. But bytes sent from below the top were sent before,
        // whether they are still remembered or not.
        if overlap || range.place.out {
            return None;
        }
        self.ranges.insert(from, range);
        Some(from)
    }
}

/// The place nearest to `near` with this sequence number, which wraps at 2^32.
fn unwrapped(near: u64, seq: u32) -> u64 {
    let ahead = seq.wrapping_sub(near as u32).cast_signed();
    near.saturating_add_signed(ahead.into())
}

#[cfg(test)]
mod tests {
    use wakepath_event::{Direction, Packet};

    use super::*;

    #[test]
    fn a_stream_that_was_long_gives_its_memory_back() {
        let (flow, direction) = (FlowId(1), Direction::Out);
        let packet =
            Packet { flow, direction, seq: 0, ack: 0, len: 10, tcp_flags: 16, netns: 1, interface: 1 };
        let key = StreamKey(3);
        let mut streams = Streams::default();
        for i in 0..4096_u32 {
            streams.add((key, flow), (i * 10, 10), (i.into(), i.into()), Place::of(&packet));
        }
        while streams.next_due(u64::MAX).is_some() {}
        let capacity = |streams: &Streams| streams.streams[&key].ranges.capacity();
        let mut expected = capacity(&streams);
        for forgotten in 1..4096 {
            streams.forget(forgotten - 1);
            let remaining = 4096 - forgotten as usize;
            // If less than a quarter is in use, half of the rest is freed.
            if remaining < expected / 4 {
                expected = remaining * 2;
            }
            assert_eq!((streams.len(), capacity(&streams)), (remaining, expected));
        }
        streams.forget(4095);
        assert!(streams.len() == 0 && streams.streams.is_empty());
    }
}
