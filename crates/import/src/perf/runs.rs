//! The order of a file's records.
//!
//! perf empties the CPUs' buffers in turn, and writes their records. Each buffer's records are in order, except after
//! an interrupt between a record's stamp and its place in the buffer. So the file is a sequence of ordered stretches,
//! the *runs*. A record without a stamp stays behind the record before.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::ops::Range;

use wakepath_ctf::{Source, Window};

use super::container::End;
use super::records::{Decoder, OrderKey, RecordHead};
use crate::Fault;

/// An ordered stretch in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub from: u64,
    pub to: u64,
    /// The first record's stamp, ns.
    pub at: u64,
    last: u64,
}

/// An unreadable part: records between these stamps may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gap {
    pub to: u64,
    pub from: u64,
    pub cpu: u32,
}

/// The order of a file's records, from the first pass.
#[derive(Debug)]
pub(super) struct Index {
    pub runs: Vec<Run>,
    /// The first and the last stamp, ns.
    pub first: u64,
    pub last: u64,
    /// Sorted by their ends.
    pub gaps: Vec<Gap>,
    /// The unreadable places, and the reasons.
    pub faults: Vec<(u64, Fault)>,
}

impl Index {
    /// Adds the next part's records, which stand at `from` in the whole sequence.
    ///
    /// perf begins each part with records without stamps about the processes at that time. They hold at the part's
    /// begin, and are left out unless the part `restates` what was missed: they say nothing new.
    pub fn follow(&mut self, next: Self, from: u64, restates: bool) {
        let begin = next.first;
        let placed = next.runs.into_iter().filter(|run| run.at > 0 || restates).map(|run| Run {
            from: run.from + from,
            to: run.to + from,
            at: if run.at == 0 { begin } else { run.at },
            last: run.last,
        });
        self.runs.extend(placed);
        self.runs.sort_unstable_by_key(|run| (run.at, run.from));
        self.first = self.first.min(begin);
        self.last = self.last.max(next.last);
        self.gaps.extend(next.gaps);
        self.gaps.sort_unstable();
        self.faults.extend(next.faults.into_iter().map(|(at, fault)| (at + from, fault)));
    }
}

/// The limit on unreadable places, after which the rest is not read.
const MAX_FAULTS: usize = 100;

/// The read sizes: in the first pass, and in each run; bytes.
const BLOCK: usize = 1 << 20;
const RUN_BLOCK: usize = 1 << 17;

/// The number of plausible records in a row beyond chance.
const CHAIN: usize = 4;

/// Visits all records in file order, with their places and order keys.
pub(super) fn index(
    source: &impl Source,
    data: &Range<u64>,
    end: &End,
    decoder: &Decoder,
    mut visit: impl FnMut(u64, RecordHead, &[u8], OrderKey),
) -> io::Result<Index> {
    let is_cut = matches!(end, End::Cut(..));
    let mut index =
        Index { runs: Vec::new(), first: u64::MAX, last: 0, gaps: Vec::new(), faults: Vec::new() };
    let mut window = Window::default();
    window.set(data.start, data.end);
    let mut cpus = Cpus::default();
    let mut run: Option<Run> = None;
    // The last stamp; 0 before the first.
    let mut now = 0;
    let mut rounds = Rounds::default();
    loop {
        if window.bytes().len() < RecordHead::MAX_BYTES && window.left() > window.bytes().len() as u64 {
            window.fill(source, BLOCK)?;
        }
        let offset = window.offset();
        if window.bytes().is_empty() {
            break;
        }
        let head = RecordHead::read(window.bytes()).filter(|head| head.is_plausible());
        let body = head.and_then(|head| window.bytes().get(RecordHead::SIZE..head.size));
        let (Some(head), Some(body)) = (head, body) else {
            index.runs.extend(run.take());
            if is_cut && window.left() < head.map_or(RecordHead::SIZE, |head| head.size) as u64 {
                break;
            }
            let skipped = skip(source, &mut window)?;
            let fault = if window.left() == 0 { Fault::NoMoreRecords } else { Fault::NoRecord };
            index.faults.push((offset, fault(skipped)));
            cpus.lose();
            if index.faults.len() == MAX_FAULTS {
                index.faults.push((window.offset(), Fault::TooMany));
                break;
            }
            continue;
        };
        let key @ OrderKey { at, cpu, .. } = decoder.order_key(head, body);
        if let Some(at) = at {
            now = at;
            index.first = index.first.min(at);
            // Records without stamps in front of the first stamp are a separate run.
            if run.is_none_or(|run| at < run.last || run.last == 0) {
                index.runs.extend(run.take());
                run = Some(Run { from: offset, to: offset, at, last: at });
            }
            if let Some(cpu) = cpu {
                cpus.see(cpu, at, &mut index.gaps);
            }
        }
        rounds.see(head);
        visit(offset, head, body, key);
        let own = run.get_or_insert(Run { from: offset, to: offset, at: now, last: now });
        own.last = own.last.max(at.unwrap_or(0));
        let behind = head.bytes_behind(body);
        window.consume(head.size);
        if behind > 0 {
            index.runs.extend(run.take());
            if behind > window.left() {
                index.faults.push((offset, Fault::RecordsEnd(behind)));
                break;
            }
            window.set(window.offset() + behind, data.end);
        } else {
            own.to = window.offset();
        }
    }
    index.runs.extend(run);
    index.runs.retain(|run| run.to > run.from);
    match end {
        End::Whole | End::SectionsCut(..) => {}
        End::Cut(offset, fault) => {
            index.faults.push((*offset, fault.clone()));
            cpus.lose();
        }
        End::Stream if rounds.is_open() && index.faults.is_empty() => {
            index.faults.push((window.offset(), Fault::StreamCut));
            cpus.lose();
        }
        End::Stream => {}
    }
    index.last = index.runs.iter().map(|run| run.last).max().unwrap_or(0);
    index.first = index.first.min(index.last);
    cpus.finish(index.last, &mut index.gaps);
    index.gaps.sort_unstable();
    index.runs.sort_unstable_by_key(|run| (run.at, run.from));
    Ok(index)
}

/// Whether perf finished the last round of emptying the buffers: at its end, it does.
#[derive(Default)]
struct Rounds {
    /// Whether it marks rounds.
    marked: bool,
    begun: bool,
}

impl Rounds {
    fn see(&mut self, head: RecordHead) {
        self.marked |= head.ends_round();
        self.begun = !head.ends_round() && (self.begun || head.is_sample() || head.is_compressed());
    }

    const fn is_open(&self) -> bool {
        self.marked && self.begun
    }
}

/// Skips to the next records, and returns the number of skipped bytes.
fn skip(source: &impl Source, window: &mut Window) -> io::Result<u64> {
    let from = window.offset();
    loop {
        // Records are whole words, and so are the bytes in between; in a stream, its head moves them by half a word.
        window.consume(4);
        if window.bytes().len() < CHAIN * RecordHead::MAX_BYTES && window.left() > window.bytes().len() as u64
        {
            window.fill(source, BLOCK)?;
        }
        if window.bytes().len() < RecordHead::SIZE {
            window.consume(window.bytes().len());
            return Ok(window.offset() - from);
        }
        let mut rest = window.bytes();
        let mut chain = 0;
        while let Some(head) = RecordHead::read(rest).filter(|head| chain < CHAIN && head.is_plausible()) {
            let Some(behind) = rest.get(head.size..) else { break };
            (rest, chain) = (behind, chain + 1);
        }
        if chain == CHAIN || (rest.is_empty() && chain > 0) {
            return Ok(window.offset() - from);
        }
    }
}

/// By CPU, the last record's stamp, and whether unreadable bytes followed.
#[derive(Default)]
struct Cpus(Vec<(u64, bool)>);

impl Cpus {
    fn see(&mut self, cpu: u32, at: u64, gaps: &mut Vec<Gap>) {
        let place = usize::from(wakepath_event::Cpu::numbered(cpu).0);
        if place >= usize::from(wakepath_event::Cpu::LIMIT) {
            return;
        }
        if place >= self.0.len() {
            self.0.resize(place + 1, (0, false));
        }
        let (last, lost) = &mut self.0[place];
        if std::mem::take(lost) {
            gaps.push(Gap { to: at.max(*last), from: *last, cpu });
        }
        *last = at.max(*last);
    }

    fn lose(&mut self) {
        self.0.iter_mut().filter(|(last, _)| *last > 0).for_each(|(_, lost)| *lost = true);
    }

    fn finish(self, end: u64, gaps: &mut Vec<Gap>) {
        for (cpu, (last, lost)) in self.0.into_iter().enumerate() {
            if lost {
                gaps.push(Gap { to: end.max(last), from: last, cpu: cpu as u32 });
            }
        }
    }
}

/// Visits all records by stamp, at equal stamps in file order; each with its stamp, or the stamp of the record
/// before. Returns the places where the file has changed since the first pass.
pub(super) fn merge(
    source: &impl Source,
    runs: &[Run],
    decoder: &Decoder,
    mut visit: impl FnMut(u64, RecordHead, &[u8]),
) -> Vec<(u64, Fault)> {
    let mut faults = Vec::new();
    let mut waiting = runs.iter().peekable();
    // The next due reader on top.
    let mut due: BinaryHeap<Reverse<Reader>> = BinaryHeap::new();
    let mut buffers = Vec::new();
    loop {
        // A run begins only once its first record is due.
        while let Some(run) =
            waiting.next_if(|run| due.peek().is_none_or(|Reverse(first)| run.key() <= first.key()))
        {
            let mut window: Window = buffers.pop().unwrap_or_default();
            window.set(run.from, run.to);
            due.push(Reverse(Reader { at: run.at, from: run.from, window }));
        }
        let Some(Reverse(mut reader)) = due.pop() else { return faults };
        let next = due.peek().map(|Reverse(next)| next.key());
        let limit = [next, waiting.peek().map(|run| run.key())].into_iter().flatten().min();
        let more = reader.run(source, decoder, limit.unwrap_or((u64::MAX, u64::MAX)), &mut visit);
        match more {
            Ok(true) => due.push(Reverse(reader)),
            Ok(false) => buffers.push(reader.window),
            Err(what) => faults.push((reader.window.offset(), what)),
        }
    }
}

impl Run {
    const fn key(&self) -> (u64, u64) {
        (self.at, self.from)
    }
}

/// A run in progress.
struct Reader {
    /// The next record's stamp and place.
    at: u64,
    from: u64,
    window: Window,
}

impl Reader {
    const fn key(&self) -> (u64, u64) {
        (self.at, self.from)
    }

    /// Visits the records before `limit`, and returns whether more follow.
    fn run(
        &mut self,
        source: &impl Source,
        decoder: &Decoder,
        limit: (u64, u64),
        visit: &mut impl FnMut(u64, RecordHead, &[u8]),
    ) -> Result<bool, Fault> {
        loop {
            let seen = self.window.bytes().len();
            if seen < RecordHead::MAX_BYTES && self.window.left() > seen as u64 {
                self.window.fill(source, RUN_BLOCK).map_err(|error| Fault::Io(error.to_string()))?;
            }
            if self.window.bytes().is_empty() {
                return Ok(false);
            }
            let head = RecordHead::read(self.window.bytes()).filter(|head| head.is_plausible());
            let body = head.and_then(|head| self.window.bytes().get(RecordHead::SIZE..head.size));
            let (Some(head), Some(body)) = (head, body) else {
                return Err(Fault::Changed);
            };
            // A smaller stamp shows a change to the file, which does no harm.
            self.at = decoder.order_key(head, body).at.unwrap_or(self.at).max(self.at);
            self.from = self.window.offset();
            if self.key() > limit {
                return Ok(true);
            }
            visit(self.at, head, body);
            self.window.consume(head.size);
        }
    }
}

impl PartialEq for Reader {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Reader {}

impl PartialOrd for Reader {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Reader {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
