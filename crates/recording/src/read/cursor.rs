use std::io;

use wakepath_clock::Stamp;
use wakepath_ctf::{FaultKind, Found, PacketAt, Packets, Source, Window};
use wakepath_event::{Context, Cpu, Event, Tid, What};
use wakepath_kernel_records::layout::{HEADER_BYTES, MAX_RECORD_BYTES};
use wakepath_kernel_records::{Buffer, DecodeError, Decoder, Header, Kind, fixed_length, record_length};

use super::ReadProblem;
use super::losses::{Loss, Losses};
use super::problem::Problems;
use super::stream::StreamInfo;
use crate::metadata::stream_id;

/// Reads one stream front to back as events in time order, whatever its file holds.
///
/// A record is believed when its kind belongs into the stream, its stamp lies between its
/// predecessor's and the end of its packet, it decodes, and another such record (or the packet's
/// end) follows where it says to end. Nearly all do, and pass in a tight loop; [`Cursor::careful`]
/// looks at the others, and finds by the same marks where records go on behind damage.
pub(super) struct Cursor<S> {
    source: S,
    buffer: Buffer,
    cpu: Cpu,
    decoder: Decoder,
    /// By kind number: whether it belongs here.
    ours: [bool; 256],
    packets: Packets,
    window: Window,
    packet: Option<PacketAt>,
    /// The number that the next packet should have.
    number: u64,
    /// The same, if the last packet's number was damaged.
    number_otherwise: Option<u64>,
    /// Records of this packet that were read.
    read: u64,
    /// In the middle of damage that has been told.
    skipping: bool,
    /// The operating system refused to read on.
    given_up: bool,
    /// The latest stamp that a record of this packet may have.
    latest: u64,
    /// The last record's stamp.
    last: u64,
    losses: Losses,
    /// What was lost behind the last record: to be told at the recording's end.
    tail: Vec<Loss>,
    end: u64,
    problems: Problems,
}

/// Where a cursor stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// The next event has this stamp.
    At(u64),
    /// There are no more.
    End,
}

/// What one careful step came to.
enum Step {
    /// On to the next.
    On,
    Stop(Head),
}

/// So much is read at a time: two of the longest records fit, and a few hundred streams of it are
/// still little.
const BLOCK: usize = 256 * 1024;
const _: () = assert!(BLOCK >= 2 * MAX_RECORD_BYTES);

/// The shortest record.
const LEAST: usize = 24;

/// Behind damage, a record is believed to be the stream's when its number is this close.
const NEAR: u16 = 4096;

impl<S: Source> Cursor<S> {
    /// A cursor at the beginning of a stream. `end` is the recording's last stamp.
    pub fn new(
        stream: &StreamInfo,
        source: S,
        uuid: [u8; 16],
        decoder: Decoder,
        end: u64,
    ) -> io::Result<Self> {
        let mut ours = [false; 256];
        for kind in Kind::ALL {
            ours[usize::from(kind.number())] = stream.buffer.holds(kind);
        }
        Ok(Self {
            packets: Packets::new(&source, uuid)?,
            source,
            buffer: stream.buffer,
            cpu: stream.cpu,
            decoder,
            ours,
            window: Window::new(BLOCK),
            packet: None,
            number: 0,
            number_otherwise: None,
            read: 0,
            skipping: false,
            given_up: false,
            latest: 0,
            last: 0,
            losses: Losses::default(),
            tail: Vec::new(),
            end,
            problems: Problems::new(format!("kernel/{}", stream.name)),
        })
    }

    /// Tells every event up to and including stamp `limit`, and where the next one is.
    pub fn run(&mut self, limit: u64, tell: &mut impl FnMut(&Event)) -> Head {
        loop {
            if let Some(head) = self.regular(limit, tell) {
                return head;
            }
            if let Step::Stop(head) = self.careful(limit, tell) {
                return head;
            }
        }
    }

    /// What was not as it was written.
    pub fn problems(self) -> Vec<ReadProblem> {
        self.problems.finish()
    }

    /// Tells records as long as nothing about them is odd; says where it stands when that is known.
    #[inline]
    fn regular(&mut self, limit: u64, tell: &mut impl FnMut(&Event)) -> Option<Head> {
        let bytes = self.window.bytes();
        let counts = self.buffer.counts();
        let mut head = None;
        let mut at = 0;
        while let Some(header) = Header::read(&bytes[at..]) {
            let in_order = self.last <= header.stamp && header.stamp <= self.latest;
            let in_number = if counts { self.losses.expects(header.seq) } else { self.losses.expects_any() };
            if !in_order || !in_number || !self.ours[usize::from(header.kind)] {
                break;
            }
            let Some(length) = fixed_length(header.kind) else { break };
            match bytes.get(at + length..).and_then(Header::read) {
                Some(next)
                    if next.stamp >= header.stamp
                        && self.ours[usize::from(next.kind)]
                        && (!counts || next.seq == header.seq.wrapping_add(1)) => {}
                _ => break,
            }
            if header.stamp > limit {
                head = Some(Head::At(header.stamp));
                break;
            }
            let cpu = if counts { self.cpu } else { Cpu(header.seq) };
            let Ok((event, _)) = self.decoder.decode(&bytes[at..], cpu) else { break };
            tell(&event);
            self.losses.regular(header.stamp, header.seq);
            self.last = header.stamp;
            self.read += 1;
            at += length;
        }
        self.window.consume(at);
        head
    }

    /// Deals with whatever stands next, however odd.
    fn careful(&mut self, limit: u64, tell: &mut impl FnMut(&Event)) -> Step {
        if self.window.left() == 0 {
            return match self.next_packet() {
                Ok(true) => Step::On,
                Ok(false) => self.finish(limit, tell),
                Err(e) => self.give_up(&e),
            };
        }
        let sight = (2 * MAX_RECORD_BYTES) as u64;
        if (self.window.bytes().len() as u64) < self.window.left().min(sight)
            && let Err(e) = self.window.fill(&self.source)
        {
            return self.give_up(&e);
        }
        match self.examine() {
            Verdict::Good(header, length) if header.stamp <= limit => self.take(header, length, tell),
            Verdict::Good(header, _) => return Step::Stop(Head::At(header.stamp)),
            Verdict::Damaged(why, length) => self.skip(length, &why),
            Verdict::CutOff => self.window.consume(usize::MAX),
        }
        Step::On
    }

    /// Whether the record that stands next can be believed.
    fn examine(&mut self) -> Verdict {
        let bytes = self.window.bytes();
        let (header, length) = match self.believe(0, self.last) {
            Ok(found) => found,
            Err(Disbelief::Record(DecodeError::Short { .. })) if self.packet.is_some_and(|p| p.is_cut()) => {
                return Verdict::CutOff;
            }
            Err(Disbelief::TooLate { .. }) if self.is_end_wrong() => {
                let offset = self.packet.map_or(self.window.offset(), |packet| packet.offset);
                self.problems.add(
                    offset,
                    format_args!("the packet says it ends at stamp {}, and goes on", self.latest),
                );
                self.latest = u64::MAX;
                return self.examine();
            }
            Err(why) => {
                let to = self.resume(8, self.last).unwrap_or(bytes.len());
                return Verdict::Damaged(why.to_string(), to);
            }
        };
        let wanted = self.buffer.counts().then_some(header.seq.wrapping_add(1));
        let Err(why) = self.believe_or_end(length, header.stamp) else {
            // When the next number is not there, it may be in here, swallowed by a wrong length.
            let swallowed = wanted.is_some() && self.numbered(length) != wanted;
            return match self.resume(LEAST, header.stamp).filter(|&to| swallowed && to < length) {
                Some(to) if self.numbered(to) == wanted => {
                    Verdict::Damaged("inside this record another begins".to_owned(), to)
                }
                _ => Verdict::Good(header, length),
            };
        };
        // This record and what follows do not fit together: which of them is damaged?
        if let Ok((next, next_length)) = self.believe(length, self.last) {
            return self.blame(header, length, next, next_length);
        }
        let rest = self.window.left() - length as u64;
        match self.resume(LEAST, header.stamp) {
            Some(to) if to < length => {
                Verdict::Damaged(format!("inside this record another begins: {why}"), to)
            }
            // No record fits in between, or none is missing: it is this one that should be longer.
            Some(to) if to < length + LEAST || (wanted.is_some() && self.numbered(to) == wanted) => {
                Verdict::Damaged(format!("this record ends where none begins: {why}"), to)
            }
            None if rest < LEAST as u64 => {
                Verdict::Damaged(format!("this record ends where none begins: {why}"), usize::MAX)
            }
            _ => Verdict::Good(header, length),
        }
    }

    /// Of two records whose stamps are the wrong way round, which is wrong? The one after them
    /// knows, or the packet's end; when neither does, both are left out.
    fn blame(&self, this: Header, length: usize, next: Header, next_length: usize) -> Verdict {
        let text = format!("stamps {} and {} are the wrong way round", this.stamp, next.stamp);
        let is_end = self.window.left() == (length + next_length) as u64;
        let is_this_right = is_end && this.stamp == self.latest;
        let is_next_right = match self.believe(length + next_length, this.stamp) {
            _ if is_end => next.stamp == self.latest,
            fits_this => fits_this.is_err(),
        };
        match (is_this_right, is_next_right) {
            (true, _) => Verdict::Good(this, length),
            (false, true) => Verdict::Damaged(text, length),
            (false, false) => Verdict::Damaged(text, length + next_length),
        }
    }

    /// The number of the record at `at`, in a stream whose records have numbers.
    fn numbered(&self, at: usize) -> Option<u16> {
        let header = self.window.bytes().get(at..).and_then(Header::read)?;
        self.buffer.counts().then_some(header.seq)
    }

    /// The record at `at` of what can be seen, not before stamp `after`.
    fn believe(&self, at: usize, after: u64) -> Result<(Header, usize), Disbelief> {
        let bytes = self.window.bytes().get(at..).unwrap_or_default();
        let length = record_length(bytes)?;
        let header = Header::read(bytes).ok_or(DecodeError::Short { record: "any", needs: 16, found: 0 })?;
        if !self.ours[usize::from(header.kind)] {
            return Err(Disbelief::Foreign(header.kind));
        }
        if header.stamp < after {
            return Err(Disbelief::Backwards { stamp: header.stamp, after });
        }
        if header.stamp > self.latest {
            return Err(Disbelief::TooLate { stamp: header.stamp, latest: self.latest });
        }
        Ok((header, length))
    }

    /// The same, where the end of the packet is as good as another record, and so is a record that
    /// goes on out of sight.
    fn believe_or_end(&self, at: usize, after: u64) -> Result<(), Disbelief> {
        match self.believe(at, after) {
            _ if at as u64 == self.window.left() => Ok(()),
            Ok(_) => Ok(()),
            Err(Disbelief::Record(DecodeError::Short { .. })) if self.packet.is_some_and(|p| p.is_cut()) => {
                Ok(())
            }
            Err(why) => Err(why),
        }
    }

    /// Whether the record that stands next is later than its packet's end and yet right: the record
    /// behind it says so, or behind the last one the packet that follows.
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

    /// Where, at `from` or behind it, a record begins that can be believed and that another follows.
    fn resume(&self, from: usize, after: u64) -> Option<usize> {
        let seen = self.window.bytes().len();
        let near = |seq: u16| match self.losses.expected() {
            Some(expected) if self.buffer.counts() => seq.wrapping_sub(expected) < NEAR,
            _ => true,
        };
        (from..seen.saturating_sub(HEADER_BYTES - 1)).step_by(8).find(|&at| match self.believe(at, after) {
            Ok((header, length)) => {
                near(header.seq) && self.believe_or_end(at + length, header.stamp).is_ok()
            }
            Err(_) => false,
        })
    }

    /// Tells the record that stands next, and what was lost before it.
    fn take(&mut self, header: Header, length: usize, tell: &mut impl FnMut(&Event)) {
        let bytes = self.window.bytes();
        let counts = self.buffer.counts();
        let cpu = if counts { self.cpu } else { Cpu(header.seq) };
        let event = match self.decoder.decode(bytes, cpu) {
            Ok((event, _)) => event,
            // Its length may be as wrong as the rest of it.
            Err(e) => return self.skip(self.resume(LEAST, self.last).unwrap_or(length), &e.to_string()),
        };
        let loss = if counts {
            let next = bytes.get(length..).and_then(Header::read).map(|next| next.seq);
            let seq = match self.losses.expected() {
                Some(expected) if expected != header.seq && next == Some(expected.wrapping_add(1)) => {
                    let text = format!("record number {} stands where {expected} belongs", header.seq);
                    self.problems.add(self.window.offset(), text);
                    expected
                }
                _ => header.seq,
            };
            self.losses.record(header.stamp, seq)
        } else {
            self.losses.uncounted(header.stamp)
        };
        if let Some(loss) = loss {
            tell(&self.loss(loss, header.stamp));
        }
        tell(&event);
        self.last = header.stamp;
        self.read += 1;
        self.skipping = false;
        self.window.consume(length);
    }

    /// Leaves out `length` bytes. Damage is told once, however long it is.
    fn skip(&mut self, length: usize, why: &str) {
        if !self.skipping {
            self.problems.add(self.window.offset(), why);
        }
        self.skipping = true;
        self.losses.damage();
        self.window.consume(length);
    }

    /// Goes to the next packet, or to what is wrong there; says whether there was any.
    fn next_packet(&mut self) -> io::Result<bool> {
        let found = if self.given_up { None } else { self.packets.next(&self.source)? };
        match found {
            None => {
                self.leave_packet();
                return Ok(false);
            }
            Some(Found::Packet(packet)) => {
                self.leave_packet();
                self.enter(packet);
            }
            Some(Found::Fault(fault)) => {
                match (fault.kind.clone(), self.packet) {
                    (FaultKind::PacketCut { claimed, found }, Some(packet)) => {
                        let missing = u64::from(packet.header.events).saturating_sub(self.read);
                        // A number of records that the missing bytes cannot have held is damaged itself.
                        let possible = missing <= (claimed - found) / LEAST as u64 + 1;
                        self.tail.push(Loss { from: self.last, count: if possible { missing } else { 0 } });
                        self.packet = None;
                    }
                    (FaultKind::Signature | FaultKind::SizesDisagree { .. }, _) => {}
                    _ => self.losses.damage(),
                }
                self.problems.add(fault.offset, fault.kind);
            }
        }
        Ok(true)
    }

    fn enter(&mut self, packet: PacketAt) {
        let header = packet.header;
        let offset = packet.offset;
        if header.stream_id != stream_id(self.buffer)
            || (self.buffer.counts() && header.cpu != u32::from(self.cpu.0))
        {
            let (stream, cpu) = (header.stream_id, header.cpu);
            self.problems.add(offset, format_args!("the packet says it is of stream {stream}, CPU {cpu}"));
        }
        // The number after the last one's, or after what the last one's should have been.
        let should = self.number;
        self.number = header.number.wrapping_add(1);
        if header.number != should && Some(header.number) != self.number_otherwise {
            let is = header.number;
            self.problems.add(offset, format_args!("packet {is} stands where {should} belongs"));
            if is > should && !self.buffer.counts() {
                self.losses.damage();
            }
        }
        self.number_otherwise = Some(should.wrapping_add(1));
        self.latest = header.end;
        if header.end < header.begin || header.end < self.last {
            let (begin, end) = (header.begin, header.end);
            self.problems
                .add(offset, format_args!("the packet says it begins at stamp {begin} and ends at {end}"));
            self.latest = u64::MAX;
        }
        self.number = header.number.wrapping_add(1);
        // The losses of a buffer that all CPUs share are records of their own, with their CPU; its
        // counter is for other readers.
        self.losses.packet(header.begin, if self.buffer.counts() { header.discarded } else { 0 });
        self.window.set(packet.from, packet.to);
        self.read = 0;
        self.skipping = false;
        self.packet = Some(packet);
    }

    fn leave_packet(&mut self) {
        let Some(packet) = self.packet.take() else { return };
        let (says, has) = (u64::from(packet.header.events), self.read);
        if says != has && !packet.is_cut() {
            self.problems
                .add(packet.offset, format_args!("the packet says it has {says} records, {has} can be read"));
            if has < says && !self.buffer.counts() {
                self.losses.damage();
            }
        }
    }

    /// At the end of the stream: what was lost behind its last record, told at the recording's end.
    fn finish(&mut self, limit: u64, tell: &mut impl FnMut(&Event)) -> Step {
        self.tail.extend(self.losses.end());
        let at = self.end.max(self.last);
        if self.tail.is_empty() {
            return Step::Stop(Head::End);
        }
        if at > limit {
            return Step::Stop(Head::At(at));
        }
        for loss in std::mem::take(&mut self.tail) {
            tell(&self.loss(loss, at));
        }
        Step::Stop(Head::End)
    }

    fn give_up(&mut self, error: &io::Error) -> Step {
        self.problems.add(self.window.offset(), format_args!("cannot be read: {error}"));
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
            what: What::Loss { from: Stamp::from_ns(loss.from.min(at)), count: loss.count },
        }
    }
}

/// What came of examining a record.
enum Verdict {
    Good(Header, usize),
    /// Why, and how many bytes to leave out.
    Damaged(String, usize),
    /// The rest of the packet is not there, which is told elsewhere.
    CutOff,
}

/// Why bytes are not taken for the next record.
#[derive(Debug, thiserror::Error)]
enum Disbelief {
    #[error(transparent)]
    Record(#[from] DecodeError),
    #[error("a record of kind {0} does not belong here")]
    Foreign(u8),
    #[error("stamp {stamp} comes after stamp {after}")]
    Backwards { stamp: u64, after: u64 },
    #[error("stamp {stamp} is later than the packet's end, {latest}")]
    TooLate { stamp: u64, latest: u64 },
}
