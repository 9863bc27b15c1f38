use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use wakepath_event::{Flow, FlowId};

/// One direction of a connection, the same on every host: made from addresses, ports and protocol.
/// Ids of flows are each recording's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamKey(pub(crate) u64);

impl StreamKey {
    /// Packets whose flow nothing defines: all that is known of them is their header.
    pub(crate) const UNDEFINED: Self = Self(0);
}

/// Flows that are remembered at once. An older one's packets count as of no defined flow.
const FLOWS: usize = 1 << 18;

/// What a host's flow ids stand for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flows {
    known: HashMap<FlowId, (StreamKey, u8), FixedState>,
    order: VecDeque<FlowId>,
}

impl Flows {
    pub(crate) fn define(&mut self, id: FlowId, flow: Flow) {
        let key = StreamKey(hash((flow.source, flow.target, flow.protocol)).max(1));
        if self.known.insert(id, (key, flow.protocol)).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > FLOWS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// The stream and its protocol.
    pub(crate) fn get(&self, id: FlowId) -> Option<(StreamKey, u8)> {
        self.known.get(&id).copied()
    }

    pub(crate) fn streams(&self) -> impl Iterator<Item = StreamKey> {
        self.known.values().map(|known| known.0)
    }
}

/// The same on every host and in every run.
pub(crate) fn hash(of: impl std::hash::Hash) -> u64 {
    FixedState::with_seed(0x7761_6b65).hash_one(of)
}
