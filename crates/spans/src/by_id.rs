//! Spans by their ids. Where two services gave a span the same ids, the asking service decides.

use std::collections::HashMap;

use crate::{ServiceIndex, SpanId, SpanIndex, Spans, TraceId};

/// All spans, by trace id and span id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ById {
    /// The first span with each identity.
    first: HashMap<(TraceId, SpanId), SpanIndex>,
    /// The spans behind the first.
    more: HashMap<(TraceId, SpanId), Vec<SpanIndex>>,
}

impl ById {
    /// Sorts spans by identity.
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

    /// The spans with this identity, at most one per service.
    pub fn all(&self, trace: TraceId, id: SpanId) -> impl Iterator<Item = SpanIndex> {
        let more = self.more.get(&(trace, id)).map_or(&[][..], Vec::as_slice);
        self.first.get(&(trace, id)).into_iter().chain(more).copied()
    }

    /// The span that a service means by this identity: its own, or else the first.
    pub fn of(&self, spans: &Spans, service: ServiceIndex, trace: TraceId, id: SpanId) -> Option<SpanIndex> {
        let own = self.all(trace, id).find(|index| spans.span(*index).service == service);
        own.or_else(|| self.all(trace, id).next())
    }

    /// All spans, ordered by trace and identity.
    pub(crate) fn sorted(&self) -> Vec<SpanIndex> {
        let mut sorted: Vec<_> = self.first.iter().collect();
        sorted.sort_unstable();
        sorted.into_iter().flat_map(|(&(trace, id), _)| self.all(trace, id)).collect()
    }
}
