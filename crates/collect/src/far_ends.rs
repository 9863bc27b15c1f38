//! The processes able to end the waits in which the asked processes already are: those at the other end of a pipe, of a
//! FIFO, of a unix socket or of a connection within this host, and the holder of a file's lock.
//!
//! Read once, at the start, while this process still has the rights: a wait that goes on to the end has no event. One
//! pass over all processes' descriptors finds all the ends, and where a unix socket is awaited, a second one. It takes a
//! microsecond for each descriptor, is given up when it took [`MAX_CPU`], and changes nothing in any process.

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use wakepath_event::NameSpace;
use wakepath_process::{OpenedObject, Process, processes};

use crate::names::Name;
use crate::sockets::OpenSocket;

/// The CPU time after which the search is given up.
const MAX_CPU: Duration = Duration::from_millis(200);
/// The processes whose waits are looked at: the asked processes, and those at the other ends.
const MAX_PROCESSES: usize = 64;
/// The descriptors that are read of a set for poll or select; a larger set for epoll is not read.
const MAX_POLLED: u64 = 16;
/// The descriptors of a process whose sets for epoll are read: the kernel locks a set while it lists it.
const MAX_DESCRIPTORS: usize = 1000;

/// Something that another process can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// Bytes in a pipe.
    Bytes(OpenedObject),
    /// Room in a pipe.
    Room(OpenedObject),
    /// Bytes on a socket (`true`), or room.
    Answer(OpenedObject, bool),
    /// A file's lock.
    Lock,
    /// Something else, or not known.
    Other,
}

impl Awaited {
    const fn object(self) -> Option<OpenedObject> {
        match self {
            Self::Bytes(object) | Self::Room(object) | Self::Answer(object, _) => Some(object),
            Self::Lock | Self::Other => None,
        }
    }
}

/// All processes' unix sockets, searched at the first call; `None` if the search was given up.
type UnixSockets<'a> = &'a dyn Fn() -> Option<&'a [OpenSocket]>;

/// The far ends of the waits in which these processes are, and of the waits of the processes there.
///
/// `sockets` finds all processes' sockets within a time, if it can.
pub(crate) fn far_ends(targets: &[u32], sockets: impl Fn(Duration) -> Option<Vec<OpenSocket>>) -> Vec<Name> {
    let began = cpu_time();
    let mut names = Vec::new();
    let mut asked: Vec<u32> = targets.to_vec();
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    let mut table = None;
    let unix = LazyCell::new(|| {
        let found = sockets(MAX_CPU.saturating_sub(cpu_time().saturating_sub(began)))?;
        Some(found.into_iter().filter(OpenSocket::is_unix).collect::<Vec<_>>())
    });
    while let Some(pid) = asked.pop() {
        if seen.len() >= MAX_PROCESSES || !seen.insert(pid) {
            continue;
        }
        let Ok(process) = Process::open(pid) else { continue };
        asked.extend(process.children());
        for (tid, call, awaited) in waits(&process) {
            // Most processes wait for nothing that another process gives: then nothing is searched.
            let table =
                table.get_or_insert_with(|| Table::read(|| cpu_time().saturating_sub(began) > MAX_CPU));
            let lines: Vec<String> = match table {
                None => vec![String::from("unsearched")],
                Some(table) => table.lines(&process, &awaited, &|| unix.as_deref(), &mut asked),
            };
            if !lines.is_empty() {
                let text = format!("call {} {:#x}\n{}", call.0, call.1, lines.join("\n"));
                names.push((NameSpace::FarEnd, tid.into(), text.into_bytes().into()));
            }
        }
    }
    names
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A system call's number and first argument.
type BlockedCall = (u32, u64);

/// The process's threads that wait for something which another process can give, with their calls.
fn waits(process: &Process) -> Vec<(u32, BlockedCall, Vec<Awaited>)> {
    let waits = process.tasks().unwrap_or_default().into_iter().filter_map(|tid| {
        let text = process.task(tid).and_then(|task| task.system_call()).ok()?;
        let (call, awaited) = awaited(process, &text)?;
        (!awaited.is_empty()).then_some((tid, call, awaited))
    });
    waits.collect()
}

/// The things for which a blocked call waits, from its number and arguments as the kernel writes them: `7 0x7ffd1c 0x2 0x3e8`.
fn awaited(process: &Process, text: &str) -> Option<(BlockedCall, Vec<Awaited>)> {
    let mut words = text.split_whitespace();
    let number: u32 = words.next()?.parse().ok()?;
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (first, second) = (argument()?, argument()?);
    let object = |reads: bool| -> Vec<Awaited> {
        let object = u32::try_from(first).ok().and_then(|fd| process.object(fd));
        object.into_iter().map(|object| on_object(object, reads)).collect()
    };
    let awaited = match number {
        // read, readv, recvfrom, recvmsg; write, writev, sendto, sendmsg.
        0 | 19 | 45 | 47 => object(true),
        1 | 20 | 44 | 46 => object(false),
        // flock; fcntl with F_SETLKW and F_OFD_SETLKW.
        73 => vec![Awaited::Lock],
        72 if second == 7 || second == 38 => vec![Awaited::Lock],
        // poll and ppoll.
        7 | 271 => polled(process, first, second),
        // select and pselect6.
        23 | 270 => selected(process, first, [second, argument()?]),
        // epoll_wait, epoll_pwait, epoll_pwait2 without a time-out.
        232 | 281 if argument().and(argument()).is_some_and(|ms| ms as i32 == -1) => in_set(process, first),
        441 if argument().and(argument()) == Some(0) => in_set(process, first),
        _ => Vec::new(),
    };
    Some(((number, first), awaited))
}

const fn on_object(object: OpenedObject, reads: bool) -> Awaited {
    match (object.is_socket, reads) {
        (true, _) => Awaited::Answer(object, reads),
        (false, true) => Awaited::Bytes(object),
        (false, false) => Awaited::Room(object),
    }
}

const POLLIN: u16 = 1;

/// The things in an array of `struct pollfd` in the process's memory.
fn polled(process: &Process, array: u64, count: u64) -> Vec<Awaited> {
    const BYTES: u64 = 8;
    let mut bytes = vec![0; (count.min(MAX_POLLED) * BYTES) as usize];
    let read = process.memory().ok().and_then(|memory| memory.read(array, &mut bytes).ok());
    let entries = bytes.chunks_exact(BYTES as usize).filter(|_| read.is_some());
    let found = entries.filter_map(|entry| {
        let fd = i32::from_ne_bytes(entry[..4].try_into().ok()?);
        let events = u16::from_ne_bytes(entry[4..6].try_into().ok()?);
        // The kernel passes over a negative number.
        Some(member(process, u32::try_from(fd).ok()?, events & POLLIN != 0))
    });
    found.chain((count > MAX_POLLED).then_some(Awaited::Other)).collect()
}

/// The things in two sets for select in the process's memory, one for reading and one for writing; an address of 0 is no
/// set. The sets have a bit for each of `count` descriptors.
fn selected(process: &Process, count: u64, sets: [u64; 2]) -> Vec<Awaited> {
    const MAX: u64 = 1024;
    let Ok(memory) = process.memory() else { return Vec::new() };
    let read = sets.into_iter().enumerate().filter_map(|(index, address)| {
        let mut bits = [0; MAX as usize / 8];
        memory.read(address, &mut bits).ok()?;
        Some((index, bits))
    });
    let members = read.flat_map(|(index, bits)| {
        let is_in = move |fd: &u32| bits[*fd as usize / 8] >> (fd % 8) & 1 == 1;
        (0..count.min(MAX) as u32).filter(is_in).map(move |fd| (fd, index == 0))
    });
    let mut awaited: Vec<Awaited> =
        members.take(MAX_POLLED as usize + 1).map(|(fd, reads)| member(process, fd, reads)).collect();
    if awaited.len() > MAX_POLLED as usize {
        awaited.truncate(MAX_POLLED as usize);
        awaited.push(Awaited::Other);
    }
    awaited
}

/// The things in a set for epoll; none for a large one.
fn in_set(process: &Process, set: u64) -> Vec<Awaited> {
    let is_small = process.descriptor_count().is_ok_and(|count| count <= MAX_DESCRIPTORS);
    let members = u32::try_from(set).ok().filter(|_| is_small).and_then(|set| process.epoll_set(set).ok());
    let members = members.filter(|members| members.len() <= MAX_POLLED as usize).unwrap_or_default();
    let awaited =
        members.iter().map(|one| match member(process, one.number, one.events & u32::from(POLLIN) != 0) {
            // The number may have got another file since.
            found if found.object().is_some_and(|object| object.inode == one.inode) => found,
            _ => Awaited::Other,
        });
    awaited.collect()
}

fn member(process: &Process, fd: u32, reads: bool) -> Awaited {
    process.object(fd).map_or(Awaited::Other, |object| on_object(object, reads))
}

/// All processes' pipes and sockets.
struct Table {
    /// The processes and descriptors that have an object open.
    open: HashMap<OpenedObject, Vec<(u32, u32)>>,
    /// The kernel's list of locks.
    locks: String,
}

impl Table {
    /// `None` if `is_enough` says so first.
    fn read(is_enough: impl Fn() -> bool) -> Option<Self> {
        let mut open: HashMap<OpenedObject, Vec<(u32, u32)>> = HashMap::new();
        for pid in processes() {
            if is_enough() {
                return None;
            }
            // Others end meanwhile.
            let opened = Process::open(pid).and_then(|process| process.opened()).unwrap_or_default();
            for one in opened {
                open.entry(one.object).or_default().push((pid, one.number));
            }
        }
        Some(Self { open, locks: std::fs::read_to_string("/proc/locks").unwrap_or_default() })
    }

    /// A line for each awaited thing about the processes that could end the wait, which are added to `asked`; and a line
    /// `other`, if there is more. None if no such process is known.
    fn lines(
        &self,
        process: &Process,
        awaited: &[Awaited],
        unix: UnixSockets<'_>,
        asked: &mut Vec<u32>,
    ) -> Vec<String> {
        let far_ends = awaited.iter().map(|one| self.far_end(process, *one, unix, asked));
        let far_ends: Vec<Option<String>> = far_ends.collect();
        let has_other = far_ends.contains(&None);
        let mut lines: Vec<String> = far_ends.into_iter().flatten().collect();
        if has_other && !lines.is_empty() {
            lines.push(String::from("other"));
        }
        lines
    }

    /// A line about the processes that could end the wait: `writers 31757 31760`. They are added to `asked`.
    fn far_end(
        &self,
        process: &Process,
        awaited: Awaited,
        unix: UnixSockets<'_>,
        asked: &mut Vec<u32>,
    ) -> Option<String> {
        let (kind, found) = match awaited {
            Awaited::Bytes(pipe) => ("writers", self.ends(pipe, |access| access.writes)),
            Awaited::Room(pipe) => ("readers", self.ends(pipe, |access| access.reads)),
            Awaited::Answer(socket, reads) => {
                let tables = process.tcp_sockets().map(|table| table.unwrap_or_default());
                match peer(&tables, socket.inode) {
                    Some((kind, inode)) => (kind, self.holders(OpenedObject { inode, ..socket })),
                    None => match unix() {
                        Some(sockets) => unix_peer(sockets, socket.inode, reads)?,
                        None => return Some(String::from("unsearched")),
                    },
                }
            }
            Awaited::Other => return None,
            Awaited::Lock => {
                let (holder, inode) = lock_holder(&self.locks, process.pid())?;
                // The kernel names the process by which the lock was taken: it may have ended, and left the lock to a child.
                // Its number may belong to another process by now.
                let has_it = Process::open(holder).and_then(|holder| holder.has_inode(inode));
                has_it.unwrap_or(false).then_some(("holder", BTreeSet::from([holder])))?
            }
        };
        asked.extend(&found);
        let pids: String = found.iter().map(|pid| format!(" {pid}")).collect();
        Some(format!("{kind}{pids}"))
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

/// The process by which the lock was taken for which `waiter` waits, and the file's inode number, in the kernel's list: a
/// waiter's line has an arrow, and the holder's line the same number before it. `None` if the process waits for none, or
/// for several.
fn lock_holder(locks: &str, waiter: u32) -> Option<(u32, u64)> {
    // `2: -> FLOCK ADVISORY WRITE 31396 fe:00:3932 0 EOF`; the holder's line has no arrow.
    let rows = locks.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let number = words.next()?;
        let rest: Vec<&str> = words.collect();
        let waits = rest.first() == Some(&"->");
        let pid: i64 = rest.get(usize::from(waits) + 3)?.parse().ok()?;
        let inode: u64 = rest.get(usize::from(waits) + 4)?.rsplit(':').next()?.parse().ok()?;
        Some((number, waits, pid, inode))
    });
    let rows: Vec<_> = rows.collect();
    let mut own = rows.iter().filter(|(_, waits, pid, _)| *waits && *pid == i64::from(waiter));
    let (Some((number, ..)), None) = (own.next(), own.next()) else { return None };
    let (.., pid, inode) = rows.iter().find(|(other, waits, ..)| other == number && !waits)?;
    Some((u32::try_from(*pid).ok()?, *inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_the_holder_whose_line_has_the_waiters_number() {
        let locks = "1: FLOCK  ADVISORY  WRITE 600 fe:00:1 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 700 fe:00:2 0 EOF\n\
                     2: -> POSIX  ADVISORY  WRITE 701 fe:00:2 0 9\n\
                     2: -> POSIX  ADVISORY  READ 702 fe:00:2 0 9\n\
                     3: OFDLCK ADVISORY  WRITE -1 fe:00:3 0 EOF\n\
                     3: -> OFDLCK ADVISORY  WRITE 703 fe:00:3 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 800 fe:00:4 0 EOF\n\
                     4: -> FLOCK  ADVISORY  WRITE 701 fe:00:4 0 EOF\n";
        let holder = |waiter| lock_holder(locks, waiter);
        assert_eq!([holder(702), holder(700), holder(600), holder(9)], [Some((700, 2)), None, None, None]);
        assert_eq!(holder(703), None, "an open-file lock names no process");
        assert_eq!(holder(701), None, "two of its threads wait");
        assert_eq!(lock_holder("x\n1:\n2: ->\n", 1), None);
        assert_eq!(
            lock_holder("5: -> FLOCK ADVISORY WRITE 901 fe:00:5 0 EOF\n", 901),
            None,
            "it ended meanwhile"
        );
    }

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
        let table = Table::read(|| false).expect("a table");
        let object = |fd: i32| own.object(fd as u32).expect("a pipe");
        let pid = std::process::id();
        let pipe = Awaited::Bytes(object(std::os::fd::AsRawFd::as_raw_fd(&reader)));
        let searched = || panic!("a pipe is no unix socket");
        let lines = |awaited: &[Awaited]| table.lines(&own, awaited, &searched, &mut Vec::new());
        assert_eq!(lines(&[pipe]), [format!("writers {pid}")]);
        assert_eq!(lines(&[Awaited::Other, pipe]), [format!("writers {pid}"), String::from("other")]);
        assert_eq!(lines(&[Awaited::Other]), [""; 0]);
        let (socket, _other) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let socket = Awaited::Answer(object(std::os::fd::AsRawFd::as_raw_fd(&socket)), true);
        let lines = |found: Option<&[OpenSocket]>| table.lines(&own, &[socket], &|| found, &mut Vec::new());
        assert_eq!(lines(None), ["unsearched"]);
        assert_eq!(lines(Some(&[])), [""; 0]);
        drop(writer);
    }

    #[test]
    fn a_wait_in_epoll_without_a_time_out_is_for_the_descriptors_in_its_set() {
        use std::os::fd::AsRawFd as _;
        let own = Process::own().expect("this process");
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        // SAFETY: the event is a live value, and both descriptors are open.
        let (set, added) = unsafe {
            let set = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            (set, libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, reader.as_raw_fd(), &raw mut event))
        };
        assert_eq!(added, 0);
        let object = own.object(reader.as_raw_fd() as u32).expect("a pipe");
        let waits = |call: u32, timeout: &str| {
            awaited(&own, &format!("{call} {set:#x} 0x7f00 0x10 {timeout} 0x0")).map(|(_, awaited)| awaited)
        };
        let pipe = Some(vec![Awaited::Bytes(object)]);
        assert_eq!(waits(232, "0xffffffffffffffff"), pipe);
        assert_eq!(waits(281, "0xffffffff"), pipe);
        assert_eq!(waits(441, "0x0"), pipe);
        for (call, timeout) in [(232, "0x64"), (281, "0x0"), (441, "0x7f00")] {
            assert_eq!(waits(call, timeout), Some(Vec::new()), "{call} {timeout}");
        }
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the limit is a live value; only this process gets more descriptors.
        unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
        let another = || reader.try_clone().expect("another number");
        let many: Vec<_> = (0..=MAX_DESCRIPTORS).map(|_| another()).collect();
        assert_eq!(waits(441, "0x0"), Some(Vec::new()), "many descriptors");
        drop(many);
        // The set keeps the file of a closed number, if another number has it, too.
        let kept = reader.try_clone().expect("a second number");
        let (number, (other, _writer)) = (reader.as_raw_fd(), std::io::pipe().expect("a pipe"));
        // SAFETY: both descriptors are open, and this test's own.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        assert_eq!(waits(441, "0x0"), Some(vec![Awaited::Other]));
        drop(kept);
        let more: Vec<_> = (0..=MAX_POLLED).map(|_| another()).collect();
        for (index, one) in more.iter().enumerate() {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            // SAFETY: the event is a live value, and both descriptors are open.
            let added = unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, one.as_raw_fd(), &raw mut event) };
            assert_eq!(added, 0);
            let count = (index + 1) % (MAX_POLLED as usize + 1);
            assert_eq!(waits(441, "0x0").map(|awaited| awaited.len()), Some(count), "none of a large set");
        }
        // SAFETY: closes this test's own descriptor.
        unsafe { libc::close(set) };
    }

    #[test]
    fn a_wait_in_select_is_for_the_descriptors_with_a_bit_in_its_sets() {
        use std::os::fd::AsRawFd as _;
        let own = Process::own().expect("this process");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let [reads, writes] = [reader.as_raw_fd(), writer.as_raw_fd()].map(|fd| fd as u32);
        let object = own.object(reads).expect("a pipe");
        let set = |fds: &[u32]| {
            let mut bits = [0_u8; 128];
            fds.iter().for_each(|fd| bits[*fd as usize / 8] |= 1 << (fd % 8));
            bits
        };
        let [one, other] = [reads, writes].map(|fd| set(&[fd]));
        let waits = |call: u32, count: u64, first: Option<&[u8; 128]>, second: Option<&[u8; 128]>| {
            let [first, second] = [first, second].map(|set| set.map_or(0, |set| set.as_ptr() as u64));
            awaited(&own, &format!("{call} {count:#x} {first:#x} {second:#x} 0x0 0x0"))
                .map(|(_, awaited)| awaited)
        };
        let (bytes, room) = (Awaited::Bytes(object), Awaited::Room(object));
        assert_eq!(waits(23, 1024, Some(&one), None), Some(vec![bytes]));
        assert_eq!(waits(270, 1024, Some(&one), Some(&other)), Some(vec![bytes, room]));
        assert_eq!(
            waits(23, u64::from(reads), Some(&one), None),
            Some(Vec::new()),
            "the count ends before it"
        );
        assert_eq!(waits(23, u64::MAX, None, Some(&other)), Some(vec![room]), "a count that no process has");
        let clones: Vec<_> = (0..=MAX_POLLED).map(|_| reader.try_clone().expect("another number")).collect();
        let more: Vec<u32> = clones.iter().map(|one| one.as_raw_fd() as u32).collect();
        let many = waits(23, 1024, Some(&set(&more)), None).expect("a wait");
        assert_eq!((many.len(), many.last()), (MAX_POLLED as usize + 1, Some(&Awaited::Other)));
        assert_eq!(
            waits(23, 1024, Some(&set(&more[1..])), None).map(|all| all.contains(&Awaited::Other)),
            Some(false)
        );
        assert_eq!(awaited(&own, "23 0x400 0x10 0x0 0x0 0x0").map(|(_, awaited)| awaited), Some(Vec::new()));
    }

    #[test]
    fn a_search_that_takes_too_long_is_given_up() {
        assert!(Table::read(|| true).is_none());
        assert!(Table::read(|| false).is_some());
    }
}
