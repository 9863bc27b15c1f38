//! Threads without a single window: what each did, and which of them to ask further about.
//!
//! A thread that waits for work (a server between requests, an idle worker, a sleeper) is nobody's
//! slowness: such waits are counted apart, as idle, and never as somebody's longest wait.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Hang, deadlocks, hangs};
use wakepath_event::{BlockedState, Call};
use wakepath_names::waits_for_work;
use wakepath_wait_graph::{Graph, ThreadIndex, ThreadState, Wait};

use crate::answer::local;
use crate::path::head;
use crate::query::Scope;
use crate::{CallName, Head, Object, Recorded, ThreadInfo};

/// What threads did between two moments.
#[derive(Debug)]
pub struct Overview<'r> {
    /// What every document begins with.
    pub head: Head,
    /// Which threads it is about.
    pub scope: Scope,
    /// From here on.
    pub from: Stamp<Reference>,
    /// Up to here.
    pub to: Stamp<Reference>,
    /// The threads, by how long they waited or could not run, the longest first.
    pub threads: Vec<ThreadTimes>,
    /// Cycles of threads each of which waits for a lock that the next one owns.
    pub deadlocks: Vec<Vec<Hang>>,
    /// Waits that were open at the end and are not for work, longest first.
    pub still_waiting: Vec<Hang>,
    /// How many threads wait for work at the end.
    pub idle_at_end: usize,
    /// The rest of the recording.
    pub recorded: &'r Recorded,
}

/// What a thread did, ns. The parts are the time from `from` to `to` that the thread lived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadTimes {
    /// The thread.
    pub thread: ThreadIndex,
    /// On a CPU.
    pub running_ns: u64,
    /// Waiting for a CPU.
    pub runnable_ns: u64,
    /// Kept off the CPU by a cgroup's limit.
    pub throttled_ns: u64,
    /// Blocked, but for work.
    pub waiting_ns: u64,
    /// Blocked, waiting for work.
    pub idle_ns: u64,
    /// Nobody knows.
    pub unknown_ns: u64,
    /// Its longest wait that is not for work.
    pub longest: Option<LongestWait>,
}

/// A wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongestWait {
    /// Its first nanosecond.
    pub from: Stamp<Reference>,
    /// One past its last.
    pub to: Stamp<Reference>,
    /// The system call that it was in.
    pub call: Option<Call>,
}

impl ThreadTimes {
    /// What somebody may want to know the reason of.
    pub fn slowed_ns(&self) -> u64 {
        self.waiting_ns + self.runnable_ns + self.throttled_ns
    }

    /// All its time.
    pub fn total_ns(&self) -> u64 {
        self.slowed_ns() + self.running_ns + self.idle_ns + self.unknown_ns
    }
}

/// Gathers what these threads did between `from` and `to`.
pub(crate) fn overview<'r>(
    recorded: &'r Recorded,
    scope: Scope,
    threads: &[ThreadIndex],
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Overview<'r> {
    let graph = &recorded.graph;
    let observers = &recorded.survey.session.observers;
    let shown = |thread: &ThreadIndex| !observers.contains(&graph.thread(*thread).tid());
    let mut times: Vec<_> = threads
        .iter()
        .filter(|thread| shown(thread))
        .map(|&thread| thread_times(recorded, thread, from, to))
        .filter(|times| times.total_ns() > 0)
        .collect();
    times.sort_by_key(|times| (std::cmp::Reverse((times.slowed_ns(), times.running_ns)), times.thread));

    let mut chosen = vec![false; graph.threads().len()];
    for thread in threads.iter().filter(|thread| shown(thread)) {
        chosen[thread.0 as usize] = true;
    }
    let is_chosen = |hang: &Hang| chosen[hang.thread.0 as usize];
    let deadlocks: Vec<_> =
        deadlocks(graph).into_iter().filter(|cycle| cycle.iter().any(is_chosen)).collect();
    // What is open at the recording's end is open at `to` only if that is the end.
    let open = if to >= recorded.to().min(graph.to()) { hangs(graph) } else { Vec::new() };
    let (idle, still_waiting): (Vec<_>, Vec<_>) = open.into_iter().filter(is_chosen).partition(|hang| {
        let who = recorded.thread_at(hang.thread, to);
        hang.lock.is_none_or(|lock| lock.owner.is_none())
            && is_for_work(recorded, &who, hang.call.as_ref(), hang.state, to)
    });
    Overview {
        head: head(recorded, from, to),
        scope,
        from,
        to,
        threads: times,
        deadlocks,
        still_waiting,
        idle_at_end: idle.len(),
        recorded,
    }
}

fn thread_times(
    recorded: &Recorded,
    thread: ThreadIndex,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> ThreadTimes {
    let graph: &Graph = &recorded.graph;
    let mut times = ThreadTimes {
        thread,
        running_ns: 0,
        runnable_ns: 0,
        throttled_ns: 0,
        waiting_ns: 0,
        idle_ns: 0,
        unknown_ns: 0,
        longest: None,
    };
    for interval in graph.state_intervals(thread).overlapping(from, to) {
        let (begin, end) = (interval.from.max(from), interval.to.min(to));
        let ns = end.since(begin);
        match interval.state {
            ThreadState::Running { .. } => times.running_ns += ns,
            ThreadState::Runnable { .. } => times.runnable_ns += ns,
            ThreadState::Throttled { .. } => times.throttled_ns += ns,
            ThreadState::Unknown(_) => times.unknown_ns += ns,
            ThreadState::Blocked(_) => {
                let wait: Option<Wait> = graph.wait(&interval);
                let who = recorded.thread_at(thread, end);
                let call = wait.and_then(|wait| wait.call);
                let owned = wait.and_then(|wait| wait.lock).is_some_and(|lock| lock.owner.is_some());
                let state = wait.and_then(|wait| wait.state);
                if !owned && is_for_work(recorded, &who, call.as_ref(), state, end) {
                    times.idle_ns += ns;
                    continue;
                }
                times.waiting_ns += ns;
                if times.longest.is_none_or(|longest| longest.to.since(longest.from) < ns) {
                    times.longest = Some(LongestWait { from: begin, to: end, call });
                }
            }
        }
    }
    times
}

/// Whether a wait without a known lock owner is most likely for work rather than for an answer.
fn is_for_work(
    recorded: &Recorded,
    who: &ThreadInfo,
    call: Option<&Call>,
    state: Option<BlockedState>,
    at: Stamp<Reference>,
) -> bool {
    let Some(call) = call else {
        // A kernel thread without work sleeps lightly; one that waits for a disk does not. A user
        // thread outside a system call is in a page fault or stopped; but other tracers note no calls
        // where a thread waits, nor how those wait that did so when tracing began.
        let lightly = matches!(
            state,
            None | Some(
                BlockedState::Interruptible
                    | BlockedState::Idle
                    | BlockedState::Parked
                    | BlockedState::Other(0)
            )
        );
        return lightly && (who.kernel || recorded.tracer.is_some());
    };
    match recorded.survey.names.call(call, who.tgid, local(at)) {
        // A condition variable or a semaphore: nobody holds it. Worker pools wait so.
        CallName { name, .. } if name.starts_with("futex") => true,
        _ if waits_for_work(call.number) => true,
        // The next line, message or event, whenever it comes. The end that called out awaits an answer.
        CallName { name, object: Some(object) } if reads(&name) => match object {
            Object::Pipe | Object::Anonymous(_) | Object::Socket(None) => true,
            Object::Socket(Some(peer)) => !peer.called_by_us(),
            Object::File(_) => state == Some(BlockedState::Interruptible),
        },
        CallName { name, object: None } => reads(&name) && state == Some(BlockedState::Interruptible),
        _ => false,
    }
}

fn reads(call: &str) -> bool {
    matches!(call, "read" | "readv" | "pread64" | "recvfrom" | "recvmsg" | "recvmmsg" | "splice")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_event::{Event, EventKind, FileName, Flow, FlowId, LockWord, SwitchOut, Tid};
    use wakepath_names::testing::{event, read, thread};

    const ACCEPT: u32 = 43;
    const READ: u32 = 0;
    const FSYNC: u32 = 74;
    const FUTEX: u32 = Call::FUTEX;

    fn call(number: u32, arg0: u64) -> Call {
        Call { number, arg0, lock: None }
    }

    fn switch(at: u64, from: u32, to: u32, out: SwitchOut, call: Option<Call>) -> Event {
        event(at, 0, from, EventKind::Switch { next: Tid(to), out, interrupts_ns: 0, call })
    }

    /// A thread that runs 0–10, blocks in a call until 90, and runs on.
    fn one_wait(state: BlockedState, call: Call, more: &[EventKind]) -> Recorded {
        let mut events = vec![event(0, 0, 0, thread(7, 7, 1, "server"))];
        events.extend(more.iter().map(|what| event(0, 0, 0, what.clone())));
        events.extend([
            switch(0, 0, 7, SwitchOut::Runnable, None),
            switch(10, 7, 0, SwitchOut::Blocked(state), Some(call)),
            event(90, 0, 0, EventKind::Waking { target: Tid(7), irq: 0, newborn: false, socket: None }),
            switch(90, 0, 7, SwitchOut::Runnable, None),
            switch(100, 7, 0, SwitchOut::Blocked(state), Some(call)),
            switch(101, 0, 0, SwitchOut::Runnable, None),
        ]);
        read(&events)
    }

    fn times(recorded: &Recorded) -> ThreadTimes {
        let (from, to) = (Stamp::from_ns(0), Stamp::from_ns(100));
        let threads: Vec<_> = recorded.graph.threads().map(|(index, _)| index).collect();
        let overview = overview(recorded, Scope::All, &threads, from, to);
        overview.threads.into_iter().next().expect("a thread")
    }

    #[test]
    fn an_idle_server_is_never_slow() {
        let flow = Flow {
            source: "10.0.0.3:5432".parse().unwrap(),
            target: "10.0.0.2:40000".parse().unwrap(),
            protocol: 6,
        };
        let socket = [
            EventKind::Flow(FlowId(1), flow),
            EventKind::File(FileName {
                tgid: Tid(7),
                fd: 3,
                mode: 0o140_777,
                inode: 1,
                flow: Some(FlowId(1)),
                name: Box::default(),
            }),
        ];
        let sleeping = BlockedState::Interruptible;
        for (what, call, more) in [
            ("accept", call(ACCEPT, 3), &[][..]),
            ("a condition variable", call(FUTEX, 0x1000), &[]),
            ("the next request on a connection that the other side opened", call(READ, 3), &socket),
        ] {
            let times = times(&one_wait(sleeping, call, more));
            assert_eq!((times.idle_ns, times.waiting_ns, times.longest), (80, 0, None), "{what}");
            assert_eq!((times.running_ns, times.total_ns()), (20, 100), "{what}");
        }
    }

    #[test]
    fn a_wait_for_an_answer_or_a_disk_is_a_wait() {
        let flow = Flow {
            source: "10.0.0.2:40000".parse().unwrap(),
            target: "10.0.0.3:5432".parse().unwrap(),
            protocol: 6,
        };
        let socket = [
            EventKind::Flow(FlowId(1), flow),
            EventKind::File(FileName {
                tgid: Tid(7),
                fd: 3,
                mode: 0o140_777,
                inode: 1,
                flow: Some(FlowId(1)),
                name: Box::default(),
            }),
        ];
        for (what, state, call, more) in [
            ("fsync", BlockedState::Uninterruptible, call(FSYNC, 3), &[][..]),
            ("an answer on a connection that we opened", BlockedState::Interruptible, call(READ, 3), &socket),
        ] {
            let times = times(&one_wait(state, call, more));
            assert_eq!((times.idle_ns, times.waiting_ns), (0, 80), "{what}");
            assert_eq!(times.longest.map(|wait| (wait.from.ns(), wait.to.ns())), Some((10, 90)), "{what}");
        }
    }

    /// Two threads, each holding the mutex that the other waits for.
    #[test]
    fn a_deadlock_is_its_cycle() {
        let lock = |owner, address| Call {
            number: FUTEX,
            arg0: address,
            lock: Some(LockWord { operation: 128, value: Some(2), claimed_owner: Some(Tid(owner)) }),
        };
        let blocked = SwitchOut::Blocked(BlockedState::Interruptible);
        let recorded = read(&[
            event(0, 0, 0, thread(7, 7, 1, "left")),
            event(0, 0, 0, thread(8, 7, 1, "right")),
            switch(1, 0, 7, SwitchOut::Runnable, None),
            switch(10, 7, 8, blocked, Some(lock(8, 0x1000))),
            switch(20, 8, 0, blocked, Some(lock(7, 0x2000))),
            switch(100, 0, 0, SwitchOut::Runnable, None),
        ]);
        let threads: Vec<_> = recorded.graph.threads().map(|(index, _)| index).collect();
        let overview = overview(&recorded, Scope::All, &threads, Stamp::from_ns(0), recorded.to());
        let tids = |hangs: &[Hang]| {
            hangs.iter().map(|hang| recorded.graph.thread(hang.thread).tid().0).collect::<Vec<_>>()
        };
        assert_eq!(overview.deadlocks.iter().map(|cycle| tids(cycle)).collect::<Vec<_>>(), [[7, 8]]);
        assert_eq!(tids(&overview.still_waiting), [7, 8]);
        assert_eq!(overview.idle_at_end, 0);
    }
}
