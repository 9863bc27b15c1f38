//! The byte ranges sent in TCP streams, for packets that arrive in other sizes than they were sent.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::FixedState;
use wakepath_event::FlowId;

use crate::recent::IN_FLIGHT;
use crate::{Sender, Sent};

/// The maximum number of retransmitted ranges kept per stream.
const MAX_AGAIN: usize = 16;

/// The byte ranges sent last, by stream and sequence number.
///
/// Segmentation offload hands a device up to 64 KiB at once. If that is split on its way within the host (by
/// a shaper's token bucket, or for a device without offload), no packet arrives with the sent packet's
/// header. Its bytes identify it then.
#[derive(Debug)]
pub(crate) struct Outgoing {
    streams: HashMap<FlowId, VecDeque<Range>, FixedState>,
    /// The ranges that a timer retransmitted last, the oldest first.
    again: HashMap<FlowId, VecDeque<Range>, FixedState>,
    /// Each range's stream, the oldest range first.
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
    /// The distance from `byte` to the range's end; not positive if the range ends before.
    fn bytes_past(&self, byte: u32) -> i32 {
        self.seq.wrapping_add(self.len).wrapping_sub(byte).cast_signed()
    }
}

impl Default for Outgoing {
    fn default() -> Self {
        Self::new(IN_FLIGHT)
    }
}

impl Outgoing {
    /// Remembers at most `max_ranges` ranges in all streams together.
    pub(crate) fn new(max_ranges: usize) -> Self {
        Self { streams: HashMap::default(), again: HashMap::default(), order: VecDeque::new(), max_ranges }
    }

    /// Notes a stream's beginning, perhaps with an earlier stream's id.
    pub(crate) fn begin(&mut self, stream: FlowId) {
        if let Some(ranges) = self.streams.get_mut(&stream) {
            ranges.clear();
        }
        self.again.remove(&stream);
    }

    /// Adds sent bytes. A retransmitted byte keeps its first sending.
    pub(crate) fn send(&mut self, stream: FlowId, mut seq: u32, mut len: u32, sent: Sent) {
        // No segment is longer: sequence numbers are compared within half their range.
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

    /// Notes a timer's retransmission: these bytes arrive from now on by it.
    pub(crate) fn send_again(&mut self, stream: FlowId, seq: u32, len: u32, sent: Sent) {
        let ranges = self.again.entry(stream).or_default();
        if ranges.len() == MAX_AGAIN {
            ranges.pop_front();
        }
        ranges.push_back(Range { seq, len, sent });
    }

    /// The first sending of the last of these bytes, if recorded.
    pub(crate) fn seen(&self, stream: FlowId, seq: u32, len: u32) -> Option<Sent> {
        self.first(stream, seq, len).filter(|sent| sent.by != Sender::Unseen)
    }

    fn forget(&mut self) {
        let Some(stream) = self.order.pop_front() else { return };
        let Some(ranges) = self.streams.get_mut(&stream) else { return };
        ranges.pop_front();
        if ranges.is_empty() {
            self.streams.remove(&stream);
        }
    }

    /// The sending of the last of these bytes. Without a record of it: the sending of both neighbours in the
    /// stream if they have the same; else an unseen sender, no later than the next bytes.
    pub(crate) fn find(&self, stream: FlowId, seq: u32, len: u32) -> Option<Sent> {
        let last = seq.wrapping_add(len.checked_sub(1)?);
        let again = self
            .again
            .get(&stream)
            .and_then(|ranges| ranges.iter().rev().find(|range| last.wrapping_sub(range.seq) < range.len));
        again.map(|range| range.sent).or_else(|| self.first(stream, seq, len))
    }

    /// Like `find`, without retransmissions by timers.
    fn first(&self, stream: FlowId, seq: u32, len: u32) -> Option<Sent> {
        let byte = seq.wrapping_add(len.checked_sub(1)?);
        let ranges = self.streams.get(&stream)?;
        let index = ranges.partition_point(|range| range.bytes_past(byte) <= 0);
        let range = ranges.get(index)?;
        let seen = byte.wrapping_sub(range.seq) < range.len;
        let before = index.checked_sub(1).map(|before| ranges[before].sent);
        let known = seen || before == Some(range.sent);
        Some(if known { range.sent } else { Sent { by: Sender::Unseen, ..range.sent } })
    }

    /// The sending of a stream's last bytes.
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

    /// The sending's time, and whether it was recorded; otherwise it is the latest possible time.
    fn found(outgoing: &Outgoing, seq: u32, len: u32) -> Option<(u64, bool)> {
        outgoing.find(STREAM, seq, len).map(|sent| (sent.at.ns(), sent.by != Sender::Unseen))
    }

    const fn seen(at: u64) -> Option<(u64, bool)> {
        Some((at, true))
    }

    #[test]
    fn the_last_byte_identifies_the_sending_even_if_numbers_wrap() {
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
    fn bytes_with_no_recorded_sending_left_no_later_than_those_that_follow() {
        let mut outgoing = Outgoing::new(100);
        outgoing.send(STREAM, 1000, 1000, sent(1));
        outgoing.send(STREAM, 5000, 1000, sent(2));
        assert_eq!(found(&outgoing, 2000, 3000), Some((2, false)));
        assert_eq!(found(&outgoing, 0, 1000), Some((1, false)), "it was on its way at the beginning");
        assert_eq!(found(&outgoing, 6000, 1), None);
        // Both neighbours have the same sending.
        outgoing.send(STREAM, 7000, 1000, sent(2));
        assert_eq!(found(&outgoing, 6000, 1), seen(2));
    }

    #[test]
    fn a_retransmitted_byte_keeps_its_first_sending() {
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
    fn a_segment_has_bytes_and_at_most_a_quarter_of_all_numbers() {
        let longest = 1 << 30;
        for (len, kept) in [(0, false), (1, true), (longest, true), (longest + 1, false), (u32::MAX, false)] {
            let mut outgoing = Outgoing::new(100);
            outgoing.send(STREAM, 5, len, sent(1));
            assert_eq!(outgoing.last(STREAM).is_some(), kept, "{len} bytes");
        }
    }

    #[test]
    fn a_segment_that_was_sent_in_part_before_adds_its_rest() {
        let mut outgoing = Outgoing::new(100);
        outgoing.send(STREAM, 100, 50, sent(1));
        outgoing.send(STREAM, 125, 50, sent(2));
        assert_eq!([found(&outgoing, 149, 1), found(&outgoing, 150, 1)], [seen(1), seen(2)]);
        assert_eq!([found(&outgoing, 174, 1), found(&outgoing, 175, 1)], [seen(2), None]);
        // The whole range.
        outgoing.send(STREAM, 150, 25, sent(3));
        assert_eq!(found(&outgoing, 174, 1), seen(2));
    }

    #[test]
    fn what_a_timer_sent_again_arrives_by_that_and_only_the_last_of_those_are_kept() {
        let mut outgoing = Outgoing::new(100);
        let other = FlowId(8);
        for n in 0..20 {
            outgoing.send(STREAM, n * 10, 10, sent(1));
            outgoing.send_again(STREAM, n * 10, 10, sent(100 + u64::from(n)));
        }
        assert_eq!(
            [found(&outgoing, 0, 10), found(&outgoing, 39, 1)],
            [seen(1); 2],
            "the oldest are forgotten"
        );
        assert_eq!([found(&outgoing, 40, 1), found(&outgoing, 190, 10)], [seen(104), seen(119)]);
        assert_eq!(found(&outgoing, 200, 1), None);
        outgoing.send_again(STREAM, 190, 10, sent(200));
        assert_eq!(found(&outgoing, 199, 1), seen(200), "the last one");
        assert_eq!(outgoing.seen(STREAM, 190, 10), Some(sent(1)), "the first one");
        assert_eq!(outgoing.find(other, 190, 10), None);
        outgoing.begin(STREAM);
        assert_eq!(found(&outgoing, 190, 10), None, "a new stream");
    }

    #[test]
    fn as_many_ranges_as_agreed_are_kept() {
        let mut outgoing = Outgoing::new(3);
        let mut send = |n: u32| {
            outgoing.send(STREAM, n * 10, 10, sent(n.into()));
            [0, 1, 2, 3].map(|n| found(&outgoing, n * 10, 10).is_some_and(|(_, seen)| seen))
        };
        assert_eq!([send(0), send(1)], [[true, false, false, false], [true, true, false, false]]);
        assert_eq!([send(2), send(3)], [[true, true, true, false], [false, true, true, true]]);
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
