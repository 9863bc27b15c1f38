//! A thread's identity at a time, and its place among processes and hosts.

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_critical_path::{Segment, Wait};
use wakepath_event::{Call, CgroupId, Comm, Tid};
use wakepath_wait_graph::ThreadIndex;

use crate::{CallKey, CallName, Host, Recorded};

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
            cgroup,
            cpu_cgroup,
        }
    }

    /// The system call in which a segment's thread was blocked, not looked up yet.
    pub fn segment_call_key(&self, segment: &Segment) -> Option<CallKey> {
        self.call_key(segment.call.as_ref()?, segment.thread?, segment.to)
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

#[cfg(test)]
mod tests {
    use wakepath_event::EventKind;

    use super::*;
    use crate::testing::{event, read, thread, trace};

    #[test]
    fn workers_of_one_kind_have_one_name() {
        for (name, family) in [
            ("kworker/u8:4", "kworker"),
            ("kworker/0:1H", "kworker"),
            ("ksoftirqd/1", "ksoftirqd"),
            ("jbd2/sda1-8", "jbd2/sda1-8"),
            ("kswapd0", "kswapd0"),
            ("a/", "a/"),
        ] {
            let comm = |name: &str| Comm::new(name.as_bytes());
            assert_eq!(worker_family(comm(name)), comm(family), "{name}");
        }
    }

    #[test]
    fn a_grandchild_descends_and_a_circle_of_reused_ids_ends() {
        let tree = [(2, 1), (3, 2), (8, 9), (9, 8)];
        let recorded = read(&tree.map(|(tgid, parent)| event(1, 0, 0, thread(tgid, tgid, parent, "x"))));
        let at = Stamp::from_ns(5);
        assert!(recorded.descends(Tid(3), Tid(1), at) && recorded.descends(Tid(3), Tid(3), at));
        assert!(!recorded.descends(Tid(1), Tid(3), at) && !recorded.descends(Tid(8), Tid(1), at));
    }

    #[test]
    fn a_reused_id_means_the_process_of_that_time() {
        let recorded = trace("thread first tid=7 at=10\n20 c0 idle started\nthread other tid=8 at=30", &[]);
        let name = |tid, at| recorded.process_comm(Tid(tid), Stamp::from_ns(at));
        assert_eq!(name(7, 5), Some(Comm::new(b"first")), "nearest where it is not there yet");
        assert_eq!(name(9, 5), None);
    }

    #[test]
    fn a_pid_that_is_used_again_is_the_process_that_was_born_last_until_then() {
        let recorded = trace(
            "thread asked tid=10
             thread other tid=20
             thread old tid=12 parent=10
             0 c0 idle started
             0 c0 idle switch old
             0 c1 idle switch other
             100 c0 old exit
             110 c0 old switch idle dead
             200 c1 other fork new tid=12 parent=20
             300 c1 other stopped",
            &[],
        );
        let &[old, new] = recorded.with_tid(Tid(12)) else { panic!("two threads had the number") };
        let birth = recorded.graph.thread(new).first.ns();
        for (at, leader, name, parent) in [
            (0, old, &b"old"[..], 10),
            (100, old, b"old", 10),
            // Between the two lives, the earlier is the last known.
            (birth - 1, old, b"old", 10),
            (birth, new, b"new", 20),
            (999, new, b"new", 20),
        ] {
            let at = Stamp::from_ns(at);
            assert_eq!(recorded.leader(Tid(12), at), Some(leader), "{}", at.ns());
            assert_eq!(recorded.process_comm(Tid(12), at), Some(Comm::new(name)), "{}", at.ns());
            let parents = [10, 20].map(|ancestor| recorded.descends(Tid(12), Tid(ancestor), at));
            assert_eq!(parents, [parent == 10, parent == 20], "{}", at.ns());
        }
    }

    #[test]
    fn a_reused_tid_is_the_last_thread_that_had_it_at_that_time() {
        const REUSED: &str = "
            thread A tid=10
            thread old tid=12
            0 c0 idle started
            0 c0 idle switch old
            0 c1 idle switch A
            100 c0 old exit
            110 c0 old switch idle dead
            200 c1 A fork new tid=12
            210 c1 A waking new newborn
            220 c0 idle switch new
            300 c0 new stopped
        ";
        let recorded = trace(REUSED, &[]);
        let &[old, new] = recorded.with_tid(Tid(12)) else { panic!("two threads had the number") };
        for (from, to, expected) in [
            (0, 50, old),
            (110, 199, old),
            (105, 250, new),
            (300, 400, new),
            // Neither lived then.
            (150, 180, new),
        ] {
            let found = recorded.thread_between(Tid(12), Stamp::from_ns(from), Stamp::from_ns(to));
            assert_eq!(found, Some(expected), "{from} to {to}");
        }
        assert_eq!(recorded.thread_between(Tid(99), Stamp::MIN, Stamp::from_ns(300)), None);
    }

    #[test]
    fn a_thread_that_executes_a_program_leads_its_process_from_then_on() {
        let recorded = trace(
            "thread leader tid=10
             thread worker tid=11 tgid=10
             0 c0 idle started
             0 c0 idle switch leader
             0 c1 idle switch worker
             100 c0 leader exit
             160 c0 leader switch idle dead
             200 c1 leader exec other from=worker
             300 c1 leader stopped",
            &[],
        );
        let [leader, worker] = [10, 11].map(|tid| recorded.with_tid(Tid(tid))[0]);
        let of = |at| recorded.leader(Tid(10), Stamp::from_ns(at));
        assert_eq!([50, 199, 200].map(of), [Some(leader), Some(leader), Some(worker)]);
    }

    #[test]
    fn a_thread_has_the_name_and_the_cgroups_of_that_time_and_its_own_start() {
        let moved = |at, cgroup| {
            let (cgroup, cpu_cgroup) = (CgroupId(cgroup), CgroupId(cgroup + 1));
            event(at, 0, 7, EventKind::Move { tid: Tid(8), tgid: Tid(7), whole: false, cgroup, cpu_cgroup })
        };
        let text = "thread app tid=7
            thread worker tid=8 tgid=7 ns=2/1 start=5
            thread kworker/0:1 tid=9 kernel
            0 c0 idle switch worker
            50 c0 worker rename worker later
            90 c0 worker switch #10
            99 c0 #10 switch idle";
        let recorded = trace(text, &[moved(20, 100), moved(60, 200)]);
        let thread = |tid, at| recorded.thread_at(recorded.with_tid(Tid(tid))[0], Stamp::from_ns(at));
        let worker = |comm: &str, cgroup, cpu_cgroup| ThreadInfo {
            tid: Tid(8),
            tgid: Some(Tid(7)),
            ns_tgid: Some(Tid(1)),
            start: Some(Stamp::from_ns(5)),
            kernel: false,
            comm: Comm::new(comm.as_bytes()),
            cgroup: CgroupId(cgroup),
            cpu_cgroup: CgroupId(cpu_cgroup),
        };
        let first = recorded.graph.thread(recorded.with_tid(Tid(8))[0]).cgroups[0];
        assert_eq!(thread(8, 19), worker("worker", first.1.0, first.2.0));
        assert_eq!(thread(8, 20), worker("worker", 100, 101));
        assert_eq!(thread(8, 59), worker("later", 100, 101));
        assert_eq!(thread(8, 60), worker("later", 200, 201));
        assert!(thread(9, 50).kernel);
        // Nothing introduced this thread.
        assert_eq!(thread(10, 95), ThreadInfo { tid: Tid(10), ..ThreadInfo::default() });
    }

    #[test]
    fn a_process_that_went_on_as_another_thread_is_that_thread_behind_the_end_of_the_first() {
        let recorded = trace(
            "thread leader tid=10
             thread worker tid=11 tgid=10
             0 c0 idle started
             0 c0 idle switch leader
             0 c1 idle switch worker
             100 c0 leader exit
             160 c0 leader switch idle dead
             200 c1 worker exec other from=worker
             300 c1 worker stopped",
            &[],
        );
        let leader = recorded.with_tid(Tid(10))[0];
        let of = |at| recorded.thread_at(leader, Stamp::from_ns(at)).comm;
        let last = recorded.graph.thread(leader).last.ns();
        assert_eq!([of(last), of(250)], [Comm::new(b"leader"), Comm::new(b"leader")]);
    }

    /// A thread that waits for another, which reads from a pipe.
    const READS: &str = "thread own tid=7
        thread helper tid=8
        0 c0 idle started
        0 c1 helper file 5 pipe
        0 c1 own file 5 socket
        0 c1 idle switch helper
        0 c0 idle switch own
        20 c0 own switch idle blocked call=0:5
        30 c1 helper switch idle blocked call=0:5
        60 c1 idle/timer waking helper
        61 c1 idle switch helper
        80 c1 helper waking own
        81 c0 idle switch own
        100 c0 own switch idle
        101 c0 own stopped";

    #[test]
    fn a_waits_call_is_about_the_descriptor_of_its_own_thread() {
        use wakepath_critical_path::{Window, active};
        let recorded = trace(READS, &[]);
        let thread = recorded.with_tid(Tid(7))[0];
        let window = Window { thread, from: Stamp::from_ns(0), to: Stamp::from_ns(100) };
        let path = active(&recorded.graph, window);
        let call = |object| CallName { number: 0, object: Some(object) };
        let waits: Vec<_> = path.waits.iter().filter_map(|wait| recorded.wait_call(wait)).collect();
        assert_eq!(waits, [call(crate::Object::Socket(None))]);
        let segments = path.segments.iter().filter_map(|segment| recorded.segment_call(segment));
        let segments: Vec<_> = segments.collect();
        assert_eq!(segments, [call(crate::Object::Pipe)]);
    }

    #[test]
    fn a_process_without_a_name_has_none() {
        let recorded = read(&[event(1, 0, 7, EventKind::Current), event(1, 0, 0, thread(8, 8, 1, "app"))]);
        let name = |tid| recorded.process_comm(Tid(tid), Stamp::from_ns(5));
        assert_eq!([name(7), name(8), name(9)], [None, Some(Comm::new(b"app")), None]);
    }
}
