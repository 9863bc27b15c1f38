//! Builds cause trees, path by path.

use std::collections::BTreeMap;

use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt};
use indexmap::IndexMap;
use wakepath_critical_path::{Responsible, Segment, SegmentKind, WaitId};
use wakepath_loaded::{CallKey, CallName, Site, Stack};
use wakepath_wait_graph::ThreadIndex;

use super::{CauseTree, Leaf, MAX_DEPTH, Node, Sum};
use crate::{Activity, Blamed, Code, Evidence, PerGroup, Sites, ThreadKey};

type LeafKey = (usize, Activity, Option<CallName>);

/// A tree under construction.
pub struct TreeBuilder {
    nodes: Vec<Node>,
    by_key: HashMap<(usize, Option<ThreadKey>, Option<CallName>), usize>,
    leaves: IndexMap<LeafKey, (Sum, Code), RandomState>,
}

/// The time of a path's leaves that are equal before their names are looked up.
#[derive(Default)]
struct RawLeaf {
    ns: u64,
    sites: Sites,
}

/// The key that the segments in a [`RawLeaf`] share: their node and thread, the rest in the path's form.
type RawKey = (usize, Option<ThreadIndex>, SegmentKind, Responsible, Option<CallKey>);

impl TreeBuilder {
    /// A tree with nothing but its root.
    pub fn new(root: Node) -> Self {
        Self { nodes: vec![root], by_key: HashMap::new(), leaves: IndexMap::default() }
    }

    /// Adds a path; `key` makes branches from its threads.
    pub fn add(&mut self, path: &Evidence<'_>, is_asked: bool, key: impl Fn(ThreadIndex) -> ThreadKey) {
        let mut places = Places::new(path, &key);
        for (_, wait) in path.waits() {
            let place = places.find(self, wait.parent, Some(wait.thread));
            places.of_wait.push(place);
            let call = path.recorded.wait_call_key(wait);
            places.calls.push(call.map(|call| path.spell(call)));
        }
        let mut raw: IndexMap<RawKey, RawLeaf, RandomState> = IndexMap::default();
        let mut own_ns = vec![0; self.nodes.len()];
        let mut waits: Vec<WaitsAbove> = Vec::new();
        let mut samples: BTreeMap<(usize, &Site), u64> = BTreeMap::new();
        let mut seen = path.sampled.iter().peekable();
        for (number, segment) in path.segments().enumerate() {
            let (node, _) = places.find(self, segment.parent, segment.thread);
            own_ns.resize(self.nodes.len(), 0);
            let ns = segment.to.since(segment.from);
            own_ns[node] += ns;
            let leaf = raw.entry(raw_key(path, node, segment));
            let index = leaf.index();
            let leaf = leaf.or_default();
            leaf.ns += ns;
            while let Some(((.., site), count)) = seen.next_if(|((of, ..), _)| *of == number) {
                *samples.entry((index, site)).or_default() += count;
            }
            if !is_asked {
                continue;
            }
            if path.stacks.segment_stack(number).is_some() && !segment.goes_on {
                *leaf.sites.entry(path.segment_site(number)).or_default() += 1;
            }
            waits.resize_with(self.nodes.len(), WaitsAbove::default);
            waits[node].enter(path, segment.parent);
        }
        self.add_leaves(path, is_asked, &raw, samples);
        for (node, waits) in self.nodes.iter_mut().zip(waits) {
            node.waits += waits.count;
            node.began.add_sites(path.stacks, &waits.began);
            node.ended.add_sites(path.stacks, &waits.ended);
        }
        // Children come after their parents: from the back, each adds itself to its parent.
        for node in (0..own_ns.len()).rev() {
            if own_ns[node] > 0 {
                self.nodes[node].total.add(own_ns[node], is_asked);
            }
            if let Some(parent) = self.nodes[node].parent {
                own_ns[parent] += own_ns[node];
            }
        }
    }

    /// Adds a path's leaves, now with names: leaves with equal names are merged.
    fn add_leaves(
        &mut self,
        path: &Evidence<'_>,
        is_asked: bool,
        raw: &IndexMap<RawKey, RawLeaf, RandomState>,
        samples: BTreeMap<(usize, &Site), u64>,
    ) {
        let by_name = !matches!(self.nodes[0].thread, Some(ThreadKey::One(_)));
        let mut sums: IndexMap<usize, u64, RandomState> = IndexMap::default();
        let mut numbers = Vec::with_capacity(raw.len());
        for (&(node, thread, kind, responsible, call), leaf) in raw {
            let activity = match responsible {
                Responsible::Competitor(other) if by_name => {
                    let blamed = Blamed::Threads(path.shared_name(&path.thread(other)));
                    Activity { kind, blamed }
                }
                _ => path.activity(kind, responsible, thread),
            };
            let call = call.map(|call| path.spell(call));
            let entry = self.leaves.entry((node, activity, call));
            numbers.push(entry.index());
            *sums.entry(entry.index()).or_default() += leaf.ns;
            entry.or_default().1.waited.add_sites(path.stacks, &leaf.sites);
        }
        for (leaf, ns) in sums {
            self.leaves[leaf].0.add(ns, is_asked);
        }
        for ((leaf, place), count) in samples.into_iter().filter(|_| is_asked) {
            self.leaves[numbers[leaf]].1.ran.add(place, count);
        }
    }

    /// The tree for all added paths.
    pub fn finish(mut self, calls: PerGroup<u64>) -> CauseTree {
        for ((node, activity, call), (total, code)) in self.leaves {
            self.nodes[node].leaves.push(Leaf { activity, call, total, code });
        }
        let difference = |total: &Sum| total.mean(calls).difference();
        let differences: Vec<f64> = self.nodes.iter().map(|node| difference(&node.total)).collect();
        for child in 1..self.nodes.len() {
            // A wait may be explained by other threads alone.
            let Node { total, parent, .. } = &self.nodes[child];
            if let Some(parent) = parent.filter(|_| total.calls != PerGroup::default()) {
                self.nodes[parent].children.push(child);
            }
        }
        for node in &mut self.nodes {
            node.children.sort_by(|&a, &b| differences[b].total_cmp(&differences[a]).then(a.cmp(&b)));
            node.leaves.sort_by(|a, b| {
                let key = |leaf: &Leaf| (leaf.activity.clone(), leaf.call.clone());
                difference(&b.total).total_cmp(&difference(&a.total)).then_with(|| key(a).cmp(&key(b)))
            });
        }
        CauseTree { nodes: self.nodes, calls }
    }
}

fn raw_key(path: &Evidence<'_>, node: usize, segment: &Segment) -> RawKey {
    let call = path.recorded.segment_call_key(segment);
    (node, segment.thread, segment.kind, Responsible::from(&segment.cause), call)
}

/// A path's waits above a node that led there.
#[derive(Default)]
struct WaitsAbove {
    /// The last wait, if any.
    last: Option<Option<WaitId>>,
    count: u64,
    began: Sites,
    ended: Sites,
}

impl WaitsAbove {
    /// A segment in the node explains this wait.
    fn enter(&mut self, path: &Evidence<'_>, wait: Option<WaitId>) {
        if self.last.replace(wait) == Some(wait) {
            return;
        }
        if wait.and_then(|wait| path.wait(wait)).is_some_and(|wait| wait.goes_on) {
            return;
        }
        self.count += 1;
        let Some(wait) = wait.filter(|_| !path.stacks.is_empty()) else { return };
        let site = |taken: Option<&Stack>| taken.and_then(|stack| stack.site);
        *self.began.entry(site(path.stacks.wait_stack(wait))).or_default() += 1;
        *self.ended.entry(site(path.stacks.waker_stack(wait))).or_default() += 1;
    }
}

/// A node, and its depth.
type NodePlace = (usize, u32);

/// A thread under the wait that it explains.
type Explainer = (Option<WaitId>, Option<ThreadIndex>);

/// The nodes for a path's threads.
struct Places<'a, F> {
    path: &'a Evidence<'a>,
    key: F,
    keys: HashMap<ThreadIndex, ThreadKey>,
    /// The node of each wait's thread, and its depth.
    of_wait: Vec<NodePlace>,
    /// Each wait's system call.
    calls: Vec<Option<CallName>>,
    /// The last answer: a wait's segments follow each other.
    last: Option<(Explainer, NodePlace)>,
}

impl<'a, F: Fn(ThreadIndex) -> ThreadKey> Places<'a, F> {
    fn new(path: &'a Evidence<'a>, key: F) -> Self {
        let waits = path.waits().len();
        let (of_wait, calls) = (Vec::with_capacity(waits), Vec::with_capacity(waits));
        Self { path, key, keys: HashMap::new(), of_wait, calls, last: None }
    }

    /// The node for `thread` under the wait `parent`, and its depth; a missing node is added.
    fn find(
        &mut self,
        tree: &mut TreeBuilder,
        parent: Option<WaitId>,
        thread: Option<ThreadIndex>,
    ) -> NodePlace {
        let wait = parent.map_or(0, |wait| wait.0 as usize);
        let Some((above, depth)) = parent.and_then(|_| self.of_wait.get(wait).copied()) else {
            return (0, 0);
        };
        if depth >= MAX_DEPTH {
            return (above, depth);
        }
        if let Some((_, place)) = self.last.filter(|(of, _)| *of == (parent, thread)) {
            return place;
        }
        let key = thread.map(|thread| *self.keys.entry(thread).or_insert_with(|| (self.key)(thread)));
        let call = self.calls.get(wait).cloned().flatten();
        let next = tree.nodes.len();
        let node = *tree.by_key.entry((above, key, call.clone())).or_insert(next);
        if node == next {
            let via = parent.and_then(|wait| self.path.wait(wait)).map(|wait| wait.via);
            tree.nodes.push(Node { parent: Some(above), thread: key, call, via, ..Node::default() });
        }
        self.last = Some(((parent, thread), (node, depth + 1)));
        (node, depth + 1)
    }
}
