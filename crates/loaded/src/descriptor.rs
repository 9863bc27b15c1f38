//! The files and sockets behind a process's descriptors at a time, and system calls with their object.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Call, FileName, FlowId, SetMember, Tid, WaitEnd};

use crate::syscall::OF_DESCRIPTORS;
use crate::{Endpoint, Name, Names, Peer};

/// A system call with its object: `fdatasync` of `orders.db`. Calls with the same wording are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallName {
    /// The system call number.
    pub number: u32,
    /// The object of its descriptor, or the objects of a descriptor set, if recorded.
    pub object: Option<Object>,
}

impl CallName {
    /// Whether the call waits for a descriptor, or for any in a set.
    pub fn is_for_descriptors(&self) -> bool {
        OF_DESCRIPTORS.contains(self.number) || Call::POLLS.contains(&self.number)
    }
}

/// A system call's name, or its number if it has no name; `page fault` for a page fault, `io_uring fsync` for a request
/// that a worker does.
pub fn call_name(number: u32) -> Cow<'static, str> {
    match Call::name(number) {
        Some(name) => Cow::Borrowed(name),
        None if number == Call::PAGE_FAULT => Cow::Borrowed("page fault"),
        None => Cow::Owned(match Call::requested(number).and_then(Call::name) {
            Some(name) => format!("io_uring {name}"),
            None => format!("system call {number}"),
        }),
    }
}

/// A [`CallName`] not looked up yet. Equal keys have equal names; several keys may share a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallKey {
    number: u32,
    /// The process, the descriptor, and the index of its meaning.
    descriptor: Option<(Tid, u32, usize)>,
    /// The process, and the id of the set with several descriptors that the call polls.
    set: Option<(Tid, u64)>,
    end: KeyEnd,
}

/// The known part of a wait's end, without the descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum KeyEnd {
    /// The call waits for no set with a possible timer.
    Plain,
    /// The call's descriptor became ready last.
    Ready,
    /// Either a time-out, or a timer among the descriptors.
    MayBeTimer,
    /// The call waited for room, which the other end's closed window did not give.
    WindowClosed,
}

/// The end of a wait by a timer, in a call that does not sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerEnd {
    /// A time-out.
    TimedOut,
    /// The call's descriptor, which became ready.
    Descriptor,
    /// Either of the two.
    Either,
}

impl CallKey {
    /// Whether the call waits for nothing but its timer.
    pub fn is_sleep(self) -> bool {
        Call::SLEEPS.contains(&self.number) || self.set.is_some_and(|(_, set)| set == Call::EMPTY_SET)
    }

    /// Whether the call waits until data is on the disk.
    pub fn flushes(self) -> bool {
        Call::FLUSHES.contains(&Call::requested(self.number).unwrap_or(self.number))
    }

    /// The end of a wait in this call, if a timer ended it.
    pub fn timer_end(self) -> TimerEnd {
        match self.end {
            KeyEnd::Plain | KeyEnd::WindowClosed => TimerEnd::TimedOut,
            KeyEnd::Ready => TimerEnd::Descriptor,
            KeyEnd::MayBeTimer => TimerEnd::Either,
        }
    }

    /// Whether the call's object is the descriptor that became ready last: [`Rule::ReadyDescriptor`].
    ///
    /// [`Rule::ReadyDescriptor`]: wakepath_critical_path::Rule::ReadyDescriptor
    pub fn is_of_ready_descriptor(self) -> bool {
        self.end == KeyEnd::Ready
    }

    /// Whether the call waited for room in a socket whose other end had closed its window.
    pub fn waits_for_window(self) -> bool {
        self.end == KeyEnd::WindowClosed
    }

    /// The call's name.
    pub fn name(self) -> Cow<'static, str> {
        call_name(self.number)
    }
}

/// A descriptor's object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Object {
    /// A file, directory or device: its path's last component.
    File(Name),
    /// A pipe or FIFO.
    Pipe,
    /// A socket; its other end, if connected and known.
    Socket(Option<Endpoint>),
    /// Something outside the file system (`[eventpoll]`), by the kernel's name.
    Anonymous(Name),
    /// Any descriptor in a set: the known objects, each once, and the number of descriptors.
    AnyOf(Vec<Object>, SetSize),
}

/// The number of descriptors in a polled set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SetSize {
    /// All are recorded.
    Known(u32),
    /// More than this number of recorded descriptors.
    MoreThan(u32),
}

const S_IFMT: u32 = 0o170_000;
const S_IFIFO: u32 = 0o010_000;
const S_IFSOCK: u32 = 0o140_000;

/// `WP_DYING_WRITER` in `bpf/records.h`: a pipe's end for writing, in a process that a signal kills.
const DYING_WRITER: u32 = 0x1_0000;

/// All processes' descriptors; numbers are reused, so each meaning has a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files {
    meanings: HashMap<(Tid, u32), Meanings>,
    sets: HashMap<(Tid, u64), Set>,
    /// Killed processes' ends of pipes for writing: the time, the process, the pipe's inode.
    dying_writers: Vec<(Stamp<Local>, Tid, u64)>,
}

/// A polled set of descriptors.
#[derive(Debug, Clone, Default)]
struct Set {
    /// Each member, with its meaning when it was recorded, if any.
    members: Vec<(u32, Option<usize>)>,
    total: u32,
}

/// The number of members kept per set: the recorder takes no more.
const MAX_MEMBERS: u32 = 16;

/// The longest time from a switch or a wake-up to the stamp of its descriptor record, ns: BPF programs write both
/// in a row, without an interrupt in between.
const MAX_RECORD_DELAY_NS: u64 = 100_000;

/// A descriptor's meanings, each with the time from which it holds.
type Meanings = Vec<(Stamp<Local>, Meaning)>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Meaning {
    mode: u32,
    flow: Option<FlowId>,
    name: Name,
    /// A pipe's inode, else 0.
    pipe: u64,
}

impl Files {
    pub fn observe(&mut self, at: Stamp<Local>, file: &FileName) {
        if file.mode & DYING_WRITER != 0 {
            self.dying_writers.push((at, file.tgid, file.inode));
            return;
        }
        let mode = file.mode & S_IFMT;
        let pipe = if mode == S_IFIFO { file.inode } else { 0 };
        let meaning = Meaning { mode, flow: file.flow, name: Name::from(file.name.as_ref()), pipe };
        let meanings = self.meanings.entry((file.tgid, file.fd)).or_default();
        if meanings.last().is_none_or(|(_, last)| *last != meaning) {
            meanings.push((at, meaning));
        }
    }

    /// Notes a set's member. Each CPU records the whole set once.
    pub fn observe_member(&mut self, at: Stamp<Local>, member: &SetMember) {
        let meaning = self.at(member.tgid, member.fd, at);
        let set = self.sets.entry((member.tgid, member.set)).or_default();
        set.total = member.total;
        if set.members.len() < MAX_MEMBERS as usize && set.members.iter().all(|(fd, _)| *fd != member.fd) {
            set.members.push((member.fd, meaning));
        }
    }

    /// The index of a descriptor's meaning at `at`; `None` before its first record, but for the record's delay: a
    /// thread that waited for it then would have made a record, and the later object may be another.
    fn at(&self, tgid: Tid, fd: u32, at: Stamp<Local>) -> Option<usize> {
        let meanings = self.meanings.get(&(tgid, fd))?;
        match meanings.partition_point(|(since, _)| *since <= at).checked_sub(1) {
            None => {
                let (first, _) = meanings.first()?;
                (first.since(at) <= MAX_RECORD_DELAY_NS).then_some(0)
            }
            known => known,
        }
    }
}

impl Names {
    /// A system call with its descriptor's object at `at`, in process `tgid`.
    pub fn call(&self, call: &Call, tgid: Option<Tid>, at: Stamp<Local>) -> CallName {
        self.spell(self.call_key(call, tgid, at))
    }

    /// The call's key, not looked up yet.
    pub fn call_key(&self, call: &Call, tgid: Option<Tid>, at: Stamp<Local>) -> CallKey {
        // The kernel reads the low half of the register: a descriptor is an `unsigned int`.
        let mut fd = call.arg0 as u32;
        // These calls' set is in the kernel, and may have timers.
        let waits_in_kernel = Call::EPOLLS.contains(&call.number) || call.number == Call::IO_URING_ENTER;
        let end = match call.ended_by() {
            WaitEnd::Ready(ready) => {
                fd = ready;
                KeyEnd::Ready
            }
            WaitEnd::TimerMember => KeyEnd::MayBeTimer,
            WaitEnd::WindowClosed => KeyEnd::WindowClosed,
            WaitEnd::NotKnown if waits_in_kernel => KeyEnd::MayBeTimer,
            WaitEnd::NothingReady | WaitEnd::NotKnown => KeyEnd::Plain,
        };
        let number = Call::requested(call.number).unwrap_or(call.number);
        let mut takes_descriptor = OF_DESCRIPTORS.contains(number);
        let mut set = tgid.zip(call.set());
        if let Some((1, [(only, _)])) =
            set.and_then(|set| self.files.sets.get(&set)).map(|set| (set.total, &*set.members))
        {
            (fd, takes_descriptor, set) = (*only, true, None);
        }
        let tgid = tgid.filter(|_| takes_descriptor);
        let descriptor = tgid.and_then(|tgid| Some((tgid, fd, self.files.at(tgid, fd, at)?)));
        CallKey { number: call.number, descriptor, set, end }
    }

    /// Looks up a call's name.
    pub fn spell(&self, key: CallKey) -> CallName {
        let object = key.descriptor.and_then(|descriptor| self.object(self.meaning(descriptor)?));
        CallName { number: key.number, object: object.or_else(|| self.any_of(key.set?)) }
    }

    /// A descriptor set's objects, each once, in order.
    fn any_of(&self, key: (Tid, u64)) -> Option<Object> {
        let set = self.files.sets.get(&key)?;
        let meaning = |&(fd, meaning): &(u32, Option<usize>)| self.meaning((key.0, fd, meaning?));
        let objects: BTreeSet<_> =
            set.members.iter().filter_map(|member| self.object(meaning(member)?)).collect();
        let size =
            if set.total > MAX_MEMBERS { SetSize::MoreThan(MAX_MEMBERS) } else { SetSize::Known(set.total) };
        Some(Object::AnyOf(objects.into_iter().collect(), size))
    }

    /// Whether a process that was killed at `taken` could write to the pipe that a call reads, or alone polls, in process
    /// `reader` at `at`.
    pub fn could_write(
        &self,
        (call, reader, at): (&Call, Tid, Stamp<Local>),
        (writer, taken): (Tid, Stamp<Local>),
    ) -> bool {
        const READS: [u32; 2] = [0, 19];
        let is_for_data = READS.contains(&call.number) || Call::POLLS.contains(&call.number);
        let descriptor = self.call_key(call, Some(reader), at).descriptor.filter(|_| is_for_data);
        let meaning = descriptor.and_then(|descriptor| self.meaning(descriptor));
        let Some(pipe) = meaning.map(|meaning| meaning.pipe).filter(|pipe| *pipe != 0) else { return false };
        // The records are made while the process takes the signal.
        let is_it = |(when, process, inode): &(Stamp<Local>, Tid, u64)| {
            *process == writer && *inode == pipe && when.ns().abs_diff(taken.ns()) < 1_000_000_000
        };
        self.files.dying_writers.iter().any(is_it)
    }

    /// The other end of the call's socket, if the call has a connected socket and the end is known.
    pub fn peer(&self, key: CallKey) -> Option<Peer> {
        self.receiver(self.socket(key)?)
    }

    /// The flow on which a call's socket sends, if it is connected; also for a call that polls this socket alone.
    pub fn socket(&self, key: CallKey) -> Option<FlowId> {
        self.meaning(key.descriptor?).filter(|meaning| meaning.mode == S_IFSOCK)?.flow
    }

    /// Whether a call polls the socket that sends a flow, alone or among others.
    pub fn polls(&self, key: CallKey, flow: FlowId) -> bool {
        let among = |(tgid, set): (Tid, u64)| {
            let members = self.files.sets.get(&(tgid, set)).map_or(&[][..], |set| &set.members);
            let meaning = |&(fd, meaning): &(u32, Option<usize>)| self.meaning((tgid, fd, meaning?));
            members.iter().filter_map(meaning).any(|meaning| meaning.flow == Some(flow))
        };
        self.socket(key) == Some(flow) || key.set.is_some_and(among)
    }

    fn meaning(&self, (tgid, fd, meaning): (Tid, u32, usize)) -> Option<&Meaning> {
        Some(&self.files.meanings.get(&(tgid, fd))?.get(meaning)?.1)
    }

    fn object(&self, meaning: &Meaning) -> Option<Object> {
        Some(match meaning.mode {
            S_IFIFO => Object::Pipe,
            S_IFSOCK => {
                Object::Socket(meaning.flow.and_then(|flow| self.receiver(flow)).map(|peer| peer.end))
            }
            _ if meaning.name.is_empty() => return None,
            0 => Object::Anonymous(meaning.name.clone()),
            _ => Object::File(meaning.name.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use wakepath_event::{Event, EventKind};

    use super::*;
    use crate::testing::{call, event, file, flow};

    fn names(files: &[(u64, u32, u32, Option<u64>, &str)]) -> Names {
        let mut names = Names::default();
        for &(at, fd, mode, flow, name) in files {
            names.observe(&event(at, 0, 7, file(7, fd, mode, flow, name)));
        }
        names
    }

    #[test]
    fn a_workers_request_is_named_as_such_with_its_file() {
        const FILE: u64 = 0x8000_0007;
        let names = names(&[(10, FILE as u32, 0o100_644, None, "wal")]);
        let call = |number, arg0| names.call(&call(number, arg0), Some(Tid(7)), Stamp::from_ns(20));
        let sync = call(74 | Call::REQUEST, FILE);
        assert_eq!(
            (&*call_name(sync.number), sync.object),
            ("io_uring fsync", Some(Object::File("wal".into())))
        );
        assert_eq!(call(257 | Call::REQUEST, FILE).object, None, "openat has no descriptor");
        assert_eq!(call_name(Call::REQUEST | 9_999), "system call 1073751823");
        assert_eq!(call_name(Call::PAGE_FAULT), "page fault");
    }

    #[test]
    fn a_descriptor_means_what_it_meant_at_that_moment() {
        let names = names(&[(10, 5, 0o100_644, None, "orders.db"), (20, 5, 0o010_600, None, "")]);
        let object = |at| names.call(&call(75, 5), Some(Tid(7)), Stamp::from_ns(at)).object;
        assert_eq!(object(10), Some(Object::File("orders.db".into())));
        assert_eq!(object(19), Some(Object::File("orders.db".into())));
        assert_eq!(object(20), Some(Object::Pipe));
    }

    #[test]
    fn a_descriptor_has_no_object_before_its_first_record_but_for_the_time_in_which_that_is_made() {
        const FIRST: u64 = 1_000_000;
        let mut names = names(&[(FIRST, 5, 0o140_600, Some(9), ""), (FIRST, 6, 0o010_600, None, "")]);
        let key = |at| names.call_key(&call(0, 5), Some(Tid(7)), Stamp::from_ns(at));
        for (at, is_known) in [
            (0, false),
            (FIRST - MAX_RECORD_DELAY_NS - 1, false),
            (FIRST - MAX_RECORD_DELAY_NS, true),
            (FIRST - 1, true),
            (FIRST, true),
        ] {
            let known = (names.spell(key(at)).object.is_some(), names.socket(key(at)).is_some());
            assert_eq!(known, (is_known, is_known), "{at}");
        }
        // A poll of this descriptor alone has none either.
        const SET: u64 = Call::EMPTY_SET | 5;
        names.observe(&member(FIRST, SET, 6, 1));
        let poll = |at| names.call(&call(7, SET), Some(Tid(7)), Stamp::from_ns(at)).object;
        assert_eq!((poll(0), poll(FIRST)), (None, Some(Object::Pipe)));
    }

    #[test]
    fn a_call_without_a_descriptor_has_no_object() {
        let names = names(&[(10, 5, 0o100_644, None, "orders.db")]);
        // The first argument of 202 (futex) and 230 (clock_nanosleep) is no descriptor, though it may look like
        // one.
        for number in [202, 230, 9999] {
            let found = names.call(&call(number, 5), Some(Tid(7)), Stamp::from_ns(10));
            assert_eq!(found.object, None, "{number}");
        }
        assert_eq!(call_name(9999), "system call 9999");
    }

    fn member(at: u64, set: u64, fd: u32, total: u32) -> Event {
        event(at, 0, 7, EventKind::SetMember(SetMember { set, tgid: Tid(7), fd, total }))
    }

    #[test]
    fn a_killed_process_could_write_to_the_pipe_that_a_call_reads_or_polls_alone() {
        const ALONE: u64 = Call::EMPTY_SET | 5;
        const BOTH: u64 = Call::EMPTY_SET | 6;
        const TAKEN: u64 = 2_000_000_000;
        let mut names = Names::default();
        let pipe = |tgid, fd, mode, inode| {
            let EventKind::File(file) = file(tgid, fd, mode, None, "") else { panic!("a file") };
            EventKind::File(FileName { inode, ..file })
        };
        names.observe(&event(10, 0, 7, pipe(7, 5, 0o010_600, 77)));
        names.observe(&event(10, 0, 7, pipe(7, 6, 0o010_600, 78)));
        for (set, fd, total) in [(ALONE, 5, 1), (BOTH, 5, 2), (BOTH, 6, 2)] {
            names.observe(&member(11, set, fd, total));
        }
        names.observe(&event(TAKEN, 0, 9, pipe(9, 0, DYING_WRITER, 77)));
        let could_write = |call: (u32, u64), writer, taken| {
            let call = self::call(call.0, call.1);
            let reader = (&call, Tid(7), Stamp::from_ns(20));
            names.could_write(reader, (Tid(writer), Stamp::from_ns(taken)))
        };
        for number in [0, 19] {
            assert_eq!([5, 6].map(|fd| could_write((number, fd), 9, TAKEN)), [true, false]);
        }
        for number in Call::POLLS {
            assert_eq!([ALONE, BOTH].map(|set| could_write((number, set), 9, TAKEN)), [true, false]);
        }
        for other in [(1, 5), (202, 5), (232, 5)] {
            assert!(!could_write(other, 9, TAKEN), "{other:?}");
        }
        assert!(!could_write((0, 5), 8, TAKEN), "another process");
        let second = 1_000_000_000;
        let times = [TAKEN - second, TAKEN - second + 1, TAKEN + second - 1, TAKEN + second];
        assert_eq!(times.map(|taken| could_write((0, 5), 9, taken)), [false, true, true, false]);
    }

    #[test]
    fn a_poll_of_one_descriptor_is_about_its_object_then() {
        const SET: u64 = Call::EMPTY_SET | 5;
        let mut names = names(&[(10, 5, 0o010_600, None, ""), (30, 5, 0o100_644, None, "orders.db")]);
        names.observe(&member(11, SET, 5, 1));
        for number in Call::POLLS {
            let at = |at, arg0| names.call(&call(number, arg0), Some(Tid(7)), Stamp::from_ns(at)).object;
            assert_eq!(at(20, SET), Some(Object::Pipe));
            assert_eq!(at(30, SET), Some(Object::File("orders.db".into())));
            // Another set, an address, an unreadable set, no descriptors.
            for other in [SET + 1, 5, Call::NO_ARGUMENT, Call::EMPTY_SET] {
                assert_eq!(at(20, other), None, "{other:#x}");
            }
        }
        let other = |tgid, number| names.call(&call(number, SET), Some(Tid(tgid)), Stamp::from_ns(20)).object;
        assert_eq!((other(8, 7), other(7, 202)), (None, None), "another process, no poll");
    }

    #[test]
    fn a_wait_for_a_set_of_the_kernel_is_about_the_descriptor_that_was_ready() {
        let names = names(&[(10, 4, 0, None, "[eventpoll]"), (10, 5, 0, None, "[timerfd]")]);
        let key = |number, end: WaitEnd| {
            let call = call(number, 4).with_end(end);
            names.call_key(&call, Some(Tid(7)), Stamp::from_ns(20))
        };
        let known = |number, end| {
            let key = key(number, end);
            (names.spell(key).object, key.is_of_ready_descriptor(), key.timer_end())
        };
        let object = |name: &str| Some(Object::Anonymous(name.into()));
        for number in Call::EPOLLS {
            let ready = (object("[timerfd]"), true, TimerEnd::Descriptor);
            assert_eq!(known(number, WaitEnd::Ready(5)), ready);
            assert_eq!(
                known(number, WaitEnd::Ready(6)),
                (None, true, TimerEnd::Descriptor),
                "no file is known"
            );
            let nothing = (object("[eventpoll]"), false, TimerEnd::TimedOut);
            assert_eq!(known(number, WaitEnd::NothingReady), nothing);
            assert_eq!(known(number, WaitEnd::NotKnown), (object("[eventpoll]"), false, TimerEnd::Either));
        }
        let uring = (object("[eventpoll]"), false, TimerEnd::Either);
        assert_eq!(known(Call::IO_URING_ENTER, WaitEnd::NotKnown), uring, "a request may be a timer");
        assert_eq!(known(0, WaitEnd::NotKnown).2, TimerEnd::TimedOut, "a read has one descriptor");
        let window = key(44, WaitEnd::WindowClosed);
        assert!(window.waits_for_window() && window.timer_end() == TimerEnd::TimedOut);
        assert!(!key(44, WaitEnd::NotKnown).waits_for_window());
        let polled = call(7, Call::EMPTY_SET | 5).with_end(WaitEnd::TimerMember);
        assert_eq!(names.call_key(&polled, None, Stamp::from_ns(20)).timer_end(), TimerEnd::Either);
    }

    #[test]
    fn a_set_has_each_object_once_and_the_number_of_all_descriptors() {
        const SET: u64 = Call::EMPTY_SET | 5;
        let mut names = names(&[
            (10, 5, 0o010_600, None, ""),
            (10, 6, 0o010_600, None, ""),
            (10, 7, 0o100_644, None, "orders.db"),
        ]);
        let object = |names: &Names| names.call(&call(7, SET), Some(Tid(7)), Stamp::from_ns(99)).object;
        // Descriptor 8 has no meaning. Two CPUs record the same set.
        for _ in 0..2 {
            for fd in [5, 6, 7, 8] {
                names.observe(&member(11, SET, fd, 4));
            }
        }
        // The descriptor's next meaning is not the set's.
        names.observe(&event(20, 0, 7, file(7, 7, 0o100_644, None, "later.db")));
        let all = vec![Object::File("orders.db".into()), Object::Pipe];
        assert_eq!(object(&names), Some(Object::AnyOf(all.clone(), SetSize::Known(4))));
        let key = |names: &Names| names.call_key(&call(7, SET), Some(Tid(7)), Stamp::from_ns(99));
        assert!(!names.polls(key(&names), FlowId(9)));
        names.observe(&event(12, 0, 7, file(7, 30, 0o140_600, Some(9), "")));
        names.observe(&member(12, SET, 30, 5));
        assert!(names.polls(key(&names), FlowId(9)));
        assert!(!names.polls(key(&names), FlowId(8)));
        // The same socket alone, in another set.
        const ALONE: u64 = SET + 16;
        let of_one = |names: &Names| names.call_key(&call(7, ALONE), Some(Tid(7)), Stamp::from_ns(99));
        assert!(!names.polls(of_one(&names), FlowId(9)), "the set is not known");
        names.observe(&member(13, ALONE, 30, 1));
        assert!(names.polls(of_one(&names), FlowId(9)));
        assert!(!names.polls(of_one(&names), FlowId(8)));
        for fd in 9..40 {
            names.observe(&event(21, 0, 7, file(7, fd, 0o140_600, None, "")));
            names.observe(&member(22, SET, fd, 17));
        }
        let all = [all, vec![Object::Socket(None)]].concat();
        assert_eq!(object(&names), Some(Object::AnyOf(all, SetSize::MoreThan(16))));
        assert_eq!(names.files.sets[&(Tid(7), SET)].members.len(), 16);
    }

    #[test]
    fn a_set_of_as_many_descriptors_as_are_recorded_is_known_whole() {
        const SET: u64 = Call::EMPTY_SET | 5;
        for (total, size) in [
            (2, SetSize::Known(2)),
            (15, SetSize::Known(15)),
            (16, SetSize::Known(16)),
            (17, SetSize::MoreThan(16)),
            (u32::MAX, SetSize::MoreThan(16)),
        ] {
            let mut names = names(&[(10, 0, 0o010_600, None, "")]);
            // A set of two stays a set if a member's record is lost.
            for fd in 0..if total == 2 { 1 } else { total.min(17) } {
                names.observe(&member(11, SET, fd, total));
            }
            let object = names.call(&call(7, SET), Some(Tid(7)), Stamp::from_ns(20)).object;
            assert_eq!(object, Some(Object::AnyOf(vec![Object::Pipe], size)), "{total}");
        }
    }

    #[test]
    fn a_connected_socket_is_named_by_its_other_end() {
        let mut names = names(&[(10, 3, 0o140_777, Some(1), "")]);
        let read = |names: &Names| names.call_key(&call(0, 3), Some(Tid(7)), Stamp::from_ns(10));
        let socket = |names: &Names| names.spell(read(names)).object;
        assert_eq!(socket(&names), Some(Object::Socket(None)));
        let [own, address] = ["127.0.0.1:1", "127.0.0.1:5432"];
        names.observe(&event(0, 0, 0, flow(1, own, address)));
        let end = Endpoint { protocol: 6, address: address.parse().expect("an address") };
        assert_eq!(socket(&names), Some(Object::Socket(Some(end))));
        let own = own.parse().expect("an address");
        assert_eq!(names.peer(read(&names)), Some(Peer { own, end, process: None }));
        assert_eq!(names.socket(read(&names)), Some(FlowId(1)));
        assert_eq!(names.socket(names.call_key(&call(0, 4), Some(Tid(7)), Stamp::from_ns(10))), None);
    }

    #[test]
    fn a_call_sleeps_if_nothing_but_its_timer_can_end_it() {
        let names = Names::default();
        let sleeps = |number, arg0| {
            let key = names.call_key(&call(number, arg0), Some(Tid(7)), Stamp::from_ns(20));
            (key.name().into_owned(), key.is_sleep())
        };
        for (number, arg0, name, sleeps_in_it) in [
            (35, 0, "nanosleep", true),
            (230, 0, "clock_nanosleep", true),
            (7, Call::EMPTY_SET, "poll", true),
            (7, Call::EMPTY_SET | 5, "poll", false),
            (0, 5, "read", false),
            (Call::PAGE_FAULT, 0, "page fault", false),
        ] {
            assert_eq!(sleeps(number, arg0), (String::from(name), sleeps_in_it), "{arg0:#x}");
        }
    }

    #[test]
    fn a_call_is_for_descriptors_if_it_has_one_or_polls_some() {
        let is = |number| CallName { number, object: None }.is_for_descriptors();
        // The calls read, epoll_wait, poll and select; futex, nanosleep, and a nameless call.
        assert!([0, 232, 7, 23].into_iter().all(is));
        assert!(![202, 35, 9_999].into_iter().any(is));
    }

    #[test]
    fn a_file_without_a_name_is_no_object() {
        for mode in [0o100_644, 0] {
            let names = names(&[(10, 5, mode, None, "")]);
            let object = names.call(&call(0, 5), Some(Tid(7)), Stamp::from_ns(20)).object;
            assert_eq!(object, None, "{mode:o}");
        }
    }
}
