//! An LTTng stream file: its events, losses and damages in order, and the merge of all files by time.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io;
use std::path::Path;

use wakepath_clock::{Local, Stamp};
use wakepath_ctf::schema::{Clock, EventClass};
use wakepath_ctf::stream::{Fault as StreamFault, Head, Item, Lost, Plans, Reader};
use wakepath_event::{Cpu, Damage, DamageKind, Event, Tid};

use super::fields::{Values, names_cpu};
use super::joined::Joined;
use crate::Fault;
use crate::kind::Kind;
use crate::normalise::Normaliser;
use crate::tracepoint::{Record, Tracepoint};

/// Reads a stream file.
pub(super) struct Cursor<'a> {
    kinds: &'a [Kind],
    clock: Option<&'a Clock>,
    stream: &'a Joined,
    /// The stream's class has switches: without them, a stream shows nothing of who had the CPU.
    has_switches: bool,
    /// Each event names its CPU.
    has_cpus: bool,
    reader: Reader<'a, &'a Joined>,
    values: Values,
    cpu: Cpu,
    next: Option<Next>,
    /// The items behind a loss. An event's fields are still to be read.
    behind_loss: VecDeque<Next>,
    /// Unreadable bytes follow this stamp, ticks.
    faulted: Option<u64>,
    /// The stamp up to which the stream holds all events, by its last packet, ticks.
    complete_until: Option<u64>,
    /// The last event's stamp, ticks.
    last: u64,
    damages: Vec<Damage>,
    more_damages: u64,
}

/// A cursor's next item.
#[derive(Clone, Copy)]
enum Next {
    Event(Head, Kind),
    Lost(Lost),
    /// No records before this stamp, since the trace's begin.
    Late(Stamp<Local>, Stamp<Local>),
}

/// The limit on listed damages in a stream.
const MAX_DAMAGES: usize = 100;

/// The limit on later events searched for the current thread, if nothing else names it.
const MAX_LOOK_AHEAD_EVENTS: u64 = 1 << 20;

impl<'a> Cursor<'a> {
    pub fn new(plans: &'a Plans, kinds: &'a [Kind], stream: &'a Joined) -> io::Result<Self> {
        let mut cursor = Self {
            kinds,
            clock: plans.class(0).and_then(|class| class.clock),
            stream,
            has_switches: has(plans, stream, |event| Kind::from_event(&event.name) == Kind::Switch),
            has_cpus: stream.first.is_some() && has(plans, stream, names_cpu),
            reader: Reader::new(plans, stream)?,
            values: Values::default(),
            cpu: Cpu::UNKNOWN,
            next: None,
            behind_loss: VecDeque::new(),
            faulted: None,
            complete_until: None,
            last: 0,
            damages: Vec::new(),
            more_damages: 0,
        };
        cursor.advance();
        Ok(cursor)
    }

    fn ns(&self, ticks: u64) -> Stamp<Local> {
        Stamp::from_ns(self.clock.map_or(ticks, |clock| clock.ns(ticks)))
    }

    /// The next item's stamp.
    pub fn at(&self) -> Option<Stamp<Local>> {
        self.next.map(|next| match next {
            Next::Event(head, _) => self.ns(head.stamp),
            Next::Lost(lost) => self.ns(lost.to),
            Next::Late(_, to) => to,
        })
    }

    /// The begin of the stream's first packet, if packets before it are gone.
    pub fn begins_late(&self) -> Option<(Cpu, Stamp<Local>)> {
        let first = self.stream.first.filter(|first| first.sequence.is_some_and(|sequence| sequence > 0))?;
        let first = self.has_switches.then_some(first)?;
        Some((self.cpu(), self.ns(first.begin?)))
    }

    /// Notes the stream's lost packets between the trace's begin and its own first packet.
    pub fn miss_begin(&mut self, from: Stamp<Local>, to: Stamp<Local>) {
        // A damaged packet may claim to begin behind its events.
        let to = self.at().map_or(to, |at| to.min(at));
        self.behind_loss.extend(self.next.replace(Next::Late(from, to)));
        self.behind_loss.rotate_right(usize::from(self.behind_loss.len() > 1));
        let kind = DamageKind::BeginMissing { cpu: self.cpu().0.into(), late_ns: to.since(from) };
        self.damages.push(Damage::in_file(Path::new(self.stream.name()), kind));
    }

    /// The stream's CPU.
    fn cpu(&self) -> Cpu {
        if self.has_cpus { Cpu::UNKNOWN } else { self.stream.cpu() }
    }

    /// The CPU with its switches in this stream.
    pub fn covers(&self) -> Option<Cpu> {
        (self.has_switches && !self.has_cpus).then(|| self.cpu())
    }

    /// Goes to the next used item.
    fn advance(&mut self) {
        if let Some(next) = self.behind_loss.pop_front() {
            self.next = Some(next);
            return;
        }
        self.next = loop {
            match self.reader.next() {
                None => break self.skipped(self.stamp()),
                Some(Item::Event(head)) => {
                    if head.stamp < self.last || self.is_far_behind_packet(head.stamp) {
                        self.wrong_stamp(head.stamp);
                        continue;
                    }
                    self.last = head.stamp;
                    let kind = self.kinds.get(head.class as usize).copied().unwrap_or(Kind::Other);
                    if kind != Kind::Other {
                        let event = Some(Next::Event(head, kind));
                        let Some(lost) = self.skipped(head.stamp) else { break event };
                        self.behind_loss.extend(event);
                        break Some(lost);
                    }
                }
                Some(Item::Lost(lost)) => {
                    // The loss includes skipped bytes beside it, with an unknown number of events.
                    let from =
                        self.faulted.take().map(|from| Lost { from: from.min(lost.from), count: 0, ..lost });
                    let mut lost = from.unwrap_or(lost);
                    // The event behind it may have a senseless stamp.
                    if lost.to < self.last || self.is_far_behind_packet(lost.to) {
                        lost.to = self.last;
                    }
                    self.last = lost.to;
                    break Some(Next::Lost(Lost { from: lost.from.min(lost.to), ..lost }));
                }
                Some(Item::Packet(packet)) => {
                    let cpu = packet.cpu.and_then(|cpu| u32::try_from(cpu).ok());
                    self.cpu = cpu.map_or_else(|| self.cpu(), Cpu::numbered);
                    self.complete_until = packet.end;
                }
                Some(Item::Fault(fault)) => {
                    self.damaged(*fault);
                    let stamp = self.stamp();
                    self.faulted.get_or_insert(stamp);
                    // The end in a packet's header counts for a whole packet only.
                    self.complete_until = Some(stamp);
                }
            }
        };
    }

    /// The loss for unreadable bytes, up to the next readable event.
    fn skipped(&mut self, to: u64) -> Option<Next> {
        let from = self.faulted.take()?;
        // A damaged packet may claim to begin later.
        Some(Next::Lost(Lost { from: from.min(to), to, count: 0 }))
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
            match self.next? {
                Next::Event(head, kind) => match self.reader.fields(&mut self.values) {
                    Ok(()) => {
                        if let Some(cpu) = self.values.target_cpu().filter(|_| normaliser.is_wakeup(kind)) {
                            normaliser.targets(self.ns(head.stamp), cpu, emit);
                        }
                        if let Some(record) = self.values.record(kind, self.ns(head.stamp), self.cpu) {
                            if record.current.is_none()
                                && !matches!(record.what, Tracepoint::Switch { .. })
                                && normaliser.wants_current(self.cpu)
                                && let Some(tid) = self.look_ahead()
                            {
                                normaliser.set_current(self.cpu, tid);
                            }
                            normaliser.push(&record, emit);
                        }
                    }
                    Err(fault) => {
                        self.damaged(*fault);
                        self.faulted.get_or_insert(head.stamp);
                    }
                },
                Next::Lost(lost) => {
                    let what = Tracepoint::Lost { from: self.ns(lost.from), count: lost.count };
                    let record =
                        Record { at: self.ns(lost.to), cpu: self.cpu, current: None, level: None, what };
                    normaliser.push(&record, emit);
                }
                Next::Late(from, to) => {
                    let what = Tracepoint::Lost { from, count: 0 };
                    let record = Record { at: to, cpu: self.cpu(), current: None, level: None, what };
                    normaliser.push(&record, emit);
                }
            }
            self.advance();
        }
    }

    /// The current thread: the thread that the next switch on this CPU switches out.
    fn look_ahead(&self) -> Option<Tid> {
        let mut reader = self.reader.clone();
        let mut values = Values::default();
        for _ in 0..MAX_LOOK_AHEAD_EVENTS {
            match reader.next()? {
                Item::Event(head) => {
                    let kind = self.kinds.get(head.class as usize).copied().unwrap_or(Kind::Other);
                    if kind == Kind::Switch {
                        reader.fields(&mut values).ok()?;
                        let record = values.record(kind, Stamp::MIN, self.cpu)?;
                        let Tracepoint::Switch { prev, .. } = record.what else { return None };
                        return Some(prev);
                    }
                }
                Item::Packet(_) => {}
                // A switch may have been lost.
                Item::Lost(_) | Item::Fault(_) => return None,
            }
        }
        None
    }

    /// The stamp up to which the stream holds all its CPU's events.
    fn complete_until(&self) -> Option<Stamp<Local>> {
        self.complete_until.map(|ticks| self.ns(ticks))
    }

    pub fn damages(mut self) -> Vec<Damage> {
        if self.more_damages > 0 {
            self.damages
                .push(Damage::in_file(Path::new(self.stream.name()), DamageKind::More(self.more_damages)));
        }
        self.damages
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
            progress(cursors.iter().map(|cursor| cursor.reader.offset()).sum());
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
    /// The time within which all streams end.
    const MAX_APART_NS: u64 = 100_000_000;
    for cursor in cursors {
        let Some(from) = cursor.complete_until() else { continue };
        let early_ns = end.ns().saturating_sub(from.ns());
        if early_ns > MAX_APART_NS && cursor.cpu != Cpu::UNKNOWN {
            let what = Tracepoint::Lost { from, count: 0 };
            normaliser.push(&Record { at: end, cpu: cursor.cpu, current: None, level: None, what }, emit);
            let kind = DamageKind::EndMissing { cpu: cursor.cpu.0.into(), early_ns };
            cursor.damages.push(Damage::in_file(Path::new(cursor.stream.name()), kind));
        }
    }
}
