//! A stream with programs' marks: its marks, losses and damages in order.

use std::io;
use std::path::Path;

use wakepath_clock::{Local, Stamp};
use wakepath_ctf::schema::Clock;
use wakepath_ctf::stream::{Fault, Head, Item, Plans, Reader};
use wakepath_event::{Context, Cpu, Damage, Event, EventKind, Tid, UserMark};

use super::joined::Joined;
use super::mark_fields::{Class, Values};

/// The limit on listed damages in a stream.
const MAX_DAMAGES: usize = 100;

/// All losses, added up.
#[derive(Default)]
pub(super) struct Lost {
    pub any: bool,
    pub counted: u64,
    pub uncounted: bool,
}

/// Reads a stream.
pub(super) struct Cursor<'a> {
    classes: &'a [Class],
    clock: Option<&'a Clock>,
    pub stream: &'a Joined,
    /// Its folder's index.
    pub folder: usize,
    reader: Reader<'a, &'a Joined>,
    cpu: Cpu,
    next: Option<Next>,
    /// The mark behind a loss.
    behind_loss: Option<Head>,
    faulted: Option<u64>,
    /// The stamp up to which the stream holds all marks, ticks.
    complete_until: Option<u64>,
    pub damages: Vec<Damage>,
    pub more_damages: u64,
}

#[derive(Clone, Copy)]
enum Next {
    Mark(Head),
    Lost { from: u64, to: u64, count: u64 },
}

impl Next {
    const fn ticks(self) -> u64 {
        match self {
            Self::Mark(head) => head.stamp,
            Self::Lost { to, .. } => to,
        }
    }
}

impl<'a> Cursor<'a> {
    pub fn new(
        plans: &'a Plans,
        classes: &'a [Class],
        stream: &'a Joined,
        folder: usize,
    ) -> io::Result<Self> {
        let mut cursor = Self {
            classes,
            clock: plans.class(0).and_then(|class| class.clock),
            stream,
            folder,
            reader: Reader::new(plans, stream)?,
            cpu: stream.cpu(),
            next: None,
            behind_loss: None,
            faulted: None,
            complete_until: None,
            damages: Vec::new(),
            more_damages: 0,
        };
        cursor.advance();
        // Its first packets are gone.
        if let Some(begin) = stream.first.filter(|first| first.sequence.is_some_and(|number| number > 0))
            && let Some(to) = begin.begin
        {
            let to = match cursor.next {
                Some(Next::Mark(head)) => {
                    cursor.behind_loss = Some(head);
                    to.min(head.stamp)
                }
                Some(Next::Lost { to: later, .. }) => to.max(later),
                None => to,
            };
            cursor.next = Some(Next::Lost { from: 0, to, count: 0 });
        }
        Ok(cursor)
    }

    fn ns(&self, ticks: u64) -> Stamp<Local> {
        Stamp::from_ns(self.clock.map_or(ticks, |clock| clock.ns(ticks)))
    }

    pub fn complete_until(&self) -> Option<Stamp<Local>> {
        self.complete_until.map(|ticks| self.ns(ticks))
    }

    pub fn at(&self) -> Option<Stamp<Local>> {
        self.next.map(|next| self.ns(next.ticks()))
    }

    fn advance(&mut self) {
        if let Some(head) = self.behind_loss.take() {
            self.next = Some(Next::Mark(head));
            return;
        }
        self.next = loop {
            match self.reader.next() {
                None => break self.skipped(self.reader.stamp()),
                Some(Item::Event(head)) => {
                    let lost = self.skipped(head.stamp);
                    if lost.is_some() {
                        self.behind_loss = Some(head);
                        break lost;
                    }
                    break Some(Next::Mark(head));
                }
                Some(Item::Lost(lost)) => {
                    let (from, count) = match self.faulted.take() {
                        Some(from) => (from.min(lost.from), 0),
                        None => (lost.from, lost.count),
                    };
                    break Some(Next::Lost { from, to: lost.to, count });
                }
                Some(Item::Packet(packet)) => {
                    let cpu = packet.cpu.and_then(|cpu| u32::try_from(cpu).ok());
                    self.cpu = cpu.map_or_else(|| self.stream.cpu(), Cpu::numbered);
                    self.complete_until = packet.end;
                }
                Some(Item::Fault(fault)) => {
                    self.damaged(*fault);
                    self.faulted.get_or_insert(self.reader.stamp());
                    self.complete_until = Some(self.reader.stamp());
                }
            }
        };
    }

    /// The loss for unreadable bytes, up to the next readable mark.
    fn skipped(&mut self, to: u64) -> Option<Next> {
        let from = self.faulted.take()?;
        Some(Next::Lost { from, to: to.max(from), count: 0 })
    }

    fn damaged(&mut self, fault: Fault) {
        if self.damages.len() == MAX_DAMAGES {
            self.more_damages += 1;
            return;
        }
        let (name, offset) = self.stream.place(fault.offset);
        let damage = Damage::at(Path::new(name), offset, &fault.kind);
        let packet = self.stream.is_one_file().then_some(fault.packet);
        self.damages.push(Damage { packet, ..damage });
    }

    /// The next item as an event; `None` for the tracer's own event, or with unreadable fields.
    pub fn take(&mut self, sum: &mut Lost) -> Option<Event> {
        let next = self.next?;
        let kind = match next {
            Next::Mark(head) => self.mark(head),
            Next::Lost { from, count, .. } => {
                sum.any = true;
                sum.counted = sum.counted.saturating_add(count);
                sum.uncounted |= count == 0;
                Some(EventKind::UserMarksLost { from: self.ns(from), count })
            }
        };
        let (at, cpu) = (self.ns(next.ticks()), self.cpu);
        self.advance();
        Some(Event { at, cpu, context: Context::Task, current: Tid::IDLE, kind: kind? })
    }

    fn mark(&mut self, head: Head) -> Option<EventKind> {
        let class = self.classes.get(head.class as usize)?;
        let name = class.name.clone()?;
        let mut values = Values::new(class);
        if let Err(fault) = self.reader.fields(&mut values) {
            self.damaged(*fault);
            self.faulted.get_or_insert(head.stamp);
            return None;
        }
        let Values { thread, process, fields, .. } = values;
        let mark = UserMark { name, process, thread, fields: fields.into() };
        Some(EventKind::UserMark(Box::new(mark)))
    }
}
