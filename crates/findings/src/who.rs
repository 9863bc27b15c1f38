//! Threads to name in a sentence: those blamed for own time, and those responsible for it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use wakepath_critical_path::{Responsible, SignalCause, SignalSender};
use wakepath_event::{Comm, HostIndex, Tid};
use wakepath_wait_graph::{Thread, ThreadIndex};

use crate::{Evidence, Row, RowKey};

/// The own threads that spent a headline row's time while the window's own thread waited for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doers {
    /// Their names, largest time first.
    pub names: Vec<Comm>,
    /// The processes of the threads with these names when the window closed.
    pub processes: BTreeSet<Tid>,
    /// The number of those threads.
    pub threads: usize,
    /// The process with more than half their time, if there are others.
    pub main: Option<Tid>,
    /// A single parent ran these processes in turn.
    pub in_turn: bool,
}

/// Fewer processes in turn may be chance.
const MIN_IN_TURN: usize = 3;

/// A row's threads without the window's own; where they slept for trying threads, the latter. Names with at most a twentieth of
/// the time are left out.
pub(crate) fn doers(evidence: &Evidence<'_>, row: &Row) -> Doers {
    let users: Vec<(Comm, ThreadIndex, u64)> = match row.tried_for() {
        Some(by) => by.iter().map(|by| (evidence.thread(*by).comm, *by, 1)).collect(),
        None => row.users.iter().map(|(&(name, thread), ns)| (name, thread, *ns)).collect(),
    };
    let others = || users.iter().filter(|(_, thread, _)| !evidence.is_asked(*thread));
    let mut times: BTreeMap<Comm, u64> = BTreeMap::new();
    others().for_each(|(name, _, ns)| *times.entry(*name).or_default() += ns);
    let least = times.values().sum::<u64>() / 20;
    let mut names: Vec<_> = times.into_iter().filter(|(_, ns)| *ns > least).collect();
    names.sort_unstable_by_key(|&(name, ns)| (Reverse(ns), name));
    let names: Vec<Comm> = names.into_iter().map(|(name, _)| name).collect();
    let mut threads = BTreeSet::new();
    let mut processes: BTreeMap<Tid, u64> = BTreeMap::new();
    for (_, thread, ns) in others().filter(|(name, ..)| names.contains(name)) {
        threads.insert(*thread);
        if let Some(process) = evidence.thread(*thread).tgid {
            *processes.entry(process).or_default() += ns;
        }
    }
    let all = processes.values().sum::<u64>();
    let main = processes.iter().find(|(_, ns)| **ns > all / 2).map(|(process, _)| *process);
    Doers {
        main: main.filter(|_| processes.len() > 1),
        in_turn: are_in_turn(evidence, &threads),
        processes: processes.into_keys().collect(),
        threads: threads.len(),
        names,
    }
}

/// Whether a single parent ran these at least three processes, each begun behind the last end.
fn are_in_turn(evidence: &Evidence<'_>, threads: &BTreeSet<ThreadIndex>) -> bool {
    let graph = evidence.recorded.graph();
    let mut all: Vec<&Thread> = threads.iter().map(|thread| graph.thread(*thread)).collect();
    let parent = |thread: &Thread| thread.identity.as_ref().map(|identity| identity.parent);
    let first = all.first().copied().and_then(parent);
    all.sort_unstable_by_key(|thread| thread.first);
    all.len() >= MIN_IN_TURN
        && first.is_some()
        && all.iter().all(|thread| parent(thread) == first)
        && all.windows(2).all(|pair| pair[0].exited.unwrap_or(pair[0].last) <= pair[1].first)
}

/// The threads responsible for a time, other than the window's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Who {
    /// The thread, if it is known and alone.
    pub thread: Option<ThreadIndex>,
    /// Their names, largest time first.
    pub names: Vec<Comm>,
    /// Their processes.
    pub processes: BTreeSet<Tid>,
    /// Their number; 0 if unknown.
    pub threads: usize,
    /// Their host, if not the reference host.
    pub host: Option<HostIndex>,
}

impl Who {
    /// A single thread.
    pub fn thread(evidence: &Evidence<'_>, index: ThreadIndex) -> Self {
        let thread = evidence.thread(index);
        Self {
            thread: Some(index),
            names: vec![thread.comm],
            processes: thread.tgid.into_iter().collect(),
            threads: 1,
            host: evidence.remote_host(&thread),
        }
    }

    /// Own threads with a row's activity, while the window's own thread waited for them.
    pub fn doers(evidence: &Evidence<'_>, doers: &Doers) -> Self {
        let Doers { names, processes, threads, .. } = doers.clone();
        Self { thread: None, names, processes, threads, host: evidence.remote_host(&evidence.subject()) }
    }

    /// A signal's sender, if a thread sent it.
    pub fn sender(evidence: &Evidence<'_>, signal: &SignalCause) -> Option<Self> {
        match signal.sender {
            SignalSender::Thread(by) => Some(Self::thread(evidence, by)),
            SignalSender::Timer | SignalSender::Unknown => None,
        }
    }

    /// The threads in a row's key; `None` if it has none.
    pub fn row(evidence: &Evidence<'_>, key: &RowKey, row: &Row) -> Option<Self> {
        match key {
            RowKey::Process(name, host) => {
                // Kernel threads worked for the process.
                let mut threads = row.threads.iter().filter(|thread| !evidence.thread(**thread).kernel);
                let (first, more) = (threads.next(), threads.count());
                Some(Self {
                    thread: first.filter(|_| more == 0).copied(),
                    names: vec![*name],
                    processes: row.processes.clone(),
                    threads: usize::from(first.is_some()) + more,
                    host: *host,
                })
            }
            // Such rows also have threads that worked for these threads.
            RowKey::Thread(name, _) => {
                let host = evidence.remote_host(&evidence.subject());
                Some(Self { names: vec![*name], host, ..Self::default() })
            }
            RowKey::KernelThread(name) => {
                let any = row.threads.first().map(|thread| evidence.thread(*thread));
                let host = any.and_then(|thread| evidence.remote_host(&thread));
                Some(Self { names: vec![*name], host, ..Self::default() })
            }
            RowKey::Signal(signal) | RowKey::Stopped(Responsible::Signal(signal)) => {
                Self::sender(evidence, signal)
            }
            _ => row.far.as_ref().map(|far| Self::processes(evidence, &far.processes)),
        }
    }

    /// Processes without a known thread.
    fn processes(evidence: &Evidence<'_>, processes: &[Tid]) -> Self {
        let at = evidence.path.window.to;
        let names: BTreeSet<Comm> =
            processes.iter().filter_map(|process| evidence.recorded.process_comm(*process, at)).collect();
        Self {
            names: names.into_iter().collect(),
            processes: processes.iter().copied().collect(),
            host: evidence.remote_host(&evidence.subject()),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;
    use crate::testing::{FUTEX, Story, call};
    use wakepath_clock::Stamp;
    use wakepath_critical_path::{Cause, SegmentKind, Via, Window, active};
    use wakepath_event::{EventKind, SignalEffect};

    #[test]
    fn the_doers_of_a_row_are_the_other_threads_with_a_twentieth_of_its_time() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let names: [(&[u8], u64); 4] = [(b"build", 500), (b"app", 360), (b"pack", 47), (b"link", 48)];
        for (i, (name, ns)) in (0..).zip(names) {
            let other = story.thread(10 + i, 7, name, 7);
            let wait = story.wait(ns, own, None, call(FUTEX, 3), Via::Wakeup, other);
            story.then(ns, other, Some(wait), SegmentKind::Running, Cause::None);
        }
        story.then(300, own, None, SegmentKind::Running, Cause::None);
        // All running time: 1255 ns, 955 of it by others; a twentieth is 47.
        let story = story.finish();
        let evidence = story.evidence();
        let mut whole = Row::default();
        for (_, row) in rows(&evidence) {
            whole.total_ns += row.total_ns;
            whole.own_ns += row.own_ns;
            row.users.into_iter().for_each(|(user, ns)| *whole.users.entry(user).or_default() += ns);
            whole.threads.extend(row.threads);
        }
        assert_eq!((whole.total_ns, whole.own_ns), (1255, 300));
        let found = doers(&evidence, &whole);
        let names = [&b"build"[..], b"app", b"link"].map(Comm::new);
        assert_eq!((found.names, found.threads), (names.to_vec(), 3));
        assert_eq!(found.processes, BTreeSet::from([10, 11, 13].map(Tid)));
    }

    /// The other process with most of the time, where `app` waited for processes that ran for these times.
    fn main(times: &[u64]) -> Option<Tid> {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        for (tid, &ns) in (20..).zip(times) {
            let other = story.thread(tid, 7, b"cc1", 7);
            let wait = story.wait(ns, own, None, call(61, 0), Via::Wakeup, other);
            story.then(ns, other, Some(wait), SegmentKind::Running, Cause::None);
        }
        let story = story.finish();
        let evidence = story.evidence();
        doers(&evidence, &rows(&evidence)[0].1).main
    }

    /// Whether processes that began and ended at these times, each with a parent, ran in turn.
    fn in_turn(lives: &[(u64, u64, u32)]) -> bool {
        let mut events: Vec<(u64, String)> = Vec::new();
        for (tid, &(first, exited, parent)) in (20..).zip(lives) {
            let cpu = tid % 2 + 1;
            let born = format!(
                "{first} c0 app fork P{tid} tid={tid} parent={parent}\n{first} c0 app waking P{tid} newborn\n\
                 {first} c{cpu} idle switch P{tid}\n"
            );
            events.push((first, born));
            events.push((exited, format!("{exited} c{cpu} P{tid} exit\n")));
            events.push((exited + 2, format!("{} c{cpu} P{tid} switch idle dead\n", exited + 2)));
        }
        events.sort_by_key(|(at, _)| *at);
        let mut trace =
            String::from("thread app tid=7\n0 c0 idle switch app\n0 c1 idle started\n0 c2 idle started\n");
        events.iter().for_each(|(_, event)| trace += event);
        trace += "99 c0 app stopped\n";
        let events = wakepath_scenario::text::parse(&trace).expect("a trace").events;
        let recorded = wakepath_loaded::testing::read(&events);
        let window = Window { thread: ThreadIndex(0), from: Stamp::from_ns(0), to: Stamp::from_ns(99) };
        let path = active(&recorded.graph, window);
        let (stacks, sampled) = Default::default();
        let evidence = Evidence { recorded: &recorded, path: &path, stacks: &stacks, sampled: &sampled };
        are_in_turn(&evidence, &(1..=lives.len() as u32).map(ThreadIndex).collect())
    }

    #[test]
    fn the_main_process_has_more_than_half_of_their_time() {
        assert_eq!(
            [main(&[51, 49]), main(&[50, 50]), main(&[30, 60, 29])],
            [Some(Tid(20)), None, Some(Tid(21))]
        );
        assert_eq!(main(&[100]), None, "the only one");
    }

    #[test]
    fn three_processes_of_a_parent_ran_one_after_another_unless_two_overlap() {
        // Its parent goes on before the last switch of a process that ended.
        assert!(in_turn(&[(10, 20, 7), (20, 30, 7), (31, 40, 7)]));
        assert!(!in_turn(&[(10, 20, 7), (20, 30, 7)]), "two may be chance");
        assert!(!in_turn(&[(10, 20, 7), (19, 30, 7), (31, 40, 7)]), "they overlap");
        assert!(!in_turn(&[(10, 20, 7), (20, 30, 7), (31, 40, 20)]), "another parent");
    }

    #[test]
    fn a_process_that_ran_under_another_name_at_last_is_counted() {
        // Names count as they were: the thread is `late` when the window ends.
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let child = story.thread(20, 7, b"app", 7);
        story.add_at(90, EventKind::Rename { tid: Tid(20), comm: Comm::new(b"late") });
        let wait = story.wait(100, own, None, call(61, 0), Via::Wakeup, child);
        story.then(100, child, Some(wait), SegmentKind::Running, Cause::None);
        let story = story.finish();
        let evidence = story.evidence();
        let rows = rows(&evidence);
        let times: Vec<_> = rows.iter().map(|(key, row)| (key.clone(), row.total_ns)).collect();
        let running = |name: &[u8]| RowKey::Running(Comm::new(name));
        assert_eq!(times, [(running(b"app"), 90), (running(b"late"), 10)]);
        let headline = crate::headline::headline(&evidence, &rows, crate::LastWaits::default());
        assert_eq!(headline.largest.map(|part| part.ns), Some(90));
        let found = doers(&evidence, &rows[0].1);
        assert_eq!((found.names, found.threads), (vec![Comm::new(b"app")], 1));
        assert_eq!(found.processes, BTreeSet::from([Tid(20)]));
    }

    #[test]
    fn a_rows_key_names_who_is_responsible_and_no_thread_of_many() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let [first, second] = [20, 21].map(|tid| story.thread(tid, 1, b"db", 20));
        for (thread, ns) in [(first, 5), (second, 6)] {
            let wait = story.wait(ns, own, None, call(0, 3), Via::Packet, thread);
            story.then(ns, thread, Some(wait), SegmentKind::Running, Cause::None);
        }
        let killer = story.thread(30, 1, b"killer", 30);
        let journal = story.thread(80, 2, b"jbd2", 0);
        let signal = |sender| SignalCause { number: 15, effect: SignalEffect::GoesOn, sender };
        story.then(1, own, None, SegmentKind::Running, Cause::None);
        let story = story.finish();
        let evidence = story.evidence();
        let all = rows(&evidence);
        let db = Who::row(&evidence, &all[0].0, &all[0].1).expect("a process");
        assert_eq!((db.thread, db.threads, db.names), (None, 2, vec![Comm::new(b"db")]));
        assert_eq!(db.processes, BTreeSet::from([Tid(20), Tid(21)]));
        assert_eq!(Who::row(&evidence, &all[1].0, &all[1].1), None, "the thread itself");
        let one = Row { threads: BTreeSet::from([first]), ..Row::default() };
        let thread = |key| Who::row(&evidence, &key, &one).and_then(|who| who.thread);
        assert_eq!(thread(RowKey::Process(Comm::new(b"db"), None)), Some(first));
        assert_eq!(thread(RowKey::KernelThread(Comm::new(b"jbd2"))), None);
        assert_eq!(thread(RowKey::Thread(Comm::new(b"db"), crate::EndedBy::WakeUp)), None);
        // A kernel thread did all the work.
        let by_kernel = Row { threads: BTreeSet::from([journal]), ..Row::default() };
        let who = Who::row(&evidence, &RowKey::Process(Comm::new(b"db"), None), &by_kernel);
        assert_eq!(who.map(|who| (who.thread, who.threads)), Some((None, 0)));
        let both = Row { threads: BTreeSet::from([journal, second]), ..Row::default() };
        let who = Who::row(&evidence, &RowKey::Process(Comm::new(b"db"), None), &both);
        assert_eq!(who.map(|who| (who.thread, who.threads)), Some((Some(second), 1)));
        let sent = signal(SignalSender::Thread(killer));
        assert_eq!(thread(RowKey::Signal(sent)), Some(killer));
        assert_eq!(thread(RowKey::Stopped(Responsible::Signal(sent))), Some(killer));
        assert_eq!(thread(RowKey::Signal(signal(SignalSender::Timer))), None);
        assert_eq!(thread(RowKey::Stopped(Responsible::StillWaiting)), None);
    }

    #[test]
    fn those_who_are_responsible_are_on_the_host_of_their_threads() {
        let on = |tid: u32| Tid(tid).on(HostIndex(1)).0;
        let mut story = Story::default();
        let own = story.thread(on(7), on(1), b"app", 7);
        let journal = story.thread(on(80), 2, b"jbd2", 0);
        story.then(5, own, None, SegmentKind::Running, Cause::None);
        let mut story = story.finish();
        story.recorded.others.push(story.recorded.host.clone());
        let evidence = story.evidence();
        let there = Some(HostIndex(1));
        assert_eq!(Who::thread(&evidence, own).host, there);
        let doers =
            Doers { names: Vec::new(), processes: BTreeSet::new(), threads: 1, main: None, in_turn: false };
        assert_eq!(Who::doers(&evidence, &doers).host, there);
        let host = |key, thread: Option<ThreadIndex>| {
            let row = Row { threads: thread.into_iter().collect(), ..Row::default() };
            Who::row(&evidence, &key, &row).map(|who| who.host)
        };
        let name = Comm::new(b"db");
        assert_eq!(host(RowKey::Thread(name, crate::EndedBy::Packet), None), Some(there));
        assert_eq!(host(RowKey::KernelThread(name), Some(journal)), Some(there));
        assert_eq!(host(RowKey::KernelThread(name), None), Some(None));
        assert_eq!(host(RowKey::Process(name, None), Some(own)), Some(None), "as the key says");
    }
}
