//! Programs' own marks (LTTng-UST): their streams, read beside the kernel's on the same clock.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use wakepath_clock::{Local, Stamp};
use wakepath_event::{
    CgroupId, Comm, Context, Cpu, Damage, DamageKind, Event, EventKind, Mark, ThreadIdentity, Tid, UserMark,
};

use super::items::MAX_APART_NS;
use super::joined::Joined;
use super::mark_fields::Classes;
use super::mark_stream::{Cursor, Lost};
use super::open::StreamDirectory;

/// Reads all streams with marks, in time order.
pub(super) struct Marks<'a> {
    cursors: Vec<Cursor<'a>>,
    damages: Vec<Damage>,
    lost: Lost,
    /// The latest emitted stamp.
    last: Stamp<Local>,
    /// A stream is missing.
    is_incomplete: bool,
}

impl<'a> Marks<'a> {
    /// Opens all streams in these folders. LTTng writes a stream for each CPU; the kernel has streams for `cpus`.
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
    #[inline]
    pub fn emit_until(&mut self, limit: Stamp<Local>, emit: &mut impl FnMut(&Event)) {
        // Most traces have none, and this runs for each event.
        if !self.cursors.is_empty() {
            self.emit_next(limit, emit);
        }
    }

    fn emit_next(&mut self, limit: Stamp<Local>, emit: &mut impl FnMut(&Event)) {
        while let Some((_, index)) = self.next().filter(|&(at, _)| at <= limit) {
            if let Some(event) = self.cursors[index].take(&mut self.lost) {
                self.last = self.last.max(event.at);
                emit(&event);
            }
        }
    }

    /// Emits the losses behind the last marks: for streams with an early end, and for missing streams. LTTng ends all streams in a folder
    /// together.
    fn emit_missing(&mut self, end: Stamp<Local>, emit: &mut impl FnMut(&Event)) {
        let end = end.max(self.last);
        let ends: Vec<_> =
            self.cursors.iter().map(|cursor| (cursor.folder, cursor.items.complete_until())).collect();
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

    /// Emits all marks, without a kernel trace: the session's begin and end are its first and last mark, and its threads are
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
        let mut damages = self.finish(folder, Stamp::MIN, &mut emit_all);
        emit(&session(end, Mark::Stopped));
        damages.push(Damage::in_file(folder, DamageKind::ProgramsAlone));
        damages
    }

    /// Emits all further marks, and returns the damages. `end` is the kernel's last event.
    pub fn finish(mut self, folder: &Path, end: Stamp<Local>, emit: &mut impl FnMut(&Event)) -> Vec<Damage> {
        self.emit_until(Stamp::MAX, emit);
        self.emit_missing(end, emit);
        let mut damages = self.damages;
        for cursor in self.cursors {
            damages.extend(cursor.items.damages());
        }
        if self.lost.any {
            let count = (!self.lost.uncounted).then_some(self.lost.counted);
            damages.push(Damage::in_file(folder, DamageKind::MarksLost { count }));
        }
        damages
    }
}

/// Whether a channel has no stream for one of these CPUs, or for a number below its largest.
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

/// A mark's thread, without a kernel trace: it has the ids seen by the process.
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
