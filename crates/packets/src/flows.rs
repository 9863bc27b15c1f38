//! A host's flows: the addresses, ports and protocol behind its flow ids.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::mem;

use foldhash::fast::FixedState;
use wakepath_event::{Flow, FlowId};

/// A direction of a connection, equal on every host: a hash of addresses, ports and protocol. Flow ids are each
/// recording's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamKey(pub(crate) u64);

const TCP: u8 = 6;

impl StreamKey {
    /// Packets without a defined flow, known only by their header.
    pub(crate) const UNDEFINED: Self = Self(0);

    fn of(flow: Flow) -> Self {
        // The lowest bit marks TCP, so that a flow's key stays a single word.
        let hash = hash((flow.source, flow.target, flow.protocol)) & !1;
        Self(hash.max(2) | u64::from(flow.protocol == TCP))
    }

    pub(crate) fn is_tcp(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The smallest number of recently defined flows that are remembered; at most twice this number are. Packets of an
/// older flow count as packets without a defined flow. A table with this size just fits its allocation.
const MIN_FLOWS: usize = (1 << 18) / 8 * 7;

/// The flows behind a host's flow ids.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flows {
    young: HashMap<FlowId, StreamKey, FixedState>,
    old: HashMap<FlowId, StreamKey, FixedState>,
}

impl Flows {
    pub(crate) fn define(&mut self, id: FlowId, flow: Flow) {
        if self.young.len() >= MIN_FLOWS && !self.young.contains_key(&id) {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(id, StreamKey::of(flow));
    }

    pub(crate) fn get(&self, id: FlowId) -> Option<StreamKey> {
        self.young.get(&id).or_else(|| self.old.get(&id)).copied()
    }

    pub(crate) fn streams(&self) -> impl Iterator<Item = StreamKey> {
        self.young.values().chain(self.old.values()).copied()
    }

    /// Whether this id stands for this flow already.
    pub(crate) fn defines(&self, id: FlowId, flow: Flow) -> bool {
        self.get(id) == Some(StreamKey::of(flow))
    }
}

/// A hash that is equal on every host and in every run.
pub(crate) fn hash(of: impl std::hash::Hash) -> u64 {
    FixedState::with_seed(0x7761_6b65).hash_one(of)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn flow(port: u16, protocol: u8) -> Flow {
        let address = |text: &str| text.parse().expect("an address");
        Flow { source: address(&format!("10.0.0.1:{port}")), target: address("10.0.0.2:80"), protocol }
    }

    #[test]
    fn a_stream_is_a_word_of_its_own_that_says_tcp() {
        let keys: HashSet<_> = (0..64)
            .flat_map(|port| [StreamKey::of(flow(port, TCP)), StreamKey::of(flow(port, 17))])
            .collect();
        assert_eq!(keys.len(), 128);
        assert_eq!(keys.iter().filter(|key| key.is_tcp()).count(), 64);
        assert!((0..64).all(|port| StreamKey::of(flow(port, TCP)).is_tcp()));
    }

    #[test]
    fn the_oldest_flows_are_forgotten_when_twice_as_many_are_newer() {
        let mut flows = Flows::default();
        let define = |flows: &mut Flows, ids: std::ops::Range<usize>| {
            ids.for_each(|id| flows.define(FlowId(id as u64), flow(1, TCP)));
        };
        let knows = |flows: &Flows, id: usize| flows.defines(FlowId(id as u64), flow(1, TCP));
        define(&mut flows, 0..MIN_FLOWS);
        define(&mut flows, 0..1);
        assert_eq!(flows.streams().count(), MIN_FLOWS, "another definition of a known id makes no room");
        assert!(knows(&flows, 0) && knows(&flows, 1));
        assert!(!flows.defines(FlowId(0), flow(2, TCP)) && !knows(&flows, MIN_FLOWS));
        define(&mut flows, MIN_FLOWS..2 * MIN_FLOWS);
        assert!(knows(&flows, 1));
        assert!(flows.old.len() == MIN_FLOWS && flows.young.len() == MIN_FLOWS);
        define(&mut flows, 2 * MIN_FLOWS..2 * MIN_FLOWS + 1);
        assert!(!knows(&flows, 1) && knows(&flows, MIN_FLOWS));
    }
}
