//! A stream's losses: the number of lost records, and the two records in between which they were lost.
//!
//! There are two sources: a gap in the sequence numbers shows the place, and the number modulo 2^16; the packets'
//! `events_discarded` shows the total, up to about each packet's end. The writer reads this counter before the
//! buffer's end. So a counted loss without a gap in the packet lies right behind the packet, and an uncounted gap is
//! counted in the next packet.
//!
//! Example: a packet "7 discarded" with records 0 to 9, then a packet "7 discarded" from record 17 on: a loss of 7
//! records, between records 9 and 17.

/// A loss with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Loss {
    /// The last record's stamp before it, as far as known.
    pub from: u64,
    /// The number of records; 0 if unknown.
    pub count: u64,
}

/// The limit on losses between two packets, records.
const MAX_AT_ONCE: u64 = 1 << 32;

/// A stream's account.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// The next record's sequence number without a loss.
    expected: Option<u16>,
    /// The last packet's counter.
    discarded: u64,
    /// Counted without a place yet; negative: placed without a count yet.
    owed: i128,
    /// The part of `owed` counted before this packet, whose place is before its first record.
    before_packet: i128,
    /// The begins of this packet and of the previous packet: without a gap, `before_packet` was lost behind the
    /// latter.
    packet_from: u64,
    last_packet_from: u64,
    /// The last record's stamp.
    last: u64,
    /// Bytes since the last record were unreadable: a gap does not prove a recorder's loss.
    damaged: bool,
    /// The recording's first stamp.
    begin: u64,
}

impl Losses {
    /// A stream's account, in a recording that begins at `begin`.
    pub fn since(begin: u64) -> Self {
        Self { begin, ..Self::default() }
    }

    /// Begins a packet with this counter, whose first record is not before `begin`.
    pub fn packet(&mut self, begin: u64, discarded: u64) {
        self.before_packet = self.owed.max(0);
        // A counter that went backwards, or up by more than two drains can lose, is damaged; the next is right again.
        if let Some(more @ ..=MAX_AT_ONCE) = discarded.checked_sub(self.discarded) {
            self.owed += i128::from(more);
            self.discarded = discarded;
        }
        self.last_packet_from = self.packet_from;
        // With skipped bytes, nothing is known before the first readable packet.
        let skipped = self.damaged && self.expected.is_none();
        self.packet_from = if skipped { self.begin } else { begin.max(self.last) };
    }

    /// Notes unreadable bytes here.
    pub const fn damage(&mut self) {
        self.damaged = true;
    }

    /// Whether this is the next sequence number and nothing was lost.
    #[inline]
    pub const fn expects(&self, seq: u16) -> bool {
        matches!(self.expected, Some(expected) if expected == seq) && self.before_packet == 0 && !self.damaged
    }

    /// Whether nothing was lost before the next record, in a stream without sequence numbers.
    #[inline]
    pub const fn expects_any(&self) -> bool {
        !self.damaged
    }

    /// The next record's number, in a stream with sequence numbers.
    pub const fn expected(&self) -> Option<u16> {
        self.expected
    }

    /// A record at `stamp` that [`Losses::expects`].
    #[inline]
    pub const fn regular(&mut self, stamp: u64, seq: u16) {
        self.expected = Some(seq.wrapping_add(1));
        self.last = stamp;
    }

    /// Takes any record, in a stream with sequence numbers, and returns the loss before it.
    pub fn record(&mut self, stamp: u64, seq: u16) -> Option<Loss> {
        let gap = i128::from(self.expected.map_or(0, |expected| seq.wrapping_sub(expected)));
        let (first, from) = (self.expected.is_none(), self.last);
        let before_packet = std::mem::take(&mut self.before_packet);
        let damaged = std::mem::take(&mut self.damaged);
        self.regular(stamp, seq);
        if damaged && first {
            return Some(Loss { from: self.packet_from, count: 0 });
        }
        if damaged {
            return (gap > 0).then_some(Loss { from, count: gap as u64 });
        }
        // The gap has the place; a counter larger by whole rounds has the number.
        let rounds = |counted: i128| counted >= gap && (counted - gap) % 65_536 == 0;
        let (from, count) = match (gap, before_packet) {
            (0, 0) => return None,
            (0, counted) => (self.last_packet_from, counted),
            (_, 0) if rounds(self.owed) => (from, self.owed),
            (_, 0) => (from, gap),
            (_, counted) => (from, gap.max(counted)),
        };
        self.owed -= count;
        Some(Loss { from, count: u64::try_from(count).unwrap_or(0) })
    }

    /// Takes any record, in a stream without sequence numbers, and returns the loss before it.
    pub fn uncounted(&mut self, stamp: u64) -> Option<Loss> {
        let damaged = std::mem::take(&mut self.damaged);
        let from = std::mem::replace(&mut self.last, stamp);
        damaged.then_some(Loss { from, count: 0 })
    }

    /// The loss behind the last record.
    pub fn end(&mut self) -> Option<Loss> {
        let owed = std::mem::take(&mut self.owed);
        let damaged = std::mem::take(&mut self.damaged);
        let from = self.last;
        (owed > 0 || damaged).then_some(Loss { from, count: u64::try_from(owed.max(0)).unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes packets as `discarded: first..=last first..=last`, where a record's stamp is its number; returns losses
    /// as `from-at count`.
    fn losses(packets: &str) -> String {
        let mut account = Losses::default();
        let mut losses = Vec::new();
        for packet in packets.split('|') {
            let (discarded, ranges) = packet.split_once(':').expect("discarded: ranges");
            let numbers: Vec<u64> = ranges
                .split_whitespace()
                .flat_map(|range| {
                    let (from, to) = range.split_once("..=").expect("a range");
                    from.parse().expect("a number")..=to.parse().expect("a number")
                })
                .collect();
            account.packet(numbers[0], discarded.trim().parse().expect("a number"));
            for number in numbers {
                if account.expects(number as u16) {
                    account.regular(number, number as u16);
                } else if let Some(loss) = account.record(number, number as u16) {
                    losses.push(format!("{}-{number} {}", loss.from, loss.count));
                }
            }
        }
        if let Some(loss) = account.end() {
            losses.push(format!("{}-end {}", loss.from, loss.count));
        }
        losses.join(", ")
    }

    #[test]
    fn what_was_skipped_before_the_first_packet_may_reach_back_to_the_recordings_begin() {
        let mut account = Losses::since(100);
        account.damage();
        account.packet(500, 0);
        assert_eq!(account.record(520, 8), Some(Loss { from: 100, count: 0 }));
        assert_eq!(account.record(530, 9), None);
        // A packet with a known begin.
        let mut account = Losses::since(100);
        account.packet(500, 0);
        account.damage();
        assert_eq!(account.record(520, 8), Some(Loss { from: 500, count: 0 }));
        // A later packet.
        account.damage();
        account.packet(700, 0);
        assert_eq!(account.record(720, 12), Some(Loss { from: 520, count: 3 }));
    }

    #[test]
    fn each_lost_record_is_counted_once_and_where_it_was() {
        for (packets, expected) in [
            ("0: 0..=9 | 0: 10..=19", ""),
            // The usual case: a full buffer at the drain.
            ("7: 0..=9 | 7: 17..=19", "9-17 7"),
            // Lost and counted inside the packet.
            ("7: 0..=4 12..=19 | 7: 20..=21", "4-12 7"),
            // Lost inside the packet, after the writer read the counter.
            ("0: 0..=4 12..=19 | 7: 20..=21 | 7: 22..=23", "4-12 7"),
            // Two losses, the first counted in time and the second later.
            ("3: 0..=4 8..=9 | 5: 12..=19 | 5: 20..=21", "4-8 3, 9-12 2"),
            // More than a round of sequence numbers, in a gap of 7.
            ("65543: 0..=9 | 65543: 65553..=65559", "9-65553 65543"),
            ("65543: 0..=9 65553..=65559", "9-65553 65543"),
            // Exactly a round: only the counter shows it.
            ("65536: 0..=9 | 65536: 65546..=65549", "0-65546 65536"),
            // No record after the loss.
            ("0: 0..=9 | 5: 10..=11", "11-end 5"),
            // The recording began in the middle of a buffer's life.
            ("0: 500..=509 | 0: 510..=511", ""),
            // The sequence numbers wrap around.
            ("0: 65530..=65540 | 0: 65541..=65545", ""),
            // More losses than the counter has: the writer read it before the last loss.
            ("2: 0..=9 | 2: 13..=19 | 3: 20..=21", "9-13 3"),
            // A once damaged counter.
            ("7: 0..=9 | 3: 17..=19 | 7: 20..=21", "9-17 7"),
        ] {
            assert_eq!(losses(packets), expected, "{packets}");
        }
    }

    #[test]
    fn unreadable_records_are_not_charged_to_the_recorder() {
        let mut account = Losses::default();
        account.packet(0, 0);
        assert_eq!(account.record(0, 0), None);
        account.damage();
        assert_eq!(account.record(5, 5), Some(Loss { from: 0, count: 4 }));
        account.packet(6, 2);
        account.regular(6, 6);
        assert_eq!(account.end(), Some(Loss { from: 6, count: 2 }), "the two that the counter knows");
    }
}
