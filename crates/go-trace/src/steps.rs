//! Goroutines' steps, from threads' events.

use std::collections::HashMap;

use crate::events::{EventKind, Stream};
use crate::generation::Generation;
use crate::merge::merge;
use crate::reasons::{DESCRIPTOR, Reasons};
use crate::{Step, StepKind, UNIT_NS};

/// The prefix in functions which themselves wake goroutines from descriptors: when a descriptor is closed, or gets a new deadline.
const POLL: &[u8] = b"internal/poll.";

/// The state between two generations.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    /// By thread, its running goroutine.
    running: HashMap<u64, u64>,
    goroutines: HashMap<u64, Goroutine>,
    pub(crate) steps: Vec<Step>,
    /// The first and the last stamp.
    pub(crate) extent: Option<(u64, u64)>,
    /// An event's longest delay.
    pub(crate) latest: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Goroutine {
    /// Its creator, until the first run.
    parent: u64,
    began_in: u64,
    /// The reason for which it is parked, if that was seen.
    park: Option<u8>,
}

impl Machine {
    /// Adds a generation's steps.
    pub(crate) fn take(&mut self, generation: &Generation<'_>, streams: Vec<Stream>, reasons: &mut Reasons) {
        let events = || streams.iter().flat_map(|stream| &stream.events);
        let first = generation.batches.iter().map(|batch| batch.stamp).min();
        let last = events().map(|event| event.stamp).max();
        let Some((first, last)) = first.zip(last) else { return };
        let first = self.extent.map_or(first, |(_, end)| first.max(end));
        self.extent = Some((self.extent.map_or(first, |(begin, _)| begin), last.max(first)));
        // These hold since the generation's beginning, wherever in the generation they stand.
        for event in events() {
            if let EventKind::Running { goroutine, thread } = event.kind
                && self.running.get(&thread) != Some(&goroutine)
            {
                self.step(first, thread, goroutine, StepKind::Found);
                self.running.insert(thread, goroutine);
            }
        }
        merge(&streams, |thread, event, due| {
            let due = due.max(first);
            self.latest = self.latest.max(due - event.stamp.min(due));
            self.event(generation, reasons, thread, &event.kind, due);
        });
    }

    fn event(
        &mut self,
        generation: &Generation<'_>,
        reasons: &mut Reasons,
        thread: u64,
        kind: &EventKind,
        at: u64,
    ) {
        match *kind {
            EventKind::Create { goroutine, began_in } => {
                let parent = self.running.get(&thread).copied().unwrap_or(0);
                // The stack has the instruction behind the function's first byte.
                let began_in =
                    generation.stack(began_in).next().map_or(0, |frame| frame.address.saturating_sub(1));
                self.goroutines.insert(goroutine, Goroutine { parent, began_in, park: None });
            }
            EventKind::Enter(goroutine) => self.runs(thread, goroutine, at),
            EventKind::Start { goroutine, .. } => self.runs(thread, goroutine, at),
            EventKind::Destroy => {
                if let Some(goroutine) = self.running.remove(&thread) {
                    self.step(at, thread, goroutine, StepKind::Ends);
                    self.goroutines.remove(&goroutine);
                }
            }
            EventKind::Stop => {
                if let Some(goroutine) = self.running.remove(&thread) {
                    self.step(at, thread, goroutine, StepKind::Yields);
                }
            }
            EventKind::Block { reason, stack } => {
                if let Some(goroutine) = self.running.remove(&thread) {
                    self.parks(thread, goroutine, reasons.park(generation, reason, stack), at);
                }
            }
            EventKind::Unblock { goroutine, stack, .. } => {
                let by = self.running.get(&thread).copied().unwrap_or(0);
                let park = self.goroutines.get_mut(&goroutine).and_then(|of| of.park.take());
                let name = park.and_then(|number| reasons.names.get(usize::from(number)));
                let is_made_ready = match name.map(String::as_str) {
                    // The poller found its descriptor ready, whichever goroutine's thread looked.
                    Some(DESCRIPTOR) => generation.stack(stack).any(|frame| frame.function.starts_with(POLL)),
                    Some(_) => true,
                    None => by != 0,
                };
                if is_made_ready {
                    self.step(at, thread, goroutine, StepKind::Ready(by));
                }
            }
            EventKind::Switch { goroutine, ends, .. } => {
                let from = self.running.remove(&thread);
                self.step(at, thread, goroutine, StepKind::Ready(from.unwrap_or(0)));
                match from {
                    Some(from) if ends => {
                        self.step(at, thread, from, StepKind::Ends);
                        self.goroutines.remove(&from);
                    }
                    Some(from) => self.parks(thread, from, reasons.coroutine(), at),
                    None => {}
                }
                self.runs(thread, goroutine, at);
            }
            EventKind::Running { .. } | EventKind::Nothing => {}
        }
    }

    fn runs(&mut self, thread: u64, goroutine: u64, at: u64) {
        let of = self.goroutines.entry(goroutine).or_default();
        let parent = std::mem::take(&mut of.parent);
        self.running.insert(thread, goroutine);
        self.step(at, thread, goroutine, StepKind::Runs(parent));
    }

    fn parks(&mut self, thread: u64, goroutine: u64, reason: u8, at: u64) {
        self.goroutines.entry(goroutine).or_default().park = Some(reason);
        self.step(at, thread, goroutine, StepKind::Parks(reason));
    }

    fn step(&mut self, at: u64, thread: u64, goroutine: u64, kind: StepKind) {
        // No thread of Linux has a larger number, and no goroutine the number 0.
        let Some(thread) = u32::try_from(thread).ok().filter(|_| goroutine != 0) else { return };
        let began_in = self.goroutines.get(&goroutine).map_or(0, |of| of.began_in);
        self.steps.push(Step { at_ns: at.saturating_mul(UNIT_NS), thread, goroutine, began_in, kind });
    }
}
