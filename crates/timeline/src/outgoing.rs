//! The bytes of TCP streams as they were sent, for packets that arrive otherwise cut than they left.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::FixedState;
use wakepath_event::FlowId;

use crate::{Sender, Sent};

/// Ranges of bytes that were sent of late, by their place in their stream.
///
/// Segmentation offload hands a device up to 64 KiB at once. Where that is cut on its way within the
/// host (by the token bucket of a shaper, by a device that cannot), no packet arrives that has the
/// header of the one that was sent. Its bytes tell.
#[derive(Debug)]
pub(crate) struct Outgoing {
    streams: HashMap<FlowId, VecDeque<Range>, FixedState>,
    /// Whose each range is, the oldest first.
    order: VecDeque<FlowId>,
    max_ranges: usize,
}

#[derive(Debug, Clone, Copy)]
struct Range {
    seq: u32,
    len: u32,
    sent: Sent,
}

impl Range {
    /// How far its end lies behind this byte; not positive if it ends before.
    fn bytes_past(&self, byte: u32) -> i32 {
        self.seq.wrapping_add(self.len).wrapping_sub(byte).cast_signed()
    }
}

impl Outgoing {
    /// Remembers so many ranges of all streams together.
    pub(crate) fn new(max_ranges: usize) -> Self {
        Self { streams: HashMap::default(), order: VecDeque::new(), max_ranges }
    }

    /// A stream begins, perhaps under the name of one before.
    pub(crate) fn begin(&mut self, stream: FlowId) {
        if let Some(ranges) = self.streams.get_mut(&stream) {
            ranges.clear();
        }
    }

    /// These bytes were sent. What was sent before stays as it was the first time.
    pub(crate) fn send(&mut self, stream: FlowId, mut seq: u32, mut len: u32, sent: Sent) {
        // No segment is that long; a longer one would not fit into half of all numbers.
        if len == 0 || len > 1 << 30 {
            return;
        }
        let ranges = self.streams.entry(stream).or_default();
        if let Some(again @ 1..) = ranges.back().map(|last| last.bytes_past(seq)) {
            let again = again.cast_unsigned();
            if again >= len {
                return;
            }
            (seq, len) = (seq.wrapping_add(again), len - again);
        }
        ranges.push_back(Range { seq, len, sent });
        self.order.push_back(stream);
        if self.order.len() > self.max_ranges {
            self.forget();
        }
    }

    fn forget(&mut self) {
        let Some(stream) = self.order.pop_front() else { return };
        let Some(ranges) = self.streams.get_mut(&stream) else { return };
        ranges.pop_front();
        if ranges.is_empty() {
            self.streams.remove(&stream);
        }
    }

    /// How the last of these bytes was sent. If that was not seen, as what lies around it in the stream,
    /// where that is one and the same; else no later than what follows it.
    pub(crate) fn find(&self, stream: FlowId, seq: u32, len: u32) -> Option<Sent> {
        let byte = seq.wrapping_add(len.checked_sub(1)?);
        let ranges = self.streams.get(&stream)?;
        let index = ranges.partition_point(|range| range.bytes_past(byte) <= 0);
        let range = ranges.get(index)?;
        let seen = byte.wrapping_sub(range.seq) < range.len;
        let before = index.checked_sub(1).map(|before| ranges[before].sent);
        let known = seen || before == Some(range.sent);
        Some(if known { range.sent } else { Sent { by: Sender::Unseen, ..range.sent } })
    }

    /// How the last bytes of a stream were sent.
    pub(crate) fn last(&self, stream: FlowId) -> Option<Sent> {
        Some(self.streams.get(&stream)?.back()?.sent)
    }
}

#[cfg(test)]
mod tests {
    use wakepath_clock::Stamp;

    use super::*;
    use crate::ThreadIndex;

    const STREAM: FlowId = FlowId(7);

    fn sent(at: u64) -> Sent {
        Sent { at: Stamp::from_ns(at), by: Sender::Thread(ThreadIndex(0)) }
    }

    /// When, if that was seen; and by when at the latest.
    fn found(outgoing: &Outgoing, seq: u32, len: u32) -> Option<(u64, bool)> {
        outgoing.find(STREAM, seq, len).map(|sent| (sent.at.ns(), sent.by != Sender::Unseen))
    }

    const fn seen(at: u64) -> Option<(u64, bool)> {
        Some((at, true))
    }

    #[test]
    fn the_last_byte_tells_which_sending_it_was_also_where_numbers_wrap() {
        for begin in [0_u32, 1, u32::MAX - 1500, u32::MAX / 2 - 1500] {
            let mut outgoing = Outgoing::new(100);
            for n in 0..3 {
                outgoing.send(STREAM, begin.wrapping_add(n * 1000), 1000, sent(n.into()));
            }
            let find = |offset, len| found(&outgoing, begin.wrapping_add(offset), len);
            assert_eq!([find(0, 1), find(0, 1000), find(999, 1)], [seen(0); 3]);
            assert_eq!([find(1000, 1), find(500, 1000), find(0, 2000)], [seen(1); 3]);
            assert_eq!([find(2999, 1), find(0, 3000)], [seen(2); 2]);
            assert_eq!([find(3000, 1), find(2000, 1001), find(0, 0)], [None; 3]);
        }
    }

    #[test]
    fn what_nobody_saw_leaving_left_no_later_than_what_follows_it() {
        let mut outgoing = Outgoing::new(100);
        outgoing.send(STREAM, 1000, 1000, sent(1));
        outgoing.send(STREAM, 5000, 1000, sent(2));
        assert_eq!(found(&outgoing, 2000, 3000), Some((2, false)));
        assert_eq!(found(&outgoing, 0, 1000), Some((1, false)), "it was on its way at the beginning");
        assert_eq!(found(&outgoing, 6000, 1), None);
        // What leads back to the same sending as what comes before.
        outgoing.send(STREAM, 7000, 1000, sent(2));
        assert_eq!(found(&outgoing, 6000, 1), seen(2));
    }

    #[test]
    fn what_is_sent_again_was_sent_the_first_time() {
        let mut outgoing = Outgoing::new(100);
        for (seq, at) in [(0, 1), (1000, 2), (0, 3), (1000, 4), (1500, 5)] {
            outgoing.send(STREAM, seq, 1000, sent(at));
        }
        assert_eq!([found(&outgoing, 0, 1000), found(&outgoing, 1000, 1000)], [seen(1), seen(2)]);
        assert_eq!([found(&outgoing, 1999, 1), found(&outgoing, 2000, 1)], [seen(2), seen(5)]);
        outgoing.begin(STREAM);
        outgoing.send(STREAM, 0, 1000, sent(6));
        assert_eq!([found(&outgoing, 0, 1000), found(&outgoing, 1000, 1000)], [seen(6), None]);
    }

    #[test]
    fn memory_is_bounded_whatever_is_sent() {
        let mut outgoing = Outgoing::new(10);
        for n in 0..10_000_u32 {
            outgoing.send(FlowId((n % 37).into()), n.wrapping_mul(0x9e37_79b9), n % 5 * 1000, sent(n.into()));
            if n % 11 == 0 {
                outgoing.begin(FlowId((n % 37).into()));
            }
            assert!(outgoing.order.len() <= 10 && outgoing.streams.len() <= 11);
            let ranges: usize = outgoing.streams.values().map(VecDeque::len).sum();
            assert!(ranges <= 10, "{ranges}");
        }
    }
}
