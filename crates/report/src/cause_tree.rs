//! The cause tree: who waited for whom, with equal branches merged.
//!
//! A node is a thread as seen from the wait above it; the root is the window's own thread. Under a
//! node hang the other threads that explain its waits, and leaves that say what its own time went to.
//! Built in one pass over waits and segments, without recursion: a chain of a million waits is a
//! tree of [`MAX_DEPTH`] levels whose lowest nodes hold the rest.

use std::cmp::Ordering;
use std::collections::HashMap;

use wakepath_critical_path::{Responsible, SegmentKind, WaitId};
use wakepath_engine::{PathAnswer, Taken};
use wakepath_wait_graph::ThreadIndex;

use crate::places::{Sites, sites};
use crate::wording;

/// Waits under more waits than this are put together with the one at this depth.
pub const MAX_DEPTH: u32 = 24;

/// So many of those who had the CPU that a thread waited for are told by name. On a busy machine there
/// are dozens, each for a moment, and they bury what the thread waited for besides.
const COMPETITORS: usize = 2;

/// The tree; the root is its first node.
#[derive(Debug, Clone)]
pub struct CauseTree {
    /// All nodes, parents before their children.
    pub nodes: Vec<Node>,
}

/// A thread, as seen from the waits above that it explains.
#[derive(Debug, Clone)]
pub struct Node {
    /// Who; `None` for time in flight between hosts.
    pub thread: Option<ThreadIndex>,
    /// The system call of the wait above that led here.
    pub call: Option<String>,
    /// How the waits above were ended.
    pub link: &'static str,
    /// How many waits above led here.
    pub waits: u64,
    /// Where in the code these waits began.
    pub began: Sites,
    /// And where this thread was when it ended them.
    pub ended: Sites,
    /// Its own time and that of all below, ns.
    pub total_ns: u64,
    /// What its own time went to.
    pub leaves: Vec<Leaf>,
    /// Whom it waited for: indices into [`CauseTree::nodes`], the largest first.
    pub children: Vec<usize>,
}

/// A part of a thread's own time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// What it went to.
    pub kind: SegmentKind,
    /// Who or what is responsible, and in which system call.
    pub text: String,
    /// How long, ns.
    pub total_ns: u64,
}

type NodeKey = (usize, Option<ThreadIndex>, Option<String>);
type LeafKey = (usize, SegmentKind, Responsible, Option<String>);

/// What a leaf sums up.
#[derive(Default)]
struct LeafSum {
    ns: u64,
    sites: Sites,
}

struct Growing<'a> {
    answer: &'a PathAnswer<'a>,
    nodes: Vec<Node>,
    by_key: HashMap<NodeKey, usize>,
    leaves: HashMap<LeafKey, LeafSum>,
    /// The node of each wait's thread, and the node's depth.
    of_wait: Vec<(usize, u32)>,
    calls: Vec<Option<String>>,
    parents: Vec<usize>,
}

/// Builds the tree of an answer.
pub fn cause_tree(answer: &PathAnswer) -> CauseTree {
    let root = Node {
        thread: Some(answer.path.window.thread),
        call: None,
        link: "",
        waits: 0,
        began: Sites::new(),
        ended: Sites::new(),
        total_ns: 0,
        leaves: Vec::new(),
        children: Vec::new(),
    };
    let mut growing = Growing {
        answer,
        nodes: vec![root],
        by_key: HashMap::new(),
        leaves: HashMap::new(),
        of_wait: Vec::with_capacity(answer.path.waits.len()),
        calls: Vec::with_capacity(answer.path.waits.len()),
        parents: vec![0],
    };
    for wait in &answer.path.waits {
        let place = growing.node(wait.parent, Some(wait.thread));
        growing.of_wait.push(place);
        growing.calls.push(answer.wait_call(wait).as_ref().map(wording::call));
    }
    let mut last_wait = HashMap::new();
    let stacks = &answer.stacks;
    let site = |taken: Option<Taken>| taken.and_then(|taken| stacks.site_of(taken));
    for (number, segment) in answer.path.segments.iter().enumerate() {
        let (node, _) = growing.node(segment.parent, segment.thread);
        let ns = segment.to.since(segment.from);
        let call = answer.segment_call(segment).as_ref().map(wording::call);
        let key = (node, segment.kind, Responsible::from(&segment.cause), call);
        let leaf = growing.leaves.entry(key).or_default();
        leaf.ns += ns;
        if let Some(taken) = stacks.of_segment(number) {
            *leaf.sites.entry(stacks.site_of(taken)).or_default() += 1;
        }
        growing.nodes[node].total_ns += ns;
        if last_wait.insert(node, segment.parent) != Some(segment.parent) {
            growing.nodes[node].waits += 1;
            if let Some(wait) = segment.parent {
                let node = &mut growing.nodes[node];
                *node.began.entry(site(stacks.of_wait(wait))).or_default() += 1;
                *node.ended.entry(site(stacks.of_waker(wait))).or_default() += 1;
            }
        }
    }
    growing.grown()
}

impl Growing<'_> {
    /// The node of `thread` under the wait `parent`, made if there is none.
    fn node(&mut self, parent: Option<WaitId>, thread: Option<ThreadIndex>) -> (usize, u32) {
        let Some((above, depth)) = parent.and_then(|wait| self.of_wait.get(wait.0 as usize).copied()) else {
            return (0, 0);
        };
        if depth >= MAX_DEPTH {
            return (above, depth);
        }
        let wait = parent.map_or(0, |wait| wait.0 as usize);
        let call = self.calls.get(wait).cloned().flatten();
        let link = self.answer.path.waits.get(wait).and_then(|wait| wording::via_word(wait.via));
        let next = self.nodes.len();
        let node = *self.by_key.entry((above, thread, call.clone())).or_insert(next);
        if node == next {
            self.parents.push(above);
            self.nodes.push(Node {
                thread,
                call,
                link: link.unwrap_or(""),
                waits: 0,
                began: Sites::new(),
                ended: Sites::new(),
                total_ns: 0,
                leaves: Vec::new(),
                children: Vec::new(),
            });
        }
        (node, depth + 1)
    }

    fn grown(mut self) -> CauseTree {
        // Children come after their parents: from the back, each adds itself to the one above.
        for node in (1..self.nodes.len()).rev() {
            let total = self.nodes[node].total_ns;
            let above = self.parents[node];
            self.nodes[above].total_ns += total;
            if total > 0 {
                self.nodes[above].children.push(node);
            }
        }
        let mut competitors: HashMap<usize, Vec<Leaf>> = HashMap::new();
        for ((node, kind, responsible, call), sum) in self.leaves {
            let mut text = leaf(self.answer, kind, responsible, call.as_deref());
            if let Some(sites) = sites(&self.answer.stacks, &sum.sites, "parts") {
                text += &format!(": {sites}");
            }
            let leaf = Leaf { kind, text, total_ns: sum.ns };
            match responsible {
                Responsible::Competitor(_) => competitors.entry(node).or_default().push(leaf),
                _ => self.nodes[node].leaves.push(leaf),
            }
        }
        for (node, mut competitors) in competitors {
            competitors.sort_by(largest_first);
            let rest = competitors.split_off(COMPETITORS.min(competitors.len()));
            self.nodes[node].leaves.append(&mut competitors);
            self.nodes[node].leaves.extend(others(rest));
        }
        let totals: Vec<u64> = self.nodes.iter().map(|node| node.total_ns).collect();
        for node in &mut self.nodes {
            node.children.sort_by_key(|&child| (std::cmp::Reverse(totals[child]), child));
            node.leaves.sort_by(largest_first);
        }
        CauseTree { nodes: self.nodes }
    }
}

fn largest_first(a: &Leaf, b: &Leaf) -> Ordering {
    b.total_ns.cmp(&a.total_ns).then_with(|| a.text.cmp(&b.text))
}

/// Those who had the CPU for less, put together; a single one stays as it is.
fn others(mut rest: Vec<Leaf>) -> Option<Leaf> {
    let (count, total_ns) = (rest.len(), rest.iter().map(|leaf| leaf.total_ns).sum());
    let last = rest.pop()?;
    let text = if count == 1 { last.text } else { format!("waiting for a CPU that {count} others had") };
    Some(Leaf { text, total_ns, ..last })
}

fn leaf(answer: &PathAnswer, kind: SegmentKind, responsible: Responsible, call: Option<&str>) -> String {
    let mut text = wording::doing(answer, kind, responsible);
    if let Some(call) = call {
        text += &format!(", in {call}");
    }
    text
}
