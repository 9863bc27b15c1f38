//! A CPU's events in a `trace.dat`, with its losses, and the merge of all CPUs by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use wakepath_ctf::Source;

use super::container::{Buffer, Container, Pages, Tsc};
use super::pages::PageReader;
use super::ring::{self, Layout, Piece};
use crate::Fault;

/// Reads a CPU's events, in order.
///
/// A page's events are in order, and so are a CPU's pages. An event whose stamp goes back nonetheless gets the stamp
/// before it.
struct CpuReader<'a, S> {
    cpu: u32,
    /// This reader's index, which decides at equal stamps.
    index: usize,
    pages: PageReader<'a, S>,
    layout: Layout,
    tsc: Option<Tsc>,
    /// The next event's place in the page, and the events' end.
    at: usize,
    end: usize,
    /// The last stamp read, in the file's unit.
    now: u64,
    /// The previous item's stamp, ns; `None` before the first.
    last_ns: Option<u64>,
    /// Bytes since the last item were unreadable.
    faulted: bool,
    next: Option<Item>,
    /// The event behind a loss.
    event_behind_loss: Option<Item>,
    faults: Vec<(u64, Fault)>,
    /// The pages behind these are cut off, and no item says so yet.
    is_cut: bool,
}

/// An event or a loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// ns.
    pub at: u64,
    pub kind: ItemKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// The place of its bytes in the page.
    Event(Range<usize>),
    /// Events lost since this stamp, ns, or since the CPU's first. `count` is 0 if unknown.
    Lost { from: Option<u64>, count: u64 },
    /// The CPU's further pages are behind the file's end.
    Cut,
}

/// The limit on listed unreadable places in a CPU's pages.
const MAX_FAULTS: usize = 20;

/// The time-stamp counter's names: the kernel's, and trace-cmd's with a known rate.
pub(super) const TSC: [&str; 2] = ["x86-tsc", "tsc2nsec"];

impl<'a, S: Source> CpuReader<'a, S> {
    fn new(
        source: &'a S,
        container: &Container,
        buffer: &Buffer,
        tsc: Option<Tsc>,
        index: usize,
        pages: Pages,
    ) -> Self {
        let mut reader = Self {
            cpu: pages.cpu,
            index,
            pages: PageReader::new(source, &container.compression, buffer, pages),
            layout: container.layout,
            tsc,
            at: 0,
            end: 0,
            now: 0,
            last_ns: None,
            faulted: false,
            next: None,
            event_behind_loss: None,
            faults: Vec::new(),
            // A CPU without a page has no stamp.
            is_cut: pages.cut_from.is_some() && pages.from < pages.to,
        };
        reader.advance();
        reader
    }

    /// An event's bytes in the current page.
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
        ns.max(self.last_ns.unwrap_or(0))
    }

    /// Goes to the next item.
    fn advance(&mut self) {
        if let Some(item) = &self.next {
            self.last_ns = Some(item.at);
        }
        if let event @ Some(_) = self.event_behind_loss.take() {
            self.next = event;
            return;
        }
        self.next = loop {
            if self.at >= self.end {
                match self.next_page() {
                    Ok(Some(Some(count))) => break Some(self.lost(count)),
                    Ok(Some(None)) => continue,
                    // An unreadable end is a loss up to this CPU's last stamp.
                    Ok(None) => {
                        let lost = std::mem::take(&mut self.faulted).then(|| self.lost(0));
                        let is_cut = lost.is_none() && std::mem::take(&mut self.is_cut);
                        break lost.or_else(|| is_cut.then(|| Item { at: self.ns(), kind: ItemKind::Cut }));
                    }
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
                            let event = Item { at: self.ns(), kind: ItemKind::Event(range) };
                            if !std::mem::take(&mut self.faulted) {
                                break Some(event);
                            }
                            self.event_behind_loss = Some(event);
                            break Some(self.lost(0));
                        }
                        Piece::TimePassed(delta) | Piece::Discarded(delta) => {
                            self.now = self.now.saturating_add(delta)
                        }
                        Piece::Stamp(stamp) => self.now = ring::full_stamp(stamp, self.now),
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
        Item { at: self.ns(), kind: ItemKind::Lost { from: self.last_ns, count } }
    }

    /// Goes to the next page and returns the number of events lost before it, if any; `None` behind the last page.
    fn next_page(&mut self) -> Result<Option<Option<u64>>, (u64, Fault)> {
        (self.at, self.end) = (0, 0);
        if !self.pages.next_page()? {
            return Ok(None);
        }
        let head = self.layout.read(self.pages.page()).map_err(|what| (self.pages.offset(), what))?;
        if head.at == 0 {
            return Err((self.pages.offset(), Fault::PageWithoutStamp));
        }
        if head.at < self.now {
            self.fault(self.pages.offset(), Fault::PageBack);
        }
        self.now = head.at;
        (self.at, self.end) = head.data;
        // The number of events in unreadable bytes is unknown.
        let count =
            if head.lost.is_some() && std::mem::take(&mut self.faulted) { Some(0) } else { head.lost };
        Ok(Some(count))
    }

    const fn key(&self) -> Option<(u64, usize)> {
        match &self.next {
            Some(item) => Some((item.at, self.index)),
            None => None,
        }
    }
}

impl Tsc {
    /// Cycles as ns; never decreasing.
    fn ns(self, cycles: u64) -> u64 {
        let ns = (u128::from(cycles) * u128::from(self.multiplier)) >> self.shift;
        u64::try_from(ns).unwrap_or(u64::MAX).saturating_add(self.offset)
    }
}

/// Visits all items in a buffer by time, at equal stamps by CPU: the CPU, the item, and an event's bytes. Returns the
/// unreadable places, and the reasons. `progress` gets each page's bytes.
pub(super) fn merge(
    source: &impl Source,
    container: &Container,
    buffer: &Buffer,
    mut visit: impl FnMut(u32, &Item, &[u8]),
    mut progress: impl FnMut(u64),
) -> Vec<(u64, Fault)> {
    let tsc = container.options.tsc.filter(|_| TSC.contains(&buffer.clock.as_str()));
    let cpus = buffer.cpus.iter().enumerate();
    let mut readers: Vec<_> =
        cpus.map(|(index, &pages)| CpuReader::new(source, container, buffer, tsc, index, pages)).collect();
    // The next due reader on top.
    let mut due: BinaryHeap<_> = readers.iter().filter_map(CpuReader::key).map(Reverse).collect();
    while let Some(Reverse((_, index))) = due.pop() {
        let reader = &mut readers[index];
        let limit = due.peek().map_or((u64::MAX, usize::MAX), |Reverse(key)| *key);
        while let Some(item) = reader.next.clone().filter(|item| (item.at, index) <= limit) {
            let bytes = match &item.kind {
                ItemKind::Event(range) => reader.bytes(range.clone()),
                ItemKind::Lost { .. } | ItemKind::Cut => &[],
            };
            visit(reader.cpu, &item, bytes);
            let before = reader.pages.offset();
            reader.advance();
            progress(reader.pages.offset().saturating_sub(before));
        }
        due.extend(reader.key().map(Reverse));
    }
    readers.into_iter().flat_map(|reader| reader.faults).collect()
}
