//! Spans by their ids. Two services may have given the same ids: then the one that is asked about matters.

use std::collections::HashMap;

use crate::{ServiceIndex, SpanId, SpanIndex, Spans, TraceId};

/// All spans, by their trace and their identity in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ById {
    /// The first span of each identity.
    first: HashMap<(TraceId, SpanId), SpanIndex>,
    /// Those behind the first one.
    more: HashMap<(TraceId, SpanId), Vec<SpanIndex>>,
}

impl ById {
    /// Sorts spans by their identities.
    pub fn new(spans: &Spans) -> Self {
        let mut by_id = Self::default();
        for (index, span) in spans.iter() {
            let id = (span.trace, span.id);
            let first = *by_id.first.entry(id).or_insert(index);
            if first != index {
                by_id.more.entry(id).or_default().push(index);
            }
        }
        by_id
    }

    /// The spans with this identity, at most one of each service.
    pub fn all(&self, trace: TraceId, id: SpanId) -> impl Iterator<Item = SpanIndex> {
        let more = self.more.get(&(trace, id)).map_or(&[][..], Vec::as_slice);
        self.first.get(&(trace, id)).into_iter().chain(more).copied()
    }

    /// The span with this identity that a service means: its own, or else the first one.
    pub fn of(&self, spans: &Spans, service: ServiceIndex, trace: TraceId, id: SpanId) -> Option<SpanIndex> {
        let own = self.all(trace, id).find(|index| spans.span(*index).service == service);
        own.or_else(|| self.all(trace, id).next())
    }

    /// All spans, in the order of their traces and identities.
    pub(crate) fn sorted(&self) -> Vec<SpanIndex> {
        let mut sorted: Vec<_> = self.first.iter().collect();
        sorted.sort_unstable();
        sorted.into_iter().flat_map(|(&(trace, id), _)| self.all(trace, id)).collect()
    }
}
