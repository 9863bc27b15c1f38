//! From the kernel's numbers to names for a reader.
//!
//! Every table is filled from the recording's own events; nothing is looked up on the analysing machine, which may
//! be another.

use std::collections::BTreeMap;

use wakepath_clock::{Local, Reference, Stamp};
use wakepath_event::{CgroupId, Event, EventKind, NameSpace, Tid};

use crate::descriptor::Files;
use crate::flow::Flows;
use crate::scheduling::Schedulings;
use crate::{FarEnds, Name, Script, ThreadInfo, Unit};

/// A name, and the time of its reading.
pub(crate) type ReadAt = (Stamp<Local>, Name);

/// All names in a recording.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Each number's latest name: cgroups, interrupts, devices, programs.
    named: BTreeMap<(NameSpace, u64), Name>,
    /// CPU limits by cgroup, in the hierarchy with the CPU controller, each from its reading on.
    limits: BTreeMap<CgroupId, Vec<ReadAt>>,
    /// Changing names, each from its reading on. By process: the stated service and instance, the names of its threads'
    /// attributes, and its script. By cgroup: the I/O limits. By flow: the receiving processes.
    changing: BTreeMap<(NameSpace, u64), Vec<ReadAt>>,
    pub(crate) files: Files,
    pub(crate) flows: Flows,
    pub(crate) schedulings: Schedulings,
}

/// The dropped pages that a cgroup's threads read again between two readings of the kernel's count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refaults {
    /// Their number.
    pub pages: u64,
    /// The first reading.
    pub from: Stamp<Local>,
    /// The second reading.
    pub to: Stamp<Local>,
}

/// A cgroup's CPU limit, and the cgroup's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnitLimit {
    /// The unit or container with the limit.
    pub unit: Unit,
    /// The limit, if recorded.
    pub limit: Option<CpuLimit>,
}

/// A cgroup's CPU limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuLimit {
    /// CPU time allowed in each period, ns.
    pub quota_ns: u64,
    /// The period, ns.
    pub period_ns: u64,
}

/// The words with which a program was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine<'a> {
    /// The process.
    pub process: Tid,
    /// When it was started.
    pub at: Stamp<Reference>,
    /// The words; the last is cut if they were too long.
    pub words: Vec<&'a [u8]>,
}

impl Names {
    /// Notes an event's names. Events come in time order.
    pub fn observe(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Name(NameSpace::CpuLimit, cgroup, limit) => {
                self.limits.entry(CgroupId(*cgroup)).or_default().push((event.at, Name::from(&**limit)));
            }
            EventKind::Name(
                space @ (NameSpace::Service
                | NameSpace::ServiceInstance
                | NameSpace::ThreadAttribute
                | NameSpace::Script
                | NameSpace::Arguments
                | NameSpace::IoLimit
                | NameSpace::Refaults
                | NameSpace::Receiver),
                key,
                name,
            ) => {
                self.changing.entry((*space, *key)).or_default().push((event.at, Name::from(&**name)));
            }
            EventKind::Name(NameSpace::Scheduling, key, text) => {
                let host = event.current.host();
                self.schedulings.observe(event.at, host, *key, &Name::from(&**text));
            }
            EventKind::Name(space, key, name) => {
                self.named.insert((*space, *key), Name::from(&**name));
            }
            EventKind::File(file) => {
                if let Some(flow) = file.flow {
                    self.flows.owned(flow, file.tgid);
                }
                self.files.observe(event.at, file);
            }
            EventKind::SetMember(member) => self.files.observe_member(event.at, member),
            EventKind::Flow(id, flow) => {
                self.flows.define(*id, flow.within(event.current.host()), *flow);
            }
            _ => {}
        }
    }

    /// Processes able to end a thread's wait, as they were at the recording's start; `None` if they were not looked up, or
    /// the thread waited for none.
    pub fn far_ends(&self, thread: Tid) -> Option<FarEnds> {
        FarEnds::parse(self.named.get(&(NameSpace::FarEnd, thread.0.into()))?.bytes(), thread)
    }

    /// A cgroup's path in the v2 hierarchy.
    pub fn cgroup(&self, id: CgroupId) -> Option<&Name> {
        self.named.get(&(NameSpace::Cgroup, id.0))
    }

    /// The target functions, by number, as the user gave them.
    pub fn targets(&self) -> impl Iterator<Item = (u32, &Name)> {
        self.numbered(NameSpace::Target)
    }

    /// A goroutine's wait reason in a probed program, in the words of Go's runtime.
    pub fn go_wait(&self, program: u16, reason: u8) -> Option<&Name> {
        self.named.get(&(NameSpace::GoWait, u64::from(program) << 8 | u64::from(reason)))
    }

    /// A process's service at `at`, as the process states it: the last reading until then, else the first, since it
    /// is read some time after the process's start.
    pub fn service(&self, process: Tid, at: Stamp<Local>) -> Option<&Name> {
        self.stated_by_process(NameSpace::Service, process.0.into(), at)
    }

    /// A process's instance of its service, read in the same way.
    pub fn service_instance(&self, process: Tid, at: Stamp<Local>) -> Option<&Name> {
        self.stated_by_process(NameSpace::ServiceInstance, process.0.into(), at)
    }

    /// The name of an attribute with this key in a process's threads, read in the same way.
    pub fn thread_attribute(&self, process: Tid, key: u8, at: Stamp<Local>) -> Option<&Name> {
        self.stated_by_process(NameSpace::ThreadAttribute, u64::from(process.0) << 8 | u64::from(key), at)
    }

    fn stated_by_process(&self, space: NameSpace, key: u64, at: Stamp<Local>) -> Option<&Name> {
        self.at(space, key, at).filter(|name| !name.bytes().is_empty())
    }

    /// A changing name: the last reading until `at`, else the first.
    pub(crate) fn at(&self, space: NameSpace, key: u64, at: Stamp<Local>) -> Option<&Name> {
        let read = self.changing.get(&(space, key))?;
        let until = read.partition_point(|&(since, _)| since <= at);
        read.get(until.saturating_sub(1)).map(|(_, name)| name)
    }

    /// All readings of a changing name, in time order.
    pub(crate) fn readings(&self, space: NameSpace, key: u64) -> &[ReadAt] {
        self.changing.get(&(space, key)).map_or(&[], Vec::as_slice)
    }

    /// The script that a process, which started at `start`, runs at `at`, and the time from which it is known. An earlier
    /// process with this number has another start.
    pub fn script(
        &self,
        process: Tid,
        start: Stamp<Local>,
        at: Stamp<Local>,
    ) -> Option<(Stamp<Local>, Script)> {
        let read = self.changing.get(&(NameSpace::Script, process.0.into()))?;
        let until = read.partition_point(|&(since, _)| since <= at);
        let (since, name) = read[..until].last()?;
        (*since >= start).then(|| Script::new(name.bytes())).flatten().map(|script| (*since, script))
    }

    /// The command lines that the user asked for, in time order.
    pub fn command_lines(&self) -> Vec<CommandLine<'_>> {
        let kept = self.changing.iter().filter(|((space, _), _)| *space == NameSpace::Arguments);
        let lines =
            kept.flat_map(|((_, process), lines)| lines.iter().map(|read| (Tid(*process as u32), read)));
        let mut lines: Vec<_> = lines
            .map(|(process, (at, name))| {
                let words = name.bytes().strip_suffix(b"\0").unwrap_or(name.bytes());
                let words = words.split(|byte| *byte == 0).collect();
                CommandLine { process, at: at.on_reference_host(), words }
            })
            .collect();
        lines.sort_unstable_by_key(|line: &CommandLine<'_>| (line.at, line.process));
        lines
    }

    /// Whether any process with this number ran a script.
    pub(crate) fn has_script(&self, process: Tid) -> bool {
        self.changing.contains_key(&(NameSpace::Script, process.0.into()))
    }

    /// All names in a space with 32-bit keys, ordered by key.
    fn numbered(&self, space: NameSpace) -> impl Iterator<Item = (u32, &Name)> {
        let named = self.named.range((space, 0)..=(space, u32::MAX.into()));
        named.map(|(&(_, key), name)| (key as u32, name))
    }

    /// A cgroup's path in the hierarchy with the CPU controller.
    pub fn cpu_cgroup(&self, id: CgroupId) -> Option<&Name> {
        self.named.get(&(NameSpace::CpuCgroup, id.0))
    }

    /// A cgroup's path in the hierarchy with the I/O controller, if its requests were held back.
    pub(crate) fn io_cgroup(&self, id: CgroupId) -> Option<&Name> {
        self.named.get(&(NameSpace::IoCgroup, id.0))
    }

    /// The unit or container of a cgroup in the hierarchy with the memory controller, if its limit was reached.
    pub fn memory_unit(&self, id: CgroupId) -> Option<Unit> {
        let path = self.named.get(&(NameSpace::MemoryCgroup, id.0))?;
        Some(Unit::from_cgroup_path(path.bytes()).unwrap_or_else(|| Unit::Cgroup(path.clone())))
    }

    /// The dropped pages read again by a cgroup's threads, between the readings around `from` and `to`; `None` without two
    /// readings.
    pub fn refaults(&self, cgroup: CgroupId, from: Stamp<Local>, to: Stamp<Local>) -> Option<Refaults> {
        let read = self.changing.get(&(NameSpace::Refaults, cgroup.0))?;
        let first = read.partition_point(|&(at, _)| at <= from).saturating_sub(1);
        let last = read.partition_point(|&(at, _)| at < to).min(read.len() - 1);
        let number = |place: usize| str::from_utf8(read[place].1.bytes()).ok()?.parse::<u64>().ok();
        if first == last {
            return None;
        }
        let pages = number(last)?.checked_sub(number(first)?)?;
        Some(Refaults { pages, from: read[first].0, to: read[last].0 })
    }

    /// The path of a thread's cgroup in the v2 hierarchy, or if it says nothing, in the hierarchy with the CPU
    /// controller. If both exist, systemd keeps its units in the first.
    pub fn cgroup_of(&self, thread: &ThreadInfo) -> Option<&Name> {
        let says_something = |path: &&Name| path.bytes().iter().any(|&b| b != b'/');
        let v2 = self.cgroup(thread.cgroup).filter(says_something);
        v2.or_else(|| self.cpu_cgroup(thread.cpu_cgroup).filter(says_something))
    }

    /// A thread's unit or container.
    pub fn unit(&self, thread: &ThreadInfo) -> Option<Unit> {
        Unit::from_cgroup_path(self.cgroup_of(thread)?.bytes())
    }

    /// A cgroup's CPU limit at `at`, in the hierarchy with the CPU controller, if read: the last reading until
    /// then, else the next, since a limit set while recording runs is read when it hands out time.
    fn cpu_limit(&self, cgroup: CgroupId, at: Stamp<Local>) -> Option<CpuLimit> {
        let read = self.limits.get(&cgroup)?;
        let until = read.partition_point(|&(since, _)| since <= at);
        let (_, text) = read.get(until.saturating_sub(1))?;
        let text = std::str::from_utf8(text.bytes()).ok()?;
        let (quota, period) = text.trim().split_once(' ')?;
        let ns = |us: &str| us.parse::<u64>().ok().and_then(|us| us.checked_mul(1000));
        Some(CpuLimit { quota_ns: ns(quota)?, period_ns: ns(period)? })
    }

    /// The innermost CPU limit over a thread at `at`, its own cgroup's or an outer cgroup's. If none was read, it
    /// is taken to be its own cgroup's.
    pub fn limit_of(&self, thread: &ThreadInfo, at: Stamp<Local>) -> Option<UnitLimit> {
        let unit = |path: &Name| Unit::from_cgroup_path(path.bytes());
        match self.limit_over(thread, at) {
            Some((path, limit)) => {
                let unit = unit(path).unwrap_or_else(|| Unit::Cgroup(path.clone()));
                Some(UnitLimit { unit, limit: Some(limit) })
            }
            None => {
                let own = self.cpu_cgroup(thread.cpu_cgroup).and_then(unit);
                Some(UnitLimit { unit: own.or_else(|| self.unit(thread))?, limit: None })
            }
        }
    }

    /// The innermost CPU limit over a thread, and the path of the limited cgroup.
    fn limit_over(&self, thread: &ThreadInfo, at: Stamp<Local>) -> Option<(&Name, CpuLimit)> {
        let path = self.cpu_cgroup(thread.cpu_cgroup)?.bytes();
        let limited =
            self.limits.keys().filter_map(|&id| Some((self.cpu_cgroup(id)?, self.cpu_limit(id, at)?)));
        limited
            .filter(|(outer, _)| is_within(path, outer.bytes()))
            .max_by_key(|(outer, _)| outer.bytes().len())
    }

    /// An interrupt's handlers, as in `/proc/interrupts`.
    pub fn interrupt(&self, irq: u16) -> Option<&Name> {
        self.named.get(&(NameSpace::Interrupt, u64::from(irq)))
    }

    /// A block device's name in `/dev`, by major << 20 | minor.
    pub fn block_device(&self, device: u32) -> Option<&Name> {
        self.named.get(&(NameSpace::BlockDevice, u64::from(device)))
    }

    /// The block devices with names, ordered by number.
    pub fn block_devices(&self) -> impl Iterator<Item = (u32, &Name)> {
        self.numbered(NameSpace::BlockDevice)
    }
}

/// Whether the cgroup at `path` is at `outer` or below it.
fn is_within(path: &[u8], outer: &[u8]) -> bool {
    let outer = outer.strip_suffix(b"/").unwrap_or(outer);
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests;
