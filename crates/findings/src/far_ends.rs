//! Waits without an end, and the processes able to end them, from the asked thread to the last known process.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Hang, hangs};
use wakepath_event::{Call, Tid};
use wakepath_loaded::{FarEndKind, FarEnds, Name, Recorded};
use wakepath_wait_graph::ThreadIndex;

use crate::deaths;

/// The way from a waiting thread to a process able to end its wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// Known from the recording's start.
    AtStart(FarEndKind),
    /// The thread waits for its child's end.
    Child,
    /// A part of the kernel, and the place among [`OpenEnd::kernel`] where its function stands.
    Kernel(KernelPart, usize),
}

/// A silent part of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KernelPart {
    /// A network file system: its server.
    NetworkFiles,
    /// A frozen file system.
    FrozenFiles,
    /// A file system's journal.
    Journal,
    /// A block device, or a file system for it.
    Device,
}

impl KernelPart {
    /// The part with this function; `None` if many parts have it.
    fn with(function: &str) -> Option<Self> {
        const NETWORK: [&str; 8] = ["nfs", "rpc_wait", "__rpc_", "cifs_", "smb2_", "ceph_", "p9_", "v9fs_"];
        const JOURNAL: [&str; 4] = ["jbd2_", "xfs_log_", "xlog_", "wait_transaction_locked"];
        const DEVICE: [&str; 6] =
            ["blk_mq_", "blkdev_", "submit_bio_wait", "dm_", "__wait_on_buffer", "filemap_read"];
        const FROZEN: [&str; 3] = ["__sb_start_write", "sb_start_write", "mnt_want_write"];
        let begins = |names: &[&str]| names.iter().any(|name| function.starts_with(name));
        match function {
            _ if begins(&NETWORK) => Some(Self::NetworkFiles),
            _ if begins(&FROZEN) => Some(Self::FrozenFiles),
            _ if begins(&JOURNAL) => Some(Self::Journal),
            _ if begins(&DEVICE) => Some(Self::Device),
            _ => None,
        }
    }

    /// The part for which a thread waits in these functions, innermost first. A network file system or a journal goes first,
    /// since the innermost functions wait for anything.
    fn among(functions: &[Box<str>]) -> Option<(Self, usize)> {
        // A write to a file system begins with a lock that a freeze holds; other parts of the kernel have such locks, too.
        let is_locked = functions.first().is_some_and(|function| function.starts_with("percpu_"));
        let found = functions.iter().enumerate();
        let found = found.filter_map(|(place, function)| Some((Self::with(function)?, place)));
        found.filter(|(part, _)| is_locked || *part != Self::FrozenFiles).min()
    }
}

/// An open wait, and its possible ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenEnd {
    /// The wait.
    pub hang: Hang,
    /// The processes able to end it, by the way; never empty.
    pub ends: Vec<(Way, Vec<Tid>)>,
    /// Neither another process nor a time-out could end it.
    pub are_all: bool,
    /// The kernel's functions in which it was blocked at the start, innermost first, where its call says too little.
    pub kernel: Vec<Box<str>>,
    /// The file to be opened, without its path.
    pub file: Option<Name>,
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
    /// Nothing but a signal could end the circle: since the start, each process in it has a single thread, which waits, and no
    /// other process could end the wait before.
    pub is_deadlock: bool,
}

/// The most processes looked at for the end of a wait.
const MAX_ENDS: usize = 8;

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
    let links = vec![open_end(recorded, first, at)?];
    let mut chain = OpenChain { links, last: None, is_circle: false, is_deadlock: false };
    while let Some(next) = chain.links.last().and_then(|wait| only_process(recorded, open, wait, at)) {
        if let Some(first) = chain.links.iter().position(|wait| process(wait.hang.thread) == Some(next)) {
            let is_bound = |wait: &OpenEnd| {
                wait.are_all
                    && wait.ends.iter().all(|(_, processes)| processes.len() == 1)
                    && wait.hang.began_before
                    && process(wait.hang.thread).is_some_and(|process| is_alone(recorded, process))
            };
            chain.is_circle = true;
            chain.is_deadlock = chain.links[first..].iter().all(is_bound);
            break;
        }
        // The main thread's wait speaks for the process only if the process has no other thread.
        let is_alone = is_alone(recorded, next);
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

/// Whether a process has a single living thread.
fn is_alone(recorded: &Recorded, process: Tid) -> bool {
    let graph = recorded.graph();
    let threads =
        graph.threads().filter(|(other, thread)| thread.tgid() == Some(process) && !graph.has_died(*other));
    threads.count() == 1
}

/// The only process able to end a wait. Among several, a parent waiting for its child does nothing before.
fn only_process(recorded: &Recorded, open: &[Hang], wait: &OpenEnd, at: Stamp<Reference>) -> Option<Tid> {
    let [(_, processes)] = wait.ends.as_slice() else { return None };
    let waits_for_another = |process: Tid| {
        let leader = recorded.leader(process, at);
        let waits = open.iter().find(|hang| Some(hang.thread) == leader).is_some_and(waits_for_children);
        if !waits || !is_alone(recorded, process) {
            return false;
        }
        let children = living_children(recorded, process);
        !children.is_empty() && children.iter().all(|child| processes.contains(child))
    };
    if processes.len() > MAX_ENDS {
        return None;
    }
    let mut others = processes.iter().filter(|process| !waits_for_another(**process));
    match (others.next(), others.next()) {
        (Some(process), None) => Some(*process),
        _ => None,
    }
}

pub(crate) fn waits_for_children(hang: &Hang) -> bool {
    hang.call.is_some_and(|call| Call::CHILD_WAITS.contains(&call.number))
}

/// The processes able to end a wait; `None` if none are known.
fn open_end(recorded: &Recorded, hang: Hang, at: Stamp<Reference>) -> Option<OpenEnd> {
    let thread = recorded.thread_at(hang.thread, at);
    let (mut are_all, mut kernel, mut file) = (false, Vec::new(), None);
    let ends: Vec<(Way, Vec<Tid>)> = match hang.call.map(|call| call.number) {
        Some(_) if waits_for_children(&hang) => {
            // A timer of its own may end the wait.
            are_all = recorded.names().far_ends(thread.tid).is_none_or(|ends| ends.ends.is_empty());
            let children = living_children(recorded, thread.tgid?);
            (!children.is_empty()).then_some((Way::Child, children)).into_iter().collect()
        }
        // The ends were looked up at the start. A later wait in the same call has the same ends, but not an event loop's.
        Some(number) if Call::EPOLLS.contains(&number) && !hang.began_before => Vec::new(),
        Some(_) => {
            let ends = recorded.names().far_ends(thread.tid).filter(|ends| is_same_call(ends, &hang));
            let found = ends.filter(|ends| ends.kernel.is_empty() || hang.began_before)?;
            (are_all, kernel, file) = (found.are_all, found.kernel, found.file);
            let part = KernelPart::among(&kernel).filter(|_| found.ends.is_empty());
            let part = part.map(|(part, place)| (Way::Kernel(part, place), Vec::new()));
            found.ends.into_iter().map(|end| (Way::AtStart(end.kind), end.processes)).chain(part).collect()
        }
        None => Vec::new(),
    };
    let ends = without_own(recorded, thread.tgid, ends);
    (!ends.is_empty()).then_some(OpenEnd { hang, ends, are_all, kernel, file })
}

/// The ends without those of the waiting process alone, if there are others: its only thread waits, and writes to itself no more.
fn without_own(
    recorded: &Recorded,
    own: Option<Tid>,
    mut ends: Vec<(Way, Vec<Tid>)>,
) -> Vec<(Way, Vec<Tid>)> {
    let Some(own) = own.filter(|own| is_alone(recorded, *own)) else { return ends };
    let is_own = |(_, processes): &(Way, Vec<Tid>)| processes.as_slice() == [own];
    if !ends.iter().all(is_own) {
        ends.retain(|end| !is_own(end));
    }
    ends
}

/// Whether a wait is in the call with these far ends. A record of poll has its set in place of an argument.
fn is_same_call(ends: &FarEnds, hang: &Hang) -> bool {
    hang.call.is_some_and(|call| {
        call.number == ends.call && (Call::POLLS.contains(&call.number) || call.arg0 == ends.argument)
    })
}

/// A process's children, alive at the recording's end.
fn living_children(recorded: &Recorded, process: Tid) -> Vec<Tid> {
    let children = deaths::children(recorded, process);
    children.filter(|(index, _)| !recorded.graph().has_died(*index)).map(|(_, thread)| thread.tid()).collect()
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

    /// The chain from thread 10 or 20, as text: `10 child 20; 20 readers 30; last 30`. Names begin with the call's number,
    /// if that is not 1, and with `all` where nothing else could end the wait: `0 all writers 10`.
    fn words(trace: &str, names: &[(u32, &str)], tid: u32) -> String {
        let mut events = wakepath_scenario::text::parse(trace).expect("a trace").events;
        let place = events.len() - 1;
        let names = names.iter().map(|&(tid, text)| {
            let (call, text) = text.strip_prefix("0 ").map_or((1, text), |text| (0, text));
            let (all, text) = text.strip_prefix("all ").map_or(("", text), |text| (" all", text));
            let text = format!("call {call} {call:#x}{all}\n{text}");
            event(0, 0, 0, EventKind::Name(NameSpace::FarEnd, tid.into(), text.into_bytes().into()))
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
                text.push(String::from(if chain.is_deadlock { "deadlock" } else { "circle" }));
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
    fn a_circle_that_nothing_else_could_end_since_the_start_is_a_deadlock() {
        let deadlock = "10 Child [20]; 20 AtStart(Readers) [10]; deadlock";
        let circle = "10 Child [20]; 20 AtStart(Readers) [10]; circle";
        let bound = [(20, "all readers 10")];
        assert_eq!(words(TRACE, &bound, 10), deadlock);
        assert_eq!(words(TRACE, &bound, 20), "20 AtStart(Readers) [10]; 10 Child [20]; deadlock");
        assert_eq!(words(TRACE, &[(20, "readers 10")], 10), circle, "a named pipe, or a time-out");
        // It ran in between: its children and files are not those of the start.
        let ran = |thread: &str, call: &str| {
            let run = format!(
                "0 c0 idle started\n100 c0 idle switch {thread}\n120 c0 {thread} switch idle blocked call={call}"
            );
            TRACE.replace("0 c0 idle started", &run)
        };
        assert_eq!(
            [words(&ran("cat", "1:1"), &bound, 10), words(&ran("sh", "61:0"), &bound, 10)],
            [circle; 2]
        );
        // Another thread may read, or wait for the child.
        for process in [10, 20] {
            let another = format!(
                "thread another tid=99 tgid={process} blocked=interruptible call=202:0x1000\n0 c0 idle started"
            );
            let text = words(&TRACE.replace("0 c0 idle started", &another), &bound, 10);
            assert!(!text.contains("deadlock"), "{process}: {text}");
        }
        // Another child may end.
        let two = TRACE.replace("tid=30", "tid=30 parent=10");
        assert_eq!(words(&two, &bound, 10), "10 Child [20, 30]");
    }

    #[test]
    fn a_wait_for_a_deadlock_of_others_is_a_deadlock_and_so_is_one_with_itself() {
        let trace = "
            thread log tid=5 blocked=interruptible call=0:0
            thread sh tid=10 blocked=interruptible call=61:0
            thread cat tid=20 parent=10 blocked=interruptible call=1:1
            0 c0 idle started
            1000 c0 idle stopped
        ";
        let ends = [(5, "0 writers 10"), (20, "all readers 10")];
        assert_eq!(
            words(trace, &ends, 5),
            "5 AtStart(Writers) [10]; 10 Child [20]; 20 AtStart(Readers) [10]; deadlock"
        );
        assert_eq!(words(trace, &[(5, "0 all writers 5")], 5), "5 AtStart(Writers) [5]; deadlock");
        assert_eq!(words(trace, &[(5, "0 all writers 5 20"), ends[1]], 5), "5 AtStart(Writers) [5, 20]");
    }

    #[test]
    fn an_end_of_the_waiting_process_itself_is_none_beside_others_if_its_only_thread_waits() {
        let both = [(20, "peer 30\npeer 20")];
        assert_eq!(words(TRACE, &both, 20), "20 AtStart(Peer) [30]; last 30 waits");
        let more = TRACE.replace(
            "0 c0 idle started",
            "thread more tid=21 tgid=20 blocked=interruptible call=230:0\n0 c0 idle started",
        );
        assert_eq!(words(&more, &both, 20), "20 AtStart(Peer) [30], AtStart(Peer) [20]");
        assert_eq!(words(TRACE, &[(20, "peer 20")], 20), "20 AtStart(Peer) [20]; circle");
    }

    #[test]
    fn among_two_processes_the_child_counts_if_the_other_waits_for_it() {
        let trace = "
            thread waiter tid=5 blocked=interruptible call=1:1
            thread flock tid=10 blocked=interruptible call=61:0
            thread sleep tid=20 parent=10 blocked=interruptible call=230:0
            0 c0 idle started
            1000 c0 idle stopped
        ";
        let both = [(5, "all holder 10 20")];
        assert_eq!(words(trace, &both, 5), "5 AtStart(Holder) [10, 20]; last 20 waits");
        let open = trace.replace("call=61:0", "call=0:0");
        assert_eq!(words(&open, &both, 5), "5 AtStart(Holder) [10, 20]");
        let more = |thread: &str| {
            trace.replace("0 c0 idle started", &format!("thread more {thread}\n0 c0 idle started"))
        };
        for thread in [
            "tid=11 tgid=10 blocked=interruptible call=0:0",
            "tid=21 parent=10 blocked=interruptible call=0:0",
        ] {
            let expected = "5 AtStart(Holder) [10, 20]";
            assert_eq!(
                words(&more(thread), &both, 5),
                expected,
                "its other thread or child may act: {thread}"
            );
        }
        let of_another = trace.replace("parent=10", "parent=1");
        assert_eq!(words(&of_another, &both, 5), "5 AtStart(Holder) [10, 20]");
        // Its child waits for the first: either of the two could let go of the lock.
        let circle = trace.replace("call=230:0", "call=0:0");
        let ends = [both[0], (20, "0 all writers 5")];
        assert_eq!(words(&circle, &ends, 5), "5 AtStart(Holder) [10, 20]; 20 AtStart(Writers) [5]; circle");
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
    fn the_kernels_functions_say_for_what_a_wait_is_that_began_before_the_recording() {
        let part = |text: &str| {
            let functions: Vec<Box<str>> = text.split(' ').map(Box::from).collect();
            KernelPart::among(&functions)
        };
        use KernelPart::{Device, FrozenFiles, Journal, NetworkFiles};
        for (functions, expected) in [
            ("io_schedule folio_wait_bit_common filemap_read ext4_file_read_iter", Some((Device, 2))),
            ("io_schedule folio_wait_bit_common shmem_fault", None),
            ("io_schedule folio_wait_bit_common nfs_file_read", Some((NetworkFiles, 2))),
            (
                "rpc_wait_bit_killable __rpc_wait_for_completion_task nfs4_run_open_task",
                Some((NetworkFiles, 0)),
            ),
            ("percpu_rwsem_wait __percpu_down_read mnt_want_write do_sys_openat2", Some((FrozenFiles, 2))),
            ("percpu_rwsem_wait __percpu_down_read cpus_read_lock", None),
            ("io_schedule balance_dirty_pages mnt_want_write", None),
            ("percpu_rwsem_wait __percpu_down_read cgroup_css_set_fork copy_process", None),
            ("jbd2_log_wait_commit ext4_sync_file do_fsync", Some((Journal, 0))),
            ("io_schedule blk_mq_get_tag jbd2_journal_commit_transaction", Some((Journal, 2))),
            ("submit_bio_wait blkdev_issue_flush", Some((Device, 0))),
            ("pipe_read vfs_read ksys_read", None),
            ("", None),
        ] {
            assert_eq!(part(functions), expected, "{functions}");
        }
        let waits = "kernel io_schedule blk_mq_get_tag";
        assert_eq!(words(TRACE, &[(20, waits)], 20), "20 Kernel(Device, 1) []");
        assert_eq!(words(TRACE, &[(20, "kernel do_dentry_open")], 20), "", "it may be anything");
        let ran = "0 c0 idle started\n100 c0 idle switch cat\n120 c0 cat switch idle blocked call=1:1";
        assert_eq!(words(&TRACE.replace("0 c0 idle started", ran), &[(20, waits)], 20), "", "another wait");
        let both = "readers 30\nkernel io_schedule blk_mq_get_tag";
        assert_eq!(words(TRACE, &[(20, both)], 20), "20 AtStart(Readers) [30]; last 30 waits");
        let asked = "daemon 30\nkernel request_wait_answer fuse_simple_request";
        assert_eq!(words(TRACE, &[(20, asked)], 20), "20 AtStart(Daemon) [30]; last 30 waits");
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
