//! The check of an odd record, and the search for the next good record behind damage.
//!
//! A good record's signs: its kind belongs to the stream; its stamp lies between its predecessor's and the packet's
//! end; its length is right, so that another such record, or the packet's end, follows; and where records are
//! numbered, the next has the next number. When the signs disagree, the smallest possible damage is assumed.

use wakepath_ctf::Source;
use wakepath_kernel_records::{DecodeError, Header, record_length};

use super::{Cursor, ReadFault};

/// Behind damage, a record's number must be this close.
const NEAR: u16 = 4096;

/// An examination's result.
pub(super) enum RecordVerdict {
    Good(Header, usize),
    /// The reason, and the bytes to leave out.
    Damaged(ReadFault, usize),
    /// The packet's rest is missing; the packet's fault reports it.
    CutOff,
}

impl<S: Source> Cursor<S> {
    /// Examines the next record.
    pub(super) fn examine(&mut self) -> RecordVerdict {
        let bytes = self.window.bytes();
        let (header, length) = match self.check(0, self.last) {
            Ok(found) => found,
            Err(ReadFault::Record(DecodeError::Short { .. })) if self.packet.is_some_and(|p| p.is_cut()) => {
                return RecordVerdict::CutOff;
            }
            Err(ReadFault::TooLate { .. }) if self.is_end_wrong() => {
                let offset = self.packet.map_or(self.window.offset(), |packet| packet.offset);
                self.problems.add(offset, ReadFault::PacketEnd(self.latest));
                self.latest = u64::MAX;
                return self.examine();
            }
            Err(why) => {
                let to = self.resume(8, self.last).unwrap_or(bytes.len());
                return RecordVerdict::Damaged(why, to);
            }
        };
        let wanted = self.buffer.counts().then_some(header.seq.wrapping_add(1));
        let Err(why) = self.check_or_end(length, header.stamp) else {
            // If the next number does not follow, a wrong length may have swallowed its record.
            let swallowed = self.sequence_number(length) != wanted;
            let inside = if swallowed { self.resume_before(length, self.least, header.stamp) } else { None };
            return match inside {
                Some(to) if self.sequence_number(to) == wanted => {
                    RecordVerdict::Damaged(ReadFault::RecordInside, to)
                }
                _ => RecordVerdict::Good(header, length),
            };
        };
        // This record and the next disagree: which is damaged?
        if let Ok((next, next_length)) = self.check(length, self.last) {
            return self.blame(header, length, next, next_length);
        }
        let rest = self.window.left() - length as u64;
        match self.resume(self.least, header.stamp) {
            Some(to) if to < length => RecordVerdict::Damaged(ReadFault::RecordInside, to),
            // No record fits in between, or none is missing: this record should be longer.
            Some(to)
                if to < length + self.least || (wanted.is_some() && self.sequence_number(to) == wanted) =>
            {
                RecordVerdict::Damaged(ReadFault::RecordEnd(Box::new(why)), to)
            }
            None if rest < self.least as u64 || self.is_last() => {
                RecordVerdict::Damaged(ReadFault::RecordEnd(Box::new(why)), usize::MAX)
            }
            _ => RecordVerdict::Good(header, length),
        }
    }

    /// Decides which of two records with swapped stamps is wrong: by the record behind them, or by the packet's end.
    /// If neither decides, both are left out.
    fn blame(&self, this: Header, length: usize, next: Header, next_length: usize) -> RecordVerdict {
        let why = ReadFault::StampsSwapped { first: this.stamp, second: next.stamp };
        let is_end = self.window.left() == (length + next_length) as u64;
        let is_this_right = is_end && this.stamp == self.latest;
        let is_next_right = match self.check(length + next_length, this.stamp) {
            _ if is_end => next.stamp == self.latest,
            fits_this => fits_this.is_err(),
        };
        match (is_this_right, is_next_right) {
            (true, _) => RecordVerdict::Good(this, length),
            (false, true) => RecordVerdict::Damaged(why, length),
            (false, false) => RecordVerdict::Damaged(why, length + next_length),
        }
    }

    /// Whether the next record is its packet's last, by the packet's count.
    fn is_last(&self) -> bool {
        self.packet.is_some_and(|packet| u64::from(packet.header.events) == self.read + 1)
    }

    /// The sequence number of the record at `at`, in a stream with sequence numbers.
    fn sequence_number(&self, at: usize) -> Option<u16> {
        let header = self.window.bytes().get(at..).and_then(Header::read)?;
        self.buffer.counts().then_some(header.seq)
    }

    /// The record at `at` in sight, not before the stamp `after`.
    fn check(&self, at: usize, after: u64) -> Result<(Header, usize), ReadFault> {
        let bytes = self.window.bytes().get(at..).unwrap_or_default();
        let length = record_length(bytes)?;
        let header = Header::read(bytes).ok_or(DecodeError::Short { record: "any", needs: 16, found: 0 })?;
        if !self.ours[usize::from(header.kind)] {
            return Err(ReadFault::ForeignRecord(header.kind));
        }
        if header.stamp < after {
            return Err(ReadFault::Backwards { stamp: header.stamp, after });
        }
        if header.stamp > self.latest {
            return Err(ReadFault::TooLate { stamp: header.stamp, latest: self.latest });
        }
        Ok((header, length))
    }

    /// The same, but also accepts the packet's end, and a record that continues out of sight.
    fn check_or_end(&self, at: usize, after: u64) -> Result<(), ReadFault> {
        match self.check(at, after) {
            _ if at as u64 == self.window.left() => Ok(()),
            Ok(_) => Ok(()),
            Err(ReadFault::Record(DecodeError::Short { .. })) if self.packet.is_some_and(|p| p.is_cut()) => {
                Ok(())
            }
            Err(why) => Err(why),
        }
    }

    /// Whether the next record is past its packet's end and still right, by the record behind it, or behind the
    /// packet's last record by the next packet.
    fn is_end_wrong(&self) -> bool {
        let bytes = self.window.bytes();
        let (Some(this), Ok(length)) = (Header::read(bytes), record_length(bytes)) else { return false };
        if self.window.left() == length as u64 {
            let next = self.packets.peek(&self.source).ok().flatten();
            return next.is_some_and(|next| this.stamp <= next.begin && next.begin <= next.end);
        }
        let next = bytes.get(length..).and_then(Header::read);
        next.is_some_and(|next| this.stamp <= next.stamp && self.ours[usize::from(next.kind)])
    }

    /// The first place from `from` on with an acceptable record followed by another. Searches all bytes in sight.
    fn resume(&self, from: usize, after: u64) -> Option<usize> {
        self.resume_before(usize::MAX, from, after)
    }

    /// The same, before `end`.
    pub(super) fn resume_before(&self, end: usize, from: usize, after: u64) -> Option<usize> {
        let seen = self.window.bytes().len();
        let near = |seq: u16| match self.losses.expected() {
            Some(expected) if self.buffer.counts() => seq.wrapping_sub(expected) < NEAR,
            _ => true,
        };
        (from..seen.min(end)).step_by(8).find(|&at| match self.check(at, after) {
            Ok((header, length)) => near(header.seq) && self.check_or_end(at + length, header.stamp).is_ok(),
            Err(_) => false,
        })
    }
}
