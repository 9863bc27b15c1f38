//! The processes able to end the waits in which the asked processes already are: those at the other end of a pipe, of a
//! FIFO, of a unix socket or of a connection within this host, and the holder of a file's lock.
//!
//! Read once, at the start, while this process still has the rights: a wait that goes on to the end has no event. One
//! pass over all processes' descriptors finds all the ends, and where a unix socket is awaited, a second one. It takes a
//! microsecond for each descriptor, is given up when it took [`MAX_CPU`] or [`MAX_TIME`], and changes nothing in any process.

mod waiting;

use std::cell::{Cell, LazyCell};
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use wakepath_event::NameSpace;
use wakepath_process::{OpenedObject, Process, processes, sees_all_processes};

use crate::file_locks::{FileLock, awaited_lock};
use crate::names::Name;
use crate::sockets::OpenSocket;
use waiting::{Awaited, Waiting, waits};

/// The CPU time after which the search is given up.
const MAX_CPU: Duration = Duration::from_millis(200);
/// The same by the clock: on a busy machine the command, or the recording, waits for the search.
const MAX_TIME: Duration = Duration::from_secs(1);
/// The processes whose waits are looked at: the asked processes, and those at the other ends.
const MAX_PROCESSES: usize = 64;

/// All processes' unix sockets, searched at the first call; `None` if the search was given up.
type UnixSockets<'a> = &'a dyn Fn() -> Option<&'a [OpenSocket]>;

/// The far ends of the waits in which these processes are, and of the waits of the processes there.
///
/// `sockets` finds all processes' sockets within a time, if it can.
pub(crate) fn far_ends(targets: &[u32], sockets: impl Fn(Duration) -> Option<Vec<OpenSocket>>) -> Vec<Name> {
    let budget = Budget::new(MAX_CPU, MAX_TIME);
    let mut names = Vec::new();
    let mut asked: Vec<u32> = targets.to_vec();
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    let mut table = None;
    let unix = LazyCell::new(|| {
        let found = sockets(budget.left())?;
        Some(found.into_iter().filter(OpenSocket::is_unix).collect::<Vec<_>>())
    });
    while let Some(pid) = asked.pop() {
        if seen.len() >= MAX_PROCESSES || !seen.insert(pid) {
            continue;
        }
        let Ok(process) = Process::open(pid) else { continue };
        asked.extend(process.children());
        for Waiting { tid, call, awaited, kernel, file } in waits(&process, &|| budget.is_spent()) {
            // Most processes wait for nothing that another process gives: then nothing is searched.
            let is_named = |object: OpenedObject| !object.is_socket && !object.is_unnamed();
            let has_named = awaited.iter().any(|one| one.object().is_some_and(is_named));
            if has_named && matches!(&table, Some(Some(Table { has_named: false, .. }))) {
                table = None;
            }
            let (lines, are_all) = match &awaited[..] {
                [] => (Vec::new(), false),
                _ => match table.get_or_insert_with(|| Table::read(has_named, || budget.is_spent())) {
                    None => (vec![String::from("unsearched")], false),
                    Some(table) => table.lines(&process, &awaited, &|| unix.as_deref(), &mut asked),
                },
            };
            let kernel = (!kernel.is_empty()).then(|| format!("kernel {}", kernel.join(" ")));
            let lines: Vec<String> = lines.into_iter().chain(kernel).collect();
            if !lines.is_empty() {
                let all = if call.has_time_out || !are_all { "" } else { " all" };
                let text = format!("call {} {:#x}{all}\n{}", call.number, call.argument, lines.join("\n"));
                let mut text = text.into_bytes();
                if let Some(file) = file {
                    text.push(0);
                    text.extend(file);
                }
                names.push((NameSpace::FarEnd, tid.into(), text.into()));
            }
        }
    }
    names
}

/// The time for a search.
struct Budget {
    cpu: Duration,
    began: Instant,
    spent_cpu: Duration,
    time: Duration,
    asked: Cell<u32>,
    is_spent: Cell<bool>,
}

impl Budget {
    /// The CPU's clock takes as long as the work between a few questions.
    const EVERY: u32 = 16;

    fn new(cpu: Duration, time: Duration) -> Self {
        let (began, spent_cpu) = (Instant::now(), cpu_time());
        Self { cpu, began, spent_cpu, time, asked: Cell::new(0), is_spent: Cell::new(false) }
    }

    fn left(&self) -> Duration {
        let cpu = self.cpu.saturating_sub(cpu_time().saturating_sub(self.spent_cpu));
        cpu.min(self.time.saturating_sub(self.began.elapsed()))
    }

    /// Whether nothing is left; looked at every few questions.
    fn is_spent(&self) -> bool {
        self.asked.set(self.asked.get().wrapping_add(1));
        if self.asked.get() % Self::EVERY == 1 && !self.is_spent.get() {
            self.is_spent.set(self.left().is_zero());
        }
        self.is_spent.get()
    }
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// All processes' pipes and sockets.
struct Table<E> {
    /// The processes and descriptors that have an object open.
    open: HashMap<OpenedObject, Vec<(u32, u32)>>,
    /// The kernel's list of locks.
    locks: String,
    /// Has FIFOs.
    has_named: bool,
    /// All processes were seen, and all their descriptors.
    is_complete: bool,
    /// Says when a search has to be given up.
    is_enough: E,
}

/// The processes able to give an awaited thing.
struct FarEnd {
    kind: &'static str,
    processes: BTreeSet<u32>,
    /// No other process can, nor can another get to it.
    are_all: bool,
}

impl<E: Fn() -> bool> Table<E> {
    /// `None` if `is_enough` says so first.
    fn read(has_named: bool, is_enough: E) -> Option<Self> {
        let mut open: HashMap<OpenedObject, Vec<(u32, u32)>> = HashMap::new();
        // A process in another PID namespace may not be seen from within one.
        let mut is_complete = sees_all_processes();
        for pid in processes() {
            if is_enough() {
                return None;
            }
            // Others end meanwhile.
            let Ok(process) = Process::open(pid) else { continue };
            let opened = process.opened(has_named, &is_enough).unwrap_or_default();
            // A process whose first thread has ended shows no descriptors, and its other threads have some.
            let shows_none = opened.is_empty() && process.descriptor_count().is_ok_and(|count| count == 0);
            is_complete &= !shows_none || process.tasks().is_ok_and(|tasks| tasks.len() <= 1);
            for one in opened {
                open.entry(one.object).or_default().push((pid, one.number));
            }
        }
        if is_enough() {
            return None;
        }
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        Some(Self { open, locks, has_named, is_complete, is_enough })
    }

    /// A line for each awaited thing about the processes that could end the wait, which are added to `asked`; and a line
    /// `other`, if there is more. None if no such process is known. Also whether no other process could end the wait.
    fn lines(
        &self,
        process: &Process,
        awaited: &[Awaited],
        unix: UnixSockets<'_>,
        asked: &mut Vec<u32>,
    ) -> (Vec<String>, bool) {
        let far_ends = awaited.iter().map(|one| self.far_end(process, *one, unix));
        let far_ends: Vec<Option<FarEnd>> = far_ends.collect();
        let are_all = far_ends.iter().all(|end| end.as_ref().is_some_and(|end| end.are_all));
        let has_other = far_ends.iter().any(Option::is_none);
        // `writers 31757 31760`
        let line = |FarEnd { kind, processes, .. }: FarEnd| {
            asked.extend(&processes);
            processes.iter().fold(String::from(kind), |line, pid| format!("{line} {pid}"))
        };
        let mut lines: Vec<String> = far_ends.into_iter().flatten().map(line).collect();
        if has_other && !lines.is_empty() {
            lines.push(String::from("other"));
        }
        (lines, are_all)
    }

    /// The processes able to give an awaited thing.
    fn far_end(&self, process: &Process, awaited: Awaited, unix: UnixSockets<'_>) -> Option<FarEnd> {
        let in_pipe = |kind, pipe: OpenedObject, processes| {
            let are_all = pipe.is_unnamed() && self.is_complete;
            FarEnd { kind, processes, are_all }
        };
        let unsearched = || FarEnd { kind: "unsearched", processes: BTreeSet::new(), are_all: false };
        Some(match awaited {
            Awaited::Bytes(pipe) => in_pipe("writers", pipe, self.ends(pipe, |access| access.writes)),
            Awaited::Room(pipe) => in_pipe("readers", pipe, self.ends(pipe, |access| access.reads)),
            Awaited::Answer(..) if (self.is_enough)() => unsearched(),
            Awaited::Answer(socket, reads) => {
                let tables = process.tcp_sockets().map(|table| table.unwrap_or_default());
                let (kind, processes) = match peer(&tables, socket.inode) {
                    Some((kind, inode)) => (kind, self.holders(OpenedObject { inode, ..socket })),
                    None => match unix() {
                        Some(sockets) => unix_peer(sockets, socket.inode, reads)?,
                        None => return Some(unsearched()),
                    },
                };
                FarEnd { kind, processes, are_all: false }
            }
            Awaited::Other => return None,
            Awaited::Timer => FarEnd { kind: "other", processes: BTreeSet::new(), are_all: false },
            // A process with the other end would have ended the wait.
            Awaited::Partner(writes) => {
                let kind = if writes { "writers" } else { "readers" };
                FarEnd { kind, processes: BTreeSet::new(), are_all: false }
            }
            Awaited::Daemon => FarEnd { kind: "daemon", processes: self.file_servers()?, are_all: false },
            Awaited::Lock => self.lock_holder(awaited_lock(&self.locks, process.pid())?)?,
        })
    }

    /// The processes with a lock.
    fn lock_holder(&self, lock: FileLock<'_>) -> Option<FarEnd> {
        // The kernel names the process by which the lock was taken: perhaps it ended, and left the lock to a child.
        // Its number may belong to another process by now.
        let named = lock.process;
        let has_it = |process: &Process| process.has_lock(lock.file, &self.is_enough).unwrap_or(false);
        let is_named = || Process::open(named).is_ok_and(|process| has_it(&process));
        let (processes, are_all) = match lock.is_flock.then(|| self.all(has_it)).flatten() {
            Some(holders) if !holders.is_empty() => (holders, self.is_complete),
            // A record lock belongs to a process.
            _ => (is_named().then_some(BTreeSet::from([named]))?, !lock.is_flock && self.is_complete),
        };
        Some(FarEnd { kind: "holder", processes, are_all })
    }

    /// The processes serving file systems in user space; `None` if the search is given up.
    fn file_servers(&self) -> Option<BTreeSet<u32>> {
        self.all(|process| process.serves_files(&self.is_enough).unwrap_or(false))
    }

    fn all(&self, is_one: impl Fn(&Process) -> bool) -> Option<BTreeSet<u32>> {
        let mut found = BTreeSet::new();
        for pid in processes() {
            if (self.is_enough)() {
                return None;
            }
            if Process::open(pid).is_ok_and(|process| is_one(&process)) {
                found.insert(pid);
            }
        }
        (!(self.is_enough)()).then_some(found)
    }

    fn holders(&self, object: OpenedObject) -> BTreeSet<u32> {
        self.open.get(&object).into_iter().flatten().map(|&(pid, _)| pid).collect()
    }

    /// The processes that have such an end of a pipe open.
    fn ends(&self, pipe: OpenedObject, is_end: impl Fn(wakepath_process::Access) -> bool) -> BTreeSet<u32> {
        let open = self.open.get(&pipe).into_iter().flatten();
        let has_it = |&&(pid, fd): &&(u32, u32)| {
            let access = Process::open(pid).and_then(|process| process.access(fd));
            access.ok().flatten().is_some_and(&is_end)
        };
        open.filter(has_it).map(|&(pid, _)| pid).collect()
    }
}

/// A row in the kernel's table of TCP sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TcpSocket<'a> {
    local: (&'a str, &'a str),
    remote: (&'a str, &'a str),
    listens: bool,
    inode: u64,
}

/// The rows in a table: `0: 0100007F:4675 0100007F:A2C4 01 00000000:00000000 00:00000000 00000000 0 0 31657 …`.
fn tcp_sockets(text: &str) -> impl Iterator<Item = TcpSocket<'_>> {
    text.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let mut end = || {
            let (address, port) = words.next()?.split_once(':')?;
            // An IPv4 address in IPv6 is the same address.
            Some((address.strip_prefix("0000000000000000FFFF0000").unwrap_or(address), port))
        };
        let (local, remote) = (end()?, end()?);
        let listens = words.next()? == "0A";
        let inode = words.nth(5)?.parse().ok()?;
        Some(TcpSocket { local, remote, listens, inode })
    })
}

/// The socket at the other end of a connection within this host; else, for a connection that no process has accepted
/// yet, the listening socket.
fn peer(tables: &[Vec<u8>; 2], inode: u64) -> Option<(&'static str, u64)> {
    let texts = tables.each_ref().map(|table| std::str::from_utf8(table).unwrap_or_default());
    let all: Vec<_> = texts.into_iter().flat_map(tcp_sockets).collect();
    let own = all.iter().find(|socket| socket.inode == inode)?;
    let other =
        all.iter().find(|other| !other.listens && (other.local, other.remote) == (own.remote, own.local));
    if let Some(other) = other.filter(|other| other.inode != 0) {
        return Some(("peer", other.inode));
    }
    let is_any = |address: &str| address.bytes().all(|byte| byte == b'0');
    let (address, port) = own.remote;
    let listens_there = |other: &&TcpSocket<'_>| {
        other.listens && other.local.1 == port && (other.local.0 == address || is_any(other.local.0))
    };
    all.iter().find(listens_there).map(|listener| ("listener", listener.inode))
}

/// The processes at a unix socket's other end: for bytes its senders, else its receiver. For a connection that no process
/// has accepted yet, those with the listening socket. `None` if anybody may send to it, or if nothing is known.
fn unix_peer(sockets: &[OpenSocket], inode: u64, reads: bool) -> Option<(&'static str, BTreeSet<u32>)> {
    const DATAGRAM: u8 = 2;
    let own = sockets.iter().find(|socket| socket.inode == inode)?;
    let those = |is_one: &dyn Fn(&OpenSocket) -> bool| -> BTreeSet<u32> {
        sockets.iter().filter(|socket| is_one(socket)).map(|socket| socket.process).collect()
    };
    if own.protocol == DATAGRAM && reads {
        let senders = those(&|other| other.peer_inode == inode);
        return (own.address == 0 && !senders.is_empty()).then_some(("peer", senders));
    }
    if own.peer_inode != 0 {
        return Some(("peer", those(&|other| other.inode == own.peer_inode)));
    }
    // A connection that waits to be accepted has the listening socket's name.
    let listens = |other: &OpenSocket| other.listens() && other.address == own.peer_address;
    (own.peer_address != 0).then(|| ("listener", those(&listens)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_within_the_host_has_a_peer_or_the_listener_that_did_not_accept_it() {
        let row = |local: &str, remote: &str, state: &str, inode: u64| {
            format!(
                "   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000  0  0 {inode} 1 0\n"
            )
        };
        let v4 = String::from("  sl  local_address\n")
            + &row("0100007F:A2C4", "0100007F:4675", "01", 11)
            + &row("0100007F:A2C5", "0100007F:4676", "01", 12)
            + &row("0100007F:4676", "0100007F:A2C5", "01", 0)
            + &row("0100007F:A2C6", "08080808:01BB", "01", 13)
            + &row("00000000:4676", "00000000:0000", "0A", 22);
        let v6 = String::from("  sl  local_address\n")
            + &row(
                "0000000000000000FFFF00000100007F:4675",
                "0000000000000000FFFF00000100007F:A2C4",
                "01",
                21,
            );
        let tables = [v4.into_bytes(), v6.into_bytes()];
        assert_eq!(peer(&tables, 11), Some(("peer", 21)), "IPv4 within IPv6");
        assert_eq!(peer(&tables, 21), Some(("peer", 11)));
        assert_eq!(peer(&tables, 12), Some(("listener", 22)), "nobody has accepted it");
        assert_eq!([peer(&tables, 13), peer(&tables, 22), peer(&tables, 99)], [None; 3]);
        assert_eq!(peer(&[b"\xff".to_vec(), b"a\nb c d e\n".to_vec()], 11), None);
    }

    #[test]
    fn a_unix_socket_has_the_processes_at_its_other_end_or_those_that_listen_for_it() {
        // Process, inode, the other end's inode, name, the other end's name, type, whether it listens.
        let sockets = [
            (1, 10, 11, 0, 0, 1, false),
            (2, 11, 10, 0, 0, 1, false),
            (3, 11, 10, 0, 0, 1, false),
            (4, 20, 0, 0, 77, 1, false),
            (5, 21, 0, 77, 0, 1, true),
            (6, 22, 11, 77, 0, 1, false),
            (7, 30, 31, 0, 0, 2, false),
            (8, 31, 0, 88, 0, 2, false),
            (9, 32, 33, 0, 0, 2, false),
            (10, 33, 32, 0, 0, 2, false),
            (11, 40, 0, 0, 0, 1, false),
            (12, 50, 0, 99, 0, 1, true),
        ];
        let sockets = sockets.map(|(process, inode, peer, name, peer_name, kind, listens)| {
            OpenSocket::unix(process, inode, (peer, peer_name), name, kind, listens)
        });
        let of = |inode, reads| {
            unix_peer(&sockets, inode, reads)
                .map(|(kind, found)| (kind, found.into_iter().collect::<Vec<_>>()))
        };
        assert_eq!(of(10, true), Some(("peer", vec![2, 3])), "two have it open");
        assert_eq!(of(11, false), Some(("peer", vec![1])), "the connection's own end alone");
        assert_eq!(of(20, true), Some(("listener", vec![5])), "not the accepted one with that name");
        assert_eq!(of(30, false), Some(("peer", vec![8])), "room at a datagram's receiver");
        assert_eq!(of(31, true), None, "anybody may send to a name");
        assert_eq!((of(32, true), of(30, true)), (Some(("peer", vec![10])), None));
        assert_eq!((of(40, true), of(99, true)), (None, None), "not connected, not known");
    }

    #[test]
    fn something_without_a_known_end_stands_beside_the_ends_and_not_alone() {
        let own = Process::own().expect("this process");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let table = Table::read(true, || false).expect("a table");
        let object = |fd: i32| own.object(fd as u32).expect("a pipe");
        let pid = std::process::id();
        let pipe = Awaited::Bytes(object(std::os::fd::AsRawFd::as_raw_fd(&reader)));
        let searched = || panic!("a pipe is no unix socket");
        let lines = |awaited: &[Awaited]| table.lines(&own, awaited, &searched, &mut Vec::new());
        assert_eq!(lines(&[pipe]), (vec![format!("writers {pid}")], true));
        let with_other = vec![format!("writers {pid}"), String::from("other")];
        assert_eq!(lines(&[Awaited::Other, pipe]), (with_other, false));
        assert_eq!(lines(&[Awaited::Other]), (vec![], false));
        let (socket, _other) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let socket = Awaited::Answer(object(std::os::fd::AsRawFd::as_raw_fd(&socket)), true);
        let lines = |found: Option<&[OpenSocket]>| table.lines(&own, &[socket], &|| found, &mut Vec::new());
        assert_eq!(lines(None), (vec![String::from("unsearched")], false));
        assert_eq!(lines(Some(&[])), (vec![], false));
        drop(writer);
    }

    #[test]
    fn a_budget_is_spent_by_either_clock_and_stays_spent() {
        let (none, hour) = (Duration::ZERO, Duration::from_secs(3600));
        let spent = |cpu, time| {
            let budget = Budget::new(cpu, time);
            [budget.is_spent(), budget.is_spent()]
        };
        assert_eq!(
            [spent(none, hour), spent(hour, none), spent(hour, hour)],
            [[true; 2], [true; 2], [false; 2]]
        );
        // It is looked at again after a few questions.
        let budget = Budget::new(hour, Duration::from_millis(20));
        assert!(!budget.is_spent());
        std::thread::sleep(Duration::from_millis(30));
        let asked = (0..Budget::EVERY).position(|_| budget.is_spent());
        assert_eq!(asked, Some(Budget::EVERY as usize - 1));
        assert!(budget.left().is_zero());
    }

    #[test]
    fn a_search_that_takes_too_long_is_given_up() {
        assert!(Table::read(true, || true).is_none());
        assert!(Table::read(true, || false).is_some());
    }
}
