//! The times of threads that have no single window: what each did, and which of them to ask about.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::Hang;
use wakepath_event::Call;
use wakepath_names::Recorded;
use wakepath_wait_graph::{Graph, ThreadIndex, ThreadState, Wait};

use crate::idleness::is_for_work;

/// The times of a thread, ns. The parts add up to the time from `from` to `to` in which the thread lived.
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
    /// Blocked, and not waiting for work.
    pub waiting_ns: u64,
    /// Blocked, waiting for work.
    pub idle_ns: u64,
    /// Not known.
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
    const fn nothing(thread: ThreadIndex) -> Self {
        Self {
            thread,
            running_ns: 0,
            runnable_ns: 0,
            throttled_ns: 0,
            waiting_ns: 0,
            idle_ns: 0,
            unknown_ns: 0,
            longest: None,
        }
    }

    /// The time for which there may be a reason to ask.
    pub fn slowed_ns(&self) -> u64 {
        self.waiting_ns + self.runnable_ns + self.throttled_ns
    }

    /// All its time.
    pub fn total_ns(&self) -> u64 {
        self.slowed_ns() + self.running_ns + self.idle_ns + self.unknown_ns
    }
}

/// The times of these threads between `from` and `to`, those that lost most first. Threads that did not live then are
/// left out.
pub fn threads(
    recorded: &Recorded,
    threads: &[ThreadIndex],
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Vec<ThreadTimes> {
    let mut times: Vec<_> = threads
        .iter()
        .map(|&thread| thread_times(recorded, thread, from, to))
        .filter(|times| times.total_ns() > 0)
        .collect();
    times.sort_by_key(|times| (std::cmp::Reverse((times.slowed_ns(), times.running_ns)), times.thread));
    times
}

/// The thread to ask about first: one that still waits, else the one that lost most.
pub fn thread_to_ask(still_waiting: &[Hang], threads: &[ThreadTimes]) -> Option<ThreadIndex> {
    let still_waiting = still_waiting.first().map(|hang| hang.thread);
    still_waiting.or_else(|| threads.first().map(|times| times.thread))
}

fn thread_times(
    recorded: &Recorded,
    thread: ThreadIndex,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> ThreadTimes {
    let graph: &Graph = &recorded.graph;
    let mut times = ThreadTimes::nothing(thread);
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
                let info = recorded.thread_at(thread, end);
                let call = wait.and_then(|wait| wait.call);
                let owned = wait.and_then(|wait| wait.lock).is_some_and(|lock| lock.owner.is_some());
                let state = wait.and_then(|wait| wait.state);
                if !owned && is_for_work(recorded, &info, call.as_ref(), state, end) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_event::{BlockedState, Event, EventKind, FileName, Flow, FlowId, SwitchOut, Tid};
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
        let all: Vec<_> = recorded.graph.threads().map(|(index, _)| index).collect();
        threads(recorded, &all, from, to).into_iter().next().expect("a thread")
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
}
