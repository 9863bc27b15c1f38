//! A stream with programs' marks: its marks and losses in order, as events.

use std::io;

use wakepath_clock::{Local, Stamp};
use wakepath_ctf::stream::{Head, Lost as LostItem, Plans};
use wakepath_event::{Context, Event, EventKind, Tid, UserMark};

use super::items::{Item, Items};
use super::joined::Joined;
use super::mark_fields::{Class, Values};

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
    pub items: Items<'a, ()>,
    /// Its folder's index.
    pub folder: usize,
    next: Option<Item<()>>,
    /// The item behind the missing begin.
    behind_begin: Option<Item<()>>,
}

impl<'a> Cursor<'a> {
    pub fn new(
        plans: &'a Plans,
        classes: &'a [Class],
        stream: &'a Joined,
        folder: usize,
    ) -> io::Result<Self> {
        let items = Items::new(plans, stream, stream.cpu())?;
        let mut cursor = Self { classes, items, folder, next: None, behind_begin: None };
        cursor.advance();
        // Its first packets are gone.
        if let Some(to) = cursor.items.late_begin() {
            // A damaged packet may claim to begin behind its marks.
            let to = cursor.next.map_or(to, |next| to.min(next.ticks()));
            cursor.behind_begin = cursor.next.replace(Item::Lost(LostItem { from: 0, to, count: 0 }));
        }
        Ok(cursor)
    }

    pub fn at(&self) -> Option<Stamp<Local>> {
        self.next.map(|next| self.items.ns(next.ticks()))
    }

    fn advance(&mut self) {
        self.next = self.behind_begin.take().or_else(|| self.items.next(|_| Some(())));
    }

    /// The next item as an event; `None` for the tracer's own event, or with unreadable fields.
    pub fn take(&mut self, sum: &mut Lost) -> Option<Event> {
        let next = self.next?;
        let kind = match next {
            Item::Event(head, ()) => self.mark(head),
            Item::Lost(LostItem { from, count, .. }) => {
                sum.any = true;
                sum.counted = sum.counted.saturating_add(count);
                sum.uncounted |= count == 0;
                Some(EventKind::UserMarksLost { from: self.items.ns(from), count })
            }
        };
        let (at, cpu) = (self.items.ns(next.ticks()), self.items.cpu);
        self.advance();
        Some(Event { at, cpu, context: Context::Task, current: Tid::IDLE, kind: kind? })
    }

    fn mark(&mut self, head: Head) -> Option<EventKind> {
        let class = self.classes.get(head.class as usize)?;
        let name = class.name.clone()?;
        let mut values = Values::new(class);
        if let Err(fault) = self.items.reader.fields(&mut values) {
            self.items.unreadable(head, *fault);
            return None;
        }
        let Values { thread, process, fields, .. } = values;
        let mark = UserMark { name, process, thread, fields: fields.into() };
        Some(EventKind::UserMark(Box::new(mark)))
    }
}
