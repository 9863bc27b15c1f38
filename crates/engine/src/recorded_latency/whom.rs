//! Whose latencies are asked about.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::Window;
use wakepath_event::Tid;
use wakepath_wait_graph::ThreadIndex;

use super::{LatencyQuery, NoLatency};
use crate::query::{self, Selection, select};
use crate::{Name, PathQuery, QueryError, Recorded, Scope, Subject};

/// Whose latencies are asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// Of what the recording was made for: its command, or the processes or the cgroup that it names; of all
    /// where it names none.
    Recorded,
    /// Of all.
    Everyone,
    /// Of these processes and what they start.
    Processes(Vec<Tid>),
    /// Of a process alone, a thread, or those of a name or a cgroup.
    Threads(Subject),
}

/// Whose latencies were counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfWhom {
    /// Everybody's.
    Everyone,
    /// Those of the command that was recorded, by its words, and of what it started.
    Command(Vec<Name>),
    /// Those of these processes and what they started.
    Processes(Vec<Tid>),
    /// Those of so many threads.
    Threads(usize),
}

/// The threads whose latencies are counted.
pub(super) struct Chosen {
    pub(super) of_whom: OfWhom,
    /// By index; `None`: all.
    threads: Option<Vec<bool>>,
}

impl Chosen {
    pub(super) fn has(&self, thread: ThreadIndex) -> bool {
        let Some(threads) = &self.threads else { return true };
        threads.get(thread.0 as usize).copied().unwrap_or(false)
    }

    /// Whether the thread that had this id from then to then is one; of a thread that is not known, only
    /// where all are.
    pub(super) fn has_tid(
        &self,
        recorded: &Recorded,
        tid: Tid,
        from: Stamp<Reference>,
        to: Stamp<Reference>,
    ) -> bool {
        if self.threads.is_none() {
            return true;
        }
        // A number may have been several threads': the one that lived then.
        let lived = |index: &&ThreadIndex| {
            let thread = recorded.graph.thread(**index);
            thread.first <= to && from <= thread.last
        };
        let threads = recorded.with_tid(tid);
        threads.iter().rfind(lived).or(threads.last()).is_some_and(|&thread| self.has(thread))
    }
}

/// The same question, put as one for paths.
fn as_path(query: &LatencyQuery, subject: Subject) -> PathQuery {
    PathQuery {
        subject,
        host: query.host.clone(),
        from: query.from,
        to: query.to,
        algorithm: query.algorithm,
        all: true,
    }
}

/// The threads that are meant.
pub(super) fn choose(recorded: &Recorded, query: &LatencyQuery) -> Result<Chosen, NoLatency> {
    let session = &recorded.survey.session;
    match &query.whom {
        Whom::Everyone if query.host.is_none() => Ok(Chosen { of_whom: OfWhom::Everyone, threads: None }),
        Whom::Processes(processes) => {
            let host = query.host.as_ref().map(|host| query::host(recorded, host)).transpose()?;
            let processes: Vec<_> = processes.iter().map(|pid| pid.on(host.unwrap_or_default())).collect();
            let is_there = |&pid: &Tid| recorded.graph.threads().any(|(_, row)| row.tgid() == Some(pid));
            if let Some(pid) = processes.iter().find(|pid| !is_there(pid)) {
                return Err(QueryError::NoSuch { what: format!("process {}", pid.number()) }.into());
            }
            Ok(and_what_they_started(recorded, &processes, OfWhom::Processes(processes.clone())))
        }
        Whom::Recorded if query.host.is_none() => match (&session.command, &recorded.cgroup) {
            (Some(command), _) => {
                let of_whom = OfWhom::Command(command.words.clone());
                Ok(and_what_they_started(recorded, &[command.tgid], of_whom))
            }
            (None, Some(cgroup)) => of(recorded, query, Subject::Cgroup(cgroup.clone())),
            (None, None) if session.targets.is_empty() => {
                Ok(Chosen { of_whom: OfWhom::Everyone, threads: None })
            }
            (None, None) => {
                let processes: Vec<_> = session.targets.iter().copied().collect();
                Ok(and_what_they_started(recorded, &processes, OfWhom::Processes(processes.clone())))
            }
        },
        Whom::Recorded | Whom::Everyone => {
            let host = query.host.as_ref().map(|host| query::host(recorded, host)).transpose()?;
            let there = |tid: Tid| host.is_none_or(|host| tid.host() == host);
            let threads: Vec<_> = recorded.graph.threads().map(|(_, thread)| there(thread.tid())).collect();
            Ok(these(threads))
        }
        Whom::Threads(subject) => of(recorded, query, subject.clone()),
    }
}

fn these(threads: Vec<bool>) -> Chosen {
    let of_whom = OfWhom::Threads(threads.iter().filter(|&&chosen| chosen).count());
    Chosen { of_whom, threads: Some(threads) }
}

fn of(recorded: &Recorded, query: &LatencyQuery, subject: Subject) -> Result<Chosen, NoLatency> {
    let mut threads = vec![false; recorded.graph.threads().len()];
    let found = match select(recorded, &as_path(query, subject))? {
        Selection::Windows(windows) => windows.into_iter().map(|(window, _)| window.thread).collect(),
        Selection::Threads(_, threads) => threads,
    };
    for thread in found {
        if let Some(chosen) = threads.get_mut(thread.0 as usize) {
            *chosen = true;
        }
    }
    Ok(these(threads))
}

fn and_what_they_started(recorded: &Recorded, processes: &[Tid], of_whom: OfWhom) -> Chosen {
    let is_of = |process: Tid, at: Stamp<Reference>| {
        processes.contains(&process)
            || processes.iter().any(|&ancestor| recorded.descends(process, ancestor, at))
    };
    let threads = recorded.graph.threads().map(|(_, thread)| {
        // Its own process may have ended before it was last seen.
        thread.tgid().is_some_and(|process| is_of(process, thread.first))
    });
    Chosen { of_whom, threads: Some(threads.collect()) }
}

/// The windows whose paths are asked about: of the command, or of each thread.
pub(super) fn windows(recorded: &Recorded, query: &LatencyQuery) -> Result<Vec<Window>, NoLatency> {
    let (subjects, of_all) = match &query.whom {
        Whom::Everyone => return Err(NoLatency::WhosePath),
        Whom::Recorded => (vec![Subject::Recorded], false),
        Whom::Processes(processes) => (processes.iter().copied().map(Subject::Pid).collect(), true),
        Whom::Threads(subject) => (vec![subject.clone()], true),
    };
    let mut windows = Vec::new();
    for subject in subjects {
        let asked = as_path(query, subject);
        match select(recorded, &asked)? {
            Selection::Windows(found) => windows.extend(found.into_iter().map(|(window, _)| window)),
            Selection::Threads(Scope::All | Scope::Host(_), _) if !of_all => {
                return Err(NoLatency::WhosePath);
            }
            Selection::Threads(_, threads) => {
                for thread in threads {
                    match query::window(recorded, &asked, thread, query::life(recorded, thread)) {
                        Ok(window) => windows.push(window),
                        // It did not live then.
                        Err(QueryError::EmptyWindow) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
    }
    Ok(windows)
}
