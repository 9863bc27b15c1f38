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
/// that a worker does, or that a thread awaits.
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
        // A poll of standard output waits for room.
        let is_output = |fd: u32| Call::POLLS.contains(&call.number) && (1..=2).contains(&fd);
        let descriptor = descriptor.filter(|(_, fd, _)| !is_output(*fd));
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
mod tests;
