//! A stream's reader: its records as events in time order, and its losses and problems.

mod examine;
#[cfg(test)]
mod tests;

use std::io;

use wakepath_clock::Stamp;
use wakepath_ctf::{FaultKind, Finding, PacketAt, Packets, Source, Window};
use wakepath_event::{Context, Cpu, Event, EventKind, LostRecords, Tid};
use wakepath_kernel_records::layout::{HEADER_BYTES, LAYOUTS, MAX_RECORD_BYTES};
use wakepath_kernel_records::{Buffer, Decoder, Header, Kind, fixed_length};

use super::losses::{Loss, Losses};
use super::problem::Problems;
use super::stream::StreamInfo;
use super::{ReadFault, ReadProblem};
use crate::metadata::stream_id;
use examine::RecordVerdict;

/// Reads a stream front to back as events in time order, also from a damaged file.
///
/// A record is accepted when its kind belongs to the stream, its stamp lies between its predecessor's and its
/// packet's end, it decodes, and at its end follows another such record or the packet's end. Nearly all records pass:
/// [`Cursor::look_ahead`] checks a stretch in a tight loop, [`Cursor::regular`] emits it in another.
/// [`Cursor::careful`] examines the other records, and finds by the same signs where records resume behind damage.
pub(super) struct Cursor<S> {
    source: S,
    buffer: Buffer,
    cpu: Cpu,
    decoder: Decoder,
    /// By kind number: whether the kind belongs here.
    ours: [bool; 256],
    /// The shortest record that belongs here, bytes.
    least: usize,
    packets: Packets,
    window: Window,
    /// The checked bytes at the window's beginning: records without anything odd.
    ahead: usize,
    packet: Option<PacketAt>,
    /// The next packet's number.
    number: u64,
    /// The next packet's number, if the last packet's number was damaged.
    number_otherwise: Option<u64>,
    /// The records read from this packet.
    read: u64,
    /// Within damage that is already reported.
    skipping: bool,
    /// The operating system failed to read on.
    given_up: bool,
    /// The latest valid stamp in this packet.
    latest: u64,
    /// The last record's stamp.
    last: u64,
    losses: Losses,
    /// The losses behind the last record, to be emitted at the recording's end.
    tail: Vec<Loss>,
    end: u64,
    /// The recorder's mark at the stream's end is missing, and with it any number of records.
    lacks_end: bool,
    problems: Problems,
    /// Records examined singly.
    #[cfg(test)]
    examined: u64,
}

/// A cursor's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// The next event's stamp.
    At(u64),
    /// No more events.
    End,
}

/// A step's result.
enum Step {
    /// Go on.
    On,
    Stop(Head),
}

/// The read size while nothing is odd: a few streams' blocks stay in a core's own cache.
const BLOCK_BYTES: usize = 64 * 1024;
/// The bytes in sight during an examination: two of the longest records. Reads take twice as many, so that kept bytes
/// do not move for every record. A few hundred such streams still take little memory.
const SIGHT_BYTES: usize = 2 * MAX_RECORD_BYTES;
const EXAMINED_BLOCK_BYTES: usize = 2 * SIGHT_BYTES;
/// The bytes checked ahead: still in the nearest cache when their events are emitted.
const MAX_AHEAD_BYTES: usize = 4 * 1024;

impl<S: Source> Cursor<S> {
    /// A cursor at a stream's beginning. `begin` and `end` are the recording's first and last stamp.
    pub fn new(
        stream: &StreamInfo,
        source: S,
        uuid: [u8; 16],
        decoder: Decoder,
        (begin, end): (u64, u64),
    ) -> io::Result<Self> {
        let mut ours = [false; 256];
        for kind in Kind::ALL {
            ours[usize::from(kind.number())] = stream.buffer.holds(kind);
        }
        let layouts = LAYOUTS.iter().filter(|layout| stream.buffer.holds(layout.kind));
        Ok(Self {
            least: layouts.map(|layout| layout.bytes).min().unwrap_or(HEADER_BYTES),
            packets: Packets::new(&source, uuid)?,
            source,
            buffer: stream.buffer,
            cpu: stream.cpu,
            decoder,
            ours,
            window: Window::default(),
            ahead: 0,
            packet: None,
            number: 0,
            number_otherwise: None,
            read: 0,
            skipping: false,
            given_up: false,
            latest: 0,
            last: 0,
            losses: Losses::since(begin),
            tail: Vec::new(),
            end,
            lacks_end: false,
            problems: Problems::new(format!("kernel/{}", stream.name)),
            #[cfg(test)]
            examined: 0,
        })
    }

    /// The same, for a stream without its end: its records since the last are lost.
    pub fn without_end(self) -> Self {
        Self { lacks_end: true, ..self }
    }

    /// Emits every event up to and including the stamp `limit`, and returns the next event's stamp.
    pub fn run(&mut self, limit: u64, emit: &mut impl FnMut(&Event)) -> Head {
        loop {
            let step = self.regular(limit, emit).unwrap_or_else(|| self.careful(limit, emit));
            if let Step::Stop(head) = step {
                return head;
            }
        }
    }

    /// The stream's problems.
    pub fn problems(self) -> Vec<ReadProblem> {
        self.problems.finish()
    }

    /// Emits a stretch of records without anything odd; `None` if the next may be odd.
    #[inline]
    fn regular(&mut self, limit: u64, emit: &mut impl FnMut(&Event)) -> Option<Step> {
        if self.ahead == 0 {
            self.ahead = self.look_ahead();
        }
        let mut rest = &self.window.bytes()[..self.ahead];
        let counts = self.buffer.counts();
        let (mut step, mut last) = (None, None);
        while let Some(header) = Header::read(rest) {
            if header.stamp > limit {
                step = self.head(header, rest).map(Step::Stop);
                break;
            }
            let cpu = if counts { self.cpu } else { Cpu::numbered(header.seq.into()) };
            let told = self.decoder.decode_with(rest, cpu, |event, length| {
                emit(&event);
                length
            });
            let Ok(length) = told else { break };
            last = Some(header);
            self.read += 1;
            rest = &rest[length..];
        }
        let at = self.ahead - rest.len();
        if let Some(Header { stamp, seq, .. }) = last {
            self.losses.regular(stamp, seq);
            self.last = stamp;
            step = step.or(Some(Step::On));
        }
        self.window.consume(at);
        // An undecodable record is odd, and the records behind it may be, too.
        self.ahead = if step.is_some() { self.ahead - at } else { 0 };
        step
    }

    /// The bytes at the window's beginning with records without anything odd.
    fn look_ahead(&self) -> usize {
        let bytes = self.window.bytes();
        let bytes = bytes.get(..MAX_AHEAD_BYTES).unwrap_or(bytes);
        let counts = self.buffer.counts();
        let Some(mut header) = Header::read(bytes) else { return 0 };
        let in_number = if counts { self.losses.expects(header.seq) } else { self.losses.expects_any() };
        if header.stamp < self.last || !in_number || !self.ours[usize::from(header.kind)] {
            return 0;
        }
        let mut rest = bytes;
        while header.stamp <= self.latest {
            let Some(length) = fixed_length(header.kind) else { break };
            let Some(behind) = rest.get(length..) else { break };
            let Some(next) = Header::read(behind) else { break };
            let in_number = !counts || next.seq == header.seq.wrapping_add(1);
            if next.stamp < header.stamp || !in_number || !self.ours[usize::from(next.kind)] {
                break;
            }
            rest = behind;
            header = next;
        }
        bytes.len() - rest.len()
    }

    /// Handles the next record or packet, however odd.
    fn careful(&mut self, limit: u64, emit: &mut impl FnMut(&Event)) -> Step {
        if self.window.left() == 0 {
            return match self.next_finding() {
                Ok(Some(finding)) => self.enter(finding),
                Ok(None) => self.finish(limit, emit),
                Err(e) => self.give_up(&e),
            };
        }
        let (seen, left) = (self.window.bytes().len(), self.window.left());
        // A record partly in sight is not odd yet.
        if seen < MAX_AHEAD_BYTES && (seen as u64) < left {
            return match self.window.fill(&self.source, BLOCK_BYTES) {
                Ok(_) => {
                    debug_assert!(
                        self.window.bytes().len() > seen || self.window.left() < left,
                        "the cursor reads on"
                    );
                    Step::On
                }
                Err(e) => self.give_up(&e),
            };
        }
        if (seen as u64) < self.window.left().min(SIGHT_BYTES as u64)
            && let Err(e) = self.window.fill(&self.source, EXAMINED_BLOCK_BYTES)
        {
            return self.give_up(&e);
        }
        #[cfg(test)]
        {
            self.examined += 1;
        }
        match self.examine() {
            RecordVerdict::Good(header, length) => {
                if header.stamp > limit
                    && let Some(head) = self.head(header, self.window.bytes())
                {
                    return Step::Stop(head);
                }
                self.take(header, length, emit);
            }
            RecordVerdict::Damaged(why, length) => self.skip(length, why),
            RecordVerdict::CutOff => self.window.consume(usize::MAX),
        }
        debug_assert!(self.window.left() < left, "the cursor goes on");
        Step::On
    }

    /// The next stamp, if `bytes` with this header come next. `None` if they do not decode: then they are left out,
    /// and the record behind them may be earlier.
    fn head(&self, header: Header, bytes: &[u8]) -> Option<Head> {
        self.decoder.decode(bytes, self.cpu).is_ok().then_some(Head::At(header.stamp))
    }

    /// Emits the next record, and the loss before it.
    fn take(&mut self, header: Header, length: usize, emit: &mut impl FnMut(&Event)) {
        let bytes = self.window.bytes();
        let counts = self.buffer.counts();
        let cpu = if counts { self.cpu } else { Cpu::numbered(header.seq.into()) };
        let event = match self.decoder.decode(bytes, cpu) {
            Ok((event, _)) => event,
            // Its length may be as wrong as the rest.
            Err(e) => {
                let inside = self.resume_before(length, self.least, self.last);
                return self.skip(inside.unwrap_or(length), e.into());
            }
        };
        let loss = if counts {
            let next = bytes.get(length..).and_then(Header::read).map(|next| next.seq);
            let seq = match self.losses.expected() {
                Some(expected) if expected != header.seq && next == Some(expected.wrapping_add(1)) => {
                    let fault = ReadFault::RecordNumber { is: header.seq, should: expected };
                    self.problems.add(self.window.offset(), fault);
                    expected
                }
                _ => header.seq,
            };
            self.losses.record(header.stamp, seq)
        } else {
            self.losses.uncounted(header.stamp)
        };
        if let Some(loss) = loss {
            emit(&self.loss(loss, header.stamp));
        }
        emit(&event);
        self.last = header.stamp;
        self.read += 1;
        self.skipping = false;
        self.window.consume(length);
    }

    /// Leaves out `length` bytes. Damage is reported once, at any length.
    fn skip(&mut self, length: usize, why: ReadFault) {
        if !self.skipping {
            self.problems.add(self.window.offset(), why);
        }
        self.skipping = true;
        self.losses.damage();
        self.window.consume(length);
    }

    /// The next packet or fault.
    fn next_finding(&mut self) -> io::Result<Option<Finding>> {
        if self.given_up { Ok(None) } else { self.packets.next(&self.source) }
    }

    fn enter(&mut self, finding: Finding) -> Step {
        match finding {
            Finding::Packet(packet) => {
                self.leave_packet();
                self.enter_packet(packet);
            }
            Finding::Fault(fault) => {
                match (fault.kind.clone(), self.packet) {
                    (FaultKind::PacketCut { claimed, found }, Some(packet)) => {
                        let missing = u64::from(packet.header.events).saturating_sub(self.read);
                        // A record count beyond the missing bytes is itself damaged.
                        let possible = missing <= (claimed - found) / self.least as u64 + 1;
                        self.tail.push(Loss { from: self.last, count: if possible { missing } else { 0 } });
                        self.packet = None;
                    }
                    (FaultKind::Signature | FaultKind::SizesDisagree { .. }, _) => {}
                    _ => self.losses.damage(),
                }
                self.problems.add(fault.offset, fault.kind);
            }
        }
        Step::On
    }

    fn enter_packet(&mut self, packet: PacketAt) {
        let header = packet.header;
        let offset = packet.offset;
        if header.stream_id != stream_id(self.buffer)
            || (self.buffer.counts() && header.cpu != u32::from(self.cpu.0))
        {
            let (stream, cpu) = (header.stream_id, header.cpu);
            self.problems.add(offset, ReadFault::PacketOfOther { stream, cpu });
        }
        // The last packet's number plus 1; or if that number was damaged, its expected number plus 1.
        let should = self.number;
        self.number = header.number.wrapping_add(1);
        if header.number != should && Some(header.number) != self.number_otherwise {
            let is = header.number;
            self.problems.add(offset, ReadFault::PacketNumber { is, should });
            if is > should && !self.buffer.counts() {
                self.losses.damage();
            }
        }
        self.number_otherwise = Some(should.wrapping_add(1));
        self.latest = header.end;
        if header.end < header.begin || header.end < self.last {
            let (begin, end) = (header.begin, header.end);
            self.problems.add(offset, ReadFault::PacketTimes { begin, end });
            self.latest = u64::MAX;
        }
        // The shared buffer's losses are records with their own CPU; its counter is for other readers.
        self.losses.packet(header.begin, if self.buffer.counts() { header.discarded } else { 0 });
        self.window.set(packet.from, packet.to);
        self.read = 0;
        self.skipping = false;
        self.packet = Some(packet);
    }

    fn leave_packet(&mut self) {
        let Some(packet) = self.packet.take() else { return };
        let (claimed, found) = (u64::from(packet.header.events), self.read);
        if claimed != found && !packet.is_cut() {
            self.problems.add(packet.offset, ReadFault::PacketCount { claimed, found });
            if found < claimed && !self.buffer.counts() {
                self.losses.damage();
            }
        }
    }

    /// Ends the stream: the losses behind its last record are emitted at the recording's end.
    fn finish(&mut self, limit: u64, emit: &mut impl FnMut(&Event)) -> Step {
        self.leave_packet();
        self.tail.extend(self.losses.end());
        if std::mem::take(&mut self.lacks_end) && self.last < self.end {
            let early_ns = self.end - self.last;
            self.problems.add(self.window.offset(), ReadFault::EndMissing { early_ns });
            self.tail.push(Loss { from: self.last, count: 0 });
        }
        let at = self.end.max(self.last);
        if self.tail.is_empty() {
            return Step::Stop(Head::End);
        }
        if at > limit {
            return Step::Stop(Head::At(at));
        }
        for loss in std::mem::take(&mut self.tail) {
            emit(&self.loss(loss, at));
        }
        Step::Stop(Head::End)
    }

    fn give_up(&mut self, error: &io::Error) -> Step {
        self.problems.add(self.window.offset(), ReadFault::Io(error.to_string()));
        self.losses.damage();
        self.given_up = true;
        self.window.set(0, 0);
        self.packet = None;
        Step::On
    }

    fn loss(&self, loss: Loss, at: u64) -> Event {
        Event {
            at: Stamp::from_ns(at),
            cpu: if self.buffer.counts() { self.cpu } else { Cpu::UNKNOWN },
            context: Context::Task,
            current: Tid::IDLE,
            kind: EventKind::Loss {
                from: Stamp::from_ns(loss.from.min(at)),
                count: loss.count,
                records: LostRecords::Any,
            },
        }
    }
}
