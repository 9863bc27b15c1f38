//! A stream's events and losses in order, with its damages: the part that the kernel's streams and programs' streams share.

use std::fmt::Display;
use std::io;
use std::path::Path;

use wakepath_clock::{Local, Stamp};
use wakepath_ctf::schema::Clock;
use wakepath_ctf::stream::{Fault as StreamFault, Head, Item as RawItem, Lost, Plans, Reader};
use wakepath_event::{Cpu, Damage, DamageKind};

use super::joined::Joined;
use crate::Fault;

/// The limit on listed damages in a stream.
const MAX_DAMAGES: usize = 100;

/// The time within which LTTng ends all streams, each with a packet, with or without events, whose end is the stamp up to which the stream
/// is complete.
pub(super) const MAX_APART_NS: u64 = 100_000_000;

/// Reads a stream. `T` is the meaning of a used event.
pub(super) struct Items<'a, T> {
    clock: Option<&'a Clock>,
    pub stream: &'a Joined,
    pub reader: Reader<'a, &'a Joined>,
    /// The CPU of packets without one.
    default_cpu: Cpu,
    /// The last packet's CPU.
    pub cpu: Cpu,
    /// The event behind a loss. Its fields are still to be read.
    behind_loss: Option<(Head, T)>,
    /// Unreadable bytes follow this stamp, ticks.
    faulted: Option<u64>,
    /// The stamp up to which the stream holds all events, by its last packet, ticks.
    complete_until: Option<u64>,
    /// The last event's stamp, ticks.
    last: u64,
    damages: Vec<Damage>,
    more_damages: u64,
}

/// An event or a loss.
#[derive(Clone, Copy)]
pub(super) enum Item<T> {
    Event(Head, T),
    Lost(Lost),
}

impl<T> Item<T> {
    /// The stamp, ticks.
    pub const fn ticks(&self) -> u64 {
        match self {
            Self::Event(head, _) => head.stamp,
            Self::Lost(lost) => lost.to,
        }
    }
}

impl<'a, T> Items<'a, T> {
    pub fn new(plans: &'a Plans, stream: &'a Joined, cpu: Cpu) -> io::Result<Self> {
        Ok(Self {
            clock: plans.class(0).and_then(|class| class.clock),
            stream,
            reader: Reader::new(plans, stream)?,
            default_cpu: cpu,
            cpu,
            behind_loss: None,
            faulted: None,
            complete_until: None,
            last: 0,
            damages: Vec::new(),
            more_damages: 0,
        })
    }

    pub fn ns(&self, ticks: u64) -> Stamp<Local> {
        Stamp::from_ns(self.clock.map_or(ticks, |clock| clock.ns(ticks)))
    }

    /// The begin of the stream's first packet, if packets before it are gone, ticks.
    pub fn late_begin(&self) -> Option<u64> {
        self.stream.first.filter(|first| first.sequence.is_some_and(|sequence| sequence > 0))?.begin
    }

    /// The stamp up to which the stream holds all its events.
    pub fn complete_until(&self) -> Option<Stamp<Local>> {
        self.complete_until.map(|ticks| self.ns(ticks))
    }

    /// The next used item; `used` says so by an event's class.
    #[inline]
    pub fn next(&mut self, used: impl Fn(u32) -> Option<T>) -> Option<Item<T>> {
        if let Some((head, meaning)) = self.behind_loss.take() {
            return Some(Item::Event(head, meaning));
        }
        loop {
            match self.reader.next() {
                None => return self.skipped(self.stamp()),
                Some(RawItem::Event(head)) => {
                    if head.stamp < self.last || self.is_far_behind_packet(head.stamp) {
                        self.wrong_stamp(head.stamp);
                        continue;
                    }
                    self.last = head.stamp;
                    let Some(meaning) = used(head.class) else { continue };
                    let Some(lost) = self.skipped(head.stamp) else {
                        return Some(Item::Event(head, meaning));
                    };
                    self.behind_loss = Some((head, meaning));
                    return Some(lost);
                }
                Some(RawItem::Lost(lost)) => return Some(self.lost(lost)),
                Some(RawItem::Packet(packet)) => {
                    let cpu = packet.cpu.and_then(|cpu| u32::try_from(cpu).ok());
                    self.cpu = cpu.map_or(self.default_cpu, Cpu::numbered);
                    self.complete_until = packet.end;
                }
                Some(RawItem::Fault(fault)) => {
                    self.damaged(*fault);
                    let stamp = self.stamp();
                    self.faulted.get_or_insert(stamp);
                    // The end in a packet's header counts for a whole packet only.
                    self.complete_until = Some(stamp);
                }
            }
        }
    }

    /// A noted loss. It includes skipped bytes beside it, with an unknown number of events.
    fn lost(&mut self, lost: Lost) -> Item<T> {
        let from = self.faulted.take().map(|from| Lost { from: from.min(lost.from), count: 0, ..lost });
        let mut lost = from.unwrap_or(lost);
        // The event behind it may have a senseless stamp.
        if lost.to < self.last || self.is_far_behind_packet(lost.to) {
            lost.to = self.last;
        }
        self.last = lost.to;
        Item::Lost(Lost { from: lost.from.min(lost.to), ..lost })
    }

    /// The loss for unreadable bytes, up to the next readable event.
    fn skipped(&mut self, to: u64) -> Option<Item<T>> {
        let from = self.faulted.take()?;
        // A damaged packet may claim to begin later.
        Some(Item::Lost(Lost { from: from.min(to), to, count: 0 }))
    }

    /// The last event's stamp, used or not, where it makes sense.
    fn stamp(&self) -> u64 {
        let stamp = self.reader.stamp();
        if stamp < self.last || self.is_far_behind_packet(stamp) { self.last } else { stamp }
    }

    /// Whether a stamp lies far behind its packet's claimed end. Some LTTng versions close a packet shortly before its last event.
    #[inline]
    fn is_far_behind_packet(&self, stamp: u64) -> bool {
        const FAR_NS: u64 = 1_000_000_000;
        self.complete_until
            .is_some_and(|end| stamp > end && end >= self.last && self.ns(stamp).since(self.ns(end)) > FAR_NS)
    }

    /// Leaves out an event with a senseless stamp: a stream is by time.
    #[cold]
    fn wrong_stamp(&mut self, stamp: u64) {
        let back = stamp < self.last;
        let fault = if back { Fault::StampBack } else { Fault::StampFarAhead };
        self.damage(self.reader.offset(), None, &fault);
        self.faulted.get_or_insert(self.last);
    }

    /// Notes that an event's fields cannot be read.
    #[cold]
    pub fn unreadable(&mut self, head: Head, fault: StreamFault) {
        self.damaged(fault);
        self.faulted.get_or_insert(head.stamp);
    }

    /// Leaves out an event with senseless fields.
    #[cold]
    pub fn senseless(&mut self, head: Head) {
        self.damage(self.reader.offset(), None, &Fault::NoSuchThread);
        self.faulted.get_or_insert(head.stamp);
    }

    fn damaged(&mut self, fault: StreamFault) {
        self.damage(fault.offset, Some(fault.packet), &fault.kind);
    }

    fn damage(&mut self, offset: u64, packet: Option<u64>, fault: &impl Display) {
        if self.damages.len() == MAX_DAMAGES {
            self.more_damages += 1;
            return;
        }
        let (name, offset) = self.stream.place(offset);
        let damage = Damage::at(Path::new(name), offset, fault);
        let packet = packet.filter(|_| self.stream.is_one_file());
        self.damages.push(Damage { packet, ..damage });
    }

    /// Adds a damage of the whole stream.
    pub fn add_damage(&mut self, kind: DamageKind) {
        self.damages.push(Damage::in_file(Path::new(self.stream.name()), kind));
    }

    pub fn damages(mut self) -> Vec<Damage> {
        if self.more_damages > 0 {
            self.add_damage(DamageKind::More(self.more_damages));
        }
        self.damages
    }
}
