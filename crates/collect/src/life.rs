//! Puts the rare records of all CPUs into one order.
//!
//! The buffer that all CPUs share holds records in the order in which room was reserved, stamped a
//! moment later or earlier; what user space adds has stamps of its own. A record is held back until
//! nothing earlier can come any more, which is bounded: a producer that was held up for longer than
//! [`HOLD_NS`] between stamp and reservation loses its record, and the loss is counted.

use wakepath_clock::{Local, Stamp};
use wakepath_kernel_records::{Header, Kind};

/// How long a record is held back, ns. Far longer than a tracepoint's program runs; a virtual CPU
/// can be stopped for this long by its host, but rarely.
const HOLD_NS: u64 = 200_000_000;

/// Records waiting for their turn.
#[derive(Default)]
pub(crate) struct Life {
    bytes: Vec<u8>,
    /// Stamp, offset and length of each record in `bytes`.
    index: Vec<(u64, usize, usize)>,
    sorted: Vec<u8>,
    written_until: u64,
    late: u64,
    /// Processes and user addresses of samples that came since somebody last asked.
    sampled: Vec<(u32, u64)>,
}

/// Records in order, ready to be written.
pub(crate) struct Ready<'a> {
    pub(crate) bytes: &'a [u8],
    /// Records that came too late since the last time, and are lost.
    pub(crate) late: u64,
}

impl Life {
    /// Takes a whole record.
    pub(crate) fn push(&mut self, record: &[u8]) {
        let Some(header) = Header::read(record) else { return };
        if header.stamp < self.written_until {
            self.late += 1;
            return;
        }
        if header.kind == Kind::Sample.number()
            && let Some(sample) = first_user_frame(record)
        {
            self.sampled.push(sample);
        }
        self.index.push((header.stamp, self.bytes.len(), record.len()));
        self.bytes.extend_from_slice(record);
    }

    /// Processes that were sampled since the last call, each with the innermost user address.
    pub(crate) fn take_sampled(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.sampled)
    }

    /// The records before which none can come any more, as of `now`, in order.
    pub(crate) fn ready(&mut self, now: Stamp<Local>) -> Ready<'_> {
        self.take(now.minus(HOLD_NS).ns())
    }

    /// All records, in order; for the end, when nothing more can come.
    pub(crate) fn rest(&mut self) -> Ready<'_> {
        self.take(u64::MAX)
    }

    fn take(&mut self, until: u64) -> Ready<'_> {
        // Stable: records of one stamp stay as they came.
        self.index.sort_by_key(|&(stamp, ..)| stamp);
        let ready = self.index.partition_point(|&(stamp, ..)| stamp < until);
        self.sorted.clear();
        for &(stamp, from, len) in &self.index[..ready] {
            self.sorted.extend_from_slice(&self.bytes[from..from + len]);
            self.written_until = stamp;
        }
        let mut kept = Vec::new();
        for (_, from, len) in &mut self.index[ready..] {
            let at = kept.len();
            kept.extend_from_slice(&self.bytes[*from..*from + *len]);
            *from = at;
        }
        self.index.drain(..ready);
        self.bytes = kept;
        Ready { bytes: &self.sorted, late: std::mem::take(&mut self.late) }
    }
}

/// Process and innermost user address of a sample; offsets as in `struct wp_sample`.
fn first_user_frame(record: &[u8]) -> Option<(u32, u64)> {
    let tgid = u32::from_le_bytes(*record.get(16..)?.first_chunk()?);
    let kernel_frames = usize::from(u16::from_le_bytes(*record.get(20..)?.first_chunk()?));
    let address = u64::from_le_bytes(*record.get(32 + kernel_frames * 8..)?.first_chunk()?);
    Some((tgid, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(stamp: u64) -> Vec<u8> {
        let mut bytes = vec![0; 24];
        bytes[..8].copy_from_slice(&stamp.to_le_bytes());
        bytes
    }

    fn stamps(ready: &Ready<'_>) -> Vec<u64> {
        ready.bytes.chunks(24).filter_map(|bytes| Some(Header::read(bytes)?.stamp)).collect()
    }

    #[test]
    fn records_leave_in_order_once_nothing_earlier_can_come() {
        let mut life = Life::default();
        let second = HOLD_NS * 5;
        for stamp in [30, 10, second, 20] {
            life.push(&record(stamp));
        }
        assert_eq!(stamps(&life.ready(Stamp::from_ns(HOLD_NS + 100))), [10, 20, 30]);
        life.push(&record(40));
        assert_eq!(stamps(&life.rest()), [40, second]);
    }

    #[test]
    fn a_record_that_comes_after_its_turn_is_counted_as_lost() {
        let mut life = Life::default();
        life.push(&record(50));
        life.ready(Stamp::from_ns(HOLD_NS + 100));
        life.push(&record(49));
        let ready = life.rest();
        assert_eq!((ready.late, stamps(&ready)), (1, vec![]));
    }
}
