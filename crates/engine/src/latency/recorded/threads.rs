//! The threads whose latencies are counted, and the windows of their paths.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::Window;
use wakepath_event::Tid;
use wakepath_wait_graph::ThreadIndex;

use super::{RecordedLatencyError, RecordedQuery};
use crate::query::{self, Selection};
use crate::{Name, PathQuery, QueryError, Recorded, Scope, Subject};

/// A choice of threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreadFilter {
    /// Those that the recording was made for: its command, or the processes or the cgroup that it names; all
    /// threads where it names none.
    Recorded,
    /// All threads.
    All,
    /// These processes and those that they start.
    Processes(Vec<Tid>),
    /// One process alone, one thread, or the threads of a name or a cgroup.
    Subject(Subject),
}

/// The threads whose latencies were counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Population {
    /// All threads.
    All,
    /// The recorded command, by its words, and the processes that it started.
    Command(Vec<Name>),
    /// These processes and those that they started.
    Processes(Vec<Tid>),
    /// Threads that were chosen one by one: their number.
    Threads(usize),
}

/// The threads that a filter selects.
pub(super) struct SelectedThreads {
    pub(super) population: Population,
    /// By index; `None`: all.
    threads: Option<Vec<bool>>,
}

impl SelectedThreads {
    /// Whether the thread is one of them.
    pub(super) fn contain(&self, thread: ThreadIndex) -> bool {
        let Some(threads) = &self.threads else { return true };
        threads.get(thread.0 as usize).copied().unwrap_or(false)
    }

    /// Whether the thread that had this id between `from` and `to` is one of them; an unknown thread is one only
    /// where all threads are.
    pub(super) fn contain_tid(
        &self,
        recorded: &Recorded,
        tid: Tid,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> bool {
        if self.threads.is_none() {
            return true;
        }
        // Several threads may have had the id: the one that lived then is meant.
        let lived = |index: &&ThreadIndex| {
            let thread = recorded.graph.thread(**index);
            thread.first <= to && from <= thread.last
        };
        let threads = recorded.with_tid(tid);
        threads.iter().rfind(lived).or(threads.last()).is_some_and(|&thread| self.contain(thread))
    }
}

/// The same question as one for paths.
fn as_path(query: &RecordedQuery, subject: Subject) -> PathQuery {
    PathQuery {
        subject,
        host: query.host.clone(),
        from: query.from,
        to: query.to,
        algorithm: query.algorithm,
        all: true,
    }
}

/// The threads that the question selects.
pub(super) fn select(
    recorded: &Recorded,
    query: &RecordedQuery,
) -> Result<SelectedThreads, RecordedLatencyError> {
    let session = &recorded.survey.session;
    let all = || Ok(SelectedThreads { population: Population::All, threads: None });
    match &query.threads {
        ThreadFilter::All if query.host.is_none() => all(),
        ThreadFilter::Processes(processes) => {
            let host = query.host.as_ref().map(|host| query::host(recorded, host)).transpose()?;
            let processes: Vec<_> = processes.iter().map(|pid| pid.on(host.unwrap_or_default())).collect();
            let is_there = |&pid: &Tid| recorded.graph.threads().any(|(_, row)| row.tgid() == Some(pid));
            if let Some(pid) = processes.iter().find(|pid| !is_there(pid)) {
                return Err(QueryError::NoSuch { what: format!("process {}", pid.number()) }.into());
            }
            Ok(with_descendants(recorded, &processes, Population::Processes(processes.clone())))
        }
        ThreadFilter::Recorded if query.host.is_none() => match (&session.command, &recorded.cgroup) {
            (Some(command), _) => {
                let population = Population::Command(command.words.clone());
                Ok(with_descendants(recorded, &[command.tgid], population))
            }
            (None, Some(cgroup)) => of_subject(recorded, query, Subject::Cgroup(cgroup.clone())),
            (None, None) if session.targets.is_empty() => all(),
            (None, None) => {
                let processes: Vec<_> = session.targets.iter().copied().collect();
                Ok(with_descendants(recorded, &processes, Population::Processes(processes.clone())))
            }
        },
        ThreadFilter::Recorded | ThreadFilter::All => {
            let host = query.host.as_ref().map(|host| query::host(recorded, host)).transpose()?;
            let there = |tid: Tid| host.is_none_or(|host| tid.host() == host);
            let threads: Vec<_> = recorded.graph.threads().map(|(_, thread)| there(thread.tid())).collect();
            Ok(selected(threads))
        }
        ThreadFilter::Subject(subject) => of_subject(recorded, query, subject.clone()),
    }
}

fn selected(threads: Vec<bool>) -> SelectedThreads {
    let population = Population::Threads(threads.iter().filter(|&&selected| selected).count());
    SelectedThreads { population, threads: Some(threads) }
}

fn of_subject(
    recorded: &Recorded,
    query: &RecordedQuery,
    subject: Subject,
) -> Result<SelectedThreads, RecordedLatencyError> {
    let mut threads = vec![false; recorded.graph.threads().len()];
    let found = match query::select(recorded, &as_path(query, subject))? {
        Selection::Windows(windows) => windows.into_iter().map(|(window, _)| window.thread).collect(),
        Selection::Threads(_, threads) => threads,
    };
    for thread in found {
        if let Some(selected) = threads.get_mut(thread.0 as usize) {
            *selected = true;
        }
    }
    Ok(selected(threads))
}

fn with_descendants(recorded: &Recorded, processes: &[Tid], population: Population) -> SelectedThreads {
    let is_of = |process: Tid, at: Stamp<Reference>| {
        processes.contains(&process)
            || processes.iter().any(|&ancestor| recorded.descends(process, ancestor, at))
    };
    let threads = recorded.graph.threads().map(|(_, thread)| {
        // Its own process may have ended before it was last seen.
        thread.tgid().is_some_and(|process| is_of(process, thread.first))
    });
    SelectedThreads { population, threads: Some(threads.collect()) }
}

/// The windows whose paths the question is about: of the command, or of each thread.
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
            Selection::Threads(_, threads) => {
                for thread in threads {
                    match query::window(recorded, &asked, thread, query::life(recorded, thread)) {
                        Ok(window) => windows.push(window),
                        // The thread did not live in the window.
                        Err(QueryError::EmptyWindow) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
    }
    Ok(windows)
}
