//! Packets identified by their header alone: bare acknowledgements, UDP, and packets without
//! addresses.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::FixedState;
use wakepath_event::FlowId;

use crate::header::Place;

/// A header's first sighting on a host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstSighting {
    /// On the host's clock.
    pub at: u64,
    /// On the clock that all hosts nearly share.
    pub common: u64,
    pub flow: FlowId,
    pub place: Place,
    /// Whether it was seen again at the same place.
    pub repeated: bool,
}

/// A host's recent headers.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    first: HashMap<u64, FirstSighting, FixedState>,
    /// In time order: headers not yet settled, then headers not yet forgotten.
    young: VecDeque<u64>,
    old: VecDeque<u64>,
}

impl Headers {
    pub(crate) fn add(&mut self, header: u64, first: (u64, u64), flow: FlowId, place: Place) {
        match self.first.get_mut(&header) {
            Some(before) => before.repeated |= before.place == place,
            None => {
                let (at, common) = first;
                let first = FirstSighting { at, common, flow, place, repeated: false };
                self.first.insert(header, first);
                self.young.push_back(header);
            }
        }
    }

    pub(crate) fn get(&self, header: u64) -> Option<&FirstSighting> {
        self.first.get(&header)
    }

    /// The next header to settle, if its common time is at most `until`.
    pub(crate) fn next_due(&mut self, until: u64) -> Option<(u64, FirstSighting)> {
        let &header = self.young.front()?;
        let first = *self.first.get(&header)?;
        if first.common > until {
            return None;
        }
        self.young.pop_front();
        self.old.push_back(header);
        Some((header, first))
    }

    /// Forgets settled headers with common times up to `until`.
    pub(crate) fn forget(&mut self, until: u64) {
        while let Some(header) = self.old.front() {
            if self.first.get(header).is_some_and(|first| first.common > until) {
                break;
            }
            self.first.remove(header);
            self.old.pop_front();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }
}

#[cfg(test)]
mod tests {
    use wakepath_event::{Direction, Packet};

    use super::*;

    const PACKET: Packet = Packet {
        flow: FlowId(7),
        direction: Direction::Out,
        seq: 0,
        ack: 0,
        len: 0,
        tcp_flags: 16,
        netns: 1,
        interface: 1,
    };

    #[test]
    fn a_header_is_settled_when_it_is_old_enough_and_forgotten_only_behind_that() {
        let mut headers = Headers::default();
        for (header, at) in [(1, 10), (2, 20)] {
            headers.add(header, (at + 1000, at), PACKET.flow, Place::of(&PACKET));
        }
        assert!(headers.next_due(9).is_none());
        let due = headers.next_due(10).map(|(header, first)| (header, first.at, first.common));
        assert_eq!(due, Some((1, 1010, 10)));
        assert!(headers.next_due(19).is_none());
        headers.forget(9);
        assert_eq!((headers.len(), headers.get(1).is_some()), (2, true));
        headers.forget(10);
        assert_eq!((headers.len(), headers.get(1).is_some()), (1, false));
        headers.forget(20);
        assert_eq!((headers.len(), headers.get(2).is_some()), (1, true), "it is not settled");
        assert_eq!(headers.next_due(30).map(|(header, _)| header), Some(2));
        headers.forget(30);
        assert_eq!(headers.len(), 0);
    }
}
