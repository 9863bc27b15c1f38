//! A thread's identity at a time, and its place among processes and hosts.

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_critical_path::{Segment, Wait};
use wakepath_event::{Call, CgroupId, Comm, Tid, WaitEnd};
use wakepath_wait_graph::{ThreadIndex, ThreadState};

use crate::{CallKey, CallName, Host, Recorded, Script};

/// A thread's identity at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadInfo {
    /// The thread id.
    pub tid: Tid,
    /// Its process; `None` for a thread never introduced.
    pub tgid: Option<Tid>,
    /// Its process's number in its own pid namespace.
    pub ns_tgid: Option<Tid>,
    /// Its start, if known.
    pub start: Option<Stamp<Reference>>,
    /// Whether it belongs to the kernel.
    pub kernel: bool,
    /// Its name; empty if not known.
    pub comm: Comm,
    /// The script that its process runs, if the thread has its process's name.
    pub script: Option<Script>,
    /// Its cgroup in the v2 hierarchy, 0 if unknown.
    pub cgroup: CgroupId,
    /// Its cgroup in the hierarchy with the CPU controller, 0 if unknown.
    pub cpu_cgroup: CgroupId,
}

impl Recorded {
    /// A thread's identity at `at`: names and cgroups change, and a process may have gone on as another thread.
    pub fn thread_at(&self, mut index: ThreadIndex, at: Stamp<Reference>) -> ThreadInfo {
        while let Some(next) = self.graph.successor(index).filter(|_| at > self.graph.thread(index).last) {
            index = next;
        }
        let thread = self.graph.thread(index);
        let identity = thread.identity.as_ref();
        let moved = thread.cgroups.partition_point(|&(since, ..)| since <= at).saturating_sub(1);
        let cgroups = thread.cgroups.get(moved).map(|&(_, v2, cpu)| (v2, cpu));
        let (cgroup, cpu_cgroup) = cgroups.unwrap_or_default();
        ThreadInfo {
            tid: thread.tid_at(at),
            tgid: identity.map(|identity| identity.tgid),
            ns_tgid: identity.map(|identity| identity.ns_tgid),
            start: identity.map(|identity| identity.start.on_reference_host()),
            kernel: identity.is_some_and(|identity| identity.kernel),
            comm: thread.name_at(at),
            script: self.script_of(index, at),
            cgroup,
            cpu_cgroup,
        }
    }

    /// The script in a thread's process at `at`, or at its end; `None` for a thread with its own name.
    fn script_of(&self, index: ThreadIndex, at: Stamp<Reference>) -> Option<Script> {
        let thread = self.graph.thread(index);
        let process = thread.identity.as_ref()?.tgid;
        if !self.survey.names.has_script(process) {
            return None;
        }
        let leader = if thread.tid_at(at) == process { index } else { self.leader(process, at)? };
        let leader = self.graph.thread(leader);
        if leader.name_at(at) != thread.name_at(at) {
            return None;
        }
        let start = leader.identity.as_ref()?.start;
        let of_number =
            self.with_tid(process).iter().filter_map(|other| self.graph.thread(*other).identity.as_ref());
        let reused = of_number.map(|identity| identity.start).filter(|other| *other > start).min();
        // Names are read at the events' stamps, which are the graph's.
        let at = Stamp::from_ns(at.ns());
        let at = reused.map_or(at, |reused| at.min(reused.minus(1)));
        let (since, script) = self.survey.names.script(process, start, at)?;
        // An exec renames the process before the next script is known.
        let was = leader.name_at(Stamp::from_ns(since.ns()));
        (was == leader.name_at(Stamp::from_ns(at.ns()))).then_some(script)
    }

    /// The system call in which a segment's thread was blocked, not looked up yet.
    pub fn segment_call_key(&self, segment: &Segment) -> Option<CallKey> {
        let (call, thread) = (segment.call.as_ref()?, segment.thread?);
        // The ready descriptor is recorded when the whole wait ends.
        let at = match call.ended_by() {
            WaitEnd::Ready(_) => self.end_of_wait(thread, segment.to),
            _ => segment.to,
        };
        self.call_key(call, thread, at)
    }

    /// The end of a thread's wait that has a part with this end.
    fn end_of_wait(&self, thread: ThreadIndex, part: Stamp<Reference>) -> Stamp<Reference> {
        let intervals = self.graph.state_intervals(thread);
        let around = intervals.find_before(part).and_then(|index| intervals.get(index));
        around
            .filter(|interval| matches!(interval.state, ThreadState::Blocked(_)))
            .map_or(part, |interval| interval.to.max(part))
    }

    /// A wait's system call, not looked up yet.
    pub fn wait_call_key(&self, wait: &Wait) -> Option<CallKey> {
        self.call_key(wait.call.as_ref()?, wait.thread, wait.to)
    }

    /// The system call in which a segment's thread was blocked.
    pub fn segment_call(&self, segment: &Segment) -> Option<CallName> {
        Some(self.survey.names.spell(self.segment_call_key(segment)?))
    }

    /// A wait's system call.
    pub fn wait_call(&self, wait: &Wait) -> Option<CallName> {
        Some(self.survey.names.spell(self.wait_call_key(wait)?))
    }

    /// A thread's call until `at`, not looked up yet.
    fn call_key(&self, call: &Call, thread: ThreadIndex, at: Stamp<Reference>) -> Option<CallKey> {
        // Descriptors are named by the events' stamps, which are the graph's.
        let at = Stamp::<Local>::from_ns(at.ns());
        Some(self.survey.names.call_key(call, self.graph.thread(thread).tgid(), at))
    }

    /// The machine of the thread with this id.
    pub fn host_of(&self, tid: Tid) -> &Host {
        self.host_at(tid.host())
    }

    /// A thread's machine; `None` for the machine whose clock stamps use.
    pub fn remote_host(&self, tid: Tid) -> Option<&Host> {
        let host = self.host_of(tid);
        (!std::ptr::eq(host, &self.host)).then_some(host)
    }

    /// All threads that ever had a tid, in the order of first appearance.
    pub fn with_tid(&self, tid: Tid) -> &[ThreadIndex] {
        self.by_tid.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// The thread with this id between `from` and `to`, or else the last with it: ids are reused.
    pub fn thread_between(
        &self,
        tid: Tid,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Option<ThreadIndex> {
        let lived = |index: &&ThreadIndex| {
            let thread = self.graph.thread(**index);
            thread.first <= to && from <= thread.last
        };
        let threads = self.with_tid(tid);
        threads.iter().rfind(lived).or(threads.last()).copied()
    }

    /// A process's main thread at `at`, or the nearest thread that had its id: ids are reused.
    pub fn leader(&self, process: Tid, at: Stamp<Reference>) -> Option<ThreadIndex> {
        let candidates = self.with_tid(process);
        let had_it = |&&index: &&ThreadIndex| {
            let thread = self.graph.thread(index);
            thread.first <= at && thread.tid_at(at) == process
        };
        let last_before = candidates.iter().rev().find(had_it);
        last_before.or(candidates.first()).copied()
    }

    /// A process's name at `at`: its main thread's name.
    pub fn process_comm(&self, process: Tid, at: Stamp<Reference>) -> Option<Comm> {
        let leader = self.leader(process, at)?;
        Some(self.graph.thread(leader).name_at(at)).filter(|comm| !comm.bytes().is_empty())
    }

    /// Whether a process at `at` is `ancestor`, its child, its child's child and so on, by forks. Ids are reused,
    /// so the chain is followed for a hundred generations only.
    pub fn descends(&self, process: Tid, ancestor: Tid, at: Stamp<Reference>) -> bool {
        const GENERATIONS: usize = 100;
        let parent = |child: &Tid| {
            let leader = self.graph.thread(self.leader(*child, at)?);
            leader.identity.as_ref().map(|identity| identity.parent)
        };
        std::iter::successors(Some(process), parent).take(GENERATIONS).any(|process| process == ancestor)
    }
}

/// The name that kernel threads of a kind share: `kworker` for `kworker/u8:4`, `ksoftirqd` for `ksoftirqd/0`. Their
/// numbers mean nothing to a reader; `jbd2/sda1-8` names its disk, and stays.
pub fn worker_family(comm: Comm) -> Comm {
    let name = comm.bytes();
    let Some(slash) = name.iter().position(|&b| b == b'/') else { return comm };
    let number = name[slash + 1..].strip_prefix(b"u").unwrap_or(&name[slash + 1..]);
    if number.first().is_some_and(u8::is_ascii_digit) { Comm::new(&name[..slash]) } else { comm }
}

/// The name that a pool's threads share: `GC Thread#` for `GC Thread#0`, `worker-` for `worker-12`. A number without a
/// separator before it may belong to the name (`python3`), and stays.
pub fn pool_family(comm: Comm) -> Comm {
    let name = comm.bytes();
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let family = &name[..name.len() - digits];
    let is_separated = family.last().is_some_and(|byte| b"#-_ :/".contains(byte));
    let has_letters = family.iter().any(u8::is_ascii_alphabetic);
    if digits > 0 && is_separated && has_letters { Comm::new(family) } else { comm }
}

#[cfg(test)]
mod tests;
