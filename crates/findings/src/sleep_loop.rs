//! A loop in a script whose sleeps are processes: what ran between them.
//!
//! A shell that polls starts `sleep` again and again, and something else in between. The sleeping process does not know the
//! reason; the processes that the same parent started between the sleeps do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use wakepath_clock::{Reference, Stamp};
use wakepath_event::{Comm, Tid};
use wakepath_wait_graph::{Thread, ThreadIndex};

use crate::{Evidence, Row};

/// Fewer sleeps may be chance.
const MIN_SLEEPS: u64 = 3;
/// The most names.
const MAX_NAMES: usize = 2;

/// Sleeping processes with the same parent, and what it ran between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SleepLoop {
    /// The sleeping processes.
    pub sleeps: u64,
    /// Its descendants' names that ran between the sleeps, most frequent first.
    pub between: Vec<Comm>,
}

/// The loop behind two thirds of a row's sleeps and of their time, if something ran in two thirds of its pauses.
pub(crate) fn sleep_loop(evidence: &Evidence<'_>, row: &Row) -> Option<SleepLoop> {
    let graph = evidence.recorded.graph();
    let (threads, waits) = (&row.threads, row.waits());
    let parent_of = |thread: &Thread| thread.identity.as_ref().map(|identity| identity.parent);
    let mut by_parent: BTreeMap<Tid, Vec<ThreadIndex>> = BTreeMap::new();
    for &index in threads {
        let thread = graph.thread(index);
        if let Some(parent) = parent_of(thread).filter(|_| is_leader(thread) && !evidence.is_asked(index)) {
            by_parent.entry(parent).or_default().push(index);
        }
    }
    let (parent, sleepers) =
        by_parent.into_iter().max_by_key(|(parent, all)| (all.len(), Reverse(*parent)))?;
    let sleeps = sleepers.len() as u64;
    let slept = row.users.iter().filter(|((_, index), _)| sleepers.contains(index)).map(|(_, ns)| ns).sum();
    let is_most = |part: u64, whole: u64| part.saturating_mul(3) >= whole.saturating_mul(2);
    if sleeps < MIN_SLEEPS || !is_most(sleeps, waits) || !is_most(slept, row.total_ns) {
        return None;
    }
    let mut begins: Vec<_> = sleepers.iter().map(|&index| graph.thread(index).first).collect();
    begins.sort_unstable();
    let to = sleepers.iter().map(|&index| graph.thread(index).last).max()?;
    let between = between(evidence, threads, parent, &begins, to);
    (!between.is_empty()).then_some(SleepLoop { sleeps, between })
}

/// `parent`'s descendants that lived between the sleeps, by name, each in two thirds of the pauses: of the times from a sleep's
/// beginning to the next.
fn between(
    evidence: &Evidence<'_>,
    sleepers: &BTreeSet<ThreadIndex>,
    parent: Tid,
    begins: &[Stamp<Reference>],
    to: Stamp<Reference>,
) -> Vec<Comm> {
    let recorded = evidence.recorded;
    let Some(&from) = begins.first() else { return Vec::new() };
    let is_between = |(index, thread): &(ThreadIndex, &Thread)| {
        thread.first >= from && thread.last <= to && is_leader(thread) && !sleepers.contains(index)
    };
    // Other work beside the loop starts many processes in few pauses.
    let mut names: BTreeMap<Comm, BTreeSet<usize>> = BTreeMap::new();
    for (_, thread) in recorded.graph().threads().filter(is_between) {
        let name = thread.name();
        // A shell's fork has the shell's name.
        let is_fork = recorded.process_comm(parent, thread.last) == Some(name);
        if !is_fork && !name.bytes().is_empty() && recorded.descends(thread.tid(), parent, thread.last) {
            let pause = begins.partition_point(|begin| *begin <= thread.first);
            names.entry(name).or_default().insert(pause);
        }
    }
    let pauses = begins.len() - 1;
    let names = names.into_iter().map(|(name, ran)| (name, ran.len()));
    let mut names: Vec<_> = names.filter(|(_, count)| count * 3 >= pauses * 2).collect();
    names.sort_by_key(|&(name, count)| (Reverse(count), name));
    names.into_iter().map(|(name, _)| name).take(MAX_NAMES).collect()
}

/// Whether a thread is its process's first.
fn is_leader(thread: &Thread) -> bool {
    thread.tgid() == Some(thread.tid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RowKey, rows};
    use wakepath_critical_path::{Window, active};

    /// A script with this many `sleeps`; in front of the first ones it runs `program`.
    fn found(program: &str, sleeps: u64, runs: u64) -> Option<SleepLoop> {
        found_in(
            &vec![program; runs as usize].iter().map(|program| vec![*program]).collect::<Vec<_>>(),
            sleeps,
            0,
        )
    }

    /// A script with this many `sleeps`; in front of the first ones it runs these programs. Then it sleeps itself for `own` ns.
    fn found_in(runs: &[Vec<&str>], sleeps: u64, own: u64) -> Option<SleepLoop> {
        let mut trace = String::from(
            "thread mon.sh tid=10\n0 c0 idle started\n0 c1 idle started\n0 c0 idle switch mon.sh\n",
        );
        let mut at = 10;
        let mut tid = 20;
        for turn in 0..sleeps {
            let programs = runs.get(turn as usize).map_or(&[][..], Vec::as_slice);
            for (program, ns) in programs.iter().map(|program| (*program, 5)).chain([("sleep", 100)]) {
                let [begin, blocked, end, dead] = [1, 3, 3 + ns, 4 + ns].map(|ns| at + ns);
                let wait = if program == "sleep" {
                    format!(
                        "{blocked} c1 P{tid} switch idle blocked call=230:0\n{end} c1 idle/timer waking P{tid}\n\
                         {end} c1 idle switch P{tid}\n"
                    )
                } else {
                    String::new()
                };
                trace += &format!(
                    "{at} c0 mon.sh fork P{tid} tid={tid} parent=10\n{at} c0 mon.sh waking P{tid} newborn\n\
                     {begin} c1 idle switch P{tid}\n{begin} c1 P{tid} exec {program}\n\
                     {begin} c0 mon.sh switch idle blocked call=61:0\n{wait}{end} c1 P{tid} waking mon.sh\n\
                     {end} c1 P{tid} exit\n{dead} c1 P{tid} switch idle dead\n{dead} c0 idle switch mon.sh\n"
                );
                at = dead + 2;
                tid += 1;
            }
        }
        if own > 0 {
            let end = at + own;
            trace += &format!(
                "{at} c0 mon.sh switch idle blocked call=230:0\n{end} c0 idle/timer waking mon.sh\n{end} c0 idle switch mon.sh\n"
            );
            at = end + 1;
        }
        trace += &format!("{at} c0 mon.sh stopped\n");
        let events = wakepath_scenario::text::parse(&trace).expect("a trace").events;
        let recorded = wakepath_loaded::testing::read(&events);
        let [from, to] = [0, at].map(Stamp::from_ns);
        let path = active(&recorded.graph, Window { thread: ThreadIndex(0), from, to });
        let (stacks, sampled) = Default::default();
        let evidence = Evidence { recorded: &recorded, path: &path, stacks: &stacks, sampled: &sampled };
        let rows = rows(&evidence);
        let (_, row) = rows.iter().find(|(key, _)| *key == RowKey::Timer)?;
        assert_eq!(row.waits(), sleeps + u64::from(own > 0), "{rows:?}");
        row.sleep_loop.clone()
    }

    #[test]
    fn what_a_script_ran_between_its_sleeps_is_named_if_it_ran_in_most_pauses() {
        let curl = |sleeps| Some(SleepLoop { sleeps, between: vec![Comm::new(b"curl")] });
        assert_eq!(found("curl", 4, 4), curl(4));
        assert_eq!(found("curl", 3, 3), curl(3));
        assert_eq!(found("curl", 2, 2), None, "two sleeps may be chance");
        // The first run came before the first sleep.
        assert_eq!(found("curl", 4, 3), curl(4), "in two of three pauses");
        assert_eq!(found("curl", 4, 2), None, "in one of three pauses");
        assert_eq!(found("mon.sh", 4, 4), None, "the shell's own forks");
        assert_eq!(found("curl", 4, 0), None);
    }

    #[test]
    fn pauses_count_and_not_processes_and_the_sleeps_must_be_most_of_the_time() {
        let [none, one, three] = [vec![], vec!["curl"], vec!["curl"; 3]];
        assert_eq!(found_in(&[none.clone(), three.clone()], 4, 0), None, "three in a single pause");
        assert!(found_in(&[none.clone(), three, one.clone()], 4, 0).is_some(), "in two of three");
        let all = [none, one.clone(), one.clone(), one];
        // The processes sleep for 400 ns.
        assert_eq!([200, 201].map(|own| found_in(&all, 4, own).is_some()), [true, false]);
    }
}
