//! Waits without an end, and the processes able to end them, from the asked thread to the last known process.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Hang, hangs};
use wakepath_event::{Call, Tid};
use wakepath_loaded::{FarEndKind, FarEnds, Recorded};
use wakepath_wait_graph::ThreadIndex;

/// The way from a waiting thread to a process able to end its wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// Known from the recording's start.
    AtStart(FarEndKind),
    /// The thread waits for its child's end.
    Child,
}

/// An open wait, and its possible ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenEnd {
    /// The wait.
    pub hang: Hang,
    /// The processes able to end it, by the way; never empty.
    pub ends: Vec<(Way, Vec<Tid>)>,
}

/// The open waits from an asked thread on: each is in the only process able to end the wait before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenChain {
    /// The waits; never empty, the first is the asked thread's.
    pub links: Vec<OpenEnd>,
    /// The only process able to end the last wait, if it waits for nothing known: its open wait, if any.
    pub last: Option<(Tid, Option<Hang>)>,
    /// The last wait is for a process in the chain, which waits already.
    pub is_circle: bool,
}

/// The most waits in a chain.
const MAX_WAITS: usize = 6;

/// The chains from these threads' waits at the recording's end, longest wait first. Threads without a known end are left
/// out.
pub fn open_chains(recorded: &Recorded, threads: &[ThreadIndex], at: Stamp<Reference>) -> Vec<OpenChain> {
    // A wait is open at the recording's end, and at no earlier time.
    if at < recorded.to().min(recorded.graph().to()) {
        return Vec::new();
    }
    let open = hangs(recorded.graph());
    let asked = open.iter().filter(|hang| threads.contains(&hang.thread));
    asked.filter_map(|hang| chain(recorded, &open, hang.clone(), at)).collect()
}

fn chain(recorded: &Recorded, open: &[Hang], first: Hang, at: Stamp<Reference>) -> Option<OpenChain> {
    let process = |thread| recorded.thread_at(thread, at).tgid;
    let mut chain = OpenChain { links: vec![open_end(recorded, first, at)?], last: None, is_circle: false };
    while let Some(next) = chain.links.last().and_then(only_process) {
        if chain.links.iter().any(|wait| process(wait.hang.thread) == Some(next)) {
            chain.is_circle = true;
            break;
        }
        // The main thread's wait speaks for the process only if the process has no other thread.
        let threads = recorded
            .graph()
            .threads()
            .filter(|(other, thread)| thread.tgid() == Some(next) && !recorded.graph().has_died(*other));
        let is_alone = threads.count() == 1;
        let waits =
            recorded.leader(next, at).and_then(|leader| open.iter().find(|hang| hang.thread == leader));
        let waits = waits.filter(|_| is_alone).cloned();
        match waits.clone().and_then(|hang| open_end(recorded, hang, at)) {
            Some(further) if chain.links.len() < MAX_WAITS => chain.links.push(further),
            _ => {
                chain.last = Some((next, waits));
                break;
            }
        }
    }
    Some(chain)
}

/// The only process able to end a wait.
fn only_process(wait: &OpenEnd) -> Option<Tid> {
    match wait.ends.as_slice() {
        [(_, processes)] => match processes.as_slice() {
            [process] => Some(*process),
            _ => None,
        },
        _ => None,
    }
}

/// The processes able to end a wait; `None` if none are known.
fn open_end(recorded: &Recorded, hang: Hang, at: Stamp<Reference>) -> Option<OpenEnd> {
    const WAIT4: u32 = 61;
    const WAITID: u32 = 247;
    let thread = recorded.thread_at(hang.thread, at);
    let ends: Vec<(Way, Vec<Tid>)> = match hang.call.map(|call| call.number) {
        Some(WAIT4 | WAITID) => {
            let children = children(recorded, thread.tgid?);
            (!children.is_empty()).then_some((Way::Child, children)).into_iter().collect()
        }
        // The ends were looked up at the start. A later wait in the same call has the same ends, but not an event loop's.
        Some(number) if Call::EPOLLS.contains(&number) && !hang.began_before => Vec::new(),
        Some(_) => {
            let ends = recorded.names().far_ends(thread.tid).filter(|ends| is_same_call(ends, &hang));
            let ends = ends.into_iter().flat_map(|ends| ends.ends);
            ends.map(|end| (Way::AtStart(end.kind), end.processes)).collect()
        }
        None => Vec::new(),
    };
    (!ends.is_empty()).then_some(OpenEnd { hang, ends })
}

/// Whether a wait is in the call with these far ends. A record of poll has its set in place of an argument.
fn is_same_call(ends: &FarEnds, hang: &Hang) -> bool {
    hang.call.is_some_and(|call| {
        call.number == ends.call && (Call::POLLS.contains(&call.number) || call.arg0 == ends.argument)
    })
}

/// A process's children, alive at the recording's end.
fn children(recorded: &Recorded, process: Tid) -> Vec<Tid> {
    let graph = recorded.graph();
    let is_child = |(index, thread): &(ThreadIndex, &wakepath_wait_graph::Thread)| {
        thread.tgid() == Some(thread.tid())
            && !graph.has_died(*index)
            && thread.identity.as_ref().is_some_and(|identity| identity.parent == process)
    };
    graph.threads().filter(is_child).map(|(_, thread)| thread.tid()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_event::{EventKind, NameSpace};
    use wakepath_loaded::testing::{event, read};

    /// A shell waits for its child, which writes to a full pipe; another process sleeps.
    const TRACE: &str = "
        thread sh tid=10 blocked=interruptible call=61:0
        thread cat tid=20 parent=10 blocked=interruptible call=1:1
        thread sleeper tid=30 blocked=interruptible call=230:0
        0 c0 idle started
        1000 c0 idle stopped
    ";

    /// The chain from thread 10 or 20, as text: `10 child 20; 20 readers 30; last 30`.
    fn words(trace: &str, names: &[(u32, &str)], tid: u32) -> String {
        let mut events = wakepath_scenario::text::parse(trace).expect("a trace").events;
        let place = events.len() - 1;
        let names = names.iter().map(|&(tid, text)| {
            event(
                0,
                0,
                0,
                EventKind::Name(
                    NameSpace::FarEnd,
                    tid.into(),
                    format!("call 1 0x1\n{text}").into_bytes().into(),
                ),
            )
        });
        events.splice(place..place, names);
        let recorded = read(&events);
        let asked = recorded.with_tid(Tid(tid)).to_vec();
        let chains = open_chains(&recorded, &asked, recorded.to());
        let number = |thread| recorded.graph().thread(thread).tid().0;
        let chain = chains.iter().map(|chain| {
            let mut text: Vec<String> = chain
                .links
                .iter()
                .map(|wait| {
                    let ends: Vec<String> = wait
                        .ends
                        .iter()
                        .map(|(way, all)| {
                            let all: Vec<u32> = all.iter().map(|process| process.0).collect();
                            format!("{way:?} {all:?}")
                        })
                        .collect();
                    format!("{} {}", number(wait.hang.thread), ends.join(", "))
                })
                .collect();
            if let Some((process, hang)) = &chain.last {
                text.push(format!("last {process} {}", if hang.is_some() { "waits" } else { "not known" }));
            }
            if chain.is_circle {
                text.push(String::from("circle"));
            }
            text.join("; ")
        });
        chain.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn a_chain_leads_from_the_asked_thread_to_the_last_process_known() {
        let readers = [(20, "readers 30")];
        assert_eq!(words(TRACE, &readers, 10), "10 Child [20]; 20 AtStart(Readers) [30]; last 30 waits");
        assert_eq!(words(TRACE, &readers, 20), "20 AtStart(Readers) [30]; last 30 waits");
        assert_eq!(words(TRACE, &[], 20), "", "nothing is known");
        assert_eq!(words(TRACE, &[], 10), "10 Child [20]; last 20 waits");
        assert_eq!(words(TRACE, &readers, 30), "", "it waits for a timer");
    }

    #[test]
    fn a_circle_ends_where_it_began_and_several_processes_end_a_chain() {
        assert_eq!(
            words(TRACE, &[(20, "readers 10")], 10),
            "10 Child [20]; 20 AtStart(Readers) [10]; circle"
        );
        assert_eq!(words(TRACE, &[(20, "readers 10 30")], 10), "10 Child [20]; 20 AtStart(Readers) [10, 30]");
        let two = "readers 10\npeer 30";
        assert_eq!(
            words(TRACE, &[(20, two)], 20),
            "20 AtStart(Readers) [10], AtStart(Peer) [30]",
            "poll waits for any of them"
        );
        assert_eq!(words(TRACE, &[(20, "writers")], 20), "20 AtStart(Writers) []", "nobody");
        assert_eq!(words(TRACE, &[(20, "readers 77")], 20), "20 AtStart(Readers) [77]; last 77 not known");
    }

    #[test]
    fn a_process_of_several_threads_says_nothing_by_its_main_thread() {
        let more = TRACE.replace(
            "0 c0 idle started",
            "thread pool tid=31 tgid=30 blocked=interruptible call=202:0x1000\n0 c0 idle started",
        );
        assert_eq!(words(&more, &[(20, "peer 30")], 20), "20 AtStart(Peer) [30]; last 30 not known");
    }

    #[test]
    fn a_later_wait_has_the_far_ends_of_the_same_call_alone() {
        let later = |call: &str| {
            TRACE
                .replace("0 c0 idle started", "0 c0 idle started\n100 c0 idle switch cat\nLEAVES")
                .replace("LEAVES", &format!("120 c0 cat switch idle blocked call={call}"))
        };
        let after = |call| words(&later(call), &[(20, "readers 30")], 20);
        assert_eq!(after("1:1"), "20 AtStart(Readers) [30]; last 30 waits");
        assert_eq!([after("1:2"), after("0:1")], ["", ""], "another descriptor, another call");
    }

    #[test]
    fn a_later_poll_has_the_far_ends_of_the_first_since_its_record_has_no_address() {
        let poll = TRACE.replace("call=1:1", "call=7:0x99");
        let events = |text: &str| {
            let mut events = wakepath_scenario::text::parse(&poll).expect("a trace").events;
            let place = events.len() - 1;
            let name = EventKind::Name(NameSpace::FarEnd, 20, text.as_bytes().into());
            events.insert(place, event(0, 0, 0, name));
            read(&events)
        };
        let count = |recorded: &Recorded, to: u64| {
            open_chains(recorded, recorded.with_tid(Tid(20)), Stamp::from_ns(to)).len()
        };
        let [polled, other] = ["call 7 0x7ffd\npeer 30", "call 271 0x7ffd\npeer 30"].map(events);
        assert_eq!([count(&polled, 1000), count(&other, 1000)], [1, 0]);
        assert_eq!(count(&polled, 999), 0, "nothing is open before the end");
    }

    #[test]
    fn an_event_loop_waits_for_the_ends_in_its_set_until_its_first_wake_up() {
        let epoll = TRACE.replace("call=1:1", "call=232:1");
        let words = |trace: &str| {
            let mut events = wakepath_scenario::text::parse(trace).expect("a trace").events;
            let place = events.len() - 1;
            let name = EventKind::Name(NameSpace::FarEnd, 20, b"call 232 0x1\npeer 30".as_slice().into());
            events.insert(place, event(0, 0, 0, name));
            let recorded = read(&events);
            open_chains(&recorded, recorded.with_tid(Tid(20)), recorded.to()).len()
        };
        assert_eq!(words(&epoll), 1);
        let later = "0 c0 idle started\n100 c0 idle switch cat\n120 c0 cat switch idle blocked call=232:1";
        assert_eq!(words(&epoll.replace("0 c0 idle started", later)), 0, "it may wait for others by now");
    }

    #[test]
    fn something_without_a_known_end_leaves_no_process_that_alone_could_end_the_wait() {
        assert_eq!(words(TRACE, &[(20, "peer 30\nother")], 20), "20 AtStart(Peer) [30], AtStart(Other) []");
    }

    #[test]
    fn a_child_that_ended_is_waited_for_no_more() {
        let ended = TRACE.replace(
            "0 c0 idle started",
            "0 c0 idle started\n10 c0 sleeper waking cat\n20 c0 idle switch cat\n30 c0 cat exit\n40 c0 cat switch idle dead",
        );
        assert_eq!(words(&ended, &[], 10), "");
    }

    #[test]
    fn a_chain_has_six_waits_at_most() {
        let threads: String =
            (10..20).map(|tid| format!("thread t{tid} tid={tid} blocked=interruptible call=1:1\n")).collect();
        let trace = format!("{threads}0 c0 idle started\n1000 c0 idle stopped\n");
        let next: Vec<String> = (11..21).map(|tid| format!("readers {tid}")).collect();
        let names: Vec<(u32, &str)> = (10..).zip(next.iter().map(String::as_str)).collect();
        let text = words(&trace, &names, 10);
        assert_eq!(text.split("; ").count(), MAX_WAITS + 1, "{text}");
        assert!(text.ends_with("last 16 waits"), "{text}");
    }
}
