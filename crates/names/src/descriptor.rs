//! The files and sockets behind the descriptors of a process at a time, and system calls with their object.

use std::borrow::Cow;
use std::collections::HashMap;

use wakepath_clock::{Local, Stamp};
use wakepath_event::{Call, FileName, FlowId, Tid};

use crate::syscall::OF_DESCRIPTORS;
use crate::{Endpoint, Name, Names, Peer};

/// A system call with its object: `fdatasync` of `orders.db`. Calls that read the same are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallName {
    /// Its number.
    pub number: u32,
    /// The object that its descriptor referred to, where it takes one and that was recorded.
    pub object: Option<Object>,
}

/// The name of a system call, or its number where it has no name.
pub fn call_name(number: u32) -> Cow<'static, str> {
    match Call::name(number) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(format!("system call {number}")),
    }
}

/// A [`CallName`] that was not looked up yet. Equal keys have equal names; several keys may have one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallKey {
    number: u32,
    /// The process, the descriptor, and which of its meanings.
    descriptor: Option<(Tid, u32, usize)>,
}

impl CallKey {
    /// The call's name.
    pub fn name(self) -> Cow<'static, str> {
        call_name(self.number)
    }
}

/// The object of a descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Object {
    /// A file, directory or device: the last component of its path.
    File(Name),
    /// A pipe or FIFO.
    Pipe,
    /// A socket; its other end, where it is connected and known.
    Socket(Option<Endpoint>),
    /// Something without a place in the file system (`[eventpoll]`), by the kernel's name.
    Anonymous(Name),
}

const S_IFMT: u32 = 0o170_000;
const S_IFIFO: u32 = 0o010_000;
const S_IFSOCK: u32 = 0o140_000;

/// The descriptors of all processes; numbers are reused, so each meaning has a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files(HashMap<(Tid, u32), Meanings>);

/// The meanings of a descriptor, each with the time from which it holds.
type Meanings = Vec<(Stamp<Local>, Meaning)>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Meaning {
    mode: u32,
    flow: Option<FlowId>,
    name: Name,
}

impl Files {
    pub fn observe(&mut self, at: Stamp<Local>, file: &FileName) {
        let meaning =
            Meaning { mode: file.mode & S_IFMT, flow: file.flow, name: Name::from(file.name.as_ref()) };
        let meanings = self.0.entry((file.tgid, file.fd)).or_default();
        if meanings.last().is_none_or(|(_, last)| *last != meaning) {
            meanings.push((at, meaning));
        }
    }

    /// Which of a descriptor's meanings it had at `at`.
    fn at(&self, tgid: Tid, fd: u32, at: Stamp<Local>) -> Option<usize> {
        let meanings = self.0.get(&(tgid, fd))?;
        Some(meanings.partition_point(|(since, _)| *since <= at).saturating_sub(1))
    }
}

impl Names {
    /// A system call and the object that its descriptor referred to at `at`, in process `tgid`.
    pub fn call(&self, call: &Call, tgid: Option<Tid>, at: Stamp<Local>) -> CallName {
        self.spell(self.call_key(call, tgid, at))
    }

    /// The same, not looked up yet.
    pub fn call_key(&self, call: &Call, tgid: Option<Tid>, at: Stamp<Local>) -> CallKey {
        // The kernel reads the low half of the register: a descriptor is an `unsigned int`.
        let fd = call.arg0 as u32;
        let tgid = tgid.filter(|_| OF_DESCRIPTORS.contains(call.number));
        let descriptor = tgid.and_then(|tgid| Some((tgid, fd, self.files.at(tgid, fd, at)?)));
        CallKey { number: call.number, descriptor }
    }

    /// Looks the name of a call up.
    pub fn spell(&self, key: CallKey) -> CallName {
        let object = key.descriptor.and_then(|descriptor| self.object(self.meaning(descriptor)?));
        CallName { number: key.number, object }
    }

    /// The other end of the socket that a call is about, where it is one, connected and known.
    pub fn peer(&self, key: CallKey) -> Option<Peer> {
        let meaning = self.meaning(key.descriptor?).filter(|meaning| meaning.mode == S_IFSOCK)?;
        self.receiver(meaning.flow?)
    }

    fn meaning(&self, (tgid, fd, meaning): (Tid, u32, usize)) -> Option<&Meaning> {
        Some(&self.files.0.get(&(tgid, fd))?.get(meaning)?.1)
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
    fn a_descriptor_means_what_it_meant_at_that_moment() {
        let names = names(&[(10, 5, 0o100_644, None, "orders.db"), (20, 5, 0o010_600, None, "")]);
        let object = |at| names.call(&call(75, 5), Some(Tid(7)), Stamp::from_ns(at)).object;
        assert_eq!(object(10), Some(Object::File("orders.db".into())));
        assert_eq!(object(19), Some(Object::File("orders.db".into())));
        assert_eq!(object(20), Some(Object::Pipe));
    }

    #[test]
    fn a_call_without_a_descriptor_has_no_object() {
        let names = names(&[(10, 5, 0o100_644, None, "orders.db")]);
        // 202 futex, 230 clock_nanosleep: their first argument is no descriptor, though it may look like one.
        for number in [202, 230, 9999] {
            let found = names.call(&call(number, 5), Some(Tid(7)), Stamp::from_ns(10));
            assert_eq!(found.object, None, "{number}");
        }
        assert_eq!(call_name(9999), "system call 9999");
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
    }
}
