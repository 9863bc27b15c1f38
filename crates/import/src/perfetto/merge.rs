//! The bundles' events by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use wakepath_ctf::Source;

use super::bundle::{Bundle, Item};
use super::container::{Again, Place};
use super::survey::Entry;
use crate::Fault;

/// The limit on all bundles in progress: many CPUs' bundles fit.
const MAX_OPEN_ITEMS: usize = if cfg!(test) { 64 } else { 1 << 22 };

/// A bundle in progress.
pub(super) struct Open {
    pub bundle: Bundle,
    /// The bundle's packet, with its events' bytes.
    pub packet: Vec<u8>,
    /// Its events are left out, since too many bundles overlap.
    pub left_out: bool,
    next: usize,
    place: Place,
}

impl Open {
    /// Its share of the limit: its events, and its packet's bytes.
    fn cost(&self) -> usize {
        self.bundle.items.len() + self.packet.len() / size_of::<Item>()
    }

    fn key(&self) -> Option<(u64, Place)> {
        self.bundle.items.get(self.next).map(|item| (item.at, self.place))
    }
}

/// A step through the events.
pub(super) enum Step<'a> {
    /// A bundle's first event follows.
    Begin(&'a Open),
    Event(&'a Open, Item),
    /// The bundle's last event was before.
    End(&'a Open),
}

/// Visits the bundles' events by time, then in file order. Returns the damages with their offsets.
pub(super) fn merge(
    source: &impl Source,
    index: &[Entry],
    mut visit: impl FnMut(Step<'_>),
) -> Vec<(u64, Fault)> {
    let (mut again, mut faults) = (Again::default(), Vec::new());
    let mut waiting = index.iter().peekable();
    let mut open: Vec<Option<Open>> = Vec::new();
    let mut due: BinaryHeap<Reverse<((u64, Place), usize)>> = BinaryHeap::new();
    let mut items = 0;
    loop {
        // A bundle is read only once its first event is due.
        let is_due = |entry: &&Entry, due: &BinaryHeap<Reverse<((u64, Place), usize)>>| {
            due.peek().is_none_or(|Reverse((key, _))| (entry.first, entry.place) <= *key)
        };
        while let Some(entry) = waiting.next_if(|entry| is_due(entry, &due)) {
            let packet = again.read(source, entry.place);
            let read = packet.and_then(|packet| Some((Bundle::from_packet(&packet)?, packet)));
            let Some((mut bundle, packet)) = read else {
                faults.push((entry.place.offset, Fault::Changed));
                continue;
            };
            bundle.lost |= entry.after_gap;
            let mut opened = Open { bundle, packet, left_out: false, next: 0, place: entry.place };
            if !due.is_empty() && items + opened.cost() > MAX_OPEN_ITEMS {
                faults.push((entry.place.offset, Fault::TooManyOverlap));
                let bundle = opened.bundle.left_out();
                opened = Open { bundle, packet: Vec::new(), left_out: true, ..opened };
            }
            let Some(key) = opened.key() else {
                visit(Step::Begin(&opened));
                continue;
            };
            visit(Step::Begin(&opened));
            items += opened.cost();
            let slot = open.iter().position(Option::is_none).unwrap_or_else(|| {
                open.push(None);
                open.len() - 1
            });
            open[slot] = Some(opened);
            due.push(Reverse((key, slot)));
        }
        let Some(Reverse((_, slot))) = due.pop() else { return faults };
        let limit =
            [due.peek().map(|Reverse((key, _))| *key), waiting.peek().map(|one| (one.first, one.place))];
        let limit = limit.into_iter().flatten().min();
        let Some(bundle) = &mut open[slot] else { continue };
        while let Some(key) = bundle.key().filter(|key| limit.is_none_or(|limit| *key <= limit)) {
            let item = Item { at: key.0, ..bundle.bundle.items[bundle.next] };
            bundle.next += 1;
            visit(Step::Event(bundle, item));
        }
        match bundle.key() {
            Some(key) => due.push(Reverse((key, slot))),
            None => {
                items -= bundle.cost();
                visit(Step::End(bundle));
                open[slot] = None;
            }
        }
    }
}
