//! The process at a local connection's other end, while a row's threads waited for its answer, and its activity instead.

use std::collections::BTreeMap;

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_critical_path::{Responsible, Segment, SegmentKind};
use wakepath_event::{BlockedState, FlowId, Tid};
use wakepath_loaded::{AcceptQueue, CallName, Endpoint, Receiver, ReceiverKind};
use wakepath_wait_graph::{ThreadIndex, ThreadState, TimerPurpose};

use crate::rows::segments_in_row;
use crate::{Evidence, Expected, Row, RowKey};

/// The processes at a connection's other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FarProcess {
    /// The processes; never empty.
    pub processes: Vec<Tid>,
    /// Their socket's kind, if a search through all descriptors found it; else they were seen with the connection.
    pub socket: Option<ReceiverKind>,
    /// When the search found them.
    pub seen: Option<Stamp<Reference>>,
    /// Whether none of them had accepted the connection for more than half the wait.
    pub is_unaccepted: bool,
    /// The listening socket's full queue, and when it was seen.
    pub full: Option<(AcceptQueue, Stamp<Reference>)>,
    /// The process's activity for more than half the wait; `None` for several activities, or if several threads might have
    /// had to answer.
    pub did: Option<Doing>,
}

/// A thread's activity for most of a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    /// It had a CPU.
    Ran,
    /// It waited for a CPU.
    WaitedForCpu,
    /// A cgroup's CPU limit kept it from running.
    Throttled,
    /// It slept, in this call.
    Slept(CallName),
    /// It waited in this call.
    Waited(CallName),
    /// A signal had stopped it.
    Stopped,
}

/// The flow from the waiting end to the other end, for a segment's connection.
fn awaited_flow(evidence: &Evidence<'_>, segment: &Segment) -> Option<FlowId> {
    let names = evidence.recorded.names();
    match (segment.kind, Responsible::from(&segment.cause)) {
        (_, Responsible::SentByTimer { flow, purpose }) => match purpose {
            TimerPurpose::Syn { .. } | TimerPurpose::WindowProbe | TimerPurpose::Nagle => Some(flow),
            _ => names.other_direction(flow),
        },
        (SegmentKind::Network, Responsible::Flow(Some(flow))) => names.other_direction(flow),
        (SegmentKind::Timer, Responsible::Timer) | (SegmentKind::Unknown, Responsible::StillWaiting) => {
            names.socket(evidence.recorded.segment_call_key(segment)?)
        }
        _ => None,
    }
}

/// Whether a row's threads waited for another end without an answer.
const fn is_for_another_end(key: &RowKey) -> bool {
    matches!(
        key,
        RowKey::SentByTimer(..)
            | RowKey::TimedOut(Expected::Answer | Expected::Room | Expected::Input)
            | RowKey::Window(..)
            | RowKey::Network(_)
            | RowKey::StillWaiting
    )
}

/// The process at the other end to which more than half a row's waits were; `None` if not local, or not known.
pub(crate) fn far_process(evidence: &Evidence<'_>, key: &RowKey, row: &Row) -> Option<FarProcess> {
    if !is_for_another_end(key) {
        return None;
    }
    // Each question to a name server has its own socket, and its own flow.
    let mut ends: BTreeMap<Endpoint, (u64, Option<(FlowId, Segment)>)> = BTreeMap::new();
    let length = |segment: &Segment| segment.to.since(segment.from);
    segments_in_row(evidence, key, |segment| {
        let flow = awaited_flow(evidence, segment);
        if let Some((flow, peer)) =
            flow.and_then(|flow| Some((flow, evidence.recorded.names().receiver(flow)?)))
        {
            let (ns, longest) = ends.entry(peer.end).or_default();
            *ns += length(segment);
            if longest.as_ref().is_none_or(|(_, longest)| length(longest) < length(segment)) {
                *longest = Some((flow, segment.clone()));
            }
        }
    });
    let (ns, longest) = ends.into_values().max_by_key(|(ns, _)| *ns)?;
    let (flow, longest) = longest.filter(|_| ns > row.total_ns / 2)?;
    let is_syn = matches!(key, RowKey::SentByTimer(_, TimerPurpose::Syn { .. }));
    let found = Found::new(evidence, flow, &longest, is_syn)?;
    // It had answered.
    let has_answered = matches!(key, RowKey::SentByTimer(_, TimerPurpose::Nagle));
    let thread = found.thread.filter(|_| !has_answered);
    let did = thread.and_then(|thread| doing(evidence, thread, longest.from, longest.to));
    Some(FarProcess { did, ..found.process })
}

/// A connection's other end, and the answering thread, if known.
struct Found {
    process: FarProcess,
    thread: Option<ThreadIndex>,
}

impl Found {
    /// The other end of a flow during a wait; `is_syn`: for the connection itself.
    fn new(evidence: &Evidence<'_>, flow: FlowId, wait: &Segment, is_syn: bool) -> Option<Self> {
        let (from, to) = (wait.from, wait.to);
        let (recorded, graph) = (evidence.recorded, evidence.recorded.graph());
        let names = recorded.names();
        // Names have the events' stamps, which are the graph's.
        let [began, ended] = [from, to].map(|at| Stamp::<Local>::from_ns(at.ns()));
        let reference = |at: Stamp<Local>| Stamp::from_ns(at.ns());
        let (within, later): (Vec<_>, Vec<_>) =
            names.receivers(flow, began, ended).into_iter().partition(|reading| reading.at <= ended);
        // A reading from before the wait says nothing about the queue in it.
        let full = within.iter().filter(|reading| began <= reading.at).find_map(|reading| {
            Some((reading.queue.filter(|queue| queue.is_full())?, reference(reading.at)))
        });
        let is_unaccepted = is_syn || is_unaccepted(&within, &later, began, ended);
        let is_named = |reading: &Receiver| !reading.processes.is_empty();
        // It was accepted meanwhile, perhaps by another process.
        let is_past = |reading: &Receiver| reading.kind == ReceiverKind::Listening && !is_unaccepted;
        let last = within.into_iter().rfind(is_named);
        let named = match (last, later.into_iter().find(is_named)) {
            (Some(last), Some(next)) if is_past(&last) => Some(next),
            (last, next) => last.or(next),
        };
        let sender = names.other_direction(flow).and_then(|back| graph.data_sender(back, to));
        let its_process = || sender.and_then(|thread| graph.thread(thread).tgid());
        let process = match named {
            Some(Receiver { at, kind, processes, .. }) => {
                let processes = without_waiter(evidence, wait, processes);
                let (socket, seen) = (Some(kind), Some(reference(at)));
                FarProcess { processes, socket, seen, is_unaccepted, full, did: None }
            }
            None => {
                let processes = vec![names.receiver(flow)?.process.or_else(its_process)?];
                FarProcess { processes, socket: None, seen: None, is_unaccepted, full, did: None }
            }
        };
        let thread = match process.processes.as_slice() {
            [only] => {
                let has_sent = sender.filter(|thread| graph.thread(*thread).tgid() == Some(*only));
                has_sent.or_else(|| only_thread(evidence, *only, from, to))
            }
            _ => None,
        };
        Some(Self { process, thread })
    }
}

/// Whether no process had accepted a connection for more than half the wait: once accepted, it stays that.
fn is_unaccepted(within: &[Receiver], later: &[Receiver], began: Stamp<Local>, ended: Stamp<Local>) -> bool {
    let listens = |reading: &Receiver| reading.kind == ReceiverKind::Listening;
    let is_late = |reading: &Receiver| reading.at.since(began) > ended.since(began) / 2;
    within.last().is_none_or(listens)
        && (later.first().is_some_and(listens) || within.last().is_some_and(is_late))
}

/// The processes with a socket without the asked one, which has it too where it began the others: its only thread waits.
fn without_waiter(evidence: &Evidence<'_>, wait: &Segment, mut processes: Vec<Tid>) -> Vec<Tid> {
    let own = evidence.subject().tgid;
    let own = own.filter(|own| only_thread(evidence, *own, wait.from, wait.to).is_some());
    if processes.len() > 1 {
        processes.retain(|process| Some(*process) != own);
    }
    processes
}

/// A process's only thread in a time; `None` for several threads.
fn only_thread(
    evidence: &Evidence<'_>,
    process: Tid,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Option<ThreadIndex> {
    let threads = evidence.recorded.graph().threads();
    let mut threads = threads
        .filter(|(_, thread)| thread.tgid() == Some(process) && thread.first <= to && from <= thread.last);
    match (threads.next(), threads.next()) {
        (Some((only, _)), None) => Some(only),
        _ => None,
    }
}

/// A thread's activity for more than half a time.
fn doing(
    evidence: &Evidence<'_>,
    thread: ThreadIndex,
    from: Stamp<Reference>,
    to: Stamp<Reference>,
) -> Option<Doing> {
    let (recorded, graph) = (evidence.recorded, evidence.recorded.graph());
    let tgid = graph.thread(thread).tgid();
    let mut times: BTreeMap<Doing, u64> = BTreeMap::new();
    for interval in graph.state_intervals(thread).overlapping(from, to) {
        let state = match interval.state {
            ThreadState::Running { .. } => Doing::Ran,
            ThreadState::Runnable { .. } => Doing::WaitedForCpu,
            ThreadState::Throttled { .. } => Doing::Throttled,
            ThreadState::Blocked(_) => match graph.wait(&interval) {
                Some(wait) if wait.state == Some(BlockedState::Stopped) => Doing::Stopped,
                Some(wait) => {
                    let Some(call) = wait.call else { continue };
                    let at = Stamp::<Local>::from_ns(interval.to.min(to).ns());
                    let key = recorded.names().call_key(&call, tgid, at);
                    let name = recorded.names().spell(key);
                    if key.is_sleep() { Doing::Slept(name) } else { Doing::Waited(name) }
                }
                None => continue,
            },
            ThreadState::Unknown(_) => continue,
        };
        *times.entry(state).or_default() += interval.to.min(to).since(interval.from.max(from));
    }
    let (most, ns) = times.into_iter().max_by_key(|(_, ns)| *ns)?;
    (ns > to.since(from) / 2).then_some(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_critical_path::{Window, active};
    use wakepath_event::{Event, EventKind, NameSpace};
    use wakepath_loaded::testing::{event, file, read};
    use wakepath_loaded::{Recorded, Sampled, Stacks};

    /// A client's SYN is answered when it is sent again; the server, which `DOES` something, has the listening socket.
    const SYN: &str = "
        thread client tid=10
        thread server tid=20
        flow there 127.0.0.1:40000 > 127.0.0.1:80
        flow back 127.0.0.1:80 > 127.0.0.1:40000
        0 c0 idle started
        0 c0 idle switch client
        0 c1 idle switch server
        5 c1 server DOES
        20 c0 client out there seq=0 flags=2
        21 c0 client/net_rx in there seq=0 flags=2
        30 c0 client switch idle blocked call=42:3
        1030 c0 idle/soft_timer out there seq=0 flags=2
        1031 c0 idle/net_rx in there seq=0 flags=2
        1032 c0 idle/net_rx out back seq=0 ack=1 flags=18
        1033 c0 idle/net_rx in back seq=0 ack=1 flags=18
        1034 c0 idle/net_rx waking client
        1040 c0 idle switch client
        1100 c0 client stopped
    ";
    const SLEEPS: &str = "switch idle blocked call=230:0";

    /// A client's question has no answer within its time-out.
    const RECEIVE: &str = "
        thread client tid=10
        thread server tid=20
        flow there 127.0.0.1:40000 > 127.0.0.1:80
        flow back 127.0.0.1:80 > 127.0.0.1:40000
        0 c0 idle started
        0 c0 idle switch client
        0 c1 idle switch server
        2 c1 server out back seq=1 len=4
        3 c1 server/net_rx in back seq=1 len=4
        5 c1 server DOES
        20 c0 client out there seq=1 len=4
        21 c0 client/net_rx in there seq=1 len=4
        30 c0 client switch idle blocked call=45:3
        1030 c0 idle/timer waking client
        1040 c0 idle switch client
        1100 c0 client stopped
    ";

    fn recorded(trace: &str, does: &str, names: &[(u64, &str)]) -> Recorded {
        let mut events =
            wakepath_scenario::text::parse(&trace.replace("DOES", does)).expect("a trace").events;
        // The client's flows, whose descriptors begin with 3.
        let flows = events.iter().filter_map(|event| match &event.kind {
            EventKind::Flow(id, flow) if flow.source.port() >= 40_000 => Some(id.0),
            _ => None,
        });
        let flows: Vec<u64> = flows.collect();
        let sockets = flows.iter().zip(3..);
        let sockets = sockets.map(|(flow, fd)| event(1, 0, 10, file(10, fd, 0o140_777, Some(*flow), "")));
        let names = names.iter().map(|(at, text)| {
            event(*at, 0, 0, EventKind::Name(NameSpace::Receiver, flows[0], text.as_bytes().into()))
        });
        let more: Vec<Event> = names.chain(sockets).collect();
        events.extend(more);
        events.sort_by_key(|event| event.at);
        read(&events)
    }

    /// The far process in the largest row on the client's path.
    fn far(recorded: &Recorded) -> Option<FarProcess> {
        let thread = recorded.with_tid(Tid(10))[0];
        let window = Window { thread, from: recorded.graph().from(), to: Stamp::from_ns(1100) };
        let path = active(recorded.graph(), window);
        let (stacks, sampled) = (Stacks::default(), Sampled::default());
        let evidence = Evidence { recorded, path: &path, stacks: &stacks, sampled: &sampled };
        let rows = crate::rows(&evidence);
        let all = rows.iter().filter(|(_, row)| row.far.is_some()).count();
        assert!(all <= 1 && (all == 0 || rows[0].1.far.is_some()), "the awaited end alone");
        rows[0].1.far.clone()
    }

    /// It as text: `20 Listening seen 500 full 500, Slept`.
    fn words(trace: &str, does: &str, names: &[(u64, &str)]) -> String {
        let Some(found) = far(&recorded(trace, does, names)) else { return String::new() };
        let processes: Vec<u32> = found.processes.iter().map(|process| process.0).collect();
        let socket = found.socket.map_or(String::new(), |socket| format!(" {socket:?}"));
        let seen = found.seen.map_or(String::new(), |at| format!(" seen {}", at.ns()));
        let full = found.full.map_or(String::new(), |(_, at)| format!(" full {}", at.ns()));
        let accepted = if found.is_unaccepted { " unaccepted" } else { "" };
        let did = match found.did {
            None => "?".to_owned(),
            Some(Doing::Slept(call)) => format!("Slept {}", call.number),
            Some(Doing::Waited(call)) => format!("Waited {}", call.number),
            Some(other) => format!("{other:?}"),
        };
        format!("{processes:?}{socket}{seen}{accepted}{full}, {did}")
    }

    #[test]
    fn a_syn_without_an_answer_has_the_listening_process_and_its_full_queue_if_seen_meanwhile() {
        const FULL: &str = "listening waiting=2 room=1 dropped=3 20";
        const ROOM: &str = "listening waiting=1 room=1 dropped=3 20";
        let words = |names: &[(u64, &str)]| words(SYN, SLEEPS, names);
        assert_eq!(words(&[(500, FULL)]), "[20] Listening seen 500 unaccepted full 500, Slept 230");
        assert_eq!(words(&[(500, ROOM)]), "[20] Listening seen 500 unaccepted, Slept 230");
        assert_eq!(
            words(&[(500, FULL), (900, ROOM)]),
            "[20] Listening seen 900 unaccepted full 500, Slept 230"
        );
        // Before and behind the wait, another was full.
        assert_eq!(words(&[(10, FULL)]), "[20] Listening seen 10 unaccepted, Slept 230");
        assert_eq!(words(&[(1050, FULL)]), "[20] Listening seen 1050 unaccepted, Slept 230");
        assert_eq!(words(&[]), "", "nobody knows");
        assert_eq!(words(&[(500, "listening 20 21")]), "[20, 21] Listening seen 500 unaccepted, ?");
        assert_eq!(words(&[(500, "listening")]), "", "no process has it");
    }

    #[test]
    fn an_activity_took_more_than_half_the_wait() {
        let did = |does: &str| {
            let text = words(SYN, does, &[(500, "listening 20")]);
            text.split_once(", ").expect("a process").1.to_owned()
        };
        assert_eq!(did(SLEEPS), "Slept 230");
        assert_eq!(did("rename server s"), "Ran");
        assert_eq!(did("switch idle blocked call=202:0x1000"), "Waited 202");
        assert_eq!(did("switch idle blocked=stopped"), "Stopped");
        assert_eq!(did("switch idle runnable"), "WaitedForCpu");
        let until =
            |ns: u64| did(&format!("{SLEEPS}\n{ns} c1 idle/timer waking server\n{ns} c1 idle switch server"));
        // The wait lasts from 30 to 1030.
        assert_eq!([until(529), until(530), until(531)], ["Ran", "?", "Slept 230"]);
    }

    #[test]
    fn among_several_threads_the_sender_on_the_connection_has_to_answer() {
        let with_pool = |trace: &str| trace.replace("flow there", "thread pool tid=21 tgid=20\nflow there");
        let reading = [(500, "connected 20")];
        assert_eq!(words(RECEIVE, SLEEPS, &reading), "[20] Connected seen 500, Slept 230");
        assert_eq!(words(&with_pool(RECEIVE), SLEEPS, &reading), "[20] Connected seen 500, Slept 230");
        assert_eq!(
            words(&with_pool(SYN), SLEEPS, &[(500, "listening 20")]),
            "[20] Listening seen 500 unaccepted, ?"
        );
        // Without a search, the sender's process has the other end.
        assert_eq!(words(RECEIVE, SLEEPS, &[]), "[20], Slept 230");
        assert_eq!(words(RECEIVE, SLEEPS, &[(500, "connected 33")]), "[33] Connected seen 500, ?");
    }

    #[test]
    fn the_waiting_process_is_not_meant_where_others_have_the_socket_and_it_has_no_thread_for_it() {
        let both = [(500, "listening 10 20")];
        assert_eq!(words(SYN, SLEEPS, &both), "[20] Listening seen 500 unaccepted, Slept 230");
        let with_thread = SYN.replace("flow there", "thread taker tid=11 tgid=10\nflow there");
        assert_eq!(words(&with_thread, SLEEPS, &both), "[10, 20] Listening seen 500 unaccepted, ?");
        assert_eq!(
            words(SYN, SLEEPS, &[(500, "listening 10")]),
            "[10] Listening seen 500 unaccepted, Waited 42"
        );
    }

    #[test]
    fn a_connection_was_not_accepted_where_that_was_seen_late_in_the_wait_or_behind_it() {
        let words = |names: &[(u64, &str)]| {
            let text = words(RECEIVE, SLEEPS, names);
            text.split_once(", ").expect("a process").0.to_owned()
        };
        // The wait lasts from 30 to 1030.
        assert_eq!(words(&[(531, "listening 20")]), "[20] Listening seen 531 unaccepted");
        assert_eq!(words(&[(530, "listening 20")]), "[20] Listening seen 530");
        assert_eq!(words(&[(10, "listening 20")]), "[20] Listening seen 10");
        let later = [(100, "listening 20"), (1050, "listening 20")];
        assert_eq!(words(&later), "[20] Listening seen 100 unaccepted");
        assert_eq!(words(&later[1..]), "[20] Listening seen 1050 unaccepted");
        // Accepted early in the wait, or late; then the process that accepted it counts, or the one that did not.
        assert_eq!(words(&[(100, "listening 19"), (1050, "connected 20")]), "[20] Connected seen 1050");
        let late = [(900, "listening 20"), (1050, "connected 21")];
        assert_eq!(words(&late), "[20] Listening seen 900 unaccepted");
        let both = [(900, "listening 19"), (910, "connected 20"), (1050, "listening 19")];
        assert_eq!(words(&both), "[20] Connected seen 910", "the last is another connection");
        assert_eq!(words(&[(100, "listening 20"), (1050, "connected")]), "[20] Listening seen 100");
    }

    #[test]
    fn the_process_to_which_more_than_half_the_waits_were_is_meant_by_its_longest() {
        let several = |there: u64, again: u64| {
            let [first, second] = [520 + there, 520 + there + again];
            words(
                &format!(
                    "thread client tid=10
                    thread server tid=20
                    thread other tid=40
                    flow there 127.0.0.1:40000 > 127.0.0.1:80
                    flow back 127.0.0.1:80 > 127.0.0.1:40000
                    flow aside 127.0.0.1:40001 > 127.0.0.1:81
                    flow beside 127.0.0.1:81 > 127.0.0.1:40001
                    flow again 127.0.0.1:40002 > 127.0.0.1:80
                    flow hence 127.0.0.1:80 > 127.0.0.1:40002
                    0 c0 idle started
                    0 c0 idle switch client
                    0 c1 idle switch server
                    0 c2 idle switch other
                    2 c1 server out back seq=1 len=4
                    3 c2 other out beside seq=1 len=4
                    4 c1 server out hence seq=1 len=4
                    8 c1 server switch idle blocked call=230:0
                    8 c2 other switch idle blocked call=230:0
                    20 c0 client switch idle blocked call=45:4
                    520 c0 idle/timer waking client
                    520 c0 idle switch client
                    520 c0 client switch idle blocked call=45:3
                    {first} c0 idle/timer waking client
                    {first} c0 idle switch client
                    {first} c0 client switch idle blocked call=45:5
                    {first} c1 idle/timer waking server
                    {first} c1 idle switch server
                    {second} c0 idle/timer waking client
                    {second} c0 idle switch client
                    1100 c0 client stopped"
                ),
                "",
                &[],
            )
        };
        assert_eq!(several(300, 201), "[20], Slept 230");
        assert_eq!(several(201, 300), "[20], Ran");
        assert_eq!([several(250, 250), several(251, 250)], ["", "[20], Slept 230"]);
        assert_eq!(several(200, 200), "[40], Slept 230");
    }

    #[test]
    fn the_one_that_wrote_data_held_back_did_nothing_wrong_meanwhile() {
        let held = "
            thread client tid=10
            thread server tid=20
            flow there 127.0.0.1:40000 > 127.0.0.1:80
            flow back 127.0.0.1:80 > 127.0.0.1:40000
            0 c0 idle started
            0 c0 idle switch client
            0 c1 idle switch server
            1 c0 client out there seq=1 ack=1 flags=18
            5 c1 server out back seq=1 len=4
            6 c1 server/net_rx in back seq=1 len=4
            7 c1 server DOES
            30 c0 client switch idle blocked call=45:3
            1000 c0 idle/soft_timer out there seq=2 ack=5 flags=16
            1001 c0 idle/net_rx in there seq=2 ack=5 flags=16
            1002 c0 idle/net_rx out back seq=5 len=4 flags=16400
            1003 c0 idle/net_rx in back seq=5 len=4 flags=16400
            1004 c0 idle/net_rx waking client
            1010 c0 idle switch client
            1100 c0 client stopped";
        assert_eq!(words(held, SLEEPS, &[(500, "connected 20")]), "[20] Connected seen 500, ?");
    }

    #[test]
    fn a_process_of_one_thread_at_the_time_may_have_had_others() {
        let with = |thread: &str, events: &str| {
            let events = format!("0 c0 idle started\n{events}");
            let trace = SYN
                .replace("flow there", &format!("{thread}\nflow there"))
                .replace("0 c0 idle started", &events);
            words(&trace, SLEEPS, &[(500, "listening 20")])
        };
        let only = "[20] Listening seen 500 unaccepted, Slept 230";
        let old = "0 c2 idle switch old\n4 c2 old exit\n4 c2 old switch idle dead";
        assert_eq!(with("thread old tid=21 tgid=20", old), only);
        let trace = SYN.replace(
            "1040 c0 idle switch client",
            "1040 c0 idle switch client\n1041 c1 idle/timer waking server\n1041 c1 idle switch server\n\
             1042 c1 server fork young tid=22 tgid=20\n1043 c1 server waking young newborn",
        );
        assert_eq!(words(&trace, SLEEPS, &[(500, "listening 20")]), only);
    }

    #[test]
    fn an_answer_in_time_leaves_nobody_to_blame() {
        let answered = RECEIVE.replace(
            "1030 c0 idle/timer waking client",
            "1028 c1 server out back seq=5 len=4\n1029 c1 server/net_rx in back seq=5 len=4\n1030 c1 server/net_rx waking client",
        );
        assert_eq!(words(&answered, "rename server s", &[(500, "connected 20")]), "");
    }
}
