//! The rows of the first screen: a path's time by the responsible thread or cause.
//!
//! The window's *own* processes are its process and all descendants. Their time is grouped by activity or wait:
//! running, a disk, a timer, a limit. The time of *other* processes, while an own thread waited for them, is
//! grouped by process: "waiting for postgres". A kernel thread works on behalf of others, so its time belongs to
//! the wait that it explains: `jbd2` to the disk write that waited for it.
//!
//! Rows regroup the path's segments and lose none, so they add up to the window.

mod classes;
#[cfg(test)]
mod drawn;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use wakepath_critical_path::{Basis, Responsible, Segment, SegmentKind};
use wakepath_event::{Comm, Tid};
use wakepath_loaded::{CallKey, CallName, Object, ThreadInfo, TimerEnd, pool_family, worker_family};
use wakepath_wait_graph::ThreadIndex;

use crate::far_process::far_process;
use crate::pauses::pauses;
use crate::polling::{TriedBy, polling};
use crate::sleep_loop::sleep_loop;
use crate::{
    Activity, BasisMix, Blamed, DiskUse, EndKey, Evidence, Expected, FarProcess, PartKey, Pauses, Polling,
    RowKey, Sites, SleepLoop, ThreadName, Tried,
};
use classes::{Class, Sum, classes, classified};

/// The first rows whose far process is looked up: each takes a walk over the path.
const MAX_WITH_FAR_PROCESS: usize = 3;

/// A row: its key's time in the window, and details.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// Its time, ns.
    pub total_ns: u64,
    /// The part that the window's own thread spent while not waiting for another thread, ns.
    pub own_ns: u64,
    /// The total's parts, ns.
    pub parts: BTreeMap<PartKey, u64>,
    /// The total by the end of the wait chain.
    pub ends: BTreeMap<EndKey, End>,
    /// The waits behind the time, by system call.
    pub calls: BTreeMap<CallName, Waits>,
    /// The calls failing before its sleeps, most time first.
    pub polling: Vec<Polling>,
    /// The loop behind its sleeps, if these are processes.
    pub sleep_loop: Option<SleepLoop>,
    /// Waits for a disk in unrecorded system calls, perhaps in page faults.
    pub in_unknown_calls: Waits,
    /// Code sites where these waits began.
    pub sites: Sites,
    /// Kernel threads in the wait chain.
    pub through: BTreeSet<Comm>,
    /// The threads' processes.
    pub processes: BTreeSet<Tid>,
    /// The threads.
    pub threads: BTreeSet<ThreadIndex>,
    /// The losing threads, each by its name then, ns.
    pub users: BTreeMap<(Comm, ThreadIndex), u64>,
    /// The number of separate stretches.
    pub stretches: u64,
    /// The total by basis.
    pub basis: BasisMix,
    /// The part in which threads in the waiting thread's process had the CPU, ns, and these threads; for waits for a CPU alone.
    pub behind_own: (u64, BTreeSet<ThreadIndex>),
    /// The same for its other own processes.
    pub behind_others: (u64, BTreeSet<ThreadIndex>),
    /// The waits for its garbage collections, if it runs these.
    pub pauses: Option<Pauses>,
    /// The silent process at the other end, if on this host and known; for the largest rows alone.
    pub far: Option<FarProcess>,
}

impl Row {
    /// The own threads that had the CPU, mostly, and whether these belong to other processes than the waiting threads; `None`
    /// where own threads had it for at most half the row's time.
    pub fn own_competitors(&self) -> Option<(&BTreeSet<ThreadIndex>, bool)> {
        let (own, others) = (&self.behind_own, &self.behind_others);
        let most = if others.0 > own.0 { (&others.1, true) } else { (&own.1, false) };
        (own.0 + others.0 > self.total_ns / 2).then_some(most)
    }

    /// The time by the losing thread's name, ns.
    pub fn users_by_name(&self) -> BTreeMap<Comm, u64> {
        let mut names = BTreeMap::new();
        self.users.iter().for_each(|((name, _), ns)| *names.entry(*name).or_default() += ns);
        names
    }

    /// Whether kernel threads took more than half of the time: for a disk's row, the disk is not the part that weighs.
    pub fn is_mostly_in_kernel_threads(&self) -> bool {
        let ns = self.parts.get(&PartKey::KernelThreads).copied().unwrap_or_default();
        ns > self.total_ns / 2
    }

    /// The object with the most time in the row's waits, and the number of other objects; `None` if the object is
    /// unknown or anonymous.
    pub fn timed_out_object(&self) -> Option<(&Object, usize)> {
        let mut objects: BTreeMap<Option<&Object>, u64> = BTreeMap::new();
        for (call, waits) in &self.calls {
            *objects.entry(call.object.as_ref()).or_default() += waits.ns;
        }
        let others = objects.len().saturating_sub(1);
        let (object, _) = objects.into_iter().max_by_key(|&(object, ns)| (ns, Reverse(object)))?;
        object.filter(|object| !matches!(object, Object::Anonymous(_))).map(|object| (object, others))
    }
}

/// Waits in one system call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Waits {
    /// Their number.
    pub count: u64,
    /// Their time on the path, ns.
    pub ns: u64,
}

/// The time at an end of the wait chain.
#[derive(Debug, Clone, Default)]
pub struct End {
    /// The time, ns.
    pub ns: u64,
    /// The system calls' objects.
    pub objects: BTreeSet<Object>,
    /// Code sites where the waits began.
    pub sites: Sites,
}

/// All rows, largest first.
pub fn rows(evidence: &Evidence<'_>) -> Vec<(RowKey, Row)> {
    let mut rows = keyed(evidence, false);
    for (key, row) in rows.iter_mut().take(MAX_WITH_FAR_PROCESS) {
        row.far = far_process(evidence, key, row);
    }
    for (key, row) in &mut rows {
        row.pauses = pauses(evidence, key);
    }
    rows
}

/// The rows of a call's time, largest first. The key is the thread that ended a wait of the call's own thread (it
/// held the lock, sent the packet or woke the thread), if a user thread did; its activity meanwhile is the row's
/// parts.
pub(crate) fn rows_of_call(evidence: &Evidence<'_>) -> Vec<(RowKey, Row)> {
    keyed(evidence, true)
}

fn keyed(evidence: &Evidence<'_>, of_call: bool) -> Vec<(RowKey, Row)> {
    let mut builder = RowBuilder::new(evidence, of_call);
    for (class, sum) in classes(evidence, of_call) {
        builder.add(&class, sum);
    }
    let RowBuilder { mut rows, attempts, .. } = builder;
    for (key, attempts) in attempts {
        if let Some(row) = rows.get_mut(&key) {
            row.polling = polling(evidence.recorded.failed_calls(), &attempts, row.waits());
        }
    }
    if !of_call && let Some(row) = rows.get_mut(&RowKey::Timer) {
        row.sleep_loop = sleep_loop(evidence, row);
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by(|(a, left), (b, right)| right.total_ns.cmp(&left.total_ns).then_with(|| a.cmp(b)));
    rows
}

/// Calls `each` for the segments, or parts of segments, whose time a row of a path has, in path order.
pub(crate) fn segments_in_row(evidence: &Evidence<'_>, wanted: &RowKey, mut each: impl FnMut(&Segment)) {
    let mut builder = RowBuilder::new(evidence, false);
    let mut known: HashMap<Class, bool> = HashMap::new();
    for (class, segment) in classified(evidence) {
        if *known.entry(class).or_insert_with(|| builder.key_of(&class) == *wanted) {
            each(&segment);
        }
    }
}

struct RowBuilder<'a> {
    evidence: &'a Evidence<'a>,
    /// The path is a call's.
    of_call: bool,
    rows: HashMap<RowKey, Row>,
    /// The sleeps behind failed calls.
    attempts: HashMap<RowKey, TriedBy>,
    /// Whether a thread is an own thread.
    own: HashMap<ThreadIndex, bool>,
}

impl<'a> RowBuilder<'a> {
    fn new(evidence: &'a Evidence<'a>, of_call: bool) -> Self {
        Self { evidence, of_call, rows: HashMap::new(), attempts: HashMap::new(), own: HashMap::new() }
    }

    fn add(&mut self, class: &Class, sum: Sum) {
        let evidence = self.evidence;
        let (thread, user) = self.threads_of(class);
        let by_kernel = thread.is_some_and(|thread| thread.kernel);
        let key = self.key(class, thread, user);
        // The losing thread's wait.
        let (end_call, end_site) = match class.user {
            user if by_kernel => (user.and_then(|user| user.call), user.and_then(|user| user.site)),
            _ => (class.call, class.site),
        };
        // A wait for another process is named by the waiter's call; the other process's calls are its parts.
        let (call, site, waits) = match (&key, class.ender) {
            (_, Some(ender)) => (ender.call, ender.site, sum.waits),
            (RowKey::Process(..), None) => (class.own_call, class.own_site, sum.waits),
            _ => (end_call, end_site, if by_kernel { sum.waits } else { sum.own_waits }),
        };
        let part = self.part(&key, class, by_kernel);
        let call = call.map(|call| evidence.spell(call));
        let end = self.end(&key, class, by_kernel, end_call.map(|call| evidence.spell(call)));
        let user = user.map(|user| (if by_kernel { evidence.thread(user).comm } else { class.comm }, user));

        let attempt = class.attempt.filter(|_| key.ends_by_timer());
        let is_asked = class.thread.is_some_and(|thread| evidence.is_asked(thread));
        let competitor = match class.responsible {
            Responsible::Competitor(other) if key == RowKey::Cpu && self.is_own(other) => Some(other),
            _ => None,
        };
        let (name, is_collection) = (key.clone(), key == RowKey::Collection);
        let row = self.rows.entry(key).or_default();
        if let Some(other) = competitor {
            let is_of_process = evidence.thread(other).tgid == thread.and_then(|thread| thread.tgid);
            let behind = if is_of_process { &mut row.behind_own } else { &mut row.behind_others };
            behind.0 += sum.ns;
            behind.1.insert(other);
        }
        row.total_ns += sum.ns;
        if is_asked {
            row.own_ns += sum.ns;
        }
        row.stretches += sum.stretches;
        *row.parts.entry(part).or_default() += sum.ns;
        if let Some((key, object)) = end {
            let end = row.ends.entry(key).or_default();
            end.ns += sum.ns;
            end.objects.extend(object);
            if end_site.is_some() || sum.own_waits > 0 {
                *end.sites.entry(end_site).or_default() += sum.own_waits;
            }
        }
        let of_call = match call {
            Some(call) => Some(row.calls.entry(call).or_default()),
            None => (class.kind == SegmentKind::BlockDevice).then_some(&mut row.in_unknown_calls),
        };
        if let Some(of_call) = of_call {
            of_call.count += waits;
            of_call.ns += sum.ns;
        }
        if let Some(attempt) = attempt {
            let tried = Tried { sleeps: waits, tries: sum.tries, ns: sum.ns };
            self.attempts.entry(name).or_default().entry(attempt).or_default().add(tried);
        }
        if site.is_some() || waits > 0 {
            *row.sites.entry(site).or_default() += waits;
        }
        if let Some(user) = user {
            *row.users.entry(user).or_default() += sum.ns;
        }
        match (class.basis, is_collection) {
            // A few samples name the whole time.
            (Basis::Measured, true) => row.basis.inferred += sum.ns,
            (basis, _) => row.basis.add(basis, sum.ns),
        }
        row.threads.extend(class.thread);
        if let Some(thread) = thread {
            if thread.kernel {
                row.through.insert(worker_family(thread.comm));
            } else {
                row.processes.extend(thread.tgid);
            }
        }
    }

    /// A class's thread, and the thread that lost the time: the waiting thread, where a kernel thread works for it.
    fn threads_of(&self, class: &Class) -> (Option<ThreadInfo>, Option<ThreadIndex>) {
        let thread =
            class.thread.map(|thread| ThreadInfo { comm: class.comm, ..self.evidence.thread(thread) });
        let by_kernel = thread.is_some_and(|thread| thread.kernel);
        (thread, if by_kernel { class.user.map(|user| user.thread) } else { class.thread })
    }

    fn key_of(&mut self, class: &Class) -> RowKey {
        let (thread, user) = self.threads_of(class);
        self.key(class, thread, user)
    }

    fn key(&mut self, class: &Class, thread: Option<ThreadInfo>, user: Option<ThreadIndex>) -> RowKey {
        let evidence = self.evidence;
        let by_kernel = thread.is_some_and(|thread| thread.kernel);
        if let Some(ender) = class.ender {
            let other = evidence.thread(ender.thread);
            return if self.is_own(ender.thread) {
                RowKey::Thread(other.comm, ender.by)
            } else {
                RowKey::Process(self.process_comm(&other), evidence.remote_host(&other))
            };
        }
        if let Some(other) = user.filter(|user| !self.is_own(*user)) {
            let other = evidence.thread(other);
            if !other.kernel {
                return RowKey::Process(self.process_comm(&other), evidence.remote_host(&other));
            }
        }
        if class.collection {
            return RowKey::Collection;
        }
        if let Some(kernel) = thread.filter(|thread| thread.kernel && class.kind != SegmentKind::BlockDevice)
        {
            if let Some(device) = class.user.and_then(|user| user.disk) {
                return RowKey::Disk(device, disk_use(class, true));
            }
            if is_on_cpu(class.kind) && class.kind != SegmentKind::Throttled {
                return RowKey::KernelThread(worker_family(kernel.comm));
            }
        }
        let by_timer = |flow, purpose| RowKey::SentByTimer(evidence.slow_end(flow, purpose), purpose);
        match class.kind {
            SegmentKind::Running if self.of_call => RowKey::Running(class.comm),
            SegmentKind::Running => RowKey::Running(pool_family(class.comm)),
            SegmentKind::Runnable => RowKey::Cpu,
            SegmentKind::Throttled => RowKey::CpuLimit(evidence.cpu_limit(class.thread)),
            SegmentKind::Interrupted => RowKey::Interrupts,
            SegmentKind::Stolen => RowKey::Hypervisor,
            SegmentKind::Timer => match (class.responsible, class.call) {
                (Responsible::SentByTimer { flow, purpose }, _) => by_timer(flow, purpose),
                (_, Some(call)) if !call.is_sleep() => match call.timer_end() {
                    _ if call.waits_for_window() => RowKey::Window(evidence.spell(call).object, true),
                    TimerEnd::TimedOut => RowKey::TimedOut(Expected::by(&evidence.spell(call))),
                    TimerEnd::Descriptor => RowKey::TimerReady(evidence.spell(call).object),
                    TimerEnd::Either => RowKey::TimeOutOrTimer,
                },
                _ => RowKey::Timer,
            },
            SegmentKind::BlockDevice => match class.responsible {
                Responsible::Disk { device, .. } => RowKey::Disk(device, disk_use(class, by_kernel)),
                Responsible::IoLimit { cgroup, device, reads } => {
                    RowKey::IoLimit(evidence.io_limit(cgroup, device, reads))
                }
                _ => RowKey::Disk(None, disk_use(class, by_kernel)),
            },
            SegmentKind::Network => match class.responsible {
                Responsible::Flow(_) if class.call.is_some_and(CallKey::waits_for_window) => {
                    RowKey::Window(class.call.and_then(|call| evidence.spell(call).object), false)
                }
                Responsible::Flow(flow) => RowKey::Network(evidence.sender(flow)),
                Responsible::SentByTimer { flow, purpose } => by_timer(flow, purpose),
                _ => RowKey::Network(None),
            },
            SegmentKind::Lock => RowKey::Lock,
            SegmentKind::UserInput => RowKey::UserInput,
            SegmentKind::Queue => RowKey::Queue,
            SegmentKind::Stopped => RowKey::Stopped(class.responsible),
            SegmentKind::OtherDevice => RowKey::Device(class.responsible),
            SegmentKind::Unknown => match class.responsible {
                Responsible::StillWaiting => RowKey::StillWaiting,
                Responsible::Signal(signal) => RowKey::Signal(signal),
                why => RowKey::Unknown(why),
            },
        }
    }

    /// A class's part in its row.
    fn part(&self, row: &RowKey, class: &Class, by_kernel: bool) -> PartKey {
        let activity = || self.evidence.activity(class.kind, class.responsible, class.thread);
        match (row, class.responsible) {
            (RowKey::Disk(..), Responsible::Disk { .. }) | (RowKey::Lock, _) => PartKey::Activity(activity()),
            (RowKey::Disk(..), _) if by_kernel => PartKey::KernelThreads,
            (RowKey::Cpu, _) => PartKey::Activity(self.cpu(class)),
            // The call says nothing of why it did not go on.
            (key, _) if key.is_of_others() && class.kind == SegmentKind::Stopped => {
                PartKey::Activity(activity())
            }
            (key, Responsible::IoLimit { .. }) if key.is_of_others() => PartKey::Activity(activity()),
            (key, _) if key.is_of_others() => match class.call {
                _ if by_kernel && is_on_cpu(class.kind) => PartKey::KernelThreads,
                Some(call) if !is_on_cpu(class.kind) => PartKey::Call(self.evidence.spell(call)),
                _ => PartKey::Activity(Activity::plain(class.kind)),
            },
            _ => PartKey::Activity(Activity::plain(class.kind)),
        }
    }

    /// The end of a class's wait chain, and its call's object; `None` if the row's key has it all.
    fn end(
        &self,
        row: &RowKey,
        class: &Class,
        by_kernel: bool,
        call: Option<CallName>,
    ) -> Option<(EndKey, Option<Object>)> {
        let disk = |device| Activity {
            kind: SegmentKind::BlockDevice,
            blamed: Blamed::Cause(Responsible::Disk { device, queued: false }),
        };
        let activity = match (row, class.responsible) {
            (key, _) if key.is_of_others() && by_kernel => match class.user.and_then(|user| user.disk) {
                Some(device) => Some(disk(device)),
                None => Some(Activity {
                    kind: SegmentKind::Running,
                    blamed: Blamed::KernelThread(worker_family(class.comm)),
                }),
            },
            (key, Responsible::Disk { device, .. }) if key.is_of_others() => Some(disk(device)),
            (key, _) if key.is_of_others() && class.kind == SegmentKind::Runnable => {
                Some(Activity::plain(class.kind))
            }
            (key, _) if key.is_of_others() => {
                Some(self.evidence.activity(class.kind, class.responsible, class.thread))
            }
            (RowKey::Cpu, Responsible::Competitor(_) | Responsible::IdleCpu) => Some(self.cpu(class)),
            _ => None,
        };
        if activity.is_none() && call.is_none() {
            return None;
        }
        let ender = class.ender.map(|ender| self.evidence.thread(ender.thread));
        let thread = ender.zip(class.thread).and_then(|(ender, thread)| {
            let thread = ThreadInfo { comm: class.comm, ..self.evidence.thread(thread) };
            let of_key = match row {
                RowKey::Process(..) => thread.tgid == ender.tgid,
                _ => thread.comm == ender.comm,
            };
            (!of_key && !by_kernel).then_some(thread.comm)
        });
        let key = EndKey { activity, call: call.as_ref().map(|call| call.number), thread };
        Some((key, call.and_then(|call| call.object)))
    }

    /// A wait for a CPU. The competitor is named and not numbered: each compiler in a build of a hundred had the
    /// CPU briefly.
    fn cpu(&self, class: &Class) -> Activity {
        let blamed = match class.responsible {
            Responsible::Competitor(other) => {
                let other = self.evidence.thread(other);
                Blamed::Threads(ThreadName { comm: other.comm, ..self.evidence.shared_name(&other) })
            }
            other => Blamed::Cause(other),
        };
        Activity { kind: class.kind, blamed }
    }

    fn is_own(&mut self, thread: ThreadIndex) -> bool {
        let evidence = self.evidence;
        *self.own.entry(thread).or_insert_with(|| evidence.is_own(thread))
    }

    /// A process has its main thread's name.
    fn process_comm(&self, thread: &ThreadInfo) -> Comm {
        let at = self.evidence.path.window.to;
        thread
            .tgid
            .and_then(|process| self.evidence.recorded.process_comm(process, at))
            .unwrap_or(thread.comm)
    }
}

/// A disk's use in a class's wait. `by_kernel`: a kernel thread works for the waiting thread.
fn disk_use(class: &Class, by_kernel: bool) -> DiskUse {
    let call = if by_kernel { class.user.and_then(|user| user.call) } else { class.call };
    if call.is_some_and(CallKey::flushes) { DiskUse::Flush } else { DiskUse::Transfer }
}

/// Whether a thread had a CPU, or could have used one.
const fn is_on_cpu(kind: SegmentKind) -> bool {
    matches!(
        kind,
        SegmentKind::Running
            | SegmentKind::Runnable
            | SegmentKind::Throttled
            | SegmentKind::Interrupted
            | SegmentKind::Stolen
    )
}
