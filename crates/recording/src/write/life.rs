//! The stream of rare records, sorted before they are written.

use std::sync::Arc;

use wakepath_clock::Stamp;
use wakepath_event::{Context, Cpu, Event, EventKind, LostRecords, Tid};
use wakepath_kernel_records::{Buffer, DecodeError, Encoder, Header, Kind, record_length};

use super::WriteError;
use super::stream::{Stream, StreamFiles};

/// Writes the records from the shared buffer, and user space's own.
///
/// Records arrive nearly in time order. They wait here until [`Life::flush`] declares that no earlier record will
/// come, and are written sorted. A later arrival goes into a second stream, so that each stream keeps its order; a
/// record too late even for that stream is dropped, and a loss recorded in its place.
#[derive(Debug)]
pub struct Life {
    files: Arc<StreamFiles>,
    encoder: Encoder,
    /// Records in order of arrival.
    waiting: Vec<u8>,
    /// The places in `waiting`, by stamp once sorted.
    order: Vec<PendingRecord>,
    /// Made at first need: in time, and late.
    streams: [Option<Stream>; 2],
    lost_total: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PendingRecord {
    stamp: u64,
    /// Its place in `waiting`; the order of arrival decides at equal stamps.
    from: usize,
    to: usize,
}

const NAMES: [&str; 2] = ["life", "life_late"];

impl Life {
    pub(super) fn new(files: Arc<StreamFiles>, encoder: Encoder) -> Self {
        Self { files, encoder, waiting: Vec::new(), order: Vec::new(), streams: [None, None], lost_total: 0 }
    }

    /// Takes a record.
    ///
    /// # Errors
    /// When `record` is not exactly one whole record for this buffer.
    pub fn push(&mut self, record: &[u8]) -> Result<(), WriteError> {
        let length = record_length(record)?;
        let header = Header::read(record);
        match header.map(|header| (header, Kind::from_number(header.kind))) {
            Some((header, Some(kind))) if length == record.len() && Buffer::Life.holds(kind) => {
                let from = self.waiting.len();
                self.waiting.extend_from_slice(record);
                self.order.push(PendingRecord { stamp: header.stamp, from, to: self.waiting.len() });
                Ok(())
            }
            Some((header, _)) => Err(DecodeError::UnknownKind(header.kind).into()),
            None => Err(DecodeError::Short { record: "any", needs: 16, found: record.len() }.into()),
        }
    }

    /// Takes an event from user space. Its CPU is `event.cpu`.
    ///
    /// # Errors
    /// When no record kind in this buffer holds such an event.
    pub fn push_event(&mut self, event: &Event) -> Result<(), WriteError> {
        let mut record = Vec::new();
        self.encoder.encode(event, event.cpu.0, &mut record)?;
        self.push(&record)
    }

    /// Waiting bytes.
    pub const fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Writes the waiting records with stamps up to and including `until`. `lost_total`, the number of records lost
    /// in the buffer since the beginning, goes into the packets for other readers; wakepath's reader takes this
    /// buffer's losses from records of [`EventKind::Loss`], which have the CPU.
    ///
    /// # Errors
    /// When the records cannot be written: they stay, so that the flush can be tried again.
    pub fn flush(&mut self, until: u64, lost_total: u64) -> Result<(), WriteError> {
        self.lost_total = self.lost_total.max(lost_total);
        self.order.sort_unstable();
        let last = self.streams[0].as_ref().map_or(0, Stream::last);
        let late_last = self.streams[1].as_ref().map_or(0, Stream::last);
        self.drop_before(last.min(late_last), last)?;
        let due = self.order.partition_point(|waiting| waiting.stamp <= until);
        let late = self.order[..due].partition_point(|waiting| waiting.stamp < last);
        // From the back, so that a failure keeps the indices before it.
        self.write(0, late, due)?;
        self.write(1, 0, late)?;
        self.compact();
        Ok(())
    }

    /// Drops all waiting records but marks, clocks and losses, and leaves a loss in their place: the end of a
    /// recording without room.
    ///
    /// # Errors
    /// The errors of encoding the loss, which do not occur.
    pub fn shed(&mut self) -> Result<(), WriteError> {
        let is_kept = |waiting: &PendingRecord| {
            let kind = Header::read(&self.waiting[waiting.from..waiting.to]).map(|header| header.kind);
            let kind = kind.and_then(Kind::from_number);
            matches!(kind, Some(Kind::Mark | Kind::Clocks | Kind::Loss))
        };
        let (kept, shed): (Vec<_>, Vec<_>) = self.order.iter().copied().partition(is_kept);
        self.order = kept;
        let (Some(first), Some(last)) = (shed.iter().min(), shed.iter().max()) else { return Ok(()) };
        self.push_loss(first.stamp, last.stamp, shed.len())
    }

    fn push_loss(&mut self, from: u64, to: u64, count: usize) -> Result<(), WriteError> {
        self.push_event(&Event {
            at: Stamp::from_ns(to),
            cpu: Cpu::UNKNOWN,
            context: Context::Task,
            current: Tid::IDLE,
            kind: EventKind::Loss {
                from: Stamp::from_ns(from),
                count: count as u64,
                records: LostRecords::Any,
            },
        })
    }

    /// Drops records too late for both streams, and leaves a loss in their place, in time at `now`.
    fn drop_before(&mut self, stamp: u64, now: u64) -> Result<(), WriteError> {
        let dropped = self.order.partition_point(|waiting| waiting.stamp < stamp);
        let Some(first) = self.order.first().filter(|_| dropped > 0).copied() else { return Ok(()) };
        self.order.drain(..dropped);
        self.push_loss(first.stamp, now, dropped)?;
        self.order.sort_unstable();
        Ok(())
    }

    /// Writes and forgets `order[from..to]`.
    fn write(&mut self, which: usize, from: usize, to: usize) -> Result<(), WriteError> {
        let batch = &self.order[from..to];
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return Ok(()) };
        let stream = match &mut self.streams[which] {
            Some(stream) => stream,
            empty => empty.insert(self.files.make(NAMES[which], Buffer::Life, 0)?),
        };
        let mut sorted = Vec::with_capacity(self.waiting.len());
        for waiting in batch {
            sorted.extend_from_slice(&self.waiting[waiting.from..waiting.to]);
        }
        // Counted once, in the busier stream.
        let lost = if which == 0 { self.lost_total } else { 0 };
        stream.append(&[&sorted], first.stamp, last.stamp, batch.len() as u64, lost)?;
        self.order.drain(from..to);
        Ok(())
    }

    /// Forgets written records' bytes.
    fn compact(&mut self) {
        let mut kept = Vec::new();
        for waiting in &mut self.order {
            let from = kept.len();
            kept.extend_from_slice(&self.waiting[waiting.from..waiting.to]);
            (waiting.from, waiting.to) = (from, kept.len());
        }
        self.waiting = kept;
    }
}
