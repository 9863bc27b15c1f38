use std::collections::HashMap;
use std::path::PathBuf;

use wakepath_clock::{ErrorBound, Local, Reference, Stamp, Transform};
use wakepath_event::{CgroupId, Comm, HostIndex, Tid};
use wakepath_timeline::Numbering;
use wakepath_wait_graph::{Graph, ThreadIndex, ThreadState};

use crate::{Cost, Host, Name, Problem, Survey};

/// A recording, read: what every question is put to.
#[derive(Debug)]
pub struct Recorded {
    /// Where it was read from; of several, the first.
    pub source: PathBuf,
    /// The machine; of several, the one whose clock the stamps are of.
    pub host: Host,
    /// The other machines, from the second on, where several were recorded.
    pub others: Vec<Host>,
    /// The execution graph.
    pub graph: Graph,
    /// All else.
    pub survey: Survey,
    /// What is doubtful about all of it.
    pub problems: Vec<Problem>,
    /// Which of the machine's clocks its stamps are of; most tracers have but one, the monotonic.
    pub clock: &'static str,
    /// Realtime less that clock at the beginning, as the recording's metadata says it.
    pub realtime_offset_ns: Option<i128>,
    /// The cgroup, unit or container that it was made to ask about, if it was one.
    pub cgroup: Option<Name>,
    /// How it is written down; `None` for one that was never on disk.
    pub format: Option<Format>,
    /// Which other tracer wrote it, where it is none of ours.
    pub tracer: Option<Name>,
    /// From each host's clock to the first's, where several were recorded.
    pub clocks: Vec<Transform<Local, Reference>>,
    /// How what several hosts call alike was told apart.
    pub numbering: Option<Numbering>,
    by_tid: HashMap<Tid, Vec<ThreadIndex>>,
}

/// How a recording is written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// Its number.
    pub number: i64,
    /// The version of wakepath that wrote it.
    pub writer: String,
    /// What the recorder was asked for.
    pub options: String,
    /// Bytes of its streams.
    pub bytes: u64,
    /// How many streams.
    pub streams: usize,
    /// Records that the recorder lost, by its own count.
    pub discarded: u64,
}

/// Who a thread is, at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Who {
    /// Its id.
    pub tid: Tid,
    /// Its process; `None` for a thread that was never introduced.
    pub tgid: Option<Tid>,
    /// Its process, as its own pid namespace numbers it.
    pub ns_tgid: Option<Tid>,
    /// When it was born, where that is known.
    pub start: Option<Stamp<Reference>>,
    /// It belongs to the kernel.
    pub kernel: bool,
    /// What it was called; empty where that is not known.
    pub comm: Comm,
    /// Its cgroup in the v2 hierarchy, 0 where it is not known.
    pub cgroup: CgroupId,
    /// Its cgroup in the hierarchy that has the CPU controller, 0 where it is not known.
    pub cpu_cgroup: CgroupId,
}

impl Recorded {
    /// Puts together what was read.
    pub fn new(source: PathBuf, host: Host, graph: Graph, survey: Survey, problems: Vec<Problem>) -> Self {
        let mut by_tid: HashMap<Tid, Vec<ThreadIndex>> = HashMap::new();
        for (index, thread) in graph.threads() {
            for &(_, tid) in &thread.tids {
                by_tid.entry(tid).or_default().push(index);
            }
        }
        Self {
            source,
            host,
            others: Vec::new(),
            graph,
            survey,
            problems,
            clock: "monotonic",
            realtime_offset_ns: None,
            cgroup: None,
            format: None,
            tracer: None,
            clocks: Vec::new(),
            numbering: None,
            by_tid,
        }
    }

    /// Who a thread is at `at`: names and cgroups change, and a process may have gone on as another thread.
    pub fn who(&self, mut index: ThreadIndex, at: Stamp<Reference>) -> Who {
        while let Some(next) = self.graph.successor(index).filter(|_| at > self.graph.thread(index).last) {
            index = next;
        }
        let thread = self.graph.thread(index);
        let identity = thread.identity.as_ref();
        let moved = thread.cgroups.partition_point(|&(since, ..)| since <= at).saturating_sub(1);
        let cgroups = thread.cgroups.get(moved).map(|&(_, v2, cpu)| (v2, cpu));
        let (cgroup, cpu_cgroup) = cgroups.unwrap_or_default();
        Who {
            tid: thread.tid_at(at),
            tgid: identity.map(|identity| identity.tgid),
            ns_tgid: identity.map(|identity| identity.ns_tgid),
            start: identity.map(|identity| identity.start.on_reference_host()),
            kernel: identity.is_some_and(|identity| identity.kernel),
            comm: thread.name_at(at),
            cgroup,
            cpu_cgroup,
        }
    }

    /// On which machine a thread with this id is.
    pub fn host_of(&self, tid: Tid) -> &Host {
        self.host_at(tid.host())
    }

    /// Whose a block device is, and how that host calls it (major << 20 | minor).
    pub fn device(&self, device: u32) -> (HostIndex, u32) {
        let of_other = self.numbering.as_ref().and_then(|numbering| numbering.device_of(device));
        of_other.unwrap_or((HostIndex::default(), device))
    }

    pub(crate) fn host_at(&self, host: HostIndex) -> &Host {
        let other = usize::from(host.0).checked_sub(1);
        other.and_then(|other| self.others.get(other)).unwrap_or(&self.host)
    }

    /// How far stamps of a thread's host, from then to then, may be off from those of the first; of no
    /// thread's, those of the host with the worst clock. `None` without a bound.
    pub fn clock_error(
        &self,
        thread: Option<ThreadIndex>,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> Option<u64> {
        let host = thread.map(|thread| usize::from(self.graph.thread(thread).tid().host().0));
        let hosts =
            self.clocks.iter().enumerate().filter(|(index, _)| host.is_none_or(|host| host == *index));
        hosts.map(|(_, clock)| error(clock, from, to)).max().unwrap_or(ErrorBound::Within(0)).ns()
    }

    /// The machine of a thread, where it is not the one whose clock the stamps are of.
    pub fn elsewhere(&self, tid: Tid) -> Option<&Host> {
        let host = self.host_of(tid);
        (!std::ptr::eq(host, &self.host)).then_some(host)
    }

    /// The threads that ever had a tid, in the order of their first appearance.
    pub fn with_tid(&self, tid: Tid) -> &[ThreadIndex] {
        self.by_tid.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// The main thread of a process at `at`, or the nearest that had its id: ids are reused.
    pub fn leader(&self, process: Tid, at: Stamp<Reference>) -> Option<ThreadIndex> {
        let candidates = self.with_tid(process);
        let had_it = |&&index: &&ThreadIndex| {
            let thread = self.graph.thread(index);
            thread.first <= at && thread.tid_at(at) == process
        };
        let last_before = candidates.iter().rev().find(had_it);
        last_before.or(candidates.first()).copied()
    }

    /// What a process is called at `at`: its main thread's name.
    pub fn process_comm(&self, process: Tid, at: Stamp<Reference>) -> Option<Comm> {
        let leader = self.leader(process, at)?;
        Some(self.graph.thread(leader).name_at(at)).filter(|comm| !comm.bytes().is_empty())
    }

    /// Whether at `at` a process is `ancestor`, a child of it, a child's child and so on, by who
    /// gave birth to whom. Ids are reused, so the chain is followed only so far.
    pub fn descends(&self, process: Tid, ancestor: Tid, at: Stamp<Reference>) -> bool {
        const GENERATIONS: usize = 100;
        let parent = |child: &Tid| {
            let leader = self.graph.thread(self.leader(*child, at)?);
            leader.identity.as_ref().map(|identity| identity.parent)
        };
        std::iter::successors(Some(process), parent).take(GENERATIONS).any(|process| process == ancestor)
    }

    /// Realtime at `at`, ns since 1970, by the clocks read last before it, else as the metadata
    /// says; `None` where neither is there.
    pub fn realtime(&self, at: Stamp<Reference>) -> Option<u64> {
        self.survey
            .realtime(Stamp::from_ns(at.ns()))
            .or_else(|| u64::try_from(self.realtime_offset_ns?.checked_add(i128::from(at.ns()))?).ok())
    }

    /// When recording began: all sources were attached, or the first event where that is not said.
    pub fn from(&self) -> Stamp<Reference> {
        self.survey.session.started.map_or(self.graph.from(), |at| at.on_reference_host())
    }

    /// When recording ended: it was stopped, or the last event where it was cut off.
    pub fn to(&self) -> Stamp<Reference> {
        self.survey.session.stopped.map_or(self.graph.to(), |at| at.on_reference_host())
    }

    /// Whether nobody ended it properly. What was never on disk and was not begun was not ended either.
    pub fn cut_off(&self) -> bool {
        let session = &self.survey.session;
        self.tracer.is_none()
            && session.stopped.is_none()
            && (session.started.is_some() || self.format.is_some())
    }

    /// What the recorder's own threads cost between `from` and `to`; `None` where it did not note
    /// which threads they are.
    pub fn cost(&self, from: Stamp<Reference>, to: Stamp<Reference>) -> Option<Cost> {
        let observers = &self.survey.session.observers;
        if observers.is_empty() || to <= from {
            return None;
        }
        let threads = observers.iter().flat_map(|&tid| self.with_tid(tid));
        let running = threads
            .flat_map(|&index| self.graph.state_intervals(index).overlapping(from, to))
            .filter_map(|interval| {
                let ran = matches!(interval.state, ThreadState::Running { .. });
                ran.then(|| interval.to.min(to).since(interval.from.max(from)))
            });
        Some(Cost { observer_ns: running.fold(0, u64::saturating_add), over_ns: to.since(from) })
    }
}

/// The largest error that stamps of a host have from then to then on the reference clock.
fn error(clock: &Transform<Local, Reference>, from: Stamp<Reference>, to: Stamp<Reference>) -> ErrorBound {
    match clock.inverse() {
        Some(back) => clock.worst(back.convert(from).0, back.convert(to).0),
        None => ErrorBound::Unbounded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{event, read, recorded, thread};
    use wakepath_event::{EventKind, Mark};

    #[test]
    fn a_grandchild_descends_and_a_circle_of_reused_ids_ends() {
        let tree = [(2, 1), (3, 2), (8, 9), (9, 8)];
        let events = tree.map(|(tgid, parent)| (1, thread(tgid, tgid, parent, "x")));
        let recorded = recorded(&events);
        let at = Stamp::from_ns(5);
        assert!(recorded.descends(Tid(3), Tid(1), at) && recorded.descends(Tid(3), Tid(3), at));
        assert!(!recorded.descends(Tid(1), Tid(3), at) && !recorded.descends(Tid(8), Tid(1), at));
    }

    #[test]
    fn a_reused_id_means_the_process_of_that_time() {
        let events = [
            (10, thread(7, 7, 1, "first")),
            (20, EventKind::Mark(Mark::Started)),
            (30, thread(8, 8, 1, "other")),
        ];
        let recorded = recorded(&events);
        let name = |tid, at| recorded.process_comm(Tid(tid), Stamp::from_ns(at));
        assert_eq!(name(7, 5), Some(Comm::new(b"first")), "nearest where it is not there yet");
        assert_eq!(name(9, 5), None);
    }

    #[test]
    fn observers_may_have_taken_longer_than_fits() {
        let mut events = vec![(0, 0, 0, EventKind::Mark(Mark::Started))];
        for tid in [7, 8] {
            events.push((0, 0, 0, EventKind::Mark(Mark::Observer(Tid(tid)))));
            events.push((1, tid as u16, tid, EventKind::Current));
        }
        for tid in [7, 8] {
            events.push((u64::MAX, tid as u16, tid, EventKind::Current));
        }
        let events: Vec<_> =
            events.into_iter().map(|(at, cpu, tid, what)| event(at, cpu, tid, what)).collect();
        let recorded = read(&events);
        let cost = recorded.cost(recorded.from(), recorded.to()).expect("there are observers");
        assert_eq!((cost.observer_ns, cost.over_ns), (u64::MAX, u64::MAX));
    }
}
