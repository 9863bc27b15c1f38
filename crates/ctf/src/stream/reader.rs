//! Reads a stream event by event, with its losses and faults.

use std::collections::VecDeque;
use std::io;

use super::head::{self, HeadShape};
use super::lookahead::{FoundEvent, Lookahead};
use super::packet::Packet;
use super::plans::Plans;
use super::{Fault, FaultKind};
use crate::packet::MAGIC;
use crate::plan::{Ignore, Registers, Stop, Visitor};
use crate::window::Source;

/// A stream's next item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// An event; [`Reader::fields`] passes its fields on.
    Event(Head),
    /// A packet begins.
    Packet(Box<Packet>),
    /// The tracer lost events.
    Lost(Lost),
    /// An unreadable part. The bytes after it can be read.
    Fault(Box<Fault>),
}

/// An event without its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its class's index, for [`Plans::class`].
    pub class: u32,
    /// Its stamp, in ticks of the stream's clock.
    pub stamp: u64,
}

/// Events that a tracer lost between two recorded events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// The last stamp before the packet whose counter includes them, ticks.
    pub from: u64,
    /// The first stamp behind the loss.
    pub to: u64,
    /// Their number; 0 if unknown.
    pub count: u64,
}

/// Reads a stream file.
#[derive(Debug, Clone)]
pub struct Reader<'p, S> {
    plans: &'p Plans,
    source: S,
    /// The file's size at the beginning, or its readable part since.
    size: u64,
    /// A part of the file, from `base` on. Bits count from its first byte, which stands in its packet at a multiple
    /// of [`GRAIN`].
    buffer: Vec<u8>,
    base: u64,
    filled: usize,
    /// The content's end in `buffer`.
    visible: usize,
    /// The next bit, and the content's last bit plus 1, perhaps behind the buffer.
    at: u64,
    end: u64,
    /// The current event's first bit.
    begun: u64,
    stream: usize,
    /// The class of an event whose fields are not passed yet.
    pending: Option<u32>,
    /// The items already found, up to `at`; all are returned before any other item.
    ahead: Lookahead,
    /// The last returned event, if it was found ahead.
    last_found: Option<FoundEvent>,
    next_packet: u64,
    packets: u64,
    stamp: u64,
    registers: Box<Registers>,
    queue: VecDeque<Item>,
    account: LossAccount,
    /// The last search for packets: its start, and its result.
    searched: Option<(u64, Option<u64>)>,
}

/// The known losses.
#[derive(Debug, Clone, Default)]
struct LossAccount {
    /// The previous packet's counters.
    discarded: u64,
    sequence: Option<u64>,
    /// The previous packet's last stamp.
    from: u64,
    /// Events lost while the current packet was filled.
    counted: u64,
    /// Not returned yet; its end is 0 until the next event ends it.
    pending_loss: Option<Lost>,
    /// The packet's claimed end.
    end: u64,
}

/// The largest alignment, bytes: a power of two.
const GRAIN: usize = 64;

/// The read size, bytes.
const CHUNK: usize = 256 * 1024;

/// With this number of bytes in the buffer, most events are complete.
const MARGIN: usize = 16 * 1024;

/// The limit on a packet's header and context, bytes.
const MAX_HEADER: usize = MARGIN;

impl<'p, S: Source> Reader<'p, S> {
    /// Reads a stream file from the trace for which the plans were made.
    ///
    /// # Errors
    /// The operating system's read errors.
    pub fn new(plans: &'p Plans, source: S) -> io::Result<Self> {
        let size = source.size()?;
        Ok(Self {
            plans,
            source,
            size,
            buffer: Vec::new(),
            base: 0,
            filled: 0,
            visible: 0,
            at: 0,
            end: 0,
            begun: 0,
            stream: 0,
            pending: None,
            ahead: Lookahead::default(),
            last_found: None,
            next_packet: 0,
            packets: 0,
            stamp: 0,
            registers: Box::default(),
            queue: VecDeque::new(),
            account: LossAccount::default(),
            searched: None,
        })
    }

    /// The next item; `None` at the end.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "fields are asked for in between")]
    pub fn next(&mut self) -> Option<Item> {
        match self.ahead.pop() {
            Some(found) => Some(self.found(found)),
            None => self.next_behind_lookahead(),
        }
    }

    /// An event found ahead.
    #[inline]
    const fn found(&mut self, found: FoundEvent) -> Item {
        self.last_found = Some(found);
        Item::Event(Head { class: found.class, stamp: found.stamp })
    }

    /// The next item behind all items found ahead.
    fn next_behind_lookahead(&mut self) -> Option<Item> {
        self.last_found = None;
        // First: a pending class's event may itself wait there, behind a loss.
        if !self.queue.is_empty() {
            return self.queue.pop_front();
        }
        if let Some(class) = self.pending
            && let Err(fault) = self.skip(class)
        {
            return Some(Item::Fault(fault));
        }
        if self.at >= self.end || self.account.pending_loss.is_some() {
            return self.next_between_events();
        }
        match self.event() {
            None => self.next_between_events(),
            event => event,
        }
    }

    /// This packet's next wanted event.
    #[inline]
    fn event(&mut self) -> Option<Item> {
        let plans = self.plans;
        let stream = &plans.streams[self.stream];
        while self.at < self.end {
            if self.visible as u64 * 8 < self.at + MARGIN as u64 * 8 && self.has_more() {
                self.more(CHUNK);
            }
            let bytes = &self.buffer[..self.visible];
            // The event that ends a loss is read singly.
            if self.account.pending_loss.is_none() {
                let whole = &bytes[..bytes.len().min(usize::try_from(self.end / 8).unwrap_or(usize::MAX))];
                let (sizes, from) = (&stream.sizes, (self.at, self.stamp));
                (self.at, self.stamp) = match stream.head {
                    HeadShape::Compact { .. } => self.ahead.scan(head::compact, sizes, whole, from),
                    HeadShape::Large { .. } => self.ahead.scan(head::large, sizes, whole, from),
                    HeadShape::Any(_) => from,
                };
                if let Some(found) = self.ahead.pop() {
                    return Some(self.found(found));
                }
                if self.at > from.0 {
                    continue;
                }
            }
            match stream.head.read(bytes, self.at, &mut self.registers, self.stamp) {
                Ok((heading, at)) if at <= self.end => {
                    let Some(class) = stream.events.get(heading.id) else {
                        return Some(Item::Fault(self.leave(FaultKind::UnknownEvent(heading.id))));
                    };
                    (self.begun, self.at, self.stamp) = (self.at, at, heading.stamp);
                    self.pending = Some(class);
                    if !plans.classes[class as usize].ignored {
                        return Some(Item::Event(Head { class, stamp: heading.stamp }));
                    }
                    // It ends a loss all the same.
                    if self.account.pending_loss.is_some() {
                        self.account.end_loss(heading.stamp);
                    }
                    if let Err(fault) = self.skip(class) {
                        return Some(Item::Fault(fault));
                    }
                }
                Err(Stop::Short) if self.has_more() => self.grow(),
                Ok(_) => return Some(Item::Fault(self.leave(FaultKind::from_stop(Stop::Short, "?")))),
                Err(stop) => return Some(Item::Fault(self.leave(FaultKind::from_stop(stop, "?")))),
            }
        }
        None
    }

    /// Passes on the fields of the event that [`Reader::next`] returned just before.
    ///
    /// # Errors
    /// When the fields do not fit into the packet, or contradict their class. Then the packet's rest is skipped, and
    /// this event's fields are void.
    #[inline]
    pub fn fields(&mut self, visitor: &mut impl Visitor) -> Result<(), Box<Fault>> {
        let Some(FoundEvent { class, begin, .. }) = self.last_found else {
            return self.pending_fields(visitor);
        };
        visitor.begin();
        let plan = &self.plans.classes[class as usize].plan;
        let at = begin as u64 * 8;
        let run = plan.run_fixed(&self.buffer[..self.visible], at, &mut self.registers, visitor);
        run.map_err(|stop| self.leave_event(stop, class))
    }

    fn pending_fields(&mut self, visitor: &mut impl Visitor) -> Result<(), Box<Fault>> {
        let Some(class) = self.pending.take() else { return Ok(()) };
        let plan = &self.plans.classes[class as usize].plan;
        loop {
            visitor.begin();
            match plan.run(&self.buffer[..self.visible], self.at, &mut self.registers, visitor) {
                Ok(at) if at <= self.end && at > self.begun => {
                    self.at = at;
                    return Ok(());
                }
                Err(Stop::Short) if self.has_more() => self.grow(),
                Ok(at) if at > self.end => return Err(self.leave_event(Stop::Short, class)),
                Ok(_) => return Err(self.leave_event(Stop::Empty, class)),
                Err(stop) => return Err(self.leave_event(stop, class)),
            }
        }
    }

    /// The last stamp, ticks.
    pub fn stamp(&self) -> u64 {
        self.last_found.map_or(self.stamp, |found| found.stamp)
    }

    /// Passes an event's unwanted fields.
    #[inline]
    fn skip(&mut self, class: u32) -> Result<(), Box<Fault>> {
        if let Some(bits) = self.plans.classes[class as usize].fixed {
            let at = self.at.saturating_add(bits);
            if at <= self.end {
                (self.at, self.pending) = (at, None);
                return Ok(());
            }
        }
        self.pending_fields(&mut Ignore)
    }

    /// The passed bytes in the file, for progress reports.
    pub const fn offset(&self) -> u64 {
        self.base + self.at / 8
    }

    #[cold]
    fn leave_event(&mut self, stop: Stop, class: u32) -> Box<Fault> {
        let name = self.plans.class(class).map_or("?", |class| class.event.name.as_str());
        let kind = FaultKind::from_stop(stop, name);
        self.at = self.begun;
        self.leave(kind)
    }

    /// Leaves the packet because of this fault.
    #[cold]
    fn leave(&mut self, kind: FaultKind) -> Box<Fault> {
        let offset = self.base + self.at / 8;
        self.at = self.end;
        self.pending = None;
        self.ahead.clear();
        Box::new(Fault { packet: self.packets.saturating_sub(1), offset, kind })
    }

    /// Whether the packet's content continues behind the bytes in sight.
    #[inline]
    const fn has_more(&self) -> bool {
        (self.visible as u64) * 8 < self.end
    }

    /// Moves the buffer forward, so that the bytes in sight begin here, and reads up to `most` bytes in all.
    #[cold]
    fn more(&mut self, most: usize) {
        let passed = (self.at / 8) as usize / GRAIN * GRAIN;
        // A jump may have passed the read bytes.
        if passed < self.filled {
            self.buffer.copy_within(passed..self.filled, 0);
        }
        self.filled = self.filled.saturating_sub(passed);
        self.base += passed as u64;
        self.at -= passed as u64 * 8;
        self.begun = self.begun.saturating_sub(passed as u64 * 8);
        self.end -= passed as u64 * 8;
        if let Err(error) = self.read(most) {
            self.queue.push_back(Item::Fault(Box::new(Fault {
                packet: self.packets.saturating_sub(1),
                offset: self.base + self.filled as u64,
                kind: FaultKind::Io(error.to_string()),
            })));
            self.end = self.end.min(self.filled as u64 * 8);
        }
        self.update_visible();
    }

    /// Reads more, for an event larger than the bytes in sight.
    #[cold]
    fn grow(&mut self) {
        let most = self.buffer.len().saturating_mul(2).max(CHUNK);
        self.more(most);
    }

    fn update_visible(&mut self) {
        // The file may have been cut since its size was read.
        if self.base + self.filled as u64 >= self.size {
            self.end = self.end.min(self.filled as u64 * 8);
        }
        let content = usize::try_from(self.end.div_ceil(8)).unwrap_or(usize::MAX);
        self.visible = content.min(self.filled);
    }

    /// Reads on until `most` bytes are there or the file ends.
    fn read(&mut self, most: usize) -> io::Result<()> {
        let left = self.size.saturating_sub(self.base);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(most);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        if self.filled < wanted {
            let from = self.base + self.filled as u64;
            let n = self.source.read_at(from, &mut self.buffer[self.filled..wanted]);
            self.filled += n.as_ref().copied().unwrap_or(0);
            if self.filled < wanted {
                self.size = self.base + self.filled as u64;
            }
            n?;
        }
        Ok(())
    }

    /// The next item between events.
    #[cold]
    fn next_between_events(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.queue.pop_front() {
                return Some(item);
            }
            if self.at < self.end {
                // The event that ends a loss gives its end.
                let event = self.event();
                if let Some(Item::Event(head)) = &event {
                    self.account.end_loss(head.stamp);
                }
                let pending_loss = self.account.pending_loss;
                match pending_loss.filter(|loss| loss.to > 0) {
                    // An event's fields are still to come, behind the loss.
                    Some(lost) => {
                        self.account.pending_loss = None;
                        self.queue.extend(event);
                        return Some(Item::Lost(lost));
                    }
                    None if event.is_some() => return event,
                    None => continue,
                }
            }
            if self.next_packet >= self.size {
                let mut lost = self.account.pending_loss.take().or_else(|| self.account.close())?;
                lost.to = self.stamp.max(self.account.end).max(lost.from);
                return Some(Item::Lost(lost));
            }
            if let Err(error) = self.open() {
                let offset = self.next_packet;
                self.next_packet = self.size;
                let kind = FaultKind::Io(error.to_string());
                return Some(Item::Fault(Box::new(Fault { packet: self.packets, offset, kind })));
            }
        }
    }

    /// Goes to a packet's beginning.
    fn seek(&mut self, offset: u64) -> io::Result<()> {
        let inside = offset.checked_sub(self.base).and_then(|inside| usize::try_from(inside).ok());
        let inside = inside.filter(|&inside| {
            let ends = self.base + self.filled as u64 >= self.size;
            inside.is_multiple_of(GRAIN)
                && inside <= self.filled
                && (ends || self.filled - inside >= MAX_HEADER)
        });
        match inside {
            Some(inside) => self.at = inside as u64 * 8,
            None => {
                (self.base, self.filled, self.at) = (offset, 0, 0);
                self.read(CHUNK)?;
            }
        }
        Ok(())
    }

    /// Opens the packet due at `next_packet`, or skips bytes without a packet.
    fn open(&mut self) -> io::Result<()> {
        let offset = self.next_packet;
        self.seek(offset)?;
        self.end = self.at;
        let from = (self.at / 8) as usize;
        let bytes = &self.buffer[from..self.filled.min(from + MAX_HEADER).max(from)];
        let mut packet = Packet { offset, number: self.packets, ..Packet::default() };
        let plans = self.plans;
        let known = plans.packet_header.run(bytes, 0, &mut self.registers, &mut packet);
        if known.is_err() && bytes.len() < MAX_HEADER {
            return self.skip_to_packet(offset, |_| FaultKind::HeaderCut);
        }
        if known.is_err() || packet.magic.is_some_and(|magic| magic != u64::from(MAGIC)) {
            return self.skip_to_packet(offset, FaultKind::NoPacket);
        }
        if packet.uuid.is_some() && plans.metadata().uuid.is_some() && packet.uuid != plans.metadata().uuid {
            return self.skip_to_packet(offset, FaultKind::OtherTrace);
        }
        let stream = match (packet.stream, plans.streams.as_slice()) {
            (None, [_]) => Some(0),
            (id, streams) => streams.iter().position(|stream| stream.id == id.unwrap_or(0)),
        };
        let Some(stream) = stream else {
            let stream = packet.stream.unwrap_or(0);
            return self.skip_to_packet(offset, |skipped| FaultKind::UnknownStream { stream, skipped });
        };
        let at = match plans.streams[stream].packet.run(bytes, 0, &mut self.registers, &mut packet) {
            Ok(at) => at,
            Err(_) if bytes.len() < MAX_HEADER => {
                return self.skip_to_packet(offset, |_| FaultKind::HeaderCut);
            }
            Err(_) => return self.skip_to_packet(offset, FaultKind::NoPacket),
        };
        self.stream = stream;
        let (content, size) = self.bounds(&packet, at)?;
        self.next_packet = offset + size;
        self.end = self.at + content;
        self.at += at;
        self.packets += 1;
        // Between packets, the last event's stamp counts as the time before, not the packet's begin.
        self.account.packet(&packet, self.stamp);
        if let Some(begin) = packet.begin {
            self.stamp = begin;
        }
        self.update_visible();
        self.queue.push_front(Item::Packet(Box::new(packet)));
        Ok(())
    }

    fn fault(&mut self, offset: u64, kind: FaultKind) {
        self.queue.push_back(Item::Fault(Box::new(Fault { packet: self.packets, offset, kind })));
    }

    /// A packet's content in bits and its size in bytes, as far as the file and the following bytes confirm them.
    fn bounds(&mut self, packet: &Packet, header: u64) -> io::Result<(u64, u64)> {
        let (offset, rest) = (packet.offset, self.size - packet.offset);
        let claimed = packet.size.or_else(|| packet.content.map(|content| content.saturating_add(7) / 8 * 8));
        let Some(claimed) = claimed else { return Ok((rest.saturating_mul(8), rest)) };
        let possible = claimed.is_multiple_of(8) && claimed >= header.max(8);
        let bytes = claimed / 8;
        let mut size = bytes;
        if !possible {
            let next = self.find(offset + (header / 8).max(1))?;
            size = next.unwrap_or(self.size) - offset;
            self.fault(offset, FaultKind::Size { bits: claimed, found: size });
        } else if bytes > rest {
            size = self.find(offset + (header / 8).max(1))?.unwrap_or(self.size) - offset;
            let found = size;
            self.fault(offset, FaultKind::PacketCut { claimed: bytes, found });
        } else if let Some(signature) = &self.plans.signature
            && bytes < rest
            && !signature.begins(&self.source, self.size, offset + bytes)?
            && let Some(next) = self.find(offset + (header / 8).max(1))?
            && next < offset + bytes
        {
            size = next - offset;
            self.fault(offset, FaultKind::PacketOverrun { claimed: bytes, found: size });
        }
        let bits = size.saturating_mul(8);
        let content = match packet.content {
            None => bits,
            Some(content) if possible && (content < header || content > claimed) => {
                self.fault(offset, FaultKind::Content { content, size: claimed });
                if content < header { header } else { bits }
            }
            Some(content) => content.max(header).min(bits),
        };
        Ok((content, size))
    }

    /// The next packet's offset, if packets have a signature.
    fn find(&mut self, from: u64) -> io::Result<Option<u64>> {
        let Some(signature) = &self.plans.signature else { return Ok(None) };
        if let Some((searched, found)) = self.searched
            && searched <= from
            && found.is_none_or(|found| found >= from)
        {
            return Ok(found);
        }
        let found = signature.find(&self.source, from)?.filter(|&found| found < self.size);
        self.searched = Some((from, found));
        Ok(found)
    }

    /// Skips to the next packet, since none begins here.
    fn skip_to_packet(&mut self, offset: u64, kind: impl Fn(u64) -> FaultKind) -> io::Result<()> {
        let next = self.find(offset + 1)?.unwrap_or(self.size);
        self.fault(offset, kind(next - offset));
        self.next_packet = next;
        Ok(())
    }
}

impl LossAccount {
    /// A packet begins; `last` is the last stamp before it.
    fn packet(&mut self, packet: &Packet, last: u64) {
        let first = self.sequence.is_none() && packet.number == 0;
        let from = if first { packet.begin.unwrap_or(last) } else { last };
        // A packet's counter counts up to its end: the previous packet's losses are complete now.
        self.pending_loss = match (self.pending_loss, self.close()) {
            // A packet without events between two losses: they are a single loss.
            (Some(a), Some(b)) => Some(Lost { from: a.from, to: 0, count: a.count.saturating_add(b.count) }),
            (a, b) => a.or(b),
        };
        let counted = packet.discarded.unwrap_or(self.discarded);
        // Where packets are numbered and the first are missing, their losses were before.
        let before = if first && packet.sequence.is_some_and(|sequence| sequence > 0) {
            counted
        } else {
            self.discarded
        };
        // A counter that went backwards is damaged.
        let count = counted.saturating_sub(before);
        self.discarded = self.discarded.max(counted);
        let gap = match (self.sequence, packet.sequence) {
            (Some(before), Some(now)) => now.checked_sub(before).is_some_and(|step| step > 1),
            _ => false,
        };
        self.sequence = packet.sequence.or(self.sequence);
        if gap && self.pending_loss.is_none() {
            self.pending_loss = Some(Lost { from, to: 0, count: 0 });
        }
        self.from = from;
        self.end = packet.end.unwrap_or(0);
        self.counted = count;
    }

    /// The losses in the ending packet's count.
    fn close(&mut self) -> Option<Lost> {
        let count = std::mem::take(&mut self.counted);
        (count > 0).then_some(Lost { from: self.from, to: 0, count })
    }

    /// Ends the pending loss: an event at this stamp was not lost.
    fn end_loss(&mut self, stamp: u64) {
        if let Some(lost) = &mut self.pending_loss
            && lost.to == 0
        {
            lost.to = stamp.max(lost.from).max(1);
        }
    }
}
