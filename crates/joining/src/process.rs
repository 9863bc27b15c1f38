//! Services' processes: the threads that may work for a service's spans.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{ThreadIdentity, Tid};
use wakepath_loaded::{Name, Recorded};
use wakepath_spans::{ById, ServiceIndex, SpanId, Spans, TraceId, service_processes};
use wakepath_wait_graph::ThreadIndex;

/// The maximum number of processes in a line, the thread's own included.
const MAX_ANCESTORS: usize = 64;

/// The numbers of a thread's process and its ancestors, the nearest first; empty if the process is not known.
pub(crate) fn line(recorded: &Recorded, thread: ThreadIndex, at: Stamp<Reference>) -> Vec<u32> {
    processes(recorded, thread, at).map(|(process, _)| process.number()).collect()
}

/// The same for processes in inner PID namespaces, by their numbers there.
pub(crate) fn inner_line(recorded: &Recorded, thread: ThreadIndex, at: Stamp<Reference>) -> Vec<u32> {
    let inner = |(process, identity): (Tid, Option<&ThreadIdentity>)| {
        Some(identity?.ns_tgid.number()).filter(|number| *number != process.number())
    };
    processes(recorded, thread, at).map_while(inner).collect()
}

/// A thread's process and its ancestors, the nearest first, with their main threads' identities.
fn processes(
    recorded: &Recorded,
    thread: ThreadIndex,
    at: Stamp<Reference>,
) -> impl Iterator<Item = (Tid, Option<&ThreadIdentity>)> {
    let with_identity = move |process: Option<Tid>| {
        let process = process.filter(|one| *one != Tid::IDLE)?;
        let leader = recorded.leader(process, at);
        Some((process, leader.and_then(|leader| recorded.graph.thread(leader).identity.as_ref())))
    };
    let first = with_identity(recorded.graph.thread(thread).tgid());
    let parent =
        move |(_, identity): &(Tid, Option<&ThreadIdentity>)| with_identity((*identity)?.parent.into());
    std::iter::successors(first, parent).take(MAX_ANCESTORS)
}

/// The service published by a process in its memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SaidService {
    /// The name.
    pub name: Name,
    /// The service's instance id, if the process publishes one.
    pub instance: Option<Name>,
}

/// An attribute in a thread's context, beside its span.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SaidAttribute {
    /// Its name, as the process publishes it.
    pub name: Name,
    /// The first bytes of its value.
    pub value: Name,
    /// Whether the value is longer.
    pub is_cut: bool,
}

/// The service published by a thread's process at a time.
pub(crate) fn service(recorded: &Recorded, thread: ThreadIndex, at: Stamp<Reference>) -> Option<SaidService> {
    let (process, at) = (recorded.graph.thread(thread).tgid()?, Stamp::from_ns(at.ns()));
    let names = &recorded.survey.names;
    let name = names.service(process, at)?.clone();
    Some(SaidService { name, instance: names.service_instance(process, at).cloned() })
}

/// The attributes in a thread's context at about a time, beside a span in this trace; attributes without a known name
/// are left out.
pub(crate) fn attributes(
    recorded: &Recorded,
    thread: ThreadIndex,
    trace: TraceId,
    at: Stamp<Reference>,
) -> Vec<SaidAttribute> {
    let life = recorded.graph.thread(thread);
    let Some(process) = life.tgid() else { return Vec::new() };
    let (tid, at) = (life.tid_at(at), Stamp::from_ns(at.ns()));
    let Recorded { survey, .. } = recorded;
    let said = survey.contexts.attributes(tid, trace.0, at).into_iter().filter_map(|one| {
        let name = survey.names.thread_attribute(process, one.key, at)?.clone();
        let is_cut = usize::from(one.length) > one.value.len();
        Some(SaidAttribute { name, value: Name::from(&*one.value), is_cut })
    });
    said.collect()
}

/// Each service's processes, by their threads' contexts.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    /// Each service's processes, if its spans name its process.
    by_service: HashMap<ServiceIndex, HashSet<Tid>>,
}

impl Processes {
    /// Finds the processes. `said` lists the threads whose context once held the span with these ids.
    pub(crate) fn new(
        recorded: &Recorded,
        spans: &Spans,
        by_id: &ById,
        said: impl Iterator<Item = (ThreadIndex, Stamp<Reference>, TraceId, SpanId)>,
    ) -> Self {
        let mut lines: HashMap<ServiceIndex, HashMap<Tid, Vec<u32>>> = HashMap::new();
        for (thread, at, trace, id) in said {
            let Some(process) = recorded.graph.thread(thread).tgid() else { continue };
            for span in by_id.all(trace, id) {
                let of_service = lines.entry(spans.span(span).service).or_default();
                of_service.entry(process).or_insert_with(|| line(recorded, thread, at));
            }
        }
        let of_pid = |(service, said): (ServiceIndex, HashMap<Tid, Vec<u32>>)| {
            let pid = spans.services[service.0 as usize].pid?;
            Some((service, service_processes(pid, said.into_iter().collect()).into_iter().collect()))
        };
        Self { by_service: lines.into_iter().filter_map(of_pid).collect() }
    }

    /// Whether a process may belong to a service.
    pub(crate) fn may_be(&self, process: Option<Tid>, service: ServiceIndex) -> bool {
        let of_service = self.by_service.get(&service).zip(process);
        of_service.is_none_or(|(all, process)| all.contains(&process))
    }
}
