//! Packets that are known again by their header alone: bare acknowledgements, UDP, and whatever comes
//! without addresses.

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
    /// It was seen again at the same place.
    pub repeated: bool,
}

/// The headers that a host saw of late.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    first: HashMap<u64, FirstSighting, FixedState>,
    /// In order of time: those not yet settled, then those not yet forgotten.
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

    /// The next one that is as old as this, to be settled.
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

    /// Forgets those that are settled and as old as this.
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
