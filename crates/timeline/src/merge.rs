//! Merges streams of events by time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use wakepath_event::Event;

/// Merges streams, each in time order, into a single stream in time order.
///
/// Events with equal stamps come in stream order, and within a stream in its order: the same streams always
/// give the same result. A stream out of time order keeps its own order.
pub fn merge<I>(streams: impl IntoIterator<Item = I>) -> impl Iterator<Item = Event>
where
    I: Iterator<Item = Event>,
{
    let mut streams: Vec<I> = streams.into_iter().collect();
    let mut heads: BinaryHeap<Head> = streams
        .iter_mut()
        .enumerate()
        .filter_map(|(stream, events)| Some(Head { event: events.next()?, stream }))
        .collect();
    std::iter::from_fn(move || {
        let mut top = heads.peek_mut()?;
        let stream = top.stream;
        match streams[stream].next() {
            Some(event) => Some(std::mem::replace(&mut *top, Head { event, stream }).event),
            None => Some(std::collections::binary_heap::PeekMut::pop(top).event),
        }
    })
}

/// A stream's next event. The heap's greatest is the earliest.
struct Head {
    event: Event,
    stream: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.event.at, other.stream).cmp(&(self.event.at, self.stream))
    }
}
impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Head {}

#[cfg(test)]
mod tests {

    use wakepath_event::EventKind;

    use super::*;

    fn stream(cpu: u16, stamps: &[u64]) -> std::vec::IntoIter<Event> {
        let events: Vec<_> = stamps
            .iter()
            .enumerate()
            .map(|(n, &ns)| wakepath_scenario::event(ns, cpu, n as u32, EventKind::Exit))
            .collect();
        events.into_iter()
    }

    #[test]
    fn equal_stamps_keep_the_order_of_streams_and_within_a_stream() {
        let merged: Vec<_> = merge([stream(0, &[1, 5, 5, 9]), stream(1, &[]), stream(2, &[0, 5, 7])])
            .map(|event| (event.at.ns(), event.cpu.0, event.current.0))
            .collect();
        assert_eq!(merged, [(0, 2, 0), (1, 0, 0), (5, 0, 1), (5, 0, 2), (5, 2, 1), (7, 2, 2), (9, 0, 3)]);
    }
}
