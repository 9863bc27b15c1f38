//! The cause tree: each thread's waits, and the threads that explain them, with equal branches merged; for a path,
//! or for many calls' paths.
//!
//! A node is a thread, seen from the waits above that it explains; the root is the window's own thread. Below a
//! node are the other threads that explain its waits, and leaves for its own time. Branches are equal if their
//! threads are the same on a single path, or have the same name in many calls: thread numbers differ between calls.
//!
//! A tree is built in one pass over each path's waits and segments, without recursion: a chain of a million waits
//! is a tree of [`MAX_DEPTH`] levels whose lowest nodes hold the rest.

mod build;

use wakepath_critical_path::Via;
use wakepath_loaded::CallName;

use crate::{Activity, Code, Evidence, PerGroup, Tally, ThreadKey};
use build::TreeBuilder;

/// Deeper waits are merged into the wait at this depth.
pub const MAX_DEPTH: u32 = 24;

/// A cause tree; the root is its first node.
#[derive(Debug, Clone)]
pub struct CauseTree {
    /// All nodes, parents before their children.
    pub nodes: Vec<Node>,
    /// The number of its paths.
    pub calls: PerGroup<u64>,
}

/// A thread, or threads with the same name, seen from the waits above that they explain.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The node above; `None` for the root.
    pub parent: Option<usize>,
    /// The thread; `None` for packets in flight, and for many calls' root: many threads made the calls.
    pub thread: Option<ThreadKey>,
    /// The system call of the waits above.
    pub call: Option<CallName>,
    /// The way in which the waits above ended.
    pub via: Option<Via>,
    /// The number of waits above that led here, in the selected calls.
    pub waits: u64,
    /// Functions in which these waits began.
    pub began: Tally,
    /// Functions in which the thread ended these waits.
    pub ended: Tally,
    /// Its own time plus all nodes below.
    pub total: Sum,
    /// Its own time by activity, largest difference first.
    pub leaves: Vec<Leaf>,
    /// The nodes below: indices into [`CauseTree::nodes`], largest difference first.
    pub children: Vec<usize>,
}

/// A part of a node's own time.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The activity.
    pub activity: Activity,
    /// The system call in which the thread was blocked.
    pub call: Option<CallName>,
    /// The time.
    pub total: Sum,
    /// Functions where this time was spent, in the selected calls.
    pub code: Code,
}

/// Time added up over paths.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    /// The total, ns.
    pub ns: PerGroup<u64>,
    /// The number of paths with any such time.
    pub calls: PerGroup<u64>,
}

impl Sum {
    /// The mean time, ns a call.
    pub fn mean(&self, calls: PerGroup<u64>) -> PerGroup<f64> {
        let mean = |ns: u64, calls: u64| ns as f64 / calls.max(1) as f64;
        PerGroup { asked: mean(self.ns.asked, calls.asked), usual: mean(self.ns.usual, calls.usual) }
    }

    /// Adds a path's time.
    fn add(&mut self, ns: u64, is_asked: bool) {
        *self.ns.of(is_asked) += ns;
        *self.calls.of(is_asked) += 1;
    }
}

/// The tree for a single path.
pub fn cause_tree(path: &Evidence<'_>) -> CauseTree {
    let root = Node { thread: Some(ThreadKey::One(path.path.window.thread)), ..Node::default() };
    let mut builder = TreeBuilder::new(root);
    builder.add(path, true, ThreadKey::One);
    builder.finish(PerGroup { asked: 1, usual: 0 })
}

/// The merged trees for both groups' calls.
pub fn merged_tree(calls: &PerGroup<Vec<Evidence<'_>>>) -> CauseTree {
    let mut builder = TreeBuilder::new(Node::default());
    for (group, is_asked) in [(&calls.asked, true), (&calls.usual, false)] {
        for call in group {
            builder.add(call, is_asked, |thread| ThreadKey::Named(call.shared_name(&call.thread(thread))));
        }
    }
    builder.finish(PerGroup { asked: calls.asked.len() as u64, usual: calls.usual.len() as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Story, call};
    use wakepath_critical_path::{Cause, SegmentKind};

    #[test]
    fn a_chain_of_many_waits_ends_in_a_deepest_level_and_loses_nothing() {
        let mut story = Story::default();
        let threads: Vec<_> = (0..200_000).map(|i| story.thread(100 + i, 1, b"link", 0)).collect();
        let mut parent = None;
        for pair in threads.windows(2) {
            parent = Some(story.wait(10, pair[0], parent, call(0, 3), Via::Wakeup, pair[1]));
        }
        story.then(10, threads[threads.len() - 1], parent, SegmentKind::Running, Cause::None);
        let story = story.finish();
        let tree = cause_tree(&story.evidence());
        assert_eq!(tree.nodes[0].total.ns.asked, 10);
        assert_eq!(tree.nodes.len() as u32, MAX_DEPTH + 1);
    }

    #[test]
    fn the_root_of_a_tree_has_the_whole_window() {
        let mut story = Story::default();
        let own = story.thread(7, 1, b"app", 7);
        let other = story.thread(8, 1, b"db", 8);
        story.then(3, own, None, SegmentKind::Running, Cause::None);
        for (ns, number) in [(4, 0), (6, 0), (5, 1)] {
            let wait = story.wait(ns, own, None, call(number, 3), Via::Packet, other);
            story.then(ns, other, Some(wait), SegmentKind::Running, Cause::None);
        }
        let story = story.finish();
        let tree = cause_tree(&story.evidence());
        let told: Vec<_> = tree
            .nodes
            .iter()
            .map(|node| {
                (node.parent, node.total.ns.asked, node.waits, node.call.as_ref().map(|call| call.number))
            })
            .collect();
        assert_eq!(told, [(None, 18, 1, None), (Some(0), 10, 2, Some(0)), (Some(0), 5, 1, Some(1))]);
        assert_eq!(tree.nodes[0].children, [1, 2]);
        assert_eq!(tree.nodes[0].leaves.len(), 1);
    }
}
