//! The cause trees of many calls merged into one: who waited for whom, a call, beside the usual ones.
//!
//! Branches are equal where they read the same: a thread's name, the system call of the wait above it, what
//! its own time went to. Numbers of threads differ from call to call and are left out. The root is whoever
//! made the call. Built as [`crate::cause_tree`] is, in one pass over each call's waits and segments.

use std::collections::HashMap;

use wakepath_critical_path::{Cause, Responsible, Segment, SegmentKind, WaitId};
use wakepath_engine::{Group, PathAnswer, Taken, ThreadInfo};
use wakepath_wait_graph::ThreadIndex;

use crate::calls::Code;
use crate::cause_tree::MAX_DEPTH;
use crate::places::Tally;
use crate::rows::{limit, worker_family};
use crate::wording;

/// The tree; the root is its first node.
#[derive(Debug)]
pub struct MergedTree {
    /// All nodes, parents before their children.
    pub nodes: Vec<MergedNode>,
    /// How many calls it was made of.
    pub calls: Both<u64>,
}

/// The same of the calls that were asked about, and of the usual ones.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Both<T> {
    pub asked: T,
    pub usual: T,
}

/// Threads of one name, as seen from the waits above that they explain.
#[derive(Debug)]
pub struct MergedNode {
    /// Whose wait it explains; `None` of the root.
    pub parent: Option<usize>,
    /// Their name; of the root none: calls are made by threads of many names.
    pub who: String,
    /// The system call of the waits above.
    pub call: Option<String>,
    /// How these were ended.
    pub via: &'static str,
    /// Where in the code they began, and were ended, in the calls that were asked about.
    pub began: Tally,
    pub ended: Tally,
    /// Their own time and that of all below.
    pub total: Sum,
    /// What their own time went to, the largest difference first.
    pub leaves: Vec<MergedLeaf>,
    /// For whom they waited: indices into [`MergedTree::nodes`], the largest difference first.
    pub children: Vec<usize>,
}

/// A part of threads' own time.
#[derive(Debug)]
pub struct MergedLeaf {
    /// What it went to.
    pub kind: SegmentKind,
    /// In words, with who or what is responsible.
    pub text: String,
    /// It names somebody who had the CPU: on a busy machine there are dozens.
    pub competitor: bool,
    /// The time.
    pub total: Sum,
    /// Where that was, in the calls that were asked about.
    pub code: Code,
}

/// A time summed up over calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    /// All of it, ns.
    pub ns: Both<u64>,
    /// In how many calls there is any.
    pub calls: Both<u64>,
    /// The last call that was counted, from 1 on over both groups.
    last: u64,
}

impl Sum {
    fn add(&mut self, ns: u64, number: u64, usual: bool) {
        let (sum, calls) = match usual {
            false => (&mut self.ns.asked, &mut self.calls.asked),
            true => (&mut self.ns.usual, &mut self.calls.usual),
        };
        *sum += ns;
        *calls += u64::from(self.last != number);
        self.last = number;
    }

    /// ns a call.
    pub fn mean(&self, calls: Both<u64>) -> Both<f64> {
        let mean = |ns: u64, calls: u64| ns as f64 / calls.max(1) as f64;
        Both { asked: mean(self.ns.asked, calls.asked), usual: mean(self.ns.usual, calls.usual) }
    }

    /// By how much the calls that were asked about have more of it than the usual ones, ns a call.
    pub fn more(&self, calls: Both<u64>) -> f64 {
        let mean = self.mean(calls);
        mean.asked - mean.usual
    }
}

/// Merges the trees of both groups.
pub fn merged_tree(asked: &Group<'_>, usual: Option<&Group<'_>>) -> MergedTree {
    let mut growing = Growing { nodes: vec![node(None, String::new(), None, "")], ..Growing::default() };
    let groups = [(Some(asked), false), (usual, true)];
    let answers = groups.into_iter().flat_map(|(group, usual)| {
        group.into_iter().flat_map(move |group| group.paths.iter().map(move |path| (path, usual)))
    });
    for (number, (answer, usual)) in answers.enumerate() {
        growing.add(answer, number as u64 + 1, usual);
    }
    let calls =
        Both { asked: asked.paths.len() as u64, usual: usual.map_or(0, |group| group.paths.len() as u64) };
    MergedTree { nodes: growing.grown(calls), calls }
}

fn node(parent: Option<usize>, who: String, call: Option<String>, via: &'static str) -> MergedNode {
    MergedNode {
        parent,
        who,
        call,
        via,
        began: Tally::default(),
        ended: Tally::default(),
        total: Sum::default(),
        leaves: Vec::new(),
        children: Vec::new(),
    }
}

#[derive(Default)]
struct Growing {
    nodes: Vec<MergedNode>,
    by_key: HashMap<(usize, String, Option<String>), usize>,
    leaves: HashMap<(usize, SegmentKind, String), LeafSum>,
}

#[derive(Default)]
struct LeafSum {
    total: Sum,
    competitor: bool,
    code: Code,
}

impl Growing {
    fn add(&mut self, answer: &PathAnswer<'_>, number: u64, usual: bool) {
        // The node of each wait's thread, and the node's depth; and the wait's call.
        let mut places: Vec<(usize, u32)> = Vec::with_capacity(answer.path.waits.len());
        let mut calls: Vec<Option<String>> = Vec::with_capacity(answer.path.waits.len());
        for wait in &answer.path.waits {
            let place = self.place(answer, &places, &calls, wait.parent, Some(wait.thread));
            places.push(place);
            calls.push(answer.wait_call(wait).as_ref().map(wording::call));
        }
        let stacks = &answer.stacks;
        let site = |taken: Option<Taken>| taken.and_then(|taken| stacks.site_of(taken));
        let mut last_wait = HashMap::new();
        let mut samples = answer.sampled_segments.iter().peekable();
        for (index, segment) in answer.path.segments.iter().enumerate() {
            let (mut node, _) = self.place(answer, &places, &calls, segment.parent, segment.thread);
            let ns = segment.to.since(segment.from);
            let text = leaf(answer, segment);
            let sum = self.leaves.entry((node, segment.kind, text)).or_default();
            sum.total.add(ns, number, usual);
            sum.competitor = matches!(segment.cause, Cause::Competitor(_));
            while let Some((_, place)) = samples.next_if(|&(of, _)| of == index) {
                if !usual {
                    sum.code.ran.sample(place, 1);
                }
            }
            if !usual && !stacks.is_empty() {
                if let Some(taken) = stacks.of_segment(index) {
                    sum.code.waited.waits(stacks, stacks.site_of(taken), 1);
                }
                let wait = segment.parent;
                if let Some(wait) = wait.filter(|_| last_wait.insert(node, wait) != Some(wait)) {
                    let node = &mut self.nodes[node];
                    node.began.waits(stacks, site(stacks.of_wait(wait)), 1);
                    node.ended.waits(stacks, site(stacks.of_waker(wait)), 1);
                }
            }
            self.nodes[node].total.add(ns, number, usual);
            while let Some(parent) = self.nodes[node].parent {
                node = parent;
                self.nodes[node].total.add(ns, number, usual);
            }
        }
    }

    /// The node of `thread` under the wait `parent`, made if there is none.
    fn place(
        &mut self,
        answer: &PathAnswer<'_>,
        places: &[(usize, u32)],
        calls: &[Option<String>],
        parent: Option<WaitId>,
        thread: Option<ThreadIndex>,
    ) -> (usize, u32) {
        let wait = parent.map_or(0, |wait| wait.0 as usize);
        let Some((above, depth)) = parent.and_then(|_| places.get(wait).copied()) else { return (0, 0) };
        if depth >= MAX_DEPTH {
            return (above, depth);
        }
        let who =
            thread.map_or_else(|| String::from("in flight"), |thread| name(answer, &answer.thread(thread)));
        let call = calls.get(wait).cloned().flatten();
        let next = self.nodes.len();
        let found = *self.by_key.entry((above, who.clone(), call.clone())).or_insert(next);
        if found == next {
            let via = answer.path.waits.get(wait).and_then(|wait| wording::via_word(wait.via));
            self.nodes.push(node(Some(above), who, call, via.unwrap_or("")));
        }
        (found, depth + 1)
    }

    fn grown(mut self, calls: Both<u64>) -> Vec<MergedNode> {
        for ((node, kind, text), LeafSum { total, competitor, code }) in self.leaves {
            self.nodes[node].leaves.push(MergedLeaf { kind, text, competitor, total, code });
        }
        let more: Vec<f64> = self.nodes.iter().map(|node| node.total.more(calls)).collect();
        for child in 1..self.nodes.len() {
            // A wait may be explained by others alone.
            if let Some(parent) = self.nodes[child].parent.filter(|_| self.nodes[child].total.last > 0) {
                self.nodes[parent].children.push(child);
            }
        }
        for node in &mut self.nodes {
            node.children.sort_by(|&a, &b| more[b].total_cmp(&more[a]).then(a.cmp(&b)));
            let by_difference =
                |a: &MergedLeaf, b: &MergedLeaf| b.total.more(calls).total_cmp(&a.total.more(calls));
            node.leaves.sort_by(|a, b| by_difference(a, b).then_with(|| a.text.cmp(&b.text)));
        }
        self.nodes
    }
}

/// A thread without its number: `postgres`, `kernel thread kworker`, `postgres on db1`.
fn name(answer: &PathAnswer<'_>, who: &ThreadInfo) -> String {
    let name = match who.kernel {
        true => format!("kernel thread {}", wording::comm(worker_family(who.comm))),
        false if who.comm.bytes().is_empty() => String::from("a thread without a name"),
        false => wording::comm(who.comm),
    };
    name + &wording::elsewhere(answer.recorded, who)
}

/// What a segment's time went to: `waiting for a CPU that stress had`, `waiting for disk sda, in fdatasync`.
fn leaf(answer: &PathAnswer<'_>, segment: &Segment) -> String {
    let responsible = Responsible::from(&segment.cause);
    let mut text = match (segment.kind, responsible) {
        (SegmentKind::Runnable, Responsible::Competitor(other)) => {
            format!("waiting for a CPU that {} had", name(answer, &answer.thread(other)))
        }
        (SegmentKind::Throttled, _) => {
            let limit = segment.thread.and_then(|thread| limit(answer, &answer.thread(thread)));
            let of = limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
            format!("{}: CPU limit{of}", wording::kind_phrase(segment.kind))
        }
        (kind, responsible) => wording::doing(answer, kind, responsible),
    };
    if let Some(call) = answer.segment_call(segment).as_ref().map(wording::call) {
        text += &format!(", in {call}");
    }
    text
}
