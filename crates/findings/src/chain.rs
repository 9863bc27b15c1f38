//! The chain of threads between the window's own thread and a row's last thread, for the headline.

use std::cmp::Reverse;
use std::collections::HashMap;

use wakepath_critical_path::{Segment, WaitId};
use wakepath_wait_graph::ThreadIndex;

use crate::rows::segments_in_row;
use crate::{Blames, Evidence, LargestPart, Row, RowKey};

/// The most links that are kept.
const MAX_LINKS: usize = 3;

/// Threads that waited for each other, beginning with the thread for which the window's own thread waited. Kernel
/// threads are left out: they work for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The first thread, and the last two.
    pub links: Vec<ThreadIndex>,
    /// The number of threads between the first and the last two.
    pub more: usize,
}

/// The chain behind at least half the time in a part; `None` if the window's own thread waited directly, if no chain
/// has so much, or if the sentence already has the first thread.
pub(crate) fn chain(evidence: &Evidence<'_>, rows: &[(RowKey, Row)], part: &LargestPart) -> Option<Chain> {
    let (key, row) = rows.get(part.row)?;
    let names = match &part.blames {
        Blames::Doers(_) => Named::Last,
        Blames::Key if key.is_of_doers() => return None,
        Blames::Key if matches!(key, RowKey::Process(..)) => Named::LastOfUsers,
        Blames::Key => Named::None,
        Blames::LastWait | Blames::Awaited(_) => return None,
    };
    let mut chains = Chains::new(evidence);
    let mut times: HashMap<Node, u64> = HashMap::new();
    let mut total = 0;
    segments_in_row(evidence, key, |segment| {
        if part.by_others && segment.thread.is_some_and(|thread| evidence.is_asked(thread)) {
            return;
        }
        let ns = segment.to.since(segment.from);
        total += ns;
        *times.entry(chains.node(segment, names)).or_default() += ns;
    });
    debug_assert!(total <= row.total_ns, "a row has its segments' time");
    let (node, ns) = times.into_iter().max_by_key(|&(node, ns)| (ns, Reverse(node)))?;
    let mut chain = (ns >= total - ns).then(|| chains.links(node)).flatten()?;
    // The sentence has the script that slept in other processes.
    let is_named = |link: &ThreadIndex| match &part.blames {
        Blames::Doers(doers) => {
            evidence.thread(*link).tgid.is_some_and(|tgid| doers.processes.contains(&tgid))
        }
        _ => false,
    };
    chain.links.pop_if(|link| is_named(link));
    (!chain.links.is_empty()).then_some(chain)
}

/// The end of a chain, if the sentence names it already.
#[derive(Clone, Copy)]
enum Named {
    None,
    /// The segment's thread.
    Last,
    /// The segment's thread, or the user thread for which a kernel thread worked.
    LastOfUsers,
}

/// A chain, by its last link: an index into [`Chains::nodes`]; 0 has no link.
type Node = u32;

/// The chains above all waits, as a tree: equal chains are a single node, however many waits have them.
struct Chains<'a> {
    evidence: &'a Evidence<'a>,
    /// The chain without the last link, and that link.
    nodes: Vec<(Node, Option<ThreadIndex>)>,
    known: HashMap<(Node, ThreadIndex), Node>,
    /// For each wait, the chain up to its thread.
    up_to: Vec<Node>,
    /// Whether a thread is a link.
    is_link: HashMap<ThreadIndex, bool>,
}

impl<'a> Chains<'a> {
    fn new(evidence: &'a Evidence<'a>) -> Self {
        let mut chains = Self {
            evidence,
            nodes: vec![(0, None)],
            known: HashMap::new(),
            up_to: Vec::with_capacity(evidence.waits().len()),
            is_link: HashMap::new(),
        };
        // A wait's parent comes before it.
        for (_, wait) in evidence.waits() {
            let before = chains.to_wait(wait.parent);
            let node = chains.with(before, wait.thread);
            chains.up_to.push(node);
        }
        chains
    }

    fn to_wait(&self, wait: Option<WaitId>) -> Node {
        wait.and_then(|wait| self.up_to.get(wait.0 as usize)).copied().unwrap_or_default()
    }

    /// The chain to a segment's thread, without the named end.
    fn node(&mut self, segment: &Segment, named: Named) -> Node {
        let before = self.to_wait(segment.parent);
        match (segment.thread, named) {
            (Some(thread), Named::None) => self.with(before, thread),
            (Some(thread), Named::LastOfUsers) if !self.is_link(thread) => self.nodes[before as usize].0,
            _ => before,
        }
    }

    /// A chain with a further link, unless the thread is none, or the last link again.
    fn with(&mut self, before: Node, thread: ThreadIndex) -> Node {
        let thread = self.evidence.recorded.graph().last_successor(thread);
        if !self.is_link(thread) || self.nodes[before as usize].1 == Some(thread) {
            return before;
        }
        *self.known.entry((before, thread)).or_insert_with(|| {
            self.nodes.push((before, Some(thread)));
            (self.nodes.len() - 1) as Node
        })
    }

    fn is_link(&mut self, thread: ThreadIndex) -> bool {
        let evidence = self.evidence;
        let is_link = || !evidence.is_asked(thread) && !evidence.thread(thread).kernel;
        *self.is_link.entry(thread).or_insert_with(is_link)
    }

    /// A chain's first and last links; `None` without any.
    fn links(&self, node: Node) -> Option<Chain> {
        let up = std::iter::successors(Some(node), |node| Some(self.nodes[*node as usize].0));
        let mut links: Vec<_> = up.map_while(|node| self.nodes[node as usize].1).collect();
        links.reverse();
        let more = links.len().saturating_sub(MAX_LINKS);
        if more > 0 {
            links.drain(1..=more);
        }
        (!links.is_empty()).then_some(Chain { links, more })
    }
}

#[cfg(test)]
mod tests {
    use wakepath_critical_path::{Cause, SegmentKind, Via};

    use super::*;
    use crate::testing::{FUTEX, FinishedStory, Story, call, disk};
    use crate::{Headline, LastWaits, headline::headline, rows};

    /// A thread, and its time while the threads before it waited for it, each for the next.
    struct Way<'a>(&'a [ThreadIndex], u64, SegmentKind);

    /// `app` (0) with these processes, and then the ways in turn.
    fn story(processes: &[&str], ways: &[Way<'_>]) -> FinishedStory {
        let mut story = Story::default();
        let app = story.thread(7, 1, b"app", 7);
        for (tid, name) in (20..).zip(processes) {
            let parent = if name.starts_with("kworker") { 2 } else { 7 };
            story.thread(tid, parent, name.as_bytes(), 0);
        }
        for Way(threads, ns, kind) in ways {
            let mut parent = None;
            let mut waiter = app;
            for thread in *threads {
                parent = Some(story.wait(*ns, waiter, parent, call(FUTEX, 3), Via::Wakeup, *thread));
                waiter = *thread;
            }
            let cause = if *kind == SegmentKind::BlockDevice { disk(false) } else { Cause::None };
            story.then(*ns, waiter, parent, *kind, cause);
        }
        story.finish()
    }

    fn found(story: &FinishedStory) -> Headline {
        let evidence = story.evidence();
        headline(&evidence, &rows(&evidence), LastWaits::default())
    }

    fn through(processes: &[&str], ways: &[Way<'_>]) -> Option<(Vec<u32>, usize)> {
        let chain = found(&story(processes, ways)).through?;
        Some((chain.links.iter().map(|link| link.0).collect(), chain.more))
    }

    const T: fn(u32) -> ThreadIndex = ThreadIndex;
    const SLEEPS: SegmentKind = SegmentKind::Timer;

    #[test]
    fn the_links_are_the_threads_before_the_last_which_the_sentence_names() {
        let names = ["mon.sh", "sleep"];
        assert_eq!(through(&names, &[Way(&[T(1), T(2)], 10, SLEEPS)]), Some((vec![1], 0)));
        assert_eq!(through(&names, &[Way(&[T(2)], 10, SLEEPS)]), None, "a direct wait");
        assert_eq!(through(&names, &[Way(&[], 10, SLEEPS)]), None, "no wait for another thread");
    }

    #[test]
    fn the_first_and_the_last_two_of_many_links_are_kept() {
        let names = ["a", "b", "c", "d", "e", "last"];
        let chain = |count: u32| {
            let threads: Vec<_> = (1..=count).chain([6]).map(T).collect();
            through(&names, &[Way(&threads, 10, SLEEPS)])
        };
        assert_eq!(chain(3), Some((vec![1, 2, 3], 0)));
        assert_eq!(chain(4), Some((vec![1, 3, 4], 1)));
        assert_eq!(chain(5), Some((vec![1, 4, 5], 2)));
    }

    #[test]
    fn the_chain_has_at_least_half_of_the_parts_time_or_there_is_none() {
        let names = ["a", "b", "last"];
        let ways = |one, other, direct, own| {
            let ways = [
                Way(&[T(1), T(3)], one, SLEEPS),
                Way(&[T(2), T(3)], other, SLEEPS),
                Way(&[T(3)], direct, SLEEPS),
                // Neither the thread's own sleep nor another row counts.
                Way(&[], own, SLEEPS),
                Way(&[T(1), T(2)], 9, SegmentKind::Running),
            ];
            through(&names, &ways)
        };
        assert_eq!(ways(50, 30, 20, 40), Some((vec![1], 0)));
        assert_eq!(ways(49, 31, 20, 40), None);
        assert_eq!(ways(30, 50, 20, 40), Some((vec![2], 0)));
        assert_eq!(ways(20, 20, 60, 40), None, "most of it was waited for directly");
        let twice =
            [Way(&[T(1), T(3)], 30, SLEEPS), Way(&[T(2), T(3)], 40, SLEEPS), Way(&[T(1), T(3)], 30, SLEEPS)];
        assert_eq!(through(&names, &twice), Some((vec![1], 0)), "all its times are added");
    }

    #[test]
    fn where_no_thread_is_named_the_last_is_a_link_and_kernel_threads_are_none() {
        let disk = SegmentKind::BlockDevice;
        let names = ["a", "b", "kworker/0:1"];
        assert_eq!(through(&names, &[Way(&[T(1), T(2)], 10, disk)]), Some((vec![1, 2], 0)));
        assert_eq!(through(&names, &[Way(&[T(1), T(3)], 10, disk)]), Some((vec![1], 0)));
        assert_eq!(through(&names, &[Way(&[T(3)], 10, disk)]), None);
    }

    #[test]
    fn before_another_process_which_a_row_names_stand_its_waiters() {
        // Other processes than the window's own: their time is grouped by process.
        let chain = |kernel: bool| {
            let mut story = Story::default();
            let app = story.thread(7, 1, b"app", 7);
            let [proxy, db] =
                [(20, "proxy"), (21, "db")].map(|(tid, name)| story.thread(tid, 1, name.as_bytes(), 0));
            let worker = story.thread(80, 2, b"kworker/0:1", 0);
            let outer = story.wait(10, app, None, call(FUTEX, 3), Via::Packet, proxy);
            let inner = story.wait(10, proxy, Some(outer), call(FUTEX, 3), Via::Packet, db);
            if kernel {
                let last = story.wait(10, db, Some(inner), call(FUTEX, 3), Via::Wakeup, worker);
                story.then(10, worker, Some(last), SegmentKind::Running, Cause::None);
            } else {
                story.then(10, db, Some(inner), SegmentKind::Running, Cause::None);
            }
            found(&story.finish()).through.map(|chain| chain.links)
        };
        assert_eq!([chain(false), chain(true)], [Some(vec![T(1)]), Some(vec![T(1)])]);
    }

    #[test]
    fn a_thread_twice_in_a_row_and_the_asked_thread_are_no_links() {
        let names = ["a", "b", "last"];
        let again = [Way(&[T(1), T(1), T(0), T(2), T(3)], 10, SLEEPS)];
        assert_eq!(through(&names, &again), Some((vec![1, 2], 0)));
    }
}
