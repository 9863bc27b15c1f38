//! A recording in memory: its graph, and everything that names it.

use std::collections::HashMap;
use std::path::PathBuf;

use wakepath_clock::{ErrorBound, Local, Reference, Stamp, Transform};
use wakepath_event::{Description, Event, Format, HostIndex, Tid};
use wakepath_symbols::{DebugFiles, Kept};
use wakepath_timeline::Numbering;
use wakepath_wait_graph::{Builder, Graph, ThreadIndex};

use crate::{FailedCalls, Host, Name, Names, Problem, ProblemKind, Signals, Survey};

/// A recording in memory: all questions are put to it.
#[derive(Debug)]
pub struct Recorded {
    /// The path of the recording; with several, the first.
    pub source: PathBuf,
    /// The path of each host's recording, with several.
    pub sources: Vec<PathBuf>,
    /// The machine; with several, the machine whose clock stamps use.
    pub host: Host,
    /// The other machines, from the second on, if several were recorded.
    pub others: Vec<Host>,
    /// The descriptions of their recordings, in the same order.
    pub descriptions: Vec<Description>,
    /// The execution graph.
    pub graph: Graph,
    /// All other data.
    pub survey: Survey,
    /// The problems with the whole recording.
    pub problems: Vec<Problem>,
    /// The machine's clock that its stamps use; most tracers have but the monotonic clock.
    pub clock: &'static str,
    /// Realtime minus that clock at the beginning, ns, from the recording's metadata.
    pub realtime_offset_ns: Option<i128>,
    /// The target cgroup, unit or container, if any.
    pub cgroup: Option<Name>,
    /// Its format on disk; `None` if it was never on disk.
    pub format: Option<Format>,
    /// The other tracer that wrote it, if not wakepath.
    pub tracer: Option<Name>,
    /// From each host's clock to the first host's, if several were recorded.
    pub clocks: Vec<Transform<Local, Reference>>,
    /// The numbering that distinguishes equal ids on several hosts.
    pub numbering: Option<Numbering>,
    /// Files with names for code, opened before the rights to open them were dropped.
    pub kept_files: Kept,
    /// Debug files of stripped code beyond those that are installed.
    pub debug_files: DebugFiles,
    pub(crate) by_tid: HashMap<Tid, Vec<ThreadIndex>>,
}

impl Recorded {
    /// The time from the recording's beginning to the removal of a selected function's probes, ns; `None` if they stayed.
    pub fn unprobed_after(&self, function: u32) -> Option<u64> {
        let session = &self.survey.session;
        let at = session.unprobed.get(&function)?;
        Some(at.since(session.started.unwrap_or(*at)))
    }

    /// Puts the parts together.
    pub fn new(source: PathBuf, host: Host, graph: Graph, survey: Survey, problems: Vec<Problem>) -> Self {
        let mut by_tid: HashMap<Tid, Vec<ThreadIndex>> = HashMap::new();
        for (index, thread) in graph.threads() {
            for &(_, tid) in &thread.tids {
                by_tid.entry(tid).or_default().push(index);
            }
        }
        Self {
            source,
            sources: Vec::new(),
            host,
            others: Vec::new(),
            descriptions: Vec::new(),
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
            kept_files: Kept::default(),
            debug_files: DebugFiles::default(),
            by_tid,
        }
    }

    /// The same, from a source with this description; the problems concern the whole recording.
    pub fn from_source(
        source: &Description,
        graph: Graph,
        survey: Survey,
        problems: Vec<ProblemKind>,
    ) -> Self {
        let of_all = |kind| Problem::new(kind, graph.from(), graph.to());
        let problems = problems.into_iter().map(of_all).collect();
        Self {
            realtime_offset_ns: source.realtime_offset_ns,
            cgroup: source.cgroup.as_deref().map(Name::from),
            format: source.format.clone(),
            tracer: source.tracer.as_deref().map(Name::from),
            clock: source.clock.name(),
            ..Self::new(source.path.clone(), Host::from(&source.host), graph, survey, problems)
        }
    }

    /// A recording with these events, without a problem.
    pub fn from_events<'e>(source: PathBuf, host: Host, events: impl IntoIterator<Item = &'e Event>) -> Self {
        let (mut builder, mut survey) = (Builder::default(), Survey::default());
        for event in events {
            builder.push(event);
            survey.observe(event);
        }
        Self::new(source, host, builder.finish(), survey, Vec::new())
    }

    /// The execution graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// All names in the recording.
    pub fn names(&self) -> &Names {
        &self.survey.names
    }

    /// The calls failing before sleeps, or again and again.
    pub fn failed_calls(&self) -> &FailedCalls {
        &self.survey.failed_calls
    }

    /// Signals asking processes to end.
    pub fn signals(&self) -> &Signals {
        &self.survey.signals
    }

    /// Whether the recorder's process or thread has this number.
    pub fn is_recorder(&self, tid: Tid) -> bool {
        self.survey.observers().contains(&tid)
    }

    /// Whether a thread's number means the same thread in both: each recording numbers its threads itself.
    pub fn numbers_threads_like(&self, other: &Self) -> bool {
        self.source == other.source
    }

    /// A block device's host, and the device's number there (major << 20 | minor).
    pub fn device(&self, device: u32) -> (HostIndex, u32) {
        let of_other = self.numbering.as_ref().and_then(|numbering| numbering.device_of(device));
        of_other.unwrap_or((HostIndex::default(), device))
    }

    /// A machine, by its index among the recorded machines.
    pub fn host_at(&self, host: HostIndex) -> &Host {
        let other = usize::from(host.0).checked_sub(1);
        other.and_then(|other| self.others.get(other)).unwrap_or(&self.host)
    }

    /// All recorded machines, in order.
    pub fn hosts(&self) -> impl Iterator<Item = (HostIndex, &Host)> {
        (0..).map(HostIndex).zip(std::iter::once(&self.host).chain(&self.others))
    }

    /// The path of a machine's recording.
    pub fn source_of(&self, host: HostIndex) -> &PathBuf {
        self.sources.get(usize::from(host.0)).unwrap_or(&self.source)
    }

    /// Whether another tracer recorded a machine.
    pub fn is_of_other_tracer(&self, host: HostIndex) -> bool {
        match self.description(host) {
            Some(description) => description.tracer.is_some(),
            None => self.tracer.is_some(),
        }
    }

    /// The description of another machine's recording.
    pub(crate) fn description(&self, host: HostIndex) -> Option<&Description> {
        self.descriptions.get(usize::from(host.0).checked_sub(1)?)
    }

    /// A graph's stamp on the clock of a host's own recording.
    pub fn own_stamp(&self, host: HostIndex, at: Stamp<Reference>) -> Stamp<Local> {
        let clock = self.clocks.get(usize::from(host.0)).filter(|_| host != HostIndex::default());
        let own = clock.and_then(Transform::inverse).map(|back| back.convert(at).0);
        own.unwrap_or(Stamp::from_ns(at.ns()))
    }

    /// The largest error of stamps from a thread's host between `from` and `to`, relative to the first host's
    /// clock, ns; without a thread, the error on the host with the worst clock. `None` without a bound.
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

    /// Realtime at `at`, ns since 1970, by the last clock reading before it, else by the metadata; `None` without
    /// either.
    pub fn realtime(&self, at: Stamp<Reference>) -> Option<u64> {
        self.survey
            .realtime(Stamp::from_ns(at.ns()))
            .or_else(|| u64::try_from(self.realtime_offset_ns?.checked_add(i128::from(at.ns()))?).ok())
    }

    /// The beginning: all sources were attached, or the first event if that time is unknown.
    pub fn from(&self) -> Stamp<Reference> {
        self.survey.session.started.map_or(self.graph.from(), |at| at.on_reference_host())
    }

    /// The end: recording was stopped, or the last event if it was cut off.
    pub fn to(&self) -> Stamp<Reference> {
        self.survey.session.stopped.map_or(self.graph.to(), |at| at.on_reference_host())
    }

    /// Whether the recorder did not end it properly. A recording without a beginning, never on disk, was not cut off.
    pub fn cut_off(&self) -> bool {
        self.is_cut_off(HostIndex::default())
    }

    /// The same for a host's recording among several.
    pub fn is_cut_off(&self, host: HostIndex) -> bool {
        let was_on_disk = match self.description(host) {
            Some(description) => description.format.is_some(),
            None => host == HostIndex::default() && self.format.is_some(),
        };
        let session = self.survey.session_of(host);
        let is_stopped = session.is_some_and(|session| session.stopped.is_some());
        let is_started = session.is_some_and(|session| session.started.is_some());
        !self.is_of_other_tracer(host) && !is_stopped && (is_started || was_on_disk)
    }
}

/// The largest error of a host's stamps between `from` and `to` on the reference clock.
fn error(clock: &Transform<Local, Reference>, from: Stamp<Reference>, to: Stamp<Reference>) -> ErrorBound {
    match clock.inverse() {
        Some(back) => clock.worst(back.convert(from).0, back.convert(to).0),
        None => ErrorBound::Unbounded,
    }
}

#[cfg(test)]
mod tests;
