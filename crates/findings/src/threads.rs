//! The times of threads that have no single window: what each did, and which of them to ask about.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::Hang;
use wakepath_event::Call;
use wakepath_names::Recorded;
use wakepath_wait_graph::{ThreadIndex, ThreadState};

use crate::idleness::{Blocked, BlockedClass, Classified};

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
    /// Blocked, waiting for an answer, a lock or a device.
    pub waiting_ns: u64,
    /// The part of `waiting_ns` that a rule found.
    pub waiting_inferred_ns: u64,
    /// Blocked, waiting for work.
    pub idle_ns: u64,
    /// The part of `idle_ns` that a rule found.
    pub idle_inferred_ns: u64,
    /// Blocked in a sleeping call.
    pub sleeping_ns: u64,
    /// Blocked, for work or for an answer.
    pub undecided_ns: u64,
    /// Not known.
    pub unknown_ns: u64,
    /// Its longest wait that is neither idleness nor a sleep.
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
    /// Whether it was for work or for an answer is not known.
    pub undecided: bool,
}

impl ThreadTimes {
    /// The time for which there may be a reason to ask.
    pub fn slowed_ns(&self) -> u64 {
        self.waiting_ns + self.runnable_ns + self.throttled_ns
    }

    /// All its time.
    pub fn total_ns(&self) -> u64 {
        self.slowed_ns() + self.running_ns + self.asleep_ns() + self.undecided_ns + self.unknown_ns
    }

    /// The time in which nothing slowed it: idle, or in a sleep.
    pub fn asleep_ns(&self) -> u64 {
        self.idle_ns + self.sleeping_ns
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
    times.sort_by_key(|times| {
        (std::cmp::Reverse((times.slowed_ns(), times.running_ns, times.undecided_ns)), times.thread)
    });
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
    let graph = &recorded.graph;
    let mut times = ThreadTimes {
        thread,
        running_ns: 0,
        runnable_ns: 0,
        throttled_ns: 0,
        waiting_ns: 0,
        waiting_inferred_ns: 0,
        idle_ns: 0,
        idle_inferred_ns: 0,
        sleeping_ns: 0,
        undecided_ns: 0,
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
                let wait = graph.wait(&interval);
                let info = recorded.thread_at(thread, end);
                let Classified { class, inferred } =
                    Blocked::of_wait(recorded, wait).class(recorded, &info, end);
                let inferred_ns = if inferred { ns } else { 0 };
                match class {
                    BlockedClass::Idle => {
                        times.idle_ns += ns;
                        times.idle_inferred_ns += inferred_ns;
                        continue;
                    }
                    BlockedClass::Sleeping => {
                        times.sleeping_ns += ns;
                        continue;
                    }
                    BlockedClass::Waiting => {
                        times.waiting_ns += ns;
                        times.waiting_inferred_ns += inferred_ns;
                    }
                    BlockedClass::Undecided => times.undecided_ns += ns,
                }
                let call = wait.and_then(|wait| wait.call);
                let undecided = class == BlockedClass::Undecided;
                if times.longest.is_none_or(|longest| longest.to.since(longest.from) < ns) {
                    times.longest = Some(LongestWait { from: begin, to: end, call, undecided });
                }
            }
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_event::Tid;
    use wakepath_names::testing::{event, file, flow, read};

    const SERVER: &str = "10.0.0.3:5432";
    const CLIENT: &str = "10.0.0.2:40000";

    /// The times of a thread that runs 0–10, blocks until 90, and runs on; where it has a connection, that is
    /// descriptor 3.
    fn times(blocked: &str, ends: Option<[&str; 2]>) -> ThreadTimes {
        let trace = wakepath_scenario::text::parse(&format!(
            "thread server tid=7
             thread owner tid=8 tgid=7
             0 c0 idle switch server
             10 c0 server switch idle {blocked}
             90 c0 idle waking server
             90 c0 idle switch server
             100 c0 server switch idle {blocked}
             101 c0 idle switch idle"
        ));
        let mut events = trace.expect("a trace").events;
        let socket = ends.map(|[own, other]| [flow(1, own, other), file(7, 3, 0o140_777, Some(1), "")]);
        events.splice(1..1, socket.into_iter().flatten().map(|what| event(0, 0, 0, what)));
        let recorded = read(&events);
        let of_server = threads(&recorded, recorded.with_tid(Tid(7)), Stamp::from_ns(0), Stamp::from_ns(100));
        of_server.into_iter().next().expect("a thread")
    }

    #[test]
    fn a_blocked_thread_is_idle_only_where_that_is_shown() {
        use BlockedClass::{Idle, Sleeping, Undecided, Waiting};
        for (what, blocked, ends, class, inferred) in [
            ("an idle server's accept", "blocked call=43:3", None, Idle, false),
            ("the next request of a client", "blocked call=0:3", Some([SERVER, CLIENT]), Idle, true),
            (
                "no port shows who opened it",
                "blocked call=0:3",
                Some([CLIENT, "10.0.0.3:40001"]),
                Undecided,
                false,
            ),
            (
                "an answer on a connection that we opened",
                "blocked call=0:3",
                Some([CLIENT, SERVER]),
                Waiting,
                true,
            ),
            ("a read of a pipe or terminal", "blocked call=0:0", None, Undecided, false),
            ("a Python lock", "blocked call=202:0x1000 op=393", None, Undecided, false),
            ("a condition variable", "blocked call=202:0x1000", None, Undecided, false),
            (
                "a mutex with an owner",
                "blocked call=202:0x1000 op=128 value=2 claim=owner",
                None,
                Waiting,
                true,
            ),
            ("asyncio in time.sleep, a pool's job asleep", "blocked call=230:0", None, Sleeping, false),
            ("nanosleep", "blocked call=35:0x1000", None, Sleeping, false),
            ("epoll_wait that a timer or thread ended", "blocked call=232:3", None, Undecided, false),
            ("poll", "blocked call=7:0x1000", None, Undecided, false),
            ("a backend in semop", "blocked call=65:3", None, Undecided, false),
            ("a shell's wait4", "blocked call=61:0", None, Undecided, false),
            ("a futex of a stopped process", "blocked=stopped call=202:0x1000", None, Waiting, false),
            ("fsync", "blocked=uninterruptible call=74:3", None, Waiting, false),
            ("a page fault", "blocked=uninterruptible", None, Waiting, false),
        ] {
            let times = times(blocked, ends);
            let of = |other| if class == other { 80 } else { 0 };
            assert_eq!(
                [times.idle_ns, times.sleeping_ns, times.waiting_ns, times.undecided_ns],
                [Idle, Sleeping, Waiting, Undecided].map(of),
                "{what}"
            );
            let inferred_ns = times.idle_inferred_ns + times.waiting_inferred_ns;
            assert_eq!(inferred_ns, if inferred { 80 } else { 0 }, "{what}");
            assert_eq!((times.running_ns, times.total_ns()), (20, 100), "{what}");
            let longest = times.longest.map(|wait| (wait.from.ns(), wait.to.ns(), wait.undecided));
            let is_long = matches!(class, Waiting | Undecided);
            assert_eq!(longest, is_long.then_some((10, 90, class == Undecided)), "{what}");
        }
    }

    const SEVERAL: &str = "one of several packets";

    #[test]
    fn an_event_loop_is_idle_where_a_request_ended_its_wait() {
        for (what, call, flow, context, idle_ns) in [
            ("a request", "232:3", [CLIENT, SERVER], "net_rx", 80),
            (SEVERAL, "232:3", [CLIENT, SERVER], "net_rx", 0),
            ("an answer", "232:3", [SERVER, CLIENT], "net_rx", 0),
            ("no port shows who called", "232:3", [CLIENT, "10.0.0.3:40001"], "net_rx", 0),
            ("a timer", "232:3", [CLIENT, SERVER], "timer", 0),
            ("poll, whose descriptors are not known", "7:0x1000", [CLIENT, SERVER], "net_rx", 0),
        ] {
            let trace = wakepath_scenario::text::parse(&format!(
                "thread server tid=7
                 flow packet {} > {}
                 flow other 10.0.0.9:40000 > 10.0.0.3:80
                 0 c0 idle switch server
                 10 c0 server switch idle blocked call={call}
                 {}
                 89 c0 idle/net_rx in packet seq=1 len=32
                 90 c0 idle/{context} waking server
                 90 c0 idle switch server
                 100 c0 server switch idle",
                flow[0],
                flow[1],
                if what == SEVERAL { "88 c0 idle/net_rx in other seq=1 len=32" } else { "" }
            ));
            let recorded = read(&trace.expect("a trace").events);
            let from_to = [0, 100].map(Stamp::from_ns);
            let times = threads(&recorded, recorded.with_tid(Tid(7)), from_to[0], from_to[1]);
            let times = times.first().expect("a thread");
            assert_eq!((times.idle_ns, times.undecided_ns), (idle_ns, 80 - idle_ns), "{what}");
            assert_eq!(times.idle_inferred_ns, idle_ns, "{what}");
        }
    }
}
