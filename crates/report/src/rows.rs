//! The first screen's rows: contributors put together as a person would tell them.
//!
//! The window's *own* processes are its process and all its descendants. What their time went to is
//! told by what they did or waited for: running, a disk, a timer, a limit. What *others* did while an
//! own thread waited for them is told by process: "waiting for postgres". A kernel thread works on
//! someone's behalf, so its time belongs to the wait that it explains: `jbd2` to the disk write that
//! waited for it.
//!
//! Rows are a view: they regroup the path's segments and lose none, so they add up to the window.

mod classes;
mod ends;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use wakepath_critical_path::{Basis, Responsible, SegmentKind};
use wakepath_engine::{CallKey, Name, PathAnswer, ThreadInfo};
use wakepath_event::{Comm, Tid};
use wakepath_wait_graph::ThreadIndex;

use crate::places::Sites;
use crate::wording;
use classes::{Class, Sum, classes, is_own};
pub use ends::{End, Spent};

/// Whom or what a row blames.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    /// Own threads of this name ran.
    Running(Comm),
    /// Interrupts borrowed the CPU of own threads.
    Interrupts,
    /// Whoever else runs on the machine below this one.
    Hypervisor,
    /// Own threads waited for a CPU.
    Cpu,
    /// A CPU limit held own threads; the text names its cgroup.
    Limit(Option<String>),
    /// A disk.
    Disk(Option<String>),
    /// A timer that own threads set.
    Timer,
    /// The network: the other end, where it is known.
    Network(Option<String>),
    /// A lock whose holder's doings are not known.
    Lock,
    /// A person.
    Person,
    /// Some other device or interrupt.
    Device(Option<String>),
    /// Another process; several of one name, on one host, are one row. The host, where it is another one.
    Process(Comm, Option<Name>),
    /// A kernel thread, where no disk was behind it.
    KernelThread(Comm),
    /// Waits that were not over when the window closed.
    StillWaiting,
    /// Nobody knows; the reason.
    Unknown(Option<String>),
}

/// A row: a party, what it took, and how.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Its time, ns.
    pub total_ns: u64,
    /// What the time consists of, by wording, ns.
    pub parts: BTreeMap<String, u64>,
    /// The same as the end of the chain: what those were at who were waited for, and who had the CPU.
    pub ends: BTreeMap<End, Spent>,
    /// The waits behind it, by system call.
    pub calls: BTreeMap<String, Waits>,
    /// Where in the code these waits began.
    pub sites: Sites,
    /// Kernel threads that the waits went through.
    pub through: BTreeSet<String>,
    /// Processes that it concerns.
    pub processes: BTreeSet<Tid>,
    /// Its threads.
    pub threads: BTreeSet<ThreadIndex>,
    /// Whose time it is, by name, ns.
    pub users: BTreeMap<Comm, u64>,
    /// How many separate stretches of time.
    pub stretches: u64,
    /// How much is known how well.
    pub basis: BasisMix,
}

/// Waits in one system call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// Their time on the path, ns.
    pub ns: u64,
}

/// How much of a time is known how well, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BasisMix {
    pub measured: u64,
    pub sampled: u64,
    pub inferred: u64,
    pub ambiguous: u64,
}

impl BasisMix {
    fn add(&mut self, basis: Basis, ns: u64) {
        match basis {
            Basis::Measured => self.measured += ns,
            Basis::Sampled => self.sampled += ns,
            Basis::Inferred(_) => self.inferred += ns,
            Basis::Ambiguous => self.ambiguous += ns,
        }
    }

    /// One word for the whole, which never claims more than holds for 99 parts in 100.
    pub fn word(self) -> &'static str {
        let total = self.measured + self.sampled + self.inferred + self.ambiguous;
        let nearly_all = |part: u64| part > 0 && part >= total - total / 100;
        let most = |part: u64| part > total / 2;
        if nearly_all(self.measured) {
            "measured"
        } else if self.ambiguous > total / 100 {
            if most(self.ambiguous) { "ambiguous" } else { "partly ambiguous" }
        } else if nearly_all(self.sampled) {
            "sampled"
        } else if most(self.measured) {
            "mostly measured"
        } else {
            "inferred"
        }
    }
}

/// All rows, the largest first.
pub fn rows(answer: &PathAnswer) -> Vec<(Party, Row)> {
    let mut grouping = Grouping { answer, rows: HashMap::new(), own: HashMap::new() };
    for (class, sum) in classes(answer) {
        grouping.add(&class, sum);
    }
    let mut rows: Vec<_> = grouping.rows.into_iter().collect();
    rows.sort_by(|(a, left), (b, right)| right.total_ns.cmp(&left.total_ns).then_with(|| a.cmp(b)));
    rows
}

struct Grouping<'a> {
    answer: &'a PathAnswer<'a>,
    rows: HashMap<Party, Row>,
    own: HashMap<ThreadIndex, bool>,
}

impl Grouping<'_> {
    fn add(&mut self, class: &Class, sum: Sum) {
        let answer = self.answer;
        let thread = class.thread.map(|thread| ThreadInfo { comm: class.comm, ..answer.thread(thread) });
        // On whose behalf: a kernel thread's time is its waiter's.
        let by_kernel = thread.is_some_and(|thread| thread.kernel);
        let whose = if by_kernel { class.user.map(|user| user.thread) } else { class.thread };
        let party = self.party(class, thread, whose);
        // Another process's row tells how we waited for it; its own calls are the parts.
        let call = match party {
            Party::Process(..) => class.own_call,
            _ if by_kernel => class.user.and_then(|user| user.call),
            _ => class.call,
        };
        let (site, waits) = match party {
            Party::Process(..) => (class.own_site, sum.waits),
            _ if by_kernel => (class.user.and_then(|user| user.site), sum.waits),
            _ => (class.site, sum.own_waits),
        };
        let part = self.part(&party, class, by_kernel);
        let call = call.map(|call| self.spell(call));
        let end = self.end(&party, class, by_kernel);
        let user = whose.map(|whose| if by_kernel { answer.thread(whose).comm } else { class.comm });

        let row = self.rows.entry(party).or_default();
        row.total_ns += sum.ns;
        row.stretches += sum.stretches;
        *row.parts.entry(part).or_default() += sum.ns;
        if let Some((end, object)) = end {
            let spent = row.ends.entry(end).or_default();
            spent.ns += sum.ns;
            spent.objects.extend(object);
            let site = if by_kernel { class.user.and_then(|user| user.site) } else { class.site };
            if site.is_some() || sum.own_waits > 0 {
                *spent.sites.entry(site).or_default() += sum.own_waits;
            }
        }
        if let Some(call) = call {
            let of_call = row.calls.entry(call).or_default();
            of_call.count += waits;
            of_call.ns += sum.ns;
        }
        if site.is_some() || waits > 0 {
            *row.sites.entry(site).or_default() += waits;
        }
        if let Some(user) = user {
            *row.users.entry(user).or_default() += sum.ns;
        }
        row.basis.add(class.basis, sum.ns);
        row.threads.extend(class.thread);
        if let Some(thread) = thread {
            if thread.kernel {
                row.through.insert(wording::comm(worker_family(thread.comm)));
            } else {
                row.processes.extend(thread.tgid);
            }
        }
    }

    fn party(&mut self, class: &Class, thread: Option<ThreadInfo>, whose: Option<ThreadIndex>) -> Party {
        let answer = self.answer;
        if let Some(other) = whose.filter(|whose| !self.is_own(*whose)) {
            let other = answer.thread(other);
            if !other.kernel {
                return Party::Process(self.process_comm(&other), self.elsewhere(&other));
            }
        }
        let names = &answer.recorded.survey.names;
        if let Some(kernel) = thread.filter(|thread| thread.kernel && class.kind != SegmentKind::BlockDevice)
        {
            if let Some(device) = class.user.and_then(|user| user.disk) {
                return Party::Disk(wording::disk(names, device));
            }
            if matches!(
                class.kind,
                SegmentKind::Running | SegmentKind::Runnable | SegmentKind::Interrupted | SegmentKind::Stolen
            ) {
                return Party::KernelThread(worker_family(kernel.comm));
            }
        }
        let what = || wording::responsible(answer, class.responsible);
        match class.kind {
            SegmentKind::Running => Party::Running(class.comm),
            SegmentKind::Runnable => Party::Cpu,
            SegmentKind::Throttled => Party::Limit(thread.and_then(|thread| limit(answer, &thread))),
            SegmentKind::Interrupted => Party::Interrupts,
            SegmentKind::Stolen => Party::Hypervisor,
            SegmentKind::Timer => Party::Timer,
            SegmentKind::BlockDevice => match class.responsible {
                Responsible::Disk { device, .. } => Party::Disk(wording::disk(names, device)),
                _ => Party::Disk(None),
            },
            SegmentKind::Network => Party::Network(what()),
            SegmentKind::Lock => Party::Lock,
            SegmentKind::UserInput => Party::Person,
            SegmentKind::OtherDevice => Party::Device(what()),
            SegmentKind::Unknown if class.responsible == Responsible::StillWaiting => Party::StillWaiting,
            SegmentKind::Unknown => Party::Unknown(what()),
        }
    }

    /// How a class is called within its party's row.
    fn part(&self, party: &Party, class: &Class, by_kernel: bool) -> String {
        let answer = self.answer;
        let phrase = || String::from(wording::kind_phrase(class.kind));
        match (party, class.responsible) {
            (Party::Disk(_), Responsible::Disk { queued: true, .. }) => String::from("queue"),
            (Party::Disk(_), Responsible::Disk { queued: false, .. }) => String::from("device"),
            (Party::Disk(_), _) if by_kernel => String::from("kernel thread"),
            // Who had the CPU is told by name: of a build's hundred compilers each had it for a moment.
            (Party::Cpu, Responsible::Competitor(other)) => {
                let other = answer.thread(other);
                let name = if other.kernel {
                    format!("kernel thread {}", wording::comm(other.comm))
                } else {
                    wording::comm(other.comm)
                };
                name + &wording::elsewhere(answer.recorded, &other)
            }
            (Party::Cpu, Responsible::IdleCpu) => String::from("idle CPU"),
            (Party::Cpu, _) => String::from("nobody known"),
            (Party::Lock, responsible) => {
                wording::responsible(answer, responsible).unwrap_or_else(|| String::from("a lock"))
            }
            (Party::Process(..), _) => match (class.kind, class.call) {
                (
                    SegmentKind::Running
                    | SegmentKind::Runnable
                    | SegmentKind::Throttled
                    | SegmentKind::Interrupted
                    | SegmentKind::Stolen,
                    _,
                ) if by_kernel => String::from("kernel threads"),
                (
                    SegmentKind::Running
                    | SegmentKind::Runnable
                    | SegmentKind::Throttled
                    | SegmentKind::Interrupted
                    | SegmentKind::Stolen,
                    _,
                )
                | (_, None) => phrase(),
                (_, Some(call)) => format!("in {}", self.spell(call)),
            },
            _ => phrase(),
        }
    }

    fn spell(&self, call: CallKey) -> String {
        wording::call(&self.answer.recorded.survey.names.spell(call))
    }

    fn is_own(&mut self, thread: ThreadIndex) -> bool {
        let answer = self.answer;
        *self.own.entry(thread).or_insert_with(|| is_own(answer, thread))
    }

    fn elsewhere(&self, who: &ThreadInfo) -> Option<Name> {
        self.answer.recorded.remote_host(who.tid).map(|host| host.name.clone())
    }

    /// A process is named by its main thread.
    fn process_comm(&self, who: &ThreadInfo) -> Comm {
        let at = self.answer.path.window.to;
        who.tgid.and_then(|process| self.answer.recorded.process_comm(process, at)).unwrap_or(who.comm)
    }
}

/// What kernel threads of one kind are called together: `kworker` of `kworker/u8:4`, `ksoftirqd` of
/// `ksoftirqd/0`. Which of them it was means nothing to anybody; `jbd2/sda1-8` names its disk.
pub fn worker_family(comm: Comm) -> Comm {
    let name = comm.bytes();
    let Some(slash) = name.iter().position(|&b| b == b'/') else { return comm };
    let number = name[slash + 1..].strip_prefix(b"u").unwrap_or(&name[slash + 1..]);
    if number.first().is_some_and(u8::is_ascii_digit) { Comm::new(&name[..slash]) } else { comm }
}

/// The cgroup that limits a thread, with its limit: `shop.service (50.0 ms per 100 ms)`.
pub fn limit(answer: &PathAnswer, thread: &ThreadInfo) -> Option<String> {
    let names = &answer.recorded.survey.names;
    let Some((path, limit)) = names.limit_over(thread) else {
        return names.unit(thread).as_ref().map(wording::unit);
    };
    let unit = wakepath_engine::Unit::of_path(path.bytes())
        .as_ref()
        .map_or_else(|| wording::name(path), wording::unit);
    let [quota, period] = [limit.quota_ns, limit.period_ns].map(crate::units::duration);
    Some(format!("{unit} ({quota} per {period})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_of_one_kind_are_one_party() {
        for (name, family) in [
            ("kworker/u8:4", "kworker"),
            ("kworker/0:1H", "kworker"),
            ("ksoftirqd/1", "ksoftirqd"),
            ("jbd2/sda1-8", "jbd2/sda1-8"),
            ("kswapd0", "kswapd0"),
            ("a/", "a/"),
        ] {
            assert_eq!(worker_family(Comm::new(name.as_bytes())), Comm::new(family.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_mix_never_claims_more_than_nearly_all_of_it_bears() {
        let mix =
            |measured, inferred, ambiguous| BasisMix { measured, sampled: 0, inferred, ambiguous }.word();
        for ((measured, inferred, ambiguous), word) in [
            ((100, 0, 0), "measured"),
            ((99, 1, 0), "measured"),
            ((98, 2, 0), "mostly measured"),
            ((40, 60, 0), "inferred"),
            ((98, 0, 2), "partly ambiguous"),
            ((10, 0, 90), "ambiguous"),
        ] {
            assert_eq!(mix(measured, inferred, ambiguous), word, "{measured} {inferred} {ambiguous}");
        }
    }
}
