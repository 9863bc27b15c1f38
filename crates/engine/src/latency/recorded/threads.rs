//! The counted threads, and their paths' windows.

use std::collections::HashSet;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::Window;
use wakepath_event::{HostIndex, Tid};
use wakepath_wait_graph::{Thread, ThreadIndex};

use super::{RecordedLatencyError, RecordedQuery};
use crate::query::{self, Selection};
use crate::{Name, PathQuery, QueryError, Recorded, Scope, Subject};

/// A choice of threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ThreadFilter {
    /// The recording's targets: its command, processes or cgroup; all threads if it has none.
    #[default]
    Recorded,
    /// All threads.
    All,
    /// These processes and their descendants.
    Processes(Vec<Tid>),
    /// A single process, a single thread, or the threads with a name or in a cgroup.
    Subject(Subject),
}

/// The counted threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Population {
    /// All threads.
    All,
    /// The recorded command, by its words, and its descendants.
    Command(Vec<Name>),
    /// These processes and their descendants.
    Processes(Vec<Tid>),
    /// The number of individually chosen threads.
    Threads(usize),
}

/// A filter's threads.
pub(super) struct SelectedThreads {
    pub(super) population: Population,
    /// Whether each thread is selected, by index; `None`: all threads.
    threads: Option<Vec<bool>>,
}

impl SelectedThreads {
    /// Whether the thread is selected.
    pub(super) fn contain(&self, thread: ThreadIndex) -> bool {
        let Some(threads) = &self.threads else { return true };
        threads.get(thread.0 as usize).copied().unwrap_or(false)
    }

    /// Whether the thread is selected, if known; an unknown thread is selected only with all threads.
    pub(super) fn contain_if_known(&self, thread: Option<ThreadIndex>) -> bool {
        self.threads.is_none() || thread.is_some_and(|thread| self.contain(thread))
    }

    /// Whether the thread with this id between `from` and `to` is selected; an unknown thread is selected only with all
    /// threads.
    pub(super) fn contain_tid(
        &self,
        recorded: &Recorded,
        tid: Tid,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> bool {
        self.threads.is_none()
            || recorded.thread_between(tid, from, to).is_some_and(|thread| self.contain(thread))
    }
}

/// The same question about paths.
fn as_path(query: &RecordedQuery, subject: Subject) -> PathQuery {
    PathQuery {
        subject,
        host: query.host.clone(),
        from: query.from,
        to: query.to,
        all: true,
        ..PathQuery::default()
    }
}

/// The question's threads.
pub(super) fn select(
    recorded: &Recorded,
    query: &RecordedQuery,
    host: Option<HostIndex>,
) -> Result<SelectedThreads, RecordedLatencyError> {
    let session = &recorded.survey.session;
    let all = || Ok(SelectedThreads { population: Population::All, threads: None });
    match &query.threads {
        ThreadFilter::All if host.is_none() => all(),
        ThreadFilter::Processes(processes) => {
            let processes: Vec<_> = processes.iter().map(|pid| pid.on(host.unwrap_or_default())).collect();
            let is_there = |&pid: &Tid| recorded.graph.threads().any(|(_, row)| row.tgid() == Some(pid));
            if let Some(pid) = processes.iter().find(|pid| !is_there(pid)) {
                return Err(QueryError::NoSuch { what: format!("process {}", pid.number()) }.into());
            }
            Ok(with_descendants(recorded, &processes, Population::Processes(processes.clone())))
        }
        ThreadFilter::Recorded if host.is_none() => match (&session.command, &recorded.cgroup) {
            (Some(command), _) => {
                let population = Population::Command(command.words.clone());
                Ok(with_descendants(recorded, &[command.tgid], population))
            }
            (None, Some(cgroup)) => subject_threads(recorded, query, Subject::Cgroup(cgroup.clone())),
            (None, None) if session.targets.is_empty() => all(),
            (None, None) => {
                let processes: Vec<_> = session.targets.iter().copied().collect();
                Ok(with_descendants(recorded, &processes, Population::Processes(processes.clone())))
            }
        },
        ThreadFilter::Recorded | ThreadFilter::All => {
            Ok(selected(recorded, |_, thread| host.is_none_or(|host| thread.tid().host() == host)))
        }
        ThreadFilter::Subject(subject) => subject_threads(recorded, query, subject.clone()),
    }
}

fn selected(recorded: &Recorded, is_meant: impl Fn(ThreadIndex, &Thread) -> bool) -> SelectedThreads {
    let threads = recorded.graph.threads().map(|(index, thread)| is_meant(index, thread));
    let threads: Vec<_> = threads.collect();
    let population = Population::Threads(threads.iter().filter(|&&selected| selected).count());
    SelectedThreads { population, threads: Some(threads) }
}

fn subject_threads(
    recorded: &Recorded,
    query: &RecordedQuery,
    subject: Subject,
) -> Result<SelectedThreads, RecordedLatencyError> {
    let found: HashSet<_> = match query::select(recorded, &as_path(query, subject))? {
        Selection::Windows(windows) => windows.into_iter().map(|(window, _)| window.thread).collect(),
        Selection::Threads(_, threads) => threads.into_iter().collect(),
    };
    Ok(selected(recorded, |thread, _| found.contains(&thread)))
}

fn with_descendants(recorded: &Recorded, processes: &[Tid], population: Population) -> SelectedThreads {
    let is_of = |process: Tid, at: Stamp<Reference>| {
        processes.iter().any(|&ancestor| recorded.descends(process, ancestor, at))
    };
    // The thread's process may have ended before the thread was last seen.
    let is_meant = |_, thread: &Thread| thread.tgid().is_some_and(|process| is_of(process, thread.first));
    SelectedThreads { population, ..selected(recorded, is_meant) }
}

/// The windows of the question's paths: the command's, or each thread's.
pub(super) fn windows(
    recorded: &Recorded,
    query: &RecordedQuery,
) -> Result<Vec<Window>, RecordedLatencyError> {
    let (subjects, of_all) = match &query.threads {
        ThreadFilter::All => return Err(RecordedLatencyError::NoThreads),
        ThreadFilter::Recorded => (vec![Subject::Recorded], false),
        ThreadFilter::Processes(processes) => (processes.iter().copied().map(Subject::Pid).collect(), true),
        ThreadFilter::Subject(subject) => (vec![subject.clone()], true),
    };
    let mut windows = Vec::new();
    for subject in subjects {
        let asked = as_path(query, subject);
        match query::select(recorded, &asked)? {
            Selection::Windows(found) => windows.extend(found.into_iter().map(|(window, _)| window)),
            Selection::Threads(Scope::All | Scope::Host(_), _) if !of_all => {
                return Err(RecordedLatencyError::NoThreads);
            }
            Selection::Threads(_, threads) => windows.extend(query::windows(recorded, &asked, &threads)?),
        }
    }
    Ok(windows)
}
