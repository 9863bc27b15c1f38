//! Which window of which thread is asked about.

use wakepath_clock::{Reference, Stamp};
use wakepath_critical_path::{Algorithm, Window};
use wakepath_event::{Comm, HostIndex, Tid};
use wakepath_wait_graph::{Thread, ThreadIndex};

use crate::{Host, Name, NoRealtime, Question, Recorded, TimeSpec, Unit};

/// A question for a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathQuery {
    /// The threads in question.
    pub subject: Subject,
    /// With several hosts, the host of the threads: its name or boot id. `None`: any host, and a number belongs to
    /// the first one.
    pub host: Option<Name>,
    /// From here on; `None`: from its beginning.
    pub from: Option<TimeSpec>,
    /// Up to here; `None`: to its end.
    pub to: Option<TimeSpec>,
    /// How the path is made.
    pub algorithm: Algorithm,
    /// Where several threads fit: answer for each, instead of asking back.
    pub all: bool,
}

impl Default for PathQuery {
    fn default() -> Self {
        Self {
            subject: Subject::Recorded,
            host: None,
            from: None,
            to: None,
            algorithm: Algorithm::Active,
            all: false,
        }
    }
}

/// The threads that a question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The subject of the recording: its command, else the cgroup or processes it names, else all.
    Recorded,
    /// A process.
    Pid(Tid),
    /// A thread.
    Tid(Tid),
    /// Threads of this name.
    Comm(Comm),
    /// Threads of this cgroup or unit: its path, its last component, or as `systemctl` names it.
    Cgroup(Name),
}

/// Why a question cannot be answered.
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
    Several { what: String, candidates: Vec<Candidate> },
    #[error("the window is empty: it ends where it begins, or before")]
    EmptyWindow,
    #[error(transparent)]
    NoRealtime(#[from] NoRealtime),
    #[error("the recording holds no events")]
    NoEvents,
}

/// A thread that fits a question that several fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The thread.
    pub thread: ThreadIndex,
    /// Its life in the recording.
    pub from: Stamp<Reference>,
    /// Its end in the recording.
    pub to: Stamp<Reference>,
}

/// The windows or threads of a question.
pub(crate) enum Selection {
    /// Windows, each to be explained.
    Windows(Vec<(Window, Question)>),
    /// Threads without a single window.
    Threads(Scope, Vec<ThreadIndex>),
}

/// Which threads an overview is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All.
    All,
    /// Those of one host of several.
    Host(HostIndex),
    /// Those of these processes.
    Processes(Vec<Tid>),
    /// Those of a cgroup or unit.
    Cgroup(Name),
}

/// Finds the windows or threads that a question is about.
pub(crate) fn select(recorded: &Recorded, query: &PathQuery) -> Result<Selection, QueryError> {
    let graph = &recorded.graph;
    if graph.events() == 0 {
        return Err(QueryError::NoEvents);
    }
    let host = query.host.as_ref().map(|wanted| host(recorded, wanted)).transpose()?;
    let on = |tid: Tid| tid.on(host.unwrap_or_default());
    let is_there = |thread: &Thread| host.is_none_or(|host| thread.tid().host() == host);
    let found = match &query.subject {
        Subject::Recorded => match host {
            // The subject of the first host's recording is no question about another host.
            Some(other) if other != HostIndex::default() => {
                let threads = graph.threads().filter(|(_, thread)| is_there(thread));
                let threads = threads.map(|(index, _)| index).collect();
                return Ok(Selection::Threads(Scope::Host(other), threads));
            }
            _ => return of_recording(recorded, query),
        },
        Subject::Pid(pid) => return of_process(recorded, query, on(*pid)),
        Subject::Cgroup(cgroup) => return of_cgroup(recorded, cgroup, is_there),
        Subject::Tid(tid) => named(format!("thread {tid}"), recorded.with_tid(on(*tid)).to_vec())?,
        Subject::Comm(comm) => {
            let named_so = |thread: &Thread| thread.names.iter().any(|(_, name)| name == comm);
            let with_name = graph.threads().filter(|(_, thread)| named_so(thread) && is_there(thread));
            let what = format!("thread named `{}`", comm.lossy());
            named(what, with_name.map(|(index, _)| index).collect())?
        }
    };
    let (what, threads) = found;
    let mut windows = Vec::new();
    for &thread in &threads {
        match window(recorded, query, thread, life(recorded, thread)) {
            Ok(window) => windows.push((window, Question::Thread)),
            // With several threads, some did not live in the window.
            Err(QueryError::EmptyWindow) if threads.len() > 1 => {}
            Err(error) => return Err(error),
        }
    }
    match windows.len() {
        0 => Err(QueryError::EmptyWindow),
        1 => Ok(Selection::Windows(windows)),
        _ if query.all => Ok(Selection::Windows(windows)),
        _ => {
            let candidates = windows
                .iter()
                .map(|(window, _)| Candidate { thread: window.thread, from: window.from, to: window.to })
                .collect();
            Err(QueryError::Several { what, candidates })
        }
    }
}

/// Which host is meant.
pub(crate) fn host(recorded: &Recorded, wanted: &Name) -> Result<HostIndex, QueryError> {
    let hosts: Vec<_> = std::iter::once(&recorded.host).chain(&recorded.others).collect();
    let is_meant = |host: &Host| host.name == *wanted || host.boot_id.as_bytes() == wanted.bytes();
    let text = |name: &Name| String::from_utf8_lossy(name.bytes()).into_owned();
    let mut meant = (0..).zip(&hosts).filter(|(_, host)| is_meant(host)).map(|(index, _)| index);
    match (meant.next(), meant.next()) {
        (Some(index), None) => Ok(HostIndex(index)),
        (Some(_), Some(_)) => Err(QueryError::SeveralHosts(text(wanted))),
        (None, _) => {
            let names: Vec<_> = hosts.iter().map(|host| text(&host.name)).collect();
            Err(QueryError::NoSuchHost { wanted: text(wanted), hosts: names.join(", ") })
        }
    }
}

fn named(what: String, threads: Vec<ThreadIndex>) -> Result<(String, Vec<ThreadIndex>), QueryError> {
    if threads.is_empty() { Err(QueryError::NoSuch { what }) } else { Ok((what, threads)) }
}

/// The subject of the recording.
fn of_recording(recorded: &Recorded, query: &PathQuery) -> Result<Selection, QueryError> {
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
        return of_cgroup(recorded, cgroup, |_| true);
    }
    let targets: Vec<Tid> = session.targets.iter().copied().collect();
    if targets.is_empty() {
        return Ok(Selection::Threads(
            Scope::All,
            recorded.graph.threads().map(|(index, _)| index).collect(),
        ));
    }
    let threads = of_processes(recorded, |tgid| session.targets.contains(&tgid));
    Ok(Selection::Threads(Scope::Processes(targets), threads))
}

/// A process of one thread has one window; one of several has none.
fn of_process(recorded: &Recorded, query: &PathQuery, pid: Tid) -> Result<Selection, QueryError> {
    let threads = of_processes(recorded, |tgid| tgid == pid);
    match threads.as_slice() {
        [] => Err(QueryError::NoSuch { what: format!("process {pid}") }),
        [thread] => {
            let window = window(recorded, query, *thread, life(recorded, *thread))?;
            Ok(Selection::Windows(vec![(window, Question::Thread)]))
        }
        _ => Ok(Selection::Threads(Scope::Processes(vec![pid]), threads)),
    }
}

fn of_processes(recorded: &Recorded, wanted: impl Fn(Tid) -> bool) -> Vec<ThreadIndex> {
    let threads = recorded.graph.threads();
    threads.filter(|(_, thread)| thread.tgid().is_some_and(&wanted)).map(|(index, _)| index).collect()
}

/// Whether the cgroup at `path` is meant by `wanted`: its path or that of one above it, a container's
/// id, or the last component as `systemctl` names it.
pub(crate) fn is_meant(wanted: &[u8], path: &[u8]) -> bool {
    let below = || {
        let outer = wanted.strip_suffix(b"/").unwrap_or(wanted);
        path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    };
    match Unit::of_path(path) {
        _ if wanted.starts_with(b"/") => below(),
        Some(Unit::Container { id, .. }) => {
            wanted.len() >= 4 && wanted.starts_with(&id.as_bytes()[..id.len().min(wanted.len())])
        }
        Some(Unit::Systemd(unit) | Unit::Cgroup(unit)) => unit.bytes() == wanted,
        None => false,
    }
}

fn of_cgroup(
    recorded: &Recorded,
    cgroup: &Name,
    is_there: impl Fn(&Thread) -> bool,
) -> Result<Selection, QueryError> {
    let names = &recorded.survey.names;
    let wanted = cgroup.bytes();
    let fits = |path: &Name| is_meant(wanted, path.bytes());
    let threads: Vec<_> = recorded
        .graph
        .threads()
        .filter(|(_, thread)| {
            is_there(thread)
                && thread.cgroups.iter().any(|&(_, v2, cpu)| {
                    names.cgroup(v2).is_some_and(&fits) || names.cpu_cgroup(cpu).is_some_and(&fits)
                })
        })
        .map(|(index, _)| index)
        .collect();
    if threads.is_empty() {
        let what = format!("thread of cgroup or unit `{}`", String::from_utf8_lossy(wanted));
        return Err(QueryError::NoSuch { what });
    }
    Ok(Selection::Threads(Scope::Cgroup(cgroup.clone()), threads))
}

/// From a thread's birth, or the recording's beginning, to its exit, or the recording's end.
pub(crate) fn life(recorded: &Recorded, thread: ThreadIndex) -> (Stamp<Reference>, Stamp<Reference>) {
    let thread = recorded.graph.thread(thread);
    // Before all sources were attached a thread's doings are not known.
    let begin = if thread.born.is_some() { thread.first } else { thread.first.max(recorded.from()) };
    (begin, thread.exited.unwrap_or(thread.last))
}

/// The part of a thread's `life` that is asked about.
pub(crate) fn window(
    recorded: &Recorded,
    query: &PathQuery,
    thread: ThreadIndex,
    life: (Stamp<Reference>, Stamp<Reference>),
) -> Result<Window, QueryError> {
    let (from, to) = asked(recorded, query)?;
    let (from, to) = (from.unwrap_or(life.0).max(life.0), to.unwrap_or(life.1).min(life.1));
    if from >= to && (query.from.is_some() || query.to.is_some() || life.0 > life.1) {
        return Err(QueryError::EmptyWindow);
    }
    Ok(Window { thread, from, to: to.max(from) })
}

/// The ends of a window, as far as they were asked for.
type Ends = (Option<Stamp<Reference>>, Option<Stamp<Reference>>);

/// The times asked for, placed in the recording.
pub(crate) fn asked(recorded: &Recorded, query: &PathQuery) -> Result<Ends, NoRealtime> {
    let (begin, end) = (recorded.from(), recorded.to());
    let realtime = recorded.realtime(begin);
    let place = |spec: Option<TimeSpec>| spec.map(|spec| spec.place(begin, end, realtime)).transpose();
    Ok((place(query.from)?, place(query.to)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_event::{CgroupId, EventKind, Mark, NameSpace};
    use wakepath_names::testing::{event, read};

    /// A shell that forks a child, which executes the command; another process of two threads.
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
        // Behind the threads that are there at the start.
        events.splice(3..3, more.iter().map(|what| event(0, 0, 0, what.clone())));
        read(&events)
    }

    fn command() -> EventKind {
        EventKind::Mark(Mark::Command { tgid: Tid(11), words: b"./checkout".as_slice().into() })
    }

    /// The result of a question: `tid from..to` of each window, or the tids that can be asked about.
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
    fn a_commands_window_is_from_its_exec_to_its_exit() {
        let recorded = recorded(&[command()]);
        assert_eq!(ask(&recorded, PathQuery::default()), "11 300..900");
        let part = PathQuery {
            from: Some(TimeSpec::AfterStart(500)),
            to: Some(TimeSpec::BeforeEnd(0)),
            ..PathQuery::default()
        };
        assert_eq!(ask(&recorded, part), "11 500..900", "a part of it");
    }

    #[test]
    fn without_a_command_the_question_is_about_threads() {
        assert_eq!(ask(&recorded(&[]), PathQuery::default()), "threads [10, 20, 21, 11]");
        let target = EventKind::Mark(Mark::Target(Tid(20)));
        assert_eq!(ask(&recorded(&[target]), PathQuery::default()), "threads [20, 21]");
    }

    #[test]
    fn a_process_of_one_thread_has_a_window_and_one_of_several_has_none() {
        let recorded = recorded(&[]);
        assert_eq!(ask(&recorded, of(Subject::Pid(Tid(11)))), "11 100..900", "from its birth on");
        assert_eq!(ask(&recorded, of(Subject::Pid(Tid(20)))), "threads [20, 21]");
        assert_eq!(ask(&recorded, of(Subject::Pid(Tid(21)))), "no process 21 in this recording");
        assert_eq!(ask(&recorded, of(Subject::Tid(Tid(21)))), "21 0..1000");
    }

    #[test]
    fn a_name_that_several_had_asks_back_unless_all_are_wanted() {
        let recorded = recorded(&[]);
        let comm = |name: &str| of(Subject::Comm(Comm::new(name.as_bytes())));
        assert_eq!(ask(&recorded, comm("checkout")), "11 100..900", "a name it had for a part of its life");
        assert_eq!(ask(&recorded, comm("sh")), "2 threads fit: thread named `sh`");
        assert_eq!(ask(&recorded, PathQuery { all: true, ..comm("sh") }), "10 0..1000, 11 100..900");
        assert_eq!(ask(&recorded, comm("bash")), "no thread named `bash` in this recording");
        let early = PathQuery { to: Some(TimeSpec::AfterStart(50)), ..comm("sh") };
        assert_eq!(ask(&recorded, early), "10 0..50", "only one of them lived then");
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

    #[test]
    fn a_window_that_is_empty_or_upside_down_is_refused() {
        let recorded = recorded(&[command()]);
        let upside_down = PathQuery {
            from: Some(TimeSpec::AfterStart(600)),
            to: Some(TimeSpec::AfterStart(500)),
            ..PathQuery::default()
        };
        assert_eq!(ask(&recorded, upside_down), "the window is empty: it ends where it begins, or before");
        assert_eq!(ask(&read(&[]), PathQuery::default()), "the recording holds no events");
    }
}
