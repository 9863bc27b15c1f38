//! From a question to its windows and threads.

use std::ops::Range;

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Algorithm, Window};
use wakepath_event::{Comm, HostIndex, Tid};
use wakepath_wait_graph::{Thread, ThreadIndex};

use crate::{Host, Name, Question, Recorded, TimeSpec, Unit};

/// A question about a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathQuery {
    /// The threads in question.
    pub subject: Subject,
    /// With several hosts, the threads' host: its name or boot id. `None`: any host, and ids belong to the first host.
    pub host: Option<Name>,
    /// The window's beginning; `None`: the thread's.
    pub from: Option<TimeSpec>,
    /// The window's end; `None`: the thread's.
    pub to: Option<TimeSpec>,
    /// The path's algorithm.
    pub algorithm: Algorithm,
    /// With several matching threads: answer for each, instead of asking back.
    pub all: bool,
}

/// A question's threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Subject {
    /// The recording's target: its command, else its cgroup or processes, else all threads.
    #[default]
    Recorded,
    /// A process.
    Pid(Tid),
    /// A thread.
    Tid(Tid),
    /// Threads with this name.
    Comm(Comm),
    /// Threads in this cgroup or unit: its path or a parent's, a container's id, or its last component as
    /// `systemctl` names it.
    Cgroup(Name),
}

/// The error for a question without an answer.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum QueryError {
    #[error("no {what} in this recording")]
    NoSuch { what: String },
    #[error("no host `{wanted}` among {hosts}")]
    NoSuchHost { wanted: String, hosts: String },
    #[error("several hosts are called `{0}`")]
    SeveralHosts(String),
    #[error("{} threads fit: {what}", candidates.len())]
    Several { what: String, candidates: Vec<Window> },
    #[error("the window is empty: it ends where it begins, or before")]
    EmptyWindow,
    #[error("the recording does not say what time of day it was made: write seconds since the start")]
    NoRealtime,
    #[error("the recording holds no events")]
    NoEvents,
}

/// A question's windows or threads.
pub(crate) enum Selection {
    /// Windows, each to be explained.
    Windows(Vec<(Window, Question)>),
    /// Threads without a single window.
    Threads(Scope, Vec<ThreadIndex>),
}

/// An overview's threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All threads.
    All,
    /// The threads on a host, if there are several hosts.
    Host(HostIndex),
    /// These processes' threads.
    Processes(Vec<Tid>),
    /// The threads in a cgroup or unit.
    Cgroup(Name),
}

/// Finds a question's windows or threads.
pub(crate) fn select(recorded: &Recorded, query: &PathQuery) -> Result<Selection, QueryError> {
    if recorded.graph.events() == 0 {
        return Err(QueryError::NoEvents);
    }
    let host = query.host.as_ref().map(|wanted| host(recorded, wanted)).transpose()?;
    let on = |tid: Tid| tid.on(host.unwrap_or_default());
    let is_there = |thread: &Thread| host.is_none_or(|host| thread.tid().host() == host);
    let found = match &query.subject {
        // The first host's recording target says nothing about another host.
        Subject::Recorded => match host.filter(|&host| host != HostIndex::default()) {
            Some(other) => {
                return Ok(Selection::Threads(Scope::Host(other), threads_that(recorded, is_there)));
            }
            None => return select_target(recorded, query),
        },
        Subject::Pid(pid) => {
            let pid = on(*pid);
            let threads = threads_of_processes(recorded, |tgid| tgid == pid);
            // A single-threaded process has a window; a process with several threads has none.
            if threads.len() > 1 {
                return Ok(Selection::Threads(Scope::Processes(vec![pid]), threads));
            }
            named(format!("process {pid}"), threads)?
        }
        Subject::Cgroup(cgroup) => return select_cgroup(recorded, cgroup, is_there),
        Subject::Tid(tid) => named(format!("thread {tid}"), recorded.with_tid(on(*tid)).to_vec())?,
        Subject::Comm(comm) => {
            let named_so = |thread: &Thread| thread.names.iter().any(|(_, name)| name == comm);
            let threads = threads_that(recorded, |thread| named_so(thread) && is_there(thread));
            named(format!("thread named `{}`", comm.lossy()), threads)?
        }
    };
    let (what, threads) = found;
    let mut windows = windows(recorded, query, &threads)?;
    if let (Subject::Comm(comm), false) = (&query.subject, query.all) {
        keep_the_only_one_now(recorded, *comm, &mut windows);
    }
    match windows.len() {
        0 => Err(QueryError::EmptyWindow),
        2.. if !query.all => Err(QueryError::Several { what, candidates: windows }),
        _ => Ok(Selection::Windows(windows.into_iter().map(|one| (one, Question::Thread)).collect())),
    }
}

/// Where exactly one thread has this name and lives at the recording's end, it is meant: others had the name before they
/// got another, as a shell's children do, or ended.
fn keep_the_only_one_now(recorded: &Recorded, comm: Comm, windows: &mut Vec<Window>) {
    let graph = &recorded.graph;
    let has_it_now =
        |window: &&Window| graph.thread(window.thread).name() == comm && !graph.has_died(window.thread);
    let mut now = windows.iter().filter(has_it_now).copied();
    if let (Some(only), None) = (now.next(), now.next()) {
        *windows = vec![only];
    }
}

/// The host with this name or boot id.
pub(crate) fn host(recorded: &Recorded, wanted: &Name) -> Result<HostIndex, QueryError> {
    let hosts: Vec<_> = recorded.hosts().collect();
    let is_meant = |host: &Host| host.name == *wanted || host.boot_id.as_bytes() == wanted.bytes();
    let text = |name: &Name| String::from_utf8_lossy(name.bytes()).into_owned();
    let mut meant = hosts.iter().filter(|(_, host)| is_meant(host)).map(|(index, _)| *index);
    match (meant.next(), meant.next()) {
        (Some(index), None) => Ok(index),
        (Some(_), Some(_)) => Err(QueryError::SeveralHosts(text(wanted))),
        (None, _) => {
            let names: Vec<_> = hosts.iter().map(|(_, host)| text(&host.name)).collect();
            Err(QueryError::NoSuchHost { wanted: text(wanted), hosts: names.join(", ") })
        }
    }
}

fn named(what: String, threads: Vec<ThreadIndex>) -> Result<(String, Vec<ThreadIndex>), QueryError> {
    if threads.is_empty() { Err(QueryError::NoSuch { what }) } else { Ok((what, threads)) }
}

/// The recording's target.
fn select_target(recorded: &Recorded, query: &PathQuery) -> Result<Selection, QueryError> {
    let session = &recorded.survey.session;
    if let Some(command) = &session.command {
        let at = command.at.on_reference_host();
        if let Some(thread) = recorded.leader(command.tgid, at) {
            let begin = life(recorded, thread).0;
            let end = life(recorded, recorded.graph.last_successor(thread)).1;
            let exec =
                recorded.graph.thread(thread).execs.iter().map(|&(when, _)| when).find(|&when| when >= at);
            let window = window(recorded, query, thread, (exec.unwrap_or(begin.max(at)), end))?;
            let question = Question::Command { words: command.words.clone(), status: command.status };
            return Ok(Selection::Windows(vec![(window, question)]));
        }
    }
    if let Some(cgroup) = &recorded.cgroup {
        return select_cgroup(recorded, cgroup, |_| true);
    }
    let targets: Vec<Tid> = session.targets.iter().copied().collect();
    if targets.is_empty() {
        return Ok(Selection::Threads(Scope::All, threads_that(recorded, |_| true)));
    }
    let threads = threads_of_processes(recorded, |tgid| session.targets.contains(&tgid));
    Ok(Selection::Threads(Scope::Processes(targets), threads))
}

fn threads_of_processes(recorded: &Recorded, wanted: impl Fn(Tid) -> bool) -> Vec<ThreadIndex> {
    threads_that(recorded, |thread| thread.tgid().is_some_and(&wanted))
}

fn threads_that(recorded: &Recorded, fit: impl Fn(&Thread) -> bool) -> Vec<ThreadIndex> {
    recorded.graph.threads().filter(|(_, thread)| fit(thread)).map(|(index, _)| index).collect()
}

/// Whether `wanted` names the cgroup at `path`: by its path or a parent cgroup's, by a container id's first characters
/// (at least four), or by the last component as `systemctl` names it.
pub fn is_meant(wanted: &[u8], path: &[u8]) -> bool {
    let below = || {
        let outer = wanted.strip_suffix(b"/").unwrap_or(wanted);
        path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    };
    match Unit::from_cgroup_path(path) {
        _ if wanted.starts_with(b"/") => below(),
        Some(Unit::Container { id, .. }) => {
            wanted.len() >= 4 && wanted.starts_with(&id.as_bytes()[..id.len().min(wanted.len())])
        }
        Some(Unit::Systemd(unit) | Unit::Cgroup(unit)) => unit.bytes() == wanted,
        None => false,
    }
}

fn select_cgroup(
    recorded: &Recorded,
    cgroup: &Name,
    is_there: impl Fn(&Thread) -> bool,
) -> Result<Selection, QueryError> {
    let names = &recorded.survey.names;
    let wanted = cgroup.bytes();
    let fits = |path: &Name| is_meant(wanted, path.bytes());
    let threads = threads_that(recorded, |thread| {
        is_there(thread)
            && thread.cgroups.iter().any(|&(_, v2, cpu)| {
                names.cgroup(v2).is_some_and(&fits) || names.cpu_cgroup(cpu).is_some_and(&fits)
            })
    });
    let what = format!("thread of cgroup or unit `{}`", String::from_utf8_lossy(wanted));
    let (_, threads) = named(what, threads)?;
    Ok(Selection::Threads(Scope::Cgroup(cgroup.clone()), threads))
}

/// From a thread's fork, or the recording's beginning, to its exit, or the recording's end.
fn life(recorded: &Recorded, thread: ThreadIndex) -> (Stamp<Reference>, Stamp<Reference>) {
    let thread = recorded.graph.thread(thread);
    // A thread's states are not known before all sources were attached.
    let begin = if thread.born.is_some() { thread.first } else { thread.first.max(recorded.from()) };
    (begin, thread.exited.unwrap_or(thread.last))
}

/// A thread's `life`, extended by the time in which its host was not recorded and the thread may have lived, in a
/// recording of several hosts: a window there is unknown time.
fn widest(
    recorded: &Recorded,
    thread: ThreadIndex,
    life: (Stamp<Reference>, Stamp<Reference>),
) -> (Stamp<Reference>, Stamp<Reference>) {
    let (graph, row) = (&recorded.graph, recorded.graph.thread(thread));
    let end = graph.end_of(row.tid().host());
    let begin = if recorded.others.is_empty() || row.born.is_some() { life.0 } else { recorded.from() };
    (begin.min(life.0), if life.1 == end { recorded.to().max(end) } else { life.1 })
}

/// The windows of the threads that lived in the question's time.
pub(crate) fn windows(
    recorded: &Recorded,
    query: &PathQuery,
    threads: &[ThreadIndex],
) -> Result<Vec<Window>, QueryError> {
    let windows = threads.iter().map(|&thread| window(recorded, query, thread, life(recorded, thread)));
    windows.filter(|found| !matches!(found, Err(QueryError::EmptyWindow))).collect()
}

/// The question's part of a thread's `life`.
fn window(
    recorded: &Recorded,
    query: &PathQuery,
    thread: ThreadIndex,
    life: (Stamp<Reference>, Stamp<Reference>),
) -> Result<Window, QueryError> {
    let (from, to) = asked(recorded, query)?;
    let widest = widest(recorded, thread, life);
    let (from, to) =
        (from.map_or(life.0, |from| from.max(widest.0)), to.map_or(life.1, |to| to.min(widest.1)));
    if from >= to && (query.from.is_some() || query.to.is_some() || life.0 > life.1) {
        return Err(QueryError::EmptyWindow);
    }
    Ok(Window { thread, from, to: to.max(from) })
}

/// The question's part of the recording, the same for all threads.
pub(crate) fn range(recorded: &Recorded, query: &PathQuery) -> Result<Range<Stamp<Reference>>, QueryError> {
    let (from, to) = asked(recorded, query)?;
    let range = from.unwrap_or(recorded.from())..to.unwrap_or(recorded.to());
    if range.is_empty() { Err(QueryError::EmptyWindow) } else { Ok(range) }
}

/// A window's ends, as far as they were asked for.
type Ends = (Option<Stamp<Reference>>, Option<Stamp<Reference>>);

/// The question's times, placed in the recording.
fn asked(recorded: &Recorded, query: &PathQuery) -> Result<Ends, QueryError> {
    let (begin, end) = (recorded.from(), recorded.to());
    let realtime = recorded.realtime(begin);
    let place = |spec: TimeSpec| spec.place(begin, end, realtime).ok_or(QueryError::NoRealtime);
    Ok((query.from.map(place).transpose()?, query.to.map(place).transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_event::{CgroupId, EventKind, Mark, NameSpace};
    use wakepath_loaded::testing::{event, read};

    /// A shell that forks a child, which executes the command; and a process with two threads.
    const TRACE: &str = "
        thread sh tid=10
        thread server tid=20 blocked=interruptible call=43:3
        thread worker tid=21 tgid=20 blocked=interruptible call=202:0x1000
        0 c0 idle started
        0 c0 idle switch sh
        100 c0 sh fork child tid=11
        100 c0 sh waking child newborn
        200 c0 sh switch child
        250 c0 child rename child sh
        300 c0 child exec checkout
        900 c0 child exit
        950 c0 child switch sh dead
        1000 c0 sh stopped
    ";

    fn recorded(more: &[EventKind]) -> Recorded {
        let mut events = wakepath_scenario::text::parse(TRACE).expect("a trace").events;
        // Behind the threads at the start.
        events.splice(3..3, more.iter().map(|what| event(0, 0, 0, what.clone())));
        read(&events)
    }

    fn command() -> EventKind {
        EventKind::Mark(Mark::Command { tgid: Tid(11), words: b"./checkout".as_slice().into() })
    }

    /// A question's result: `tid from..to` for each window, or the tids to choose from.
    fn ask(recorded: &Recorded, query: PathQuery) -> String {
        let tid = |thread| recorded.graph.thread(thread).tid();
        match select(recorded, &query) {
            Ok(Selection::Windows(windows)) => {
                let tell = |(window, _): &(Window, _)| {
                    format!("{} {}..{}", tid(window.thread), window.from.ns(), window.to.ns())
                };
                windows.iter().map(tell).collect::<Vec<_>>().join(", ")
            }
            Ok(Selection::Threads(_, threads)) => {
                format!("threads {:?}", threads.iter().map(|&thread| tid(thread).0).collect::<Vec<_>>())
            }
            Err(error) => error.to_string(),
        }
    }

    fn of(subject: Subject) -> PathQuery {
        PathQuery { subject, ..PathQuery::default() }
    }

    #[test]
    fn a_question_selects_windows_or_threads_or_is_refused() {
        let (plain, empty, with_command) = (recorded(&[]), read(&[]), recorded(&[command()]));
        let with_target = recorded(&[EventKind::Mark(Mark::Target(Tid(20)))]);
        let made_for = || of(Subject::Recorded);
        let pid = |pid| of(Subject::Pid(Tid(pid)));
        let comm = |name: &str| of(Subject::Comm(Comm::new(name.as_bytes())));
        let after = |ns| Some(TimeSpec::AfterStart(ns));
        let part = PathQuery { from: after(500), to: Some(TimeSpec::BeforeEnd(0)), ..made_for() };
        let upside_down = PathQuery { from: after(600), to: after(500), ..made_for() };
        let early = PathQuery { to: after(50), ..comm("sh") };
        let all = PathQuery { all: true, ..comm("sh") };
        for (case, recorded, query, expected) in [
            ("a command, from its exec to its exit", &with_command, made_for(), "11 300..900"),
            ("a part of it", &with_command, part, "11 500..900"),
            ("no command", &plain, made_for(), "threads [10, 20, 21, 11]"),
            ("a recording of a process", &with_target, made_for(), "threads [20, 21]"),
            ("a process of one thread, from its birth on", &plain, pid(11), "11 100..900"),
            ("a process of several threads", &plain, pid(20), "threads [20, 21]"),
            ("a thread that is no process", &plain, pid(21), "no process 21 in this recording"),
            ("a thread", &plain, of(Subject::Tid(Tid(21))), "21 0..1000"),
            ("a name for a part of a life", &plain, comm("checkout"), "11 100..900"),
            ("a name that one has at the end", &plain, comm("sh"), "10 0..1000"),
            ("all of a name", &plain, all, "10 0..1000, 11 100..900"),
            ("a name that none had", &plain, comm("bash"), "no thread named `bash` in this recording"),
            ("a time when only one of them lived", &plain, early, "10 0..50"),
            (
                "an end before the beginning",
                &with_command,
                upside_down,
                "the window is empty: it ends where it begins, or before",
            ),
            ("no events", &empty, made_for(), "the recording holds no events"),
        ] {
            assert_eq!(ask(recorded, query), expected, "{case}");
        }
    }

    #[test]
    fn a_name_means_the_only_thread_that_has_it_at_the_end_else_there_is_a_choice() {
        let asked = |trace: &str, all| {
            let recorded = read(&wakepath_scenario::text::parse(trace).expect("a trace").events);
            ask(&recorded, PathQuery { all, ..of(Subject::Comm(Comm::new(b"sh"))) })
        };
        let still_sh = TRACE.replace("300 c0 child exec checkout", "300 c0 child rename child sh");
        let lives =
            still_sh.replace("900 c0 child exit\n", "").replace("switch sh dead", "switch sh blocked");
        assert_eq!(asked(TRACE, false), "10 0..1000", "the child got another name");
        assert_eq!(asked(&still_sh, false), "10 0..1000", "the child ended");
        assert_eq!(asked(&lives, false), "2 threads fit: thread named `sh`");
        assert_eq!(asked(TRACE, true), "10 0..1000, 11 100..900", "--all means all");
        let neither = TRACE.replace("0 c0 idle switch sh", "0 c0 idle switch sh\n 50 c0 sh rename sh bash");
        assert_eq!(asked(&neither, false), "2 threads fit: thread named `sh`");
    }

    #[test]
    fn a_cgroup_is_named_by_its_path_or_as_systemctl_does() {
        let name = EventKind::Name(NameSpace::Cgroup, 7, b"/system.slice/shop.service".as_slice().into());
        let cgroup = CgroupId(7);
        let moved = EventKind::Move { tid: Tid(20), tgid: Tid(20), whole: true, cgroup, cpu_cgroup: cgroup };
        let recorded = recorded(&[name, moved]);
        for (cgroup, expected) in [
            ("shop.service", "threads [20, 21]"),
            ("/system.slice/shop.service", "threads [20, 21]"),
            ("/system.slice", "threads [20, 21]"),
            ("/system.slice/shop", "no thread of cgroup or unit `/system.slice/shop` in this recording"),
            ("shop", "no thread of cgroup or unit `shop` in this recording"),
        ] {
            assert_eq!(ask(&recorded, of(Subject::Cgroup(Name::from(cgroup)))), expected, "{cgroup}");
        }
    }
}
