use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use wakepath_ctf::{Source, Window};

use super::container::{Buffer, Container, Pages, Tsc};
use super::packed::{Unpack, unpack};
use super::ring::{self, Layout, Piece};
use crate::Fault;

/// The events of one CPU, in order.
///
/// A page's events are in order, and so are a CPU's pages; one that goes back in time nonetheless is taken to be
/// of the time of what was before it.
pub(super) struct Lane<'a, S> {
    pub cpu: u32,
    order: usize,
    pages: Reader<'a, S>,
    layout: Layout,
    tsc: Option<Tsc>,
    /// Where in the page the next event is, and where its events end.
    at: usize,
    end: usize,
    /// The stamp of what was read last, as the file has it.
    now: u64,
    /// The last that was told, ns; `None` before.
    told: Option<u64>,
    /// Something could not be read since what was told last.
    faulted: bool,
    next: Option<Item>,
    /// The event behind a loss that is told first.
    held: Option<Item>,
    pub faults: Vec<(u64, Fault)>,
}

/// What a lane tells next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// ns.
    pub at: u64,
    pub what: ItemKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// Its bytes are there in the page.
    Event(Range<usize>),
    /// Events were lost since that stamp, ns, or the first of the CPU; 0: nobody counted them.
    Lost { from: Option<u64>, count: u64 },
}

/// So many places of a CPU that cannot be read are told of.
const MAX_FAULTS: usize = 20;

impl<'a, S: Source> Lane<'a, S> {
    fn new(
        source: &'a S,
        container: &Container,
        buffer: &Buffer,
        tsc: Option<Tsc>,
        order: usize,
        pages: Pages,
    ) -> Self {
        let mut lane = Self {
            cpu: pages.cpu,
            order,
            pages: Reader::new(source, &container.compression, buffer, pages),
            layout: container.layout,
            tsc,
            at: 0,
            end: 0,
            now: 0,
            told: None,
            faulted: false,
            next: None,
            held: None,
            faults: Vec::new(),
        };
        lane.advance();
        lane
    }

    /// The bytes of an event that was told.
    fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.pages.page().get(range).unwrap_or_default()
    }

    fn fault(&mut self, offset: u64, what: Fault) {
        self.faulted = true;
        if self.faults.len() < MAX_FAULTS {
            self.faults.push((offset, what));
        }
    }

    fn ns(&self) -> u64 {
        let ns = self.tsc.map_or(self.now, |tsc| tsc.ns(self.now));
        ns.max(self.told.unwrap_or(0))
    }

    /// Goes to what is next.
    fn advance(&mut self) {
        if let Some(item) = &self.next {
            self.told = Some(item.at);
        }
        if let held @ Some(_) = self.held.take() {
            self.next = held;
            return;
        }
        self.next = loop {
            if self.at >= self.end {
                match self.turn() {
                    Ok(Some(Some(count))) => break Some(self.lost(count)),
                    Ok(Some(None)) => continue,
                    // What could not be read last is lost up to where this CPU was last heard of.
                    Ok(None) => break std::mem::take(&mut self.faulted).then(|| self.lost(0)),
                    Err((offset, what)) => {
                        self.fault(offset, what);
                        continue;
                    }
                }
            }
            match ring::piece(self.pages.page(), self.at, self.end) {
                Ok((piece, next)) => {
                    self.at = next;
                    match piece {
                        Piece::Event(delta, range) => {
                            self.now = self.now.saturating_add(delta);
                            let event = Item { at: self.ns(), what: ItemKind::Event(range) };
                            if !std::mem::take(&mut self.faulted) {
                                break Some(event);
                            }
                            self.held = Some(event);
                            break Some(self.lost(0));
                        }
                        Piece::Passed(delta) | Piece::Nothing(delta) => {
                            self.now = self.now.saturating_add(delta)
                        }
                        Piece::Is(stamp) => self.now = ring::whole(stamp, self.now),
                        Piece::End => self.at = self.end,
                    }
                }
                Err(what) => {
                    self.fault(self.pages.offset(), what);
                    self.at = self.end;
                }
            }
        };
    }

    fn lost(&self, count: u64) -> Item {
        Item { at: self.ns(), what: ItemKind::Lost { from: self.told, count } }
    }

    /// Turns the page: how many events were lost before it, if any were; `None` behind the last.
    fn turn(&mut self) -> Result<Option<Option<u64>>, (u64, Fault)> {
        (self.at, self.end) = (0, 0);
        if !self.pages.turn()? {
            return Ok(None);
        }
        let begin = self.layout.begin(self.pages.page()).map_err(|what| (self.pages.offset(), what))?;
        self.now = begin.at;
        (self.at, self.end) = begin.data;
        // What could not be read besides nobody counted.
        let count =
            if begin.lost.is_some() && std::mem::take(&mut self.faulted) { Some(0) } else { begin.lost };
        Ok(Some(count))
    }

    const fn key(&self) -> Option<(u64, usize)> {
        match &self.next {
            Some(item) => Some((item.at, self.order)),
            None => None,
        }
    }
}

impl Tsc {
    /// Cycles as ns; never less for more of them.
    fn ns(self, cycles: u64) -> u64 {
        let ns = (u128::from(cycles) * u128::from(self.multiplier)) >> self.shift;
        u64::try_from(ns).unwrap_or(u64::MAX).saturating_add(self.offset)
    }
}

/// Tells all that a buffer holds by time, what is of the same time by CPU: of which CPU it is, and the bytes of
/// an event. Says where it could not be read, and why. `progress` is told the bytes of each page.
pub(super) fn merge(
    source: &impl Source,
    container: &Container,
    buffer: &Buffer,
    mut tell: impl FnMut(u32, &Item, &[u8]),
    mut progress: impl FnMut(u64),
) -> Vec<(u64, Fault)> {
    let tsc = container.said.tsc.filter(|_| TSC.contains(&buffer.clock.as_str()));
    let lanes = buffer.cpus.iter().enumerate();
    let mut lanes: Vec<_> =
        lanes.map(|(order, &pages)| Lane::new(source, container, buffer, tsc, order, pages)).collect();
    // The one that is due first on top.
    let mut due: BinaryHeap<_> = lanes.iter().filter_map(Lane::key).map(Reverse).collect();
    while let Some(Reverse((_, order))) = due.pop() {
        let lane = &mut lanes[order];
        let limit = due.peek().map_or((u64::MAX, usize::MAX), |Reverse(key)| *key);
        while let Some(item) = lane.next.clone().filter(|item| (item.at, order) <= limit) {
            let bytes = match &item.what {
                ItemKind::Event(range) => lane.bytes(range.clone()),
                ItemKind::Lost { .. } => &[],
            };
            tell(lane.cpu, &item, bytes);
            let before = lane.pages.offset();
            lane.advance();
            progress(lane.pages.offset().saturating_sub(before));
        }
        due.extend(lane.key().map(Reverse));
    }
    lanes.into_iter().flat_map(|lane| lane.faults).collect()
}

/// The pages of one CPU.
struct Reader<'a, S> {
    source: &'a S,
    size: usize,
    window: Window,
    /// There is a page in sight.
    opened: bool,
    packed: Option<Packed>,
}

/// Pages that are compressed, some at a time.
struct Packed {
    by: Box<str>,
    /// Chunks that are still to come; `None` before their number was read.
    chunks: Option<u32>,
    /// What was unpacked, and how much of that was passed.
    bytes: Vec<u8>,
    passed: usize,
}

/// The counter, as the kernel calls it, and as trace-cmd does where it tells how to make ns of it.
pub(super) const TSC: [&str; 2] = ["x86-tsc", "tsc2nsec"];

/// Bytes that are read at a time.
const BLOCK: usize = 1 << 16;

impl<'a, S: Source> Reader<'a, S> {
    fn new(source: &'a S, compression: &str, buffer: &Buffer, pages: Pages) -> Self {
        let mut window = Window::default();
        window.set(pages.from, pages.to);
        let packed = buffer.packed.then(|| Packed {
            by: compression.into(),
            chunks: None,
            bytes: Vec::new(),
            passed: 0,
        });
        Self { source, size: buffer.page as usize, window, opened: false, packed }
    }

    /// What is in sight.
    fn page(&self) -> &[u8] {
        let bytes = match &self.packed {
            None => self.window.bytes(),
            Some(packed) => packed.bytes.get(packed.passed..).unwrap_or_default(),
        };
        &bytes[..bytes.len().min(self.size)]
    }

    /// Where in the file it is, or, where it was compressed, what comes behind it.
    const fn offset(&self) -> u64 {
        self.window.offset()
    }

    /// Goes to the next page; says whether there is one.
    fn turn(&mut self) -> Result<bool, (u64, Fault)> {
        let passed = if std::mem::replace(&mut self.opened, true) { self.page().len() } else { 0 };
        let Some(packed) = &mut self.packed else {
            self.window.consume(passed);
            self.fill(self.size)?;
            return Ok(!self.window.bytes().is_empty());
        };
        packed.passed += passed;
        while self.packed.as_ref().is_some_and(|packed| packed.bytes.len() <= packed.passed) {
            if !self.unpack()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sees to it that so many bytes can be seen, or all there are.
    fn fill(&mut self, least: usize) -> Result<(), (u64, Fault)> {
        let seen = self.window.bytes().len();
        if seen < least && self.window.left() > seen as u64 {
            let offset = self.window.offset();
            let filled = self.window.fill(self.source, least.max(BLOCK));
            if let Err(error) = filled {
                // Nothing behind it will be read, either.
                self.window.set(offset, offset);
                return Err((offset, Fault::Io(error.to_string())));
            }
        }
        Ok(())
    }

    fn word(&mut self) -> Result<Option<u32>, (u64, Fault)> {
        self.fill(4)?;
        let word = self.window.bytes().first_chunk().map(|&word| u32::from_le_bytes(word));
        self.window.consume(4);
        Ok(word)
    }

    /// Unpacks the next chunk; says whether there is one.
    fn unpack(&mut self) -> Result<bool, (u64, Fault)> {
        let chunks = match self.packed.as_ref().and_then(|packed| packed.chunks) {
            Some(chunks) => chunks,
            None => self.word()?.unwrap_or(0),
        };
        let from = self.window.offset();
        let (size, whole) = if chunks > 0 { (self.word()?, self.word()?) } else { (None, None) };
        let Some(packed) = &mut self.packed else { return Ok(false) };
        packed.chunks = Some(chunks.saturating_sub(1));
        packed.bytes.clear();
        packed.passed = 0;
        let (Some(size), Some(whole)) = (size, whole) else { return Ok(false) };
        if u64::from(size) > self.window.left() {
            packed.chunks = Some(0);
            return Err((from, Fault::ChunkCut(size)));
        }
        self.fill(size as usize)?;
        let Some(packed) = &mut self.packed else { return Ok(false) };
        let bytes = self.window.bytes().get(..size as usize).unwrap_or_default();
        let unpacked = unpack(bytes, whole, &packed.by);
        self.window.consume(size as usize);
        packed.bytes = unpacked.map_err(|why| {
            let fault = match why {
                Unpack::Unknown => Fault::ChunkUnknown,
                Unpack::Damaged => Fault::ChunkDamaged,
            };
            (from, fault)
        })?;
        Ok(true)
    }
}
