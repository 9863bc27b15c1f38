//! Kernel workers, which take up work for whoever has some.

use wakepath_clock::{Reference, Stamp};
use wakepath_event::BlockedState;
use wakepath_wait_graph::{Graph, Span, ThreadIndex, Wait, Waker};

/// The last wait for work of a kernel worker that ends between `at` and `to`; `first` is the span that
/// holds `at`.
///
/// What a worker did before it took up the work has nothing to do with who waits for that work: it was
/// there for anyone. So its last wait for work stands for all before, and what ended that wait, which
/// queued the work, for why it was not done earlier. Only workers sleep so: within their work they wait in
/// other states.
pub(crate) fn taken_up(
    graph: &Graph,
    thread: ThreadIndex,
    first: usize,
    at: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Option<TakenUp> {
    is_worker(graph, thread, to).then_some(())?;
    let spans = graph.spans(thread);
    let within = (first..spans.len()).map_while(|index| Some((index, spans.get(index)?)));
    let within = within.take_while(|(_, span)| span.to <= to).filter(|(_, span)| span.to > at);
    let (index, span, wait) = within.filter_map(|(index, span)| idle(graph, index, span)).last()?;
    Some(TakenUp { next: index + 1, span, wait })
}

/// A worker's wait for work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakenUp {
    /// The span after it.
    pub(crate) next: usize,
    pub(crate) span: Span,
    pub(crate) wait: Wait,
}

fn idle(graph: &Graph, index: usize, span: Span) -> Option<(usize, Span, Wait)> {
    let wait = graph.wait(&span)?;
    let woken = matches!(wait.end, Waker::Woken { .. });
    (woken && wait.state == Some(BlockedState::Idle)).then_some((index, span, wait))
}

/// Kernel threads have names of their own making; what calls itself so in user space is none.
fn is_worker(graph: &Graph, thread: ThreadIndex, at: Stamp<Reference>) -> bool {
    let row = graph.thread(thread);
    row.identity.as_ref().is_some_and(|who| who.kernel) && row.name_at(at).bytes().starts_with(b"kworker/")
}
