//! Programs' own marks (LTTng-UST): their streams, read beside the kernel's on the same clock.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Arc;

use wakepath_clock::{Local, Stamp};
use wakepath_ctf::plan::{FieldKind, Plan, Visitor};
use wakepath_ctf::schema::Clock;
use wakepath_ctf::stream::{Fault, Head, Item, Plans, Reader};
use wakepath_event::{
    CgroupId, Comm, Context, Cpu, Damage, DamageKind, Event, EventKind, MAX_MARK_FIELDS, MAX_MARK_TEXT, Mark,
    ThreadIdentity, Tid, UserMark,
};

use super::joined::Joined;
use super::open::StreamDirectory;
use crate::kind::tid;

/// The providers of the tracer itself: their events describe the process, and mark nothing in its work.
const OWN_PROVIDERS: [&str; 2] = ["lttng_ust_statedump:", "lttng_ust_lib:"];

/// The limit on listed damages in a stream.
const MAX_DAMAGES: usize = 100;

/// Reads all streams with marks, in the order of their stamps.
pub(super) struct Marks<'a> {
    cursors: Vec<Cursor<'a>>,
    damages: Vec<Damage>,
    lost: Lost,
    /// The latest emitted stamp.
    last: Stamp<Local>,
    /// A stream is missing.
    is_incomplete: bool,
}

/// The sum of all losses.
#[derive(Default)]
struct Lost {
    any: bool,
    counted: u64,
    uncounted: bool,
}

/// A class of marks.
struct Class {
    /// `None` for the tracer's own events.
    name: Option<Arc<str>>,
    /// The meaning of each field, by its number.
    fields: Vec<Meaning>,
}

/// A field's meaning.
enum Meaning {
    Thread,
    Process,
    Payload(Arc<str>),
    Nothing,
}

impl Class {
    fn new(name: &str, plan: &Plan) -> Self {
        let is_own = OWN_PROVIDERS.iter().any(|provider| name.starts_with(provider));
        let mut payload = 0;
        let meaning = |field: u16| {
            let path = plan.path(field);
            // An array's elements have no names.
            let is_plain = plan.fields().get(usize::from(field)).is_some_and(|field| {
                !field.name.is_empty() && !matches!(field.kind, FieldKind::Struct | FieldKind::Variant)
            });
            match path.as_str() {
                "context.vtid" => Meaning::Thread,
                "context.vpid" => Meaning::Process,
                // The lengths of sequences begin with a second underscore.
                name if is_plain && !name.contains('.') && !name.starts_with('_') => {
                    payload += 1;
                    if payload > MAX_MARK_FIELDS { Meaning::Nothing } else { Meaning::Payload(path.into()) }
                }
                _ => Meaning::Nothing,
            }
        };
        let fields = (0..u16::try_from(plan.fields().len()).unwrap_or(u16::MAX)).map(meaning).collect();
        Self { name: (!is_own).then(|| name.into()), fields }
    }
}

/// Whether any class notes the thread with each mark.
pub(super) fn names_threads(plans: &Plans) -> bool {
    plans
        .metadata()
        .streams
        .iter()
        .any(|stream| stream.event_context.fields.iter().any(|field| field.shown() == "vtid"))
}

/// Reads a stream.
struct Cursor<'a> {
    classes: &'a [Class],
    clock: Option<&'a Clock>,
    stream: &'a Joined,
    /// The index of its folder.
    folder: usize,
    reader: Reader<'a, &'a Joined>,
    cpu: Cpu,
    next: Option<Next>,
    /// An event behind a loss that was found at it.
    behind_loss: Option<Head>,
    faulted: Option<u64>,
    /// The stamp up to which the stream holds all marks, ticks.
    complete_until: Option<u64>,
    damages: Vec<Damage>,
    more_damages: u64,
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

/// The classes of a folder, for [`Marks::new`].
pub(super) struct Classes(Vec<Class>);

impl Classes {
    pub fn new(plans: &Plans) -> Self {
        let classes = (0..plans.len() as u32).filter_map(|class| plans.class(class));
        Self(classes.map(|class| Class::new(&class.event.name, class.plan)).collect())
    }
}

impl<'a> Marks<'a> {
    /// Opens all streams of these folders. LTTng writes a stream for each CPU; `cpus` are those of the kernel's streams.
    pub fn new(folders: &'a [StreamDirectory], classes: &'a [Classes], cpus: &BTreeSet<Cpu>) -> Self {
        let mut marks = Self {
            cursors: Vec::new(),
            damages: Vec::new(),
            lost: Lost::default(),
            last: Stamp::MIN,
            is_incomplete: false,
        };
        for (index, (folder, classes)) in folders.iter().zip(classes).enumerate() {
            marks.is_incomplete |= lacks_a_cpu(&folder.streams, cpus);
            for stream in &folder.streams {
                match Cursor::new(&folder.plans, &classes.0, stream, index) {
                    Ok(cursor) => marks.cursors.push(cursor),
                    Err(error) => {
                        let fault = DamageKind::Fault(crate::Fault::Io(error.to_string()).to_string());
                        marks.damages.push(Damage::in_file(Path::new(stream.name()), fault));
                        marks.is_incomplete = true;
                    }
                }
            }
        }
        marks
    }

    /// The next mark's stamp, and its stream.
    fn next(&self) -> Option<(Stamp<Local>, usize)> {
        self.cursors.iter().enumerate().filter_map(|(index, cursor)| Some((cursor.at()?, index))).min()
    }

    /// Emits all marks up to a stamp.
    pub fn emit_until(&mut self, limit: Stamp<Local>, emit: &mut impl FnMut(&Event)) {
        while let Some((_, index)) = self.next().filter(|&(at, _)| at <= limit) {
            if let Some(event) = self.cursors[index].take(&mut self.lost) {
                self.last = self.last.max(event.at);
                emit(&event);
            }
        }
    }

    /// Emits the losses behind the last marks: of streams that end long before the others in their folder, and of missing streams. LTTng ends
    /// all streams of a folder together.
    fn emit_missing(&mut self, end: Stamp<Local>, emit: &mut impl FnMut(&Event)) {
        /// The time within which all streams end.
        const MAX_APART_NS: u64 = 100_000_000;
        let end = end.max(self.last);
        let ends: Vec<_> =
            self.cursors.iter().map(|cursor| (cursor.folder, cursor.complete_until())).collect();
        let early = |&(folder, until): &(usize, Option<Stamp<Local>>)| {
            let last =
                ends.iter().filter(|(other, _)| *other == folder).filter_map(|(_, until)| *until).max();
            until.filter(|until| last.is_some_and(|last| last.since(*until) > MAX_APART_NS))
        };
        let missing = self.is_incomplete.then_some(Stamp::MIN);
        for from in ends.iter().filter_map(early).chain(missing) {
            self.lost.any = true;
            self.lost.uncounted = true;
            let kind = EventKind::UserMarksLost { from, count: 0 };
            emit(&Event { at: end, cpu: Cpu::UNKNOWN, context: Context::Task, current: Tid::IDLE, kind });
        }
    }

    /// Emits all marks of a trace without a kernel trace: the session's begin and end are its first and last mark, and its threads are
    /// known by the marks alone. Returns the damages.
    pub fn alone(self, folder: &Path, emit: &mut impl FnMut(&Event)) -> Vec<Damage> {
        let Some((begin, _)) = self.next() else { return self.finish(folder, Stamp::MIN, emit) };
        let session = |at, mark| {
            let kind = EventKind::Mark(mark);
            Event { at, cpu: Cpu::UNKNOWN, context: Context::Task, current: Tid::IDLE, kind }
        };
        emit(&session(begin, Mark::Started));
        let (mut end, mut seen) = (begin, HashSet::new());
        let mut emit_all = |event: &Event| {
            end = end.max(event.at);
            if let EventKind::UserMark(mark) = &event.kind
                && let Some(thread) = mark.thread
                && seen.insert((mark.process, thread))
            {
                emit(&Event { current: thread, kind: introduction(mark, thread, event.at), ..event.clone() });
            }
            emit(event);
        };
        let damages = self.finish(folder, Stamp::MIN, &mut emit_all);
        emit(&session(end, Mark::Stopped));
        damages
    }

    /// Emits all further marks, and returns the damages. `end` is the kernel's last event.
    pub fn finish(mut self, folder: &Path, end: Stamp<Local>, emit: &mut impl FnMut(&Event)) -> Vec<Damage> {
        self.emit_until(Stamp::MAX, emit);
        self.emit_missing(end, emit);
        let mut damages = self.damages;
        for cursor in self.cursors {
            let name = cursor.stream.name();
            damages.extend(cursor.damages);
            if cursor.more_damages > 0 {
                damages.push(Damage::in_file(Path::new(name), DamageKind::More(cursor.more_damages)));
            }
        }
        if self.lost.any {
            let count = (!self.lost.uncounted).then_some(self.lost.counted);
            damages.push(Damage::in_file(folder, DamageKind::MarksLost { count }));
        }
        damages
    }
}

/// Whether a channel has no stream for a CPU: one of these, or one below its largest.
fn lacks_a_cpu(streams: &[Joined], cpus: &BTreeSet<Cpu>) -> bool {
    let mut channels: BTreeMap<u64, BTreeSet<Cpu>> = BTreeMap::new();
    for stream in streams {
        let class = stream.first.and_then(|first| first.stream).unwrap_or(0);
        channels.entry(class).or_default().insert(stream.cpu());
    }
    channels.into_values().filter(|found| !found.contains(&Cpu::UNKNOWN)).any(|found| {
        let below = (0..found.last().map_or(0, |cpu| cpu.0)).map(Cpu);
        cpus.iter().copied().chain(below).any(|cpu| !found.contains(&cpu))
    })
}

/// The thread of a mark, in a trace without a kernel trace: its ids are those that the process sees.
fn introduction(mark: &UserMark, thread: Tid, at: Stamp<Local>) -> EventKind {
    let process = mark.process.unwrap_or(thread);
    let identity = ThreadIdentity {
        tid: thread,
        tgid: process,
        parent: Tid::IDLE,
        ns_tid: thread,
        ns_tgid: process,
        start: at,
        cgroup: CgroupId(0),
        cpu_cgroup: CgroupId(0),
        kernel: false,
        comm: Comm::default(),
    };
    EventKind::Thread { identity, blocked: None, call: None }
}

impl<'a> Cursor<'a> {
    fn new(plans: &'a Plans, classes: &'a [Class], stream: &'a Joined, folder: usize) -> io::Result<Self> {
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

    fn complete_until(&self) -> Option<Stamp<Local>> {
        self.complete_until.map(|ticks| self.ns(ticks))
    }

    fn at(&self) -> Option<Stamp<Local>> {
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

    /// The next item as an event; `None` for an event of the tracer itself, or with unreadable fields.
    fn take(&mut self, sum: &mut Lost) -> Option<Event> {
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
        let mut values = Values { class, thread: None, process: None, fields: Vec::new() };
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

/// A mark's values.
struct Values<'c> {
    class: &'c Class,
    thread: Option<Tid>,
    process: Option<Tid>,
    fields: Vec<(Arc<str>, Box<str>)>,
}

impl Values<'_> {
    fn add(&mut self, field: u16, value: impl std::fmt::Display) {
        if let Some(Meaning::Payload(name)) = self.class.fields.get(usize::from(field)) {
            let mut text = String::new();
            let _ = write!(text, "{value}");
            let mut end = text.len().min(MAX_MARK_TEXT);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            self.fields.push((name.clone(), text.into()));
        }
    }

    fn number(&mut self, field: u16, value: i128) {
        let id = || tid(i64::try_from(value).ok());
        match self.class.fields.get(usize::from(field)) {
            Some(Meaning::Thread) => self.thread = id(),
            Some(Meaning::Process) => self.process = id(),
            _ => self.add(field, value),
        }
    }
}

impl Visitor for Values<'_> {
    fn begin(&mut self) {
        (self.thread, self.process) = (None, None);
        self.fields.clear();
    }

    fn unsigned(&mut self, field: u16, value: u64) {
        self.number(field, value.into());
    }

    fn signed(&mut self, field: u16, value: i64) {
        self.number(field, value.into());
    }

    fn float(&mut self, field: u16, value: f64) {
        self.add(field, value);
    }

    fn bytes(&mut self, field: u16, value: &[u8]) {
        let text = String::from_utf8_lossy(&value[..value.len().min(2 * MAX_MARK_TEXT)]);
        self.add(field, text);
    }
}
