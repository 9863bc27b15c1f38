//! The evidence for findings about a window.

use wakepath_critical_path::{Path, Responsible, SegmentKind};
use wakepath_event::{Comm, HostIndex, Tid};
use wakepath_names::{Recorded, Sampled, SampledSegments, SiteId, Stacks, ThreadInfo, worker_family};
use wakepath_wait_graph::ThreadIndex;

use crate::{Activity, Blamed, Sites, Tally, ThreadName};

/// A path, with what was recorded of its threads' code, and the recording, which names it all.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The recording.
    pub recorded: &'a Recorded,
    /// The path that explains the window.
    pub path: &'a Path,
    /// Where in the code its waits began and were ended.
    pub stacks: &'a Stacks,
    /// Where in the code its running threads were seen.
    pub sampled: &'a Sampled,
    /// The same samples by segment.
    pub sampled_segments: &'a SampledSegments,
}

impl Evidence<'_> {
    /// The window's length, ns.
    pub fn window_ns(&self) -> u64 {
        self.path.window.to.since(self.path.window.from)
    }

    /// The identity of the window's own thread when the window closed.
    pub fn subject(&self) -> ThreadInfo {
        self.thread(self.path.window.thread)
    }

    /// The identity of a thread when the window closed.
    pub fn thread(&self, index: ThreadIndex) -> ThreadInfo {
        self.recorded.thread_at(index, self.path.window.to)
    }

    /// Whether a thread belongs to the window's own processes: its process and the descendants of that. A thread
    /// that was never introduced does not, nor does a kernel thread.
    pub fn is_own(&self, thread: ThreadIndex) -> bool {
        let (thread, subject) = (self.thread(thread), self.subject());
        match (thread.tgid, subject.tgid) {
            _ if thread.kernel => false,
            (Some(process), Some(ancestor)) => self.recorded.descends(process, ancestor, self.path.window.to),
            _ => thread.tid == subject.tid && thread.tid != Tid::IDLE,
        }
    }

    /// The host of a thread, where it is another one than the reference.
    pub fn remote_host(&self, thread: &ThreadInfo) -> Option<HostIndex> {
        self.recorded.remote_host(thread.tid).map(|_| thread.tid.host())
    }

    /// The name that a thread shares with others of its kind.
    pub fn shared_name(&self, thread: &ThreadInfo) -> ThreadName {
        let comm = if thread.kernel { worker_family(thread.comm) } else { thread.comm };
        ThreadName { comm, kernel: thread.kernel, host: self.remote_host(thread) }
    }

    /// The activity of `thread` in a segment of this kind.
    pub fn activity(
        &self,
        kind: SegmentKind,
        responsible: Responsible,
        thread: Option<ThreadIndex>,
    ) -> Activity {
        let names = &self.recorded.survey.names;
        let blamed = match responsible {
            _ if kind == SegmentKind::Throttled => {
                let limit = thread.and_then(|thread| names.limit_of(&self.thread(thread)));
                limit.map_or(Blamed::Cause(responsible), Blamed::CpuLimit)
            }
            Responsible::Flow(flow) => flow
                .and_then(|flow| names.sender(flow))
                .map_or(Blamed::Cause(Responsible::Flow(None)), |peer| Blamed::Sender(peer.end)),
            Responsible::Lock { address, kernel, .. } => {
                Blamed::Cause(Responsible::Lock { address, kernel, owner: None })
            }
            other => Blamed::Cause(other),
        };
        Activity { kind, blamed }
    }

    /// Where threads of this name that `belongs` accepts were seen running.
    pub fn samples(&self, comm: Comm, belongs: impl Fn(ThreadIndex) -> bool) -> Tally {
        let mut tally = Tally::default();
        let places = self.sampled.iter().filter(|((thread, name), _)| *name == comm && belongs(*thread));
        places.flat_map(|(_, places)| places).for_each(|(place, count)| tally.add_samples(place, *count));
        tally
    }

    /// The functions in which waits began, or were ended.
    pub fn functions(&self, sites: &Sites) -> Tally {
        let mut tally = Tally::default();
        tally.add_sites(self.stacks, sites);
        tally
    }

    /// The site where the thread of a segment began to wait, if its stack is known.
    pub(crate) fn segment_site(&self, segment: usize) -> Option<SiteId> {
        self.stacks.of_segment(segment).and_then(|taken| self.stacks.site_of(taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::checkout;

    #[test]
    fn samples_count_for_the_threads_asked_about_while_they_had_the_name() {
        let story = checkout();
        let evidence = story.evidence();
        let comm = Comm::new(b"checkout");
        let total = |comm, thread| evidence.samples(comm, |other| other == ThreadIndex(thread)).total();
        assert_eq!([total(comm, 0), total(comm, 2), total(Comm::new(b"sh"), 0)], [24, 0, 0]);
    }
}
