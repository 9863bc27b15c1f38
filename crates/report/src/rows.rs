//! The first screen's rows: contributors put together as a person would tell them.
//!
//! The window's *own* processes are its process and all its descendants. What their time went to is
//! told by what they did or waited for: running, a disk, a timer, a limit. What *others* did while an
//! own thread waited for them is told by process: "waiting for postgres". A kernel thread works on
//! someone's behalf, so its time belongs to the wait that it explains: `jbd2` to the disk write that
//! waited for it.
//!
//! Rows are a view: they regroup the path's segments and lose none, so they add up to the window.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Basis, Cause, Kind, Segment, WaitId};
use wakepath_engine::{PathAnswer, Responsible, Who};
use wakepath_event::{Comm, Tid};
use wakepath_wait_graph::ThreadIndex;

use crate::wording;

/// Whom or what a row blames.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    /// Own threads of this name ran.
    Running(Comm),
    /// Interrupts borrowed the CPU of own threads.
    Interrupts,
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
    /// Another process; several of one name are one row.
    Process(Comm),
    /// A kernel thread, where no disk was behind it.
    KernelThread(Comm),
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
    /// The waits behind it, by system call.
    pub calls: BTreeMap<String, Waits>,
    /// Kernel threads that the waits went through.
    pub through: BTreeSet<String>,
    /// Processes that it concerns.
    pub processes: BTreeSet<Tid>,
    /// Its threads.
    pub threads: BTreeSet<ThreadIndex>,
    /// How many separate stretches of time.
    pub stretches: u64,
    /// How much is known how well.
    pub basis: BasisMix,
}

/// Waits in one system call.
#[derive(Debug, Clone, Default)]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// Their time on the path, ns.
    pub ns: u64,
    last: Option<LastWait>,
}

/// The last wait that was counted, to know its next segment from the next wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastWait {
    /// Kernel threads' doings explain it.
    Explained(Option<WaitId>),
    /// A thread's own wait, up to this moment.
    Direct(Option<ThreadIndex>, Stamp<Reference>),
}

impl Waits {
    fn add(&mut self, segment: &Segment, wait: LastWait) {
        let continues = match (self.last, wait) {
            (Some(LastWait::Direct(thread, until)), LastWait::Direct(now, _)) => {
                thread == now && until == segment.from
            }
            (last, wait) => last == Some(wait),
        };
        self.count += u64::from(!continues);
        self.ns += segment.to.since(segment.from);
        self.last = Some(wait);
    }
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
    let mut grouping = Grouping::new(answer);
    for segment in &answer.path.segments {
        grouping.add(segment);
    }
    let mut rows: Vec<_> = grouping.rows.into_iter().collect();
    rows.sort_by(|(a, left), (b, right)| right.total_ns.cmp(&left.total_ns).then_with(|| a.cmp(b)));
    rows
}

struct Grouping<'a> {
    answer: &'a PathAnswer<'a>,
    rows: HashMap<Party, Row>,
    /// For each wait, itself or the nearest one around it in which no kernel thread waited.
    user_wait: Vec<Option<WaitId>>,
    /// The disk that took most of what explains such a wait.
    disk_of: HashMap<WaitId, Option<u32>>,
    own: HashMap<Tid, bool>,
    /// For each wait, itself or the nearest one around it in which an own thread waited.
    own_wait: Vec<Option<WaitId>>,
    previous: Option<Party>,
}

impl<'a> Grouping<'a> {
    fn new(answer: &'a PathAnswer<'a>) -> Self {
        let path = &answer.path;
        let is_kernel = |index| answer.who(index).kernel;
        // A wait's parent comes before it.
        let mut user_wait: Vec<Option<WaitId>> = Vec::with_capacity(path.waits.len());
        for (i, wait) in path.waits.iter().enumerate() {
            let outer = wait.parent.and_then(|parent| user_wait.get(parent.0 as usize).copied().flatten());
            let itself = u32::try_from(i).ok().map(WaitId);
            user_wait.push(if is_kernel(wait.thread) { outer } else { itself });
        }
        let mut disks: HashMap<WaitId, BTreeMap<Option<u32>, u64>> = HashMap::new();
        for segment in &path.segments {
            let wait = segment.parent.and_then(|wait| *user_wait.get(wait.0 as usize)?);
            if let (Some(wait), Cause::Block { request, .. }) = (wait, &segment.cause) {
                let device = request.map(|request| request.device);
                *disks.entry(wait).or_default().entry(device).or_default() += segment.to.since(segment.from);
            }
        }
        let disk_of = disks
            .into_iter()
            .filter_map(|(wait, disks)| Some((wait, disks.into_iter().max_by_key(|&(_, ns)| ns)?.0)))
            .collect();
        let mut grouping = Self {
            answer,
            rows: HashMap::new(),
            user_wait,
            disk_of,
            own: HashMap::new(),
            own_wait: Vec::with_capacity(path.waits.len()),
            previous: None,
        };
        for (i, wait) in path.waits.iter().enumerate() {
            let own = grouping.is_own(&answer.who(wait.thread));
            let outer =
                wait.parent.and_then(|parent| grouping.own_wait.get(parent.0 as usize).copied().flatten());
            let itself = u32::try_from(i).ok().map(WaitId);
            grouping.own_wait.push(if own { itself } else { outer });
        }
        grouping
    }

    fn own_wait(&self, segment: &Segment) -> Option<WaitId> {
        *self.own_wait.get(segment.parent?.0 as usize)?
    }

    fn add(&mut self, segment: &Segment) {
        let ns = segment.to.since(segment.from);
        let answer = self.answer;
        let thread = segment.thread.map(|index| answer.recorded.who(index, segment.to));
        let user_wait = segment.parent.and_then(|wait| *self.user_wait.get(wait.0 as usize)?);
        let party = self.party(segment, thread, user_wait);

        let by_kernel_thread = thread.is_some_and(|thread| thread.kernel);
        let call = if by_kernel_thread {
            user_wait
                .and_then(|wait| answer.path.waits.get(wait.0 as usize))
                .and_then(|wait| answer.wait_call(wait))
        } else {
            answer.segment_call(segment)
        };
        let call = call.as_ref().map(wording::call);
        // Another process's row tells how we waited for it; its own calls are the parts.
        let reached = matches!(party, Party::Process(_)).then(|| self.own_wait(segment)).flatten();
        let reached_by = reached
            .and_then(|wait| answer.wait_call(answer.path.waits.get(wait.0 as usize)?))
            .map(|call| wording::call(&call));
        let part = self.part(&party, segment, by_kernel_thread, call.as_deref());
        let continues = self.previous.as_ref() == Some(&party);
        self.previous = Some(party.clone());

        let row = self.rows.entry(party).or_default();
        row.total_ns += ns;
        row.stretches += u64::from(!continues);
        *row.parts.entry(part).or_default() += ns;
        let explained = if reached.is_some() { reached } else { user_wait };
        if let Some(call) = if reached.is_some() { reached_by } else { call } {
            let wait = if by_kernel_thread || reached.is_some() {
                LastWait::Explained(explained)
            } else {
                LastWait::Direct(segment.thread, segment.to)
            };
            row.calls.entry(call).or_default().add(segment, wait);
        }
        row.basis.add(segment.basis, ns);
        row.threads.extend(segment.thread);
        if let Some(thread) = thread {
            if thread.kernel {
                row.through.insert(wording::comm(thread.comm));
            } else {
                row.processes.extend(thread.tgid);
            }
        }
    }

    fn party(&mut self, segment: &Segment, thread: Option<Who>, user_wait: Option<WaitId>) -> Party {
        let answer = self.answer;
        // On whose behalf: a kernel thread's time is its waiter's.
        let (whose, for_kernel_thread) = match thread {
            Some(thread) if thread.kernel => {
                let waiter = user_wait.and_then(|wait| answer.path.waits.get(wait.0 as usize));
                (waiter.map(|wait| answer.who(wait.thread)), true)
            }
            thread => (thread, false),
        };
        if let Some(other) = whose.filter(|whose| !whose.kernel && !self.is_own(whose)) {
            return Party::Process(self.process_comm(&other));
        }
        let names = &answer.recorded.survey.names;
        if for_kernel_thread && segment.kind != Kind::BlockDevice {
            if let Some(&device) = user_wait.and_then(|wait| self.disk_of.get(&wait)) {
                return Party::Disk(wording::disk(names, device));
            }
            if matches!(segment.kind, Kind::Running | Kind::Runnable | Kind::Interrupted) {
                return Party::KernelThread(thread.map(|thread| thread.comm).unwrap_or_default());
            }
        }
        let what = || wording::responsible(answer, Responsible::from(&segment.cause));
        match segment.kind {
            Kind::Running => Party::Running(thread.map(|thread| thread.comm).unwrap_or_default()),
            Kind::Runnable => Party::Cpu,
            Kind::Throttled => Party::Limit(thread.and_then(|thread| limit(answer, &thread))),
            Kind::Interrupted => Party::Interrupts,
            Kind::Timer => Party::Timer,
            Kind::BlockDevice => match &segment.cause {
                Cause::Block { request, .. } => {
                    Party::Disk(wording::disk(names, request.map(|request| request.device)))
                }
                _ => Party::Disk(None),
            },
            Kind::Network => Party::Network(what()),
            Kind::Lock => Party::Lock,
            Kind::UserInput => Party::Person,
            Kind::OtherDevice => Party::Device(what()),
            Kind::Unknown => Party::Unknown(what()),
        }
    }

    /// How a segment is called within its party's row.
    fn part(&self, party: &Party, segment: &Segment, by_kernel_thread: bool, call: Option<&str>) -> String {
        let what = || wording::responsible(self.answer, Responsible::from(&segment.cause));
        match party {
            Party::Disk(_) => match &segment.cause {
                Cause::Block { queued: true, .. } => String::from("queue"),
                Cause::Block { queued: false, .. } => String::from("device"),
                _ if by_kernel_thread => String::from("kernel thread"),
                _ => String::from(wording::kind_phrase(segment.kind)),
            },
            Party::Cpu => what().unwrap_or_else(|| String::from("nobody known")),
            Party::Process(_) => match (segment.kind, call) {
                (Kind::Running | Kind::Runnable | Kind::Throttled | Kind::Interrupted, _)
                    if by_kernel_thread =>
                {
                    String::from("kernel threads")
                }
                (Kind::Running | Kind::Runnable | Kind::Throttled | Kind::Interrupted, _) | (_, None) => {
                    String::from(wording::kind_phrase(segment.kind))
                }
                (_, Some(call)) => format!("in {call}"),
            },
            Party::Lock => what().unwrap_or_else(|| String::from("a lock")),
            _ => String::from(wording::kind_phrase(segment.kind)),
        }
    }

    /// Whether a thread is of the window's own processes. One that was never introduced is not.
    fn is_own(&mut self, who: &Who) -> bool {
        let (recorded, at) = (self.answer.recorded, self.answer.path.window.to);
        let subject = self.answer.subject();
        let (Some(process), Some(ancestor)) = (who.tgid, subject.tgid) else { return who.tid == subject.tid };
        !who.kernel && *self.own.entry(process).or_insert_with(|| recorded.descends(process, ancestor, at))
    }

    /// A process is named by its main thread.
    fn process_comm(&self, who: &Who) -> Comm {
        let at = self.answer.path.window.to;
        who.tgid.and_then(|process| self.answer.recorded.process_comm(process, at)).unwrap_or(who.comm)
    }
}

/// The cgroup that limits a thread, with its limit: `shop.service (50.0 ms per 100 ms)`.
pub fn limit(answer: &PathAnswer, thread: &Who) -> Option<String> {
    let names = &answer.recorded.survey.names;
    let Some((path, limit)) = names.limit_over(thread) else {
        return names.unit(thread).as_ref().map(wording::unit);
    };
    let unit = wakepath_engine::Unit::of_path(path.bytes())
        .as_ref()
        .map_or_else(|| wording::name(path), wording::unit);
    let [quota, period] = [limit.quota_ns, limit.period_ns].map(crate::quantity::duration);
    Some(format!("{unit} ({quota} per {period})"))
}
