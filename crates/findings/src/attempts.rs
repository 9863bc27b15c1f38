//! The failed calls before sleeps: a thread's own, or its waiting parent's, or those with which the parent's other children ended.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Segment, SegmentKind};
use wakepath_event::{Call, Tid};
use wakepath_loaded::AttemptId;
use wakepath_wait_graph::{StateInterval, ThreadIndex};

use crate::Evidence;

/// A failed call before a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttemptBefore {
    /// The call.
    pub id: AttemptId,
    /// The trying thread: the sleeping thread, or its parent.
    pub by: ThreadIndex,
    /// The tries since its last sleep.
    pub tries: u32,
}

/// By parent, the processes' ends, each with the process's last try.
type EndedInVain = BTreeMap<Tid, Vec<(Stamp<Reference>, AttemptId)>>;

/// Looks up a path's sleeps, in path order.
pub(crate) struct Attempts<'a> {
    evidence: &'a Evidence<'a>,
    /// By parent: its last wait's beginning, all tries before it, and the new tries.
    counted: HashMap<(AttemptId, ThreadIndex), (Stamp<Reference>, u32, u32)>,
    /// The processes that ended in vain, once they are asked for: all threads are looked at.
    ended: OnceCell<EndedInVain>,
    /// By parent, and the beginning of its child's sleep: the end of the child before.
    slept: HashMap<ThreadIndex, (Stamp<Reference>, Stamp<Reference>)>,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(evidence: &'a Evidence<'a>) -> Self {
        Self { evidence, counted: HashMap::new(), ended: OnceCell::new(), slept: HashMap::new() }
    }

    /// The failed call before a sleep; `None` for other segments, and if no call failed.
    pub(crate) fn before(&mut self, segment: &Segment) -> Option<AttemptBefore> {
        let index = segment.thread.filter(|_| segment.kind == SegmentKind::Timer)?;
        if self.evidence.recorded.failed_calls().has_no_attempts() {
            return None;
        }
        let wait = self.interval(index, segment.from)?;
        let own =
            self.recorded_before(index, segment.from).or_else(|| self.recorded_before(index, wait.from));
        let own = own.map(|(id, tries)| AttemptBefore { id, by: index, tries });
        own.or_else(|| self.by_parent(index, &wait))
    }

    /// The parent's failed call before its wait for a child doing little but sleep: a script sleeps in a process.
    fn by_parent(&mut self, sleeper: ThreadIndex, sleep: &StateInterval) -> Option<AttemptBefore> {
        let recorded = self.evidence.recorded;
        let graph = recorded.graph();
        let thread = graph.thread(sleeper);
        let parent = recorded.leader(thread.identity.as_ref()?.parent, sleep.from)?;
        // At the sleep's end: with few CPUs, the parent comes to wait after the child has fallen asleep.
        let wait = self.interval(parent, sleep.to.minus(1))?;
        let call = graph.wait(&wait)?.call?;
        let is_for_child = Call::CHILD_WAITS.contains(&call.number);
        if !is_for_child || length(sleep).saturating_mul(3) < length(&wait).saturating_mul(2) {
            return None;
        }
        if let Some((id, tries)) = self.by_children(parent, thread.identity.as_ref()?.parent, sleep) {
            return Some(AttemptBefore { id, by: parent, tries });
        }
        let (id, tries) = self.recorded_before(parent, wait.from)?;
        let last = self.counted.get(&(id, parent)).copied();
        // The parent counts on through its waits. Without another try since, a sleep has another reason.
        let new = match last {
            Some((from, _, new)) if from == wait.from => new,
            Some((_, until, _)) if tries >= until => tries - until,
            _ => tries,
        };
        self.counted.insert((id, parent), (wait.from, tries, new));
        (new > 0).then_some(AttemptBefore { id, by: parent, tries: new })
    }

    /// The try with which the parent's last child ended since its child before slept, and the number of such tries.
    fn by_children(
        &mut self,
        parent: ThreadIndex,
        process: Tid,
        sleep: &StateInterval,
    ) -> Option<(AttemptId, u32)> {
        let ended = self.ended.get_or_init(|| ended_in_vain(self.evidence)).get(&process)?;
        let since = match self.slept.get(&parent) {
            Some((from, since)) if *from == sleep.from => *since,
            Some((from, _)) if *from < sleep.from => *from,
            _ => Stamp::from_ns(0),
        };
        self.slept.insert(parent, (sleep.from, since));
        let first = ended.partition_point(|(end, _)| *end <= since);
        let behind = ended.partition_point(|(end, _)| *end <= sleep.from);
        let tried = ended.get(first..behind)?;
        let (_, id) = *tried.last()?;
        Some((id, tried.iter().filter(|(_, other)| *other == id).count() as u32))
    }

    /// The failed call recorded where a thread's wait began.
    fn recorded_before(&self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<(AttemptId, u32)> {
        let recorded = self.evidence.recorded;
        let tid = recorded.graph().thread(thread).tid_at(at);
        recorded.failed_calls().before(tid, Stamp::from_ns(at.ns()))
    }

    /// A thread's state at `at`: the window or a wait above may cut a segment.
    fn interval(&self, thread: ThreadIndex, at: Stamp<Reference>) -> Option<StateInterval> {
        let intervals = self.evidence.recorded.graph().state_intervals(thread);
        intervals.get(intervals.find(at))
    }
}

/// The processes that ended in vain behind a try, by their parents.
fn ended_in_vain(evidence: &Evidence<'_>) -> EndedInVain {
    let (recorded, graph) = (evidence.recorded, evidence.recorded.graph());
    let mut ended = EndedInVain::new();
    for (index, thread) in graph.threads().filter(|(index, _)| graph.has_died(*index)) {
        let tid = thread.tid_at(thread.last);
        let Some((id, _)) = recorded.failed_calls().before(tid, Stamp::from_ns(thread.last.ns())) else {
            continue;
        };
        if let Some(identity) = &graph.thread(index).identity {
            ended.entry(identity.parent).or_default().push((thread.last, id));
        }
    }
    ended.values_mut().for_each(|ends| ends.sort_unstable());
    ended
}

fn length(interval: &StateInterval) -> u64 {
    interval.to.since(interval.from)
}
