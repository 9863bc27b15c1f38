//! The times of threads without a single window: each thread's activity, and the thread to ask about.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::Hang;
use wakepath_event::Call;
use wakepath_loaded::Recorded;
use wakepath_wait_graph::{ThreadIndex, ThreadState};

use crate::idleness::{Blocked, BlockedClass, Classified, Pools};

/// A thread's times, ns. The parts add up to the thread's life between `from` and `to`.
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
    /// The inferred part of `waiting_ns`.
    pub waiting_inferred_ns: u64,
    /// Blocked, waiting for work.
    pub idle_ns: u64,
    /// The inferred part of `idle_ns`.
    pub idle_inferred_ns: u64,
    /// Blocked in a sleeping call.
    pub sleeping_ns: u64,
    /// Blocked, for work or for an answer.
    pub undecided_ns: u64,
    /// Not known.
    pub unknown_ns: u64,
    /// Its longest wait, idleness and sleeps excepted.
    pub longest: Option<LongestWait>,
}

/// A wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongestWait {
    /// Its first nanosecond.
    pub from: Stamp<Reference>,
    /// The nanosecond after its last.
    pub to: Stamp<Reference>,
    /// Its system call.
    pub call: Option<Call>,
    /// The wait was for work or for an answer: not known which.
    pub undecided: bool,
}

impl ThreadTimes {
    /// The time worth asking about.
    pub fn slowed_ns(&self) -> u64 {
        self.waiting_ns + self.runnable_ns + self.throttled_ns
    }

    /// All the thread's time.
    pub fn total_ns(&self) -> u64 {
        self.slowed_ns() + self.running_ns + self.asleep_ns() + self.undecided_ns + self.unknown_ns
    }

    /// The time in which nothing slowed the thread: idle, or in a sleep.
    pub fn asleep_ns(&self) -> u64 {
        self.idle_ns + self.sleeping_ns
    }
}

/// These threads' times between `from` and `to`, largest loss first, without threads that did not live then.
pub fn threads(
    recorded: &Recorded,
    threads: &[ThreadIndex],
    from: Stamp<Reference>,
    to: Stamp<Reference>,
    pools: &mut Pools<'_>,
) -> Vec<ThreadTimes> {
    let mut times: Vec<_> = threads
        .iter()
        .map(|&thread| thread_times(recorded, thread, from, to, pools))
        .filter(|times| times.total_ns() > 0)
        .collect();
    times.sort_by_key(|times| {
        (std::cmp::Reverse((times.slowed_ns(), times.running_ns, times.undecided_ns)), times.thread)
    });
    times
}

/// The thread to ask about first: the longest still waiting, else the thread that lost most.
pub fn thread_to_ask(still_waiting: &[Hang], threads: &[ThreadTimes]) -> Option<ThreadIndex> {
    let still_waiting = still_waiting.first().map(|hang| hang.thread);
    still_waiting.or_else(|| threads.first().map(|times| times.thread))
}

fn thread_times(
    recorded: &Recorded,
    thread: ThreadIndex,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
    pools: &mut Pools<'_>,
) -> ThreadTimes {
    let graph = recorded.graph();
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
                    Blocked::from_wait(recorded, thread, &interval).class(recorded, &info, pools);
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
                // A wait that its wake-up forestalled takes no time.
                if times.longest.map_or(0, |longest| longest.to.since(longest.from)) < ns {
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
    use wakepath_event::{EventKind, EventSource, RecordingFormat, SetMember, Tid};
    use wakepath_loaded::testing::{event, file, flow, read};
    use wakepath_recording::Recording;

    const SERVER: &str = "10.0.0.3:5432";
    const CLIENT: &str = "10.0.0.2:40000";

    /// The times of a thread that runs 0–10, blocks until 90, and runs on; its connection, if any, is descriptor 3.
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
        let of_server = threads(
            &recorded,
            recorded.with_tid(Tid(7)),
            Stamp::from_ns(0),
            Stamp::from_ns(100),
            &mut Pools::unknown(),
        );
        of_server.into_iter().next().expect("a thread")
    }

    #[test]
    fn all_times_of_a_thread_add_up_and_the_one_that_lost_most_is_asked_about() {
        let of = |thread: u32, [waiting_ns, runnable_ns, throttled_ns]: [u64; 3], running_ns| ThreadTimes {
            thread: ThreadIndex(thread),
            running_ns,
            runnable_ns,
            throttled_ns,
            waiting_ns,
            waiting_inferred_ns: 1,
            idle_ns: 1000,
            idle_inferred_ns: 500,
            sleeping_ns: 20_000,
            undecided_ns: 300_000,
            unknown_ns: 4_000_000,
            longest: None,
        };
        let one = of(3, [1, 20, 300], 50_000_000);
        assert_eq!((one.slowed_ns(), one.asleep_ns(), one.total_ns()), (321, 21_000, 54_321_321));
        assert_eq!(thread_to_ask(&[], &[one.clone(), of(4, [9; 3], 0)]), Some(ThreadIndex(3)));
        assert_eq!(thread_to_ask(&[], &[]), None);
        let hang = Hang {
            thread: ThreadIndex(9),
            since: Stamp::from_ns(5),
            began_before: false,
            state: None,
            call: None,
            lock: None,
            proved: false,
            killed: None,
        };
        assert_eq!(thread_to_ask(&[hang], &[one]), Some(ThreadIndex(9)));
    }

    #[test]
    fn threads_come_in_the_order_of_what_they_lost_and_those_that_did_not_live_are_left_out() {
        let trace = wakepath_scenario::text::parse(
            "thread reader tid=7
             thread worker tid=8
             thread late tid=9
             0 c0 idle switch reader
             10 c0 reader switch worker blocked=uninterruptible call=74:3
             20 c0 worker waking reader
             30 c0 worker switch reader runnable
             40 c0 reader switch worker blocked=uninterruptible call=74:3
             70 c0 worker waking reader
             70 c0 worker switch reader runnable
             75 c0 reader switch worker runnable
             100 c0 worker switch idle",
        );
        let recorded = read(&trace.expect("a trace").events);
        let all: Vec<_> = recorded.graph.threads().map(|(thread, _)| thread).collect();
        let of = |from: u64, to: u64| {
            threads(&recorded, &all, Stamp::from_ns(from), Stamp::from_ns(to), &mut Pools::unknown())
        };
        let told = |times: &[ThreadTimes]| -> Vec<_> {
            let one = |one: &ThreadTimes| {
                let longest = one.longest.map(|wait| (wait.from.ns(), wait.to.ns(), wait.undecided));
                (one.thread.0, one.running_ns, one.runnable_ns, one.waiting_ns, longest)
            };
            times.iter().map(one).collect()
        };
        let whole = told(&of(0, 100));
        assert_eq!(whole[0], (0, 25, 35, 40, Some((40, 70, false))), "{whole:?}");
        assert!(of(5000, 6000).is_empty());
        // Cut by the window, the first wait is the longer one.
        assert_eq!(told(&of(5, 45))[0].4, Some((10, 20, false)));
        // Among equal waits, the first.
        assert_eq!(told(&of(0, 50))[0].4, Some((10, 20, false)));
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

    #[test]
    fn a_user_thread_outside_of_a_call_waits_and_where_calls_are_not_recorded_it_is_undecided() {
        let trace = wakepath_scenario::text::parse(
            "thread server tid=7
             0 c0 idle switch server
             10 c0 server switch idle blocked
             90 c0 idle waking server
             90 c0 idle switch server
             100 c0 server switch idle",
        );
        let mut recorded = read(&trace.expect("a trace").events);
        let of = |recorded: &Recorded| {
            let [from, to] = [0, 100].map(Stamp::from_ns);
            let times = threads(recorded, recorded.with_tid(Tid(7)), from, to, &mut Pools::unknown());
            (times[0].waiting_ns, times[0].undecided_ns)
        };
        assert_eq!(of(&recorded), (80, 0));
        recorded.tracer = Some(wakepath_loaded::Name::from("lttng"));
        assert_eq!(of(&recorded), (0, 80));
    }

    const SEVERAL: &str = "one of several packets";
    /// SIGIO, the signal for a ready descriptor, is sent in the interrupt that receives the packet.
    const CUT: &str = "a signal that a packet made";

    #[test]
    fn an_event_loop_is_idle_where_a_request_ended_its_wait() {
        for (what, call, flow, context, idle_ns) in [
            ("a request", "232:3", [CLIENT, SERVER], "net_rx", 80),
            (SEVERAL, "232:3", [CLIENT, SERVER], "net_rx", 0),
            ("an answer", "232:3", [SERVER, CLIENT], "net_rx", 0),
            ("no port shows who called", "232:3", [CLIENT, "10.0.0.3:40001"], "net_rx", 0),
            ("a timer", "232:3", [CLIENT, SERVER], "timer", 0),
            (CUT, "232:3", [CLIENT, SERVER], "net_rx", 0),
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
                 {}
                 100 c0 server switch idle",
                flow[0],
                flow[1],
                if what == SEVERAL { "88 c0 idle/net_rx in other seq=1 len=32" } else { "" },
                if what == CUT { "91 c0 server signal 29 handled cut=232 sent=90 by=idle" } else { "" }
            ));
            let recorded = read(&trace.expect("a trace").events);
            let from_to = [0, 100].map(Stamp::from_ns);
            let times =
                threads(&recorded, recorded.with_tid(Tid(7)), from_to[0], from_to[1], &mut Pools::unknown());
            let times = times.first().expect("a thread");
            assert_eq!((times.idle_ns, times.undecided_ns), (idle_ns, 80 - idle_ns), "{what}");
            assert_eq!(times.idle_inferred_ns, idle_ns, "{what}");
        }
    }

    /// Connection ends whose ports do not show which end opened it.
    const EQUALS: [&str; 2] = ["10.0.0.2:40000", "10.0.0.3:40001"];
    const PORTS: [&str; 2] = [CLIENT, SERVER];

    /// The times of a thread that blocks from 10 to 90 in `call`. Descriptor 3, alone or in a set, is its end of a
    /// connection with packets; the other end has the first address.
    fn connected(ends: [&str; 2], call: &str, members: &[u32], lines: &str) -> ThreadTimes {
        let trace = wakepath_scenario::text::parse(&format!(
            "thread server tid=7
             flow their {} > {}
             flow own {} > {}
             0 c0 idle switch server
             {}
             10 c0 server switch idle blocked call={call}
             {}
             90 c0 idle switch server
             100 c0 server switch idle",
            ends[0],
            ends[1],
            ends[1],
            ends[0],
            lines.split_once('|').map_or("", |(before, _)| before),
            lines.split_once('|').map_or("", |(_, during)| during),
        ));
        let mut events = trace.expect("a trace").events;
        let flows = events.iter().position(|event| matches!(event.kind, EventKind::Switch { .. }));
        let mut more = vec![event(0, 0, 7, file(7, 3, 0o140_777, Some(2), ""))];
        more.push(event(0, 0, 7, file(7, 4, 0o010_600, None, "")));
        let set = |&fd| SetMember { set: SET, tgid: Tid(7), fd, total: members.len() as u32 };
        more.extend(members.iter().map(|fd| event(0, 0, 7, EventKind::SetMember(set(fd)))));
        events.splice(flows.unwrap_or(0)..flows.unwrap_or(0), more);
        let recorded = read(&events);
        let [from, to] = [0, 100].map(Stamp::from_ns);
        threads(&recorded, recorded.with_tid(Tid(7)), from, to, &mut Pools::unknown())
            .into_iter()
            .next()
            .expect("a thread")
    }

    const SET: u64 = Call::EMPTY_SET | 5;

    #[test]
    fn a_read_is_idle_where_the_own_end_of_an_accepted_connection_spoke_last() {
        use BlockedClass::{Idle, Undecided, Waiting};
        const WOKEN: &str = "89 c0 idle/net_rx in their len=9\n 90 c0 idle/net_rx waking server";
        let cases = [
            ("answered", PORTS, "1 c0 server/net_rx in their len=5\n 5 c0 server out own len=5", Idle),
            ("part of a request", PORTS, "5 c0 server/net_rx in their len=5", Undecided),
            ("nothing was asked yet", PORTS, "", Idle),
            (
                "an acknowledgement is no answer",
                PORTS,
                "1 c0 server/net_rx in their len=5\n 5 c0 server out own",
                Undecided,
            ),
            (
                "answered; acknowledged",
                PORTS,
                "1 c0 server out own len=5\n 5 c0 server/net_rx in their",
                Idle,
            ),
            (
                "the handshake decides, not the ports",
                PORTS,
                "1 c0 server out own flags=2\n 5 c0 server out own flags=16 len=5",
                Waiting,
            ),
            (
                "they opened it",
                EQUALS,
                "1 c0 server/net_rx in their flags=2\n 5 c0 server out own flags=16 len=5",
                Idle,
            ),
            (
                "we opened it, and asked",
                EQUALS,
                "1 c0 server out own flags=2\n 5 c0 server out own flags=16 len=5",
                Waiting,
            ),
            (
                "we opened it; the rest of the answer",
                EQUALS,
                "1 c0 server out own flags=2\n 5 c0 server/net_rx in their len=5",
                Waiting,
            ),
            (
                "we opened it, and wait for its greeting",
                EQUALS,
                "1 c0 server/net_rx in their flags=18",
                Waiting,
            ),
            ("nothing shows which end opened it", EQUALS, "5 c0 server out own len=5", Undecided),
        ];
        let of = |times: &ThreadTimes| [times.idle_ns, times.waiting_ns, times.undecided_ns];
        let all = |class, ns| [Idle, Waiting, Undecided].map(|other| if class == other { ns } else { 0 });
        for (what, ends, before, class) in cases {
            let ends_of_wait = [
                ("a packet", WOKEN),
                ("no wake-up", ""),
                (
                    "a signal",
                    "80 c1 #99 waking server\n 90 c0 idle switch server\n 91 c0 server signal 10 handled cut=0 sent=80 by=#99\n",
                ),
            ];
            for (how, during) in ends_of_wait {
                let times = connected(ends, "0:3", &[], &format!("{before}|{during}"));
                let blocked = 80 - times.runnable_ns;
                assert_eq!(of(&times), all(class, blocked), "{what}; ended by {how}");
                let inferred = times.idle_inferred_ns + times.waiting_inferred_ns;
                assert_eq!(inferred, if class == Undecided { 0 } else { blocked }, "{what}");
                assert_eq!(times.total_ns(), 100, "{what}");
            }
        }
    }

    #[test]
    fn a_poll_has_the_class_of_the_connection_that_ended_it() {
        use BlockedClass::{Idle, Sleeping, Undecided, Waiting};
        const DATA: &str = "89 c0 idle/net_rx in their len=9\n 90 c0 idle/net_rx waking server";
        const ROOM: &str = "89 c0 idle/net_rx in their\n 90 c0 idle/net_rx waking server";
        const TIMER: &str = "90 c0 idle/timer waking server";
        const OPENED: &str = "1 c0 server/net_rx in their flags=2";
        let poll = format!("7:{SET}");
        let (poll, empty) = (poll.as_str(), format!("7:{}", Call::EMPTY_SET));
        let asked = "1 c0 server out own flags=2\n 5 c0 server out own flags=16 len=5";
        let answered = "1 c0 server/net_rx in their len=5\n 5 c0 server out own len=5";
        let part = "5 c0 server/net_rx in their len=5";
        for (what, call, members, before, during, class) in [
            ("a request", poll, &[3, 4][..], answered, DATA, Idle),
            ("a request for one descriptor", poll, &[3], answered, DATA, Idle),
            ("its end takes more data", poll, &[3], answered, ROOM, Undecided),
            ("time-out of one descriptor", poll, &[3], answered, TIMER, Undecided),
            ("time-out of a question", poll, &[3], asked, TIMER, Waiting),
            ("time-out of one question among others", poll, &[3, 4], asked, TIMER, Undecided),
            ("the answer to a question", poll, &[3, 4], asked, DATA, Waiting),
            ("not of this set", poll, &[4], answered, DATA, Undecided),
            ("a set that is not known", poll, &[], answered, DATA, Undecided),
            ("no descriptors", &empty, &[], "", TIMER, Sleeping),
            ("a request in two parts", "232:5", &[], part, DATA, Undecided),
            ("a request, in epoll_wait", "232:5", &[], answered, DATA, Idle),
            ("an answer, in epoll_wait", "232:5", &[], asked, DATA, Waiting),
            (
                "an answer that was not asked for",
                "232:5",
                &[],
                "1 c0 server out own flags=2\n 5 c0 server/net_rx in their len=5",
                DATA,
                Undecided,
            ),
            ("its end takes more data, in epoll_wait", "232:5", &[], answered, ROOM, Undecided),
            ("a timer, in epoll_wait", "232:5", &[], answered, TIMER, Undecided),
            (
                "the answer to a SYN",
                "232:5",
                &[],
                "1 c0 server out own flags=2",
                "89 c0 idle/net_rx in their flags=18\n 90 c0 idle/net_rx waking server",
                Waiting,
            ),
            (
                "a new connection",
                "232:5",
                &[],
                "",
                "88 c0 idle/net_rx in their flags=2\n 89 c0 idle/net_rx in their\n 90 c0 idle/net_rx waking server",
                Idle,
            ),
            ("a connection without a request so far", "232:5", &[], OPENED, DATA, Idle),
        ] {
            let times = connected(PORTS, call, members, &format!("{before}|{during}"));
            let of = [Idle, Sleeping, Waiting, Undecided].map(|other| if class == other { 80 } else { 0 });
            let found = [times.idle_ns, times.sleeping_ns, times.waiting_ns, times.undecided_ns];
            assert_eq!(found, of, "{what}");
        }
    }

    /// A thread's blocked time in a window, by its states alone.
    fn blocked_ns(recorded: &Recorded, thread: ThreadIndex, [from, to]: [Stamp<Reference>; 2]) -> u64 {
        let intervals = recorded.graph.state_intervals(thread).overlapping(from, to);
        let blocked = intervals.filter(|interval| matches!(interval.state, ThreadState::Blocked(_)));
        blocked.map(|interval| interval.to.min(to).since(interval.from.max(from))).sum()
    }

    #[test]
    fn the_four_classes_add_up_to_the_blocked_time_of_each_thread_of_bundled_recordings() {
        let bundled = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings");
        for name in ["backup", "backup-of-format-1"] {
            let recording = Recording::open(&bundled.join(name)).expect("a recording");
            let mut events = Vec::new();
            assert_eq!(recording.for_each(|event| events.push(event.clone())), []);
            let recorded = read(&events);
            let all: Vec<_> = recorded.graph.threads().map(|(thread, _)| thread).collect();
            let (from, to) = (recorded.from(), recorded.to());
            let third = to.since(from) / 3;
            let mut classes = [0; 4];
            for [from, to] in [[from, to], [from, from.plus(third)], [from.plus(third), to.minus(third)]] {
                for times in threads(&recorded, &all, from, to, &mut Pools::unknown()) {
                    let of = [times.idle_ns, times.sleeping_ns, times.waiting_ns, times.undecided_ns];
                    let blocked = blocked_ns(&recorded, times.thread, [from, to]);
                    assert_eq!(of.iter().sum::<u64>(), blocked, "{name} {times:?}");
                    assert!(times.idle_inferred_ns <= times.idle_ns, "{name} {times:?}");
                    assert!(times.waiting_inferred_ns <= times.waiting_ns, "{name} {times:?}");
                    classes.iter_mut().zip(of).for_each(|(sum, ns)| *sum += ns);
                }
            }
            assert!(classes.iter().all(|&ns| ns > 0), "{name}: {classes:?}");
        }
    }
}
