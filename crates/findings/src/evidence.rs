//! The evidence for findings about a window.

use wakepath_clock::{Local, Stamp};
use wakepath_critical_path::{Path, Responsible, Segment, SegmentKind, Wait, WaitId};
use wakepath_event::{CgroupId, Comm, FlowId, HostIndex, Tid};
use wakepath_loaded::{
    CallKey, CallName, Endpoint, IoLimit, Recorded, Sampled, Site, SiteId, Stacks, ThreadInfo, UnitLimit,
    worker_family,
};
use wakepath_wait_graph::{ThreadIndex, TimerPurpose};

use crate::{Activity, Blamed, Sites, Tally, ThreadName};

/// A path, its threads' recorded code, and the recording, which names everything.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The recording.
    pub recorded: &'a Recorded,
    /// The path that explains the window.
    pub path: &'a Path,
    /// Code sites where the path's waits began and were ended.
    pub stacks: &'a Stacks,
    /// Code sites where the path's running threads were sampled.
    pub sampled: &'a Sampled,
}

impl<'a> Evidence<'a> {
    /// The path's segments, in order.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = &'a Segment> + use<'a> {
        self.path.segments()
    }

    /// The path's waits; a wait's parent comes before it.
    pub fn waits(&self) -> impl ExactSizeIterator<Item = (WaitId, &'a Wait)> + use<'a> {
        self.path.waits()
    }

    /// A wait by its id.
    pub fn wait(&self, id: WaitId) -> Option<&'a Wait> {
        self.path.wait(id)
    }

    /// The window's length, ns.
    pub fn window_ns(&self) -> u64 {
        self.path.window.to.since(self.path.window.from)
    }

    /// The window's own thread, with its identity when the window closed.
    pub fn subject(&self) -> ThreadInfo {
        self.thread(self.path.window.thread)
    }

    /// A thread's identity when the window closed.
    pub fn thread(&self, index: ThreadIndex) -> ThreadInfo {
        self.recorded.thread_at(index, self.path.window.to)
    }

    /// Whether a thread is the window's own, also before or after an exec.
    pub fn is_asked(&self, thread: ThreadIndex) -> bool {
        let graph = self.recorded.graph();
        graph.last_successor(thread) == graph.last_successor(self.path.window.thread)
    }

    /// Whether a thread belongs to the window's own processes: the own thread's process and its descendants. False
    /// for kernel threads, and for threads never introduced, except the window's own.
    pub fn is_own(&self, thread: ThreadIndex) -> bool {
        let (thread, subject) = (self.thread(thread), self.subject());
        match (thread.tgid, subject.tgid) {
            _ if thread.kernel => false,
            (Some(process), Some(ancestor)) => self.recorded.descends(process, ancestor, self.path.window.to),
            _ => thread.tid == subject.tid && thread.tid != Tid::IDLE,
        }
    }

    /// A thread's host, if not the reference host.
    pub fn remote_host(&self, thread: &ThreadInfo) -> Option<HostIndex> {
        self.recorded.remote_host(thread.tid).map(|_| thread.tid.host())
    }

    /// The name that threads of this kind share.
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
        let blamed = match responsible {
            _ if kind == SegmentKind::Throttled => {
                self.cpu_limit(thread).map_or(Blamed::Cause(responsible), Blamed::CpuLimit)
            }
            Responsible::Flow(flow) => {
                self.sender(flow).map_or(Blamed::Cause(Responsible::Flow(None)), Blamed::Sender)
            }
            Responsible::IoLimit { cgroup, device, reads } => {
                Blamed::IoLimit(self.io_limit(cgroup, device, reads))
            }
            Responsible::Lock { address, kernel, .. } => {
                Blamed::Cause(Responsible::Lock { address, kernel, owner: None })
            }
            other => Blamed::Cause(other),
        };
        Activity { kind, blamed }
    }

    /// A thread's CPU limit when the window closed. If the thread had left the limited cgroup by then, its last
    /// limit in the window.
    pub(crate) fn cpu_limit(&self, thread: Option<ThreadIndex>) -> Option<UnitLimit> {
        let (index, window) = (thread?, self.path.window);
        // Limits have the events' stamps, which are the graph's.
        let at = Stamp::<Local>::from_ns(window.to.ns());
        let limit = |thread: &ThreadInfo| self.recorded.names().limit_of(thread, at);
        let at_the_end = self.thread(index);
        let within = self.recorded.graph().thread(index).cpu_cgroups_within(window.from, window.to);
        let within = within.rev().map(|cpu_cgroup| ThreadInfo { cpu_cgroup, ..at_the_end });
        let mut known = std::iter::once(at_the_end).chain(within).filter_map(|thread| limit(&thread));
        known.find(|known| known.limit.is_some()).or_else(|| limit(&at_the_end))
    }

    /// The I/O limit that held a cgroup's requests to a device back, as of the window's end.
    pub fn io_limit(&self, cgroup: CgroupId, device: u32, reads: bool) -> IoLimit {
        let at = Stamp::<Local>::from_ns(self.path.window.to.ns());
        self.recorded.names().io_limit(cgroup, device, reads, at)
    }

    /// The endpoint that sends on a flow.
    pub(crate) fn sender(&self, flow: Option<FlowId>) -> Option<Endpoint> {
        Some(self.recorded.names().sender(flow?)?.end)
    }

    /// The endpoint that made a wait long which a timer's packet ended: the end that did not answer a SYN or had
    /// closed its window, or held data back until an acknowledgement, else the sender.
    pub fn slow_end(&self, flow: FlowId, purpose: TimerPurpose) -> Option<Endpoint> {
        let names = self.recorded.names();
        let peer = match purpose {
            TimerPurpose::Syn { .. } | TimerPurpose::WindowProbe | TimerPurpose::Nagle => {
                names.receiver(flow)
            }
            _ => names.sender(flow),
        };
        Some(peer?.end)
    }

    /// A system call with its object.
    pub(crate) fn spell(&self, call: CallKey) -> CallName {
        self.recorded.names().spell(call)
    }

    /// Samples of running threads: the thread, its name then, the site, and the number of samples.
    pub fn ran(&self) -> impl Iterator<Item = (ThreadIndex, Comm, &Site, u64)> {
        self.sampled.iter().filter_map(|((segment, comm, site), count)| {
            Some((self.path.segment(*segment)?.thread?, *comm, site, *count))
        })
    }

    /// Functions in which threads with this name, accepted by `belongs`, were sampled.
    pub fn samples(&self, comm: Comm, belongs: impl Fn(ThreadIndex) -> bool) -> Tally {
        let mut tally = Tally::default();
        let seen = self.ran().filter(|(thread, name, ..)| *name == comm && belongs(*thread));
        seen.for_each(|(.., site, count)| tally.add(site, count));
        tally
    }

    /// Functions in which waits began, or were ended.
    pub fn functions(&self, sites: &Sites) -> Tally {
        let mut tally = Tally::default();
        tally.add_sites(self.stacks, sites);
        tally
    }

    /// The site where a segment's thread began to wait, if its stack is known.
    pub(crate) fn segment_site(&self, segment: usize) -> Option<SiteId> {
        self.stacks.segment_stack(segment)?.site
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::checkout;

    #[test]
    fn own_are_the_windows_process_and_its_descendants_but_no_kernel_thread() {
        use crate::testing::Story;
        use wakepath_critical_path::{Cause, SegmentKind};

        let own = |first: (u32, u32)| {
            let mut story = Story::default();
            let own = story.thread(first.0, first.1, b"first", 7);
            story.thread(8, 7, b"child", 7);
            story.thread_of(8, 9, 7, b"its thread", 7);
            story.thread(20, 1, b"other", 7);
            story.thread(80, 2, b"kworker/0:1", 0);
            story.then(5, own, None, SegmentKind::Running, Cause::None);
            let story = story.finish();
            [0, 1, 2, 3, 4].map(|thread| story.evidence().is_own(ThreadIndex(thread)))
        };
        assert_eq!(own((7, 1)), [true, true, true, false, false]);
        // A kernel thread's path has no own threads: it works for others.
        assert_eq!(own((81, 2)), [false; 5]);
    }

    #[test]
    fn a_thread_that_left_the_limited_cgroup_within_the_window_was_under_its_limit() {
        use crate::testing::Story;
        use wakepath_critical_path::{Cause, SegmentKind};
        use wakepath_event::{CgroupId, EventKind, NameSpace};

        // The thread begins in cgroup `began`, and moves to `moved` at the time `at`; the window is from 20 to 90.
        let limit = |began: u64, moved: u64, at: u64| {
            let mut story = Story::default();
            let thread = story.thread(7, 1, b"first", began);
            for (cgroup, path) in [(1, "/"), (2, "/shop"), (3, "/bank")] {
                story.name(NameSpace::CpuCgroup, cgroup, path);
            }
            story.name(NameSpace::CpuLimit, 2, "1000 100000");
            story.name(NameSpace::CpuLimit, 3, "2000 100000");
            let (tid, cgroup) = (Tid(7), CgroupId(moved));
            story.add_at(at, EventKind::Move { tid, tgid: tid, whole: false, cgroup, cpu_cgroup: cgroup });
            story.then(90, thread, None, SegmentKind::Throttled, Cause::None);
            let mut story = story.finish();
            story.path.window.from = Stamp::from_ns(crate::testing::ORIGIN + 20);
            let limit = story.evidence().cpu_limit(Some(thread));
            limit.and_then(|limit| limit.limit).map(|limit| limit.quota_ns / 1_000_000)
        };
        assert_eq!(limit(2, 3, 50), Some(2), "the one under which it is when the window closes");
        assert_eq!(limit(2, 1, 50), Some(1), "it left the limited one");
        assert_eq!(limit(2, 1, 10), None, "it had left before the window");
        assert_eq!(limit(1, 2, 95), None, "it comes there behind the window");
        assert_eq!(limit(2, 1, 95), Some(1), "it leaves behind the window");
    }

    #[test]
    fn samples_count_for_the_threads_asked_about_while_they_had_the_name() {
        let story = checkout();
        let evidence = story.evidence();
        let comm = Comm::new(b"checkout");
        let total = |comm, thread| evidence.samples(comm, |other| other == ThreadIndex(thread)).total();
        assert_eq!([total(comm, 0), total(comm, 2), total(Comm::new(b"sh"), 0)], [24, 0, 0]);
    }
}
