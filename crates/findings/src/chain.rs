//! The chain of threads between the window's own thread and the last one of a row, which the headline names.

use std::cmp::Reverse;
use std::collections::HashMap;

use wakepath_critical_path::{Segment, WaitId};
use wakepath_wait_graph::ThreadIndex;

use crate::rows::segments_in_row;
use crate::{Blames, Evidence, LargestPart, Row, RowKey};

/// The most links that are kept.
const MAX_LINKS: usize = 3;

/// Threads that waited for each other, the first one for which the window's own thread waited. Kernel threads are
/// left out: they work for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The first thread, and the last two.
    pub links: Vec<ThreadIndex>,
    /// The number of threads between the first and the last two.
    pub more: usize,
}

/// The chain behind at least half of a part's time; `None` if the window's own thread waited directly, if no chain has
/// so much, or if the sentence already says for whom the thread waited.
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
    (ns >= total - ns).then(|| chains.links(node)).flatten()
}

/// The thread at the end of a chain that the sentence names already.
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

/// The chains of a path's waits, as a tree: equal chains are one node, however many waits have them.
struct Chains<'a> {
    evidence: &'a Evidence<'a>,
    /// The chain without the last link, and that link.
    nodes: Vec<(Node, Option<ThreadIndex>)>,
    known: HashMap<(Node, ThreadIndex), Node>,
    /// For each wait, the chain up to its thread.
    of_waits: Vec<Node>,
    /// Whether a thread is a link.
    is_link: HashMap<ThreadIndex, bool>,
}

impl<'a> Chains<'a> {
    fn new(evidence: &'a Evidence<'a>) -> Self {
        let mut chains = Self {
            evidence,
            nodes: vec![(0, None)],
            known: HashMap::new(),
            of_waits: Vec::with_capacity(evidence.waits().len()),
            is_link: HashMap::new(),
        };
        // A wait's parent comes before it.
        for (_, wait) in evidence.waits() {
            let before = chains.of_wait(wait.parent);
            let node = chains.with(before, wait.thread);
            chains.of_waits.push(node);
        }
        chains
    }

    fn of_wait(&self, wait: Option<WaitId>) -> Node {
        wait.and_then(|wait| self.of_waits.get(wait.0 as usize)).copied().unwrap_or_default()
    }

    /// The chain to a segment's thread, without a link that is named.
    fn node(&mut self, segment: &Segment, named: Named) -> Node {
        let before = self.of_wait(segment.parent);
        match (segment.thread, named) {
            (Some(thread), Named::None) => self.with(before, thread),
            (Some(thread), Named::LastOfUsers) if !self.is_link(thread) => self.nodes[before as usize].0,
            _ => before,
        }
    }

    /// A chain with one more link, unless the thread is none or the same again.
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
