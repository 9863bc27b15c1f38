//! An LTTng stream file: its events, losses and damages in order, and the merge of all files by time.

use std::io;

use wakepath_clock::{Local, Stamp};
use wakepath_ctf::schema::EventClass;
use wakepath_ctf::stream::{Head, Item as RawItem, Plans};
use wakepath_event::{Cpu, Damage, DamageKind, Event, Tid};

use super::fields::{Values, names_cpu};
use super::items::{Item, Items, MAX_APART_NS};
use super::joined::Joined;
use crate::kind::Kind;
use crate::normalise::Normaliser;
use crate::tracepoint::{Record, Tracepoint};

/// Reads a stream file.
pub(super) struct Cursor<'a> {
    kinds: &'a [Kind],
    items: Items<'a, Kind>,
    /// The stream's class has switches: without them, a stream shows nothing of who had the CPU.
    has_switches: bool,
    /// Each event names its CPU.
    has_cpus: bool,
    values: Values,
    next: Option<Next>,
    /// The item behind the missing begin.
    behind_begin: Option<Next>,
}

/// A cursor's next item.
#[derive(Clone, Copy)]
enum Next {
    Item(Item<Kind>),
    /// No records before this stamp, since the trace's begin.
    Late(Stamp<Local>, Stamp<Local>),
}

/// The limit on later events searched for the current thread, if nothing else names it.
const MAX_LOOK_AHEAD_EVENTS: u64 = 1 << 20;

impl<'a> Cursor<'a> {
    pub fn new(plans: &'a Plans, kinds: &'a [Kind], stream: &'a Joined) -> io::Result<Self> {
        let has_cpus = stream.first.is_some() && has(plans, stream, names_cpu);
        let cpu = if has_cpus { Cpu::UNKNOWN } else { stream.cpu() };
        let mut cursor = Self {
            kinds,
            items: Items::new(plans, stream, cpu)?,
            has_switches: has(plans, stream, |event| Kind::from_event(&event.name) == Kind::Switch),
            has_cpus,
            values: Values::default(),
            next: None,
            behind_begin: None,
        };
        cursor.advance();
        Ok(cursor)
    }

    /// The next item's stamp.
    pub fn at(&self) -> Option<Stamp<Local>> {
        self.next.map(|next| match next {
            Next::Item(item) => self.items.ns(item.ticks()),
            Next::Late(_, to) => to,
        })
    }

    /// The begin of the stream's first packet, if packets before it are gone.
    pub fn begins_late(&self) -> Option<(Cpu, Stamp<Local>)> {
        let begin = self.items.late_begin().filter(|_| self.has_switches)?;
        Some((self.cpu(), self.items.ns(begin)))
    }

    /// Notes the stream's lost packets between the trace's begin and its own first packet.
    pub fn miss_begin(&mut self, from: Stamp<Local>, to: Stamp<Local>) {
        // A damaged packet may claim to begin behind its events.
        let to = self.at().map_or(to, |at| to.min(at));
        self.behind_begin = self.next.replace(Next::Late(from, to));
        let kind = DamageKind::BeginMissing { cpu: self.cpu().0.into(), late_ns: to.since(from) };
        self.items.add_damage(kind);
    }

    /// The stream's CPU.
    fn cpu(&self) -> Cpu {
        if self.has_cpus { Cpu::UNKNOWN } else { self.items.stream.cpu() }
    }

    /// The CPU with its switches in this stream.
    pub fn covers(&self) -> Option<Cpu> {
        (self.has_switches && !self.has_cpus).then(|| self.cpu())
    }

    /// Goes to the next used item.
    fn advance(&mut self) {
        let kinds = self.kinds;
        let used = |class: u32| kinds.get(class as usize).copied().filter(|kind| *kind != Kind::Other);
        self.next = self.behind_begin.take().or_else(|| self.items.next(used).map(Next::Item));
    }

    /// Emits the items up to a stamp, and returns the next item's stamp.
    fn run(
        &mut self,
        limit: Stamp<Local>,
        normaliser: &mut Normaliser,
        emit: &mut impl FnMut(&Event),
    ) -> Option<Stamp<Local>> {
        loop {
            let at = self.at()?;
            if at > limit {
                return Some(at);
            }
            let lost = match self.next? {
                Next::Item(Item::Event(head, kind)) => {
                    self.event(head, kind, normaliser, emit);
                    None
                }
                Next::Item(Item::Lost(lost)) => {
                    let at = self.items.ns(lost.to);
                    Some((at, self.items.cpu, self.items.ns(lost.from), lost.count))
                }
                Next::Late(from, to) => Some((to, self.cpu(), from, 0)),
            };
            if let Some((at, cpu, from, count)) = lost {
                let what = Tracepoint::Lost { from, count };
                normaliser.push(&Record { at, cpu, current: None, level: None, what }, emit);
            }
            self.advance();
        }
    }

    #[inline]
    fn event(&mut self, head: Head, kind: Kind, normaliser: &mut Normaliser, emit: &mut impl FnMut(&Event)) {
        if let Err(fault) = self.items.reader.fields(&mut self.values) {
            return self.items.unreadable(head, *fault);
        }
        let (at, on) = (self.items.ns(head.stamp), self.items.cpu);
        if let Some(cpu) = self.values.target_cpu().filter(|_| normaliser.is_wakeup(kind)) {
            normaliser.targets(at, cpu, emit);
        }
        let Some(record) = self.values.record(kind, at, on) else {
            if self.values.names_no_thread(kind) {
                self.items.senseless(head);
            }
            return;
        };
        if record.current.is_none()
            && !matches!(record.what, Tracepoint::Switch { .. })
            && normaliser.wants_current(on)
            && let Some(tid) = self.look_ahead()
        {
            normaliser.set_current(on, tid);
        }
        normaliser.push(&record, emit);
    }

    /// The current thread: the thread that the next switch on this CPU switches out.
    fn look_ahead(&self) -> Option<Tid> {
        let mut reader = self.items.reader.clone();
        let mut values = Values::default();
        for _ in 0..MAX_LOOK_AHEAD_EVENTS {
            match reader.next()? {
                RawItem::Event(head) => {
                    let kind = self.kinds.get(head.class as usize).copied().unwrap_or(Kind::Other);
                    if kind == Kind::Switch {
                        reader.fields(&mut values).ok()?;
                        let record = values.record(kind, Stamp::MIN, self.items.cpu)?;
                        let Tracepoint::Switch { prev, .. } = record.what else { return None };
                        return Some(prev);
                    }
                }
                RawItem::Packet(_) => {}
                // A switch may have been lost.
                RawItem::Lost(_) | RawItem::Fault(_) => return None,
            }
        }
        None
    }

    pub fn damages(self) -> Vec<Damage> {
        self.items.damages()
    }
}

/// Whether a stream may have such events. A stream without a packet may have any.
fn has(plans: &Plans, stream: &Joined, is_such: impl Fn(&EventClass) -> bool) -> bool {
    let Some(id) = stream.first.map(|first| first.stream.unwrap_or(0)) else { return true };
    let class = plans.metadata().streams.iter().find(|class| class.id == id);
    class.is_none_or(|class| class.events.iter().any(is_such))
}

/// Notes each stream without its first packets: its CPU has no records between the trace's begin and the stream's.
pub(super) fn miss_begins(
    cursors: &mut [Cursor<'_>],
    begin: Option<Stamp<Local>>,
    normaliser: &mut Normaliser,
    emit: &mut impl FnMut(&Event),
) {
    let Some(begin) = begin else { return };
    for cursor in cursors {
        if let Some((cpu, from)) = cursor.begins_late().filter(|&(_, from)| from > begin) {
            normaliser.not_recorded(begin, cpu, emit);
            cursor.miss_begin(begin, from);
        }
    }
}

/// The number of runs between two progress reports.
const PROGRESS_RUNS: u64 = 1 << 14;

/// Emits all cursors' events in the order of (stamp, cursor index, position in the cursor). A stream emits a whole
/// run, up to the stamp of another stream's next item.
pub(super) fn merge(
    cursors: &mut [Cursor<'_>],
    normaliser: &mut Normaliser,
    emit: &mut impl FnMut(&Event),
    progress: &mut impl FnMut(u64),
) {
    let mut heads: Vec<(Stamp<Local>, usize)> =
        cursors.iter().enumerate().filter_map(|(index, cursor)| Some((cursor.at()?, index))).collect();
    // The next item is the last element.
    heads.sort_by(|a, b| b.cmp(a));
    let mut runs = 0;
    while let Some((_, index)) = heads.pop() {
        let limit = match heads.last() {
            None => Stamp::MAX,
            Some(&(at, other)) if index < other => at,
            Some(&(at, _)) => at.minus(1),
        };
        if let Some(at) = cursors[index].run(limit, normaliser, emit) {
            let head = (at, index);
            let place = heads.partition_point(|&other| other > head);
            heads.insert(place, head);
        }
        runs += 1;
        if runs % PROGRESS_RUNS == 0 {
            progress(cursors.iter().map(|cursor| cursor.items.reader.offset()).sum());
        }
    }
}

/// Emits a loss for each stream that ends long before the others, up to the last event, `end`. LTTng ends all streams
/// in quick succession, each with a packet, with or without events, whose end is the stamp up to which the stream is
/// complete.
pub(super) fn emit_missing_ends(
    cursors: &mut [Cursor<'_>],
    end: Stamp<Local>,
    normaliser: &mut Normaliser,
    emit: &mut impl FnMut(&Event),
) {
    for Cursor { items, .. } in cursors {
        let Some(from) = items.complete_until() else { continue };
        let early_ns = end.ns().saturating_sub(from.ns());
        if early_ns > MAX_APART_NS && items.cpu != Cpu::UNKNOWN {
            let what = Tracepoint::Lost { from, count: 0 };
            normaliser.push(&Record { at: end, cpu: items.cpu, current: None, level: None, what }, emit);
            items.add_damage(DamageKind::EndMissing { cpu: items.cpu.0.into(), early_ns });
        }
    }
}
