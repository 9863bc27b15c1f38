//! The things for which blocked threads wait, by their system calls, and by the kernel's functions where the call does not say it.

use wakepath_process::{OpenedObject, Process};

/// The descriptors that are read of a set for poll or select; a larger set for epoll is not read.
const MAX_POLLED: u64 = 16;
/// The descriptors of a process whose sets for epoll are read: the kernel locks a set while it lists it.
const MAX_DESCRIPTORS: usize = 1000;
/// The kernel's functions kept of a blocked thread.
const MAX_FUNCTIONS: usize = 12;
/// The bytes kept of a file's name.
const MAX_NAME: usize = 64;

/// Something that another process can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    /// Bytes in a pipe.
    Bytes(OpenedObject),
    /// Room in a pipe.
    Room(OpenedObject),
    /// Bytes on a socket (`true`), or room.
    Answer(OpenedObject, bool),
    /// A file's lock.
    Lock,
    /// A process to open the FIFO's other end, for writing (`true`) or for reading.
    Partner(bool),
    /// The answer of a file system in user space.
    Daemon,
    /// Something else, or not known.
    Other,
    /// A timer of its own, beside its children's ends.
    Timer,
}

impl Awaited {
    pub(super) const fn object(self) -> Option<OpenedObject> {
        match self {
            Self::Bytes(object) | Self::Room(object) | Self::Answer(object, _) => Some(object),
            Self::Lock | Self::Partner(_) | Self::Daemon | Self::Timer | Self::Other => None,
        }
    }
}

/// The system call in which a thread is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockedCall {
    pub(super) number: u32,
    /// Its first argument.
    pub(super) argument: u64,
    /// A time-out may end it.
    pub(super) has_time_out: bool,
}

/// A thread waiting for something which another process, or a part of the kernel, can give.
pub(super) struct Waiting {
    pub(super) tid: u32,
    pub(super) call: BlockedCall,
    pub(super) awaited: Vec<Awaited>,
    /// The kernel's functions in which it is blocked, innermost first, where the call says too little.
    pub(super) kernel: Vec<String>,
    /// The file to be opened, without its path.
    pub(super) file: Option<Vec<u8>>,
}

/// The process's threads waiting for such things, as far as `is_enough` allows.
pub(super) fn waits(process: &Process, is_enough: &dyn Fn() -> bool) -> Vec<Waiting> {
    let tasks = process.tasks().unwrap_or_default().into_iter().take_while(|_| !is_enough());
    let waits = tasks.filter_map(|tid| {
        let task = process.task(tid).ok()?;
        let text = task.system_call().ok()?;
        let (call, awaited) = awaited(process, &text)?;
        if !awaited.is_empty() {
            return Some(Waiting { tid, call, awaited, kernel: Vec::new(), file: None });
        }
        if !may_be_for_files(call.number) {
            return None;
        }
        let mut kernel = task.kernel_stack().unwrap_or_default();
        let (awaited, file) = if kernel.iter().any(|function| function == "wait_for_partner") {
            let opens = opens(process, &text)?;
            (vec![Awaited::Partner(opens.reads)], opens.name)
        } else {
            let is_asked = kernel.iter().any(|function| {
                function == "request_wait_answer"
                    || (function.starts_with("fuse_") && !function.starts_with("fuse_dev"))
            });
            (is_asked.then_some(Awaited::Daemon).into_iter().collect(), None)
        };
        // The caller's functions say no more than the call.
        kernel.truncate(MAX_FUNCTIONS);
        (!kernel.is_empty()).then_some(Waiting { tid, call, awaited, kernel, file })
    });
    waits.collect()
}

/// Whether a blocked call without a known end may wait for a file system or a device: not for other threads, for a time, or for
/// any event.
const fn may_be_for_files(call: u32) -> bool {
    !matches!(
        call,
        // poll, select, pause, nanosleep, accept, wait4, rt_sigtimedwait, rt_sigsuspend
        7 | 23 | 34 | 35 | 43 | 61 | 128 | 130
        // futex, clock_nanosleep, epoll_wait, waitid, pselect6, ppoll, epoll_pwait, accept4
        | 202 | 230 | 232 | 247 | 270 | 271 | 281 | 288
        // io_uring_enter, epoll_pwait2, futex_waitv, futex_wait
        | 426 | 441 | 449 | 455
    )
}

/// A file to be opened.
struct Opens {
    reads: bool,
    name: Option<Vec<u8>>,
}

/// The file in `open` and `openat`; `None` for other calls. The file system is not touched: it may hang.
fn opens(process: &Process, text: &str) -> Option<Opens> {
    const MAX_PATH: usize = 4096;
    let words: Vec<&str> = text.split_whitespace().collect();
    let first = match *words.first()? {
        "2" => 1,
        "257" => 2,
        _ => return None,
    };
    let argument = |place: usize| u64::from_str_radix(words.get(place)?.strip_prefix("0x")?, 16).ok();
    let (path, flags) = (argument(first)?, argument(first + 1)?);
    let mut bytes = Vec::new();
    if let Ok(memory) = process.present_memory() {
        // A page that follows may be missing.
        while bytes.len() < MAX_PATH && !bytes.contains(&0) {
            let mut piece = [0; 64];
            let at = path.wrapping_add(bytes.len() as u64);
            let piece = &mut piece[..(64 - at % 64) as usize];
            if memory.read(at, piece).is_none() {
                break;
            }
            bytes.extend_from_slice(piece);
        }
    }
    let path = bytes.split(|&byte| byte == 0).next().filter(|path| path.len() < bytes.len());
    let name = path.and_then(|path| path.rsplit(|&byte| byte == b'/').next()).filter(|name| !name.is_empty());
    Some(Opens {
        reads: flags & 3 == 0,
        name: name.map(|name| name.iter().copied().take(MAX_NAME).collect()),
    })
}

/// The things for which a blocked call waits, from its number and arguments as the kernel writes them: `7 0x7ffd1c 0x2 0x3e8`.
fn awaited(process: &Process, text: &str) -> Option<(BlockedCall, Vec<Awaited>)> {
    let mut words = text.split_whitespace();
    let number: u32 = words.next()?.parse().ok()?;
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (first, second, third, fourth, fifth) =
        (argument()?, argument()?, argument(), argument(), argument());
    let object = |reads: bool| -> Vec<Awaited> {
        let object = u32::try_from(first).ok().and_then(|fd| process.object(fd));
        object.into_iter().map(|object| on_object(object, reads)).collect()
    };
    let for_ever = |ms: u64| ms as i32 == -1;
    let has_timers = || process.has_timers().unwrap_or(true);
    let (awaited, has_time_out) = match number {
        // read, readv, write, writev: on a socket they may have a time-out.
        0 | 19 => (object(true), false),
        1 | 20 => (object(false), false),
        // recvfrom, recvmsg; sendto, sendmsg.
        45 | 47 => (object(true), true),
        44 | 46 => (object(false), true),
        // flock; fcntl with F_SETLKW and F_OFD_SETLKW.
        73 => (vec![Awaited::Lock], false),
        72 if second == 7 || second == 38 => (vec![Awaited::Lock], false),
        // poll and ppoll.
        7 => (polled(process, first, second), !third.is_some_and(for_ever)),
        271 => (polled(process, first, second), third != Some(0)),
        // wait4, waitid: the children are known otherwise.
        61 | 247 if has_timers() => (vec![Awaited::Timer], true),
        // select and pselect6: sets to read, to write and for exceptions, then the time-out's address.
        23 | 270 => (selected(process, first, [second, third?]), [fourth, fifth] != [Some(0); 2]),
        // epoll_wait, epoll_pwait, epoll_pwait2 without a time-out.
        232 | 281 if fourth.is_some_and(for_ever) => (in_set(process, first), false),
        441 if fourth == Some(0) => (in_set(process, first), false),
        _ => (Vec::new(), true),
    };
    let has_time_out = has_time_out || !awaited.is_empty() && has_timers();
    Some((BlockedCall { number, argument: first, has_time_out }, awaited))
}

const fn on_object(object: OpenedObject, reads: bool) -> Awaited {
    match (object.is_socket, reads) {
        (true, _) => Awaited::Answer(object, reads),
        (false, true) => Awaited::Bytes(object),
        (false, false) => Awaited::Room(object),
    }
}

const POLLIN: u16 = 1;
const POLLOUT: u16 = 4;

/// The things in an array of `struct pollfd` in the process's memory.
fn polled(process: &Process, array: u64, count: u64) -> Vec<Awaited> {
    const BYTES: u64 = 8;
    let mut bytes = vec![0; (count.min(MAX_POLLED) * BYTES) as usize];
    let read = process.present_memory().ok().and_then(|memory| memory.read(array, &mut bytes));
    let entries = bytes.chunks_exact(BYTES as usize).filter(|_| read.is_some());
    let found = entries.filter_map(|entry| {
        let fd = i32::from_ne_bytes(entry[..4].try_into().ok()?);
        let events = u16::from_ne_bytes(entry[4..6].try_into().ok()?);
        // The kernel passes over a negative number.
        Some(member(process, u32::try_from(fd).ok()?, events))
    });
    found.chain((count > MAX_POLLED).then_some(Awaited::Other)).collect()
}

/// The things in two sets for select in the process's memory, one for reading and one for writing; an address of 0 is no
/// set. The sets have a bit for each of `count` descriptors.
fn selected(process: &Process, count: u64, sets: [u64; 2]) -> Vec<Awaited> {
    const MAX: u64 = 1024;
    let Ok(memory) = process.present_memory() else { return Vec::new() };
    let mut is_whole = count <= MAX;
    let mut read = Vec::new();
    for (index, address) in sets.into_iter().enumerate().filter(|(_, address)| *address != 0) {
        let mut bits = [0; MAX as usize / 8];
        // A set ends with its count, perhaps at the end of mapped memory.
        let bytes = count.min(MAX).div_ceil(64) as usize * 8;
        is_whole &= memory.read(address, &mut bits[..bytes]).is_some();
        read.push((index, bits));
    }
    let members = read.into_iter().flat_map(|(index, bits)| {
        let is_in = move |fd: &u32| bits[*fd as usize / 8] >> (fd % 8) & 1 == 1;
        (0..count.min(MAX) as u32)
            .filter(is_in)
            .map(move |fd| (fd, if index == 0 { POLLIN } else { POLLOUT }))
    });
    let mut awaited: Vec<Awaited> =
        members.take(MAX_POLLED as usize + 1).map(|(fd, events)| member(process, fd, events)).collect();
    if awaited.len() > MAX_POLLED as usize {
        awaited.truncate(MAX_POLLED as usize);
        is_whole = false;
    }
    awaited.extend((!is_whole && !awaited.is_empty()).then_some(Awaited::Other));
    awaited
}

/// The things in a set for epoll; none for a large one.
fn in_set(process: &Process, set: u64) -> Vec<Awaited> {
    let is_small = process.descriptor_count().is_ok_and(|count| count <= MAX_DESCRIPTORS);
    let members = u32::try_from(set).ok().filter(|_| is_small).and_then(|set| process.epoll_set(set).ok());
    let members = members.filter(|members| members.len() <= MAX_POLLED as usize).unwrap_or_default();
    let awaited = members.iter().map(|one| match member(process, one.number, one.events as u16) {
        // The number may have got another file since.
        found if found.object().is_some_and(|object| object.inode == one.inode) => found,
        _ => Awaited::Other,
    });
    awaited.collect()
}

/// A descriptor for which such events are awaited. A wait for neither bytes nor room is for something else.
fn member(process: &Process, fd: u32, events: u16) -> Awaited {
    match process.object(fd) {
        Some(object) if events & (POLLIN | POLLOUT) != 0 => on_object(object, events & POLLIN != 0),
        _ => Awaited::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, PoisonError};

    /// A test opens more descriptors than another can name in a set.
    static DESCRIPTORS: Mutex<()> = Mutex::new(());

    #[test]
    fn a_wait_in_epoll_without_a_time_out_is_for_the_descriptors_in_its_set() {
        let _alone = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
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
            let found = awaited(&own, &format!("{call} {set:#x} 0x7f00 0x10 {timeout} 0x0"));
            found.map(|(call, awaited)| {
                assert!(awaited.is_empty() || !call.has_time_out);
                awaited
            })
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
        let _alone = DESCRIPTORS.lock().unwrap_or_else(PoisonError::into_inner);
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
            awaited(&own, &format!("{call} {count:#x} {first:#x} {second:#x} 0x0 0x0")).map(
                |(call, awaited)| {
                    assert!(!call.has_time_out);
                    awaited
                },
            )
        };
        let (bytes, room) = (Awaited::Bytes(object), Awaited::Room(object));
        assert_eq!(waits(23, 1024, Some(&one), None), Some(vec![bytes]));
        assert_eq!(waits(270, 1024, Some(&one), Some(&other)), Some(vec![bytes, room]));
        assert_eq!(
            waits(23, u64::from(reads), Some(&one), None),
            Some(Vec::new()),
            "the count ends before it"
        );
        let whole = Some(vec![room, Awaited::Other]);
        assert_eq!(waits(23, u64::MAX, None, Some(&other)), whole, "a count that no process has");
        let clones: Vec<_> = (0..=MAX_POLLED).map(|_| reader.try_clone().expect("another number")).collect();
        let more: Vec<u32> = clones.iter().map(|one| one.as_raw_fd() as u32).collect();
        let many = waits(23, 1024, Some(&set(&more)), None).expect("a wait");
        assert_eq!((many.len(), many.last()), (MAX_POLLED as usize + 1, Some(&Awaited::Other)));
        assert_eq!(
            waits(23, 1024, Some(&set(&more[1..])), None).map(|all| all.contains(&Awaited::Other)),
            Some(false)
        );
        assert_eq!(awaited(&own, "23 0x400 0x10 0x0 0x0 0x0").map(|(_, awaited)| awaited), Some(Vec::new()));
        let timed = |set: &str| {
            awaited(&own, &format!("23 0x400 0x0 0x0 {set} 0x0")).map(|(call, _)| call.has_time_out)
        };
        let timed = [timed("0x0 0x7f00"), timed("0x7f00 0x0"), timed("0x0 0x0")];
        assert_eq!(timed, [Some(true), Some(true), Some(false)]);
    }
}
