//! The order of a file's records.
//!
//! perf empties the CPUs' buffers in turn, and writes what it found. Each buffer's records are in order but
//! for those of an interrupt that came between the stamp of a record and its place in the buffer, so that
//! the file is a sequence of stretches in order: *runs*. A record without a stamp goes with the one before.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::ops::Range;

use wakepath_ctf::{Source, Window};

use super::container::u64_at;
use super::records::{AUXTRACE, Decoder, Head, Stamped};
use crate::Fault;

/// A stretch of a file whose records are in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub from: u64,
    pub to: u64,
    /// Stamp of its first record, ns.
    pub at: u64,
    last: u64,
}

/// What could not be read: whatever records were there may be missing between these stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gap {
    pub to: u64,
    pub from: u64,
    pub cpu: u32,
}

/// What the first pass over a file's records finds.
#[derive(Debug)]
pub(super) struct Index {
    pub runs: Vec<Run>,
    /// The first stamp and the last, ns.
    pub first: u64,
    pub last: u64,
    /// By their ends.
    pub gaps: Vec<Gap>,
    /// Where it could not be read, and why.
    pub faults: Vec<(u64, Fault)>,
}

/// So many places that cannot be read, and the rest is not looked at.
const MAX_FAULTS: usize = 100;

/// Bytes that are read at a time: by the first pass, and of each run.
const BLOCK: usize = 1 << 20;
const RUN_BLOCK: usize = 1 << 17;

/// So many records in a row are not there by chance.
const CHAIN: usize = 4;

/// Looks at all records in the file's order, and tells of each its stamp and event.
pub(super) fn index(
    source: &impl Source,
    data: &Range<u64>,
    decoder: &Decoder,
    mut tell: impl FnMut(Head, &[u8], Stamped),
) -> io::Result<Index> {
    let mut index =
        Index { runs: Vec::new(), first: u64::MAX, last: 0, gaps: Vec::new(), faults: Vec::new() };
    let mut window = Window::default();
    window.set(data.start, data.end);
    let mut cpus = Cpus::default();
    let mut run: Option<Run> = None;
    // Of the last record with one; 0 before.
    let mut now = 0;
    loop {
        if window.bytes().len() < Head::MAX_BYTES && window.left() > window.bytes().len() as u64 {
            window.fill(source, BLOCK)?;
        }
        let offset = window.offset();
        if window.bytes().is_empty() {
            break;
        }
        let head = Head::of(window.bytes()).filter(|head| head.is_plausible());
        let body = head.and_then(|head| window.bytes().get(Head::SIZE..head.size));
        let (Some(head), Some(body)) = (head, body) else {
            index.runs.extend(run.take());
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
        let stamped @ Stamped { at, cpu, .. } = decoder.stamp(head, body);
        if let Some(at) = at {
            now = at;
            index.first = index.first.min(at);
            if run.is_none_or(|run| at < run.last) {
                index.runs.extend(run.take());
                run = Some(Run { from: offset, to: offset, at, last: at });
            }
            if let Some(cpu) = cpu {
                cpus.see(cpu, at, &mut index.gaps);
            }
        }
        tell(head, body, stamped);
        let own = run.get_or_insert(Run { from: offset, to: offset, at: now, last: now });
        own.last = own.last.max(at.unwrap_or(0));
        let behind = if head.kind == AUXTRACE { u64_at(body, 0) } else { 0 };
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
    index.last = index.runs.iter().map(|run| run.last).max().unwrap_or(0);
    index.first = index.first.min(index.last);
    cpus.finish(index.last, &mut index.gaps);
    index.gaps.sort_unstable();
    index.runs.sort_unstable_by_key(|run| (run.at, run.from));
    Ok(index)
}

/// Goes on to where records begin again; says how many bytes that took.
fn skip(source: &impl Source, window: &mut Window) -> io::Result<u64> {
    let from = window.offset();
    loop {
        // Records are of whole words, and so is what is between them.
        window.consume(8);
        if window.bytes().len() < CHAIN * Head::MAX_BYTES && window.left() > window.bytes().len() as u64 {
            window.fill(source, BLOCK)?;
        }
        if window.bytes().len() < Head::SIZE {
            window.consume(window.bytes().len());
            return Ok(window.offset() - from);
        }
        let mut rest = window.bytes();
        let mut chain = 0;
        while let Some(head) = Head::of(rest).filter(|head| chain < CHAIN && head.is_plausible()) {
            let Some(behind) = rest.get(head.size..) else { break };
            (rest, chain) = (behind, chain + 1);
        }
        if chain == CHAIN || (rest.is_empty() && chain > 0) {
            return Ok(window.offset() - from);
        }
    }
}

/// What is known of each CPU on the way: when it was last heard of, and whether since something could not
/// be read.
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

/// Tells all records by stamp, those of equal stamps as they are in the file; each with its stamp, or that
/// of the one before where it has none, and its offset. Says where the file has changed meanwhile.
pub(super) fn merge(
    source: &impl Source,
    runs: &[Run],
    decoder: &Decoder,
    mut tell: impl FnMut(u64, Head, &[u8]),
) -> Vec<(u64, Fault)> {
    let mut faults = Vec::new();
    let mut waiting = runs.iter().peekable();
    // The one that is due first on top.
    let mut due: BinaryHeap<Reverse<Reader>> = BinaryHeap::new();
    let mut buffers = Vec::new();
    loop {
        // A run is begun when the first of its records is due, and not before.
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
        let told = reader.run(source, decoder, limit.unwrap_or((u64::MAX, u64::MAX)), &mut tell);
        match told {
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

/// A run on its way.
struct Reader {
    /// Stamp and place of the next record.
    at: u64,
    from: u64,
    window: Window,
}

impl Reader {
    const fn key(&self) -> (u64, u64) {
        (self.at, self.from)
    }

    /// Tells what comes before `limit`; says whether there is more.
    fn run(
        &mut self,
        source: &impl Source,
        decoder: &Decoder,
        limit: (u64, u64),
        tell: &mut impl FnMut(u64, Head, &[u8]),
    ) -> Result<bool, Fault> {
        loop {
            let seen = self.window.bytes().len();
            if seen < Head::MAX_BYTES && self.window.left() > seen as u64 {
                self.window.fill(source, RUN_BLOCK).map_err(|error| Fault::Io(error.to_string()))?;
            }
            if self.window.bytes().is_empty() {
                return Ok(false);
            }
            let head = Head::of(self.window.bytes()).filter(|head| head.is_plausible());
            let body = head.and_then(|head| self.window.bytes().get(Head::SIZE..head.size));
            let (Some(head), Some(body)) = (head, body) else {
                return Err(Fault::Changed);
            };
            // Less than before: it was changed, too, but that does no harm.
            self.at = decoder.stamp(head, body).at.unwrap_or(self.at).max(self.at);
            self.from = self.window.offset();
            if self.key() > limit {
                return Ok(true);
            }
            tell(self.at, head, body);
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
