//! Threads' contexts as read, and the times in which each held.

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Context, ThreadContext, Tid};
use wakepath_loaded::Recorded;
use wakepath_spans::{ById, Hold, Said, SpanId, SpanIndex, TraceId};
use wakepath_wait_graph::{Graph, Occupant, ThreadIndex, ThreadState, WakeUp, Waker};

use crate::model::{Traced, Waking, Wakings};
use crate::places::Places;
use crate::process::Processes;

/// All threads with contexts.
#[derive(Debug)]
pub(crate) struct Readings<'r> {
    recorded: &'r Recorded,
    threads: Vec<ThreadIndex>,
    /// The threads woken by each of these threads.
    pub(crate) wakings: Wakings,
    /// The spans, by their ids.
    pub(crate) by_id: ById,
    processes: Processes,
}

/// A thread's contexts.
#[derive(Debug)]
pub(crate) struct ThreadContexts {
    pub(crate) thread: ThreadIndex,
    pub(crate) process: Option<Tid>,
    /// In time order, without overlap.
    pub(crate) holds: Vec<Hold<Reference>>,
}

impl<'r> Readings<'r> {
    /// A recording's contexts; `None` without any.
    pub(crate) fn new(recorded: &'r Recorded, traced: &Traced) -> Option<Self> {
        let tids = recorded.survey.contexts.threads();
        if tids.is_empty() {
            return None;
        }
        let by_id = ById::new(&traced.spans);
        let mut seen = HashSet::new();
        // A thread may change its number at an exec.
        let threads: Vec<_> = tids
            .into_iter()
            .flat_map(|tid| recorded.with_tid(tid).iter().copied())
            .filter(|thread| seen.insert(*thread))
            .collect();
        let all = threads.iter().flat_map(|&thread| {
            let readings = readings(recorded, thread);
            readings.filter_map(move |(at, said)| match said {
                Said::Span { trace, span, .. } => Some((thread, at, trace, span)),
                Said::None | Said::Unknown => None,
            })
        });
        let processes = Processes::new(recorded, &traced.spans, &by_id, all);
        let wakings = wakings(&recorded.graph, &seen);
        Some(Self { recorded, threads, wakings, by_id, processes })
    }

    /// Each thread's contexts, thread by thread: all together may take much memory.
    pub(crate) fn thread_contexts(&self) -> impl Iterator<Item = ThreadContexts> {
        let graph = &self.recorded.graph;
        self.threads.iter().map(move |&thread| {
            let readings: Vec<_> = readings(self.recorded, thread).collect();
            let wakings = self.wakings.get(&thread).map_or(&[][..], Vec::as_slice);
            let holds = holds(graph, thread, &readings, wakings);
            ThreadContexts { thread, process: graph.thread(thread).tgid(), holds }
        })
    }

    /// The thread named by a span.
    pub(crate) fn noted_thread(
        &self,
        traced: &Traced,
        places: &Places,
        span: SpanIndex,
    ) -> Option<ThreadIndex> {
        places.thread(self.recorded, traced, span)
    }

    /// Whether a thread ran at some time in a window; `None` where it may have run unseen.
    pub(crate) fn ran_within(
        &self,
        thread: ThreadIndex,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Option<bool> {
        let mut known = from;
        for interval in self.recorded.graph.state_intervals(thread).overlapping(from, to) {
            match interval.state {
                ThreadState::Running { .. } => return Some(true),
                ThreadState::Unknown(_) => {}
                _ if interval.from <= known => known = known.max(interval.to),
                _ => {}
            }
        }
        (known >= to).then_some(false)
    }

    /// Whether a thread in this process may mean this span, among the spans with its context's ids.
    pub(crate) fn may_be_own(&self, traced: &Traced, process: Option<Tid>, span: SpanIndex) -> bool {
        self.processes.may_be(process, traced.spans.span(span).service)
    }
}

/// A thread's context readings, each while the thread had the reading's number, in time order.
fn readings(recorded: &Recorded, thread: ThreadIndex) -> impl Iterator<Item = (Stamp<Reference>, Said)> {
    let life = recorded.graph.thread(thread);
    life.tids.iter().enumerate().flat_map(move |(place, &(_, tid))| {
        let from = if place == 0 { life.first } else { life.tids[place].0 };
        let next = life.tids.get(place + 1).map(|&(next, _)| next);
        let all = recorded.survey.contexts.of(tid);
        all.map(|(at, context)| (at.on_reference_host(), said(context)))
            .filter(move |&(at, _)| from <= at && at <= life.last && next.is_none_or(|next| at < next))
    })
}

fn said(context: ThreadContext) -> Said {
    match context {
        ThreadContext::None => Said::None,
        ThreadContext::Unknown => Said::Unknown,
        ThreadContext::Span { trace, span, flags } => {
            Said::Span { trace: TraceId(trace), span: SpanId(span), sampled: flags & 1 != 0 }
        }
    }
}

/// These threads' wake-ups for others, each thread's in time order.
fn wakings(graph: &Graph, of: &HashSet<ThreadIndex>) -> Wakings {
    let mut wakings = Wakings::new();
    for (woken, _) in graph.threads() {
        let intervals = graph.state_intervals(woken);
        let waits = (0..intervals.len()).filter_map(|place| graph.wait(&intervals.get(place)?));
        for wait in waits {
            if let Waker::Woken(WakeUp { at, current: Occupant::Thread(by), context: Context::Task, .. }) =
                wait.end
                && of.contains(&by)
            {
                wakings.entry(by).or_default().push(Waking { at, woken });
            }
        }
    }
    wakings.values_mut().for_each(|of_thread| of_thread.sort_unstable());
    wakings
}

/// The times in which a thread had the same context, from its readings in time order: none before the first, except for a new thread.
///
/// A context is read when the thread leaves a CPU, and when it wakes another thread, and recorded if it changed: without a record then, the last
/// context holds. Where records may be missing, it does not.
fn holds(
    graph: &Graph,
    thread: ThreadIndex,
    readings: &[(Stamp<Reference>, Said)],
    wakings: &[Waking],
) -> Vec<Hold<Reference>> {
    let (Some(&(first, _)), mut holds) = (readings.first(), Vec::new()) else { return Vec::new() };
    let until = graph.thread(thread).last;
    holds.extend(new(graph, thread, first));
    let latest = |at| &readings[..readings.partition_point(|(read, _)| *read <= at)];
    for interval in graph.state_intervals(thread).overlapping(first, until) {
        let (from, to) = (interval.from, interval.to);
        match interval.state {
            ThreadState::Running { .. } => {
                let within = readings.partition_point(|(read, _)| *read <= from)
                    ..readings.partition_point(|(read, _)| *read < to);
                // There the thread wakes another, or sends a packet.
                let read = readings.get(within).unwrap_or_default();
                let woke = wakings.partition_point(|waking| waking.at <= from)
                    ..wakings.partition_point(|waking| waking.at < to);
                let unchanged =
                    wakings.get(woke).unwrap_or_default().iter().filter_map(|&Waking { at, .. }| {
                        let &(read, said) = latest(at).last()?;
                        is_certain(graph, read, at).then_some((at, said))
                    });
                let mut read: Vec<_> = read.iter().copied().chain(unchanged).collect();
                read.sort_by_key(|(at, _)| *at);
                holds.extend(read.into_iter().map(|(at, said)| Hold { from: at, to: at, said }));
            }
            ThreadState::Unknown(_) => holds.push(Hold { from, to, said: Said::Unknown }),
            _ => {
                if let Some(&(read, said)) = latest(from).last() {
                    let said = if is_certain(graph, read, from) { said } else { Said::Unknown };
                    holds.push(Hold { from, to, said });
                }
            }
        }
    }
    // The recording may end with it.
    if let Some(&(at, said)) = readings.last()
        && holds.last().is_none_or(|last: &Hold<Reference>| last.to < at)
    {
        holds.push(Hold { from: at, to: at, said });
    }
    holds
}

/// The time from a thread's fork until it runs: its variables are new, so that it works for nothing. Exceptions: a process's first thread,
/// which has the variables of the thread that forked it; and a thread whose first reading comes later than its first switch, because the
/// recorder did not know its process by then, and its contexts meanwhile were not read.
fn new(graph: &Graph, thread: ThreadIndex, first: Stamp<Reference>) -> Option<Hold<Reference>> {
    let life = graph.thread(thread);
    let identity = life.identity.as_ref()?;
    if life.forker().is_none() || identity.tid == identity.tgid {
        return None;
    }
    let intervals = graph.state_intervals(thread).overlapping(life.first, first);
    let mut known = intervals
        .skip_while(|one| !matches!(one.state, ThreadState::Running { .. } | ThreadState::Unknown(_)));
    let runs = known.next().filter(|one| matches!(one.state, ThreadState::Running { .. }))?;
    (first <= runs.to).then_some(Hold { from: life.first, to: runs.from, said: Said::None })
}

/// Whether a context recorded at `read` still held at a later switch without a record. A full ring loses records only
/// at that time: the context is recorded at the next event. A record lost in a damaged file does not come again.
fn is_certain(graph: &Graph, read: Stamp<Reference>, at: Stamp<Reference>) -> bool {
    if read == at || !graph.losses().touch_reported(read, at) {
        return true;
    }
    let is_harmful = |loss: &&wakepath_wait_graph::Loss| {
        let is_of_file = loss.count == 0;
        loss.reported && !loss.records.is_evidence_alone() && (is_of_file || loss.to >= at)
    };
    !graph.losses().overlapping(read, at).any(|loss| is_harmful(&loss))
}
